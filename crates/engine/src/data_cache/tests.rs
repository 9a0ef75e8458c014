//! Runs in memory: which extents they answer, how many there are, and that the device is left alone.

use std::sync::atomic::{AtomicUsize, Ordering};

use super::*;
use crate::address::Generation;
use crate::batch::{Batch, Durability, Operation, Payload, Place, SpaceId};
use crate::checksum::crc32c;
use crate::device::{Device, MemoryDevice, ReadMode};
use crate::engine::{Engine, FormatOptions};
use crate::options::{Background, Options};
use crate::stage::StageHint;
use crate::view::Lookup;

const SPACE: SpaceId = SpaceId(20);
const MIB: usize = 1 << 20;

fn extent(start_block: u64, bytes: &[u8]) -> Extent {
    let length = bytes.len() as u32;
    Extent {
        birth: Generation::default(),
        start_block,
        run_length: length,
        skip: 0,
        length,
        chunk_log2: 15,
        checksums: bytes.chunks(1 << 15).map(crc32c).collect(),
    }
}

#[test]
fn a_run_answers_only_for_its_own_checksums() {
    let cache = DataCache::new(64 << 20, &Buffers::new(8 << 20));
    let (old, new) = (vec![1; 100_000], vec![2; 100_000]);
    cache.put(&extent(7, &old), old.clone().into());
    assert_eq!(cache.get(&extent(7, &old)).unwrap(), old);
    // The same blocks written anew, another length, another place.
    assert_eq!(cache.get(&extent(7, &new)), None);
    assert_eq!(cache.get(&extent(7, &old[..90_000])), None);
    assert_eq!(cache.get(&extent(8, &old)), None);
    let loaded = cache.load(&extent(7, &new), |memory| {
        memory.copy_from_slice(&new);
        Ok(())
    });
    assert_eq!(loaded.unwrap().unwrap(), new);
    let held = cache.load(&extent(7, &new), |_| panic!("it is here"));
    assert_eq!(held.unwrap().unwrap(), new);
    // One written over it that is not taken in.
    cache.forget(&extent(7, &new));
    assert_eq!(cache.get(&extent(7, &new)), None);
    assert!(cache.get(&extent(7, &old)).is_some());
    let failed = cache.load(&extent(9, &old), |_| Err(crate::error::Error::damaged("no")));
    assert!(failed.is_err() && cache.get(&extent(9, &old)).is_none());
}

#[test]
fn the_longest_runs_are_held_by_small_and_large_caches() {
    for budget_mib in [4, 8, 16, 32, 64, 100, 256, 1024, 3000] {
        let cache = DataCache::new(budget_mib << 20, &Buffers::new(8 << 20));
        let bytes = Bytes::from(vec![1; MIB]);
        for number in 0..100 {
            cache.put(&extent(number * 256, &bytes), bytes.clone());
            assert!(cache.get(&extent(number * 256, &bytes)).is_some(), "{number} of {budget_mib} MiB");
        }
    }
}

#[test]
fn it_holds_no_more_than_its_budget_and_with_none_nothing() {
    let buffers = Buffers::new(8 << 20);
    let cache = DataCache::new(64 << 20, &buffers);
    for number in 0..200 {
        let bytes = vec![number as u8; MIB];
        let mut buffer = buffers.lend().unwrap();
        buffer.copy_from_slice(&bytes);
        assert!(cache.put_written(buffer, vec![(extent(number * 256, &bytes), 0..MIB)]).is_none());
    }
    assert_eq!(buffers.free(), 8, "what it keeps is not of the budget of streams");
    let held = (0..200).filter(|number| cache.get(&extent(number * 256, &vec![*number as u8; MIB])).is_some()).count();
    assert!((20..=64).contains(&held), "{held}");
    let last = vec![199; MIB];
    assert!(cache.get(&extent(199 * 256, &last)).is_some(), "what came last is there");
    // Of a buffer that is mostly empty the bytes are copied, and it comes back.
    let short = vec![9; 1000];
    let mut buffer = buffers.lend().unwrap();
    buffer[..1000].copy_from_slice(&short);
    assert!(cache.put_written(buffer, vec![(extent(1, &short), 0..1000)]).is_some());
    assert_eq!(cache.get(&extent(1, &short)).unwrap(), short);
    let none = DataCache::new(0, &buffers);
    none.put(&extent(1, &short), short.clone().into());
    assert!(!none.is_on() && none.get(&extent(1, &short)).is_none());
    assert_eq!(none.load(&extent(1, &short), |_| panic!("nothing is read")).unwrap(), None);
}

/// Counts bytes that are read of data.
struct Counting {
    memory: MemoryDevice,
    read: AtomicUsize,
}

impl Device for Counting {
    crate::device::pass_on!(memory: len, grow, holds, write_at, sync, discard, close, is_fixed);

    fn read_at(&self, buffer: &mut [u8], offset: u64, mode: ReadMode) -> std::io::Result<()> {
        self.read.fetch_add(buffer.len(), Ordering::Relaxed);
        self.memory.read_at(buffer, offset, mode)
    }
}

fn store(cache_len: u64) -> (Arc<Counting>, Engine) {
    let memory = MemoryDevice::fixed(256 << 20);
    let device = Arc::new(Counting { memory, read: AtomicUsize::new(0) });
    Engine::format(&device, FormatOptions::default(), &koine_env::SeededRandom::new(1)).unwrap();
    (Arc::clone(&device), open(&device, cache_len))
}

fn open(device: &Arc<Counting>, cache_len: u64) -> Engine {
    device.memory.reopen();
    let options = Options { background: Background::Manual, cache_len, ..Options::default() };
    Engine::open(Arc::clone(device) as _, options).unwrap()
}

fn pattern(length: usize, seed: u8) -> Vec<u8> {
    (0..length).map(|at| (at / 4096) as u8 ^ seed ^ at as u8).collect()
}

fn put(engine: &Engine, key: &'static str, value: &[u8]) {
    let mut stage = engine.stage(StageHint::default()).unwrap();
    value.chunks(MIB).for_each(|piece| stage.write(piece).unwrap());
    let value = Payload::Stage(stage.finish().unwrap());
    let batch = Batch::new().then(Operation::Put { at: Place::new(SPACE, key), value });
    engine.commit(batch, Durability::Sync).unwrap();
}

#[test]
fn what_was_just_written_or_read_is_not_read_from_the_device() {
    let (device, engine) = store(64 << 20);
    engine.commit(Batch::new().then(Operation::CreateSpace { space: SPACE }), Durability::Memory).unwrap();
    let values = [("long", pattern(3 * MIB + 5000, 3)), ("run", pattern(MIB, 5)), ("short", pattern(100_000, 7))];
    values.iter().for_each(|(key, value)| put(&engine, key, value));
    engine.commit(Batch::new().put(SPACE, "packed", pattern(9000, 9)), Durability::Sync).unwrap();
    engine.checkpoint().unwrap();
    let read = || device.read.swap(0, Ordering::Relaxed);
    let look = |engine: &Engine| {
        let view = engine.view();
        for (key, value) in values.iter().map(|(key, value)| (*key, value)).chain([("packed", &pattern(9000, 9))]) {
            for (offset, length) in [(0, value.len()), (0, MIB), (MIB / 2, MIB / 2), (5, 70_000), (MIB - 10, 20)] {
                let expected = &value[offset.min(value.len())..(offset + length).min(value.len())];
                assert_eq!(view.bytes(SPACE, key.as_bytes(), offset as u64, length).unwrap(), expected);
                let mut buffer = vec![0; length];
                let count = view.read(SPACE, key.as_bytes(), offset as u64, &mut buffer).unwrap();
                assert!(buffer[..count] == *expected);
            }
        }
    };
    read();
    look(&engine);
    assert_eq!(read(), 0);
    // A run is shared, however long it is, by who must not wait.
    let Lookup::Found(_, bytes) = engine.lookup_now(SPACE, b"run", 0, MIB).unwrap() else { panic!("it is in memory") };
    let again = engine.view().bytes(SPACE, b"run", 10, MIB).unwrap();
    assert_eq!(bytes[10..].as_ptr(), again.as_ptr());
    engine.close().unwrap();
    let engine = open(&device, 64 << 20);
    look(&engine);
    let first = read();
    assert!(first >= 4 * MIB);
    look(&engine);
    let again = read();
    assert!(again + 4 * MIB <= first, "only what is short is read again: {again} of {first}");
    // Freed and written anew, the blocks have other bytes.
    for (key, seed) in [("long", 11), ("run", 12), ("other", 13), ("another", 14)] {
        put(&engine, key, &pattern(2 * MIB, seed));
        engine.checkpoint().unwrap();
        engine.checkpoint().unwrap();
        assert_eq!(engine.view().bytes(SPACE, key.as_bytes(), 0, 2 * MIB).unwrap(), pattern(2 * MIB, seed));
    }
}

#[test]
fn a_damaged_run_is_never_taken_in() {
    let (device, engine) = store(64 << 20);
    engine.commit(Batch::new().then(Operation::CreateSpace { space: SPACE }), Durability::Memory).unwrap();
    put(&engine, "run", &pattern(MIB, 5));
    engine.close().unwrap();
    let (bytes, value) = (device.memory.to_vec(), pattern(MIB, 5));
    let place = bytes.chunks(4096).position(|block| block == &value[8192..12288]).unwrap();
    device.memory.reopen();
    device.memory.write_at(&[0xEE; 4096], 4096 * place as u64).unwrap();
    let engine = open(&device, 64 << 20);
    for _ in 0..3 {
        let failed = engine.view().bytes(SPACE, b"run", 0, MIB).unwrap_err();
        assert_eq!(failed.kind(), crate::error::ErrorKind::Damaged);
    }
    let mut rest = vec![0; 65536];
    engine.view().read(SPACE, b"run", 1 << 19, &mut rest).unwrap();
    assert!(rest == pattern(MIB, 5)[1 << 19..][..65536]);
}
