"""What is told of things: equality, hash, pickle, dictionaries, notebooks; and listings as tables."""

import copy
import pickle

import pandas
import pyarrow
import pytest

import koine


@pytest.fixture
def infos(session, bucket):
    """One of each kind."""
    put = bucket.put("folder/<key>", b"bytes", metadata={"colour": "blue"}, content_type="text/plain")
    bucket.set_versioning("enabled")
    bucket.set_attributes("folder/<key>", tags={"a": "b"})
    upload = bucket.upload("large")
    session.create_group("lab", "for tests")
    return [
        bucket.info(), bucket.head("folder/<key>"), put, next(iter(bucket)), next(bucket.list(delimiter="/")),
        upload.put(1, b"part"), bucket.snapshot("then"), bucket.add_index(metadata="colour"), next(bucket.versions()),
        session.group("lab"), session.create_user("lab", "ada", "a password of hers"),
        session.explain("s3:GetObject", "bucket", "key"),
    ]


def test_infos_are_values(infos):
    assert len({type(each) for each in infos}) == 11
    for info in infos:
        for other in (pickle.loads(pickle.dumps(info)), copy.copy(info), copy.deepcopy(info)):
            assert other == info and hash(other) == hash(info) and repr(other) == repr(info)
            assert other._asdict() == info._asdict()
        assert list(info._asdict()) == list(info._fields)
        assert {name for name in dir(info) if not name.startswith("_")} == set(info._fields)
    assert len(set(infos)) == len(infos)
    with pytest.raises(koine.errors.InvalidArgument):
        type(infos[0])._of_state(b"something else")


def test_the_time_of_an_access_is_not_of_the_object(bucket):
    bucket.set(access_times="relative")
    put = bucket.put("key", b"bytes")
    bucket.get("key")
    read = bucket.head("key")
    assert put == read and hash(put) == hash(read)


def test_notebooks_show_tables(infos):
    for info in infos:
        shown = info._repr_html_()
        assert shown.startswith("<table>") and type(info).__name__ in shown and "<key>" not in shown
    shown = infos[1]._repr_html_()
    assert "folder/&lt;key&gt;" in shown and "colour: blue" in shown and "modified ns" not in shown
    assert ">cache control<" not in shown


def test_listings_as_tables(session, bucket):
    for n in range(1200):
        bucket.put(f"a/{n:04}", b"x" * n)
    bucket.put("b", b"bytes", metadata={"colour": "blue"})
    table = bucket.list().to_arrow()
    assert isinstance(table, pyarrow.Table) and table.num_rows == 1201
    assert table.schema.names == ["key", "size", "modified", "etag", "version", "is_prefix"]
    assert table["size"].to_pylist()[:1200] == list(range(1200))
    assert table["modified"].to_pylist()[-1].replace(microsecond=0, nanosecond=0) == pandas.Timestamp(bucket.head("b").modified).replace(
        microsecond=0, nanosecond=0)
    frame = bucket.list(delimiter="/").to_pandas()
    assert frame["key"].tolist() == ["a/", "b"] and frame["is_prefix"].tolist() == [True, False]
    assert frame["size"].isna().tolist() == [True, False] and frame["size"][1] == 5
    assert frame["modified"][1].value == bucket.head("b").modified_ns
    found = bucket.search(metadata="colour").to_pandas()
    assert found["value"].tolist() == ["blue"] and found["key"].tolist() == ["b"]
    assert bucket.versions("b").to_arrow()["newest"].to_pylist() == [True]
    assert session.buckets().to_pandas()["name"].tolist() == ["bucket"]
    assert bucket.list("nothing").to_arrow().num_rows == 0 == len(bucket.list("nothing").to_pandas())
    walk = bucket.list()
    next(walk)
    assert walk.to_arrow().num_rows == 1200
