"""Multipart uploads through boto3: parts, joins, lists, aborts, and what is refused."""

import hashlib

import pytest
from boto3.s3.transfer import TransferConfig

from harness import seeds
from harness.expect import refused

PART = 5 << 20


def upload_parts(s3, bucket, key, parts, **create):
    upload = s3.create_multipart_upload(Bucket=bucket, Key=key, **create)["UploadId"]
    done = []
    for number, body in parts:
        etag = s3.upload_part(Bucket=bucket, Key=key, UploadId=upload, PartNumber=number, Body=body)["ETag"]
        assert etag == f'"{hashlib.md5(body).hexdigest()}"'
        done.append({"PartNumber": number, "ETag": etag})
    return upload, done


def multipart_etag(bodies):
    digests = b"".join(hashlib.md5(body).digest() for body in bodies)
    return f'"{hashlib.md5(digests).hexdigest()}-{len(bodies)}"'


def test_parts_are_joined_in_order_of_their_numbers(s3, bucket):
    bodies = [seeds.blob(4, f"part {n}", size) for n, size in enumerate([PART, PART + 12_345, 77])]
    parts = list(zip([3, 10, 9_999], bodies))
    upload, done = upload_parts(s3, bucket, "k", reversed(parts), ContentType="text/x-m", Metadata={"a": "b"})
    with refused("NoSuchKey", 404):
        s3.get_object(Bucket=bucket, Key="k")
    done.sort(key=lambda part: part["PartNumber"])
    whole = s3.complete_multipart_upload(Bucket=bucket, Key="k", UploadId=upload, MultipartUpload={"Parts": done})
    assert whole["ETag"] == multipart_etag(bodies)
    got = s3.get_object(Bucket=bucket, Key="k")
    assert got["Body"].read() == b"".join(bodies)
    assert (got["ContentType"], got["Metadata"], got["ETag"]) == ("text/x-m", {"a": "b"}, whole["ETag"])
    # A range over a seam of two parts of odd size.
    seam = len(bodies[0]) + len(bodies[1])
    got = s3.get_object(Bucket=bucket, Key="k", Range=f"bytes={seam - 10}-{seam + 9}")
    assert got["Body"].read() == bodies[1][-10:] + bodies[2][:10]


def test_the_transfer_manager_goes_both_ways(s3, bucket, tmp_path):
    source, target = tmp_path / "source", tmp_path / "target"
    digest = seeds.make_file(source, seed=5, size=40_000_000)
    config = TransferConfig(multipart_threshold=8 << 20, multipart_chunksize=8 << 20, max_concurrency=4)
    s3.upload_file(str(source), bucket, "k", Config=config)
    assert s3.head_object(Bucket=bucket, Key="k")["ETag"].endswith('-5"')
    s3.download_file(bucket, "k", str(target), Config=config)
    assert seeds.digest_file(target) == digest


def test_a_part_sent_again_replaces_the_first(s3, bucket):
    upload, _ = upload_parts(s3, bucket, "k", [(1, b"first")])
    etag = s3.upload_part(Bucket=bucket, Key="k", UploadId=upload, PartNumber=1, Body=b"second")["ETag"]
    parts = s3.list_parts(Bucket=bucket, Key="k", UploadId=upload)["Parts"]
    assert [(part["PartNumber"], part["Size"], part["ETag"]) for part in parts] == [(1, 6, etag)]
    parts = {"Parts": [{"PartNumber": 1, "ETag": etag}]}
    s3.complete_multipart_upload(Bucket=bucket, Key="k", UploadId=upload, MultipartUpload=parts)
    assert s3.get_object(Bucket=bucket, Key="k")["Body"].read() == b"second"


def test_parts_and_uploads_are_listed_in_pages(s3, bucket):
    upload, _ = upload_parts(s3, bucket, "a", [(number, b"x" * number) for number in range(1, 6)])
    others = [s3.create_multipart_upload(Bucket=bucket, Key=key)["UploadId"] for key in ["b", "b", "c/d"]]
    pages = s3.get_paginator("list_parts").paginate(
        Bucket=bucket, Key="a", UploadId=upload, PaginationConfig={"PageSize": 2}
    )
    assert [part["Size"] for page in pages for part in page.get("Parts", [])] == [1, 2, 3, 4, 5]
    pages = s3.get_paginator("list_multipart_uploads").paginate(Bucket=bucket, PaginationConfig={"PageSize": 1})
    found = [(entry["Key"], entry["UploadId"]) for page in pages for entry in page.get("Uploads", [])]
    assert sorted(found) == sorted(zip(["a", "b", "b", "c/d"], [upload, *others]))
    page = s3.list_multipart_uploads(Bucket=bucket, Prefix="c", Delimiter="/")
    assert [entry["Prefix"] for entry in page["CommonPrefixes"]] == ["c/"]


def test_an_aborted_upload_is_gone(s3, bucket):
    upload, done = upload_parts(s3, bucket, "k", [(1, b"x")])
    s3.abort_multipart_upload(Bucket=bucket, Key="k", UploadId=upload)
    with refused("NoSuchUpload", 404):
        s3.list_parts(Bucket=bucket, Key="k", UploadId=upload)
    with refused("NoSuchUpload", 404):
        s3.complete_multipart_upload(Bucket=bucket, Key="k", UploadId=upload, MultipartUpload={"Parts": done})
    with refused("NoSuchUpload", 404):
        s3.upload_part(Bucket=bucket, Key="k", UploadId=upload, PartNumber=1, Body=b"x")
    assert "Uploads" not in s3.list_multipart_uploads(Bucket=bucket)


def test_what_cannot_be_joined_is_refused_and_the_upload_stays(s3, bucket):
    upload, done = upload_parts(s3, bucket, "k", [(1, b"too small"), (2, b"the last may be")])

    def complete(parts):
        s3.complete_multipart_upload(Bucket=bucket, Key="k", UploadId=upload, MultipartUpload={"Parts": parts})

    with refused("EntityTooSmall", 400):
        complete(done)
    with refused("InvalidPartOrder", 400):
        complete(done[::-1])
    with refused("InvalidPart", 400):
        complete([{"PartNumber": 1, "ETag": '"00000000000000000000000000000000"'}])
    with refused("InvalidPart", 400):
        complete([{"PartNumber": 7, "ETag": done[0]["ETag"]}])
    with refused("MalformedXML", 400):
        complete([])
    complete(done[1:])
    assert s3.get_object(Bucket=bucket, Key="k")["Body"].read() == b"the last may be"


@pytest.mark.parametrize("number", [0, 10_001, -1])
def test_part_numbers_have_ends(s3, bucket, number):
    upload = s3.create_multipart_upload(Bucket=bucket, Key="k")["UploadId"]
    with refused("InvalidArgument", 400):
        s3.upload_part(Bucket=bucket, Key="k", UploadId=upload, PartNumber=number, Body=b"x")


def test_10001_parts_are_refused(s3, bucket):
    upload, done = upload_parts(s3, bucket, "k", [(1, b"x")])
    parts = [{"PartNumber": number, "ETag": done[0]["ETag"]} for number in range(1, 10_002)]
    with refused("MalformedXML", 400):
        s3.complete_multipart_upload(Bucket=bucket, Key="k", UploadId=upload, MultipartUpload={"Parts": parts})


def test_parts_are_copied_from_ranges_of_objects(s3, bucket):
    body = seeds.blob(6, "source", 12_000_000)
    s3.put_object(Bucket=bucket, Key="source +ü", Body=body)
    upload = s3.create_multipart_upload(Bucket=bucket, Key="k")["UploadId"]
    done = []
    for number, (start, end) in enumerate([(100, 6_000_100), (0, 5_242_880), (11_999_000, 12_000_000)], 1):
        part = s3.upload_part_copy(
            Bucket=bucket,
            Key="k",
            UploadId=upload,
            PartNumber=number,
            CopySource={"Bucket": bucket, "Key": "source +ü"},
            CopySourceRange=f"bytes={start}-{end - 1}",
        )["CopyPartResult"]
        done.append({"PartNumber": number, "ETag": part["ETag"]})
    s3.complete_multipart_upload(Bucket=bucket, Key="k", UploadId=upload, MultipartUpload={"Parts": done})
    expected = body[100:6_000_100] + body[:5_242_880] + body[11_999_000:]
    assert s3.get_object(Bucket=bucket, Key="k")["Body"].read() == expected


@pytest.mark.full
def test_5_gib_in_parts(s3, bucket, tmp_path):
    size, part = 5 << 30, 64 << 20
    digest = hashlib.sha256()
    upload = s3.create_multipart_upload(Bucket=bucket, Key="k")["UploadId"]
    done = []
    for number in range(1, size // part + 1):
        body = seeds.blob(7, f"part {number}", part)
        digest.update(body)
        etag = s3.upload_part(Bucket=bucket, Key="k", UploadId=upload, PartNumber=number, Body=body)["ETag"]
        done.append({"PartNumber": number, "ETag": etag})
    s3.complete_multipart_upload(Bucket=bucket, Key="k", UploadId=upload, MultipartUpload={"Parts": done})
    assert s3.head_object(Bucket=bucket, Key="k")["ContentLength"] == size
    back = hashlib.sha256()
    for chunk in s3.get_object(Bucket=bucket, Key="k")["Body"].iter_chunks(1 << 20):
        back.update(chunk)
    assert back.digest() == digest.digest()
    s3.delete_object(Bucket=bucket, Key="k")
