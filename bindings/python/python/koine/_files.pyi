import io
from typing import Any, overload

from typing_extensions import Buffer, Unpack

from ._koine import Bucket, ObjectInfo, RawFile, Session, _BytesMode, _Path, _Put, _Text, _TextMode

MODES: tuple[str, ...]

class File(io.BufferedIOBase):
    """An object that is open as a file, in bytes."""

    name: str
    def __init__(self, raw: RawFile, name: str, mode: str) -> None: ...
    @property
    def mode(self) -> str: ...
    @property
    def raw(self) -> io.RawIOBase: ...  # type: ignore[override]
    @property
    def info(self) -> ObjectInfo | None: ...
    @property
    def size(self) -> int: ...
    def read(self, size: int | None = -1, /) -> bytes: ...
    def read1(self, size: int | None = -1, /) -> bytes: ...  # type: ignore[override]
    def readall(self) -> bytes: ...
    def readinto(self, buffer: Buffer, /) -> int: ...
    def readinto1(self, buffer: Buffer, /) -> int: ...
    def peek(self, size: int = 0, /) -> bytes: ...
    def write(self, data: Buffer, /) -> int: ...
    def discard(self) -> None: ...

class Text(io.TextIOWrapper):
    """An object that is open as a file, in text: what is written is given up with its file."""

    def discard(self) -> None: ...

def open_in(
    bucket: Bucket,
    key: str,
    mode: str = "rb",
    *,
    encoding: str | None = None,
    errors: str | None = None,
    newline: str | None = None,
    **options: Unpack[_Put],
) -> File | Text: ...
CONNECT: tuple[str, ...]

def session_closed(session: int) -> None: ...

def session_of(store: Session | str | None, options: dict[str, Any], called: str = "argument") -> Session: ...
def split(url: str) -> tuple[str, str]: ...
@overload
def open(
    url: str,
    mode: _BytesMode = "rb",
    *,
    store: Session | str | None = None,
    create: bool = False,
    size: int | None = None,
    memory: int | None = None,
    key_file: _Path | None = None,
    token: str | None = None,
    connect_timeout: float | None = 10.0,
    timeout: float | None = None,
    version: str | None = None,
    **options: Unpack[_Put],
) -> File: ...
@overload
def open(
    url: str,
    mode: _TextMode,
    *,
    store: Session | str | None = None,
    create: bool = False,
    size: int | None = None,
    memory: int | None = None,
    key_file: _Path | None = None,
    token: str | None = None,
    connect_timeout: float | None = 10.0,
    timeout: float | None = None,
    version: str | None = None,
    **options: Unpack[_Text],
) -> Text: ...
@overload
def open(url: str, mode: str, *, store: Session | str | None = None, **options: Any) -> Any:
    """Opens ``koine://BUCKET/KEY`` as a file."""
