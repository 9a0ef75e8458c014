"""Data from a seed: the same seed always gives the same names and the same bytes.

A tree made here has the shape of a source tree: many small files, a few of hundreds of KiB, some empty, names with
spaces and accents among them, folders a few levels deep.
"""

import hashlib
import random
from pathlib import Path

CHUNK = 1 << 20
SUFFIXES = [".rs", ".c", ".h", ".py", ".md", ".json", ".txt", ".toml", ""]
WORDS = """alloc batch block cache chunk commit cursor delta device engine epoch extent fence flush frame group hash
index journal kernel lease level limit lock merge meta node offset page parse place queue range read ring root scan
seal seek shard slice space stage store table token tree view watch write zone naïve café überblick 数据 sp ace""".split()


def size_of(rng):
    """A size in bytes: median near 3 KiB, a long tail, one file in fifty empty."""
    if rng.random() < 0.02:
        return 0
    return min(int(rng.lognormvariate(8.0, 1.4)), 2 << 20)


def name_of(rng):
    words = rng.sample(WORDS, rng.choice([1, 2, 2, 3]))
    return rng.choice(["_", "_", "_", "-", " ", "+"]).join(words)


def plan(seed, files):
    """The (path, size) pairs of a tree, in order, without making it."""
    rng = random.Random(f"tree {seed}")
    folders = [""]
    entries = {}
    while len(entries) < files:
        if rng.random() < 0.06:
            parent = rng.choice(folders)
            if parent.count("/") < 6:
                folders.append(f"{parent}{name_of(rng)}.d{len(folders)}/")
        path = f"{rng.choice(folders)}{name_of(rng)}{rng.choice(SUFFIXES)}"
        if path not in entries:
            entries[path] = size_of(rng)
    return list(entries.items())


def content(seed, name, size):
    """The bytes of one file, in chunks."""
    rng = random.Random(f"content {seed} {name}")
    while size > 0:
        length = min(size, CHUNK)
        yield rng.randbytes(length)
        size -= length


def blob(seed, name, size):
    return b"".join(content(seed, name, size))


def make_file(path, seed, size):
    """Writes one file and returns its SHA-256."""
    digest = hashlib.sha256()
    with open(path, "wb") as file:
        for chunk in content(seed, Path(path).name, size):
            digest.update(chunk)
            file.write(chunk)
    return digest.hexdigest()


def make_tree(folder, seed, files):
    """Writes a tree; returns {path: SHA-256}."""
    folder = Path(folder)
    digests = {}
    for name, size in plan(seed, files):
        path = folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        data = blob(seed, name, size)
        path.write_bytes(data)
        digests[name] = hashlib.sha256(data).hexdigest()
    return digests


def digest_file(path):
    digest = hashlib.sha256()
    with open(path, "rb") as file:
        while chunk := file.read(CHUNK):
            digest.update(chunk)
    return digest.hexdigest()


def digest_tree(folder):
    """{path: SHA-256} of every file below a folder."""
    folder = Path(folder)
    return {str(path.relative_to(folder)): digest_file(path) for path in folder.rglob("*") if path.is_file()}
