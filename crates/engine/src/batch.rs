//! The vocabulary of change: spaces, keys, versions, ranges, conditions, operations, batches.
//!
//! Invariants:
//! - All conditions of a batch hold against the state before it, or nothing of it happens.
//! - Operations apply in order, each seeing those before it; a reader sees all of them or none.
//! - A version is the log number of the commit that last changed a key; it only grows and is never
//!   reused, also not after a crash that dropped commits somebody had seen.
//!
//! What a back end does where an operation alone does not say:
//! - A wrong form is `Invalid` before anything else is looked at, and is not an outcome: a key longer
//!   than [`KEY_LEN_MAX`] (the bounds of a range may be one byte longer), a space below
//!   [`SpaceId::FIRST`], a value longer than [`VALUE_LEN_MAX`], more than the profile's limits, a stage of
//!   another store, one stage named twice. A key may be empty.
//! - Then a request that is known gets its first outcome. Outcomes are commits and refusals; after any
//!   other error the same request may be submitted again.
//! - Then a stage that an earlier commit took is `Invalid`.
//! - Then conditions in order, then operations in order; the first that fails is the one refused.
//! - Every commit gets a version, also one that changed nothing.
//! - An operation that sets a key counts as a change of it even where the bytes stay the same. `Delete`
//!   of an absent key, and `DeleteRange` and `RenamePrefix` that meet no key, change nothing.
//! - A space may be dropped and made again; its old keys count as deleted, `CloneSpace` and
//!   `SnapshotSpace` count as a change of every key of the new space. Copied keys keep their versions.
//! - Any change inside a snapshot is refused; dropping it is not.

use std::fmt;
use std::ops::Bound;

use bytes::Bytes;

use crate::stage::StageToken;

/// The longest key, in bytes.
pub const KEY_LEN_MAX: usize = 2048;
/// The longest value, in bytes.
pub const VALUE_LEN_MAX: u64 = 1 << 60;
/// The most operations (and, apart, the most conditions) of one batch.
pub const BATCH_OPERATIONS_MAX: usize = 25_000;
/// The most inline bytes (keys and payloads) of one batch; a small ring lowers it, see `profile`.
pub const BATCH_BYTES_MAX: usize = 16 << 20;

/// An ordered tree of keys of its own. Ids below 16 are reserved to the engine.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct SpaceId(pub u64);

impl SpaceId {
    /// The first id that callers may use.
    pub const FIRST: SpaceId = SpaceId(16);
}

/// A commit's log number; 0 is "before everything".
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Version(pub u64);

/// Names one submit, so that a repeat after a lost answer gets the first outcome.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct RequestId(pub [u8; 16]);

impl fmt::Debug for RequestId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "RequestId({:032x})", u128::from_be_bytes(self.0))
    }
}

/// What an acknowledged commit survives.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Durability {
    /// Visible; may be lost with the process.
    Memory,
    /// Survives the end of the process (`kill -9`).
    Written,
    /// Survives power loss.
    Sync,
}

/// Keys from `start` (included) to `end` (excluded; `None` is the end of the space).
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct KeyRange {
    /// The first key.
    pub start: Bytes,
    /// The first key after the range.
    pub end: Option<Bytes>,
}

impl KeyRange {
    /// Every key of a space.
    pub fn all() -> Self {
        KeyRange { start: Bytes::new(), end: None }
    }

    /// The keys from `start` on and before `end`.
    pub fn new(start: impl Into<Bytes>, end: impl Into<Bytes>) -> Self {
        KeyRange { start: start.into(), end: Some(end.into()) }
    }

    /// The keys that begin with `prefix`.
    pub fn prefix(prefix: impl Into<Bytes>) -> Self {
        let start = prefix.into();
        let end = after_prefix(&start);
        KeyRange { start, end }
    }

    /// The one key `key`.
    pub fn single(key: impl Into<Bytes>) -> Self {
        let start = key.into();
        let end = [start.as_ref(), &[0]].concat();
        KeyRange { start, end: Some(Bytes::from(end)) }
    }

    /// The key, when the range is of the form that [`KeyRange::single`] makes.
    pub fn as_single(&self) -> Option<&Bytes> {
        let end = self.end.as_ref()?;
        (end.strip_suffix(&[0]) == Some(self.start.as_ref())).then_some(&self.start)
    }

    /// Whether some key can lie in both ranges.
    pub fn overlaps(&self, other: &KeyRange) -> bool {
        let begins_before_end = |a: &KeyRange, b: &KeyRange| b.end.as_ref().is_none_or(|end| a.start < *end);
        !self.is_empty() && !other.is_empty() && begins_before_end(self, other) && begins_before_end(other, self)
    }

    /// Whether `key` lies in the range.
    pub fn contains(&self, key: &[u8]) -> bool {
        key >= self.start.as_ref() && self.end.as_ref().is_none_or(|end| key < end.as_ref())
    }

    /// Whether no key can lie in the range.
    pub fn is_empty(&self) -> bool {
        self.end.as_ref().is_some_and(|end| *end <= self.start)
    }

    /// The bounds in the form of the standard library's ordered maps.
    pub fn bounds(&self) -> (Bound<&[u8]>, Bound<&[u8]>) {
        let end = self.end.as_ref().map_or(Bound::Unbounded, |end| Bound::Excluded(end.as_ref()));
        (Bound::Included(self.start.as_ref()), end)
    }
}

/// The smallest key that sorts after every key with this prefix; `None` when there is none.
pub fn after_prefix(prefix: &[u8]) -> Option<Bytes> {
    let last = prefix.iter().rposition(|byte| *byte != 0xFF)?;
    let mut end = prefix.get(..=last)?.to_vec();
    if let Some(byte) = end.last_mut() {
        *byte += 1;
    }
    Some(Bytes::from(end))
}

/// The bytes of a value: given with the batch, or staged before it.
#[derive(Clone, Debug)]
pub enum Payload {
    /// Carried by the batch; counts against its inline limit.
    Bytes(Bytes),
    /// Placed before by a stage; the batch only names it. A commit takes the stage: one that was taken
    /// cannot be named again, one in a batch that failed can.
    Stage(StageToken),
}

impl Payload {
    /// The length in bytes.
    pub fn len(&self) -> u64 {
        match self {
            Payload::Bytes(bytes) => bytes.len() as u64,
            Payload::Stage(token) => token.length(),
        }
    }

    /// Whether it has no bytes.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }
}

impl From<Bytes> for Payload {
    fn from(bytes: Bytes) -> Self {
        Payload::Bytes(bytes)
    }
}

/// What must hold before a batch for it to be applied.
#[derive(Clone, Debug)]
pub enum Condition {
    /// The key is not there (in a space that may itself be absent).
    Absent {
        /** Its space. */
        space: SpaceId,
        /** The key. */
        key: Bytes,
    },
    /// The key is there.
    Present {
        /** Its space. */
        space: SpaceId,
        /** The key. */
        key: Bytes,
    },
    /// The key is there and was last changed by this commit.
    VersionIs {
        /** Its space. */
        space: SpaceId,
        /** The key. */
        key: Bytes,
        /** Its version. */
        version: Version,
    },
    /// No key lies in the range.
    RangeEmpty {
        /** Its space. */
        space: SpaceId,
        /** The keys. */
        range: KeyRange,
    },
    /// No key of the range was put, changed or deleted after this version. May be refused falsely
    /// (when the version is older than the changes remembered, or when keys were named that were not
    /// there), never held falsely. A key made and deleted again after it is a change.
    RangeUnchanged {
        /** Its space. */
        space: SpaceId,
        /** The keys. */
        range: KeyRange,
        /** The version of the view that was read. */
        since: Version,
    },
}

/// What becomes of the sources of a concatenation.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Sources {
    /// They stay; data is shared.
    Keep,
    /// They are deleted in the same commit; data moves.
    Delete,
}

/// A key in a space.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Place {
    /// The space.
    pub space: SpaceId,
    /// The key in it.
    pub key: Bytes,
}

impl Place {
    /// `key` in `space`.
    pub fn new(space: SpaceId, key: impl Into<Bytes>) -> Self {
        Place { space, key: key.into() }
    }
}

/// One change. Where a key's space is not there the batch is refused.
#[derive(Clone, Debug)]
pub enum Operation {
    /// Sets the whole value.
    Put {
        /** The key. */
        at: Place,
        /** Its new value. */
        value: Payload,
    },
    /// Writes at an offset; the value is created or extended as needed, gaps read as zeros. No data
    /// creates an absent key, but extends nothing.
    WriteAt {
        /** The key. */
        at: Place,
        /** Bytes from the start of the value. */
        offset: u64,
        /** What to write. */
        data: Payload,
    },
    /// Writes at the end; an absent key is created. Refused when the value would be too long.
    Append {
        /** The key. */
        at: Place,
        /** What to write. */
        data: Payload,
    },
    /// Sets the length; what is added reads as zeros; an absent key is created.
    Truncate {
        /** The key. */
        at: Place,
        /** The new length in bytes. */
        length: u64,
    },
    /// Removes the key; nothing happens when it is absent.
    Delete {
        /** The key. */
        at: Place,
    },
    /// Removes every key of a range; nothing happens when there is none.
    DeleteRange {
        /** Its space. */
        space: SpaceId,
        /** The keys. */
        range: KeyRange,
    },
    /// Moves a value to another key, replacing what is there; refused when the source is absent. To the
    /// same key it only changes the version.
    Rename {
        /** The source. */
        from: Place,
        /** The target. */
        to: Place,
    },
    /// Moves every key that begins with one prefix to begin with another, replacing what is there; the
    /// prefixes may overlap. Nothing happens when there is none; refused when a key would be too long.
    RenamePrefix {
        /** The space of both. */
        space: SpaceId,
        /** The prefix taken away. */
        from: Bytes,
        /** The prefix put in its place. */
        to: Bytes,
    },
    /// Writes a range of one value into another by sharing its data; both may be the same key when
    /// the ranges do not overlap, else it is refused. Refused when the source is absent or shorter than
    /// the range. Where the length is 0 an absent target is created, but nothing is extended.
    CloneRange {
        /** The source. */
        from: Place,
        /** Start in the source, in bytes. */
        from_offset: u64,
        /** Length in bytes; `u64::MAX` is up to the source's end, and refused past it. */
        length: u64,
        /** The target, created when absent. */
        to: Place,
        /** Start in the target, in bytes. */
        to_offset: u64,
    },
    /// Sets the target to the sources' values one after the other, by sharing or moving their data.
    /// Refused when a source is absent. The target may not be a source, which is `Invalid`, and so is a
    /// source named twice that is to be deleted. No sources make an empty value.
    Concatenate {
        /** In order. */
        sources: Vec<Place>,
        /** Replaced when present. */
        target: Place,
        /** What becomes of the sources. */
        fate: Sources,
    },
    /// Adds to a value read as a signed 64-bit little-endian number; absent counts as 0. Refused on
    /// overflow or when the value is not 8 bytes long.
    AddCounter {
        /** The key. */
        at: Place,
        /** What to add. */
        delta: i64,
    },
    /// Makes an empty space; refused when it exists.
    CreateSpace {
        /** Its id, chosen by the caller. */
        space: SpaceId,
    },
    /// Makes a writable space with the content of another; refused when that is absent or the new one exists.
    CloneSpace {
        /** The source. */
        from: SpaceId,
        /** The new one. */
        to: SpaceId,
    },
    /// Makes a read-only space with the content of another; refused when that is absent or the new one exists.
    SnapshotSpace {
        /** The source. */
        from: SpaceId,
        /** The new one. */
        to: SpaceId,
    },
    /// Removes a space and everything in it; refused when it is absent.
    DropSpace {
        /** The space. */
        space: SpaceId,
    },
}

/// Conditions and operations that happen together or not at all.
#[derive(Clone, Debug, Default)]
pub struct Batch {
    /// All must hold.
    pub conditions: Vec<Condition>,
    /// Applied in order.
    pub operations: Vec<Operation>,
    /// For repeats after a lost answer.
    pub request: Option<RequestId>,
}

impl Batch {
    /// A batch without anything.
    pub fn new() -> Self {
        Batch::default()
    }

    /// Adds a condition.
    #[must_use]
    pub fn when(mut self, condition: Condition) -> Self {
        self.conditions.push(condition);
        self
    }

    /// Adds an operation.
    #[must_use]
    pub fn then(mut self, operation: Operation) -> Self {
        self.operations.push(operation);
        self
    }

    /// Adds a put of inline bytes.
    #[must_use]
    pub fn put(self, space: SpaceId, key: impl Into<Bytes>, value: impl Into<Bytes>) -> Self {
        let at = Place::new(space, key);
        self.then(Operation::Put { at, value: Payload::Bytes(value.into()) })
    }

    /// Adds a deletion.
    #[must_use]
    pub fn delete(self, space: SpaceId, key: impl Into<Bytes>) -> Self {
        self.then(Operation::Delete { at: Place::new(space, key) })
    }

    /// Names the request.
    #[must_use]
    pub fn with_request(mut self, request: RequestId) -> Self {
        self.request = Some(request);
        self
    }
}

/// What a batch did.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Commit {
    /// The log number of the commit: the version of every key it changed.
    pub version: Version,
    /// Whether this answers a repeated request with its first outcome.
    pub repeated: bool,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn prefix_ranges_end_after_the_last_key() {
        let check = |prefix: &[u8], end: Option<&[u8]>| {
            assert_eq!(after_prefix(prefix).as_deref(), end);
        };
        check(b"a", Some(b"b"));
        check(b"a\xff", Some(b"b"));
        check(b"\xff\xff", None);
        check(b"", None);
        assert!(KeyRange::prefix(&b"a\xff"[..]).contains(b"a\xff\xff"));
        assert!(!KeyRange::prefix(&b"a"[..]).contains(b"b"));
        assert!(KeyRange::new(&b"b"[..], &b"a"[..]).is_empty());
    }

    #[test]
    fn ranges_of_one_key_hold_only_it() {
        let range = KeyRange::single(&b"a"[..]);
        assert_eq!(range.as_single().map(Bytes::as_ref), Some(&b"a"[..]));
        assert!(range.contains(b"a") && !range.contains(b"a\0") && !range.contains(b""));
        assert_eq!(KeyRange::prefix(&b"a"[..]).as_single(), None);
    }

    #[test]
    fn ranges_overlap_where_a_key_can_lie_in_both() {
        let range = |start: &'static str, end: &'static str| KeyRange::new(start.as_bytes(), end.as_bytes());
        assert!(range("a", "c").overlaps(&range("b", "d")));
        assert!(!range("a", "b").overlaps(&range("b", "c")));
        assert!(KeyRange::all().overlaps(&range("b", "c")));
        assert!(!KeyRange::all().overlaps(&range("c", "b")));
    }
}
