//! Views: one version of everything, pinned.
//!
//! Invariants:
//! - What a view can reach is not reused until it is dropped or expired; an expired view gives an error, never
//!   other bytes: every read looks again after it has read.
//! - Views expire only beyond a limit of pinned space or of age, or where a checkpoint finds no other room; oldest first.
//!   Those of mapped bytes never do: whoever maps says how long.

mod answer;
mod blocks;
mod cursor;
mod find;
mod mapped;

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Weak};
use std::time::{Duration, Instant};

use bytes::Bytes;

use crate::batch::{KeyRange, SpaceId, Version};
use crate::buffers::BUFFER_LEN;
use crate::content::{Notes, Reading, as_record};
use crate::core::Core;
use crate::device::{BLOCK_LEN, ReadMode};
use crate::error::{Error, ErrorKind, Result};
use crate::lock::Mutex;
use crate::read_ahead::{ReadAhead, Reader, Source};
use crate::state::State;
use crate::tree::value::{Record, RecordHead};
use crate::tree::{NodeSource, Tree};
pub use answer::{LOOKUP_COPY_MAX, Lookup};
use blocks::blocks_of;
pub(crate) use blocks::blocks_of_piece;
pub use cursor::{Cursor, Entry, EntryRef};
pub use mapped::Mapped;

/// A view may be this old before it is taken back.
const AGE_MAX: Duration = Duration::from_secs(3600);
/// Views may hold back one block of so many of the store.
const PINNED_SHARE: u64 = 10;
/// …or this many blocks of a store that can grow: 256 MiB.
const PINNED_BLOCKS_MIN: u64 = 1 << 16;
/// Reads of values from this length on are watched for an order.
const STREAM_LEN_MIN: u64 = 128 << 10;

struct Pinned {
    core: Arc<Core>,
    state: State,
    pin: u64,
    expired: Arc<AtomicBool>,
    /// Whether there is a `stream`.
    streams: AtomicBool,
    /// The large value that was read last.
    stream: Mutex<Option<Stream>>,
}

/// How a large value is being read.
#[derive(Clone)]
struct Stream {
    value: LargeValue,
    ahead: Arc<ReadAhead>,
}

/// A large value of a view, as long as somebody has the view.
#[derive(Clone)]
struct LargeValue {
    view: Weak<Pinned>,
    space: SpaceId,
    key: Bytes,
}

impl LargeValue {
    fn view(&self) -> Result<View> {
        let pinned = self.view.upgrade();
        pinned.map(|pinned| View { pinned }).ok_or_else(|| Error::new(ErrorKind::Expired, "the view is gone"))
    }
}

impl Source for LargeValue {
    fn read(&self, offset: u64, buffer: &mut [u8], notes: &Notes) -> Result<usize> {
        self.view()?.read_noting(self.space, &self.key, offset, buffer, notes)
    }

    fn size(&self) -> Result<u64> {
        let stat = self.view()?.stat(self.space, &self.key)?;
        stat.map(|stat| stat.size).ok_or_else(absent)
    }

    fn still_holds(&self) -> bool {
        self.view().is_ok_and(|view| view.still_holds())
    }
}

impl Drop for Pinned {
    fn drop(&mut self) {
        if !self.core.process.is_here() {
            return;
        }
        let mut pins = self.core.pins.lock();
        pins.remove(self.pin);
    }
}

/// A key's version and size.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Stat {
    /// The commit that last changed it.
    pub version: Version,
    /// The length of its value in bytes.
    pub size: u64,
}

/// One version of everything. Cheap to clone; the clones share the pin.
#[derive(Clone)]
pub struct View {
    pinned: Arc<Pinned>,
}

impl View {
    pub(crate) fn new(core: &Arc<Core>) -> View {
        let mut pins = core.pins.lock();
        // Read under the lock of the pins, so that nothing is reused between the two.
        let state = core.visible.read().clone();
        let (pin, expired) = pins.add(state.version, false);
        drop(pins);
        let (streams, stream) = (AtomicBool::new(false), Mutex::new(None));
        View { pinned: Arc::new(Pinned { core: Arc::clone(core), state, pin, expired, streams, stream }) }
    }

    /// The last commit that it sees.
    pub fn version(&self) -> Version {
        self.pinned.state.version
    }

    /// The same version under a pin of its own that is never taken back.
    fn kept(&self) -> Result<View> {
        let core = &self.pinned.core;
        let mut pins = core.pins.lock();
        self.check()?;
        let state = self.pinned.state.clone();
        let (pin, expired) = pins.add(state.version, true);
        drop(pins);
        let (streams, stream) = (AtomicBool::new(false), Mutex::new(None));
        Ok(View { pinned: Arc::new(Pinned { core: Arc::clone(core), state, pin, expired, streams, stream }) })
    }

    /// Reads of what it pins.
    fn reading<'a>(&'a self, source: &'a dyn NodeSource, mode: ReadMode) -> Reading<'a> {
        Reading::new(source, self.core().device.as_ref(), mode).within(self.state()).through(&self.core().data)
    }

    pub(crate) fn core(&self) -> &Core {
        &self.pinned.core
    }

    /// What it pins.
    pub(crate) fn state(&self) -> &State {
        &self.pinned.state
    }

    /// Whether it was not taken back.
    pub(crate) fn still_holds(&self) -> bool {
        self.check().is_ok()
    }

    /// Fails when the view was taken back; called after every read.
    fn check(&self) -> Result<()> {
        self.pinned.core.process.check()?;
        if self.pinned.core.closed.load(Ordering::Acquire) {
            return Err(Error::new(ErrorKind::Stopped, "the store was closed"));
        }
        if self.pinned.expired.load(Ordering::SeqCst) {
            let message = "the view was open too long and was taken back; take a new one";
            return Err(Error::new(ErrorKind::Expired, message));
        }
        Ok(())
    }

    pub(crate) fn checked<T>(&self, result: Result<T>) -> Result<T> {
        self.check()?;
        result
    }

    /// Whether a space is there.
    pub fn has_space(&self, space: SpaceId) -> Result<bool> {
        let found = self.tree(&self.core().nodes, space);
        self.checked(found).map(|tree| tree.is_some())
    }

    /// Version and size of a key; `None` when it (or its space) is absent.
    pub fn stat(&self, space: SpaceId, key: &[u8]) -> Result<Option<Stat>> {
        let found = self.look_through(space, key, |_, held| {
            let head = RecordHead::of(&held)?;
            Ok(Stat { version: head.version, size: head.size })
        });
        self.checked(found)
    }

    /// Reads into `buffer` from `offset`; a short count only at the value's end. `NotFound` when the key is absent.
    pub fn read(&self, space: SpaceId, key: &[u8], offset: u64, buffer: &mut [u8]) -> Result<usize> {
        if let Some(stream) = self.stream_of(space, key) {
            let read = self.reader(&stream).read(offset, buffer);
            return self.checked(read);
        }
        let core = self.core();
        let reading = self.reading(&core.nodes, ReadMode::Cached);
        let found = self.look_through(space, key, |tree, held| {
            let head = RecordHead::of(&held)?;
            if let Some(count) = read_in_memory(&head, offset, buffer) {
                return Ok(Some(count));
            }
            if head.size >= STREAM_LEN_MIN {
                return Ok(None);
            }
            let record = as_record(held.to_value()?)?;
            read_found(&reading, tree, &record, offset, buffer, &Notes::default()).map(Some)
        });
        match self.checked(found)? {
            None => Err(absent()),
            Some(Some(count)) => Ok(count),
            Some(None) => {
                let stream = self.begin_stream(space, key);
                let read = self.reader(&stream).read(offset, buffer);
                self.checked(read)
            }
        }
    }

    /// As `read`, without windows; tells what it met.
    pub(crate) fn read_noting(
        &self,
        space: SpaceId,
        key: &[u8],
        offset: u64,
        buffer: &mut [u8],
        notes: &Notes,
    ) -> Result<usize> {
        let core = self.core();
        let reading = self.reading(&core.nodes, ReadMode::Cached);
        let read = self.read_with(&reading, space, key, offset, buffer, notes);
        self.checked(read)
    }

    /// How the value is being read, if it is the one that was read last.
    fn stream_of(&self, space: SpaceId, key: &[u8]) -> Option<Stream> {
        if !self.pinned.streams.load(Ordering::Relaxed) {
            return None;
        }
        let stream = self.pinned.stream.lock();
        stream.as_ref().filter(|stream| stream.value.space == space && stream.value.key == key).cloned()
    }

    fn begin_stream(&self, space: SpaceId, key: &[u8]) -> Stream {
        let value = LargeValue { view: Arc::downgrade(&self.pinned), space, key: Bytes::copy_from_slice(key) };
        let stream = Stream { value, ahead: Arc::default() };
        *self.pinned.stream.lock() = Some(stream.clone());
        self.pinned.streams.store(true, Ordering::Relaxed);
        stream
    }

    /// A view never changes: all windows are of one epoch.
    fn reader<'a>(&'a self, stream: &'a Stream) -> Reader<'a, LargeValue> {
        Reader {
            supply: self.pinned.core.read_supply(),
            ahead: &stream.ahead,
            source: &stream.value,
            epoch: 0,
            eager: false,
        }
    }

    /// As `read`, but `None` when the device would have to be waited for.
    pub fn read_now(&self, space: SpaceId, key: &[u8], offset: u64, buffer: &mut [u8]) -> Result<Option<usize>> {
        if let Some(stream) = self.stream_of(space, key)
            && let Some(count) = self.reader(&stream).read_now(offset, buffer)
        {
            return self.checked(Ok(Some(count)));
        }
        let core = self.core();
        let nodes = core.nodes.now();
        let reading = self.reading(&nodes, ReadMode::Now);
        let read = self.read_with(&reading, space, key, offset, buffer, &Notes::default());
        match self.checked(read) {
            Ok(count) => Ok(Some(count)),
            Err(error) if error.kind() == ErrorKind::Busy => Ok(None),
            Err(error) => Err(error),
        }
    }

    fn read_with(
        &self,
        reading: &Reading<'_>,
        space: SpaceId,
        key: &[u8],
        offset: u64,
        buffer: &mut [u8],
        notes: &Notes,
    ) -> Result<usize> {
        let read = self.look_at(reading.source, space, key, |tree, held| {
            match read_in_memory(&RecordHead::of(&held)?, offset, buffer) {
                Some(count) => Ok(count),
                None => read_found(reading, tree, &as_record(held.to_value()?)?, offset, buffer, notes),
            }
        });
        read?.ok_or_else(absent)
    }

    /// Verified bytes of a range, shared where they lie in memory; shorter only at the value's end.
    pub fn bytes(&self, space: SpaceId, key: &[u8], offset: u64, length: usize) -> Result<Bytes> {
        self.part(space, key, offset, length)?.map(|(_, bytes)| bytes).ok_or_else(absent)
    }

    /// The whole value of a key, shared where it lies in memory; `None` when the key (or its space) is absent.
    pub fn get(&self, space: SpaceId, key: &[u8]) -> Result<Option<Bytes>> {
        Ok(self.part(space, key, 0, usize::MAX)?.map(|(_, bytes)| bytes))
    }

    /// As `bytes`, with the key's version and size; `None` when the key (or its space) is absent.
    pub fn part(&self, space: SpaceId, key: &[u8], offset: u64, length: usize) -> Result<Option<(Stat, Bytes)>> {
        let core = self.core();
        let reading = self.reading(&core.nodes, ReadMode::Cached);
        let found = self.look_through(space, key, |tree, held| {
            let head = RecordHead::of(&held)?;
            let stat = Stat { version: head.version, size: head.size };
            if let Some(bytes) = head.bytes {
                return Ok((stat, bytes.share(offset, length)));
            }
            let count = head.size.saturating_sub(offset).min(length as u64) as usize;
            let record = as_record(held.to_value()?)?;
            if let Some(bytes) = reading.share(tree, &record, offset, count)? {
                return Ok((stat, bytes));
            }
            // What one thread takes from an allocator and another gives back may come back late, or never.
            if (BUFFER_LEN / 2..=BUFFER_LEN).contains(&count) {
                let mut buffer = core.buffers.take();
                reading.read(tree, &record, offset, &mut buffer[..count])?;
                return Ok((stat, Bytes::from_owner(buffer).slice(..count)));
            }
            let mut buffer = vec![0; count];
            if count > 0 {
                reading.read(tree, &record, offset, &mut buffer)?;
            }
            Ok((stat, Bytes::from(buffer)))
        });
        self.checked(found)
    }

    /// Shows the whole value of a key, where it lies if that is in memory; `None` when the key (or its space) is
    /// absent. The bytes are verified; `see` may have been called also when the view turns out to be expired.
    pub fn look<R>(&self, space: SpaceId, key: &[u8], see: impl FnOnce(&[u8]) -> R) -> Result<Option<R>> {
        let core = self.core();
        let reading = self.reading(&core.nodes, ReadMode::Cached);
        let found = self.look_through(space, key, |tree, held| {
            let head = RecordHead::of(&held)?;
            if let Some(bytes) = head.bytes {
                return Ok(see(bytes.as_slice()));
            }
            let length = usize::try_from(head.size).map_err(|_| Error::invalid("the value is larger than memory"))?;
            let mut buffer = vec![0; length];
            reading.read(tree, &as_record(held.to_value()?)?, 0, &mut buffer)?;
            Ok(see(&buffer))
        });
        self.checked(found)
    }

    /// Bytes of the device that a value's data takes, in whole blocks; `None` when the key is absent. Data that
    /// waits in memory counts as what it will take, holes and bytes in the index as nothing, shared blocks whole.
    pub fn allocated(&self, space: SpaceId, key: &[u8]) -> Result<Option<u64>> {
        let core = self.core();
        let found = self.find(&core.nodes, space, key);
        let Some((tree, record)) = self.checked(found)? else { return Ok(None) };
        let blocks = blocks_of(&tree, &core.nodes, &record.content);
        self.checked(blocks).map(|blocks| Some(blocks * BLOCK_LEN as u64))
    }

    /// A cursor over a range, before its first entry.
    pub fn cursor(&self, space: SpaceId, range: KeyRange, backward: bool) -> Result<Cursor> {
        let found = self.tree(&self.core().nodes, space);
        let tree = self.checked(found)?.unwrap_or_default();
        // An upside-down range holds nothing.
        let tree = if range.is_empty() { Tree::new() } else { tree };
        Ok(Cursor::new(self.clone(), &tree, range, backward))
    }
}

/// Copies what there is of a value from `offset` on, if it is in memory.
fn read_in_memory(head: &RecordHead<'_>, offset: u64, buffer: &mut [u8]) -> Option<usize> {
    let bytes = head.bytes.as_ref()?.as_slice();
    let bytes = usize::try_from(offset).ok().and_then(|from| bytes.get(from..)).unwrap_or_default();
    let count = bytes.len().min(buffer.len());
    buffer.get_mut(..count)?.copy_from_slice(bytes.get(..count)?);
    Some(count)
}

/// Reads what there is of a value from `offset` on.
fn read_found(
    reading: &Reading<'_>,
    tree: &Tree,
    record: &Record,
    offset: u64,
    buffer: &mut [u8],
    notes: &Notes,
) -> Result<usize> {
    let count = record.size.saturating_sub(offset).min(buffer.len() as u64) as usize;
    let (head, _) = buffer.split_at_mut(count);
    if !head.is_empty() {
        reading.read_noting(tree, record, offset, head, notes)?;
    }
    Ok(count)
}

fn absent() -> Error {
    Error::new(ErrorKind::NotFound, "the key is not there")
}

impl Core {
    /// Takes views back, oldest first, until one gives blocks to the writers; false when none can.
    pub(crate) fn expire_for_room(&self) -> Result<bool> {
        let before = self.allocator.free_blocks();
        while self.pins.lock().expire_oldest(|_| true) {
            self.release_reusable()?;
            if self.allocator.free_blocks() > before {
                return Ok(true);
            }
        }
        Ok(false)
    }

    /// Takes views back that are too old, or that hold too much space while the store has little.
    pub(crate) fn expire_views(&self) {
        let now = Instant::now();
        while self.pins.lock().expire_oldest(|pin| now.duration_since(pin.began) > AGE_MAX) {}
        let most = match self.checkpointed.lock().newest.blocks {
            blocks if self.device.is_fixed() => blocks / PINNED_SHARE,
            // A store that can grow need not take views back so soon.
            blocks => (blocks / PINNED_SHARE).max(PINNED_BLOCKS_MIN),
        };
        loop {
            let pinned = {
                let reuse = self.reuse.lock();
                reuse.queue.blocks_up_to(reuse.safe)
            };
            if pinned <= most || !self.pins.lock().expire_oldest(|_| true) {
                return;
            }
            if self.release_reusable().is_err() {
                return;
            }
        }
    }
}
