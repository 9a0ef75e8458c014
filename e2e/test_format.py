"""`koine format`: what it makes, and what it will not touch without --force."""

import json

import pytest

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
