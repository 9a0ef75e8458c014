"""The recorder of power cuts itself: what it records is what was written, and its images are those a cut allows."""

import mmap
import os

import pytest
from power_loss import recorder, writelog

SIZE = 8 << 20
pytestmark = pytest.mark.skipif(recorder.missing() is not None, reason=str(recorder.missing()))


def block(byte):
    """4 KiB of one byte at an address that direct I/O takes."""
    memory = mmap.mmap(-1, 4096)
    memory.write(bytes([byte]) * 4096)
    return memory


def test_images_hold_what_was_flushed_and_some_of_the_rest(tmp_path):
    with recorder.Recorder(tmp_path / "power", SIZE) as power:
        device = os.open(power.device, os.O_RDWR | os.O_DIRECT)
        os.pwrite(device, block(1), 0)
        os.fdatasync(device)
        first = writelog.entry_count(power.log)
        os.pwrite(device, block(2), 4096)
        os.pwrite(device, block(3), 8192)
        os.fdatasync(device)
        os.pwrite(device, block(4), 0)
        os.close(device)

    images = writelog.Images(power.log, tmp_path / "durable", SIZE)
    at_first = next(n for n in range(len(images.flushes) + 1) if n and images.flush_entry(n) < first <= images.flush_entry(n) + 1)
    images.advance(at_first)
    seen = set()
    for seed in [None, *range(40)]:
        images.build(tmp_path / "image", seed)
        content = (tmp_path / "image").read_bytes()
        assert len(content) == SIZE
        assert content[:4096] == bytes([1]) * 4096
        assert set(content[4096:8192]) <= {0, 2} and set(content[8192:12288]) <= {0, 3}
        seen.add((content[4096:8192], content[8192:12288]))
    assert (bytes(4096), bytes(4096)) in seen, "nothing of it"
    assert (bytes([2]) * 4096, bytes(4096)) in seen, "only one"
    assert (bytes(4096), bytes([3]) * 4096) in seen, "only the other, which was written later"
    assert any(0 in one and 2 in one for one, _ in seen), "torn"
    images.advance(len(images.flushes))
    images.build(tmp_path / "image")
    assert (tmp_path / "image").read_bytes()[4096] == 2
    images.close()
