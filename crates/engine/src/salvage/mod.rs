//! Salvage: copies out of a damaged store what can be proven, and says what cannot.
//!
//! - `base`: where to begin: a superblock, or index nodes found by looking at every block.
//! - `log`: the groups of the ring, as far as they follow each other.
//! - `salvage_state`: the spaces as stored, and what the log changes of them, beside the trees.
//! - `recovered`: which bytes of one value lie where, and which are lost.
//! - `copy`: the way out, into a [`SalvageSink`].
//! - `store`: a sink that fills a new store.
//!
//! Invariants:
//! - Nothing is written to the damaged store.
//! - What is given out as known matched its checksums, and is the state at the commit that the report names; what is not
//!   known is named, and never replaced by zeros or by something older. Where no tree of spaces is left
//!   ([`Origin::SpacesFound`]), each space is the state at some checkpoint, the newest that was found of it.

mod base;
mod copy;
mod log;
mod recovered;
mod salvage_state;
mod store;

use std::sync::Arc;

use bytes::Bytes;

pub use base::Origin;
use base::{Base, Found, Trees};
use log::Log;
use salvage_state::SalvageState;
pub use store::StoreSink;

use crate::batch::{Place, SpaceId, Version};
use crate::content::Reading;
use crate::device::{Device, ReadMode};
use crate::error::Result;
use crate::node_cache::NodeCache;
use crate::superblock::Superblock;
use crate::tree::value::Value;
use crate::tree::{Gap, NodeSource, ScanVisitor, StoreId, Tree};

/// Memory for index nodes, in bytes.
const CACHE_LEN: u64 = 64 << 20;

/// Takes what salvage gives out: spaces in the order of their ids, keys in order, the bytes of a value in order.
pub trait SalvageSink {
    /// A space begins.
    fn space(&mut self, space: SpaceId) -> Result<()>;

    /// A value of `size` bytes begins.
    fn begin(&mut self, at: &Place, size: u64) -> Result<()>;

    /// Its next bytes.
    fn bytes(&mut self, bytes: &[u8]) -> Result<()>;

    /// So many of its bytes are zeros that nobody wrote.
    fn zeros(&mut self, length: u64) -> Result<()>;

    /// So many of its bytes are lost.
    fn lost(&mut self, length: u64) -> Result<()>;

    /// The value is through.
    fn end(&mut self) -> Result<()>;

    /// Everything is through.
    fn finish(&mut self) -> Result<()>;
}

/// How far salvage is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SalvageProgress {
    /// Looking for index nodes: so many of so many bytes.
    Looking(u64, u64),
    /// Copying: so many keys, and so many bytes of values.
    Copying(u64, u64),
}

/// A value of which some bytes are lost.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PartialValue {
    /// Its key.
    pub at: Place,
    /// Its length.
    pub size: u64,
    /// What is lost of it: where each range begins and ends, in bytes.
    pub lost: Vec<(u64, u64)>,
}

/// Keys of a space that may have been there, of which nothing is known.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LostKeys {
    /// The space.
    pub space: SpaceId,
    /// The first key that may be lost.
    pub from: Bytes,
    /// All are below this; `None`: no end.
    pub end: Option<Bytes>,
    /// Why.
    pub reason: String,
}

/// What salvage gave out and what it could not.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SalvageReport {
    /// The store's id.
    pub store_id: u64,
    /// How its trees were found.
    pub origin: Origin,
    /// What was given out is the state after this commit.
    pub version: Version,
    /// Commits that were known durable and are not part of it, from the first to the last; what they
    /// changed is given out as it was before.
    pub commits_lost: Option<(Version, Version)>,
    /// Commits that were read from the log.
    pub commits_replayed: u64,
    /// Spaces given out.
    pub spaces: u64,
    /// Keys given out with all their bytes.
    pub keys_whole: u64,
    /// Bytes of values given out.
    pub data_len: u64,
    /// Keys of which only some bytes could be given out.
    pub partial: Vec<PartialValue>,
    /// Keys that are known by name, but not whether they are still there or with what.
    pub keys_unknown: Vec<Place>,
    /// Ranges of keys of which nothing is known but what was given out.
    pub keys_lost: Vec<LostKeys>,
    /// Values that lie in pieces and whose keys are among the lost ones.
    pub values_without_key: u64,
    /// Ids between which whole spaces may be lost (to below the second, if there is one).
    pub spaces_lost: Vec<(SpaceId, Option<SpaceId>)>,
    /// What else is wrong.
    pub complaints: Vec<String>,
}

impl SalvageReport {
    /// Whether nothing is missing.
    pub fn is_whole(&self) -> bool {
        self.commits_lost.is_none()
            && self.partial.is_empty()
            && self.keys_unknown.is_empty()
            && self.keys_lost.is_empty()
            && self.spaces_lost.is_empty()
    }
}

/// Copies what can be proven from the store on a device into a sink. The device is only read.
pub fn salvage(
    device: &Arc<dyn Device>,
    sink: &mut dyn SalvageSink,
    progress: &mut dyn FnMut(SalvageProgress),
) -> Result<SalvageReport> {
    let mut complaints = Vec::new();
    let superblocks = base::superblocks(device.as_ref(), &mut complaints)?;
    let (base, log) = match find(device, &superblocks)? {
        Some(found) => found,
        None => look(device, &mut complaints, progress)?,
    };
    let nodes = cache(device, base.store);
    let reading = Reading::new(&nodes, device.as_ref(), ReadMode::Direct);
    let mut report = SalvageReport {
        store_id: base.store.0,
        origin: base.origin,
        version: base.cut,
        commits_lost: None,
        commits_replayed: 0,
        spaces: 0,
        keys_whole: 0,
        data_len: 0,
        partial: Vec::new(),
        keys_unknown: Vec::new(),
        keys_lost: Vec::new(),
        values_without_key: 0,
        spaces_lost: Vec::new(),
        complaints,
    };
    let mut salvage_state = SalvageState::new(reading);
    settle(&mut salvage_state, base.trees, &mut report)?;
    replay(&mut salvage_state, &log, base.chain, &mut report);
    copy::copy(&mut salvage_state, sink, &mut report, progress)?;
    Ok(report)
}

fn cache(device: &Arc<dyn Device>, store: StoreId) -> NodeCache {
    NodeCache::new(Arc::clone(device), store, CACHE_LEN, ReadMode::Direct)
}

/// The state of a superblock, unless none of its trees can be read at all.
fn find(device: &Arc<dyn Device>, superblocks: &[Superblock]) -> Result<Option<(Base, Log)>> {
    let Some(newest) = superblocks.first() else { return Ok(None) };
    let store = StoreId(newest.store_id);
    let nodes = cache(device, store);
    let log = Log::read(device.as_ref(), Some(newest.ring), store)?;
    let base = base::choose(superblocks, &nodes, &log);
    let base = base.filter(|base| match &base.trees {
        Trees::Master(tree) => tree.stored().is_none_or(|root| nodes.load(&root).is_ok()),
        Trees::Spaces(_) => true,
    });
    Ok(base.map(|base| (base, log)))
}

/// The state of what is found by looking at every block.
fn look(
    device: &Arc<dyn Device>,
    complaints: &mut Vec<String>,
    progress: &mut dyn FnMut(SalvageProgress),
) -> Result<(Base, Log)> {
    let found = Found::look(device.as_ref(), &mut |done, total| progress(SalvageProgress::Looking(done, total)))?;
    let base = begin(device, &found)?.ok_or_else(base::nothing_found)?;
    complaints.push(match base.origin {
        Origin::LogAlone => "no superblock and no index node can be used: the store was made again from its log".into(),
        _ => "no superblock leads to the trees of the store: they were found by looking at every block".into(),
    });
    let log = Log::read(device.as_ref(), None, base.store)?;
    Ok((base, log))
}

/// Where to begin with what was found: with the store that was made last, where its log tells which that is.
fn begin(device: &Arc<dyn Device>, found: &Found) -> Result<Option<Base>> {
    let of_nodes = |store| found.base(store, &cache(device, store));
    let newest = Log::newest_store(device.as_ref())?;
    if let Some(store) = newest.filter(|store| found.has(*store)) {
        return Ok(of_nodes(store));
    }
    let young = Log::store_from_the_beginning(device.as_ref())?;
    let young = young.filter(|store| newest.is_none_or(|newest| newest == *store));
    match (young, found.store()) {
        (Some(store), _) if newest.is_some() => Ok(Some(base::of_log(store))),
        (_, Some(store)) => Ok(of_nodes(store)),
        (young, None) => Ok(young.map(base::of_log)),
    }
}

/// Takes the spaces of the base.
fn settle(salvage_state: &mut SalvageState<'_>, trees: Trees, report: &mut SalvageReport) -> Result<()> {
    let master = match trees {
        Trees::Spaces(spaces) => {
            spaces.into_iter().for_each(|(space, tree)| salvage_state.add(space, tree));
            report.spaces_lost.push((SpaceId::FIRST, None));
            return Ok(());
        }
        Trees::Master(master) => master,
    };
    struct Roots {
        roots: Vec<(SpaceId, Tree)>,
        lost: Vec<(SpaceId, Option<SpaceId>)>,
        complaints: Vec<String>,
    }
    impl ScanVisitor for Roots {
        fn entry(&mut self, key: &Bytes, value: &Value) -> Result<bool> {
            match (<[u8; 8]>::try_from(key.as_ref()), value) {
                (Ok(id), Value::Root(root)) => {
                    self.roots.push((SpaceId(u64::from_be_bytes(id)), root.tree.clone()));
                }
                _ => self.complaints.push("the tree of spaces has an entry that is no space's".into()),
            }
            Ok(true)
        }
        fn gap(&mut self, gap: Gap) -> Result<bool> {
            let id = |key: &[u8]| SpaceId(key.iter().chain(&[0; 8]).take(8).fold(0, |sum, b| sum << 8 | u64::from(*b)));
            self.lost.push((id(&gap.start), gap.end.as_deref().map(id)));
            self.complaints.push(gap.error.to_string());
            Ok(true)
        }
    }
    let mut roots = Roots { roots: Vec::new(), lost: Vec::new(), complaints: Vec::new() };
    master.scan(salvage_state.reading.source, &[], None, &mut roots)?;
    roots.roots.into_iter().for_each(|(space, tree)| salvage_state.add(space, tree));
    salvage_state.spaces_lost.clone_from(&roots.lost);
    report.spaces_lost = roots.lost;
    report.complaints.append(&mut roots.complaints);
    Ok(())
}

/// Applies the log as far as it goes.
fn replay(salvage_state: &mut SalvageState<'_>, log: &Log, chain: Option<(u64, u64)>, report: &mut SalvageReport) {
    let flushed = log.flushed();
    // Where every space is of a time of its own, a log that goes on from one time would mix them.
    let groups = if report.origin == Origin::SpacesFound { Vec::new() } else { log.follow(report.version, chain) };
    for group in groups {
        // Above what is known durable a group that does not hold was never acknowledged, nor any behind it.
        if group.last() > flushed && !group.holds(&salvage_state.reading) {
            break;
        }
        let applied = group.records().and_then(|records| {
            for record in &records {
                salvage_state.apply(record)?;
                report.version = record.version;
                report.commits_replayed += 1;
            }
            Ok(())
        });
        if let Err(error) = applied {
            report.complaints.push(format!("the log ends after commit {}: {error}", report.version.0));
            break;
        }
    }
    if report.version < flushed {
        report.commits_lost = Some((Version(report.version.0 + 1), flushed));
    }
}
