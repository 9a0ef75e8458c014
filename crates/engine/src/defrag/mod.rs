//! Defragmentation: values in many small pieces are written anew in few large ones, a little at a time, while the store is in use.
//!
//! A [`Defrag`] does nothing by itself, as a scrub does not: each [`Defrag::step`] looks at a part of the index and
//! rewrites some windows, [`Defrag::wait`] says how long to leave the device alone. It can be stopped anywhere and
//! go on at a saved [`DefragPosition`], or begin again: what was done is not done twice.
//!
//! A *window* is up to 1 MiB of a value in pieces that follow on each other. It is rewritten when it has at least
//! [`PIECES_MIN`] pieces, or when its pieces hold at least twice the blocks that its bytes need (what was cut out of a run stays
//! with what is left of it).
//!
//! Invariants:
//! - Only where bytes lie changes: no version of a key, no watch, no condition notices, and views read on what they pinned.
//! - The new bytes are verified old ones, written as a stage; one commit exchanges them, if the value has not changed since. A crash
//!   leaves the old pieces or the new.
//! - What others share (snapshots, clones, values cut from one run) is left alone: it would take space twice.
//! - It never makes a store grow, and leaves the last of its free space alone.

mod window;

#[cfg(test)]
mod tests;

use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use koine_env::Clock;

use crate::batch::{KeyRange, SpaceId};
use crate::codec::{Reader, Writer};
use crate::content::{record_range, user_key};
use crate::core::Core;
use crate::engine::Engine;
use crate::error::{Error, ErrorKind, Result};
use crate::state::space_key;
use crate::tree::value::{Content, Record, SpaceRoot, Value};
use crate::view::View;
use window::{Finder, Outcome, Window};

/// So many pieces in a window make it worth writing anew.
pub const PIECES_MIN: usize = 4;
/// Keys looked at in one step.
const KEYS_A_STEP: usize = 4096;

/// How a defragmentation goes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct DefragOptions {
    /// The most bytes to rewrite in a second, on average; 0: as fast as the device takes them.
    pub rate_per_second: u64,
    /// About how many bytes a step rewrites.
    pub step_len: u64,
}

impl Default for DefragOptions {
    fn default() -> Self {
        DefragOptions { rate_per_second: 0, step_len: 4 << 20 }
    }
}

/// How far a pass is.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct DefragPosition {
    space: SpaceId,
    offset: u64,
    key: Bytes,
}

impl DefragPosition {
    /// As bytes, to be kept somewhere.
    pub fn to_bytes(&self) -> Vec<u8> {
        let mut out = Vec::with_capacity(16 + self.key.len());
        out.put_u64(self.space.0);
        out.put_u64(self.offset);
        out.extend_from_slice(&self.key);
        out
    }

    /// What `to_bytes` gave.
    pub fn from_bytes(bytes: &[u8]) -> Result<DefragPosition> {
        let mut reader = Reader::new(bytes);
        let wrong = |_| Error::invalid("no position of a defragmentation: it has at least 16 bytes");
        let (space, offset) = (SpaceId(reader.u64().map_err(wrong)?), reader.u64().map_err(wrong)?);
        let key = Bytes::copy_from_slice(reader.take(reader.remaining())?);
        Ok(DefragPosition { space, offset, key })
    }
}

/// What a step did.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct DefragStep {
    /// The pass is at its end.
    pub done: bool,
    /// Keys looked at.
    pub keys: u64,
    /// Windows written anew.
    pub windows: u64,
    /// Their bytes.
    pub rewritten_len: u64,
    /// Their pieces before.
    pub pieces_before: u64,
    /// Their pieces now.
    pub pieces_after: u64,
    /// Windows left as they are: shared, changed meanwhile, or no better room for them.
    pub left: u64,
}

/// A defragmentation, a step at a time.
pub struct Defrag {
    core: Arc<Core>,
    clock: Arc<dyn Clock>,
    options: DefragOptions,
    position: DefragPosition,
    due: Duration,
}

impl Engine {
    /// Begins (or goes on) to write fragmented values anew while the store is in use.
    pub fn defrag(&self, options: DefragOptions, clock: Arc<dyn Clock>, from: DefragPosition) -> Result<Defrag> {
        self.shared().check_takes_writes()?;
        let due = clock.monotonic();
        Ok(Defrag { core: Arc::clone(self.shared()), clock, options, position: from, due })
    }
}

impl Defrag {
    /// How long to leave the device alone before the next step.
    pub fn wait(&self) -> Duration {
        self.due.saturating_sub(self.clock.monotonic())
    }

    /// Where to go on.
    pub fn position(&self) -> &DefragPosition {
        &self.position
    }

    /// Looks at the next part of the index and rewrites what is fragmented in it, without waiting for its time.
    pub fn step(&mut self) -> Result<DefragStep> {
        let began = self.clock.monotonic();
        let mut step = DefragStep::default();
        while step.keys < KEYS_A_STEP as u64 && step.rewritten_len < self.options.step_len.max(1) {
            let view = View::new(&self.core);
            let found = self.find(&view, &mut step);
            if !view.still_holds() {
                return Err(Error::new(
                    ErrorKind::Expired,
                    "views are taken back faster than they can be read; try later",
                ));
            }
            let Some(window) = found? else {
                if step.done {
                    self.position = DefragPosition::default();
                }
                break;
            };
            let outcome = window::rewrite(&self.core, &view, &window);
            drop(view);
            match outcome? {
                Outcome::Rewritten { pieces } => {
                    step.windows += 1;
                    step.rewritten_len += window.length();
                    step.pieces_before += window.pieces as u64;
                    step.pieces_after += pieces;
                }
                Outcome::Left => step.left += 1,
            }
            self.position.offset = window.end;
        }
        let rate = self.options.rate_per_second;
        let pause = step.rewritten_len.saturating_mul(1_000_000_000).checked_div(rate).map(Duration::from_nanos);
        self.due = self.due.max(began) + pause.unwrap_or_default();
        Ok(step)
    }

    /// The next window to be rewritten; moves the position to it. `None` when the step has looked at enough, or the pass is done.
    fn find(&mut self, view: &View, step: &mut DefragStep) -> Result<Option<Window>> {
        while let Some((space, root)) = self.space_at(view)? {
            if space != self.position.space {
                self.position = DefragPosition { space, ..DefragPosition::default() };
            }
            let range = KeyRange { start: self.position.key.clone(), end: None };
            let mut cursor = root.tree.cursor(record_range(&range));
            while let Some((key, value)) = cursor.next(&self.core.nodes)? {
                let key = user_key(&key);
                if key != self.position.key {
                    self.position.offset = 0;
                    self.position.key = key.clone();
                }
                if let Value::Record(Record { version, size, content: Content::Pieces(blob) }) = value {
                    let mut finder = Finder::new(&self.core, view.state(), &root);
                    if let Some(mut found) = finder.next(blob, self.position.offset, size)? {
                        step.left += finder.left;
                        (found.space, found.key, found.version) = (space, key, version);
                        return Ok(Some(found));
                    }
                    step.left += finder.left;
                }
                step.keys += 1;
                // Behind the key: it is done.
                self.position.offset = u64::MAX;
                if step.keys >= KEYS_A_STEP as u64 {
                    return Ok(None);
                }
            }
            let next = SpaceId(space.0.saturating_add(1));
            self.position = DefragPosition { space: next, ..DefragPosition::default() };
        }
        step.done = true;
        Ok(None)
    }

    /// The first space from the position on whose values may be moved.
    fn space_at(&self, view: &View) -> Result<Option<(SpaceId, SpaceRoot)>> {
        let from = self.position.space.max(SpaceId::FIRST);
        let mut cursor = view.state().master.cursor(KeyRange { start: space_key(from), end: None });
        while let Some((key, value)) = cursor.next(&self.core.nodes)? {
            let id =
                <[u8; 8]>::try_from(key.as_ref()).map_err(|_| Error::damaged("the tree of spaces has a wrong key"))?;
            match value {
                Value::Root(root) if !root.is_read_only() => return Ok(Some((SpaceId(u64::from_be_bytes(id)), root))),
                _ => {}
            }
        }
        Ok(None)
    }
}
