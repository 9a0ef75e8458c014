//! Space set aside: first writes into a full store, restarts, power cuts, refusals and deletions.

use std::sync::Arc;

use koine_env::{Random, SeededRandom};

use super::*;
use crate::batch::Payload;
use crate::batch::SpaceId;
use crate::device::{Device, Image, MemoryDevice, RecordingDevice};
use crate::stage::StageHint;
use crate::{Background, FormatOptions, Options};

const SPACE: SpaceId = SpaceId::FIRST;
const MIB: u64 = 1 << 20;

fn open(device: Arc<dyn Device>) -> Engine {
    Engine::open(device, Options { background: Background::Manual, memory_len: 8 << 20, ..Options::default() }).unwrap()
}

fn formatted(length: u64) -> MemoryDevice {
    let device = MemoryDevice::fixed(length as usize);
    let format = FormatOptions { ring_len: 128 << 10, ..FormatOptions::default() };
    Engine::format(&device, format, &SeededRandom::new(1)).unwrap();
    device
}

fn place(key: &str) -> Place {
    Place::new(SPACE, key.to_owned())
}

fn made(engine: &Engine, key: &str, reserved: u64) {
    if !engine.view().has_space(SPACE).unwrap() {
        let create = Batch::new().then(Operation::CreateSpace { space: SPACE });
        engine.submit(create, Durability::Sync).wait().unwrap();
    }
    let create = Batch::new().then(Operation::Truncate { at: place(key), length: reserved });
    engine.submit(create, Durability::Sync).wait().unwrap();
    engine.reserve(&place(key), reserved, Durability::Sync).unwrap();
}

fn write(engine: &Engine, key: &str, offset: u64, data: Vec<u8>) -> Result<()> {
    let length = data.len() as u64;
    let data = if length > 2000 {
        // As a caller stages it who knows that space was set aside.
        let mut stage = engine.stage(StageHint { length: Some(length), reserved: true, ..StageHint::default() })?;
        stage.write(&data)?;
        Payload::Stage(stage.finish()?)
    } else {
        Payload::Bytes(data.into())
    };
    let write = Operation::WriteAt { at: place(key), offset, data };
    engine.submit(Batch::new().then(write), Durability::Written).wait().map(drop)
}

/// Writes other keys until nothing more goes.
fn fill(engine: &Engine) -> u64 {
    let mut count = 0;
    for length in [300_000, 30_000, 3_000, 300] {
        loop {
            let put = Batch::new().put(SPACE, format!("filler {count}"), vec![count as u8; length]);
            match engine.submit(put, Durability::Written).wait() {
                Ok(_) => count += 1,
                Err(error) if error.kind() == ErrorKind::Full => break,
                Err(error) => panic!("{error}"),
            }
        }
    }
    count
}

fn must_be_sound(engine: &Engine) {
    let report = engine.check(&mut |_| ()).unwrap();
    assert!(report.is_sound(), "{:?}", report.findings);
}

/// Writes all of a value that was not written yet, in pieces of several sizes and in random order.
fn write_all(engine: &Engine, key: &str, length: u64, seed: u64) {
    let random = SeededRandom::new(seed);
    let mut starts: Vec<u64> = (0..length / 65_536).collect();
    for at in (1..starts.len()).rev() {
        starts.swap(at, random.next_u64() as usize % (at + 1));
    }
    for start in starts {
        let step = [65_536, 16_384, 4_096][random.next_u64() as usize % 3];
        for part in (0..65_536).step_by(step) {
            let offset = start * 65_536 + part as u64;
            // Writing over what is there is no first write.
            let there = engine.view().bytes(SPACE, key.as_bytes(), offset, step).unwrap();
            if there.iter().all(|byte| *byte != 0) {
                continue;
            }
            let done = write(engine, key, offset, vec![(offset >> 12) as u8 | 1; step]);
            done.unwrap_or_else(|error| panic!("byte {offset} of {length}: {error}"));
        }
    }
}

fn must_be_written(engine: &Engine, key: &str, length: u64) {
    let bytes = engine.view().bytes(SPACE, key.as_bytes(), 0, length as usize).unwrap();
    assert!(bytes.iter().all(|byte| byte & 1 == 1) && bytes.len() as u64 == length);
}

#[test]
fn first_writes_find_room_in_a_full_store_also_after_a_restart() {
    for restart in [false, true] {
        let device = Arc::new(formatted(24 * MIB));
        let mut engine = open(device.clone());
        made(&engine, "kept", 8 * MIB);
        assert!(engine.reserved(&place("kept")) >= 8 * MIB);
        assert!(fill(&engine) > 20);
        assert_eq!(write(&engine, "other", 0, vec![1; 100_000]).unwrap_err().kind(), ErrorKind::Full);
        if restart {
            engine.close().unwrap();
            device.reopen();
            engine = open(device.clone());
            assert!(engine.reserved(&place("kept")) >= 8 * MIB);
            assert_eq!(
                engine
                    .submit(Batch::new().put(SPACE, "x", vec![1; 3000]), Durability::Written)
                    .wait()
                    .unwrap_err()
                    .kind(),
                ErrorKind::Full
            );
        }
        write_all(&engine, "kept", 8 * MIB, 7);
        must_be_written(&engine, "kept", 8 * MIB);
        must_be_sound(&engine);
        assert!(engine.reserved(&place("kept")) < MIB, "what was written is not set aside any more");
    }
}

#[test]
fn what_is_set_aside_ends_with_its_key_and_is_refused_where_there_is_none() {
    let engine = open(Arc::new(formatted(16 * MIB)));
    made(&engine, "a", 4 * MIB);
    let (free, promised) = (engine.usage().free, engine.usage().promised);
    assert_eq!(engine.reserve(&place("a"), 14 * MIB, Durability::Sync).unwrap_err().kind(), ErrorKind::Full);
    assert_eq!(engine.reserve(&place("absent"), MIB, Durability::Sync).unwrap_err().kind(), ErrorKind::Refused);
    assert_eq!(engine.usage().promised, promised, "a refusal reserves nothing");
    // A batch that is refused draws nothing.
    let before = engine.reserved(&place("a"));
    let refused = Batch::new()
        .then(Operation::WriteAt { at: place("a"), offset: 0, data: Payload::Bytes(vec![1; 3000].into()) })
        .then(Operation::Rename { from: place("absent"), to: place("b") });
    assert_eq!(engine.submit(refused, Durability::Sync).wait().unwrap_err().kind(), ErrorKind::Refused);
    assert_eq!(engine.reserved(&place("a")), before);
    // Written twice, drawn once.
    write(&engine, "a", 0, vec![1; 8192]).unwrap();
    let once = engine.reserved(&place("a"));
    assert_eq!(before - once, 8192);
    write(&engine, "a", 0, vec![3; 8192]).unwrap();
    assert_eq!(engine.reserved(&place("a")), once);
    engine.submit(Batch::new().then(Operation::Delete { at: place("a") }), Durability::Sync).wait().unwrap();
    assert_eq!(engine.reserved(&place("a")), 0);
    assert!(engine.usage().free > free + 3 * MIB);
    made(&engine, "a", MIB);
    assert!(engine.reserved(&place("a")) < 2 * MIB);
    must_be_sound(&engine);
}

fn opened(image: Image) -> Engine {
    open(Arc::new(MemoryDevice::fixed_from(image)))
}

#[test]
fn a_power_cut_keeps_what_was_promised() {
    let device = Arc::new(RecordingDevice::new(formatted(12 * MIB)).unwrap());
    let engine = open(device.clone());
    made(&engine, "kept", 2 * MIB);
    let promised = device.position();
    write(&engine, "kept", 0, vec![1; 100_000]).unwrap();
    engine.checkpoint().unwrap();
    write(&engine, "kept", 65_536 * 20, vec![1; 10_000]).unwrap();
    engine.sync().unwrap();
    let recording = device.recording();
    let mut walker = recording.images(4);
    let cuts = (promised..=recording.len()).step_by(((recording.len() - promised) / 12).max(1));
    for cut in cuts {
        walker.advance(cut);
        for part in 0..2 {
            let engine = opened(if part == 0 { walker.durable() } else { walker.partial(part) });
            fill(&engine);
            write_all(&engine, "kept", 2 * MIB, cut as u64);
            must_be_written(&engine, "kept", 2 * MIB);
            must_be_sound(&engine);
        }
    }
}
