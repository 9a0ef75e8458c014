"""What a server takes for itself stays near the budget that it was given; requests under way come on top."""

import json
import threading
from concurrent.futures import ThreadPoolExecutor

from harness import clients
from harness.server import Server, koine

BUDGET = 64 << 20
VALUES = 40_000
BATCH = 250


def own_memory(pid):
    """Anonymous memory of a process in bytes."""
    with open(f"/proc/{pid}/smaps_rollup") as rollup:
        return next(int(line.split()[1]) << 10 for line in rollup if line.startswith("Anonymous:"))


def batch(first, step):
    """Puts of values of 1 KiB that do not repeat, in an order that is none of the keys."""
    numbers = ((first + at) * 7919 % VALUES for at in range(BATCH))
    return "".join(json.dumps({"put": f"key-{number:06}", "value": f"{number:08x}{step:08x}" * 64}) + "\n" for number in numbers)


def test_own_memory_grows_by_about_the_budget(tmp_path):
    path = tmp_path / "store.koine"
    with Server(path, "--memory", "64MiB", "--cache", "0") as server:
        idle = own_memory(server.process.pid)
        peak, samples, over = idle, 0, threading.Event()

        def watch():
            nonlocal peak, samples
            while not over.wait(0.01):
                peak, samples = max(peak, own_memory(server.process.pid)), samples + 1

        watcher = threading.Thread(target=watch)
        watcher.start()
        try:
            # Loaded, and written over once.
            for step in range(2):
                for first in range(0, VALUES, BATCH):
                    lines = tmp_path / "lines"
                    lines.write_text(batch(first, step))
                    koine("kv", "batch", path, "--file", lines)
            # Read in short pieces: an answer under way is memory beside the budget.
            for first in range(0, VALUES, 1_000):
                koine("kv", "scan", path, "--prefix", f"key-{first // 1_000:03}")
        finally:
            over.set()
            watcher.join()
        assert koine("kv", "get", path, "key-000001").stdout == f"{1:08x}{1:08x}" * 64
    print(f"idle {idle >> 20} MiB, at most {peak >> 20} MiB")
    assert samples > 100
    assert peak - idle <= BUDGET * 11 // 10


def test_what_was_read_for_clients_does_not_stay(tmp_path):
    body = bytes(range(256)) * (1 << 18)
    with Server(tmp_path / "store.koine", "--cache", "0") as server:
        client = clients.s3(server.url, max_pool_connections=16)
        client.create_bucket(Bucket="data")

        def move(number):
            client.put_object(Bucket="data", Key=f"key-{number}", Body=body)
            for _ in range(2):
                got = client.get_object(Bucket="data", Key=f"key-{number}")["Body"]
                assert sum(len(piece) for piece in got.iter_chunks(1 << 20)) == len(body)

        with ThreadPoolExecutor(16) as threads:
            list(threads.map(move, range(16)))
        after = own_memory(server.process.pid)
    print(f"afterwards {after >> 20} MiB")
    # A gibibyte was put, and two were got.
    assert after < 300 << 20
