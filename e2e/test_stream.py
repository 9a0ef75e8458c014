"""Streams: `koine export`, `send`, `receive` and `spaces` on stores that a server filled."""

import json
import subprocess

import pytest

from harness import clients, seeds
from harness.server import Server, clean_environment, koine, program
from harness.stores import contents_of

OBJECTS = {f"folder/{n:03}": 300 * n for n in range(50)} | {f"big/{n}": 900_000 + n for n in range(3)}


def body(key):
    return seeds.blob(80, key, OBJECTS[key])


def fill(store, keys):
    with Server(store) as server:
        s3 = clients.s3(server.url)
        if not s3.list_buckets()["Buckets"]:
            s3.create_bucket(Bucket="data")
        for key in keys:
            s3.put_object(Bucket="data", Key=key, Body=body(key))
        assert server.stop() == 0


@pytest.fixture
def store(tmp_path):
    path = tmp_path / "store.koine"
    koine("format", path, "--size", "64MiB")
    fill(path, OBJECTS)
    return path


def spaces(store):
    return [json.loads(line) for line in koine("--json", "spaces", "ls", store).stdout.splitlines()]


def test_an_exported_store_serves_the_same_objects(store, tmp_path):
    before = store.read_bytes()
    stream, copy = tmp_path / "all.stream", tmp_path / "copy.koine"
    koine("export", store, "--to", stream)
    assert store.read_bytes() == before
    koine("format", copy, "--size", "64MiB")
    told = json.loads(koine("--json", "receive", copy, "--from", stream).stdout)
    assert told["spaces"] == [space["space"] for space in spaces(store)]
    koine("check", copy)
    assert contents_of(copy) == {key: body(key) for key in OBJECTS}
    # What is there is not overwritten, and a damaged stream leaves nothing.
    assert koine("receive", copy, "--from", stream, check=False).returncode == 1
    damaged = bytearray(stream.read_bytes())
    damaged[len(damaged) // 2] ^= 1
    stream.write_bytes(damaged)
    other = tmp_path / "other.koine"
    koine("format", other, "--size", "64MiB")
    done = koine("receive", other, "--from", stream, check=False)
    assert done.returncode == 1 and "damaged" in done.stderr
    assert spaces(other) == []


def test_snapshots_are_sent_one_against_the_other(store, tmp_path):
    bucket = max((space["space"] for space in spaces(store)), key=int)
    first = json.loads(koine("--json", "spaces", "snapshot", store, bucket).stdout)["space"]
    fill(store, ["big/1", "folder/007"])
    second = json.loads(koine("--json", "spaces", "snapshot", store, bucket, "--as", int(first) + 5).stdout)["space"]
    assert second == str(int(first) + 5)
    copy = tmp_path / "copy.koine"
    koine("format", copy, "--size", "64MiB")
    stream = tmp_path / "second.stream"
    koine("send", store, second, "--from", first, "--to", stream)
    done = koine("receive", copy, "--from", stream, check=False)
    assert done.returncode == 1 and "receive that first" in done.stderr
    # Through a pipe.
    sender = subprocess.Popen([program(), "send", str(store), str(first)], stdout=subprocess.PIPE, env=clean_environment())
    koine("receive", copy, stdin=sender.stdout)
    assert sender.wait() == 0
    koine("receive", copy, "--from", stream)
    assert [space["space"] for space in spaces(copy)] == [first, second]
    assert stream.stat().st_size < 2_000_000 < sum(OBJECTS.values())
    koine("check", copy)
    koine("spaces", "drop", copy, first)
    assert [space["space"] for space in spaces(copy)] == [second]
    assert koine("send", store, 999, "--to", stream, check=False).returncode == 1


def test_a_bucket_is_sent_by_its_name_and_served_where_it_is_received(store, tmp_path):
    reach = ["--store", store]
    koine("snapshot", "create", "koine://data@monday", *reach)
    stream, copy = tmp_path / "data.stream", tmp_path / "copy.koine"
    before = store.read_bytes()
    koine("send", store, "data", "--to", stream)
    assert store.read_bytes() == before
    koine("format", copy, "--size", "64MiB")
    told = json.loads(koine("--json", "receive", copy, "--from", stream).stdout)
    assert (told["bucket"], told["snapshots"]) == ("data", ["monday"])
    # What the snapshot shares with the bucket is sent once, and is shared there.
    assert stream.stat().st_size < 1.2 * sum(OBJECTS.values())
    used = json.loads(koine("--json", "stat", copy, "--space").stdout)["space"]
    # Small values that wait for a checkpoint when a branch is made are written for each; nothing else is there twice.
    assert used["data"] < 1.5 * sum(OBJECTS.values()) and used["shared"] > 0.6 * used["data"], used
    assert {space["name"] for space in used["spaces"]} >= {"data", "data@monday"}
    assert contents_of(copy) == {key: body(key) for key in OBJECTS}
    assert "data@monday" in koine("spaces", "ls", copy).stdout
    done = koine("receive", copy, "--from", stream, check=False)
    assert done.returncode == 1 and "data" in done.stderr and "--as" in done.stderr, done
    koine("receive", copy, "--from", stream, "--as", "again")
    # What changed since goes to the bucket that has the older snapshot.
    fill(store, ["folder/001"])
    koine("snapshot", "create", "koine://data@tuesday", *reach)
    koine("send", store, "data@tuesday", "--from", "monday", "--to", stream)
    assert stream.stat().st_size < 300_000
    assert "tuesday" in koine("receive", copy, "--from", stream).stdout
    koine("ls", "koine://data@tuesday", "--store", copy)
    koine("check", copy)


def test_a_store_in_use_is_left_to_its_server(store, tmp_path):
    with Server(store) as server:
        for command in [["export", store, "--to", tmp_path / "x"], ["spaces", "ls", store], ["receive", store, "--from", store]]:
            done = koine(*command, check=False)
            assert done.returncode == 3 and str(server.pid) in done.stderr, done
        assert not (tmp_path / "x").exists()
