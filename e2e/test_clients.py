"""The other real clients: AWS CLI, rclone, mc; small trees and large files there and back."""

import json

import pytest

from harness import seeds


@pytest.fixture(scope="module")
def tree(tmp_path_factory):
    folder = tmp_path_factory.mktemp("tree")
    return folder, seeds.make_tree(folder, seed=20, files=300)


def test_aws_cli_goes_through_a_day(aws, tree, tmp_path):
    folder, digests = tree
    source, back = tmp_path / "source", tmp_path / "back"
    digest = seeds.make_file(source, seed=21, size=30_000_000)
    aws("s3", "mb", "s3://aws-day")
    aws("s3", "cp", source, "s3://aws-day/large file +%.bin")
    aws("s3", "cp", "s3://aws-day/large file +%.bin", back)
    assert seeds.digest_file(back) == digest
    aws("s3", "sync", folder, "s3://aws-day/tree")
    assert "upload" not in aws("s3", "sync", folder, "s3://aws-day/tree").stdout
    aws("s3", "sync", "s3://aws-day/tree", tmp_path / "tree")
    assert seeds.digest_tree(tmp_path / "tree") == digests
    aws("s3", "mv", "s3://aws-day/large file +%.bin", "s3://aws-day/moved/it")
    listed = aws("s3", "ls", "s3://aws-day/").stdout
    assert "PRE moved/" in listed and "PRE tree/" in listed and "large file" not in listed
    head = json.loads(aws("s3api", "head-object", "--bucket", "aws-day", "--key", "moved/it").stdout)
    assert head["ContentLength"] == 30_000_000
    url = aws("s3", "presign", "s3://aws-day/moved/it").stdout.strip()
    assert "X-Amz-Signature=" in url
    aws("s3", "rm", "--recursive", "s3://aws-day")
    aws("s3", "rb", "s3://aws-day")
    assert "aws-day" not in aws("s3", "ls").stdout


def test_mc_goes_through_a_day(mc, tree, tmp_path):
    folder, digests = tree
    source, back = tmp_path / "source", tmp_path / "back"
    digest = seeds.make_file(source, seed=22, size=70_000_000)
    mc("mb", "koine/mc-day")
    mc("cp", source, "koine/mc-day/large file +%.bin")
    mc("cp", "koine/mc-day/large file +%.bin", back)
    assert seeds.digest_file(back) == digest
    mc("mirror", folder, "koine/mc-day/tree")
    mc("mirror", "koine/mc-day/tree", tmp_path / "tree")
    assert seeds.digest_tree(tmp_path / "tree") == digests
    stat = json.loads(mc("stat", "--json", "koine/mc-day/large file +%.bin").stdout)
    assert stat["size"] == 70_000_000
    assert "tree/" in mc("ls", "koine/mc-day").stdout
    mc("rm", "--recursive", "--force", "koine/mc-day")
    mc("rb", "koine/mc-day")
    assert "mc-day" not in mc("ls", "koine").stdout


def test_rclone_brings_20000_small_files_in_and_back(rclone, tmp_path):
    digests = seeds.make_tree(tmp_path / "in", seed=23, files=20_000)
    rclone("mkdir", "koine:rclone-tree")
    rclone("copy", "--transfers", 16, "--checkers", 16, tmp_path / "in", "koine:rclone-tree/t")
    rclone("check", "--checkers", 16, tmp_path / "in", "koine:rclone-tree/t")
    rclone("copy", "--transfers", 16, "--checkers", 16, "koine:rclone-tree/t", tmp_path / "out")
    assert seeds.digest_tree(tmp_path / "out") == digests
    listed = rclone("lsf", "--recursive", "--files-only", "koine:rclone-tree/t").stdout.splitlines()
    assert sorted(listed) == sorted(digests)
    rclone("purge", "koine:rclone-tree")


def one_large_file(rclone, tmp_path, size):
    digest = seeds.make_file(tmp_path / "large", seed=24, size=size)
    rclone("mkdir", "koine:rclone-large")
    rclone("copy", tmp_path / "large", "koine:rclone-large")
    (tmp_path / "large").unlink()
    rclone("copy", "koine:rclone-large/large", tmp_path / "back")
    assert seeds.digest_file(tmp_path / "back" / "large") == digest
    rclone("purge", "koine:rclone-large")


def test_rclone_brings_300_mib_in_and_back(rclone, tmp_path):
    one_large_file(rclone, tmp_path, 300 << 20)


@pytest.mark.full
def test_rclone_brings_3_gib_in_and_back(rclone, tmp_path):
    one_large_file(rclone, tmp_path, 3 << 30)


@pytest.mark.full
def test_aws_cli_brings_20000_small_files_and_3_gib_in_and_back(aws, tmp_path):
    digests = seeds.make_tree(tmp_path / "in", seed=25, files=20_000)
    large = seeds.make_file(tmp_path / "large", seed=25, size=3 << 30)
    aws("s3", "mb", "s3://aws-full")
    aws("s3", "cp", "--only-show-errors", tmp_path / "large", "s3://aws-full/large", timeout=2400)
    (tmp_path / "large").unlink()
    aws("s3", "cp", "--only-show-errors", "s3://aws-full/large", tmp_path / "large", timeout=2400)
    assert seeds.digest_file(tmp_path / "large") == large
    aws("s3", "sync", "--only-show-errors", tmp_path / "in", "s3://aws-full/tree", timeout=2400)
    aws("s3", "sync", "--only-show-errors", "s3://aws-full/tree", tmp_path / "out", timeout=2400)
    assert seeds.digest_tree(tmp_path / "out") == digests
    aws("s3", "rb", "--force", "s3://aws-full", timeout=2400)
