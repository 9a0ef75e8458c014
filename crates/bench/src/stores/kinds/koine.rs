//! Our engine, through `koine_engine::Engine` as an embedding program calls it.

use super::{Item, Key, Level, Memory, Outcome, Pending, Session, Store, failed};
use bytes::Bytes;
use koine_engine::device::{AlignedBuffer, Device, FileDevice, IoMode, Mapping, OpenOptions, ReadMode, Writing};
use koine_engine::{
    Batch, Durability, Engine, FormatOptions, KeyRange, Operation, Options, Payload, Place, SpaceId, StageHint, Ticket,
    View,
};
use koine_env::OsRandom;
use std::io;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

/// The length of a new file: what `koine serve` gives it too.
const FILE_LEN_FIRST: u64 = 256 << 20;
/// Where all keys lie.
pub const SPACE: SpaceId = SpaceId::FIRST;

/// The environment's word for how our stores are reached, so that workers hear of it too.
pub const IO_VARIABLE: &str = "KOINE_BENCH_IO";

/// How our stores are reached: as `KOINE_BENCH_IO` says, if it says anything.
pub fn io_mode() -> IoMode {
    std::env::var(IO_VARIABLE).ok().and_then(|text| text.parse().ok()).unwrap_or_default()
}

/// An open store of ours.
pub struct Koine {
    engine: Engine,
    flushes: Arc<AtomicU64>,
    /// What an empty store uses: superblocks and ring.
    empty_len: u64,
}

/// A device that counts its flushes.
struct CountingDevice {
    device: FileDevice,
    flushes: Arc<AtomicU64>,
}

impl Device for CountingDevice {
    fn len(&self) -> io::Result<u64> {
        self.device.len()
    }
    fn grow(&self, length: u64) -> io::Result<()> {
        self.device.grow(length)
    }
    fn holds(&self, offset: u64, length: usize) -> bool {
        self.device.holds(offset, length)
    }
    fn read_at(&self, buffer: &mut [u8], offset: u64, mode: ReadMode) -> io::Result<()> {
        self.device.read_at(buffer, offset, mode)
    }
    fn prefetch(&self, offset: u64, length: u64) {
        self.device.prefetch(offset, length);
    }
    fn write_at(&self, data: &[u8], offset: u64) -> io::Result<()> {
        self.device.write_at(data, offset)
    }
    fn begin_write(&self, buffer: AlignedBuffer, offset: u64) -> Writing {
        self.device.begin_write(buffer, offset)
    }
    fn begin_data(&self, buffer: AlignedBuffer, offset: u64) -> Writing {
        self.device.begin_data(buffer, offset)
    }
    fn write_cached(&self, data: &[u8], offset: u64) -> io::Result<()> {
        self.device.write_cached(data, offset)
    }
    fn sync(&self) -> io::Result<()> {
        self.flushes.fetch_add(1, Ordering::Relaxed);
        self.device.sync()
    }
    fn discard(&self, offset: u64, length: u64) -> io::Result<()> {
        self.device.discard(offset, length)
    }
    fn map(&self, parts: &[(u64, usize)]) -> io::Result<Option<Mapping>> {
        self.device.map(parts)
    }
    fn close(&self) -> io::Result<()> {
        self.device.close()
    }
    fn is_fixed(&self) -> bool {
        self.device.is_fixed()
    }
}

/// Makes an empty store in a new file.
pub fn format_file(path: &Path) -> Outcome<()> {
    let device = FileDevice::open(path, OpenOptions { create: true, read_only: false }).map_err(failed("make"))?;
    device.grow(FILE_LEN_FIRST).map_err(failed("make room in the store"))?;
    Engine::format(&device, FormatOptions::default(), &OsRandom).map_err(failed("format"))?;
    device.close().map_err(failed("close"))
}

impl Koine {
    /// Opens the store at `path`, made when it is missing.
    pub fn open(path: &Path, memory: Memory) -> Outcome<Koine> {
        let is_new = !path.exists();
        if is_new {
            format_file(path)?;
        }
        let flushes = Arc::new(AtomicU64::new(0));
        let device = FileDevice::open_with(path, OpenOptions::default(), io_mode()).map_err(failed("open"))?;
        let counted = CountingDevice { device, flushes: Arc::clone(&flushes) };
        let options = Options { memory_len: memory.total_len as u64, ..Options::default() };
        let engine = Engine::open(Arc::new(counted), options).map_err(failed("open"))?;
        let empty_len = engine.info().ring_len;
        if is_new {
            let batch = Batch::new().then(Operation::CreateSpace { space: SPACE });
            engine.submit(batch, Durability::Sync).wait().map_err(failed("make the space"))?;
        }
        Ok(Koine { engine, flushes, empty_len })
    }

    /// Stores one value of `length` bytes made of `piece` again and again, and makes it durable.
    pub fn put_large(&self, number: u64, length: u64, piece: &[u8]) -> Outcome<()> {
        let hint = StageHint { length: Some(length), ..StageHint::default() };
        let mut stage = self.engine.stage(hint).map_err(failed("begin a large value"))?;
        let mut left = length;
        while left > 0 {
            let part = piece.get(..left.min(piece.len() as u64) as usize).unwrap_or(piece);
            stage.write(part).map_err(failed("write a large value"))?;
            left -= part.len() as u64;
        }
        let value = Payload::Stage(stage.finish().map_err(failed("finish a large value"))?);
        let at = Place::new(SPACE, large_key(number));
        let batch = Batch::new().then(Operation::Put { at, value });
        self.engine.submit(batch, Durability::Sync).wait().map(drop).map_err(failed("put a large value"))
    }

    /// Reads it back, piece after piece, and compares.
    pub fn read_large(&self, number: u64, length: u64, piece: &[u8]) -> Outcome<()> {
        let (view, key) = (self.engine.view(), large_key(number));
        let mut buffer = vec![0; piece.len()];
        let mut offset = 0;
        while offset < length {
            let count = view.read(SPACE, &key, offset, &mut buffer).map_err(failed("read a large value"))?;
            let expected = (length - offset).min(piece.len() as u64) as usize;
            let ends_right = |at: usize| buffer.get(at..at + 8) == piece.get(at..at + 8);
            if count != expected || !ends_right(0) || !ends_right(count.saturating_sub(8)) {
                return Err(format!("a large value has wrong bytes at {offset}"));
            }
            offset += count as u64;
        }
        Ok(())
    }

    /// The same without a copy: the pages of the device.
    pub fn map_large(&self, number: u64, length: u64, piece: &[u8]) -> Outcome<()> {
        let (view, key) = (self.engine.view(), large_key(number));
        let mut offset = 0;
        while offset < length {
            let mapped = view.map(SPACE, &key, offset, piece.len()).map_err(failed("map a large value"))?;
            let expected = (length - offset).min(piece.len() as u64) as usize;
            let ends_right = |at: usize| mapped.get(at..at + 8) == piece.get(at..at + 8);
            if mapped.len() != expected || !ends_right(0) || !ends_right(expected.saturating_sub(8)) {
                return Err(format!("a large value has wrong bytes at {offset}"));
            }
            offset += expected as u64;
        }
        Ok(())
    }

    /// Closes it.
    pub fn end(&self) -> Outcome<()> {
        self.engine.close().map_err(failed("close"))
    }
}

/// Large values sort behind all items.
fn large_key(number: u64) -> Vec<u8> {
    [&[0xff; 8], number.to_be_bytes().as_slice()].concat()
}

/// Takes a file out of the page cache, as far as the system lets it be.
pub fn forget_cached(path: &Path) {
    if let Ok(file) = std::fs::File::open(path) {
        // Only clean pages are forgotten.
        let _unsynced = file.sync_all();
        let _still_cached = rustix::fs::fadvise(&file, 0, None, rustix::fs::Advice::DontNeed);
    }
}

fn durability(level: Level) -> Durability {
    match level {
        Level::Written => Durability::Written,
        Level::Sync => Durability::Sync,
    }
}

fn batch(items: &[Item]) -> Batch {
    items.iter().fold(Batch::new(), |batch, item| {
        batch.put(SPACE, Bytes::copy_from_slice(&item.key), Bytes::copy_from_slice(&item.value))
    })
}

impl Store for Koine {
    fn session(&self) -> Outcome<Box<dyn Session + '_>> {
        Ok(Box::new(KoineSession { engine: &self.engine, view: None }))
    }

    fn put(&self, items: &[Item], level: Level) -> Outcome<()> {
        self.engine.commit(batch(items), durability(level)).map(drop).map_err(failed("put"))
    }

    fn remove(&self, keys: &[Key], level: Level) -> Outcome<()> {
        let batch = keys.iter().fold(Batch::new(), |batch, key| batch.delete(SPACE, Bytes::copy_from_slice(key)));
        self.engine.commit(batch, durability(level)).map(drop).map_err(failed("delete"))
    }

    fn submit(&self, item: &Item, level: Level) -> Option<Box<dyn Pending>> {
        let ticket = self.engine.submit(batch(std::slice::from_ref(item)), durability(level));
        Some(Box::new(PendingCommit(ticket)))
    }

    fn sync(&self) -> Outcome<()> {
        self.engine.sync().map_err(failed("sync"))
    }

    fn settle(&self) -> Outcome<()> {
        // Two: what the first one freed may be used again after the second.
        self.engine.checkpoint().and_then(|()| self.engine.checkpoint()).map_err(failed("checkpoint"))
    }

    fn used_len(&self) -> Outcome<Option<u64>> {
        let usage = self.engine.usage();
        Ok(Some(usage.used.saturating_sub(usage.waiting).saturating_sub(self.empty_len)))
    }

    fn flushes(&self) -> Option<u64> {
        Some(self.flushes.load(Ordering::Relaxed))
    }

    fn close(self: Box<Self>) -> Outcome<()> {
        self.engine.close().map_err(failed("close"))
    }
}

struct PendingCommit(Ticket);

impl Pending for PendingCommit {
    fn wait(self: Box<Self>) -> Outcome<()> {
        self.0.wait().map(drop).map_err(failed("put"))
    }
}

struct KoineSession<'a> {
    engine: &'a Engine,
    view: Option<View>,
}

impl KoineSession<'_> {
    fn view(&self) -> View {
        self.view.clone().unwrap_or_else(|| self.engine.view())
    }
}

impl Session for KoineSession<'_> {
    fn pin(&mut self) -> Outcome<()> {
        self.view = Some(self.engine.view());
        Ok(())
    }

    fn get(&mut self, key: &[u8], found: &mut dyn FnMut(&[u8])) -> Outcome<bool> {
        match &self.view {
            Some(view) => view.look(SPACE, key, |bytes| found(bytes)).map(|seen| seen.is_some()),
            None => self.engine.get(SPACE, key).map(|value| value.map(|bytes| found(&bytes)).is_some()),
        }
        .map_err(failed("get"))
    }

    fn scan(&mut self, from: &[u8], each: &mut dyn FnMut(&[u8], &[u8]) -> bool) -> Outcome<()> {
        let range = KeyRange { start: Bytes::copy_from_slice(from), end: None };
        let view = self.view();
        let mut cursor = view.cursor(SPACE, range, false).map_err(failed("scan"))?;
        while let Some(entry) = cursor.step().map_err(failed("scan"))? {
            let goes_on = match entry.value {
                Some(value) => each(entry.key, value),
                None => {
                    let value = view.bytes(SPACE, entry.key, 0, usize::MAX).map_err(failed("scan"))?;
                    each(entry.key, &value)
                }
            };
            if !goes_on {
                break;
            }
        }
        Ok(())
    }
}
