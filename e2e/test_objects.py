"""Buckets and objects through boto3: make, put, get, head, range, copy, delete."""

import hashlib
import uuid

import pytest

from harness import clients, seeds
from harness.expect import refused


def fresh_name():
    return f"n-{uuid.uuid4().hex[:16]}"


def test_buckets_are_made_listed_and_removed(s3):
    name = fresh_name()
    s3.create_bucket(Bucket=name)
    s3.head_bucket(Bucket=name)
    assert name in [bucket["Name"] for bucket in s3.list_buckets()["Buckets"]]
    s3.put_object(Bucket=name, Key="a", Body=b"1")
    with refused("BucketNotEmpty", 409):
        s3.delete_bucket(Bucket=name)
    s3.delete_object(Bucket=name, Key="a")
    s3.delete_bucket(Bucket=name)
    assert name not in [bucket["Name"] for bucket in s3.list_buckets()["Buckets"]]
    with refused("404", 404):
        s3.head_bucket(Bucket=name)
    with refused("NoSuchBucket", 404):
        s3.put_object(Bucket=name, Key="a", Body=b"1")
    with refused("NoSuchBucket", 404):
        s3.list_objects_v2(Bucket=name)
    with refused("NoSuchBucket", 404):
        s3.delete_bucket(Bucket=name)


@pytest.mark.parametrize("name", ["Upper", "ab", "a..b", "192.168.5.4", "-a-b", "a_b", "x" * 64])
def test_names_that_are_no_bucket_names_are_refused(s3, name):
    with refused("InvalidBucketName", 400):
        s3.create_bucket(Bucket=name)


@pytest.mark.parametrize("size", [0, 1, 1023, 1024, 4096, 32 << 10, (32 << 10) + 1, 1 << 20, (5 << 20) + 17])
def test_an_object_comes_back_as_it_went_in(s3, bucket, size):
    body = seeds.blob(1, f"size {size}", size)
    put = s3.put_object(Bucket=bucket, Key="k", Body=body, ContentType="text/x-test", Metadata={"one": "1", "two": "b c"})
    assert put["ETag"] == f'"{hashlib.md5(body).hexdigest()}"'
    head = s3.head_object(Bucket=bucket, Key="k")
    got = s3.get_object(Bucket=bucket, Key="k")
    assert got["Body"].read() == body
    for answer in (head, got):
        assert answer["ContentLength"] == size
        assert answer["ContentType"] == "text/x-test"
        assert answer["Metadata"] == {"one": "1", "two": "b c"}
        assert answer["ETag"] == put["ETag"]
    assert head["LastModified"] == got["LastModified"]


def test_empty_and_full_objects_take_turns_on_one_connection(server, bucket):
    # botocore misreads the answer after one that came in place of a 100 Continue, unless the connection ended with it.
    client = clients.s3(server.url, retries={"max_attempts": 0}, max_pool_connections=1, read_timeout=20)
    for size in (0, 900_000, 0, 10, 0, 0, 4096):
        client.put_object(Bucket=bucket, Key=f"turn-{size}", Body=b"x" * size)
        assert client.head_object(Bucket=bucket, Key=f"turn-{size}")["ContentLength"] == size


def test_a_put_replaces_the_whole_object(s3, bucket):
    s3.put_object(Bucket=bucket, Key="k", Body=b"first and longer", Metadata={"a": "1"})
    s3.put_object(Bucket=bucket, Key="k", Body=b"second")
    got = s3.get_object(Bucket=bucket, Key="k")
    assert got["Body"].read() == b"second"
    assert got["Metadata"] == {}


def test_what_is_not_there_is_told(s3, bucket):
    with refused("NoSuchKey", 404):
        s3.get_object(Bucket=bucket, Key="k")
    with refused("404", 404):
        s3.head_object(Bucket=bucket, Key="k")
    # Deleting what is not there succeeds, as on AWS.
    assert s3.delete_object(Bucket=bucket, Key="k")["ResponseMetadata"]["HTTPStatusCode"] == 204


def test_deleted_is_gone(s3, bucket):
    s3.put_object(Bucket=bucket, Key="k", Body=b"x")
    s3.delete_object(Bucket=bucket, Key="k")
    with refused("NoSuchKey", 404):
        s3.get_object(Bucket=bucket, Key="k")


def test_many_are_deleted_at_once(s3, bucket):
    keys = [f"d/{number:04} <&>é" for number in range(300)]
    for key in keys[::30]:
        s3.put_object(Bucket=bucket, Key=key, Body=b"x")
    s3.put_object(Bucket=bucket, Key="stays", Body=b"x")
    done = s3.delete_objects(Bucket=bucket, Delete={"Objects": [{"Key": key} for key in keys]})
    assert sorted(entry["Key"] for entry in done["Deleted"]) == sorted(keys)
    assert "Errors" not in done
    quiet = s3.delete_objects(Bucket=bucket, Delete={"Objects": [{"Key": "nothing"}], "Quiet": True})
    assert "Deleted" not in quiet and "Errors" not in quiet
    assert [entry["Key"] for entry in s3.list_objects_v2(Bucket=bucket)["Contents"]] == ["stays"]


def test_more_than_1000_at_once_are_refused(s3, bucket):
    with refused("MalformedXML", 400):
        s3.delete_objects(Bucket=bucket, Delete={"Objects": [{"Key": f"{number}"} for number in range(1001)]})


SIZE = 3_000_000


@pytest.fixture(scope="module")
def large(s3):
    name = fresh_name()
    body = seeds.blob(2, "ranges", SIZE)
    s3.create_bucket(Bucket=name)
    s3.put_object(Bucket=name, Key="large", Body=body)
    return name, body


@pytest.mark.parametrize(
    "text, start, end",
    [
        ("bytes=0-0", 0, 1),
        ("bytes=0-99", 0, 100),
        ("bytes=4095-4096", 4095, 4097),
        ("bytes=1000000-1999999", 1_000_000, 2_000_000),
        ("bytes=2999999-", SIZE - 1, SIZE),
        ("bytes=2999990-9999999", SIZE - 10, SIZE),
        ("bytes=-1", SIZE - 1, SIZE),
        ("bytes=-100000", SIZE - 100_000, SIZE),
        ("bytes=-99999999", 0, SIZE),
    ],
)
def test_ranges_give_what_they_name(s3, large, text, start, end):
    name, body = large
    got = s3.get_object(Bucket=name, Key="large", Range=text)
    assert got["ResponseMetadata"]["HTTPStatusCode"] == 206
    assert got["ContentRange"] == f"bytes {start}-{end - 1}/{SIZE}"
    assert got["Body"].read() == body[start:end]


@pytest.mark.parametrize("text", ["bytes=3000000-", "bytes=3000001-4000000", "bytes=-0"])
def test_ranges_outside_the_object_are_refused(s3, large, text):
    with refused("InvalidRange", 416):
        s3.get_object(Bucket=large[0], Key="large", Range=text)


def test_reads_can_depend_on_the_etag_and_the_time(s3, bucket):
    put = s3.put_object(Bucket=bucket, Key="k", Body=b"x")
    modified = s3.head_object(Bucket=bucket, Key="k")["LastModified"]
    s3.get_object(Bucket=bucket, Key="k", IfMatch=put["ETag"])
    s3.get_object(Bucket=bucket, Key="k", IfNoneMatch='"0"')
    s3.get_object(Bucket=bucket, Key="k", IfUnmodifiedSince=modified)
    with refused("PreconditionFailed", 412):
        s3.get_object(Bucket=bucket, Key="k", IfMatch='"0"')
    with refused("304", 304):
        s3.get_object(Bucket=bucket, Key="k", IfNoneMatch=put["ETag"])
    with refused("304", 304):
        s3.head_object(Bucket=bucket, Key="k", IfModifiedSince=modified)


def test_copies_share_nothing_that_can_be_seen(s3, bucket):
    body = seeds.blob(3, "copy", 2_000_000)
    s3.put_object(Bucket=bucket, Key="from", Body=body, ContentType="text/x-a", Metadata={"a": "1"})
    copied = s3.copy_object(Bucket=bucket, Key="to/ü +%", CopySource={"Bucket": bucket, "Key": "from"})
    assert copied["CopyObjectResult"]["ETag"] == f'"{hashlib.md5(body).hexdigest()}"'
    s3.delete_object(Bucket=bucket, Key="from")
    got = s3.get_object(Bucket=bucket, Key="to/ü +%")
    assert got["Body"].read() == body
    assert (got["ContentType"], got["Metadata"]) == ("text/x-a", {"a": "1"})

    other = fresh_name()
    s3.create_bucket(Bucket=other)
    source = {"Bucket": bucket, "Key": "to/ü +%"}
    s3.copy_object(Bucket=other, Key="k", CopySource=source, MetadataDirective="REPLACE", Metadata={"b": "2"})
    got = s3.get_object(Bucket=other, Key="k")
    assert got["Body"].read() == body and got["Metadata"] == {"b": "2"}

    with refused("NoSuchKey", 404):
        s3.copy_object(Bucket=other, Key="x", CopySource={"Bucket": bucket, "Key": "nothing"})
    with refused("InvalidRequest", 400):
        s3.copy_object(Bucket=other, Key="k", CopySource={"Bucket": other, "Key": "k"})
    with refused("PreconditionFailed", 412):
        s3.copy_object(Bucket=other, Key="x", CopySource=source, CopySourceIfMatch='"0"')
