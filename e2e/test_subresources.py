"""Sub-resources: what AWS answers on a fresh bucket is answered; what is not offered yet says so."""

import http.client

import pytest
from botocore.exceptions import ClientError

from harness.expect import refused
from test_signatures import request, signed


def test_defaults_of_a_fresh_bucket(s3, bucket):
    assert s3.get_bucket_location(Bucket=bucket)["LocationConstraint"] is None
    assert "Status" not in s3.get_bucket_versioning(Bucket=bucket)
    acl = s3.get_bucket_acl(Bucket=bucket)
    assert [grant["Permission"] for grant in acl["Grants"]] == ["FULL_CONTROL"]
    for call, code in [
        (s3.get_object_lock_configuration, "ObjectLockConfigurationNotFoundError"),
        (s3.get_bucket_policy, "NoSuchBucketPolicy"),
        (s3.get_bucket_tagging, "NoSuchTagSet"),
        (s3.get_bucket_lifecycle_configuration, "NoSuchLifecycleConfiguration"),
        (s3.get_bucket_cors, "NoSuchCORSConfiguration"),
        (s3.get_bucket_website, "NoSuchWebsiteConfiguration"),
        (s3.get_bucket_replication, "ReplicationConfigurationNotFoundError"),
        # Nothing is encrypted at rest yet, and nothing says that it is.
        (s3.get_bucket_encryption, "ServerSideEncryptionConfigurationNotFoundError"),
    ]:
        with refused(code, 404):
            call(Bucket=bucket)


def test_setting_them_is_refused_as_not_offered(s3, bucket):
    calls = [
        lambda: s3.put_bucket_cors(Bucket=bucket, CORSConfiguration={"CORSRules": []}),
        lambda: s3.delete_bucket_lifecycle(Bucket=bucket),
        lambda: s3.list_bucket_analytics_configurations(Bucket=bucket),
        lambda: s3.list_bucket_inventory_configurations(Bucket=bucket),
    ]
    s3.put_object(Bucket=bucket, Key="k", Body=b"x")
    for call in calls:
        with refused("NotImplemented", 501):
            call()


@pytest.mark.parametrize("method", ["GET", "PUT", "DELETE", "POST"])
@pytest.mark.parametrize("name", ["website", "replication", "analytics", "inventory", "torrent", "restore", "select"])
def test_no_sub_resource_falls_through_to_another_call(server, s3, bucket, method, name):
    s3.put_object(Bucket=bucket, Key="k", Body=b"stays")
    for path in [f"/{bucket}", f"/{bucket}/k"]:
        headers = signed(server, method, f"{path}?{name}")
        status, _ = request(server, method, f"{path}?{name}", headers)
        # 404: the configuration is not there, as on AWS.
        right = (400, 404, 405, 501) if method == "GET" else (400, 405, 501)
        assert status in right, (method, path, name, status)
    assert s3.get_object(Bucket=bucket, Key="k")["Body"].read() == b"stays"


@pytest.mark.parametrize("key", ["../k", "a/../../k", "..", "a/../../../etc/passwd"])
def test_keys_that_climb_above_their_start_are_refused(server, s3, bucket, key):
    path = f"/{bucket}/{key}"
    status, _ = request(server, "PUT", path, signed(server, "PUT", path, b"x"), b"x")
    assert status == 400


def test_keys_with_dots_that_do_not_climb_are_kept(s3, bucket):
    for key in ["a/../b", "./a", "a/./b", "...", "a/.."]:
        s3.put_object(Bucket=bucket, Key=key, Body=key.encode())
    for key in ["a/../b", "./a", "a/./b", "...", "a/.."]:
        assert s3.get_object(Bucket=bucket, Key=key)["Body"].read() == key.encode()


def test_malformed_xml_is_told(server, s3, bucket):
    upload = s3.create_multipart_upload(Bucket=bucket, Key="k")["UploadId"]
    for body in [b"", b"<", b"<a/>", b"<CompleteMultipartUpload>", b"\x00\xff", b"<!DOCTYPE a [<!ENTITY b 'c'>]><a>&b;</a>"]:
        path = f"/{bucket}/k?uploadId={upload}"
        status, text = request(server, "POST", path, signed(server, "POST", path, body), body)
        assert (status, "MalformedXML" in text) == (400, True), (body, text)
    with pytest.raises(ClientError):
        s3.get_object(Bucket=bucket, Key="k")


def test_huge_headers_are_refused(server, bucket):
    path = f"/{bucket}/k"
    headers = signed(server, "PUT", path, b"x", {"x-amz-meta-a": "y" * 100_000})
    try:
        status, _ = request(server, "PUT", path, headers, b"x")
    except (ConnectionError, http.client.HTTPException):
        return  # closed on us: refused as well
    assert status in (400, 431)


def test_too_much_metadata_is_refused(server, s3, bucket):
    with refused("MetadataTooLarge", 400):
        s3.put_object(Bucket=bucket, Key="k", Body=b"x", Metadata={"a": "y" * 2100})
