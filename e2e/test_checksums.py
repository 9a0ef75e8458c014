"""Checksums: each algorithm verified, stored and returned, for whole objects and for parts."""

import base64
import hashlib

import pytest
from awscrt import checksums as crt
from awscrt.checksums import XXHash

from harness import clients, seeds
from harness.expect import refused

ALGORITHMS = {
    "CRC32": lambda body: crt.crc32(body).to_bytes(4, "big"),
    "CRC32C": lambda body: crt.crc32c(body).to_bytes(4, "big"),
    "CRC64NVME": lambda body: crt.crc64nvme(body).to_bytes(8, "big"),
    "SHA1": lambda body: hashlib.sha1(body).digest(),
    "SHA256": lambda body: hashlib.sha256(body).digest(),
    "SHA512": lambda body: hashlib.sha512(body).digest(),
    "XXHASH64": XXHash.compute_xxhash64,
    "XXHASH3": XXHash.compute_xxhash3_64,
    "XXHASH128": XXHash.compute_xxhash3_128,
}
# What boto3 does not compute by itself.
GIVEN = {**ALGORITHMS, "MD5": lambda body: hashlib.md5(body).digest()}
PART = 5 << 20


def text(digest):
    return base64.b64encode(digest).decode()


@pytest.mark.parametrize("algorithm", ALGORITHMS)
@pytest.mark.parametrize("size", [0, 100, 3_000_000])
def test_a_trailer_is_verified_stored_and_returned(s3, bucket, algorithm, size):
    body = seeds.blob(8, "checksum", size)
    expected = text(ALGORITHMS[algorithm](body))
    put = s3.put_object(Bucket=bucket, Key="k", Body=body, ChecksumAlgorithm=algorithm)
    assert put[f"Checksum{algorithm}"] == expected
    head = s3.head_object(Bucket=bucket, Key="k", ChecksumMode="ENABLED")
    assert head[f"Checksum{algorithm}"] == expected and head["ChecksumType"] == "FULL_OBJECT"
    got = s3.get_object(Bucket=bucket, Key="k", ChecksumMode="ENABLED")
    assert got["Body"].read() == body and got[f"Checksum{algorithm}"] == expected
    asked = s3.get_object_attributes(Bucket=bucket, Key="k", ObjectAttributes=["Checksum", "ObjectSize", "ETag"])
    assert asked["Checksum"][f"Checksum{algorithm}"] == expected and asked["ObjectSize"] == size


@pytest.mark.parametrize("algorithm", GIVEN)
def test_a_header_is_verified_stored_and_returned(s3, bucket, algorithm):
    body = seeds.blob(9, "checksum", 70_000)
    expected = text(GIVEN[algorithm](body))
    s3.put_object(Bucket=bucket, Key="k", Body=body, **{f"Checksum{algorithm}": expected})
    assert s3.head_object(Bucket=bucket, Key="k", ChecksumMode="ENABLED")[f"Checksum{algorithm}"] == expected
    assert f"Checksum{algorithm}" not in s3.head_object(Bucket=bucket, Key="k")


@pytest.mark.parametrize("algorithm", GIVEN)
def test_a_wrong_checksum_is_refused_and_leaves_nothing(s3, bucket, algorithm):
    wrong = text(GIVEN[algorithm](b"something else"))
    with refused("BadDigest", 400):
        s3.put_object(Bucket=bucket, Key="k", Body=b"body", **{f"Checksum{algorithm}": wrong})
    with refused("404", 404):
        s3.head_object(Bucket=bucket, Key="k")


def test_a_wrong_md5_is_refused_and_leaves_nothing(s3, bucket):
    with refused("BadDigest", 400):
        s3.put_object(Bucket=bucket, Key="k", Body=b"body", ContentMD5=text(hashlib.md5(b"other").digest()))
    with refused("InvalidDigest", 400):
        s3.put_object(Bucket=bucket, Key="k", Body=b"body", ContentMD5="no digest")
    with refused("404", 404):
        s3.head_object(Bucket=bucket, Key="k")


def test_what_is_no_checksum_is_refused(s3, bucket):
    with refused("InvalidRequest", 400):
        s3.put_object(Bucket=bucket, Key="k", Body=b"body", ChecksumCRC32="AAAA")


def test_a_put_without_checksum_has_none_but_its_etag(server, s3, bucket):
    plain = clients.s3(server.url, request_checksum_calculation="when_required")
    plain.put_object(Bucket=bucket, Key="k", Body=b"body")
    assert s3.get_object(Bucket=bucket, Key="k")["Body"].read() == b"body"


@pytest.mark.parametrize("algorithm", [name for name in ALGORITHMS if name != "CRC64NVME"])
def test_parts_make_a_composite_checksum(s3, bucket, algorithm):
    bodies = [seeds.blob(10, f"{n}", size) for n, size in enumerate([PART, 1000])]
    upload = s3.create_multipart_upload(Bucket=bucket, Key="k", ChecksumAlgorithm=algorithm, ChecksumType="COMPOSITE")
    parts = []
    for number, body in enumerate(bodies, 1):
        part = s3.upload_part(
            Bucket=bucket, Key="k", UploadId=upload["UploadId"], PartNumber=number, Body=body, ChecksumAlgorithm=algorithm
        )
        assert part[f"Checksum{algorithm}"] == text(ALGORITHMS[algorithm](body))
        parts.append({"PartNumber": number, "ETag": part["ETag"], f"Checksum{algorithm}": part[f"Checksum{algorithm}"]})
    done = s3.complete_multipart_upload(
        Bucket=bucket, Key="k", UploadId=upload["UploadId"], MultipartUpload={"Parts": parts}
    )
    whole = text(ALGORITHMS[algorithm](b"".join(ALGORITHMS[algorithm](body) for body in bodies)))
    assert done[f"Checksum{algorithm}"] == f"{whole}-2"
    head = s3.head_object(Bucket=bucket, Key="k", ChecksumMode="ENABLED")
    assert head[f"Checksum{algorithm}"] == f"{whole}-2" and head["ChecksumType"] == "COMPOSITE"


@pytest.mark.parametrize("algorithm", ["CRC32", "CRC32C", "CRC64NVME"])
def test_parts_make_a_checksum_of_the_whole(s3, bucket, algorithm):
    bodies = [seeds.blob(11, f"{n}", size) for n, size in enumerate([PART, PART, 1000])]
    expected = text(ALGORITHMS[algorithm](b"".join(bodies)))

    def upload():
        created = s3.create_multipart_upload(
            Bucket=bucket, Key="k", ChecksumAlgorithm=algorithm, ChecksumType="FULL_OBJECT"
        )["UploadId"]
        parts = []
        for number, body in enumerate(bodies, 1):
            part = s3.upload_part(
                Bucket=bucket, Key="k", UploadId=created, PartNumber=number, Body=body, ChecksumAlgorithm=algorithm
            )
            parts.append({"PartNumber": number, "ETag": part["ETag"], f"Checksum{algorithm}": part[f"Checksum{algorithm}"]})
        return {"Bucket": bucket, "Key": "k", "UploadId": created, "MultipartUpload": {"Parts": parts}}

    wrong = {f"Checksum{algorithm}": text(ALGORITHMS[algorithm](b"other")), "ChecksumType": "FULL_OBJECT"}
    with refused("BadDigest", 400):
        s3.complete_multipart_upload(**upload(), **wrong)
    done = s3.complete_multipart_upload(**upload(), **{f"Checksum{algorithm}": expected, "ChecksumType": "FULL_OBJECT"})
    assert done[f"Checksum{algorithm}"] == expected
    head = s3.head_object(Bucket=bucket, Key="k", ChecksumMode="ENABLED")
    assert head[f"Checksum{algorithm}"] == expected and head["ChecksumType"] == "FULL_OBJECT"
