"""A store as a file system of Arrow, for whatever takes a ``pyarrow.fs.FileSystem``.

    fs = koine.arrow.filesystem("store.koine")
    pyarrow.parquet.write_table(table, "first/table.parquet", filesystem=fs)
    pyarrow.dataset.dataset("first/set", filesystem=fs)

Paths are ``BUCKET/KEY``; ``koine://BUCKET/KEY`` is taken too.
"""

from __future__ import annotations

from typing import Any

import pyarrow
from pyarrow.fs import FileInfo, FileSelector, FileSystemHandler, FileType, PyFileSystem

from . import _koine, errors
from ._files import open_in, session_of

__all__ = ["KoineHandler", "filesystem"]


def filesystem(store: Any = None, **options: Any) -> PyFileSystem:
    """The file system of a store: a session, a place, or the place in ``KOINE_STORE``, with the options of ``koine.connect``."""
    return PyFileSystem(KoineHandler(session_of(store, options)))


class KoineHandler(FileSystemHandler):
    """What ``pyarrow.fs.PyFileSystem`` asks for, of a session."""

    def __init__(self, session: _koine.Session) -> None:
        self.session = session

    def __eq__(self, other: object) -> bool:
        return isinstance(other, KoineHandler) and self.session is other.session

    def __ne__(self, other: object) -> bool:
        return not self == other

    __hash__ = None  # type: ignore[assignment]

    def get_type_name(self) -> str:
        """What it is called."""
        return "koine"

    def normalize_path(self, path: str) -> str:
        """``BUCKET/KEY`` of a path or an address."""
        return path.removeprefix("koine://").strip("/")

    def _split(self, path: str) -> tuple[str, str]:
        bucket, _, key = self.normalize_path(path).partition("/")
        return bucket, key

    def _object(self, path: str) -> tuple[_koine.Bucket, str]:
        bucket, key = self._split(path)
        if not bucket or not key:
            raise IsADirectoryError(f"path: {path!r} is {'a bucket' if bucket else 'the store'}, not an object")
        return self.session.bucket(bucket), key

    # --- what is there ---

    def _info(self, path: str) -> FileInfo:
        bucket, key = self._split(path)
        try:
            if not key:
                if bucket:
                    self.session.bucket_info(bucket)
                return FileInfo(path, FileType.Directory)
            return _of_object(path, self.session.bucket(bucket).head(key))
        except FileNotFoundError:
            is_folder = bool(key) and self._has_folder(bucket, key)
            return FileInfo(path, FileType.Directory if is_folder else FileType.NotFound)

    def _has_folder(self, bucket: str, key: str) -> bool:
        try:
            return bool(self.session.bucket(bucket).list_page(f"{key}/", limit=1).objects)
        except errors.NoSuchBucket:
            return False

    def get_file_info(self, paths: list[str]) -> list[FileInfo]:
        """What is at each of the paths."""
        return [self._info(path) for path in paths]

    def get_file_info_selector(self, selector: FileSelector) -> list[FileInfo]:
        """What is in a folder, or below it too."""
        base = self.normalize_path(selector.base_dir)
        if base and not selector.allow_not_found and self._info(base).type != FileType.Directory:
            raise FileNotFoundError(f"base_dir: there is no folder {selector.base_dir!r}")
        try:
            if base:
                return self._inside(base, selector.recursive)
            found = [FileInfo(each.name, FileType.Directory) for each in self.session.buckets()]
            deep = [self._inside(each.path, True) for each in found] if selector.recursive else []
            return found + [each for some in deep for each in some]
        except errors.NoSuchBucket:
            return []

    def _inside(self, base: str, recursive: bool) -> list[FileInfo]:
        bucket, key = self._split(base)
        prefix = f"{key}/" if key else ""
        found, folders = [], set()
        for each in self.session.bucket(bucket).list(prefix, delimiter="" if recursive else "/"):
            inner = each.key[len(prefix):].rstrip("/").split("/")[:-1] if recursive else []
            for depth in range(1, len(inner) + 1):
                folders.add(f"{bucket}/{prefix}{'/'.join(inner[:depth])}")
            if isinstance(each, _koine.Prefix) or each.key.endswith("/"):
                folders.add(f"{bucket}/{each.key.rstrip('/')}")
            else:
                found.append(_of_object(f"{bucket}/{each.key}", each))
        folders.discard(base)
        return [FileInfo(each, FileType.Directory) for each in sorted(folders)] + found

    # --- coming and going ---

    def create_dir(self, path: str, recursive: bool) -> None:
        """Makes the bucket; folders are there while something is in them."""
        bucket, key = self._split(path)
        try:
            if not key or recursive:
                self.session.create_bucket(bucket)
            else:
                self.session.bucket_info(bucket)
        except errors.AlreadyExists:
            pass

    def delete_dir(self, path: str) -> None:
        """Deletes a bucket or a folder with all that is in it."""
        self._empty(path)
        bucket, key = self._split(path)
        if not key:
            self.session.delete_bucket(bucket)

    def delete_dir_contents(self, path: str, missing_dir_ok: bool = False) -> None:
        """Deletes all that is in a folder."""
        try:
            self._empty(path)
        except FileNotFoundError:
            if not missing_dir_ok:
                raise

    def _empty(self, path: str) -> None:
        bucket, key = self._split(path)
        if not bucket:
            raise errors.InvalidArgument("path: all buckets of a store are not deleted at once; name one")
        handle = self.session.bucket(bucket)
        deleted = handle.delete_many(each.key for each in handle.list(f"{key}/" if key else ""))
        if key and not deleted:
            raise FileNotFoundError(f"path: there is no folder {path!r}")

    def delete_root_dir_contents(self) -> None:
        """Is refused: it would empty the store."""
        self._empty("")

    def delete_file(self, path: str) -> None:
        """Deletes an object."""
        handle, key = self._object(path)
        if not handle.delete(key):
            raise FileNotFoundError(f"path: there is no object {path!r}")

    def move(self, src: str, dest: str) -> None:
        """Gives an object another name, or what is in a folder."""
        handle, key = self._object(src)
        bucket, to = self._split(dest)
        if key in handle:
            handle.move(key, to, bucket=bucket)
        elif bucket == handle.name and self._has_folder(bucket, key):
            handle.move_prefix(f"{key}/", f"{to}/")
        else:
            raise FileNotFoundError(f"src: there is no object {src!r}, nor a folder of the same bucket")

    def copy_file(self, src: str, dest: str) -> None:
        """Copies an object, without copying its bytes."""
        handle, key = self._object(src)
        bucket, to = self._split(dest)
        handle.copy(key, to, bucket=bucket)

    # --- what it holds ---

    def open_input_stream(self, path: str) -> Any:
        """An object, to be read."""
        return self.open_input_file(path)

    def open_input_file(self, path: str) -> Any:
        """An object, to be read anywhere."""
        handle, key = self._object(path)
        # Arrow reads what it wants and no more: nothing is to be read ahead.
        return pyarrow.PythonFile(open_in(handle, key, "rb"), mode="r")

    def open_output_stream(self, path: str, metadata: dict[Any, Any] | None) -> Any:
        """A new object."""
        handle, key = self._object(path)
        return pyarrow.PythonFile(open_in(handle, key, "wb", **_options(metadata)), mode="w")

    def open_append_stream(self, path: str, metadata: dict[Any, Any] | None) -> Any:
        """An object, to be written behind."""
        handle, key = self._object(path)
        return pyarrow.PythonFile(open_in(handle, key, "ab", **_options(metadata)), mode="w")


def _of_object(path: str, info: Any) -> FileInfo:
    return FileInfo(path, FileType.File, size=info.size, mtime_ns=info.modified_ns)


def _options(metadata: Any) -> dict[str, Any]:
    """What Arrow calls metadata of a file: headers by their names, and metadata."""
    options: dict[str, Any] = {}
    for name, value in (metadata or {}).items():
        name, value = (each.decode() if isinstance(each, bytes) else each for each in (name, value))
        header = name.lower().replace("-", "_")
        if header in ("content_type", "cache_control", "content_disposition", "content_encoding", "content_language", "expires"):
            options[header] = value
        else:
            options.setdefault("metadata", {})[name] = value
    return options
