"""Objects in polars, lazily: only the columns and rows that a query wants are read.

    frame = koine.polars.scan_parquet("koine://first/sales/**/*.parquet", store="store.koine")
    frame.filter(polars.col("year") == 2024).select("sum").collect()

``polars.scan_parquet`` takes one object that is open, too: ``polars.scan_parquet(bucket.open("frame.parquet"))``. Its own readers
of addresses know S3 and the like, and not this package; of a store that is served, they read ``s3://``.
"""

from __future__ import annotations

from typing import Any, Sequence

import polars
import pyarrow.dataset

from . import errors
from ._files import session_of
from ._patterns import Pattern
from .arrow import KoineHandler, PyFileSystem

__all__ = ["scan_csv", "scan_ipc", "scan_parquet"]


def _paths(source: str, session: Any) -> list[str]:
    bucket, _, key = source.removeprefix("koine://").partition("/")
    pattern = Pattern(key)
    if not any(sign in key for sign in "*?["):
        return [f"{bucket}/{key}"]
    found = [f"{bucket}/{each.key}" for each in session.bucket(bucket).list(pattern.prefix) if pattern.fits(each.key)]
    if not found:
        raise errors.NoSuchKey(f"source: no object is called as {source!r} says")
    return found


def _scan(source: str | Sequence[str], store: Any, kind: str, partitioning: Any, options: dict[str, Any]) -> polars.LazyFrame:
    session = session_of(store, options)
    sources = [source] if isinstance(source, str) else list(source)
    paths = [path for each in sources for path in _paths(each, session)]
    fs = PyFileSystem(KoineHandler(session))
    # One path may be a folder.
    found = pyarrow.dataset.dataset(paths[0] if len(paths) == 1 else paths, filesystem=fs, format=kind, partitioning=partitioning)
    return polars.scan_pyarrow_dataset(found)


def scan_parquet(
    source: str | Sequence[str], *, store: Any = None, partitioning: Any = "hive", **options: Any
) -> polars.LazyFrame:
    """Parquet in an object, in those that a pattern fits, or in a folder. ``store`` and the options are those of ``koine.open``."""
    return _scan(source, store, "parquet", partitioning, options)


def scan_ipc(
    source: str | Sequence[str], *, store: Any = None, partitioning: Any = "hive", **options: Any
) -> polars.LazyFrame:
    """The same of Arrow's own files."""
    return _scan(source, store, "ipc", partitioning, options)


def scan_csv(
    source: str | Sequence[str], *, store: Any = None, partitioning: Any = "hive", **options: Any
) -> polars.LazyFrame:
    """The same of CSV with a line of names."""
    return _scan(source, store, "csv", partitioning, options)
