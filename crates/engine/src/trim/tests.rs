//! Space given back: fewer blocks of a sparse file, nothing that is needed, and never before it may be.

use std::os::unix::fs::MetadataExt;
use std::path::Path;
use std::sync::Arc;

use koine_env::SeededRandom;

use crate::device::{Device, FileDevice, MemoryDevice, OpenOptions, RecordingDevice};
use crate::{
    Background, Batch, Durability, Engine, FormatOptions, KeyRange, Operation, Options, Payload, Place, SpaceId,
};

const SPACE: SpaceId = SpaceId::FIRST;
const MIB: u64 = 1 << 20;

fn open(device: Arc<dyn Device>, discard: bool) -> Engine {
    Engine::open(device, Options { background: Background::Manual, discard, ..Options::default() }).unwrap()
}

fn done(engine: &Engine, operation: Operation) {
    engine.submit(Batch::new().then(operation), Durability::Sync).wait().unwrap();
}

fn put(engine: &Engine, key: &str, length: u64) {
    let value = Payload::Bytes(vec![key.as_bytes()[0]; length as usize].into());
    done(engine, Operation::Put { at: Place::new(SPACE, key.to_owned()), value });
}

fn delete(engine: &Engine, key: &str) {
    done(engine, Operation::Delete { at: Place::new(SPACE, key.to_owned()) });
}

/// A file of 64 MiB with all its blocks, and a store in it.
fn file(folder: &Path, discard: bool) -> (std::path::PathBuf, Engine) {
    let path = folder.join("store");
    let device = FileDevice::open(&path, OpenOptions { create: true, read_only: false }).unwrap();
    device.grow(64 * MIB).unwrap();
    Engine::format(&device, FormatOptions { size_max: 64 * MIB, ..FormatOptions::default() }, &SeededRandom::new(1))
        .unwrap();
    let engine = open(Arc::new(device), discard);
    done(&engine, Operation::CreateSpace { space: SPACE });
    (path, engine)
}

fn allocated(path: &Path) -> u64 {
    std::fs::metadata(path).unwrap().blocks() * 512
}

/// Makes what was freed reusable, as far as views let it.
fn settle(engine: &Engine) {
    for _ in 0..3 {
        put(engine, "tick", 1);
        engine.checkpoint().unwrap();
    }
}

#[test]
fn what_is_freed_leaves_a_file_once_it_may_be_reused() {
    let folder = tempfile::tempdir().unwrap();
    let (path, engine) = file(folder.path(), true);
    put(&engine, "a", 20 * MIB);
    put(&engine, "b", 10 * MIB);
    settle(&engine);
    let full = allocated(&path);
    let view = engine.view();
    delete(&engine, "a");
    settle(&engine);
    assert!(allocated(&path) > full - MIB, "a view still reads it");
    let mut buffer = vec![0; 1 << 20];
    assert_eq!(view.read(SPACE, b"a", 19 * MIB, &mut buffer).unwrap(), buffer.len());
    assert!(buffer.iter().all(|byte| *byte == b'a'));
    drop(view);
    settle(&engine);
    assert!(allocated(&path) <= full - 19 * MIB, "{} of {full}", allocated(&path));
    put(&engine, "c", 25 * MIB);
    assert!(engine.check(&mut |_| ()).unwrap().is_sound());
    engine.close().unwrap();
}

#[test]
fn nothing_is_given_back_unasked_and_all_that_is_free_when_asked() {
    let folder = tempfile::tempdir().unwrap();
    let (path, engine) = file(folder.path(), false);
    put(&engine, "a", 20 * MIB);
    put(&engine, "b", 10 * MIB);
    delete(&engine, "a");
    settle(&engine);
    assert!(allocated(&path) >= 64 * MIB);
    let mut told = 0;
    let bytes = engine.trim(&mut |so_far| told = so_far).unwrap();
    assert!(bytes > 40 * MIB && told == bytes, "{bytes}");
    assert!(allocated(&path) < 24 * MIB, "{}", allocated(&path));
    let free = engine.usage().free;
    assert!(engine.check(&mut |_| ()).unwrap().is_sound());
    let view = engine.view();
    assert!(view.bytes(SPACE, b"b", 0, 10 << 20).unwrap().iter().all(|byte| *byte == b'b'));
    drop(view);
    // All of it can be had again.
    put(&engine, "c", free - 4 * MIB);
    engine.close().unwrap();
}

#[test]
fn a_power_cut_among_discards_loses_nothing_that_was_acknowledged() {
    let inner = MemoryDevice::fixed(4 << 20);
    let format = FormatOptions { ring_len: 64 << 10, ..FormatOptions::default() };
    Engine::format(&inner, format, &SeededRandom::new(1)).unwrap();
    let device = Arc::new(RecordingDevice::new(inner).unwrap());
    let engine = open(device.clone(), true);
    done(&engine, Operation::CreateSpace { space: SPACE });
    // After each commit: where the recording stood, and which keys there are.
    let mut known = vec![(device.position(), Vec::new())];
    let mut keys: Vec<String> = Vec::new();
    for round in 0..60u8 {
        let key = format!("{}{round}", char::from(b'a' + round % 26));
        put(&engine, &key, 70_000 + u64::from(round) * 3000);
        keys.push(key);
        known.push((device.position(), keys.clone()));
        if keys.len() > 6 {
            delete(&engine, &keys.remove(usize::from(round) % 5));
            known.push((device.position(), keys.clone()));
        }
        if round % 4 == 0 {
            engine.checkpoint().unwrap();
        }
    }
    let recording = device.recording();
    assert!(recording.discards() > 20, "{} discards", recording.discards());
    let mut walker = recording.images(11);
    for cut in (known[0].0..=recording.len()).step_by(23) {
        walker.advance(cut);
        for part in 0..3 {
            let image = if part == 0 { walker.durable() } else { walker.partial(part) };
            let engine = open(Arc::new(MemoryDevice::from_image(image, 4 << 20)), true);
            let report = engine.check(&mut |_| ()).unwrap();
            assert!(report.is_sound(), "cut {cut}: {:?}", report.findings);
            let view = engine.view();
            let mut cursor = view.cursor(SPACE, KeyRange::all(), false).unwrap();
            let mut found = Vec::new();
            while let Some(entry) = cursor.next().unwrap() {
                found.push(String::from_utf8(entry.key.to_vec()).unwrap());
            }
            let first = known.iter().rposition(|(at, _)| *at <= cut).unwrap();
            let allowed = known[first..(first + 2).min(known.len())].iter().any(|(_, keys)| {
                let mut sorted = keys.clone();
                sorted.sort();
                sorted == found
            });
            assert!(allowed, "cut {cut}: {found:?}");
        }
    }
}
