//! A cursor over a view and what a transaction wrote above it.
//!
//! Invariants:
//! - Every span that it went over is noted as read once the cursor is dropped or sought elsewhere:
//!   from where it began up to the key it last gave, or to the end of the range.
//! - A key is given once: what was written hides what the view has.

use std::ops::Bound;
use std::sync::Arc;

use bytes::Bytes;
use koine_engine::{ErrorKind, KeyRange, Result, SpaceId};

use super::overlay::Overlay;
use super::{Reads, Seen, read_written};
use crate::seam::{Cursor, Direction, ENTRY_VALUE_LEN_MAX, Entry, View};

/// A key met by a transaction's cursor.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SeenEntry {
    /// The key.
    pub key: Bytes,
    /// Its version and size.
    pub seen: Seen,
    /// Its value where it is at hand (as [`Entry::value`]); not that of a stage.
    pub value: Option<Bytes>,
}

/// Walks a range as the transaction has it.
pub struct TransactionCursor<'t> {
    reads: &'t mut Reads,
    overlay: &'t Overlay,
    view: Arc<dyn View>,
    space: SpaceId,
    range: KeyRange,
    direction: Direction,
    beneath: Box<dyn Cursor>,
    /// The next entry of the view that nothing hides; looked for when needed.
    peeked: Option<Option<Entry>>,
    /// What is left lies between these.
    lower: Bound<Bytes>,
    upper: Bound<Bytes>,
    /// Where the present span began: its lower end going forward, its upper end going backward.
    span: KeyRange,
    /// Whether anything was asked since the span began.
    moved: bool,
}

impl<'t> TransactionCursor<'t> {
    pub(super) fn new(
        reads: &'t mut Reads,
        overlay: &'t Overlay,
        view: &Arc<dyn View>,
        space: SpaceId,
        range: KeyRange,
        direction: Direction,
    ) -> Result<Self> {
        let beneath = view.cursor(space, range.clone(), direction)?;
        let (lower, upper) = (Bound::Included(range.start.clone()), upper_bound(range.end.clone()));
        let (span, view) = (range.clone(), Arc::clone(view));
        let (peeked, moved) = (None, false);
        Ok(TransactionCursor {
            reads,
            overlay,
            view,
            space,
            range,
            direction,
            beneath,
            peeked,
            lower,
            upper,
            span,
            moved,
        })
    }

    /// The next entry in the cursor's direction; `None` after the last.
    // Not an iterator: it can fail and be sought.
    #[expect(clippy::should_implement_trait)]
    pub fn next(&mut self) -> Result<Option<SeenEntry>> {
        let Some(key) = self.next_key()? else {
            return Ok(None);
        };
        if let Some(Some(entry)) = self.peeked.take_if(|peeked| peeked.as_ref().is_some_and(|entry| entry.key == key)) {
            let seen = Seen { version: Some(entry.stat.version), size: entry.stat.size };
            return Ok(Some(SeenEntry { key, seen, value: entry.value }));
        }
        let single = Bound::Included(&key);
        let Some((_, slot)) = self.overlay.next_written(self.space, single, single, Direction::Forward) else {
            return Ok(None);
        };
        for base in &slot.bases {
            self.reads.key(&*self.view, base)?;
        }
        let size = slot.value.length();
        let mut value = None;
        if size <= ENTRY_VALUE_LEN_MAX {
            let mut bytes = vec![0; size as usize];
            value = match read_written(&*self.view, &slot.value, 0, &mut bytes) {
                Ok(_) => Some(Bytes::from(bytes)),
                Err(error) if error.kind() == ErrorKind::Unsupported => None,
                Err(error) => return Err(error),
            };
        }
        Ok(Some(SeenEntry { key, seen: Seen { version: None, size }, value }))
    }

    /// Goes on at `key`, as [`Cursor::seek`].
    pub fn seek(&mut self, key: &[u8]) -> Result<()> {
        self.note();
        self.beneath.seek(key)?;
        self.peeked = None;
        let key = Bytes::copy_from_slice(key);
        match self.direction {
            Direction::Forward => {
                let start = key.max(self.range.start.clone());
                self.lower = Bound::Included(start.clone());
                self.span = KeyRange { start, end: self.range.end.clone() };
            }
            Direction::Backward => {
                let inside = self.range.end.as_ref().is_none_or(|end| key < *end);
                self.upper = if inside { Bound::Included(key.clone()) } else { upper_bound(self.range.end.clone()) };
                let end = if inside { KeyRange::single(key).end } else { self.range.end.clone() };
                self.span = KeyRange { start: self.range.start.clone(), end };
            }
        }
        Ok(())
    }

    /// The next key of both; an entry of the view stays peeked.
    pub(super) fn next_key(&mut self) -> Result<Option<Bytes>> {
        self.moved = true;
        // The last key given lies outside the bounds now.
        if self.peeked.as_ref().is_some_and(|peeked| peeked.as_ref().is_some_and(|entry| !self.is_left(&entry.key))) {
            self.peeked = None;
        }
        if self.peeked.is_none() {
            self.peeked = Some(self.next_beneath()?);
        }
        let beneath = self.peeked.as_ref().and_then(|peeked| peeked.as_ref()).map(|entry| entry.key.clone());
        let written = if self.bounds_are_empty() {
            None
        } else {
            let (lower, upper) = (self.lower.as_ref(), self.upper.as_ref());
            self.overlay.next_written(self.space, lower, upper, self.direction).map(|(key, _)| key.clone())
        };
        let next = match (beneath, written, self.direction) {
            (Some(a), Some(b), Direction::Forward) => Some(a.min(b)),
            (Some(a), Some(b), Direction::Backward) => Some(a.max(b)),
            (a, b, _) => a.or(b),
        };
        let bound = next.clone().map(Bound::Excluded);
        match (self.direction, bound) {
            (Direction::Forward, Some(bound)) => self.lower = bound,
            (Direction::Backward, Some(bound)) => self.upper = bound,
            // The end: everything that was left was gone over.
            (Direction::Forward, None) => self.lower = self.upper.clone(),
            (Direction::Backward, None) => self.upper = Bound::Excluded(self.range.start.clone()),
        }
        Ok(next)
    }

    /// The next entry of the view that was neither written over nor deleted.
    fn next_beneath(&mut self) -> Result<Option<Entry>> {
        while let Some(entry) = self.beneath.next()? {
            if !self.overlay.has_slot(self.space, &entry.key) && !self.overlay.is_cleared(self.space, &entry.key) {
                return Ok(Some(entry));
            }
        }
        Ok(None)
    }

    fn is_left(&self, key: &Bytes) -> bool {
        let after = match &self.lower {
            Bound::Included(lower) => key >= lower,
            Bound::Excluded(lower) => key > lower,
            Bound::Unbounded => true,
        };
        after
            && match &self.upper {
                Bound::Included(upper) => key <= upper,
                Bound::Excluded(upper) => key < upper,
                Bound::Unbounded => true,
            }
    }

    /// Whether nothing can be left; such bounds must not be given to a map.
    fn bounds_are_empty(&self) -> bool {
        match (&self.lower, &self.upper) {
            (Bound::Included(lower), Bound::Included(upper)) => lower > upper,
            (Bound::Included(lower) | Bound::Excluded(lower), Bound::Included(upper) | Bound::Excluded(upper)) => {
                lower >= upper
            }
            // Past the end of a range without one.
            (Bound::Unbounded, _) => true,
            _ => false,
        }
    }

    /// Notes the span that was gone over.
    fn note(&mut self) {
        if !std::mem::take(&mut self.moved) {
            return;
        }
        let mut span = self.span.clone();
        match (self.direction, &self.lower, &self.upper) {
            (Direction::Forward, Bound::Excluded(last), _) if !self.bounds_are_empty() => {
                span.end = KeyRange::single(last.clone()).end;
            }
            (Direction::Backward, _, Bound::Excluded(last)) if !self.bounds_are_empty() => {
                span.start = last.clone();
            }
            _ => {}
        }
        self.reads.range(self.space, span);
    }
}

impl Drop for TransactionCursor<'_> {
    fn drop(&mut self) {
        self.note();
    }
}

fn upper_bound(key: Option<Bytes>) -> Bound<Bytes> {
    key.map_or(Bound::Unbounded, Bound::Excluded)
}
