"""A store in RocksDB: keys and values, objects, and what a killed server leaves. Skipped where the program has no RocksDB."""

import json
import subprocess
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
    assert again.returncode == 1 and "is already a store" in again.stderr
    missing = koine("kv", "scan", f"rocksdb:{tmp_path / 'none'}", check=False)
    assert missing.returncode == 4 and "koine serve rocksdb:" in missing.stderr
    (tmp_path / "other").mkdir()
    (tmp_path / "other" / "notes").write_text("mine")
    other = koine("format", f"rocksdb:{tmp_path / 'other'}", check=False)
    assert other.returncode == 1 and "no RocksDB" in other.stderr
    assert [path.name for path in (tmp_path / "other").iterdir()] == ["notes"]


def test_commands_that_want_a_file_or_device_say_so(store, tmp_path):
    name, folder = store
    for command in (["check"], ["scrub"], ["stat"], ["trim"], ["salvage", "--to", tmp_path / "new"], ["upgrade"], ["export"]):
        refused = koine(command[0], name, *command[1:], check=False)
        assert refused.returncode == 2 and "is not a file or device" in refused.stderr and "koine copy" in refused.stderr, refused.stderr
    same = koine("copy", name, f"rocksdb://{folder}", check=False)
    assert same.returncode == 2 and "one store" in same.stderr


@pytest.fixture
def mount(tmp_path):
    """Mounts a small file system in memory; only root can."""
    folder = tmp_path / "small"
    folder.mkdir()

    def mounted(size):
        if subprocess.run(["mount", "-t", "tmpfs", "-o", f"size={size}", "tmpfs", folder], capture_output=True).returncode != 0:
            pytest.skip("a file system cannot be mounted here")
        return folder

    yield mounted
    subprocess.run(["umount", "-l", folder], capture_output=True)


def test_a_full_file_system_is_an_error_and_no_end(store, mount, tmp_path):
    """RocksDB itself ends the process where it finds no room, and does so again at every open."""
    folder = mount("200m")
    name = f"rocksdb:{folder}/s"
    koine("format", name)
    (tmp_path / "in").write_bytes(seeds.blob(1, "full", 8 << 20))
    for number in range(40):
        full = koine("kv", "put", name, f"k{number}", "--file", tmp_path / "in", check=False)
        if full.returncode != 0:
            break
    assert full.returncode == 1 and "MiB free" in full.stderr and "give it more space" in full.stderr, full.stderr
    assert len(keys(name)) == number > 1
    koine("kv", "get", name, "k0", "--file", tmp_path / "out")
    assert (tmp_path / "out").read_bytes() == (tmp_path / "in").read_bytes()
    # It can be emptied, and then takes more.
    for key in keys(name):
        koine("kv", "del", name, key)
    assert keys(name) == []
    # Where others fill the file system, it says so before RocksDB looks.
    with open(folder / "other", "wb") as other:
        try:
            while True:
                other.write(bytes(1 << 20))
        except OSError:
            pass
    for command in (["kv", "scan"], ["serve"], ["kv", "put"]):
        refused = koine(*command[:2], name, *(["k", "v"] if "put" in command else []), check=False)
        assert refused.returncode == 1 and "MiB free" in refused.stderr, refused.stderr
    (folder / "other").unlink()
    koine("kv", "put", name, "k", "v")


def test_a_folder_that_cannot_be_written_is_named(store, tmp_path):
    name, folder = store
    bound = subprocess.run(["mount", "--bind", "-o", "ro", folder, folder], capture_output=True)
    if bound.returncode != 0:
        pytest.skip("a file system cannot be mounted here")
    try:
        for command in (["kv", "scan", name], ["serve", name], ["kv", "put", name, "k", "v"]):
            refused = koine(*command, check=False)
            assert refused.returncode == 1 and "make that writable" in refused.stderr, refused.stderr
    finally:
        subprocess.run(["umount", folder], check=True)
    koine("kv", "put", name, "k", "v")


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


def test_everything_goes_to_it_and_back(store, tmp_path):
    name, _ = store
    first, last = tmp_path / "first.koine", tmp_path / "last.koine"
    for engine in (first, last):
        koine("format", f"engine:{engine}", "--size", "64MiB")
    for number in range(20):
        koine("kv", "put", f"engine:{first}", f"k{number:02}", "x" * number * 1000)
    for source, target in ((f"engine:{first}", name), (name, f"engine:{last}")):
        told = koine("copy", source, target).stdout
        assert "nothing differs" in told, told
    for number in range(20):
        assert koine("kv", "get", last, f"k{number:02}").stdout == "x" * number * 1000
    koine("check", f"engine:{last}")
