"""Kept images of stores, and superblocks changed by hand with the right checksum (docs/format.md)."""

import struct
from pathlib import Path

BLOCK = 4096
SLOTS = [0, 128 * BLOCK]
GOLDEN = Path(__file__).parents[2] / "crates/engine/tests/golden"


def golden(name, path):
    """Writes a kept image out as a store; crates/engine/tests/golden/image.rs tells its form."""
    data = (GOLDEN / f"{name}.image").read_bytes()
    assert data[:8] == b"KOINEIMG"
    (length,) = struct.unpack_from("<Q", data, 8)
    with open(path, "wb") as file:
        file.truncate(length)
        at = 16
        while at < len(data):
            number, form, count = struct.unpack_from("<IBH", data, at)
            file.seek(number * BLOCK)
            file.write(_unpack(data[at + 7 : at + 7 + count], form))
            at += 7 + count
    return path


def _unpack(data, form):
    block, at = bytearray(), 0
    while at < len(data):
        (run,) = struct.unpack_from("<H", data, at)
        count, repeated = run & 0x7FFF, run & 0x8000
        block += data[at + 2 : at + 3] * count if repeated else data[at + 2 : at + 2 + count]
        at += 3 if repeated else 2 + count
    block += bytes(BLOCK - len(block))
    for at in range(256, BLOCK if form else 0):
        block[at] = (block[at] + block[at - 256]) & 0xFF
    return block


def crc64(data):
    """CRC-64/NVME."""
    crc = 0xFFFFFFFFFFFFFFFF
    for byte in data:
        crc ^= byte
        for _ in range(8):
            crc = crc >> 1 ^ (0x9A6C9329AC4BC9B5 if crc & 1 else 0)
    return crc ^ 0xFFFFFFFFFFFFFFFF


def change_superblocks(store, offset, data):
    """Puts these bytes into both superblocks, and the checksums that belong to them."""
    with open(store, "r+b") as file:
        for slot in SLOTS:
            file.seek(slot)
            block = bytearray(file.read(BLOCK))
            block[offset : offset + len(data)] = data
            block[16:24] = bytes(8)
            block[16:24] = struct.pack("<Q", crc64(block))
            file.seek(slot)
            file.write(block)
