"""Objects as files of Python: ``koine.File`` and ``koine.open``."""

from __future__ import annotations

import io
import os
import tempfile
import warnings
import weakref

from . import _koine, errors

# So much is read ahead of lines and of small reads, and so much of small writes goes on at once.
_AHEAD = 256 << 10
# What is written anywhere and put whole is kept in memory up to here, then on this machine's disk.
_IN_MEMORY = 16 << 20

# Where the file reads, where it writes, and whether it moves.
_ABLE = {
    "r": (True, False, True),
    "r+": (True, True, True),
    "w": (False, True, False),
    "x": (False, True, False),
    "a": (False, True, False),
    "w+": (True, True, True),
    "x+": (True, True, True),
    "a+": (True, True, True),
}
MODES = tuple(_ABLE)


class _Raw(io.RawIOBase):
    """What the buffers of a file stand on; the file itself closes it."""

    def __init__(self, raw, able):
        self._raw = raw
        self._able = able
        # From here on what comes out of a buffer is given up.
        self.gives_up = False

    def readable(self):
        return self._able[0]

    def writable(self):
        return self._able[1]

    def seekable(self):
        return self._able[2]

    def readinto(self, buffer):
        return self._raw.readinto(buffer)

    def readall(self):
        return self._raw.read(-1)

    def write(self, data):
        return memoryview(data).nbytes if self.gives_up else self._raw.write(data)

    def seek(self, offset, whence=0):
        return 0 if self.gives_up else self._raw.seek(offset, whence)

    def truncate(self, size=None):
        size = self._raw.tell() if size is None else size
        self._raw.truncate(size)
        return size

    def tell(self):
        return 0 if self.gives_up else self._raw.tell()


class _Lost:
    """In the place of buffers, where the session was closed: what they hold is not given out any more."""

    def __getattr__(self, name):
        raise errors.Closed("the session of the file was closed; connect again")

    def close(self):
        """There is nothing to close."""


# Open files, by their sessions.
_OPEN = {}


def session_closed(session):
    """Called when a session was closed."""
    for file in _OPEN.pop(session, ()):
        file._lose()


class _Spool:
    """A new object that is read and written anywhere before it is put: what ``RawFile`` is to other files."""

    def __init__(self, bucket, key, options):
        # What is wrong with the options, the name or the rights is told now.
        asked = bucket.open_raw(key, "w", **options)
        asked.discard()
        self.session = asked.session
        self._put = lambda: bucket.put_file(key, self._file, **options)
        self._file = tempfile.SpooledTemporaryFile(_IN_MEMORY)

    def readinto(self, buffer):
        view = memoryview(buffer).cast("B")
        piece = self._file.read(len(view))
        view[: len(piece)] = piece
        return len(piece)

    def read(self, size):
        return self._file.read(size)

    def write(self, data):
        return self._file.write(data)

    def seek(self, offset, whence):
        self._file.seek(offset, whence)
        return self._file.tell()

    def truncate(self, size):
        at = self._file.tell()
        if size > self.size():
            # Not every version of the class extends.
            self._file.seek(size - 1)
            self._file.write(b"\0")
        self._file.truncate(size)
        self._file.seek(at)

    def tell(self):
        return self._file.tell()

    def size(self):
        at = self._file.tell()
        size = self._file.seek(0, 2) or self._file.tell()
        self._file.seek(at)
        return size

    def info(self):
        return None

    def flush(self):
        """Nothing is seen before it is put."""

    def close(self):
        with self._file:
            self._file.seek(0)
            return self._put()

    def discard(self):
        self._file.close()


class File(io.BufferedIOBase):
    """An object that is open as a file, in bytes.

    ``r`` reads the object as it is when it is opened, to its end, whatever becomes of the name. ``w`` and ``x`` put an
    object at ``close``, whole; ``w+`` and ``x+`` too, and read and write it anywhere before. ``r+``, ``a`` and ``a+`` edit it
    at ``flush`` and ``close``, each in one commit. Leaving a ``with`` block by an exception gives up what is not visible
    yet; so does a file that is forgotten, with a warning.
    """

    def __init__(self, raw, name, mode):
        self._raw = raw
        self._able = _ABLE[mode]
        self._under = _Raw(raw, self._able)
        self._mode = mode
        self._made = None
        self._ended = False
        self.name = name
        reads, writes, _ = self._able
        if reads and writes:
            self._buffered = io.BufferedRandom(self._under, _AHEAD)
        else:
            self._buffered = (io.BufferedReader if reads else io.BufferedWriter)(self._under, _AHEAD)
        # Lines and small writes cost what they cost with a local file.
        if reads:
            self.read, self.readline = self._buffered.read, self._buffered.readline
        if writes and mode != "a+":
            self.write = self._buffered.write
        _OPEN.setdefault(raw.session, weakref.WeakSet()).add(self)

    def _lose(self):
        for name in ("read", "readline", "write"):
            self.__dict__.pop(name, None)
        buffered, self._buffered = self._buffered, _Lost()
        self._under.gives_up = True
        buffered.close()

    @property
    def mode(self) -> str:
        """As it was opened, with ``b``."""
        return self._mode[0] + "b" + self._mode[1:]

    @property
    def raw(self):
        """There is none to be had: what is below buffers is not for others."""
        raise io.UnsupportedOperation("raw")

    @property
    def info(self) -> _koine.ObjectInfo | None:
        """What is known of the object: of one that was put, from ``close`` on."""
        return self._made if self.closed else self._raw.info()

    @property
    def size(self) -> int:
        """The file's length in bytes."""
        self._checkClosed()
        if self._able[1]:
            self._buffered.flush()
        return self._raw.size()

    def readable(self) -> bool:
        """Whether it gives bytes."""
        self._checkClosed()
        return self._able[0]

    def writable(self) -> bool:
        """Whether it takes bytes."""
        self._checkClosed()
        return self._able[1]

    def seekable(self) -> bool:
        """Whether it moves: what is put from front to back does not."""
        self._checkClosed()
        return self._able[2]

    def _check(self, able, what):
        if not able:
            raise io.UnsupportedOperation(f"{self.name} is open as {self._mode!r}, not for {what}")

    def read(self, size: int | None = -1, /) -> bytes:
        """So many bytes, or all that are left."""
        self._check(self.readable(), "reading")
        return self._buffered.read(size)

    def read1(self, size: int | None = -1, /) -> bytes:
        """Up to so many bytes, of one read."""
        self._check(self.readable(), "reading")
        return self._buffered.read1(-1 if size is None else size)

    def readinto(self, buffer, /) -> int:
        """Fills a buffer, but at the file's end; gives how many bytes."""
        self._check(self.readable(), "reading")
        return self._buffered.readinto(buffer)

    readinto1 = readinto

    def readall(self) -> bytes:
        """All bytes that are left."""
        return self.read()

    def readline(self, size: int | None = -1, /) -> bytes:
        """A line, with its end; at most so many bytes of it."""
        self._check(self.readable(), "reading")
        return self._buffered.readline(-1 if size is None else size)

    def __iter__(self):
        self._checkClosed()
        return self._lines() if self._able[0] else self

    def _lines(self):
        # Holds the file for as long as somebody wants lines of it.
        try:
            yield from self._buffered
        except ValueError:
            if isinstance(self._buffered, _Lost):
                self._buffered.read
            raise

    def peek(self, size: int = 0, /) -> bytes:
        """Bytes that follow, without moving on."""
        self._check(self.readable(), "reading")
        return self._buffered.peek(size)

    def write(self, data, /) -> int:
        """Takes all of it; gives how many bytes."""
        self._check(self.writable(), "writing")
        if self._mode == "a+":
            self._buffered.seek(0, 2)
        return self._buffered.write(data)

    def seek(self, offset: int, whence: int = 0, /) -> int:
        """Moves to a position; gives it."""
        self._check(self.seekable(), "another position")
        return self._buffered.seek(offset, whence)

    def truncate(self, size: int | None = None, /) -> int:
        """Gives the file another length."""
        self._check(self.readable() and self.writable(), "another length")
        return self._buffered.truncate(self.tell() if size is None else size)

    def tell(self) -> int:
        """The position."""
        self._checkClosed()
        return self._buffered.tell()

    def flush(self) -> None:
        """Of ``r+``, ``a`` and ``a+``: makes visible what was written."""
        self._checkClosed()
        # `close` of the class above flushes too.
        if not self._ended:
            if self._able[1]:
                self._buffered.flush()
            self._raw.flush()

    def close(self) -> None:
        """Closes, and makes visible what was written."""
        if self._ended:
            return
        self._ended = True
        try:
            if self._able[1]:
                self._buffered.flush()
            self._made = self._raw.close()
        except BaseException:
            self._raw.discard()
            raise
        finally:
            self._shut()

    def discard(self) -> None:
        """Closes, and gives up what was written and is not visible yet."""
        if not self._ended:
            self._ended = True
            try:
                self._raw.discard()
            finally:
                self._shut()

    def _shut(self):
        self._under.gives_up = True
        self._buffered.close()
        super().close()

    def __exit__(self, kind, error, trace):
        if kind is None:
            self.close()
        else:
            self.discard()

    def __del__(self):
        try:
            forgotten = not self._ended and self._able[1]
            self.discard()
        except Exception:
            return
        if forgotten:
            # Not a ResourceWarning, which nobody sees: a local file would have been written.
            warnings.warn(f"{self.name} was not closed: what was not visible yet is given up", RuntimeWarning, stacklevel=2, source=self)

    def __repr__(self):
        return f"<koine.File {self.name!r} mode={self.mode!r}{' closed' if self.closed else ''}>"


class Text(io.TextIOWrapper):
    """An object that is open as a file, in text: what is written is given up with its file."""

    def __exit__(self, kind, error, trace):
        if kind is None:
            self.close()
        else:
            self.discard()

    def discard(self) -> None:
        """Closes, and gives up what was written and is not visible yet."""
        self.buffer.discard()

    def __del__(self):
        try:
            self.buffer.__del__()
        except Exception:
            pass


def _opened(bucket, key, mode, options):
    """The object, open in a mode."""
    if mode[1:] != "+" or mode == "r+":
        return bucket.open_raw(key, mode, **options)
    if options.pop("version", None) is not None:
        raise ValueError("a version can only be read: open it in mode r")
    if mode == "a+":
        # Edits have conditions of their own; what is new is as the options say.
        try:
            return bucket.open_raw(key, "r+")
        except errors.NoSuchKey:
            return _Spool(bucket, key, {**options, "if_absent": True})
    if mode == "x+":
        if key in bucket:
            raise errors.AlreadyExists(f"there is an object {key!r} in the bucket {bucket.name!r} already")
        options["if_absent"] = True
    return _Spool(bucket, key, options)


def open_in(bucket, key, mode="rb", *, encoding=None, errors=None, newline=None, **options):
    """``Bucket.open``: see there."""
    plain = mode.replace("b", "", 1).replace("t", "", 1)
    if plain not in MODES or ("b" in mode and "t" in mode):
        raise ValueError(f"{mode!r} is no mode of a file: one of {', '.join(MODES)}, with b for bytes or t for text")
    text = "b" not in mode
    if not text and (encoding, errors, newline) != (None, None, None):
        raise ValueError("encoding, errors and newline are for text: leave b out of the mode")
    raw = _opened(bucket, key, plain, options)
    file = File(raw, f"koine://{bucket.name}/{key}", plain)
    return Text(file, encoding or "utf-8", errors, newline) if text else file


def split(url):
    """Bucket and key of ``koine://BUCKET/KEY``."""
    rest = url.removeprefix("koine://")
    bucket, slash, key = rest.partition("/")
    if rest == url or not bucket or not slash or not key:
        raise errors.InvalidArgument(f"{url!r} is not koine://BUCKET/KEY")
    return bucket, key


# What `koine.connect` takes beside the place.
CONNECT = ("create", "size", "memory", "key_file", "token", "connect_timeout", "timeout")


def session_of(store, options, called="argument"):
    """The session that ``store`` is, or one of the place that it names, opened with ``options``; no other option is taken."""
    unknown = sorted(set(options) - set(CONNECT))
    if unknown:
        raise TypeError(f"{unknown[0]!r} is no {called}: beside store there are {', '.join(CONNECT)}")
    if isinstance(store, _koine.Session):
        options = {name: value for name, value in options.items() if value is not None}
        for name in options:
            if name != "token":
                raise TypeError(f"{name!r} is for opening a store, and store is a session that is open")
        return store.as_token(options["token"]) if options else store
    place = store if store is not None else os.environ.get("KOINE_STORE")
    if place is None:
        raise errors.InvalidArgument("give store=, or set KOINE_STORE to the place of a store")
    return _koine.connect(place, **options)


def open(url, mode="rb", *, store=None, **options):
    """Opens ``koine://BUCKET/KEY`` as a file.

    ``store`` is a session, or the place of a store; without it, the place in the environment's ``KOINE_STORE``. ``token``,
    ``key_file`` and the other options of ``koine.connect`` go with it; the rest are those of ``Bucket.open``.

        with koine.open("koine://first/notes/hello", "w", store="store.koine") as file:
            file.write("world")
    """
    bucket, key = split(url)
    given = {name: options.pop(name) for name in CONNECT if name in options}
    return open_in(session_of(store, given).bucket(bucket), key, mode, **options)
