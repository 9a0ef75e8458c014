"""Objects by paths: ``bucket / "folder" / "key"``, with the calls of ``pathlib``."""

from __future__ import annotations

from pathlib import PurePosixPath
from typing import Any, Iterator

from . import _koine, errors
from ._files import open_in


class Path:
    """A key of a bucket, whether something is there or not. What begins with a key and a slash is in its folder.

        notes = bucket / "notes"
        (notes / "hello").write_text("world")
        [each.name for each in notes.iterdir()]
    """

    __slots__ = ("_bucket", "_key")

    def __init__(self, bucket: _koine.Bucket, key: str = "") -> None:
        self._bucket = bucket
        self._key = key

    @property
    def bucket(self) -> _koine.Bucket:
        """The bucket."""
        return self._bucket

    @property
    def key(self) -> str:
        """The key in it; none of the bucket itself."""
        return self._key

    def _with(self, path: Any) -> Path:
        return Path(self.bucket, "" if str(path) == "." else str(path))

    @property
    def _pure(self) -> PurePosixPath:
        return PurePosixPath(self.key)

    def __truediv__(self, key: Any) -> Path:
        key = key.as_posix() if hasattr(key, "as_posix") else key
        if not isinstance(key, str):
            return NotImplemented
        return Path(self.bucket, f"{self.key.removesuffix('/')}/{key}" if self.key else key)

    def joinpath(self, *keys: Any) -> Path:
        """This and what is behind it."""
        path = self
        for key in keys:
            path = path / key
        return path

    @property
    def name(self) -> str:
        """What is behind the last slash."""
        return self._pure.name

    @property
    def stem(self) -> str:
        """The name without its last ending."""
        return self._pure.stem

    @property
    def suffix(self) -> str:
        """The name's last ending."""
        return self._pure.suffix

    @property
    def parts(self) -> tuple[str, ...]:
        """What is between slashes."""
        return self._pure.parts

    @property
    def parent(self) -> Path:
        """What is before the last slash; of the first level, the bucket itself."""
        return self._with(self._pure.parent)

    def with_name(self, name: str) -> Path:
        """The same with another name."""
        return self._with(self._pure.with_name(name))

    def with_suffix(self, suffix: str) -> Path:
        """The same with another ending."""
        return self._with(self._pure.with_suffix(suffix))

    def as_uri(self) -> str:
        """``koine://BUCKET/KEY``."""
        return f"koine://{self.bucket.name}/{self.key}"

    __str__ = as_uri

    def __repr__(self) -> str:
        return f"koine.Path({self.as_uri()!r})"

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, Path):
            return NotImplemented
        return (self.bucket.name, self.key) == (other.bucket.name, other.key)

    def __lt__(self, other: Path) -> bool:
        return (self.bucket.name, self.key) < (other.bucket.name, other.key)

    def __hash__(self) -> int:
        return hash((self.bucket.name, self.key))

    def exists(self) -> bool:
        """Whether an object is there, or something is in its folder."""
        return self.is_file() or self.is_dir()

    def is_file(self) -> bool:
        """Whether an object is there."""
        return bool(self.key) and self.key in self.bucket

    def is_dir(self) -> bool:
        """Whether something is in its folder."""
        if not self.key:
            return self.bucket.exists()
        page = self.bucket.list_page(self._folder(), limit=1)
        return bool(page.objects)

    def _folder(self) -> str:
        return f"{self.key.removesuffix('/')}/" if self.key else ""

    def stat(self) -> _koine.ObjectInfo:
        """What is known of the object."""
        return self.bucket.head(self.key)

    def iterdir(self) -> Iterator[Path]:
        """What is in its folder."""
        folder, last = self._folder(), None
        for each in self.bucket.list(folder, delimiter="/"):
            key = each.key.removesuffix("/")
            # A name may be an object and a folder.
            if each.key != folder and key != last:
                last = key
                yield Path(self.bucket, key)

    def glob(self, pattern: str) -> Iterator[Path]:
        """Objects in its folder that a pattern fits; ``**`` is any number of levels."""
        from ._patterns import Pattern

        fits, folder = Pattern(pattern), self._folder()
        for each in self.bucket.list(folder + fits.prefix):
            if not each.key.endswith("/") and fits.fits(each.key[len(folder):]):
                yield Path(self.bucket, each.key)

    def rglob(self, pattern: str) -> Iterator[Path]:
        """The same at any level."""
        return self.glob(f"**/{pattern}")

    def open(self, mode: str = "r", **options: Any) -> Any:
        """``Bucket.open``, in text where the mode has no ``b``."""
        return open_in(self.bucket, self.key, mode, **options)

    def read_bytes(self) -> bytes:
        """All bytes of the object."""
        return self.bucket.get(self.key)

    def read_text(self, encoding: str = "utf-8", errors: str = "strict") -> str:
        """All text of the object."""
        return self.read_bytes().decode(encoding, errors)

    def write_bytes(self, data: Any, **options: Any) -> int:
        """Puts the object; gives how many bytes."""
        return self.bucket.put(self.key, data, **options).size

    def write_text(self, text: str, encoding: str = "utf-8", errors: str = "strict", **options: Any) -> int:
        """Puts the object; gives how many characters."""
        self.bucket.put(self.key, text.encode(encoding, errors), **options)
        return len(text)

    def touch(self, exist_ok: bool = True) -> None:
        """Makes an object of no bytes, where none is."""
        try:
            self.bucket.put(self.key, b"", if_absent=True)
        except errors.AlreadyExists:
            if not exist_ok:
                raise

    def mkdir(self, mode: int = 0o777, parents: bool = False, exist_ok: bool = False) -> None:
        """Does nothing: folders are there while something is in them."""

    def unlink(self, missing_ok: bool = False) -> None:
        """Deletes the object."""
        if not self.bucket.delete(self.key) and not missing_ok:
            raise errors.NoSuchKey(f"there is no object {self.key!r} in the bucket {self.bucket.name!r}")

    def rename(self, target: Any) -> Path:
        """Gives the object another name, of a path of this store or a key of this bucket."""
        target = target if isinstance(target, Path) else Path(self.bucket, str(target))
        self.bucket.move(self.key, target.key, bucket=target.bucket.name, if_absent=True)
        return target

    def replace(self, target: Any) -> Path:
        """The same, in the place of what is there."""
        target = target if isinstance(target, Path) else Path(self.bucket, str(target))
        self.bucket.move(self.key, target.key, bucket=target.bucket.name)
        return target

    def presign(self, method: str = "GET", **options: Any) -> str:
        """An address by which the object can be got or put over S3 without keys: see ``koine.presign``."""
        from ._presign import presign

        return presign(self.bucket.name, self.key, method, **options)
