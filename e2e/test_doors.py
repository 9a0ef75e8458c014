"""What holds between doors: a change that one tells of is there for all others, and nobody waits for a stranger."""

import datetime
import http.client
import json
import urllib.parse

import pytest

from harness import clients
from harness.expect import refused
from harness.server import Server, koine

BUCKET = "bucket"


@pytest.fixture
def doors(tmp_path):
    """A served store: a client of S3, and the command line, which goes through the server's socket."""
    store = tmp_path / "store.koine"
    with Server(store) as server:
        s3 = clients.s3(server.url)
        s3.create_bucket(Bucket=BUCKET)

        def cli(command, *args):
            return koine(*command.split(), "--store", store, *args).stdout

        yield s3, cli
        assert server.stop() == 0
    koine("check", store)


def keys(s3):
    return [each["Key"] for each in s3.list_objects_v2(Bucket=BUCKET).get("Contents", [])]


def test_a_change_is_seen_at_every_door_by_the_next_call(doors, tmp_path):
    s3, cli = doors
    file = tmp_path / "file"
    for number in range(20):
        file.write_text(f"by the command line {number}")
        cli("cp", file, f"koine://{BUCKET}/mine")
        assert keys(s3) == ["mine"]
        assert s3.get_object(Bucket=BUCKET, Key="mine")["Body"].read().decode() == file.read_text()
        s3.put_object(Bucket=BUCKET, Key="theirs", Body=f"by S3 {number}".encode())
        assert cli("cat", f"koine://{BUCKET}/theirs") == f"by S3 {number}"
        cli("mv", f"koine://{BUCKET}/theirs", f"koine://{BUCKET}/moved")
        with refused("NoSuchKey", 404):
            s3.get_object(Bucket=BUCKET, Key="theirs")
        s3.delete_objects(Bucket=BUCKET, Delete={"Objects": [{"Key": "mine"}, {"Key": "moved"}]})
        assert cli("ls", f"koine://{BUCKET}") == ""


def test_a_client_that_stops_in_the_middle_holds_up_nobody(doors):
    s3, cli = doors
    s3.put_object(Bucket=BUCKET, Key="key", Body=b"before")
    address = urllib.parse.urlsplit(s3.generate_presigned_url("put_object", Params={"Bucket": BUCKET, "Key": "key"}))
    stopped = http.client.HTTPConnection(address.netloc, timeout=30)
    stopped.putrequest("PUT", f"{address.path}?{address.query}")
    stopped.putheader("Content-Length", "1000")
    stopped.endheaders(b"a few bytes")
    upload = s3.create_multipart_upload(Bucket=BUCKET, Key="key")["UploadId"]
    s3.upload_part(Bucket=BUCKET, Key="key", UploadId=upload, PartNumber=1, Body=b"a part")
    # Neither has an end, and everybody else goes on.
    s3.put_object(Bucket=BUCKET, Key="key", Body=b"over it")
    assert cli("cat", f"koine://{BUCKET}/key") == "over it"
    cli("mv", f"koine://{BUCKET}/key", f"koine://{BUCKET}/other")
    s3.delete_object(Bucket=BUCKET, Key="other")
    assert keys(s3) == []
    stopped.close()
    assert keys(s3) == []


def test_a_touch_is_told_over_s3_and_changes_no_etag(doors):
    s3, cli = doors
    etag = s3.put_object(Bucket=BUCKET, Key="key", Body=b"kept")["ETag"]
    told = json.loads(cli("--json set", f"koine://{BUCKET}/key", "--modified", "1990-01-01T00:00:00Z", "--owner", "7:8"))
    assert told["changed"] > told["created"] > told["modified"] and told["owner"] == "7:8"
    head = s3.head_object(Bucket=BUCKET, Key="key")
    assert head["ETag"] == etag
    assert head["LastModified"] == datetime.datetime(1990, 1, 1, tzinfo=datetime.timezone.utc)


def test_retention_and_legal_hold_are_refused_and_store_nothing(doors):
    s3, _ = doors
    until = datetime.datetime(2040, 1, 1)
    for held in ({"ObjectLockMode": "GOVERNANCE", "ObjectLockRetainUntilDate": until}, {"ObjectLockLegalHoldStatus": "ON"}):
        with refused("NotImplemented", 501):
            s3.put_object(Bucket=BUCKET, Key="key", Body=b"x", **held)
    assert keys(s3) == []
