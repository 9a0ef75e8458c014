"""Transactions over several objects and keys, sessions that read one version, and why a call is allowed or refused."""

import os
import threading

import pytest

import koine
from koine import errors


def test_a_block_is_committed_whole_or_not_at_all(session, bucket):
    bucket.put("balance", b"10")
    with session.transaction() as transaction:
        inside = transaction.bucket("bucket")
        assert inside.get("balance") == b"10" and "log" not in inside
        inside.put("balance", b"7", metadata={"by": "three"})
        inside.append("log", b"-3")
        assert "log" in inside and inside.head("balance").size == 1
        assert [each.key for each in inside.list_page().objects] == ["balance", "log"]
        assert "log" not in bucket
        assert transaction.version is None
    assert (bucket.get("balance"), bucket.get("log")) == (b"7", b"-3")
    assert bucket.head("balance").version == bucket.head("log").version == transaction.version
    with pytest.raises(ZeroDivisionError), session.transaction() as transaction:
        transaction.bucket("bucket").delete("balance")
        1 / 0
    assert bucket.get("balance") == b"7"
    with pytest.raises(errors.Error):
        transaction.bucket("bucket").head("balance")


def test_every_change_of_a_bucket_may_be_made_in_one(session, bucket):
    other = session.create_bucket("other")
    for key in ("a", "b", "c", "d"):
        bucket.put(key, key.encode() * 4)
    with session.transaction() as transaction:
        inside = transaction.bucket("bucket")
        inside.copy("a", "copied", bucket="other")
        inside.move("b", "moved", bucket="other")
        inside.exchange("c", "d")
        inside.write_at("a", 1, b"--")
        inside.truncate("c", 2)
        inside.write_copy("a", "d", range=(0, 1), offset=4)
        inside.compose([("a", 0, 1), "a"], "composed")
        inside.set_attributes("a", metadata={"color": "blue"}, mode=0o600)
        assert not inside.delete("absent")
        with pytest.raises(errors.NoSuchKey):
            inside.head("absent")
        with pytest.raises(errors.PreconditionFailed):
            inside.put("a", b"", if_absent=True)
    assert (other.get("copied"), other.get("moved")) == (b"aaaa", b"bbbb")
    assert (bucket.get("a"), bucket.get("c"), bucket.get("d")) == (b"a--a", b"dd", b"cccca")
    assert bucket.get("composed") == b"aa--a" and bucket.head("a").metadata == {"color": "blue"}
    assert "b" not in bucket


def test_versions_go_in_one_too(session, bucket):
    bucket.set_versioning("enabled")
    first = bucket.put("key", b"first").version_id
    second = bucket.put("key", b"second").version_id
    with session.transaction() as transaction:
        inside = transaction.bucket("bucket")
        inside.copy("key", "restored", version=first)
        assert inside.delete("key", version=second)
    assert (bucket.get("key"), bucket.get("restored")) == (b"first", b"first")
    assert bucket.copy("key", "again", version=first).size == 5


def test_keys_and_objects_go_together(session, bucket):
    with session.transaction() as transaction:
        assert transaction.get_key(100, b"count") is None
        transaction.put_key(100, b"count", b"1")
        transaction.bucket("bucket").put("one", b"1")
    with session.transaction() as transaction:
        assert transaction.get_key(100, b"count") == b"1"
        transaction.delete_key(100, b"count")
    with session.transaction() as transaction:
        assert transaction.get_key(100, b"count") is None
        with pytest.raises(ValueError):
            transaction.get_key(3, b"of the store")


def test_who_meets_others_is_told_or_begins_again(session, bucket):
    bucket.put("count", b"0")
    with pytest.raises(errors.Conflict), session.transaction() as transaction:
        inside = transaction.bucket("bucket")
        inside.put("copy", inside.get("count"))
        bucket.put("count", b"0")
    assert "copy" not in bucket

    def add(transaction):
        inside = transaction.bucket("bucket")
        count = int(inside.get("count")) + 1
        inside.put("count", str(count).encode())
        return count

    told = []
    threads = [threading.Thread(target=lambda: told.extend(session.transact(add) for _ in range(20))) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert sorted(told) == list(range(1, 81)) and bucket.get("count") == b"80"

    def fail(transaction):
        transaction.bucket("bucket").delete("count")
        raise LookupError("not this time")

    with pytest.raises(LookupError):
        session.transact(fail)
    assert "count" in bucket


@pytest.mark.parametrize("door", ["{}", "koine+unix:{}.objects.sock"])
def test_users_of_a_server_have_transactions_and_pins_too(store, server, door):
    with koine.connect(store) as session:
        session.create_group("lab")
        session.create_user("lab", "ann", "ann's password")
        token = session.log_in("ann", "ann's password").token
        with koine.connect(door.format(store), token=token) as ann:
            bucket = ann.create_bucket("papers")
            with ann.transaction() as transaction:
                transaction.bucket("papers").put("one", b"1")
                transaction.bucket("papers").put("two", b"2")
            assert bucket.head("one").version == bucket.head("two").version
            with pytest.raises(errors.Error), ann.transaction() as transaction:
                transaction.put_key(100, b"for the owner", b"alone")
            with ann.pin() as pinned:
                bucket.delete("one")
                assert pinned.bucket("papers").get("one") == b"1"
                with pytest.raises(errors.ReadOnly):
                    pinned.bucket("papers").delete("two")
            bucket.set_versioning("enabled")
            first = bucket.head("two").version_id
            bucket.put("two", b"again", metadata={"color": "red"})
            assert bucket.get("two", version=first) == b"2" and len(list(bucket.versions())) == 2
            bucket.add_index(metadata="color")
            assert [value for value, _ in bucket.search(metadata="color")] == ["red"]

            def count(transaction):
                inside = transaction.bucket("papers")
                size = inside.head("two").size
                inside.append("two", b"!")
                return size

            assert [ann.transact(count) for _ in range(3)] == [5, 6, 7]
            with pytest.raises(errors.Conflict), ann.transaction() as transaction:
                transaction.bucket("papers").append("two", b"?")
                bucket.put("two", b"other")
            assert ann.user_usage("ann")["objects"] == 1
            with pytest.raises(PermissionError):
                ann.explain("s3:GetObject", "papers", "two", user="ann")


def test_a_fork_leaves_the_transaction_with_the_parent(store):
    session = koine.connect(store, create=True, size=64 << 20)
    bucket = session.create_bucket("bucket")
    with session.transaction() as transaction:
        inside = transaction.bucket("bucket")
        inside.put("key", b"the parent's")
        child = os.fork()
        if child == 0:
            code = 1
            try:
                inside.head("key")
            except errors.Closed:
                code = 0
            finally:
                os._exit(code)
        assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0
    assert bucket.get("key") == b"the parent's"
    session.close()


def test_a_pinned_session_reads_what_was_there(session, bucket):
    bucket.put("key", b"before", metadata={"color": "blue"})
    with session.pin() as pinned:
        there = pinned.bucket("bucket")
        bucket.put("key", b"after")
        bucket.put("new", b"")
        session.create_bucket("another")
        assert there.get("key") == b"before" and there.head("key").metadata == {"color": "blue"}
        assert [each.key for each in there] == ["key"] and "new" not in there
        assert [each.key for _, each in there.search(metadata="color")] == ["key"]
        assert there.usage()["objects"] == 1 and len(list(pinned.buckets())) == 1
        assert pinned.pinned_version < bucket.head("key").version and session.pinned_version is None
        for change in (lambda: there.put("x", b""), lambda: there.delete("key"), lambda: pinned.create_bucket("third")):
            with pytest.raises(errors.ReadOnly):
                change()
    with pytest.raises(errors.Closed):
        there.get("key")
    assert bucket.get("key") == b"after"


def test_it_is_told_why(session, bucket):
    session.create_group("lab")
    session.create_user("lab", "ann")
    decision = session.explain("s3:GetObject", "bucket", "key", user="ann")
    assert not decision and decision.rule == "nothing allows it"
    ann_s_key, _ = session.create_key("ann")
    assert session.explain("s3:GetObject", "bucket", "key", access_key=ann_s_key) == decision
    assert session.explain("s3:DeleteBucket", "bucket", user="root").allowed
    assert not session.explain("s3:ListBucket", "bucket")
    with pytest.raises(ValueError):
        session.explain("s3:Nothing", "bucket")
    with pytest.raises(errors.NoSuchUser):
        session.explain("s3:GetObject", "bucket", user="nobody")


def test_the_buckets_of_a_group_are_counted_and_go_together(session, bucket):
    session.create_group("lab")
    session.create_user("lab", "ann", "ann's password")
    ann = session.log_in("ann", "ann's password")
    for name in ("first", "second"):
        ann.create_bucket(name).put("key", b"body")
    assert session.group_usage("lab") == session.user_usage("ann")
    assert session.user_usage("ann")["bytes"] == 8
    assert session.delete_buckets("lab") == 2
    assert [each.name for each in session.buckets()] == ["bucket"]
