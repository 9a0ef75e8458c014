//! Values of any length over a store that takes short ones.
//!
//! A key's *head* says how long its value is and where it lies: in the head itself, or in *extents* of *blobs*. A blob is
//! what was written at one time, in pieces of a fixed length; clones and concatenations share blobs, and each knows how
//! many extents are of it.
//!
//! Invariants:
//! - A change touches the head and the pieces that it writes; a rename touches heads only.
//! - A long value is staged piece by piece, in bounded memory.
//! - What a value no longer shows is given back by the batch that took it away, once nothing else shows it.

mod record;
mod stage;
mod view;
mod writer;

use std::sync::Arc;

use bytes::Bytes;
use koine_engine::{Batch, Condition, Durability, Error, KeyRange, Operation, Result, SpaceId, StageHint};
use koine_env::{OsRandom, Random};

use self::record::{BlobId, HEAD, INLINE_HEADER_LEN, STAGED, head_key, never_key};
use self::stage::{SplitStage, StagedValue, removal};
use self::view::{SplitBacking, SplitView};
use self::writer::Pieces;
use super::SOLE;
use super::emulated::{Core, Emulated, Emulation};
use super::pending::PendingState;
use super::plan::{plan, prefixed, unprefixed};
use super::token::{Staged, stage_of};
use crate::seam::{Direction, ENTRY_VALUE_LEN_MAX, Kv, Profile, Stage, View};

/// The key below is longer than ours by this.
const KEY_OVERHEAD: usize = 1;
/// The longest key below that is not a head: that of a piece.
const PIECE_KEY_LEN: usize = 25;
/// So many blobs of stages are removed at once when a store is opened.
const REMOVED_AT_ONCE: usize = 100;

/// How values are split.
#[derive(Clone, Debug)]
pub struct SplitOptions {
    /// The length of a piece.
    pub piece_len: usize,
    /// A value up to this length lies in its head.
    pub inline_len: usize,
    /// Where the names of blobs come from.
    pub random: Arc<dyn Random>,
}

impl Default for SplitOptions {
    fn default() -> Self {
        SplitOptions { piece_len: 64 << 10, inline_len: 4 << 10, random: Arc::new(OsRandom) }
    }
}

/// Long values in pieces: see the module.
pub type Split = Emulated<SplitEmulation>;

impl Split {
    /// Over a store of one space, whose values may be as long as a piece and as a head. Removes what stages left that
    /// were under way when the store was last closed.
    pub fn open(below: Arc<dyn Kv>, options: SplitOptions) -> Result<Split> {
        let lower = below.profile();
        if options.inline_len < ENTRY_VALUE_LEN_MAX as usize || options.piece_len == 0 {
            let message =
                format!("values of {ENTRY_VALUE_LEN_MAX} bytes must fit into their heads, and pieces have bytes");
            return Err(Error::invalid(message));
        }
        if lower.key_len_max < PIECE_KEY_LEN {
            return Err(Error::invalid("the store below takes too short keys for pieces of values"));
        }
        // A value is at least a head and a piece, and may come with a list and counts.
        let profile = Profile {
            key_len_max: lower.key_len_max - KEY_OVERHEAD,
            batch_operations_max: lower.batch_operations_max / 4,
            batch_bytes_max: lower.batch_bytes_max / 2,
            inline_len_best: options.piece_len.min(lower.batch_bytes_max / 2),
            ..lower.clone()
        };
        remove_stages(&*below)?;
        Ok(Emulated::over(below, SplitEmulation { profile, options }))
    }

    /// The keys below that are no heads: nobody watches them, and no condition names them.
    pub fn unwatched() -> KeyRange {
        KeyRange { start: koine_engine::batch::after_prefix(HEAD).unwrap_or_default(), end: None }
    }
}

/// Removes the blobs of stages that no commit took.
fn remove_stages(below: &dyn Kv) -> Result<()> {
    loop {
        let mut cursor = below.view()?.cursor(SOLE, KeyRange::prefix(STAGED), Direction::Forward)?;
        let mut batch = Batch::new();
        while batch.operations.len() < 2 * REMOVED_AT_ONCE
            && let Some(entry) = cursor.next()?
        {
            let blob = entry.key.get(STAGED.len()..).and_then(|blob| blob.try_into().ok());
            batch = removal(batch, &blob.ok_or_else(record::damaged)?);
        }
        if batch.operations.is_empty() {
            return Ok(());
        }
        below.commit(batch, Durability::Memory)?;
    }
}

/// How [`Split`] does it.
pub struct SplitEmulation {
    profile: Profile,
    options: SplitOptions,
}

impl SplitEmulation {
    fn new_id(&self) -> BlobId {
        let mut id = [0; 16];
        self.options.random.fill(&mut id);
        id
    }

    fn piece_len(&self) -> usize {
        self.options.piece_len
    }

    fn inline_len(&self) -> usize {
        self.options.inline_len
    }

    /// How long a value below may be.
    pub fn value_len_below(options: &SplitOptions) -> usize {
        options.piece_len.max(options.inline_len + INLINE_HEADER_LEN)
    }

    fn look(&self, below: &Arc<dyn View>) -> SplitView {
        SplitView { below: Arc::clone(below), piece_len: self.options.piece_len as u64 }
    }
}

impl Emulation for SplitEmulation {
    type Staged = StagedValue;

    fn profile(&self) -> &Profile {
        &self.profile
    }

    fn never(&self) -> Bytes {
        never_key()
    }

    fn show(&self, below: Arc<dyn View>) -> Arc<dyn View> {
        Arc::new(self.look(&below))
    }

    fn condition(&self, _below: &Arc<dyn View>, condition: &Condition) -> Result<Condition> {
        Ok(match condition {
            Condition::Absent { space, key } => Condition::Absent { space: *space, key: head_key(key) },
            Condition::Present { space, key } => Condition::Present { space: *space, key: head_key(key) },
            Condition::VersionIs { space, key, version } => {
                Condition::VersionIs { space: *space, key: head_key(key), version: *version }
            }
            Condition::RangeEmpty { space, range } => {
                Condition::RangeEmpty { space: *space, range: prefixed(HEAD, range) }
            }
            Condition::RangeUnchanged { space, range, since } => {
                Condition::RangeUnchanged { space: *space, range: prefixed(HEAD, range), since: *since }
            }
        })
    }

    fn operations(&self, below: &Arc<dyn View>, operations: &[Operation]) -> Result<Vec<Operation>> {
        let view = self.look(below);
        let staged = operations.iter().filter_map(|operation| {
            let token = stage_of(operation)?;
            match token.content_ref::<Staged<StagedValue>>()?.content() {
                StagedValue::Inline(_) => None,
                StagedValue::Blob(blob) => Some((blob.id(), token.length())),
            }
        });
        let writer = Pieces::new(self, view.clone(), staged);
        plan(PendingState::new(SplitBacking { view }, self.profile.key_len_max), writer, operations)
    }

    fn stage(&self, core: &Arc<Core<Self>>, hint: StageHint) -> Result<Box<dyn Stage>> {
        Ok(Box::new(SplitStage::new(Arc::clone(core), hint)))
    }

    fn taken(&self, staged: &StagedValue) {
        if let StagedValue::Blob(blob) = staged {
            blob.keep();
        }
    }

    fn range(&self, _space: SpaceId, range: &KeyRange) -> Result<KeyRange> {
        Ok(prefixed(HEAD, range))
    }

    fn told(&self, _space: SpaceId, range: &KeyRange) -> KeyRange {
        unprefixed(HEAD, range)
    }
}
