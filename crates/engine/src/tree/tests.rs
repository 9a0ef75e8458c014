//! The tree: what its tests stand on. A device in memory that knows which blocks are in use, and accounts of what a
//! tree reaches.

mod branch;
mod checkpoints;
mod cursors;
mod damage;
mod model;
mod packed;
mod prune;
mod remove;
mod shape;

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::sync::Arc;

use bytes::Bytes;
use parking_lot::Mutex;
use proptest::prelude::*;

use super::*;
use crate::ErrorKind;
use crate::Version;
use crate::address::{Generation, NodeRef};
use crate::device::BLOCK_LEN;
use crate::extent::Extent;
use crate::tree::value::{Pending, Piece, SpaceRoot};

const STORE: StoreId = StoreId(0xC0FFEE);

fn stamp(birth: Generation) -> Stamp {
    Stamp { birth, cut: Version(7), store: STORE }
}

/// Gives a node the checksum of its bytes, to reach the checks behind it.
fn seal(bytes: &mut [u8], start_block: u64, birth: Generation) -> NodeRef {
    let at = super::layout::reference(bytes, start_block, birth);
    bytes[32..40].copy_from_slice(&at.checksum.to_le_bytes());
    at
}

/// A device in memory that knows which blocks are in use and stops at a double free.
#[derive(Default)]
struct Disk {
    nodes: Mutex<HashMap<u64, Bytes>>,
    used: Mutex<BTreeSet<u64>>,
    next: Mutex<u64>,
    fail_loads: Mutex<Option<u32>>,
}

impl Disk {
    fn allocate(&self, blocks: u64) -> u64 {
        let mut next = self.next.lock();
        let start = *next;
        *next += blocks;
        self.used.lock().extend(start..*next);
        start
    }

    fn free(&self, start: u64, blocks: u64) {
        let mut used = self.used.lock();
        for block in start..start + blocks {
            assert!(used.remove(&block), "block {block} freed twice");
        }
    }

    fn free_node(&self, at: NodeRef) {
        self.free(at.start_block, at.blocks.into());
    }

    fn free_extent(&self, extent: &Extent) {
        self.free(extent.start_block, extent.blocks().count.into());
    }

    /// What a commit does once its edit is published.
    /// Gives the dirty_size of what had no place.
    fn release(&self, replaced: Vec<Replaced>) -> DirtySize {
        let mut dirty_size = DirtySize::default();
        for gone in &replaced {
            match gone.release(Version(1)) {
                Some(at) => self.free_node(at),
                None => dirty_size += gone.dirty_size().0,
            }
        }
        dirty_size
    }

    fn release_value(&self, old: &Value) {
        match old.piece() {
            Some(Piece::Disk(extent)) => self.free_extent(extent),
            Some(Piece::Pending(pending)) => {
                pending.placement.replace(Version(1)).iter().for_each(|at| self.free_extent(at))
            }
            _ => {}
        }
    }
}

impl NodeSource for Disk {
    fn load(&self, at: &NodeRef) -> Result<Arc<Node>> {
        if let Some(left) = self.fail_loads.lock().as_mut() {
            if *left == 0 {
                return Err(Error::damaged("told to fail"));
            }
            *left -= 1;
        }
        let bytes = self.nodes.lock().get(&at.start_block).cloned();
        Ok(Arc::new(Node::decode(bytes.expect("a written node"), at, STORE)?))
    }
}

struct Sink<'a>(&'a Disk);

impl NodeSink for Sink<'_> {
    fn source(&self) -> &dyn NodeSource {
        self.0
    }

    fn place_value(&mut self, pending: &Pending) -> Result<()> {
        let run_length = pending.bytes.len() as u32;
        let start_block = self.0.allocate(u64::from(run_length.div_ceil(BLOCK_LEN as u32)));
        let checksums = vec![7; run_length.div_ceil(4096) as usize].into();
        let birth = Generation(1);
        let extent = Extent { birth, start_block, run_length, skip: 0, length: run_length, chunk_log2: 12, checksums };
        if pending.placement.place(extent.clone()).is_some() {
            self.0.free_extent(&extent);
        }
        Ok(())
    }

    fn write_node(&mut self, mut encoded: Encoded) -> Result<()> {
        let start = self.0.allocate((encoded.bytes().len() / BLOCK_LEN) as u64);
        encoded.assign(start);
        self.0.nodes.lock().insert(start, encoded.bytes().clone());
        let at = encoded.at();
        let (node, by) = encoded.place();
        let read = Node::decode(self.0.nodes.lock()[&start].clone(), &at, STORE)?;
        assert_eq!(format!("{:?}", node?), format!("{read:?}"), "what is kept in memory is what would be read");
        if by.is_some() {
            self.0.free_node(at);
        }
        Ok(())
    }
}

/// Everything that a tree reaches on the device, and its entries.
struct Seen<'a> {
    disk: &'a Disk,
    blocks: BTreeSet<u64>,
    entries: u64,
}

impl Seen<'_> {
    fn add(&mut self, start: u64, blocks: u64) {
        for block in start..start + blocks {
            assert!(self.blocks.insert(block), "block {block} is reached twice");
        }
    }
}

impl ScanVisitor for Seen<'_> {
    fn node(&mut self, at: &NodeRef, _: bool) -> Result<Visit> {
        self.add(at.start_block, at.blocks.into());
        Ok(Visit::Into)
    }

    fn entry(&mut self, _: &Bytes, value: &Value) -> Result<bool> {
        self.entries += 1;
        match value.piece() {
            Some(Piece::Disk(extent)) => self.add(extent.start_block, extent.blocks().count.into()),
            Some(Piece::Pending(pending)) => {
                if let Some(extent) = pending.placement.placed() {
                    self.add(extent.start_block, extent.blocks().count.into());
                }
            }
            _ => {}
        }
        match value {
            Value::Root(root) => root.tree.scan(self.disk, &[], None, self),
            _ => Ok(true),
        }
    }

    fn gap(&mut self, gap: Gap) -> Result<bool> {
        Err(gap.error)
    }
}

fn seen<'a>(disk: &'a Disk, tree: &Tree) -> Seen<'a> {
    let mut seen = Seen { disk, blocks: BTreeSet::new(), entries: 0 };
    assert!(tree.scan(disk, &[], None, &mut seen).unwrap());
    seen
}

/// What a value says, whether in memory or placed.
fn content(value: &Value) -> (u8, Bytes) {
    match (value, value.piece()) {
        (Value::Raw(bytes), _) => (0, bytes.clone()),
        (_, Some(Piece::Pending(pending))) => (1, Bytes::from(pending.bytes.len().to_string())),
        (_, Some(Piece::Disk(extent))) => (1, Bytes::from(extent.length.to_string())),
        _ => (2, Bytes::new()),
    }
}

type Model = BTreeMap<Bytes, (u8, Bytes)>;

fn entries(disk: &Disk, tree: &Tree) -> Vec<(Bytes, (u8, Bytes))> {
    let mut cursor = tree.cursor(KeyRange::all());
    std::iter::from_fn(|| cursor.next(disk).unwrap()).map(|(key, value)| (key, content(&value))).collect()
}

fn same(disk: &Disk, tree: &Tree, model: &Model) {
    assert_eq!(tree.len(), model.len() as u64);
    assert!(entries(disk, tree).into_iter().eq(model.iter().map(|(k, v)| (k.clone(), v.clone()))));
    let mut cursor = tree.cursor(KeyRange::all());
    cursor.seek_end();
    let back = std::iter::from_fn(|| cursor.previous(disk).unwrap()).map(|(key, value)| (key, content(&value)));
    assert!(back.eq(model.iter().rev().map(|(k, v)| (k.clone(), v.clone()))));
}

fn key_of(number: u32, long: bool) -> Bytes {
    let mut key = format!("{:06}", number.wrapping_mul(7919) % 1_000_003).into_bytes();
    if long {
        let filler = (number as usize * 37) % (TREE_KEY_LEN_MAX - 6);
        key.splice(0..0, std::iter::repeat_n(b'x', filler * usize::from(number.is_multiple_of(3))));
    }
    key.into()
}

fn value_of(kind: u8, len: u16) -> Value {
    match kind % 3 {
        0 => Value::Raw(Bytes::from(vec![kind; usize::from(len) % 1500])),
        1 => Value::Piece(Piece::Pending(Arc::new(Pending::new(Bytes::from(vec![1; usize::from(len) + 1]))))),
        _ => Value::Raw(Bytes::from(vec![kind; usize::from(len) % 20])),
    }
}

/// The dirty_size of all nodes of a tree, and of the trees in it, that have no place yet.
fn unwritten_weight(disk: &Disk, tree: &Tree) -> DirtySize {
    fn sum(weights: impl Iterator<Item = DirtySize>) -> DirtySize {
        weights.fold(DirtySize::default(), |sum, dirty_size| sum + dirty_size)
    }
    fn below(disk: &Disk, child: &Child) -> DirtySize {
        let Child::Memory(node) = child else { return DirtySize::default() };
        if node.placed().is_some() {
            return DirtySize::default();
        }
        let whole = child.load(disk, None).unwrap();
        let below = match whole.opened().unwrap().as_ref() {
            node::Entries::Inner(run) => sum(run.iter().map(|entry| below(disk, &entry.1))),
            node::Entries::Leaf(run) => sum(run.iter().map(|entry| match &entry.1 {
                Value::Root(root) => unwritten_weight(disk, &root.tree),
                _ => DirtySize::default(),
            })),
        };
        node.dirty_size() + below
    }
    tree.root.as_ref().map_or(DirtySize::default(), |root| below(disk, root))
}
