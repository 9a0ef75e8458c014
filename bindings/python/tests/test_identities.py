"""Groups, users, tokens, quotas, and edits from files and other objects."""

import io

import pytest

import koine


def test_a_token_lets_its_user_in_and_nobody_else(session):
    session.create_group("lab", "microscopes")
    session.create_user("lab", "ada", "a long password")
    with pytest.raises(koine.errors.LogInFailed):
        session.log_in("ada", "wrong")
    ada = session.log_in("ada", "a long password", seconds=60)
    assert ada.user == "ada" and ada.token_expires > session.user_info("ada").created
    assert session.user is None and session.token is None
    mine = ada.create_bucket("mine")
    mine.put("key", b"hers")
    session.create_bucket("other")
    with pytest.raises(PermissionError):
        ada.bucket("other").put("key", b"not hers")
    again = session.as_token(ada.token)
    assert again.bucket("mine").get("key") == b"hers"
    ada.log_out()
    with pytest.raises(koine.Error):
        again.bucket("mine").get("key")
    with pytest.raises(koine.errors.InvalidArgument):
        session.log_out()


def test_connect_takes_a_token(tmp_path):
    place = tmp_path / "store.koine"
    with koine.connect(place, create=True, size=64 << 20) as session:
        session.create_group("lab")
        session.create_user("lab", "ada", "a long password")
        token = session.log_in("ada", "a long password").token
        with koine.connect(place, token=token) as ada:
            ada.create_bucket("mine")
            with pytest.raises(PermissionError):
                ada.create_group("no")
        with pytest.raises(koine.Error):
            koine.connect(place, token="kt1_nothing")


def test_users_and_groups_are_changed_and_go(session):
    session.create_group("lab")
    session.create_group("visitors")
    session.create_user("lab", "ada")
    session.add_member("visitors", "ada", administrator=True)
    assert session.set_user("ada", display="Ada L.", quota_bytes=10, disabled=True).disabled
    info = session.user_info("ada")
    assert (info.display, info.quota_bytes, info.groups, info.group) == ("Ada L.", 10, ["visitors"], "lab")
    assert session.set_user("ada", quota_bytes=None).quota_bytes is None
    assert [user.name for user in session.users("visitors")] == ["ada"]
    assert {group.name for group in session.groups()} >= {"lab", "visitors"}
    assert session.set_group("visitors", rename="guests", quota_objects=3).quota_objects == 3
    with pytest.raises(TypeError):
        session.set_group("guests", colour="blue")
    access_key, secret = session.create_key("ada", seconds=60, description="S3")
    assert session.keys("ada") == [access_key] and secret
    session.delete_key("ada", access_key)
    session.remove_member("guests", "ada")
    session.delete_user("ada")
    with pytest.raises(koine.errors.NoSuchUser):
        session.user_info("ada")
    assert session.delete_group("lab") == (0, 0)


def test_quotas_and_usage_of_a_bucket(bucket):
    bucket.put("key", b"12345")
    usage = bucket.usage()
    assert (usage["objects"], usage["bytes"], usage["upload_bytes"]) == (1, 5, 0)
    assert bucket.set(quota_bytes=6).quota_bytes == 6
    with pytest.raises(koine.errors.QuotaExceeded):
        bucket.put("more", b"12")
    assert bucket.set(quota_bytes=None).quota_bytes is None
    bucket.put("more", b"12")


def test_writes_from_files_and_other_objects(bucket, tmp_path):
    bucket.put("key", b"0123456789")
    (tmp_path / "file").write_bytes(b"abc")
    bucket.write_file("key", 2, tmp_path / "file")
    bucket.write_file("key", 8, io.BytesIO(b"xyz"))
    assert bucket.get("key") == b"01abc567xyz"
    bucket.write_copy("key", "other", range=(2, 3), offset=1)
    assert bucket.get("other") == b"\0abc"
    with pytest.raises(koine.errors.NoSuchKey):
        bucket.write_copy("key", "third", range=(0, 1), offset=0, create=False)
