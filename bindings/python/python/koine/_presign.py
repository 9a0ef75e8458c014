"""Addresses by which one object can be got or put over S3 without keys, for a while."""

from __future__ import annotations

import datetime
import hashlib
import hmac
import os
from typing import Mapping
from urllib.parse import quote, urlsplit

from . import errors

# Seven days: what the signature allows.
SECONDS_MAX = 7 * 86400


def presign(
    bucket: str,
    key: str,
    method: str = "GET",
    *,
    endpoint: str | None = None,
    access_key: str | None = None,
    secret: str | None = None,
    seconds: int = 3600,
    region: str | None = None,
    version: str | None = None,
    headers: Mapping[str, str] | None = None,
) -> str:
    """An address by which whoever has it can ``GET``, ``HEAD``, ``PUT`` or ``DELETE`` an object, without keys, for so many
    seconds: at most seven days.

    ``endpoint`` is where the server listens for S3, ``access_key`` and ``secret`` are those of ``Session.create_key``; where
    they are not given, the environment's ``AWS_ENDPOINT_URL``, ``AWS_ACCESS_KEY_ID`` and ``AWS_SECRET_ACCESS_KEY`` are taken.
    ``headers`` are sent along by who uses the address, as they are here. Nothing is asked of a server.
    """
    endpoint = _given("endpoint", endpoint, "AWS_ENDPOINT_URL")
    access_key = _given("access_key", access_key, "AWS_ACCESS_KEY_ID")
    secret = _given("secret", secret, "AWS_SECRET_ACCESS_KEY")
    region = region or os.environ.get("AWS_REGION") or os.environ.get("AWS_DEFAULT_REGION") or "us-east-1"
    method = method.upper()
    if method not in ("GET", "HEAD", "PUT", "DELETE"):
        raise errors.InvalidArgument(f"method: {method!r} is none of GET, HEAD, PUT and DELETE")
    if not 1 <= seconds <= SECONDS_MAX:
        raise errors.InvalidArgument(f"seconds: {seconds} is not within 1 and {SECONDS_MAX}, which is seven days")
    if not bucket or not key:
        raise errors.InvalidArgument("bucket, key: an address is of one object")
    at = urlsplit(endpoint)
    if at.scheme not in ("http", "https") or not at.netloc:
        raise errors.InvalidArgument(f"endpoint: {endpoint!r} is not http://HOST:PORT")
    now = datetime.datetime.now(datetime.timezone.utc)
    time, scope = now.strftime("%Y%m%dT%H%M%SZ"), f"{now:%Y%m%d}/{region}/s3/aws4_request"
    signed = {"host": at.netloc, **{name.lower(): " ".join(value.split()) for name, value in (headers or {}).items()}}
    names = ";".join(sorted(signed))
    path = f"{at.path.rstrip('/')}/{quote(bucket, safe='')}/{quote(key, safe='/~')}"
    query = {
        "X-Amz-Algorithm": "AWS4-HMAC-SHA256", "X-Amz-Credential": f"{access_key}/{scope}", "X-Amz-Date": time,
        "X-Amz-Expires": str(seconds), "X-Amz-SignedHeaders": names, **({"versionId": version} if version else {}),
    }
    asked = "&".join(f"{quote(name, safe='')}={quote(value, safe='')}" for name, value in sorted(query.items()))
    lines = "".join(f"{name}:{signed[name]}\n" for name in sorted(signed))
    request = f"{method}\n{path}\n{asked}\n{lines}\n{names}\nUNSIGNED-PAYLOAD"
    text = f"AWS4-HMAC-SHA256\n{time}\n{scope}\n{hashlib.sha256(request.encode()).hexdigest()}"
    sealed = f"AWS4{secret}".encode()
    for part in scope.split("/"):
        sealed = hmac.digest(sealed, part.encode(), "sha256")
    return f"{at.scheme}://{at.netloc}{path}?{asked}&X-Amz-Signature={hmac.digest(sealed, text.encode(), 'sha256').hex()}"


def _given(name, value, variable):
    value = value or os.environ.get(variable)
    if not value:
        raise errors.InvalidArgument(f"{name}: give it, or set {variable}")
    return value
