"""Objects between stores and servers, and servers with an alias: `koine cp`, `koine alias`."""

import hashlib
import json
import stat
import subprocess
import sys

import pytest

from harness import clients, seeds
from harness.server import clean_environment, program, root_environment


# Runs a command and tells the most memory it had, in KiB. A small process of its own: a child is counted with what its parent had.
PEAK = """
import resource, subprocess, sys
subprocess.run(sys.argv[1:], check=True)
print(resource.getrusage(resource.RUSAGE_CHILDREN).ru_maxrss)
"""


def told(result):
    return [json.loads(line) for line in result.stdout.splitlines()]


def test_aliases_are_kept_for_their_owner_alone(places, bucket, other, tmp_path):
    file = places.config / "aliases.json"
    assert stat.S_IMODE(file.stat().st_mode) == 0o600
    listed = places("--json", "alias", "ls")
    assert [(line["alias"], line["url"]) for line in told(listed)] == [("lab", other.url)]
    assert "other-secret" not in listed.stdout + places("alias", "ls").stdout
    assert bucket in [line["name"] for line in told(places("--json", "ls", "lab://"))]
    # What else may be named so is refused, and said.
    assert places("alias", "set", "s3", other.url, check=False).returncode == 2
    assert places("alias", "set", "x", "ftp://somewhere", check=False).returncode == 2
    done = places("ls", "nowhere://b", check=False)
    assert done.returncode == 4 and "koine alias set nowhere" in done.stderr and "there are lab" in done.stderr
    assert places("alias", "rm", "nowhere", check=False).returncode == 4
    places("alias", "set", "gone", other.url)
    assert "changed gone" in places("alias", "set", "gone", other.url).stdout
    assert "removed gone" in places("alias", "rm", "gone").stdout
    assert [line["alias"] for line in told(places("--json", "alias", "ls"))] == ["lab"]
    file.chmod(0o644)
    done = places("ls", "lab://", check=False)
    file.chmod(0o600)
    assert done.returncode == 1 and "chmod 600" in done.stderr


def test_a_tree_goes_round_through_a_store_and_two_servers(places, bucket, tmp_path):
    digests = seeds.make_tree(tmp_path / "in", seed=80, files=60)
    places("cp", "-r", tmp_path / "in", f"koine://{bucket}/tree")
    summary = told(places("--json", "cp", "-r", f"koine://{bucket}/tree", f"s3://{bucket}/tree"))[-1]
    assert (summary["copied"], summary["failed"], summary["unverified"]) == (60, 0, 0)
    assert "checksums verified" in places("cp", "-r", f"s3://{bucket}/tree", f"lab://{bucket}/tree").stdout
    places("cp", "-r", f"lab://{bucket}/tree", f"koine://{bucket}/back")
    places("cp", "-r", f"koine://{bucket}/back", tmp_path / "out")
    assert seeds.digest_tree(tmp_path / "out") == digests
    # Patterns, and several sources of several places at once.
    places("cp", f"koine://{bucket}/tree/**/*.rs", f"lab://{bucket}/rs")
    names = sorted(name.rsplit("/", 1)[-1] for name in digests if name.endswith(".rs"))
    assert sorted(line["key"].rsplit("/", 1)[-1] for line in told(places("--json", "ls", "-r", f"lab://{bucket}/rs/"))) == names


@pytest.mark.parametrize("size", [0, 1, 8 << 20, (8 << 20) + 1, 30_000_000])
def test_every_way_between_keeps_bytes_and_what_goes_with_them(places, s3, bucket, size):
    data = seeds.blob(81, str(size), size)
    more = {"ContentType": "image/x-koine", "CacheControl": "max-age=7", "Metadata": {"who": "ada", "where": "lab 3"}}
    s3.put_object(Bucket=bucket, Key="a b+%2F é", Body=data, Tagging="kind=raw%20data&n=1", **more)
    tags = [{"Key": "kind", "Value": "raw data"}, {"Key": "n", "Value": "1"}]
    name = f"{bucket}/a b+%2F é"
    for source, target in [("s3", "koine"), ("koine", "lab"), ("lab", "koine"), ("koine", "s3"), ("s3", "lab")]:
        done = told(places("--json", "cp", f"{source}://{name}", f"{target}://{name}"))[-1]
        assert (done["copied"], done["bytes"], done["unverified"]) == (1, size, 0), (source, target)
    for client in (s3, places.lab):
        got = client.get_object(Bucket=bucket, Key="a b+%2F é")
        assert hashlib.sha256(got["Body"].read()).digest() == hashlib.sha256(data).digest()
        assert {field: got[field] for field in more} == more
        found = client.get_object_tagging(Bucket=bucket, Key="a b+%2F é")["TagSet"]
        assert sorted(found, key=lambda tag: tag["Key"]) == tags
    (info,) = told(places("--json", "info", f"koine://{name}"))
    assert info["metadata"] == {"who": "ada", "where": "lab 3"} and info["tags"] == {"kind": "raw data", "n": "1"}
    assert info["headers"]["Content-Type"] == "image/x-koine"


def test_objects_of_other_clients_are_verified_by_their_md5_between_servers_too(places, server, bucket):
    plain = clients.s3(server.url, request_checksum_calculation="when_required")
    plain.put_object(Bucket=bucket, Key="plain", Body=b"x" * 100_000)
    done = told(places("--json", "cp", f"s3://{bucket}/plain", f"lab://{bucket}/plain"))[-1]
    assert (done["copied"], done["unverified"]) == (1, 0)


def test_conditions_hold_for_targets_in_a_store_and_what_cannot_be_is_said(places, s3, bucket):
    s3.put_object(Bucket=bucket, Key="k", Body=b"first")
    places("cp", "--if-absent", f"s3://{bucket}/k", f"koine://{bucket}/k")
    s3.put_object(Bucket=bucket, Key="k", Body=b"second")
    assert places("cp", "--if-absent", f"s3://{bucket}/k", f"koine://{bucket}/k", check=False).returncode == 1
    assert places("cat", f"koine://{bucket}/k").stdout == "first"
    places("cp", "--if-present", "--md5", f"s3://{bucket}/k", f"koine://{bucket}/k")
    (info,) = told(places("--json", "info", f"koine://{bucket}/k"))
    assert info["etag"] == hashlib.md5(b"second").hexdigest()
    assert places("cp", "--if-absent", f"koine://{bucket}/k", f"s3://{bucket}/k", check=False).returncode == 2
    assert places("cp", "--resume", f"koine://{bucket}/k", f"s3://{bucket}/k", check=False).returncode == 2
    assert places("cp", f"s3://{bucket}/nothing", f"lab://{bucket}/k", check=False).returncode == 4
    done = places("cp", f"s3://{bucket}/k", "lab://no-such-bucket/k", check=False)
    assert done.returncode == 4 and "PUT lab://no-such-bucket/k: 404 NoSuchBucket" in done.stderr
    assert places("cp", f"s3://{bucket}/k", "koine://no-such-bucket/k", check=False).returncode == 4


def test_memory_is_bounded_whatever_the_length(places, s3, bucket, server, other, tmp_path):
    """256 MiB with two parts of 5 MiB under way: into a store, out of it, from server to server, and from a file."""
    body, size = bytes(16 << 20), 256 << 20
    s3.put_object(Bucket=bucket, Key="piece", Body=body)
    upload = s3.create_multipart_upload(Bucket=bucket, Key="long")["UploadId"]
    parts = []
    for number in range(1, 17):
        copied = s3.upload_part_copy(Bucket=bucket, Key="long", UploadId=upload, PartNumber=number,
                                     CopySource=f"{bucket}/piece")
        parts.append({"PartNumber": number, "ETag": copied["CopyPartResult"]["ETag"]})
    s3.complete_multipart_upload(Bucket=bucket, Key="long", UploadId=upload, MultipartUpload={"Parts": parts})
    with open(tmp_path / "file", "wb") as file:
        file.truncate(size)
    ways = [("s3", "lab"), ("lab", "koine"), ("koine", "s3")]
    for source, target in [(f"{one}://{bucket}/long", f"{two}://{bucket}/long") for one, two in ways] + [
        (tmp_path / "file", f"s3://{bucket}/file")
    ]:
        # Of a store that a server holds: what opens a store itself has the store's caches too.
        env = root_environment() | {"KOINE_CONFIG": places.config, "KOINE_ENDPOINT": server.url, "KOINE_STORE": other.store}
        command = [program(), "--json", "cp", "--parallel", "2", "--part-size", "5MiB"]
        command += [str(source), target]
        done = subprocess.run([sys.executable, "-c", PEAK, *command], env=clean_environment(**env), capture_output=True, text=True)
        assert done.returncode == 0, done.stdout + done.stderr
        summary, peak = done.stdout.splitlines()[-2:]
        assert json.loads(summary)["bytes"] == size
        # Memory that is shared with the server counts as far as it was touched: up to 64 MiB each way.
        assert int(peak) < 192 << 10, (source, target, peak)


@pytest.mark.full
def test_more_than_a_gibibyte_goes_into_a_store_in_parts_with_its_tags(places, s3, bucket, tmp_path):
    with open(tmp_path / "file", "wb") as file:
        file.truncate(1200 << 20)
    places("cp", tmp_path / "file", f"s3://{bucket}/long")
    s3.put_object_tagging(Bucket=bucket, Key="long", Tagging={"TagSet": [{"Key": "kind", "Value": "long"}]})
    for source, target in [("s3", "koine"), ("koine", "lab")]:
        done = told(places("--json", "cp", f"{source}://{bucket}/long", f"{target}://{bucket}/long"))[-1]
        assert (done["copied"], done["unverified"]) == (1, 0)
    (info,) = told(places("--json", "info", f"koine://{bucket}/long"))
    assert info["size"] == 1200 << 20 and info["parts"] == 150 and info["tags"] == {"kind": "long"}
    assert places.lab.get_object_tagging(Bucket=bucket, Key="long")["TagSet"] == [{"Key": "kind", "Value": "long"}]
    assert places("multipart", "ls", f"koine://{bucket}").stdout == ""
    places.lab.delete_object(Bucket=bucket, Key="long")
