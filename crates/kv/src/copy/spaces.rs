//! One space after the other: what the destination lacks is brought, what it has too much is removed.
//!
//! Invariants:
//! - Keys are met in order on both sides at once; what is before the position of the state is equal to the source.
//! - A key counts as there when its length is right, and it has not changed since the version that it is known to have, or
//!   its bytes are those of the source. Keys of a snapshot are as old as those that it was taken of: one that was made
//!   anew is not newer, and so their bytes are looked at.

use std::sync::Arc;

use bytes::Bytes;
use koine_engine::{Error, KeyRange, Operation, Result, SpaceId};

use super::state::{CopyPosition, CopyState, all_made, made, unmade};
use super::values::{Side, first_difference, large, small};
use super::writer::Writer;
use super::{Copied, CopyOptions, CopyProgress, CopyResult, Phase, SCRATCH_SPACE, Teller, Told, name, whole};
use crate::seam::{Cursor, Direction, Entry, Kv, SpaceEntry, View};

/// Before a value that is longer, what was gathered is sent: it would wait for long.
const LONG: u64 = 1 << 20;

/// The keys of a space of the destination, beside those of the source.
pub(super) struct Beside<'a> {
    kv: &'a dyn Kv,
    space: SpaceId,
    pub view: Arc<dyn View>,
    cursor: Option<Box<dyn Cursor>>,
    head: Option<Entry>,
}

impl<'a> Beside<'a> {
    /// From after a key on.
    pub fn open(kv: &'a dyn Kv, space: SpaceId, after: Option<&Bytes>) -> Result<Beside<'a>> {
        let view = kv.view()?;
        let mut cursor = view.cursor(space, KeyRange::all(), Direction::Forward)?;
        let head = match after {
            Some(after) => seek_after(&mut *cursor, after)?,
            None => cursor.next()?,
        };
        Ok(Beside { kv, space, view, cursor: head.is_some().then_some(cursor), head })
    }

    fn step(&mut self) -> Result<Option<Entry>> {
        let next = self.cursor.as_mut().map_or(Ok(None), |cursor| cursor.next())?;
        if next.is_none() {
            self.cursor = None;
        }
        Ok(std::mem::replace(&mut self.head, next))
    }

    /// The next key that comes before one of the source, and so is none of the source's.
    pub fn extra(&mut self, before: Option<&Bytes>) -> Result<Option<Entry>> {
        match &self.head {
            Some(head) if before.is_none_or(|before| head.key < *before) => self.step(),
            _ => Ok(None),
        }
    }

    /// The same key, where it is there.
    pub fn same(&mut self, key: &Bytes) -> Result<Option<Entry>> {
        match &self.head {
            Some(head) if head.key == *key => self.step(),
            _ => Ok(None),
        }
    }

    /// Looks at the newest version from here on: an old one holds back what is overwritten.
    fn renew(&mut self) -> Result<()> {
        if let (Some(head), true) = (&self.head, self.cursor.is_some()) {
            let after = head.key.clone();
            let view = self.kv.view()?;
            let mut cursor = view.cursor(self.space, KeyRange::all(), Direction::Forward)?;
            let head = cursor.seek(&after).and_then(|()| cursor.next())?;
            (self.view, self.cursor, self.head) = (view, head.is_some().then_some(cursor), head);
        }
        Ok(())
    }
}

/// The first entry after a key.
fn seek_after(cursor: &mut dyn Cursor, after: &Bytes) -> Result<Option<Entry>> {
    cursor.seek(after)?;
    match cursor.next()? {
        Some(entry) if entry.key == *after => cursor.next(),
        entry => Ok(entry),
    }
}

pub(super) struct Copier<'a> {
    view: &'a dyn View,
    options: &'a CopyOptions,
    writer: Writer<'a>,
    done: Copied,
    teller: Teller<'a>,
}

/// Where the keys of a space go, and after which key that has come already.
struct Target {
    source: SpaceId,
    space: SpaceId,
    after: Option<Bytes>,
}

impl<'a> Copier<'a> {
    pub fn new(
        view: &'a dyn View,
        destination: &'a dyn Kv,
        options: &'a CopyOptions,
        state: CopyState,
        done: Copied,
        progress: &'a mut dyn FnMut(&CopyProgress),
    ) -> Copier<'a> {
        let writer = Writer::new(destination, state, view.version());
        Copier { view, options, writer, done, teller: Teller::new(progress, Phase::Copying) }
    }

    /// Brings a space.
    pub fn space(&mut self, entry: SpaceEntry) -> CopyResult<()> {
        let SpaceEntry { space, is_snapshot } = entry;
        self.teller.add(space, 0, 0);
        if self.writer.state.has_whole(space, self.done.version) {
            return Ok(());
        }
        let found = self.found(space)?;
        let mut target = Target { source: space, space, after: None };
        if is_snapshot {
            if found.is_some_and(|found| found.is_snapshot) && self.is_same(space)? {
                return self.writer.send(whole(space));
            }
            target.space = SCRATCH_SPACE;
            self.make_scratch(space)?;
        } else {
            match found {
                Some(found) if !found.is_snapshot => {}
                found => {
                    if found.is_some() {
                        self.writer.then(Operation::DropSpace { space });
                    }
                    self.writer.then(Operation::CreateSpace { space });
                    self.writer.then(made(space));
                    self.writer.send_state()?;
                }
            }
        }
        target.after = self.writer.state.reached(space, self.done.version);
        self.fill(&target)?;
        if is_snapshot {
            if self.found(space)?.is_some() {
                self.writer.then(Operation::DropSpace { space });
            }
            self.writer.then(Operation::SnapshotSpace { from: SCRATCH_SPACE, to: space });
            self.writer.then(Operation::DropSpace { space: SCRATCH_SPACE });
            self.writer.then(made(space));
            self.writer.state.scratch = None;
        }
        self.writer.send(whole(space))
    }

    /// A space of the destination, where it is there.
    fn found(&self, space: SpaceId) -> CopyResult<Option<SpaceEntry>> {
        let found = self.writer.kv().view().and_then(|view| view.spaces(space, 1));
        let found = found.destination(|| format!("looking for space {}", space.0))?;
        Ok(found.into_iter().find(|entry| entry.space == space))
    }

    /// Makes the space that a snapshot is filled in, or goes on with that of an earlier run.
    fn make_scratch(&mut self, of: SpaceId) -> CopyResult<()> {
        let is_there = self.found(SCRATCH_SPACE)?.is_some();
        if is_there && self.writer.state.scratch == Some(of) {
            return Ok(());
        }
        if is_there {
            self.writer.then(Operation::DropSpace { space: SCRATCH_SPACE });
        }
        self.writer.then(Operation::CreateSpace { space: SCRATCH_SPACE });
        // What an earlier run brought of this snapshot lay elsewhere.
        self.writer.state.forget_within(of);
        self.writer.state.scratch = Some(of);
        self.writer.send_state()
    }

    /// Whether a snapshot of the destination is that of the source, byte for byte.
    fn is_same(&mut self, space: SpaceId) -> CopyResult<bool> {
        let looking = || format!("comparing snapshot {}", space.0);
        let mut source = self.view.cursor(space, KeyRange::all(), Direction::Forward).source(looking)?;
        let mut beside = Beside::open(self.writer.kv(), space, None).destination(looking)?;
        let mut kept = 0;
        while let Some(entry) = source.next().source(looking)? {
            let is_extra = beside.extra(Some(&entry.key)).destination(looking)?.is_some();
            let Some(ours) = beside.same(&entry.key).destination(looking)?.filter(|_| !is_extra) else {
                return Ok(false);
            };
            if !self.is_there(space, &entry, Side { view: &*beside.view, space }, &ours, false)? {
                return Ok(false);
            }
            kept += 1;
        }
        let is_same = beside.extra(None).destination(looking)?.is_none();
        self.done.kept += if is_same { kept } else { 0 };
        Ok(is_same)
    }

    /// Whether the destination's entry is the source's; versions say so where they are believed.
    fn is_there(
        &mut self,
        space: SpaceId,
        theirs: &Entry,
        side: Side<'_>,
        ours: &Entry,
        is_believed: bool,
    ) -> CopyResult<bool> {
        if ours.stat.size != theirs.stat.size {
            return Ok(false);
        }
        let known = self.writer.state.known(space, &theirs.key).filter(|_| is_believed);
        if known.is_some_and(|known| theirs.stat.version <= known) {
            return Ok(true);
        }
        let source = Side { view: self.view, space };
        Ok(first_difference(source, theirs, side, ours, |_| {})?.is_none())
    }

    /// Makes a space of the destination equal to that of the source, from a key on.
    fn fill(&mut self, target: &Target) -> CopyResult<()> {
        let Target { source, space, after } = target;
        let walking = || format!("listing space {}", source.0);
        let mut cursor = self.view.cursor(*source, KeyRange::all(), Direction::Forward).source(walking)?;
        let mut beside = Beside::open(self.writer.kv(), *space, after.as_ref()).destination(walking)?;
        let mut next = match after {
            Some(after) => seek_after(&mut *cursor, after).source(walking)?,
            None => cursor.next().source(walking)?,
        };
        let mut reached = match after {
            Some(after) => CopyPosition { space: *source, key: Some(after.clone()) },
            None => whole(SpaceId(source.0.saturating_sub(1))),
        };
        loop {
            let key = next.as_ref().map(|entry| &entry.key);
            while let Some(extra) = beside.extra(key).destination(walking)? {
                if !self.options.is_founded(*source, &extra.key) {
                    self.writer.delete(*space, extra.key, &reached)?;
                    self.done.removed += 1;
                }
            }
            let Some(entry) = next else { return Ok(()) };
            let ours = beside.same(&entry.key).destination(walking)?;
            let is_there = match &ours {
                Some(ours) => {
                    let side = Side { view: &*beside.view, space: *space };
                    self.is_there(*source, &entry, side, ours, space == source)?
                }
                None => false,
            };
            if is_there {
                self.done.kept += 1;
                self.teller.add(*source, 1, 0);
            } else {
                let sent = self.writer.sent;
                self.bring(target, &entry, &reached)?;
                if self.writer.sent > sent {
                    beside.renew().destination(walking)?;
                }
            }
            reached = CopyPosition { space: *source, key: Some(entry.key) };
            next = cursor.next().source(walking)?;
        }
    }

    /// Brings a key.
    fn bring(&mut self, target: &Target, entry: &Entry, reached: &CopyPosition) -> CopyResult<()> {
        let source = Side { view: self.view, space: target.source };
        let (most, length) = (self.writer.kv().profile().key_len_max, entry.key.len());
        if length > most {
            let error = Error::invalid(format!("a key of {length} bytes, and it takes at most {most}"));
            return Err(error).destination(|| format!("writing {}", name(source.space, &entry.key)));
        }
        let size = entry.stat.size;
        if size <= self.writer.inline_len_max {
            let value = small(source, entry)?;
            self.writer.put(target.space, entry.key.clone(), value, reached)?;
            self.teller.add(target.source, 1, size);
        } else {
            if size >= LONG {
                self.writer.flush(reached)?;
            }
            let teller = &mut self.teller;
            let token = large(source, entry, self.writer.kv(), |bytes| teller.add(target.source, 0, bytes))?;
            self.writer.put_stage(target.space, entry.key.clone(), token, reached)?;
            self.teller.add(target.source, 1, 0);
        }
        self.done.keys += 1;
        self.done.bytes += size;
        Ok(())
    }

    /// Removes the spaces that earlier runs made and the source has no more.
    pub fn drop_vanished(&mut self, spaces: &[SpaceEntry]) -> CopyResult<()> {
        let made = self.writer.kv().view().and_then(|view| all_made(&*view));
        for space in made.destination(|| "reading the state of an earlier copy".into())? {
            if spaces.binary_search_by_key(&space, |entry| entry.space).is_err() && self.found(space)?.is_some() {
                unmade(space).into_iter().for_each(|operation| self.writer.then(operation));
                self.writer.send_state()?;
            }
        }
        Ok(())
    }

    /// The destination has everything.
    pub fn end(mut self) -> CopyResult<(CopyState, Copied)> {
        if self.found(SCRATCH_SPACE)?.is_some() {
            self.writer.then(Operation::DropSpace { space: SCRATCH_SPACE });
            self.writer.state.scratch = None;
        }
        self.writer.send(whole(SpaceId(u64::MAX)))?;
        self.writer.sync()?;
        Ok((self.writer.state, self.done))
    }
}
