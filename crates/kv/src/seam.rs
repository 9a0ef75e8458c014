//! The traits every back end implements.
//!
//! Invariants:
//! - Required methods are few: a wrapper that forgets one does not compile. Whether a call may wait is an argument
//!   ([`Wait`]). The methods that have a body are shorthands of required ones, and no back end or wrapper writes its own.
//! - All calls are synchronous and safe from many threads. A read with [`Wait::Never`] does not wait. Every other call may
//!   wait for the device, for room or for another process; only [`Ticket::wait`], [`Kv::sync`], [`Kv::close`] and a
//!   `submit` with [`Wait::Allowed`] wait for the flush of a commit.

use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;

use koine_engine::{
    Batch, Commit, Durability, Error, ErrorKind, KeyRange, Result, SpaceId, StageHint, StageToken, Ticket, Version,
};

/// A value of at most so many bytes always comes with its [`Entry`].
pub const ENTRY_VALUE_LEN_MAX: u64 = 1024;

/// What a back end is and what it takes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Profile {
    /// For people: `memory`, `engine`, ….
    pub name: &'static str,
    /// The longest key, in bytes.
    pub key_len_max: usize,
    /// The most operations of a batch; also the most conditions.
    pub batch_operations_max: usize,
    /// The most inline bytes (keys and payloads) of a batch.
    pub batch_bytes_max: usize,
    /// A value up to this many bytes is best given inline with the batch; a larger one through a stage.
    pub inline_len_best: usize,
    /// Whether what is acknowledged as `Sync` survives power loss.
    pub durable: bool,
    /// Whether reads with [`Wait::Never`] tell what is in memory: else they never tell anything, and taking a view may wait
    /// for another process.
    pub reads_at_once: bool,
}

/// What a view knows of a key without reading its value.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Stat {
    /// The commit that last changed it.
    pub version: Version,
    /// The length of its value in bytes.
    pub size: u64,
}

/// A space that is there.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SpaceEntry {
    /// Its id.
    pub space: SpaceId,
    /// It is a snapshot: it cannot be changed.
    pub is_snapshot: bool,
}

/// Whether a call may wait: for the device, for another process, for its turn.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Wait {
    /// It may; the answer is never that it would have to.
    Allowed,
    /// It may not: where it would have to wait, or to copy more than [`LOOKUP_COPY_MAX`](crate::LOOKUP_COPY_MAX) bytes, it
    /// says so. That is always a right answer.
    Never,
}

/// What one look-up tells of a key.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Lookup {
    /// It is absent, or its space is.
    Absent,
    /// It is there: its version and size, and the bytes that were asked for; fewer only at the value's end.
    Found(Stat, Bytes),
    /// It cannot be told without waiting. Only where waiting was not allowed.
    WouldWait,
}

/// The order of a cursor.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Direction {
    /// Ascending.
    Forward,
    /// Descending.
    Backward,
}

/// A key met by a cursor.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Entry {
    /// The key.
    pub key: Bytes,
    /// Its version and size.
    pub stat: Stat,
    /// Its value where it lies beside the key (1 KiB and less always does); else read it through the view.
    pub value: Option<Bytes>,
}

/// One version of everything, pinned.
///
/// Every call may fail with `Expired` when the owner had to take the view back. An absent space reads as
/// one without keys, and so does a reserved one.
pub trait View: Send + Sync {
    /// The last commit it sees.
    fn version(&self) -> Version;

    /// Says that it is going to be kept while others come and go, as for an object that stays open. `Busy` where as many are
    /// kept as may be: others still find room then. To say so again changes nothing.
    fn keep(&self) -> Result<()>;

    /// The spaces that are there, in order, from this id on; at most so many.
    fn spaces(&self, from: SpaceId, most: usize) -> Result<Vec<SpaceEntry>>;

    /// Version, size and verified bytes of a range, in one look-up. They are shared where they are in memory; no more
    /// memory is allocated than the value is long. Of no bytes it is the cheapest way to know whether a key is there.
    fn lookup(&self, space: SpaceId, key: &[u8], offset: u64, length: usize, wait: Wait) -> Result<Lookup>;

    /// Reads into `buffer` from `offset`; a short count only at the value's end (0 at or past it). `None` where that
    /// would wait and may not. `NotFound` when the key (or its space) is absent; holes read as zeros.
    fn read_into(
        &self,
        space: SpaceId,
        key: &[u8],
        offset: u64,
        buffer: &mut [u8],
        wait: Wait,
    ) -> Result<Option<usize>>;

    /// A cursor over a range, before its first entry; it keeps the version pinned by itself.
    fn cursor(&self, space: SpaceId, range: KeyRange, direction: Direction) -> Result<Box<dyn Cursor>>;

    /// Whether a space is there.
    fn has_space(&self, space: SpaceId) -> Result<bool> {
        Ok(self.spaces(space, 1)?.first().is_some_and(|first| first.space == space))
    }

    /// Version and size of a key; `None` when it (or its space) is absent.
    fn stat(&self, space: SpaceId, key: &[u8]) -> Result<Option<Stat>> {
        match self.lookup(space, key, 0, 0, Wait::Allowed)? {
            Lookup::Absent => Ok(None),
            Lookup::Found(stat, _) => Ok(Some(stat)),
            Lookup::WouldWait => Err(did_not_wait()),
        }
    }

    /// Verified bytes of a range, shared where they lie in memory; shorter only at the value's end.
    /// `NotFound` when the key is absent.
    fn bytes(&self, space: SpaceId, key: &[u8], offset: u64, length: usize) -> Result<Bytes> {
        match self.lookup(space, key, offset, length, Wait::Allowed)? {
            Lookup::Absent => Err(absent()),
            Lookup::Found(_, bytes) => Ok(bytes),
            Lookup::WouldWait => Err(did_not_wait()),
        }
    }

    /// As `read_into`, waiting where it has to.
    fn read(&self, space: SpaceId, key: &[u8], offset: u64, buffer: &mut [u8]) -> Result<usize> {
        self.read_into(space, key, offset, buffer, Wait::Allowed)?.ok_or_else(did_not_wait)
    }
}

/// What reads of a key that is not there fail with.
pub(crate) fn absent() -> Error {
    Error::new(ErrorKind::NotFound, "the key is not there")
}

fn did_not_wait() -> Error {
    Error::new(ErrorKind::Unsupported, "the store does not wait, though it may")
}

/// Walks the entries of a range in order.
pub trait Cursor: Send {
    /// The next entry in the cursor's direction; `None` after the last, and on every later call.
    fn next(&mut self) -> Result<Option<Entry>>;

    /// Goes on at `key`: the next entry is the first at or after it (forward) or at or before it
    /// (backward), still inside the range. It may go either way, also after the last entry.
    fn seek(&mut self, key: &[u8]) -> Result<()>;
}

/// A value on its way in. Dropped, its space comes back.
pub trait Stage: Send {
    /// Adds a piece of at most [`STAGE_PIECE_LEN_MAX`](crate::STAGE_PIECE_LEN_MAX) bytes. A larger one, or one
    /// past the hinted length, is `Invalid` and adds nothing.
    fn write(&mut self, piece: &[u8]) -> Result<()>;

    /// The length so far in bytes.
    fn length(&self) -> u64;

    /// No more pieces: the token names the stage in a batch. It may be shorter than was hinted.
    fn finish(self: Box<Self>) -> Result<StageToken>;
}

/// What a watcher is told of one key.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Change {
    /// The commit.
    pub version: Version,
    /// The key, as [`KeyRange::single`]; or, of an operation on a range, a range that holds all it changed.
    pub keys: KeyRange,
}

/// An event of a watch.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum WatchEvent {
    /// A key (or a range of keys) was changed or deleted.
    Changed(Change),
    /// Changes after this version are not known any more: take a view and scan it. The watch goes on with
    /// what is committed after it said so, which that view may show already.
    LostSince(Version),
}

/// A queue of changes, in commit order. A slow reader loses events, never holds up a writer.
pub trait Watch: Send {
    /// Waits up to `timeout` for the next event; `None` when none came, `Stopped` once the store is closed. An error
    /// takes no event away.
    fn next(&mut self, timeout: Duration) -> Result<Option<WatchEvent>>;
}

/// How full a store is, in bytes unless said otherwise.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Usage {
    /// What it may hold in all at its present size.
    pub total: u64,
    /// What is in use by anything.
    pub used: u64,
    /// What a writer can still get.
    pub free: u64,
    /// Up to what it may grow by itself; `None` when only the medium limits it.
    pub limit: Option<u64>,
}

/// A key-value store: spaces of ordered keys, views, stages and atomic batches.
pub trait Kv: Send + Sync {
    /// What it is and takes.
    fn profile(&self) -> &Profile;

    /// Pins the newest visible version.
    fn view(&self) -> Result<Arc<dyn View>>;

    /// As [`View::lookup`] at the newest version, without taking a view.
    fn lookup(&self, space: SpaceId, key: &[u8], offset: u64, length: usize, wait: Wait) -> Result<Lookup>;

    /// Begins a large value.
    fn stage(&self, hint: StageHint) -> Result<Box<dyn Stage>>;

    /// Asks for a batch; the ticket tells the outcome. Where waiting is allowed the caller is going to wait for it at once,
    /// and the store may do in the calling thread what another would do for a ticket: the outcome may be there when the
    /// call returns. Batches submitted by one thread are ordered as
    /// submitted. When the ticket tells of a commit, a view taken then sees it.
    ///
    /// A refusal is told only once the state that it was judged against is visible: who takes a new view then
    /// sees why, and a retry never spins against commits that are still being made durable. Where the batch
    /// has a request id, refusals are outcomes too and a repeat gets them; a new attempt needs a new id.
    fn submit(&self, batch: Batch, durability: Durability, wait: Wait) -> Ticket;

    /// Changes of a range after version `from`, in commit order, and within a commit in the order of its
    /// operations. A change is told after it is visible. The first event is `LostSince(from)` where those
    /// changes are not remembered.
    fn watch(&self, space: SpaceId, range: KeyRange, from: Version) -> Result<Box<dyn Watch>>;

    /// How full it is.
    fn usage(&self) -> Result<Usage>;

    /// Makes everything acknowledged so far survive power loss.
    fn sync(&self) -> Result<()>;

    /// Finishes what is under way, syncs, and gives the medium back. Later calls fail with `Stopped`, on
    /// stages and watches too; only closing again is no error. Views may go on or fail.
    fn close(&self) -> Result<()>;

    /// Submits and waits.
    fn commit(&self, batch: Batch, durability: Durability) -> Result<Commit> {
        self.submit(batch, durability, Wait::Allowed).wait()
    }

    /// The whole value of a key in the newest version; `None` when it is absent. For small values: it is all in memory.
    fn get(&self, space: SpaceId, key: &[u8]) -> Result<Option<Bytes>> {
        match self.lookup(space, key, 0, usize::MAX, Wait::Allowed)? {
            Lookup::Absent => Ok(None),
            Lookup::Found(_, value) => Ok(Some(value)),
            Lookup::WouldWait => Err(did_not_wait()),
        }
    }
}

/// Convenience over [`Kv`].
pub trait KvExt: Kv {
    /// Runs `body` in a transaction and commits what it gathered. While others change what it read, it is
    /// run again on a new view, with short pauses, at most [`ATTEMPTS_MAX`](crate::ATTEMPTS_MAX) times, and then
    /// fails with `Busy`. A refused condition that `body` added itself, a refused operation and every other
    /// error end it at once. A transaction that only read commits without asking the store.
    ///
    /// With a request id each attempt has an id of its own that follows from it, so that a repeat of the
    /// whole call meets the outcome of the attempt that was the last. A repeat runs `body` again, on a
    /// state that may show its own effect: what must be new belongs into a condition
    /// ([`Transaction::when`](crate::Transaction::when)), not into an early error.
    fn transact<T>(
        &self,
        durability: Durability,
        body: impl FnMut(&mut crate::Transaction) -> Result<T>,
    ) -> Result<(T, Commit)> {
        crate::transaction::transact(self, durability, body)
    }
}

impl<K: Kv + ?Sized> KvExt for K {}
