"""Buckets, objects and files on a Koine store.

    >>> import koine
    >>> with koine.connect("memory:") as session:
    ...     bucket = session.create_bucket("first")
    ...     info = bucket.put("hello", b"world")
    ...     (info.key, info.size, bucket.get("hello"))
    ('hello', 5, b'world')
"""

from . import _infos, _tables, errors
from ._files import File, Text, open
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
from ._paths import Path
from ._presign import presign
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
    "Path",
    "Prefix",
    "Search",
    "Session",
    "SnapshotInfo",
    "Text",
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
    "presign",
]
