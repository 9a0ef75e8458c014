"""`koine bench engine`, `kv` and `wire`: the documents that programs read, from runs far too short to say anything about speed."""

import json
import tempfile
from pathlib import Path

import pytest

from harness.server import koine

STORES = {"lmdb", "redb", "fjall", "rocksdb"}


@pytest.fixture
def folder():
    """On a disk, where the folder of pytest may be in memory, which the benchmark refuses."""
    with tempfile.TemporaryDirectory(prefix="koine-e2e-", dir="/var/tmp") as path:
        yield Path(path)


def bench(folder, *args):
    """A quick run with tiny stores below a folder; the document, when the folder is empty again."""
    sizes = ["--items", "500", "--duration", "0.02", "--large-size", "1MiB", "--open-size", "16MiB", "--objects", "100"]
    done = koine("bench", "engine", *args, "--quick", "--json", "--dir", folder, *sizes, timeout=120)
    assert list(folder.iterdir()) == [], "stores were left behind"
    lines = done.stdout.splitlines()
    assert len(lines) == 1, "one document on one line"
    document = json.loads(lines[0])
    assert set(document) == {"bench", "machine", "rows"} and document["bench"] == "engine"
    for row in document["rows"]:
        assert set(row) == {"case", "unit", "better", "ours", "references", "ratio", "goal"}, row
        assert row["better"] in ("higher", "lower") and row["goal"] > 0
    assert len({row["case"] for row in document["rows"]}) == len(document["rows"]) <= 24
    return {row["case"]: row for row in document["rows"]}


def test_key_value_rows_hold_every_reference_or_null(folder):
    rows = bench(folder, "kv")
    synced = rows["400 B: overwrite synced x1"]
    assert set(synced["references"]) == STORES and synced["goal"] == 1.2
    # What is in every build was measured; what is not is null and not left out.
    for name in ("lmdb", "redb", "fjall"):
        assert synced["references"][name] > 0
    assert synced["ours"] > 0 and synced["ratio"] > 0
    beside = rows["400 B: point read x1 beside LMDB"]
    assert set(beside["references"]) == {"lmdb"} and beside["goal"] == 0.7
    for case, unit in [("bytes written, load at random", "bytes a byte"), ("own memory", "MiB")]:
        row = rows[f"400 B: {case}"]
        assert (row["unit"], row["better"]) == (unit, "lower") and row["ours"] > 0
    assert "1 KiB over memory: point read x1" in rows


def test_a_report_has_tables_and_plots(folder, tmp_path):
    bench(folder, "kv", "--only", "400 B: overwrite", "--report", tmp_path / "report")
    text = (tmp_path / "report" / "engine.md").read_text()
    plots = sorted(path.name for path in (tmp_path / "report").glob("*.svg"))
    assert plots and all(f"]({name})" in text for name in plots)
    assert "400 B: overwrite synced x1" in text and (tmp_path / "report" / "engine.json").is_file()


def test_large_values_and_opening_are_judged_against_their_limits(folder):
    rows = bench(folder, "large", "open")
    assert rows["large write of 1 MiB"]["ours"] > 0
    for case, limit in [("open 16 MiB clean", 100), ("open 16 MiB after a kill", 2000)]:
        assert rows[case]["references"]["limit"] == limit and rows[case]["ours"] > 0


def test_hints_stand_beside_the_same_without(folder):
    rows = bench(folder, "hints")
    assert len(rows) == 5
    for row in rows.values():
        assert row["ours"] > 0 and row["references"]["without"] > 0
    runs = rows["lifetime: free runs once what goes soon is gone"]
    assert runs["better"] == "lower" and runs["ours"] < runs["references"]["without"] / 2


def test_file_systems_stand_beside_objects_or_are_null(folder):
    rows = bench(folder, "small", "metadata")
    write = rows["4 KiB random private write synced x1"]
    created = rows["create of 100 x8"]
    for row in (write, created):
        assert row["ours"] > 0 and set(row["references"]) == {"ext4", "xfs", "btrfs"}
    assert created["goal"] == 10 and rows["4 KiB random private write synced x1 beside fio"]["goal"] == 0.9
    mounts = Path("/proc/self/mounts").read_text()
    assert str(folder) not in mounts


def test_the_wire_stands_beside_redis_and_memcpy(folder):
    done = koine("bench", "wire", "--quick", "--json", "--dir", folder, "--duration", "0.02", timeout=120)
    assert list(folder.iterdir()) == [], "stores were left behind"
    rows = json.loads(done.stdout)["rows"]
    cases = [(row["case"], row["unit"]) for row in rows]
    assert len(set(cases)) == len(cases) <= 24
    for row in rows:
        assert row["ours"] > 0 and row["goal"] > 0
        beside = {"memcpy"} if "1 MiB" in row["case"] else {"redis", "direct"}
        assert set(row["references"]) == beside, row
        assert all(row["references"][name] > 0 for name in beside - {"redis"}), row
    for case in ("get 1 MiB x32, memory", "put 4 KiB x32, memory, socket", "get 4 KiB x1, engine unsynced, TCP"):
        assert case in {row["case"] for row in rows}


def test_ycsb_does_its_workloads_in_order(folder):
    sizes = ["--records", "1000", "--record-size", "100", "--threads", "2", "--duration", "0.02"]
    done = koine("bench", "kv", "--quick", "--json", "--dir", folder, *sizes, timeout=120)
    assert list(folder.iterdir()) == [], "stores were left behind"
    rows = json.loads(done.stdout)["rows"]
    name = "100 B unsynced: "
    asked = [row["case"].removeprefix(name) for row in rows if row["case"].startswith(name) and row["unit"] == "ops/s"]
    order = ["load", "A", "B", "C", "F", "D", "delete", "load again", "E"]
    assert len(asked) == len(order) and all(case.startswith(start) for case, start in zip(asked, order)), asked
    for row in rows:
        assert row["ours"] > 0 and row["references"]["lmdb"] is not None, row
    assert {row["unit"] for row in rows} == {"ops/s", "bytes a byte", "MiB"}


def test_parts_of_the_engine_stand_beside_the_same_without(folder):
    done = koine("bench", "kv", "--parts", "--quick", "--json", "--dir", folder, timeout=120)
    assert list(folder.iterdir()) == [], "stores were left behind"
    rows = {row["case"]: row for row in json.loads(done.stdout)["rows"]}
    assert {case.split(":")[0] for case in rows} == {"absorption", "seek", "upper bound", "filter", "log"}
    for row in rows.values():
        assert row["ours"] > 0 and row["references"]["without"] > 0
    written = rows["absorption: bytes written a byte put"]
    assert written["better"] == "lower" and written["ours"] < written["references"]["without"] / 2


def test_objects_stand_beside_minio_memcpy_and_the_first_page(folder):
    done = koine("bench", "object", "--quick", "--json", "--dir", folder, "--duration", "0.02", timeout=120)
    assert list(folder.iterdir()) == [], "stores were left behind"
    rows = {row["case"]: row for row in json.loads(done.stdout)["rows"]}
    assert len(rows) <= 24
    for case, row in rows.items():
        assert row["ours"] > 0 and row["goal"] > 0
        beside = {"memcpy"} if "cached" in case else {"first page"} if "page" in case else {"minio"}
        assert beside <= set(row["references"]) or any(name.startswith("fio") for name in row["references"]), row
    assert (rows["PUT 4 KiB x1"]["goal"], rows["GET 64 KiB x1"]["goal"], rows["GET 1 MiB x1"]["goal"]) == (4, 8, 1)
    assert rows["GET cached 1 MiB"]["goal"] == 0.7 and rows["page of 1000 keys behind 20000"]["references"]["first page"]
