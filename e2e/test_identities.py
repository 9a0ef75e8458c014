"""Users over S3: their keys open what they may and nothing else, from the moment on that it changes."""

import json

import pytest
from botocore.exceptions import ClientError

from harness import clients
from harness.server import Server, koine


@pytest.fixture(scope="module")
def store(tmp_path_factory):
    """A server with two groups of two users each."""
    folder = tmp_path_factory.mktemp("identities")
    path = folder / "store.koine"
    with Server(path) as server:
        run = lambda *args, **more: koine(*args, "--store", path, **more)
        users = {}
        for group, names in [("lab", ["ada", "grace"]), ("office", ["bob", "eve"])]:
            run("group", "add", group)
            for name in names:
                run("user", "add", name, "--group", group)
                (key,) = [json.loads(line) for line in run("--json", "user", "key", "add", name).stdout.splitlines()]
                users[name] = clients.s3(server.url, access=key["access_key"], secret=key["secret"])
        yield server, run, users
        assert server.stop() == 0
    koine("check", path)


def refused(code, call, **arguments):
    with pytest.raises(ClientError) as caught:
        call(**arguments)
    assert caught.value.response["Error"]["Code"] == code, caught.value
    return caught.value.response["ResponseMetadata"]["HTTPStatusCode"]


def test_members_share_a_bucket_and_nobody_else_gets_in(store):
    _, _, users = store
    users["ada"].create_bucket(Bucket="lab-data")
    users["ada"].put_object(Bucket="lab-data", Key="k", Body=b"secret")
    assert users["grace"].get_object(Bucket="lab-data", Key="k")["Body"].read() == b"secret"
    users["grace"].put_object(Bucket="lab-data", Key="hers", Body=b"1")
    assert [o["Key"] for o in users["ada"].list_objects_v2(Bucket="lab-data")["Contents"]] == ["hers", "k"]
    eve = users["eve"]
    assert refused("AccessDenied", eve.get_object, Bucket="lab-data", Key="k") == 403
    assert refused("AccessDenied", eve.get_object, Bucket="lab-data", Key="not-there") == 403
    refused("AccessDenied", eve.put_object, Bucket="lab-data", Key="k", Body=b"x")
    refused("AccessDenied", eve.delete_object, Bucket="lab-data", Key="k")
    refused("AccessDenied", eve.list_objects_v2, Bucket="lab-data")
    refused("AccessDenied", eve.create_multipart_upload, Bucket="lab-data", Key="u")
    refused("AccessDenied", eve.delete_bucket, Bucket="lab-data")
    refused("AccessDenied", eve.copy_object, Bucket="lab-data", Key="c", CopySource="lab-data/k")
    refused("BucketAlreadyExists", eve.create_bucket, Bucket="lab-data")
    eve.create_bucket(Bucket="eves")
    refused("AccessDenied", eve.copy_object, Bucket="eves", Key="c", CopySource="lab-data/k")
    assert "lab-data" not in [bucket["Name"] for bucket in eve.list_buckets()["Buckets"]]
    assert users["ada"].get_object(Bucket="lab-data", Key="k")["Body"].read() == b"secret"


def test_root_may_do_everything_and_a_policy_lets_others_in(store, tmp_path):
    server, run, users = store
    users["bob"].create_bucket(Bucket="shared")
    users["bob"].put_object(Bucket="shared", Key="open/a", Body=b"a")
    users["bob"].put_object(Bucket="shared", Key="closed", Body=b"b")
    assert clients.s3(server.url).get_object(Bucket="shared", Key="closed")["Body"].read() == b"b"
    policy = {"Version": "2012-10-17", "Statement": [{
        "Effect": "Allow", "Principal": {"AWS": "arn:aws:iam:::user/ada"}, "Action": "s3:GetObject",
        "Resource": "arn:aws:s3:::shared/open/*"}]}
    (tmp_path / "policy.json").write_text(json.dumps(policy))
    run("bucket", "policy", "set", "koine://shared", tmp_path / "policy.json")
    assert users["ada"].get_object(Bucket="shared", Key="open/a")["Body"].read() == b"a"
    refused("AccessDenied", users["ada"].get_object, Bucket="shared", Key="closed")
    refused("AccessDenied", users["ada"].put_object, Bucket="shared", Key="open/b", Body=b"x")
    run("bucket", "policy", "rm", "koine://shared")
    refused("AccessDenied", users["ada"].get_object, Bucket="shared", Key="open/a")


def test_what_is_taken_away_opens_nothing_any_more(store):
    server, run, users = store
    (key,) = [json.loads(line) for line in run("--json", "user", "key", "add", "grace").stdout.splitlines()]
    second = clients.s3(server.url, access=key["access_key"], secret=key["secret"])
    second.list_buckets()
    wrong = clients.s3(server.url, access=key["access_key"], secret=key["secret"][:-1] + "!")
    assert refused("SignatureDoesNotMatch", wrong.list_buckets) == 403
    run("user", "key", "rm", "grace", key["access_key"])
    assert refused("InvalidAccessKeyId", second.list_buckets) == 403
    run("user", "set", "grace", "--disable")
    refused("AccessDenied", users["grace"].list_objects_v2, Bucket="lab-data")
    run("user", "set", "grace", "--enable")
    users["grace"].list_objects_v2(Bucket="lab-data")


def test_a_key_that_root_had_before_opens_nothing(tmp_path):
    path = tmp_path / "store.koine"
    koine("format", path)
    reset = lambda: json.loads(koine("--json", "identity", "root", "reset", "--store", path).stdout)
    first, second = reset(), reset()
    with Server(path, env={}) as server:
        new = clients.s3(server.url, access=second["access_key"], secret=second["secret"])
        new.create_bucket(Bucket="mine")
        old = clients.s3(server.url, access=first["access_key"], secret=first["secret"])
        refused("InvalidAccessKeyId", old.list_buckets)
    # A key of the environment wins, and then the one that the store keeps is not taken.
    with Server(path) as server:
        assert clients.s3(server.url).list_buckets()["Buckets"][0]["Name"] == "mine"
        refused("InvalidAccessKeyId", clients.s3(server.url, access=second["access_key"], secret=second["secret"]).list_buckets)
