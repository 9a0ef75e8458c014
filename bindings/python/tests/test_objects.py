"""Buckets and objects: every call, and the exceptions of each kind."""

import array
import datetime
import hashlib
import io
import os
import re
from pathlib import Path

import pytest

import koine


def test_buckets_come_and_go(session):
    assert list(session.buckets()) == []
    bucket = session.create_bucket("first")
    session.create_bucket("second")
    assert [each.name for each in session.buckets()] == ["first", "second"]
    assert [each.name for each in session.buckets("se")] == ["second"]
    assert [each.name for each in session.buckets(after="first")] == ["second"]
    info = bucket.info()
    assert (info.name, info == session.bucket_info("first"), bucket.exists()) == ("first", True, True)
    assert abs(info.created - datetime.datetime.now(datetime.timezone.utc)) < datetime.timedelta(hours=1)
    with pytest.raises(FileExistsError):
        session.create_bucket("first")
    bucket.put("key", b"")
    with pytest.raises(koine.errors.BucketNotEmpty) as caught:
        session.delete_bucket("first")
    assert isinstance(caught.value, OSError)
    bucket.delete("key")
    session.delete_bucket("first")
    assert not bucket.exists()
    with pytest.raises(FileNotFoundError):
        bucket.info()
    with pytest.raises(koine.errors.InvalidBucketName):
        session.create_bucket("No")


@pytest.mark.parametrize("length", [0, 1, 2, 65_537, 3_000_000])
def test_bytes_come_back(bucket, length):
    body = os.urandom(length)
    info = bucket.put("key", body)
    assert (info.key, info.size) == ("key", length)
    assert bucket.get("key") == body
    assert bucket.get("key", offset=length) == b"" == bucket.get("key", offset=1 << 60)
    assert bucket.get("key", offset=length // 2, length=10) == body[length // 2 :][:10]
    into = bytearray(length + 3)
    assert bucket.get_into("key", into) == length
    assert into == body + bytes(3)


def test_whatever_lends_its_bytes_is_taken(bucket):
    numbers = array.array("d", range(10))
    for data in [numbers, bytearray(b"abc"), memoryview(b"abcdef")[1:3], b""]:
        bucket.put("key", data)
        assert bucket.get("key") == bytes(memoryview(data).cast("B"))
    into = array.array("d", bytes(80))
    bucket.put("key", numbers)
    assert bucket.get_into("key", into) == 80
    assert into == numbers
    for refused in ["text", 7, memoryview(b"abcdef")[::2]]:
        with pytest.raises((TypeError, BufferError)):
            bucket.put("key", refused)
    with pytest.raises((TypeError, BufferError)):
        bucket.get_into("key", b"read only")
    assert bucket.get("key") == bytes(numbers)


def test_what_is_known_of_an_object(bucket):
    put = bucket.put("key", b"some bytes", content_type="text/plain", metadata={"color": "blue"}, cache_control=None)
    assert put == bucket.head("key")
    assert put.content_type == "text/plain" and put.cache_control is None
    assert put.metadata == {"color": "blue"}
    assert "-" in put.etag
    asked = bucket.put("md5", b"some bytes", md5=True)
    assert asked.etag == hashlib.md5(b"some bytes").hexdigest()
    assert list(put.checksums) == ["CRC64NVME"]
    assert put.created_ns == put.modified_ns and put.modified.tzinfo is datetime.timezone.utc
    assert put.modified.timestamp() == pytest.approx(put.modified_ns / 1e9, abs=1e-5)
    assert put.part_count is None and len(put.id) == 16
    assert "key" in bucket and "other" not in bucket
    with pytest.raises(TypeError):
        bucket.put("key", b"", colour="blue")
    with pytest.raises(koine.errors.MetadataTooLarge):
        bucket.put("key", b"", metadata={"a": "b" * 3000})


def test_conditions(bucket):
    info = bucket.put("key", b"one", if_absent=True)
    with pytest.raises(FileExistsError) as caught:
        bucket.put("key", b"two", if_absent=True)
    assert isinstance(caught.value, koine.errors.PreconditionFailed) and caught.value.errno
    with pytest.raises(FileNotFoundError):
        bucket.put("other", b"", if_present=True)
    bucket.put("key", b"two", if_match=info.etag)
    with pytest.raises(koine.errors.PreconditionFailed) as caught:
        bucket.put("key", b"three", if_match=info.etag)
    assert not isinstance(caught.value, OSError)
    with pytest.raises(koine.errors.PreconditionFailed):
        bucket.delete("key", if_match=info.etag)
    with pytest.raises(ValueError):
        bucket.put("key", b"", if_absent=True, if_match=info.etag)
    two = bucket.head("key")
    three = bucket.put("key", b"three", if_version=two.version)
    for late in [lambda: bucket.put("key", b"", if_version=two.version), lambda: bucket.delete("key", if_version=two.version)]:
        with pytest.raises(koine.errors.PreconditionFailed):
            late()
    assert bucket.get("key") == b"three" and bucket.delete("key", if_version=three.version)


def test_exceptions_say_what_is_wrong(session, bucket):
    cases = [
        (lambda: bucket.get("no"), koine.errors.NoSuchKey, FileNotFoundError),
        (lambda: session.bucket("nobody").get("no"), koine.errors.NoSuchBucket, FileNotFoundError),
        (lambda: bucket.put("x" * 1025, b""), koine.errors.KeyTooLong, ValueError),
        (lambda: bucket.put("", b""), koine.errors.InvalidArgument, ValueError),
        (lambda: bucket.copy("no", "to"), koine.errors.NoSuchKey, FileNotFoundError),
        (lambda: bucket.delete_many(["x" * 1025]), koine.errors.KeyTooLong, ValueError),
        (lambda: koine.connect("nothing:here"), koine.errors.InvalidArgument, ValueError),
    ]
    for call, kind, of_python in cases:
        with pytest.raises(kind) as caught:
            call()
        assert isinstance(caught.value, koine.Error) and isinstance(caught.value, of_python)
        assert caught.value.kind == kind.__name__ and str(caught.value)


def test_every_kind_of_error_has_its_exception():
    rust = (Path(__file__).parents[3] / "crates/object/src/error.rs").read_text()
    kinds = re.findall(r"^    ([A-Z]\w+),$", rust[rust.index("pub enum ErrorKind") :].split("\n}\n")[0], re.MULTILINE)
    # What is interrupted is told as `TimedOut`, or by what the handler of a signal has raised.
    assert len(kinds) > 40 and [kind for kind in kinds if not hasattr(koine.errors, kind)] == ["Interrupted"]


def test_wrong_arguments_are_named(session, bucket):
    for call, said in [
            (lambda: bucket.put("key", "text"), "data"), (lambda: bucket.put("key", b"", metadata={"a": 1}), 'put.*"metadata"'),
            (lambda: bucket.put("key", b"", metadata="a"), 'put.*"metadata"'), (lambda: bucket.put("key", b"", content_type=5), '"content_type"'),
            (lambda: bucket.put("key", b"", if_version="x"), '"if_version"'), (lambda: bucket.put("key", b"", colour=1), 'put.*"colour"'),
            (lambda: bucket.get("key", offset=-1), "(?s)-1.*offset"), (lambda: bucket.get("key", length="x"), "length"),
            (lambda: bucket.get(5), "key"), (lambda: bucket.list(limit=-1), "limit"), (lambda: bucket.truncate("key", -1), "size"),
            (lambda: bucket.set(quota_bytes="x"), 'set.*"quota_bytes"'), (lambda: bucket.set(access_times="x"), 'set.*"access_times"'),
            (lambda: bucket.set_attributes("key", mode="x"), 'set_attributes.*"mode"'),
            (lambda: bucket.set_attributes("key", tags=5), 'set_attributes.*"tags"'),
            (lambda: session.set_user("ada", disabled="x"), 'set_user.*"disabled"'),
            (lambda: session.set_group("lab", policies=5), 'set_group.*"policies"'),
            (lambda: koine.connect("memory:", size=-1), "size"), (lambda: bucket.copy("a", 5), "to"),
            (lambda: bucket.compose([("a", -1, 2)], "to"), "sources")]:
        with pytest.raises((TypeError, ValueError), match=said):
            call()


def test_listings_are_walked(bucket):
    keys = sorted([f"a/{n:04}" for n in range(1500)] + [f"b/{n}" for n in range(3)] + ["c", "é"])
    for key in keys:
        bucket.put(key, key.encode())
    assert [each.key for each in bucket.list()] == keys == [each.key for each in bucket]
    assert [each.key for each in bucket.list("a/", after="a/1490", limit=5)] == [f"a/{n}" for n in range(1491, 1496)]
    folded = list(bucket.list(delimiter="/"))
    assert [each.key for each in folded] == ["a/", "b/", "c", "é"]
    assert [type(each) for each in folded] == [koine.Prefix, koine.Prefix, koine.ObjectSummary, koine.ObjectSummary]
    assert (folded[2].size, folded[2].etag) == (1, bucket.head("c").etag)
    page = bucket.list_page(delimiter="/", limit=3)
    assert ([each.key for each in page.objects], page.prefixes, page.next) == (["c"], ["a/", "b/"], "c")
    page = bucket.list_page(delimiter="/", after=page.next)
    assert ([each.key for each in page.objects], page.prefixes, page.next) == (["é"], [], None)
    assert bucket.delete_many(["c", "é", "no"]) == 2
    assert bucket.delete("b/1") and not bucket.delete("b/1")


def test_copies(session, bucket):
    other = session.create_bucket("other")
    bucket.put("from", b"bytes", metadata={"a": "b"}, content_type="text/plain")
    bucket.copy("from", "to")
    assert bucket.get("to") == b"bytes" and bucket.head("to").metadata == {"a": "b"}
    made = bucket.copy("from", "to", bucket="other", metadata={"c": "d"})
    assert other.head("to") == made and (made.metadata, made.content_type) == ({"c": "d"}, None)
    with pytest.raises(FileExistsError):
        bucket.copy("from", "to", if_absent=True)


def test_uploads(bucket):
    part = os.urandom(5 << 20)
    bucket.put("source", part + b"tail")
    upload = bucket.upload("key", content_type="x/y")
    assert [(each.key, each.id) for each in bucket.uploads()] == [("key", upload.id)]
    upload.put(2, part)
    upload.copy(1, "source", length=5 << 20)
    upload.copy(7, "source", offset=5 << 20)
    assert [(each.number, each.size) for each in upload.parts()] == [(1, 5 << 20), (2, 5 << 20), (7, 4)]
    info = upload.complete()
    assert (info.part_count, info.content_type) == (3, "x/y")
    assert bucket.get("key") == part + part + b"tail"
    dropped = bucket.upload("key")
    first = dropped.put(1, b"short")
    with pytest.raises(FileExistsError):
        dropped.complete([first], if_absent=True)
    dropped.abort()
    with pytest.raises(koine.errors.NoSuchUpload):
        dropped.put(1, b"late")
    assert bucket.uploads() == []


def test_files_of_the_system_come_and_go(bucket, tmp_path):
    body = os.urandom(2_500_000)
    (tmp_path / "from").write_bytes(body)
    bucket.put_file("path", tmp_path / "from", metadata={"a": "b"})
    bucket.put_file("file", io.BytesIO(body))
    assert bucket.get("path") == body == bucket.get("file")
    assert bucket.get_file("path", tmp_path / "to") == len(body)
    assert (tmp_path / "to").read_bytes() == body
    into = io.BytesIO()
    assert bucket.get_file("path", into, offset=100, length=2_000_000) == 2_000_000
    assert into.getvalue() == body[100:2_000_100]
    with pytest.raises(FileNotFoundError) as caught:
        bucket.put_file("none", tmp_path / "none")
    assert not isinstance(caught.value, koine.Error)

    class Broken:
        def read(self, size):
            raise KeyError("broken")

    with pytest.raises(KeyError):
        bucket.put_file("none", Broken())
    assert "none" not in bucket


def test_edits(session, bucket):
    assert bucket.append("key", b"one") == bucket.head("key")
    bucket.append("key", b", two")
    bucket.write_at("key", 10, bytearray(b"end"))
    assert bucket.get("key") == b"one, two\0\0end"
    assert bucket.truncate("key", 3).size == 3
    with pytest.raises(FileNotFoundError):
        bucket.append("none", b"", create=False)
    with pytest.raises(FileNotFoundError):
        bucket.truncate("none", 1)
    with pytest.raises(TypeError):
        bucket.append("key", b"", metadata={"a": "b"})
    other = session.create_bucket("other")
    bucket.put("second", b"2")
    one, two = bucket.exchange("key", "second")
    assert (one.size, two.size, bucket.get("key"), bucket.get("second")) == (1, 3, b"2", b"one")
    with pytest.raises(FileExistsError):
        bucket.move("key", "second", if_absent=True)
    bucket.move("second", "moved", bucket="other")
    assert "second" not in bucket and other.get("moved") == b"one"
    bucket.put("a", b"abcdef", metadata={"of": "a"})
    made = bucket.compose(["a", ("a", 1, 2), "key"], "composed", source_metadata=True)
    assert bucket.get("composed") == b"abcdefbc2" and made.metadata == {"of": "a"}


def test_prefixes(session, bucket):
    session.create_bucket("other")
    for n in range(3):
        bucket.put(f"a/{n}", b"")
    assert bucket.copy_prefix("a/", "b/") == 3 == bucket.copy_prefix("a/", "x/", bucket="other")
    bucket.move_prefix("a/", "c/")
    assert [each.key for each in bucket] == ["b/0", "b/1", "b/2", "c/0", "c/1", "c/2"]
    assert [each.key for each in session.bucket("other")] == ["x/0", "x/1", "x/2"]


def test_attributes(bucket):
    bucket.put("key", b"", metadata={"a": "1", "b": "2"})
    info = bucket.set_attributes("key", metadata={"a": None, "c": "3"}, tags={"color": "blue"}, mode=0o640)
    assert info == bucket.head("key")
    assert (info.metadata, info.tags, info.mode) == ({"b": "2", "c": "3"}, {"color": "blue"}, 0o640)
    assert bucket.set_attributes("key", metadata={"d": "4"}, replace=True).metadata == {"d": "4"}
    assert info.owner is None
    info = bucket.set_attributes("key", owner=(1000, 100), modified_ns=10**18)
    assert (info.owner, info.modified_ns, info.mode, info.etag) == ((1000, 100), 10**18, 0o640, bucket.head("key").etag)
    with pytest.raises(TypeError, match="colour"):
        bucket.set_attributes("key", colour="blue")


def test_versions(bucket):
    assert bucket.info().versioning == "never"
    bucket.put("key", b"null")
    bucket.set_versioning("enabled")
    assert bucket.info().versioning == "enabled"
    first = bucket.put("key", b"first")
    bucket.append("key", b" and more")
    assert bucket.delete("key")
    assert "key" not in bucket
    told = list(bucket.versions("k"))
    assert [(each.is_marker, each.size, each.newest) for each in told] == [
        (True, None, True),
        (False, 14, False),
        (False, 5, False),
        (False, 4, False),
    ]
    assert [each.version_id for each in told][2:] == [first.version_id, "null"] and told[1].etag and told[0].modified_ns
    assert bucket.get("key", version=first.version_id) == b"first"
    assert bucket.get("key", version="null", offset=1) == b"ull"
    assert bucket.head("key", version=told[1].version_id).size == 14
    with pytest.raises(FileNotFoundError):
        bucket.get("key", version="0" * 16)
    with pytest.raises(ValueError):
        bucket.get("key", version="1")
    with pytest.raises(ValueError):
        bucket.delete("key", version="null", if_match="x")
    assert bucket.delete("key", version=told[0].version_id)
    assert not bucket.delete("key", version=told[0].version_id)
    assert bucket.get("key") == b"first and more"
    bucket.set_versioning("suspended")
    assert bucket.put("key", b"again").version_id == "null"
    assert [each.version_id for each in bucket.versions()] == ["null", told[1].version_id, first.version_id]
    with pytest.raises(ValueError):
        bucket.set_versioning("never")


def test_snapshots_and_branches(session, bucket):
    bucket.put("key", b"old")
    made = bucket.snapshot("first")
    assert bucket.snapshots() == [made] and made.name == "first" and made.created_ns
    branch = bucket.branch("branch")
    bucket.put("key", b"new")
    branch.put("more", b"")
    assert session.bucket("bucket@first").get("key") == b"old" == branch.get("key")
    with pytest.raises(FileExistsError):
        bucket.snapshot("first")
    bucket.restore("first")
    assert bucket.get("key") == b"old" and "more" not in bucket
    bucket.delete_snapshot("first")
    assert bucket.snapshots() == []
    bucket.purge()
    assert list(bucket) == []


def test_objects_are_found_by_metadata_and_tags(bucket):
    for key, color in [("a/1", "red"), ("a/2", "blue"), ("b", "reddish")]:
        bucket.put(key, b"", metadata={"color": color})
    bucket.set_attributes("b", tags={"team": "x"})
    for with_index in (False, True):
        if with_index:
            assert bucket.add_index(metadata="color").whole
            assert [(index.of, index.name) for index in bucket.indexes()] == [("metadata", "color")]
        found = [(text, each.key) for text, each in bucket.search(metadata="color")]
        assert found == [("blue", "a/2"), ("red", "a/1"), ("reddish", "b")]
        keys = lambda **wanted: [each.key for _, each in bucket.search(metadata="color", **wanted)]
        assert keys(equal="red") == ["a/1"]
        assert keys(begins="red") == ["a/1", "b"]
        assert keys(begins="red", limit=1) == ["a/1"]
        assert keys(between=("a", "red")) == ["a/2", "a/1"]
        assert keys(prefix="b") == ["b"]
        assert [each.key for _, each in bucket.search(tag="team")] == ["b"]
    bucket.drop_index(metadata="color")
    assert bucket.indexes() == []
    with pytest.raises(koine.errors.NoSuchIndex):
        bucket.drop_index(metadata="color")
    with pytest.raises(ValueError):
        bucket.search()
    with pytest.raises(ValueError):
        bucket.search(tag="a", equal="b", begins="c")


def test_a_bucket_is_set_and_counted(bucket):
    info = bucket.set(metadata={"a": "b", "c": "d"}, tags={"team": "x"}, quota_bytes=1000, access_times="off")
    assert (info.metadata, info.tags, info.quota_bytes, info.access_times) == ({"a": "b", "c": "d"}, {"team": "x"}, 1000, "off")
    assert bucket.set(metadata={"a": None}, quota_bytes=None) == bucket.info()
    assert (bucket.info().metadata, bucket.info().quota_bytes) == ({"c": "d"}, None)
    bucket.put("key", b"12345")
    assert (bucket.usage()["objects"], bucket.usage()["bytes"]) == (1, 5)
    bucket.get("key")
    assert bucket.head("key").accessed is None
    bucket.set(access_times="relative")
    bucket.get("key")
    assert bucket.head("key").accessed >= bucket.head("key").modified
    with pytest.raises(TypeError):
        bucket.set(colour="blue")
    with pytest.raises(ValueError):
        bucket.set(access_times="always")
