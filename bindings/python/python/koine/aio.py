"""The package for asyncio: the same sessions, buckets and files, whose calls are awaited.

    async with koine.aio.connect("store.koine", create=True) as session:
        bucket = await session.create_bucket("first")
        await bucket.put("hello", b"world")
        async for each in bucket.list():
            print(each.key)
        async with await bucket.open("hello") as file:
            await file.read()

What has a call in ``koine`` has it here, with the same arguments; what only names something (``session.bucket(name)``) and what
is walked through (``list``, ``versions``, ``search``, ``buckets``) is not awaited. Calls run on threads, beside the loop. A task
that is cancelled waits no longer; its call goes on to its end, or to the session's ``timeout``.
"""

from __future__ import annotations

import asyncio
import itertools
from typing import Any, AsyncIterator, Callable, Generator

from . import _files, _koine

__all__ = ["Bucket", "File", "Listing", "Session", "Upload", "connect"]

# So many are fetched at once.
_PAGE = 1000


class _Awaited:
    """Something whose calls are made on a thread."""

    # What is not awaited: it asks nothing of a store.
    _at_once: tuple[str, ...] = ()

    def __init__(self, of: Any) -> None:
        self._of = of

    def __getattr__(self, name: str) -> Any:
        found = getattr(self._of, name)
        if not callable(found):
            return found
        if name in self._at_once:
            return lambda *given, **options: _wrapped(found(*given, **options))

        async def call(*given: Any, **options: Any) -> Any:
            return _wrapped(await asyncio.to_thread(found, *given, **options))

        call.__name__, call.__doc__ = name, found.__doc__
        return call

    def __dir__(self) -> list[str]:
        return sorted({*super().__dir__(), *(name for name in dir(self._of) if not name.startswith("__"))})

    def __repr__(self) -> str:
        return f"koine.aio.{self._of!r}"

    async def __aenter__(self) -> Any:
        return self

    async def __aexit__(self, kind: Any, error: Any, trace: Any) -> None:
        await asyncio.to_thread(self._of.__exit__, kind, error, trace)


class Session(_Awaited):
    """``koine.Session``, whose calls are awaited."""

    _at_once = ("bucket", "buckets")


class Bucket(_Awaited):
    """``koine.Bucket``, whose calls are awaited."""

    _at_once = ("list", "versions", "search")

    def __aiter__(self) -> AsyncIterator[Any]:
        return self.list().__aiter__()


class Upload(_Awaited):
    """``koine.Upload``, whose calls are awaited."""


class File(_Awaited):
    """``koine.File``, or its text, whose calls are awaited; ``async for`` gives its lines."""

    _at_once = ("readable", "writable", "seekable")

    def __aiter__(self) -> AsyncIterator[Any]:
        return _walk(iter(self._of))


class Listing(_Awaited):
    """What is walked through by ``async for``, some at a time."""

    def __aiter__(self) -> AsyncIterator[Any]:
        return _walk(self._of)


async def _walk(of: Any) -> AsyncIterator[Any]:
    while some := await asyncio.to_thread(lambda: list(itertools.islice(of, _PAGE))):
        for each in some:
            yield each


_KINDS: dict[type, Callable[[Any], Any]] = {
    _koine.Session: Session,
    _koine.Bucket: Bucket,
    _koine.Upload: Upload,
    _koine.Listing: Listing,
    _koine.Search: Listing,
    _koine.VersionListing: Listing,
    _koine.BucketListing: Listing,
    _files.File: File,
    _files.Text: File,
}


def _wrapped(made: Any) -> Any:
    if isinstance(made, list):
        return [_wrapped(each) for each in made]
    kind = _KINDS.get(type(made))
    return kind(made) if kind else made


class _Connecting:
    """To be awaited, or for ``async with``."""

    def __init__(self, given: tuple[Any, ...], options: dict[str, Any]) -> None:
        self._connect = lambda: asyncio.to_thread(_koine.connect, *given, **options)
        self._session: Session | None = None

    async def _made(self) -> Session:
        return Session(await self._connect())

    def __await__(self) -> Generator[Any, None, Session]:
        return self._made().__await__()

    async def __aenter__(self) -> Session:
        self._session = await self._made()
        return self._session

    async def __aexit__(self, kind: Any, error: Any, trace: Any) -> None:
        if self._session is not None:
            await self._session.close()


def connect(*given: Any, **options: Any) -> _Connecting:
    """``koine.connect``, to be awaited or for ``async with``."""
    return _Connecting(given, options)
