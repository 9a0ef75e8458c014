"""Listings as tables: of Arrow, of pandas, and in notebooks."""

from . import _koine

_OBJECT = ("key", "size", "modified_ns", "etag", "version")
# Which fields a listing has, in the order of the columns.
_COLUMNS = {
    _koine.Listing: (*_OBJECT, "is_prefix"),
    _koine.Search: ("value", *_OBJECT),
    _koine.VersionListing: ("key", "version_id", "newest", "is_marker", "size", "modified_ns", "etag"),
    _koine.BucketListing: ("name", "created_ns", "versioning", "quota_bytes", "quota_objects"),
}


def _columns(listing):
    """Columns of what is left of a listing, by their names."""
    names = _COLUMNS[type(listing)]
    columns = {name: [] for name in names}
    for each in listing:
        if isinstance(listing, _koine.Search):
            columns["value"].append(each[0])
            each = each[1]
        for name in names:
            if name == "is_prefix":
                columns[name].append(isinstance(each, _koine.Prefix))
            elif name != "value":
                columns[name].append(getattr(each, name, None))
    return columns


def to_arrow(self):
    """What is left of it as a ``pyarrow.Table``."""
    import pyarrow

    kinds = {
        "size": pyarrow.int64(), "version": pyarrow.uint64(), "quota_bytes": pyarrow.int64(),
        "quota_objects": pyarrow.int64(), "newest": pyarrow.bool_(), "is_marker": pyarrow.bool_(),
        "is_prefix": pyarrow.bool_(),
    }
    arrays = {}
    for name, column in _columns(self).items():
        if name.endswith("_ns"):
            array = pyarrow.array(column, pyarrow.int64()).cast(pyarrow.timestamp("ns", "UTC"))
            arrays[name.removesuffix("_ns")] = array
        else:
            arrays[name] = pyarrow.array(column, kinds.get(name, pyarrow.string()))
    return pyarrow.table(arrays)


def to_pandas(self):
    """What is left of it as a ``pandas.DataFrame``."""
    import pandas

    frame = {}
    for name, column in _columns(self).items():
        if name.endswith("_ns"):
            frame[name.removesuffix("_ns")] = pandas.to_datetime(pandas.Series(column, dtype="Int64"), unit="ns", utc=True)
        elif name in ("size", "version", "quota_bytes", "quota_objects"):
            # What a prefix has none of is missing, and does not make numbers of others inexact.
            frame[name] = pandas.array(column, dtype="UInt64" if name == "version" else "Int64")
        else:
            frame[name] = column
    return pandas.DataFrame(frame)


for _kind in _COLUMNS:
    _kind.to_arrow = to_arrow
    _kind.to_pandas = to_pandas
