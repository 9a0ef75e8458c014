"""A command that runs while the server of its store is killed and started again goes on, or says what became of its work."""

import subprocess

import pytest

from harness.server import Server, clean_environment, die_with_parent, koine, program, root_environment


def begin(*args):
    """A command that waits for its standard input."""
    return subprocess.Popen(
        [program(), *map(str, args)],
        env=clean_environment(**root_environment()),
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        preexec_fn=die_with_parent,
    )


def wait_for_connection(server, path):
    """Until the command is a client of the server: from then on it has the session that it is to lose."""
    while f"{path}.sock" not in subprocess.run(["ss", "-xp"], capture_output=True, text=True).stdout:
        pass


@pytest.fixture
def path(tmp_path):
    return tmp_path / "store.koine"


def test_a_command_outlives_its_server(path):
    with Server(path) as server:
        command = begin("kv", "batch", path)
        command.stdin.write('{"put": "k", "value": "before"}\n')
        command.stdin.flush()
        wait_for_connection(server, path)
        server.kill()
        with Server(path):
            out, err = command.communicate('{"put": "l", "value": "after"}\n', timeout=60)
            assert command.returncode == 0, out + err
            assert koine("kv", "get", path, "k").stdout == "before"
            assert koine("kv", "get", path, "l").stdout == "after"


def test_a_body_that_was_on_its_way_says_that_it_is_lost(path):
    with Server(path) as server:
        koine("mb", "koine://bucket", "--store", path)
        koine("append", "koine://bucket/key", "-", "--store", path, stdin=subprocess.DEVNULL)
        command = begin("append", "koine://bucket/key", "-", "--store", path)
        piece = "x" * (1 << 20)
        for _ in range(8):
            command.stdin.write(piece)
        command.stdin.flush()
        wait_for_connection(server, path)
        server.kill()
        with Server(path):
            try:
                out, err = command.communicate(piece, timeout=60)
            except BrokenPipeError:
                out, err = command.stdout.read(), command.stderr.read()
                command.wait(60)
            assert command.returncode == 1, out + err
            assert "was lost" in err and "write it again" in err, err
            info = koine("--json", "info", "koine://bucket/key", "--store", path).stdout
            assert '"size":0' in info.replace(" ", ""), info
