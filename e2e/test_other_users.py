"""Other users of the machine: objects by their log in, with their own rights, and nothing of keys and values."""

import json
import os
import shutil
import socket
import subprocess

import pytest

from harness.server import Server, clean_environment, die_with_parent, koine, program

OWNER, OTHER = 61001, 61002

needs_users = pytest.mark.skipif(
    os.geteuid() != 0 or not shutil.which("setpriv"), reason="needs root and setpriv to be two users"
)


def as_user(uid):
    return ["setpriv", f"--reuid={uid}", f"--regid={uid}", "--clear-groups", "--"]


@pytest.fixture
def store(tmp_path):
    """A server of one user's store, with ada, who has a password, and bob, who is another user of the machine."""
    folder = tmp_path / "owner"
    folder.mkdir()
    folder.chmod(0o755)
    for parent in folder.parents:
        if parent.stat().st_mode & 0o005 != 0o005:
            parent.chmod(parent.stat().st_mode | 0o005)
    os.chown(folder, OWNER, OWNER)
    tried = subprocess.run([*as_user(OTHER), program(), "--version"], capture_output=True)
    if tried.returncode != 0:
        pytest.skip("another user may not run the program")
    path = folder / "store.koine"
    with Server(path, log=tmp_path / "log", wrap=as_user(OWNER)) as server:
        path.chmod(0o600)
        run = lambda *args, **more: koine(*args, "--store", path, wrap=as_user(OWNER), **more)
        run("group", "add", "lab")
        secret = folder / "password"
        secret.write_text("ada's password")
        secret.chmod(0o600)
        os.chown(secret, OWNER, OWNER)
        run("user", "add", "ada", "--group", "lab", "--password-file", secret)
        os.chown(secret, OTHER, OTHER)
        run("user", "add", "bob", "--group", "lab")
        yield path, server, run, secret
        assert server.stop() == 0
    koine("check", path)


def other(*args, env=None, **more):
    return koine(*args, wrap=as_user(OTHER), env=env or {}, **more)


@needs_users
def test_another_user_has_objects_by_a_token_and_no_keys(store, tmp_path):
    path, server, run, secret = store
    place = f"koine+unix:{server.banner['objects_socket']}"
    assert oct(os.stat(server.banner["objects_socket"]).st_mode & 0o777) == "0o666"
    # Nobody yet, neither by the socket nor by the path.
    for where in [place, path]:
        refused = other("ls", "--store", where, check=False)
        assert refused.returncode == 5 and "log in" in refused.stderr, refused.stderr
    owners = str(path) + ".sock"
    assert other("kv", "stat", f"koine+unix:{owners}", "key", check=False).returncode != 0
    assert other("kv", "scan", place, check=False).returncode != 0
    told = other("--json", "user", "login", "ada", "--password-file", secret, "--store", place).stdout
    token = json.loads(told)["token"]
    env = {"KOINE_TOKEN": token}
    for where in [place, path]:
        other("mb", f"koine://bucket{1 if where == place else 2}", "--store", where, env=env)
    body = os.urandom(5_000_000)
    (tmp_path / "body").write_bytes(body)
    (tmp_path / "body").chmod(0o644)
    other("cp", tmp_path / "body", "koine://bucket1/key", "--store", place, env=env)
    here = tmp_path / "mine"
    here.mkdir()
    os.chown(here, OTHER, OTHER)
    (here / "token").write_text(token)
    (here / "token").chmod(0o600)
    os.chown(here / "token", OTHER, OTHER)
    other("cp", "koine://bucket1/key", here / "back", "--store", place, "--token", here / "token")
    assert (here / "back").read_bytes() == body
    assert "key" in other("ls", "koine://bucket1", "--store", place, env=env).stdout
    # Versions, searching and what its buckets hold are there too.
    mine = lambda *args, **more: other(*args, "--store", place, env=env, **more).stdout
    mine("bucket", "versioning", "set", "koine://bucket2", "enabled")
    for size in (1, 2):
        (here / "note").write_text("x" * size)
        mine("cp", here / "note", "koine://bucket2/note")
    mine("set", "koine://bucket2/note", "--metadata", "color=blue")
    mine("bucket", "index", "add", "koine://bucket2", "--metadata", "color")
    assert "note" in mine("search", "koine://bucket2", "--metadata", "color=blue")
    versions = [json.loads(line) for line in mine("--json", "ls", "--versions", "koine://bucket2").splitlines()]
    assert [version["size"] for version in versions] == [2, 1]
    assert mine("cat", "--version", versions[1]["version_id"], "koine://bucket2/note") == "x"
    assert "its buckets hold 3 objects" in mine("user", "info", "ada")
    # The owner sees what it made, and whose it is.
    assert "key" in run("ls", "koine://bucket1").stdout
    run("mb", "koine://owners")
    refused = other("ls", "koine://owners", "--store", place, env=env, check=False)
    assert refused.returncode == 5, refused.stderr
    other("user", "logout", "--token-file", here / "token", "--store", place)
    assert other("ls", "koine://bucket1", "--store", place, env=env, check=False).returncode == 5


@needs_users
def test_a_user_of_the_machine_is_known_and_a_killed_client_or_garbage_harms_nobody(store, tmp_path):
    path, server, run, _ = store
    place = f"koine+unix:{server.banner['objects_socket']}"
    run("user", "set", "bob", "--uid", OTHER)
    other("mb", "koine://his", "--store", place)
    with socket.socket(socket.AF_UNIX) as stranger:
        stranger.connect(server.banner["objects_socket"])
        stranger.sendall(os.urandom(4096))
    # A client that dies in the middle of a body.
    client = subprocess.Popen(
        [*as_user(OTHER), program(), "append", "koine://his/key", "-", "--store", place],
        env=clean_environment(),
        stdin=subprocess.PIPE,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
        preexec_fn=die_with_parent,
    )
    client.stdin.write(os.urandom(3 << 20))
    client.stdin.flush()
    client.kill()
    client.wait()
    listed = other("ls", "koine://his", "--store", place)
    assert "key" not in listed.stdout
