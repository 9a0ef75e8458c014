//! The engine as the searches use it: opening, reading everything, staging, checking.

use std::ops::Range;
use std::sync::Arc;

use bytes::Bytes;
use koine_engine::device::{BLOCK_LEN, Device, MemoryDevice, ReadMode, Recording};
use koine_engine::{
    Background, Error, ErrorKind, FormatOptions, KeyRange, Options, Result, SpaceId, StageHint, StageToken,
};
use koine_env::SeededRandom;

use crate::coverage::Coverage;
use crate::flips::MARK;
use crate::model::{Content, Space, Value};
use crate::run::{Stop, Verdict, stop};
use crate::workload::Shape;

pub use koine_engine::{Engine, View};

/// Ids of the spaces that the search makes after a recovery.
pub const AFTER: Range<u64> = 90..98;
/// Ids of the spaces that workloads make.
const WORKLOAD: Range<u64> = 16..20;

/// The block of the second superblock.
const SECOND_SLOT_BLOCK: u64 = 128;
const RING_BLOCKS: u64 = 16;
/// Memory of a store under test, in bytes.
const MEMORY_LEN: u64 = 4 << 20;

/// Which engine is tested.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Build {
    /// As it is.
    Right,
    /// With the rule of reuse switched off: freed space is reused at once.
    ReusesTooEarly,
}

/// What the workloads together must have reached.
pub const MUST_BE_REACHED: &[&str] = &[
    "put small",
    "put medium",
    "put large",
    "write at",
    "append",
    "truncate",
    "delete",
    "delete range",
    "rename",
    "clone range",
    "concatenate and keep",
    "concatenate and delete",
    "add to a counter",
    "create a space",
    "drop a space",
    "rename a prefix",
    "clone a space",
    "snapshot a space",
    "value staged",
    "stage dropped before its end",
    "stage dropped after its end",
    "commit in memory",
    "commit written",
    "commit synced",
    "refused",
    "full",
    "view held",
    "request repeated",
    "request repeated after a crash",
    "checkpoint",
    "growth",
    "block reused",
    "discard",
    "window defragmented",
    "ring wrapped",
    "stage logged before its commit",
    "refusal logged for its request",
    "commits applied by recoveries",
    "recovery that dropped groups",
    "images",
    "images of recoveries",
    "images of recoveries of recoveries",
];

/// A new, empty store in memory.
pub fn formatted(shape: &Shape, seed: u64) -> Verdict<MemoryDevice> {
    let device = if shape.fixed {
        MemoryDevice::fixed(shape.length)
    } else {
        MemoryDevice::growable(shape.length, shape.length_max)
    };
    let ring_len = RING_BLOCKS * BLOCK_LEN as u64;
    let options = FormatOptions { ring_len, size_max: shape.length_max, block_len: shape.block_len };
    Engine::format(&device, options, &SeededRandom::new(seed)).map_err(stop("formatting failed"))?;
    Ok(device)
}

/// Opens a store that does its background work only when told.
pub fn open(device: Arc<dyn Device>, build: Build) -> Result<Engine> {
    let reuse_at_once = build == Build::ReusesTooEarly;
    // Stores of a fixed size give freed space back, as devices may.
    let discard = device.is_fixed();
    let background = Background::Manual;
    let frozen_above = frozen_above(device.as_ref());
    let options =
        Options { background, memory_len: MEMORY_LEN, discard, reuse_at_once, frozen_above, ..Options::default() };
    Engine::open(device, options)
}

/// In every other life of a store all that comes in extents becomes a frozen blob; the same image gives the same answer.
fn frozen_above(device: &dyn Device) -> usize {
    if device.is_fixed() && device.len().is_ok_and(|length| length == 1 << 20) {
        // The case of blocks that are reused too early is about those of a value that goes at once.
        return 64;
    }
    let sequence = |slot: u64| {
        let mut block = vec![0; BLOCK_LEN];
        let read = device.read_at(&mut block, slot * BLOCK_LEN as u64, ReadMode::Cached);
        read.map_or(0, |()| u64::from_le_bytes(block[56..64].try_into().unwrap_or_default()))
    };
    if sequence(0).max(sequence(128)).is_multiple_of(4) { 64 } else { 0 }
}

/// Whether `check` finds nothing.
pub fn is_sound(engine: &Engine) -> Verdict<bool> {
    match engine.check(&mut |_| ()) {
        Ok(report) => Ok(report.is_sound()),
        Err(error) if error.kind() == ErrorKind::Damaged => Ok(false),
        Err(error) => Err(stop("check failed")(error)),
    }
}

/// Fails with what `check` finds.
pub fn must_be_sound(engine: &Engine) -> Verdict {
    let report = engine.check(&mut |_| ()).map_err(stop("check failed"))?;
    if report.is_sound() { Ok(()) } else { Err(Stop::Wrong(format!("check finds {:?}", report.findings))) }
}

/// What every key of a view holds. Values are read in pieces of several sizes, as callers do.
pub fn read_view(view: &View) -> Result<Content> {
    let mut content = Content::default();
    for space in WORKLOAD.chain(AFTER).map(SpaceId) {
        if !view.has_space(space)? {
            continue;
        }
        let mut keys = Space::new();
        let mut cursor = view.cursor(space, KeyRange::all(), false)?;
        while let Some(entry) = cursor.next()? {
            keys.insert(entry.key.clone(), read_value(view, space, &entry.key)?);
        }
        content.0.insert(space, keys);
    }
    Ok(content)
}

fn read_value(view: &View, space: SpaceId, key: &[u8]) -> Result<Value> {
    let Some(stat) = view.stat(space, key)? else {
        return Err(Error::damaged("a key that the cursor shows is not found"));
    };
    let mut data = vec![0; stat.size as usize];
    let mut at = 0;
    while at < data.len() {
        let end = data.len().min(at + 70_001);
        let count = view.read(space, key, at as u64, &mut data[at..end])?;
        if count == 0 {
            return Err(Error::damaged("a value ends before its size"));
        }
        at += count;
    }
    Ok(Value { data: data.into(), version: Some(stat.version.0) })
}

/// What the store shows now.
pub fn read_all(engine: &Engine) -> Result<Content> {
    read_view(&engine.view())
}

/// Opens what damage has left and reads what can be read of it, with what reading says; `None` when opening refuses.
/// Any other error than of damage is wrong.
pub fn open_damaged(
    device: Arc<dyn Device>,
    coverage: &mut Coverage,
) -> Verdict<Option<(Engine, Content, Vec<Error>)>> {
    let engine = match open(device, Build::Right) {
        Ok(engine) => engine,
        Err(error) if matches!(error.kind(), ErrorKind::Damaged | ErrorKind::Unknown) => {
            coverage.count("refused to open");
            return Ok(None);
        }
        Err(error) => return Err(Stop::Wrong(format!("opening says {error:?}"))),
    };
    let (mut found, errors) = read_what_can_be(&engine);
    if let Some(space) = found.0.get_mut(&SpaceId::FIRST) {
        space.remove(MARK);
    }
    match errors.iter().find(|error| error.kind() != ErrorKind::Damaged) {
        Some(error) => Err(Stop::Wrong(format!("reading says {error:?}"))),
        None => Ok(Some((engine, found, errors))),
    }
}

/// What can be read in spite of damage, and the errors met.
pub fn read_what_can_be(engine: &Engine) -> (Content, Vec<Error>) {
    let (mut content, mut errors) = (Content::default(), Vec::new());
    let view = engine.view();
    for space in WORKLOAD.chain(AFTER).map(SpaceId) {
        match view.has_space(space) {
            Ok(true) => {}
            Ok(false) => continue,
            Err(error) => {
                errors.push(error);
                continue;
            }
        }
        let keys = content.0.entry(space).or_default();
        let mut cursor = match view.cursor(space, KeyRange::all(), false) {
            Ok(cursor) => cursor,
            Err(error) => {
                errors.push(error);
                continue;
            }
        };
        loop {
            match cursor.next() {
                Ok(None) => break,
                Ok(Some(entry)) => match read_value(&view, space, &entry.key) {
                    Ok(value) => {
                        keys.insert(entry.key, value);
                    }
                    Err(error) => errors.push(error),
                },
                Err(error) => {
                    errors.push(error);
                    break;
                }
            }
        }
    }
    (content, errors)
}

/// Stages a value piece by piece. Without `finish` it is given up half-way, and there is no token.
pub fn stage(engine: &Engine, data: &Bytes, hint: StageHint, finish: bool) -> Result<Option<StageToken>> {
    let mut stage = engine.stage(hint)?;
    let half = data.len() / 2;
    for piece in data[..if finish { data.len() } else { half }].chunks(17_001) {
        stage.write(piece)?;
    }
    if finish { stage.finish().map(Some) } else { Ok(None) }
}

/// The block at which a store's ring begins, as its first superblock says.
pub fn ring_start(device: &dyn Device) -> Verdict<u64> {
    let mut word = [0; 8];
    device.read_at(&mut word, 80, ReadMode::Direct).map_err(|error| Stop::Wrong(error.to_string()))?;
    Ok(u64::from_le_bytes(word))
}

/// Counts what a life of a store shows from outside.
pub fn count_events(engine: &Engine, recording: &Recording, ring_start: u64, coverage: &mut Coverage) {
    coverage.add("checkpoint", engine.checkpoints().saturating_sub(1));
    coverage.add("growth", recording.grows() as u64);
    coverage.add("discard", recording.discards() as u64);
    let block = BLOCK_LEN as u64;
    let ring = ring_start..ring_start + RING_BLOCKS;
    let mut written = std::collections::HashSet::new();
    for (offset, length) in recording.writes() {
        let first = offset / block;
        match first {
            0 | SECOND_SLOT_BLOCK => coverage.count("superblock written"),
            first if ring.contains(&first) => {
                if first == ring.start {
                    coverage.count("ring wrapped");
                }
            }
            first => {
                for block in first..first + length as u64 / block {
                    if !written.insert(block) {
                        coverage.count("block reused");
                    }
                }
            }
        }
    }
}
