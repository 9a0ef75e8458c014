//! Views of wrappers that do the same about every call.
//!
//! Invariant: every method of a view goes through [`Interceptor::intercept`], or is named in `pass_on!`.

use std::sync::Arc;

use bytes::Bytes;
use koine_engine::{Batch, Commit, KeyRange, Operation, Payload, Result, SpaceId, StageToken};

use super::calls::Call;
use crate::seam::{Cursor, Direction, Entry, Lookup, SpaceEntry, Stage, Usage, View, Wait, Watch, WatchEvent};

/// What a wrapper does about a call.
pub(super) trait Interceptor: Send + Sync + 'static {
    /// Makes the call, which is `body`: once, never, or several times.
    fn intercept<T: PayloadLen>(&self, call: Call, body: impl FnMut() -> Result<T>) -> Result<T>;

    /// As `intercept`, of a call that may not wait; `None` where what is done about it would.
    fn at_once<T: PayloadLen>(&self, call: Call, body: impl FnMut() -> Result<T>) -> Result<Option<T>>;

    /// A read that may wait or not; `None` where what is done about it would and may not.
    fn reading<T: PayloadLen>(&self, call: Call, wait: Wait, body: impl FnMut() -> Result<T>) -> Result<Option<T>> {
        match wait {
            Wait::Allowed => self.intercept(call, body).map(Some),
            Wait::Never => self.at_once(call, body),
        }
    }

    /// A look-up of a view or of a store.
    fn lookup(&self, wait: Wait, body: impl FnMut() -> Result<Lookup>) -> Result<Lookup> {
        Ok(self.reading(Call::Lookup, wait, body)?.unwrap_or(Lookup::WouldWait))
    }

    /// The cursor of a view.
    fn cursor(self: &Arc<Self>, view: &Arc<dyn View>, asked: CursorArguments) -> Result<Box<dyn Cursor>>;
}

/// What a cursor was asked for.
#[derive(Clone)]
pub(super) struct CursorArguments {
    pub space: SpaceId,
    pub range: KeyRange,
    pub direction: Direction,
}

impl CursorArguments {
    pub fn open(&self, view: &dyn View) -> Result<Box<dyn Cursor>> {
        view.cursor(self.space, self.range.clone(), self.direction)
    }
}

/// A view whose calls go through a wrapper.
pub(super) struct InterceptedView<A> {
    inner: Arc<dyn View>,
    interceptor: Arc<A>,
}

impl<A> InterceptedView<A> {
    pub fn new(inner: Arc<dyn View>, interceptor: Arc<A>) -> Self {
        InterceptedView { inner, interceptor }
    }
}

impl<A: Interceptor> View for InterceptedView<A> {
    crate::pass_on!(View, inner: version, keep);

    fn spaces(&self, from: SpaceId, most: usize) -> Result<Vec<SpaceEntry>> {
        self.interceptor.intercept(Call::Spaces, || self.inner.spaces(from, most))
    }

    fn lookup(&self, space: SpaceId, key: &[u8], offset: u64, length: usize, wait: Wait) -> Result<Lookup> {
        self.interceptor.lookup(wait, || self.inner.lookup(space, key, offset, length, wait))
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
        Ok(self.interceptor.reading(Call::Read, wait, read)?.flatten())
    }

    fn cursor(&self, space: SpaceId, range: KeyRange, direction: Direction) -> Result<Box<dyn Cursor>> {
        self.interceptor.cursor(&self.inner, CursorArguments { space, range, direction })
    }
}

/// What of a result counts as bytes that were read.
pub(super) trait PayloadLen {
    fn payload_len(&self) -> u64 {
        0
    }
}

impl PayloadLen for usize {
    fn payload_len(&self) -> u64 {
        *self as u64
    }
}

impl PayloadLen for Bytes {
    fn payload_len(&self) -> u64 {
        self.len() as u64
    }
}

impl PayloadLen for Option<Bytes> {
    fn payload_len(&self) -> u64 {
        self.as_ref().map_or(0, PayloadLen::payload_len)
    }
}

impl PayloadLen for Option<Entry> {
    fn payload_len(&self) -> u64 {
        self.as_ref().map_or(0, |entry| entry.key.payload_len() + entry.value.payload_len())
    }
}

impl PayloadLen for Option<usize> {
    fn payload_len(&self) -> u64 {
        self.as_ref().map_or(0, PayloadLen::payload_len)
    }
}

impl PayloadLen for Lookup {
    fn payload_len(&self) -> u64 {
        match self {
            Lookup::Found(_, bytes) => bytes.payload_len(),
            Lookup::Absent | Lookup::WouldWait => 0,
        }
    }
}

impl PayloadLen for () {}
impl PayloadLen for Vec<SpaceEntry> {}
impl PayloadLen for Option<WatchEvent> {}
impl PayloadLen for Usage {}
impl PayloadLen for Commit {}
impl PayloadLen for StageToken {}
impl PayloadLen for Arc<dyn View> {}
impl PayloadLen for Box<dyn Cursor> {}
impl PayloadLen for Box<dyn Stage> {}
impl PayloadLen for Box<dyn Watch> {}

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
