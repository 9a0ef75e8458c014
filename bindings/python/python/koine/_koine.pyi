import os
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from datetime import datetime
from types import TracebackType
from typing import Any, Generic, Literal, Protocol, TypeAlias, TypedDict, TypeVar, final, overload

from typing_extensions import Buffer, Self, Unpack

from ._files import File, Text
from ._paths import Path

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
_Key: TypeAlias = str | os.PathLike[str]
_Told: TypeAlias = Callable[[int, int | None], object] | None
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

_BytesMode: TypeAlias = Literal[
    "rb", "br", "r+b", "rb+", "wb", "bw", "w+b", "wb+", "xb", "bx", "x+b", "xb+", "ab", "ba", "a+b", "ab+"
]
_TextMode: TypeAlias = Literal[
    "r", "rt", "tr", "r+", "rt+", "r+t", "w", "wt", "tw", "w+", "wt+", "w+t", "x", "xt", "tx", "x+", "xt+", "x+t",
    "a", "at", "ta", "a+", "at+", "a+t"
]

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
    connect_timeout: float | None = 10.0,
    timeout: float | None = None,
) -> Session:
    """Opens the store at a path or URL: a file, a device, ``memory:``, ``koine+unix:SOCKET`` or
    ``koine+tcp:HOST:PORT`` (with ``key_file``). A store that a server holds is reached through the server.

    With a ``token`` (``koine user login`` gives one) it is the session of that user, with its rights, through the server
    that holds the store; what may not be done raises ``AccessDenied``.

    ``create`` makes the file when it is missing, ``size`` is how far it may grow, ``memory`` is for tables and caches;
    all in bytes.

    ``connect_timeout`` is how many seconds connecting may take, ``timeout`` how many each call of the session may, whatever it
    moves; ``None`` is as long as the server goes on answering (a minute without an answer ends a call). Where it takes longer
    ``TimedOut`` is raised. Ctrl-C, and any handler of a signal that raises, ends a call in the main thread at once; a put that
    is ended leaves nothing.
    """

@final
class Session:
    """An open store. Sessions of one process on one path share it; the last to be closed closes it."""

    @property
    def place(self) -> str:
        """Where the store is, as it was given to :func:`connect`."""

    @property
    def closed(self) -> bool:
        """Whether it was closed."""

    @property
    def is_owner(self) -> bool:
        """Whether this process holds the store, and not another that is asked."""

    def close(self) -> None:
        """Lets the store go. Files that are still open fail from then on."""

    def bucket(self, name: str) -> Bucket:
        """A bucket, whether it is there or not; nothing is asked of the store."""

    def create_bucket(self, name: str) -> Bucket:
        """Makes a bucket; one that is there raises ``FileExistsError``."""

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


    def bucket_info(self, name: str) -> BucketInfo:
        """What is known of a bucket."""

    def buckets(self, prefix: str = "", *, after: str | None = None, group: str | None = None) -> BucketListing:
        """Buckets by name; those of a group alone for its members and administrators."""

    def log_in(self, user: str, password: str, *, seconds: int = 43200) -> Session:
        """A session of the same store whose calls that user makes; it has a ``token``."""

    def as_token(self, token: str) -> Session:
        """A session of the same store whose calls the user of a token makes."""

    def log_out(self, token: str | None = None) -> None:
        """Takes a token back: its own where none is named."""

    @property
    def user(self) -> str | None:
        """Who has logged in by this session, where somebody has."""

    @property
    def token(self) -> str | None:
        """The token of who has logged in by this session."""

    @property
    def token_expires(self) -> datetime | None:
        """When that token is of no use any more."""

    def create_group(self, name: str, description: str = "") -> GroupInfo:
        """Makes a group of users."""

    def delete_group(self, name: str) -> tuple[int, int]:
        """Deletes a group with the users at home in it and its buckets; says how many of each."""

    def group(self, name: str) -> GroupInfo:
        """What is known of a group."""

    def group_usage(self, name: str) -> dict[str, int]:
        """What the buckets of a group hold together."""

    def groups(self, prefix: str = "") -> list[GroupInfo]:
        """All groups whose names begin so."""

    def set_group(self, name: str, **change: Unpack[_GroupChange]) -> GroupInfo:
        """Changes what is given, and nothing else."""

    def create_user(self, group: str, name: str, password: str | None = None) -> UserInfo:
        """Makes a user at home in a group, who logs in by the password, where one is given."""

    def delete_user(self, name: str) -> None:
        """Deletes a user with its keys and tokens; who owns buckets raises ``NotEmpty``."""

    def user_info(self, name: str) -> UserInfo:
        """What is known of a user."""

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

    def users(self, group: str | None = None, *, prefix: str = "") -> list[UserInfo]:
        """All users, or those of a group, whose names begin so."""

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

    def add_member(self, group: str, user: str, *, administrator: bool = False) -> None:
        """Makes a user a member of a group."""

    def remove_member(self, group: str, user: str) -> None:
        """Takes a user out of a group."""

    def create_key(self, user: str, *, seconds: int | None = None, description: str | None = None) -> tuple[str, str]:
        """An access key for S3 and its secret, which is shown this once."""

    def keys(self, user: str) -> list[str]:
        """The access keys of a user; their secrets are not told again."""

    def delete_key(self, user: str, access_key: str) -> None:
        """Deletes an access key."""

    def __enter__(self) -> Self: ...
    def __exit__(
        self, _kind: type[BaseException] | None, _error: BaseException | None, _trace: TracebackType | None
    ) -> None: ...

@final
class Bucket:
    """A bucket of a store, whether it is there or not."""

    @property
    def name(self) -> str:
        """Its name."""

    def info(self) -> BucketInfo:
        """What is known of the bucket."""

    def exists(self) -> bool:
        """Whether it is there."""

    def put(self, key: _Key, data: Buffer, **options: Unpack[_Put]) -> ObjectInfo:
        """Puts an object. ``if_absent``: where none is (else ``FileExistsError``); ``if_present``: where one is;
        ``if_match``: where one has this ETag; ``if_version``: where one has this version. ``md5``: the ETag is the MD5
        of the bytes, for clients of S3 that compare it."""

    def get(self, key: _Key, *, offset: int = 0, length: int | None = None, version: str | None = None) -> bytes:
        """Bytes of an object, or of one of its versions; fewer than ``length`` only at its end."""

    def get_into(self, key: _Key, buffer: Buffer, *, offset: int = 0) -> int:
        """Reads into a buffer, without a copy in between; gives how many bytes were read."""

    def head(self, key: _Key, *, version: str | None = None) -> ObjectInfo:
        """What is known of an object, or of one of its versions."""

    def __contains__(self, key: _Key, /) -> bool: ...
    def __getitem__(self, key: _Key, /) -> bytes: ...
    def __setitem__(self, key: _Key, data: Buffer, /) -> None: ...
    def __delitem__(self, key: _Key, /) -> None: ...
    def __truediv__(self, key: _Key, /) -> Path: ...
    def delete(
        self, key: _Key, *, if_match: str | None = None, if_version: int | None = None, version: str | None = None
    ) -> bool:
        """Deletes an object, or one of its versions for good; says whether there was one. A bucket that keeps versions
        keeps what is deleted without ``version``, behind a delete marker."""

    def versions(self, prefix: str = "") -> VersionListing:
        """All versions of all objects that begin so, delete markers too: by key, then newest first."""

    def set_versioning(self, versioning: Literal["enabled", "suspended"]) -> None:
        """Whether the bucket keeps every object that is put under a key, or no new ones."""

    def delete_many(self, keys: Iterable[_Key]) -> int:
        """Deletes objects, each thousand in one commit, of any iterable; says how many there were."""

    @overload
    def list(
        self, prefix: str = "", *, delimiter: Literal[""] = "", after: str | None = None, limit: int | None = None
    ) -> Listing[ObjectSummary]: ...
    @overload
    def list(
        self, prefix: str = "", *, delimiter: str, after: str | None = None, limit: int | None = None
    ) -> Listing[ObjectSummary | Prefix]:
        """Objects by key. Keys that go on after the delimiter are told once, as what they have in common."""

    def __iter__(self) -> Listing[ObjectSummary]: ...
    def list_page(
        self, prefix: str = "", *, delimiter: str = "", after: str | None = None, limit: int = 1000
    ) -> ListPage:
        """One page of a listing; its ``next`` is the ``after`` of the page behind it."""

    def copy(
        self, key: _Key, to: _Key, *, bucket: str | None = None, version: str | None = None, **options: Unpack[_Put]
    ) -> ObjectInfo:
        """Copies an object, or one of its versions, without copying its bytes; to another bucket with ``bucket``."""

    def put_file(
        self, key: _Key, source: _Path | _Reads, *, progress: _Told = None, **options: Unpack[_Put]
    ) -> ObjectInfo:
        """Puts what a path or a file object holds. ``progress(done, total)`` is told how many bytes have gone, and of how many
        where that is known; an exception of it ends the call, and nothing is put."""

    def get_file(
        self,
        key: _Key,
        target: _Path | _Writes,
        *,
        offset: int = 0,
        length: int | None = None,
        version: str | None = None,
        progress: _Told = None,
    ) -> int:
        """Writes an object, or one of its versions, to a path or a file object; says how many bytes. ``progress(done, total)``
        is told how many have gone; an exception of it ends the call, and a file that was made for it is deleted."""

    @overload
    def open(
        self, key: _Key, mode: _BytesMode = "rb", *, version: str | None = None, **options: Unpack[_Put]
    ) -> File: ...
    @overload
    def open(self, key: _Key, mode: _TextMode, *, version: str | None = None, **options: Unpack[_Text]) -> Text: ...
    @overload
    def open(self, key: _Key, mode: str, **options: Any) -> Any:
        """Opens an object as a file. ``r`` reads it, or with ``version`` one of its versions. ``w`` puts it anew at ``close``,
        ``x`` the same where none is. ``r+`` writes over it and ``a`` behind it, seen at ``flush`` and ``close``. ``w+``, ``x+``
        and ``a+`` read too and write anywhere (``a+`` at the end), on this machine's disk until ``close`` puts it whole.
        With ``b`` it is bytes; without, text, with ``encoding``, ``errors`` and ``newline`` as files have them."""

    def open_raw(
        self, key: _Key, mode: str, *, version: str | None = None, **options: Unpack[_Put]
    ) -> RawFile:
        """What ``open`` stands on: without text, buffers and names."""

    def append(self, key: _Key, data: Buffer, *, create: bool = True, **options: Unpack[_Condition]) -> ObjectInfo:
        """Writes at an object's end; makes it unless ``create=False``."""

    def write_at(
        self, key: _Key, offset: int, data: Buffer, *, create: bool = True, **options: Unpack[_Condition]
    ) -> ObjectInfo:
        """Writes over an object's bytes; a gap past its end reads as zeros."""

    def write_copy(
        self,
        key: _Key,
        to: _Key,
        *,
        range: tuple[int, int],
        offset: int,
        bucket: str | None = None,
        create: bool = True,
        **options: Unpack[_Condition],
    ) -> ObjectInfo:
        """Writes a range (offset, length) of an object into another at an offset, without copying bytes."""

    def write_file(
        self,
        key: _Key,
        offset: int,
        source: _Path | _Reads,
        *,
        create: bool = True,
        progress: _Told = None,
        **options: Unpack[_Condition],
    ) -> ObjectInfo:
        """Writes what a path or a file object holds at an offset."""

    def truncate(self, key: _Key, size: int, **options: Unpack[_Condition]) -> ObjectInfo:
        """Gives an object another length; what is added reads as zeros."""

    def move(self, key: _Key, to: _Key, *, bucket: str | None = None, **options: Unpack[_Condition]) -> ObjectInfo:
        """Gives an object another name."""

    def exchange(self, key: _Key, other: _Key, *, bucket: str | None = None) -> tuple[ObjectInfo, ObjectInfo]:
        """Swaps what two names stand for."""

    def compose(
        self,
        sources: Sequence[_Key | tuple[_Key, int, int]],
        to: _Key,
        *,
        source_metadata: bool = False,
        **options: Unpack[_Put],
    ) -> ObjectInfo:
        """Makes an object of others, or of ranges (key, offset, length) of them, without copying bytes."""

    def copy_prefix(self, prefix: str, to: _Key, *, bucket: str | None = None) -> int:
        """Copies all that begins so to names that begin otherwise; says how many."""

    def move_prefix(self, prefix: str, to: _Key) -> None:
        """Moves all that begins so, in one commit."""

    def set_attributes(self, key: _Key, **change: Unpack[_Attributes]) -> ObjectInfo:
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

    def drop_index(self, *, metadata: str | None = None, tag: str | None = None) -> None:
        """Takes an index away."""

    def indexes(self) -> Sequence[IndexInfo]:
        """Its indexes."""

    def set(self, **change: Unpack[_Set]) -> BucketInfo:
        """Changes what is known of the bucket. Entries are set, or taken away by ``None``; with ``replace`` no other
        stays. A quota of ``None`` is taken away."""

    def usage(self) -> dict[str, int]:
        """How many objects and bytes it holds, without counting them."""

    def snapshot(self, name: str) -> SnapshotInfo:
        """Keeps the bucket as it is now; it is read as the bucket ``BUCKET@NAME``."""

    def snapshots(self) -> Sequence[SnapshotInfo]:
        """Its snapshots."""

    def delete_snapshot(self, name: str) -> None:
        """Keeps a snapshot no more."""

    def restore(self, snapshot: str) -> None:
        """Makes the bucket what it was."""

    def branch(self, to: _Key) -> Bucket:
        """Makes a new bucket with all that is in this one, without copying bytes."""

    def purge(self) -> None:
        """Deletes all objects."""

    def upload(self, key: _Key, **options: Unpack[_Made]) -> Upload:
        """Begins an upload in parts."""

    def uploads(self, prefix: str = "") -> Sequence[Upload]:
        """Uploads that are neither completed nor aborted."""

@final
class Upload:
    """An object on its way in, part by part."""

    @property
    def id(self) -> str:
        """Its name among the uploads of the key."""

    @property
    def key(self) -> str:
        """The key of the object that it becomes."""

    @property
    def bucket(self) -> str:
        """The bucket of the object that it becomes."""

    def put(self, number: int, data: Buffer) -> PartInfo:
        """Puts part 1 to 10,000. All but the last have at least 5 MiB."""

    def copy(
        self, number: int, key: _Key, *, bucket: str | None = None, offset: int = 0, length: int | None = None
    ) -> PartInfo:
        """Makes a part of an object, or of a range of it, without copying its bytes."""

    def parts(self) -> list[PartInfo]:
        """The parts that were put."""

    def abort(self) -> None:
        """Gives it up with all its parts."""

    def complete(self, parts: Iterable[PartInfo] | None = None, **options: Unpack[_Condition]) -> ObjectInfo:
        """Joins these parts, or all, to the object."""

@final
class RawFile:
    """What ``File`` stands on."""

    @property
    def session(self) -> int:
        """A number that is that of the session's other files, and of no other's."""

    def readinto(self, buffer: Buffer) -> int:
        """Fills a buffer, but at the file's end; how many bytes."""

    def read(self, size: int) -> bytes:
        """So many bytes, or all that are left where it is negative."""

    def write(self, data: Buffer) -> int:
        """Takes all of it, or raises."""

    def seek(self, offset: int, whence: int) -> int:
        """Moves on; gives the position."""

    def truncate(self, size: int) -> None:
        """Gives the file another length."""

    def tell(self) -> int:
        """The position."""

    def size(self) -> int:
        """The file's length in bytes."""

    def info(self) -> ObjectInfo | None:
        """What is known of the object; ``None`` of one that is yet to be made."""

    def flush(self) -> None:
        """Makes visible what an edit has written."""

    def close(self) -> ObjectInfo | None:
        """Closes, and makes visible what was written; what is known of the object then."""

    def discard(self) -> None:
        """Closes, and gives up what is not visible yet."""


class _Info:
    """What all that is told of things has: equality, ``hash``, ``pickle``, and a table in notebooks."""

    _fields: tuple[str, ...]
    def _asdict(self) -> dict[str, Any]:
        """Its fields by their names."""

    def _repr_html_(self) -> str: ...

@final
class BucketInfo(_Info):
    """What is known of a bucket."""

    @property
    def name(self) -> str:
        """Its name."""

    @property
    def created(self) -> datetime:
        """When it was made."""

    @property
    def created_ns(self) -> int:
        """When it was made, in nanoseconds since 1970."""

    @property
    def versioning(self) -> Literal["never", "enabled", "suspended"]:
        """Whether it keeps versions of its objects."""

    @property
    def metadata(self) -> dict[str, str]:
        """Its metadata."""

    @property
    def tags(self) -> dict[str, str]:
        """Its tags."""

    @property
    def access_times(self) -> str:
        """``off`` or ``relative``."""

    @property
    def quota_bytes(self) -> int | None:
        """How many bytes it may hold."""

    @property
    def quota_objects(self) -> int | None:
        """How many objects it may hold."""


@final
class IndexInfo(_Info):
    """An index of a bucket."""

    @property
    def of(self) -> str:
        """``metadata`` or ``tag``."""

    @property
    def name(self) -> str:
        """The name of the metadata or the tag."""

    @property
    def whole(self) -> bool:
        """Whether it is built to its end; until then it is not searched."""

@final
class Decision(_Info):
    """Whether somebody may do something, which is also its truth, and what decides."""

    @property
    def allowed(self) -> bool:
        """Whether it is allowed."""

    @property
    def rule(self) -> str:
        """What decides, in words."""

    def __bool__(self) -> bool: ...

@final
class Transaction:
    """Many calls in one commit. What they read they see with the changes made before in it, and it is a condition of
    the commit."""

    def bucket(self, name: str) -> TransactionBucket:
        """A bucket as the transaction sees it."""

    @property
    def version(self) -> int | None:
        """The commit, once there is one."""

    def get_key(self, space: int, key: bytes) -> bytes | None:
        """The value of a key of a space of the caller's, 32 to 2**32-1. Keys are for who owns the device alone."""

    def put_key(self, space: int, key: bytes, value: bytes) -> None:
        """Puts a key of a space of the caller's."""

    def delete_key(self, space: int, key: bytes) -> None:
        """Deletes a key of a space of the caller's."""

    def __enter__(self) -> Self: ...
    def __exit__(
        self, kind: type[BaseException] | None, _error: BaseException | None, _trace: TracebackType | None
    ) -> None: ...

@final
class TransactionBucket:
    """A bucket as a transaction sees it: the calls of ``Bucket``, which happen when the transaction is committed."""

    @property
    def name(self) -> str:
        """Its name."""

    def head(self, key: _Key) -> ObjectInfo:
        """What is known of an object."""

    def __contains__(self, key: _Key, /) -> bool: ...
    def get(self, key: _Key, *, offset: int = 0, length: int | None = None) -> bytes:
        """Bytes of an object; not those that the transaction itself has written."""

    def list_page(
        self, prefix: str = "", *, delimiter: str = "", after: str | None = None, limit: int = 1000
    ) -> ListPage:
        """A page; that no name comes or goes in it is a condition of the commit."""

    def put(self, key: _Key, data: Buffer, **options: Unpack[_Put]) -> None:
        """Puts an object, as ``Bucket.put`` does."""

    def append(self, key: _Key, data: Buffer, *, create: bool = True, **options: Unpack[_Condition]) -> None:
        """Writes at an object's end."""

    def write_at(
        self, key: _Key, offset: int, data: Buffer, *, create: bool = True, **options: Unpack[_Condition]
    ) -> None:
        """Writes over an object's bytes."""

    def truncate(self, key: _Key, size: int, **options: Unpack[_Condition]) -> None:
        """Gives an object another length."""

    def write_copy(
        self,
        key: _Key,
        to: _Key,
        *,
        range: tuple[int, int],
        offset: int,
        bucket: str | None = None,
        create: bool = True,
        **options: Unpack[_Condition],
    ) -> None:
        """Writes a range (offset, length) of an object into another."""

    def compose(
        self,
        sources: Sequence[_Key | tuple[_Key, int, int]],
        to: _Key,
        *,
        source_metadata: bool = False,
        **options: Unpack[_Put],
    ) -> None:
        """Makes an object of others, or of ranges of them."""

    def copy(
        self, key: _Key, to: _Key, *, bucket: str | None = None, version: str | None = None, **options: Unpack[_Put]
    ) -> None:
        """Copies an object, or one of its versions."""

    def move(self, key: _Key, to: _Key, *, bucket: str | None = None, **options: Unpack[_Condition]) -> None:
        """Gives an object another name."""

    def exchange(self, key: _Key, other: _Key, *, bucket: str | None = None) -> None:
        """Swaps what two names stand for."""

    def delete(
        self, key: _Key, *, if_match: str | None = None, if_version: int | None = None, version: str | None = None
    ) -> bool:
        """Deletes an object, or one of its versions; says whether there was one."""

    def set_attributes(self, key: _Key, **change: Unpack[_Attributes]) -> None:
        """Changes what is known of an object."""


@final
class GroupInfo(_Info):
    """What is known of a group."""

    @property
    def name(self) -> str:
        """Its name."""

    @property
    def description(self) -> str:
        """What it is for."""

    @property
    def policies(self) -> list[str]:
        """The policies that hold for its members."""

    @property
    def quota_bytes(self) -> int | None:
        """How many bytes its buckets may hold."""

    @property
    def quota_objects(self) -> int | None:
        """How many objects its buckets may hold."""

    @property
    def created(self) -> datetime:
        """When it was made."""


@final
class UserInfo(_Info):
    """What is known of a user."""

    @property
    def name(self) -> str:
        """The name to log in by."""

    @property
    def display(self) -> str | None:
        """The name to show."""

    @property
    def group(self) -> str:
        """The group it is at home in."""

    @property
    def groups(self) -> list[str]:
        """The groups it is a member of."""

    @property
    def policies(self) -> list[str]:
        """The policies that hold for it."""

    @property
    def disabled(self) -> bool:
        """Whether nobody is let in by its name."""

    @property
    def administrator(self) -> bool:
        """Whether it administers the store."""

    @property
    def has_password(self) -> bool:
        """Whether it has a password."""

    @property
    def quota_bytes(self) -> int | None:
        """How many bytes its buckets may hold."""

    @property
    def quota_objects(self) -> int | None:
        """How many objects its buckets may hold."""

    @property
    def created(self) -> datetime:
        """When it was made."""


@final
class SnapshotInfo(_Info):
    """What is known of a snapshot of a bucket."""

    @property
    def name(self) -> str:
        """Its name."""

    @property
    def created(self) -> datetime:
        """When it was made."""

    @property
    def created_ns(self) -> int:
        """When it was made, in nanoseconds since 1970."""


@final
class ObjectInfo(_Info):
    """What is known of an object; two are equal where all is but the time of the last access."""

    @property
    def key(self) -> str:
        """Its key."""

    @property
    def id(self) -> str:
        """What it is known by whatever its key; a put makes another one."""

    @property
    def version(self) -> int:
        """The commit that made it so, for ``if_version``."""

    @property
    def version_id(self) -> str:
        """The id of this version, for ``version=``; ``null`` where none is kept."""

    @property
    def size(self) -> int:
        """Its length in bytes."""

    @property
    def mode(self) -> int:
        """Its mode, for file systems."""

    @property
    def owner(self) -> tuple[int, int] | None:
        """User and group, as numbers, where they were set."""

    @property
    def etag(self) -> str:
        """Its ETag, for ``if_match``."""

    @property
    def part_count(self) -> int | None:
        """How many parts it was joined from."""

    @property
    def metadata(self) -> dict[str, str]:
        """Its metadata."""

    @property
    def tags(self) -> dict[str, str]:
        """Its tags."""

    @property
    def checksums(self) -> dict[str, str]:
        """Its checksums, by algorithm."""

    @property
    def content_type(self) -> str | None:
        """The header Content-Type."""

    @property
    def cache_control(self) -> str | None:
        """The header Cache-Control."""

    @property
    def content_disposition(self) -> str | None:
        """The header Content-Disposition."""

    @property
    def content_encoding(self) -> str | None:
        """The header Content-Encoding."""

    @property
    def content_language(self) -> str | None:
        """The header Content-Language."""

    @property
    def expires(self) -> str | None:
        """The header Expires."""

    @property
    def created(self) -> datetime:
        """When it was made."""

    @property
    def created_ns(self) -> int:
        """When it was made, in nanoseconds since 1970."""

    @property
    def modified(self) -> datetime:
        """When its bytes were changed."""

    @property
    def modified_ns(self) -> int:
        """When its bytes were changed, in nanoseconds since 1970."""

    @property
    def changed(self) -> datetime:
        """When it or what is known of it was changed."""

    @property
    def changed_ns(self) -> int:
        """When it or what is known of it was changed, in nanoseconds since 1970."""

    @property
    def accessed(self) -> datetime | None:
        """When it was last read, where the bucket keeps that; told by ``head`` alone."""

    @property
    def accessed_ns(self) -> int | None:
        """When it was last read, in nanoseconds since 1970, where the bucket keeps that."""


@final
class ObjectSummary(_Info):
    """What a listing tells of an object."""

    @property
    def key(self) -> str:
        """Its key."""

    @property
    def version(self) -> int:
        """The commit that made it so."""

    @property
    def size(self) -> int:
        """Its length in bytes."""

    @property
    def etag(self) -> str:
        """Its ETag."""

    @property
    def modified(self) -> datetime:
        """When its bytes were changed."""

    @property
    def modified_ns(self) -> int:
        """When its bytes were changed, in nanoseconds since 1970."""


@final
class Prefix(_Info):
    """What keys have in common up to the delimiter."""

    @property
    def key(self) -> str:
        """The prefix, with the delimiter at its end."""


@final
class PartInfo(_Info):
    """What is known of a part of an upload."""

    @property
    def number(self) -> int:
        """Its number, 1 to 10,000."""

    @property
    def size(self) -> int:
        """Its length in bytes."""

    @property
    def etag(self) -> str:
        """Its ETag."""

    @property
    def modified(self) -> datetime:
        """When it was put."""

    @property
    def modified_ns(self) -> int:
        """When it was put, in nanoseconds since 1970."""


@final
class ListPage:
    """A page of objects and common prefixes."""

    @property
    def objects(self) -> Sequence[ObjectSummary]:
        """The objects of the page."""

    @property
    def prefixes(self) -> Sequence[str]:
        """What keys have in common up to the delimiter."""

    @property
    def next(self) -> str | None:
        """``after`` of the next page; ``None`` on the last."""

class _Tabled:
    def to_arrow(self) -> Any:
        """What is left of it as a ``pyarrow.Table``."""

    def to_pandas(self) -> Any:
        """What is left of it as a ``pandas.DataFrame``."""

_Listed = TypeVar("_Listed", covariant=True)

@final
class Listing(_Tabled, Generic[_Listed]):
    """Objects of a bucket, and prefixes, by key; fetched as they are asked for."""

    def __iter__(self) -> Self: ...
    def __next__(self) -> _Listed: ...

@final
class Version(_Info):
    """A version of an object, or a delete marker."""

    @property
    def key(self) -> str:
        """The key."""

    @property
    def version_id(self) -> str:
        """Its id, for ``version=``."""

    @property
    def newest(self) -> bool:
        """Whether it is what the key stands for now."""

    @property
    def is_marker(self) -> bool:
        """Whether it is a delete marker."""

    @property
    def size(self) -> int | None:
        """Its length in bytes; a marker has none."""

    @property
    def etag(self) -> str | None:
        """Its ETag; a marker has none."""

    @property
    def modified(self) -> datetime:
        """When it was put."""

    @property
    def modified_ns(self) -> int:
        """When it was put, in nanoseconds since 1970."""


@final
class VersionListing(_Tabled):
    """Versions of a bucket's objects, fetched as they are asked for."""

    def __iter__(self) -> Self: ...
    def __next__(self) -> Version: ...

@final
class Search(_Tabled):
    """What was searched for: each object with the text that was found."""

    def __iter__(self) -> Self: ...
    def __next__(self) -> tuple[str, ObjectSummary]: ...

@final
class BucketListing(_Tabled):
    """Buckets by name."""

    def __iter__(self) -> Self: ...
    def __next__(self) -> BucketInfo: ...
