//! Growing, on devices and files: limits, lying and shrunken media, a power cut at every event.

use std::collections::BTreeMap;
use std::sync::Arc;

use koine_env::SeededRandom;

use super::*;
use crate::device::{Call, Device, Fault, FaultyDevice, MemoryDevice, RecordingDevice, Times, Trouble};
use crate::{Background, Batch, Durability, FormatOptions, KeyRange, Operation, Options, SpaceId};

const SPACE: SpaceId = SpaceId::FIRST;
const MIB: u64 = 1 << 20;

fn format(device: &dyn Device, size_max: u64) {
    Engine::format(
        device,
        FormatOptions { ring_len: 64 << 10, size_max, ..FormatOptions::default() },
        &SeededRandom::new(7),
    )
    .unwrap();
}

fn open(device: Arc<dyn Device>) -> Result<Engine> {
    Engine::open(device, Options { background: Background::Manual, ..Options::default() })
}

fn put(engine: &Engine, number: u64) -> Result<()> {
    let value = vec![number as u8 + 1; 20_000];
    engine.submit(Batch::new().put(SPACE, number.to_be_bytes().to_vec(), value), Durability::Sync).wait().map(drop)
}

fn made(engine: &Engine) {
    engine.submit(Batch::new().then(Operation::CreateSpace { space: SPACE }), Durability::Sync).wait().unwrap();
}

/// The numbers whose values are there, whole.
fn numbers(engine: &Engine) -> BTreeMap<u64, usize> {
    let view = engine.view();
    let mut cursor = view.cursor(SPACE, KeyRange::all(), false).unwrap();
    let mut found = BTreeMap::new();
    while let Some(entry) = cursor.next().unwrap() {
        let number = u64::from_be_bytes(entry.key.as_ref().try_into().unwrap());
        let bytes = view.bytes(SPACE, &entry.key, 0, 30_000).unwrap();
        assert!(bytes.iter().all(|byte| *byte == number as u8 + 1), "wrong bytes in {number}");
        found.insert(number, bytes.len());
    }
    found
}

fn must_be_sound(engine: &Engine) {
    let report = engine.check(&mut |_| ()).unwrap();
    assert!(report.is_sound(), "{:?}", report.findings);
}

#[test]
fn a_device_that_became_longer_is_taken_while_in_use() {
    let device = Arc::new(MemoryDevice::fixed(MIB as usize));
    format(&device, 0);
    let engine = open(device.clone()).unwrap();
    made(&engine);
    let mut count = 0;
    while put(&engine, count).is_ok() {
        count += 1;
    }
    assert_eq!(put(&engine, count).unwrap_err().kind(), ErrorKind::Full);
    let held = engine.view();
    device.resize(3 * MIB as usize + 5000);
    let grown = engine.grow(GrowTo::Device).unwrap();
    assert_eq!(grown, Grown { before: MIB, after: 3 * MIB + 4096, limit: Some(3 * MIB + 4096) });
    assert_eq!(engine.grow(GrowTo::Device).unwrap().before, 3 * MIB + 4096, "again is nothing new");
    for number in count..count + 40 {
        put(&engine, number).unwrap();
    }
    assert_eq!(numbers(&engine).len() as u64, count + 40);
    assert!(held.stat(SPACE, &count.to_be_bytes()).unwrap().is_none());
    drop(held);
    must_be_sound(&engine);
    engine.close().unwrap();
    device.reopen();
    let engine = open(device).unwrap();
    assert_eq!(engine.usage().total, 3 * MIB + 4096);
    assert_eq!(numbers(&engine).len() as u64, count + 40);
}

#[test]
fn a_size_takes_a_part_and_impossible_ones_are_refused() {
    let device = Arc::new(MemoryDevice::fixed(MIB as usize));
    format(&device, 0);
    let engine = open(device.clone()).unwrap();
    device.resize(4 * MIB as usize);
    let kind = |to| engine.grow(to).unwrap_err().kind();
    assert_eq!(kind(GrowTo::Size(5 * MIB)), ErrorKind::Invalid);
    assert_eq!(kind(GrowTo::Size(MIB - 4096)), ErrorKind::Invalid);
    assert_eq!(kind(GrowTo::Unlimited), ErrorKind::Invalid);
    assert_eq!(engine.grow(GrowTo::Size(2 * MIB)).unwrap().after, 2 * MIB);
    assert_eq!(engine.usage().total, 2 * MIB);
    must_be_sound(&engine);
}

#[test]
fn a_device_that_became_shorter_is_refused() {
    let device = Arc::new(MemoryDevice::fixed(2 * MIB as usize));
    format(&device, 0);
    let engine = open(device.clone()).unwrap();
    device.resize(MIB as usize);
    let error = engine.grow(GrowTo::Device).unwrap_err();
    assert!(error.kind() == ErrorKind::Damaged && error.message().contains("was cut"), "{error}");
    drop(engine);
    device.reopen();
    let error = open(device).err().unwrap();
    assert!(error.kind() == ErrorKind::Damaged && error.message().contains("was cut"), "{error}");
}

#[test]
fn the_limit_of_a_file_is_raised_and_lifted() {
    let device = Arc::new(MemoryDevice::growable(MIB as usize, 64 * MIB));
    format(&device, MIB);
    let engine = open(device.clone()).unwrap();
    made(&engine);
    let mut count = 0;
    while put(&engine, count).is_ok() {
        count += 1;
    }
    assert_eq!(engine.grow(GrowTo::Device).unwrap_err().kind(), ErrorKind::Invalid);
    assert_eq!(engine.grow(GrowTo::Size(MIB / 2)).unwrap_err().kind(), ErrorKind::Invalid);
    let grown = engine.grow(GrowTo::Size(2 * MIB)).unwrap();
    assert_eq!(grown, Grown { before: MIB, after: MIB, limit: Some(2 * MIB) });
    while put(&engine, count).is_ok() {
        count += 1;
    }
    assert_eq!(engine.usage().total, 2 * MIB);
    assert_eq!(engine.grow(GrowTo::Unlimited).unwrap().limit, None);
    put(&engine, count).unwrap();
    engine.close().unwrap();
    device.reopen();
    let engine = open(device).unwrap();
    assert_eq!(engine.usage().limit, None);
    assert_eq!(numbers(&engine).len() as u64, count + 1);
}

#[test]
fn a_device_that_loses_what_is_written_to_its_end_is_found_out() {
    let inner = MemoryDevice::fixed(MIB as usize);
    format(&inner, 0);
    let opened = |plan| {
        let device = Arc::new(FaultyDevice::new(MemoryDevice::fixed_from(inner.image()), plan, 1));
        (open(device.clone()).unwrap(), device)
    };
    // The write that proves the end is the first of growing.
    let nth = opened(Vec::new()).1.calls().writes + 1;
    let plan = vec![Fault { call: Call::Write, nth, times: Times::Once, trouble: Trouble::Lost }];
    let (engine, device) = opened(plan);
    device.inner().resize(2 * MIB as usize);
    let error = engine.grow(GrowTo::Device).unwrap_err();
    assert!(error.to_string().contains("does not keep"), "{error}");
    assert_eq!(engine.usage().total, MIB);
    made(&engine);
    put(&engine, 1).unwrap();
    must_be_sound(&engine);
    assert_eq!(engine.grow(GrowTo::Device).unwrap().after, 2 * MIB, "it keeps it now");
}

/// Fills a store, grows it, fills it on, and cuts the power at every event of it, with parts of what was in doubt.
fn cut_everywhere(fixed: bool) {
    let memory = if fixed { MemoryDevice::fixed(MIB as usize) } else { MemoryDevice::growable(MIB as usize, 3 * MIB) };
    format(&memory, if fixed { 0 } else { MIB });
    let device = Arc::new(RecordingDevice::new(memory).unwrap());
    let engine = open(device.clone()).unwrap();
    // What was acknowledged, and where the recording stood then.
    let mut acknowledged = Vec::new();
    made(&engine);
    let begun = device.position();
    for number in 0..12 {
        put(&engine, number).unwrap();
        acknowledged.push(device.position());
    }
    let before = device.position();
    if fixed {
        device.inner().resize(3 * MIB as usize);
        engine.grow(GrowTo::Device).unwrap();
    } else {
        engine.grow(GrowTo::Size(3 * MIB)).unwrap();
    }
    let grown = device.position();
    for number in 12..60 {
        put(&engine, number).unwrap();
        acknowledged.push(device.position());
    }
    assert!(engine.usage().total > MIB);
    let recording = device.recording();
    let mut walker = recording.images(5);
    let ends = (before..grown + 40).chain((begun..recording.len() + 1).step_by(17));
    let mut cuts: Vec<usize> = ends.filter(|cut| *cut <= recording.len()).collect();
    cuts.sort_unstable();
    cuts.dedup();
    for cut in cuts {
        walker.advance(cut);
        for part in 0..5 {
            let image = if part == 0 { walker.durable() } else { walker.partial(part) };
            let memory = MemoryDevice::from_image(image, 3 * MIB);
            let engine = open(Arc::new(memory)).unwrap_or_else(|e| panic!("cut {cut}, part {part}: {e}"));
            must_be_sound(&engine);
            let found = numbers(&engine);
            let known = acknowledged.iter().filter(|at| **at <= cut).count();
            assert!((known..=known + 1).contains(&found.len()), "cut {cut}: {} of {known}", found.len());
            assert!(found.values().all(|length| *length == 20_000));
            if fixed {
                let total = engine.usage().total;
                assert!(total == 3 * MIB || (total == MIB && cut < grown), "cut {cut}: {total}");
            } else {
                let limit = engine.usage().limit;
                assert!(limit == Some(3 * MIB) || (limit == Some(MIB) && cut < grown), "cut {cut}: {limit:?}");
            }
            // It goes on, whatever it is now.
            put(&engine, 100).unwrap();
        }
    }
}

#[test]
fn a_power_cut_while_a_device_is_taken_leaves_the_old_length_or_the_new() {
    cut_everywhere(true);
}

#[test]
fn a_power_cut_while_a_limit_is_raised_leaves_the_old_one_or_the_new() {
    cut_everywhere(false);
}
