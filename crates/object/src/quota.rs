//! Quotas of users and groups, and how much their buckets hold together.
//!
//! Invariants:
//! - Users and groups have no counters: what they hold is the sum over their buckets, so whatever becomes of a bucket,
//!   no sum can be wrong, and no two writers meet.
//! - A change is let in by a sum that is at most a second old, and refused by one of now. What is looked at is held by no
//!   condition, as with a bucket's own quota.
//! - A bucket counts for its owner and for its group, whoever puts something into it. Root and its group have no quota.

use std::collections::BTreeMap;
use std::sync::Arc;

use koine_kv::{Direction, KeyRange, Operation, Payload, SpaceId, Transaction, View};

use crate::accounts::{group, keys as identity_keys, user};
use crate::caller::ROOT;
use crate::count::sums;
use crate::counter::Count;
use crate::error::{Error, ErrorKind, Result};
use crate::keys::{self, CATALOGUE};
use crate::local::Local;
use crate::lookup::{find_bucket, read_value};
use crate::record::BucketRecord;
use crate::sums::{Holder, Sum};

/// What the buckets of a user or of a group hold together.
pub(crate) fn sum_of(view: &mut Arc<dyn View>, holder: Holder) -> Result<Sum> {
    let prefix = match holder {
        Holder::User(id) => identity_keys::bucket_of_owner(id, ""),
        Holder::Group(id) => identity_keys::bucket_of_group(id, ""),
    };
    let mut sum = Sum::default();
    let mut cursor = view.cursor(CATALOGUE, KeyRange::prefix(prefix), Direction::Forward)?;
    while let Some(entry) = cursor.next()? {
        let space = find_bucket(view, &identity_keys::text_after_id(&entry.key)?)?.space;
        let of_bucket = sums(view.as_ref(), space)?;
        sum.counts.iter_mut().zip(of_bucket).for_each(|(sum, count)| *sum = sum.saturating_add(count));
        sum.spaces.push(space);
    }
    Ok(sum)
}

/// What a change adds to a space: bytes and objects, older versions and parts among them.
#[derive(Clone, Copy, Default)]
struct Added {
    bytes: i64,
    objects: i64,
}

impl Added {
    fn of(counts: [i64; 5]) -> Self {
        let of = |kind: Count| counts.get(kind as usize).copied().unwrap_or(0);
        Added {
            bytes: of(Count::Bytes).saturating_add(of(Count::OlderBytes)).saturating_add(of(Count::PartBytes)),
            objects: of(Count::Objects).saturating_add(of(Count::Older)),
        }
    }

    fn and(self, other: Added) -> Self {
        let (bytes, objects) = (self.bytes.saturating_add(other.bytes), self.objects.saturating_add(other.objects));
        Added { bytes, objects }
    }

    fn is_more(self) -> bool {
        self.bytes > 0 || self.objects > 0
    }
}

/// What operations add to each space.
fn added(view: &dyn View, operations: &[Operation]) -> Result<BTreeMap<SpaceId, Added>> {
    let mut spaces: BTreeMap<SpaceId, Added> = BTreeMap::new();
    let mut add = |space: SpaceId, counts: [i64; 5]| {
        let sum = spaces.entry(space).or_default();
        *sum = sum.and(Added::of(counts));
    };
    for operation in operations {
        match operation {
            Operation::AddCounter { at, delta } => {
                let mut counts = [0; 5];
                if let Some(count) = crate::count::slot(&mut counts, &at.key) {
                    *count = *delta;
                    add(at.space, counts);
                }
            }
            Operation::CloneSpace { from, to } => add(*to, sums(view, *from)?),
            Operation::DropSpace { space } => add(*space, sums(view, *space)?.map(i64::saturating_neg)),
            _ => {}
        }
    }
    Ok(spaces)
}

/// The buckets that a transaction read or makes, by their spaces.
fn buckets_of(txn: &Transaction) -> Result<BTreeMap<SpaceId, BucketRecord>> {
    let mut buckets = BTreeMap::new();
    let begin = keys::bucket("");
    let view = txn.view().as_ref();
    for key in txn.keys_read(CATALOGUE, &begin).take_while(|key| key.starts_with(&begin)) {
        if let Some((_, bytes)) = read_value(view, CATALOGUE, key)? {
            let record = BucketRecord::decode(&bytes)?;
            buckets.insert(record.space, record);
        }
    }
    for operation in txn.operations() {
        if let Operation::Put { at, value: Payload::Bytes(bytes) } = operation
            && at.space == CATALOGUE
            && at.key.starts_with(&begin)
        {
            let record = BucketRecord::decode(bytes)?;
            buckets.insert(record.space, record);
        }
    }
    Ok(buckets)
}

/// `QuotaExceeded` where what was added to a transaction since `before` goes past a quota of a user or of a group.
pub(crate) fn check(local: &Local, txn: &Transaction, before: usize) -> Result<()> {
    let view = Arc::clone(txn.view());
    let new = txn.operations().get(before..).unwrap_or_default();
    // Nearly every change that adds has one counter of these, and one that adds nothing ends here.
    if !added(view.as_ref(), new)?.values().any(|added| added.is_more()) {
        return Ok(());
    }
    let all = added(view.as_ref(), txn.operations())?;
    let mut holders: BTreeMap<Holder, Vec<SpaceId>> = BTreeMap::new();
    for (space, bucket) in buckets_of(txn)? {
        if all.contains_key(&space) {
            let of_bucket = [(bucket.owner, Holder::User(bucket.owner)), (bucket.group, Holder::Group(bucket.group))];
            for (_, holder) in of_bucket.into_iter().filter(|(id, _)| *id != ROOT) {
                holders.entry(holder).or_default().push(space);
            }
        }
    }
    holders.into_iter().try_for_each(|(holder, spaces)| check_holder(local, &view, holder, (&spaces, &all)))
}

fn check_holder(
    local: &Local,
    view: &Arc<dyn View>,
    holder: Holder,
    (spaces, added): (&[SpaceId], &BTreeMap<SpaceId, Added>),
) -> Result<()> {
    let mut from = Arc::clone(view);
    let found = match holder {
        Holder::User(id) => user(&mut from, id)?.map(|user| (user.limits, format!("user {:?}", user.name))),
        Holder::Group(id) => group(&mut from, id)?.map(|group| (group.limits, format!("group {:?}", group.name))),
    };
    let Some((limits, who)) = found else { return Ok(()) };
    if limits.bytes.is_none() && limits.objects.is_none() {
        return Ok(());
    }
    let refused = |sum: &Sum| {
        let more = added.iter().filter(|(space, _)| spaces.contains(space) || sum.spaces.contains(space));
        let more = more.fold(Added::default(), |sum, (_, added)| sum.and(*added));
        let held = Added::of(sum.counts).and(more);
        let past = |most: Option<u64>, adds: i64, held: i64, what: &str| {
            let most = most.filter(|most| adds > 0 && u64::try_from(held).is_ok_and(|held| held > *most))?;
            let message =
                format!("the buckets of the {who} may hold {most} {what}, and would have {held}: delete some first");
            Some(Error::new(ErrorKind::QuotaExceeded, message))
        };
        let bytes = past(limits.bytes, more.bytes, held.bytes, "bytes");
        bytes.or_else(|| past(limits.objects, more.objects, held.objects, "objects"))
    };
    let now = local.clock().monotonic();
    if let Some(sum) = local.sums().young(holder, now)
        && refused(&sum).is_none()
    {
        return Ok(());
    }
    // The view of the transaction may be as old as the transaction, so the sum is taken from one that begins here.
    let sum = Arc::new(sum_of(&mut local.kv().view()?, holder)?);
    local.sums().keep(holder, now, Arc::clone(&sum));
    refused(&sum).map_or(Ok(()), Err)
}
