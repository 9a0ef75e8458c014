"""`koine ls` and `koine cp` against the server, and what the program says of itself."""

import json

import pytest

from harness import seeds
from harness.server import koine


@pytest.fixture
def cli(server):
    return lambda *args, **more: koine(*args, "--endpoint", server.url, **more)


def test_a_folder_goes_in_and_comes_back(cli, bucket, tmp_path):
    digests = seeds.make_tree(tmp_path / "in", seed=50, files=200)
    told = cli("cp", "-r", tmp_path / "in", f"s3://{bucket}/tree").stdout
    assert "200 objects" in told and "checksums verified" in told
    cli("cp", "-r", f"s3://{bucket}/tree", tmp_path / "out")
    assert seeds.digest_tree(tmp_path / "out") == digests
    cli("cp", "-r", f"s3://{bucket}/tree", f"s3://{bucket}/copy")
    cli("cp", "-r", f"s3://{bucket}/copy", tmp_path / "copied")
    assert seeds.digest_tree(tmp_path / "copied") == digests


@pytest.mark.parametrize("size", [0, 1, 8 << 20, (8 << 20) + 1, 60_000_000])
def test_a_file_goes_in_and_comes_back(cli, s3, bucket, tmp_path, size):
    digest = seeds.make_file(tmp_path / "file +%", seed=51, size=size)
    cli("cp", tmp_path / "file +%", f"s3://{bucket}/dir/")
    head = s3.head_object(Bucket=bucket, Key="dir/file +%", ChecksumMode="ENABLED")
    assert head["ContentLength"] == size and head["ChecksumCRC64NVME"]
    (tmp_path / "back").mkdir()
    summary = json.loads(cli("--json", "cp", f"s3://{bucket}/dir/file +%", tmp_path / "back").stdout.splitlines()[-1])
    assert (summary["copied"], summary["bytes"], summary["unverified"]) == (1, size, 0)
    assert seeds.digest_file(tmp_path / "back" / "file +%") == digest
    assert [path.name for path in (tmp_path / "back").iterdir()] == ["file +%"]


def test_objects_of_other_clients_are_verified_by_their_md5(cli, server, bucket, tmp_path):
    from harness import clients

    plain = clients.s3(server.url, request_checksum_calculation="when_required")
    plain.put_object(Bucket=bucket, Key="k", Body=b"x" * 100_000)
    assert "checksums verified" in cli("cp", f"s3://{bucket}/k", tmp_path / "k").stdout
    assert (tmp_path / "k").read_bytes() == b"x" * 100_000


def test_listings(cli, s3, bucket):
    for key in ["a", "b/1", "b/2", "c d/é"]:
        s3.put_object(Bucket=bucket, Key=key, Body=key.encode())
    assert bucket in cli("ls").stdout
    lines = [json.loads(line) for line in cli("--json", "ls", f"s3://{bucket}").stdout.splitlines()]
    assert [line.get("key", line.get("prefix")) for line in lines] == ["a", "b/", "c d/"]
    lines = [json.loads(line) for line in cli("--json", "ls", "-r", f"s3://{bucket}").stdout.splitlines()]
    assert [(line["key"], line["size"]) for line in lines] == [("a", 1), ("b/1", 3), ("b/2", 3), ("c d/é", 6)]
    assert cli("ls", f"s3://{bucket}/nothing", check=False).returncode == 4


def test_keys_that_would_climb_out_stay_out(cli, s3, bucket, tmp_path):
    s3.put_object(Bucket=bucket, Key="p/a/../b", Body=b"x")
    done = cli("cp", "-r", f"s3://{bucket}/p", tmp_path / "out", check=False)
    assert done.returncode == 1 and "cannot be a file" in done.stderr
    assert not (tmp_path / "out").exists() or not list((tmp_path / "out").rglob("*"))


def test_failures_tell_what_to_do(cli, bucket, tmp_path):
    done = cli("cp", f"s3://{bucket}/nothing", tmp_path / "x", check=False)
    assert done.returncode == 4
    done = cli("cp", tmp_path, f"s3://{bucket}/", check=False)
    assert done.returncode == 2 and "--recursive" in done.stderr
    done = koine("ls", "--endpoint", "http://127.0.0.1:9", check=False)
    assert done.returncode == 1 and "is the server running" in done.stderr
    done = koine("ls", "--endpoint", "https://127.0.0.1:9", check=False)
    assert done.returncode == 2 and "TLS" in done.stderr
    done = koine("ls", env={}, check=False)
    assert done.returncode == 2 and "KOINE_ROOT_USER" in done.stderr
    done = cli("--json", "ls", "s3://no-such-bucket", check=False)
    assert done.returncode == 4 and json.loads(done.stdout)["exit"] == 4


@pytest.mark.parametrize("command", ["serve", "format", "check", "stat", "ls", "cp", "bench"])
def test_help_teaches_by_examples(command):
    told = koine(command, "--help").stdout
    assert "Examples:" in told and f"koine {command}" in told


def test_wrong_usage_is_exit_2():
    assert koine("no-such-command", check=False).returncode == 2
    assert koine("serve", "--no-such-flag", check=False).returncode == 2
    assert "0 done" in koine("--help").stdout
