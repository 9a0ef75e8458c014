//! What hints give: the same work with a hint and without it, or with its opposite, in turn.
//!
//! Every case has a store of its own in a file; who goes first changes from round to round.

use super::EngineArguments;
use crate::Error;
use crate::budget::Budget;
use crate::figures::Figures;
use crate::report::OURS;
use crate::report::Report;
use crate::say;
use crate::statistics::Better;
use crate::stores::data::{Numbers, mix};
use crate::stores::kinds::{forget_cached, io_mode};
use koine_engine::device::{Device, FileDevice, OpenOptions};
use koine_engine::objects::{CreateOptions, Hint, Lifetime, Object, Store, StoreOptions};
use koine_engine::{Durability, Engine, FormatOptions, Options};
use koine_env::OsRandom;
use std::path::{Path, PathBuf};
use std::time::Instant;

const WITHOUT: &str = "without";
const SECTION: &str = "Hints: with one, against without it (random: against the opposite one)";
const MB: f64 = 1e6;
const PIECE_LEN: usize = 1 << 20;
/// How much a read in order asks for, and how long the objects are that are read so.
const STEP_LEN: usize = 16 << 10;
const WHOLE_LEN: u64 = 4 << 20;
/// How much a read at random asks for, and how many there are.
const SMALL_LEN: usize = 4 << 10;
const SMALL_READS: u64 = 4000;
/// What will be needed, and how many reads of it follow.
const NEEDED_LEN: u64 = 8 << 20;
/// Objects that go and objects that stay, of this length.
const CHURN_LEN: usize = 64 << 10;

/// How large the objects are.
#[derive(Clone, Copy)]
struct HintScale {
    object_len: u64,
    pairs: usize,
    reads: u64,
}

type Case = fn(&Path, HintScale, bool) -> Result<Vec<f64>, String>;
/// What is measured, in which unit, and which way is good.
type Measured = (&'static str, &'static str, Better);

/// A case gives a figure for each of what it measures.
const CASES: [(Case, &[Measured]); 4] = [
    (in_order, &[("sequential: objects of 4 MiB in order, cold", "MB/s", Better::Higher)]),
    (at_random, &[("random: blocks of 4 KiB anywhere, cold", "reads/s", Better::Higher)]),
    (will_need, &[("will need: 8 MiB read by blocks anywhere, cold", "MB/s", Better::Higher)]),
    (
        lifetimes,
        &[
            ("lifetime: free runs once what goes soon is gone", "runs", Better::Lower),
            ("lifetime: large value in the room it left, read cold", "MB/s", Better::Higher),
        ],
    ),
];

/// Measures and adds the rows.
pub fn measure(arguments: &EngineArguments, budget: &mut Budget, report: &mut Report) -> Result<(), Error> {
    let scale = match arguments.quick {
        true => HintScale { object_len: 16 << 20, pairs: 50, reads: SMALL_READS / 20 },
        false => HintScale { object_len: 256 << 20, pairs: 1000, reads: SMALL_READS },
    };
    for (case, rows) in CASES {
        if budget.is_over() || !rows.iter().any(|(name, ..)| arguments.names(name)) {
            continue;
        }
        let mut found = vec![Figures::default(); rows.len()];
        for round in 0..arguments.rounds() {
            for turn in 0..2 {
                let with_hint = (turn + round) % 2 == 0;
                let folder = tempfile::Builder::new()
                    .prefix("koine-bench-")
                    .tempdir_in(&arguments.dir)
                    .map_err(Error::io("cannot make a folder"))?;
                let figures = case(&folder.path().join("store.koine"), scale, with_hint).map_err(Error::Worker)?;
                let name = if with_hint { OURS } else { WITHOUT };
                found.iter_mut().zip(figures).for_each(|(found, figure)| found.push(name, Some(figure)));
            }
            for ((name, unit, _), found) in rows.iter().zip(&found) {
                let last = |who| found.of(who).last().copied().flatten().unwrap_or(f64::NAN);
                say(&format!("round {}: {name}: {:.0} {unit}, without {:.0}", round + 1, last(OURS), last(WITHOUT)));
            }
        }
        for ((name, unit, better), found) in rows.iter().zip(found) {
            if arguments.names(name) {
                let row = found.row(name, unit, *better, 1.0, &[WITHOUT.to_owned()]);
                report.rows.push(row.in_section(SECTION));
            }
        }
    }
    Ok(())
}

/// A store in a file.
struct Subject {
    path: PathBuf,
    store: Store,
}

impl Subject {
    /// A new one; 0: it grows as it needs.
    fn make(path: &Path, length: u64) -> Result<Subject, String> {
        let device = FileDevice::open(path, OpenOptions { create: true, read_only: false }).map_err(text)?;
        device.grow(if length == 0 { 64 << 20 } else { length }).map_err(text)?;
        let format = FormatOptions { ring_len: 16 << 20, size_max: length, ..FormatOptions::default() };
        Engine::format(&device, format, &OsRandom).map_err(text)?;
        device.close().map_err(text)?;
        Ok(Subject { path: path.to_owned(), store: open(path)? })
    }

    /// The same with nothing of it in memory.
    fn cold(self) -> Result<Subject, String> {
        self.store.close().map_err(text)?;
        forget_cached(&self.path);
        Ok(Subject { store: open(&self.path)?, path: self.path })
    }

    fn create(&self, hint: Hint) -> Result<Object, String> {
        self.store.create_with(CreateOptions { hint, ..CreateOptions::default() }).map_err(text)
    }

    fn filled(&self, hint: Hint, length: u64) -> Result<u64, String> {
        let object = self.create(hint)?;
        let piece: Vec<u8> = (0..PIECE_LEN as u64 / 8).flat_map(|number| mix(number).to_le_bytes()).collect();
        for offset in (0..length).step_by(PIECE_LEN) {
            let part = (length - offset).min(PIECE_LEN as u64) as usize;
            object.write(offset, piece.get(..part).unwrap_or(&piece), Durability::Written).map_err(text)?;
        }
        object.sync().map_err(text)?;
        Ok(object.number())
    }
}

fn open(path: &Path) -> Result<Store, String> {
    let device = FileDevice::open_with(path, OpenOptions::default(), io_mode()).map_err(text)?;
    let engine = Engine::open(std::sync::Arc::new(device), Options::default()).map_err(text)?;
    Store::own(engine, StoreOptions { name: path.display().to_string(), object_limit: None }).map_err(text)
}

fn text(error: impl std::fmt::Display) -> String {
    error.to_string()
}

/// Reads all of `buffer`, or says where it could not.
fn read(object: &Object, offset: u64, buffer: &mut [u8]) -> Result<(), String> {
    match object.read(offset, buffer).map_err(text)? {
        count if count == buffer.len() => Ok(()),
        count => Err(format!("{count} of {} bytes at {offset} of an object", buffer.len())),
    }
}

fn in_order(path: &Path, scale: HintScale, with_hint: bool) -> Result<Vec<f64>, String> {
    let subject = Subject::make(path, 0)?;
    let count = scale.object_len / WHOLE_LEN;
    let objects: Result<Vec<u64>, String> = (0..count).map(|_| subject.filled(Hint::sequential(), WHOLE_LEN)).collect();
    let subject = subject.cold()?;
    let hint = if with_hint { Hint::sequential() } else { Hint::default() };
    let mut buffer = vec![0; STEP_LEN];
    let begun = Instant::now();
    for number in objects? {
        let object = subject.store.open_with(number, hint).map_err(text)?;
        for offset in (0..WHOLE_LEN).step_by(STEP_LEN) {
            read(&object, offset, &mut buffer)?;
        }
    }
    Ok(vec![(count * WHOLE_LEN) as f64 / MB / seconds(begun)])
}

fn at_random(path: &Path, scale: HintScale, with_hint: bool) -> Result<Vec<f64>, String> {
    let subject = Subject::make(path, 0)?;
    let hint = if with_hint { Hint::random() } else { Hint::sequential() };
    let number = subject.filled(hint, scale.object_len)?;
    let subject = subject.cold()?;
    let object = subject.store.open_with(number, hint).map_err(text)?;
    let (mut numbers, mut buffer) = (Numbers::new(8), vec![0; SMALL_LEN]);
    let begun = Instant::now();
    for _ in 0..scale.reads {
        read(&object, numbers.below(scale.object_len / SMALL_LEN as u64) * SMALL_LEN as u64, &mut buffer)?;
    }
    Ok(vec![scale.reads as f64 / seconds(begun)])
}

fn will_need(path: &Path, scale: HintScale, with_hint: bool) -> Result<Vec<f64>, String> {
    let subject = Subject::make(path, 0)?;
    let number = subject.filled(Hint::random(), scale.object_len)?;
    let subject = subject.cold()?;
    let object = subject.store.open_with(number, Hint::random()).map_err(text)?;
    let (mut numbers, mut buffer) = (Numbers::new(9), vec![0; SMALL_LEN]);
    let begun = Instant::now();
    if with_hint {
        object.will_need(0, NEEDED_LEN).map_err(text)?;
    }
    let blocks = NEEDED_LEN / SMALL_LEN as u64;
    for _ in 0..blocks {
        read(&object, numbers.below(blocks) * SMALL_LEN as u64, &mut buffer)?;
    }
    Ok(vec![NEEDED_LEN as f64 / MB / seconds(begun)])
}

/// Objects that go and objects that stay are written in turn; then a large one takes most of the room that is left.
fn lifetimes(path: &Path, scale: HintScale, with_hint: bool) -> Result<Vec<f64>, String> {
    let half = (scale.pairs * CHURN_LEN) as u64;
    let subject = Subject::make(path, (half * 2 + half / 2 + (48 << 20)).next_multiple_of(1 << 20))?;
    let hint = |lifetime| Hint { lifetime: if with_hint { lifetime } else { Lifetime::Unknown }, ..Hint::default() };
    let bytes: Vec<u8> = (0..CHURN_LEN as u64 / 8).flat_map(|number| mix(number).to_le_bytes()).collect();
    let mut gone = Vec::with_capacity(scale.pairs);
    for _ in 0..scale.pairs {
        for lifetime in [Lifetime::Short, Lifetime::Long] {
            let object = subject.create(hint(lifetime))?;
            object.write(0, &bytes, Durability::Written).map_err(text)?;
            if lifetime == Lifetime::Short {
                gone.push(object.number());
            }
        }
    }
    subject.store.delete_many(&gone, Durability::Sync).map_err(text)?;
    // What a checkpoint frees waits for the next one.
    for _ in 0..2 {
        subject.store.engine().checkpoint().map_err(text)?;
    }
    let report = subject.store.engine().space_report().map_err(text)?;
    let runs: u64 = report.free_runs.iter().map(|class| class.runs).sum();
    let length = (report.usage.free / 10 * 8).next_multiple_of(PIECE_LEN as u64);
    let number = subject.filled(Hint::sequential(), length)?;
    let subject = subject.cold()?;
    let object = subject.store.open_with(number, Hint::sequential()).map_err(text)?;
    let mut buffer = vec![0; PIECE_LEN];
    let begun = Instant::now();
    for offset in (0..length).step_by(PIECE_LEN) {
        read(&object, offset, &mut buffer)?;
    }
    Ok(vec![runs as f64, length as f64 / MB / seconds(begun)])
}

fn seconds(begun: Instant) -> f64 {
    begun.elapsed().as_secs_f64().max(1e-9)
}
