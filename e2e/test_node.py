"""`koine node data`: keys and values of a device, by the wire alone."""

import json
import os
import select
import signal
import subprocess

import pytest

from harness.server import START_SECONDS_MAX, clean_environment, die_with_parent, koine, program


class Node:
    """A running data node."""

    def __init__(self, device, *args):
        self.process = subprocess.Popen(
            [program(), "--json", "node", "data", *map(str, [device, *args])],
            env=clean_environment(),
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            preexec_fn=die_with_parent,
        )
        ready, _, _ = select.select([self.process.stdout], [], [], START_SECONDS_MAX)
        line = self.process.stdout.readline() if ready else b""
        if not line:
            self.process.kill()
            raise AssertionError(f"the node did not start: {self.process.communicate()}")
        self.banner = json.loads(line)

    def stop(self):
        self.process.send_signal(signal.SIGTERM)
        return self.process.wait(60)

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.process.kill()
        self.process.communicate()


@pytest.fixture(params=["file", "loop device"])
def device(request, tmp_path):
    """An empty device of 64 MiB."""
    path = tmp_path / "device"
    with open(path, "wb") as file:
        file.truncate(64 << 20)
    if request.param == "file":
        yield path
        return
    made = subprocess.run(["losetup", "--find", "--show", str(path)], capture_output=True, text=True, check=False)
    if made.returncode != 0:
        pytest.skip(f"no loop device can be had: {made.stderr}")
    yield made.stdout.strip()
    subprocess.run(["losetup", "--detach", made.stdout.strip()], check=True)


def test_keys_and_values_of_a_device(device, tmp_path):
    key = tmp_path / "wire.key"
    key.write_bytes(os.urandom(24).hex().encode())
    key.chmod(0o600)
    asked = koine("node", "data", device, check=False)
    assert asked.returncode == 1 and f"koine node data {device} --format" in asked.stderr
    large = tmp_path / "large"
    large.write_bytes(os.urandom(3 << 20))
    with Node(device, "--format", "--wire", "127.0.0.1:0", "--wire-key", key, "--socket", tmp_path / "node.sock") as node:
        assert node.banner["type"] == "serving" and "s3" not in node.banner
        near = f"koine+unix:{node.banner['socket']}"
        far, known = node.banner["wire"][0], ["--key-file", key]
        koine("kv", "put", near, "small", "value")
        koine("kv", "put", near, "large", "--file", large)
        koine("kv", "put", far, "k" * 2048, "a long key", *known)
        assert koine("kv", "get", far, "small", *known).stdout == "value"
        koine("kv", "get", far, "large", "--file", tmp_path / "came", *known)
        assert (tmp_path / "came").read_bytes() == large.read_bytes()
        assert koine("kv", "get", near, "k" * 2048).stdout == "a long key"
        koine("kv", "del", near, "small")
        assert koine("kv", "stat", far, "small", *known, check=False).returncode == 4
        held = koine("node", "data", device, check=False)
        assert held.returncode == 3 and str(node.process.pid) in held.stderr
        assert node.stop() == 0
        assert not (tmp_path / "node.sock").exists()
    koine("check", device)
    # What has a store keeps it, and needs no word.
    with Node(device, "--format", "--socket", tmp_path / "node.sock") as node:
        assert koine("kv", "get", f"koine+unix:{node.banner['socket']}", "k" * 2048).stdout == "a long key"
        node.process.kill()
        node.process.wait()
    koine("check", device)


def test_what_is_there_is_left_alone(tmp_path):
    other = tmp_path / "other"
    other.write_bytes(b"not a store" * 1000)
    refused = koine("node", "data", other, "--format", check=False)
    assert refused.returncode == 1 and "not a Koine store" in refused.stderr
    assert other.read_bytes() == b"not a store" * 1000
    assert koine("node", "data", check=False).returncode == 2
    with Node(tmp_path / "new.koine", "--size", "64MiB") as node:
        assert node.banner["socket"].endswith("new.koine.sock")
        assert node.stop() == 0
