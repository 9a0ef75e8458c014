"""What lies where: `koine du` and `koine find`; and addresses for those without keys: `koine share`."""

import json
import os
import time
import urllib.error
import urllib.request

import pytest

from harness.server import koine


def told(result):
    return [json.loads(line) for line in result.stdout.splitlines()]


SIZES = {"a.jpg": 10, "2025/b.jpg": 200, "2025/deep/c.txt": 3000, "2025/deep/d.jpg": 0, "2026/e.jpg": 40_000, "2026/f g.txt": 5}


@pytest.fixture(params=["folder", "koine://", "s3://", "lab://"])
def place(request, places, bucket, tmp_path):
    for name, size in SIZES.items():
        (tmp_path / "in" / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / "in" / name).write_bytes(bytes(size))
    if request.param == "folder":
        return str(tmp_path / "in")
    places("cp", "-r", tmp_path / "in", f"{request.param}{bucket}")
    return f"{request.param}{bucket}"


def test_how_much_lies_below(places, place):
    usage = lambda *args: {line["name"].removeprefix(place): (line["objects"], line["bytes"]) for line in told(places("--json", "du", *args))}
    whole = places("--json", "du", place)
    assert [(line["objects"], line["bytes"]) for line in told(whole)] == [(6, 43215)]
    by_level = usage("--depth", "1", place)
    assert by_level.pop("/2025/") == (3, 3200) and by_level.pop("/2026/") == (2, 40005)
    assert list(by_level.values()) == [(6, 43215)]
    assert usage("-d", "7", place)["/2025/deep/"] == (2, 3000)
    assert "42.2 KiB" in places("du", place).stdout
    assert all(len(line) < 80 for line in places("du", "--depth", "2", place).stdout.replace(place, "").splitlines())
    assert places("du", f"{place}/nothing", check=False).returncode == (0 if "://" in place else 4)


def test_all_buckets_are_measured(places, bucket, place):
    if "://" not in place:
        return
    scheme = place.removesuffix(bucket)
    lines = told(places("--json", "du", scheme))
    assert (6, 43215) in [(line["objects"], line["bytes"]) for line in lines if bucket in line["name"]]
    *buckets, whole = lines
    assert whole["name"] == scheme and whole["bytes"] == sum(line["bytes"] for line in buckets)


def test_what_fits_is_listed(places, place):
    def found(*args):
        lines = told(places("--json", "find", *args, place))
        assert all(line["size"] == SIZES[line["name"].removeprefix(f"{place}/")] for line in lines)
        return [line["name"].removeprefix(f"{place}/") for line in lines]

    assert found() == sorted(SIZES)
    assert found("--name", "*.txt") == ["2025/deep/c.txt", "2026/f g.txt"]
    assert found("--name", "2025/*.jpg") == ["2025/b.jpg"]
    assert found("--name", "2025/**/*.jpg") == ["2025/b.jpg", "2025/deep/d.jpg"]
    assert found("--name", "?.jpg", "--larger", "100") == ["2025/b.jpg", "2026/e.jpg"]
    assert found("--smaller", "10", "--name", "d*", "--name", "f*") == ["2025/deep/d.jpg", "2026/f g.txt"]
    assert found("--newer", "1h") == sorted(SIZES) and found("--older", "1h") == []
    assert found("--older", "2099-01-01", "--larger", "10KiB") == ["2026/e.jpg"]
    assert places("find", "--name", "c.*", place).stdout == f"{place}/2025/deep/c.txt\n"
    assert "2.9 KiB  20" in places("find", "--long", "--name", "c.*", place).stdout
    assert places("find", "--name", "[", place, check=False).returncode == 2
    assert places("find", "--older", "yesterday", place, check=False).returncode == 2


def test_a_shared_object_is_got_and_put_without_keys(places, s3, bucket):
    s3.put_object(Bucket=bucket, Key="a b+%2F é", Body=b"shared", ContentType="text/x-koine")
    address = places("share", f"s3://{bucket}/a b+%2F é").stdout.strip()
    with urllib.request.urlopen(address) as got:
        assert (got.read(), got.headers["content-type"]) == (b"shared", "text/x-koine")
    (line,) = told(places("--json", "share", "--put", "--expires", "1h", f"lab://{bucket}/in/box"))
    assert line["method"] == "PUT" and line["url"].startswith("http://")
    with urllib.request.urlopen(urllib.request.Request(line["url"], data=b"sent", method="PUT")) as done:
        assert done.status == 200
    assert places.lab.get_object(Bucket=bucket, Key="in/box")["Body"].read() == b"sent"
    # What is shared is that, and for that time.
    for url in [address.replace("é", "x").replace("%C3%A9", "x"), address.replace("X-Amz-Expires=86400", "X-Amz-Expires=99999")]:
        with pytest.raises(urllib.error.HTTPError) as refused:
            urllib.request.urlopen(url)
        assert refused.value.code == 403
    with pytest.raises(urllib.error.HTTPError) as refused:
        urllib.request.urlopen(urllib.request.Request(address, data=b"x", method="PUT"))
    assert refused.value.code == 403
    for args in [("--expires", "8d", f"s3://{bucket}/k"), ("--expires", "0s", f"s3://{bucket}/k"), (f"koine://{bucket}/k",), (f"s3://{bucket}",)]:
        assert places("share", *args, check=False).returncode == 2, args


@pytest.mark.parametrize("command", ["sync", "diff", "du", "find", "share", "alias", "mirror"])
def test_help_teaches_by_examples(command):
    told = koine(command, "--help").stdout
    assert "Examples:" in told and "koine " in told
