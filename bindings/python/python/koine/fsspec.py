"""A file system of fsspec: paths are ``koine://BUCKET/KEY``.

The store is given by the storage option ``store`` (a place, or a session), or by the environment's ``KOINE_STORE``. The
options of ``koine.connect`` go with a place: ``token``, ``key_file``, ``create``, ``size``, ``memory``. With a session
``token`` alone does: its calls are made as that user. Any other option is refused.
Folders are what keys have in common up to a slash: they are there while something is in them. ``mkdir`` of a bucket
makes it; below a bucket it does nothing.
"""

import os

from fsspec.callbacks import DEFAULT_CALLBACK
from fsspec.implementations.asyn_wrapper import AsyncFileSystemWrapper
from fsspec.spec import AbstractBufferedFile, AbstractFileSystem

from . import _koine, errors
from ._files import Text, open_in, session_of

_PIECE = 1 << 20
# What fsspec's own base class, its listings and its instance cache take.
_OF_FSSPEC = (
    "asynchronous",
    "batch_size",
    "listings_expiry_time",
    "loop",
    "max_paths",
    "skip_instance_cache",
    "use_listings_cache",
)


class KoineFileSystem(AbstractFileSystem):
    """Buckets and objects of a store as a file system."""

    protocol = "koine"
    root_marker = ""
    # One object is put in one commit, whatever its length.
    blocksize = 1 << 20

    def __new__(cls, store=None, *, asynchronous=False, **options):
        if asynchronous and cls is KoineFileSystem:
            return AsyncKoineFileSystem(store, **options)
        return super().__new__(cls)

    def __init__(self, store=None, *, connect=None, **options):
        # An option that nobody looks at may be one that was to take rights away.
        for_fsspec = {name: options.pop(name) for name in _OF_FSSPEC if name in options}
        given = {**(connect or {}), **options}
        super().__init__(store=store, connect=connect, **options, **for_fsspec)
        self.session = session_of(store, given, "storage option")

    @classmethod
    def _strip_protocol(cls, path):
        if isinstance(path, list):
            return [cls._strip_protocol(each) for each in path]
        path = os.fspath(path)
        return path.removeprefix("koine://").removeprefix("koine:").strip("/")

    def _split(self, path):
        bucket, _, key = self._strip_protocol(path).partition("/")
        return bucket, key

    def _object(self, path):
        """The bucket and the key of what can only be an object."""
        bucket, key = self._split(path)
        if not key:
            raise IsADirectoryError(f"{path!r} is {'a bucket' if bucket else 'the store'}, not an object")
        return self.session.bucket(bucket), key

    # --- what is there ---

    def ls(self, path, detail=True, **options):
        bucket, key = self._split(path)
        if not bucket:
            found = [self._of_bucket(each) for each in self.session.buckets()]
        else:
            found = self._inside(bucket, key)
            if not found:
                # An object, an empty bucket, or nothing at all.
                there = self.info(path)
                found = [there] if there["type"] == "file" else []
        return found if detail else [each["name"] for each in found]

    def _inside(self, bucket, key):
        prefix = f"{key}/" if key else ""
        found = []
        for each in self.session.bucket(bucket).list(prefix, delimiter="/"):
            # An object of that very name ends in a slash, and is no entry of its own folder.
            if each.key == prefix:
                continue
            if isinstance(each, _koine.Prefix):
                found.append(self._of_folder(f"{bucket}/{each.key.rstrip('/')}"))
            else:
                found.append(self._of_object(bucket, each))
        return found

    def _of_bucket(self, info):
        return {"name": info.name, "size": 0, "type": "directory", "created": info.created}

    def _of_folder(self, name):
        return {"name": name, "size": 0, "type": "directory"}

    def _of_object(self, bucket, info):
        return {
            "name": f"{bucket}/{info.key}",
            "size": info.size,
            "type": "file",
            "etag": info.etag,
            "version": info.version,
            "mtime": info.modified_ns / 1e9,
            "modified": info.modified,
        }

    def info(self, path, **options):
        bucket, key = self._split(path)
        if not bucket:
            return self._of_folder("")
        handle = self.session.bucket(bucket)
        if not key:
            return self._of_bucket(handle.info())
        try:
            return self._of_object(bucket, handle.head(key)) | {"created": handle.head(key).created}
        except errors.NoSuchKey:
            page = handle.list_page(f"{key}/", limit=1)
            if page.objects or page.prefixes:
                return self._of_folder(f"{bucket}/{key}")
            raise

    def exists(self, path, **options):
        try:
            self.info(path)
        except (FileNotFoundError, errors.InvalidArgument):
            return False
        return True

    def find(self, path, maxdepth=None, withdirs=False, detail=False, **options):
        bucket, key = self._split(path)
        prefix = options.pop("prefix", "")
        if not bucket or maxdepth is not None or withdirs or prefix:
            found = super().find(path, maxdepth=maxdepth, withdirs=withdirs, detail=True, **options)
            start = f"{self._strip_protocol(path)}/{prefix}" if prefix else ""
            found = {name: info for name, info in found.items() if name.startswith(start)}
            return found if detail else list(found)
        # All keys below are one walk.
        handle = self.session.bucket(bucket)
        try:
            found = [each for each in handle.list(f"{key}/" if key else "") if not each.key.endswith("/")]
        except errors.NoSuchBucket:
            found = []
        if not found and key:
            try:
                found = [handle.head(key)]
            except FileNotFoundError:
                pass
        infos = {f"{bucket}/{each.key}": self._of_object(bucket, each) for each in found}
        return infos if detail else list(infos)

    def created(self, path):
        return self.info(path)["created"]

    def modified(self, path):
        return self.info(path)["modified"]

    def checksum(self, path):
        info = self.info(path)
        return info.get("etag", info["name"])

    ukey = checksum

    # --- what it holds ---

    def cat_file(self, path, start=None, end=None, **options):
        handle, key = self._object(path)
        if (start or 0) >= 0 and (end is None or end >= 0):
            start = start or 0
            return handle.get(key, offset=start, length=None if end is None else max(end - start, 0))
        with handle.open(key) as file:
            start = max(file.size + start, 0) if start is not None and start < 0 else start or 0
            end = file.size if end is None else file.size + end if end < 0 else end
            file.seek(start)
            return file.read(max(end - start, 0))

    def pipe_file(self, path, value, mode="overwrite", **options):
        handle, key = self._object(path)
        handle.put(key, value, if_absent=mode == "create", **options)

    def open(self, path, mode="rb", block_size=None, cache_options=None, compression=None, **options):
        if "b" in mode or compression is not None:
            return super().open(path, mode, block_size, cache_options, compression, **options)
        text = {name: options.pop(name) for name in ("encoding", "errors", "newline") if name in options}
        file = super().open(path, mode.replace("t", "") + "b", block_size, cache_options, **options)
        return Text(file, text.pop("encoding", None) or "utf-8", **text)

    def _open(self, path, mode="rb", block_size=None, autocommit=True, cache_options=None, **options):
        handle, key = self._object(path)
        # What readers of other stores take: the length is known here, and who asks for a cache gets one of fsspec's.
        cache_type, size = options.pop("cache_type", None), options.pop("size", None)
        if cache_type is not None and mode == "rb":
            size = handle.head(key).size if size is None else size
            return _Ranges(self, path, mode, block_size or self.blocksize, cache_type=cache_type,
                           cache_options=cache_options, size=size, **options)
        if not autocommit:
            return _Uncommitted(handle, key, mode, options)
        return open_in(handle, key, mode, **options)

    def get_file(self, rpath, lpath, callback=DEFAULT_CALLBACK, outfile=None, **options):
        if outfile is None and self.isdir(rpath):
            os.makedirs(lpath, exist_ok=True)
            return
        handle, key = self._object(rpath)
        if outfile is None:
            os.makedirs(os.path.dirname(os.path.abspath(lpath)), exist_ok=True)
        with handle.open(key) as source:
            callback.set_size(source.size)
            target = outfile if outfile is not None else open(lpath, "wb")
            try:
                while piece := source.read(_PIECE):
                    target.write(piece)
                    callback.relative_update(len(piece))
            finally:
                if outfile is None:
                    target.close()

    def put_file(self, lpath, rpath, callback=DEFAULT_CALLBACK, mode="overwrite", **options):
        if os.path.isdir(lpath):
            self.makedirs(rpath, exist_ok=True)
            return
        handle, key = self._object(rpath)
        with open(lpath, "rb") as source:
            callback.set_size(os.path.getsize(lpath))
            with handle.open(key, "xb" if mode == "create" else "wb", **options) as target:
                while piece := source.read(_PIECE):
                    target.write(piece)
                    callback.relative_update(len(piece))

    def cp_file(self, path1, path2, **options):
        handle, key = self._object(path1)
        bucket, to = self._split(path2)
        if key not in handle and self.isdir(path1):
            self.makedirs(path2, exist_ok=True)
            return
        if not to:
            raise IsADirectoryError(f"{path2!r} is a bucket, not an object")
        if (handle.name, key) != (bucket, to):
            handle.copy(key, to, bucket=bucket, **options)

    # --- coming and going ---

    def mkdir(self, path, create_parents=True, **options):
        bucket, key = self._split(path)
        if key and not create_parents:
            self.session.bucket_info(bucket)
        elif not key or not self.session.bucket(bucket).exists():
            self.session.create_bucket(bucket)

    def makedirs(self, path, exist_ok=False):
        bucket, key = self._split(path)
        try:
            self.session.create_bucket(bucket)
        except errors.AlreadyExists:
            if not key and not exist_ok:
                raise

    def rmdir(self, path):
        bucket, key = self._split(path)
        if not key:
            self.session.delete_bucket(bucket)
        elif self._inside(bucket, key):
            raise errors.BucketNotEmpty(f"the folder {path!r} still holds objects; delete them first")

    def rm_file(self, path):
        handle, key = self._object(path)
        if not handle.delete(key):
            raise FileNotFoundError(f"there is no object {path!r}")

    def _rm(self, path):
        self.rm_file(path)

    def rm(self, path, recursive=False, maxdepth=None):
        paths = self.expand_path(path, recursive=recursive, maxdepth=maxdepth)
        objects, buckets = {}, []
        for each in paths:
            bucket, key = self._split(each)
            if key:
                objects.setdefault(bucket, []).append(key)
            elif recursive:
                buckets.append(bucket)
            else:
                raise IsADirectoryError(f"{each!r} is a bucket: recursive=True takes it with all it holds")
        deleted = 0
        for bucket, keys in objects.items():
            for at in range(0, len(keys), 1000):
                deleted += self.session.bucket(bucket).delete_many(keys[at : at + 1000])
        if not deleted and not buckets:
            raise FileNotFoundError(f"there is nothing at {path!r}")
        for bucket in buckets:
            self.session.delete_bucket(bucket)


class AsyncKoineFileSystem(AsyncFileSystemWrapper):
    """The file system with fsspec's asynchronous calls (``_cat_file``, ``_ls``, …): what ``KoineFileSystem`` gives for
    ``asynchronous=True``."""

    protocol = "koine"

    def __init__(self, store=None, **options):
        options.pop("asynchronous", None)
        for_fsspec = {name: options.pop(name) for name in ("loop", "batch_size") if name in options}
        super().__init__(KoineFileSystem(store, **options), asynchronous=True, **for_fsspec)

    @property
    def session(self):
        """The session that it works with."""
        return self.sync_fs.session


class _Ranges(AbstractBufferedFile):
    """A file that is read through a cache of fsspec, in blocks."""

    def __init__(self, fs, path, *args, **options):
        handle, key = fs._object(path)
        self._source = handle.open_raw(key, "r")
        super().__init__(fs, path, *args, **options)

    def _fetch_range(self, start, end):
        self._source.seek(start, 0)
        return self._source.read(max(end - start, 0))

    def close(self):
        if not self.closed:
            self._source.close()
        super().close()


class _Uncommitted:
    """A file of a transaction of fsspec: it is put when the transaction ends."""

    def __init__(self, handle, key, mode, options):
        self._file = open_in(handle, key, mode, **options)

    def __getattr__(self, name):
        return getattr(self._file, name)

    def __enter__(self):
        return self

    def __exit__(self, kind, error, trace):
        if kind is not None:
            self.discard()

    def close(self):
        """Nothing is put before ``commit``."""

    def commit(self):
        self._file.close()

    def discard(self):
        self._file.discard()
