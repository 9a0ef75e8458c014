//! The collector: finds what no name leads to, says so, and removes it.
//!
//! On the engine there is never anything to find: every call is one batch, or a few that each leave nothing loose. It is
//! for stores below that promise less, for programs that wrote into a store past this library, and for what takes several
//! batches and was interrupted, as building an index; and it takes tokens that have expired.
//!
//! Invariants:
//! - What is compared is read from one view. Ids are never used again, so what no name leads to in one version is led to
//!   in no later one; it is removed under its version all the same, and told before.
//! - Writers go on meanwhile. What they change under the collector is left as it is, and counted as left.
//! - Memory goes with [`CollectOptions::ids_at_once`], not with the number of objects: ids are compared a slice at a time.
//! - Spaces are left alone: whose they are is not for this library to say. So are snapshots, which cannot be changed.

mod bucket;
mod catalogue;
mod counts;
mod entries;
mod ids;
mod pace;
mod removal;
mod uploads;

use std::sync::Arc;

use koine_kv::{SpaceId, Version, View};

use crate::action::Action;
use crate::error::Result;
use crate::local::Local;
use pace::Pace;
use removal::Removal;

/// How a collection goes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct CollectOptions {
    /// Whether what is found is removed; else it is only told.
    pub remove: bool,
    /// The most bytes of keys and records to read in a second, on average; `None`: as fast as it goes.
    pub bytes_per_second: Option<u64>,
    /// How many ids are held in memory at once, at up to 32 bytes each. A bucket of more objects is walked over once for
    /// each so many.
    pub ids_at_once: usize,
}

impl Default for CollectOptions {
    fn default() -> Self {
        CollectOptions { remove: false, bytes_per_second: None, ids_at_once: 1 << 20 }
    }
}

/// What a collection found.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Collected {
    /// Buckets looked at.
    pub buckets: u64,
    /// Names that were read in them, older versions included.
    pub names: u64,
    /// Bytes of objects that no name leads to.
    pub data: u64,
    /// Tables of parts of such objects, or of ones that have no table.
    pub tables: u64,
    /// Records and bytes of parts of uploads that are not there, and bytes of parts that have no record.
    pub parts: u64,
    /// Entries of indexes that no object stands for.
    pub entries: u64,
    /// Indexes whose building was interrupted, or goes on.
    pub indexes: u64,
    /// Access times of objects that are not there.
    pub access_times: u64,
    /// Counts that were not what a walk finds.
    pub counters: u64,
    /// Keys of the catalogue that lead to a bucket, user, group, key or token that is not there.
    pub catalogue: u64,
    /// Tokens that have expired.
    pub tokens: u64,
    /// Groups and users whose deletion was begun and not ended.
    pub deletions: u64,
    /// Bytes of values among all that.
    pub bytes: u64,
    /// How many of all these were removed, put right or brought to their end.
    pub removed: u64,
}

impl Collected {
    /// How many things were found.
    pub fn found(&self) -> u64 {
        let in_buckets =
            self.data + self.tables + self.parts + self.entries + self.indexes + self.access_times + self.counters;
        in_buckets + self.catalogue + self.tokens + self.deletions
    }
}

/// What kind of thing was found.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum LeftOver {
    /// Bytes of an object that no name leads to.
    Data,
    /// A table of parts that no record names.
    Table,
    /// A part's record or bytes of an upload that is not there, or bytes without a record.
    Part,
    /// An entry of an index.
    Entry,
    /// An index that is not whole; it is built to its end.
    Index,
    /// The time of the last access to an object that is not there.
    AccessTime,
    /// A count that is wrong by so much.
    Counter(i64),
    /// A key of the catalogue that leads nowhere.
    Catalogue,
    /// A token that has expired.
    Token,
    /// A group or user whose deletion was begun.
    Deletion,
}

impl LeftOver {
    /// One word for it.
    pub fn word(self) -> &'static str {
        match self {
            LeftOver::Data => "data",
            LeftOver::Table => "table",
            LeftOver::Part => "part",
            LeftOver::Entry => "entry",
            LeftOver::Index => "index",
            LeftOver::AccessTime => "access-time",
            LeftOver::Counter(_) => "counter",
            LeftOver::Catalogue => "catalogue",
            LeftOver::Token => "token",
            LeftOver::Deletion => "deletion",
        }
    }

    fn count_in(self, collected: &mut Collected) -> &mut u64 {
        match self {
            LeftOver::Data => &mut collected.data,
            LeftOver::Table => &mut collected.tables,
            LeftOver::Part => &mut collected.parts,
            LeftOver::Entry => &mut collected.entries,
            LeftOver::Index => &mut collected.indexes,
            LeftOver::AccessTime => &mut collected.access_times,
            LeftOver::Counter(_) => &mut collected.counters,
            LeftOver::Catalogue => &mut collected.catalogue,
            LeftOver::Token => &mut collected.tokens,
            LeftOver::Deletion => &mut collected.deletions,
        }
    }
}

/// Something that was found, told before it is removed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Found<'a> {
    /// The bucket that it is in; `None` for the catalogue.
    pub bucket: Option<&'a str>,
    /// What it is.
    pub what: LeftOver,
    /// Its key in the space, or the name of a user, a group, or what an index is over.
    pub key: &'a [u8],
    /// The length of its value.
    pub bytes: u64,
}

/// What a collection tells while it goes on.
#[derive(Clone, Debug)]
pub enum CollectEvent<'a> {
    /// It begins with a bucket.
    Bucket(&'a str),
    /// It found something.
    Found(Found<'a>),
    /// So many keys were read since it said so before.
    Read(u64),
}

impl Local {
    /// Looks for what no name leads to, and tells what it does: [`Objects::collect`](crate::Objects::collect).
    pub fn collect(&self, options: &CollectOptions, tell: &mut dyn FnMut(CollectEvent<'_>)) -> Result<Collected> {
        self.check_not_pinned()?;
        self.read(|rights| rights.store(Action::Collect), |_| Ok(()))?;
        let pace = Pace::new(Arc::clone(self.clock()), options.bytes_per_second);
        let owner = self.as_caller(crate::caller::Caller::Owner);
        let mut run = Run { local: owner, options: *options, tell, collected: Collected::default(), pace, keys: 0 };
        run.buckets()?;
        run.catalogue()?;
        Ok(run.collected)
    }
}

/// Counts every bucket anew and puts wrong counts right; tells how many buckets there are, and how many counts were
/// wrong. In a store that nobody else has open.
pub(crate) fn recount_all(local: &Local, remove: bool) -> Result<(u64, u64)> {
    let pace = Pace::new(Arc::clone(local.clock()), None);
    let options = CollectOptions { remove, ..CollectOptions::default() };
    let mut run =
        Run { local: local.clone(), options, tell: &mut |_| {}, collected: Collected::default(), pace, keys: 0 };
    let mut after = String::new();
    while let Some(name) = bucket::next_after(run.view()?.as_ref(), &after)? {
        run.count_bucket(&name)?;
        run.collected.buckets += 1;
        after = name;
    }
    Ok((run.collected.buckets, run.collected.counters))
}

/// So many keys are read between two events of progress.
const KEYS_AN_EVENT: u64 = 4096;

/// A collection under way.
struct Run<'a> {
    local: Local,
    options: CollectOptions,
    tell: &'a mut dyn FnMut(CollectEvent<'_>),
    collected: Collected,
    pace: Pace,
    keys: u64,
}

impl Run<'_> {
    fn view(&self) -> Result<Arc<dyn View>> {
        Ok(self.local.kv().view()?)
    }

    /// A key with so many bytes was read.
    fn read(&mut self, bytes: usize) {
        self.pace.read(bytes);
        self.keys += 1;
        if self.keys == KEYS_AN_EVENT {
            (self.tell)(CollectEvent::Read(self.keys));
            self.keys = 0;
        }
    }

    /// Something was found: it is told, counted, and removed with others.
    fn found(&mut self, removal: &mut Removal, found: &Found<'_>, version: Version) -> Result<()> {
        self.tell_of(found);
        if self.options.remove {
            removal.add(found.key, version);
            if removal.is_full() {
                self.collected.removed += removal.carry_out(&self.local)?;
            }
        }
        Ok(())
    }

    fn tell_of(&mut self, found: &Found<'_>) {
        (self.tell)(CollectEvent::Found(found.clone()));
        *found.what.count_in(&mut self.collected) += 1;
        self.collected.bytes += found.bytes;
    }

    fn finish(&mut self, mut removal: Removal) -> Result<()> {
        self.collected.removed += removal.carry_out(&self.local)?;
        Ok(())
    }

    fn removal(&self, space: SpaceId) -> Removal {
        Removal::new(space, self.local.kv().profile())
    }

    /// Every bucket in the order of names; one that comes or goes meanwhile is looked at or not.
    fn buckets(&mut self) -> Result<()> {
        let mut after = String::new();
        while let Some(name) = bucket::next_after(self.view()?.as_ref(), &after)? {
            (self.tell)(CollectEvent::Bucket(&name));
            self.bucket(&name)?;
            self.collected.buckets += 1;
            after = name;
        }
        Ok(())
    }
}
