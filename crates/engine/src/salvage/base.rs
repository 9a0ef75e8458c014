//! Where salvage begins: the trees of a superblock, or trees found by looking at every block.
//!
//! Invariants:
//! - A superblock counts before anything that was found by looking.
//! - A node counts only when it matches the checksum that its parent holds, or, where no parent is known, the one
//!   that it carries.
//! - Of several beginnings the one with the fewest unreadable nodes is taken, then the newest: the log makes up
//!   for an older one.

use std::collections::{BTreeMap, BTreeSet};

use bytes::Bytes;

use super::log::{Log, NOTHING_BEFORE};
use crate::address::NodeRef;
use crate::batch::{SpaceId, Version};
use crate::device::{BLOCK_LEN, Device, ReadMode};
use crate::error::{Error, ErrorKind, Result};
use crate::superblock::{Slot, Superblock, read_slots};
use crate::tree::value::Value;
use crate::tree::{Gap, NodeSource, ScanVisitor, StoreId, Tree, UnverifiedHeader};

/// How the trees were found.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Origin {
    /// By the newest superblock.
    NewestSuperblock,
    /// By the older superblock: the newer one is lost, or more below it is damaged.
    OlderSuperblock,
    /// No superblock can be used: by looking for the newest root of the tree of spaces.
    RootFound,
    /// No superblock can be used, and no index node was ever written or is left: by the log, which goes back to the
    /// store's first commit.
    LogAlone,
    /// No root of the tree of spaces is left either: by looking for the newest root of every space. Spaces that
    /// were dropped may be among them, others missing, and each is as old as its root; the log is not applied.
    SpacesFound,
}

/// A state to begin with.
pub(super) struct Base {
    pub origin: Origin,
    pub store: StoreId,
    /// The last commit that it holds.
    pub cut: Version,
    /// The tree of spaces, or the spaces themselves.
    pub trees: Trees,
    /// The checksum of the group before the first that counts, and the epoch, where they are known.
    pub chain: Option<(u64, u64)>,
}

pub(super) enum Trees {
    Master(Tree),
    Spaces(BTreeMap<SpaceId, Tree>),
}

/// Reads both superblocks: those that can be used, newest first.
pub(super) fn superblocks(device: &dyn Device, complaints: &mut Vec<String>) -> Result<Vec<Superblock>> {
    let mut found = Vec::new();
    for (slot, read) in [Slot::First, Slot::Second].into_iter().zip(read_slots(device)?) {
        match read {
            Ok(superblock) => found.push(superblock),
            Err(error) => complaints.push(format!("superblock at byte {}: {error}", slot.offset())),
        }
    }
    found.sort_by_key(|superblock| std::cmp::Reverse(superblock.sequence));
    found.first().map_or(Ok(()), |newest| newest.check_features(false))?;
    Ok(found)
}

/// The state that a superblock names.
pub(super) fn of_superblock(superblock: &Superblock, origin: Origin) -> Base {
    let master = superblock.root.map_or_else(Tree::new, |root| Tree::at(root, superblock.root_entries));
    Base {
        origin,
        store: StoreId(superblock.store_id),
        cut: superblock.cut,
        trees: Trees::Master(master),
        chain: Some((superblock.chain, superblock.epoch)),
    }
}

/// Chooses between the superblocks: the older one only when it gives more, and the log reaches on from it.
pub(super) fn choose(superblocks: &[Superblock], source: &dyn NodeSource, log: &Log) -> Option<Base> {
    let newest = superblocks.first()?;
    let base = of_superblock(newest, Origin::NewestSuperblock);
    let Some(older) = superblocks.get(1) else { return Some(base) };
    let missing = unreadable(&base.trees, source);
    if missing == 0 {
        return Some(base);
    }
    let other = of_superblock(older, Origin::OlderSuperblock);
    let reaches = log.follow(other.cut, other.chain).last().map_or(other.cut, |group| group.last());
    if reaches >= newest.cut && unreadable(&other.trees, source) < missing { Some(other) } else { Some(base) }
}

/// Counts the nodes that cannot be read, each once however many trees share it.
pub(super) fn unreadable(trees: &Trees, source: &dyn NodeSource) -> usize {
    struct Count<'a> {
        source: &'a dyn NodeSource,
        gaps: BTreeSet<Option<u64>>,
    }
    impl ScanVisitor for Count<'_> {
        fn entry(&mut self, _: &Bytes, value: &Value) -> Result<bool> {
            if let Value::Root(root) = value {
                root.tree.scan(self.source, &[], None, self)?;
            }
            Ok(true)
        }
        fn gap(&mut self, gap: Gap) -> Result<bool> {
            self.gaps.insert(gap.at.map(|at| at.start_block));
            Ok(true)
        }
    }
    let mut count = Count { source, gaps: BTreeSet::new() };
    let toured = match trees {
        Trees::Master(tree) => tree.scan(source, &[], None, &mut count).map(|_| ()),
        Trees::Spaces(spaces) => {
            spaces.values().try_for_each(|tree| tree.scan(source, &[], None, &mut count).map(|_| ()))
        }
    };
    debug_assert!(toured.is_ok(), "the count has no errors of its own");
    count.gaps.len()
}

/// A node that proved itself.
#[derive(Clone, Copy, Debug)]
struct Proven {
    at: NodeRef,
    space: SpaceId,
    cut: Version,
    level: u8,
    is_root: bool,
}

/// So many of the newest roots are compared.
const ROOTS_COMPARED: usize = 4;

/// All nodes that proved themselves, by store.
#[derive(Default)]
pub(super) struct Found {
    by_store: BTreeMap<StoreId, Vec<Proven>>,
}

impl Found {
    /// Looks at every block of the device.
    pub fn look(device: &dyn Device, progress: &mut dyn FnMut(u64, u64)) -> Result<Found> {
        let length = device.len().map_err(|e| Error::device("cannot tell the length of the device", e))?;
        let blocks = length / BLOCK_LEN as u64;
        let mut found = Found::default();
        let mut block = vec![0; BLOCK_LEN];
        for at in 0..blocks {
            if at % 1024 == 0 {
                progress(at * BLOCK_LEN as u64, length);
            }
            let offset = at * BLOCK_LEN as u64;
            // Many small reads through the page cache, which reads ahead; what looks like a node is read past it.
            if device.read_at(&mut block, offset, ReadMode::Cached).is_err() {
                continue;
            }
            let Some(claim) = UnverifiedHeader::read(&block, at) else { continue };
            let mut bytes = vec![0; claim.at.len_bytes()];
            if device.read_at(&mut bytes, offset, ReadMode::Direct).is_err() {
                continue;
            }
            if let Ok(node) = claim.verify(Bytes::from(bytes)) {
                let UnverifiedHeader { at, space, cut, is_root, .. } = claim;
                let proven = Proven { at, space, cut, level: node.level(), is_root };
                found.by_store.entry(claim.store).or_default().push(proven);
            }
        }
        progress(length, length);
        Ok(found)
    }

    /// Whether nodes of a store were found.
    pub fn has(&self, store: StoreId) -> bool {
        self.by_store.contains_key(&store)
    }

    /// The store that has the most nodes.
    pub fn store(&self) -> Option<StoreId> {
        self.by_store.iter().max_by_key(|(_, nodes)| nodes.len()).map(|(store, _)| *store)
    }

    /// The state with the fewest unreadable nodes among the newest of a store.
    pub fn base(&self, store: StoreId, source: &dyn NodeSource) -> Option<Base> {
        let nodes = self.by_store.get(&store)?;
        let cut = nodes.iter().map(|node| node.cut).max()?;
        if let Some(root) = best_root(nodes, SpaceId(0), source) {
            let trees = Trees::Master(Tree::at(root.at, 0));
            return Some(Base { origin: Origin::RootFound, store, cut: root.cut, trees, chain: None });
        }
        let ids: BTreeSet<SpaceId> = nodes.iter().map(|node| node.space).collect();
        let roots = ids.into_iter().filter_map(|id| Some((id, Tree::at(best_root(nodes, id, source)?.at, 0))));
        let trees = Trees::Spaces(roots.collect());
        Some(Base { origin: Origin::SpacesFound, store, cut, trees, chain: None })
    }
}

/// Of the newest roots of a space that with the fewest unreadable nodes.
fn best_root(nodes: &[Proven], space: SpaceId, source: &dyn NodeSource) -> Option<Proven> {
    let of_space = || nodes.iter().filter(|node| node.space == space);
    let mut roots: Vec<Proven> = of_space().filter(|node| node.is_root).copied().collect();
    // Nodes of format 0 do not say it, where nothing does: what lies highest is a root then, since a checkpoint that
    // changed a space wrote its root anew and nothing of its level beside it.
    if !nodes.iter().any(|node| node.is_root) {
        let top = of_space().map(|node| node.level).max()?;
        roots = of_space().filter(|node| node.level == top).copied().collect();
    }
    roots.sort_by_key(|root| std::cmp::Reverse(root.at.birth));
    roots.truncate(ROOTS_COMPARED);
    let missing = |root: &Proven| unreadable(&Trees::Master(Tree::at(root.at, 0)), source);
    // The first of those with the same number: the newest.
    roots.into_iter().min_by_key(missing)
}

/// An empty store, for a log that tells everything that came to be in it.
pub(super) fn of_log(store: StoreId) -> Base {
    let (trees, chain) = (Trees::Master(Tree::new()), Some((NOTHING_BEFORE, 0)));
    Base { origin: Origin::LogAlone, store, cut: Version(0), trees, chain }
}

/// What to say when there is nothing to begin with.
pub(super) fn nothing_found() -> Error {
    Error::new(
        ErrorKind::Unknown,
        "nothing to salvage: no superblock can be used, no index node of a store was found on it, and no log from its beginning",
    )
}
