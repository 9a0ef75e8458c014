"""What all that is told of things has beside its fields: ``hash``, ``pickle``, ``_asdict`` and a table in notebooks."""

import html

from . import _koine

_LEFT = "text-align: left; vertical-align: top"
_TIMES = ("created", "created_ns", "modified", "modified_ns")
_FIELDS = {
    _koine.BucketInfo: (
        "name", "created", "created_ns", "versioning", "metadata", "tags", "access_times", "quota_bytes", "quota_objects"),
    _koine.Decision: ("allowed", "rule"),
    _koine.GroupInfo: ("name", "description", "policies", "quota_bytes", "quota_objects", "created"),
    _koine.IndexInfo: ("of", "name", "whole"),
    _koine.ObjectInfo: (
        "key", "size", "etag", "id", "version", "version_id", *_TIMES, "changed", "changed_ns", "accessed", "accessed_ns",
        "mode", "owner", "part_count", "metadata", "tags", "checksums", "content_type", "cache_control",
        "content_disposition", "content_encoding", "content_language", "expires"),
    _koine.ObjectSummary: ("key", "size", "etag", "version", "modified", "modified_ns"),
    _koine.PartInfo: ("number", "size", "etag", "modified", "modified_ns"),
    _koine.Prefix: ("key",),
    _koine.SnapshotInfo: ("name", "created", "created_ns"),
    _koine.UserInfo: (
        "name", "display", "group", "groups", "policies", "disabled", "administrator", "has_password", "quota_bytes",
        "quota_objects", "created"),
    _koine.Version: ("key", "version_id", "newest", "is_marker", "size", "etag", "modified", "modified_ns"),
}
_NAMES = {kind.__name__: kind for kind in _FIELDS}


def restored(name, state):
    """What `pickle` has written down."""
    return _NAMES[name]._of_state(state)


def _asdict(self):
    """Its fields by their names."""
    return {name: getattr(self, name) for name in self._fields}


def _reduce(self):
    return restored, (type(self).__name__, self._state())


def _hash(self):
    return hash(self._state())


def _hash_of_object(self):
    # When it was last read is not of the object.
    return hash((self.key, self.id, self.version, self.etag))


def _shown(value):
    if hasattr(value, "isoformat"):
        return f"{value:%Y-%m-%d %H:%M:%S} UTC"
    if isinstance(value, dict):
        return ", ".join(f"{name}: {each}" for name, each in value.items())
    if isinstance(value, list):
        return ", ".join(map(str, value))
    return f"{value:,}" if isinstance(value, int) and not isinstance(value, bool) else str(value)


def _repr_html_(self):
    """A table of what there is to tell, for notebooks."""
    rows = []
    for name, value in _asdict(self).items():
        # A time is told once, and what there is none of not at all.
        if not name.endswith("_ns") and value not in (None, {}, []) and (name, value) != ("mode", 0):
            shown = f"{value:04o}" if name == "mode" else _shown(value)
            first = f'<th style="{_LEFT}; white-space: nowrap; padding-right: 1em">{name.replace("_", " ")}</th>'
            rows.append(f'<tr>{first}<td style="{_LEFT}">{html.escape(shown)}</td></tr>')
    head = f'<caption style="text-align: left"><b>{type(self).__name__}</b></caption>'
    return f"<table>{head}{''.join(rows)}</table>"


for _kind, _names in _FIELDS.items():
    _kind._fields = _names
    _kind._asdict = _asdict
    _kind._repr_html_ = _repr_html_
    _kind.__reduce__ = _reduce
    _kind.__hash__ = _hash_of_object if _kind is _koine.ObjectInfo else _hash
