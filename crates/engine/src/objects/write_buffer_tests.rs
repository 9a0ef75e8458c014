//! What is gathered, against what is promised of it: order, places in commits, who learns of failures, threads.

use std::collections::{BTreeSet, VecDeque};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use koine_env::SeededRandom;

use super::*;
use crate::device::{Device, MemoryDevice};
use crate::{Background, Durability, Engine, ErrorKind, FormatOptions, Options};

const MEMORY: Durability = Durability::Memory;
const SYNC: Durability = Durability::Sync;

fn store_on(device: Arc<MemoryDevice>, background: Background) -> (Store, Arc<Engine>) {
    let engine = Arc::new(Engine::open(device, Options { background, ..Options::default() }).unwrap());
    (Store::over(Arc::clone(&engine), StoreOptions::default()).unwrap(), engine)
}

fn formatted(device: MemoryDevice) -> Arc<MemoryDevice> {
    let options = FormatOptions { ring_len: 64 << 10, ..FormatOptions::default() };
    Engine::format(&device, options, &SeededRandom::new(1)).unwrap();
    Arc::new(device)
}

fn new_store(background: Background) -> (Store, Arc<Engine>, Arc<MemoryDevice>) {
    let device = formatted(MemoryDevice::growable(4 << 20, 1 << 30));
    let (store, engine) = store_on(Arc::clone(&device), background);
    (store, engine, device)
}

fn after_kill(device: &MemoryDevice) -> Store {
    store_on(Arc::new(MemoryDevice::from_bytes(device.to_vec(), 1 << 30)), Background::Threads).0
}

fn create(store: &Store) -> u64 {
    let object = store.create(0).unwrap();
    object.close(MEMORY).unwrap();
    object.number()
}

fn kind<T: std::fmt::Debug>(result: crate::Result<T>) -> ErrorKind {
    result.unwrap_err().kind()
}

fn in_index(engine: &Engine, number: u64) -> bool {
    engine.contains(SPACE, &number.to_be_bytes()).unwrap()
}

#[test]
fn what_is_gathered_is_known_before_it_is_submitted() {
    let (store, engine, _) = new_store(Background::Manual);
    let (first, second) = (create(&store), create(&store));
    store.delete(second, MEMORY).unwrap();
    assert!(!in_index(&engine, first));
    assert_eq!(store.inner.table.len(), 0);
    assert_eq!(store.status().unwrap().objects, 1);
    assert_eq!(kind(store.open_object(second)), ErrorKind::NotFound);
    assert_eq!(kind(store.delete(second, MEMORY)), ErrorKind::NotFound);
    assert_eq!(kind(store.delete_many(&[first, second], MEMORY)), ErrorKind::NotFound);
    // Whoever opens it waits for it.
    let object = store.open_object(first).unwrap();
    assert_eq!((object.size().unwrap(), object.status().unwrap().size), (0, 0));
    assert!(in_index(&engine, first) && !in_index(&engine, second));
    assert_eq!(store.list(0, 10).unwrap(), [first]);
}

#[test]
fn an_object_that_is_gone_before_it_is_submitted_leaves_no_commit() {
    let (store, engine, _) = new_store(Background::Manual);
    // With the numbers that the first creation reserves.
    store.create(0).unwrap().delete(MEMORY).unwrap();
    let before = engine.view().version();
    let object = store.create(0).unwrap();
    let other = store.open_object(object.number()).unwrap();
    object.delete(MEMORY).unwrap();
    assert_eq!(kind(other.read(0, &mut [0])), ErrorKind::NotFound);
    assert_eq!(store.list(0, 10).unwrap(), []);
    assert_eq!(kind(other.size()), ErrorKind::NotFound);
    assert_eq!(engine.view().version(), before);
    assert_eq!(store.status().unwrap().objects, 0);
}

#[test]
fn creations_and_deletions_share_a_commit() {
    let (store, engine, _) = new_store(Background::Manual);
    let old: Vec<u64> = (0..50).map(|_| create(&store)).collect();
    store.sync().unwrap();
    let before = engine.view().version();
    let new: Vec<u64> = old
        .iter()
        .map(|number| {
            store.delete(*number, MEMORY).unwrap();
            create(&store)
        })
        .collect();
    assert_eq!(store.list(0, 100).unwrap(), new);
    assert_eq!(engine.view().version().0, before.0 + 1);
}

#[test]
fn what_follows_keeps_its_place() {
    let (store, _, device) = new_store(Background::Manual);
    let (gone, kept) = (create(&store), create(&store));
    store.sync().unwrap();
    store.delete(gone, MEMORY).unwrap();
    let new = create(&store);
    store.open_object(kept).unwrap().write(0, b"durable", SYNC).unwrap();
    create(&store);
    let again = after_kill(&device);
    assert_eq!(again.list(0, 10).unwrap(), [kept, new]);
    assert_eq!(again.status().unwrap().objects, 2);
    assert_eq!(kind(again.open_object(gone)), ErrorKind::NotFound);
}

#[test]
fn a_full_store_takes_what_is_deleted_and_refuses_what_is_created() {
    let device = formatted(MemoryDevice::fixed(1 << 20));
    let (store, _) = store_on(device, Background::Manual);
    let mut made = Vec::new();
    let refused = loop {
        match store.create(0) {
            Ok(object) => made.push(object),
            Err(error) => break error,
        }
        assert!(made.len() < 200_000);
    };
    assert_eq!(refused.kind(), ErrorKind::Full);
    // What was told was created and what was told was not: nothing in between.
    let there: BTreeSet<u64> = store.list(0, 1 << 20).unwrap().into_iter().collect();
    assert_eq!(store.status().unwrap().objects, there.len() as u64);
    for object in &made {
        match object.size() {
            Ok(size) => assert!(size == 0 && there.contains(&object.number())),
            Err(error) => assert!(error.kind() == ErrorKind::Full && !there.contains(&object.number()), "{error}"),
        }
        assert_eq!(store.open_object(object.number()).is_ok(), there.contains(&object.number()));
    }
    assert!(there.len() < made.len());
    // Each that asks now is told at once.
    assert_eq!([kind(store.create(0)), kind(store.create(0))], [ErrorKind::Full, ErrorKind::Full]);
    drop(made);
    for number in &there {
        store.delete(*number, MEMORY).unwrap();
    }
    store.sync().unwrap();
    assert_eq!(store.list(0, 10).unwrap(), []);
    let new = create(&store);
    assert_eq!(store.list(0, 10).unwrap(), [new]);
}

#[test]
fn what_was_gathered_for_a_store_that_stopped_is_told() {
    let (store, _, device) = new_store(Background::Manual);
    let kept = create(&store);
    store.sync().unwrap();
    let object = store.create(0).unwrap();
    let deleted = store.open_object(kept).unwrap();
    store.delete(kept, MEMORY).unwrap();
    device.close().unwrap();
    assert!(store.sync().is_err());
    assert_eq!(kind(store.create(0)), ErrorKind::Stopped);
    assert_eq!(kind(store.delete(kept, MEMORY)), ErrorKind::Stopped);
    assert_eq!(kind(object.write(0, b"x", MEMORY)), ErrorKind::Stopped);
    // It was deleted in memory, which is all that was asked for.
    assert_eq!(kind(deleted.size()), ErrorKind::NotFound);
}

#[test]
fn after_a_kill_there_is_what_there_was_at_one_moment() {
    let (store, _, device) = new_store(Background::Threads);
    let done = AtomicBool::new(false);
    let images = std::thread::scope(|scope| {
        scope.spawn(|| {
            // Numbers ascend; the oldest goes: at every moment they follow on each other.
            let mut live = VecDeque::new();
            for turn in 0..60_000 {
                live.push_back(create(&store));
                if turn % 3 > 0 && live.len() > 100 {
                    store.delete(live.pop_front().unwrap(), MEMORY).unwrap();
                }
                if turn % 40_000 == 0 {
                    store.sync().unwrap();
                }
            }
            done.store(true, Ordering::Release);
        });
        let mut images = Vec::new();
        while !done.load(Ordering::Acquire) {
            images.push(device.to_vec());
            std::thread::yield_now();
        }
        images
    });
    let step = images.len().div_ceil(20);
    for image in images.into_iter().step_by(step) {
        let (again, _) = store_on(Arc::new(MemoryDevice::from_bytes(image, 1 << 30)), Background::Threads);
        let found = again.list(0, 1 << 20).unwrap();
        assert_eq!(again.status().unwrap().objects, found.len() as u64);
        assert!(found.windows(2).all(|pair| pair[0] + 1 == pair[1]));
    }
}

#[test]
fn threads_see_what_the_others_did() {
    const THREADS: u64 = 4;
    const ROUNDS: u64 = 2_000;
    let (store, _, _) = new_store(Background::Threads);
    let (senders, receivers): (Vec<_>, Vec<_>) = (0..THREADS).map(|_| std::sync::mpsc::channel::<u64>()).unzip();
    std::thread::scope(|scope| {
        for (thread, receiver) in receivers.into_iter().enumerate() {
            let next = senders[(thread + 1) % THREADS as usize].clone();
            let store = &store;
            scope.spawn(move || {
                for round in 0..ROUNDS {
                    next.send(create(store)).unwrap();
                    // Made by a neighbour a moment ago.
                    let number = receiver.recv().unwrap();
                    match round % 5 {
                        0 => {
                            let object = store.open_object(number).unwrap();
                            object.write(0, b"here", MEMORY).unwrap();
                            assert_eq!(object.status().unwrap().size, 4);
                            store.delete(number, MEMORY).unwrap();
                            assert_eq!(kind(object.status()), ErrorKind::NotFound);
                        }
                        1 => assert_eq!(store.open_object(number).unwrap().size().unwrap(), 0),
                        2 => {
                            let object = store.open_object(number).unwrap();
                            object.delete(MEMORY).unwrap();
                            assert_eq!(kind(store.delete(number, MEMORY)), ErrorKind::NotFound);
                        }
                        3 => store.delete(number, if round % 50 == 3 { SYNC } else { MEMORY }).unwrap(),
                        _ => drop(store.open_object(number).unwrap()),
                    }
                    if round % 5 < 4 && round % 5 != 1 {
                        assert_eq!(kind(store.open_object(number)), ErrorKind::NotFound);
                    }
                }
            });
        }
    });
    let left = THREADS * ROUNDS * 2 / 5;
    assert_eq!(store.status().unwrap().objects, left);
    assert_eq!(store.list(0, 1 << 20).unwrap().len() as u64, left);
    assert_eq!(store.status().unwrap().open, 0);
    store.close().unwrap();
}

#[test]
fn one_of_many_deletes_an_object() {
    let (store, _, _) = new_store(Background::Threads);
    let numbers: Vec<u64> = (0..500).map(|_| create(&store)).collect();
    let deleted: usize = std::thread::scope(|scope| {
        let race = |_| {
            scope.spawn(|| {
                let delete = |number: &&u64| match store.delete(**number, MEMORY) {
                    Ok(()) => true,
                    Err(error) => {
                        assert_eq!(error.kind(), ErrorKind::NotFound);
                        false
                    }
                };
                numbers.iter().filter(delete).count()
            })
        };
        let threads: Vec<_> = (0..4).map(race).collect();
        threads.into_iter().map(|thread| thread.join().unwrap()).sum()
    });
    assert_eq!((deleted, store.status().unwrap().objects), (500, 0));
    assert_eq!(store.list(0, 10).unwrap(), []);
}

#[test]
fn more_than_waits_at_most_is_submitted_by_who_gathers() {
    let (store, engine, _) = new_store(Background::Manual);
    let numbers: Vec<u64> = (0..40_000).map(|_| create(&store)).collect();
    assert!(in_index(&engine, numbers[0]) && !in_index(&engine, numbers[39_999]));
    assert_eq!(store.list(0, 1 << 20).unwrap(), numbers);
    // What the table knew is let go of: it is known, not pending.
    assert_eq!(store.inner.table.len(), 0);
    let view = engine.view().version();
    numbers.iter().for_each(|number| drop(store.open_object(*number).unwrap()));
    assert_eq!(engine.view().version(), view);
}

#[test]
fn threads_that_are_faster_than_the_commits_lose_nothing() {
    const EACH: u64 = 70_000;
    let (store, _, _) = new_store(Background::Threads);
    let made: Vec<BTreeSet<u64>> = std::thread::scope(|scope| {
        let work = |_| {
            scope.spawn(|| {
                let mut live: BTreeSet<u64> = (0..EACH).map(|_| create(&store)).collect();
                let gone: Vec<u64> = live.iter().copied().filter(|number| number % 3 > 0).collect();
                for number in gone.iter().rev() {
                    store.delete(*number, MEMORY).unwrap();
                    live.remove(number);
                }
                live
            })
        };
        let threads: Vec<_> = (0..2).map(work).collect();
        threads.into_iter().map(|thread| thread.join().unwrap()).collect()
    });
    let left: Vec<u64> = made.iter().fold(BTreeSet::new(), |all, some| &all | some).into_iter().collect();
    assert_eq!(store.list(0, 1 << 20).unwrap(), left);
    assert_eq!(store.status().unwrap().objects, left.len() as u64);
    store.close().unwrap();
}

#[test]
fn a_store_that_was_opened_again_learns_what_is_there() {
    let (store, engine, _) = new_store(Background::Manual);
    let numbers: Vec<u64> = (0..300).map(|_| create(&store)).collect();
    store.close().unwrap();
    let again = Store::over(Arc::clone(&engine), StoreOptions::default()).unwrap();
    for (at, number) in numbers.iter().enumerate() {
        match at % 3 {
            0 => again.delete(*number, MEMORY).unwrap(),
            1 => drop(again.open_object(*number).unwrap()),
            _ => assert_eq!(again.open_object(*number).unwrap().status().unwrap().size, 0),
        }
    }
    assert_eq!(kind(again.open_object(numbers[0])), ErrorKind::NotFound);
    assert_eq!(kind(again.open_object(numbers[299] + 1)), ErrorKind::NotFound);
    again.delete(numbers[1], MEMORY).unwrap();
    assert_eq!((again.status().unwrap().objects, again.inner.table.len()), (199, 0));
    assert!(in_index(&engine, numbers[0]));
    // The next number was asked for before there was such an object.
    assert_eq!(create(&again), numbers[299] + 1);
    assert_eq!(again.open_object(numbers[299] + 1).unwrap().size().unwrap(), 0);
    assert_eq!(again.list(0, 1000).unwrap().len(), 200);
    assert!(!in_index(&engine, numbers[0]));
}
