import os
from collections.abc import Iterable, Iterator, Mapping, Sequence
from datetime import datetime
from types import TracebackType
from typing import Any, Literal, Protocol, TypeAlias, TypedDict, final, overload

from typing_extensions import Buffer, Self, Unpack

from ._files import File, Text

__version__: str
__all__ = [
    "Bucket",
    "BucketInfo",
    "BucketListing",
    "IndexInfo",
    "ListPage",
    "Listing",
    "ObjectInfo",
    "ObjectSummary",
    "PartInfo",
    "Prefix",
    "RawFile",
    "Search",
    "Session",
    "SnapshotInfo",
    "Upload",
    "__version__",
    "connect",
]

_Path: TypeAlias = str | os.PathLike[str]

class _Reads(Protocol):
    def read(self, size: int, /) -> Buffer: ...

class _Writes(Protocol):
    def write(self, data: bytes, /) -> object: ...

class _Made(TypedDict, total=False):
    """What is said of an object that is made."""

    metadata: Mapping[str, str] | None
    md5: bool
    content_type: str | None
    cache_control: str | None
    content_disposition: str | None
    content_encoding: str | None
    content_language: str | None
    expires: str | None

class _Condition(TypedDict, total=False):
    """What must hold of the name for the change to be made."""

    if_absent: bool
    if_present: bool
    if_match: str | None
    if_version: int | None

class _Put(_Made, _Condition, total=False): ...

class _Set(TypedDict, total=False):
    """What is changed of a bucket."""

    metadata: Mapping[str, str | None] | None
    tags: Mapping[str, str | None] | None
    replace: bool
    access_times: Literal["off", "relative"] | None
    quota_bytes: int | Literal["none"] | None
    quota_objects: int | Literal["none"] | None

class _Text(_Put, total=False):
    encoding: str | None
    errors: str | None
    newline: str | None

def connect(
    place: _Path,
    *,
    create: bool = False,
    size: int | None = None,
    memory: int | None = None,
    key_file: _Path | None = None,
) -> Session:
    """Opens the store at a path or URL: a file, a device, ``memory:``, ``koine+unix:SOCKET`` or
    ``koine+tcp:HOST:PORT`` (with ``key_file``). A store that a server holds is reached through the server.

    ``create`` makes the file when it is missing, ``size`` is how far it may grow, ``memory`` is for tables and caches;
    all in bytes.
    """

@final
class Session:
    """An open store. Sessions of one process on one path share it; the last to be closed closes it."""

    @property
    def place(self) -> str: ...
    @property
    def closed(self) -> bool: ...
    @property
    def is_owner(self) -> bool:
        """Whether this process holds the store, and not another that is asked."""

    def close(self) -> None:
        """Lets the store go. Files that are still open fail from then on."""

    def bucket(self, name: str) -> Bucket:
        """A bucket, whether it is there or not; nothing is asked of the store."""

    def create_bucket(self, name: str) -> Bucket: ...
    def delete_bucket(self, name: str) -> None:
        """Removes a bucket that holds no objects."""

    def bucket_info(self, name: str) -> BucketInfo: ...
    def buckets(self, prefix: str = "", *, after: str | None = None) -> BucketListing:
        """Buckets by name."""

    def __enter__(self) -> Self: ...
    def __exit__(
        self, _kind: type[BaseException] | None, _error: BaseException | None, _trace: TracebackType | None
    ) -> None: ...

@final
class Bucket:
    """A bucket of a store, whether it is there or not."""

    @property
    def name(self) -> str: ...
    def info(self) -> BucketInfo: ...
    def exists(self) -> bool: ...
    def put(self, key: str, data: Buffer, **options: Unpack[_Put]) -> ObjectInfo:
        """Puts an object. ``if_absent``: where none is (else ``FileExistsError``); ``if_present``: where one is;
        ``if_match``: where one has this ETag; ``if_version``: where one has this version. ``md5``: the ETag is the MD5
        of the bytes, for clients of S3 that compare it."""

    def get(self, key: str, *, offset: int = 0, length: int | None = None) -> bytes:
        """Bytes of an object; fewer than ``length`` only at its end."""

    def get_into(self, key: str, buffer: Buffer, *, offset: int = 0) -> int:
        """Reads into a buffer, without a copy in between; gives how many bytes were read."""

    def head(self, key: str) -> ObjectInfo: ...
    def __contains__(self, key: str, /) -> bool: ...
    def delete(self, key: str, *, if_match: str | None = None, if_version: int | None = None) -> bool:
        """Deletes an object; says whether there was one."""

    def delete_many(self, keys: Sequence[str]) -> int:
        """Deletes up to 1,000 objects in one commit; says how many there were."""

    @overload
    def list(
        self, prefix: str = "", *, delimiter: Literal[""] = "", after: str | None = None, limit: int | None = None
    ) -> Iterator[ObjectSummary]: ...
    @overload
    def list(
        self, prefix: str = "", *, delimiter: str, after: str | None = None, limit: int | None = None
    ) -> Iterator[ObjectSummary | Prefix]:
        """Objects by key. Keys that go on after the delimiter are told once, as what they have in common."""

    def __iter__(self) -> Iterator[ObjectSummary]: ...
    def list_page(
        self, prefix: str = "", *, delimiter: str = "", after: str | None = None, limit: int = 1000
    ) -> ListPage: ...
    def copy(self, key: str, to: str, *, bucket: str | None = None, **options: Unpack[_Put]) -> ObjectInfo:
        """Copies an object without copying its bytes; to another bucket with ``bucket``."""

    def put_file(self, key: str, source: _Path | _Reads, **options: Unpack[_Put]) -> ObjectInfo:
        """Puts what a path or a file object holds."""

    def get_file(self, key: str, target: _Path | _Writes, *, offset: int = 0, length: int | None = None) -> int:
        """Writes an object to a path or a file object; says how many bytes."""

    @overload
    def open(
        self, key: str, mode: Literal["rb", "br", "r+b", "rb+", "wb", "bw", "xb", "bx", "ab", "ba"] = "rb", **options: Unpack[_Put]
    ) -> File: ...
    @overload
    def open(
        self, key: str, mode: Literal["r", "rt", "tr", "r+", "rt+", "r+t", "w", "wt", "tw", "x", "xt", "tx", "a", "at", "ta"], **options: Unpack[_Text]
    ) -> Text: ...
    @overload
    def open(self, key: str, mode: str, **options: Any) -> Any:
        """Opens an object as a file: ``r`` reads it, ``w`` puts it anew at ``close``, ``x`` the same where none is;
        ``r+`` writes over it and ``a`` behind it, seen at ``flush`` and ``close``."""

    def open_raw(self, key: str, mode: str, **options: Unpack[_Put]) -> RawFile: ...
    def append(self, key: str, data: Buffer, *, create: bool = True, **options: Unpack[_Condition]) -> ObjectInfo:
        """Writes at an object's end; makes it unless ``create=False``."""

    def write_at(
        self, key: str, offset: int, data: Buffer, *, create: bool = True, **options: Unpack[_Condition]
    ) -> ObjectInfo:
        """Writes over an object's bytes; a gap past its end reads as zeros."""

    def truncate(self, key: str, size: int, **options: Unpack[_Condition]) -> ObjectInfo:
        """Gives an object another length; what is added reads as zeros."""

    def move(self, key: str, to: str, *, bucket: str | None = None, **options: Unpack[_Condition]) -> ObjectInfo:
        """Gives an object another name."""

    def exchange(self, key: str, other: str, *, bucket: str | None = None) -> tuple[ObjectInfo, ObjectInfo]:
        """Swaps what two names stand for."""

    def compose(
        self,
        sources: Sequence[str | tuple[str, int, int]],
        to: str,
        *,
        source_metadata: bool = False,
        **options: Unpack[_Put],
    ) -> ObjectInfo:
        """Makes an object of others, or of ranges (key, offset, length) of them, without copying bytes."""

    def copy_prefix(self, prefix: str, to: str, *, bucket: str | None = None) -> int:
        """Copies all that begins so to names that begin otherwise; says how many."""

    def move_prefix(self, prefix: str, to: str) -> None:
        """Moves all that begins so, in one commit."""

    def set_attributes(
        self,
        key: str,
        *,
        metadata: Mapping[str, str | None] | None = None,
        tags: Mapping[str, str | None] | None = None,
        replace: bool = False,
        mode: int | None = None,
    ) -> ObjectInfo:
        """Changes what is known of an object. Entries are set, or taken away by ``None``; with ``replace`` no other stays."""

    def search(
        self,
        *,
        metadata: str | None = None,
        tag: str | None = None,
        equal: str | None = None,
        begins: str | None = None,
        between: tuple[str, str] | None = None,
        prefix: str = "",
        limit: int | None = None,
    ) -> Search:
        """Objects that have an entry of metadata of this name, or a tag, with what it says: by text, then by key.
        ``equal``, ``begins`` or ``between`` say what the text is to be, ``prefix`` what keys begin with."""

    def add_index(self, *, metadata: str | None = None, tag: str | None = None) -> IndexInfo:
        """Makes searching for an entry of metadata, or a tag, cost what it finds. Others may write meanwhile."""

    def drop_index(self, *, metadata: str | None = None, tag: str | None = None) -> None: ...
    def indexes(self) -> Sequence[IndexInfo]: ...
    def set(self, **change: Unpack[_Set]) -> BucketInfo:
        """Changes what is known of the bucket. Entries are set, or taken away by ``None``; with ``replace`` no other
        stays. A quota that is ``"none"`` is taken away."""

    def usage(self) -> dict[str, int]:
        """How many objects and bytes it holds, without counting them."""

    def snapshot(self, name: str) -> SnapshotInfo:
        """Keeps the bucket as it is now; it is read as the bucket ``BUCKET@NAME``."""

    def snapshots(self) -> Sequence[SnapshotInfo]: ...
    def delete_snapshot(self, name: str) -> None: ...
    def restore(self, snapshot: str) -> None:
        """Makes the bucket what it was."""

    def branch(self, to: str) -> Bucket:
        """Makes a new bucket with all that is in this one, without copying bytes."""

    def purge(self) -> None:
        """Deletes all objects."""

    def upload(self, key: str, **options: Unpack[_Made]) -> Upload:
        """Begins an upload in parts."""

    def uploads(self, prefix: str = "") -> Sequence[Upload]:
        """Uploads that are neither completed nor aborted."""

@final
class Upload:
    """An object on its way in, part by part."""

    @property
    def id(self) -> str: ...
    @property
    def key(self) -> str: ...
    @property
    def bucket(self) -> str: ...
    def put(self, number: int, data: Buffer) -> PartInfo:
        """Puts part 1 to 10,000. All but the last have at least 5 MiB."""

    def copy(
        self, number: int, key: str, *, bucket: str | None = None, offset: int = 0, length: int | None = None
    ) -> PartInfo:
        """Makes a part of an object, or of a range of it, without copying its bytes."""

    def parts(self) -> list[PartInfo]: ...
    def abort(self) -> None: ...
    def complete(self, parts: Iterable[PartInfo] | None = None, **options: Unpack[_Condition]) -> ObjectInfo:
        """Joins these parts, or all, to the object."""

@final
class RawFile:
    """What ``File`` stands on."""

    def readinto(self, buffer: Buffer) -> int: ...
    def read(self, size: int) -> bytes: ...
    def write(self, data: Buffer) -> int: ...
    def seek(self, offset: int, whence: int) -> int: ...
    def truncate(self, size: int) -> None: ...
    def tell(self) -> int: ...
    def size(self) -> int: ...
    def info(self) -> ObjectInfo | None: ...
    def flush(self) -> None: ...
    def close(self) -> ObjectInfo | None: ...
    def discard(self) -> None: ...

@final
class BucketInfo:
    @property
    def name(self) -> str: ...
    @property
    def created(self) -> datetime: ...
    @property
    def created_ns(self) -> int: ...
    @property
    def metadata(self) -> dict[str, str]: ...
    @property
    def tags(self) -> dict[str, str]: ...
    @property
    def access_times(self) -> str:
        """``off`` or ``relative``."""

    @property
    def quota_bytes(self) -> int | None: ...
    @property
    def quota_objects(self) -> int | None: ...

@final
class IndexInfo:
    @property
    def of(self) -> str:
        """``metadata`` or ``tag``."""

    @property
    def name(self) -> str: ...
    @property
    def whole(self) -> bool:
        """Whether it is built to its end; until then it is not searched."""

@final
class SnapshotInfo:
    @property
    def name(self) -> str: ...
    @property
    def created(self) -> datetime: ...
    @property
    def created_ns(self) -> int: ...

@final
class ObjectInfo:
    @property
    def key(self) -> str: ...
    @property
    def id(self) -> str: ...
    @property
    def version(self) -> int: ...
    @property
    def size(self) -> int: ...
    @property
    def mode(self) -> int: ...
    @property
    def etag(self) -> str: ...
    @property
    def part_count(self) -> int | None: ...
    @property
    def metadata(self) -> dict[str, str]: ...
    @property
    def tags(self) -> dict[str, str]: ...
    @property
    def checksums(self) -> dict[str, str]: ...
    @property
    def content_type(self) -> str | None: ...
    @property
    def cache_control(self) -> str | None: ...
    @property
    def content_disposition(self) -> str | None: ...
    @property
    def content_encoding(self) -> str | None: ...
    @property
    def content_language(self) -> str | None: ...
    @property
    def expires(self) -> str | None: ...
    @property
    def created(self) -> datetime: ...
    @property
    def created_ns(self) -> int: ...
    @property
    def modified(self) -> datetime: ...
    @property
    def modified_ns(self) -> int: ...
    @property
    def changed(self) -> datetime: ...
    @property
    def changed_ns(self) -> int: ...
    @property
    def accessed(self) -> datetime | None:
        """When it was last read, where the bucket keeps that; told by ``head`` alone."""

    @property
    def accessed_ns(self) -> int | None: ...

@final
class ObjectSummary:
    @property
    def key(self) -> str: ...
    @property
    def version(self) -> int: ...
    @property
    def size(self) -> int: ...
    @property
    def etag(self) -> str: ...
    @property
    def modified(self) -> datetime: ...
    @property
    def modified_ns(self) -> int: ...

@final
class Prefix:
    @property
    def key(self) -> str: ...

@final
class PartInfo:
    @property
    def number(self) -> int: ...
    @property
    def size(self) -> int: ...
    @property
    def etag(self) -> str: ...
    @property
    def modified(self) -> datetime: ...
    @property
    def modified_ns(self) -> int: ...

@final
class ListPage:
    @property
    def objects(self) -> Sequence[ObjectSummary]: ...
    @property
    def prefixes(self) -> Sequence[str]: ...
    @property
    def next(self) -> str | None:
        """``after`` of the next page; ``None`` on the last."""

@final
class Listing:
    def __iter__(self) -> Self: ...
    def __next__(self) -> ObjectSummary | Prefix: ...

@final
class Search:
    def __iter__(self) -> Self: ...
    def __next__(self) -> tuple[str, ObjectSummary]: ...

@final
class BucketListing:
    def __iter__(self) -> Self: ...
    def __next__(self) -> BucketInfo: ...
