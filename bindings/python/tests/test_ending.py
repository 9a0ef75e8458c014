"""Calls that end before they are done: by a signal, or because their time is over; and what they leave."""

import os
import signal
import socket
import subprocess
import sys
import textwrap
import threading
import time

import pytest

import koine

LARGE = bytes(1 << 20) * 256


class Ring(Exception):
    pass


@pytest.fixture
def ring():
    """Rings once after a while: the handler raises `Ring`."""

    def handler(number, frame):
        raise Ring

    before = signal.signal(signal.SIGALRM, handler)
    yield lambda after: signal.setitimer(signal.ITIMER_REAL, after)
    signal.setitimer(signal.ITIMER_REAL, 0)
    signal.signal(signal.SIGALRM, before)


@pytest.fixture
def held(server, store):
    """A session of the store that a server holds, and what stops that server and lets it go on."""
    with koine.connect(store) as session:
        session.create_bucket("bucket").put("there", b"bytes" * 100_000)
        yield session, lambda: server.process.send_signal(signal.SIGSTOP), lambda: server.process.send_signal(signal.SIGCONT)
        server.process.send_signal(signal.SIGCONT)


class Stops:
    """A file object in whose middle the signal comes: by itself it would never end."""

    def __init__(self):
        self.count = 0

    def read(self, size):
        self.count += 1
        if self.count == 3:
            os.kill(os.getpid(), signal.SIGALRM)
        return bytes(size)


def test_a_put_that_is_ended_leaves_nothing(bucket, ring, tmp_path):
    with pytest.raises(Ring):
        bucket.put_file("key", Stops())
    assert "key" not in bucket
    # A pipe that nobody writes to would be waited for, for ever.
    os.mkfifo(tmp_path / "pipe")
    end = os.open(tmp_path / "pipe", os.O_RDWR)
    os.write(end, b"some")
    ring(0.2)
    with pytest.raises(Ring):
        bucket.put_file("key", tmp_path / "pipe")
    os.close(end)
    assert "key" not in bucket


def ended(ring, call, left):
    """Has a call ended by a signal; it may come a little before or behind the call, and then once more."""
    while True:
        is_done = False
        try:
            ring(0.02)
            call()
            is_done = True
            ring(0)
        except Ring:
            pass
        if not is_done and not left():
            return


def test_long_calls_look_for_signals(store, ring):
    """In a process, where nothing but the work itself takes time."""
    with koine.connect(store, create=True, size=4 << 30) as session:
        bucket = session.create_bucket("bucket")
        ended(ring, lambda: bucket.put("key", LARGE, md5=True), lambda: bucket.delete("key"))
        bucket.put("large", LARGE)
        begun = []

        def write():
            begun.append(bucket.open("key", "wb", md5=True))
            begun[-1].write(LARGE)

        ended(ring, write, lambda: False)
        # What was taken in part cannot be put as if it were whole.
        with pytest.raises(koine.errors.Error, match="begin it again"):
            begun[-1].close()
        for file in begun[:-1]:
            file.discard()
        assert "key" not in bucket and bucket.get("large") == LARGE


def test_a_signal_without_a_handler_that_raises_ends_nothing(bucket):
    rung = []
    before = signal.signal(signal.SIGALRM, lambda number, frame: rung.append(bucket.put("by-handler", b"x").key))
    try:
        signal.setitimer(signal.ITIMER_REAL, 0.01, 0.01)
        while not rung:
            assert bucket.put("key", LARGE).size == len(LARGE)
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, before)
    assert bucket.get("by-handler") == b"x"


def calls_of(session):
    bucket = session.bucket("bucket")
    file = bucket.open("there")
    return {
        "get": lambda: bucket.get("there"), "put": lambda: bucket.put("new", b"1" * 5_000_000),
        "file": lambda: file.read(), "list": lambda: list(bucket.list("t")), "info": bucket.info,
        "into": lambda: bucket.get_into("there", bytearray(500_000)), "make": lambda: session.create_bucket("second"),
        "move": lambda: bucket.move("there", "elsewhere"), "transact": lambda: session.transact(lambda t: t.bucket("bucket").head("there")),
    }


def test_a_server_that_hangs_holds_nobody_up(held, ring):
    session, stop, go_on = held
    calls = calls_of(session)
    stop()
    for call in calls.values():
        ring(0.1)
        with pytest.raises(Ring):
            call()
    go_on()
    # The session is as good as before.
    assert session.bucket("bucket").put("after", b"1").size == 1
    assert "new" not in session.bucket("bucket")


def test_timeouts_of_calls(held, store):
    session, stop, go_on = held
    with koine.connect(store, timeout=0.2) as hasty:
        calls = calls_of(hasty)
        stop()
        for name, call in calls.items():
            with pytest.raises(koine.errors.TimedOut, match="0.2 s") as raised:
                call()
            assert isinstance(raised.value, TimeoutError) and raised.value.kind == "TimedOut", name
        go_on()
        assert hasty.bucket("bucket").exists()
        with hasty.transaction() as transaction:
            transaction.bucket("bucket").put("other", b"1")
        with pytest.raises(koine.errors.TimedOut):
            with hasty.transaction() as transaction:
                transaction.bucket("bucket").put("given-up", b"1")
                stop()
                transaction.bucket("bucket").head("other")
        go_on()
    assert "given-up" not in session.bucket("bucket")


def test_other_threads_go_on_where_one_has_given_up(held, store):
    """One of them reads answers for all."""
    session, stop, go_on = held
    bucket, got = session.bucket("bucket"), []
    stop()
    threads = [threading.Thread(target=lambda: got.append(bucket.get("there"))) for _ in range(4)]
    for thread in threads:
        thread.start()
    before = signal.signal(signal.SIGALRM, lambda number, frame: (_ for _ in ()).throw(Ring))
    try:
        for _ in range(3):
            signal.setitimer(signal.ITIMER_REAL, 0.1)
            with pytest.raises(Ring):
                bucket.get("there")
    finally:
        signal.signal(signal.SIGALRM, before)
    go_on()
    for thread in threads:
        thread.join(60)
    assert len(got) == 4 and bucket.get("there") == got[0] == b"bytes" * 100_000


def test_timeouts_of_connecting(held, store, server, ring):
    session, stop, go_on = held
    stop()
    key = {"key_file": server.key_file}
    places = [(str(store), {}), ("koine+tcp:%s:%d" % server.address, key)]
    for place, options in places:
        with pytest.raises(koine.errors.TimedOut, match="0.2 s"):
            koine.connect(place, connect_timeout=0.2, **options)
        ring(0.1)
        with pytest.raises(Ring):
            koine.connect(place, connect_timeout=None, **options)
    with pytest.raises(koine.errors.TimedOut):
        koine.open("koine://bucket/there", store=str(store), connect_timeout=0.2)
    go_on()
    for wrong in (0, -1, float("nan"), float("inf")):
        with pytest.raises(koine.errors.InvalidArgument, match="timeout"):
            koine.connect(store, timeout=wrong)
        with pytest.raises(koine.errors.InvalidArgument, match="connect_timeout"):
            koine.connect(store, connect_timeout=wrong)
    with koine.connect(store, timeout=60, connect_timeout=60) as again:
        assert again.bucket("bucket").get("there", length=5) == b"bytes"


def test_no_server_is_a_connection_error(server, store, tmp_path):
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        port = taken.getsockname()[1]
    for place in (f"koine+unix:{tmp_path}/nobody.sock", f"koine+tcp:127.0.0.1:{port}"):
        with pytest.raises(ConnectionError) as raised:
            koine.connect(place, key_file=server.key_file)
        assert isinstance(raised.value, koine.errors.ConnectionFailed)
    session = koine.connect(store)
    bucket = session.create_bucket("bucket")
    server.process.kill()
    server.process.wait()
    with pytest.raises(ConnectionError) as raised:
        bucket.put("key", b"")
    assert isinstance(raised.value, koine.errors.Error)
    session.close()
    with pytest.raises(koine.errors.Closed):
        bucket.put("key", b"")


PROGRAM = """
    import sys, koine
    with koine.connect(sys.argv[1], create=True, size=1 << 30) as session:
        bucket = session.create_bucket("bucket")
        class Endless:
            def read(self, size):
                return bytes(size)
        print("goes", flush=True)
        if sys.argv[2] == "put":
            bucket.put_file("key", "/dev/zero")
        else:
            bucket.put_file("key", Endless())
"""


@pytest.mark.parametrize("how", ["put", "object"])
def test_control_c(store, how):
    program = subprocess.Popen(
        [sys.executable, "-c", textwrap.dedent(PROGRAM), store, how], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    assert program.stdout.readline() == "goes\n"
    time.sleep(0.3)
    program.send_signal(signal.SIGINT)
    _, told = program.communicate(timeout=60)
    assert program.returncode == -signal.SIGINT and told.rstrip().endswith("KeyboardInterrupt"), told
    with koine.connect(store) as session:
        assert list(session.bucket("bucket")) == []


def test_a_file_that_an_ended_get_made_is_gone(bucket, ring, tmp_path):
    bucket.put("key", LARGE)
    told = []

    def progress(done, total):
        told.append((done, total))
        if len(told) == 3:
            raise KeyError

    with pytest.raises(KeyError):
        bucket.get_file("key", tmp_path / "file", progress=progress)
    assert not (tmp_path / "file").exists() and told == [(n << 20, len(LARGE)) for n in (1, 2, 3)]
