"""What a store holds, as its own server tells it."""

from harness import clients
from harness.server import Server


def contents_of(store, bucket="data"):
    """Every key of a bucket with its bytes."""
    with Server(store) as server:
        s3 = clients.s3(server.url)
        listed = s3.list_objects_v2(Bucket=bucket).get("Contents", [])
        found = {e["Key"]: s3.get_object(Bucket=bucket, Key=e["Key"])["Body"].read() for e in listed}
        assert server.stop() == 0
    return found
