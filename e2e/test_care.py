"""Care of a store: `koine scrub`, `koine salvage`, `koine stat --space` and the background scrub of a server."""

import json
import os
import subprocess
import time

import pytest
from botocore.exceptions import ClientError

from harness import clients, seeds
from harness.server import Server, koine

BLOCK = 4096
OBJECTS = {f"folder/{n:03}": 200 * n for n in range(60)} | {f"big/{n}": 700_000 + n for n in range(4)}


def body(key):
    return seeds.blob(60, key, OBJECTS[key])


@pytest.fixture(scope="module")
def made(tmp_path_factory):
    """A store with two buckets, closed."""
    store = tmp_path_factory.mktemp("care") / "made.koine"
    koine("format", store, "--size", "64MiB")
    with Server(store) as server:
        s3 = clients.s3(server.url)
        for bucket in ["data", "empty"]:
            s3.create_bucket(Bucket=bucket)
        for key in OBJECTS:
            s3.put_object(Bucket="data", Key=key, Body=body(key))
        assert server.stop() == 0
    return store.read_bytes()


@pytest.fixture
def store(made, tmp_path):
    path = tmp_path / "store.koine"
    path.write_bytes(made)
    return path


def damage(store, offset, length=BLOCK):
    with open(store, "r+b") as file:
        file.seek(offset)
        old = file.read(length)
        file.seek(offset)
        file.write(bytes(byte ^ 0x5A for byte in old))


def place_of(store, wanted):
    """Where some bytes lie on the medium."""
    at = store.read_bytes().find(wanted)
    assert at > 0
    return at // BLOCK * BLOCK


def objects_of(store):
    found = {}
    with Server(store) as server:
        s3 = clients.s3(server.url)
        for bucket in [b["Name"] for b in s3.list_buckets()["Buckets"]]:
            for entry in s3.list_objects_v2(Bucket=bucket).get("Contents", []):
                try:
                    found[bucket, entry["Key"]] = s3.get_object(Bucket=bucket, Key=entry["Key"])["Body"].read()
                except ClientError as error:
                    found[bucket, entry["Key"]] = error.response["ResponseMetadata"]["HTTPStatusCode"]
        assert server.stop() == 0
    return found


def test_scrub_of_a_sound_store(store):
    before = store.read_bytes()
    done = koine("scrub", store)
    assert "nothing is damaged" in done.stdout
    told = json.loads(koine("--json", "scrub", store).stdout)
    assert told["sound"] and told["bytes"] > sum(OBJECTS.values()) * 9 // 10 and told["findings"] == []
    assert store.read_bytes() == before


def test_scrub_tells_what_is_damaged_and_whose_it_is(store):
    place = place_of(store, body("big/2")[100_000:100_100])
    damage(store, place)
    done = koine("scrub", store, check=False)
    assert done.returncode == 1 and "damaged: koine://data/big/2: space" in done.stdout, done
    assert "koine salvage" in done.stderr
    # A check that finds damage names the object too.
    before = store.read_bytes()
    checked = koine("check", store, check=False)
    assert checked.returncode == 1 and "koine://data/big/2" in checked.stdout, checked
    damaged = json.loads(koine("--json", "check", store, check=False).stdout.splitlines()[0])["damaged"]
    assert [(finding["bucket"], finding["object"]) for finding in damaged] == [("data", "big/2")]
    assert store.read_bytes() == before
    told = json.loads(koine("--json", "scrub", store, check=False).stdout.splitlines()[0])
    assert not told["sound"] and len(told["findings"]) == 1
    # The chunk that holds the damaged block is named, and the key that holds the object's bytes.
    message = told["findings"][0]["message"]
    chunk = int(message.split("byte ")[1].split(" ")[0])
    assert chunk <= place < chunk + 32768, message
    assert "key b\"d" in told["findings"][0]["concerns"]
    assert (told["findings"][0]["bucket"], told["findings"][0]["object"]) == ("data", "big/2")


def test_scrub_keeps_its_rate_and_goes_on_where_it_was(store, tmp_path):
    kept = tmp_path / "position"
    # Stopped by the timeout long before its end: at this rate it waits for seconds after every step.
    with pytest.raises(subprocess.TimeoutExpired):
        koine("scrub", store, "--rate", "64KiB", "--resume", kept, timeout=3)
    assert kept.exists()
    rest = json.loads(koine("--json", "scrub", store, "--resume", kept).stdout)
    whole = json.loads(koine("--json", "scrub", store).stdout)
    assert rest["sound"] and rest["bytes"] <= whole["bytes"]
    assert not kept.exists()


def test_looking_changes_no_byte_of_a_store_that_was_not_closed(store):
    with Server(store) as server:
        s3 = clients.s3(server.url)
        s3.put_object(Bucket="data", Key="last", Body=b"not in a checkpoint")
        server.kill()
    before = store.read_bytes()
    reach = ["--store", store]
    assert "last" in koine("ls", "koine://data", *reach).stdout
    for command in [["ls", "koine://", *reach], ["info", "koine://data/last", *reach], ["snapshot", "ls", "koine://data", *reach],
                    ["ls", "--versions", "koine://data", *reach], ["spaces", "ls", store], ["stat", store, "--space"],
                    ["kv", "scan", store, "--space", "16"], ["scrub", store], ["check", store]]:
        koine(*command)
        assert store.read_bytes() == before, command


def test_a_store_without_buckets_is_listed_and_stays_without(tmp_path):
    store = tmp_path / "new.koine"
    koine("format", store, "--size", "32MiB")
    before = store.read_bytes()
    assert koine("ls", "koine://", "--store", store).stdout == ""
    assert koine("ls", "koine://data", "--store", store, check=False).returncode != 0
    assert store.read_bytes() == before


def test_a_store_in_use_is_left_to_its_server(store):
    with Server(store) as server:
        for command in [["scrub", store], ["stat", store, "--space"], ["salvage", store, "--to", f"{store}.new"]]:
            done = koine(*command, check=False)
            assert done.returncode == 3 and str(server.pid) in done.stderr, done
        assert not os.path.exists(f"{store}.new")


def test_a_server_reads_its_own_store_and_logs_damage(store):
    damage(store, place_of(store, body("big/1")[:100]))
    with Server(store, "--scrub-rate", "64MiB") as server:
        end = time.monotonic() + 60
        while "damaged" not in server.log_path.read_text():
            assert time.monotonic() < end, server.log_path.read_text()
            time.sleep(0.1)
        s3 = clients.s3(server.url)
        assert s3.get_object(Bucket="data", Key="big/0")["Body"].read() == body("big/0")
        assert server.stop() == 0


def test_salvage_of_a_sound_store_gives_all_of_it(store, tmp_path):
    before = store.read_bytes()
    new = tmp_path / "new.koine"
    done = koine("salvage", store, "--to", new)
    assert "nothing is missing" in done.stdout
    assert store.read_bytes() == before
    koine("check", new)
    assert objects_of(new) == {("data", key): body(key) for key in OBJECTS}


def test_salvage_without_superblocks_and_with_a_damaged_object(store, tmp_path):
    for superblock in [0, 128 * BLOCK]:
        damage(store, superblock)
    damage(store, place_of(store, body("big/3")[:100]))
    done = koine("check", store, check=False)
    assert done.returncode == 1
    new = tmp_path / "new.koine"
    done = koine("--json", "salvage", store, "--to", new, check=False)
    assert done.returncode == 1
    told = json.loads(done.stdout.splitlines()[0])
    assert told["origin"] == "root found" and not told["whole"]
    assert [lost["key"] for lost in told["objects_lost"]] == ["big/3"]
    assert told["objects_whole"] == len(OBJECTS) - 1
    koine("check", new)
    found = objects_of(new)
    assert isinstance(found.pop(("data", "big/3")), int), "what is damaged is not given out"
    assert found == {("data", key): body(key) for key in OBJECTS if key != "big/3"}


def test_salvage_keeps_parts_when_asked(store, tmp_path):
    damage(store, place_of(store, body("big/3")[:100]))
    new = tmp_path / "new.koine"
    done = koine("salvage", store, "--to", new, "--partial", check=False)
    assert done.returncode == 1 and "data/big/3" in done.stdout and "zeros in their place" in done.stdout
    with Server(new) as server:
        s3 = clients.s3(server.url)
        # Of the whole a client would say that its checksum is wrong, and be right.
        first = s3.get_object(Bucket="data", Key="big/3", Range=f"bytes=0-{BLOCK - 1}")["Body"].read()
        rest = s3.get_object(Bucket="data", Key="big/3", Range="bytes=100000-")["Body"].read()
        assert first == bytes(BLOCK) and rest == body("big/3")[100_000:]
        assert server.stop() == 0


def test_salvage_after_kill_has_what_was_acknowledged(store, tmp_path):
    with Server(store) as server:
        s3 = clients.s3(server.url)
        s3.put_object(Bucket="data", Key="late", Body=b"late")
        s3.delete_object(Bucket="data", Key="big/0")
        server.kill()
    # Log and older superblock are all there is.
    damage(store, 0)
    new = tmp_path / "new.koine"
    told = json.loads(koine("--json", "salvage", store, "--to", new).stdout)
    assert told["whole"], told
    expected = {("data", key): body(key) for key in OBJECTS if key != "big/0"} | {("data", "late"): b"late"}
    assert objects_of(new) == expected


def test_salvage_into_a_folder_makes_files(store, tmp_path):
    with Server(store) as server:
        s3 = clients.s3(server.url)
        s3.put_object(Bucket="data", Key="odd//name", Body=b"x")
        assert server.stop() == 0
    damage(store, place_of(store, body("big/3")[:100]))
    folder = tmp_path / "files"
    done = koine("--json", "salvage", store, "--to", f"{folder}/", check=False)
    assert done.returncode == 1
    told = json.loads(done.stdout.splitlines()[0])
    assert [lost["key"] for lost in told["objects_lost"]] == ["big/3"]
    assert len(told["not_written"]) == 1 and "odd//name" in told["not_written"][0]
    found = {str(path.relative_to(folder)): path.read_bytes() for path in folder.rglob("*") if path.is_file()}
    assert found == {f"data/{key}": body(key) for key in OBJECTS if key != "big/3"}
    again = koine("salvage", store, "--to", folder, check=False)
    assert again.returncode == 1 and "not empty" in again.stderr


def test_salvage_never_overwrites(store, tmp_path):
    before = store.read_bytes()
    other = tmp_path / "other"
    other.write_bytes(b"precious" * 1000)
    for to in [store, other, tmp_path]:
        done = koine("salvage", store, "--to", to, check=False)
        assert done.returncode in (1, 2), done
    assert store.read_bytes() == before and other.read_bytes() == b"precious" * 1000
    done = koine("salvage", tmp_path / "no such", "--to", tmp_path / "new", check=False)
    assert done.returncode == 4 and not (tmp_path / "new").exists()
    noise = tmp_path / "noise"
    noise.write_bytes(os.urandom(2 << 20))
    done = koine("salvage", noise, "--to", tmp_path / "new", check=False)
    assert done.returncode == 1 and "nothing to salvage" in done.stderr and not (tmp_path / "new").exists()


def test_the_report_of_space_counts_buckets_and_objects(store):
    told = json.loads(koine("--json", "stat", store, "--space").stdout)
    space = told["space"]
    assert space["buckets"] == 2 and space["objects"] == len(OBJECTS)
    by_name = {entry["bucket"]: entry for entry in space["spaces"]}
    assert by_name["data"]["object_bytes"] == sum(OBJECTS.values())
    assert by_name["empty"]["objects"] == 0
    # Everything is accounted for.
    runs = sum(run["bytes"] for run in space["free_runs"])
    assert space["data"] + space["index"] + space["frame"] + runs + told["waiting"] == told["total"]
    shown = koine("stat", store, "--space").stdout
    assert "data " in shown and "where the space goes" in shown and "free runs of" in shown


def test_a_damaged_free_list_is_repaired_and_nothing_else(store):
    before = store.read_bytes()
    for at in range(0, len(before), BLOCK):
        if before[at : at + 4] == b"KFRE":
            damage(store, at)
    assert koine("check", store, check=False).returncode == 1
    data = place_of(store, body("big/3")[:100])
    damage(store, data)
    done = koine("check", store, "--repair", check=False)
    assert done.returncode == 1 and "nothing was changed" in done.stderr
    damage(store, data)
    done = koine("check", store, "--repair")
    assert "made anew" in done.stdout
    koine("check", store)
    assert "nothing was changed" in koine("check", store, "--repair").stdout
    assert objects_of(store) == {("data", key): body(key) for key in OBJECTS}
