//! The tree against a model: histories with held clones, checkpoints, reloads, and accounts of blocks.

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::sync::Arc;

use bytes::Bytes;
use parking_lot::Mutex;
use proptest::prelude::*;

use super::*;
use crate::ErrorKind;
use crate::Version;
use crate::device::BLOCK_LEN;
use crate::value::{Extent, Pending, Piece, SpaceRoot};

const STORE: StoreId = StoreId(0xC0FFEE);

fn stamp(birth: Generation) -> Stamp {
    Stamp { birth, cut: Version(7), store: STORE }
}

/// Gives a node the checksum of its bytes, to reach the checks behind it.
fn seal(bytes: &mut [u8], start_block: u64, birth: Generation) -> NodeRef {
    let at = NodeRef::of(bytes, start_block, birth);
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
    fn release(&self, replaced: Vec<Replaced>) {
        replaced.iter().filter_map(|r| r.release(Version(1))).for_each(|at| self.free_node(at));
    }

    fn release_value(&self, old: &Value) {
        match old.piece() {
            Some(Piece::Disk(extent)) => self.free_extent(extent),
            Some(Piece::Pending(pending)) => {
                pending.fate.replace(Version(1)).iter().for_each(|at| self.free_extent(at))
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
    fn place_value(&mut self, pending: &Pending) -> Result<()> {
        let run_length = pending.bytes.len() as u32;
        let start_block = self.0.allocate(u64::from(run_length.div_ceil(BLOCK_LEN as u32)));
        let checksums = vec![7; run_length.div_ceil(4096) as usize].into();
        let birth = Generation(1);
        let extent = Extent { birth, start_block, run_length, skip: 0, length: run_length, chunk_log2: 12, checksums };
        if pending.fate.place(extent.clone()).is_some() {
            self.0.free_extent(&extent);
        }
        Ok(())
    }

    fn write_node(&mut self, encoded: Vec<u8>) -> Result<u64> {
        let start = self.0.allocate((encoded.len() / BLOCK_LEN) as u64);
        self.0.nodes.lock().insert(start, encoded.into());
        Ok(start)
    }

    fn unneeded(&mut self, at: NodeRef, _: Version) {
        self.0.free_node(at);
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

impl Visitor for Seen<'_> {
    fn node(&mut self, at: &NodeRef) -> Result<Visit> {
        self.add(at.start_block, at.blocks.into());
        Ok(Visit::Into)
    }

    fn entry(&mut self, _: &Bytes, value: &Value) -> Result<()> {
        self.entries += 1;
        match value.piece() {
            Some(Piece::Disk(extent)) => self.add(extent.start_block, extent.blocks().count.into()),
            Some(Piece::Pending(pending)) => {
                if let Some(extent) = pending.fate.placed() {
                    self.add(extent.start_block, extent.blocks().count.into());
                }
            }
            _ => {}
        }
        match value {
            Value::Root(root) => walk(&root.tree, self.disk, self),
            _ => Ok(()),
        }
    }
}

fn seen<'a>(disk: &'a Disk, tree: &Tree) -> Seen<'a> {
    let mut seen = Seen { disk, blocks: BTreeSet::new(), entries: 0 };
    walk(tree, disk, &mut seen).unwrap();
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

#[derive(Clone, Debug)]
enum Step {
    Put(u32, u8, u16),
    Remove(u32),
    RemoveSome(u16),
    Hold,
    Freeze,
    Finish,
    Reload,
    FailedEdit(u32),
}

fn step() -> impl Strategy<Value = Step> {
    prop_oneof![
        40 => (0u32..2000, any::<u8>(), any::<u16>()).prop_map(|(key, kind, len)| Step::Put(key, kind, len)),
        12 => (0u32..2000).prop_map(Step::Remove),
        3 => any::<u16>().prop_map(Step::RemoveSome),
        3 => Just(Step::Hold),
        2 => Just(Step::Freeze),
        2 => Just(Step::Finish),
        1 => Just(Step::Reload),
        3 => (0u32..6).prop_map(Step::FailedEdit),
    ]
}

/// One store: a tree, its model, clones held with theirs, and at most one checkpoint under way.
#[derive(Default)]
struct World {
    disk: Disk,
    tree: Tree,
    model: Model,
    held: Vec<(Tree, Model)>,
    frozen: Option<(Tree, Model)>,
    version: u64,
    long: bool,
}

impl World {
    /// The tree to edit: sometimes the only one, so that it changes in place.
    fn working(&mut self, number: usize) -> Tree {
        if number.is_multiple_of(2) { std::mem::take(&mut self.tree) } else { self.tree.clone() }
    }

    fn put(&mut self, number: u32, value: Value) {
        let key = key_of(number, self.long);
        let mut next = self.working(value.encoded_len());
        let mut edit = Edit::new(&self.disk);
        let old = next.insert(&mut edit, key.clone(), value.clone()).unwrap();
        assert_eq!(old.as_ref().map(content), self.model.insert(key, content(&value)));
        self.disk.release(edit.replaced);
        old.iter().for_each(|old| self.disk.release_value(old));
        self.tree = next;
    }

    fn remove(&mut self, key: &[u8]) {
        let mut next = self.working(key.iter().map(|byte| usize::from(*byte)).sum());
        let mut edit = Edit::new(&self.disk);
        let old = next.remove(&mut edit, key).unwrap();
        assert_eq!(old.as_ref().map(content), self.model.remove(key));
        self.disk.release(edit.replaced);
        old.iter().for_each(|old| self.disk.release_value(old));
        self.tree = next;
    }

    /// Changes a clone until a load fails and drops it: nothing may have happened.
    fn failed_edit(&mut self, loads: u32) {
        *self.disk.fail_loads.lock() = Some(loads);
        let mut edit = Edit::new(&self.disk);
        let mut next = self.tree.clone();
        let keys: Vec<Bytes> = self.model.keys().step_by(3).cloned().collect();
        for key in keys {
            let done = if key.len() % 2 == 0 {
                next.remove(&mut edit, &key)
            } else {
                next.insert(&mut edit, key, value_of(1, 99))
            };
            if done.is_err() {
                break;
            }
        }
        drop((next, edit));
        *self.disk.fail_loads.lock() = None;
    }

    fn finish(&mut self) {
        let Some((frozen, model)) = self.frozen.take() else { return };
        self.version += 1;
        let at = write_dirty(&frozen, stamp(Generation(self.version)), &mut Sink(&self.disk)).unwrap();
        assert_eq!(at, frozen.stored());
        same(&self.disk, &frozen, &model);
        // What was written says the same when nothing of it is in memory.
        if let Some(at) = at {
            same(&self.disk, &Tree::at(at, frozen.len()), &model);
        }
    }

    /// Writes everything and goes on from the device alone; only what is reached may be in use.
    fn reload(&mut self) {
        self.finish();
        self.frozen = Some((self.tree.clone(), self.model.clone()));
        self.finish();
        self.tree = self.tree.stored().map_or_else(Tree::new, |at| Tree::at(at, self.tree.len()));
        let seen = seen(&self.disk, &self.tree);
        assert_eq!(seen.entries, self.tree.len());
        assert_eq!(seen.blocks, *self.disk.used.lock());
    }

    fn run(&mut self, step: &Step) {
        match step {
            Step::Put(number, kind, len) => self.put(*number, value_of(*kind, *len)),
            Step::Remove(number) => self.remove(&key_of(*number, self.long)),
            Step::RemoveSome(at) => {
                let skip = usize::from(*at) % (self.model.len() + 1);
                let keys: Vec<Bytes> = self.model.keys().skip(skip).take(60).cloned().collect();
                keys.iter().for_each(|key| self.remove(key));
            }
            Step::Hold => {
                self.held.push((self.tree.clone(), self.model.clone()));
                if self.held.len() > 3 {
                    self.held.remove(0);
                }
            }
            Step::Freeze if self.frozen.is_none() => self.frozen = Some((self.tree.clone(), self.model.clone())),
            Step::Freeze => {}
            Step::Finish => self.finish(),
            Step::Reload => self.reload(),
            Step::FailedEdit(loads) => self.failed_edit(*loads),
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 24, ..ProptestConfig::default() })]

    #[test]
    fn a_tree_is_a_map_whose_clones_stay_and_whose_blocks_are_accounted_for(
        long in any::<bool>(),
        start in 0u32..900,
        steps in prop::collection::vec(step(), 1..900),
    ) {
        let mut world = World { long, ..World::default() };
        (0..start).for_each(|number| world.put(number, value_of(number as u8, number as u16)));
        for step in &steps {
            world.run(step);
        }
        for (tree, model) in &world.held {
            same(&world.disk, tree, model);
        }
        same(&world.disk, &world.tree, &world.model);
        world.reload();
        let keys: Vec<Bytes> = world.model.keys().cloned().collect();
        keys.iter().step_by(2).chain(keys.iter().skip(1).step_by(2)).for_each(|key| world.remove(key));
        prop_assert!(world.tree.is_empty());
        prop_assert!(world.disk.used.lock().is_empty());
    }

    #[test]
    fn cursors_go_both_ways_from_anywhere(
        keys in prop::collection::btree_set(0u32..5000, 0..1500),
        moves in prop::collection::vec((0u8..8, 0u32..5000), 1..120),
        bounds in (0u32..5000, prop::option::of(0u32..5000)),
        stored in any::<bool>(),
    ) {
        let disk = Disk::default();
        let name = |number: u32| Bytes::from(format!("{number:04}{}", "k".repeat(number as usize % 90)));
        let mut tree = Tree::new();
        let mut edit = Edit::new(&disk);
        for number in &keys {
            tree.insert(&mut edit, name(*number), value_of(0, 64)).unwrap();
        }
        if stored && let Some(at) = write_dirty(&tree, stamp(Generation(1)), &mut Sink(&disk)).unwrap() {
            tree = Tree::at(at, tree.len());
        }
        let range = KeyRange { start: name(bounds.0), end: bounds.1.map(name) };
        let inside: Vec<Bytes> = keys.iter().map(|n| name(*n)).filter(|key| range.contains(key)).collect();
        let mut cursor = tree.cursor(range);
        let mut gap = 0;
        for (what, number) in moves {
            match what {
                0 => {
                    cursor.seek(&name(number));
                    gap = inside.partition_point(|key| *key < name(number));
                }
                1 => { cursor.seek_end(); gap = inside.len(); }
                2..=4 => {
                    *disk.fail_loads.lock() = if number % 4 == 0 { Some(0) } else { None };
                    let mut step = cursor.next(&disk);
                    *disk.fail_loads.lock() = None;
                    if step.is_err() { step = cursor.next(&disk); }
                    prop_assert_eq!(step.unwrap().map(|e| e.0), inside.get(gap).cloned());
                    gap = (gap + 1).min(inside.len());
                }
                _ => {
                    *disk.fail_loads.lock() = if number % 4 == 0 { Some(0) } else { None };
                    let mut step = cursor.previous(&disk);
                    *disk.fail_loads.lock() = None;
                    if step.is_err() { step = cursor.previous(&disk); }
                    prop_assert_eq!(step.unwrap().map(|e| e.0), gap.checked_sub(1).and_then(|at| inside.get(at)).cloned());
                    gap = gap.saturating_sub(1);
                }
            }
        }
        for number in [0, 17, 2500, 4999] {
            let at = tree.first_at_or_after(&disk, &name(number)).unwrap().map(|e| e.0);
            prop_assert_eq!(at, keys.iter().map(|n| name(*n)).find(|key| *key >= name(number)));
            let before = tree.last_before(&disk, &name(number)).unwrap().map(|e| e.0);
            prop_assert_eq!(before, keys.iter().rev().map(|n| name(*n)).find(|key| *key < name(number)));
        }
    }

    #[test]
    fn damage_of_a_node_is_found(flips in prop::collection::vec((any::<prop::sample::Index>(), 1u8..), 1..4), fixed in any::<bool>()) {
        let disk = Disk::default();
        let mut tree = Tree::new();
        for number in 0..400 {
            tree.insert(&mut Edit::new(&disk), key_of(number, true), value_of(number as u8, 40)).unwrap();
        }
        let at = write_dirty(&tree, stamp(Generation(3)), &mut Sink(&disk)).unwrap().unwrap();
        for (start, bytes) in disk.nodes.lock().iter() {
            let whole = NodeRef::of(bytes, *start, Generation(3));
            let mut wrong = bytes.to_vec();
            for (index, flip) in &flips {
                // Half of the time only where something is written, to reach the checks behind the checksum.
                let reach = if fixed { wrong.len().min(300) } else { wrong.len() };
                wrong[index.index(reach)] ^= flip;
            }
            if wrong == *bytes {
                continue;
            }
            let named = if fixed { seal(&mut wrong, *start, Generation(3)) } else { whole };
            match Node::decode(wrong.into(), &named, STORE) {
                Ok(_) => prop_assert!(fixed),
                Err(error) => {
                    prop_assert_eq!(error.kind(), ErrorKind::Damaged);
                    let place = format!("block {start}");
                    prop_assert!(error.message().contains(&place));
                }
            }
        }
        let bytes = disk.nodes.lock()[&at.start_block].clone();
        for (other, store) in [
            (NodeRef { birth: Generation(4), ..at }, STORE),
            (NodeRef { checksum: 0, ..at }, STORE),
            (NodeRef { blocks: at.blocks + 1, ..at }, STORE),
            (at, StoreId(1)),
        ] {
            prop_assert!(Node::decode(bytes.clone(), &other, store).is_err());
        }
    }

    #[test]
    fn noise_is_no_node(bytes in prop::collection::vec(any::<u8>(), 0..200)) {
        let mut block = vec![0; BLOCK_LEN];
        block[..8].copy_from_slice(&[b'N', b'O', b'D', b'E', 0, 1 + (bytes.len() % 2) as u8, (bytes.len() % 2) as u8, 0]);
        block[8] = 2;
        block[12..14].copy_from_slice(&(bytes.len() as u16).to_le_bytes());
        block[16..24].copy_from_slice(&5u64.to_le_bytes());
        block[24..32].copy_from_slice(&STORE.0.to_le_bytes());
        block[NODE_HEADER_LEN..NODE_HEADER_LEN + bytes.len()].copy_from_slice(&bytes);
        let at = seal(&mut block, 9, Generation(5));
        if let Err(error) = Node::decode(block.into(), &at, STORE) {
            prop_assert_eq!(error.kind(), ErrorKind::Damaged);
        }
    }
}

#[test]
fn ascending_keys_fill_their_nodes() {
    let disk = Disk::default();
    let mut tree = Tree::new();
    let mut edit = Edit::new(&disk);
    for number in 0..50_000u64 {
        tree.insert(&mut edit, Bytes::copy_from_slice(&number.to_be_bytes()), Value::Raw(Bytes::from_static(&[0; 51])))
            .unwrap();
    }
    assert!(edit.replaced.is_empty(), "nobody else saw these nodes");
    write_dirty(&tree, stamp(Generation(1)), &mut Sink(&disk)).unwrap();
    let lower_bound = 50_000 * (4 + 8 + 52) / NODE_LEN_MAX;
    let nodes = disk.nodes.lock().len();
    assert!(nodes <= lower_bound + lower_bound / 20, "{nodes} nodes for what fits into {lower_bound}");
}

#[test]
fn nodes_join_when_most_keys_go() {
    let disk = Disk::default();
    let mut tree = Tree::new();
    let mut edit = Edit::new(&disk);
    for number in 0..20_000 {
        tree.insert(&mut edit, key_of(number, false), value_of(0, 100)).unwrap();
    }
    for number in (0..20_000u32).filter(|number| !number.is_multiple_of(20)) {
        assert!(tree.remove(&mut edit, &key_of(number, false)).unwrap().is_some());
    }
    write_dirty(&tree, stamp(Generation(1)), &mut Sink(&disk)).unwrap();
    // At least a quarter of each node is in use, but for the last ones of a parent.
    let bytes = 1000 * (4 + 6 + 101);
    let nodes = disk.nodes.lock().len();
    assert!(nodes <= bytes * 4 / NODE_LEN_MAX + 3, "{nodes} nodes for {bytes} bytes");
}

#[test]
fn longest_entries_fit_and_longer_ones_are_refused() {
    let disk = Disk::default();
    let mut tree = Tree::new();
    let mut edit = Edit::new(&disk);
    for number in 0..60u8 {
        let mut key = vec![b'k'; TREE_KEY_LEN_MAX];
        key[TREE_KEY_LEN_MAX - 1 - usize::from(number) % 7 * 100] = number;
        let value = Value::Raw(vec![number; TREE_VALUE_LEN_MAX - 1].into());
        tree.insert(&mut edit, key.into(), value).unwrap();
    }
    assert_eq!(tree.len(), 60);
    let at = write_dirty(&tree, stamp(Generation(1)), &mut Sink(&disk)).unwrap().unwrap();
    assert_eq!(entries(&disk, &Tree::at(at, 60)).len(), 60);
    let long = tree.insert(&mut edit, vec![0; TREE_KEY_LEN_MAX + 1].into(), value_of(0, 1)).unwrap_err();
    assert_eq!(long.kind(), ErrorKind::Invalid);
    let long = tree.insert(&mut edit, Bytes::new(), Value::Raw(vec![0; TREE_VALUE_LEN_MAX].into())).unwrap_err();
    assert_eq!(long.kind(), ErrorKind::Invalid);
}

#[test]
fn a_tree_of_trees_is_written_with_its_leaves_and_accounted_for() {
    let disk = Disk::default();
    let mut master = Tree::new();
    for round in 1..40u64 {
        let mut edit = Edit::new(&disk);
        let mut next = master.clone();
        for space in [round % 3, 7] {
            let id = Bytes::copy_from_slice(&space.to_be_bytes());
            let mut root = match next.get(&disk, &id).unwrap() {
                Some(Value::Root(root)) => root,
                _ => SpaceRoot::new(Version(round)),
            };
            for number in 0..30 {
                let old =
                    root.tree.insert(&mut edit, key_of(number * round as u32 % 600, false), value_of(1, 9000)).unwrap();
                old.iter().for_each(|old| disk.release_value(old));
            }
            next.insert(&mut edit, id, Value::Root(root)).unwrap();
        }
        disk.release(edit.replaced);
        master = next;
        if round % 4 == 0 {
            let at = write_dirty(&master, stamp(Generation(round)), &mut Sink(&disk)).unwrap().unwrap();
            assert_eq!(
                write_dirty(&master, stamp(Generation(99)), &mut Sink(&disk)).unwrap(),
                Some(at),
                "nothing is written twice"
            );
            let reached = seen(&disk, &Tree::at(at, master.len()));
            assert_eq!(reached.blocks, *disk.used.lock());
            assert_eq!(seen(&disk, &master).blocks, reached.blocks);
        }
    }
}

#[test]
fn what_was_written_leaves_memory_while_edits_go_on() {
    fn in_memory(tree: &Tree) -> usize {
        fn count(child: &Child) -> usize {
            match child {
                Child::Disk(_) => 0,
                Child::Memory(node) => match &node.body {
                    Body::Leaf(_) => 1,
                    Body::Inner(run) => 1 + run.iter().map(|entry| count(&entry.1)).sum::<usize>(),
                },
            }
        }
        tree.root.as_ref().map_or(0, count)
    }
    let disk = Disk::default();
    let mut tree = Tree::new();
    let mut most = 0;
    for round in 0..60u64 {
        // The frozen root is edited before it is written, so no edit ever meets a root that has its place.
        let frozen = tree.clone();
        for number in 0..200u64 {
            let mut next = tree.clone();
            let mut edit = Edit::new(&disk);
            let key = Bytes::copy_from_slice(&(round * 200 + number).to_be_bytes());
            next.insert(&mut edit, key, Value::Raw(Bytes::from(vec![1; 900]))).unwrap();
            disk.release(edit.replaced);
            tree = next;
            if number == 20 {
                write_dirty(&frozen, stamp(Generation(round)), &mut Sink(&disk)).unwrap();
            }
        }
        most = most.max(in_memory(&tree));
    }
    let all = tree.len() as usize * 900 / NODE_LEN_MAX;
    assert!(most < 60, "{most} nodes in memory of {all}");
    assert_eq!(seen(&disk, &tree).entries, 12_000);
}

#[test]
fn readers_and_a_checkpoint_run_beside_edits() {
    let disk = Disk::default();
    let mut tree = Tree::new();
    for round in 1..30u64 {
        let frozen = tree.clone();
        std::thread::scope(|scope| {
            let writer = scope.spawn(|| write_dirty(&frozen, stamp(Generation(round)), &mut Sink(&disk)).unwrap());
            for number in 0..100u32 {
                let mut edit = Edit::new(&disk);
                let mut next = tree.clone();
                let old = next
                    .insert(&mut edit, key_of(number * 31 % 977 + round as u32, false), value_of(number as u8, 3000))
                    .unwrap();
                disk.release(edit.replaced);
                old.iter().for_each(|old| disk.release_value(old));
                tree = next;
            }
            assert_eq!(writer.join().unwrap(), frozen.stored());
        });
    }
    write_dirty(&tree, stamp(Generation(99)), &mut Sink(&disk)).unwrap();
    assert_eq!(seen(&disk, &tree).blocks, *disk.used.lock());
}
