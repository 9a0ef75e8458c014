"""Puts objects and reads them three times, the last time measured, as `koine bench object python` does in Rust.

Arguments: store, bytes of an object (whole MiB), bytes in all, bytes of memory for the store. Prints MB/s of both as JSON.
"""

import json
import mmap
import sys
import time

import koine

PIECE = 1 << 20

path, size, total, memory = sys.argv[1], int(sys.argv[2]), int(sys.argv[3]), int(sys.argv[4])
keys = [f"{number:09}" for number in range(max(1, total // size))]
payload = bytearray(PIECE)
for at in range(PIECE):
    payload[at] = at * 31 % 251
payload = bytes(payload)
piece = memoryview(payload)
# In huge pages, as numpy has large arrays and Rust's side of the benchmark its buffers: else the memory is what is measured.
pages = mmap.mmap(-1, total)
pages.madvise(mmap.MADV_HUGEPAGE)
buffer = memoryview(pages)
buffer[:] = b"\1" * total


def put(bucket, key):
    if size == PIECE:
        bucket.put(key, piece)
        return
    with bucket.open(key, "wb") as file:
        for _ in range(size // PIECE):
            file.write(piece)


def read(bucket, key, at):
    if size == PIECE:
        return bucket.get_into(key, buffer[at : at + size])
    count = 0
    with bucket.open(key, "rb") as file:
        while count < size:
            count += file.readinto(buffer[at + count : at + count + PIECE])
    return count


def rate(act):
    begun = time.perf_counter()
    for number, key in enumerate(keys):
        act(key, number * size)
    return len(keys) * size / 1e6 / (time.perf_counter() - begun)


with koine.connect(path, create=True, memory=memory) as session:
    bucket = session.create_bucket("bench")
    put_rate = rate(lambda key, at: put(bucket, key))
    for _ in range(2):
        rate(lambda key, at: read(bucket, key, at))
    read_rate = rate(lambda key, at: read(bucket, key, at))
    assert buffer[size - PIECE : size] == payload
print(json.dumps({"put": put_rate, "get": read_rate}))
