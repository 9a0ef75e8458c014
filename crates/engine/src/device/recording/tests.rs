//! Tests of the recorder: which images a cut allows, and that all of them come up.

use std::collections::BTreeSet;

use super::*;
use crate::device::pass_on;
use crate::device::{BLOCK_LEN, MemoryDevice};

const B: u64 = BLOCK_LEN as u64;

fn block(byte: u8) -> Vec<u8> {
    vec![byte; BLOCK_LEN]
}

fn recorder(blocks: usize) -> RecordingDevice<MemoryDevice> {
    RecordingDevice::new(MemoryDevice::growable(blocks * BLOCK_LEN, 1 << 20)).unwrap()
}

/// The first byte of each unit of 512 bytes.
fn units(image: &[u8]) -> Vec<u8> {
    image.iter().copied().step_by(512).collect()
}

#[test]
fn synced_writes_are_in_every_image_and_later_ones_in_some() {
    let device = recorder(2);
    device.write_at(&block(1), 0).unwrap();
    device.sync().unwrap();
    device.mark(77);
    device.write_at(&block(2), B).unwrap();
    let recording = device.recording();
    assert_eq!(recording.syncs(), [4]);
    assert_eq!(recording.marks_before(4).count(), 0);
    assert_eq!(recording.marks_before(recording.len()).collect::<Vec<_>>(), [77]);

    let mut walker = recording.images(1);
    assert_eq!(walker.durable().to_vec(), vec![0; 2 * BLOCK_LEN]);
    walker.advance(recording.len());
    assert_eq!((walker.in_doubt(), walker.durable().to_vec()), (1, [block(1), block(0)].concat()));
    let (mut torn, mut all, mut none) = (0, 0, 0);
    for seed in 0..200 {
        let image = walker.partial(seed).to_vec();
        assert_eq!(image, walker.partial(seed).to_vec(), "the same seed gives the same image");
        assert_eq!(image[..BLOCK_LEN], block(1)[..]);
        let units = units(&image[BLOCK_LEN..]);
        assert!(units.iter().all(|unit| [0, 2].contains(unit)));
        match units.iter().filter(|unit| **unit == 2).count() {
            0 => none += 1,
            8 => all += 1,
            _ => torn += 1,
        }
    }
    assert!(torn > 0 && all > 0 && none > 0, "{torn} torn, {all} whole, {none} dropped");
}

#[test]
fn a_write_that_was_begun_has_returned_when_it_was_waited_for() {
    let filled = |byte| {
        let mut buffer = AlignedBuffer::zeroed(BLOCK_LEN);
        buffer.fill(byte);
        buffer
    };
    let device = recorder(2);
    let early = device.begin_write(filled(1), 0);
    let late = device.begin_write(filled(2), B);
    early.wait().1.unwrap();
    device.sync().unwrap();
    late.wait().1.unwrap();
    let recording = device.recording();
    let mut walker = recording.images(1);
    walker.advance(recording.len());
    assert_eq!((walker.in_doubt(), walker.durable().to_vec()), (1, [block(1), block(0)].concat()));
}

#[test]
fn before_a_sync_nothing_is_certain_and_order_is_free() {
    let device = recorder(1);
    device.write_at(&block(1), 0).unwrap();
    device.write_at(&block(2), 0).unwrap();
    let recording = device.recording();
    let mut walker = recording.images(0);
    walker.advance(recording.len());
    let seen: BTreeSet<Vec<u8>> = (0..300).map(|seed| units(&walker.partial(seed).to_vec())).collect();
    for whole in [0, 1, 2] {
        assert!(seen.contains(&vec![whole; 8]), "the older write may win, the newer too, or neither");
    }
    assert!(seen.iter().any(|units| units.contains(&1) && units.contains(&2)));
}

/// A device whose sync waits until it is told to go on.
struct Gate {
    inner: MemoryDevice,
    steps: std::sync::Barrier,
}

impl Device for Gate {
    pass_on!(inner: len, grow, holds, read_at, write_at);

    fn sync(&self) -> io::Result<()> {
        self.steps.wait();
        self.steps.wait();
        Ok(())
    }
    fn discard(&self, _: u64, _: u64) -> io::Result<()> {
        Ok(())
    }
    fn close(&self) -> io::Result<()> {
        Ok(())
    }
    fn is_fixed(&self) -> bool {
        true
    }
}

#[test]
fn a_write_beside_a_sync_is_not_made_durable_by_it() {
    let gate = Gate { inner: MemoryDevice::fixed(2 * BLOCK_LEN), steps: std::sync::Barrier::new(2) };
    let device = RecordingDevice::new(gate).unwrap();
    device.write_at(&block(1), 0).unwrap();
    std::thread::scope(|scope| {
        scope.spawn(|| device.sync().unwrap());
        device.inner().steps.wait();
        device.write_at(&block(2), B).unwrap();
        device.inner().steps.wait();
    });
    let recording = device.recording();
    let mut walker = recording.images(0);
    walker.advance(recording.syncs()[0]);
    assert_eq!((walker.in_doubt(), walker.durable().to_vec()), (1, [block(1), block(0)].concat()));
}

#[test]
fn growth_and_discards_are_in_doubt_like_writes() {
    let device = recorder(1);
    device.write_at(&block(9), 0).unwrap();
    device.sync().unwrap();
    device.grow(2 * B).unwrap();
    device.write_at(&block(3), B).unwrap();
    device.discard(0, B).unwrap();
    let recording = device.recording();
    let mut walker = recording.images(0);
    walker.advance(recording.len());
    let images: Vec<Vec<u8>> = (0..200).map(|seed| walker.partial(seed).to_vec()).collect();
    assert!(images.iter().any(|image| image.len() == BLOCK_LEN));
    assert!(images.iter().any(|image| image.len() == 2 * BLOCK_LEN && image[BLOCK_LEN] == 3));
    assert!(images.iter().any(|image| image.len() == 2 * BLOCK_LEN && image[BLOCK_LEN] == 0));
    for byte in [0, 9] {
        assert!(images.iter().any(|image| image[..BLOCK_LEN] == block(byte)[..]), "discarded or not");
    }
    device.sync().unwrap();
    let recording = device.recording();
    let discarded: BTreeSet<u8> = (0..20)
        .map(|seed| {
            let mut walker = recording.images(seed);
            walker.advance(recording.len());
            assert_eq!((walker.in_doubt(), walker.durable().len()), (0, 2 * BLOCK_LEN));
            walker.durable().to_vec()[0]
        })
        .collect();
    assert_eq!(discarded, BTreeSet::from([0, 9]), "also a durable discard is only a hint");
}

#[test]
fn a_change_that_failed_stays_in_doubt() {
    use crate::device::{Call, Fault, FaultyDevice, Times, Trouble};
    let plan = vec![Fault { call: Call::Write, nth: 1, times: Times::Once, trouble: Trouble::Error }];
    let device = RecordingDevice::new(FaultyDevice::new(MemoryDevice::fixed(BLOCK_LEN), plan, 0)).unwrap();
    device.write_at(&block(1), 0).unwrap_err();
    device.sync().unwrap();
    let recording = device.recording();
    let mut walker = recording.images(0);
    walker.advance(recording.len());
    assert_eq!(walker.in_doubt(), 1);
}
