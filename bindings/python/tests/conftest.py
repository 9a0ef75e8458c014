"""Fixtures: stores in memory and in files, and a server that holds one."""

import json
import os
import subprocess

import pytest

import koine


@pytest.fixture
def session():
    with koine.connect("memory:") as session:
        yield session


@pytest.fixture
def bucket(session):
    return session.create_bucket("bucket")


@pytest.fixture
def store(tmp_path):
    """The path of a store that is yet to be made."""
    return tmp_path / "store.koine"


class Serving:
    """`koine serve` of a store, with a key for those who come over TCP."""

    def __init__(self, store, folder):
        self.key_file = folder / "key"
        self.key_file.write_text(os.urandom(16).hex())
        self.key_file.chmod(0o600)
        command = [os.environ["KOINE_PROGRAM"], "serve", store, "--s3", "127.0.0.1:0", "--size", "256MiB", "--json"]
        command += ["--wire", "127.0.0.1:0", "--wire-key", self.key_file]
        self.process = subprocess.Popen(command, stdout=subprocess.PIPE, text=True)
        told = json.loads(self.process.stdout.readline())
        self.s3 = told["s3"][0]
        host, _, port = told["wire"][0].removeprefix("koine+tcp:").rpartition(":")
        self.address = (host, int(port))

    def end(self):
        self.process.terminate()
        self.process.communicate(timeout=60)


@pytest.fixture
def server(store, tmp_path):
    serving = Serving(store, tmp_path)
    yield serving
    serving.end()
