"""Policies and access lists set over S3, and requests without a signature: open is what was opened, and nothing else."""

import json
import subprocess

import boto3
import pytest
from botocore import UNSIGNED
from botocore.config import Config
from botocore.exceptions import ClientError

from harness import clients
from harness.expect import refused
from harness.server import Server, koine

ALL_USERS = "http://acs.amazonaws.com/groups/global/AllUsers"
EVERY_USER = "http://acs.amazonaws.com/groups/global/AuthenticatedUsers"


def nobody(url):
    config = Config(signature_version=UNSIGNED, retries={"max_attempts": 1}, s3={"addressing_style": "path"})
    return boto3.client("s3", endpoint_url=url, region_name="us-east-1", config=config)


def status(url, method="GET", body=None):
    """The answer to a request without any header of S3."""
    done = subprocess.run(
        ["curl", "-s", "-o", "-", "-w", "\n%{http_code}", "-X", method, *(["--data-binary", body] if body else []), url],
        capture_output=True, text=True, timeout=60, check=True,
    )
    text, code = done.stdout.rsplit("\n", 1)
    return int(code), text


@pytest.fixture
def store(tmp_path):
    """A server with two users who share nothing, and root."""
    path = tmp_path / "store.koine"
    with Server(path) as server:
        run = lambda *args: koine("--json", *args, "--store", path)
        users = {}
        for group, name in [("lab", "ada"), ("office", "bob")]:
            run("group", "add", group)
            run("user", "add", name, "--group", group)
            key = json.loads(run("user", "key", "add", name).stdout.splitlines()[-1])
            users[name] = clients.s3(server.url, access=key["access_key"], secret=key["secret"])
        users["root"] = clients.s3(server.url)
        users["ada"].create_bucket(Bucket="hers")
        users["ada"].put_object(Bucket="hers", Key="open/a", Body=b"a")
        users["ada"].put_object(Bucket="hers", Key="closed", Body=b"c")
        yield server, run, users
        assert server.stop() == 0
    koine("check", path)


def policy(principal, *actions, resource="hers/*", effect="Allow"):
    statement = {"Effect": effect, "Principal": principal, "Action": list(actions), "Resource": f"arn:aws:s3:::{resource}"}
    return json.dumps({"Version": "2012-10-17", "Statement": [statement]})


def test_policies_are_set_told_and_taken_away(store):
    _, _, users = store
    ada, bob = users["ada"], users["bob"]
    with refused("NoSuchBucketPolicy", 404):
        ada.get_bucket_policy(Bucket="hers")
    for_bob = policy({"AWS": "arn:aws:iam:::user/bob"}, "s3:GetObject", resource="hers/open/*")
    ada.put_bucket_policy(Bucket="hers", Policy=for_bob)
    assert json.loads(ada.get_bucket_policy(Bucket="hers")["Policy"]) == json.loads(for_bob)
    assert ada.get_bucket_policy_status(Bucket="hers")["PolicyStatus"]["IsPublic"] is False
    assert bob.get_object(Bucket="hers", Key="open/a")["Body"].read() == b"a"
    for call in (
        lambda: bob.get_object(Bucket="hers", Key="closed"),
        lambda: bob.get_bucket_policy(Bucket="hers"),
        lambda: bob.put_bucket_policy(Bucket="hers", Policy=for_bob),
        lambda: bob.delete_bucket_policy(Bucket="hers"),
        lambda: bob.get_bucket_acl(Bucket="hers"),
        lambda: bob.put_bucket_acl(Bucket="hers", ACL="private"),
        lambda: bob.put_bucket_versioning(Bucket="hers", VersioningConfiguration={"Status": "Enabled"}),
    ):
        with refused("AccessDenied", 403):
            call()
    for wrong in ("{}", "nonsense", policy({"AWS": "arn:aws:iam:::user/nobody"}, "s3:GetObject"), json.dumps({"Statement": 7}),
                  policy({"AWS": "arn:aws:iam:::user/bob"}, "s3:GetObject", resource="others/*"), " " * 20481):
        with refused("MalformedPolicy", 400):
            ada.put_bucket_policy(Bucket="hers", Policy=wrong)
    assert bob.get_object(Bucket="hers", Key="open/a")["Body"].read() == b"a"
    ada.delete_bucket_policy(Bucket="hers")
    with refused("AccessDenied", 403):
        bob.get_object(Bucket="hers", Key="open/a")


def test_access_lists_come_back_as_they_were_set(store):
    _, run, users = store
    run("identity", "public-access", "set", "on")
    ada, bob = users["ada"], users["bob"]
    hers, his = ada.list_buckets()["Owner"]["ID"], bob.list_buckets()["Owner"]["ID"]
    assert len(hers) == 64 and hers != his
    told = ada.get_bucket_acl(Bucket="hers")
    assert told["Owner"]["ID"] == hers and [grant["Permission"] for grant in told["Grants"]] == ["FULL_CONTROL"]
    # A grant by header, and back.
    ada.put_object_acl(Bucket="hers", Key="closed", GrantRead=f'id="{his}"', GrantReadACP=f"id={his}")
    assert bob.get_object(Bucket="hers", Key="closed")["Body"].read() == b"c"
    told = bob.get_object_acl(Bucket="hers", Key="closed")
    grants = [(grant["Grantee"].get("ID"), grant["Permission"]) for grant in told["Grants"]]
    assert grants == [(hers, "FULL_CONTROL"), (his, "READ"), (his, "READ_ACP")]
    with refused("AccessDenied", 403):
        bob.put_object_acl(Bucket="hers", Key="closed", ACL="private")
    # What was told can be set again, as programs do that add a grant.
    told.pop("ResponseMetadata")
    told["Grants"].append({"Grantee": {"Type": "Group", "URI": EVERY_USER}, "Permission": "READ"})
    ada.put_object_acl(Bucket="hers", Key="closed", AccessControlPolicy=told)
    assert ada.get_object_acl(Bucket="hers", Key="closed")["Grants"] == told["Grants"]
    ada.put_object_acl(Bucket="hers", Key="closed", ACL="private")
    with refused("AccessDenied", 403):
        bob.get_object(Bucket="hers", Key="closed")
    # With the put itself, for every user.
    ada.put_object(Bucket="hers", Key="listed", Body=b"l", ACL="authenticated-read")
    assert bob.get_object(Bucket="hers", Key="listed")["Body"].read() == b"l"
    ada.put_object(Bucket="hers", Key="listed", Body=b"l")
    with refused("AccessDenied", 403):
        bob.get_object(Bucket="hers", Key="listed")
    # A list of the bucket.
    ada.put_bucket_acl(Bucket="hers", GrantRead=f"id={his}", GrantWrite=f"id={his}")
    assert bob.list_objects_v2(Bucket="hers")["KeyCount"] == 3
    bob.put_object(Bucket="hers", Key="his", Body=b"x")
    with refused("AccessDenied", 403):
        bob.put_object(Bucket="hers", Key="his", Body=b"x", ACL="authenticated-read")
    ada.create_bucket(Bucket="shared", GrantRead=f"id={his}")
    assert bob.list_objects_v2(Bucket="shared")["KeyCount"] == 0
    for document, code in [
        ({"Owner": {"ID": his}, "Grants": []}, "AccessDenied"),
        ({"Owner": {"ID": hers}, "Grants": [{"Grantee": {"Type": "CanonicalUser", "ID": "ada"}, "Permission": "READ"}]}, "InvalidArgument"),
        ({"Owner": {"ID": hers}, "Grants": [{"Grantee": {"Type": "AmazonCustomerByEmail", "EmailAddress": "a@b"}, "Permission": "READ"}]}, "NotImplemented"),
        ({"Owner": {"ID": hers}, "Grants": [{"Grantee": {"Type": "Group", "URI": "http://acs.amazonaws.com/groups/s3/LogDelivery"}, "Permission": "WRITE"}]}, "InvalidArgument"),
    ]:
        with refused(code):
            ada.put_bucket_acl(Bucket="hers", AccessControlPolicy=document)
    for canned in ("log-delivery-write", "aws-exec-read"):
        with refused("NotImplemented", 501):
            ada.put_bucket_acl(Bucket="hers", ACL=canned)
    # Where a list cannot be given in the same commit it is refused, and nothing is made.
    with refused("NotImplemented", 501):
        ada.copy_object(Bucket="hers", Key="copied", CopySource="hers/closed", ACL="authenticated-read")
    with refused("NotImplemented", 501):
        ada.create_multipart_upload(Bucket="hers", Key="parts", ACL="authenticated-read")


def test_who_has_no_key_gets_what_was_opened_and_only_while_public_access_is_on(store):
    server, run, users = store
    ada, anybody = users["ada"], nobody(server.url)
    everybody = policy("*", "s3:GetObject", resource="hers/open/*")
    assert json.loads(run("identity", "public-access", "show").stdout)["on"] is False
    # While it is off nothing can be opened, and nobody is let in.
    for call in (
        lambda: ada.put_bucket_policy(Bucket="hers", Policy=everybody),
        lambda: ada.put_bucket_acl(Bucket="hers", ACL="public-read"),
        lambda: ada.put_object_acl(Bucket="hers", Key="closed", ACL="public-read"),
        lambda: ada.put_object(Bucket="hers", Key="new", Body=b"x", ACL="public-read"),
        lambda: ada.create_bucket(Bucket="open", ACL="public-read"),
        lambda: ada.put_bucket_acl(Bucket="hers", ACL="authenticated-read"),
        lambda: ada.put_object_acl(Bucket="hers", Key="closed", ACL="authenticated-read"),
        lambda: ada.put_object(Bucket="hers", Key="new", Body=b"x", ACL="authenticated-read"),
    ):
        with refused("InvalidRequest", 400):
            call()
    with pytest.raises(ClientError):
        ada.head_bucket(Bucket="open")
    blocked = ada.get_public_access_block(Bucket="hers")["PublicAccessBlockConfiguration"]
    assert set(blocked.values()) == {True}
    ada.put_public_access_block(Bucket="hers", PublicAccessBlockConfiguration=blocked)
    with refused("NotImplemented", 501):
        ada.delete_public_access_block(Bucket="hers")
    assert status(f"{server.url}/hers/open/a")[0] == 403
    run("identity", "public-access", "set", "on")
    assert set(ada.get_public_access_block(Bucket="hers")["PublicAccessBlockConfiguration"].values()) == {False}
    with refused("NotImplemented", 501):
        ada.put_public_access_block(Bucket="hers", PublicAccessBlockConfiguration=blocked)
    # On alone opens nothing.
    assert status(f"{server.url}/hers/open/a")[0] == 403
    ada.put_bucket_policy(Bucket="hers", Policy=everybody)
    assert ada.get_bucket_policy_status(Bucket="hers")["PolicyStatus"]["IsPublic"] is True
    assert status(f"{server.url}/hers/open/a") == (200, "a")
    assert anybody.get_object(Bucket="hers", Key="open/a")["Body"].read() == b"a"
    assert anybody.head_object(Bucket="hers", Key="open/a")["ContentLength"] == 1
    for call in (
        lambda: anybody.get_object(Bucket="hers", Key="closed"),
        lambda: anybody.get_object(Bucket="hers", Key="open/absent"),
        lambda: anybody.list_objects_v2(Bucket="hers"),
        lambda: anybody.list_object_versions(Bucket="hers"),
        lambda: anybody.list_buckets(),
        lambda: anybody.create_bucket(Bucket="anybodys"),
        lambda: anybody.put_object(Bucket="hers", Key="open/a", Body=b"x"),
        lambda: anybody.delete_object(Bucket="hers", Key="open/a"),
        lambda: anybody.create_multipart_upload(Bucket="hers", Key="open/u"),
        lambda: anybody.get_bucket_policy(Bucket="hers"),
        lambda: anybody.delete_bucket_policy(Bucket="hers"),
        lambda: anybody.get_bucket_acl(Bucket="hers"),
        lambda: anybody.put_bucket_acl(Bucket="hers", ACL="public-read"),
        lambda: anybody.get_object_acl(Bucket="hers", Key="open/a"),
        lambda: anybody.get_bucket_versioning(Bucket="hers"),
        lambda: anybody.get_bucket_tagging(Bucket="hers"),
        lambda: anybody.delete_bucket(Bucket="hers"),
    ):
        with refused("AccessDenied", 403):
            call()
    many = anybody.delete_objects(Bucket="hers", Delete={"Objects": [{"Key": "open/a"}]})
    assert [each["Code"] for each in many["Errors"]] == ["AccessDenied"] and "Deleted" not in many
    assert status(f"{server.url}/")[0] == 403
    assert ada.get_object(Bucket="hers", Key="open/a")["Body"].read() == b"a"
    assert status(f"{server.url}/hers/open/a?response-content-type=text/html")[0] == 400
    # A wrong signature is not taken for none.
    with refused("SignatureDoesNotMatch", 403):
        clients.s3(server.url, secret="wrong-secret-of-root").get_object(Bucket="hers", Key="open/a")
    # Lists: of an object, and of a bucket that everybody may write into.
    ada.put_object_acl(Bucket="hers", Key="closed", ACL="public-read")
    assert status(f"{server.url}/hers/closed") == (200, "c")
    ada.create_bucket(Bucket="inbox", ACL="public-read-write")
    anybody.put_object(Bucket="inbox", Key="one", Body=b"from nobody")
    assert status(f"{server.url}/inbox/two", "PUT", "two")[0] == 200
    assert [each["Key"] for each in anybody.list_objects_v2(Bucket="inbox")["Contents"]] == ["one", "two"]
    # Writing into a bucket is not reading what is in it.
    assert status(f"{server.url}/inbox/one")[0] == 403
    assert ada.get_object(Bucket="inbox", Key="one")["Body"].read() == b"from nobody"
    anybody.delete_object(Bucket="inbox", Key="one")
    # Denying wins, and off is off.
    denies = json.loads(everybody)
    denies["Statement"].append(json.loads(policy("*", "s3:GetObject", resource="hers/closed", effect="Deny"))["Statement"][0])
    ada.put_bucket_policy(Bucket="hers", Policy=json.dumps(denies))
    assert [status(f"{server.url}/hers/{key}")[0] for key in ("open/a", "closed")] == [200, 403]
    bob = users["bob"]
    assert bob.get_object(Bucket="hers", Key="open/a")["Body"].read() == b"a"
    assert bob.list_objects_v2(Bucket="inbox")["KeyCount"] == 1
    run("identity", "public-access", "set", "off")
    assert [status(f"{server.url}/{key}")[0] for key in ("hers/open/a", "inbox/two", "inbox")] == [403, 403, 403]
    # Nor to users who share nothing with the owner: that is what GetPublicAccessBlock tells.
    assert set(ada.get_public_access_block(Bucket="hers")["PublicAccessBlockConfiguration"].values()) == {True}
    for call in (
        lambda: bob.get_object(Bucket="hers", Key="open/a"),
        lambda: bob.list_objects_v2(Bucket="inbox"),
        lambda: bob.put_object(Bucket="inbox", Key="three", Body=b"x"),
    ):
        with refused("AccessDenied", 403):
            call()
    assert ada.list_objects_v2(Bucket="inbox")["KeyCount"] == 1
    assert users["root"].get_object(Bucket="hers", Key="closed")["Body"].read() == b"c"


def test_tags_over_s3(store):
    _, _, users = store
    ada = users["ada"]
    tags = lambda **more: {each["Key"]: each["Value"] for each in ada.get_object_tagging(Bucket="hers", **more)["TagSet"]}
    as_set = lambda pairs: {"TagSet": [{"Key": key, "Value": value} for key, value in pairs.items()]}
    ada.put_object(Bucket="hers", Key="t", Body=b"x", Tagging="team=lab&note=a%20b%2Bc")
    assert tags(Key="t") == {"team": "lab", "note": "a b+c"}
    assert ada.head_object(Bucket="hers", Key="t")["ResponseMetadata"]["HTTPHeaders"]["x-amz-tagging-count"] == "2"
    ada.put_object_tagging(Bucket="hers", Key="t", Tagging=as_set({"only": "this"}))
    assert tags(Key="t") == {"only": "this"}
    ada.copy_object(Bucket="hers", Key="same", CopySource="hers/t")
    ada.copy_object(Bucket="hers", Key="other", CopySource="hers/t", TaggingDirective="REPLACE", Tagging="new=1")
    assert (tags(Key="same"), tags(Key="other")) == ({"only": "this"}, {"new": "1"})
    ada.delete_object_tagging(Bucket="hers", Key="t")
    assert tags(Key="t") == {}
    with refused("BadRequest", 400):
        ada.put_object_tagging(Bucket="hers", Key="t", Tagging=as_set({str(n): "" for n in range(11)}))
    with refused("InvalidArgument", 400):
        ada.put_object(Bucket="hers", Key="t", Body=b"x", Tagging="a=1&a=2")
    with refused("NoSuchKey", 404):
        ada.put_object_tagging(Bucket="hers", Key="absent", Tagging=as_set({"a": "b"}))
    with refused("AccessDenied", 403):
        users["bob"].put_object_tagging(Bucket="hers", Key="t", Tagging=as_set({"a": "b"}))
    with refused("NoSuchTagSet", 404):
        ada.get_bucket_tagging(Bucket="hers")
    ada.put_bucket_tagging(Bucket="hers", Tagging=as_set({"cost": "center 7"}))
    assert ada.get_bucket_tagging(Bucket="hers")["TagSet"] == [{"Key": "cost", "Value": "center 7"}]
    ada.delete_bucket_tagging(Bucket="hers")
    with refused("NoSuchTagSet", 404):
        ada.get_bucket_tagging(Bucket="hers")


def test_mc_opens_a_bucket_and_closes_it(store, tmp_path):
    server, run, users = store
    run("identity", "public-access", "set", "on")
    mc = clients.Mc(server.url, tmp_path)
    mc("mb", "koine/open")
    (tmp_path / "file").write_text("for all")
    mc("cp", tmp_path / "file", "koine/open/file")
    mc("anonymous", "set", "download", "koine/open")
    assert "download" in mc("anonymous", "get", "koine/open").stdout
    assert status(f"{server.url}/open/file") == (200, "for all")
    mc("anonymous", "set", "none", "koine/open")
    assert status(f"{server.url}/open/file")[0] == 403
    mc("tag", "set", "koine/open/file", "team=lab")
    assert "lab" in mc("tag", "list", "koine/open/file").stdout
