//! Stores of every block size: where values lie, and that no space is lost by it.

use std::sync::Arc;

use koine_env::{SeededRandom, SystemClock};

use crate::address::BlockRange;
use crate::batch::{Batch, Durability, KeyRange, Operation, Payload, Place, SpaceId};
use crate::defrag::{DefragOptions, DefragPosition};
use crate::device::{BLOCK_LEN, Device, MemoryDevice};
use crate::engine::{Engine, FormatOptions};
use crate::error::{ErrorKind, Result};
use crate::extent::Extent;
use crate::options::{Background, Options};
use crate::stage::StageHint;
use crate::tree::value::{Content, Piece, Value};

const SPACE: SpaceId = SpaceId::FIRST;
const KIB: usize = 1 << 10;
const MIB: usize = 1 << 20;

fn open(device: &Arc<MemoryDevice>) -> Engine {
    device.reopen();
    let options = Options { background: Background::Manual, memory_len: 4 << 20, ..Options::default() };
    Engine::open(Arc::clone(device) as _, options).unwrap()
}

fn made(device: MemoryDevice, block_len: usize) -> (Arc<MemoryDevice>, Engine) {
    let device = Arc::new(device);
    // Values of up to 32 KiB go through the log where the store is large enough.
    let ring_len = if device.len().unwrap() < 4 << 20 { 64 << 10 } else { 512 << 10 };
    let format = FormatOptions { ring_len, block_len: block_len as u64, ..FormatOptions::default() };
    Engine::format(device.as_ref(), format, &SeededRandom::new(7)).unwrap();
    let engine = open(&device);
    commit(&engine, Operation::CreateSpace { space: SPACE }).unwrap();
    (device, engine)
}

fn commit(engine: &Engine, operation: Operation) -> Result<()> {
    engine.submit(Batch::new().then(operation), Durability::Sync).wait().map(drop)
}

fn place(key: &str) -> Place {
    Place::new(SPACE, key.to_owned())
}

fn bytes(length: usize, seed: usize) -> Vec<u8> {
    (0..length).map(|at| (at * 7 + at / 509 + seed) as u8).collect()
}

fn staged(engine: &Engine, value: &[u8], hint: StageHint) -> Result<Payload> {
    let mut stage = engine.stage(hint)?;
    value.chunks(300_001).try_for_each(|part| stage.write(part))?;
    Ok(Payload::Stage(stage.finish()?))
}

fn put(engine: &Engine, key: &str, value: &[u8]) -> Result<()> {
    let value = staged(engine, value, StageHint::default())?;
    commit(engine, Operation::Put { at: place(key), value })
}

/// Every extent of a stage: those that a checkpoint packs have small chunks here, and others large ones.
fn staged_extents(engine: &Engine) -> Vec<Extent> {
    let state = engine.view().state().clone();
    let nodes = &engine.shared().nodes;
    let tree = state.space(nodes, SPACE).unwrap().unwrap().tree;
    let mut cursor = tree.cursor(KeyRange::all());
    let mut found = Vec::new();
    while let Some((_, value)) = cursor.next(nodes).unwrap() {
        let piece = match value {
            Value::Piece(piece) => piece,
            Value::Record(record) => match record.content {
                Content::Single(piece) => piece,
                _ => continue,
            },
            _ => continue,
        };
        if let Piece::Disk(extent) = piece
            && extent.chunk_log2 > 12
        {
            found.push(extent);
        }
    }
    found
}

fn must_be_aligned(engine: &Engine, block_len: usize) -> usize {
    let extents = staged_extents(engine);
    let ranges: Vec<BlockRange> = extents.iter().map(Extent::blocks).collect();
    let unit = (block_len / BLOCK_LEN) as u64;
    assert!(ranges.iter().all(|range| range.start.is_multiple_of(unit)), "{block_len}: {ranges:?}");
    ranges.len()
}

fn must_be_sound(engine: &Engine) {
    assert_eq!(engine.check(&mut |_| ()).unwrap().findings, Vec::<String>::new());
}

/// Writes, writes over, shares, deletes and makes checkpoints; values are checked on the way.
fn live(engine: &Engine, block_len: usize) {
    let sizes = [33 * KIB, 65 * KIB, 200 * KIB, MIB - 1, MIB, 5 * MIB / 2 + 777];
    for round in 0..2 {
        for (index, size) in sizes.iter().enumerate() {
            let value = bytes(*size, index);
            let length = (index % 2 == 0).then_some(*size as u64);
            let value = staged(engine, &value, StageHint { length, ..StageHint::default() }).unwrap();
            commit(engine, Operation::Put { at: place(&format!("large-{round}-{index}")), value }).unwrap();
            for small in 0..20 {
                let value = Payload::Bytes(bytes(100 + small * 700, small).into());
                commit(engine, Operation::Put { at: place(&format!("small-{round}-{index}-{small}")), value }).unwrap();
            }
        }
        engine.checkpoint().unwrap();
    }
    // Whole blocks are written over, given up and shared.
    let data = staged(engine, &bytes(MIB, 9), StageHint::default()).unwrap();
    commit(engine, Operation::WriteAt { at: place("large-0-5"), offset: MIB as u64, data }).unwrap();
    let (from, to) = (place("large-1-5"), place("shared"));
    let length = 2 * MIB as u64;
    commit(engine, Operation::CloneRange { from, from_offset: 0, length, to, to_offset: 0 }).unwrap();
    commit(engine, Operation::Truncate { at: place("large-1-4"), length: block_len.min(MIB) as u64 }).unwrap();
    for index in 0..3 {
        commit(engine, Operation::Delete { at: place(&format!("large-0-{index}")) }).unwrap();
    }
    engine.checkpoint().unwrap();
    engine.checkpoint().unwrap();
    for index in 0..3 {
        put(engine, &format!("again-{index}"), &bytes(300 * KIB, index)).unwrap();
    }
}

fn must_hold_what_was_written(engine: &Engine) {
    let view = engine.view();
    let read = |key: &str| view.bytes(SPACE, key.as_bytes(), 0, usize::MAX).unwrap();
    let mut expected = bytes(5 * MIB / 2 + 777, 5);
    assert!(read("large-1-5") == expected && read("shared") == expected[..2 * MIB]);
    expected[MIB..2 * MIB].copy_from_slice(&bytes(MIB, 9));
    assert!(read("large-0-5") == expected && read("again-2") == bytes(300 * KIB, 2));
    assert!(read("small-1-3-9") == bytes(100 + 9 * 700, 9));
}

#[test]
fn data_begins_on_blocks_of_the_store_however_it_came_there() {
    for (block_len, grows) in [(4, true), (8, true), (64, true), (4, false), (8, false), (64, false), (1024, false)] {
        let block_len = block_len * KIB;
        // One that grows does not leave most of itself between blocks: with the largest, these values would.
        let device = if grows { MemoryDevice::growable(4 * MIB, 64 << 20) } else { MemoryDevice::fixed(64 * MIB) };
        let (device, engine) = made(device, block_len);
        assert_eq!(engine.info().block_len, block_len as u64);
        live(&engine, block_len);
        assert!(must_be_aligned(&engine, block_len) > 15);
        engine.checkpoint().unwrap();
        must_hold_what_was_written(&engine);
        must_be_sound(&engine);
        engine.close().unwrap();
        let engine = open(&device);
        assert_eq!(engine.info().block_len, block_len as u64);
        put(&engine, "after", &bytes(MIB + 5, 1)).unwrap();
        engine.checkpoint().unwrap();
        must_be_aligned(&engine, block_len);
        must_hold_what_was_written(&engine);
        must_be_sound(&engine);
        let report = engine.space_report().unwrap();
        let free: u64 = report.free_runs.iter().map(|class| class.length).sum();
        assert!(report.free_whole_len <= free && report.free_whole_len.is_multiple_of(block_len as u64));
        assert!(block_len > 4 * KIB || report.free_whole_len == free);
        engine.close().unwrap();
    }
}

/// How many values of a length a store takes.
fn fill(engine: &Engine, length: usize) -> usize {
    for number in 0.. {
        match put(engine, &format!("fill-{number:05}"), &bytes(length, number)) {
            Ok(()) => {}
            Err(error) if error.kind() == ErrorKind::Full => return number,
            Err(error) => panic!("{error}"),
        }
    }
    0
}

#[test]
fn a_store_of_large_blocks_holds_as_much_as_one_of_small_ones() {
    for device in [|| MemoryDevice::fixed(16 * MIB), || MemoryDevice::growable(2 * MIB, 16 << 20)] {
        let mut counts = Vec::new();
        for block_len in [4 * KIB, 64 * KIB, MIB] {
            let (device, engine) = made(device(), block_len);
            let count = fill(&engine, 40 * KIB);
            for number in 0..count {
                let key = format!("fill-{number:05}");
                assert!(engine.view().bytes(SPACE, key.as_bytes(), 0, usize::MAX).unwrap() == bytes(40 * KIB, number));
            }
            must_be_sound(&engine);
            let all = KeyRange::all();
            commit(&engine, Operation::DeleteRange { space: SPACE, range: all }).unwrap();
            engine.checkpoint().unwrap();
            engine.checkpoint().unwrap();
            assert!(fill(&engine, 40 * KIB) * 100 >= count * 97, "all of it comes back");
            engine.close().unwrap();
            must_be_sound(&open(&device));
            counts.push(count);
        }
        assert!(counts[0] > 150 && counts.iter().all(|count| count * 100 >= counts[0] * 97), "{counts:?}");
    }
}

#[test]
fn the_smallest_store_takes_every_block_size() {
    for log2 in 12..=20 {
        let (device, engine) = made(MemoryDevice::fixed(MIB), 1 << log2);
        put(&engine, "large", &bytes(200 * KIB, 3)).unwrap();
        commit(&engine, Operation::Put { at: place("small"), value: Payload::Bytes(bytes(9000, 4).into()) }).unwrap();
        engine.close().unwrap();
        let engine = open(&device);
        assert!(engine.view().bytes(SPACE, b"large", 0, usize::MAX).unwrap() == bytes(200 * KIB, 3));
        must_be_sound(&engine);
    }
}

#[test]
fn space_that_was_set_aside_is_there_when_no_whole_block_is() {
    let (_, engine) = made(MemoryDevice::fixed(16 * MIB), MIB);
    put(&engine, "promised", b"x").unwrap();
    engine.reserve(&place("promised"), 2 * MIB as u64, Durability::Sync).unwrap();
    fill(&engine, 40 * KIB);
    let hint = StageHint { reserved: true, ..StageHint::default() };
    let data = staged(&engine, &bytes(2 * MIB, 5), hint).unwrap();
    commit(&engine, Operation::WriteAt { at: place("promised"), offset: 1, data }).unwrap();
    must_be_sound(&engine);
}

#[test]
fn what_is_defragmented_lies_aligned_again() {
    let (_, engine) = made(MemoryDevice::fixed(64 * MIB), 64 * KIB);
    put(&engine, "value", &bytes(MIB, 1)).unwrap();
    for part in 0..20 {
        let data = staged(&engine, &bytes(33 * KIB, part), StageHint::default()).unwrap();
        commit(&engine, Operation::WriteAt { at: place("value"), offset: (part * 41 * KIB) as u64, data }).unwrap();
    }
    engine.checkpoint().unwrap();
    let clock = Arc::new(SystemClock::new());
    let mut defrag = engine.defrag(DefragOptions::default(), clock, DefragPosition::default()).unwrap();
    while !defrag.step().unwrap().done {}
    engine.checkpoint().unwrap();
    assert_eq!(must_be_aligned(&engine, 64 * KIB), 1);
    must_be_sound(&engine);
}
