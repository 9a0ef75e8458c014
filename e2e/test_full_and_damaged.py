"""A store without room refuses writes and still deletes; a damaged one is refused with what was found and where."""

import os
import subprocess

import pytest
from botocore.exceptions import ClientError

from harness import clients, seeds
from harness.server import Server, koine


def test_a_full_store_refuses_writes_and_still_deletes(tmp_path):
    store = tmp_path / "store.koine"
    with open(store, "wb") as file:
        file.truncate(32 << 20)
    koine("format", store, "--size", "32MiB")
    with Server(store, "--size", "32MiB") as server:
        s3 = clients.s3(server.url)
        s3.create_bucket(Bucket="full")
        kept = []
        for number in range(200):
            try:
                s3.put_object(Bucket="full", Key=f"{number}", Body=seeds.blob(40, f"{number}", 1 << 20))
                kept.append(number)
            except ClientError as error:
                status = error.response["ResponseMetadata"]["HTTPStatusCode"]
                assert status in (503, 507), error
                break
        assert 10 < len(kept) < 40
        for number in kept:
            body = s3.get_object(Bucket="full", Key=f"{number}")["Body"].read()
            assert body == seeds.blob(40, f"{number}", 1 << 20)
        for number in kept:
            s3.delete_object(Bucket="full", Key=f"{number}")
        # The space comes back: the same again fits.
        for number in range(len(kept) - 4):
            s3.put_object(Bucket="full", Key=f"again {number}", Body=seeds.blob(41, f"{number}", 1 << 20))
        assert server.stop() == 0
    koine("check", store)


@pytest.fixture
def filled(tmp_path):
    """A store with some objects, closed."""
    store = tmp_path / "store.koine"
    koine("format", store, "--size", "64MiB")
    with Server(store, "--size", "64MiB") as server:
        s3 = clients.s3(server.url)
        s3.create_bucket(Bucket="data")
        for number in range(20):
            s3.put_object(Bucket="data", Key=f"{number}", Body=seeds.blob(42, f"{number}", 500_000))
        assert server.stop() == 0
    return store


def flip(store, offset, length=1):
    with open(store, "r+b") as file:
        file.seek(offset)
        old = file.read(length)
        file.seek(offset)
        file.write(bytes(byte ^ 0xFF for byte in old))


def test_both_superblocks_damaged_is_no_start(filled):
    flip(filled, 100, 16)
    flip(filled, 128 * 4096 + 100, 16)
    for command in ["serve", "check", "stat"]:
        done = koine(command, filled, check=False)
        assert done.returncode == 1, (command, done)
        assert "superblock" in done.stderr and str(filled) in done.stderr, done.stderr


def test_one_superblock_is_enough(filled):
    flip(filled, 100, 16)
    with Server(filled) as server:
        assert clients.s3(server.url).get_object(Bucket="data", Key="7")["Body"].read() == seeds.blob(42, "7", 500_000)


def test_a_damaged_object_is_an_error_and_never_wrong_bytes(filled):
    body = seeds.blob(42, "7", 500_000)
    place = filled.read_bytes().find(body[200_000:204_000])
    assert place > 0, "object data lies in the store as it is"
    flip(filled, place + 1000)
    done = koine("check", filled, check=False)
    assert done.returncode == 1
    assert str(place // 4096 * 4096) in done.stdout + done.stderr or "damaged" in done.stdout + done.stderr
    with Server(filled) as server:
        s3 = clients.s3(server.url)
        with pytest.raises(Exception):
            assert s3.get_object(Bucket="data", Key="7")["Body"].read() != body, "wrong bytes were handed out"
            raise AssertionError("a damaged object was read without an error")
        assert s3.get_object(Bucket="data", Key="8")["Body"].read() == seeds.blob(42, "8", 500_000)


def test_what_is_no_store_is_told(tmp_path):
    file = tmp_path / "random"
    file.write_bytes(os.urandom(1 << 20))
    for command in ["check", "stat", "serve"]:
        done = koine(command, file, check=False)
        assert done.returncode == 1 and "not a Koine store" in done.stderr, done
    done = koine("check", tmp_path / "nothing", check=False)
    assert done.returncode == 4 and "is not there" in done.stderr


def test_a_short_file_is_told(filled):
    os.truncate(filled, 10 << 20)
    done = koine("check", filled, check=False)
    assert done.returncode == 1
    assert str(64 << 20) in done.stderr + done.stdout or "short" in done.stderr + done.stdout


def loop_device(path):
    done = subprocess.run(["losetup", "--find", "--show", path], capture_output=True, text=True, check=False)
    return done.stdout.strip() if done.returncode == 0 else None


@pytest.fixture
def device(tmp_path):
    """A block device of 64 MiB (root and loop devices are needed)."""
    image = tmp_path / "image"
    with open(image, "wb") as file:
        file.truncate(64 << 20)
    name = loop_device(image) if os.geteuid() == 0 else None
    if name is None:
        pytest.skip("no loop device can be made here")
    yield name
    subprocess.run(["losetup", "--detach", name], check=True)


def test_a_block_device_is_formatted_by_format_only(device, tmp_path):
    done = koine("serve", device, "--s3", "127.0.0.1:0", check=False)
    assert done.returncode == 1 and "koine format" in done.stderr
    koine("format", device)
    with Server(device, "--credentials", tmp_path / "root.key", env={}, log=tmp_path / "log") as server:
        assert server.banner["credentials_file"] == str(tmp_path / "root.key")
        assert server.stop() == 0
    koine("check", device)
