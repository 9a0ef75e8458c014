//! What the engine promises, through its own face: contents, reopening, growth, space that comes back.

use std::sync::Arc;

use bytes::Bytes;
use koine_engine::device::MemoryDevice;
use koine_engine::{
    Background, Batch, Condition, Durability, Engine, ErrorKind, FormatOptions, KeyRange, Operation, Options, Payload,
    Place, RequestId, Sources, SpaceId, StageHint,
};
use koine_env::SeededRandom;

const SPACE: SpaceId = SpaceId(20);

fn new_store(length: usize, length_max: u64, ring_len: u64) -> Arc<MemoryDevice> {
    let device = Arc::new(MemoryDevice::growable(length, length_max));
    let format = FormatOptions { ring_len, ..FormatOptions::default() };
    Engine::format(device.as_ref(), format, &SeededRandom::new(1)).unwrap();
    device
}

/// Opens the store itself and makes the space.
fn begin(device: &Arc<MemoryDevice>, background: Background) -> Engine {
    let held = Arc::clone(device);
    let engine = Engine::open(held, Options { background, ..Options::default() }).unwrap();
    commit(&engine, Batch::new().then(Operation::CreateSpace { space: SPACE }));
    engine
}

/// Opens a copy of what is on the device, as after a crash.
fn reopen(device: &Arc<MemoryDevice>, background: Background) -> Engine {
    let copy = Arc::new(MemoryDevice::from_bytes(device.to_vec(), u64::MAX));
    Engine::open(copy, Options { background, ..Options::default() }).unwrap()
}

fn commit(engine: &Engine, batch: Batch) {
    engine.submit(batch, Durability::Sync).wait().unwrap();
}

fn read(engine: &Engine, key: &[u8]) -> Option<Vec<u8>> {
    let view = engine.view();
    let size = view.stat(SPACE, key).unwrap()?.size;
    Some(view.bytes(SPACE, key, 0, size as usize).unwrap().to_vec())
}

fn sound(engine: &Engine) {
    let report = engine.check(&mut |_| {}).unwrap();
    assert!(report.is_sound(), "{:#?}", report.findings);
}

fn pattern(length: usize, seed: u8) -> Vec<u8> {
    (0..length).map(|i| (i as u8).wrapping_mul(31).wrapping_add((i >> 8) as u8).wrapping_add(seed)).collect()
}

#[test]
fn values_of_every_size_come_back_also_after_reopening() {
    for background in [Background::Manual, Background::Threads] {
        let device = new_store(64 << 20, 64 << 20, 1 << 20);
        let sizes = [0, 1, 100, 1024, 1025, 4096, 5000, 32768, 32769, 100_000, 1 << 20, (3 << 20) + 17];
        let engine = begin(&device, background);
        for (index, size) in sizes.iter().enumerate() {
            commit(&engine, Batch::new().put(SPACE, format!("key-{size}"), pattern(*size, index as u8)));
        }
        for pass in 0..3 {
            for (index, size) in sizes.iter().enumerate() {
                let found = read(&engine, format!("key-{size}").as_bytes());
                assert_eq!(found, Some(pattern(*size, index as u8)), "size {size}, pass {pass}");
            }
            sound(&engine);
            engine.checkpoint().unwrap();
        }
        let crashed = reopen(&device, background);
        assert_eq!(read(&crashed, b"key-5000"), Some(pattern(5000, 6)));
        sound(&crashed);
        engine.close().unwrap();
        let closed = reopen(&device, background);
        assert_eq!(read(&closed, b"key-100000"), Some(pattern(100_000, 9)));
        sound(&closed);
    }
}

#[test]
fn a_full_store_still_deletes_and_its_space_comes_back() {
    let device = new_store(4 << 20, 4 << 20, 64 << 10);
    let engine = begin(&device, Background::Manual);
    for round in 0..5 {
        let mut kept = 0;
        let full = loop {
            let batch = Batch::new().put(SPACE, format!("{kept:04}"), pattern(70_000, kept as u8));
            match engine.submit(batch, Durability::Sync).wait() {
                Ok(_) => kept += 1,
                Err(error) => break error,
            }
        };
        assert_eq!(full.kind(), ErrorKind::Full, "{full}");
        assert!(kept > 30, "round {round}: only {kept}");
        for key in 0..kept {
            assert_eq!(read(&engine, format!("{key:04}").as_bytes()), Some(pattern(70_000, key as u8)));
            commit(&engine, Batch::new().delete(SPACE, format!("{key:04}")));
        }
        sound(&engine);
    }
}

#[test]
fn a_growing_store_takes_more_than_it_began_with() {
    let device = new_store(1 << 20, 64 << 20, 64 << 10);
    let engine = begin(&device, Background::Threads);
    for key in 0..200u32 {
        commit(&engine, Batch::new().put(SPACE, format!("{key:04}"), pattern(100_000, key as u8)));
    }
    engine.close().unwrap();
    let engine = reopen(&device, Background::Threads);
    for key in 0..200u32 {
        assert_eq!(read(&engine, format!("{key:04}").as_bytes()), Some(pattern(100_000, key as u8)));
    }
    sound(&engine);
}

#[test]
fn parts_are_shared_joined_and_let_go() {
    let device = new_store(32 << 20, 32 << 20, 1 << 20);
    let engine = begin(&device, Background::Manual);
    let (a, b) = (pattern(300_001, 1), pattern(5_003, 2));
    commit(&engine, Batch::new().put(SPACE, "a", a.clone()).put(SPACE, "b", b.clone()));
    let join = |fate, target: &'static str| Operation::Concatenate {
        sources: vec![Place::new(SPACE, "a"), Place::new(SPACE, "b")],
        target: Place::new(SPACE, target),
        fate,
    };
    commit(&engine, Batch::new().then(join(Sources::Keep, "kept")));
    engine.checkpoint().unwrap();
    sound(&engine);
    let clone = Operation::CloneRange {
        from: Place::new(SPACE, "kept"),
        from_offset: 99_999,
        length: 150_000,
        to: Place::new(SPACE, "part"),
        to_offset: 10,
    };
    commit(&engine, Batch::new().then(clone));
    let data = Payload::Bytes(Bytes::from_static(b"patch"));
    let write = Operation::WriteAt { at: Place::new(SPACE, "kept"), offset: 150_000, data };
    commit(&engine, Batch::new().then(write).then(join(Sources::Delete, "moved")));
    sound(&engine);
    let mut joined = a;
    joined.extend_from_slice(&b);
    assert_eq!(read(&engine, b"moved"), Some(joined.clone()));
    assert_eq!(read(&engine, b"a"), None);
    let mut part = vec![0; 10];
    part.extend_from_slice(&joined[99_999..249_999]);
    assert_eq!(read(&engine, b"part"), Some(part));
    joined[150_000..150_005].copy_from_slice(b"patch");
    assert_eq!(read(&engine, b"kept"), Some(joined));
    let used = engine.usage().used;
    commit(&engine, Batch::new().then(Operation::DeleteRange { space: SPACE, range: KeyRange::all() }));
    engine.checkpoint().unwrap();
    engine.checkpoint().unwrap();
    sound(&engine);
    assert!(engine.usage().used + 300_000 < used);
}

#[test]
fn a_view_sees_its_version_while_everything_is_written_over() {
    let device = new_store(16 << 20, 16 << 20, 64 << 10);
    let engine = begin(&device, Background::Manual);
    for key in 0..10u8 {
        commit(&engine, Batch::new().put(SPACE, vec![key], pattern(50_000, key)));
    }
    let view = engine.view();
    for round in 1..10u8 {
        for key in 0..10u8 {
            commit(&engine, Batch::new().put(SPACE, vec![key], pattern(50_000, key.wrapping_add(round))));
        }
        engine.checkpoint().unwrap();
    }
    for key in 0..10u8 {
        assert_eq!(view.bytes(SPACE, &[key], 0, 50_000).unwrap(), pattern(50_000, key));
    }
    drop(view);
    engine.checkpoint().unwrap();
    sound(&engine);
}

#[test]
fn a_store_that_runs_full_takes_views_back() {
    let device = Arc::new(MemoryDevice::fixed(1 << 20));
    Engine::format(device.as_ref(), FormatOptions::default(), &SeededRandom::new(1)).unwrap();
    let engine = begin(&device, Background::Manual);
    let put = |key: usize, round: usize| {
        let value = Payload::Bytes(Bytes::from(pattern(3_000, round as u8)));
        let at = Place::new(SPACE, key.to_be_bytes().to_vec());
        let done = engine.submit(Batch::new().then(Operation::Put { at, value }), Durability::Sync).wait();
        while engine.step().unwrap() {}
        done.map(|_| ())
    };
    (0..8).for_each(|key| put(key, 0).unwrap());
    let view = engine.view();
    for round in 1..200 {
        put(round % 8, round).unwrap();
    }
    let old = view.bytes(SPACE, &0usize.to_be_bytes(), 0, 3_000);
    assert_eq!(old.unwrap_err().kind(), ErrorKind::Expired);
    for key in 0..8usize {
        let round = (192..200).find(|round| round % 8 == key).unwrap();
        assert_eq!(read(&engine, &key.to_be_bytes()).unwrap(), pattern(3_000, round as u8));
    }
    sound(&engine);
}

#[test]
fn a_repeated_request_gets_its_first_outcome_also_after_reopening() {
    let device = new_store(8 << 20, 8 << 20, 64 << 10);
    let engine = begin(&device, Background::Threads);
    let absent = Condition::Absent { space: SPACE, key: Bytes::from_static(b"k") };
    let won = Batch::new().when(absent.clone()).put(SPACE, "k", "v").with_request(RequestId([1; 16]));
    let lost = Batch::new().when(absent).put(SPACE, "k", "w").with_request(RequestId([2; 16]));
    let first = engine.submit(won.clone(), Durability::Sync).wait().unwrap();
    assert_eq!(engine.submit(lost.clone(), Durability::Sync).wait().unwrap_err().kind(), ErrorKind::Refused);
    let check = |engine: &Engine| {
        let again = engine.submit(won.clone(), Durability::Sync).wait().unwrap();
        assert_eq!((again.version, again.repeated), (first.version, true));
        assert_eq!(engine.submit(lost.clone(), Durability::Sync).wait().unwrap_err().kind(), ErrorKind::Refused);
    };
    check(&engine);
    check(&reopen(&device, Background::Threads));
    engine.checkpoint().unwrap();
    check(&reopen(&device, Background::Threads));
}

#[test]
fn stages_that_are_dropped_leave_nothing() {
    let device = new_store(16 << 20, 16 << 20, 64 << 10);
    let engine = begin(&device, Background::Manual);
    for round in 0..20 {
        let mut stage = engine.stage(StageHint::default()).unwrap();
        for piece in 0..4 {
            stage.write(&pattern(1 << 20, piece)).unwrap();
        }
        let token = stage.finish().unwrap();
        if round % 3 == 0 {
            let put = Operation::Put { at: Place::new(SPACE, "k"), value: Payload::Stage(token) };
            commit(&engine, Batch::new().then(put));
            assert_eq!(read(&engine, b"k").unwrap().len(), 4 << 20);
            commit(&engine, Batch::new().delete(SPACE, "k"));
        }
        while engine.step().unwrap() {}
    }
    sound(&engine);
    sound(&reopen(&device, Background::Manual));
}

#[test]
fn a_refused_batch_that_held_a_logged_stage_alone_gives_it_back() {
    // So small a ring that the extents of the stage are logged before any commit names them.
    let device = new_store(4 << 20, 4 << 20, 64 << 10);
    let engine = begin(&device, Background::Manual);
    let hint = koine_engine::StageHint { access: koine_engine::Access::Random, ..Default::default() };
    let before = engine.view().version();
    let mut stage = engine.stage(hint).unwrap();
    stage.write(&vec![7; 1 << 20]).unwrap();
    stage.write(&[8; 1000]).unwrap();
    let value = Payload::Stage(stage.finish().unwrap());
    assert!(engine.view().version() > before, "the stage was logged");
    // Refused while it is applied, not by a condition: there is no such space.
    let at = koine_engine::Place::new(SpaceId(77), &b"k"[..]);
    let refused = engine.submit(Batch::new().then(Operation::Put { at, value }), Durability::Sync).wait();
    assert_eq!(refused.unwrap_err().kind(), ErrorKind::Refused);
    while engine.step().unwrap() {}
    assert!(engine.check(&mut |_| ()).unwrap().is_sound());
}
