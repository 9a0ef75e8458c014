"""`kill -9` in the middle of a load: every acknowledged object is there, whole, and the store is sound."""

import hashlib
import random
import subprocess
import threading
import time

import pytest

from harness import clients, seeds
from harness.server import Server, koine

WRITERS = 8
PART = 5 << 20


class Load:
    """Writers that note an outcome only after the server acknowledged it."""

    def __init__(self, url, seed):
        self.s3 = clients.s3(url, retries={"max_attempts": 0})
        self.seed = seed
        self.acknowledged = {}
        self.answers = 0
        self.maybe = {}
        self.lock = threading.Lock()
        self.threads = [threading.Thread(target=self.write, args=(number,)) for number in range(WRITERS)]
        for thread in self.threads:
            thread.start()

    def write(self, writer):
        rng = random.Random(f"{self.seed} {writer}")
        for turn in range(100_000):
            # Few names, so that objects are overwritten and deleted as well.
            key = f"{writer}/{rng.randrange(40)}"
            try:
                self.one(key, turn, rng)
            except Exception:
                # The server died under this call: its outcome is unknown, both are right.
                return

    def one(self, key, turn, rng):
        kind = rng.random()
        if kind < 0.15:
            digest = None
            self.note_maybe(key, digest)
            self.s3.delete_object(Bucket="load", Key=key)
        elif kind < 0.2:
            bodies = [seeds.blob(self.seed, f"{key} {turn} {n}", size) for n, size in enumerate([PART, 1000])]
            digest = hashlib.sha256(b"".join(bodies)).hexdigest()
            upload = self.s3.create_multipart_upload(Bucket="load", Key=key)["UploadId"]
            where = {"Bucket": "load", "Key": key, "UploadId": upload}
            etags = [self.s3.upload_part(PartNumber=n, Body=body, **where)["ETag"] for n, body in enumerate(bodies, 1)]
            parts = [{"PartNumber": n, "ETag": etag} for n, etag in enumerate(etags, 1)]
            self.note_maybe(key, digest)
            self.s3.complete_multipart_upload(MultipartUpload={"Parts": parts}, **where)
        else:
            size = rng.choice([0, 100, 900, 5_000, 40_000, 300_000, 2_000_000])
            body = seeds.blob(self.seed, f"{key} {turn}", size)
            digest = hashlib.sha256(body).hexdigest()
            self.note_maybe(key, digest)
            self.s3.put_object(Bucket="load", Key=key, Body=body)
        with self.lock:
            self.acknowledged[key] = digest
            self.answers += 1
            del self.maybe[key]

    def note_maybe(self, key, digest):
        with self.lock:
            self.maybe[key] = digest

    def threads_alive(self):
        return any(thread.is_alive() for thread in self.threads)

    def join(self):
        for thread in self.threads:
            thread.join()

    def verify(self, s3):
        """Compares every name with what was acknowledged, or with what was under way."""
        found = {}
        for page in s3.get_paginator("list_objects_v2").paginate(Bucket="load"):
            for entry in page.get("Contents", []):
                body = s3.get_object(Bucket="load", Key=entry["Key"])["Body"].read()
                found[entry["Key"]] = hashlib.sha256(body).hexdigest()
        for key in set(self.acknowledged) | set(self.maybe) | set(found):
            right = {self.acknowledged.get(key)}
            if key in self.maybe:
                right.add(self.maybe[key])
            assert found.get(key) in right, f"{key}: {found.get(key)} is none of {right}"


def wait_until(holds):
    """Ends with an error after two minutes: a deadline for what hangs, not a measure."""
    deadline = time.monotonic() + 120
    while not holds():
        assert time.monotonic() < deadline, "nothing happened for two minutes"
        time.sleep(0.01)


def names(s3, bucket):
    pages = s3.get_paginator("list_objects_v2").paginate(Bucket=bucket)
    return [entry["Key"] for page in pages for entry in page.get("Contents", [])]


@pytest.mark.parametrize("seed", range(4))
def test_acknowledged_objects_survive_kill_9(tmp_path, seed):
    store = tmp_path / "store.koine"
    server = Server(store)
    clients.s3(server.url).create_bucket(Bucket="load")
    load = Load(server.url, seed)
    wait_until(lambda: load.answers >= 200 * (seed + 1) or not load.threads_alive())
    server.kill()
    load.join()
    assert len(load.acknowledged) > 20
    koine("check", store)
    with Server(store) as server:
        load.verify(clients.s3(server.url))
        # What is left of unfinished uploads can be given up like any other.
        s3 = clients.s3(server.url)
        for upload in s3.list_multipart_uploads(Bucket="load").get("Uploads", []):
            s3.abort_multipart_upload(Bucket="load", Key=upload["Key"], UploadId=upload["UploadId"])
        assert server.stop() == 0
    koine("check", store)


def test_rclone_finishes_after_kill_9(tmp_path):
    """Real input, interrupted: what rclone was told is there stays there, and a second run completes the rest."""
    store = tmp_path / "store.koine"
    digests = seeds.make_tree(tmp_path / "in", seed=30, files=5_000)
    server = Server(store)
    s3 = clients.s3(server.url)
    rclone = clients.Rclone(server.url, tmp_path)
    rclone("mkdir", "koine:tree")
    copy = ["rclone", "copy", "--transfers", "8", str(tmp_path / "in"), "koine:tree"]
    first = subprocess.Popen(copy, env=rclone.env, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    told = []

    def some_are_in():
        told[:] = names(s3, "tree")
        return len(told) >= 500 or first.poll() is not None

    wait_until(some_are_in)
    server.kill()
    assert first.poll() is None, "the load was over before the server was killed; make the tree larger"
    first.kill()
    first.wait()
    koine("check", store)
    with Server(store) as server:
        assert set(told) <= set(names(clients.s3(server.url), "tree"))
        rclone = clients.Rclone(server.url, tmp_path)
        rclone("copy", "--transfers", 8, tmp_path / "in", "koine:tree")
        rclone("copy", "--transfers", 8, "koine:tree", tmp_path / "out")
        assert seeds.digest_tree(tmp_path / "out") == digests
        assert server.stop() == 0
    koine("check", store)
