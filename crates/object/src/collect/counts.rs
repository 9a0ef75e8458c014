//! What a bucket's counters say, against a walk.
//!
//! Invariants:
//! - What is wrong is put right by a difference, so that what others count meanwhile stays counted.
//! - The difference goes to a shard of the collector's own, under the version that it had: two collectors at one time
//!   do not put right the same twice.

use bytes::Bytes;
use koine_kv::{Batch, Condition, Operation, Place};

use super::bucket::{Lead, Seen};
use super::removal::carried_out;
use super::{Found, LeftOver, Run};
use crate::count;
use crate::counter::{Count, Shard};
use crate::error::Result;
use crate::keys;

/// What a walk counts, in the order of the kinds of counts.
#[derive(Default)]
pub(super) struct Counts([i64; 5]);

impl Counts {
    /// A record was met.
    pub fn add(&mut self, lead: &Lead) {
        let size = i64::try_from(lead.size).unwrap_or(i64::MAX);
        let kinds = if lead.newest { (Count::Bytes, Count::Objects) } else { (Count::OlderBytes, Count::Older) };
        self.add_to(kinds.0, size);
        self.add_to(kinds.1, 1);
    }

    fn add_to(&mut self, count: Count, number: i64) {
        if let Some(sum) = self.0.get_mut(count as usize) {
            *sum = sum.saturating_add(number);
        }
    }

    pub fn names(&self) -> u64 {
        let of = |count: Count| self.0.get(count as usize).copied().unwrap_or(0);
        u64::try_from(of(Count::Objects) + of(Count::Older)).unwrap_or(0)
    }
}

impl Run<'_> {
    /// Compares what was counted in a view with what the counters of the same say.
    pub(super) fn recount(&mut self, seen: &Seen<'_>, mut counts: Counts) -> Result<()> {
        let parts = self.bytes_of_parts(seen)?;
        counts.add_to(Count::PartBytes, parts);
        let told = count::sums(seen.view.as_ref(), seen.record.space)?;
        for ((kind, counted), told) in Count::ALL.into_iter().zip(counts.0).zip(told) {
            let delta = counted.saturating_sub(told);
            if delta != 0 {
                let key = keys::counter(kind, Shard::COLLECTOR);
                let what = LeftOver::Counter(delta);
                self.tell_of(&Found { bucket: Some(seen.name), what, key: &key, bytes: 0 });
                self.collected.removed += u64::from(self.options.remove && self.put_right(seen, key, delta)?);
            }
        }
        Ok(())
    }

    fn put_right(&self, seen: &Seen<'_>, key: Bytes, delta: i64) -> Result<bool> {
        let space = seen.record.space;
        let unchanged = match seen.view.stat(space, &key)? {
            Some(stat) => Condition::VersionIs { space, key: key.clone(), version: stat.version },
            None => Condition::Absent { space, key: key.clone() },
        };
        let add = Operation::AddCounter { at: Place::new(space, key), delta };
        carried_out(&self.local, Batch::new().when(unchanged).then(add))
    }
}
