//! Clones and snapshots of spaces: what they cost, that they keep apart, and that their space comes back.

use std::sync::Arc;

use bytes::Bytes;
use koine_engine::device::{BLOCK_LEN, MemoryDevice, RecordingDevice};
use koine_engine::{
    Background, Batch, Durability, Engine, ErrorKind, FormatOptions, KeyRange, Operation, Options, Payload, Place,
    SpaceId, StageHint, View,
};
use koine_env::SeededRandom;

const LIVE: SpaceId = SpaceId(20);

type Device = RecordingDevice<MemoryDevice>;

/// Lengths of the writes since the recording had so many.
fn writes_since(device: &Device, count: usize) -> Vec<usize> {
    device.recording().writes().skip(count).map(|(_, length)| length).collect()
}

fn options() -> Options {
    // All that comes in extents becomes a frozen blob.
    Options { background: Background::Manual, frozen_above: 0, ..Options::default() }
}

fn new_store() -> (Arc<Device>, Engine) {
    let inner = MemoryDevice::growable(64 << 20, 1 << 30);
    Engine::format(&inner, FormatOptions::default(), &SeededRandom::new(1)).unwrap();
    let device = Arc::new(RecordingDevice::new(inner).unwrap());
    let held = Arc::clone(&device);
    let engine = Engine::open(held, options()).unwrap();
    done(&engine, Operation::CreateSpace { space: LIVE });
    (device, engine)
}

fn done(engine: &Engine, operation: Operation) {
    engine.submit(Batch::new().then(operation), Durability::Sync).wait().unwrap();
}

fn put(engine: &Engine, space: SpaceId, key: &str, value: impl Into<Bytes>) {
    done(engine, Operation::Put { at: Place::new(space, key.to_owned()), value: Payload::Bytes(value.into()) });
}

/// Small, middle and large values under `count` keys.
fn fill(engine: &Engine, space: SpaceId, count: usize, seed: u8) {
    for first in (0..count).step_by(500) {
        let mut batch = Batch::new();
        for number in first..count.min(first + 500) {
            batch = batch.put(space, format!("key/{number:06}"), value_of(number, seed));
        }
        engine.submit(batch, Durability::Written).wait().unwrap();
    }
}

fn value_of(number: usize, seed: u8) -> Vec<u8> {
    let length = match number % 50 {
        0 => 40_000,
        1 => 3_000,
        _ => 20 + number % 100,
    };
    (0..length).map(|at| (at as u8).wrapping_mul(31).wrapping_add(seed).wrapping_add(number as u8)).collect()
}

fn content(view: &View, space: SpaceId) -> Vec<(Bytes, Bytes)> {
    let mut cursor = view.cursor(space, KeyRange::all(), false).unwrap();
    let mut out = Vec::new();
    while let Some(entry) = cursor.next().unwrap() {
        let value = view.bytes(space, &entry.key, 0, entry.stat.size as usize).unwrap();
        out.push((entry.key, value));
    }
    out
}

fn all(engine: &Engine, space: SpaceId) -> Vec<(Bytes, Bytes)> {
    content(&engine.view(), space)
}

/// Does all background work and makes what was freed reusable.
fn settle(engine: &Engine) {
    for _ in 0..3 {
        while engine.step().unwrap() {}
        engine.checkpoint().unwrap();
    }
}

fn sound(engine: &Engine) {
    let report = engine.check(&mut |_| {}).unwrap();
    assert!(report.is_sound(), "{:#?}", report.findings);
}

fn used(engine: &Engine) -> u64 {
    settle(engine);
    sound(engine);
    engine.usage().used
}

#[test]
fn a_branch_writes_eight_nodes_and_one_record_whatever_the_size() {
    for count in [10, 1_000, 30_000] {
        let (device, engine) = new_store();
        fill(&engine, LIVE, count, 1);
        settle(&engine);
        for operation in [
            Operation::CloneSpace { from: LIVE, to: SpaceId(30) },
            Operation::SnapshotSpace { from: LIVE, to: SpaceId(31) },
            Operation::CloneSpace { from: SpaceId(31), to: SpaceId(32) },
        ] {
            let before = writes_since(&device, 0).len();
            done(&engine, operation.clone());
            let log = writes_since(&device, before);
            assert_eq!(log, [BLOCK_LEN], "one group with one record: {count}, {operation:?}");
            engine.checkpoint().unwrap();
            let writes = writes_since(&device, before + 1);
            // Beside the nodes a checkpoint writes the free list and a superblock.
            assert!(writes.len() <= 8 + 2, "{writes:?}: {count}, {operation:?}");
        }
    }
}

#[test]
fn branches_keep_apart_also_after_reopening() {
    let (device, engine) = new_store();
    fill(&engine, LIVE, 3_000, 1);
    let before = all(&engine, LIVE);
    let (clone, snapshot) = (SpaceId(30), SpaceId(31));
    done(&engine, Operation::CloneSpace { from: LIVE, to: clone });
    done(&engine, Operation::SnapshotSpace { from: LIVE, to: snapshot });
    fill(&engine, LIVE, 1_500, 2);
    done(&engine, Operation::DeleteRange { space: clone, range: KeyRange::prefix("key/0001") });
    put(&engine, clone, "key/000000", vec![7; 100_000]);
    let changed: Vec<_> = [LIVE, clone].map(|space| all(&engine, space)).into();
    assert!(changed[0] != before && changed[1] != before && changed[0] != changed[1]);
    let refused = engine.submit(Batch::new().put(snapshot, "key", &b"x"[..]), Durability::Memory).wait();
    assert_eq!(refused.unwrap_err().kind(), ErrorKind::Refused);
    let look = |engine: &Engine| {
        assert!(all(engine, snapshot) == before);
        assert!(all(engine, LIVE) == changed[0] && all(engine, clone) == changed[1]);
        sound(engine);
    };
    look(&engine);
    settle(&engine);
    look(&engine);
    engine.close().unwrap();
    device.inner().reopen();
    let engine = Engine::open(device, options()).unwrap();
    look(&engine);
}

#[test]
fn the_space_of_branches_comes_back_in_whatever_order_they_go() {
    let orders = [[0, 1, 2, 3], [3, 2, 1, 0], [1, 3, 0, 2], [2, 0, 3, 1], [0, 3, 1, 2]];
    for order in orders {
        let (_, engine) = new_store();
        let empty = used(&engine);
        fill(&engine, LIVE, 2_000, 1);
        let spaces = [LIVE, SpaceId(30), SpaceId(31), SpaceId(32)];
        done(&engine, Operation::SnapshotSpace { from: LIVE, to: spaces[1] });
        fill(&engine, LIVE, 700, 2);
        settle(&engine);
        done(&engine, Operation::CloneSpace { from: LIVE, to: spaces[2] });
        fill(&engine, spaces[2], 900, 3);
        done(&engine, Operation::DeleteRange { space: LIVE, range: KeyRange::prefix("key/0012") });
        done(&engine, Operation::CloneSpace { from: spaces[1], to: spaces[3] });
        fill(&engine, spaces[3], 300, 4);
        let contents: Vec<_> = spaces.iter().map(|space| all(&engine, *space)).collect();
        let mut last = used(&engine);
        for (at, gone) in order.iter().enumerate() {
            done(&engine, Operation::DropSpace { space: spaces[*gone] });
            sound(&engine);
            let now = used(&engine);
            assert!(now <= last + 64 * BLOCK_LEN as u64, "{now} bytes after dropping {gone}, before {last}");
            last = now;
            for left in order[at + 1..].iter() {
                assert!(all(&engine, spaces[*left]) == contents[*left], "space {left} changed when {gone} went");
            }
        }
        assert!(
            last <= empty + 16 * BLOCK_LEN as u64,
            "{last} bytes are in use of a store that is empty again: {empty}"
        );
    }
}

#[test]
fn a_dropped_space_goes_by_and_by_also_across_a_reopening() {
    let (device, engine) = new_store();
    let empty = used(&engine);
    fill(&engine, LIVE, 20_000, 1);
    settle(&engine);
    done(&engine, Operation::DropSpace { space: LIVE });
    for _ in 0..20 {
        assert!(engine.step().unwrap(), "there must be work left");
    }
    sound(&engine);
    engine.close().unwrap();
    device.inner().reopen();
    let engine = Engine::open(device, options()).unwrap();
    assert!(engine.step().unwrap(), "there must be work left");
    let last = used(&engine);
    assert!(last <= empty + 16 * BLOCK_LEN as u64, "{last} bytes are in use of a store that is empty again: {empty}");
}

#[test]
fn parts_move_between_branches_and_share_what_they_shared() {
    let (_, engine) = new_store();
    let empty = used(&engine);
    let clone = SpaceId(30);
    let large: Vec<u8> = value_of(0, 9).repeat(10);
    let mut stage = engine.stage(StageHint::default()).unwrap();
    stage.write(&large).unwrap();
    let value = Payload::Stage(stage.finish().unwrap());
    let at = |space: SpaceId, key: &str| Place::new(space, key.to_owned());
    done(&engine, Operation::Put { at: at(LIVE, "large"), value });
    done(&engine, Operation::CloneSpace { from: LIVE, to: clone });
    // Moved out of one branch, cut in another, joined in a third place; the branch point still has it whole.
    done(&engine, Operation::SnapshotSpace { from: clone, to: SpaceId(31) });
    done(&engine, Operation::Rename { from: at(clone, "large"), to: at(LIVE, "moved") });
    done(&engine, Operation::Truncate { at: at(LIVE, "large"), length: 50_000 });
    let part = Payload::Bytes(Bytes::from_static(&[1; 10]));
    done(&engine, Operation::WriteAt { at: at(LIVE, "moved"), offset: 70_000, data: part });
    let mut moved = large.clone();
    moved[70_000..70_010].fill(1);
    let view = engine.view();
    assert_eq!(view.bytes(LIVE, b"moved", 0, large.len()).unwrap(), moved);
    assert_eq!(view.bytes(LIVE, b"large", 0, large.len()).unwrap(), large[..50_000]);
    assert_eq!(view.bytes(SpaceId(31), b"large", 0, large.len()).unwrap(), large);
    assert!(view.stat(clone, b"large").unwrap().is_none());
    drop(view);
    for space in [clone, SpaceId(31), LIVE] {
        used(&engine);
        done(&engine, Operation::DropSpace { space });
    }
    let last = used(&engine);
    assert!(last <= empty + 16 * BLOCK_LEN as u64, "{last} bytes are in use of a store that is empty again: {empty}");
}
