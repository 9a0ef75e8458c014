//! Views of spaces by prefix, and what a pending state reads of them.
//!
//! Invariant: the flags of a space are read once a view: they do not change in it.

use std::collections::HashMap;
use std::sync::Arc;

use bytes::Bytes;
use koine_engine::{Error, ErrorKind, KeyRange, Payload, Place, Result, SpaceId, Version};
use parking_lot::Mutex;

use super::{CATALOGUE, COPY, HEAD_LEN, SNAPSHOT, StagedBelow, catalogue_key, id, kept_key, key_below, range_below};
use crate::emulate::SOLE;
use crate::emulate::cursor::{Translate, Translated};
use crate::emulate::pending::BackingStore;
use crate::emulate::plan::{keys, unprefixed};
use crate::emulate::token::Staged;
use crate::pass_on;
use crate::seam::{Cursor, Direction, Entry, Lookup, SpaceEntry, Stat, View, Wait, absent};
use crate::sparse::{Piece, Sparse};

/// One version of all spaces.
pub(super) struct SpacesView {
    below: Arc<dyn View>,
    flags: Mutex<HashMap<SpaceId, Option<u8>>>,
}

fn damaged() -> Error {
    Error::damaged("a value below is not of the form that `Spaces` writes")
}

/// The version that a copied key keeps.
fn kept_version(below: &dyn View, space: SpaceId, key: &[u8]) -> Result<Option<Version>> {
    let mut version = [0; 8];
    match below.read(SOLE, &kept_key(space, key), 0, &mut version) {
        Ok(8) => Ok(Some(Version(u64::from_le_bytes(version)))),
        Ok(_) => Err(damaged()),
        Err(error) if error.kind() == ErrorKind::NotFound => Ok(None),
        Err(error) => Err(error),
    }
}

impl SpacesView {
    pub(super) fn new(below: Arc<dyn View>) -> Self {
        SpacesView { below, flags: Mutex::default() }
    }

    /// What a space is; `None` where it is absent.
    pub(super) fn flags(&self, space: SpaceId) -> Result<Option<u8>> {
        if space < SpaceId::FIRST {
            return Ok(None);
        }
        if let Some(known) = self.flags.lock().get(&space) {
            return Ok(*known);
        }
        let mut flags = [0];
        let flags = match self.below.read(SOLE, &catalogue_key(space), 0, &mut flags) {
            Ok(1) => flags.first().copied(),
            Ok(_) => return Err(damaged()),
            Err(error) if error.kind() == ErrorKind::NotFound => None,
            Err(error) => return Err(error),
        };
        self.flags.lock().insert(space, flags);
        Ok(flags)
    }
}

/// Whether a space with these flags was made as a copy.
fn is_copy(flags: Option<u8>) -> bool {
    flags.is_some_and(|flags| flags & COPY != 0)
}

impl View for SpacesView {
    pass_on!(View, below: version, keep);

    fn spaces(&self, from: SpaceId, most: usize) -> Result<Vec<SpaceEntry>> {
        let first = catalogue_key(from);
        let range = KeyRange { start: first, ..KeyRange::prefix(id(CATALOGUE).to_vec()) };
        let mut cursor = self.below.cursor(SOLE, range, Direction::Forward)?;
        let mut spaces = Vec::new();
        while spaces.len() < most {
            let Some(entry) = cursor.next()? else { break };
            let space = entry.key.get(8..).and_then(|id| id.try_into().ok()).ok_or_else(damaged)?;
            let flags = entry.value.and_then(|value| value.first().copied()).ok_or_else(damaged)?;
            let space = SpaceId(u64::from_be_bytes(space));
            spaces.push(SpaceEntry { space, is_snapshot: flags & SNAPSHOT != 0 });
        }
        Ok(spaces)
    }

    fn lookup(&self, space: SpaceId, key: &[u8], offset: u64, length: usize, wait: Wait) -> Result<Lookup> {
        if space < SpaceId::FIRST {
            return Ok(Lookup::Absent);
        }
        let (stat, bytes) = match self.below.lookup(SOLE, &key_below(space, key), offset, length, wait)? {
            Lookup::Found(stat, bytes) => (stat, bytes),
            told => return Ok(told),
        };
        // The versions of copied keys lie elsewhere, and so does whether a space has any.
        let kept = match wait {
            Wait::Allowed if is_copy(self.flags(space)?) => kept_version(&*self.below, space, key)?,
            Wait::Allowed => None,
            Wait::Never if self.flags.lock().get(&space).is_some_and(|flags| !is_copy(*flags)) => None,
            Wait::Never => return Ok(Lookup::WouldWait),
        };
        Ok(Lookup::Found(Stat { version: kept.unwrap_or(stat.version), ..stat }, bytes))
    }

    fn read_into(
        &self,
        space: SpaceId,
        key: &[u8],
        offset: u64,
        buffer: &mut [u8],
        wait: Wait,
    ) -> Result<Option<usize>> {
        if space < SpaceId::FIRST {
            return Err(absent());
        }
        self.below.read_into(SOLE, &key_below(space, key), offset, buffer, wait)
    }

    fn cursor(&self, space: SpaceId, range: KeyRange, direction: Direction) -> Result<Box<dyn Cursor>> {
        // A reserved space reads as an empty one.
        let nothing = KeyRange::new(Bytes::new(), Bytes::new());
        let range = if space < SpaceId::FIRST { nothing } else { range_below(space, &range) };
        let below = self.below.cursor(SOLE, range, direction)?;
        let kept_in = if is_copy(self.flags(space)?) { Some(Arc::clone(&self.below)) } else { None };
        Ok(Box::new(Translated::new(below, SpaceEntries { space, kept_in })))
    }
}

struct SpaceEntries {
    space: SpaceId,
    /// Where versions are kept, if any are.
    kept_in: Option<Arc<dyn View>>,
}

impl Translate for SpaceEntries {
    fn key_below(&self, key: &[u8]) -> Bytes {
        key_below(self.space, key)
    }

    fn entry(&self, below: Entry) -> Result<Entry> {
        let key = unprefixed(&id(self.space.0), &KeyRange { start: below.key, end: None }).start;
        let kept = self.kept_in.as_ref().map(|view| kept_version(&**view, self.space, &key)).transpose()?.flatten();
        Ok(Entry { key, stat: Stat { version: kept.unwrap_or(below.stat.version), ..below.stat }, value: below.value })
    }
}

/// Where the bytes of a value are; most are never looked at.
#[derive(Clone)]
pub(super) enum Source {
    Inline(Bytes),
    Kept {
        place: Place,
        offset: u64,
        length: u64,
    },
    /// Of a stage only the first bytes are known.
    Staged {
        head: Bytes,
        offset: u64,
        length: u64,
    },
}

impl Piece for Source {
    fn length(&self) -> u64 {
        match self {
            Source::Inline(bytes) => bytes.len() as u64,
            Source::Kept { length, .. } | Source::Staged { length, .. } => *length,
        }
    }

    fn part(&self, start: u64, end: u64) -> Self {
        match self {
            Source::Inline(bytes) => Source::Inline(bytes.part(start, end)),
            Source::Kept { place, offset, .. } => {
                Source::Kept { place: place.clone(), offset: offset + start, length: end - start }
            }
            Source::Staged { head, offset, .. } => {
                Source::Staged { head: head.clone(), offset: offset + start, length: end - start }
            }
        }
    }
}

/// All spaces before a batch.
pub(super) struct SpacesBacking {
    view: Arc<SpacesView>,
}

impl SpacesBacking {
    pub(super) fn new(view: Arc<SpacesView>) -> Self {
        SpacesBacking { view }
    }

    fn read_piece(&self, piece: &Source, part: &mut [u8]) -> Result<()> {
        let count = match piece {
            Source::Inline(bytes) => {
                part.copy_from_slice(bytes);
                part.len()
            }
            Source::Kept { place, offset, .. } => self.view.read(place.space, &place.key, *offset, part)?,
            Source::Staged { head, offset, .. } => {
                let known = usize::try_from(*offset).ok().and_then(|offset| head.get(offset..offset + part.len()));
                part.copy_from_slice(known.ok_or_else(|| {
                    let message = format!(
                        "a counter is made of more than the first {HEAD_LEN} bytes of a stage: add to it in a batch of its own"
                    );
                    Error::new(ErrorKind::Unsupported, message)
                })?);
                part.len()
            }
        };
        if count < part.len() { Err(damaged()) } else { Ok(()) }
    }
}

impl BackingStore for SpacesBacking {
    type Piece = Source;

    fn space(&self, space: SpaceId) -> Result<Option<bool>> {
        Ok(self.view.flags(space)?.map(|flags| flags & SNAPSHOT != 0))
    }

    fn has(&self, space: SpaceId, key: &[u8]) -> Result<bool> {
        Ok(self.view.below.stat(SOLE, &key_below(space, key))?.is_some())
    }

    fn load(&self, space: SpaceId, key: &[u8]) -> Result<Option<Sparse<Source>>> {
        let stat = self.view.below.stat(SOLE, &key_below(space, key))?;
        let place = Place::new(space, Bytes::copy_from_slice(key));
        Ok(stat.map(|stat| Sparse::from_piece(Source::Kept { place, offset: 0, length: stat.size })))
    }

    fn keys(&self, space: SpaceId, range: &KeyRange) -> Result<Vec<Bytes>> {
        keys(&*self.view, space, range)
    }

    fn payload(&self, payload: &Payload) -> Result<Sparse<Source>> {
        Ok(Sparse::from_piece(match payload {
            Payload::Bytes(bytes) => Source::Inline(bytes.clone()),
            Payload::Stage(token) => {
                let staged = token.content_ref::<Staged<StagedBelow>>();
                let staged = staged.ok_or_else(|| Error::invalid("a stage of another store"))?;
                Source::Staged { head: staged.content().head.clone(), offset: 0, length: token.length() }
            }
        }))
    }

    fn read(&self, value: &Sparse<Source>, buffer: &mut [u8]) -> Result<()> {
        buffer.fill(0);
        let mut outcome = Ok(());
        value.each_within(0, buffer.len() as u64, |at, piece| {
            let part = buffer.get_mut(at as usize..(at + piece.length()) as usize);
            if let (Ok(()), Some(part)) = (&outcome, part) {
                outcome = self.read_piece(&piece, part);
            }
        });
        outcome
    }
}
