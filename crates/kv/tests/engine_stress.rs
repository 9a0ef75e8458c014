//! Writers and readers at once on a file that is small enough for its space to be used again and again.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::thread;

use bytes::Bytes;
use koine_engine::device::{Device, FileDevice, OpenOptions};
use koine_engine::{Engine, FormatOptions, Options};
use koine_env::{OsRandom, Random, SeededRandom};
use koine_kv::{
    Batch, Direction, Durability, EngineKv, ErrorKind, KeyRange, Kv, Operation, Payload, Result, SpaceId, StageHint,
    View,
};

const SPACE: SpaceId = SpaceId::FIRST;
const KEYS: u64 = 6;
const STEPS: u64 = 400;

/// The value that a seed stands for: it tells its seed and its length.
fn value(seed: u64) -> Bytes {
    let lengths = [40, 900, 5_000, 31_000, 40_001, 120_000, 300_003];
    let length = lengths[(seed % lengths.len() as u64) as usize];
    let mut bytes = vec![0; length];
    SeededRandom::new(seed).fill(&mut bytes);
    bytes[..8].copy_from_slice(&seed.to_le_bytes());
    Bytes::from(bytes)
}

fn payload(kv: &dyn Kv, seed: u64) -> Payload {
    let bytes = value(seed);
    if bytes.len() < 50_000 {
        return Payload::Bytes(bytes);
    }
    let mut stage = kv.stage(StageHint::default()).expect("a stage");
    bytes.chunks(70_000).for_each(|piece| stage.write(piece).expect("a piece"));
    Payload::Stage(stage.finish().expect("a token"))
}

/// Reads everything that a view shows; each value must be that of its seed, and the pair must agree.
fn look(view: &dyn View) -> Result<u64> {
    let mut found = Vec::new();
    let mut cursor = view.cursor(SPACE, KeyRange::all(), Direction::Forward)?;
    while let Some(entry) = cursor.next()? {
        let length = usize::try_from(entry.stat.size).expect("a length");
        let bytes = view.bytes(SPACE, &entry.key, 0, length)?;
        let seed = u64::from_le_bytes(bytes[..8].try_into().expect("eight bytes"));
        assert!(bytes == value(seed), "{:?} is not the value of {seed}", entry.key);
        found.push((entry.key, seed, entry.stat.version));
    }
    for pair in found.chunks(2) {
        let [(_, first, first_version), (_, second, second_version)] = pair else { panic!("half a pair: {pair:?}") };
        assert_eq!((first + 1, first_version), (*second, second_version), "half a batch is visible: {pair:?}");
    }
    Ok(found.len() as u64)
}

fn write(kv: &dyn Kv, writer: u64) {
    let random = SeededRandom::new(writer);
    for step in 0..STEPS {
        let seed = (writer << 32 | step) * 2;
        let pair = random.next_u64() % KEYS;
        let (a, b) = (format!("{pair}a"), format!("{pair}b"));
        let place = |key: &str| koine_kv::Place::new(SPACE, key.to_owned());
        let batch = if step % 9 == 8 {
            Batch::new().delete(SPACE, a).delete(SPACE, b)
        } else {
            let first = Operation::Put { at: place(&a), value: payload(kv, seed) };
            Batch::new().then(first).then(Operation::Put { at: place(&b), value: payload(kv, seed + 1) })
        };
        let durability = [Durability::Memory, Durability::Written, Durability::Sync][(step % 3) as usize];
        kv.commit(batch, durability).expect("the batch is applied");
    }
}

#[test]
fn readers_see_whole_values_while_space_is_used_again() {
    let folder = tempfile::tempdir().expect("a folder");
    let path = folder.path().join("store");
    let device = FileDevice::open(&path, OpenOptions { create: true, ..OpenOptions::default() }).expect("a file");
    device.grow(48 << 20).expect("room");
    Engine::format(&device, FormatOptions { size_max: 48 << 20, ..FormatOptions::default() }, &OsRandom)
        .expect("format");
    let kv = Arc::new(EngineKv::open(Arc::new(device), Options::default()).expect("open"));
    kv.commit(Batch::new().then(Operation::CreateSpace { space: SPACE }), Durability::Memory).expect("a space");
    let done = AtomicBool::new(false);
    let (looks, expired) = (AtomicU64::new(0), AtomicU64::new(0));
    thread::scope(|scope| {
        for _ in 0..3 {
            scope.spawn(|| {
                while !done.load(Ordering::Relaxed) {
                    let view = kv.view().expect("a view");
                    match look(&*view) {
                        Ok(_) => looks.fetch_add(1, Ordering::Relaxed),
                        Err(error) => {
                            assert_eq!(error.kind(), ErrorKind::Expired, "{error:?}");
                            expired.fetch_add(1, Ordering::Relaxed)
                        }
                    };
                }
            });
        }
        let writers: Vec<_> = (0..3)
            .map(|writer| {
                scope.spawn({
                    let kv = &kv;
                    move || write(&**kv, writer)
                })
            })
            .collect();
        let outcomes: Vec<_> = writers.into_iter().map(|writer| writer.join()).collect();
        done.store(true, Ordering::Relaxed);
        outcomes.into_iter().for_each(|outcome| outcome.expect("a writer"));
    });
    assert!(looks.into_inner() > 0, "no reader ever finished");
    let before = look(&*kv.view().expect("a view")).expect("the end");
    let report = kv.engine().check(&mut |_| {}).expect("a check");
    assert!(report.is_sound(), "{report:?}");
    kv.close().expect("close");
    drop(kv);
    let device = FileDevice::open(&path, OpenOptions::default()).expect("the file again");
    let kv = EngineKv::open(Arc::new(device), Options::default()).expect("open");
    assert_eq!(look(&*kv.view().expect("a view")).expect("the end"), before);
}
