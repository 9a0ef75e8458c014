"""The file system of fsspec: its own abstract suite, and the libraries that stand on it."""

import os
import pickle
import uuid

import fsspec
import fsspec.tests.abstract as abstract
import numpy
import pandas
import pyarrow
import pyarrow.dataset
import pyarrow.parquet
import pytest
import zarr

import koine
from koine.fsspec import KoineFileSystem


@pytest.fixture(scope="module")
def store(tmp_path_factory):
    place = str(tmp_path_factory.mktemp("fsspec") / "store.koine")
    with koine.connect(place, create=True, size=256 << 20) as session:
        session.create_bucket("data")
        yield place
    fsspec.get_filesystem_class("koine").clear_instance_cache()


@pytest.fixture
def options(store, monkeypatch):
    """What pandas, zarr and others are given to reach the store."""
    return {"store": store}


class KoineFixtures(abstract.AbstractFixtures):
    @pytest.fixture
    def fs(self, store):
        return fsspec.filesystem("koine", store=store)

    @pytest.fixture
    def fs_path(self):
        return f"data/{uuid.uuid4().hex}"

    @pytest.fixture
    def fs_join(self):
        return lambda *parts: "/".join(parts)

    @pytest.fixture
    def supports_empty_directories(self):
        return False


class TestCopy(abstract.AbstractCopyTests, KoineFixtures):
    pass


class TestGet(abstract.AbstractGetTests, KoineFixtures):
    pass


class TestPut(abstract.AbstractPutTests, KoineFixtures):
    pass


class TestPipe(abstract.AbstractPipeTests, KoineFixtures):
    pass


class TestOpen(abstract.AbstractOpenTests, KoineFixtures):
    pass


@pytest.fixture
def fs(store):
    fs = fsspec.filesystem("koine", store=store)
    for path in fs.ls(""):
        if path["name"] != "data":
            fs.rm(path["name"], recursive=True)
    return fs


def test_it_is_registered(store):
    assert fsspec.get_filesystem_class("koine") is KoineFileSystem
    with fsspec.open("koine://data/hello", "wb", store=store) as file:
        file.write(b"world")
    with fsspec.open("koine://data/hello", "rt", store=store) as file:
        assert file.read() == "world"
    fs, path = fsspec.core.url_to_fs("koine://data/hello", store=store)
    assert (path, fs.cat(path), fs.cat_file(path, -3, -1)) == ("data/hello", b"world", b"rl")


def test_buckets_are_folders(fs):
    fs.mkdir("fresh")
    assert fs.ls("fresh") == [] and fs.isdir("fresh") and not fs.exists("fresh/a")
    with pytest.raises(FileExistsError):
        fs.makedirs("fresh")
    fs.makedirs("fresh", exist_ok=True)
    fs.makedirs("fresh/a/b")
    fs.pipe("fresh/a/b/c", b"bytes")
    fs.touch("fresh/a/d")
    assert fs.ls("fresh", detail=False) == ["fresh/a"]
    assert fs.ls("koine://fresh/a/", detail=False) == ["fresh/a/b", "fresh/a/d"]
    assert fs.find("fresh") == ["fresh/a/b/c", "fresh/a/d"] == [*fs.glob("fresh/*/*/*"), *fs.glob("fresh/*/d")]
    assert fs.find("fresh/a/d") == ["fresh/a/d"] and fs.find("fresh/nothing") == [] == fs.find("nobody-has-it")
    assert fs.du("fresh") == 5 and fs.size("fresh/a/b/c") == 5
    assert fs.info("fresh/a/b")["type"] == "directory"
    info = fs.info("fresh/a/b/c")
    assert (info["type"], info["size"], fs.modified("fresh/a/b/c")) == ("file", 5, info["modified"])
    with pytest.raises(FileNotFoundError):
        fs.ls("fresh/nothing")
    with pytest.raises(FileNotFoundError):
        fs.rm("fresh/nothing")
    with pytest.raises(OSError):
        fs.rmdir("fresh")
    fs.mv("fresh/a", "fresh/e", recursive=True)
    assert fs.find("fresh") == ["fresh/e/b/c", "fresh/e/d"]
    fs.rm("fresh", recursive=True)
    assert not fs.exists("fresh")


def test_a_transaction_puts_all_or_nothing_is_put(fs):
    with pytest.raises(KeyError):
        with fs.transaction:
            with fs.open("data/first", "wb") as file:
                file.write(b"bytes")
            raise KeyError
    assert not fs.exists("data/first")
    with fs.transaction:
        with fs.open("data/first", "w") as file:
            file.write("bytes")
        assert not fs.exists("data/first")
    assert fs.cat("data/first") == b"bytes"
    with pytest.raises(KeyError):
        with fs.open("data/first", "w") as file:
            file.write("other")
            raise KeyError
    assert fs.cat("data/first") == b"bytes"


def test_pandas(options):
    frame = pandas.DataFrame({"n": range(1000), "text": [f"row {n}" for n in range(1000)]})
    frame.to_parquet("koine://data/frame.parquet", storage_options=options)
    read = pandas.read_parquet("koine://data/frame.parquet", storage_options=options)
    pandas.testing.assert_frame_equal(read, frame)
    assert pandas.read_parquet("koine://data/frame.parquet", columns=["n"], storage_options=options).shape == (1000, 1)
    frame.to_csv("koine://data/frame.csv.gz", index=False, storage_options=options)
    pandas.testing.assert_frame_equal(pandas.read_csv("koine://data/frame.csv.gz", storage_options=options), frame)


def test_pyarrow(fs):
    table = pyarrow.table({"year": [2024, 2024, 2025], "n": [1, 2, 3]})
    pyarrow.dataset.write_dataset(
        table, "data/set", filesystem=fs, format="parquet", partitioning=["year"], partitioning_flavor="hive")
    assert sorted(fs.ls("data/set", detail=False)) == ["data/set/year=2024", "data/set/year=2025"]
    found = pyarrow.dataset.dataset("data/set", filesystem=fs, format="parquet", partitioning="hive")
    assert found.to_table(filter=pyarrow.dataset.field("year") == 2024).column("n").to_pylist() == [1, 2]
    pyarrow.parquet.write_table(table, "data/one.parquet", filesystem=fs)
    assert pyarrow.parquet.read_table("data/one.parquet", filesystem=fs).equals(table)


def test_zarr(options):
    values = numpy.arange(10_000).reshape(100, 100)
    array = zarr.create_array(
        "koine://data/array.zarr", shape=values.shape, chunks=(30, 30), dtype=values.dtype, storage_options=options)
    array[:] = values
    again = zarr.open_array("koine://data/array.zarr", mode="r", storage_options=options)
    assert (again[:] == values).all() and (again[17:63, 5] == values[17:63, 5]).all()
    group = zarr.open_group("koine://data/group.zarr", mode="w", storage_options=options)
    group.create_array("inner", shape=(10,), dtype="i4")[:] = 7
    assert zarr.open_group("koine://data/group.zarr", mode="r", storage_options=options)["inner"][:].sum() == 70


def test_the_store_by_the_environment(store, monkeypatch):
    monkeypatch.setenv("KOINE_STORE", store)
    KoineFileSystem.clear_instance_cache()
    assert fsspec.filesystem("koine").isdir("data")
    KoineFileSystem.clear_instance_cache()
    monkeypatch.delenv("KOINE_STORE")
    with pytest.raises(koine.errors.InvalidArgument):
        fsspec.filesystem("koine")


def test_mirrors(fs, tmp_path):
    os.makedirs(tmp_path / "from/sub")
    (tmp_path / "from/one").write_bytes(b"1")
    (tmp_path / "from/sub/two").write_bytes(b"22")
    fs.put(str(tmp_path / "from"), "data/mirror", recursive=True)
    assert fs.find("data/mirror") == ["data/mirror/one", "data/mirror/sub/two"]
    fs.get("data/mirror", str(tmp_path / "to"), recursive=True)
    assert (tmp_path / "to/sub/two").read_bytes() == b"22"


def test_options_are_taken_or_refused(store):
    """One that is ignored may be the one that takes rights away."""
    with koine.connect(store) as owner:
        owner.create_group("lab")
        owner.create_user("lab", "ada", "a password of hers")
        token = owner.log_in("ada", "a password of hers").token
        owner.bucket("data").put("secret", b"the owner's")
        for by in ({"token": token}, {"connect": {"token": token}}):
            fs = fsspec.filesystem("koine", store=store, skip_instance_cache=True, **by)
            with pytest.raises(PermissionError):
                fs.cat("data/secret")
        fs = fsspec.filesystem("koine", store=owner, token=token, skip_instance_cache=True)
        with pytest.raises(PermissionError):
            fs.cat("data/secret")
        with pytest.raises(PermissionError):
            koine.open("koine://data/secret", store=store, token=token)
        with pytest.raises(koine.errors.LogInFailed):
            koine.open("koine://data/secret", store=store, token="no-token")
        for wrong in ({"tokens": token}, {"secure": True}, {"connect": {"rights": "none"}}):
            with pytest.raises(TypeError, match="is no storage option"):
                fsspec.filesystem("koine", store=store, skip_instance_cache=True, **wrong)
        with pytest.raises(TypeError, match="is open"):
            fsspec.filesystem("koine", store=owner, create=True, skip_instance_cache=True)
        with pytest.raises(TypeError):
            koine.open("koine://data/secret", store=store, colour="blue")
        assert fsspec.filesystem(
            "koine", store=store, skip_instance_cache=True, use_listings_cache=False, timeout=60, connect_timeout=60).cat(
            "data/secret") == b"the owner's"


def test_a_filesystem_can_be_taken_to_another_process(store):
    """Its options go with it."""
    with koine.connect(store) as owner:
        owner.bucket("data").put("taken", b"along")
        fs = fsspec.filesystem("koine", store=store)
        assert pickle.loads(pickle.dumps(fs)).cat("data/taken") == b"along"


def test_readers_may_say_how_they_read(fs, store, tmp_path):
    """What dask, pyarrow and fsspec's own caches give to `open`."""
    body = bytes(range(256)) * 20_000
    fs.pipe("data/large", body)
    for cache in ("none", "readahead", "bytes", "all"):
        with fs.open("data/large", "rb", cache_type=cache, size=len(body), block_size=1 << 16) as file:
            assert file.read(10) == body[:10]
            file.seek(-5, 2)
            assert file.read() == body[-5:] and file.seek(4_000_000) and file.read(3) == body[4_000_000:4_000_003]
    with fs.open("data/large", "rb", size=len(body)) as file:
        assert file.read() == body
    with fsspec.open(
            "blockcache::koine://data/large", "rb", koine={"store": store},
            blockcache={"cache_storage": str(tmp_path)}) as file:
        file.seek(1_000_001)
        assert file.read(100_000) == body[1_000_001:1_100_001]
    frame = pandas.DataFrame({"n": range(100)})
    frame.to_csv("koine://data/frame.csv.zip", index=False, storage_options={"store": store})
    pandas.testing.assert_frame_equal(
        pandas.read_csv("koine://data/frame.csv.zip", storage_options={"store": store}), frame)
