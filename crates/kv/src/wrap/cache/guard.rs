//! Which keys are being changed through this cache, where all changes go through it.
//!
//! Invariants:
//! - From before a change can be visible until its outcome is known nothing that it touches is kept, and nothing that was
//!   read before it ended is kept after.
//! - Where an outcome is not known (the answer was lost), what the change touched is in doubt for good: from then on it
//!   is kept for one version only, as where others write.

use std::hash::{BuildHasher, BuildHasherDefault, DefaultHasher};

use koine_engine::{Batch, Commit, ErrorKind, Operation, Place, Result, Sources, SpaceId, Version};
use parking_lot::Mutex;

use super::At;

/// Keys are told apart by so many marks.
const MARKS: usize = 256;
/// The mark of changes that name no keys one by one.
const WHOLE: usize = MARKS;

#[derive(Default)]
struct Mark {
    /// Changes without an outcome.
    pending: u32,
    /// How many changes began or ended.
    moved: u64,
    /// The newest commit that touched it.
    changed: Version,
    in_doubt: bool,
}

/// The marks of all keys.
pub(super) struct Guard {
    marks: Vec<Mutex<Mark>>,
}

/// How the marks of a key stood.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) struct Standing {
    key: u64,
    whole: u64,
}

/// The marks of a change, and the keys that it names.
pub(super) struct Touched {
    marks: Vec<usize>,
    pub places: Vec<Place>,
    pub is_whole: bool,
}

impl Guard {
    pub fn new() -> Guard {
        Guard { marks: (0..=MARKS).map(|_| Mutex::default()).collect() }
    }

    fn read<T>(&self, index: usize, look: impl Fn(&Mark) -> T) -> Option<T> {
        self.marks.get(index).map(|mark| look(&mark.lock()))
    }

    /// How a key stands before it is read; `None` while it is being changed.
    pub fn standing(&self, space: SpaceId, key: &[u8]) -> Option<Standing> {
        let moved = |mark: &Mark| (mark.pending == 0).then_some(mark.moved);
        let key = self.read(mark_of(space, key), moved)??;
        let whole = self.read(WHOLE, moved)??;
        Some(Standing { key, whole })
    }

    /// Keeps something (`keep`) that was read at a version when that is still the key's newest state, which stands as it did.
    pub fn keep_if(&self, standing: Standing, at: &At<'_>, version: Version, keep: impl FnOnce()) {
        let (Some(mark), Some(whole)) = (self.marks.get(mark_of(at.space, at.key)), self.marks.get(WHOLE)) else {
            return;
        };
        // Under both locks: a change that begins meanwhile removes it afterwards.
        let (mark, whole) = (mark.lock(), whole.lock());
        let is_still = mark.pending == 0 && whole.pending == 0;
        let is_newest = version >= mark.changed && version >= whole.changed;
        if is_still && is_newest && standing == (Standing { key: mark.moved, whole: whole.moved }) {
            keep();
        }
    }

    /// Whether some change that touched a key may have happened or not.
    pub fn is_in_doubt(&self, space: SpaceId, key: &[u8]) -> bool {
        let in_doubt = |index| self.read(index, |mark| mark.in_doubt).unwrap_or(true);
        in_doubt(WHOLE) || in_doubt(mark_of(space, key))
    }

    /// A change is about to be asked for.
    pub fn begin(&self, batch: &Batch) -> Touched {
        let touched = touched(batch);
        for mark in touched.marks.iter().filter_map(|index| self.marks.get(*index)) {
            let mut mark = mark.lock();
            mark.pending += 1;
            mark.moved += 1;
        }
        touched
    }

    /// It has its outcome.
    pub fn end(&self, touched: &Touched, outcome: &Result<Commit>) {
        let is_known = match outcome {
            Ok(_) => true,
            Err(error) => matches!(error.kind(), ErrorKind::Refused | ErrorKind::Invalid),
        };
        for mark in touched.marks.iter().filter_map(|index| self.marks.get(*index)) {
            let mut mark = mark.lock();
            mark.pending -= 1;
            mark.moved += 1;
            mark.in_doubt |= !is_known;
            mark.changed = mark.changed.max(outcome.as_ref().map(|commit| commit.version).unwrap_or_default());
        }
    }
}

fn mark_of(space: SpaceId, key: &[u8]) -> usize {
    let hash = BuildHasherDefault::<DefaultHasher>::default().hash_one((space, key));
    usize::try_from(hash % MARKS as u64).unwrap_or_default()
}

fn touched(batch: &Batch) -> Touched {
    let mut touched = Touched { marks: Vec::new(), places: Vec::new(), is_whole: false };
    for operation in &batch.operations {
        let places = &mut touched.places;
        match operation {
            Operation::Put { at, .. }
            | Operation::WriteAt { at, .. }
            | Operation::Append { at, .. }
            | Operation::Truncate { at, .. }
            | Operation::Delete { at }
            | Operation::AddCounter { at, .. } => places.push(at.clone()),
            Operation::Rename { from, to } => places.extend([from.clone(), to.clone()]),
            Operation::CloneRange { to, .. } => places.push(to.clone()),
            Operation::Concatenate { sources, target, fate } => {
                places.push(target.clone());
                if *fate == Sources::Delete {
                    places.extend_from_slice(sources);
                }
            }
            Operation::DeleteRange { .. }
            | Operation::RenamePrefix { .. }
            | Operation::CreateSpace { .. }
            | Operation::CloneSpace { .. }
            | Operation::SnapshotSpace { .. }
            | Operation::DropSpace { .. } => touched.is_whole = true,
        }
    }
    touched.marks = touched.places.iter().map(|place| mark_of(place.space, &place.key)).collect();
    if touched.is_whole {
        touched.marks.push(WHOLE);
    }
    touched.marks.sort_unstable();
    touched.marks.dedup();
    touched
}
