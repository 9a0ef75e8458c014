"""A bucket that keeps versions, over S3: what stands under a key is what AWS shows, and each version is there by its id."""

import pytest
from botocore.exceptions import ClientError

from harness import clients
from harness.server import Server, koine


@pytest.fixture
def versioned(tmp_path):
    """A bucket that keeps versions, with one object from before it did."""
    store = tmp_path / "store.koine"
    with Server(store) as server:
        s3 = clients.s3(server.url)
        s3.create_bucket(Bucket="kept")
        s3.put_object(Bucket="kept", Key="a", Body=b"null")
        koine("bucket", "versioning", "koine://kept", "enabled", "--store", store)
        yield s3
        koine("collect", "--store", store)
        assert server.stop() == 0
    koine("check", store)


def body(s3, key, **more):
    return s3.get_object(Bucket="kept", Key=key, **more)["Body"].read()


def code(call, **arguments):
    with pytest.raises(ClientError) as told:
        call(Bucket="kept", **arguments)
    return told.value.response["Error"]["Code"]


def test_versions_by_their_ids(versioned):
    s3 = versioned
    assert s3.get_bucket_versioning(Bucket="kept")["Status"] == "Enabled"
    assert "VersionId" not in s3.head_object(Bucket="kept", Key="a")
    one = s3.put_object(Bucket="kept", Key="a", Body=b"one")["VersionId"]
    two = s3.put_object(Bucket="kept", Key="a", Body=b"two")["VersionId"]
    assert one < two and s3.head_object(Bucket="kept", Key="a")["VersionId"] == two
    assert [body(s3, "a"), body(s3, "a", VersionId=one), body(s3, "a", VersionId="null")] == [b"two", b"one", b"null"]
    marker = s3.delete_object(Bucket="kept", Key="a")
    assert marker["DeleteMarker"] is True and marker["VersionId"] > two
    assert code(s3.get_object, Key="a") == "NoSuchKey"
    assert "Contents" not in s3.list_objects_v2(Bucket="kept")
    told = s3.list_object_versions(Bucket="kept")
    assert [(v["VersionId"], v["IsLatest"], v["Size"]) for v in told["Versions"]] == [
        (two, False, 3),
        (one, False, 3),
        ("null", False, 4),
    ]
    assert [(m["VersionId"], m["IsLatest"]) for m in told["DeleteMarkers"]] == [(marker["VersionId"], True)]
    pages = s3.get_paginator("list_object_versions").paginate(Bucket="kept", PaginationConfig={"PageSize": 1})
    ids = [v["VersionId"] for page in pages for v in page.get("DeleteMarkers", []) + page.get("Versions", [])]
    assert ids == [marker["VersionId"], two, one, "null"]
    assert code(s3.delete_bucket) == "BucketNotEmpty"
    # A copy of an older version onto the key itself brings it back.
    s3.copy_object(Bucket="kept", Key="a", CopySource={"Bucket": "kept", "Key": "a", "VersionId": one})
    assert body(s3, "a") == b"one"
    many = s3.delete_objects(
        Bucket="kept", Delete={"Objects": [{"Key": "a"}, {"Key": "a", "VersionId": two}, {"Key": "a", "VersionId": "0" * 16}]}
    )
    assert "Errors" not in many and any(each.get("DeleteMarker") for each in many["Deleted"])
    assert code(s3.get_object, Key="a", VersionId=two) == "NoSuchVersion"
    assert code(s3.get_object, Key="a", VersionId="none") == "InvalidArgument"
    for each in s3.list_object_versions(Bucket="kept")["DeleteMarkers"]:
        s3.delete_object(Bucket="kept", Key="a", VersionId=each["VersionId"])
    assert body(s3, "a") == b"one"
    for each in s3.list_object_versions(Bucket="kept")["Versions"]:
        s3.delete_object(Bucket="kept", Key="a", VersionId=each["VersionId"])
    s3.delete_bucket(Bucket="kept")
