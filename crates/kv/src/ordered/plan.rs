//! From operations to writes of the map.
//!
//! Invariants:
//! - Writes are in an order in which the last one of a key is what the batch leaves; everything is read from the
//!   snapshot before it.
//! - What is told of a change is what the seam says, in the order of the operations.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use bytes::{BufMut, Bytes, BytesMut};
use koine_engine::batch::after_prefix;
use koine_engine::{Error, ErrorKind, KeyRange, Operation, Place, Result, Version};

use super::format::{KEYS, map_key};
use super::view::{OrderedView, Values};
use super::{Snapshot, VALUE_LEN_MAX, Write};
use crate::emulate::SOLE;
use crate::emulate::pending::{Effect, PendingState};
use crate::emulate::plan::{one_space, prefixed};
use crate::seam::{Direction, Profile, View};

/// What a batch writes.
pub(super) struct Planned {
    deletions: Vec<Write>,
    values: BTreeMap<Bytes, Bytes>,
    /// What changed, in order.
    pub(super) changes: Vec<KeyRange>,
}

impl Planned {
    /// The writes, with the version that the keys get. Deletions come first: what is set after them is in `values`.
    pub(super) fn writes(&self, version: Version) -> Vec<Write> {
        let mut writes = self.deletions.clone();
        for (key, value) in &self.values {
            let mut record = BytesMut::with_capacity(8 + value.len());
            record.put_u64_le(version.0);
            record.put_slice(value);
            writes.push(Write::Put(map_key(key), record.freeze()));
        }
        writes
    }
}

/// Works out what operations do to a view.
pub(super) fn plan<S: Snapshot>(
    view: &Arc<OrderedView<S>>,
    profile: &Profile,
    operations: &[Operation],
    is_watched: impl Fn(&KeyRange) -> bool,
) -> Result<Planned> {
    let pending = PendingState::new(Values(Arc::clone(view)), profile.key_len_max);
    let mut plan = OrderedPlan { pending, view, set: BTreeSet::new(), deletions: Vec::new(), changes: Vec::new() };
    for (index, operation) in (0u32..).zip(operations) {
        // Whether a range has keys is known only before they are gone, and matters where somebody may ask.
        let cleared = match operation {
            Operation::DeleteRange { space, range } if *space == SOLE => !is_watched(range) || plan.has_keys(range)?,
            _ => false,
        };
        let effect = plan.pending.apply(index, operation)?;
        plan.follow(effect, cleared)?;
    }
    let mut values = BTreeMap::new();
    for key in std::mem::take(&mut plan.set) {
        if let Some(value) = plan.pending.value(&Place { space: SOLE, key: key.clone() })? {
            if value.length() > VALUE_LEN_MAX as u64 {
                let message = format!(
                    "a value of {} bytes; the store `{}` takes at most {VALUE_LEN_MAX}",
                    value.length(),
                    profile.name
                );
                return Err(Error::new(ErrorKind::Unsupported, message));
            }
            values.insert(key, value.bytes(0, VALUE_LEN_MAX));
        }
    }
    Ok(Planned { deletions: plan.deletions, values, changes: plan.changes })
}

struct OrderedPlan<'a, S: Snapshot> {
    pending: PendingState<Values<S>>,
    view: &'a Arc<OrderedView<S>>,
    /// Keys that were set and not removed again.
    set: BTreeSet<Bytes>,
    deletions: Vec<Write>,
    changes: Vec<KeyRange>,
}

impl<S: Snapshot> OrderedPlan<'_, S> {
    fn has_keys(&mut self, range: &KeyRange) -> Result<bool> {
        if range.is_empty() {
            return Ok(false);
        }
        if self.set.range::<[u8], _>(range.bounds()).next().is_some() {
            return Ok(true);
        }
        let mut cursor = self.view.cursor(SOLE, range.clone(), Direction::Forward)?;
        while let Some(entry) = cursor.next()? {
            if self.pending.has(&Place { space: SOLE, key: entry.key })? {
                return Ok(true);
            }
        }
        Ok(false)
    }

    fn set(&mut self, key: &Bytes) {
        self.set.insert(key.clone());
        self.changes.push(KeyRange::single(key.clone()));
    }

    fn remove(&mut self, key: &Bytes) {
        self.set.remove(key);
        self.deletions.push(Write::Delete(map_key(key)));
        self.changes.push(KeyRange::single(key.clone()));
    }

    fn clear(&mut self, range: &KeyRange) {
        self.set.retain(|key| !range.contains(key));
        let KeyRange { start, end } = prefixed(KEYS, range);
        if let Some(end) = end.or_else(|| after_prefix(KEYS))
            && start < end
        {
            self.deletions.push(Write::DeleteRange(start, end));
        }
    }

    fn follow(&mut self, effect: Effect, cleared: bool) -> Result<()> {
        match effect {
            Effect::Nothing => {}
            Effect::Set(at) => self.set(&at.key),
            Effect::Removed(at) => self.remove(&at.key),
            Effect::Cleared(_, range) => {
                if cleared {
                    self.clear(&range);
                    self.changes.push(range);
                }
            }
            Effect::Moved { from, to } => {
                self.remove(&from.key);
                self.set(&to.key);
            }
            Effect::MovedPrefix { from, to, keys, .. } => {
                let from = KeyRange::prefix(from);
                self.clear(&from);
                self.set.extend(keys.into_iter().map(|(_, key)| key));
                self.changes.extend([from, KeyRange::prefix(to)]);
            }
            Effect::Joined { removed, target } => {
                removed.iter().for_each(|at| self.remove(&at.key));
                self.set(&target.key);
            }
            Effect::Created(_) | Effect::Copied { .. } | Effect::Dropped(_) => return Err(one_space()),
        }
        Ok(())
    }
}
