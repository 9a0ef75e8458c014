//! The search: for a workload, the images that power cuts could have left, and what must hold in each.
//!
//! In every image, after it was opened: the content is that after some commit, not before the last one that
//! was acknowledged as synced; `check` finds nothing; requests that survived get their first outcome again;
//! a new commit gets a version that nobody has seen. Then the same for cuts in the recovery itself, twice.

use std::collections::{HashMap, HashSet};
use std::fmt;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;

use koine_engine::device::{Image, MemoryDevice, Recording, RecordingDevice};
use koine_engine::{Batch, Durability, ErrorKind, Operation};

use crate::coverage::Coverage;
use crate::dice::Dice;
use crate::model::Content;
use crate::run::{Answered, Run, State, Stop, Verdict, expect_repeated, stop};
use crate::store::{self, Build};
use crate::workload::Generator;

/// Crashes inside the recovery from crashes inside the recovery.
const LEVELS: usize = 3;

/// How much to look at.
#[derive(Clone, Copy, Debug)]
pub struct Effort {
    /// Cuts of one workload.
    pub cuts: usize,
    /// Images of one cut beside the one without anything in doubt.
    pub parts: u64,
    /// Of a hundred images, how many are crashed again inside their recovery.
    pub again_percent: usize,
}

/// What one workload gave.
#[derive(Default)]
pub struct Found {
    pub images: HashSet<u64>,
    pub coverage: Coverage,
    pub failure: Option<Failure>,
}

/// What does not hold, and how to see it again.
#[derive(Debug)]
pub struct Failure {
    /// The environment variable that brings it back.
    pub again: String,
    /// Where in the search: the cut and the part, level by level.
    pub place: String,
    pub message: String,
}

impl fmt::Display for Failure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Failure { again, place, message } = self;
        write!(f, "{place}: {message}\nsee it again with {again} cargo test -p koine-engine --test crash_search")
    }
}

/// Runs the workload of a seed and looks at its images.
pub fn search(seed: u64, build: Build, effort: Effort) -> Found {
    Search::new(!seed, build, effort).run(format!("KOINE_CRASH_SEED={seed}"), |search| search.workload(seed))
}

fn panic_message(panic: &(dyn std::any::Any + Send)) -> &str {
    let text = panic.downcast_ref::<String>().map(String::as_str);
    text.or_else(|| panic.downcast_ref::<&str>().copied()).unwrap_or("without a message")
}

/// A search under way.
pub struct Search {
    dice: Dice,
    build: Build,
    effort: Effort,
    place: Vec<String>,
    /// How long a store may grow, in bytes; `None`: not at all.
    pub length_max: Option<u64>,
    pub found: Found,
    /// The version of the state that an image held, of images that cuts of the workload left.
    seen: HashMap<u64, u64>,
}

/// A store in memory whose writes are recorded.
pub type Recorder = RecordingDevice<MemoryDevice>;

/// What an image may hold.
struct Allowed<'a> {
    states: Vec<&'a State>,
    /// The highest version that somebody may have seen before the cut.
    seen: u64,
}

impl Search {
    pub fn new(seed: u64, build: Build, effort: Effort) -> Search {
        let (dice, found) = (Dice::new(seed), Found::default());
        Search { dice, build, effort, place: Vec::new(), length_max: None, found, seen: HashMap::new() }
    }

    /// Does a part of the search; `again` says how to see it again when something does not hold.
    pub fn run(mut self, again: String, part: impl FnOnce(&mut Search) -> Verdict) -> Found {
        let outcome = catch_unwind(AssertUnwindSafe(|| part(&mut self)));
        let message = match outcome {
            Ok(Ok(())) => return self.found,
            Ok(Err(stop)) => stop.to_string(),
            Err(panic) => format!("panic: {}", panic_message(panic.as_ref())),
        };
        let place = if self.place.is_empty() { "before any cut".to_owned() } else { self.place.join(", then ") };
        self.found.failure = Some(Failure { again, place, message });
        self.found
    }

    fn workload(&mut self, seed: u64) -> Verdict {
        let mut generator = Generator::new(seed);
        self.length_max = (!generator.shape.fixed).then_some(generator.shape.length_max);
        let device = store::formatted(&generator.shape, seed)?;
        let mut run = self.begin(device.image())?;
        let outcome = run.live(&mut generator);
        self.found.coverage.merge(&run.coverage);
        outcome?;
        let recording = self.end(&run)?;
        let mut cuts: Vec<usize> = Vec::new();
        let syncs = recording.syncs();
        for _ in 0..self.effort.cuts / 2 {
            // Right before a sync returns everything since the last is in doubt; right after it nothing is.
            let sync = self.dice.pick(&syncs).copied().unwrap_or_default();
            cuts.push(sync.saturating_sub(usize::from(self.dice.percent(70))));
            cuts.push(self.dice.below(recording.len() + 1));
        }
        self.cuts(&run, &recording, cuts)
    }

    /// Opens a store whose writes are recorded from here on.
    pub fn begin(&self, image: Image) -> Verdict<Run<Recorder>> {
        let device = Arc::new(self.recorder(image));
        let engine = store::open(device.clone(), self.build).map_err(stop("opening failed"))?;
        let mut run = Run::new(device, engine)?;
        // Readers notice early reuse at once; here it is to be found in what a crash leaves.
        run.holds_views = self.build == Build::Right;
        Ok(run)
    }

    /// The store is sound; what happened is counted.
    pub fn end(&mut self, run: &Run<Recorder>) -> Verdict<Recording> {
        store::must_be_sound(&run.engine)?;
        let recording = run.device.recording();
        let ring_start = store::ring_start(run.device.inner())?;
        store::count_events(&run.engine, &recording, ring_start, &mut self.found.coverage);
        Ok(recording)
    }

    fn recorder(&self, image: Image) -> Recorder {
        let memory = match self.length_max {
            Some(length_max) => MemoryDevice::from_image(image.clone(), length_max),
            None => MemoryDevice::fixed_from(image.clone()),
        };
        RecordingDevice::holding(memory, image)
    }

    /// Looks at images of these cuts of a recording.
    pub fn cuts(&mut self, run: &Run<Recorder>, recording: &Recording, mut cuts: Vec<usize>) -> Verdict {
        cuts.sort_unstable();
        cuts.dedup();
        let mut walker = recording.images(self.dice.number());
        for cut in cuts {
            walker.advance(cut);
            let allowed = allowed_at(run, cut);
            for part in 0..=self.effort.parts {
                let image = if part == 0 { walker.durable() } else { walker.partial(part) };
                let in_doubt = walker.in_doubt();
                self.place = vec![format!("cut {cut} of {} with {in_doubt} in doubt, part {part}", recording.len())];
                if part > 0 && in_doubt == 0 {
                    break;
                }
                self.image(image, &allowed, 1)?;
            }
        }
        Ok(())
    }

    /// Opens an image, unless it is known to hold what is allowed, and looks.
    fn image(&mut self, image: Image, allowed: &Allowed<'_>, level: usize) -> Verdict {
        let fingerprint = image.fingerprint();
        self.found.images.insert(fingerprint);
        let before = self.seen.get(&fingerprint).filter(|_| level == 1);
        if before.is_some_and(|version| allowed.states.iter().any(|state| state.version == *version)) {
            return Ok(());
        }
        self.found.coverage.count(["", "images", "images of recoveries", "images of recoveries of recoveries"][level]);
        let device = Arc::new(self.recorder(image));
        let engine = store::open(device.clone(), self.build).map_err(stop("opening failed"))?;
        let opened = device.position();
        let content = store::read_all(&engine).map_err(stop("cannot read all"))?;
        let state = which(allowed, &content)?;
        if level == 1 {
            self.seen.insert(fingerprint, state.version);
        }
        let recovered = engine.info().recovered;
        self.found.coverage.add("commits applied by recoveries", recovered.commits);
        if recovered.groups_dropped > 0 {
            self.found.coverage.count("recovery that dropped groups");
        }
        store::must_be_sound(&engine)?;
        if let Some(batch) = &state.repeatable
            && level == 1
        {
            self.found.coverage.count("request repeated after a crash");
            expect_repeated(&engine, batch, state.version)?;
        }
        let Some(after) = self.write_more(&engine, state, allowed)? else { return Ok(()) };
        let acknowledged = device.position();
        for _ in 0..self.dice.between(0, 4) {
            engine.step().map_err(stop("a step after recovery failed"))?;
        }
        drop(engine);
        if level < LEVELS && self.dice.percent(self.effort.again_percent) {
            let recording = device.recording();
            let first = self.dice.below(recording.len() + 1);
            let second = self.dice.between(first, recording.len());
            let place = self.place.len();
            let mut walker = recording.images(self.dice.number());
            for cut in [first, second] {
                walker.advance(cut);
                let again = Allowed {
                    states: match cut {
                        cut if cut >= acknowledged => vec![&after],
                        cut if cut >= opened => vec![state, &after],
                        _ => allowed.states.clone(),
                    },
                    seen: if cut >= acknowledged { after.version } else { allowed.seen },
                };
                let part = self.dice.number();
                self.place
                    .push(format!("cut {cut} of {} in recovery (open at {opened}), part {part}", recording.len()));
                self.image(walker.partial(part), &again, level + 1)?;
                self.place.truncate(place);
            }
        }
        Ok(())
    }

    /// One more synced commit after a recovery; `None` when the store is full.
    fn write_more(&mut self, engine: &store::Engine, state: &State, allowed: &Allowed<'_>) -> Verdict<Option<State>> {
        let space = koine_engine::SpaceId(store::AFTER.start + self.dice.below(8) as u64);
        let value = vec![self.dice.number() as u8; self.dice.between(1, 3_000)];
        let batch = Batch::new().then(Operation::CreateSpace { space }).put(space, &b"after"[..], value);
        let batch = if state.content.0.contains_key(&space) { Batch::new() } else { batch };
        let commit = match engine.submit(batch.clone(), Durability::Sync).wait() {
            Ok(commit) => commit,
            Err(error) if error.kind() == ErrorKind::Full => {
                self.found.coverage.count("full after recovery");
                return Ok(None);
            }
            Err(error) => return Err(stop("no commit after recovery")(error)),
        };
        if commit.version.0 <= allowed.seen {
            return Err(Stop::Wrong(format!("version {} after {} had been seen", commit.version.0, allowed.seen)));
        }
        let content = state.content.after(&batch, Some(commit.version.0)).map_err(|no| format!("{no:?}"))?;
        let found = store::read_all(engine).map_err(stop("cannot read all"))?;
        match content.difference(&found) {
            None => Ok(Some(State { content, version: commit.version.0, repeatable: None })),
            Some(difference) => Err(Stop::Wrong(format!("wrong content after a commit after recovery: {difference}"))),
        }
    }
}

/// The states that may be there when the power is cut at this position of the workload.
fn allowed_at(run: &Run<Recorder>, cut: usize) -> Allowed<'_> {
    let before = |told: &&Answered| told.position <= cut;
    let synced = run.told.iter().filter(before).filter(|told| told.durability == Durability::Sync);
    let first = synced.map(|told| told.state).max().unwrap_or_default();
    let seen = run.told.iter().filter(before).map(|told| run.states[told.state].version).max().unwrap_or_default();
    // A commit whose outcome was told later may already be there, since its group may have been written.
    Allowed { states: run.states[first..].iter().collect(), seen }
}

fn which<'a>(allowed: &Allowed<'a>, content: &Content) -> Verdict<&'a State> {
    if let Some(state) = allowed.states.iter().find(|state| state.content.fits(content)) {
        return Ok(state);
    }
    let differences: Vec<String> = allowed
        .states
        .iter()
        .take(3)
        .filter_map(|state| Some(format!("  version {}: {}", state.version, state.content.difference(content)?)))
        .collect();
    let count = allowed.states.len();
    let differences = differences.join("\n");
    Err(Stop::Wrong(format!("{content:?} is none of {count} allowed states, of which the first are\n{differences}")))
}
