//! How far a copy has come, as the destination remembers it.
//!
//! Invariants:
//! - It is put in the batch that brings what it tells of.
//! - `parts` are in order: up to the end of each, from the end of the one before, the destination has that version.
//! - Anything that cannot be read so is no state of ours, and an error.

use bytes::Bytes;
use koine_engine::{Batch, Error, ErrorKind, KeyRange, Operation, Place, Result, SpaceId, Version};

use super::STATE_SPACE;
use crate::seam::{Direction, View};

const STATE: &[u8] = b"state";
const SOURCE: &[u8] = b"source";
const SCOPE: &[u8] = b"scope";
/// Before the id of each space that a copy made.
const MADE: &[u8] = b"made/";
const FIRST_LINE: &str = "koine copy 1";

/// A place in the order of everything: up to and with a key, or a whole space.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct CopyPosition {
    pub space: SpaceId,
    /// `None` is the end of the space.
    pub key: Option<Bytes>,
}

impl CopyPosition {
    fn covers(&self, space: SpaceId, key: Option<&[u8]>) -> bool {
        match (&self.key, key) {
            _ if space != self.space => space < self.space,
            (None, _) => true,
            (Some(_), None) => false,
            (Some(end), Some(key)) => key <= end.as_ref(),
        }
    }
}

/// What the destination has up to a position.
#[derive(Clone, Debug, PartialEq, Eq)]
struct CopyPart {
    end: CopyPosition,
    version: Version,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct CopyState {
    source: String,
    scope: String,
    /// The snapshot that is being filled.
    pub scratch: Option<SpaceId>,
    parts: Vec<CopyPart>,
    is_resumed: bool,
}

impl CopyState {
    pub fn new(source: &str, scope: &str) -> CopyState {
        CopyState {
            source: source.to_owned(),
            scope: scope.to_owned(),
            scratch: None,
            parts: Vec::new(),
            is_resumed: false,
        }
    }

    pub fn is_resumed(&self) -> bool {
        self.is_resumed
    }

    pub fn is_of_same(&self, other: &CopyState) -> bool {
        self.source == other.source && self.scope == other.scope
    }

    /// For people.
    pub fn told(&self) -> String {
        format!("{} (spaces: {})", self.source, self.scope)
    }

    /// Believes nothing of a space.
    pub fn forget_within(&mut self, space: SpaceId) {
        let end = CopyPosition { space, key: None };
        let begin = space.0.checked_sub(1).map(|last| CopyPosition { space: SpaceId(last), key: None });
        let is_before = |part: &CopyPart| part.end.space < space;
        let is_behind = |part: &CopyPart| !end.covers(part.end.space, part.end.key.as_deref());
        let reaching = self.parts.iter().find(|part| !is_before(part)).map(|part| part.version);
        let mut parts: Vec<CopyPart> = self.parts.iter().filter(|part| is_before(part)).cloned().collect();
        parts.extend(begin.zip(reaching).map(|(end, version)| CopyPart { end, version }));
        // No key is as old as that.
        parts.push(CopyPart { end: end.clone(), version: Version(0) });
        parts.extend(self.parts.iter().filter(|part| is_behind(part)).cloned());
        self.parts = parts;
    }

    /// Takes over where a snapshot is being filled.
    pub fn with_scratch(self, scratch: Option<SpaceId>) -> CopyState {
        CopyState { scratch, ..self }
    }

    /// Believes nothing of what is there.
    pub fn forget(&mut self) {
        self.parts.clear();
    }

    pub fn forgotten(mut self) -> CopyState {
        self.forget();
        self
    }

    /// The version of the source up to which a key is known to be in the destination.
    pub fn known(&self, space: SpaceId, key: &[u8]) -> Option<Version> {
        self.parts.iter().find(|part| part.end.covers(space, Some(key))).map(|part| part.version)
    }

    /// Whether all of a space is there as of a version.
    pub fn has_whole(&self, space: SpaceId, version: Version) -> bool {
        self.parts.first().is_some_and(|part| part.version == version && part.end.covers(space, None))
    }

    /// The key up to which a space is there as of a version.
    pub fn reached(&self, space: SpaceId, version: Version) -> Option<Bytes> {
        let part = self.parts.first().filter(|part| part.version == version && part.end.space == space)?;
        part.end.key.clone()
    }

    /// Whether something of a version is there that a source of this version cannot have had.
    pub fn is_newer_than(&self, version: Version) -> bool {
        self.parts.iter().any(|part| part.version > version)
    }

    /// The destination has a version up to a position.
    pub fn advance(&mut self, end: CopyPosition, version: Version) {
        self.parts.retain(|part| !end.covers(part.end.space, part.end.key.as_deref()));
        self.parts.insert(0, CopyPart { end, version });
        // What follows with the same version begins nothing new.
        if let [first, second, ..] = self.parts.as_slice()
            && first.version == second.version
        {
            self.parts.remove(0);
        }
    }

    fn encode(&self) -> String {
        let mut text = format!("{FIRST_LINE}\n");
        if let Some(space) = self.scratch {
            text.push_str(&format!("scratch {}\n", space.0));
        }
        for CopyPart { end, version } in &self.parts {
            let key = end.key.as_ref().map_or_else(|| "end".to_owned(), |key| format!("x{}", hex(key)));
            text.push_str(&format!("part {} {key} {}\n", end.space.0, version.0));
        }
        text
    }

    fn decode(&mut self, text: &str) -> Option<()> {
        let mut lines = text.lines();
        (lines.next()? == FIRST_LINE).then_some(())?;
        for line in lines {
            let words: Vec<&str> = line.split(' ').collect();
            match words.as_slice() {
                ["scratch", space] => self.scratch = Some(SpaceId(space.parse().ok()?)),
                ["part", space, key, version] => {
                    let key = match *key {
                        "end" => None,
                        key => Some(unhex(key.strip_prefix('x')?)?),
                    };
                    let end = CopyPosition { space: SpaceId(space.parse().ok()?), key };
                    self.parts.push(CopyPart { end, version: Version(version.parse().ok()?) });
                }
                _ => return None,
            }
        }
        Some(())
    }

    /// What an earlier run left; `None` where none was.
    pub fn read(view: &dyn View) -> Result<Option<CopyState>> {
        let text = |key: &[u8]| -> Result<Option<String>> {
            let Some(stat) = view.stat(STATE_SPACE, key)? else { return Ok(None) };
            let length = usize::try_from(stat.size.min(1 << 20)).unwrap_or_default();
            let bytes = view.bytes(STATE_SPACE, key, 0, length)?;
            String::from_utf8(bytes.to_vec()).map(Some).map_err(|_| foreign())
        };
        let Some(found) = text(STATE)? else {
            // A space of that id with something else in it is not ours to write to.
            let is_empty = view.cursor(STATE_SPACE, KeyRange::all(), Direction::Forward)?.next()?.is_none();
            return if is_empty { Ok(None) } else { Err(foreign()) };
        };
        let (source, scope) = (text(SOURCE)?.ok_or_else(foreign)?, text(SCOPE)?.ok_or_else(foreign)?);
        let mut state = CopyState { is_resumed: true, ..CopyState::new(&source, &scope) };
        state.decode(&found).ok_or_else(foreign)?;
        Ok(Some(state))
    }

    /// Writes it.
    pub fn operation(&self) -> Operation {
        put(STATE, self.encode())
    }

    pub fn batch(&self) -> Batch {
        Batch::new().then(self.operation())
    }

    /// Writes all of it for the first time.
    pub fn first_batch(&self, has_space: bool) -> Batch {
        let mut batch = Batch::new();
        if !has_space {
            batch = batch.then(Operation::CreateSpace { space: STATE_SPACE });
        }
        // Spaces that a copy from elsewhere made are others now.
        let made = Operation::DeleteRange { space: STATE_SPACE, range: KeyRange::prefix(MADE) };
        batch
            .then(made)
            .then(put(SOURCE, self.source.clone()))
            .then(put(SCOPE, self.scope.clone()))
            .then(self.operation())
    }
}

/// Remembers that a space was made here.
pub(super) fn made(space: SpaceId) -> Operation {
    Operation::Put { at: made_place(space), value: Bytes::new().into() }
}

fn made_place(space: SpaceId) -> Place {
    Place::new(STATE_SPACE, [MADE, &space.0.to_be_bytes()].concat())
}

/// Removes a space that was made here.
pub(super) fn unmade(space: SpaceId) -> [Operation; 2] {
    [Operation::DropSpace { space }, Operation::Delete { at: made_place(space) }]
}

/// The spaces that were made here, in order.
pub(super) fn all_made(view: &dyn View) -> Result<Vec<SpaceId>> {
    let mut cursor = view.cursor(STATE_SPACE, KeyRange::prefix(MADE), Direction::Forward)?;
    let mut spaces = Vec::new();
    while let Some(entry) = cursor.next()? {
        let id = entry.key.get(MADE.len()..).and_then(|id| id.try_into().ok()).ok_or_else(foreign)?;
        spaces.push(SpaceId(u64::from_be_bytes(id)));
    }
    Ok(spaces)
}

fn put(key: &'static [u8], text: String) -> Operation {
    Operation::Put { at: Place::new(STATE_SPACE, key), value: Bytes::from(text).into() }
}

fn foreign() -> Error {
    let message = format!("space {} holds something that is no state of a copy; copy to another store", STATE_SPACE.0);
    Error::new(ErrorKind::Unknown, message)
}

fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}

fn unhex(text: &str) -> Option<Bytes> {
    let digits: Vec<u8> =
        text.chars().map(|digit| digit.to_digit(16).map(|digit| digit as u8)).collect::<Option<_>>()?;
    let pairs = digits.chunks_exact(2);
    if !pairs.remainder().is_empty() {
        return None;
    }
    Some(pairs.map(|pair| pair.iter().fold(0, |byte, digit| byte << 4 | digit)).collect())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(space: u64, key: &'static str) -> CopyPosition {
        CopyPosition { space: SpaceId(space), key: Some(Bytes::from(key)) }
    }

    fn end(space: u64) -> CopyPosition {
        CopyPosition { space: SpaceId(space), key: None }
    }

    #[test]
    fn parts_tell_what_is_known_of_each_key() {
        let mut state = CopyState::new("a", "all");
        let known =
            |state: &CopyState, space, key: &str| state.known(SpaceId(space), key.as_bytes()).map(|version| version.0);
        assert_eq!(known(&state, 16, "k"), None);
        state.advance(at(20, "k"), Version(5));
        state.advance(at(20, "m"), Version(5));
        assert_eq!([known(&state, 16, "z"), known(&state, 20, "m"), known(&state, 20, "n")], [Some(5), Some(5), None]);
        assert_eq!(state.reached(SpaceId(20), Version(5)).as_deref(), Some(&b"m"[..]));
        assert!(state.has_whole(SpaceId(19), Version(5)) && !state.has_whole(SpaceId(20), Version(5)));
        // A second run, of a newer version, that is interrupted before it is where the first was.
        state.advance(at(17, ""), Version(8));
        assert_eq!(
            [known(&state, 17, ""), known(&state, 17, "a"), known(&state, 20, "m")],
            [Some(8), Some(5), Some(5)]
        );
        assert!(!state.has_whole(SpaceId(19), Version(5)), "only the first part was brought by an undisturbed run");
        state.advance(end(20), Version(8));
        assert_eq!([known(&state, 20, "z"), known(&state, 21, "")], [Some(8), None]);
        state.advance(end(u64::MAX), Version(8));
        assert_eq!(state.parts.len(), 1);
        let mut forgotten = state.clone();
        forgotten.forget_within(SpaceId(20));
        let known_of = [known(&forgotten, 19, "z"), known(&forgotten, 20, "a"), known(&forgotten, 21, "a")];
        assert_eq!(known_of, [Some(8), Some(0), Some(8)]);
        assert!(forgotten.has_whole(SpaceId(19), Version(8)) && !forgotten.has_whole(SpaceId(20), Version(8)));
        assert!(state.has_whole(SpaceId(u64::MAX), Version(8)));
    }

    #[test]
    fn a_state_is_read_as_it_was_written_and_nothing_else_is() {
        let mut state = CopyState::new("a", "all");
        state.scratch = Some(SpaceId(77));
        state.advance(at(20, "k\u{1}"), Version(9));
        state.advance(at(18, ""), Version(11));
        let mut again = CopyState::new("a", "all");
        assert_eq!(again.decode(&state.encode()), Some(()));
        assert_eq!(again, state);
        for wrong in
            ["", "koine copy 2\n", "koine copy 1\npart 1 x6 2", "koine copy 1\npart 1 6b 2", "koine copy 1\nscratch x"]
        {
            assert_eq!(CopyState::new("a", "all").decode(wrong), None, "{wrong}");
        }
    }
}
