"""What can go wrong, by its kind. Where Python has an exception for it, that is caught by it too.

Each exception has ``kind``: the name of what went wrong as the store says it, which may be finer than the class.
"""

import errno as _errno


class Error(Exception):
    """Whatever a store refuses."""

    kind: str = "Error"


class _OfSystem(Error):
    """Has the number that the operating system has for it."""

    _number = 0

    def __init__(self, *args):
        super().__init__(*args)
        if self.errno is None:
            self.errno = self._number

    def __str__(self):
        return str(self.args[0]) if self.args else ""


class NoSuchStore(_OfSystem, FileNotFoundError):
    """There is no store at the place."""

    _number = _errno.ENOENT


class NoSuchBucket(_OfSystem, FileNotFoundError):
    """No bucket has this name."""

    _number = _errno.ENOENT


class NoSuchKey(_OfSystem, FileNotFoundError, KeyError):
    """No object has this name in the bucket."""

    _number = _errno.ENOENT


class NoSuchVersion(_OfSystem, FileNotFoundError):
    """The name has no version of this id."""

    _number = _errno.ENOENT


class NoSuchSnapshot(_OfSystem, FileNotFoundError):
    """The bucket has no snapshot of this name."""

    _number = _errno.ENOENT


class NoSuchIndex(_OfSystem, FileNotFoundError):
    """The bucket has no index over this."""

    _number = _errno.ENOENT


class NoSuchUpload(_OfSystem, FileNotFoundError):
    """No upload has this id, or it was completed or aborted."""

    _number = _errno.ENOENT


class PreconditionFailed(Error):
    """The caller's own condition does not hold."""


class AlreadyExists(_OfSystem, PreconditionFailed, FileExistsError):
    """Something of this name is there already."""

    _number = _errno.EEXIST


class BucketAlreadyOwnedByYou(AlreadyExists):
    """A bucket of this name is there already."""


class BucketAlreadyExists(AlreadyExists):
    """A bucket of this name is there already, and is somebody else's."""


class BucketNotEmpty(_OfSystem, OSError):
    """The bucket still holds objects."""

    _number = _errno.ENOTEMPTY


class AccessDenied(_OfSystem, PermissionError):
    """The caller may not do this."""

    _number = _errno.EACCES


class LogInFailed(AccessDenied):
    """Name and password, or a token, let nobody in."""


class NoSuchGroup(Error, LookupError):
    """No group has this name."""


class NoSuchUser(Error, LookupError):
    """No user has this name."""


class NotEmpty(_OfSystem, OSError):
    """It still holds or owns something that has to go first."""

    _number = _errno.ENOTEMPTY


class ReadOnly(_OfSystem, OSError):
    """What is named can only be read."""

    _number = _errno.EROFS


class Full(_OfSystem, OSError):
    """No space is left. Deleting still works."""

    _number = _errno.ENOSPC


class QuotaExceeded(_OfSystem, OSError):
    """It would go past a quota. Deleting still works."""

    _number = _errno.EDQUOT


class InvalidArgument(Error, ValueError):
    """An argument is wrong; the message says which and why."""


class InvalidBucketName(InvalidArgument):
    """The bucket's name breaks the rules of S3."""


class KeyTooLong(InvalidArgument):
    """The object's name is longer than 1,024 bytes."""


class EntityTooLarge(_OfSystem, OSError):
    """A part is longer than S3 allows, or parts together are longer than any object."""

    _number = _errno.EFBIG


class MetadataTooLarge(InvalidArgument):
    """The user's metadata is larger than 2 KiB."""


class Unsupported(Error, ValueError):
    """Not offered, by this store or in this mode of a file."""


class Conflict(Error):
    """Somebody else changed the same thing at the same time; the same call may succeed later."""


class Busy(Error):
    """A passing condition: the same call may succeed later."""


class Owned(Busy):
    """Another process holds the store and does not listen."""


class Expired(Error):
    """What an open reader reads was taken back."""


class Damaged(Error):
    """Stored bytes are wrong; the message names the place."""


class Stopped(Error):
    """The store refuses work since a write failed or it was closed."""


class Closed(Error, ValueError):
    """The session was closed, or opened before this process was forked."""


class NotAStore(Error):
    """Something else is at the place, and was not touched."""


class TimedOut(_OfSystem, TimeoutError):
    """The call took longer than ``timeout`` or ``connect_timeout`` of the session allows. What had not been sent to a server
    by then is not done."""

    _number = _errno.ETIMEDOUT


class ConnectionFailed(Error, ConnectionError):
    """There is no connection to the server of the store."""


class Disconnected(ConnectionFailed, Stopped):
    """The connection to the server has ended. Whether what was under way has happened is not known; connect again."""


class NoSuchPart(_OfSystem, FileNotFoundError):
    """The object has no part of this number."""

    _number = _errno.ENOENT


class Device(_OfSystem, OSError):
    """The device failed."""

    _number = _errno.EIO


class BadDigest(Error):
    """What arrived has another checksum than was promised."""


class IncompleteBody(Error):
    """The body ended early, went on past its promised length, or was cut."""


class NotModified(Error):
    """A read's condition says that the caller's copy is still good."""


class NoSuchAccessKey(Error, LookupError):
    """No access key has this id."""


class NoSuchPolicy(Error, LookupError):
    """No policy has this name, or the bucket has none."""


class InvalidDigest(InvalidArgument):
    """A checksum is not of its algorithm's form."""


class InvalidPart(InvalidArgument):
    """A part is not there, or is another one."""


class InvalidPartOrder(InvalidArgument):
    """Parts do not ascend."""


class InvalidRange(InvalidArgument):
    """A range lies outside the object."""


class InvalidRequest(InvalidArgument):
    """Not possible as a whole, though each argument is."""


class InvalidTag(InvalidArgument):
    """A tag's name or value, or their number, breaks the rules of S3."""


class EntityTooSmall(InvalidArgument):
    """A part other than the last is smaller than 5 MiB."""


class MalformedPolicy(InvalidArgument):
    """The policy is not understood; the message says where."""


class TransactionTooLarge(InvalidArgument):
    """More changes or conditions than one transaction may have."""
