//! Tests of every trouble that a plan can name.

use super::*;
use crate::device::MemoryDevice;

const B: u64 = BLOCK_LEN as u64;

fn device(plan: &[(Call, u64, Times, Trouble)]) -> FaultyDevice<MemoryDevice> {
    let plan = plan.iter().map(|&(call, nth, times, trouble)| Fault { call, nth, times, trouble }).collect();
    FaultyDevice::new(MemoryDevice::growable(4 * BLOCK_LEN, 1 << 20), plan, 42)
}

fn block(byte: u8) -> Vec<u8> {
    vec![byte; BLOCK_LEN]
}

fn read(device: &impl Device, offset: u64) -> Vec<u8> {
    let mut buffer = block(0xEE);
    device.read_at(&mut buffer, offset, ReadMode::Cached).unwrap();
    buffer
}

#[test]
fn fails_once_or_for_ever_at_the_call_named() {
    let once = device(&[(Call::Read, 2, Times::Once, Trouble::Error)]);
    let outcomes = |device: &FaultyDevice<MemoryDevice>| -> Vec<bool> {
        (0..4).map(|_| device.read_at(&mut [0], 0, ReadMode::Cached).is_ok()).collect()
    };
    assert_eq!(outcomes(&once), [true, false, true, true]);
    let forever = device(&[(Call::Read, 2, Times::Forever, Trouble::Error)]);
    assert_eq!(outcomes(&forever), [true, false, false, false]);
    forever.set_plan(Vec::new());
    assert_eq!(outcomes(&forever), [true; 4]);
    assert_eq!(forever.calls(), Calls { reads: 8, ..Calls::default() });
}

#[test]
fn tears_loses_and_misdirects_writes() {
    let torn = device(&[(Call::Write, 1, Times::Once, Trouble::Torn)]);
    torn.write_at(&block(5), 0).unwrap_err();
    let content = read(&torn, 0);
    let new = content.chunks(512).filter(|unit| unit.iter().all(|byte| *byte == 5)).count();
    let old = content.chunks(512).filter(|unit| unit.iter().all(|byte| *byte == 0)).count();
    assert!(new > 0 && old > 0 && new + old == 8, "{new} new, {old} old");

    let lost = device(&[(Call::Write, 1, Times::Once, Trouble::Lost)]);
    lost.write_at(&block(5), 0).unwrap();
    assert_eq!(read(&lost, 0), block(0));
    lost.write_at(&block(6), 0).unwrap();
    assert_eq!(read(&lost, 0), block(6));

    let misdirected = device(&[(Call::Write, 1, Times::Once, Trouble::Misdirected(2 * B))]);
    misdirected.write_at(&block(5), 0).unwrap();
    assert_eq!((read(&misdirected, 0), read(&misdirected, 2 * B)), (block(0), block(5)));
}

#[test]
fn gives_wrong_and_stale_bytes() {
    let wrong = device(&[(Call::Read, 1, Times::Forever, Trouble::WrongByte { offset: B + 3, mask: 0x10 })]);
    assert_eq!(read(&wrong, 0), block(0));
    let content = read(&wrong, B);
    assert_eq!((content[2], content[3], content[4]), (0, 0x10, 0));

    let stale = device(&[(Call::Read, 2, Times::Once, Trouble::Stale)]);
    stale.write_at(&block(1), 0).unwrap();
    stale.write_at(&[block(2), block(3)].concat(), 0).unwrap();
    assert_eq!(read(&stale, 0), block(2));
    let mut two = vec![0xEE; 2 * BLOCK_LEN];
    stale.read_at(&mut two, 0, ReadMode::Direct).unwrap();
    assert_eq!(two, [block(1), block(0)].concat());
    assert_eq!(read(&stale, B), block(3));
}

#[test]
fn is_full_beyond_a_length() {
    let trouble = Trouble::FullBeyond(2 * B);
    let full = device(&[(Call::Grow, 1, Times::Forever, trouble), (Call::Write, 1, Times::Forever, trouble)]);
    assert_eq!(full.grow(8 * B).unwrap_err().kind(), io::ErrorKind::StorageFull);
    full.write_at(&block(1), B).unwrap();
    assert_eq!(full.write_at(&block(1), 2 * B).unwrap_err().kind(), io::ErrorKind::StorageFull);
    assert_eq!(full.len().unwrap(), 4 * B);
}

#[test]
fn a_failed_sync_leaves_only_what_was_synced_before_certain() {
    let mut undone = 0;
    for seed in 0..40 {
        let plan = vec![Fault { call: Call::Sync, nth: 2, times: Times::Once, trouble: Trouble::Error }];
        let device = FaultyDevice::new(MemoryDevice::fixed(4 * BLOCK_LEN), plan, seed);
        device.write_at(&block(1), 0).unwrap();
        device.sync().unwrap();
        device.write_at(&block(2), B).unwrap();
        device.write_at(&block(3), 0).unwrap();
        device.sync().unwrap_err();
        let (first, second) = (read(&device, 0)[0], read(&device, B)[0]);
        assert!([1, 3].contains(&first) && [0, 2].contains(&second));
        undone += u32::from(first == 1) + u32::from(second == 0);
        device.sync().unwrap();
    }
    assert!((10..70).contains(&undone), "{undone} of 80 writes were undone");
}
