"""Fixtures: one server for the tests that only talk to it, stores and clients of one's own for the others."""

import os
import uuid

import pytest

from harness import clients
from harness.server import Server, koine, root_environment

FULL = os.environ.get("KOINE_TEST_FULL") == "1"


def pytest_collection_modifyitems(items):
    if not FULL:
        # Left out, not skipped: the closing line counts what was meant to run.
        items[:] = [item for item in items if item.get_closest_marker("full") is None]


@pytest.fixture(scope="session")
def server(tmp_path_factory):
    """A server for the whole session; at its end it stops gracefully and its store is sound."""
    store = tmp_path_factory.mktemp("store") / "store.koine"
    with Server(store) as running:
        yield running
        assert running.stop() == 0
    koine("check", store)


@pytest.fixture(scope="session")
def s3(server):
    return clients.s3(server.url)


@pytest.fixture
def bucket(s3):
    """A bucket of the test's own, left behind empty of meaning."""
    name = f"b-{uuid.uuid4().hex[:16]}"
    s3.create_bucket(Bucket=name)
    return name


@pytest.fixture
def aws(server, tmp_path):
    return clients.Aws(server.url, tmp_path)


@pytest.fixture
def rclone(server, tmp_path):
    return clients.Rclone(server.url, tmp_path)


@pytest.fixture
def mc(server, tmp_path):
    return clients.Mc(server.url, tmp_path)


@pytest.fixture(scope="session")
def other(tmp_path_factory):
    """A second server, with keys of its own."""
    store = tmp_path_factory.mktemp("other") / "store.koine"
    with Server(store, env={"KOINE_ROOT_USER": "other-root", "KOINE_ROOT_PASSWORD": "other-secret-0123456789"}) as running:
        yield running


@pytest.fixture(scope="session")
def far(tmp_path_factory, server, other):
    """A store that nobody holds, a server, and another by the alias `lab`."""
    folder = tmp_path_factory.mktemp("between")
    koine("format", folder / "store.koine")
    config = folder / "config"
    secret = folder / "secret"
    secret.write_text("other-secret-0123456789\n")
    secret.chmod(0o600)
    env = root_environment() | {"KOINE_CONFIG": config, "KOINE_STORE": folder / "store.koine", "KOINE_ENDPOINT": server.url}

    def run(*args, **more):
        return koine(*args, env=env, **more)

    run.config = config
    told = run("alias", "set", "lab", other.url, "--access-key", "other-root", "--secret-file", secret)
    assert f"set lab:// to {other.url}" in told.stdout
    run.lab = clients.s3(other.url, access="other-root", secret="other-secret-0123456789")
    return run


@pytest.fixture
def places(far, bucket):
    """Runs a command; the bucket is in a store (koine://) and on two servers (s3://, lab://)."""
    far("mb", f"koine://{bucket}")
    far("mb", f"lab://{bucket}")
    return far
