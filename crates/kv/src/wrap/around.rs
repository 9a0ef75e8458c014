//! Views of wrappers that do the same about every call.
//!
//! Invariant: every method of a view goes through [`Around::around`], or is named in `pass_on!`.

use std::sync::Arc;

use bytes::Bytes;
use koine_engine::{Batch, Commit, KeyRange, Operation, Payload, Result, SpaceId, StageToken};

use super::calls::Call;
use crate::seam::{Cursor, Direction, Entry, Lookup, SpaceEntry, Stage, Usage, View, Wait, Watch, WatchEvent};

/// What a wrapper does about a call.
pub(super) trait Around: Send + Sync + 'static {
    /// Makes the call, which is `body`: once, never, or several times.
    fn around<T: Carried>(&self, call: Call, body: impl FnMut() -> Result<T>) -> Result<T>;

    /// As `around`, of a call that may not wait; `None` where what is done about it would.
    fn at_once<T: Carried>(&self, call: Call, body: impl FnMut() -> Result<T>) -> Result<Option<T>>;

    /// A read that may wait or not; `None` where what is done about it would and may not.
    fn reading<T: Carried>(&self, call: Call, wait: Wait, body: impl FnMut() -> Result<T>) -> Result<Option<T>> {
        match wait {
            Wait::Allowed => self.around(call, body).map(Some),
            Wait::Never => self.at_once(call, body),
        }
    }

    /// A look-up of a view or of a store.
    fn lookup(&self, wait: Wait, body: impl FnMut() -> Result<Lookup>) -> Result<Lookup> {
        Ok(self.reading(Call::Lookup, wait, body)?.unwrap_or(Lookup::WouldWait))
    }

    /// The cursor of a view.
    fn cursor(self: &Arc<Self>, view: &Arc<dyn View>, asked: Walk) -> Result<Box<dyn Cursor>>;
}

/// What a cursor was asked for.
#[derive(Clone)]
pub(super) struct Walk {
    pub space: SpaceId,
    pub range: KeyRange,
    pub direction: Direction,
}

impl Walk {
    pub fn open(&self, view: &dyn View) -> Result<Box<dyn Cursor>> {
        view.cursor(self.space, self.range.clone(), self.direction)
    }
}

/// A view whose calls go through a wrapper.
pub(super) struct AroundView<A> {
    inner: Arc<dyn View>,
    around: Arc<A>,
}

impl<A> AroundView<A> {
    pub fn new(inner: Arc<dyn View>, around: Arc<A>) -> Self {
        AroundView { inner, around }
    }
}

impl<A: Around> View for AroundView<A> {
    crate::pass_on!(View, inner: version, keep);

    fn spaces(&self, from: SpaceId, most: usize) -> Result<Vec<SpaceEntry>> {
        self.around.around(Call::Spaces, || self.inner.spaces(from, most))
    }

    fn lookup(&self, space: SpaceId, key: &[u8], offset: u64, length: usize, wait: Wait) -> Result<Lookup> {
        self.around.lookup(wait, || self.inner.lookup(space, key, offset, length, wait))
    }

    fn read_into(
        &self,
        space: SpaceId,
        key: &[u8],
        offset: u64,
        buffer: &mut [u8],
        wait: Wait,
    ) -> Result<Option<usize>> {
        let read = || self.inner.read_into(space, key, offset, buffer, wait);
        Ok(self.around.reading(Call::Read, wait, read)?.flatten())
    }

    fn cursor(&self, space: SpaceId, range: KeyRange, direction: Direction) -> Result<Box<dyn Cursor>> {
        self.around.cursor(&self.inner, Walk { space, range, direction })
    }
}

/// What of a result counts as bytes that were read.
pub(super) trait Carried {
    fn carried(&self) -> u64 {
        0
    }
}

impl Carried for usize {
    fn carried(&self) -> u64 {
        *self as u64
    }
}

impl Carried for Bytes {
    fn carried(&self) -> u64 {
        self.len() as u64
    }
}

impl Carried for Option<Bytes> {
    fn carried(&self) -> u64 {
        self.as_ref().map_or(0, Carried::carried)
    }
}

impl Carried for Option<Entry> {
    fn carried(&self) -> u64 {
        self.as_ref().map_or(0, |entry| entry.key.carried() + entry.value.carried())
    }
}

impl Carried for Option<usize> {
    fn carried(&self) -> u64 {
        self.as_ref().map_or(0, Carried::carried)
    }
}

impl Carried for Lookup {
    fn carried(&self) -> u64 {
        match self {
            Lookup::Found(_, bytes) => bytes.carried(),
            Lookup::Absent | Lookup::WouldWait => 0,
        }
    }
}

impl Carried for () {}
impl Carried for Vec<SpaceEntry> {}
impl Carried for Option<WatchEvent> {}
impl Carried for Usage {}
impl Carried for Commit {}
impl Carried for StageToken {}
impl Carried for Arc<dyn View> {}
impl Carried for Box<dyn Cursor> {}
impl Carried for Box<dyn Stage> {}
impl Carried for Box<dyn Watch> {}

/// The bytes that a batch carries itself, in its payloads.
pub(super) fn inline_len(batch: &Batch) -> u64 {
    let of = |operation: &Operation| match operation {
        Operation::Put { value: Payload::Bytes(bytes), .. }
        | Operation::WriteAt { data: Payload::Bytes(bytes), .. }
        | Operation::Append { data: Payload::Bytes(bytes), .. } => bytes.len() as u64,
        _ => 0,
    };
    batch.operations.iter().map(of).sum()
}
