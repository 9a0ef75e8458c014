"""Listings, version 1 and 2: order, prefixes, delimiters, pages, and keys that are hard to write down."""

import urllib.parse

import pytest

from harness.expect import refused

ODD_KEYS = [
    " ",
    " leading and trailing ",
    "a b/c d",
    "a%20b",
    "100%",
    "%",
    "%zz",
    "a+b+c",
    "a&b=c?d#e",
    "//",
    "/lead",
    "a//b",
    "a///b/",
    "trail/",
    "dir/./x",
    "a\\b",
    "'quoted' \"too\"",
    "<xml>&amp;</xml>",
    "naïve café",
    "数据/表",
    "🦀 crab",
    "e\u0301",
    "\u00e9",
    "tab\tand\nnewline",
    "\u0001control",
    "~!@$^*()_-=[]{}|;:,.",
    "é" * 512,
    "x" * 1024,
]


def keys_v2(s3, bucket, **more):
    keys, prefixes, pages = [], [], 0
    for page in s3.get_paginator("list_objects_v2").paginate(Bucket=bucket, **more):
        pages += 1
        keys += [entry["Key"] for entry in page.get("Contents", [])]
        prefixes += [entry["Prefix"] for entry in page.get("CommonPrefixes", [])]
    return keys, prefixes, pages


def keys_v1(s3, bucket, **more):
    keys, prefixes, pages = [], [], 0
    for page in s3.get_paginator("list_objects").paginate(Bucket=bucket, **more):
        pages += 1
        keys += [entry["Key"] for entry in page.get("Contents", [])]
        prefixes += [entry["Prefix"] for entry in page.get("CommonPrefixes", [])]
    return keys, prefixes, pages


@pytest.mark.parametrize("key", ODD_KEYS)
def test_odd_keys_are_kept_byte_for_byte(s3, bucket, key):
    body = key.encode()
    s3.put_object(Bucket=bucket, Key=key, Body=body)
    assert s3.get_object(Bucket=bucket, Key=key)["Body"].read() == body
    assert keys_v2(s3, bucket)[0] == [key]
    assert keys_v1(s3, bucket)[0] == [key]
    assert keys_v2(s3, bucket, Prefix=key)[0] == [key]
    s3.copy_object(Bucket=bucket, Key="copy", CopySource={"Bucket": bucket, "Key": key})
    assert s3.get_object(Bucket=bucket, Key="copy")["Body"].read() == body
    if "\u0001" in key:
        # XML has no way to write this one, and Python's parser takes none: it is deleted by its address.
        s3.delete_object(Bucket=bucket, Key=key)
        s3.delete_object(Bucket=bucket, Key="copy")
    else:
        done = s3.delete_objects(Bucket=bucket, Delete={"Objects": [{"Key": key}, {"Key": "copy"}]})
        assert {entry["Key"] for entry in done["Deleted"]} == {key, "copy"}
    assert keys_v2(s3, bucket)[0] == []


def test_a_key_of_1025_bytes_is_refused(s3, bucket):
    with refused("KeyTooLongError", 400):
        s3.put_object(Bucket=bucket, Key="x" * 1025, Body=b"")


@pytest.fixture(scope="module")
def many(s3):
    name = "listing-of-many"
    s3.create_bucket(Bucket=name)
    keys = [f"a/{number:03}" for number in range(40)]
    keys += [f"b/{folder}/{number}" for folder in "xyz" for number in range(5)]
    keys += ["a", "b", "c//d", "c/d", "é/1", "z"] + [f"p-{number:04}" for number in range(1100)]
    for key in keys:
        s3.put_object(Bucket=name, Key=key, Body=b"")
    return name, sorted(keys, key=lambda key: key.encode())


@pytest.mark.parametrize("listed", [keys_v1, keys_v2])
def test_all_keys_come_in_order_of_their_bytes(s3, many, listed):
    name, keys = many
    found, _, pages = listed(s3, name)
    assert found == keys
    assert pages == 2  # of 1,000 at most


@pytest.mark.parametrize("listed", [keys_v1, keys_v2])
@pytest.mark.parametrize("size", [1, 7, 60])
def test_pages_join_without_gap_or_repeat(s3, many, listed, size):
    name, keys = many
    wanted = [key for key in keys if not key.startswith("p-")]
    found = []
    for prefix in ["a", "b", "c", "é", "z"]:
        found += listed(s3, name, Prefix=prefix, PaginationConfig={"PageSize": size})[0]
    assert sorted(found) == sorted(wanted)
    assert len(found) == len(wanted)


@pytest.mark.parametrize("listed", [keys_v1, keys_v2])
@pytest.mark.parametrize("size", [1, 3, 1000])
def test_delimiters_fold_keys_into_prefixes(s3, many, listed, size):
    name, _ = many
    config = {"PageSize": size}
    assert listed(s3, name, Prefix="b", Delimiter="/", PaginationConfig=config)[:2] == (["b"], ["b/"])
    assert listed(s3, name, Prefix="b/", Delimiter="/", PaginationConfig=config)[:2] == ([], ["b/x/", "b/y/", "b/z/"])
    assert listed(s3, name, Prefix="c/", Delimiter="/", PaginationConfig=config)[:2] == (["c/d"], ["c//"])
    assert listed(s3, name, Prefix="é", Delimiter="/", PaginationConfig=config)[:2] == ([], ["é/"])
    assert listed(s3, name, Prefix="a/00", Delimiter="5", PaginationConfig=config)[1] == ["a/005"]


def test_keys_and_prefixes_count_together_towards_a_page(s3, many):
    name, _ = many
    page = s3.list_objects_v2(Bucket=name, Delimiter="/", MaxKeys=3)
    assert ([entry["Key"] for entry in page["Contents"]], page["CommonPrefixes"]) == (["a", "b"], [{"Prefix": "a/"}])
    assert page["KeyCount"] == 3 and page["IsTruncated"]
    page = s3.list_objects_v2(Bucket=name, Delimiter="/", MaxKeys=3, ContinuationToken=page["NextContinuationToken"])
    assert [entry["Prefix"] for entry in page["CommonPrefixes"]] == ["b/", "c/"]


def test_a_listing_starts_after_a_key(s3, many):
    name, keys = many
    page = s3.list_objects_v2(Bucket=name, StartAfter="a/010", Prefix="a", MaxKeys=2)
    assert [entry["Key"] for entry in page["Contents"]] == ["a/011", "a/012"]
    page = s3.list_objects(Bucket=name, Marker="b/x/3", MaxKeys=2)
    assert [entry["Key"] for entry in page["Contents"]] == ["b/x/4", "b/y/0"]
    assert s3.list_objects_v2(Bucket=name, StartAfter=keys[-1]).get("Contents") is None


def test_entries_tell_size_etag_and_time(s3, bucket):
    put = s3.put_object(Bucket=bucket, Key="k", Body=b"12345")
    head = s3.head_object(Bucket=bucket, Key="k")
    entry = s3.list_objects_v2(Bucket=bucket)["Contents"][0]
    assert (entry["Size"], entry["ETag"], entry["StorageClass"]) == (5, put["ETag"], "STANDARD")
    assert abs((entry["LastModified"] - head["LastModified"]).total_seconds()) < 1


def test_an_empty_bucket_and_a_page_of_nothing(s3, bucket):
    page = s3.list_objects_v2(Bucket=bucket)
    assert (page["KeyCount"], page["IsTruncated"]) == (0, False)
    s3.put_object(Bucket=bucket, Key="k", Body=b"")
    page = s3.list_objects_v2(Bucket=bucket, MaxKeys=0)
    assert (page["KeyCount"], page["IsTruncated"]) == (0, False)
    with refused("InvalidArgument", 400):
        s3.list_objects_v2(Bucket=bucket, MaxKeys=-1)


def test_names_can_be_asked_for_encoded(s3, bucket):
    s3.put_object(Bucket=bucket, Key="a b+é", Body=b"")
    # boto3 decodes what it asked to be encoded; asking by ourselves shows the wire.
    page = s3.list_objects_v2(Bucket=bucket, EncodingType="url")
    assert page["EncodingType"] == "url"
    assert urllib.parse.unquote_plus(page["Contents"][0]["Key"]) == "a b+é"
