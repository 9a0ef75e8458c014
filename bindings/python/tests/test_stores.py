"""Stores: one owner in a process, other processes through its socket, forks, and the interpreter lock."""

import json
import os
import socket
import subprocess
import sys
import threading

import pytest

import koine

SIZE = 64 << 20


def test_a_store_is_made_shared_and_given_back(store):
    with pytest.raises(FileNotFoundError):
        koine.connect(store)
    first = koine.connect(store, create=True, size=SIZE)
    second = koine.connect(str(store))
    assert first.is_owner and second.is_owner and first.place == str(store)
    first.create_bucket("bucket").put("key", b"bytes")
    first.close()
    assert second.bucket("bucket").get("key") == b"bytes"
    second.close()
    # Nobody holds it now.
    subprocess.run([os.environ["KOINE_PROGRAM"], "check", store], check=True, capture_output=True, timeout=120)
    with koine.connect(store) as third:
        assert third.bucket("bucket").get("key") == b"bytes"
    (store.parent / "other").write_text("no store")
    for wrong in (store.parent / "other", store.parent, "/etc/passwd"):
        with pytest.raises(koine.errors.NotAStore) as refused:
            koine.connect(wrong)
        assert "--force" not in str(refused.value) and str(wrong) in str(refused.value)


def test_what_is_held_by_another_process(store):
    """Without a socket there is no way in, and the exception says so."""
    program = "import koine, sys; s = koine.connect(sys.argv[1], create=True, size=1 << 26); print('open', flush=True); input()"
    with subprocess.Popen([sys.executable, "-c", program, store], stdin=subprocess.PIPE, stdout=subprocess.PIPE) as other:
        assert other.stdout.readline() == b"open\n"
        with pytest.raises(koine.errors.Owned, match="koine serve"):
            koine.connect(store)
        other.communicate(b"\n", timeout=60)
    koine.connect(store).close()


WRITER = """
import koine, sys
with koine.connect(sys.argv[1]) as session:
    assert not session.is_owner
    bucket = session.create_bucket("bucket")
    for n in range(20):
        bucket.put(f"small/{n}", b"%d" % n)
    with bucket.open("large", "wb") as file:
        for n in range(30):
            file.write(bytes([n]) * 100_000)
"""


def test_two_processes_through_the_owner(server, store):
    """What one wrote and was told of, the other sees."""
    subprocess.run([sys.executable, "-c", WRITER, store], check=True, timeout=120)
    with koine.connect(store) as session:
        assert not session.is_owner
        bucket = session.bucket("bucket")
        assert [each.key for each in bucket.list("small/", limit=3)] == ["small/0", "small/1", "small/10"]
        assert bucket.get("small/7") == b"7"
        assert bucket.get("large") == b"".join(bytes([n]) * 100_000 for n in range(30))


def test_of_no_use_after_a_fork(store):
    session = koine.connect(store, create=True, size=SIZE)
    bucket = session.create_bucket("bucket")
    bucket.put("key", b"bytes")
    file = bucket.open("key", "wb")
    file.write(bytes(1 << 20))
    child = os.fork()
    if child == 0:
        code = 1
        try:
            bucket.get("key")
        except koine.errors.Closed as error:
            code = 0 if "forked" in str(error) else 2
        finally:
            # What is left behind is taken down as at the end of a process.
            try:
                session.close()
                del session, bucket, file
            finally:
                os._exit(code)
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0
    file.write(b"more")
    file.close()
    assert bucket.get("key") == bytes(1 << 20) + b"more"
    session.close()
    with koine.connect(store) as session:
        assert session.bucket("bucket").head("key").size == (1 << 20) + 4


class Between:
    """A thread of this very interpreter that hands on what goes between a client and a server.

    Every call that reaches the store passes through it: one that kept the interpreter lock while it waits for its
    answer would wait for ever.
    """

    def __init__(self, address):
        self.address = address
        self.listener = socket.create_server(("127.0.0.1", 0))
        self.place = "koine+tcp:127.0.0.1:%d" % self.listener.getsockname()[1]
        self.passed = 0
        threading.Thread(target=self.accept, daemon=True).start()

    def accept(self):
        while True:
            client, _ = self.listener.accept()
            server = socket.create_connection(self.address)
            for one, other in [(client, server), (server, client)]:
                threading.Thread(target=self.hand_on, args=(one, other), daemon=True).start()

    def hand_on(self, one, other):
        try:
            while piece := one.recv(1 << 16):
                other.sendall(piece)
                self.passed += 1
            other.shutdown(socket.SHUT_WR)
        except OSError:
            pass


def test_the_interpreter_lock_is_released_in_every_call(server, tmp_path):
    between = Between(server.address)

    def check(call, *arguments, **options):
        before = between.passed
        result = call(*arguments, **options)
        assert between.passed > before, "the call did not reach the store"
        return result

    session = check(koine.connect, between.place, key_file=server.key_file)
    body = os.urandom(2_000_000)
    (tmp_path / "from").write_bytes(body)
    bucket = check(session.create_bucket, "bucket")
    check(session.bucket_info, "bucket")
    check(lambda: list(session.buckets()))
    check(bucket.put, "key", body)
    assert check(bucket.get, "key") == body
    check(bucket.get_into, "key", bytearray(len(body)))
    check(bucket.head, "key")
    assert check(lambda: "key" in bucket)
    check(lambda: list(bucket))
    check(bucket.list_page)
    check(bucket.copy, "key", "copy")
    check(bucket.put_file, "file", tmp_path / "from")
    check(bucket.get_file, "file", tmp_path / "to")
    upload = check(bucket.upload, "upload")
    check(upload.put, 1, body)
    check(upload.parts)
    check(bucket.uploads)
    check(upload.complete)
    check(bucket.upload("upload").abort)
    with check(bucket.open, "key") as file:
        assert check(file.read, 100_000) == body[:100_000]
        check(file.readinto, bytearray(1_000_000))
    file = check(bucket.open, "written", "wb")
    check(file.write, body)
    check(file.close)
    check(bucket.delete, "key")
    check(bucket.delete_many, ["copy", "file", "upload", "written"])
    check(session.delete_bucket, "bucket")
    session.close()


def test_a_read_that_blocks_lets_others_run(bucket, tmp_path):
    """`put_file` of a pipe waits for what this thread has yet to write."""
    pipe = tmp_path / "pipe"
    os.mkfifo(pipe)
    thread = threading.Thread(target=bucket.put_file, args=("key", pipe))
    thread.start()
    with pipe.open("wb") as file:
        for _ in range(10):
            file.write(bytes(300_000))
    thread.join()
    assert bucket.head("key").size == 3_000_000


def test_threads_share_a_session(bucket):
    def work(name):
        for n in range(50):
            bucket.put(f"{name}/{n}", b"%d" % n)
            assert bucket.get(f"{name}/{n}") == b"%d" % n

    threads = [threading.Thread(target=work, args=(name,)) for name in "abcd"]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(list(bucket)) == 200


def test_a_token_is_the_session_of_its_user(server, store, tmp_path):
    program = os.environ["KOINE_PROGRAM"]
    secret = tmp_path / "password"
    secret.write_text("ada's password")
    secret.chmod(0o600)

    def run(*arguments):
        command = [program, "--json", *map(str, arguments), "--store", store]
        return subprocess.run(command, check=True, capture_output=True, text=True).stdout

    run("group", "add", "lab")
    run("user", "add", "ada", "--group", "lab", "--password-file", secret)
    token = json.loads(run("user", "login", "ada", "--password-file", secret))["token"]
    body = os.urandom(3_000_000)
    with koine.connect(store) as owner, koine.connect(store, token=token) as ada:
        owner.create_bucket("owners").put("key", b"value")
        assert not ada.is_owner
        bucket = ada.create_bucket("hers")
        bucket.put("key", body)
        assert bucket.get("key") == body
        with bucket.open("key", "r+b") as file:
            file.seek(1_000_000)
            file.write(b"in the middle")
        assert owner.bucket("hers").get("key")[1_000_000:1_000_013] == b"in the middle"
        with pytest.raises(koine.errors.AccessDenied):
            ada.bucket("owners").get("key")
        assert [each.name for each in ada.buckets()] == ["hers"]
    with pytest.raises(koine.errors.LogInFailed):
        koine.connect(store, token="kt1_" + "x" * 43)
