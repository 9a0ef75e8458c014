"""`koine defrag` and `koine trim` on stores that a server or the C library's objects filled, and `koine serve --discard`."""

import json
import os
import time

import pytest

from harness import clients, seeds
from harness.server import Server, koine
from harness.stores import contents_of

MIB = 1 << 20
OBJECTS = {f"big/{n}": 3 * MIB + n for n in range(8)}


def body(key):
    return seeds.blob(90, key, OBJECTS[key])


def allocated(path):
    return os.stat(path).st_blocks * 512


@pytest.fixture
def store(tmp_path):
    path = tmp_path / "store.koine"
    koine("format", path, "--size", "64MiB")
    with Server(path) as server:
        s3 = clients.s3(server.url)
        s3.create_bucket(Bucket="data")
        for key in OBJECTS:
            s3.put_object(Bucket="data", Key=key, Body=body(key))
        assert server.stop() == 0
    return path


def test_a_store_in_order_is_left_as_it_is(store):
    told = json.loads(koine("--json", "defrag", store, "--rate", "100MiB").stdout)
    assert told["windows"] == 0 and told["values_by_pieces_before"] == told["values_by_pieces_after"]
    koine("check", store)
    assert contents_of(store) == {key: body(key) for key in OBJECTS}


def test_trim_gives_free_space_back(store):
    before = allocated(store)
    told = json.loads(koine("--json", "trim", store).stdout)
    assert told["bytes"] > 10 * MIB
    assert allocated(store) <= before - 10 * MIB
    koine("check", store)
    assert contents_of(store) == {key: body(key) for key in OBJECTS}


def test_a_server_gives_back_what_is_deleted(store):
    koine("trim", store)
    before = allocated(store)
    with Server(store, "--discard") as server:
        s3 = clients.s3(server.url)
        for n in range(6):
            s3.delete_object(Bucket="data", Key=f"big/{n}")
        end = time.monotonic() + 60
        # Freed space is given back once two checkpoints hold the deletion: others bring them about.
        while allocated(store) > before - 10 * MIB:
            assert time.monotonic() < end, (before, allocated(store))
            s3.put_object(Bucket="data", Key="tick", Body=b"x" * 200_000)
            time.sleep(0.05)
        assert s3.get_object(Bucket="data", Key="big/7")["Body"].read() == body("big/7")
        assert server.stop() == 0
    koine("check", store)


def test_a_store_in_use_is_left_to_its_server(store):
    with Server(store) as server:
        for command in ["defrag", "trim"]:
            done = koine(command, store, check=False)
            assert done.returncode == 3 and str(server.pid) in done.stderr, done
