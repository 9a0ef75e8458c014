//! Every sequence of up to three operations from a small alphabet, cut at every write and every sync.
//!
//! A sequence looks at the cuts of its last operation only: those before are cuts of a shorter sequence. Before each
//! the store lives a little, so that freed blocks wait for a checkpoint, and a branch is there to be dropped.

use std::fmt;

use bytes::Bytes;
use koine_engine::device::{Device, Image};
use koine_engine::{Batch, Durability, Operation, Place, SpaceId};

use crate::model::Content;
use crate::run::{Run, Verdict, stop};
use crate::search::{Effort, Found, Recorder, Search};
use crate::store::{self, Build};
use crate::workload::Shape;

const SPACE: SpaceId = SpaceId::FIRST;
/// Branches of the space.
const BRANCHES: [SpaceId; 3] = [SpaceId(17), SpaceId(18), SpaceId(19)];

/// Images of every cut: none of what is in doubt, and so many parts of it.
pub const EFFORT: Effort = Effort { cuts: 0, parts: 4, again_percent: 5 };
pub const EFFORT_FULL: Effort = Effort { cuts: 0, parts: 5, again_percent: 25 };

/// What the sequences together must have reached.
pub const MUST_BE_REACHED: &[&str] = &[
    "put small",
    "put medium",
    "put large",
    "write at",
    "delete",
    "clone a space",
    "snapshot a space",
    "drop a space",
    "rename a prefix",
    "value staged",
    "stage logged before its commit",
    "stage dropped before its end",
    "commit in memory",
    "commit written",
    "commit synced",
    "checkpoint",
    "growth",
    "block reused",
    "ring wrapped",
    "superblock written",
    "full",
    "commits applied by recoveries",
    "recovery that dropped groups",
    "images",
    "images of recoveries",
    "images of recoveries of recoveries",
];

/// The store that a sequence begins with.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Base {
    /// Has room to grow into.
    Growing,
    /// Can never be longer, and is nearly full, with its free blocks in pieces.
    Crowded,
}

/// One operation.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Letter {
    Small,
    /// Not synced.
    Written,
    /// Waits in the queue, so that the next one shares its group.
    Queued,
    /// Goes through the ring and is packed by a checkpoint.
    Packed,
    Large,
    /// Part of a large value is written anew.
    Patch,
    /// A stage so long (or in so many pieces) that its extents are logged before its commit.
    Stage,
    /// A stage that nobody names.
    LostStage,
    /// Of the longest value.
    Delete,
    Clone,
    Snapshot,
    /// Of the newest branch.
    Drop,
    Rename,
    Checkpoint,
    /// More than there is room for without growing.
    Grow,
}

pub const ALPHABET: [Letter; 15] = [
    Letter::Small,
    Letter::Written,
    Letter::Queued,
    Letter::Packed,
    Letter::Large,
    Letter::Patch,
    Letter::Stage,
    Letter::LostStage,
    Letter::Delete,
    Letter::Clone,
    Letter::Snapshot,
    Letter::Drop,
    Letter::Rename,
    Letter::Checkpoint,
    Letter::Grow,
];

/// A base and the operations done to it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Sequence {
    pub base: Base,
    pub letters: Vec<Letter>,
}

impl fmt::Display for Sequence {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:?}", self.base)?;
        self.letters.iter().try_for_each(|letter| write!(f, ",{letter:?}"))
    }
}

impl Sequence {
    /// Reads what `Display` writes.
    pub fn parse(text: &str) -> Option<Sequence> {
        let mut words = text.split(',');
        let base = words.next()?;
        let base = [Base::Growing, Base::Crowded].into_iter().find(|known| format!("{known:?}") == base)?;
        let letter = |word: &str| ALPHABET.into_iter().find(|known| format!("{known:?}") == word);
        Some(Sequence { base, letters: words.map(letter).collect::<Option<_>>()? })
    }

    /// All sequences of one to `length` operations.
    pub fn all(base: Base, length: usize) -> Vec<Sequence> {
        let mut all: Vec<Sequence> = Vec::new();
        let mut longest = vec![Sequence { base, letters: Vec::new() }];
        for _ in 0..length {
            let longer = longest.iter().flat_map(|shorter| {
                ALPHABET.map(|letter| Sequence { base, letters: [&shorter.letters[..], &[letter]].concat() })
            });
            longest = longer.collect();
            all.extend(longest.iter().cloned());
        }
        all
    }
}

/// The stores that sequences begin with.
pub struct Bases {
    growing: Image,
    crowded: Image,
}

impl Bases {
    pub fn make() -> Verdict<Bases> {
        Ok(Bases { growing: made(Base::Growing)?, crowded: made(Base::Crowded)? })
    }

    fn image(&self, base: Base) -> Image {
        match base {
            Base::Growing => self.growing.clone(),
            Base::Crowded => self.crowded.clone(),
        }
    }
}

/// How long the store may become, in bytes.
fn length_max(base: Base) -> usize {
    if base == Base::Growing { 5 << 20 } else { 1 << 20 }
}

fn made(base: Base) -> Verdict<Image> {
    let fixed = base == Base::Crowded;
    let shape = Shape { length: 1 << 20, length_max: length_max(base) as u64, fixed, ..Shape::from(0) };
    let device = std::sync::Arc::new(store::formatted(&shape, 5)?);
    let engine = store::open(device.clone(), Build::Right).map_err(stop("opening failed"))?;
    let done = |batch: Batch| engine.submit(batch, Durability::Sync).wait().map(drop).map_err(stop("no commit"));
    done(Batch::new().then(Operation::CreateSpace { space: SPACE }))?;
    for (key, length) in [("a/1", 100), ("a/2", 3_000), ("b/1", 50_000), ("b/2", 20_000)] {
        done(Batch::new().put(SPACE, key, data(key, length)))?;
    }
    // The log of the growing store is left shortly before the ring's end, without a checkpoint, which would make it grow.
    let (crumbs, commits) = if base == Base::Crowded { (24, 0) } else { (0, 8) };
    for number in 0..commits {
        done(Batch::new().put(SPACE, "a/1", data(&format!("commit {number}"), 100)))?;
    }
    // Values of a block each; every other one is taken away once they lie where they will.
    for number in 0..crumbs {
        let key = format!("d/{number:02}");
        done(Batch::new().put(SPACE, key.clone(), data(&key, 3_500)))?;
    }
    if base == Base::Crowded {
        engine.checkpoint().map_err(stop("no checkpoint"))?;
    }
    for number in (0..crumbs).step_by(2) {
        done(Batch::new().then(Operation::Delete { at: Place::new(SPACE, format!("d/{number:02}")) }))?;
    }
    engine.close().map_err(stop("closing failed"))?;
    Ok(device.image())
}

/// Bytes that no other value has.
fn data(name: &str, length: usize) -> Bytes {
    let start = crc_fast::checksum(crc_fast::CrcAlgorithm::Crc64Nvme, name.as_bytes());
    let words = (0..length.div_ceil(8) as u64).map(|index| start.wrapping_add(index.wrapping_mul(0x1_0000_0001_0003)));
    let mut data: Vec<u8> = words.flat_map(u64::to_le_bytes).collect();
    data.truncate(length);
    data.into()
}

/// Goes through a sequence and looks at the images of its last operation.
pub fn search(bases: &Bases, sequence: &Sequence, effort: Effort) -> Found {
    let name = sequence.to_string();
    let seed = crc_fast::checksum(crc_fast::CrcAlgorithm::Crc64Nvme, name.as_bytes());
    let mut search = Search::new(seed, Build::Right, effort);
    search.length_max = (sequence.base == Base::Growing).then_some(length_max(sequence.base) as u64);
    let image = bases.image(sequence.base);
    let crowded = sequence.base == Base::Crowded;
    search.run(format!("KOINE_CRASH_SEQUENCE={name}"), |search| {
        let mut run = search.begin(image)?;
        let outcome = prologue(&mut run, crowded).and_then(|()| through(&mut run, &sequence.letters));
        search.found.coverage.merge(&run.coverage);
        let begun = outcome?;
        let recording = search.end(&run)?;
        let mut cuts = recording.changes();
        cuts.extend(recording.syncs());
        cuts.push(recording.len());
        cuts.retain(|cut| *cut >= begun);
        search.cuts(&run, &recording, cuts)
    })
}

/// A branch; and in a crowded store blocks that were freed and wait for the next checkpoint. In the other one a
/// checkpoint would be the first to make it grow.
fn prologue(run: &mut Run<Recorder>, crowded: bool) -> Verdict {
    run.submit(Batch::new().then(Operation::CloneSpace { from: SPACE, to: BRANCHES[0] }), Durability::Sync)?;
    run.submit(Batch::new().put(SPACE, "b/2", data("prologue", 21_000)), Durability::Sync)?;
    run.settle()?;
    if crowded { run.engine.checkpoint().map_err(stop("no checkpoint")) } else { Ok(()) }
}

/// Does one operation after the other; where in the recording the last begins.
fn through(run: &mut Run<Recorder>, letters: &[Letter]) -> Verdict<usize> {
    let mut begun = 0;
    for (number, letter) in letters.iter().enumerate() {
        begun = run.device.position();
        step(run, *letter, number)?;
    }
    run.settle()?;
    Ok(begun)
}

fn step(run: &mut Run<Recorder>, letter: Letter, number: usize) -> Verdict {
    let name = format!("{letter:?} {number}");
    let put = |key: &str, length: usize| Batch::new().put(SPACE, key.to_owned(), data(&name, length));
    let (batch, durability) = match letter {
        Letter::Small => (put("a/3", 200), Durability::Sync),
        Letter::Written => (put("a/1", 300), Durability::Written),
        Letter::Queued => return run.submit(put("a/4", 400), Durability::Memory),
        Letter::Packed => (put("a/2", 2_500), Durability::Sync),
        Letter::Large => (put("b/3", 40_000), Durability::Sync),
        Letter::Patch => {
            let patch =
                Operation::WriteAt { at: Place::new(SPACE, "b/1"), offset: 9_000, data: data(&name, 5_000).into() };
            (Batch::new().then(patch), Durability::Sync)
        }
        // An even length: small chunks, so that the list of their checksums is long.
        Letter::Stage => (put("c/1", stage_length(run)), Durability::Sync),
        Letter::LostStage => {
            return run.act(crate::workload::Action::LoseStage { data: data(&name, 30_000), finish: false });
        }
        Letter::Delete => match longest(run.content()) {
            Some(key) => (Batch::new().then(Operation::Delete { at: Place::new(SPACE, key) }), Durability::Sync),
            None => return Ok(()),
        },
        Letter::Clone | Letter::Snapshot => {
            let Some(to) = BRANCHES.into_iter().find(|space| !run.content().0.contains_key(space)) else {
                return Ok(());
            };
            let clone = Operation::CloneSpace { from: SPACE, to };
            let snapshot = Operation::SnapshotSpace { from: SPACE, to };
            (Batch::new().then(if letter == Letter::Clone { clone } else { snapshot }), Durability::Sync)
        }
        Letter::Drop => {
            let Some(space) = BRANCHES.into_iter().rfind(|space| run.content().0.contains_key(space)) else {
                return Ok(());
            };
            (Batch::new().then(Operation::DropSpace { space }), Durability::Sync)
        }
        Letter::Rename => {
            let (from, to) = (Bytes::from_static(b"a/"), Bytes::from(format!("e{number}/")));
            (Batch::new().then(Operation::RenamePrefix { space: SPACE, from, to }), Durability::Sync)
        }
        Letter::Checkpoint => {
            run.settle()?;
            return run.engine.checkpoint().map_err(stop("no checkpoint"));
        }
        Letter::Grow => (put("g", 700_000), Durability::Sync),
    };
    run.submit(batch, durability)?;
    run.settle()
}

/// So long that the list of extents is logged before the commit, wherever there is room for it.
fn stage_length(run: &Run<Recorder>) -> usize {
    if run.device.is_fixed() { 60_002 } else { (1 << 20) + 6_002 }
}

fn longest(content: &Content) -> Option<Bytes> {
    let keys = content.0.get(&SPACE)?;
    keys.iter().max_by_key(|(_, value)| value.data.len()).map(|(key, _)| key.clone())
}
