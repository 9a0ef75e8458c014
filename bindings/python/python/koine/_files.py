"""Objects as files of Python: ``koine.File`` and ``koine.open``."""

import io
import os
import warnings

# So much is read ahead of lines and of small reads.
_AHEAD = 256 << 10

from . import _koine, errors


class _Reading(io.RawIOBase):
    """What a file in ``r`` reads ahead from; the file closes it."""

    def __init__(self, raw):
        self._raw = raw

    def readable(self):
        return True

    def seekable(self):
        return True

    def readinto(self, buffer):
        return self._raw.readinto(buffer)

    def readall(self):
        return self._raw.read(-1)

    def seek(self, offset, whence=0):
        return self._raw.seek(offset, whence)

    def tell(self):
        return self._raw.tell()


class File(io.BufferedIOBase):
    """An object that is open as a file, in bytes.

    ``r`` reads the object as it is when it is opened, to its end, whatever becomes of the name. ``w`` and ``x`` put an
    object at ``close``, whole. ``r+`` and ``a`` edit it at ``flush`` and ``close``, each in one commit. Leaving a ``with``
    block by an exception gives up what is not visible yet; so does a file that is forgotten, with a warning.
    """

    def __init__(self, raw, name, mode):
        self._raw = raw
        # Small reads and lines come out of what was read ahead; nobody writes to the object as this file sees it.
        self._reader = io.BufferedReader(_Reading(raw), _AHEAD) if mode == "r" else None
        self._in = self._reader or raw
        self._mode = mode
        self._made = None
        self._ended = False
        self.name = name

    @property
    def mode(self):
        return self._mode.replace("r+", "rb+") if "+" in self._mode else self._mode + "b"

    @property
    def raw(self):
        raise io.UnsupportedOperation("raw")

    @property
    def info(self):
        """What is known of the object: of one that was put, from ``close`` on."""
        return self._made if self.closed else self._raw.info()

    @property
    def size(self):
        """The file's length in bytes."""
        self._checkClosed()
        return self._raw.size()

    def readable(self):
        self._checkClosed()
        return self._mode in ("r", "r+")

    def writable(self):
        self._checkClosed()
        return self._mode != "r"

    def seekable(self):
        self._checkClosed()
        return self._mode in ("r", "r+")

    def _check(self, able, what):
        if not able:
            raise io.UnsupportedOperation(f"{self.name} is open as {self._mode!r}, not for {what}")

    def read(self, size=-1, /):
        self._check(self.readable(), "reading")
        return self._in.read(-1 if size is None else size)

    def read1(self, size=-1, /):
        self._check(self.readable(), "reading")
        return self._in.read1(size) if self._reader else self._raw.read(size)

    def readinto(self, buffer, /):
        self._check(self.readable(), "reading")
        return self._in.readinto(buffer)

    readinto1 = readinto

    def readall(self):
        return self.read()

    def readline(self, size=-1, /):
        self._check(self.readable(), "reading")
        size = -1 if size is None else size
        return self._reader.readline(size) if self._reader else super().readline(size)

    def __iter__(self):
        self._checkClosed()
        return self._lines() if self._reader else self

    def _lines(self):
        for line in self._reader:
            yield line
            self._checkClosed()

    def peek(self, size=0, /):
        """Bytes that follow, without moving on."""
        self._check(self.readable(), "reading")
        if self._reader:
            return self._reader.peek(size)
        at = self._raw.tell()
        ahead = self._raw.read(8192)
        self._raw.seek(at, 0)
        return ahead

    def write(self, data, /):
        self._check(self.writable(), "writing")
        return self._raw.write(data)

    def seek(self, offset, whence=0, /):
        self._check(self.seekable(), "another position")
        try:
            return self._in.seek(offset, whence)
        except errors.Unsupported as error:
            raise io.UnsupportedOperation(str(error)) from None

    def truncate(self, size=None, /):
        self._check(self._mode == "r+", "another length")
        size = self._raw.tell() if size is None else size
        self._raw.truncate(size)
        return size

    def tell(self):
        self._checkClosed()
        return self._in.tell()

    def flush(self):
        self._checkClosed()
        # `close` of the class above flushes too.
        if not self._ended:
            self._raw.flush()

    def close(self):
        if self._ended:
            return
        self._ended = True
        try:
            self._made = self._raw.close()
        finally:
            super().close()

    def discard(self):
        """Closes, and gives up what was written and is not visible yet."""
        if not self._ended:
            self._ended = True
            self._raw.discard()
            super().close()

    def __exit__(self, kind, error, trace):
        if kind is None:
            self.close()
        else:
            self.discard()

    def __del__(self):
        try:
            forgotten = not self._ended and self._mode != "r"
            self.discard()
        except Exception:
            return
        if forgotten:
            # Not a ResourceWarning, which nobody sees: a local file would have been written.
            warnings.warn(f"{self.name} was not closed: what was not visible yet is given up", RuntimeWarning, stacklevel=2, source=self)

    def __repr__(self):
        return f"<koine.File {self.name!r} mode={self.mode!r}{' closed' if self.closed else ''}>"


class Text(io.TextIOWrapper):
    """Text, which is given up with its file."""

    def __exit__(self, kind, error, trace):
        if kind is None:
            self.close()
        else:
            self.discard()

    def discard(self):
        self.buffer.discard()

    def __del__(self):
        try:
            self.buffer.__del__()
        except Exception:
            pass


MODES = ("r", "r+", "w", "x", "a")


def open_in(bucket, key, mode="rb", *, encoding=None, errors=None, newline=None, **options):
    """``Bucket.open``: see there."""
    plain = mode.replace("b", "", 1).replace("t", "", 1)
    if plain not in MODES or ("b" in mode and "t" in mode):
        raise ValueError(f"{mode!r} is no mode of a file: one of {', '.join(MODES)}, with b for bytes or t for text")
    text = "b" not in mode
    if not text and (encoding, errors, newline) != (None, None, None):
        raise ValueError("encoding, errors and newline are for text: leave b out of the mode")
    raw = bucket.open_raw(key, plain, **options)
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
CONNECT = ("create", "size", "memory", "key_file", "token")


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
    """
    bucket, key = split(url)
    given = {name: options.pop(name) for name in CONNECT if name in options}
    return open_in(session_of(store, given).bucket(bucket), key, mode, **options)
