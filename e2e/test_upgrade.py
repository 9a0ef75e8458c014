"""`koine upgrade`, and stores of newer programs: refused, or only read, and told so."""

import json
import struct

import pytest

from harness import images, seeds
from harness.server import Server, koine

FORMAT_AT, INCOMPATIBLE_AT, READ_ONLY_AT, COMPATIBLE_AT = 8, 24, 32, 40


@pytest.fixture(params=["0-closed", "0-cut"])
def old(request, tmp_path):
    return images.golden(request.param, tmp_path / "old.koine")


@pytest.fixture
def store(tmp_path):
    path = tmp_path / "store.koine"
    koine("format", path, "--size", "16MiB")
    return path


def refused(command, store, *wanted):
    before = store.read_bytes()
    done = koine(*command.split(), store, check=False)
    assert done.returncode == 1, (command, done)
    for text in [*wanted, str(store)]:
        assert text in done.stderr, (command, done.stderr)
    assert store.read_bytes() == before


def test_an_older_format_is_told_and_upgraded_once(old):
    for command in ["serve", "stat", "check", "scrub", "grow --unlimited", "spaces ls"]:
        refused(command, old, "format 0", "koine upgrade")
    before = old.read_bytes()
    told = json.loads(koine("--json", "upgrade", "--dry-run", old).stdout)
    assert (told["from"], told["format"], told["superblocks"], told["dry_run"]) == (0, 1, 2, True)
    assert old.read_bytes() == before
    assert "was upgraded from format 0 to 1" in koine("upgrade", old).stdout
    after = old.read_bytes()
    blocks = range(0, len(before), images.BLOCK)
    assert [at for at in blocks if before[at : at + images.BLOCK] != after[at : at + images.BLOCK]] == images.SLOTS
    assert "nothing was changed" in koine("upgrade", old).stdout
    assert old.read_bytes() == after
    koine("check", old)
    assert json.loads(koine("--json", "stat", old).stdout)["format"] == 1
    with Server(old) as server:
        assert server.stop() == 0
    koine("check", old)


def test_a_store_that_was_not_there_or_is_none(tmp_path):
    assert koine("upgrade", tmp_path / "none", check=False).returncode == 4
    other = tmp_path / "other"
    other.write_bytes(seeds.blob(1, "other", 2 << 20))
    refused("upgrade", other, "not a Koine store")


def test_salvage_of_an_older_format(old, tmp_path):
    done = koine("salvage", old, "--to", tmp_path / "new.koine")
    assert "nothing is missing" in done.stdout
    koine("check", tmp_path / "new.koine")


def test_a_newer_format_is_refused(store):
    images.change_superblocks(store, FORMAT_AT, struct.pack("<I", 7))
    for command in ["serve", "stat", "check", "check --repair", "scrub", "upgrade", "upgrade --dry-run"]:
        refused(command, store, "format 7", "newer program")


def test_an_unknown_incompatible_feature_is_refused(store):
    images.change_superblocks(store, INCOMPATIBLE_AT, struct.pack("<Q", 1 << 9))
    for command in ["serve", "stat", "check", "check --repair", "scrub", "upgrade"]:
        refused(command, store, "bit 9 of the incompatible ones", "newer program")


def test_an_unknown_feature_for_writing_leaves_reading(store):
    images.change_superblocks(store, READ_ONLY_AT, struct.pack("<Q", 1 << 3))
    before = store.read_bytes()
    for command in ["stat", "check", "scrub", "spaces ls"]:
        koine(*command.split(), store)
    assert store.read_bytes() == before
    for command in ["serve", "check --repair", "grow --unlimited", "trim"]:
        refused(command, store, "bit 3 of those for writing", "`koine check`", "newer program")


def test_an_unknown_compatible_feature_stays(store):
    word = struct.pack("<Q", 1 << 33)
    images.change_superblocks(store, COMPATIBLE_AT, word)
    for _ in range(2):
        with Server(store) as server:
            assert server.stop() == 0
    data = store.read_bytes()
    assert [data[at + COMPATIBLE_AT : at + COMPATIBLE_AT + 8] for at in images.SLOTS] == [word, word]


def test_buckets_of_an_older_format_are_told_and_upgraded_once(store):
    koine("mb", "--store", store, "koine://bucket")
    koine("cp", "--store", store, __file__, "koine://bucket/key")
    head = store.parent / "head"
    # The catalogue's record as format 0 has it: a version, the format, the time of creation.
    head.write_bytes(bytes([1, 1, 4, 0, 0, 0, 0, 2, 8]) + struct.pack("<Q", 1_700_000_000_000_000_000))
    koine("kv", "put", store, "--space", "16", "--file", head, "f")
    for command in [["ls", "--store", store, "koine://bucket"], ["kv", "get", store, "key"]]:
        done = koine(*command, check=False)
        assert done.returncode == 1 and "koine upgrade" in done.stderr, done
    koine("check", store)
    before = store.read_bytes()
    told = json.loads(koine("--json", "upgrade", "--dry-run", store).stdout)
    assert told["objects"] == {"from": 0, "format": 1, "buckets": 1, "counters": 0}
    assert store.read_bytes() == before
    assert "buckets and objects were upgraded from format 0 to 1: 1 buckets" in koine("upgrade", store).stdout
    assert "key" in koine("ls", "--store", store, "koine://bucket").stdout
    before = store.read_bytes()
    assert "nothing was changed" in koine("upgrade", store).stdout
    assert store.read_bytes() == before
