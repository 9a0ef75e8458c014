//! Cursors, stages and watches that try again.
//!
//! Invariants:
//! - A cursor that failed is opened again on its view and put where it was: no entry is met twice or left out.
//! - A piece of a stage is written again only where the length says that it was not taken.

use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use koine_engine::{Error, ErrorKind, Result, StageToken};

use super::Policy;
use crate::seam::{Cursor, Entry, Stage, View, Watch, WatchEvent};
use crate::wrap::intercept::CursorArguments;

/// Where a cursor is.
#[derive(Clone)]
enum CursorPosition {
    /// Before the first entry.
    Start,
    /// Before the entry that `seek` with this key finds.
    At(Bytes),
    /// After the entry with this key.
    After(Bytes),
}

pub(super) struct RetryCursor {
    inner: Box<dyn Cursor>,
    view: Arc<dyn View>,
    arguments: CursorArguments,
    policy: Arc<Policy>,
    position: CursorPosition,
    /// It failed: where it stands is not known.
    is_lost: bool,
}

impl RetryCursor {
    pub fn open(policy: Arc<Policy>, view: Arc<dyn View>, arguments: CursorArguments) -> Result<RetryCursor> {
        let inner = policy.repeat(|| arguments.open(&*view))?;
        Ok(RetryCursor { inner, view, arguments, policy, position: CursorPosition::Start, is_lost: false })
    }

    fn step<T>(&mut self, mut step: impl FnMut(&mut dyn Cursor) -> Result<T>) -> Result<T> {
        let RetryCursor { inner, view, arguments, policy, position, is_lost } = self;
        policy.repeat(|| {
            if *is_lost {
                *inner = arguments.open(&**view)?;
                put_at(&mut **inner, position)?;
            }
            let outcome = step(&mut **inner);
            *is_lost = outcome.is_err();
            outcome
        })
    }
}

fn put_at(cursor: &mut dyn Cursor, position: &CursorPosition) -> Result<()> {
    match position {
        CursorPosition::Start => Ok(()),
        CursorPosition::At(key) => cursor.seek(key),
        CursorPosition::After(key) => {
            cursor.seek(key)?;
            match cursor.next()? {
                Some(entry) if entry.key == *key => Ok(()),
                _ => Err(Error::damaged("a view shows a key no more that it showed before")),
            }
        }
    }
}

impl Cursor for RetryCursor {
    fn next(&mut self) -> Result<Option<Entry>> {
        let entry = self.step(|cursor| cursor.next())?;
        if let Some(entry) = &entry {
            self.position = CursorPosition::After(entry.key.clone());
        }
        Ok(entry)
    }

    fn seek(&mut self, key: &[u8]) -> Result<()> {
        self.step(|cursor| cursor.seek(key))?;
        self.position = CursorPosition::At(Bytes::copy_from_slice(key));
        Ok(())
    }
}

pub(super) struct RetryStage {
    inner: Box<dyn Stage>,
    policy: Arc<Policy>,
}

impl RetryStage {
    pub fn new(inner: Box<dyn Stage>, policy: Arc<Policy>) -> RetryStage {
        RetryStage { inner, policy }
    }
}

impl Stage for RetryStage {
    crate::pass_on!(Stage, inner: length);

    fn write(&mut self, piece: &[u8]) -> Result<()> {
        let before = self.inner.length();
        let after = before + piece.len() as u64;
        let inner = &mut self.inner;
        self.policy.repeat(|| match inner.write(piece) {
            // All of it was taken, and the answer lost.
            Err(error) if error.retryable() && inner.length() == after && after > before => Ok(()),
            // A part of it was: nobody knows which.
            Err(error) if error.retryable() && inner.length() != before => {
                Err(Error::new(ErrorKind::Stopped, "a stage took a part of a piece; stage the bytes again")
                    .with_source(error))
            }
            outcome => outcome,
        })
    }

    fn finish(self: Box<Self>) -> Result<StageToken> {
        self.inner.finish()
    }
}

pub(super) struct RetryWatch {
    inner: Box<dyn Watch>,
    policy: Arc<Policy>,
}

impl RetryWatch {
    pub fn new(inner: Box<dyn Watch>, policy: Arc<Policy>) -> RetryWatch {
        RetryWatch { inner, policy }
    }
}

impl Watch for RetryWatch {
    fn next(&mut self, timeout: Duration) -> Result<Option<WatchEvent>> {
        let begun = self.policy.clock.monotonic();
        let inner = &mut self.inner;
        self.policy.repeat(|| {
            let passed = self.policy.clock.monotonic().saturating_sub(begun);
            inner.next(timeout.saturating_sub(passed))
        })
    }
}
