//! The traits every back end implements.
//!
//! Invariants:
//! - Methods are few, and none has a default: a wrapper that forgets one does not compile. What most back ends do
//!   alike is a function ([`get_by_view`]); convenience lives in [`KvExt`] and on the concrete types.
//! - All calls are synchronous and safe from many threads; none waits for a network or a flush
//!   but [`Ticket::wait`], [`Kv::sync`] and [`Kv::close`].

use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;

use koine_engine::{Batch, Commit, Durability, KeyRange, Result, SpaceId, StageHint, StageToken, Ticket, Version};

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
    /// Whether what is in memory is told without waiting: else [`Kv::glance`], [`View::glance`] and [`View::read_now`] never
    /// tell anything, and taking a view may wait for another process.
    pub glances: bool,
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

/// A read that must not wait.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ReadNow {
    /// This many bytes were read; fewer than asked for only at the value's end.
    Read(usize),
    /// The device would be read: call `read` where waiting is allowed.
    WouldBlock,
}

/// What one look-up tells of a key without waiting.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Glance {
    /// It is absent, or its space is.
    Absent,
    /// It is there: its version and size, and the bytes that were asked for; fewer only at the value's end.
    Part(Stat, Bytes),
    /// That cannot be told so: ask a view where waiting is allowed. It is always right to say so.
    Unknown,
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

    /// Whether a space is there.
    fn has_space(&self, space: SpaceId) -> Result<bool>;

    /// The spaces that are there, in order, from this id on; at most so many.
    fn spaces(&self, from: SpaceId, most: usize) -> Result<Vec<SpaceEntry>>;

    /// Version and size of a key; `None` when it (or its space) is absent.
    fn stat(&self, space: SpaceId, key: &[u8]) -> Result<Option<Stat>>;

    /// Reads into `buffer` from `offset`; a short count only at the value's end (0 at or past it).
    /// `NotFound` when the key (or its space) is absent; holes read as zeros.
    fn read(&self, space: SpaceId, key: &[u8], offset: u64, buffer: &mut [u8]) -> Result<usize>;

    /// As `read`, but never waits for the device.
    fn read_now(&self, space: SpaceId, key: &[u8], offset: u64, buffer: &mut [u8]) -> Result<ReadNow>;

    /// Version, size and bytes of a range by one look-up: as `stat` and `bytes`, but it never waits for the device, nor
    /// copies more than [`GLANCE_LEN_MAX`](crate::GLANCE_LEN_MAX) bytes.
    fn glance(&self, space: SpaceId, key: &[u8], offset: u64, length: usize) -> Result<Glance>;

    /// Verified bytes of a range, shared where they lie in memory; shorter only at the value's end.
    /// `NotFound` when the key is absent. No more than the value has is ever reserved for `length`.
    fn bytes(&self, space: SpaceId, key: &[u8], offset: u64, length: usize) -> Result<Bytes>;

    /// A cursor over a range, before its first entry; it keeps the version pinned by itself.
    fn cursor(&self, space: SpaceId, range: KeyRange, direction: Direction) -> Result<Box<dyn Cursor>>;
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

    /// The whole value of a key in the newest version; `None` when it is absent. For small values: it is all in
    /// memory. Where the back end has no shorter way: [`get_by_view`].
    fn get(&self, space: SpaceId, key: &[u8]) -> Result<Option<Bytes>>;

    /// As [`View::glance`] of a view that is taken now.
    fn glance(&self, space: SpaceId, key: &[u8], offset: u64, length: usize) -> Result<Glance>;

    /// Begins a large value.
    fn stage(&self, hint: StageHint) -> Result<Box<dyn Stage>>;

    /// Asks for a batch; the ticket tells the outcome. Batches submitted by one thread are ordered as
    /// submitted. When the ticket tells of a commit, a view taken then sees it.
    ///
    /// A refusal is told only once the state that it was judged against is visible: who takes a new view then
    /// sees why, and a retry never spins against commits that are still being made durable. Where the batch
    /// has a request id, refusals are outcomes too and a repeat gets them; a new attempt needs a new id.
    fn submit(&self, batch: Batch, durability: Durability) -> Ticket;

    /// Submits and waits: `self.submit(batch, durability).wait()`, unless the store can do in the calling thread what
    /// another would do for a ticket.
    fn commit(&self, batch: Batch, durability: Durability) -> Result<Commit>;

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
}

/// [`Kv::get`] by a view: its length first, then its bytes.
pub fn get_by_view<K: Kv + ?Sized>(kv: &K, space: SpaceId, key: &[u8]) -> Result<Option<Bytes>> {
    let view = kv.view()?;
    let Some(stat) = view.stat(space, key)? else {
        return Ok(None);
    };
    let length =
        usize::try_from(stat.size).map_err(|_| koine_engine::Error::invalid("value too large to get whole"))?;
    view.bytes(space, key, 0, length).map(Some)
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
