//! Look-ups of absent keys read nothing; those of keys that are there always find them, whatever happens meanwhile.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use koine_env::{Random, SeededRandom};

use super::*;
use crate::batch::{Batch, Condition, KeyRange, Operation, Payload, Place};
use crate::device::{Device, MemoryDevice, ReadMode, pass_on};
use crate::engine::Engine;
use crate::options::{Background, Options};
use crate::view::View;
use crate::{Durability, FormatOptions, Sources};

const SPACE: SpaceId = SpaceId(20);
const OTHER: SpaceId = SpaceId(21);
/// Far more than the cache holds.
const KEYS: u64 = 24_000;

/// A device that counts reads.
struct Counting {
    memory: Arc<MemoryDevice>,
    reads: AtomicU64,
}

impl Device for Counting {
    pass_on!(memory: len, grow, holds, write_at, sync, discard, close, is_fixed);

    fn read_at(&self, buffer: &mut [u8], offset: u64, mode: ReadMode) -> std::io::Result<()> {
        self.reads.fetch_add(1, Ordering::Relaxed);
        self.memory.read_at(buffer, offset, mode)
    }
}

struct Store {
    device: Arc<Counting>,
    engine: Engine,
}

fn open(memory: &Arc<MemoryDevice>, filters: bool, background: Background) -> Store {
    memory.reopen();
    let device = Arc::new(Counting { memory: Arc::clone(memory), reads: AtomicU64::new(0) });
    let options = Options { background, filters, memory_len: 1 << 20, ..Options::default() };
    Store { engine: Engine::open(Arc::clone(&device) as _, options).unwrap(), device }
}

fn key(number: u64) -> String {
    // Scattered, so that neighbours in time are none in the tree.
    format!("{:016x}", number.wrapping_mul(0x9e37_79b9_7f4a_7c15))
}

impl Store {
    fn new(filters: bool, background: Background) -> (Arc<MemoryDevice>, Store) {
        let memory = Arc::new(MemoryDevice::fixed(256 << 20));
        Engine::format(memory.as_ref(), FormatOptions::default(), &SeededRandom::new(1)).unwrap();
        let store = open(&memory, filters, background);
        store.commit(Batch::new().then(Operation::CreateSpace { space: SPACE }));
        (memory, store)
    }

    fn commit(&self, batch: Batch) {
        self.engine.commit(batch, Durability::Memory).unwrap();
    }

    fn fill(&self, numbers: std::ops::Range<u64>) {
        let numbers: Vec<u64> = numbers.collect();
        for part in numbers.chunks(500) {
            self.commit(part.iter().fold(Batch::new(), |batch, number| batch.put(SPACE, key(*number), vec![7; 100])));
        }
        self.engine.checkpoint().unwrap();
    }

    /// Device reads that some work makes.
    fn reads(&self, work: impl FnOnce()) -> u64 {
        let before = self.device.reads.load(Ordering::Relaxed);
        work();
        self.device.reads.load(Ordering::Relaxed) - before
    }

    fn look(&self, numbers: std::ops::Range<u64>) -> usize {
        let view = self.engine.view();
        numbers.filter(|number| view.stat(SPACE, key(*number).as_bytes()).unwrap().is_some()).count()
    }

    fn is_complete(&self, space: SpaceId) -> bool {
        let core = self.engine.shared();
        matches!(core.filters.spaces.read().known.get(&space), Some(Knowledge::Complete(..)))
    }
}

#[test]
fn look_ups_of_absent_keys_read_nothing() {
    let (_memory, store) = Store::new(true, Background::Manual);
    store.fill(0..KEYS);
    let absent = store.reads(|| assert_eq!(store.look(KEYS..KEYS + 2000), 0));
    assert!(absent < 20, "{absent} reads for 2000 look-ups");
    let refused = store.reads(|| {
        for number in KEYS..KEYS + 2000 {
            let batch = Batch::new().when(Condition::Present { space: SPACE, key: key(number).into() });
            store.engine.commit(batch, Durability::Memory).unwrap_err();
        }
    });
    assert!(refused < 20, "{refused} reads for 2000 conditions");
    let there = store.reads(|| assert_eq!(store.look(0..2000), 2000));
    assert!(there > 500, "{there} reads for keys that are there: the test would show nothing");

    let (_memory, without) = Store::new(false, Background::Manual);
    without.fill(0..KEYS);
    let reads = without.reads(|| assert_eq!(without.look(KEYS..KEYS + 2000), 0));
    assert!(reads > 500, "{reads} reads without filters");
}

#[test]
fn what_was_deleted_is_read_for_no_more_and_older_views_see_it() {
    let (_memory, store) = Store::new(true, Background::Manual);
    store.fill(0..KEYS);
    let before = store.engine.view();
    for part in (0..5000).collect::<Vec<u64>>().chunks(500) {
        store.commit(part.iter().fold(Batch::new(), |batch, number| batch.delete(SPACE, key(*number))));
    }
    store.engine.checkpoint().unwrap();
    assert!((0..5000).all(|number| before.stat(SPACE, key(number).as_bytes()).unwrap().is_some()));
    drop(before);
    let absent = store.reads(|| assert_eq!(store.look(0..5000), 0));
    assert!(absent < 50, "{absent} reads for 5000 look-ups");
    assert_eq!(store.look(5000..KEYS), (KEYS - 5000) as usize);
}

#[test]
fn a_store_that_was_opened_reads_a_space_through_when_look_ups_miss() {
    for background in [Background::Manual, Background::Threads] {
        let (memory, store) = Store::new(true, Background::Manual);
        store.fill(0..KEYS);
        store.engine.close().unwrap();
        drop(store);
        let store = open(&memory, true, background);
        assert!(!store.is_complete(SPACE));
        // Waits only for what must come; a hang fails.
        for turn in 0..6000 {
            store.look(KEYS + 1000 * turn..KEYS + 1000 * (turn + 1));
            store.commit(Batch::new().put(SPACE, key((1 << 50) + turn), "meanwhile").delete(SPACE, key(turn)));
            if background == Background::Manual {
                while store.engine.step().unwrap() {}
            } else if !store.is_complete(SPACE) {
                std::thread::sleep(std::time::Duration::from_millis(5));
            }
            if store.is_complete(SPACE) {
                assert_eq!(store.look(0..KEYS), (KEYS - turn - 1) as usize);
                assert_eq!(store.look(1 << 50..(1 << 50) + turn + 1), turn as usize + 1);
                break;
            }
        }
        assert!(store.is_complete(SPACE), "{background:?}");
        let absent = store.reads(|| assert_eq!(store.look(1 << 40..(1 << 40) + 2000), 0));
        assert!(absent < 50, "{absent} reads for 2000 look-ups");
        store.engine.close().unwrap();
    }
}

#[test]
fn a_space_with_too_many_keys_has_no_filter() {
    let (_memory, store) = Store::new(true, Background::Manual);
    // A sixteenth of 1 MiB holds some thirty thousand; keys alone would need more.
    store.fill(0..3 * KEYS);
    assert!(!store.is_complete(SPACE));
    assert_eq!(store.look(0..1000), 1000);
    let spaces = store.engine.shared().filters.spaces.read();
    assert_eq!(spaces.memory_len, 0);
}

type Model = BTreeMap<SpaceId, BTreeSet<String>>;

/// Some change that makes keys or takes them away, done in the model too; `None` where the dice ask for none.
fn change(model: &mut Model, below: &dyn Fn(u64) -> u64) -> Option<Operation> {
    let space = if below(3) == 0 && model.contains_key(&OTHER) { OTHER } else { SPACE };
    let (one, two) = (key(below(200)), key(below(200)));
    let (place, other) = (Place::new(space, one.clone()), Place::new(space, two.clone()));
    let kind = below(12);
    if kind == 10 {
        return Some(change_of_space(model, below(2) == 0));
    }
    let keys = model.get_mut(&space)?;
    match kind {
        0..4 => {
            keys.insert(one);
            Some(Operation::Put { at: place, value: Payload::Bytes(vec![1; 900].into()) })
        }
        4..6 => {
            keys.remove(&one);
            Some(Operation::Delete { at: place })
        }
        6 if one != two && keys.remove(&one) => {
            keys.insert(two);
            Some(Operation::Rename { from: place, to: other })
        }
        7 if one < two => {
            let range = one..two;
            keys.retain(|key| !range.contains(key));
            Some(Operation::DeleteRange { space, range: KeyRange { start: place.key, end: Some(other.key) } })
        }
        8 => {
            let prefix = one[..1].to_owned();
            let moved: Vec<_> = keys.extract_if(.., |key| key.starts_with(&prefix)).collect();
            keys.extend(moved.into_iter().map(|key| format!("x{}", &key[1..])));
            Some(Operation::RenamePrefix { space, from: prefix.into(), to: "x".into() })
        }
        9 if one != two && keys.remove(&one) => {
            keys.insert(two);
            Some(Operation::Concatenate { sources: vec![place], target: other, fate: Sources::Delete })
        }
        _ => None,
    }
}

/// The other space is made, or goes.
fn change_of_space(model: &mut Model, as_copy: bool) -> Operation {
    if model.remove(&OTHER).is_some() {
        return Operation::DropSpace { space: OTHER };
    }
    let keys = if as_copy { model[&SPACE].clone() } else { BTreeSet::new() };
    model.insert(OTHER, keys);
    if as_copy { Operation::CloneSpace { from: SPACE, to: OTHER } } else { Operation::CreateSpace { space: OTHER } }
}

fn must_show(view: &View, model: &Model, turn: u64) {
    for (space, keys) in model {
        let is_there = |key: &String| view.stat(*space, key.as_bytes()).unwrap().is_some();
        assert!(keys.iter().all(is_there), "turn {turn}");
        assert!(!(0..200).map(key).filter(|key| !keys.contains(key)).any(|key| is_there(&key)), "turn {turn}");
    }
}

/// Every kind of change that makes or takes keys, over two spaces, with a model beside it; every key is looked up in the
/// newest state and in a view of before.
#[test]
fn keys_that_are_there_are_found_whatever_happened() {
    let random = SeededRandom::new(11);
    let (memory, mut store) = Store::new(true, Background::Manual);
    let mut model = Model::from([(SPACE, BTreeSet::new())]);
    let below = |most: u64| random.next_u64() % most;
    let mut before = (store.engine.view(), model.clone());
    for turn in 0..1500_u64 {
        if let Some(operation) = change(&mut model, &below) {
            store.commit(Batch::new().then(operation));
        }
        if below(100) == 0 {
            before = (store.engine.view(), model.clone());
        }
        if below(150) == 0 {
            drop(before);
            store.engine.close().unwrap();
            store = open(&memory, true, Background::Manual);
            before = (store.engine.view(), model.clone());
        }
        if below(10) == 0 {
            // Leaves leave memory, and spaces that want it get their filters.
            store.engine.checkpoint().unwrap();
            (0..MISSES_WANTED).for_each(|_| store.engine.shared().filters.missed(SPACE));
            while store.engine.step().unwrap() {}
        }
        if below(20) == 0 {
            must_show(&before.0, &before.1, turn);
            must_show(&store.engine.view(), &model, turn);
        }
    }
    // Every filter that there is holds all keys of its space.
    let core = store.engine.shared();
    let spaces = core.filters.spaces.read();
    for (space, keys) in &model {
        if let Some(Knowledge::Complete(filter, _)) = spaces.known.get(space) {
            let hash = |key: &str| with_record_key(key.as_bytes(), |key| core.filters.hash(*space, key)).unwrap();
            assert!(keys.iter().all(|key| filter.may_hold(hash(key))), "{space:?}");
        }
    }
}
