"""The log of writes, and from it the device as a power cut would have left it.

By hand:  python -m power_loss.writelog LOG list
          python -m power_loss.writelog LOG image OUT --flush N [--seed S]

An image has every write up to the N-th flush (counted from 1; 0 is the start), and with a seed a random legal part of
the writes up to the next: each kept, dropped or torn at 512 bytes, in any order. The device was all zeros at first.
"""

import argparse
import os
import random
import struct
from dataclasses import dataclass

MAGIC = 0x6A736677736872
FLUSH, FUA, DISCARD, MARK = 1, 2, 4, 8
UNIT = 512


@dataclass(frozen=True)
class Entry:
    """One write, flush or discard."""

    number: int
    offset: int
    length: int
    flags: int
    data_at: int

    @property
    def changes(self):
        return self.length > 0


def entry_count(path):
    """How many entries are in the log for certain; it is brought up to date at each flush."""
    with open(path, "rb") as log:
        return _header(log)[0]


def _header(log):
    magic, version, count, sector = struct.unpack("<QQQI", log.read(28))
    if magic != MAGIC or version != 1:
        raise ValueError(f"{log.name} is not a log of writes")
    return count, sector


def entries(path):
    with open(path, "rb") as log:
        count, sector = _header(log)
        at = sector
        for number in range(count):
            log.seek(at)
            start, sectors, flags, data = struct.unpack("<QQQQ", log.read(32))
            at += sector
            yield Entry(number, start * sector, sectors * sector, flags, at)
            at += (0 if flags & DISCARD else sectors * sector) + (data if flags & MARK else 0)


class Images:
    """Builds the images after one flush after another, going forward only."""

    def __init__(self, log, scratch, size):
        """`scratch` is a file for what is durable at the flush reached."""
        self.log = open(log, "rb")  # noqa: SIM115: closed with this object
        self.entries = list(entries(log))
        self.flushes = [index for index, entry in enumerate(self.entries) if entry.flags & FLUSH]
        self.scratch = scratch
        self.size = size
        self.reached = 0
        with open(scratch, "wb") as out:
            out.truncate(size)

    def close(self):
        self.log.close()

    def flush_entry(self, flush):
        """The number of the entry that is the n-th flush; that many entries went before it."""
        return self.entries[self.flushes[flush - 1]].number if flush else 0

    def _after(self, flush):
        """The index of the first entry after the n-th flush. A flush may carry a write, durable with it only by FUA."""
        return self.flushes[flush - 1] if flush else 0

    def advance(self, flush):
        """Makes everything before the n-th flush durable."""
        with open(self.scratch, "r+b") as out:
            for entry in self.entries[self.reached : self._after(flush)]:
                self._apply(out, entry)
        self.reached = self._after(flush)

    def build(self, out, seed=None):
        """Writes the image at the flush reached; with a seed, with a part of what follows up to the next flush."""
        _copy_sparse(self.scratch, out)
        if seed is None:
            return 0
        chance = random.Random(seed)
        following = next((index for index in self.flushes if index > self.reached), len(self.entries))
        pending = [entry for entry in self.entries[self.reached : following] if entry.changes]
        chance.shuffle(pending)
        with open(out, "r+b") as image:
            for entry in pending:
                fate = "kept" if entry.flags & FUA else chance.choice(["kept", "dropped", "torn"])
                if fate == "kept":
                    self._apply(image, entry)
                elif fate == "torn":
                    self._apply(image, entry, lambda: chance.random() < 0.5)
        return len(pending)

    def _apply(self, out, entry, keep=None):
        """Does what the entry did; where `keep` is given, only the units for which it says so."""
        if not entry.changes:
            return
        if entry.flags & DISCARD:
            data = bytes(entry.length)
        else:
            self.log.seek(entry.data_at)
            data = self.log.read(entry.length)
        if keep is None:
            out.seek(entry.offset)
            out.write(data)
            return
        for at in range(0, entry.length, UNIT):
            if keep():
                out.seek(entry.offset + at)
                out.write(data[at : at + UNIT])


def _copy_sparse(source, target):
    """Copies a file, leaving holes where it has holes."""
    with open(source, "rb") as read, open(target, "wb") as write:
        end = os.fstat(read.fileno()).st_size
        write.truncate(end)
        at = 0
        while at < end:
            try:
                at = os.lseek(read.fileno(), at, os.SEEK_DATA)
            except OSError:
                return
            hole = os.lseek(read.fileno(), at, os.SEEK_HOLE)
            while at < hole:
                at += os.copy_file_range(read.fileno(), write.fileno(), hole - at, at, at)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("log")
    sub = parser.add_subparsers(dest="do", required=True)
    sub.add_parser("list")
    image = sub.add_parser("image")
    image.add_argument("out")
    image.add_argument("--flush", type=int, required=True)
    image.add_argument("--seed", type=int)
    options = parser.parse_args()
    every = list(entries(options.log))
    if options.do == "list":
        written = sum(entry.length for entry in every if not entry.flags & DISCARD)
        flushes = sum(bool(entry.flags & FLUSH) for entry in every)
        print(f"{len(every)} entries, {flushes} flushes, {written} bytes written")
        return
    size = max((entry.offset + entry.length for entry in every), default=0)
    images = Images(options.log, f"{options.out}.durable", size)
    images.advance(options.flush)
    images.build(options.out, options.seed)


if __name__ == "__main__":
    main()
