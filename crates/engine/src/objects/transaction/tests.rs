//! Transactions against a plain vector of bytes, and against what they promise.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use koine_env::SeededRandom;
use proptest::prelude::*;

use super::TransactionOptions;
use crate::device::MemoryDevice;
use crate::objects::layout::{SPACE, scratch_range};
use crate::objects::{Object, Store, StoreOptions};
use crate::{Background, Durability, Engine, ErrorKind, FormatOptions, Options};

const MEMORY: Durability = Durability::Memory;

struct Rig {
    engine: Arc<Engine>,
    device: Arc<MemoryDevice>,
    store: Store,
}

fn rig(ring_len: u64, background: Background) -> Rig {
    let device = Arc::new(MemoryDevice::fixed(64 << 20));
    let format = FormatOptions { ring_len, ..FormatOptions::default() };
    Engine::format(&device, format, &SeededRandom::new(1)).unwrap();
    let options = Options { background, ..Options::default() };
    let engine = Arc::new(Engine::open(device.clone(), options).unwrap());
    let store = Store::over(Arc::clone(&engine), StoreOptions::default()).unwrap();
    Rig { engine, device, store }
}

impl Rig {
    fn has_scratch(&self) -> bool {
        self.engine.sync().unwrap();
        self.engine.view().cursor(SPACE, scratch_range(), false).unwrap().next().unwrap().is_some()
    }
}

fn content(object: &Object) -> Vec<u8> {
    let mut bytes = vec![0; object.size().unwrap() as usize];
    assert_eq!(object.read(0, &mut bytes).unwrap(), bytes.len());
    bytes
}

fn options(queue_len_max: usize) -> TransactionOptions {
    TransactionOptions { queue_len_max }
}

#[derive(Clone, Debug)]
enum Step {
    Write {
        object: usize,
        offset: u64,
        length: usize,
    },
    Read {
        object: usize,
        offset: u64,
        length: usize,
    },
    Later {
        object: usize,
        offset: u64,
        length: usize,
    },
    Begin {
        queue_len_max: usize,
    },
    Execute {
        durability: Durability,
    },
    Drop,
    /// Past the transaction.
    Direct {
        object: usize,
        offset: u64,
        length: usize,
    },
}

fn step(long: u64) -> impl Strategy<Value = Step> {
    let offset = prop_oneof![0..100u64, 0..long];
    let length = prop_oneof![1..40usize, 1..(long as usize / 4)];
    let place = (0..2usize, offset, length);
    let durability = prop_oneof![Just(MEMORY), Just(Durability::Sync)];
    prop_oneof![
        10 => place.clone().prop_map(|(object, offset, length)| Step::Write { object, offset, length }),
        4 => place.clone().prop_map(|(object, offset, length)| Step::Read { object, offset, length }),
        5 => place.clone().prop_map(|(object, offset, length)| Step::Later { object, offset, length }),
        2 => prop_oneof![1..200usize, Just(5000), Just(1 << 20)].prop_map(|queue_len_max| Step::Begin { queue_len_max }),
        2 => durability.prop_map(|durability| Step::Execute { durability }),
        1 => Just(Step::Drop),
        1 => place.prop_map(|(object, offset, length)| Step::Direct { object, offset, length }),
    ]
}

fn write(model: &mut Vec<u8>, offset: u64, data: &[u8]) {
    let (start, end) = (offset as usize, offset as usize + data.len());
    model.resize(model.len().max(end), 0);
    model[start..end].copy_from_slice(data);
}

fn part(model: &[u8], offset: u64, length: usize) -> Vec<u8> {
    let start = model.len().min(offset as usize);
    model[start..model.len().min(start + length)].to_vec()
}

/// The state that a transaction sees: what it wrote, over what is committed.
#[derive(Default)]
struct Model {
    committed: [Vec<u8>; 2],
    own: Vec<(usize, u64, Vec<u8>)>,
}

impl Model {
    fn seen(&self, object: usize) -> Vec<u8> {
        let mut seen = self.committed[object].clone();
        for (_, offset, data) in self.own.iter().filter(|(number, ..)| *number == object) {
            write(&mut seen, *offset, data);
        }
        seen
    }

    fn commit(&mut self) {
        self.committed = [self.seen(0), self.seen(1)];
        self.own.clear();
    }
}

fn run(ring_len: u64, background: Background, steps: &[Step]) {
    let rig = rig(ring_len, background);
    let objects = [rig.store.create(0).unwrap(), rig.store.create(0).unwrap()];
    let mut model = Model::default();
    let mut transaction = rig.store.transaction(options(100)).unwrap();
    // Each queued read fills a vector of its own; what it should be is not known before it is answered, but a
    // direct write of another thread could come before that: there is none while one waits.
    let mut later: Vec<(std::sync::mpsc::Receiver<Vec<u8>>, Vec<u8>)> = Vec::new();
    for (number, step) in steps.iter().enumerate() {
        let data = |length: usize| -> Vec<u8> { (0..length).map(|at| (at + number * 7) as u8 | 1).collect() };
        match step {
            Step::Write { object, offset, length } => {
                let data = data(*length);
                transaction.write(&objects[*object], *offset, &data).unwrap();
                model.own.push((*object, *offset, data));
            }
            Step::Read { object, offset, length } => {
                let mut buffer = vec![0xEE; *length];
                let count = transaction.read(&objects[*object], *offset, &mut buffer).unwrap();
                assert!(buffer[..count] == part(&model.seen(*object), *offset, *length));
            }
            Step::Later { object, offset, length } => {
                let (sender, receiver) = std::sync::mpsc::channel();
                let fill = move |_: usize, bytes: &[u8]| sender.send(bytes.to_vec()).unwrap();
                transaction.read_later_with(&objects[*object], *offset, *length, fill).unwrap();
                later.push((receiver, part(&model.seen(*object), *offset, *length)));
            }
            Step::Begin { queue_len_max } if model.own.is_empty() && later.is_empty() => {
                transaction = rig.store.transaction(options(*queue_len_max)).unwrap();
            }
            Step::Begin { .. } => {}
            Step::Execute { durability } => {
                let next = rig.store.transaction(options(64 + number)).unwrap();
                let done = std::mem::replace(&mut transaction, next).execute(*durability).unwrap();
                let written: usize = model.own.iter().map(|(.., data)| data.len()).sum();
                assert_eq!(done.written, written as u64);
                assert_eq!(done.reads, later.iter().map(|(_, expected)| expected.len()).collect::<Vec<_>>());
                for (receiver, expected) in later.drain(..) {
                    assert!(receiver.try_iter().collect::<Vec<_>>().concat() == expected);
                }
                model.commit();
            }
            Step::Drop => {
                transaction = rig.store.transaction(options(64 + number)).unwrap();
                model.own.clear();
                later.clear();
            }
            Step::Direct { object, offset, length } if later.is_empty() => {
                let data = data(*length);
                objects[*object].write(*offset, &data, MEMORY).unwrap();
                write(&mut model.committed[*object], *offset, &data);
            }
            Step::Direct { .. } => {}
        }
        if number % 7 == 0 {
            // Nothing is to be seen of what is queued.
            assert!((0..2).all(|object| content(&objects[object]) == model.committed[object]));
        }
    }
    drop(transaction);
    assert!((0..2).all(|object| content(&objects[object]) == model.committed[object]));
    drop(objects);
    rig.store.close().unwrap();
    assert!(!rig.has_scratch(), "a transaction left something behind");
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(120))]

    #[test]
    fn a_transaction_is_a_vector_that_shows_at_the_end(steps in prop::collection::vec(step(3000), 1..80)) {
        run(64 << 10, Background::Manual, &steps);
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(30))]

    #[test]
    fn also_with_long_writes_and_threads(steps in prop::collection::vec(step(300_000), 1..40)) {
        run(1 << 20, Background::Threads, &steps);
    }
}

#[test]
fn more_ranges_than_one_commit_can_name_are_still_one_commit() {
    // The smallest ring: about a hundred operations a commit.
    let rig = rig(64 << 10, Background::Threads);
    let objects = [rig.store.create(0).unwrap(), rig.store.create(0).unwrap()];
    objects[0].write(0, &[9; 20_000], MEMORY).unwrap();
    let mut transaction = rig.store.transaction(options(1000)).unwrap();
    for at in (0..2000u64).rev() {
        transaction.write(&objects[(at % 2) as usize], at * 10, &[at as u8 | 1; 3]).unwrap();
    }
    let mut buffer = [0; 8];
    transaction.read(&objects[0], 0, &mut buffer).unwrap();
    assert_eq!(buffer, [1, 1, 1, 9, 9, 9, 9, 9]);
    assert_eq!(content(&objects[0]), [9; 20_000]);
    assert_eq!(transaction.execute(Durability::Sync).unwrap().written, 6000);
    for (number, fill) in [(0usize, 9), (1, 0)] {
        let bytes = content(&objects[number]);
        for at in (number as u64..2000).step_by(2) {
            let from = at as usize * 10;
            assert_eq!(bytes[from..from + 3], [at as u8 | 1; 3]);
            assert!(bytes[from + 3..bytes.len().min(from + 20)].iter().all(|byte| *byte == fill), "{number} {at}");
        }
    }
    assert!(!rig.has_scratch());
}

#[test]
fn a_crash_before_the_commit_leaves_nothing() {
    let rig = rig(256 << 10, Background::Threads);
    let object = rig.store.create(0).unwrap();
    object.write(0, b"before", Durability::Sync).unwrap();
    let mut transaction = object.transaction().unwrap();
    transaction.write(&object, 0, &vec![1; 3 << 20]).unwrap();
    assert!(rig.has_scratch(), "a long write waits on the device");
    let device = Arc::new(MemoryDevice::from_bytes(rig.device.to_vec(), 64 << 20));
    let engine = Arc::new(Engine::open(device, Options::default()).unwrap());
    let again = Store::over(Arc::clone(&engine), StoreOptions::default()).unwrap();
    assert_eq!(content(&again.open_object(object.number()).unwrap()), b"before");
    assert!(engine.view().cursor(SPACE, scratch_range(), false).unwrap().next().unwrap().is_none());
    // Its end without execution gives everything back here too.
    drop(transaction);
    assert!(!rig.has_scratch());
    assert_eq!(content(&object), b"before");
}

#[test]
fn nothing_happens_when_one_object_is_gone() {
    let rig = rig(256 << 10, Background::Threads);
    let (kept, gone) = (rig.store.create(0).unwrap(), rig.store.create(0).unwrap());
    for length in [10usize, 200_000] {
        let other = rig.store.create(0).unwrap();
        let mut transaction = rig.store.transaction(options(100_000)).unwrap();
        transaction.write(&kept, 0, &vec![1; length]).unwrap();
        transaction.write(&other, 0, &vec![1; length]).unwrap();
        other.delete(MEMORY).unwrap();
        assert_eq!(transaction.execute(MEMORY).unwrap_err().kind(), ErrorKind::NotFound);
        assert_eq!(kept.size().unwrap(), 0);
    }
    gone.close(MEMORY).unwrap();
    let mut transaction = kept.transaction().unwrap();
    assert_eq!(transaction.write(&gone, 0, b"x").unwrap_err().kind(), ErrorKind::Invalid);
    assert_eq!(transaction.execute(Durability::Sync).unwrap().bytes(), 0);
    assert!(!rig.has_scratch());
}

#[test]
fn a_full_store_refuses_and_forgets() {
    let device = Arc::new(MemoryDevice::fixed(4 << 20));
    Engine::format(&device, FormatOptions { ring_len: 64 << 10, ..FormatOptions::default() }, &SeededRandom::new(1))
        .unwrap();
    let engine = Arc::new(Engine::open(device, Options::default()).unwrap());
    let store = Store::over(Arc::clone(&engine), StoreOptions::default()).unwrap();
    let object = store.create(0).unwrap();
    object.write(0, &[5; 1000], Durability::Sync).unwrap();
    let mut transaction = store.transaction(options(64 << 10)).unwrap();
    let mut queued = 0u64;
    let error = loop {
        match transaction.write(&object, queued, &[6; 30_000]) {
            Ok(()) => queued += 30_000,
            Err(error) => break error,
        }
        assert!(queued < 8 << 20, "more than the store has");
    };
    assert_eq!(error.kind(), ErrorKind::Full);
    // What was accepted before can still be read.
    let mut last = [0; 10];
    assert_eq!(transaction.read(&object, queued - 10, &mut last).unwrap(), 10);
    assert_eq!(last, [6; 10]);
    drop(transaction);
    assert_eq!(content(&object), [5; 1000]);
    engine.sync().unwrap();
    (0..3).for_each(|_| engine.checkpoint().unwrap());
    object.write(0, &[7; 500_000], Durability::Sync).unwrap();
    assert_eq!(content(&object), [7; 500_000]);
}

#[test]
fn readers_never_see_half_of_a_transaction() {
    let rig = rig(1 << 20, Background::Threads);
    let object = rig.store.create(0).unwrap();
    object.write(0, &[0; 50_000], MEMORY).unwrap();
    let stop = AtomicBool::new(false);
    std::thread::scope(|scope| {
        let writer = |thread: u8| {
            let (rig, object, stop) = (&rig, &object, &stop);
            scope.spawn(move || {
                for round in 0..30u8 {
                    let mut transaction = rig.store.transaction(options(4000)).unwrap();
                    for at in 0..25u64 {
                        transaction.write(object, at * 2000, &[round * 4 + thread; 2000]).unwrap();
                    }
                    transaction.execute(MEMORY).unwrap();
                }
                stop.store(true, Ordering::Relaxed);
            })
        };
        let writers = [writer(1), writer(2)];
        let mut bytes = vec![0; 50_000];
        while !stop.load(Ordering::Relaxed) {
            assert_eq!(object.read(0, &mut bytes).unwrap(), bytes.len());
            assert!(bytes.iter().all(|byte| *byte == bytes[0]), "half of a transaction is visible");
        }
        writers.into_iter().for_each(|writer| writer.join().unwrap());
    });
    assert!(!rig.has_scratch());
}

#[test]
fn memory_for_the_queue_is_bounded() {
    let rig = rig(1 << 20, Background::Threads);
    let object = rig.store.create(0).unwrap();
    let mut buffers = vec![[0u8; 16]; 3000];
    let mut transaction = rig.store.transaction(options(50_000)).unwrap();
    for at in 0..1000u64 {
        transaction.write(&object, (at * 7919) % 400_000, &[at as u8; 300]).unwrap();
        assert!(transaction.queued_len() <= 50_000 + 64);
    }
    for (at, buffer) in buffers.iter_mut().enumerate() {
        transaction.read_later(&object, at as u64 * 100, buffer).unwrap();
    }
    let done = transaction.execute(Durability::Sync).unwrap();
    assert_eq!(done.reads.len(), 3000);
    let bytes = content(&object);
    for (at, buffer) in buffers.iter().enumerate() {
        let expected = part(&bytes, at as u64 * 100, 16);
        assert_eq!((&buffer[..done.reads[at]], done.reads[at]), (&expected[..], expected.len()));
    }
}

#[test]
fn a_store_does_not_close_under_a_transaction() {
    let rig = rig(256 << 10, Background::Threads);
    let transaction = rig.store.transaction(TransactionOptions::default()).unwrap();
    assert_eq!(rig.store.close().unwrap_err().kind(), ErrorKind::Busy);
    drop(transaction);
    rig.store.close().unwrap();
    assert_eq!(rig.store.transaction(TransactionOptions::default()).map(drop).unwrap_err().kind(), ErrorKind::Invalid);
}
