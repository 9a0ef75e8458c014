//! Mapped bytes are the same as read ones, and stay what they are.

use std::sync::Arc;

use koine_env::SeededRandom;

use crate::device::{Device, FileDevice, MemoryDevice, OpenOptions};
use crate::{
    Access, Background, Batch, Durability, Engine, FormatOptions, Operation, Options, Payload, Place, SpaceId,
    StageHint,
};

const SPACE: SpaceId = SpaceId(20);

fn open(device: Arc<dyn Device>) -> Engine {
    Engine::format(&device, FormatOptions { ring_len: 1 << 20, ..FormatOptions::default() }, &SeededRandom::new(7))
        .unwrap();
    let engine = Engine::open(device, Options { background: Background::Manual, ..Options::default() }).unwrap();
    let made = Batch::new().then(Operation::CreateSpace { space: SPACE });
    engine.submit(made, Durability::Sync).wait().unwrap();
    engine
}

fn put(engine: &Engine, key: &'static str, value: &[u8]) {
    let hint = StageHint { length: Some(value.len() as u64), access: Access::Sequential, ..StageHint::default() };
    let mut stage = engine.stage(hint).unwrap();
    value.chunks(1 << 20).for_each(|piece| stage.write(piece).unwrap());
    let put = Operation::Put { at: Place::new(SPACE, key), value: Payload::Stage(stage.finish().unwrap()) };
    engine.submit(Batch::new().then(put), Durability::Sync).wait().unwrap();
}

fn file_store() -> (tempfile::TempDir, Arc<FileDevice>) {
    let folder = tempfile::tempdir().unwrap();
    let device = FileDevice::open(&folder.path().join("s"), OpenOptions { create: true, read_only: false }).unwrap();
    device.grow(32 << 20).unwrap();
    (folder, Arc::new(device))
}

fn bytes(length: usize) -> Vec<u8> {
    (0..length).map(|index| (index * 7 + index / 251 + index / 65_521) as u8).collect()
}

/// Whether 8 MiB can be mapped: elsewhere a page may be larger than a block, and a process may be let keep little in memory.
fn can_map() -> bool {
    let limits = std::fs::read_to_string("/proc/self/limits").unwrap_or_default();
    let line = limits.lines().find(|line| line.starts_with("Max locked memory")).unwrap_or_default().to_owned();
    let soft = line.split_whitespace().nth(3).unwrap_or_default();
    let enough = soft == "unlimited" || soft.parse().is_ok_and(|limit: u64| limit >= 8 << 20);
    cfg!(target_arch = "x86_64") && enough
}

#[test]
fn every_range_is_what_a_read_gives() {
    let (_folder, device) = file_store();
    let engine = open(device);
    let value = bytes((3 << 20) + 100_001);
    put(&engine, "k", &value);
    let view = engine.view();
    for (offset, length) in
        [(0, value.len()), (0, 1), (70_000, 40_000), (1 << 20, 1 << 20), ((1 << 20) - 3, 9), (value.len() - 5, 100)]
    {
        let mapped = view.map(SPACE, b"k", offset as u64, length).unwrap();
        let end = value.len().min(offset + length);
        assert!(mapped[..] == value[offset..end], "{offset} {length}");
        assert!(mapped.is_mapping() || !can_map(), "{offset} {length}");
    }
    assert!(view.map(SPACE, b"k", value.len() as u64, 10).unwrap().is_empty());
    assert!(view.map(SPACE, b"none", 0, 10).is_err());
}

#[test]
fn what_cannot_be_mapped_is_a_copy() {
    let (_folder, device) = file_store();
    let engine = open(device);
    let mut value = bytes(3 << 20);
    put(&engine, "k", &value);
    // A small write in between that waits in memory, and one of odd place once it was stored.
    let at = Place::new(SPACE, "k");
    let write = Operation::WriteAt { at, offset: 100_001, data: Payload::Bytes(vec![7; 3000].into()) };
    engine.submit(Batch::new().then(write), Durability::Sync).wait().unwrap();
    value[100_001..103_001].fill(7);
    for _ in 0..2 {
        let view = engine.view();
        let mapped = view.map(SPACE, b"k", 0, value.len()).unwrap();
        assert!(!mapped.is_mapping() && mapped[..] == value[..]);
        // What the write did not touch can be mapped still.
        let mapped = view.map(SPACE, b"k", 1 << 20, 1 << 20).unwrap();
        assert!(mapped[..] == value[1 << 20..2 << 20]);
        assert!(mapped.is_mapping() || !can_map());
        engine.checkpoint().unwrap();
    }
    let engine = open(Arc::new(MemoryDevice::fixed(16 << 20)));
    put(&engine, "k", &value[..1 << 20]);
    let mapped = engine.view().map(SPACE, b"k", 5, 100).unwrap();
    assert!(!mapped.is_mapping() && mapped[..] == value[5..105]);
}

#[test]
fn mapped_bytes_outlive_deletion_and_every_need_of_room() {
    let (_folder, device) = file_store();
    let engine = open(device);
    let value = bytes(4 << 20);
    put(&engine, "k", &value);
    let mapped = engine.view().map(SPACE, b"k", 0, value.len()).unwrap();
    engine.submit(Batch::new().delete(SPACE, "k"), Durability::Sync).wait().unwrap();
    // More than the store has room for, again and again: freed blocks are used as soon as they may be.
    for round in 0..12 {
        put(&engine, "other", &vec![round; 5 << 20]);
        engine.checkpoint().unwrap();
        assert!(mapped[..] == value[..], "{round}");
    }
    drop(mapped);
    engine.checkpoint().unwrap();
    assert!(engine.check(&mut |_| ()).unwrap().is_sound());
}

#[test]
fn damage_is_found_when_it_is_mapped() {
    let (folder, device) = file_store();
    let engine = open(device);
    let value = bytes(2 << 20);
    put(&engine, "k", &value);
    let path = folder.path().join("s");
    let stored = std::fs::read(&path).unwrap();
    let place = (0..stored.len()).step_by(4096).find(|at| stored[*at..].starts_with(&value[..64])).unwrap();
    let file = std::fs::OpenOptions::new().write(true).open(&path).unwrap();
    std::os::unix::fs::FileExt::write_all_at(&file, &[!value[50_000]], place as u64 + 50_000).unwrap();
    file.sync_all().unwrap();
    let view = engine.view();
    assert_eq!(view.map(SPACE, b"k", 0, 100_000).map(drop).unwrap_err().kind(), crate::ErrorKind::Damaged);
    assert!(view.map(SPACE, b"k", 1 << 20, 1000).is_ok());
}

#[test]
fn mapped_pages_stay_in_memory() {
    let (_folder, device) = file_store();
    let engine = open(device);
    let value = bytes(4 << 20);
    put(&engine, "k", &value);
    let kept = || {
        let status = std::fs::read_to_string("/proc/self/status").unwrap();
        let line = status.lines().find(|line| line.starts_with("VmLck:")).unwrap().to_owned();
        line.split_whitespace().nth(1).unwrap().parse::<u64>().unwrap() << 10
    };
    let mapped = engine.view().map(SPACE, b"k", 0, value.len()).unwrap();
    if mapped.is_mapping() {
        // Other tests of this process may keep some too.
        assert!(kept() >= 4 << 20, "{}", kept());
    }
    assert!(mapped[..] == value[..]);
}
