//! Numbered objects against what they promise: contents, numbers, limits, closing, threads, crashes.

mod gathered;
mod kept;

use std::collections::BTreeSet;
use std::path::Path;
use std::sync::Arc;

use koine_env::SeededRandom;

use super::*;
use crate::device::{Device, FileDevice, MemoryDevice, OpenOptions};
use crate::stage::Access;
use crate::{Background, Durability, Engine, ErrorKind, FormatOptions, Options};

const MEMORY: Durability = Durability::Memory;
const SYNC: Durability = Durability::Sync;

fn format(device: &dyn Device, ring_len: u64) {
    Engine::format(device, FormatOptions { ring_len, ..FormatOptions::default() }, &SeededRandom::new(1)).unwrap();
}

fn engine_on(device: Arc<dyn Device>, background: Background) -> Arc<Engine> {
    Arc::new(Engine::open(device, Options { background, ..Options::default() }).unwrap())
}

fn over(engine: Arc<Engine>, object_limit: Option<u64>) -> Result<Store> {
    Store::over(engine, StoreOptions { name: "test".to_owned(), object_limit })
}

type Result<T> = crate::Result<T>;

/// A store in memory, with its device.
fn new_store(object_limit: Option<u64>) -> (Store, Arc<MemoryDevice>) {
    let device = Arc::new(MemoryDevice::growable(4 << 20, 1 << 30));
    format(&device, 0);
    (over(engine_on(device.clone(), Background::Threads), object_limit).unwrap(), device)
}

/// The store as the next process finds it after this one was killed.
fn after_kill(device: &MemoryDevice) -> Store {
    let device = Arc::new(MemoryDevice::from_bytes(device.to_vec(), 1 << 30));
    over(engine_on(device, Background::Threads), None).unwrap()
}

fn content(object: &Object) -> Vec<u8> {
    let mut bytes = vec![0xEE; object.size().unwrap() as usize];
    assert_eq!(object.read(0, &mut bytes).unwrap(), bytes.len());
    bytes
}

#[track_caller]
fn kind<T: std::fmt::Debug>(result: Result<T>) -> ErrorKind {
    result.unwrap_err().kind()
}

fn file_store(path: &Path) {
    let device = FileDevice::open(path, OpenOptions { create: true, read_only: false }).unwrap();
    device.grow(4 << 20).unwrap();
    format(&device, 0);
    device.close().unwrap();
}

#[test]
fn what_is_written_is_read() {
    let (store, _) = new_store(None);
    let object = store.create(0).unwrap();
    assert_eq!(object.read(0, &mut [0; 10]).unwrap(), 0);
    object.write(3, b"abc", MEMORY).unwrap();
    assert_eq!(content(&object), b"\0\0\0abc");
    object.write(1, b"X", SYNC).unwrap();
    assert_eq!(content(&object), b"\0X\0abc");
    // A short count at the end, nothing beyond it.
    let mut buffer = [9; 5];
    assert_eq!(object.read(4, &mut buffer).unwrap(), 2);
    assert_eq!(buffer, [b'b', b'c', 9, 9, 9]);
    assert_eq!(object.read(6, &mut buffer).unwrap(), 0);
    assert_eq!(object.read(u64::MAX, &mut buffer).unwrap(), 0);
    object.write(1 << 40, b"far", MEMORY).unwrap();
    assert_eq!(object.size().unwrap(), (1 << 40) + 3);
    let mut hole = [7; 4096];
    assert_eq!(object.read(1 << 30, &mut hole).unwrap(), hole.len());
    assert_eq!(hole, [0; 4096]);
    object.write(0, b"", MEMORY).unwrap();
    assert_eq!(object.size().unwrap(), (1 << 40) + 3);
    object.close(SYNC).unwrap();
    store.close().unwrap();
}

#[test]
fn resizing_cuts_and_adds_zeros() {
    let (store, _) = new_store(None);
    let object = store.create(0).unwrap();
    let data: Vec<u8> = (0..100_000u32).map(|at| at as u8 | 1).collect();
    object.write(0, &data, MEMORY).unwrap();
    object.resize(50_000, MEMORY).unwrap();
    object.resize(70_000, MEMORY).unwrap();
    let got = content(&object);
    assert_eq!(got[..50_000], data[..50_000]);
    assert!(got[50_000..].iter().all(|byte| *byte == 0) && got.len() == 70_000);
    object.resize(0, MEMORY).unwrap();
    assert_eq!(object.size().unwrap(), 0);
    assert_eq!(kind(object.resize(u64::MAX, MEMORY)), ErrorKind::Invalid);
    assert_eq!(kind(object.write(u64::MAX, b"x", MEMORY)), ErrorKind::Invalid);
}

#[test]
fn closed_and_deleted_objects_refuse() {
    let (store, _) = new_store(None);
    let object = store.create(0).unwrap();
    let number = object.number();
    let other = store.open_object(number).unwrap();
    object.close(MEMORY).unwrap();
    for error in [
        kind(object.write(0, b"x", MEMORY)),
        kind(object.read(0, &mut [0])),
        kind(object.close(MEMORY)),
        kind(object.delete(MEMORY)),
        kind(object.status()),
        kind(object.resize(1, MEMORY)),
        kind(object.sync()),
    ] {
        assert_eq!(error, ErrorKind::Invalid);
    }
    let third = store.open_object(number).unwrap();
    other.delete(MEMORY).unwrap();
    assert_eq!(kind(other.read(0, &mut [0])), ErrorKind::Invalid);
    for error in [
        kind(third.write(0, b"x", MEMORY)),
        kind(third.read(0, &mut [0])),
        kind(third.delete(MEMORY)),
        kind(third.size()),
        kind(third.status()),
        kind(store.open_object(number)),
        kind(store.delete(number, MEMORY)),
        kind(store.delete_many(&[number], MEMORY)),
        kind(store.open_object(12345)),
    ] {
        assert_eq!(error, ErrorKind::NotFound);
    }
    third.close(SYNC).unwrap();
    assert_eq!(store.status().unwrap().objects, 0);
    store.close().unwrap();
}

#[test]
fn a_store_closes_when_nothing_is_open() {
    let (store, _) = new_store(None);
    let objects = [store.create(0).unwrap(), store.create(0).unwrap()];
    let error = store.close().unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Busy);
    assert!(error.message().contains("2 objects open"), "{error}");
    objects[0].close(MEMORY).unwrap();
    assert!(store.close().unwrap_err().message().contains("1 object open"));
    drop(objects);
    store.close().unwrap();
    assert_eq!(kind(store.close()), ErrorKind::Invalid);
    assert_eq!(kind(store.create(0)), ErrorKind::Invalid);
    assert_eq!(kind(store.status()), ErrorKind::Invalid);
    assert_eq!(kind(store.open_object(1)), ErrorKind::Invalid);
}

#[test]
fn an_engine_has_one_store_at_a_time() {
    let device = Arc::new(MemoryDevice::fixed(4 << 20));
    format(&device, 0);
    let engine = engine_on(device, Background::Threads);
    let first = over(Arc::clone(&engine), None).unwrap();
    assert_eq!(over(Arc::clone(&engine), None).map(drop).unwrap_err().kind(), ErrorKind::Owned);
    let number = {
        let object = first.create(0).unwrap();
        object.write(0, b"kept", MEMORY).unwrap();
        object.number()
    };
    first.close().unwrap();
    let second = over(Arc::clone(&engine), None).unwrap();
    // The end of the closed one takes nothing from the open one.
    drop(first);
    assert_eq!(over(Arc::clone(&engine), None).map(drop).unwrap_err().kind(), ErrorKind::Owned);
    assert_eq!(content(&second.open_object(number).unwrap()), b"kept");
    drop(second);
    over(engine, None).unwrap();
}

#[test]
fn files_are_opened_once_and_several_at_a_time() {
    let folder = tempfile::tempdir().unwrap();
    let paths = ["a", "b"].map(|name| folder.path().join(name));
    paths.iter().for_each(|path| file_store(path));
    let stores = [0, 1].map(|at: usize| Store::open(&paths[at], Options::default()).unwrap());
    assert_eq!(Store::open(&paths[0], Options::default()).map(drop).unwrap_err().kind(), ErrorKind::Owned);
    for (at, store) in stores.iter().enumerate() {
        let object = store.create(0).unwrap();
        assert_eq!(object.number(), 1);
        object.write(0, format!("store {at}").as_bytes(), MEMORY).unwrap();
        assert_eq!(*object.status().unwrap().store, *paths[at].display().to_string());
    }
    stores.iter().for_each(|store| store.close().unwrap());
    for (at, path) in paths.iter().enumerate() {
        let store = Store::open(path, Options::default()).unwrap();
        assert_eq!(content(&store.open_object(1).unwrap()), format!("store {at}").as_bytes());
        assert_eq!(store.create(0).unwrap().number(), 2);
        store.close().unwrap();
    }
    assert_eq!(
        Store::open(&folder.path().join("none"), Options::default()).map(drop).unwrap_err().kind(),
        ErrorKind::NotFound
    );
}

#[test]
fn numbers_and_counts_survive_a_kill() {
    let (store, device) = new_store(None);
    let first = store.create_many(1000, 0, MEMORY).unwrap();
    assert_eq!(first, 1..1001);
    store.delete_many(&(1..500).collect::<Vec<u64>>(), MEMORY).unwrap();
    let object = store.create(0).unwrap();
    object.write(0, b"synced", SYNC).unwrap();
    let before = object.number();
    let again = after_kill(&device);
    assert_eq!(again.status().unwrap().objects, 502);
    assert_eq!(content(&again.open_object(before).unwrap()), b"synced");
    assert!(again.create(0).unwrap().number() > before);
    assert_eq!(again.list(1, 2).unwrap(), [500, 501]);
    assert_eq!(again.list(before, 10).unwrap().len(), 2);
}

#[test]
fn the_limit_is_kept_and_freed_by_deleting() {
    let (store, device) = new_store(Some(3));
    let numbers = store.create_many(2, 0, SYNC).unwrap();
    assert_eq!(kind(store.create_many(2, 0, MEMORY)), ErrorKind::Full);
    let third = store.create(0).unwrap();
    let error = store.create(0).unwrap_err();
    assert!(error.kind() == ErrorKind::Full && error.message().contains("made for 3 objects"), "{error}");
    assert_eq!(store.status().unwrap().possible, Some(0));
    store.delete(numbers.start, MEMORY).unwrap();
    assert_eq!(store.status().unwrap().possible, Some(1));
    store.create(0).unwrap().close(SYNC).unwrap();
    third.close(SYNC).unwrap();
    let again = after_kill(&device);
    assert_eq!(again.status().unwrap().limit, Some(3));
    assert_eq!(kind(again.create(0)), ErrorKind::Full);
    drop(again);
    let device = Arc::new(MemoryDevice::from_bytes(device.to_vec(), 1 << 30));
    let engine = engine_on(device, Background::Threads);
    assert_eq!(over(Arc::clone(&engine), Some(4)).map(drop).unwrap_err().kind(), ErrorKind::Invalid);
    over(engine, Some(3)).unwrap();
}

#[test]
fn a_size_at_creation_is_checked_against_what_is_free() {
    let device = Arc::new(MemoryDevice::fixed(8 << 20));
    format(&device, 0);
    let store = over(engine_on(device, Background::Threads), None).unwrap();
    let object = store.create(1 << 20).unwrap();
    assert_eq!(content(&object), vec![0; 1 << 20]);
    let status = object.status().unwrap();
    assert_eq!((status.size, status.allocated), (1 << 20, 0));
    object.write(4096, &[1; 100_000], MEMORY).unwrap();
    assert_eq!(object.status().unwrap().allocated, 100_000u64.next_multiple_of(4096));
    assert_eq!(kind(store.create(1 << 30)), ErrorKind::Full);
    let hint = Hint { expected_len: Some(1 << 30), ..Hint::default() };
    assert_eq!(kind(store.create_with(CreateOptions { hint, ..CreateOptions::default() })), ErrorKind::Full);
    assert_eq!(store.status().unwrap().objects, 1);
}

#[test]
fn many_at_once_have_their_space_too() {
    let device = Arc::new(MemoryDevice::fixed(64 << 20));
    format(&device, 0);
    let store = over(engine_on(device.clone(), Background::Threads), None).unwrap();
    let numbers = store.create_many(20, 1 << 20, SYNC).unwrap();
    assert_eq!(kind(store.create_many(60, 1 << 20, SYNC)), ErrorKind::Full);
    assert_eq!(store.status().unwrap().objects, 20);
    let filler = store.create(0).unwrap();
    assert_eq!(filler.status().unwrap().reserved, 0);
    let mut at = 0;
    while filler.write(at, &[9; 256 << 10], Durability::Written).is_ok() {
        at += 256 << 10;
    }
    assert!(at > 10 << 20);
    for number in numbers.clone() {
        let object = store.open_object(number).unwrap();
        assert!(object.status().unwrap().reserved >= 1 << 20);
        object.write(0, &[number as u8; 1 << 20], Durability::Written).unwrap();
        assert!(object.status().unwrap().reserved < 1 << 20);
    }
    for number in numbers {
        assert_eq!(content(&store.open_object(number).unwrap()), vec![number as u8; 1 << 20]);
    }
}

#[test]
fn what_goes_soon_leaves_long_runs() {
    let runs_after = |short: Lifetime, long: Lifetime, aside: bool| {
        let device = Arc::new(MemoryDevice::fixed(96 << 20));
        format(&device, 0);
        let engine = engine_on(device, Background::Threads);
        let store = over(engine.clone(), None).unwrap();
        let create = |lifetime| {
            let hint = Hint { lifetime, ..Hint::default() };
            store.create_with(CreateOptions { hint, ..CreateOptions::default() }).unwrap()
        };
        let pairs: Vec<_> = (0..100).map(|_| (create(short), create(long))).collect();
        for (gone, kept) in &pairs {
            for object in [gone, kept] {
                // Small enough for what is written at once, or not.
                let durability = if aside { SYNC } else { MEMORY };
                object.write(0, &[object.number() as u8; 100_000], durability).unwrap();
            }
        }
        store.sync().unwrap();
        let kept: Vec<_> = pairs.into_iter().map(|(gone, kept)| gone.delete(SYNC).map(|()| kept).unwrap()).collect();
        // Twice: what a checkpoint frees waits for the next one.
        (0..2).for_each(|_| engine.checkpoint().unwrap());
        assert!(kept.iter().all(|object| content(object) == vec![object.number() as u8; 100_000]));
        let mut runs = 0;
        engine.shared().allocator.each_run(&mut |_, _| runs += 1);
        runs
    };
    for aside in [true, false] {
        let (mixed, apart) = (
            runs_after(Lifetime::Unknown, Lifetime::Unknown, aside),
            runs_after(Lifetime::Short, Lifetime::Long, aside),
        );
        assert!(mixed > 80 && apart < 20, "{apart} free runs with hints, {mixed} without");
    }
}

#[test]
fn statuses_tell_what_is_there() {
    let (store, _) = new_store(None);
    let object = store.create(0).unwrap();
    object.write(0, &[1; 100], MEMORY).unwrap();
    assert_eq!(object.status().unwrap().allocated, 0);
    object.write(100_000, &[1; 5000], MEMORY).unwrap();
    let status = object.status().unwrap();
    assert_eq!((status.number, status.size, status.allocated, &*status.store), (1, 105_000, 8192, "test"));
    object.write(0, &[2; 105_000], SYNC).unwrap();
    assert!(object.status().unwrap().version > status.version);
    assert_eq!(object.status().unwrap().allocated, 105_000u64.next_multiple_of(4096));
    // Many small pieces of one long run name its blocks once.
    let long = store.create(0).unwrap();
    long.write(0, &[1; 1 << 20], MEMORY).unwrap();
    for at in 0..8u64 {
        long.write(at * 100_000 + 5, b"x", MEMORY).unwrap();
    }
    let allocated = long.status().unwrap().allocated;
    assert!((1 << 20..=(1 << 20) + 8 * 4096).contains(&allocated), "{allocated}");
    let all = store.status().unwrap();
    assert_eq!((all.objects, all.open, all.limit, all.block_len), (2, 2, None, 4096));
    assert!(all.used + all.free <= all.total && all.used > 1 << 20);
}

#[test]
fn whoever_asks_after_an_unsynced_change_sees_it() {
    let (store, _) = new_store(None);
    std::thread::scope(|scope| {
        let (sender, receiver) = std::sync::mpsc::sync_channel(0);
        let store = &store;
        scope.spawn(move || {
            for round in 0..300u64 {
                let object = store.create(0).unwrap();
                object.write(0, &round.to_le_bytes(), MEMORY).unwrap();
                object.close(MEMORY).unwrap();
                sender.send((round, object.number())).unwrap();
            }
        });
        for (round, number) in receiver {
            let object = store.open_object(number).unwrap();
            assert_eq!(content(&object), round.to_le_bytes());
            assert!(store.list(number, 1).unwrap().contains(&number));
            object.delete(MEMORY).unwrap();
            assert_eq!(kind(store.open_object(number)), ErrorKind::NotFound);
        }
    });
    store.sync().unwrap();
    assert_eq!(store.list(0, 10).unwrap(), [0; 0]);
    // One handle more sweeps away what waited for its change.
    drop(store.create(0).unwrap());
    store.sync().unwrap();
    drop(store.create(0).unwrap());
    assert!(store.inner.table.len() <= 1, "{}", store.inner.table.len());
}

#[test]
fn many_threads_write_one_object_and_objects_of_their_own() {
    const THREADS: u64 = 6;
    const LEN: u64 = 40_000;
    let (store, device) = new_store(None);
    let shared = store.create(0).unwrap();
    std::thread::scope(|scope| {
        for thread in 0..THREADS {
            let (store, shared) = (&store, &shared);
            scope.spawn(move || {
                let own = store.create(0).unwrap();
                for round in 0..40u64 {
                    let durability = if round % 16 == 0 { SYNC } else { MEMORY };
                    let at = (round * THREADS + thread) * 1000;
                    shared.write(at, &[thread as u8 + 1; 1000], durability).unwrap();
                    own.write(at % LEN, &[round as u8; 1000], durability).unwrap();
                    let mut back = [0; 1000];
                    assert_eq!(shared.read(at, &mut back).unwrap(), 1000);
                    assert_eq!(back, [thread as u8 + 1; 1000]);
                }
                own.close(SYNC).unwrap();
            });
        }
    });
    let bytes = content(&shared);
    assert_eq!(bytes.len() as u64, 40 * THREADS * 1000);
    for (at, part) in bytes.chunks(1000).enumerate() {
        assert_eq!(part, [(at as u64 % THREADS) as u8 + 1; 1000]);
    }
    shared.close(SYNC).unwrap();
    assert_eq!(content(&after_kill(&device).open_object(shared.number()).unwrap()), bytes);
    store.close().unwrap();
}

#[test]
fn threads_that_create_get_numbers_of_their_own() {
    let (store, _) = new_store(None);
    let numbers: Vec<u64> = std::thread::scope(|scope| {
        let create = |_| {
            scope.spawn(|| {
                let mut numbers: Vec<u64> = (0..200).map(|_| store.create(0).unwrap().number()).collect();
                numbers.extend(store.create_many(50, 0, MEMORY).unwrap());
                numbers
            })
        };
        let threads: Vec<_> = (0..4).map(create).collect();
        threads.into_iter().flat_map(|thread| thread.join().unwrap()).collect()
    });
    assert_eq!(numbers.len(), 1000);
    assert_eq!(numbers.iter().collect::<BTreeSet<_>>().len(), 1000);
    assert_eq!(store.status().unwrap().objects, 1000);
    assert_eq!(store.list(0, 2000).unwrap().len(), 1000);
    assert_eq!(kind(store.create_many(CREATE_MANY_MAX + 1, 0, MEMORY)), ErrorKind::Invalid);
    assert_eq!(kind(store.delete_many(&[5, 5], MEMORY)), ErrorKind::Invalid);
    // None goes when one is not there.
    assert_eq!(kind(store.delete_many(&[1, 2, 999_999], SYNC)), ErrorKind::NotFound);
    store.delete_many(&store.list(0, 2000).unwrap(), SYNC).unwrap();
    assert_eq!((store.status().unwrap().objects, store.list(0, 1).unwrap().len()), (0, 0));
    store.close().unwrap();
}

#[test]
fn a_window_never_shows_old_bytes() {
    let (store, _) = new_store(None);
    let writer = store.create(0).unwrap();
    writer.write(0, &[1; 600_000], MEMORY).unwrap();
    let reader = store.open_with(writer.number(), Hint::sequential()).unwrap();
    let random = store.open_with(writer.number(), Hint::random()).unwrap();
    random.will_need(0, 600_000).unwrap();
    let mut buffer = [0; 1000];
    for round in 2..20u8 {
        for handle in [&reader, &random] {
            assert_eq!(handle.read(5000, &mut buffer).unwrap(), 1000);
            assert_eq!(buffer, [round - 1; 1000]);
        }
        writer.write(0, &[round; 10_000], MEMORY).unwrap();
    }
    writer.resize(5500, MEMORY).unwrap();
    assert_eq!(reader.read(5000, &mut buffer).unwrap(), 500);
    assert_eq!(reader.read(5500, &mut buffer).unwrap(), 0);
    writer.write_with(0, &[7; 500_000], MEMORY, Hint { access: Some(Access::Random), ..Hint::default() }).unwrap();
    let mut all = Vec::new();
    while let count @ 1.. = reader.read(all.len() as u64, &mut buffer).unwrap() {
        all.extend_from_slice(&buffer[..count]);
    }
    assert_eq!(all, vec![7; 500_000]);
}

#[test]
fn a_failed_device_is_told_by_every_later_call() {
    let (store, device) = new_store(None);
    let object = store.create(0).unwrap();
    object.write(0, b"fine", SYNC).unwrap();
    device.close().unwrap();
    // The first may still be taken: it is not durable yet, as it was not asked to be.
    let _ = object.write(0, b"lost", MEMORY);
    assert_eq!(kind(object.sync()), ErrorKind::Stopped);
    assert_eq!(kind(object.write(0, b"lost", MEMORY)), ErrorKind::Stopped);
    assert_eq!(kind(store.create(0)), ErrorKind::Stopped);
    assert_eq!(kind(object.close(MEMORY)), ErrorKind::Stopped);
    assert!(store.close().is_err());
}

#[test]
fn mapped_bytes_are_verified_and_stay_what_they_were() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("s");
    file_store(&path);
    let store = Store::open(&path, Options::default()).unwrap();
    let object = store.create(0).unwrap();
    let mut data: Vec<u8> = (0..600_000u32).map(|at| (at / 7) as u8).collect();
    object.write(0, &data, Durability::Sync).unwrap();
    // What was written a moment ago is in them, also what waits in memory.
    object.write(5, b"just now", Durability::Memory).unwrap();
    data[5..13].copy_from_slice(b"just now");
    let all = object.map(0, usize::MAX).unwrap();
    assert!(all[..] == data[..]);
    let part = object.map(300_000, 200_000).unwrap();
    assert!(part[..] == data[300_000..500_000]);
    assert!(object.map(600_000, 10).unwrap().is_empty());
    object.write(300_000, &[9; 200_000], Durability::Sync).unwrap();
    assert!(part[..] == data[300_000..500_000] && all[..] == data[..], "what is written later does not show");
    let number = object.number();
    object.delete(Durability::Sync).unwrap();
    assert!(all[..] == data[..], "nor does a deletion");
    assert_eq!(kind(object.map(0, 1)), ErrorKind::Invalid);
    assert_eq!(kind(store.open_object(number)), ErrorKind::NotFound);
    // They hold the store open.
    assert_eq!(kind(store.close()), ErrorKind::Busy);
    drop((all, part));
    store.close().unwrap();
}
