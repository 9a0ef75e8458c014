//! Everything of one store to another, through the seam alone.
//!
//! Invariants:
//! - What is copied is one version of the source. How far it has come is told by every batch that brings it there: after
//!   an interruption whatever arrived is known, and nothing else is believed.
//! - Memory is bounded by a batch and the pieces of one value, whatever the stores hold.
//! - Nothing of the destination is changed that did not come from an earlier run, unless it was said so.
//!
//! The state of a copy is in [`STATE_SPACE`] of the destination, and stays: a later run from the same source brings what
//! has changed since. Snapshots are filled in [`SCRATCH_SPACE`]. Neither is copied itself.

mod spaces;
mod state;
mod values;
mod verify;
mod writer;

use std::fmt;
use std::time::Duration;

use bytes::Bytes;
use koine_engine::{Error, ErrorKind, KeyRange, SpaceId, Version};

use self::spaces::Copier;
use self::state::{CopyPosition, CopyState};
use crate::seam::{Direction, Kv, SpaceEntry, View};

/// Where the destination remembers how far a copy has come.
pub const STATE_SPACE: SpaceId = SpaceId(31);
/// Where a snapshot is filled before it is one.
pub const SCRATCH_SPACE: SpaceId = SpaceId(30);
/// So many spaces are listed at once.
const SPACES_PAGE: usize = 1024;
/// So often a caller who wants to be told of progress is.
const TOLD_EACH: Duration = Duration::from_millis(100);

/// What is copied, and how.
#[derive(Clone, Debug)]
pub struct CopyOptions {
    /// Names the source, so that a destination is not gone on with from another.
    pub source: String,
    /// Only these; `None` is all but the engine's own, [`STATE_SPACE`] and [`SCRATCH_SPACE`].
    pub spaces: Option<Vec<SpaceId>>,
    /// Keys that the destination may hold, as a store that was just made does. Those that the source lacks stay.
    pub founded: Vec<(SpaceId, KeyRange)>,
    /// The destination may hold anything: spaces that the source has too are made equal to those, others stay. Values
    /// are compared where an earlier run would be believed.
    pub force: bool,
    /// Reads both sides afterwards and compares every byte.
    pub verify: bool,
}

impl CopyOptions {
    /// Everything, verified, to a store that is empty or where an earlier run was stopped.
    pub fn new(source: impl Into<String>) -> CopyOptions {
        CopyOptions { source: source.into(), spaces: None, founded: Vec::new(), force: false, verify: true }
    }
}

impl CopyOptions {
    fn is_founded(&self, space: SpaceId, key: &[u8]) -> bool {
        self.founded
            .iter()
            .any(|(founded, range)| *founded == space && range.overlaps(&KeyRange::single(Bytes::copy_from_slice(key))))
    }
}

/// What is being done.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Phase {
    /// Bringing what is not there.
    Copying,
    /// Comparing both sides.
    Verifying,
}

/// How far it is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct CopyProgress {
    /// What is being done.
    pub phase: Phase,
    /// The space at work.
    pub space: SpaceId,
    /// Keys done in this phase.
    pub keys: u64,
    /// Bytes of their values.
    pub bytes: u64,
}

/// What a copy did.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Copied {
    /// The version of the source that the destination has now.
    pub version: Version,
    /// Whether an earlier run was gone on with.
    pub resumed: bool,
    /// Spaces of the source.
    pub spaces: u64,
    /// Keys that were brought.
    pub keys: u64,
    /// Bytes of their values.
    pub bytes: u64,
    /// Keys that were there already.
    pub kept: u64,
    /// Keys that were removed, because the source has them no more.
    pub removed: u64,
    /// Keys that were compared with the source afterwards; `None` where that was not asked for.
    pub verified: Option<u64>,
}

/// Why a copy ended early. Whatever arrived stays, and is not brought again.
#[derive(Clone, Debug)]
pub enum CopyError {
    /// The source could not be read.
    Source {
        /// What was read.
        what: String,
        /// Why not.
        error: Error,
    },
    /// The destination could not be read or written.
    Destination {
        /// What was done.
        what: String,
        /// Why not.
        error: Error,
    },
    /// The destination holds something else; the text says what and what to do.
    Occupied(String),
    /// The two are not the same after all.
    Different {
        /// In how many keys.
        count: u64,
        /// The first of them.
        first: Vec<String>,
    },
}

impl CopyError {
    /// The error of a store, where one was the reason.
    pub fn error(&self) -> Option<&Error> {
        match self {
            CopyError::Source { error, .. } | CopyError::Destination { error, .. } => Some(error),
            CopyError::Occupied(_) | CopyError::Different { .. } => None,
        }
    }

    fn hint(&self) -> &'static str {
        let is_source = matches!(self, CopyError::Source { .. });
        match self.error().map(Error::kind) {
            Some(ErrorKind::Expired) if is_source => {
                "; the source keeps an old version only for so long: run the same again, it goes on from here"
            }
            Some(ErrorKind::Full) => "; give the destination more room and run the same again, it goes on from here",
            Some(ErrorKind::Stopped | ErrorKind::Busy) => {
                "; run the same again when the store is back, it goes on from here"
            }
            Some(ErrorKind::Damaged) if is_source => {
                "; `koine salvage` copies what can be proven out of a damaged store"
            }
            _ => "",
        }
    }
}

impl fmt::Display for CopyError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            CopyError::Source { what, error } => write!(f, "the source: {what}: {error}{}", self.hint()),
            CopyError::Destination { what, error } => write!(f, "the destination: {what}: {error}{}", self.hint()),
            CopyError::Occupied(text) => f.write_str(text),
            CopyError::Different { count, first } => {
                let shown = first.join("; ");
                let more = if *count > first.len() as u64 { "; …" } else { "" };
                let places = if *count == 1 { "place" } else { "places" };
                write!(
                    f,
                    "source and destination differ in {count} {places}: {shown}{more}. Run the same again: what differs is copied anew"
                )
            }
        }
    }
}

impl std::error::Error for CopyError {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        self.error().map(|error| error as &(dyn std::error::Error + 'static))
    }
}

/// The result of a copy.
pub type CopyResult<T> = Result<T, CopyError>;

/// Marks an error as the source's or the destination's.
trait Told<T> {
    fn source(self, what: impl FnOnce() -> String) -> CopyResult<T>;
    fn destination(self, what: impl FnOnce() -> String) -> CopyResult<T>;
}

impl<T> Told<T> for Result<T, Error> {
    fn source(self, what: impl FnOnce() -> String) -> CopyResult<T> {
        self.map_err(|error| CopyError::Source { what: what(), error })
    }

    fn destination(self, what: impl FnOnce() -> String) -> CopyResult<T> {
        self.map_err(|error| CopyError::Destination { what: what(), error })
    }
}

/// A key for people.
fn name(space: SpaceId, key: &[u8]) -> String {
    match std::str::from_utf8(key) {
        Ok(text) if !text.chars().any(char::is_control) => format!("key {text:?} of space {}", space.0),
        _ => {
            let hex: String = key.iter().map(|byte| format!("{byte:02x}")).collect();
            format!("key 0x{hex} of space {}", space.0)
        }
    }
}

/// Copies one version of a store to another. `progress` is called every now and then.
///
/// Interrupted at any moment, it may be run again with the same options and goes on: what arrived is not brought again,
/// unless it has changed in the source meanwhile. A source that may be busy or a destination that may be is best given in
/// a [`Retry`](crate::wrap::Retry).
pub fn copy(
    source: &dyn Kv,
    destination: &dyn Kv,
    options: &CopyOptions,
    progress: &mut dyn FnMut(&CopyProgress),
) -> CopyResult<Copied> {
    let view = source.view().source(|| "taking a view".into())?;
    let spaces = spaces_of(&*view, options).source(|| "listing its spaces".into())?;
    let mut state = begin(destination, options)?;
    if state.is_newer_than(view.version()) {
        // The source is another one than it was, or was set back.
        state.forget();
    }
    let mut done = Copied { version: view.version(), spaces: spaces.len() as u64, ..Copied::default() };
    done.resumed = state.is_resumed();
    let mut copier = Copier::new(&*view, destination, options, state, done, progress);
    spaces.iter().try_for_each(|entry| copier.space(*entry))?;
    copier.drop_vanished(&spaces)?;
    let (mut state, mut done) = copier.end()?;
    if options.verify {
        let outcome = verify::verify(&*view, destination, &spaces, options, progress);
        if let Err(CopyError::Different { .. }) = &outcome {
            // Nothing that was done is believed any more.
            state.forget();
            writer::commit(destination, state.batch())?;
        }
        done.verified = Some(outcome?);
    }
    Ok(done)
}

/// The spaces to copy.
fn spaces_of(view: &dyn View, options: &CopyOptions) -> Result<Vec<SpaceEntry>, Error> {
    let mut found = Vec::new();
    let mut next = Some(SpaceId::FIRST);
    while let Some(from) = next {
        let page = view.spaces(from, SPACES_PAGE)?;
        next =
            page.last().filter(|_| page.len() == SPACES_PAGE).and_then(|last| last.space.0.checked_add(1)).map(SpaceId);
        found.extend(page);
    }
    found.retain(|entry| is_asked_for(entry.space, options));
    if let Some(asked) = &options.spaces
        && let Some(missing) = asked.iter().find(|space| !found.iter().any(|entry| entry.space == **space))
    {
        return Err(Error::new(ErrorKind::NotFound, format!("space {} is not there", missing.0)));
    }
    Ok(found)
}

fn is_asked_for(space: SpaceId, options: &CopyOptions) -> bool {
    space != STATE_SPACE && space != SCRATCH_SPACE && options.spaces.as_ref().is_none_or(|asked| asked.contains(&space))
}

/// What an earlier run left, or a beginning; refuses a destination with other things in it.
fn begin(destination: &dyn Kv, options: &CopyOptions) -> CopyResult<CopyState> {
    let view = destination.view().destination(|| "taking a view".into())?;
    let scope = options.spaces.as_ref().map_or_else(|| "all".to_owned(), |spaces| format!("{spaces:?}"));
    let fresh = CopyState::new(&options.source, &scope);
    let found = CopyState::read(&*view).destination(|| "reading the state of an earlier copy".into())?;
    let state = match found {
        Some(found) if found.is_of_same(&fresh) => return Ok(if options.force { found.forgotten() } else { found }),
        Some(found) if !options.force => {
            return Err(CopyError::Occupied(format!(
                "the destination was copied from {}, and not from {}; choose an empty one, or --force to make the spaces of both equal to this source",
                found.told(),
                fresh.told()
            )));
        }
        Some(found) => fresh.with_scratch(found.scratch),
        None => {
            if !options.force
                && let Some(space) = first_held(&*view, options).destination(|| "looking at what it holds".into())?
            {
                return Err(CopyError::Occupied(format!(
                    "the destination holds something already (space {}); choose an empty one, or --force to make its spaces equal to those of the source",
                    space.0
                )));
            }
            fresh
        }
    };
    let has_space = view.has_space(STATE_SPACE).destination(|| "looking for the state of an earlier copy".into())?;
    writer::commit(destination, state.first_batch(has_space))?;
    Ok(state)
}

/// The first space of the destination that a copy would touch and that has a key.
fn first_held(view: &dyn View, options: &CopyOptions) -> Result<Option<SpaceId>, Error> {
    let mut next = Some(SpaceId::FIRST);
    while let Some(from) = next {
        let page = view.spaces(from, SPACES_PAGE)?;
        for SpaceEntry { space, .. } in &page {
            if !is_asked_for(*space, options) {
                continue;
            }
            let mut cursor = view.cursor(*space, KeyRange::all(), Direction::Forward)?;
            while let Some(entry) = cursor.next()? {
                if !options.is_founded(*space, &entry.key) {
                    return Ok(Some(*space));
                }
            }
        }
        next =
            page.last().filter(|_| page.len() == SPACES_PAGE).and_then(|last| last.space.0.checked_add(1)).map(SpaceId);
    }
    Ok(None)
}

/// Tells of progress, not too often.
struct Teller<'a> {
    progress: &'a mut dyn FnMut(&CopyProgress),
    told: std::time::Instant,
    now: CopyProgress,
}

impl<'a> Teller<'a> {
    fn new(progress: &'a mut dyn FnMut(&CopyProgress), phase: Phase) -> Teller<'a> {
        let now = CopyProgress { phase, space: SpaceId::default(), keys: 0, bytes: 0 };
        progress(&now);
        Teller { progress, told: std::time::Instant::now(), now }
    }

    /// So many keys and bytes more.
    fn add(&mut self, space: SpaceId, keys: u64, bytes: u64) {
        self.now = CopyProgress { space, keys: self.now.keys + keys, bytes: self.now.bytes + bytes, ..self.now };
        if self.told.elapsed() >= TOLD_EACH {
            self.told = std::time::Instant::now();
            (self.progress)(&self.now);
        }
    }
}

/// A position as the state tells it, of a whole space.
fn whole(space: SpaceId) -> CopyPosition {
    CopyPosition { space, key: None::<Bytes> }
}
