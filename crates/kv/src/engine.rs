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
    Batch, Commit, Durability, Engine, Error, ErrorKind, Event, KeyRange, Operation, Options, Payload, Result, SpaceId,
    StageHint, StageToken, Ticket, Version,
};

use crate::check::check_batch;
use crate::copies;
use crate::seam::{
    Change, Cursor, Direction, ENTRY_VALUE_LEN_MAX, Entry, Glance, Kv, Profile, ReadNow, SpaceEntry, Stage, Stat,
    Usage, View, Watch, WatchEvent,
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
            glances: true,
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

    fn get(&self, space: SpaceId, key: &[u8]) -> Result<Option<Bytes>> {
        self.check_open()?;
        self.engine.get(space, key)
    }

    fn glance(&self, space: SpaceId, key: &[u8], offset: u64, length: usize) -> Result<Glance> {
        self.check_open()?;
        self.engine.part_now(space, key, offset, length).map(glance)
    }

    fn stage(&self, hint: StageHint) -> Result<Box<dyn Stage>> {
        Ok(Box::new(self.engine.stage(hint)?))
    }

    fn submit(&self, batch: Batch, durability: Durability) -> Ticket {
        match check_batch(&self.profile, &batch) {
            Ok(()) => {
                taken(&batch);
                self.engine.submit(batch, durability)
            }
            Err(error) => Ticket::ready(Err(error)),
        }
    }

    fn commit(&self, batch: Batch, durability: Durability) -> Result<Commit> {
        check_batch(&self.profile, &batch)?;
        taken(&batch);
        self.engine.commit(batch, durability)
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

fn glance(glance: koine_engine::Glance) -> Glance {
    match glance {
        koine_engine::Glance::Absent => Glance::Absent,
        koine_engine::Glance::Part(found, bytes) => {
            taken_out(&bytes);
            Glance::Part(stat(found), bytes)
        }
        koine_engine::Glance::Unknown => Glance::Unknown,
    }
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

    fn has_space(&self, space: SpaceId) -> Result<bool> {
        koine_engine::View::has_space(self, space)
    }

    fn spaces(&self, from: SpaceId, most: usize) -> Result<Vec<SpaceEntry>> {
        let entry = |info: koine_engine::SpaceInfo| SpaceEntry { space: info.space, is_snapshot: info.is_snapshot };
        let all = koine_engine::View::spaces(self)?.into_iter();
        Ok(all.filter(|info| info.space >= from).take(most).map(entry).collect())
    }

    fn stat(&self, space: SpaceId, key: &[u8]) -> Result<Option<Stat>> {
        Ok(koine_engine::View::stat(self, space, key)?.map(stat))
    }

    fn read(&self, space: SpaceId, key: &[u8], offset: u64, buffer: &mut [u8]) -> Result<usize> {
        koine_engine::View::read(self, space, key, offset, buffer)
    }

    fn read_now(&self, space: SpaceId, key: &[u8], offset: u64, buffer: &mut [u8]) -> Result<ReadNow> {
        let read = koine_engine::View::read_now(self, space, key, offset, buffer)?;
        Ok(read.map_or(ReadNow::WouldBlock, ReadNow::Read))
    }

    fn glance(&self, space: SpaceId, key: &[u8], offset: u64, length: usize) -> Result<Glance> {
        koine_engine::View::glance(self, space, key, offset, length).map(glance)
    }

    fn bytes(&self, space: SpaceId, key: &[u8], offset: u64, length: usize) -> Result<Bytes> {
        let bytes = koine_engine::View::bytes(self, space, key, offset, length)?;
        taken_out(&bytes);
        Ok(bytes)
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
