"""The real server under power cuts: what it acknowledged is there, whole, whenever the power went.

Clients put, overwrite and delete objects while every write and flush of the server is recorded. Then the store is
rebuilt as a cut could have left it, at 50 flushes (500 in the full tier) with a random part of the writes after each; `koine check`
must find it sound, and a server on it must serve every object as it was last acknowledged, or as a request
that was under way at that moment made it.
"""

import hashlib
import os
import random
import threading
from concurrent.futures import ThreadPoolExecutor

import botocore.exceptions
import pytest
from harness import clients
from harness.server import Server, koine
from power_loss import recorder, writelog

SIZE = 192 << 20
WORKERS = 4
FULL = os.environ.get("KOINE_TEST_FULL") == "1"
POINTS = 500 if FULL else 50
CHANGES = 900 if FULL else 100
BUCKET = "power"

pytestmark = pytest.mark.skipif(recorder.missing() is not None, reason=str(recorder.missing()))


class History:
    """What was done to each key and when, in entries of the log of writes."""

    def __init__(self, log):
        self.log = log
        self.lock = threading.Lock()
        # key -> list of [digest or None for absent, entries when it began, entries when it was acknowledged or None]
        self.keys = {}

    def begin(self, key, digest):
        change = [digest, writelog.entry_count(self.log), None]
        with self.lock:
            self.keys.setdefault(key, []).append(change)
        return change

    def acknowledged(self, change):
        # The flush that made it durable is among these entries.
        change[2] = writelog.entry_count(self.log)

    def allowed(self, key, entries):
        """The digests (None: absent) that a key may have when the first `entries` entries are certain."""
        last, later = None, []
        for digest, began, done in self.keys[key]:
            if done is not None and done <= entries:
                last, later = digest, []
            else:
                later.append(digest)
        return {last, *later}


def change_objects(client, history, worker):
    """Puts, overwrites and deletes keys that no other worker touches."""
    chance = random.Random(worker)
    for number in range(CHANGES):
        key = f"worker-{worker}/object {chance.randrange(12)}"
        if chance.random() < 0.2:
            change = history.begin(key, None)
            client.delete_object(Bucket=BUCKET, Key=key)
        else:
            size = chance.choice([1, 700, 4096, 20_000, 33_000, 150_000, 900_000])
            body = random.Random((worker << 32) | number).randbytes(size)
            change = history.begin(key, hashlib.sha256(body).hexdigest())
            client.put_object(Bucket=BUCKET, Key=key, Body=body)
        history.acknowledged(change)


def join_parts(client, history):
    """One object from three parts."""
    parts = [random.Random(part).randbytes(5 << 20) for part in range(2)] + [b"the end"]
    change = history.begin("joined", hashlib.sha256(b"".join(parts)).hexdigest())
    upload = client.create_multipart_upload(Bucket=BUCKET, Key="joined")["UploadId"]
    done = []
    for number, body in enumerate(parts, 1):
        answer = client.upload_part(Bucket=BUCKET, Key="joined", UploadId=upload, PartNumber=number, Body=body)
        done.append({"PartNumber": number, "ETag": answer["ETag"]})
    client.complete_multipart_upload(Bucket=BUCKET, Key="joined", UploadId=upload, MultipartUpload={"Parts": done})
    history.acknowledged(change)


def digest_of(client, key):
    try:
        return hashlib.sha256(client.get_object(Bucket=BUCKET, Key=key)["Body"].read()).hexdigest()
    except botocore.exceptions.ClientError as error:
        if error.response["Error"]["Code"] in ("NoSuchKey", "NoSuchBucket"):
            return None
        raise


def test_acknowledged_objects_survive_power_cuts(tmp_path):
    with recorder.Recorder(tmp_path / "power", SIZE) as power:
        koine("format", power.device)
        with Server(power.device, log=tmp_path / "recorded.log") as running:
            client = clients.s3(running.url)
            client.create_bucket(Bucket=BUCKET)
            history = History(power.log)
            with ThreadPoolExecutor(WORKERS + 1) as pool:
                work = [pool.submit(change_objects, clients.s3(running.url), history, worker) for worker in range(WORKERS)]
                work.append(pool.submit(join_parts, clients.s3(running.url), history))
                for job in work:
                    job.result()
            running.kill()

    images = writelog.Images(power.log, tmp_path / "durable", SIZE)
    assert len(images.flushes) > POINTS
    chance = random.Random(20)
    # The bucket is there from the first change on.
    first = next(n for n in range(1, len(images.flushes) + 1) if images.flush_entry(n) >= history.keys["joined"][0][1])
    flushes = sorted(chance.sample(range(first, len(images.flushes) + 1), POINTS))
    in_doubt = 0
    with ThreadPoolExecutor(2) as pool:
        looks = []
        for flush in flushes:
            images.advance(flush)
            store = tmp_path / f"store-{flush}"
            in_doubt += images.build(store, seed=flush)
            looks.append(pool.submit(look, store, history, flush, images.flush_entry(flush) + 1))
            # Only a few images lie about at any time.
            for job in looks[:-3]:
                job.result()
        dropped = sum(job.result() for job in looks)
    images.close()
    assert in_doubt > 0, "some cut fell between a write and its flush"
    assert dropped > 0, "some cut fell before the last change of a key"


def look(store, history, flush, certain):
    """Opens an image and holds it against what was acknowledged. Gives how many keys are not as they were at the end."""
    koine("check", store)
    dropped = 0
    with Server(store) as running:
        client = clients.s3(running.url)
        for key in history.keys:
            found, allowed = digest_of(client, key), history.allowed(key, certain)
            assert found in allowed, f"{key} after flush {flush} (log {history.log}, seed {flush})"
            dropped += found != history.keys[key][-1][0]
    koine("check", store)
    store.unlink()
    return dropped


def put(client, number):
    """Puts an object of its own; None where the server refuses."""
    body = random.Random(number).randbytes(chance_of_length(number))
    try:
        client.put_object(Bucket=BUCKET, Key=f"object {number}", Body=body)
    except (botocore.exceptions.ClientError, botocore.exceptions.BotoCoreError):
        return None
    return body


def chance_of_length(number):
    return [10, 5_000, 40_000, 300_000][number % 4]


@pytest.mark.parametrize("once", [True, False], ids=["once", "for ever"])
def test_a_failed_flush_stops_writes_until_the_store_is_opened_again(tmp_path, once):
    rules = recorder.failing_flush(40, once)
    with recorder.Recorder(tmp_path / "power", SIZE, rules) as power:
        koine("format", power.device)
        with Server(power.device, log=tmp_path / "recorded.log") as running:
            client = clients.s3(running.url)
            client.create_bucket(Bucket=BUCKET)
            kept, number = {}, 0
            while (body := put(client, number)) is not None:
                kept[f"object {number}"] = body
                number += 1
                assert number < 100, "the flush that fails is reached"
            assert all(put(client, later) is None for later in range(number + 1, number + 4)), "no write is taken after it"
            for key, body in kept.items():
                try:
                    assert client.get_object(Bucket=BUCKET, Key=key)["Body"].read() == body
                except botocore.exceptions.ClientError as error:
                    assert error.response["ResponseMetadata"]["HTTPStatusCode"] >= 500, "an answer is right or an error"
            # Whoever closes the file flushes it, as the recorder does when it ends: nobody can count on that.
            certain = writelog.entry_count(power.log)
            running.kill()
    assert len(kept) > 5

    images = writelog.Images(power.log, tmp_path / "durable", SIZE)
    images.advance(sum(images.flush_entry(flush) < certain for flush in range(1, len(images.flushes) + 1)))
    in_doubt = 0
    for seed in [None, 1, 2, 3, 4]:
        store = tmp_path / "store"
        in_doubt += images.build(store, seed)
        koine("check", store)
        with Server(store) as running:
            client = clients.s3(running.url)
            for key, body in kept.items():
                assert client.get_object(Bucket=BUCKET, Key=key)["Body"].read() == body, f"{key}, seed {seed}"
            assert put(client, 1_000) is not None
        koine("check", store)
    images.close()
    assert in_doubt > 0, "the flush that failed left something in doubt"
