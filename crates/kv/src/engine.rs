//! The back end on the engine: a thin adapter.
//!
//! Invariants:
//! - Nothing is decided here but the form of a batch: the engine keeps every promise of the seam.
//! - After `close` every call but `close` fails with `Stopped`.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use bytes::Bytes;
use koine_engine::batch::{BATCH_OPERATIONS_MAX, KEY_LEN_MAX};
use koine_engine::device::Device;
use koine_engine::{
    Batch, Durability, Engine, Error, ErrorKind, Event, KeyRange, Operation, Options, Payload, Result, SpaceId,
    StageHint, StageToken, Ticket, Version,
};

use crate::check::check_batch;
use crate::copies;
use crate::seam::{
    Change, Cursor, Direction, ENTRY_VALUE_LEN_MAX, Entry, Kv, Lookup, Profile, SpaceEntry, Stage, Stat, Usage, View,
    Wait, Watch, WatchEvent,
};

/// Values up to this length go through the log; longer ones are better placed by a stage.
const INLINE_LEN_BEST: usize = 32 << 10;

/// A store on a device.
pub struct EngineKv {
    engine: Engine,
    profile: Profile,
    closed: AtomicBool,
}

impl EngineKv {
    /// Opens the store on a device, recovering what a crash left.
    pub fn open(device: Arc<dyn Device>, options: Options) -> Result<EngineKv> {
        Engine::open(device, options).map(EngineKv::new)
    }

    /// Over an open engine.
    pub fn new(engine: Engine) -> EngineKv {
        let limits = engine.limits();
        let profile = Profile {
            name: "engine",
            key_len_max: KEY_LEN_MAX,
            batch_operations_max: BATCH_OPERATIONS_MAX,
            batch_bytes_max: limits.batch_bytes_max,
            inline_len_best: INLINE_LEN_BEST.min(limits.batch_bytes_max),
            durable: true,
            reads_at_once: true,
        };
        EngineKv { engine, profile, closed: AtomicBool::new(false) }
    }

    /// The engine, for what is not of the seam: check, checkpoint, information.
    pub fn engine(&self) -> &Engine {
        &self.engine
    }

    fn check_open(&self) -> Result<()> {
        self.engine.check_process()?;
        if self.closed.load(Ordering::Acquire) {
            return Err(Error::new(ErrorKind::Stopped, "the store was closed"));
        }
        Ok(())
    }
}

impl std::fmt::Debug for EngineKv {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("EngineKv").field("info", &self.engine.info()).finish_non_exhaustive()
    }
}

impl Kv for EngineKv {
    fn profile(&self) -> &Profile {
        &self.profile
    }

    fn view(&self) -> Result<Arc<dyn View>> {
        self.check_open()?;
        Ok(Arc::new(self.engine.view()))
    }

    fn lookup(&self, space: SpaceId, key: &[u8], offset: u64, length: usize, wait: Wait) -> Result<Lookup> {
        self.check_open()?;
        if length == 0 && wait == Wait::Allowed {
            return self.engine.stat(space, key).map(found_alone);
        }
        match (self.engine.lookup_now(space, key, offset, length)?, wait) {
            (koine_engine::Lookup::WouldWait, Wait::Allowed) => {
                View::lookup(&self.engine.view(), space, key, offset, length, wait)
            }
            (found, _) => Ok(told(found)),
        }
    }

    fn stage(&self, hint: StageHint) -> Result<Box<dyn Stage>> {
        Ok(Box::new(self.engine.stage(hint)?))
    }

    fn submit(&self, batch: Batch, durability: Durability, wait: Wait) -> Ticket {
        match check_batch(&self.profile, &batch) {
            Ok(()) => {
                taken(&batch);
                match wait {
                    Wait::Allowed => Ticket::ready(self.engine.commit(batch, durability)),
                    Wait::Never => self.engine.submit(batch, durability),
                }
            }
            Err(error) => Ticket::ready(Err(error)),
        }
    }

    fn watch(&self, space: SpaceId, range: KeyRange, from: Version) -> Result<Box<dyn Watch>> {
        self.check_open()?;
        Ok(Box::new(self.engine.watch(space, range, from)?))
    }

    fn usage(&self) -> Result<Usage> {
        self.check_open()?;
        let usage = self.engine.usage();
        Ok(Usage { total: usage.total, used: usage.used, free: usage.free, limit: usage.limit })
    }

    fn sync(&self) -> Result<()> {
        self.check_open()?;
        self.engine.sync()
    }

    fn close(&self) -> Result<()> {
        self.closed.store(true, Ordering::Release);
        self.engine.close()
    }
}

/// Counts what the engine does with the bytes of a batch: they are copied to where they are written from, in the ring or in a
/// buffer for the device, and hashed there.
fn taken(batch: &Batch) {
    for operation in &batch.operations {
        if let Operation::Put { value: Payload::Bytes(bytes), .. }
        | Operation::WriteAt { data: Payload::Bytes(bytes), .. }
        | Operation::Append { data: Payload::Bytes(bytes), .. } = operation
        {
            copies::copied(bytes.len());
            copies::hashed(bytes.len());
        }
    }
}

fn stat(stat: koine_engine::Stat) -> Stat {
    Stat { version: stat.version, size: stat.size }
}

fn told(answer: koine_engine::Lookup) -> Lookup {
    match answer {
        koine_engine::Lookup::Absent => Lookup::Absent,
        koine_engine::Lookup::Found(found, bytes) => {
            taken_out(&bytes);
            Lookup::Found(stat(found), bytes)
        }
        koine_engine::Lookup::WouldWait => Lookup::WouldWait,
    }
}

/// A key without bytes of its value.
fn found_alone(found: Option<koine_engine::Stat>) -> Lookup {
    found.map_or(Lookup::Absent, |found| Lookup::Found(stat(found), Bytes::new()))
}

/// Counts what happened to bytes that did not lie in the index: they came through a buffer that the device can read into, and
/// were verified.
fn taken_out(bytes: &Bytes) {
    if bytes.len() as u64 > ENTRY_VALUE_LEN_MAX {
        copies::copied(bytes.len());
        copies::hashed(bytes.len());
    }
}

impl View for koine_engine::View {
    fn version(&self) -> Version {
        koine_engine::View::version(self)
    }

    fn keep(&self) -> Result<()> {
        Ok(())
    }

    fn spaces(&self, from: SpaceId, most: usize) -> Result<Vec<SpaceEntry>> {
        let entry = |info: koine_engine::SpaceInfo| SpaceEntry { space: info.space, is_snapshot: info.is_snapshot };
        Ok(self.spaces_from(from, most)?.into_iter().map(entry).collect())
    }

    fn lookup(&self, space: SpaceId, key: &[u8], offset: u64, length: usize, wait: Wait) -> Result<Lookup> {
        match wait {
            Wait::Never => self.lookup_now(space, key, offset, length).map(told),
            Wait::Allowed if length == 0 => koine_engine::View::stat(self, space, key).map(found_alone),
            Wait::Allowed => Ok(match self.part(space, key, offset, length)? {
                None => Lookup::Absent,
                Some((found, bytes)) => {
                    taken_out(&bytes);
                    Lookup::Found(stat(found), bytes)
                }
            }),
        }
    }

    fn read_into(
        &self,
        space: SpaceId,
        key: &[u8],
        offset: u64,
        buffer: &mut [u8],
        wait: Wait,
    ) -> Result<Option<usize>> {
        match wait {
            Wait::Never => self.read_now(space, key, offset, buffer),
            Wait::Allowed => koine_engine::View::read(self, space, key, offset, buffer).map(Some),
        }
    }

    fn cursor(&self, space: SpaceId, range: KeyRange, direction: Direction) -> Result<Box<dyn Cursor>> {
        let backward = direction == Direction::Backward;
        Ok(Box::new(koine_engine::View::cursor(self, space, range, backward)?))
    }
}

impl Cursor for koine_engine::Cursor {
    fn next(&mut self) -> Result<Option<Entry>> {
        let entry = koine_engine::Cursor::next(self)?;
        Ok(entry.map(|entry| Entry { key: entry.key, stat: stat(entry.stat), value: entry.value }))
    }

    fn seek(&mut self, key: &[u8]) -> Result<()> {
        koine_engine::Cursor::seek(self, key);
        Ok(())
    }
}

impl Stage for koine_engine::Stage {
    fn write(&mut self, piece: &[u8]) -> Result<()> {
        koine_engine::Stage::write(self, piece)?;
        copies::copied(piece.len());
        copies::hashed(piece.len());
        Ok(())
    }

    fn length(&self) -> u64 {
        koine_engine::Stage::length(self)
    }

    fn finish(self: Box<Self>) -> Result<StageToken> {
        koine_engine::Stage::finish(*self)
    }
}

impl Watch for koine_engine::Watch {
    fn next(&mut self, timeout: Duration) -> Result<Option<WatchEvent>> {
        let event = koine_engine::Watch::next(self, timeout)?;
        Ok(event.map(|event| match event {
            Event::Changed { version, keys } => WatchEvent::Changed(Change { version, keys }),
            Event::LostSince(version) => WatchEvent::LostSince(version),
        }))
    }
}
