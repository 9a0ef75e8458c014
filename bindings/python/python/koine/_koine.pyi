import os
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from datetime import datetime
from types import TracebackType
from typing import Any, Literal, Protocol, TypeAlias, TypedDict, TypeVar, final, overload

from typing_extensions import Buffer, Self, Unpack

from ._files import File, Text

__version__: str
__all__ = [
    "Bucket",
    "BucketInfo",
    "BucketListing",
    "Decision",
    "GroupInfo",
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
    "Transaction",
    "TransactionBucket",
    "Upload",
    "UserInfo",
    "Version",
    "VersionListing",
    "__version__",
    "connect",
]

_Path: TypeAlias = str | os.PathLike[str]
_T = TypeVar("_T")

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

class _Attributes(TypedDict, total=False):
    """What is changed of what is known of an object; ``owner``: user and group, as numbers, for file systems."""

    metadata: Mapping[str, str | None] | None
    tags: Mapping[str, str | None] | None
    replace: bool
    mode: int | None
    owner: tuple[int, int] | None
    modified_ns: int | None
    accessed_ns: int | None

class _Set(TypedDict, total=False):
    """What is changed of a bucket."""

    metadata: Mapping[str, str | None] | None
    tags: Mapping[str, str | None] | None
    replace: bool
    access_times: Literal["off", "relative"] | None
    quota_bytes: int | None
    quota_objects: int | None

class _Quotas(TypedDict, total=False):
    quota_bytes: int | None
    quota_objects: int | None

class _GroupChange(_Quotas, total=False):
    rename: str
    description: str
    policies: Sequence[str]

class _UserChange(_Quotas, total=False):
    rename: str
    display: str | None
    disabled: bool
    administrator: bool
    policies: Sequence[str]
    uid: int

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
    token: str | None = None,
) -> Session:
    """Opens the store at a path or URL: a file, a device, ``memory:``, ``koine+unix:SOCKET`` or
    ``koine+tcp:HOST:PORT`` (with ``key_file``). A store that a server holds is reached through the server.

    With a ``token`` (``koine user login`` gives one) it is the session of that user, with its rights, through the server
    that holds the store; what may not be done raises ``AccessDenied``.

    ``create`` makes the file when it is missing, ``size`` is how far it may grow, ``memory`` is for tables and caches;
    all in bytes. With a ``token`` the calls are made by its user, else by who owns the device.
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

    def delete_buckets(self, group: str) -> int:
        """Removes all buckets of a group with what is in them, snapshots too; says how many."""

    def pin(self) -> Session:
        """A session of the same store and caller, which reads the store as it is now, whatever is changed later. What
        would change something raises ``ReadOnly``. Close it: what was deleted since takes space until then, or until
        the store cannot wait (``Expired``)."""

    @property
    def pinned_version(self) -> int | None:
        """The last commit that a pinned session sees."""

    def transact(self, body: Callable[[Transaction], _T]) -> _T:
        """Calls ``body`` with a transaction and commits all that it changed at once, durably; gives what it gave. It is
        called again where others changed what it had read (up to 500 times, then ``Busy``), so it does nothing else that
        cannot be done twice. An exception ends it, and nothing is changed."""

    def transaction(self) -> Transaction:
        """A transaction for one ``with`` block, committed at its end; an exception gives it up. Where others changed what
        it had read it raises ``Conflict`` and nothing is changed: a block cannot be run again, which ``transact`` does."""


    def bucket_info(self, name: str) -> BucketInfo: ...
    def buckets(self, prefix: str = "", *, after: str | None = None, group: str | None = None) -> BucketListing:
        """Buckets by name; those of a group alone for its members and administrators."""

    def log_in(self, user: str, password: str, *, seconds: int = 43200) -> Session:
        """A session of the same store whose calls that user makes; it has a ``token``."""

    def as_token(self, token: str) -> Session:
        """A session of the same store whose calls the user of a token makes."""

    def log_out(self, token: str | None = None) -> None:
        """Takes a token back: its own where none is named."""

    @property
    def user(self) -> str | None: ...
    @property
    def token(self) -> str | None: ...
    @property
    def token_expires(self) -> datetime | None: ...
    def create_group(self, name: str, description: str = "") -> GroupInfo: ...
    def delete_group(self, name: str) -> tuple[int, int]:
        """Deletes a group with the users at home in it and its buckets; says how many of each."""

    def group(self, name: str) -> GroupInfo: ...
    def group_usage(self, name: str) -> dict[str, int]:
        """What the buckets of a group hold together."""

    def groups(self, prefix: str = "") -> list[GroupInfo]: ...
    def set_group(self, name: str, **change: Unpack[_GroupChange]) -> GroupInfo:
        """Changes what is given, and nothing else."""

    def create_user(self, group: str, name: str, password: str | None = None) -> UserInfo: ...
    def delete_user(self, name: str) -> None: ...
    def user_info(self, name: str) -> UserInfo: ...
    def user_usage(self, name: str) -> dict[str, int]:
        """What the buckets of a user hold together."""

    def explain(
        self,
        action: str,
        bucket: str,
        key: str | None = None,
        *,
        user: str | None = None,
        access_key: str | None = None,
    ) -> Decision:
        """Whether a user, who signs with an access key, or everyone may do something (as in policies:
        ``s3:GetObject``), and what decides. For administrators."""

    def users(self, group: str | None = None, *, prefix: str = "") -> list[UserInfo]: ...
    def set_user(self, name: str, **change: Unpack[_UserChange]) -> UserInfo:
        """Changes what is given, and nothing else."""

    def set_password(self, name: str, password: str) -> None:
        """For administrators; a user changes its own with :meth:`change_password`. Its tokens are taken back."""

    def change_password(self, name: str, old: str, new: str) -> None:
        """By who knows the old one. All tokens of the user are taken back, but the one that is used here."""

    def tokens(self, user: str) -> list[str]:
        """The ids of a user's tokens; the tokens themselves are not kept."""

    def delete_token(self, user: str, id: str) -> None:
        """Takes a token back by its id."""

    def add_member(self, group: str, user: str, *, administrator: bool = False) -> None: ...
    def remove_member(self, group: str, user: str) -> None: ...
    def create_key(self, user: str, *, seconds: int | None = None, description: str | None = None) -> tuple[str, str]:
        """An access key for S3 and its secret, which is shown this once."""

    def keys(self, user: str) -> list[str]: ...
    def delete_key(self, user: str, access_key: str) -> None: ...
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

    def get(self, key: str, *, offset: int = 0, length: int | None = None, version: str | None = None) -> bytes:
        """Bytes of an object, or of one of its versions; fewer than ``length`` only at its end."""

    def get_into(self, key: str, buffer: Buffer, *, offset: int = 0) -> int:
        """Reads into a buffer, without a copy in between; gives how many bytes were read."""

    def head(self, key: str, *, version: str | None = None) -> ObjectInfo: ...
    def __contains__(self, key: str, /) -> bool: ...
    def delete(
        self, key: str, *, if_match: str | None = None, if_version: int | None = None, version: str | None = None
    ) -> bool:
        """Deletes an object, or one of its versions for good; says whether there was one. A bucket that keeps versions
        keeps what is deleted without ``version``, behind a delete marker."""

    def versions(self, prefix: str = "") -> Iterator[Version]:
        """All versions of all objects that begin so, delete markers too: by key, then newest first."""

    def set_versioning(self, versioning: Literal["enabled", "suspended"]) -> None:
        """Whether the bucket keeps every object that is put under a key, or no new ones."""

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
    def copy(
        self, key: str, to: str, *, bucket: str | None = None, version: str | None = None, **options: Unpack[_Put]
    ) -> ObjectInfo:
        """Copies an object, or one of its versions, without copying its bytes; to another bucket with ``bucket``."""

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

    def write_copy(
        self,
        key: str,
        to: str,
        *,
        range: tuple[int, int],
        offset: int,
        bucket: str | None = None,
        create: bool = True,
        **options: Unpack[_Condition],
    ) -> ObjectInfo:
        """Writes a range (offset, length) of an object into another at an offset, without copying bytes."""

    def write_file(
        self, key: str, offset: int, source: _Path | _Reads, *, create: bool = True, **options: Unpack[_Condition]
    ) -> ObjectInfo:
        """Writes what a path or a file object holds at an offset."""

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

    def set_attributes(self, key: str, **change: Unpack[_Attributes]) -> ObjectInfo:
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
        stays. A quota of ``None`` is taken away."""

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
    def versioning(self) -> Literal["never", "enabled", "suspended"]: ...
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
class Decision:
    """Whether somebody may do something, which is also its truth, and what decides."""

    @property
    def allowed(self) -> bool: ...
    @property
    def rule(self) -> str: ...
    def __bool__(self) -> bool: ...

@final
class Transaction:
    """Many calls in one commit. What they read they see with the changes made before in it, and it is a condition of
    the commit."""

    def bucket(self, name: str) -> TransactionBucket: ...
    @property
    def version(self) -> int | None:
        """The commit, once there is one."""

    def get_key(self, space: int, key: bytes) -> bytes | None:
        """The value of a key of a space of the caller's, 32 to 2**32-1. Keys are for who owns the device alone."""

    def put_key(self, space: int, key: bytes, value: bytes) -> None: ...
    def delete_key(self, space: int, key: bytes) -> None: ...
    def __enter__(self) -> Self: ...
    def __exit__(
        self, kind: type[BaseException] | None, _error: BaseException | None, _trace: TracebackType | None
    ) -> None: ...

@final
class TransactionBucket:
    """A bucket as a transaction sees it: the calls of ``Bucket``, which happen when the transaction is committed."""

    @property
    def name(self) -> str: ...
    def head(self, key: str) -> ObjectInfo: ...
    def __contains__(self, key: str, /) -> bool: ...
    def get(self, key: str, *, offset: int = 0, length: int | None = None) -> bytes:
        """Bytes of an object; not those that the transaction itself has written."""

    def list_page(
        self, prefix: str = "", *, delimiter: str = "", after: str | None = None, limit: int = 1000
    ) -> ListPage:
        """A page; that no name comes or goes in it is a condition of the commit."""

    def put(self, key: str, data: Buffer, **options: Unpack[_Put]) -> None: ...
    def append(self, key: str, data: Buffer, *, create: bool = True, **options: Unpack[_Condition]) -> None: ...
    def write_at(
        self, key: str, offset: int, data: Buffer, *, create: bool = True, **options: Unpack[_Condition]
    ) -> None: ...
    def truncate(self, key: str, size: int, **options: Unpack[_Condition]) -> None: ...
    def write_copy(
        self,
        key: str,
        to: str,
        *,
        range: tuple[int, int],
        offset: int,
        bucket: str | None = None,
        create: bool = True,
        **options: Unpack[_Condition],
    ) -> None: ...
    def compose(
        self,
        sources: Sequence[str | tuple[str, int, int]],
        to: str,
        *,
        source_metadata: bool = False,
        **options: Unpack[_Put],
    ) -> None: ...
    def copy(
        self, key: str, to: str, *, bucket: str | None = None, version: str | None = None, **options: Unpack[_Put]
    ) -> None: ...
    def move(self, key: str, to: str, *, bucket: str | None = None, **options: Unpack[_Condition]) -> None: ...
    def exchange(self, key: str, other: str, *, bucket: str | None = None) -> None: ...
    def delete(
        self, key: str, *, if_match: str | None = None, if_version: int | None = None, version: str | None = None
    ) -> bool: ...
    def set_attributes(self, key: str, **change: Unpack[_Attributes]) -> None: ...

@final
class GroupInfo:
    @property
    def name(self) -> str: ...
    @property
    def description(self) -> str: ...
    @property
    def policies(self) -> list[str]: ...
    @property
    def quota_bytes(self) -> int | None: ...
    @property
    def quota_objects(self) -> int | None: ...
    @property
    def created(self) -> datetime: ...

@final
class UserInfo:
    @property
    def name(self) -> str: ...
    @property
    def display(self) -> str | None: ...
    @property
    def group(self) -> str: ...
    @property
    def groups(self) -> list[str]: ...
    @property
    def policies(self) -> list[str]: ...
    @property
    def disabled(self) -> bool: ...
    @property
    def administrator(self) -> bool: ...
    @property
    def has_password(self) -> bool: ...
    @property
    def quota_bytes(self) -> int | None: ...
    @property
    def quota_objects(self) -> int | None: ...
    @property
    def created(self) -> datetime: ...

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
    """What is known of an object; two are equal where all is but the time of the last access."""

    @property
    def key(self) -> str: ...
    @property
    def id(self) -> str: ...
    @property
    def version(self) -> int: ...
    @property
    def version_id(self) -> str: ...
    @property
    def size(self) -> int: ...
    @property
    def mode(self) -> int: ...
    @property
    def owner(self) -> tuple[int, int] | None:
        """User and group, as numbers, where they were set."""

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
class Version:
    """A version of an object, or a delete marker."""

    @property
    def key(self) -> str: ...
    @property
    def version_id(self) -> str: ...
    @property
    def newest(self) -> bool: ...
    @property
    def is_marker(self) -> bool: ...
    @property
    def size(self) -> int | None: ...
    @property
    def etag(self) -> str | None: ...
    @property
    def modified(self) -> datetime: ...
    @property
    def modified_ns(self) -> int: ...

@final
class VersionListing:
    def __iter__(self) -> Self: ...
    def __next__(self) -> Version: ...

@final
class Search:
    def __iter__(self) -> Self: ...
    def __next__(self) -> tuple[str, ObjectSummary]: ...

@final
class BucketListing:
    def __iter__(self) -> Self: ...
    def __next__(self) -> BucketInfo: ...
