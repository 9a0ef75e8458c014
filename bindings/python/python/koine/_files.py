"""Objects as files of Python: ``koine.File`` and ``koine.open``."""

import io
import os
import warnings

from . import _koine, errors


class File(io.BufferedIOBase):
    """An object that is open as a file, in bytes.

    ``r`` reads the object as it is when it is opened, to its end, whatever becomes of the name. ``w`` and ``x`` put an
    object at ``close``, whole. ``r+`` and ``a`` edit it at ``flush`` and ``close``, each in one commit. Leaving a ``with``
    block by an exception gives up what is not visible yet; so does a file that is forgotten.
    """

    def __init__(self, raw, name, mode):
        self._raw = raw
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
        return self._raw.read(-1 if size is None else size)

    read1 = read

    def readinto(self, buffer, /):
        self._check(self.readable(), "reading")
        return self._raw.readinto(buffer)

    readinto1 = readinto

    def readall(self):
        return self.read()

    def peek(self, size=0, /):
        """Bytes that follow, without moving on."""
        self._check(self.readable(), "reading")
        at = self._raw.tell()
        ahead = self._raw.read(8192)
        self._raw.seek(at, 0)
        return ahead

    def write(self, data, /):
        self._check(self.writable(), "writing")
        return self._raw.write(data)

    def seek(self, offset, whence=0, /):
        self._checkClosed()
        try:
            return self._raw.seek(offset, whence)
        except errors.Unsupported as error:
            raise io.UnsupportedOperation(str(error)) from None

    def truncate(self, size=None, /):
        self._check(self._mode == "r+", "another length")
        size = self._raw.tell() if size is None else size
        self._raw.truncate(size)
        return size

    def tell(self):
        self._checkClosed()
        return self._raw.tell()

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
            warnings.warn(f"{self.name} was not closed: what was not visible yet is given up", ResourceWarning, stacklevel=2, source=self)

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


def open(url, mode="rb", *, store=None, **options):
    """Opens ``koine://BUCKET/KEY`` as a file.

    ``store`` is a session, or the place of a store; without it, the place in the environment's ``KOINE_STORE``.
    """
    bucket, key = split(url)
    if isinstance(store, _koine.Session):
        session = store
    else:
        place = store if store is not None else os.environ.get("KOINE_STORE")
        if place is None:
            raise errors.InvalidArgument("give store=, or set KOINE_STORE to the place of a store")
        session = _koine.connect(place)
    return open_in(session.bucket(bucket), key, mode, **options)
