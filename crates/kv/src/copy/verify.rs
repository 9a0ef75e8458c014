//! Both sides read and compared, whatever was believed before.
//!
//! Invariant: every key of the source and of the destination is met, and every byte compared with what the source gives now.

use koine_engine::{ErrorKind, KeyRange, SpaceId};

use super::spaces::Beside;
use super::values::{Side, first_difference};
use super::{CopyError, CopyOptions, CopyProgress, CopyResult, Phase, Teller, Told, name};
use crate::seam::{Direction, Entry, Kv, SpaceEntry, View};

/// So many differences are told.
const TOLD_MAX: usize = 5;

struct Differences {
    count: u64,
    first: Vec<String>,
}

impl Differences {
    fn add(&mut self, text: impl FnOnce() -> String) {
        self.count += 1;
        if self.first.len() < TOLD_MAX {
            self.first.push(text());
        }
    }
}

/// Compares; gives how many keys were.
pub(super) fn verify(
    view: &dyn View,
    destination: &dyn Kv,
    spaces: &[SpaceEntry],
    options: &CopyOptions,
    progress: &mut dyn FnMut(&CopyProgress),
) -> CopyResult<u64> {
    let mut teller = Teller::new(progress, Phase::Verifying);
    let mut differences = Differences { count: 0, first: Vec::new() };
    for entry in spaces {
        let looking = || format!("comparing space {}", entry.space.0);
        let found = destination.view().and_then(|view| view.spaces(entry.space, 1)).destination(looking)?;
        match found.first().filter(|found| found.space == entry.space) {
            None => differences.add(|| format!("space {} is not there", entry.space.0)),
            Some(found) if found.is_snapshot != entry.is_snapshot => {
                differences.add(|| format!("space {} is a snapshot on one side only", entry.space.0));
            }
            Some(_) => {
                space(view, destination, entry.space, options, &mut teller, &mut differences)?;
            }
        }
    }
    let Differences { count, first } = differences;
    if count > 0 { Err(CopyError::Different { count, first }) } else { Ok(teller.now.keys) }
}

fn space(
    view: &dyn View,
    destination: &dyn Kv,
    space: SpaceId,
    options: &CopyOptions,
    teller: &mut Teller<'_>,
    differences: &mut Differences,
) -> CopyResult<()> {
    let looking = || format!("comparing space {}", space.0);
    let mut cursor = view.cursor(space, KeyRange::all(), Direction::Forward).source(looking)?;
    let mut beside = Beside::open(destination, space, None).destination(looking)?;
    loop {
        let next = cursor.next().source(looking)?;
        let key = next.as_ref().map(|entry| &entry.key);
        while let Some(extra) = beside.extra(key).destination(looking)? {
            if !options.is_founded(space, &extra.key) {
                differences.add(|| format!("{} is only in the destination", name(space, &extra.key)));
            }
        }
        let Some(entry) = next else { return Ok(()) };
        let what = || name(space, &entry.key);
        match beside.same(&entry.key).destination(looking)? {
            None => differences.add(|| format!("{} is missing", what())),
            Some(ours) if ours.stat.size != entry.stat.size => {
                differences.add(|| format!("{} has {} bytes of {}", what(), ours.stat.size, entry.stat.size));
            }
            Some(ours) => {
                let sides = (Side { view, space }, Side { view: &*beside.view, space });
                match compare(sides, &entry, &ours, teller, space) {
                    Ok(None) => {}
                    Ok(Some(at)) => differences.add(|| format!("{} differs at byte {at}", what())),
                    // Bytes that the destination has and cannot prove are a difference, not the end.
                    Err(CopyError::Destination { error, .. }) if error.kind() == ErrorKind::Damaged => {
                        differences.add(|| format!("{} is damaged ({error})", what()));
                    }
                    Err(error) => return Err(error),
                }
            }
        }
        teller.add(space, 1, 0);
    }
}

fn compare(
    (source, destination): (Side<'_>, Side<'_>),
    theirs: &Entry,
    ours: &Entry,
    teller: &mut Teller<'_>,
    space: SpaceId,
) -> CopyResult<Option<u64>> {
    first_difference(source, theirs, destination, ours, |bytes| teller.add(space, 0, bytes))
}
