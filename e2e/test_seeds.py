"""The data generator itself: repeatable, and shaped like a source tree."""

import hashlib
import statistics

from harness import seeds


def test_the_same_seed_gives_the_same_tree(tmp_path):
    first = seeds.make_tree(tmp_path / "a", seed=7, files=300)
    assert first == seeds.digest_tree(tmp_path / "a")
    assert first == seeds.make_tree(tmp_path / "b", seed=7, files=300)
    other = seeds.make_tree(tmp_path / "c", seed=8, files=300)
    assert set(first.values()) & set(other.values()) <= {hashlib.sha256(b"").hexdigest()}


def test_the_seed_fixes_the_bytes_for_ever(tmp_path):
    listing = "\n".join(f"{path} {size}" for path, size in seeds.plan(seed=1, files=1000))
    assert hashlib.sha256(listing.encode()).hexdigest() == "a508f5465f83b70b77962dc00c59e9d8658d3d24e0abb0c99d65fc81071764bf"
    assert seeds.make_file(tmp_path / "file", seed=1, size=3_000_000) == "bf56e76bacbdab3a288496f211596e3ee9b6c86631e9a1309dbf949258766488"


def test_sizes_are_those_of_a_source_tree():
    sizes = [size for _, size in seeds.plan(seed=1, files=20_000)]
    assert 2_000 < statistics.median(sizes) < 5_000
    assert 100 < sizes.count(0) < 1_000
    assert sum(size < 10_000 for size in sizes) > 14_000
    assert max(sizes) > 300_000
    assert 100 << 20 < sum(sizes) < 300 << 20


def test_names_are_hard_enough():
    names = [path for path, _ in seeds.plan(seed=1, files=2_000)]
    assert len(set(names)) == 2_000
    assert any(" " in name for name in names) and any("+" in name for name in names)
    assert any(not name.isascii() for name in names)
    assert max(name.count("/") for name in names) >= 3
