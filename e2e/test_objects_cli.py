"""Objects on the command line: buckets, copies, patterns, uploads in parts; a store opened here, and one that a server holds."""

import json
import os
import signal
import subprocess
import time

import pytest

from harness import seeds
from harness.server import Server, koine, program


@pytest.fixture(params=["opened here", "held by a server"])
def cli(request, tmp_path_factory):
    """Runs `koine VERB … --store STORE`."""
    store = tmp_path_factory.mktemp("cli") / "store.koine"

    def run(*args, **more):
        return koine(*args, "--store", store, **more)

    run.store = store
    if request.param == "opened here":
        koine("format", store)
        run("mb", "koine://first")
        yield run
    else:
        with Server(store):
            run("mb", "koine://first")
            yield run
    koine("check", store)


def told(result):
    return [json.loads(line) for line in result.stdout.splitlines()]


def put(cli, tmp_path, key, data):
    (tmp_path / "source").write_bytes(data)
    cli("cp", tmp_path / "source", f"koine://first/{key}")


def test_buckets_come_and_go(cli, tmp_path):
    cli("mb", "koine://second", "koine://third")
    assert [line["name"] for line in told(cli("--json", "ls"))] == ["first", "second", "third"]
    assert cli("mb", "koine://second", check=False).returncode == 1
    put(cli, tmp_path, "a", b"x")
    assert cli("rb", "koine://first", check=False).returncode == 1
    cli("rb", "--force", "koine://first", "koine://second")
    assert [line["name"] for line in told(cli("--json", "ls", "koine://"))] == ["third"]
    assert cli("info", "koine://first", check=False).returncode == 4
    assert cli("rb", "koine://first", check=False).returncode == 4


def test_every_change_says_what_it_did(cli, tmp_path):
    (tmp_path / "f").write_text("data")
    (tmp_path / "policy.json").write_text('{"Version": "2012-10-17", "Statement": [{"Effect": "Allow", "Principal": "*", "Action": "s3:GetObject", "Resource": "arn:aws:s3:::second/*"}]}')
    user = {"Version": "2012-10-17", "Statement": [{"Effect": "Allow", "Action": "s3:GetObject", "Resource": "*"}]}
    (tmp_path / "user.json").write_text(json.dumps(user))
    (tmp_path / "password").write_text("a password that is long enough")
    (tmp_path / "password").chmod(0o600)
    for args in [
        "mb koine://second", "cp f koine://second/a", "append koine://second/a f", "truncate koine://second/a 2", "mv koine://second/a koine://second/b",
        "cp f koine://second/c", "exchange koine://second/b koine://second/c", "set koine://second/b --tag a=b", "compose koine://second/b koine://second/c koine://second/d",
        "bucket set koine://second --tag a=b", "bucket index add koine://second --tag a", "bucket index rm koine://second --tag a",
        "snapshot create koine://second@s", "snapshot restore koine://second@s", "branch koine://second@s koine://third", "snapshot rm koine://second@s",
        "identity public-access set on", "bucket policy set koine://second policy.json", "bucket policy rm koine://second", "bucket versioning set koine://second enabled",
        "identity policy set readers user.json", "identity policy rm readers",
        "group add lab", "group add more", "user add ada --group lab", "group join more ada", "group leave more ada", "user passwd ada --password-file password",
        "bucket owner set koine://third ada", "user key add ada", "rm koine://second/d", "rb --force koine://second", "group rm more", "rb --force --group lab", "user rm ada",
    ]:
        words = [str(tmp_path / word) if (tmp_path / word).exists() else word for word in args.split()]
        assert cli(*words).stdout.strip(), args
    put(cli, tmp_path, "m", b"x")
    upload = cli("multipart", "create", "koine://first/m").stdout.strip()
    assert "aborted" in cli("multipart", "abort", "koine://first/m", upload).stdout


def test_what_cannot_be_copied_is_named_and_the_rest_is_copied(cli, tmp_path):
    folder = tmp_path / "in"
    (folder / "d").mkdir(parents=True)
    for name in ("a.txt", "b.tmp", "d/c.txt", "d/e.tmp"):
        (folder / name).write_text(name)
    (folder / "dangling").symlink_to("nowhere")
    (folder / "d" / "up").symlink_to("..")
    os.mkfifo(folder / "pipe")
    done = cli("--json", "cp", "-r", folder, "koine://first/in", check=False)
    assert done.returncode == 1
    lines = told(done)
    assert sorted(line["name"].rsplit("/", 1)[1] for line in lines if line.get("type") == "left_out") == ["dangling", "pipe", "up"]
    [summary] = [line for line in lines if line.get("type") == "summary"]
    assert (summary["copied"], summary["failed"]) == (4, 3)
    assert "a link to nothing" in done.stderr and "a pipe" in done.stderr
    # Only some names; and nothing at all, told.
    dry = told(cli("--json", "cp", "-r", "--dry-run", "--no-follow-links", "--include", "*.t*", "--exclude", "d/e*",
                   folder, "koine://first/some", check=False))
    assert [line["to"].split("/some/")[1] for line in dry if line.get("type") == "would_copy"] == ["a.txt", "b.tmp", "d/c.txt"]
    assert cli("ls", "koine://first/some/", check=False).stdout == ""
    # Down: a key that can be no file is named, and keeps nothing from the rest.
    put(cli, tmp_path, "in/../odd", b"odd")
    done = cli("--json", "cp", "-r", "--exclude", "*.tmp", "koine://first/in", tmp_path / "out", check=False)
    assert done.returncode == 1
    assert [line["name"] for line in told(done) if line.get("type") == "left_out"] == ["koine://first/in/../odd"]
    assert sorted(str(path.relative_to(tmp_path / "out")) for path in (tmp_path / "out").rglob("*.*")) == ["a.txt", "d/c.txt"]


def test_a_folder_goes_in_and_comes_back_and_is_not_sent_twice(cli, tmp_path):
    digests = seeds.make_tree(tmp_path / "in", seed=70, files=120)
    assert "120 objects" in cli("cp", "-r", tmp_path / "in", "koine://first/tree").stdout
    again = told(cli("--json", "cp", "-r", "--resume", tmp_path / "in", "koine://first/tree"))[-1]
    assert (again["copied"], again["left"]) == (0, 120)
    cli("cp", "-r", "koine://first/tree", "koine://first/copy")
    cli("cp", "-r", "koine://first/copy", tmp_path / "out")
    assert seeds.digest_tree(tmp_path / "out") == digests
    back = told(cli("--json", "cp", "-r", "--resume", "koine://first/copy", tmp_path / "out"))[-1]
    assert (back["copied"], back["left"]) == (0, 120)


def test_what_is_said_of_an_object(cli, tmp_path):
    put(cli, tmp_path, "odd +%2F é", b"hello")
    (info,) = told(cli("--json", "info", "koine://first/odd +%2F é"))
    (of_bucket,) = told(cli("--json", "info", "koine://first"))
    # 64 bits: more than many readers of JSON keep of a number.
    assert isinstance(of_bucket["space"], str) and isinstance(info["id"], str)
    assert info["size"] == 5 and "-" in info["etag"] and info["checksums"]["CRC64NVME"]
    (tmp_path / "compared").write_bytes(b"hello")
    cli("cp", "--md5", tmp_path / "compared", "koine://first/compared")
    (compared,) = told(cli("--json", "info", "koine://first/compared"))
    assert compared["etag"] == "5d41402abc4b2a76b9719d911017c592"
    assert "5 B (5 bytes)" in cli("info", "koine://first/odd +%2F é").stdout
    assert cli("info", "--quiet", "koine://first/odd", check=False).returncode == 4
    assert cli("cat", "koine://first/odd +%2F é", "koine://first/odd +%2F é").stdout == "hellohello"
    assert cli("cat", "--range", "1-3", "koine://first/odd +%2F é").stdout == "ell"
    assert cli("cat", "--range", "-2", "koine://first/odd +%2F é").stdout == "lo"
    assert cli("cat", "koine://first/nothing", check=False).returncode == 4


def test_patterns_and_names_as_they_stand(cli, tmp_path):
    for key in ["a/1.jpg", "a/2.jpg", "a/b/3.jpg", "a/note", "a/*.jpg", "ab"]:
        put(cli, tmp_path, key, key.encode())
    keys = lambda *args: [line["key"] for line in told(cli("--json", "ls", *args))]
    assert keys("koine://first/a/*.jpg") == ["a/*.jpg", "a/1.jpg", "a/2.jpg"]
    assert keys("koine://first/a/**/*.jpg") == ["a/*.jpg", "a/1.jpg", "a/2.jpg", "a/b/3.jpg"]
    assert keys("--exact", "koine://first/a/*") == ["a/*.jpg"]
    cli("cp", "koine://first/a/**/[0-9].jpg", tmp_path / "out")
    assert sorted(str(path.relative_to(tmp_path / "out")) for path in (tmp_path / "out").rglob("*.jpg")) == [
        "1.jpg", "2.jpg", "b/3.jpg"]
    assert "would delete" in cli("rm", "--dry-run", "koine://first/a/*.jpg").stdout
    cli("rm", "--exact", "koine://first/a/*.jpg")
    assert keys("-r", "koine://first") == ["a/1.jpg", "a/2.jpg", "a/b/3.jpg", "a/note", "ab"]
    assert cli("rm", "koine://first/a/*.png", check=False).returncode == 4
    cli("rm", "-r", "koine://first/a")
    assert keys("-r", "koine://first") == ["ab"]
    assert cli("rm", "koine://first/zz", check=False).returncode == 4
    cli("rm", "-f", "koine://first/zz")
    assert cli("rm", "koine://first", check=False).returncode == 2


def test_names_change_and_bytes_stay(cli, tmp_path):
    cli("mb", "koine://second")
    for key in ["a/1", "a/2", "b"]:
        put(cli, tmp_path, key, key.encode())
    (before,) = told(cli("--json", "info", "koine://first/a/1"))
    cli("mv", "koine://first/a/1", "koine://first/c/")
    (after,) = told(cli("--json", "info", "koine://first/c/1"))
    assert after["id"] == before["id"] and after["modified"] == before["modified"]
    assert cli("mv", "--if-absent", "koine://first/b", "koine://first/c/1", check=False).returncode == 1
    cli("exchange", "koine://first/b", "koine://first/c/1")
    assert cli("cat", "koine://first/b", "koine://first/c/1").stdout == "a/1b"
    cli("mv", "-r", "koine://first", "koine://second/all")
    names = [line["key"] for line in told(cli("--json", "ls", "-r", "koine://second"))]
    assert names == ["all/a/2", "all/b", "all/c/1"] and cli("ls", "koine://first").stdout == ""
    assert cli("mv", "koine://first/b", "koine://second/b", check=False).returncode == 4
    assert cli("mv", tmp_path / "source", "koine://second/b", check=False).returncode == 2


def test_bytes_change_in_place(cli, tmp_path):
    put(cli, tmp_path, "log", b"one")
    (before,) = told(cli("--json", "info", "koine://first/log"))
    (tmp_path / "more").write_bytes(b" two")
    (after,) = told(cli("--json", "append", "koine://first/log", tmp_path / "more"))
    assert after["id"] == before["id"] and after["size"] == 7 and "-" in after["etag"]
    with open(tmp_path / "more") as more:
        cli("append", "koine://first/new", stdin=more)
    assert cli("cat", "koine://first/log", "koine://first/new").stdout == "one two two"
    assert cli("append", "--no-create", "koine://first/none", tmp_path / "more", check=False).returncode == 4
    cli("truncate", "koine://first/log", "2")
    assert cli("cat", "koine://first/log").stdout == "on"
    assert told(cli("--json", "truncate", "koine://first/log", "6GiB"))[0]["size"] == 6 << 30
    assert cli("cat", "--range", f"{(5 << 30) - 1}-{5 << 30}", "koine://first/log").stdout == "\0\0"
    cli("cp", "--offset", str(5 << 30), tmp_path / "more", "koine://first/log")
    assert cli("cat", "--range", f"{5 << 30}-{(5 << 30) + 4}", "koine://first/log").stdout == " two\0"
    cli("cp", "--range", f"{5 << 30}-{(5 << 30) + 3}", "koine://first/log", "koine://first/new", "--offset", "1")
    assert cli("cat", "koine://first/new").stdout == "  two"
    cli("cp", "--range", "-3", "koine://first/new", tmp_path / "end")
    assert (tmp_path / "end").read_text() == "two"
    assert cli("truncate", "koine://first/none", "1", check=False).returncode == 4


def test_objects_are_composed_described_and_moved_by_folder(cli, tmp_path):
    for key in ["d/1", "d/e/2", "d3"]:
        put(cli, tmp_path, key, key.encode())
    cli("compose", "koine://first/d/1", "koine://first/d3", "koine://first/d/1", "koine://first/whole")
    assert cli("cat", "koine://first/whole").stdout == "d/1d3d/1"
    assert cli("compose", "--if-absent", "koine://first/d3", "koine://first/whole", check=False).returncode == 1
    cli("cp", "--range", "3-4", "--if-absent", "koine://first/whole", "koine://first/part")
    assert cli("cat", "koine://first/part").stdout == "d3"
    (info,) = told(cli("--json", "set", "koine://first/part", "--metadata", "a=1", "--metadata", "b=2", "--mode", "640",
                       "--content-type", "text/plain", "--modified", "2020-01-02T03:04:05Z"))
    assert info["metadata"] == {"a": "1", "b": "2"} and info["mode"] == 0o640
    assert info["headers"] == {"Content-Type": "text/plain"} and info["modified"] == "2020-01-02T03:04:05.000Z"
    (info,) = told(cli("--json", "set", "koine://first/part", "--remove-metadata", "a", "--tag", "t=1"))
    assert info["metadata"] == {"b": "2"} and info["tags"] == {"t": "1"} and info["headers"] == {"Content-Type": "text/plain"}
    assert cli("set", "koine://first/part", check=False).returncode == 2
    moved = told(cli("--json", "mv", "-r", "koine://first/d", "koine://first/f"))
    assert [(line["from"], line["to"]) for line in moved] == [("koine://first/d/", "koine://first/f/")]
    put(cli, tmp_path, "g/1", b"in the way")
    moved = told(cli("--json", "mv", "-r", "koine://first/f", "koine://first/g"))
    assert len(moved) == 2 and cli("cat", "koine://first/g/1", "koine://first/g/e/2").stdout == "d/1d/e/2"


def test_a_bucket_is_kept_branched_and_restored(cli, tmp_path):
    for key in ["a", "b/c"]:
        put(cli, tmp_path, key, key.encode())
    cli("snapshot", "create", "koine://first@monday")
    assert cli("snapshot", "create", "koine://first@monday", check=False).returncode == 1
    cli("branch", "koine://first", "koine://trial")
    cli("rm", "-r", "koine://first")
    assert cli("ls", "koine://first").stdout == ""
    assert cli("cat", "koine://first@monday/a", "koine://trial/b/c").stdout == "ab/c"
    assert [line["name"] for line in told(cli("--json", "ls"))] == ["first", "trial"]
    assert [line["snapshot"] for line in told(cli("--json", "snapshot", "ls", "koine://first"))] == ["monday"]
    assert cli("rm", "koine://first@monday/a", check=False).returncode == 1
    # A bucket that could not be removed is not emptied either.
    put(cli, tmp_path, "kept", b"kept")
    assert "snapshot rm" in cli("rb", "--force", "koine://first", check=False).stderr
    assert cli("cat", "koine://first/kept").stdout == "kept"
    cli("branch", "koine://first@monday", "koine://again")
    assert cli("cat", "koine://again/a").stdout == "a"
    cli("snapshot", "restore", "koine://first@monday")
    assert cli("cat", "koine://first/a").stdout == "a"
    cli("snapshot", "rm", "koine://first@monday")
    assert cli("cat", "koine://first@monday/a", check=False).returncode == 4
    assert cli("cat", "koine://first/b/c", "koine://trial/a").stdout == "b/ca"
    assert cli("snapshot", "create", "koine://first", check=False).returncode == 2


def test_versions_are_kept_read_and_deleted(cli, tmp_path):
    assert "never" in cli("bucket", "versioning", "show", "koine://first").stdout
    put(cli, tmp_path, "a", b"null")
    assert "enabled" in cli("bucket", "versioning", "set", "koine://first", "enabled").stdout
    (info,) = told(cli("--json", "info", "koine://first"))
    assert info["versioning"] == "enabled"
    put(cli, tmp_path, "a", b"one")
    (one,) = told(cli("--json", "info", "koine://first/a"))
    put(cli, tmp_path, "a", b"two!")
    cli("rm", "koine://first/a")
    assert cli("cat", "koine://first/a", check=False).returncode == 4
    versions = told(cli("--json", "ls", "--versions", "koine://first/a"))
    assert [(v["type"], v.get("size"), v["newest"]) for v in versions] == [
        ("marker", None, True),
        ("version", 4, False),
        ("version", 3, False),
        ("version", 4, False),
    ]
    assert [v["version_id"] for v in versions][2:] == [one["version_id"], "null"]
    assert "deleted" in cli("ls", "--versions", "koine://first").stdout
    assert cli("cat", "--version", one["version_id"], "koine://first/a").stdout == "one"
    assert cli("cat", "--version", "null", "koine://first/a").stdout == "null"
    assert told(cli("--json", "info", "--version", one["version_id"], "koine://first/a"))[0]["size"] == 3
    assert cli("cat", "--version", "0" * 16, "koine://first/a", check=False).returncode == 4
    assert cli("cat", "--version", "x", "koine://first/a", check=False).returncode == 2
    assert cli("rb", "koine://first", check=False).returncode == 1
    cli("rm", "--version", versions[0]["version_id"], "koine://first/a")
    assert cli("cat", "koine://first/a").stdout == "two!"
    assert cli("rm", "--version", versions[0]["version_id"], "koine://first/a", check=False).returncode == 4
    cli("rm", "--force", "--version", versions[0]["version_id"], "koine://first/a")
    cli("bucket", "versioning", "set", "koine://first", "suspended")
    put(cli, tmp_path, "a", b"again")
    left = told(cli("--json", "ls", "--versions", "koine://first/*"))
    assert [v["version_id"] for v in left] == ["null", versions[1]["version_id"], one["version_id"]]
    assert cli("ls", "--versions", "koine://first/none", check=False).returncode == 4
    cli("bucket", "versioning", "set", "koine://first", "enabled")
    cli("rm", "-r", "koine://first")
    assert told(cli("--json", "ls", "koine://first")) == []
    assert len(told(cli("--json", "ls", "--versions", "koine://first"))) == 4
    cli("rb", "--force", "koine://first")
    cli("mb", "koine://first")


def test_an_older_version_is_copied_and_written_to_a_file(cli, tmp_path):
    cli("bucket", "versioning", "set", "koine://first", "enabled")
    put(cli, tmp_path, "a", b"one")
    (one,) = told(cli("--json", "info", "koine://first/a"))
    put(cli, tmp_path, "a", b"two!")
    cli("rm", "koine://first/a")
    old = ("cp", "--version", one["version_id"])
    cli(*old, "koine://first/a", tmp_path / "old")
    assert (tmp_path / "old").read_text() == "one"
    cli(*old, "--range", "1-", "koine://first/a", "koine://first/part")
    cli(*old, "koine://first/a", "koine://first/a")
    assert cli("cat", "koine://first/part").stdout + cli("cat", "koine://first/a").stdout == "neone"
    assert cli(*old, "--if-absent", "koine://first/a", "koine://first/part", check=False).returncode == 1
    for wrong in ([tmp_path / "old", "koine://first/x"], ["-r", "koine://first/a", "koine://first/b"]):
        assert cli(*old, *wrong, check=False).returncode == 2
    assert cli("cp", "--version", "0" * 16, "koine://first/a", "koine://first/x", check=False).returncode == 4


def test_it_is_told_who_may_do_what_and_why(cli):
    cli("group", "add", "lab")
    cli("user", "add", "ada", "--group", "lab")
    cli("bucket", "owner", "set", "koine://first", "ada")
    explain = lambda *who, **more: cli("bucket", "explain", "koine://first/a", "s3:GetObject", *who, **more)
    assert "may do s3:GetObject: owner of the bucket" in explain("--user", "ada").stdout
    refused = explain(check=False)
    assert "everyone may not do s3:GetObject: nothing allows it" in refused.stdout and refused.returncode == 5
    key = told(cli("--json", "user", "key", "add", "ada"))[0]["access_key"]
    assert told(cli("--json", "bucket", "explain", "koine://first", "s3:DeleteBucket", "--access-key", key))[0]["allowed"]
    assert explain("--user", "nobody", check=False).returncode == 4
    assert cli("bucket", "explain", "koine://first", "s3:Nothing", check=False).returncode == 2


def test_groups_and_users_come_and_go(cli, tmp_path):
    (tmp_path / "password").write_text("correct horse\n")
    (tmp_path / "wrong").write_text("battery staple\n")
    for file in ("password", "wrong"):
        (tmp_path / file).chmod(0o600)
    cli("group", "add", "lab", "--description", "with a microscope")
    cli("group", "add", "office")
    assert [line["name"] for line in told(cli("--json", "group", "ls"))] == ["lab", "office"]
    cli("user", "add", "ada", "--group", "lab", "--password-file", tmp_path / "password")
    cli("user", "add", "grace", "--group", "office")
    assert cli("user", "add", "ADA", "--group", "office", check=False).returncode == 1
    assert cli("user", "add", "bob", "--group", "none", check=False).returncode == 4
    cli("group", "join", "lab", "grace")
    assert [line["name"] for line in told(cli("--json", "user", "ls", "--group", "lab"))] in (["ada", "grace"], ["grace", "ada"])
    token = cli("user", "login", "ada", "--password-file", tmp_path / "password").stdout.strip()
    assert token.startswith("kt1_")
    (tmp_path / "token").write_text(token)
    (tmp_path / "token").chmod(0o600)
    cli("user", "logout", "--token-file", tmp_path / "token")
    assert cli("user", "login", "ada", "--password-file", tmp_path / "wrong", check=False).returncode == 5
    (key,) = told(cli("--json", "user", "key", "add", "ada", "--description", "for s3"))
    assert len(key["secret"]) >= 20
    (listed,) = told(cli("--json", "user", "key", "ls", "ada"))
    assert listed["access_key"] == key["access_key"] and key["secret"] not in json.dumps(listed)
    cli("user", "key", "rm", "ada", key["access_key"])
    assert cli("user", "key", "ls", "ada").stdout == ""
    cli("bucket", "owner", "set", "koine://first", "ada")
    (owned,) = told(cli("--json", "bucket", "owner", "show", "koine://first"))
    assert (owned["owner"], owned["group"]) == ("ada", "lab")
    assert cli("user", "rm", "ada", check=False).returncode == 1
    (info,) = told(cli("--json", "user", "set", "ada", "--disable"))
    assert info["state"] == "disabled"
    assert cli("user", "login", "ada", "--password-file", tmp_path / "password", check=False).returncode == 5
    asked = cli("group", "rm", "lab", check=False)
    assert asked.returncode == 2 and "--yes" in asked.stderr and "first" in asked.stderr
    cli("group", "rm", "lab", "--yes")
    assert cli("user", "info", "ada", check=False).returncode == 4 and cli("ls").stdout == ""
    assert [line["name"] for line in told(cli("--json", "user", "ls"))] == ["grace"]


def test_policies_are_set_shown_and_refused_where_they_are_not_understood(cli, tmp_path):
    policy = {"Version": "2012-10-17", "Statement": [
        {"Effect": "Allow", "Action": "s3:GetObject", "Resource": "arn:aws:s3:::first/*"}]}
    (tmp_path / "policy.json").write_text(json.dumps(policy))
    cli("identity", "policy", "set", "readers", tmp_path / "policy.json")
    assert told(cli("--json", "identity", "policy", "show", "readers")) == [policy]
    cli("group", "add", "lab")
    cli("group", "set", "lab", "--policies", "readers")
    assert cli("identity", "policy", "rm", "readers", check=False).returncode == 1
    (tmp_path / "wrong.json").write_text('{"Version": "2012-10-17", "Statement": [{"Effect": "Perhaps"}]}')
    assert cli("identity", "policy", "set", "other", tmp_path / "wrong.json", check=False).returncode == 1
    cli("user", "add", "ada", "--group", "lab")
    policy["Statement"][0]["Principal"] = {"AWS": "arn:aws:iam:::user/ada"}
    (tmp_path / "policy.json").write_text(json.dumps(policy))
    cli("bucket", "policy", "set", "koine://first", tmp_path / "policy.json")
    assert told(cli("--json", "bucket", "policy", "show", "koine://first")) == [policy]
    cli("bucket", "policy", "rm", "koine://first")
    assert cli("bucket", "policy", "show", "koine://first", check=False).returncode == 4


def test_root_comes_back(cli):
    (first,) = told(cli("--json", "identity", "root", "reset"))
    (second,) = told(cli("--json", "identity", "root", "reset"))
    assert first["access_key"] != second["access_key"] and first["secret"] != second["secret"]
    assert "not shown again" in cli("identity", "root", "reset").stdout


def test_targets_that_are_there_can_be_spared(cli, tmp_path):
    put(cli, tmp_path, "a", b"one")
    (tmp_path / "source").write_bytes(b"two")
    assert cli("cp", "--if-absent", tmp_path / "source", "koine://first/a", check=False).returncode == 1
    assert cli("cp", "--if-absent", "koine://first/a", "koine://first/a2", check=False).returncode == 0
    assert cli("cp", "--if-absent", "koine://first/a", "koine://first/a2", check=False).returncode == 1
    (tmp_path / "here").write_bytes(b"three")
    assert cli("cp", "--if-absent", "koine://first/a", tmp_path / "here", check=False).returncode == 1
    assert cli("cat", "koine://first/a").stdout == "one" and (tmp_path / "here").read_bytes() == b"three"
    assert "koine cp: FROM" not in cli("cp", tmp_path / "source", tmp_path / "here", check=False).stderr
    assert cli("cp", "--resume", tmp_path / "source", "s3://first/a", "koine://first/b", check=False).returncode == 2


def test_targets_that_are_not_there_can_be_spared(cli, tmp_path):
    put(cli, tmp_path, "a", b"one")
    (tmp_path / "source").write_bytes(b"two")
    source, only = tmp_path / "source", ("cp", "--if-present")
    absent = "koine://first/absent"
    for arguments in (
        [source, absent],
        ["koine://first/a", absent],
        ["--range", "0-1", "koine://first/a", absent],
        ["--offset", "1", source, absent],
        ["--offset", "1", "koine://first/a", absent],
    ):
        assert cli(*only, *arguments, check=False).returncode == 4, arguments
    assert cli("info", absent, check=False).returncode == 4
    cli(*only, source, "koine://first/a")
    assert cli("cat", "koine://first/a").stdout == "two"
    cli(*only, "--offset", "1", source, "koine://first/a")
    assert cli("cat", "koine://first/a").stdout == "ttwo"
    cli(*only, "--range", "2-3", "koine://first/a", "koine://first/a")
    assert cli("cat", "koine://first/a").stdout == "wo"
    for arguments in (["koine://first/a", tmp_path / "here"], ["--if-absent", source, "koine://first/a"]):
        assert cli(*only, *arguments, check=False).returncode == 2, arguments


def test_an_upload_in_parts_call_by_call(cli, tmp_path):
    big = bytes(range(256)) * (5 << 12)
    (tmp_path / "part").write_bytes(big)
    put(cli, tmp_path, "old", b"0123456789")
    upload = cli("multipart", "create", "koine://first/new").stdout.strip()
    cli("multipart", "put", "koine://first/new", upload, "1", tmp_path / "part")
    cli("multipart", "copy", "koine://first/new", upload, "7", "koine://first/old", "--range", "2-4")
    assert [part["number"] for part in told(cli("--json", "multipart", "parts", "koine://first/new", upload))] == [1, 7]
    assert [line["upload"] for line in told(cli("--json", "multipart", "ls", "koine://first"))] == [upload]
    assert cli("info", "-q", "koine://first/new", check=False).returncode == 4
    (info,) = told(cli("--json", "multipart", "complete", "koine://first/new", upload))
    assert (info["size"], info["parts"]) == (len(big) + 3, 2)
    assert cli("cat", "--range", "-3", "koine://first/new").stdout == "234"
    other = cli("multipart", "create", "koine://first/other").stdout.strip()
    cli("multipart", "abort", "koine://first/other", other)
    assert cli("multipart", "ls", "koine://first").stdout == ""
    assert cli("multipart", "parts", "koine://first/other", other, check=False).returncode == 4


def test_a_download_goes_on_where_it_was_cut(cli, tmp_path):
    digest = seeds.make_file(tmp_path / "in", seed=71, size=160_000_000)
    cli("cp", tmp_path / "in", "koine://first/big")
    # A file may not grow past this: the copy ends in the middle, as on a full disk.
    limited = ["prlimit", "--fsize=134217728"]
    cut = cli("cp", "--resume", "koine://first/big", tmp_path / "out", check=False, wrap=limited)
    assert cut.returncode != 0 and not (tmp_path / "out").exists()
    (kept,) = tmp_path.glob(".out*.part")
    assert 0 < kept.stat().st_size < 160_000_000
    # What is taken over is compared: a byte that is wrong is found, and nothing of it stays.
    whole = kept.read_bytes()
    kept.write_bytes(bytes([whole[0] ^ 1]) + whole[1:])
    assert "nothing was kept" in cli("cp", "--resume", "koine://first/big", tmp_path / "out", check=False).stderr
    assert not list(tmp_path.glob(".out*")) and not (tmp_path / "out").exists()
    kept.write_bytes(whole)
    cli("cp", "--resume", "koine://first/big", tmp_path / "out")
    assert seeds.digest_file(tmp_path / "out") == digest and not list(tmp_path.glob(".out*"))


def test_objects_are_searched_by_metadata_and_tags(cli, tmp_path):
    for key, camera in [("a/1", "x100"), ("a/2", "x200"), ("b", "z")]:
        put(cli, tmp_path, key, b"x")
        cli("set", f"koine://first/{key}", "--metadata", f"camera={camera}", "--tag", "year=2026")
    keys = lambda *args: [line["key"] for line in told(cli("--json", "search", *args))]
    for with_index in (False, True):
        if with_index:
            cli("bucket", "index", "add", "koine://first", "--metadata", "camera")
        assert keys("koine://first", "--metadata", "camera") == ["a/1", "a/2", "b"]
        assert keys("koine://first", "--metadata", "camera=x200") == ["a/2"]
        assert keys("koine://first", "--metadata", "camera^x") == ["a/1", "a/2"]
        assert keys("koine://first", "--metadata", "camera", "--between", "x150", "z") == ["a/2", "b"]
        assert keys("koine://first/a/", "--tag", "year=2026") == ["a/1", "a/2"]
        assert keys("koine://first", "--metadata", "camera", "--limit", "1") == ["a/1"]
    assert cli("search", "koine://first", "--metadata", "camera=z").stdout == "koine://first/b  z\n"
    [index] = told(cli("--json", "bucket", "index", "ls", "koine://first"))
    assert (index["of"], index["name"], index["whole"]) == ("metadata", "camera", True)
    assert "metadata  camera" in cli("bucket", "index", "ls", "koine://first").stdout
    cli("bucket", "index", "rm", "koine://first", "--metadata", "camera")
    assert cli("bucket", "index", "rm", "koine://first", "--metadata", "camera", check=False).returncode == 4
    assert cli("search", "koine://first", check=False).returncode == 2
    assert cli("search", "koine://second", "--tag", "year", check=False).returncode == 4


def test_a_bucket_is_set_and_shown_with_what_it_holds(cli, tmp_path):
    put(cli, tmp_path, "a", b"12345")
    cli("bucket", "set", "koine://first", "--metadata", "purpose=tests", "--tag", "team=lab", "--quota-bytes", "1MiB")
    [info] = told(cli("--json", "info", "koine://first"))
    assert (info["metadata"], info["tags"], info["quota_bytes"]) == ({"purpose": "tests"}, {"team": "lab"}, 1 << 20)
    assert (info["usage"]["objects"], info["usage"]["bytes"], info["access_times"]) == (1, 5, "relative")
    cli("cat", "koine://first/a")
    [read] = told(cli("--json", "info", "koine://first/a"))
    assert read["accessed"] >= read["modified"]
    cli("set", "koine://first/a", "--accessed", "2020-01-01T00:00:00Z")
    assert told(cli("--json", "info", "koine://first/a"))[0]["accessed"].startswith("2020-01-01T00:00:00")
    told(cli("--json", "bucket", "set", "koine://first", "--access-times", "off", "--quota-bytes", "none", "--remove-tag", "team"))
    [info] = told(cli("--json", "info", "koine://first"))
    assert (info["tags"], info["quota_bytes"], info["access_times"]) == ({}, None, "off")
    assert told(cli("--json", "info", "koine://first/a"))[0]["accessed"] is None
    assert cli("bucket", "set", "koine://first", check=False).returncode == 2


def test_an_upload_goes_on_where_it_was_killed(tmp_path):
    digest = seeds.make_file(tmp_path / "in", seed=72, size=200_000_000)
    store = tmp_path / "store.koine"
    koine("format", store)
    koine("mb", "koine://first", "--store", store)
    command = [program(), "cp", "--resume", str(tmp_path / "in"), "koine://first/big", "--store", str(store)]
    with Server(store):
        running = subprocess.Popen(command)
        deadline = time.monotonic() + 60
        while time.monotonic() < deadline:
            uploads = told(koine("--json", "multipart", "ls", "koine://first", "--store", store))
            if uploads:
                parts = told(koine("--json", "multipart", "parts", "koine://first/big", uploads[0]["upload"], "--store", store, check=False))
                if len(parts) > 1:
                    break
            if running.poll() is not None:
                break
        running.send_signal(signal.SIGKILL)
        running.wait()
        last = told(koine("--json", "cp", "--resume", tmp_path / "in", "koine://first/big", "--store", store))[-1]
        assert last["failed"] == 0 and last["copied"] + last["left"] == 1
        assert koine("multipart", "ls", "koine://first", "--store", store).stdout == ""
        koine("cp", "koine://first/big", tmp_path / "out", "--store", store)
    assert seeds.digest_file(tmp_path / "out") == digest


def test_the_same_verbs_by_an_s3_server(server, tmp_path):
    run = lambda *args, **more: koine(*args, "--endpoint", server.url, **more)
    run("mb", "s3://by-verbs")
    (tmp_path / "a").write_bytes(b"hello")
    run("cp", tmp_path / "a", "s3://by-verbs/x/a.txt")
    run("cp", tmp_path / "a", "s3://by-verbs/x/b.txt")
    assert run("cat", "--range", "1-", "s3://by-verbs/x/a.txt").stdout == "ello"
    assert told(run("--json", "info", "s3://by-verbs/x/a.txt"))[0]["size"] == 5
    assert run("info", "-q", "s3://by-verbs/x/c.txt", check=False).returncode == 4
    run("rm", "s3://by-verbs/x/*.txt")
    run("rb", "s3://by-verbs")
    assert run("cp", "--if-absent", tmp_path / "a", "s3://by-verbs/x", check=False).returncode == 2


def test_a_store_must_be_named(tmp_path):
    result = koine("ls", "koine://", check=False)
    assert result.returncode == 2 and "--store" in result.stderr
    assert koine("ls", "koine://", "--store", tmp_path / "no.koine", check=False).returncode == 4
    assert not (tmp_path / "no.koine").exists()


def test_what_no_name_leads_to_is_collected_and_nothing_else(cli, tmp_path):
    put(cli, tmp_path, "a", b"stays")
    assert "nothing is left over" in cli("collect").stdout
    scan = lambda *args: told(koine("--json", "kv", "scan", cli.store, "--hex", *args))
    (record,) = scan("--space", 16, "--prefix", b"bfirst".hex(), "--values")
    space = int.from_bytes(bytes.fromhex(record["value"]["hex"])[3:11], "little")
    keys = lambda: [line["key"] for line in scan("--space", space)]
    before = keys()
    orphan = (b"d" + bytes(8)).hex()
    koine("kv", "put", cli.store, "--space", space, "--hex", orphan, "left over")
    for options, left, removed in [(["--dry-run"], 1, 0), (["--rate", "10MiB"], 1, 1), ([], 0, 0)]:
        *found, collected = told(cli("--json", "collect", *options))
        assert (collected["type"], collected["found"], collected["removed"]) == ("collected", left, removed)
        assert [(line["bucket"], line["what"], line["key"], line["bytes"]) for line in found] == [("first", "data", orphan, 9)] * left
    assert keys() == before
    assert cli("cat", "koine://first/a").stdout == "stays"


def test_users_and_groups_have_quotas_and_usage(cli, tmp_path):
    cli("group", "add", "lab")
    cli("user", "add", "ada", "--group", "lab")
    cli("bucket", "owner", "set", "koine://first", "ada")
    put(cli, tmp_path, "a", bytes(600))
    cli("user", "set", "ada", "--quota-bytes", "1000", "--quota-objects", "5")
    (tmp_path / "more").write_bytes(bytes(401))
    refused = cli("cp", tmp_path / "more", "koine://first/b", check=False)
    assert refused.returncode == 1 and "1000" in refused.stdout + refused.stderr
    usage = told(cli("--json", "user", "info", "ada"))[-1]
    assert (usage["type"], usage["objects"], usage["bytes"], usage["quota_bytes"], usage["quota_objects"]) == ("usage", 1, 600, 1000, 5)
    cli("user", "set", "ada", "--quota-bytes", "none")
    cli("cp", tmp_path / "more", "koine://first/b")
    cli("group", "set", "lab", "--quota-objects", "2")
    assert cli("cp", tmp_path / "more", "koine://first/c", check=False).returncode == 1
    assert told(cli("--json", "group", "info", "lab"))[-1]["bytes"] == 1001
    assert cli("rb", "--group", "lab", check=False).returncode == 2, "only with --force"
    cli("rb", "--force", "--group", "lab")
    assert told(cli("--json", "ls")) == []
