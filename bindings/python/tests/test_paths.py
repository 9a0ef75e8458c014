"""Buckets as dictionaries, keys by paths, and paths that are objects."""

import urllib.error
import urllib.request
from pathlib import PurePosixPath, PureWindowsPath

import pytest

import koine


def test_a_bucket_is_a_dictionary_of_bytes(bucket):
    bucket["a"] = b"1"
    bucket["a"] = bytearray(b"2")
    assert bucket["a"] == b"2" and "a" in bucket
    del bucket["a"]
    for call in (lambda: bucket["a"], lambda: bucket.__delitem__("a")):
        for kind in (KeyError, FileNotFoundError, koine.errors.NoSuchKey):
            with pytest.raises(kind, match="'a'|\"a\""):
                call()


def test_keys_may_be_paths(bucket):
    key = PurePosixPath("folder") / "key"
    bucket.put(key, b"bytes")
    assert bucket["folder/key"] == bucket.get(PureWindowsPath("folder\\key")) == b"bytes" and key in bucket
    bucket.copy(key, PurePosixPath("other"))
    bucket.compose([key, (PurePosixPath("other"), 0, 2)], PurePosixPath("both"))
    assert bucket["both"] == b"bytesby"
    with bucket.open(PurePosixPath("file"), "wb") as file:
        file.write(b"1")
    assert bucket.delete_many([key, "other"]) == 2
    for wrong in (1, None, b"key"):
        with pytest.raises(TypeError, match="key"):
            bucket.get(wrong)


def test_deleting_many(bucket):
    keys = [f"{n:05}" for n in range(2500)]
    for key in keys:
        bucket.put(key, b"")
    assert bucket.delete_many(key for key in keys[:2400]) == 2400
    assert bucket.delete_many(each.key for each in bucket) == 100 and list(bucket) == []
    assert bucket.delete_many(iter(())) == 0
    with pytest.raises(TypeError, match="delete\\(\\)"):
        bucket.delete_many("abc")
    with pytest.raises(ZeroDivisionError):
        bucket.delete_many(str(1 // n) for n in (1, 0))


def test_paths(bucket):
    notes = bucket / "notes"
    hello = notes / "2024" / "hello.txt"
    assert (hello.key, hello.name, hello.stem, hello.suffix, hello.parts) == (
        "notes/2024/hello.txt", "hello.txt", "hello", ".txt", ("notes", "2024", "hello.txt"))
    assert str(hello) == "koine://bucket/notes/2024/hello.txt" and hello.parent.parent == notes
    assert hello.with_suffix(".md").name == "hello.md" and hello.with_name("x") == notes / "2024" / "x"
    assert notes.joinpath("2024", PurePosixPath("hello.txt")) == hello and len({hello, notes / "2024/hello.txt"}) == 1
    assert not hello.exists() and not notes.is_dir() and notes.parent == koine.Path(bucket)
    assert hello.write_text("über\n") == 5 and hello.read_text() == "über\n" and hello.stat().size == 6
    assert notes.is_dir() and not notes.is_file() and hello.is_file() and hello.exists()
    (notes / "top").write_bytes(b"1")
    (notes / "2025/other.txt").touch()
    assert [each.name for each in notes.iterdir()] == ["2024", "2025", "top"]
    assert [each.name for each in koine.Path(bucket).iterdir()] == ["notes"]
    assert [each.key for each in notes.glob("*/*.txt")] == ["notes/2024/hello.txt", "notes/2025/other.txt"]
    assert [each.name for each in koine.Path(bucket).rglob("[!t]*.txt")] == ["hello.txt", "other.txt"]
    assert [each.name for each in notes.glob("t?p")] == ["top"]
    with hello.open("a") as file:
        file.write("more")
    assert hello.open().readline() == "über\n"
    moved = hello.rename(notes / "moved")
    assert moved.read_text() == "über\nmore" and not hello.exists()
    with pytest.raises(FileExistsError):
        moved.rename("notes/top")
    assert moved.replace("notes/top").read_text() == "über\nmore"
    (notes / "top").unlink()
    (notes / "top").unlink(missing_ok=True)
    for call in ((notes / "top").unlink, (notes / "top").read_bytes, (notes / "top").stat):
        with pytest.raises(FileNotFoundError):
            call()
    with pytest.raises(FileExistsError):
        (notes / "2025/other.txt").touch(exist_ok=False)


def test_versions_are_opened_and_fetched(bucket, tmp_path):
    bucket.set_versioning("enabled")
    old = bucket.put("key", b"old one\nline")
    bucket.put("key", b"new")
    with bucket.open("key", version=old.version_id) as file:
        assert file.readline() == b"old one\n" and file.info.version_id == old.version_id
    with bucket.open("key", "rt", version=old.version_id) as file:
        assert file.read() == "old one\nline"
    assert bucket.get_file("key", tmp_path / "file", version=old.version_id) == 12
    assert (tmp_path / "file").read_bytes() == b"old one\nline"
    for mode in ("wb", "r+b", "ab", "w+b", "a+b"):
        with pytest.raises(ValueError, match="version"):
            bucket.open("key", mode, version=old.version_id)
    with pytest.raises(koine.errors.NoSuchVersion):
        bucket.open("key", version="0123456789abcdef")


def test_progress_is_told(bucket, tmp_path):
    (tmp_path / "file").write_bytes(bytes(3_000_000))
    told = []
    bucket.put_file("key", tmp_path / "file", progress=lambda done, total: told.append((done, total)))
    assert told == [(1 << 20, 3_000_000), (2 << 20, 3_000_000), (3_000_000, 3_000_000)]
    told.clear()
    with open(tmp_path / "file", "rb") as file:
        bucket.put_file("key", file, progress=lambda *each: told.append(each))
    assert told[-1] == (3_000_000, None) and len(told) == 3
    told.clear()
    bucket.get_file("key", tmp_path / "again", progress=lambda *each: told.append(each), offset=1_000_000)
    assert told == [(1 << 20, 2_000_000), (2_000_000, 2_000_000)]

    def gives_up(done, total):
        raise KeyError(done)

    with pytest.raises(KeyError):
        bucket.put_file("other", tmp_path / "file", progress=gives_up)
    assert "other" not in bucket


def test_presigned_addresses(server, store):
    with koine.connect(store) as session:
        session.create_group("lab")
        session.create_user("lab", "ada")
        key, secret = session.create_key("ada")
        session.create_bucket("hers")
        session.bucket("hers").put("a b/ü+%~", b"bytes", content_type="text/plain")
        session.set_user("ada", administrator=True)
        given = {"endpoint": server.s3, "access_key": key, "secret": secret}
        address = (session.bucket("hers") / "a b/ü+%~").presign(**given)
        with urllib.request.urlopen(address) as answer:
            assert answer.read() == b"bytes" and answer.headers["Content-Type"] == "text/plain"
        address = koine.presign("hers", "new", "put", seconds=60, headers={"Content-Type": "text/csv"}, **given)
        request = urllib.request.Request(address, b"1,2", {"Content-Type": "text/csv"}, method="PUT")
        with urllib.request.urlopen(request):
            assert session.bucket("hers").head("new").content_type == "text/csv"
        with pytest.raises(urllib.error.HTTPError, match="403"):
            urllib.request.urlopen(address.replace("new", "other"), b"1,2")
    for wrong, said in [
            ({"method": "post"}, "method"), ({"seconds": 0}, "seconds"), ({"seconds": 604801}, "seconds"),
            ({"endpoint": "127.0.0.1:9000"}, "endpoint"), ({"secret": ""}, "secret.*AWS_SECRET_ACCESS_KEY"), ({"key": ""}, "key")]:
        with pytest.raises(koine.errors.InvalidArgument, match=said):
            koine.presign(**{"bucket": "hers", "key": "key", **given, **wrong})
