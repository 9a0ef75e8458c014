"""What a refused call must look like."""

from contextlib import contextmanager

from botocore.exceptions import ClientError


@contextmanager
def refused(code, status=None):
    """The call inside is refused with this S3 error code (and HTTP status)."""
    try:
        yield
    except ClientError as error:
        told = error.response["Error"]["Code"]
        assert told == code, f"{told} instead of {code}: {error}"
        if status is not None:
            assert error.response["ResponseMetadata"]["HTTPStatusCode"] == status, error
        return
    raise AssertionError(f"the call was not refused ({code} was expected)")
