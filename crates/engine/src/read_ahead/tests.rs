//! Reads in order cost few calls of the device and give the same bytes as any others.

use std::io;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};

use koine_env::SeededRandom;
use parking_lot::Mutex;
use std::thread::ThreadId;

use crate::device::{Device, MemoryDevice, ReadMode, pass_on};
use crate::objects::{Hint, Store, StoreOptions};
use crate::{
    Access, Background, Batch, Durability, Engine, ErrorKind, FormatOptions, Operation, Options, Payload, Place,
    SpaceId, StageHint,
};
use std::sync::Arc;

const SPACE: SpaceId = SpaceId(20);
const MIB: usize = 1 << 20;

/// Memory that counts reads and says that it has to be waited for.
struct Slow {
    memory: MemoryDevice,
    cold: AtomicBool,
    reads: AtomicUsize,
    read_len: AtomicUsize,
    bad: AtomicUsize,
    /// Reads of other threads take a while.
    slow_for_all_but: Mutex<Option<ThreadId>>,
    /// Large reads of that thread.
    own_reads: AtomicUsize,
}

impl Slow {
    fn count(&self) -> (usize, usize) {
        (self.reads.swap(0, Ordering::SeqCst), self.read_len.swap(0, Ordering::SeqCst))
    }
}

impl Device for Slow {
    pass_on!(memory: len, grow, write_at, sync, discard, close, is_fixed);

    fn holds(&self, _offset: u64, _length: usize) -> bool {
        !self.cold.load(Ordering::SeqCst)
    }
    fn read_at(&self, buffer: &mut [u8], offset: u64, mode: ReadMode) -> io::Result<()> {
        match *self.slow_for_all_but.lock() {
            Some(own) if own == std::thread::current().id() => {
                self.own_reads.fetch_add(usize::from(buffer.len() >= MIB / 2), Ordering::SeqCst);
            }
            Some(_) => std::thread::sleep(std::time::Duration::from_millis(2)),
            None => {}
        }
        self.reads.fetch_add(1, Ordering::SeqCst);
        self.read_len.fetch_add(buffer.len(), Ordering::SeqCst);
        self.memory.read_at(buffer, offset, mode)?;
        let bad = self.bad.load(Ordering::SeqCst);
        if let Some(byte) = bad.checked_sub(offset as usize).and_then(|at| buffer.get_mut(at)) {
            *byte ^= 1;
        }
        Ok(())
    }
}

fn open(background: Background) -> (Arc<Slow>, Arc<Engine>) {
    let device = Arc::new(Slow {
        memory: MemoryDevice::fixed(96 << 20),
        cold: AtomicBool::new(true),
        reads: AtomicUsize::new(0),
        read_len: AtomicUsize::new(0),
        bad: AtomicUsize::new(usize::MAX),
        slow_for_all_but: Mutex::new(None),
        own_reads: AtomicUsize::new(0),
    });
    Engine::format(
        device.as_ref(),
        FormatOptions { ring_len: 4 << 20, ..FormatOptions::default() },
        &SeededRandom::new(7),
    )
    .unwrap();
    let engine = Engine::open(device.clone(), Options { background, ..Options::default() }).unwrap();
    let made = Batch::new().then(Operation::CreateSpace { space: SPACE });
    engine.submit(made, Durability::Sync).wait().unwrap();
    (device, Arc::new(engine))
}

fn bytes(length: usize) -> Vec<u8> {
    (0..length).map(|index| (index * 7 + index / 251 + index / 65_521) as u8).collect()
}

fn put(engine: &Engine, key: &'static str, value: &[u8]) {
    let hint = StageHint { length: Some(value.len() as u64), access: Access::Sequential, ..StageHint::default() };
    let mut stage = engine.stage(hint).unwrap();
    value.chunks(MIB).for_each(|piece| stage.write(piece).unwrap());
    let put = Operation::Put { at: Place::new(SPACE, key), value: Payload::Stage(stage.finish().unwrap()) };
    engine.submit(Batch::new().then(put), Durability::Sync).wait().unwrap();
}

#[test]
fn small_reads_in_order_read_the_device_in_large_windows() {
    for background in [Background::Threads, Background::Manual] {
        let (device, engine) = open(background);
        let value = bytes(20 * MIB + 12_345);
        put(&engine, "k", &value);
        let view = engine.view();
        device.count();
        let mut buffer = vec![0; 4096];
        for (index, expected) in value.chunks(4096).enumerate() {
            let count = view.read(SPACE, b"k", index as u64 * 4096, &mut buffer).unwrap();
            assert!(buffer[..count] == *expected, "{index}");
        }
        assert_eq!(view.read(SPACE, b"k", value.len() as u64, &mut buffer).unwrap(), 0);
        let (reads, read_len) = device.count();
        assert!(reads < 40, "{background:?}: {reads} reads for {} small ones", value.len() / 4096);
        assert!(read_len < value.len() + 3 * MIB, "{background:?}: {read_len} bytes");
        drop(view);
        // The io_pool may hold the last one a moment longer.
        while engine.shared().buffers.free() < 16 {
            std::thread::yield_now();
        }
        engine.close().unwrap();
    }
}

#[test]
fn a_reader_that_is_faster_than_the_device_waits_for_windows_alone() {
    let (device, engine) = open(Background::Threads);
    let value = bytes(24 * MIB);
    put(&engine, "k", &value);
    let view = engine.view();
    let own = std::thread::current().id();
    *device.slow_for_all_but.lock() = Some(own);
    let mut buffer = vec![0; MIB];
    for at in (0..value.len()).step_by(MIB) {
        assert_eq!(view.read(SPACE, b"k", at as u64, &mut buffer).unwrap(), MIB);
        assert!(buffer == value[at..at + MIB], "{at}");
    }
    // The first piece, from which on there is an order, and nothing else.
    assert_eq!(device.own_reads.load(Ordering::SeqCst), 1);
    engine.close().unwrap();
}

#[test]
fn reads_of_every_kind_give_the_right_bytes() {
    let (device, engine) = open(Background::Threads);
    let value = bytes(9 * MIB + 777);
    put(&engine, "k", &value);
    put(&engine, "other", &value[5..3 * MIB]);
    let random = SeededRandom::new(3);
    use koine_env::Random;
    let next = |most: usize| random.next_u64() as usize % most;
    for round in 0..60 {
        device.cold.store(round % 3 != 0, Ordering::SeqCst);
        let view = engine.view();
        let (mut at, length) = (next(value.len()), 1 + next([64, 5000, 200_000, 3 * MIB][round % 4]));
        for step in 0..30 {
            if step % 10 == 9 {
                at = next(value.len());
            }
            let (key, whole) = if step % 13 == 12 { ("other", &value[5..3 * MIB]) } else { ("k", &value[..]) };
            let expected = whole.get(at..).map_or(&[][..], |rest| &rest[..rest.len().min(length)]);
            let mut buffer = vec![0; length];
            let count = view.read(SPACE, key.as_bytes(), at as u64, &mut buffer).unwrap();
            assert!(buffer[..count] == *expected, "{round} {step} {key} {at} {length}");
            if let Some(count) = view.read_now(SPACE, key.as_bytes(), at as u64, &mut buffer).unwrap() {
                assert!(buffer[..count] == *expected, "now: {round} {step} {key} {at} {length}");
            }
            at += length;
        }
    }
    engine.close().unwrap();
}

#[test]
fn adjacent_small_reads_share_a_chunk() {
    let (device, engine) = open(Background::Manual);
    let value = bytes(4 * MIB);
    put(&engine, "k", &value);
    let view = engine.view();
    device.count();
    let mut buffer = vec![0; 1000];
    for part in [3, 1, 2, 0] {
        let at = 2 * MIB + part * 1000;
        view.read(SPACE, b"k", at as u64, &mut buffer).unwrap();
        assert!(buffer[..] == value[at..at + 1000]);
    }
    assert_eq!(device.count(), (1, 32 << 10));
}

#[test]
fn threads_that_share_an_object_share_its_windows() {
    let (device, engine) = open(Background::Threads);
    let store = Store::over(Arc::clone(&engine), StoreOptions::default()).unwrap();
    let object = store.create(0).unwrap();
    let value = bytes(16 * MIB);
    object.write(0, &value, Durability::Sync).unwrap();
    device.count();
    std::thread::scope(|scope| {
        for thread in 0..8 {
            let (object, value) = (&object, &value);
            scope.spawn(move || {
                let mut buffer = vec![0; 4096];
                for at in (thread * 4096..value.len()).step_by(8 * 4096) {
                    assert_eq!(object.read(at as u64, &mut buffer).unwrap(), 4096);
                    assert!(buffer[..] == value[at..at + 4096], "{at}");
                }
            });
        }
    });
    // Also when each of them is a stream of its own, because it was left behind.
    let (reads, _) = device.count();
    assert!(reads < value.len() / 4096 / 2, "{reads}");
    object.close(Durability::Memory).unwrap();
    store.close().unwrap();
}

#[test]
fn a_change_of_an_object_is_seen_at_once() {
    for access in [None, Some(Access::Sequential)] {
        let (_, engine) = open(Background::Threads);
        let store = Store::over(Arc::clone(&engine), StoreOptions::default()).unwrap();
        let number = store.create(0).unwrap().number();
        let object = store.open_with(number, Hint { access, ..Hint::default() }).unwrap();
        let mut value = bytes(4 * MIB);
        object.write(0, &value, Durability::Memory).unwrap();
        let mut buffer = vec![0; 4096];
        for (step, at) in (0..value.len() - 8192).step_by(4096).enumerate() {
            object.read(at as u64, &mut buffer).unwrap();
            assert!(buffer[..] == value[at..at + 4096], "{step}");
            if step % 50 == 49 {
                // Ahead of the reader, where windows are already.
                object.write(at as u64 + 5000, &[step as u8; 2000], Durability::Memory).unwrap();
                value[at + 5000..at + 7000].fill(step as u8);
            }
        }
        object.close(Durability::Memory).unwrap();
        store.close().unwrap();
    }
}

#[test]
fn damage_ahead_of_the_reader_is_told_when_it_gets_there() {
    let (device, engine) = open(Background::Threads);
    let value = bytes(8 * MIB);
    put(&engine, "k", &value);
    let view = engine.view();
    // Where the bytes of the sixth megabyte lie, to the byte.
    let place = (0..device.memory.len().unwrap() as usize - 64)
        .step_by(4096)
        .find(|at| {
            let mut head = [0; 64];
            device.memory.read_at(&mut head, *at as u64, ReadMode::Direct).unwrap();
            head == value[5 * MIB..5 * MIB + 64]
        })
        .unwrap();
    device.bad.store(place + 70_000, Ordering::SeqCst);
    let mut buffer = vec![0; 4096];
    for at in (0..value.len()).step_by(4096) {
        let read = view.read(SPACE, b"k", at as u64, &mut buffer);
        // The chunk of 32 KiB that holds the byte, and no other.
        if (5 * MIB + 65_536..5 * MIB + 98_304).contains(&at) {
            assert_eq!(read.unwrap_err().kind(), ErrorKind::Damaged, "{at}");
        } else {
            assert_eq!(read.unwrap(), 4096);
            assert!(buffer[..] == value[at..at + 4096], "{at}");
        }
    }
    engine.close().unwrap();
}

#[test]
fn who_leaves_large_gaps_is_not_read_ahead_for() {
    let (device, engine) = open(Background::Threads);
    let value = bytes(48 * MIB);
    put(&engine, "k", &value);
    let view = engine.view();
    device.count();
    let (mut buffer, mut asked) = (vec![0; 256 << 10], 0);
    for at in (0..value.len()).step_by(3 * MIB) {
        view.read(SPACE, b"k", at as u64, &mut buffer).unwrap();
        assert!(buffer[..] == value[at..at + buffer.len()], "{at}");
        asked += buffer.len();
    }
    drop(view);
    while engine.shared().buffers.free() < 16 {
        std::thread::yield_now();
    }
    let (_, read_len) = device.count();
    assert!(read_len <= asked + 3 * MIB, "{read_len} bytes for {asked}");
    engine.close().unwrap();
}

#[test]
fn windows_that_nobody_uses_are_taken_back() {
    let (_, engine) = open(Background::Threads);
    let value = bytes(12 * MIB);
    put(&engine, "k", &value);
    let buffers = &engine.shared().buffers;
    let views: Vec<_> = (0..20).map(|_| engine.view()).collect();
    let mut buffer = vec![0; MIB];
    for view in &views {
        view.read(SPACE, b"k", 0, &mut buffer).unwrap();
    }
    assert!(buffers.free() < 16, "there is read-ahead");
    std::thread::sleep(super::STALE * 2);
    engine.shared().readers.reclaim();
    // What the io_pool still reads is given back when it is there.
    while buffers.free() < 16 {
        std::thread::yield_now();
    }
    engine.close().unwrap();
}

#[test]
fn small_pieces_that_lie_one_behind_the_other_are_read_at_once_and_verified_each() {
    let (device, engine) = open(Background::Manual);
    let value = bytes(MIB);
    let write = |offset: usize, length: usize| {
        let data = Payload::Bytes(value[offset..offset + length].to_vec().into());
        let write = Operation::WriteAt { at: Place::new(SPACE, "k"), offset: offset as u64, data };
        engine.submit(Batch::new().then(write), Durability::Memory).wait().unwrap();
    };
    (0..MIB).step_by(4096).for_each(|offset| write(offset, 4096));
    engine.checkpoint().unwrap();
    let read = |offset: usize, length: usize| {
        let mut buffer = vec![0; length];
        let count = engine.view().read(SPACE, b"k", offset as u64, &mut buffer)?;
        Ok::<_, crate::Error>(buffer[..count].to_vec())
    };
    device.count();
    assert!(read(0, MIB).unwrap() == value);
    let (reads, _) = device.count();
    assert!(reads <= 8, "{reads} reads of the device for 256 pieces");
    // Parts of pieces at both ends, and one that came later and lies elsewhere.
    write(500_000, 3000);
    engine.checkpoint().unwrap();
    for (offset, length) in [(1, MIB - 2), (4095, 8194), (490_000, 30_000), (499_999, 2)] {
        assert!(read(offset, length).unwrap() == value[offset..offset + length], "{length} at {offset}");
    }
    // One damaged piece in the middle of a row: it is named, and those beside it can be read.
    let image = device.memory.to_vec();
    let piece = &value[100 * 4096..][..4096];
    let at = image.chunks(4096).position(|block| block == piece).unwrap() * 4096;
    device.bad.store(at + 5, Ordering::SeqCst);
    let error = read(0, MIB).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Damaged);
    assert!(error.to_string().contains(&format!("byte {at} ")), "{error}");
    assert!(read(96 * 4096, 4 * 4096).unwrap() == value[96 * 4096..100 * 4096]);
    assert!(read(101 * 4096, 4 * 4096).unwrap() == value[101 * 4096..105 * 4096]);
}

#[test]
fn readers_that_are_more_than_the_buffers_all_read_ahead() {
    for (count, reads_of_one) in [(8, 16), (24, 64)] {
        let (device, engine) = open(Background::Threads);
        let value = bytes(2 * MIB + 5000);
        put(&engine, "k", &value);
        let views: Vec<_> = (0..count).map(|_| engine.view()).collect();
        device.count();
        let mut buffer = vec![0; 4096];
        // From within a chunk on, in turns.
        for at in (8192..value.len()).step_by(4096) {
            for view in &views {
                let length = view.read(SPACE, b"k", at as u64, &mut buffer).unwrap();
                assert!(buffer[..length] == value[at..at + length], "{at}");
            }
        }
        let (reads, read_len) = device.count();
        assert!(reads <= count * reads_of_one, "{count} readers: {reads} reads of the device");
        assert!(read_len <= count * 2 * value.len(), "{count} readers: {read_len} bytes");
        drop(views);
        engine.close().unwrap();
    }
}
