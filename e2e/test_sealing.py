"""Secrets of access keys are sealed with a key that is not in the store: what stands in it, what a start says, rotation
while it is served, and what the loss of the key costs."""

import json
import os
import shutil
import stat
import subprocess

import pytest
from botocore.exceptions import ClientError

from harness import clients
from harness.expect import refused
from harness.server import Server, clean_environment, koine, program, root_environment


def told(done):
    return [json.loads(line) for line in done.stdout.splitlines()]


@pytest.fixture
def run(tmp_path):
    """Commands on a store with a user."""
    store = tmp_path / "store.koine"
    koine("format", store, "--size", "64MiB")
    run = lambda *args, **more: koine("--json", *args, "--store", store, **more)
    run.store, run.file = store, tmp_path / "store.koine.sealing"
    run("group", "add", "lab")
    run("user", "add", "ada", "--group", "lab")
    run.key = lambda *args: told(run("user", "key", "add", "ada", *args))[-1]
    return run


def client(server, key):
    return clients.s3(server.url, access=key["access_key"], secret=key["secret"])


def stands_in(store, secret):
    return secret.encode() in store.read_bytes()


def refused_start(store, *args, env=None):
    done = subprocess.run(
        [program(), "serve", str(store), "--s3", "127.0.0.1:0", *map(str, args)],
        env=clean_environment(**(root_environment() if env is None else env)), capture_output=True, text=True, timeout=60, stdin=subprocess.DEVNULL,
    )
    assert done.returncode != 0
    return done.stderr


def test_a_sealed_key_opens_after_every_start_and_its_secret_is_not_in_the_store(run):
    key = run.key()
    assert stat.S_IMODE(os.stat(run.file).st_mode) == 0o600
    for _ in range(2):
        with Server(run.store) as server:
            client(server, key).list_buckets()
            assert server.stop() == 0
    assert not stands_in(run.store, key["secret"])
    # The file may be elsewhere, by a flag or the environment; other programs than the server find it the same way.
    elsewhere = run.file.with_name("elsewhere")
    run.file.rename(elsewhere)
    with Server(run.store, "--sealing-key", elsewhere) as server:
        client(server, key).list_buckets()
        assert server.stop() == 0
    with Server(run.store, env=root_environment() | {"KOINE_SEALING_KEY": elsewhere}) as server:
        client(server, key).list_buckets()
        second = told(run("user", "key", "add", "ada", "--sealing-key", elsewhere))[-1]
        client(server, second).list_buckets()
        assert server.stop() == 0
    assert not run.file.exists() and not stands_in(run.store, second["secret"])
    koine("check", run.store)


def test_rotation_while_it_is_served(run):
    plain = run.key("--sealing-key", "none")
    assert not run.file.exists()
    made = told(run("identity", "sealing-key", "make"))[-1]
    assert (made["number"], made["file"]) == (1, str(run.file))
    with Server(run.store) as server:
        keys = [plain, run.key()]
        for number in (2, 3):
            before = run.file.read_text()
            assert told(run("identity", "sealing-key", "rotate"))[-1]["secrets"] == len(keys)
            (line,) = run.file.read_text().splitlines()
            assert line.startswith(f"koine-sealing-key 1 {number} ") and line not in before
            keys.append(run.key())
            for key in keys:
                client(server, key).list_buckets()
        # Root over S3 is not sealed; what the user may not, it still may not.
        with refused("SignatureDoesNotMatch", 403):
            client(server, keys[0] | {"secret": keys[1]["secret"]}).list_buckets()
        assert server.stop() == 0
    # What was sealed from the first stands nowhere; what stood there as it was may lie in space that was freed, and a
    # copy of the store has none of that.
    copy = run.store.with_name("copy.koine")
    koine("format", copy, "--size", "64MiB")
    koine("copy", run.store, copy)
    assert not any(stands_in(run.store, key["secret"]) for key in keys[1:])
    assert not any(stands_in(copy, key["secret"]) for key in keys)
    shutil.copy(run.file, f"{copy}.sealing")
    with Server(copy) as server:
        for key in keys:
            client(server, key).list_buckets()
        assert server.stop() == 0


def test_what_the_loss_of_the_file_costs(run):
    key = run.key()
    with Server(run.store) as server:
        client(server, key).create_bucket(Bucket="hers")
        client(server, key).put_object(Bucket="hers", Key="k", Body=b"kept")
        assert server.stop() == 0
    kept = run.file.with_name("kept")
    run.file.rename(kept)
    # A file that is named must be there, and the right one.
    assert "does not have" in refused_start(run.store, "--sealing-key", run.file)
    other = run.file.with_name("other")
    koine("format", run.file.with_name("other.koine"), "--size", "64MiB")
    koine("identity", "sealing-key", "make", "--store", run.file.with_name("other.koine"), "--sealing-key", other)
    assert "not this store's" in refused_start(run.store, "--sealing-key", other)
    with Server(run.store) as server:
        with refused("AccessDenied", 403):
            client(server, key).list_buckets()
        assert clients.s3(server.url).get_object(Bucket="hers", Key="k")["Body"].read() == b"kept"
        failed = run("user", "key", "add", "ada", check=False)
        assert failed.returncode != 0 and "sealing-key forget" in failed.stdout + failed.stderr
        assert server.stop() == 0
    log = server.log_path.read_text()
    assert "whose file is not there" in log and str(run.file) in log and key["secret"] not in log
    # Root comes back without it.
    root = told(run("identity", "root", "reset"))[-1]
    with Server(run.store, env={}) as server:
        client(server, root).head_object(Bucket="hers", Key="k")
        # Found again, it opens what it did.
        kept.rename(run.file)
        client(server, key).head_object(Bucket="hers", Key="k")
        run.file.unlink()
        assert server.stop() == 0
    assert told(run("identity", "sealing-key", "forget"))[-1]["keys"] == 1
    with Server(run.store, env={}) as server:
        with refused("InvalidAccessKeyId", 403):
            client(server, key).list_buckets()
        new = run.key()
        assert client(server, new).get_object(Bucket="hers", Key="k")["Body"].read() == b"kept"
        client(server, root).list_buckets()
        assert server.stop() == 0
    koine("check", run.store)


def test_the_key_that_root_got_at_the_first_start_is_sealed_too(run):
    with Server(run.store, env={}) as server:
        credentials = dict(line.split("=", 1) for line in open(f"{run.store}.credentials") if not line.startswith("#"))
        root = {name: credentials[f"KOINE_ROOT_{word}"].strip() for name, word in (("access_key", "USER"), ("secret", "PASSWORD"))}
        client(server, root).create_bucket(Bucket="mine")
        assert server.stop() == 0
    assert not stands_in(run.store, root["secret"]) and root["access_key"].encode() in run.store.read_bytes()
    run.file.rename(run.file.with_name("kept"))
    told = refused_start(run.store, env={})
    assert "KOINE_ROOT_USER" in told and "root reset" in told
    with Server(run.store) as server:
        clients.s3(server.url).head_bucket(Bucket="mine")
        assert server.stop() == 0
    run.file.with_name("kept").rename(run.file)
    with Server(run.store, env={}) as server:
        client(server, root).head_bucket(Bucket="mine")
        assert server.stop() == 0


def test_a_file_that_others_can_read_is_refused(run):
    key = run.key()
    run.file.chmod(0o644)
    assert "chmod 600" in refused_start(run.store)
    failed = run("user", "key", "add", "ada", check=False)
    assert failed.returncode != 0 and "chmod 600" in failed.stdout + failed.stderr
    run.file.chmod(0o600)
    run.file.write_text("koine-sealing-key 1 1 nonsense\n")
    assert "not understood" in refused_start(run.store)
    # Who has no use for secrets is not stopped by it.
    run("mb", "koine://bucket")
    with pytest.raises(ClientError):
        with Server(run.store, "--sealing-key", "none") as server:
            client(server, key).list_buckets()
