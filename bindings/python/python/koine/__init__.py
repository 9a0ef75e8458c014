"""Buckets, objects and files on a Koine store.

    >>> import koine
    >>> with koine.connect("memory:") as session:
    ...     bucket = session.create_bucket("first")
    ...     bucket.put("hello", b"world")
    ...     bucket.get("hello")
    ObjectInfo('hello', size=5, etag='7d793037a0760186574b0282f2f435e7')
    b'world'
"""

from . import errors
from ._files import File, open
from ._koine import (
    Bucket,
    BucketInfo,
    BucketListing,
    Decision,
    GroupInfo,
    IndexInfo,
    ListPage,
    Listing,
    ObjectInfo,
    ObjectSummary,
    PartInfo,
    Prefix,
    Search,
    Session,
    SnapshotInfo,
    Transaction,
    TransactionBucket,
    Upload,
    UserInfo,
    Version,
    VersionListing,
    __version__,
    connect,
)
from .errors import Error

__all__ = [
    "Bucket",
    "BucketInfo",
    "BucketListing",
    "Decision",
    "Error",
    "File",
    "GroupInfo",
    "IndexInfo",
    "ListPage",
    "Listing",
    "ObjectInfo",
    "ObjectSummary",
    "PartInfo",
    "Prefix",
    "Search",
    "Session",
    "SnapshotInfo",
    "Transaction",
    "TransactionBucket",
    "Upload",
    "UserInfo",
    "Version",
    "VersionListing",
    "__version__",
    "connect",
    "errors",
    "open",
]
