"""A store in RocksDB: keys and values, objects, and what a killed server leaves. Skipped where the program has no RocksDB."""

import json
from concurrent.futures import ThreadPoolExecutor

import pytest

from harness import clients, seeds
from harness.server import Server, koine


@pytest.fixture
def store(tmp_path):
    """The name of a new store, and of its folder."""
    folder = tmp_path / "rocks"
    made = koine("format", f"rocksdb:{folder}", check=False)
    if made.returncode == 2 and "built without RocksDB" in made.stderr:
        assert not folder.exists()
        pytest.skip("the program was built without RocksDB")
    assert made.returncode == 0, made.stderr
    return f"rocksdb:{folder}", folder


def keys(name):
    return [json.loads(line)["key"] for line in koine("--json", "kv", "scan", name).stdout.splitlines()]


def test_a_program_without_it_says_so(tmp_path):
    folder = tmp_path / "rocks"
    for command in (["serve"], ["format"], ["kv", "scan"]):
        refused = koine(*command, f"rocksdb:{folder}", "--size=1GiB" if command != ["kv", "scan"] else "--reverse", check=False)
        assert refused.returncode in (2, 4) and not folder.exists(), refused.stderr
        if "built without" in refused.stderr:
            assert refused.returncode == 2 and "--features rocksdb" in refused.stderr


def test_keys_and_values(store, tmp_path):
    name, folder = store
    long = seeds.blob(4, "long", 5_000_123)
    (tmp_path / "in").write_bytes(long)
    koine("kv", "put", name, "long", "--file", tmp_path / "in")
    koine("kv", "put", name, "long", "0123", "--offset", 1_000_000)
    koine("kv", "copy", name, "long", "copy")
    koine("kv", "rename", name, "long", "moved")
    koine("kv", "get", name, "copy", "--file", tmp_path / "out")
    assert (tmp_path / "out").read_bytes() == long[:1_000_000] + b"0123" + long[1_000_004:]
    assert keys(name) == ["copy", "moved"]
    again = koine("format", name, check=False)
    assert again.returncode == 1 and "is a store already" in again.stderr
    missing = koine("kv", "scan", f"rocksdb:{tmp_path / 'none'}", check=False)
    assert missing.returncode == 4 and "koine serve rocksdb:" in missing.stderr
    (tmp_path / "other").mkdir()
    (tmp_path / "other" / "notes").write_text("mine")
    other = koine("format", f"rocksdb:{tmp_path / 'other'}", check=False)
    assert other.returncode == 1 and "no RocksDB" in other.stderr
    assert [path.name for path in (tmp_path / "other").iterdir()] == ["notes"]


def test_objects_survive_a_kill(store, tmp_path):
    name, folder = store
    with Server(name, log=tmp_path / "log") as server:
        held = koine("format", name, check=False)
        assert held.returncode == 3, held.stderr
        s3 = clients.s3(server.url)
        s3.create_bucket(Bucket="data")
        for number in range(30):
            s3.put_object(Bucket="data", Key=f"k{number}", Body=seeds.blob(number, "object", number * 40_000))
        upload = s3.create_multipart_upload(Bucket="data", Key="parts")["UploadId"]
        parts = [seeds.blob(number, "part", 5 << 20) for number in range(3)]
        etags = [
            {"PartNumber": number + 1, "ETag": s3.upload_part(Bucket="data", Key="parts", UploadId=upload, PartNumber=number + 1, Body=part)["ETag"]}
            for number, part in enumerate(parts)
        ]
        s3.complete_multipart_upload(Bucket="data", Key="parts", UploadId=upload, MultipartUpload={"Parts": etags})

        # Through the server that holds it: one of many creates a key.
        def create(number):
            return koine("kv", "put", name, "lock", number, "--if-absent", check=False)

        with ThreadPoolExecutor(8) as pool:
            done = list(pool.map(create, range(32)))
        won = [number for number, run in enumerate(done) if run.returncode == 0]
        assert len(won) == 1
        server.kill()
    with Server(name, log=tmp_path / "log") as server:
        s3 = clients.s3(server.url)
        for number in range(30):
            assert s3.get_object(Bucket="data", Key=f"k{number}")["Body"].read() == seeds.blob(number, "object", number * 40_000)
        assert s3.get_object(Bucket="data", Key="parts")["Body"].read() == b"".join(parts)
        assert koine("kv", "get", name, "lock").stdout == str(won[0])
        assert server.stop() == 0
