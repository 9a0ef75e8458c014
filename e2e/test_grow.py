"""Growing: `koine grow` on files and devices, SIGHUP of a running server."""

import json
import os
import signal
import subprocess
import time

import pytest
from botocore.exceptions import ClientError

from harness import clients, seeds
from harness.server import Server, koine

MIB = 1 << 20


def size_of(store):
    return json.loads(koine("--json", "stat", store).stdout)


def test_a_file_gets_another_limit(tmp_path):
    store = tmp_path / "store.koine"
    koine("format", store, "--size", "8MiB")
    done = koine("grow", store, check=False)
    assert done.returncode == 1 and "size" in done.stderr
    told = json.loads(koine("--json", "grow", store, "--size", "32MiB").stdout)
    assert (told["before"], told["size"], told["size_max"]) == (8 * MIB, 8 * MIB, 32 * MIB)
    with Server(store) as server:
        s3 = clients.s3(server.url)
        s3.create_bucket(Bucket="data")
        body = seeds.blob(70, "large", 20 * MIB)
        s3.put_object(Bucket="data", Key="large", Body=body)
        assert s3.get_object(Bucket="data", Key="large")["Body"].read() == body
        done = koine("grow", store, "--unlimited", check=False)
        assert done.returncode == 3 and str(server.pid) in done.stderr
        assert server.stop() == 0
    assert size_of(store)["total"] > 20 * MIB
    assert koine("grow", store, "--size", "4MiB", check=False).returncode == 1
    assert json.loads(koine("--json", "grow", store, "--unlimited").stdout)["size_max"] is None
    koine("check", store)


@pytest.fixture
def partition(tmp_path):
    """A block device of 16 MiB that `grow` makes longer (root and loop devices are needed)."""
    image = tmp_path / "image"
    with open(image, "wb") as file:
        file.truncate(16 * MIB)
    done = subprocess.run(["losetup", "--find", "--show", image], capture_output=True, text=True, check=False)
    if os.geteuid() != 0 or done.returncode != 0:
        pytest.skip("no loop device can be made here")
    name = done.stdout.strip()

    def resize(length):
        os.truncate(image, length)
        subprocess.run(["losetup", "--set-capacity", name], check=True)

    yield name, resize
    subprocess.run(["losetup", "--detach", name], check=True)


def test_a_device_that_became_longer_is_taken(partition):
    device, resize = partition
    koine("format", device)
    assert json.loads(koine("--json", "grow", device).stdout)["size"] == 16 * MIB
    resize(40 * MIB)
    assert size_of(device)["total"] == 16 * MIB, "nothing is taken unasked"
    assert json.loads(koine("--json", "grow", device, "--size", "24MiB").stdout)["size"] == 24 * MIB
    assert json.loads(koine("--json", "grow", device).stdout)["size"] == 40 * MIB
    koine("check", device)
    resize(30 * MIB)
    done = koine("grow", device, check=False)
    assert done.returncode == 1 and "was cut" in done.stderr
    resize(40 * MIB)
    koine("check", device)


def test_a_server_takes_a_longer_device_while_it_serves(partition, tmp_path):
    device, resize = partition
    koine("format", device)
    with Server(device, log=tmp_path / "log") as server:
        s3 = clients.s3(server.url)
        s3.create_bucket(Bucket="data")
        body = seeds.blob(71, "large", 20 * MIB)
        with pytest.raises(ClientError):
            s3.put_object(Bucket="data", Key="large", Body=body)
        resize(64 * MIB)
        os.kill(server.pid, signal.SIGHUP)
        end = time.monotonic() + 30
        while "has grown from 16 MiB to 64 MiB" not in server.log_path.read_text():
            assert time.monotonic() < end, server.log_path.read_text()
            time.sleep(0.1)
        s3.put_object(Bucket="data", Key="large", Body=body)
        assert s3.get_object(Bucket="data", Key="large")["Body"].read() == body
        assert server.stop() == 0
    koine("check", device)
