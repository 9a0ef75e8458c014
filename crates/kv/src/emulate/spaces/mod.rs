//! Any number of spaces inside one.
//!
//! Keys below:
//!
//! | key | value |
//! |---|---|
//! | space (8 bytes, big-endian), key | the value |
//! | 0 (8 bytes), space (8 bytes) | what the space is: one byte of flags |
//! | 1 (8 bytes), space (8 bytes), key | the version that a copied key keeps (8 bytes) |
//! | 2 (8 bytes) | never there |
//!
//! Invariants:
//! - Spaces below 16 are reserved by the seam, so that none meets the first three rows.
//! - Only a space that was made as a copy has kept versions; a change of a key takes its kept version away.
//! - A space is copied key by key in one batch; one with more keys than a batch takes is refused as `Unsupported`.

mod view;

use std::collections::BTreeMap;
use std::sync::Arc;

use bytes::Bytes;
use koine_engine::batch::{BATCH_BYTES_MAX, BATCH_OPERATIONS_MAX, KEY_LEN_MAX};
use koine_engine::{
    Batch, Condition, Durability, Error, ErrorKind, KeyRange, Operation, Payload, Place, Result, SpaceId, StageHint,
    StageToken,
};

use self::view::{SpacesBacking, SpacesView};
use super::SOLE;
use super::emulated::{Core, Emulated, Emulation, token};
use super::pending::{Effect, PendingState};
use super::plan::{prefixed, unprefixed};
use super::token::{Staged, stage_of};
use crate::seam::{Kv, Profile, Stage, View};

const CATALOGUE: u64 = 0;
const KEPT: u64 = 1;
const NEVER: u64 = 2;
/// What a key is longer by than above: a kept version's two spaces.
const OVERHEAD: usize = 16;

/// It cannot be changed.
const SNAPSHOT: u8 = 1;
/// It was made as a copy: keys may have kept versions.
const COPY: u8 = 2;

/// How many bytes of a stage are kept beside it: as many as a counter has.
const HEAD_LEN: usize = 8;

/// Spaces by prefix: see the module.
pub type Spaces = Emulated<SpacesEmulation>;

impl Spaces {
    /// Over a store of one space; where that is one of many and is not there, it is made.
    pub fn open(below: Arc<dyn Kv>) -> Result<Spaces> {
        if !below.view()?.has_space(SOLE)? {
            below.commit(Batch::new().then(Operation::CreateSpace { space: SOLE }), Durability::Sync)?;
        }
        let lower = below.profile();
        let Some(key_len_max) = lower.key_len_max.checked_sub(OVERHEAD) else {
            return Err(Error::invalid("the store below takes too short keys for spaces by prefix"));
        };
        // Keys are longer below, and some operations are two.
        let profile = Profile {
            key_len_max: key_len_max.min(KEY_LEN_MAX),
            batch_operations_max: (lower.batch_operations_max / 2).min(BATCH_OPERATIONS_MAX),
            batch_bytes_max: (lower.batch_bytes_max / 2).min(BATCH_BYTES_MAX),
            inline_len_best: lower.inline_len_best.min(lower.batch_bytes_max / 2),
            ..lower.clone()
        };
        Ok(Emulated::over(below, SpacesEmulation { profile }))
    }
}

/// How [`Spaces`] does it.
pub struct SpacesEmulation {
    profile: Profile,
}

/// A stage of the store below, and its first bytes.
pub struct StagedBelow {
    below: StageToken,
    head: Bytes,
}

fn id(space: u64) -> [u8; 8] {
    space.to_be_bytes()
}

fn key_below(space: SpaceId, key: &[u8]) -> Bytes {
    Bytes::from([&id(space.0), key].concat())
}

fn place(at: &Place) -> Place {
    Place::new(SOLE, key_below(at.space, &at.key))
}

fn range_below(space: SpaceId, range: &KeyRange) -> KeyRange {
    prefixed(&id(space.0), range)
}

fn catalogue_key(space: SpaceId) -> Bytes {
    Bytes::from([id(CATALOGUE), id(space.0)].concat())
}

fn kept_prefix(space: SpaceId) -> Vec<u8> {
    [id(KEPT), id(space.0)].concat()
}

fn kept_key(space: SpaceId, key: &[u8]) -> Bytes {
    Bytes::from([&kept_prefix(space), key].concat())
}

fn never() -> Bytes {
    Bytes::copy_from_slice(&id(NEVER))
}

impl Emulation for SpacesEmulation {
    type Staged = StagedBelow;

    fn profile(&self) -> &Profile {
        &self.profile
    }

    fn never(&self) -> Bytes {
        never()
    }

    fn show(&self, below: Arc<dyn View>) -> Arc<dyn View> {
        Arc::new(SpacesView::new(below))
    }

    fn condition(&self, below: &Arc<dyn View>, condition: &Condition) -> Result<Condition> {
        Ok(match condition {
            Condition::Absent { space, key } => Condition::Absent { space: SOLE, key: key_below(*space, key) },
            Condition::Present { space, key } => Condition::Present { space: SOLE, key: key_below(*space, key) },
            Condition::VersionIs { space, key, version } => {
                // The version may be a kept one, so it is decided here: nobody changes it before the batch.
                let stat = SpacesView::new(Arc::clone(below)).stat(*space, key)?;
                match stat {
                    Some(stat) if stat.version == *version => Condition::Absent { space: SOLE, key: never() },
                    _ => Condition::Present { space: SOLE, key: never() },
                }
            }
            Condition::RangeEmpty { space, range } => {
                Condition::RangeEmpty { space: SOLE, range: range_below(*space, range) }
            }
            Condition::RangeUnchanged { space, range, since } => {
                Condition::RangeUnchanged { space: SOLE, range: range_below(*space, range), since: *since }
            }
        })
    }

    fn operations(&self, below: &Arc<dyn View>, operations: &[Operation]) -> Result<Vec<Operation>> {
        let view = Arc::new(SpacesView::new(Arc::clone(below)));
        let pending = PendingState::new(SpacesBacking::new(Arc::clone(&view)), self.profile.key_len_max);
        let mut plan = SpacesPlan { pending, view, copies: BTreeMap::new(), out: Vec::new() };
        for (index, operation) in (0u32..).zip(operations) {
            let effect = plan.pending.apply(index, operation)?;
            plan.follow(operation, effect)?;
        }
        Ok(plan.out)
    }

    fn stage(&self, core: &Arc<Core<Self>>, hint: StageHint) -> Result<Box<dyn Stage>> {
        let below = core.below.stage(hint)?;
        Ok(Box::new(SpacesStage { core: Arc::clone(core), below, head: Vec::new() }))
    }

    fn taken(&self, _staged: &StagedBelow) {}

    fn range(&self, space: SpaceId, range: &KeyRange) -> Result<KeyRange> {
        Ok(range_below(space, range))
    }

    fn told(&self, space: SpaceId, range: &KeyRange) -> KeyRange {
        unprefixed(&id(space.0), range)
    }
}

/// A stage of the store below.
struct SpacesStage {
    core: Arc<Core<SpacesEmulation>>,
    below: Box<dyn Stage>,
    head: Vec<u8>,
}

impl Stage for SpacesStage {
    fn write(&mut self, piece: &[u8]) -> Result<()> {
        self.core.check_open()?;
        self.below.write(piece)?;
        let wanted = HEAD_LEN - self.head.len();
        self.head.extend(piece.iter().take(wanted));
        Ok(())
    }

    fn length(&self) -> u64 {
        self.below.length()
    }

    fn finish(self: Box<Self>) -> Result<StageToken> {
        let length = self.below.length();
        let below = self.below.finish()?;
        Ok(token(&self.core, length, StagedBelow { below, head: Bytes::from(self.head) }))
    }
}

/// The batch below, as it grows.
struct SpacesPlan {
    pending: PendingState<SpacesBacking>,
    view: Arc<SpacesView>,
    /// Whether keys of a space may have kept versions, where the batch decided that.
    copies: BTreeMap<SpaceId, bool>,
    out: Vec<Operation>,
}

impl SpacesPlan {
    fn follow(&mut self, operation: &Operation, effect: Effect) -> Result<()> {
        match effect {
            Effect::Nothing => {}
            Effect::Set(at) => {
                self.out.push(set_below(operation)?);
                self.forget(&at)?;
            }
            Effect::Removed(at) => {
                self.out.push(Operation::Delete { at: place(&at) });
                self.forget(&at)?;
            }
            Effect::Cleared(space, range) => {
                self.out.push(Operation::DeleteRange { space: SOLE, range: range_below(space, &range) });
                self.forget_range(space, &range)?;
            }
            Effect::Moved { from, to } => {
                self.out.push(Operation::Rename { from: place(&from), to: place(&to) });
                self.forget(&from)?;
                self.forget(&to)?;
            }
            Effect::MovedPrefix { space, from, to, keys } => {
                let below = |prefix: &Bytes| key_below(space, prefix);
                self.out.push(Operation::RenamePrefix { space: SOLE, from: below(&from), to: below(&to) });
                self.forget_range(space, &KeyRange::prefix(from))?;
                keys.into_iter().try_for_each(|(_, key)| self.forget(&Place { space, key }))?;
            }
            Effect::Joined { removed, target } => {
                self.out.push(set_below(operation)?);
                removed.iter().try_for_each(|at| self.forget(at))?;
                self.forget(&target)?;
            }
            Effect::Created(space) => {
                self.copies.insert(space, false);
                self.catalogue(space, 0);
            }
            Effect::Copied { from, to, read_only, keys } => self.copy(from, to, read_only, keys)?,
            Effect::Dropped(space) => {
                self.out.push(Operation::DeleteRange { space: SOLE, range: range_below(space, &KeyRange::all()) });
                self.forget_range(space, &KeyRange::all())?;
                self.out.push(Operation::Delete { at: Place::new(SOLE, catalogue_key(space)) });
                self.copies.insert(space, false);
            }
        }
        Ok(())
    }

    fn catalogue(&mut self, space: SpaceId, flags: u8) {
        let value = Payload::Bytes(Bytes::copy_from_slice(&[flags]));
        self.out.push(Operation::Put { at: Place::new(SOLE, catalogue_key(space)), value });
    }

    fn is_copy(&mut self, space: SpaceId) -> Result<bool> {
        if let Some(known) = self.copies.get(&space) {
            return Ok(*known);
        }
        let is_copy = self.view.flags(space)?.is_some_and(|flags| flags & COPY != 0);
        self.copies.insert(space, is_copy);
        Ok(is_copy)
    }

    /// A key has the version of this commit now.
    fn forget(&mut self, at: &Place) -> Result<()> {
        if self.is_copy(at.space)? {
            self.out.push(Operation::Delete { at: Place::new(SOLE, kept_key(at.space, &at.key)) });
        }
        Ok(())
    }

    fn forget_range(&mut self, space: SpaceId, range: &KeyRange) -> Result<()> {
        if self.is_copy(space)? {
            self.out.push(Operation::DeleteRange { space: SOLE, range: prefixed(&kept_prefix(space), range) });
        }
        Ok(())
    }

    fn copy(&mut self, from: SpaceId, to: SpaceId, read_only: bool, keys: Vec<Bytes>) -> Result<()> {
        self.catalogue(to, COPY | if read_only { SNAPSHOT } else { 0 });
        self.copies.insert(to, true);
        if keys.is_empty() {
            return Ok(());
        }
        // Every key of the new space counts as changed, also those that are not there: a range that is known to.
        let all = range_below(to, &KeyRange::all());
        let value = Payload::Bytes(Bytes::new());
        self.out.push(Operation::Put { at: Place::new(SOLE, all.start.clone()), value });
        self.out.push(Operation::DeleteRange { space: SOLE, range: all });
        for key in keys {
            let (source, target) = (Place { space: from, key: key.clone() }, Place { space: to, key });
            // Where this batch made it, its version is this commit's, as the copy's.
            if let Some(origin) = self.pending.origin(&source)?
                && let Some(stat) = self.view.stat(origin.space, &origin.key)?
            {
                let version = Payload::Bytes(Bytes::copy_from_slice(&stat.version.0.to_le_bytes()));
                let at = Place::new(SOLE, kept_key(target.space, &target.key));
                self.out.push(Operation::Put { at, value: version });
            }
            let (from_offset, length, to_offset) = (0, u64::MAX, 0);
            let (from, to) = (place(&source), place(&target));
            self.out.push(Operation::CloneRange { from, from_offset, length, to, to_offset });
        }
        Ok(())
    }
}

/// An operation that sets one key, below.
fn set_below(operation: &Operation) -> Result<Operation> {
    let mut below = operation.clone();
    match &mut below {
        Operation::Put { at, .. }
        | Operation::WriteAt { at, .. }
        | Operation::Append { at, .. }
        | Operation::Truncate { at, .. }
        | Operation::AddCounter { at, .. } => *at = place(at),
        Operation::CloneRange { from, to, .. } => {
            *from = place(from);
            *to = place(to);
        }
        Operation::Concatenate { sources, target, .. } => {
            sources.iter_mut().for_each(|source| *source = place(source));
            *target = place(target);
        }
        Operation::Delete { .. }
        | Operation::DeleteRange { .. }
        | Operation::Rename { .. }
        | Operation::RenamePrefix { .. }
        | Operation::CreateSpace { .. }
        | Operation::CloneSpace { .. }
        | Operation::SnapshotSpace { .. }
        | Operation::DropSpace { .. } => {
            return Err(Error::new(ErrorKind::Unsupported, "an operation that sets no single key"));
        }
    }
    if let Operation::Put { value: payload, .. }
    | Operation::WriteAt { data: payload, .. }
    | Operation::Append { data: payload, .. } = &mut below
        && let Payload::Stage(token) = payload
    {
        let staged = stage_of(operation).and_then(|token| token.content::<Staged<StagedBelow>>());
        *token = staged.ok_or_else(|| Error::invalid("a stage of another store"))?.content().below.clone();
    }
    Ok(below)
}
