"""Signatures: presigned addresses work, and what is forged, old, skewed or unsigned is refused in each mode."""

import datetime
import hashlib
import http.client
import urllib.parse
import urllib.request
from urllib.error import HTTPError

import pytest
from botocore.auth import S3SigV4Auth, S3SigV4QueryAuth
from botocore.awsrequest import AWSRequest
from botocore.credentials import Credentials

from harness import clients
from harness.expect import refused
from harness.server import ACCESS, SECRET


def request(server, method, target, headers=None, body=None):
    connection = http.client.HTTPConnection("127.0.0.1", server.port, timeout=30)
    try:
        connection.request(method, target, body=body, headers=headers or {})
        answer = connection.getresponse()
        return answer.status, answer.read().decode(errors="replace")
    finally:
        connection.close()


@pytest.fixture
def presigner(server):
    """boto3 presigns in an older way unless it is told the version."""
    return clients.s3(server.url, signature_version="s3v4")


def test_presigned_put_and_get(presigner, bucket):
    s3 = presigner
    key = "é +%/presigned"
    url = s3.generate_presigned_url("put_object", Params={"Bucket": bucket, "Key": key}, ExpiresIn=60)
    put = urllib.request.Request(url, data=b"by address", method="PUT")
    with urllib.request.urlopen(put) as answer:
        assert answer.status == 200
    url = s3.generate_presigned_url("get_object", Params={"Bucket": bucket, "Key": key}, ExpiresIn=60)
    with urllib.request.urlopen(url) as answer:
        assert answer.read() == b"by address"
    ranged = urllib.request.Request(url, headers={"Range": "bytes=3-9"})
    with urllib.request.urlopen(ranged) as answer:
        assert (answer.status, answer.read()) == (206, b"address")


def test_a_presigned_address_is_good_for_what_was_signed_only(presigner, bucket):
    s3 = presigner
    s3.put_object(Bucket=bucket, Key="k", Body=b"x")
    s3.put_object(Bucket=bucket, Key="other", Body=b"y")
    url = s3.generate_presigned_url("get_object", Params={"Bucket": bucket, "Key": "k"}, ExpiresIn=60)

    def status(url, method="GET"):
        try:
            with urllib.request.urlopen(urllib.request.Request(url, method=method)) as answer:
                return answer.status
        except HTTPError as error:
            return error.code

    assert status(url) == 200
    assert status(url.replace("/k?", "/other?")) == 403
    assert status(url, method="DELETE") == 403
    assert status(url + "&x-extra=1") == 403
    assert status(url.replace("X-Amz-Expires=60", "X-Amz-Expires=600")) == 403
    assert status(url[:-1] + ("0" if url[-1] != "0" else "1")) == 403
    assert status(url) == 200


def presign_at(server, bucket, key, when, expires):
    """An address signed at another time."""
    auth = S3SigV4QueryAuth(Credentials(ACCESS, SECRET), "s3", "us-east-1", expires=expires)
    unsigned = AWSRequest("GET", f"{server.url}/{bucket}/{key}")
    with at_time(when):
        auth.add_auth(unsigned)
    return unsigned.url


class at_time:
    """Signs as if it were another time: botocore asks its own module for the time."""

    def __init__(self, when):
        self.when = when

    def __enter__(self):
        import botocore.auth

        self.module = botocore.auth
        self.real = self.module.get_current_datetime
        self.module.get_current_datetime = lambda **_: self.when
        return self

    def __exit__(self, *_):
        self.module.get_current_datetime = self.real


def now(**shift):
    return datetime.datetime.now(datetime.UTC) + datetime.timedelta(**shift)


@pytest.mark.parametrize(
    "shift, expires, status",
    [
        ({"seconds": -50}, 60, 200),
        ({"seconds": -70}, 60, 403),
        ({"days": -2}, 86_400, 403),
        ({"minutes": 30}, 60, 403),
        ({}, 8 * 86_400, 400),
    ],
)
def test_presigned_addresses_end(server, s3, bucket, shift, expires, status):
    s3.put_object(Bucket=bucket, Key="k", Body=b"x")
    url = presign_at(server, bucket, "k", now(**shift), expires)
    target = urllib.parse.urlsplit(url)
    assert request(server, "GET", f"{target.path}?{target.query}")[0] == status


@pytest.mark.parametrize("minutes", [-20, 20])
@pytest.mark.parametrize("method", ["GET", "PUT"])
def test_a_skewed_clock_is_told(server, s3, bucket, method, minutes):
    s3.put_object(Bucket=bucket, Key="k", Body=b"x")
    with at_time(now(minutes=minutes)):
        headers = signed(server, method, f"/{bucket}/k", b"y")
    status, text = request(server, method, f"/{bucket}/k", headers, b"y")
    assert (status, "RequestTimeTooSkewed" in text) == (403, True), text
    assert s3.get_object(Bucket=bucket, Key="k")["Body"].read() == b"x"


def test_wrong_keys_are_refused_in_each_mode(server, s3, bucket):
    s3.put_object(Bucket=bucket, Key="k", Body=b"x")
    wrong = clients.s3(server.url, secret="not the secret at all")
    nobody = clients.s3(server.url, access="NOBODY")
    for client, code in [(wrong, "SignatureDoesNotMatch"), (nobody, "InvalidAccessKeyId")]:
        with refused(code, 403):
            client.get_object(Bucket=bucket, Key="k")
        with refused(code, 403):
            client.put_object(Bucket=bucket, Key="new", Body=b"y" * 100_000)
        with refused(code, 403):
            client.delete_object(Bucket=bucket, Key="k")
        with refused(code, 403):
            client.list_buckets()
        signer = clients.s3(server.url, signature_version="s3v4", **({"secret": "x" * 20} if client is wrong else {"access": "NOBODY"}))
        url = signer.generate_presigned_url("get_object", Params={"Bucket": bucket, "Key": "k"})
        target = urllib.parse.urlsplit(url)
        status, body = request(server, "GET", f"{target.path}?{target.query}")
        assert status == 403 and code in body
    with refused("404", 404):
        s3.head_object(Bucket=bucket, Key="new")
    assert s3.get_object(Bucket=bucket, Key="k")["Body"].read() == b"x"


@pytest.mark.parametrize(
    "headers",
    [
        {},
        {"Authorization": ""},
        {"Authorization": "Bearer x"},
        {"Authorization": "AWS4-HMAC-SHA256 rubbish"},
        {"Authorization": "AWS4-HMAC-SHA256 Credential=a/b/c/d/e,SignedHeaders=host,Signature=00"},
    ],
)
@pytest.mark.parametrize("method", ["GET", "PUT", "DELETE", "HEAD", "POST"])
def test_nothing_is_open_without_a_signature(server, bucket, method, headers):
    for target in ["/", f"/{bucket}", f"/{bucket}/k"]:
        status, _ = request(server, method, target, headers, b"x" if method in ("PUT", "POST") else None)
        assert status in (400, 403, 405), (method, target, status)


class Signer(S3SigV4Auth):
    """Signs as botocore does, but for a body hash that may be a lie."""

    lie = None

    def payload(self, request):
        return self.lie or super().payload(request)


def signed(server, method, path, body=b"", headers=None, payload_hash=None):
    """Headers of a request signed by botocore, for changes after the fact."""
    unsigned = AWSRequest(method, f"{server.url}{path}", data=body, headers=headers or {})
    signer = Signer(Credentials(ACCESS, SECRET), "s3", "us-east-1")
    signer.lie = payload_hash
    signer.add_auth(unsigned)
    return dict(unsigned.headers)


def test_what_was_changed_after_signing_is_refused(server, s3, bucket):
    path = f"/{bucket}/k"
    headers = signed(server, "PUT", path, b"body", {"x-amz-meta-a": "1"})
    assert request(server, "PUT", path, headers, b"body")[0] == 200
    status, text = request(server, "PUT", path, headers | {"x-amz-meta-a": "2"}, b"body")
    assert (status, "SignatureDoesNotMatch" in text) == (403, True)
    assert request(server, "PUT", f"/{bucket}/other", headers, b"body")[0] == 403
    assert s3.head_object(Bucket=bucket, Key="k")["Metadata"] == {"a": "1"}


def test_a_body_that_is_not_the_signed_one_leaves_nothing(server, s3, bucket):
    path = f"/{bucket}/k"
    lie = hashlib.sha256(b"another body").hexdigest()
    headers = signed(server, "PUT", path, b"this body", payload_hash=lie)
    status, text = request(server, "PUT", path, headers, b"this body")
    assert (status, "XAmzContentSHA256Mismatch" in text) == (400, True), text
    with refused("404", 404):
        s3.head_object(Bucket=bucket, Key="k")


def test_refusals_are_logged_without_secrets(server, s3, bucket):
    wrong = clients.s3(server.url, secret="a-secret-that-must-not-be-logged")
    with refused("SignatureDoesNotMatch", 403):
        wrong.get_object(Bucket=bucket, Key="k")
    log = server.log_path.read_text()
    assert "SignatureDoesNotMatch" in log
    assert SECRET not in log and "a-secret-that-must-not-be-logged" not in log
    assert "Signature=" not in log
