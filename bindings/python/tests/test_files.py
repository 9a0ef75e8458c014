"""Objects as files: modes, positions, text, and what an exception or a forgotten file leaves."""

import gc
import io
import json
import os
import zipfile

import numpy
import pytest

import koine

BODY = b"".join(b"line %d\n" % n for n in range(50_000))


def test_reading(bucket):
    bucket.put("key", BODY)
    with bucket.open("key") as file:
        assert isinstance(file, io.BufferedIOBase) and isinstance(file, koine.File)
        assert (file.readable(), file.seekable(), file.writable(), file.mode, file.name) == (
            True, True, False, "rb", "koine://bucket/key")
        assert file.info == bucket.head("key") and file.size == len(BODY)
        assert [next(file) for _ in range(3)] == [b"line 0\n", b"line 1\n", b"line 2\n"]
        assert file.tell() == 21
        assert file.peek(1).startswith(b"line 3\n") and file.tell() == 21
        into = bytearray(300_000)
        assert file.readinto(into) == 300_000 and into == BODY[21:300_021]
        for offset, whence, at in [(5, 0, 5), (5, 1, 10), (-10, 2, len(BODY) - 10), (100, 2, len(BODY) + 100)]:
            assert file.seek(offset, whence) == at == file.tell()
        assert file.read() == b"" == file.read(1)
        file.seek(-7, os.SEEK_END)
        assert file.read() == BODY[-7:]
        for wrong in [(-1, 0), (0, 5)]:
            with pytest.raises(ValueError):
                file.seek(*wrong)
        with pytest.raises(ValueError):
            file.seek(-len(BODY) - 1, 2)
        with pytest.raises(io.UnsupportedOperation):
            file.write(b"no")
    assert io.BufferedReader(bucket.open("key")).read() == BODY


def test_a_reader_keeps_its_bytes(bucket):
    bucket.put("key", BODY)
    with bucket.open("key") as file:
        bucket.put("key", b"other")
        bucket.delete("key")
        assert file.read() == BODY


def test_writing(bucket):
    with bucket.open("key", "wb", content_type="text/plain", metadata={"a": "b"}) as file:
        assert file.write(BODY) == len(BODY)
        assert file.write(memoryview(b"tail")) == 4
        file.flush()
        assert file.tell() == len(BODY) + 4 == file.size
        assert "key" not in bucket and file.info is None
        for wrong in [lambda: file.read(), lambda: file.seek(0), lambda: file.readinto(bytearray(1))]:
            with pytest.raises(io.UnsupportedOperation):
                wrong()
    assert file.info == bucket.head("key")
    assert bucket.get("key") == BODY + b"tail"
    assert file.info.metadata == {"a": "b"} and file.info.content_type == "text/plain"


def test_a_new_file(bucket):
    with bucket.open("key", "xb") as first:
        second = bucket.open("key", "xb")
        first.write(b"first")
        second.write(b"second")
    with pytest.raises(FileExistsError):
        second.close()
    assert second.closed
    with pytest.raises(FileExistsError):
        bucket.open("key", "xb")
    assert bucket.get("key") == b"first"


@pytest.mark.parametrize("mode", ["wb", "w"])
def test_an_exception_gives_up_what_was_written(bucket, mode):
    bucket.put("key", b"old")
    with pytest.raises(KeyError):
        with bucket.open("key", mode) as file:
            file.write("new" if mode == "w" else b"new")
            raise KeyError
    assert file.closed
    file.close()
    assert bucket.get("key") == b"old"


@pytest.mark.parametrize("mode", ["wb", "w"])
def test_a_forgotten_file_leaves_nothing(bucket, mode):
    file = bucket.open("key", mode)
    file.write("new" if mode == "w" else b"new")
    with pytest.warns(RuntimeWarning, match="given up"):
        del file
        gc.collect()
    assert "key" not in bucket


def test_closed_handles_refuse(session, bucket):
    bucket.put("key", BODY)
    file = bucket.open("key")
    assert not file.closed
    file.close()
    file.close()
    assert file.closed
    for call in [file.read, file.readline, file.tell, file.readable, file.flush, lambda: file.seek(0),
                 lambda: file.readinto(bytearray(1)), lambda: file.size, lambda: file.write(b"")]:
        with pytest.raises(ValueError):
            call()
    writer = bucket.open("other", "wb")
    writer.close()
    with pytest.raises(ValueError):
        writer.write(b"late")
    session.close()
    session.close()
    assert session.closed
    for call in [lambda: bucket.get("key"), lambda: list(bucket), lambda: session.create_bucket("more")]:
        with pytest.raises(koine.errors.Closed):
            call()


def test_text(bucket):
    with bucket.open("key", "w") as file:
        print("über", "uns", file=file)
        json.dump([1, 2], file)
    assert bucket.get("key") == "über uns\n[1, 2]".encode()
    with bucket.open("key", "rt") as file:
        assert file.readline() == "über uns\n" and json.load(file) == [1, 2]
    with bucket.open("key", "w", encoding="latin-1", newline="\r\n") as file:
        file.write("über\n")
    assert bucket.get("key") == b"\xfcber\r\n"
    for wrong in ["q", "rw", "rbt", "", "b", "+", "w++"]:
        with pytest.raises(ValueError):
            bucket.open("key", wrong)


def test_open_by_address(store, monkeypatch):
    with koine.connect(store, create=True, size=64 << 20) as session:
        session.create_bucket("bucket")
        with koine.open("koine://bucket/a/b", "w", store=session) as file:
            file.write("text")
        # The store is open in this process already: it is shared.
        with koine.open("koine://bucket/a/b", "r", store=str(store)) as file:
            assert file.read() == "text"
        monkeypatch.setenv("KOINE_STORE", str(store))
        with koine.open("koine://bucket/a/b") as file:
            assert file.read() == b"text"
    monkeypatch.delenv("KOINE_STORE")
    for wrong in ["bucket/a", "koine://bucket", "koine://bucket/", "koine:///a"]:
        with pytest.raises(koine.errors.InvalidArgument):
            koine.open(wrong, store=store)
    with pytest.raises(koine.errors.InvalidArgument, match="KOINE_STORE"):
        koine.open("koine://bucket/a")


def test_editing(bucket):
    before = bucket.put("key", b"0123456789")
    with bucket.open("key", "r+b") as file:
        assert (file.readable(), file.writable(), file.seekable(), file.mode) == (True, True, True, "rb+")
        file.seek(3)
        file.write(b"three")
        assert file.tell() == 8 and file.read() == b"89"
        file.seek(0)
        assert file.read() == b"012three89" and bucket.get("key") == b"0123456789"
        file.flush()
        assert bucket.get("key") == b"012three89"
        assert file.truncate(4) == 4
        file.seek(6)
        file.write(b"!")
    assert bucket.get("key") == b"012t\0\0!"
    assert file.info == bucket.head("key") and file.info.id == before.id
    with pytest.raises(KeyError):
        with bucket.open("key", "r+b") as file:
            file.write(b"lost")
            raise KeyError
    assert bucket.get("key") == b"012t\0\0!"
    file = bucket.open("key", "r+b")
    file.write(b"x")
    bucket.put("key", b"another")
    with pytest.raises(koine.errors.Conflict):
        file.flush()
    file.discard()
    assert bucket.get("key") == b"another"
    with pytest.raises(FileNotFoundError):
        bucket.open("none", "r+b")


def test_appending(bucket):
    with bucket.open("log", "a") as file:
        print("one", file=file)
        file.flush()
        print("two", file=file)
        assert bucket.get("log") == b"one\n"
    with bucket.open("log", "ab") as file:
        assert file.tell() == 8 and not file.seekable() and not file.readable()
        file.write(b"three\n")
    assert bucket.get("log") == b"one\ntwo\nthree\n"


def test_what_cannot_seek_says_so(bucket):
    """Archives are written from front to back where `seek` raises."""
    with bucket.open("numbers.npz", "wb") as file:
        numpy.savez(file, first=numpy.arange(1000), second=numpy.ones(10))
    with bucket.open("numbers.npz") as file:
        read = numpy.load(file)
        assert (read["first"] == numpy.arange(1000)).all() and read["second"].sum() == 10
    with bucket.open("texts.zip", "wb") as file, zipfile.ZipFile(file, "w") as archive:
        archive.writestr("one", "1" * 1000)
        archive.writestr("two", "2")
    with bucket.open("texts.zip") as file, zipfile.ZipFile(file) as archive:
        assert archive.testzip() is None and archive.read("two") == b"2"
    for mode in ("wb", "xb", "ab"):
        file = bucket.open("new", mode)
        with pytest.raises(io.UnsupportedOperation):
            file.seek(0)
        file.discard()


def test_lines_and_small_reads_stay_together(bucket):
    bucket.put("key", BODY)
    with bucket.open("key") as file:
        assert list(file) == BODY.splitlines(keepends=True)
        file.seek(7)
        lines = iter(file)
        assert (next(lines), file.tell(), file.read(5), file.readline()) == (b"line 1\n", 14, b"line ", b"2\n")
        assert file.read(700_000) == BODY[21 : 700_021] and file.tell() == len(BODY[:700_021])
        file.seek(3)
        assert file.read() == BODY[3:]
    with pytest.raises(ValueError):
        next(lines)
    # Nothing else holds the file.
    assert sum(1 for _ in bucket.open("key")) == 50_000


def test_a_file_outlives_no_session(store):
    """Also where another session keeps the store open."""
    other = koine.connect(store, create=True, size=64 << 20)
    session = koine.connect(store)
    bucket = session.create_bucket("bucket")
    bucket.put("key", BODY)
    read, written = bucket.open("key"), bucket.open("new", "wb")
    written.write(b"bytes")
    session.close()
    for call in [lambda: read.read(), lambda: bucket.get("key"), lambda: written.write(b"more"), written.close]:
        with pytest.raises(koine.errors.Closed):
            call()
    read.close()
    assert "new" not in other.bucket("bucket")
    other.close()


def test_what_no_header_can_have_is_refused_when_it_is_set(bucket):
    for wrong in [{"content_type": "text/plain\r\nX: y"}, {"metadata": {"a name": "x"}}, {"metadata": {"a": "1", "A": "2"}},
                  {"metadata": {"a": "two\nlines"}}]:
        with pytest.raises(ValueError):
            bucket.put("key", b"", **wrong)
    assert "key" not in bucket
