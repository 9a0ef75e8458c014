//! Transactions: reads become conditions, writes become operations, one batch commits both.
//!
//! Invariants:
//! - What was read through a transaction holds when it commits, or nothing of it happens. What is
//!   written without being read depends on nothing: two transactions that only add to a counter or
//!   append to a log do not disturb each other.
//! - A transaction reads its own writes: values, lengths, deletions, whole ranges, made and dropped
//!   spaces. Reading depends on what the written value was made of.
//! - Nothing is sent before the commit; a transaction that is dropped did nothing.
//!
//! What it cannot do, and says so with `Unsupported`: read the bytes of a stage before the commit (its
//! length and that it is there are known), and read a space that it clones or snapshots. Whether a space
//! exists is read without a condition, as the seam has none for it; a `CreateSpace` or `DropSpace` is refused
//! by itself when it was wrong.

mod counters;
mod cursor;
mod overlay;
mod retry;

#[cfg(test)]
mod tests;

use std::collections::BTreeMap;
use std::sync::Arc;

use bytes::{Bytes, BytesMut};

use koine_engine::{
    Batch, Condition, Error, ErrorKind, KeyRange, Operation, Payload, Place, RequestId, Result, SpaceId, Version,
};

use self::overlay::{Buffered, Overlay, Source};
use crate::seam::{Direction, Kv, Stat, View};
use crate::sparse::Piece;

pub use self::cursor::{SeenEntry, TransactionCursor};
pub(crate) use self::retry::transact;
pub use self::retry::{ATTEMPTS_MAX, pause_before_attempt, request_of_attempt};

/// What a transaction knows of a key.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Seen {
    /// The commit that last changed it; `None` when this transaction does.
    pub version: Option<Version>,
    /// The length of its value in bytes.
    pub size: u64,
}

/// What was read, to be held against the state at the commit.
#[derive(Default)]
struct Reads {
    /// What the view has of each key that was read; `None` where it is absent.
    keys: BTreeMap<Place, Option<Stat>>,
    ranges: Vec<(SpaceId, KeyRange)>,
}

impl Reads {
    /// Notes that the view's state of a key matters, and gives it; a key is looked up once.
    fn key(&mut self, view: &dyn View, place: &Place) -> Result<Option<Stat>> {
        if let Some(stat) = self.keys.get(place) {
            return Ok(*stat);
        }
        let stat = view.stat(place.space, &place.key)?;
        self.keys.insert(place.clone(), stat);
        Ok(stat)
    }

    fn range(&mut self, space: SpaceId, range: KeyRange) {
        if !range.is_empty() && !self.ranges.iter().any(|(known, keys)| *known == space && *keys == range) {
            self.ranges.push((space, range));
        }
    }
}

/// Where a transaction stood.
#[derive(Clone, Copy, Debug)]
pub struct Mark {
    operations: usize,
    explicit: usize,
}

/// Reads of one version and writes to come.
pub struct Transaction {
    view: Arc<dyn View>,
    reads: Reads,
    explicit: Vec<Condition>,
    operations: Vec<Operation>,
    /// The effect of the first `replayed` operations; the others join it at the next read.
    overlay: Overlay,
    replayed: usize,
    counters: counters::Counters,
    request: Option<RequestId>,
}

impl Transaction {
    /// Begins at the newest visible version.
    pub fn begin<K: Kv + ?Sized>(kv: &K) -> Result<Self> {
        Ok(Transaction {
            view: kv.view()?,
            reads: Reads::default(),
            explicit: Vec::new(),
            operations: Vec::new(),
            overlay: Overlay::default(),
            replayed: 0,
            counters: counters::Counters::default(),
            request: None,
        })
    }

    /// The version that is read. What is read through it directly sees no own writes and is no condition.
    pub fn view(&self) -> &Arc<dyn View> {
        &self.view
    }

    /// Names the request, so that a repeat after a lost answer gets the first outcome.
    pub fn set_request(&mut self, request: RequestId) {
        self.request = Some(request);
    }

    /// Adds a condition of the caller's. Where it does not hold the transaction fails and is not tried again.
    pub fn when(&mut self, condition: Condition) {
        self.explicit.push(condition);
    }

    /// Adds a change.
    pub fn then(&mut self, operation: Operation) {
        self.counters.note(&operation);
        self.operations.push(operation);
    }

    /// Sets a value.
    pub fn put(&mut self, space: SpaceId, key: impl Into<Bytes>, value: impl Into<Payload>) {
        self.then(Operation::Put { at: Place::new(space, key), value: value.into() });
    }

    /// Removes a key.
    pub fn delete(&mut self, space: SpaceId, key: impl Into<Bytes>) {
        self.then(Operation::Delete { at: Place::new(space, key) });
    }

    /// Adds to a counter, whatever it is. What is added to one counter between two
    /// reads is one operation, and none where it adds up to nothing.
    pub fn add(&mut self, space: SpaceId, key: impl Into<Bytes>, delta: i64) {
        let at = Place::new(space, key);
        let known = self.counters.find(&at).filter(|index| *index >= self.replayed);
        if let Some(Operation::AddCounter { delta: sum, .. }) = known.and_then(|index| self.operations.get_mut(index))
            && let Some(both) = sum.checked_add(delta)
        {
            *sum = both;
            self.counters.added(&at);
            return;
        }
        self.counters.put(at.clone(), self.operations.len());
        self.operations.push(Operation::AddCounter { at, delta });
    }

    /// What it has added so far, in order.
    pub fn operations(&self) -> &[Operation] {
        &self.operations
    }

    /// The keys of a space that it has read so far, from one on, in order.
    pub fn keys_read(&self, space: SpaceId, from: &[u8]) -> impl Iterator<Item = &Bytes> {
        let begin = Place::new(space, Bytes::copy_from_slice(from));
        let read = self.reads.keys.range(begin..).map(|(place, _)| place);
        read.take_while(move |place| place.space == space).map(|place| &place.key)
    }

    /// Where it stands, to go [back to](Transaction::back_to).
    pub fn mark(&mut self) -> Mark {
        self.counters.forget(self.operations.len());
        Mark { operations: self.operations.len(), explicit: self.explicit.len() }
    }

    /// Takes away the changes and the caller's conditions that were added after a mark. What was read since stays a
    /// condition.
    pub fn back_to(&mut self, mark: Mark) {
        self.operations.truncate(mark.operations);
        self.explicit.truncate(mark.explicit);
        self.counters.forget(mark.operations);
        if self.replayed > mark.operations {
            self.overlay = Overlay::default();
            self.replayed = 0;
        }
    }

    /// Whether a space is there, own changes included; no condition.
    pub fn has_space(&mut self, space: SpaceId) -> Result<bool> {
        self.replay()?;
        match self.overlay.has_space(space) {
            Some(there) => Ok(there),
            None => self.view.has_space(space),
        }
    }

    /// Version and size of a key; `None` when it is absent.
    pub fn stat(&mut self, space: SpaceId, key: &[u8]) -> Result<Option<Seen>> {
        let place = Place::new(space, Bytes::copy_from_slice(key));
        self.replay()?;
        match self.overlay.find(&place)? {
            Buffered::InView => {
                let stat = self.reads.key(&*self.view, &place)?;
                Ok(stat.map(|stat| Seen { version: Some(stat.version), size: stat.size }))
            }
            Buffered::Absent => Ok(None),
            Buffered::Written(written) => {
                for base in &written.bases {
                    self.reads.key(&*self.view, base)?;
                }
                Ok(Some(Seen { version: None, size: written.value.length() }))
            }
        }
    }

    /// The whole value of a key; `None` when it is absent. For small values.
    pub fn get(&mut self, space: SpaceId, key: &[u8]) -> Result<Option<Bytes>> {
        let Some(seen) = self.stat(space, key)? else {
            return Ok(None);
        };
        let length = usize::try_from(seen.size).map_err(|_| Error::invalid("value too large to get whole"))?;
        self.bytes(space, key, 0, length).map(Some)
    }

    /// The bytes of a range; shorter only at the value's end. `NotFound` when the key is absent.
    pub fn bytes(&mut self, space: SpaceId, key: &[u8], offset: u64, length: usize) -> Result<Bytes> {
        let Some(seen) = self.stat(space, key)? else {
            return Err(absent());
        };
        if seen.version.is_some() {
            return self.view.bytes(space, key, offset, length);
        }
        let mut run =
            BytesMut::zeroed(usize::try_from(seen.size.saturating_sub(offset)).map_or(length, |rest| rest.min(length)));
        let count = self.read(space, key, offset, &mut run)?;
        run.truncate(count);
        Ok(run.freeze())
    }

    /// Reads into `buffer`; a short count only at the value's end. `NotFound` when the key is absent.
    pub fn read(&mut self, space: SpaceId, key: &[u8], offset: u64, buffer: &mut [u8]) -> Result<usize> {
        let Some(seen) = self.stat(space, key)? else {
            return Err(absent());
        };
        if seen.version.is_some() {
            return self.view.read(space, key, offset, buffer);
        }
        let place = Place::new(space, Bytes::copy_from_slice(key));
        match self.overlay.find(&place)? {
            Buffered::Written(written) => read_written(&*self.view, &written.value, offset, buffer),
            Buffered::InView | Buffered::Absent => Err(absent()),
        }
    }

    /// Walks the keys of a range as they are with the own writes. What it went over must be unchanged at the
    /// commit, keys that are not there included; what it did not reach need not.
    pub fn cursor(&mut self, space: SpaceId, range: KeyRange, direction: Direction) -> Result<TransactionCursor<'_>> {
        self.replay()?;
        self.overlay.check_readable(space)?;
        TransactionCursor::new(&mut self.reads, &self.overlay, &self.view, space, range, direction)
    }

    /// All that was gathered as one batch; the caller's conditions come first.
    pub fn into_batch(mut self) -> Batch {
        self.counters.drop_cancelled(&mut self.operations);
        let mut conditions = self.explicit;
        let since = self.view.version();
        conditions.extend(self.reads.keys.into_iter().map(|(Place { space, key }, stat)| match stat {
            Some(stat) => Condition::VersionIs { space, key, version: stat.version },
            None => Condition::Absent { space, key },
        }));
        let ranges = self.reads.ranges.into_iter();
        conditions.extend(ranges.map(|(space, range)| Condition::RangeUnchanged { space, range, since }));
        Batch { conditions, operations: self.operations, request: self.request }
    }

    /// Brings the overlay up to the last operation.
    fn replay(&mut self) -> Result<()> {
        while let Some(operation) = self.operations.get(self.replayed) {
            self.overlay.apply(&self.view, &mut self.reads, operation)?;
            self.replayed += 1;
        }
        Ok(())
    }
}

impl std::fmt::Debug for Transaction {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let mut text = f.debug_struct("Transaction");
        text.field("version", &self.view.version()).field("operations", &self.operations.len());
        text.field("keys_read", &self.reads.keys.len()).field("ranges_read", &self.reads.ranges.len());
        text.finish_non_exhaustive()
    }
}

fn absent() -> Error {
    Error::new(ErrorKind::NotFound, "the key is not there")
}

/// Reads a value of the overlay: from the view, from inline bytes, zeros between.
fn read_written(view: &dyn View, value: &overlay::Written, offset: u64, buffer: &mut [u8]) -> Result<usize> {
    let end = offset.saturating_add(buffer.len() as u64).min(value.length());
    let Some(target) = end.checked_sub(offset).and_then(|count| buffer.get_mut(..count as usize)) else {
        return Ok(0);
    };
    target.fill(0);
    let mut outcome = Ok(());
    value.each_within(offset, end, |at, piece| {
        let start = (at - offset) as usize;
        let part = target.get_mut(start..start + piece.length() as usize);
        if let (Ok(()), Some(part)) = (&outcome, part) {
            outcome = read_piece(view, &piece, part);
        }
    });
    outcome.map(|()| target.len())
}

fn read_piece(view: &dyn View, piece: &Source, part: &mut [u8]) -> Result<()> {
    match piece {
        Source::Inline(bytes) => {
            part.copy_from_slice(bytes);
            Ok(())
        }
        Source::View { place, offset, .. } => {
            let count = view.read(place.space, &place.key, *offset, part)?;
            if count < part.len() {
                return Err(Error::damaged("a value of the view is shorter than the view says"));
            }
            Ok(())
        }
        Source::Staged { .. } => Err(Error::new(
            ErrorKind::Unsupported,
            "the bytes of a stage cannot be read before the commit that takes it; keep what you need of them",
        )),
    }
}
