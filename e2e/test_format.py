"""`koine format`: what it makes, and what it will not touch without --force."""

import json

import pytest

from harness import clients
from harness.server import Server, koine


def test_a_missing_file_is_made(tmp_path):
    store = tmp_path / "store.koine"
    koine("format", store, "--size", "32MiB")
    assert store.stat().st_size == 32 << 20
    koine("check", store)


def test_zeros_at_both_ends_are_free(tmp_path):
    store = tmp_path / "store.koine"
    with open(store, "wb") as file:
        file.truncate(64 << 20)
    koine("format", store)
    koine("check", store)
    assert store.stat().st_size == 64 << 20


@pytest.mark.parametrize("offset", [0, (1 << 20) - 1, (64 << 20) - 1])
def test_content_wants_force(tmp_path, offset):
    store = tmp_path / "store.koine"
    with open(store, "wb") as file:
        file.truncate(64 << 20)
        file.seek(offset)
        file.write(b"\x01")
    before = store.read_bytes()
    done = koine("format", store, check=False)
    assert done.returncode == 1 and "--force" in done.stderr
    assert store.read_bytes() == before
    koine("format", store, "--force")
    koine("check", store)


def test_a_store_is_content_too(tmp_path):
    store = tmp_path / "store.koine"
    koine("format", store, "--size", "32MiB")
    done = koine("format", store, "--size", "32MiB", check=False)
    assert done.returncode == 1 and "a Koine store" in done.stderr and "--force" in done.stderr


def test_sizes_that_cannot_be_are_refused(tmp_path):
    for size in ["0", "4096", "lots", "100KiB"]:
        done = koine("format", tmp_path / "store.koine", "--size", size, check=False)
        assert done.returncode == 2, (size, done)
    assert not (tmp_path / "store.koine").exists()


def test_json_tells_what_was_made(tmp_path):
    made = json.loads(koine("--json", "format", tmp_path / "s.koine", "--size", "32MiB").stdout)
    assert made["store"] == str(tmp_path / "s.koine") and made["size"] == 32 << 20


def test_a_formatted_file_is_served(tmp_path):
    store = tmp_path / "store.koine"
    koine("format", store, "--size", "32MiB")
    with Server(store) as server:
        assert server.stop() == 0


def test_a_block_size_is_fixed_when_the_store_is_made(tmp_path):
    store = tmp_path / "store.koine"
    made = json.loads(koine("--json", "format", store, "--size", "32MiB", "--block-size", "64KiB").stdout)
    assert made["block_size"] == 64 << 10
    assert json.loads(koine("--json", "stat", store).stdout)["block_size"] == 64 << 10
    assert "block size   64 KiB" in koine("stat", store).stdout
    with Server(store, "--block-size", "64KiB") as server:
        client = clients.s3(server.url)
        client.create_bucket(Bucket="first")
        client.put_object(Bucket="first", Key="large", Body=b"x" * 300_000)
        client.put_object(Bucket="first", Key="small", Body=b"y" * 3_000)
        assert server.stop() == 0
    koine("check", store)
    # An object of 300,000 bytes begins on a block; the rest of its last one is free, and not whole.
    space = json.loads(koine("--json", "stat", store, "--space").stdout)["space"]
    free = sum(runs["bytes"] for runs in space["free_runs"])
    assert 0 < space["free_in_whole_blocks"] < free and space["free_in_whole_blocks"] % (64 << 10) == 0
    assert "in whole blocks" in koine("stat", store, "--space").stdout
    done = koine("serve", store, "--block-size", "128KiB", check=False)
    assert done.returncode == 2 and "blocks of 65536 bytes" in done.stderr
    assert json.loads(koine("--json", "stat", store).stdout)["block_size"] == 64 << 10


def test_a_first_start_takes_a_block_size(tmp_path):
    store = tmp_path / "store.koine"
    with Server(store, "--block-size", "1MiB") as server:
        assert server.stop() == 0
    assert json.loads(koine("--json", "stat", store).stdout)["block_size"] == 1 << 20


def test_block_sizes_that_cannot_be_are_refused(tmp_path):
    for size in ["0", "512", "2KiB", "5000", "96KiB", "2MiB", "lots"]:
        done = koine("format", tmp_path / "store.koine", "--block-size", size, check=False)
        assert done.returncode == 2 and ("4 KiB to 1 MiB" in done.stderr or size == "lots"), (size, done)
    assert not (tmp_path / "store.koine").exists()
    done = koine("serve", "memory:", "--block-size", "8KiB", check=False)
    assert done.returncode == 2 and "leave --block-size out" in done.stderr
