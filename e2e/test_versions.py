"""A bucket that keeps versions, over S3: what stands under a key is what AWS shows, and each version is there by its id."""

import json

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
        s3.put_bucket_versioning(Bucket="kept", VersioningConfiguration={"Status": "Enabled"})
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


def headers(error):
    return error.value.response["ResponseMetadata"]["HTTPHeaders"]


def test_versions_are_enabled_and_suspended_and_never_none_again(versioned):
    s3 = versioned
    first = s3.put_object(Bucket="kept", Key="s", Body=b"first")["VersionId"]
    s3.put_bucket_versioning(Bucket="kept", VersioningConfiguration={"Status": "Suspended"})
    assert s3.get_bucket_versioning(Bucket="kept")["Status"] == "Suspended"
    assert "VersionId" not in s3.put_object(Bucket="kept", Key="s", Body=b"null")
    s3.put_object(Bucket="kept", Key="s", Body=b"null again")
    told = s3.list_object_versions(Bucket="kept", Prefix="s")["Versions"]
    assert [(v["VersionId"], v["IsLatest"]) for v in told] == [("null", True), (first, False)]
    marker = s3.delete_object(Bucket="kept", Key="s")
    assert marker["DeleteMarker"] is True and body(s3, "s", VersionId=first) == b"first"
    for wrong, refused in (({}, "IllegalVersioningConfigurationException"), ({"Status": "Never"}, "MalformedXML")):
        assert code(s3.put_bucket_versioning, VersioningConfiguration=wrong) == refused
    guarded = {"Status": "Enabled", "MFADelete": "Enabled"}
    assert code(s3.put_bucket_versioning, VersioningConfiguration=guarded, MFA="serial 123456") == "NotImplemented"
    assert s3.get_bucket_versioning(Bucket="kept")["Status"] == "Suspended"
    with pytest.raises(ClientError) as told:
        s3.put_bucket_versioning(Bucket="not-there", VersioningConfiguration={"Status": "Enabled"})
    assert told.value.response["Error"]["Code"] == "NoSuchBucket"


def test_a_delete_marker_says_what_it_is(versioned):
    s3 = versioned
    put = s3.put_object(Bucket="kept", Key="m", Body=b"x")["VersionId"]
    marker = s3.delete_object(Bucket="kept", Key="m")["VersionId"]
    for call in (s3.get_object, s3.head_object):
        with pytest.raises(ClientError) as told:
            call(Bucket="kept", Key="m")
        assert told.value.response["ResponseMetadata"]["HTTPStatusCode"] == 404
        assert (headers(told)["x-amz-delete-marker"], headers(told)["x-amz-version-id"]) == ("true", marker)
        with pytest.raises(ClientError) as told:
            call(Bucket="kept", Key="m", VersionId=marker)
        assert told.value.response["ResponseMetadata"]["HTTPStatusCode"] == 405
        assert (headers(told)["x-amz-delete-marker"], headers(told)["allow"]) == ("true", "DELETE")
        with pytest.raises(ClientError) as told:
            call(Bucket="kept", Key="never-there")
        assert "x-amz-delete-marker" not in headers(told)
    gone = s3.delete_object(Bucket="kept", Key="m", VersionId=marker)
    assert (gone["DeleteMarker"], gone["VersionId"]) == (True, marker)
    assert s3.head_object(Bucket="kept", Key="m")["VersionId"] == put
    assert s3.get_object_attributes(Bucket="kept", Key="m", ObjectAttributes=["ETag"])["VersionId"] == put


def test_copies_and_parts_of_older_versions(versioned):
    s3 = versioned
    old = s3.put_object(Bucket="kept", Key="big", Body=bytes(5 << 20) + b"old")["VersionId"]
    s3.put_object(Bucket="kept", Key="big", Body=b"new")
    source = {"Bucket": "kept", "Key": "big", "VersionId": old}
    copied = s3.copy_object(Bucket="kept", Key="copy", CopySource=source)
    assert copied["CopySourceVersionId"] == old and len(copied["VersionId"]) == 16
    assert body(s3, "copy").endswith(b"old")
    upload = s3.create_multipart_upload(Bucket="kept", Key="joined")["UploadId"]
    place = {"Bucket": "kept", "Key": "joined", "UploadId": upload}
    one = s3.upload_part_copy(**place, PartNumber=1, CopySource=source)
    assert one["CopySourceVersionId"] == old
    two = s3.upload_part_copy(**place, PartNumber=2, CopySource=source, CopySourceRange=f"bytes={5 << 20}-{(5 << 20) + 2}")
    three = s3.upload_part_copy(**place, PartNumber=2, CopySource={"Bucket": "kept", "Key": "big"})
    assert two["CopyPartResult"]["ETag"] != three["CopyPartResult"]["ETag"]
    two = s3.upload_part_copy(**place, PartNumber=2, CopySource=source, CopySourceRange=f"bytes={5 << 20}-{(5 << 20) + 2}")
    wrong = {"Bucket": "kept", "Key": "big", "VersionId": "0" * 16}
    with pytest.raises(ClientError) as told:
        s3.upload_part_copy(**place, PartNumber=3, CopySource=wrong)
    assert told.value.response["Error"]["Code"] == "NoSuchVersion"
    parts = [{"PartNumber": n, "ETag": part["CopyPartResult"]["ETag"]} for n, part in ((1, one), (2, two))]
    done = s3.complete_multipart_upload(**place, MultipartUpload={"Parts": parts})
    assert body(s3, "joined", VersionId=done["VersionId"]) == bytes(5 << 20) + b"oldold"
    # The bytes stay when what they came from goes.
    s3.delete_object(Bucket="kept", Key="big", VersionId=old)
    assert body(s3, "joined") == bytes(5 << 20) + b"oldold"


def test_rclone_and_mc_see_versions(tmp_path):
    with Server(tmp_path / "store.koine") as server:
        rclone, mc = clients.Rclone(server.url, tmp_path), clients.Mc(server.url, tmp_path)
        mc("mb", "koine/kept")
        assert "un-versioned" in mc("version", "info", "koine/kept").stdout
        mc("version", "enable", "koine/kept")
        assert "enabled" in mc("version", "info", "koine/kept").stdout
        assert rclone("backend", "versioning", "koine:kept").stdout.strip() == "Enabled"
        for text in ("one", "two"):
            (tmp_path / "file").write_text(text)
            mc("cp", tmp_path / "file", "koine/kept/a")
        mc("rm", "koine/kept/a")
        lines = [json.loads(line) for line in mc("ls", "--json", "--versions", "koine/kept").stdout.splitlines()]
        assert sorted(line["size"] for line in lines) == [0, 3, 3] and sum(bool(line.get("isDeleteMarker")) for line in lines) == 1
        assert "a-v" in rclone("lsf", "--s3-versions", "koine:kept").stdout
        mc("undo", "koine/kept/a")
        assert mc("cat", "koine/kept/a").stdout == "two"
        rclone("backend", "cleanup-hidden", "koine:kept")
        mc("version", "suspend", "koine/kept")
        assert "suspended" in mc("version", "info", "koine/kept").stdout
        assert server.stop() == 0
