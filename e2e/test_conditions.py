"""Conditional writes: of many at once exactly one wins, and a repeat after a lost answer learns that it won."""

import os
import threading
from concurrent.futures import ThreadPoolExecutor

import pytest
from botocore.exceptions import ClientError

from harness.expect import refused

FULL = os.environ.get("KOINE_TEST_FULL") == "1"
RACERS = 64
ROUNDS = 200 if FULL else 40


def test_a_put_can_ask_for_absence(s3, bucket):
    s3.put_object(Bucket=bucket, Key="k", Body=b"first", IfNoneMatch="*")
    with refused("PreconditionFailed", 412):
        s3.put_object(Bucket=bucket, Key="k", Body=b"second", IfNoneMatch="*")
    assert s3.get_object(Bucket=bucket, Key="k")["Body"].read() == b"first"
    s3.delete_object(Bucket=bucket, Key="k")
    s3.put_object(Bucket=bucket, Key="k", Body=b"third", IfNoneMatch="*")


def test_a_put_can_ask_for_an_etag(s3, bucket):
    etag = s3.put_object(Bucket=bucket, Key="k", Body=b"1")["ETag"]
    newer = s3.put_object(Bucket=bucket, Key="k", Body=b"2", IfMatch=etag)["ETag"]
    with refused("PreconditionFailed", 412):
        s3.put_object(Bucket=bucket, Key="k", Body=b"3", IfMatch=etag)
    with refused("NoSuchKey", 404):
        s3.put_object(Bucket=bucket, Key="other", Body=b"3", IfMatch=newer)
    assert s3.get_object(Bucket=bucket, Key="k")["Body"].read() == b"2"


def race(contenders):
    """Runs all at once; gives the indices of those who won. The others must have been refused by the condition."""
    start = threading.Barrier(len(contenders))

    def run(index):
        start.wait()
        try:
            contenders[index]()
            return index
        except ClientError as error:
            code = error.response["Error"]["Code"]
            assert code in ("PreconditionFailed", "ConditionalRequestConflict"), error
            return None

    with ThreadPoolExecutor(len(contenders)) as pool:
        return [index for index in pool.map(run, range(len(contenders))) if index is not None]


def test_of_64_puts_that_ask_for_absence_one_wins(s3, bucket):
    for round_number in range(ROUNDS):
        key = f"round {round_number}"

        def put(index, key=key):
            s3.put_object(Bucket=bucket, Key=key, Body=f"{index}".encode(), IfNoneMatch="*")

        winners = race([lambda index=index: put(index) for index in range(RACERS)])
        assert len(winners) == 1, f"{key}: {winners}"
        assert s3.get_object(Bucket=bucket, Key=key)["Body"].read() == f"{winners[0]}".encode()


def test_of_64_completed_uploads_that_ask_for_absence_one_wins(s3, bucket):
    for round_number in range(max(1, ROUNDS // 8) if not FULL else ROUNDS):
        key = f"round {round_number}"

        def upload(index, key=key):
            created = s3.create_multipart_upload(Bucket=bucket, Key=key)["UploadId"]
            body = f"{index}".encode()
            etag = s3.upload_part(Bucket=bucket, Key=key, UploadId=created, PartNumber=1, Body=body)["ETag"]
            return {"UploadId": created, "MultipartUpload": {"Parts": [{"PartNumber": 1, "ETag": etag}]}}

        with ThreadPoolExecutor(16) as pool:
            uploads = list(pool.map(upload, range(RACERS)))

        def complete(index, key=key, uploads=uploads):
            s3.complete_multipart_upload(Bucket=bucket, Key=key, IfNoneMatch="*", **uploads[index])

        winners = race([lambda index=index: complete(index) for index in range(RACERS)])
        assert len(winners) == 1, f"{key}: {winners}"
        assert s3.get_object(Bucket=bucket, Key=key)["Body"].read() == f"{winners[0]}".encode()
        # Told again, the winner learns that it won.
        s3.complete_multipart_upload(Bucket=bucket, Key=key, IfNoneMatch="*", **uploads[winners[0]])


@pytest.fixture
def invocation(s3):
    """Lets a test choose the id by which AWS clients name one call over all its attempts."""
    chosen = {}

    def apply(params, **_):
        if chosen:
            params["context"].setdefault("retries", {})["invocation-id"] = chosen["id"]

    s3.meta.events.register("before-call.s3.PutObject", apply)
    yield chosen
    s3.meta.events.unregister("before-call.s3.PutObject", apply)


def test_a_repeat_after_a_lost_answer_learns_that_it_won(s3, bucket, invocation):
    invocation["id"] = "11111111-2222-3333-4444-555555555555"
    first = s3.put_object(Bucket=bucket, Key="k", Body=b"mine", IfNoneMatch="*")
    again = s3.put_object(Bucket=bucket, Key="k", Body=b"mine", IfNoneMatch="*")
    assert again["ETag"] == first["ETag"]
    invocation["id"] = "99999999-2222-3333-4444-555555555555"
    with refused("PreconditionFailed", 412):
        s3.put_object(Bucket=bucket, Key="k", Body=b"mine", IfNoneMatch="*")
