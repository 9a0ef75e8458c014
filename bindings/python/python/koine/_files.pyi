import io
from typing import Any, Literal, overload

from typing_extensions import Buffer, Unpack

from ._koine import Bucket, ObjectInfo, RawFile, Session, _Path, _Put, _Text

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
    def info(self) -> ObjectInfo | None:
        """What is known of the object: of one that was put, from ``close`` on."""

    @property
    def size(self) -> int:
        """The file's length in bytes."""

    def read(self, size: int | None = -1, /) -> bytes: ...
    def read1(self, size: int | None = -1, /) -> bytes: ...  # type: ignore[override]
    def readall(self) -> bytes: ...
    def readinto(self, buffer: Buffer, /) -> int: ...
    def readinto1(self, buffer: Buffer, /) -> int: ...
    def peek(self, size: int = 0, /) -> bytes: ...
    def write(self, data: Buffer, /) -> int: ...
    def discard(self) -> None:
        """Closes, and gives up what was written and is not visible yet."""

class Text(io.TextIOWrapper):
    """Text, which is given up with its file."""

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

def session_of(store: Session | str | None, options: dict[str, Any], called: str = "argument") -> Session: ...
def split(url: str) -> tuple[str, str]: ...
@overload
def open(
    url: str,
    mode: Literal["rb", "br", "r+b", "rb+", "wb", "bw", "xb", "bx", "ab", "ba"] = "rb",
    *,
    store: Session | str | None = None,
    create: bool = False,
    size: int | None = None,
    memory: int | None = None,
    key_file: _Path | None = None,
    token: str | None = None,
    **options: Unpack[_Put],
) -> File: ...
@overload
def open(
    url: str,
    mode: Literal["r", "rt", "tr", "r+", "rt+", "r+t", "w", "wt", "tw", "x", "xt", "tx", "a", "at", "ta"],
    *,
    store: Session | str | None = None,
    create: bool = False,
    size: int | None = None,
    memory: int | None = None,
    key_file: _Path | None = None,
    token: str | None = None,
    **options: Unpack[_Text],
) -> Text: ...
@overload
def open(url: str, mode: str, *, store: Session | str | None = None, **options: Any) -> Any:
    """Opens ``koine://BUCKET/KEY`` as a file."""
