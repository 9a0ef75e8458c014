//! A store under test with one space made, and the short forms in which cases are written.
//!
//! Invariant: [`Fixture::refused`] and its kin also check that nothing at all was changed.

use std::collections::BTreeMap;
use std::sync::Arc;

use bytes::Bytes;
use koine_engine::{
    Batch, Commit, Durability, ErrorKind, KeyRange, Operation, Payload, Place, Refusal, SpaceId, StageHint, StageToken,
    Version,
};
use koine_env::{Random, SeededRandom};

use super::{Opened, Suite};
use crate::seam::{Cursor, Direction, Entry, Kv, View};

/// The space that every fixture makes.
pub(super) const A: SpaceId = SpaceId::FIRST;
/// Other spaces, absent at first.
pub(super) const B: SpaceId = SpaceId(17);
pub(super) const C: SpaceId = SpaceId(u64::MAX);
/// All that cases use.
pub(super) const SPACES: [SpaceId; 3] = [A, B, C];
/// How much of a value is compared.
const COMPARED_LEN_MAX: u64 = 24 << 20;

/// Everything that a view shows.
pub(super) type Dump = BTreeMap<(SpaceId, Bytes), (Version, u64, Bytes)>;

pub(super) struct Fixture {
    pub(super) opened: Opened,
}

impl Drop for Fixture {
    fn drop(&mut self) {
        // Best effort: a case that failed must not hide its reason behind another.
        let _ = self.opened.kv.close();
    }
}

impl Fixture {
    pub(super) fn new(suite: &Suite) -> Self {
        let fixture = Fixture { opened: (suite.open)() };
        fixture.done(Operation::CreateSpace { space: A });
        fixture
    }

    pub(super) fn kv(&self) -> &dyn Kv {
        self.opened.kv.as_ref()
    }

    pub(super) fn share(&self) -> Arc<dyn Kv> {
        Arc::clone(&self.opened.kv)
    }

    /// Closes and opens the store again; `false` where that is not possible.
    pub(super) fn reopen(&mut self) -> bool {
        let Some(reopen) = self.opened.reopen.clone() else {
            return false;
        };
        self.kv().close().expect("close");
        self.opened.kv = reopen();
        true
    }

    pub(super) fn commit(&self, batch: Batch) -> Commit {
        self.commit_at(batch, Durability::Memory)
    }

    /// Commits; what is too large for one batch of the back end is staged.
    pub(super) fn commit_at(&self, batch: Batch, durability: Durability) -> Commit {
        self.kv().commit(fit(self.kv(), batch), durability).expect("the batch should be applied")
    }

    /// Commits one operation.
    pub(super) fn done(&self, operation: Operation) -> Version {
        self.commit(Batch::new().then(operation)).version
    }

    pub(super) fn put(&self, key: &str, value: impl Into<Bytes>) -> Version {
        self.commit(Batch::new().put(A, key.to_owned(), value)).version
    }

    /// The batch must fail so and change nothing.
    pub(super) fn fails(&self, batch: Batch, kind: ErrorKind) -> koine_engine::Error {
        let before = self.dump();
        let error = self.kv().commit(batch.clone(), Durability::Memory).expect_err("the batch should fail");
        assert_eq!(error.kind(), kind, "{error:?} of {batch:?}");
        assert!(!error.message().is_empty(), "an error must say what is wrong");
        assert!(before == self.dump(), "a batch that failed changed something: {batch:?}");
        error
    }

    pub(super) fn invalid(&self, batch: Batch) {
        let error = self.fails(batch, ErrorKind::Invalid);
        assert_eq!(error.refusal(), None);
    }

    pub(super) fn refused(&self, batch: Batch, refusal: Refusal) {
        let error = self.fails(batch, ErrorKind::Refused);
        assert_eq!(error.refusal(), Some(refusal), "{error:?}");
    }

    /// One operation must be refused.
    pub(super) fn not_done(&self, operation: Operation) {
        self.refused(Batch::new().then(operation), Refusal::Operation(0));
    }

    pub(super) fn view(&self) -> Arc<dyn View> {
        self.kv().view().expect("a view")
    }

    /// The value of a key in the first space.
    pub(super) fn get(&self, key: &str) -> Option<Bytes> {
        value(&*self.view(), &at(key))
    }

    /// The value must be this one, by every way of reading.
    pub(super) fn check(&self, place: &Place, expected: &[u8]) {
        check_value(&*self.view(), place, expected);
    }

    pub(super) fn version_of(&self, key: &str) -> Version {
        self.view().stat(A, key.as_bytes()).expect("stat").expect("the key should be there").version
    }

    pub(super) fn dump(&self) -> Dump {
        dump(&*self.view())
    }

    /// The keys of a space, in order.
    pub(super) fn keys(&self, space: SpaceId) -> Vec<String> {
        let cursor = self.view().cursor(space, KeyRange::all(), Direction::Forward).expect("a cursor");
        entries(cursor).into_iter().map(|entry| String::from_utf8_lossy(&entry.key).into_owned()).collect()
    }

    /// Stages these bytes in pieces of `piece` bytes.
    pub(super) fn stage(&self, bytes: &[u8], piece: usize) -> StageToken {
        stage(self.kv(), bytes, piece)
    }
}

/// Stages the large payloads of a batch that has more inline bytes than the back end takes.
pub(super) fn fit(kv: &dyn Kv, mut batch: Batch) -> Batch {
    const SMALL: usize = 4096;
    let inline_len = |operation: &Operation| match operation {
        Operation::Put { value: Payload::Bytes(bytes), .. }
        | Operation::WriteAt { data: Payload::Bytes(bytes), .. }
        | Operation::Append { data: Payload::Bytes(bytes), .. } => bytes.len(),
        _ => 0,
    };
    // What keys take beside the payloads is little.
    let most = kv.profile().batch_bytes_max / 8 * 7;
    if batch.operations.iter().map(inline_len).sum::<usize>() <= most {
        return batch;
    }
    for operation in &mut batch.operations {
        if let Operation::Put { value: payload, .. }
        | Operation::WriteAt { data: payload, .. }
        | Operation::Append { data: payload, .. } = operation
            && let Payload::Bytes(bytes) = payload
            && bytes.len() > SMALL
        {
            *payload = Payload::Stage(stage(kv, bytes, 1 << 20));
        }
    }
    batch
}

pub(super) fn stage(kv: &dyn Kv, bytes: &[u8], piece: usize) -> StageToken {
    let mut stage = kv.stage(StageHint::default()).expect("a stage");
    for part in bytes.chunks(piece) {
        stage.write(part).expect("a piece");
    }
    assert_eq!(stage.length(), bytes.len() as u64);
    let token = stage.finish().expect("a token");
    assert_eq!(token.length(), bytes.len() as u64);
    token
}

/// The value of a key in the first version that has it, whole.
pub(super) fn value(view: &dyn View, place: &Place) -> Option<Bytes> {
    let stat = view.stat(place.space, &place.key).expect("stat")?;
    let length = usize::try_from(stat.size.min(COMPARED_LEN_MAX)).expect("a length");
    let bytes = view.bytes(place.space, &place.key, 0, length).expect("bytes");
    assert_eq!(bytes.len(), length, "bytes must be whole up to the value's end");
    Some(bytes)
}

/// Reads a value by every way there is.
pub(super) fn check_value(view: &dyn View, place: &Place, expected: &[u8]) {
    let stat = view.stat(place.space, &place.key).expect("stat");
    let size = stat.map(|stat| stat.size);
    assert_eq!(size, Some(expected.len() as u64), "the size of {place:?}");
    let bytes = value(view, place).expect("the key is there");
    same(&bytes, expected, place);
    // In pieces of an odd size, and past the end.
    let step = (expected.len() / 7).max(1) | 1;
    let mut offset = 0;
    let mut buffer = vec![0xA5; step];
    loop {
        let count = view.read(place.space, &place.key, offset as u64, &mut buffer).expect("read");
        let rest = expected.get(offset..).unwrap_or_default();
        assert_eq!(count, rest.len().min(step), "the count at {offset} of {place:?}");
        same(&buffer[..count], &rest[..count], place);
        let again = view.bytes(place.space, &place.key, offset as u64, step).expect("bytes");
        same(&again, &rest[..count], place);
        offset += count;
        if count == 0 {
            break;
        }
    }
}

/// Compares without printing megabytes.
pub(super) fn same(found: &[u8], expected: &[u8], place: &Place) {
    if found != expected {
        let at = found.iter().zip(expected).position(|(a, b)| a != b);
        let (found, expected) = (found.len(), expected.len());
        panic!("{place:?}: {found} bytes differ from the {expected} expected, first at {at:?}");
    }
}

pub(super) fn dump(view: &dyn View) -> Dump {
    let mut dump = Dump::new();
    for space in SPACES {
        for entry in entries(view.cursor(space, KeyRange::all(), Direction::Forward).expect("a cursor")) {
            let stat = view.stat(space, &entry.key).expect("stat");
            assert_eq!(stat, Some(entry.stat), "a cursor and stat must agree");
            let bytes = value(view, &Place::new(space, entry.key.clone())).expect("the key is there");
            assert!(entry.value.is_none_or(|value| value == bytes), "a cursor and bytes must agree");
            dump.insert((space, entry.key), (entry.stat.version, entry.stat.size, bytes));
        }
    }
    dump
}

/// All that is left of a cursor.
pub(super) fn entries(mut cursor: Box<dyn Cursor>) -> Vec<Entry> {
    let mut entries = Vec::new();
    while let Some(entry) = cursor.next().expect("the next entry") {
        entries.push(entry);
    }
    assert_eq!(cursor.next().expect("after the last entry"), None);
    entries
}

/// A key in the first space.
pub(super) fn at(key: &str) -> Place {
    Place::new(A, key.to_owned())
}

/// Bytes that are the same for the same seed and unlike others.
pub(super) fn pattern(seed: u64, length: usize) -> Bytes {
    let mut bytes = vec![0; length];
    SeededRandom::new(seed.wrapping_mul(0x5851_F42D_4C95_7F2D) + 1).fill(&mut bytes);
    Bytes::from(bytes)
}

pub(super) fn inline(bytes: impl Into<Bytes>) -> Payload {
    Payload::Bytes(bytes.into())
}

pub(super) fn put(place: Place, value: impl Into<Bytes>) -> Operation {
    Operation::Put { at: place, value: inline(value) }
}

pub(super) fn write_at(place: Place, offset: u64, data: impl Into<Bytes>) -> Operation {
    Operation::WriteAt { at: place, offset, data: inline(data) }
}

pub(super) fn append(place: Place, data: impl Into<Bytes>) -> Operation {
    Operation::Append { at: place, data: inline(data) }
}

pub(super) fn truncate(place: Place, length: u64) -> Operation {
    Operation::Truncate { at: place, length }
}

pub(super) fn delete(place: Place) -> Operation {
    Operation::Delete { at: place }
}

pub(super) fn rename(from: Place, to: Place) -> Operation {
    Operation::Rename { from, to }
}

pub(super) fn add(place: Place, delta: i64) -> Operation {
    Operation::AddCounter { at: place, delta }
}

pub(super) fn clone_range(from: Place, from_offset: u64, length: u64, to: Place, to_offset: u64) -> Operation {
    Operation::CloneRange { from, from_offset, length, to, to_offset }
}
