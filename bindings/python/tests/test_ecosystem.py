"""What stands on files and file systems: dask, h5py, polars, pyarrow's own file systems, asyncio."""

import asyncio
import os

import dask
import dask.dataframe
import fsspec
import h5py
import numpy
import pandas
import polars
import pyarrow
import pyarrow.dataset
import pyarrow.fs
import pyarrow.parquet
import pytest

import koine
import koine.aio
import koine.arrow
import koine.polars


@pytest.fixture
def held(store):
    """A store on a file, with a bucket and frames in it."""
    with koine.connect(store, create=True, size=256 << 20) as session:
        session.create_bucket("data")
        yield session
    fsspec.get_filesystem_class("koine").clear_instance_cache()


FRAME = pandas.DataFrame({"n": range(4000), "text": [f"row {n}" for n in range(4000)], "year": [2023 + n % 3 for n in range(4000)]})


def test_dask(held, store):
    options = {"store": str(store)}
    with dask.config.set(scheduler="threads"):
        made = dask.dataframe.from_pandas(FRAME, npartitions=4)
        made.to_parquet("koine://data/frame", storage_options=options)
        read = dask.dataframe.read_parquet("koine://data/frame", columns=["n", "year"], storage_options=options)
        assert read.npartitions == 4 and read[read.year == 2024].n.sum().compute() == FRAME[FRAME.year == 2024].n.sum()
        made.to_csv("koine://data/csv/*.csv", index=False, storage_options=options)
        assert len(dask.dataframe.read_csv("koine://data/csv/*.csv", storage_options=options)) == 4000


def test_h5py(held, store):
    bucket = held.bucket("data")
    values = numpy.arange(100_000).reshape(100, 1000)
    with bucket.open("new.h5", "w+b") as file:
        with h5py.File(file, "w") as made:
            made.create_dataset("values", data=values, chunks=(10, 1000), compression="gzip")
        assert "new.h5" not in bucket
    with bucket.open("new.h5") as file, h5py.File(file) as read:
        assert (read["values"][17:20] == values[17:20]).all()
    with bucket.open("new.h5", "r+b") as file, h5py.File(file, "a") as more:
        more["other"] = numpy.ones(10)
    with fsspec.open("koine://data/new.h5", "rb", store=str(store)) as file, h5py.File(file) as read:
        assert sorted(read) == ["other", "values"] and read["other"][:].sum() == 10


def test_polars(held, store):
    bucket = held.bucket("data")
    for year, part in FRAME.groupby("year"):
        with bucket.open(f"set/year={year}/part.parquet", "wb") as file:
            part.drop(columns="year").to_parquet(file, index=False)
    for source in ("koine://data/set", "koine://data/set/**/*.parquet"):
        scanned = koine.polars.scan_parquet(source, store=held)
        assert isinstance(scanned, polars.LazyFrame) and scanned.collect_schema().names() == ["n", "text", "year"]
        found = scanned.filter(polars.col("year") == 2024, polars.col("n") < 100).select("n").collect()
        assert found["n"].to_list() == FRAME[(FRAME.year == 2024) & (FRAME.n < 100)].n.tolist()
    opened = polars.scan_parquet(bucket.open("set/year=2023/part.parquet"))
    assert opened.select(polars.col("n").sum()).collect().item() == FRAME[FRAME.year == 2023].n.sum()
    with bucket.open("written.parquet", "wb") as file:
        polars.DataFrame({"a": [1, 2]}).write_parquet(file)
    assert koine.polars.scan_parquet("data/written.parquet", store=str(store)).collect()["a"].to_list() == [1, 2]
    bucket["table.csv"] = b"a,b\n1,2\n"
    assert koine.polars.scan_csv("koine://data/table.csv", store=held).collect().rows() == [(1, 2)]
    with pytest.raises(FileNotFoundError):
        koine.polars.scan_parquet("koine://data/none/*.parquet", store=held)
    with pytest.raises(TypeError, match="colour"):
        koine.polars.scan_parquet("koine://data/set", store=str(store), colour="blue")


def test_a_file_system_of_arrow(held, store):
    fs = koine.arrow.filesystem(str(store))
    assert fs.type_name == "py::koine" and fs == koine.arrow.filesystem(fs.handler.session)
    fs.create_dir("made")
    with fs.open_output_stream("made/a/one", metadata={"Content-Type": "text/plain", "colour": "blue"}) as stream:
        stream.write(b"bytes")
    info = held.bucket("made").head("a/one")
    assert info.content_type == "text/plain" and info.metadata == {"colour": "blue"}
    with fs.open_input_file("koine://made/a/one") as file:
        assert file.size() == 5 and file.read_at(3, 1) == b"yte"
    with fs.open_append_stream("made/a/one") as stream:
        stream.write(b"!")
    assert fs.open_input_stream("made/a/one").read() == b"bytes!"
    fs.copy_file("made/a/one", "made/a/b/two")
    selected = fs.get_file_info(pyarrow.fs.FileSelector("made", recursive=True))
    assert [(each.path, each.type, each.size) for each in selected] == [
        ("made/a", pyarrow.fs.FileType.Directory, None), ("made/a/b", pyarrow.fs.FileType.Directory, None),
        ("made/a/b/two", pyarrow.fs.FileType.File, 6), ("made/a/one", pyarrow.fs.FileType.File, 6)]
    flat = fs.get_file_info(pyarrow.fs.FileSelector("made/a"))
    assert [each.base_name for each in flat] == ["b", "one"] and flat[1].mtime_ns == held.bucket("made").head("a/one").modified_ns
    assert {each.path for each in fs.get_file_info(pyarrow.fs.FileSelector(""))} == {"data", "made"}
    kinds = [each.type.name for each in fs.get_file_info(["made", "made/a", "made/a/one", "made/none", "none/a"])]
    assert kinds == ["Directory", "Directory", "File", "NotFound", "NotFound"]
    with pytest.raises(FileNotFoundError):
        fs.get_file_info(pyarrow.fs.FileSelector("made/none"))
    assert fs.get_file_info(pyarrow.fs.FileSelector("made/none", allow_not_found=True)) == []
    fs.move("made/a/one", "made/three")
    fs.move("made/a", "made/c")
    assert sorted(held.bucket("made").list(), key=lambda each: each.key)[0].key == "c/b/two"
    fs.delete_file("made/three")
    fs.delete_dir_contents("made/c")
    for call in (lambda: fs.delete_file("made/three"), lambda: fs.delete_dir("made/c"), lambda: fs.open_input_file("made/x")):
        with pytest.raises(FileNotFoundError):
            call()
    fs.delete_dir("made")
    table = pyarrow.table({"year": [2024, 2024, 2025], "n": [1, 2, 3]})
    pyarrow.dataset.write_dataset(table, "data/set", filesystem=fs, format="parquet", partitioning=["year"], partitioning_flavor="hive")
    found = pyarrow.dataset.dataset("data/set", filesystem=fs, format="parquet", partitioning="hive")
    assert found.to_table(filter=pyarrow.dataset.field("year") == 2024)["n"].to_pylist() == [1, 2]
    pyarrow.parquet.write_table(table, "data/one.parquet", filesystem=fs)
    assert pyarrow.parquet.read_table("data/one.parquet", filesystem=fs).equals(table)
    fs.handler.session.close()


def test_asyncio(store):
    async def work():
        async with koine.aio.connect(store, create=True, size=64 << 20) as session:
            bucket = await session.create_bucket("bucket")
            await asyncio.gather(*(bucket.put(f"{n:04}", b"%d" % n) for n in range(50)))
            assert await bucket.get("0007") == b"7" and session.bucket("bucket").name == "bucket"
            assert [each.key async for each in bucket.list(limit=3)] == ["0000", "0001", "0002"]
            assert len([each async for each in bucket]) == 50
            assert [each.name async for each in session.buckets()] == ["bucket"]
            async with await bucket.open("lines", "wb") as file:
                await file.write(b"one\ntwo\n")
            assert (await bucket.head("lines")).size == 8
            async with await bucket.open("lines", "r") as file:
                assert [line async for line in file] == ["one\n", "two\n"] and file.readable()
            with pytest.raises(KeyError):
                async with await bucket.open("lines", "w") as file:
                    await file.write("other")
                    raise KeyError
            upload = await bucket.upload("parts")
            await upload.put(1, b"part")
            await upload.complete()
            assert await bucket.get("parts") == b"part"
            with pytest.raises(FileNotFoundError):
                await bucket.get("none")
            assert "put" in dir(bucket) and bucket.put.__doc__ == koine.Bucket.put.__doc__
        with pytest.raises(koine.errors.Closed):
            await bucket.get("0007")
        session = await koine.aio.connect(store)
        assert await session.bucket("bucket").get("lines") == b"one\ntwo\n"
        await session.close()

    asyncio.run(work())


def test_fsspec_asynchronously(held, store):
    held.bucket("data").put("key", b"bytes")

    async def work():
        fs = fsspec.filesystem("koine", store=str(store), asynchronous=True)
        assert fs.async_impl and fs.asynchronous and await fs._cat_file("data/key") == b"bytes"
        await fs._pipe_file("data/other", b"1")
        assert await fs._ls("data", detail=False) == ["data/key", "data/other"] and await fs._exists("data/key")
        assert await fs._cat(["data/key", "data/other"]) == {"data/key": b"bytes", "data/other": b"1"}
        fs.session.close()

    asyncio.run(work())


@pytest.mark.parametrize("mode", ["w+", "x+"])
def test_new_files_are_read_and_written_anywhere(bucket, mode):
    with bucket.open("key", f"{mode}b", content_type="text/plain") as file:
        assert (file.readable(), file.writable(), file.seekable(), file.mode) == (True, True, True, f"{mode[0]}b+")
        assert file.write(b"0123456789") == 10 and file.size == 10 and file.info is None
        file.seek(2)
        assert file.write(b"two") == 3 and file.tell() == 5 and file.read(2) == b"56"
        file.seek(-1, os.SEEK_END)
        assert file.read() == b"9" and file.truncate(12) == 12 and file.truncate(11) == 11
        file.flush()
        assert "key" not in bucket
    assert bucket["key"] == b"01two56789\0" and file.info == bucket.head("key") and file.info.content_type == "text/plain"
    with pytest.raises(KeyError):
        with bucket.open("given-up", f"{mode}b") as file:
            file.write(b"1")
            raise KeyError
    assert "given-up" not in bucket
    if mode == "x+":
        with pytest.raises(FileExistsError):
            bucket.open("key", "x+b")
    with bucket.open("text", mode) as file:
        file.write("über\nuns\n")
        file.seek(0)
        assert file.readline() == "über\n"
    assert bucket["text"] == "über\nuns\n".encode()
    with pytest.raises(TypeError, match="colour"):
        bucket.open("new", f"{mode}b", colour="blue")
    with pytest.warns(RuntimeWarning, match="given up"):
        bucket.open("forgotten", f"{mode}b")


def test_appending_and_reading(bucket):
    with bucket.open("log", "a+b") as file:
        file.write(b"one\n")
        file.seek(0)
        assert file.read() == b"one\n"
    with bucket.open("log", "a+b") as file:
        file.seek(0)
        assert file.readline() == b"one\n"
        file.seek(0)
        file.write(b"two\n")
        file.flush()
        assert bucket["log"] == b"one\ntwo\n" and file.tell() == 8
        file.seek(1)
        assert file.read(2) == b"ne"
        file.write(b"three\n")
    assert bucket["log"] == b"one\ntwo\nthree\n"
