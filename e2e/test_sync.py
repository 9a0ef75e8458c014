"""`koine sync` and `koine diff` between folders, stores and servers: the same comparison, told and acted on."""

import json
import os
import time

import pytest

from harness import seeds


def told(result):
    return [json.loads(line) for line in result.stdout.splitlines()]


def differences(places, *args):
    done = places("--json", "diff", *args, check=False)
    lines = told(done)
    assert done.returncode == (1 if lines[-1]["differences"] else 0), done.stdout
    assert lines[-1]["differences"] == len(lines) - 1
    return sorted((line["type"], line["name"], line["why"]) for line in lines[:-1])


def synced(places, *args, **more):
    """What became of it: copied, left, deleted."""
    summary = told(places("--json", "sync", *args, **more))[-1]
    assert summary["failed"] == 0 and summary["unverified"] == 0
    return summary["copied"], summary["left"], summary["deleted"]


@pytest.fixture
def chain(bucket, tmp_path):
    """Places in a row, so that each kind is copied to each other kind: folder, store, server, server, store, folder."""
    rooms = [tmp_path / "in", f"koine://{bucket}/a", f"s3://{bucket}/b", f"lab://{bucket}", f"koine://{bucket}/c", tmp_path / "out"]
    return list(zip(rooms, rooms[1:]))


def test_every_way_is_copied_once_and_then_only_what_changed(places, chain, tmp_path):
    digests = seeds.make_tree(tmp_path / "in", seed=90, files=40)
    (tmp_path / "out").mkdir()
    for source, target in chain:
        assert len(differences(places, source, target)) == 40
        assert synced(places, source, target) == (40, 0, 0)
        assert synced(places, source, target) == (0, 40, 0)
        assert differences(places, source, target) == []
        assert differences(places, "--checksum", source, target) == []
    assert seeds.digest_tree(tmp_path / "out") == digests
    # One is gone, one is new, one is longer, one has other bytes of the same length.
    names = sorted(name for name in digests if (tmp_path / "in" / name).stat().st_size > 0)
    gone, longer, other = names[0], names[5], names[9]
    (tmp_path / "in" / gone).unlink()
    (tmp_path / "in" / "new.txt").write_text("new")
    with open(tmp_path / "in" / longer, "ab") as file:
        file.write(b"more")
    data = bytearray((tmp_path / "in" / other).read_bytes())
    data[0] ^= 1
    (tmp_path / "in" / other).write_bytes(data)
    for source, target in chain:
        # Objects that a server took have MD5s as ETags, and two of them are compared.
        why = "etag" if all(str(place).startswith(("s3:", "lab:")) for place in (source, target)) else "newer"
        changed = [("differs", longer, "size"), ("differs", other, why), ("only_from", "new.txt", "only in FROM")]
        assert differences(places, source, target) == sorted([*changed, ("only_to", gone, "only in TO")])
        dry = told(places("--json", "sync", "--delete", "--dry-run", source, target))
        assert sorted(line["type"] for line in dry) == ["would_copy"] * 3 + ["would_delete"]
        assert synced(places, source, target) == (3, 37, 0)
        assert differences(places, source, target) == [("only_to", gone, "only in TO")]
        assert synced(places, "--delete", source, target) == (0, 40, 1)
        assert places("diff", "--quiet", "--checksum", source, target).stdout == ""
    assert seeds.digest_tree(tmp_path / "out") == seeds.digest_tree(tmp_path / "in")


def test_what_is_compared_is_what_was_asked_for(places, s3, bucket, tmp_path):
    folder = tmp_path / "in"
    folder.mkdir()
    (folder / "k").write_bytes(b"one")
    places("mirror", folder, f"s3://{bucket}")
    (folder / "k").write_bytes(b"two")
    os.utime(folder / "k", (1, 1))
    # Of the same length and older: by its time it is the same, by its bytes it is not.
    assert differences(places, folder, f"s3://{bucket}") == []
    assert differences(places, "--checksum", folder, f"s3://{bucket}") == [("differs", "k", "checksum")]
    os.utime(folder / "k", (time.time() + 60,) * 2)
    assert differences(places, folder, f"s3://{bucket}") == [("differs", "k", "newer")]
    assert differences(places, "--size-only", folder, f"s3://{bucket}") == []
    assert synced(places, "--checksum", folder, f"s3://{bucket}") == (1, 0, 0)
    assert s3.get_object(Bucket=bucket, Key="k")["Body"].read() == b"two"
    # Two MD5s that are not equal are of different bytes, whichever is older.
    places("cp", "--md5", folder / "k", f"koine://{bucket}/md5/k")
    (folder / "k").write_bytes(b"six")
    places("cp", "--md5", folder / "k", f"koine://{bucket}/md6/k")
    assert differences(places, f"koine://{bucket}/md5", f"koine://{bucket}/md6") == [("differs", "k", "etag")]


def test_names_that_are_left_out_are_neither_copied_nor_deleted(places, s3, bucket, tmp_path):
    for name in ["a.txt", "b.tmp", "d/c.txt", "d/e.tmp"]:
        (tmp_path / "in" / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / "in" / name).write_text(name)
    for key in ["old.txt", "old.tmp", "d/old.txt"]:
        s3.put_object(Bucket=bucket, Key=key, Body=b"x")
    only = ["--exclude", "*.tmp", "--include", "*.t*"]
    assert synced(places, "--delete", *only, tmp_path / "in", f"s3://{bucket}") == (2, 0, 2)
    assert [line["key"] for line in told(places("--json", "ls", "-r", f"s3://{bucket}"))] == ["a.txt", "d/c.txt", "old.tmp"]
    assert differences(places, *only, tmp_path / "in", f"s3://{bucket}") == []


def test_nothing_is_deleted_where_the_source_is_not_all_there(places, s3, bucket, tmp_path):
    folder = tmp_path / "in"
    folder.mkdir()
    (folder / "k").write_text("k")
    (folder / "dangling").symlink_to("nowhere")
    s3.put_object(Bucket=bucket, Key="dangling", Body=b"was a file once")
    done = places("--json", "sync", "--delete", folder, f"s3://{bucket}", check=False)
    assert done.returncode == 1 and "nothing was deleted" in done.stderr and "a link to nothing" in done.stderr
    assert s3.head_object(Bucket=bucket, Key="dangling")["ContentLength"] == 15
    assert s3.head_object(Bucket=bucket, Key="k")["ContentLength"] == 1
    # A slip in a prefix would empty the target.
    places("cp", folder / "k", f"lab://{bucket}/k")
    assert places("sync", "--delete", f"s3://{bucket}/no-such", f"lab://{bucket}", check=False).returncode == 4
    (tmp_path / "empty").mkdir()
    done = places("sync", "--delete", tmp_path / "empty", f"lab://{bucket}", check=False)
    assert done.returncode == 1 and "has nothing" in done.stderr
    assert places("cat", f"lab://{bucket}/k").stdout == "k"


def test_folders_keep_what_lies_behind_links_and_lose_what_is_empty(places, bucket, tmp_path):
    (tmp_path / "k").write_text("k")
    places("cp", tmp_path / "k", f"koine://{bucket}/p/k")
    (tmp_path / "outside").mkdir()
    (tmp_path / "outside" / "kept").write_text("kept")
    out = tmp_path / "out"
    (out / "a" / "b").mkdir(parents=True)
    (out / "a" / "b" / "gone").write_text("gone")
    (out / "link").symlink_to(tmp_path / "outside")
    done = places("sync", "--delete", f"koine://{bucket}/p", out, check=False)
    assert done.returncode == 1 and "is a link" in done.stderr
    assert (tmp_path / "outside" / "kept").exists() and not (out / "a").exists() and (out / "k").read_text() == "k"
    assert synced(places, "--delete", "--no-follow-links", f"koine://{bucket}/p", out) == (0, 1, 0)


def test_what_cannot_be_synced_is_said(places, bucket, tmp_path):
    file = tmp_path / "file"
    file.write_text("x")
    for args in [(tmp_path, tmp_path), (file, f"s3://{bucket}"), (f"s3://{bucket}/a", f"s3://{bucket}"), ("s3://", tmp_path),
                 ("--checksum", "--size-only", tmp_path, f"s3://{bucket}")]:
        assert places("sync", *args, check=False).returncode == 2, args
    assert places("sync", f"s3://{bucket}", "lab://no-such-bucket", check=False).returncode == 4
    assert places("sync", tmp_path / "nothing", f"s3://{bucket}", check=False).returncode == 4
    assert places("diff", tmp_path / "nothing", f"s3://{bucket}", check=False).returncode == 4
