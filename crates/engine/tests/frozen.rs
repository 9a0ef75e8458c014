//! Frozen blobs: what copies of long values cost, that they keep apart, and that their space comes back.

use std::sync::Arc;

use bytes::Bytes;
use koine_engine::device::{BLOCK_LEN, Device, MemoryDevice, ReadMode, RecordingDevice};
use koine_engine::{
    Background, Batch, Durability, Engine, ErrorKind, FormatOptions, KeyRange, Operation, Options, Payload, Place,
    ReceiveOptions, Sources, SpaceId, StageHint, StoreSink, salvage,
};
use koine_env::SeededRandom;

const LIVE: SpaceId = SpaceId(20);
const OTHER: SpaceId = SpaceId(21);

type Recorded = RecordingDevice<MemoryDevice>;

fn options() -> Options {
    Options { background: Background::Manual, frozen_above: 2, ..Options::default() }
}

fn open(device: MemoryDevice, options: Options) -> (Arc<Recorded>, Engine) {
    let device = Arc::new(RecordingDevice::new(device).unwrap());
    let engine = Engine::open(Arc::clone(&device) as Arc<dyn Device>, options).unwrap();
    (device, engine)
}

fn formatted() -> MemoryDevice {
    let device = MemoryDevice::growable(16 << 20, 1 << 30);
    Engine::format(&device, FormatOptions::default(), &SeededRandom::new(1)).unwrap();
    device
}

fn new_store() -> (Arc<Recorded>, Engine) {
    let (device, engine) = open(formatted(), options());
    done(&engine, Operation::CreateSpace { space: LIVE });
    done(&engine, Operation::CreateSpace { space: OTHER });
    (device, engine)
}

fn done(engine: &Engine, operation: Operation) {
    engine.submit(Batch::new().then(operation), Durability::Sync).wait().unwrap();
}

fn at(space: SpaceId, key: &str) -> Place {
    Place::new(space, key.to_owned())
}

/// Bytes of which every eight are others than before.
fn data(length: usize, seed: u64) -> Vec<u8> {
    let words =
        (0..length.div_ceil(8) as u64).flat_map(|word| (word << 16 ^ seed.wrapping_mul(0x9E37_79B9)).to_le_bytes());
    words.take(length).collect()
}

fn put_long(engine: &Engine, place: Place, bytes: &[u8]) {
    let mut stage = engine.stage(StageHint::default()).unwrap();
    bytes.chunks(700_000).for_each(|part| stage.write(part).unwrap());
    let value = Payload::Stage(stage.finish().unwrap());
    done(engine, Operation::Put { at: place, value });
}

fn copy(engine: &Engine, from: Place, to: Place) {
    done(engine, whole(from, to));
}

fn whole(from: Place, to: Place) -> Operation {
    Operation::CloneRange { from, from_offset: 0, length: u64::MAX, to, to_offset: 0 }
}

fn write(engine: &Engine, place: Place, offset: u64, bytes: Vec<u8>) {
    done(engine, Operation::WriteAt { at: place, offset, data: Payload::Bytes(bytes.into()) });
}

fn value(engine: &Engine, place: &Place) -> Bytes {
    let view = engine.view();
    let size = view.stat(place.space, &place.key).unwrap().unwrap().size;
    view.bytes(place.space, &place.key, 0, size as usize).unwrap()
}

fn delete(engine: &Engine, place: Place) {
    done(engine, Operation::Delete { at: place });
}

/// Does all background work and makes what was freed reusable.
fn settle(engine: &Engine) {
    for _ in 0..3 {
        while engine.step().unwrap() {}
        engine.checkpoint().unwrap();
    }
}

fn sound(engine: &Engine) {
    let report = engine.check(&mut |_| {}).unwrap();
    assert!(report.is_sound(), "{:#?}", report.findings);
}

fn used(engine: &Engine) -> u64 {
    settle(engine);
    sound(engine);
    engine.usage().used
}

/// Extents that frozen blobs have.
fn frozen_extents(engine: &Engine) -> u64 {
    engine.space_report().unwrap().engine.pieces
}

/// Index nodes among what was written since.
fn nodes_written(device: &Recorded, since: usize) -> usize {
    let is_node = |block: u64| {
        let mut head = vec![0; BLOCK_LEN];
        device.inner().read_at(&mut head, block, ReadMode::Cached).unwrap();
        head.starts_with(b"NODE")
    };
    let writes: Vec<_> = device.recording().writes().skip(since).collect();
    let blocks = writes.iter().flat_map(|(at, length)| (*at..at + *length as u64).step_by(BLOCK_LEN));
    blocks.filter(|block| is_node(*block)).count()
}

#[test]
fn copies_of_thousands_of_extents_write_eight_nodes_and_one_record() {
    // Free space in many short runs: what comes in lies in as many extents.
    let device = MemoryDevice::fixed(192 << 20);
    Engine::format(&device, FormatOptions { ring_len: 4 << 20, ..FormatOptions::default() }, &SeededRandom::new(1))
        .unwrap();
    let (device, engine) = open(device, Options { frozen_above: 64, ..options() });
    done(&engine, Operation::CreateSpace { space: LIVE });
    done(&engine, Operation::CreateSpace { space: OTHER });
    for first in (0..6000).step_by(50) {
        let small = |batch: Batch, key: u64| batch.put(LIVE, format!("small/{key:06}"), data(16 << 10, key));
        engine.submit((first..first + 50).fold(Batch::new(), small), Durability::Written).wait().unwrap();
    }
    settle(&engine);
    put_long(&engine, at(LIVE, "filler"), &data((engine.usage().free - (5 << 20)) as usize, 1));
    for first in (0..6000).step_by(50) {
        let delete = |batch: Batch, key| batch.then(Operation::Delete { at: at(LIVE, &format!("small/{key:06}")) });
        engine.submit((first..first + 50).step_by(2).fold(Batch::new(), delete), Durability::Written).wait().unwrap();
    }
    settle(&engine);
    let bytes = data(44 << 20, 7);
    put_long(&engine, at(LIVE, "long"), &bytes);
    settle(&engine);
    assert!(frozen_extents(&engine) > 1000, "{}", frozen_extents(&engine));
    let (from, to) = (at(LIVE, "long"), at(OTHER, "copy"));
    let steps = [
        whole(from.clone(), at(LIVE, "beside")),
        whole(from.clone(), to.clone()),
        Operation::Concatenate {
            sources: vec![from.clone(), to.clone()],
            target: at(LIVE, "twice"),
            fate: Sources::Keep,
        },
        Operation::Rename { from: from.clone(), to: at(OTHER, "moved") },
        Operation::Rename { from: at(OTHER, "moved"), to: at(OTHER, "moved on") },
        Operation::Concatenate { sources: vec![to.clone()], target: at(LIVE, "joined"), fate: Sources::Delete },
    ];
    for step in steps {
        let before = device.recording().writes().count();
        done(&engine, step.clone());
        let log: Vec<usize> = device.recording().writes().skip(before).map(|(_, length)| length).collect();
        assert_eq!(log, [BLOCK_LEN], "one group with one record: {step:?}");
        engine.checkpoint().unwrap();
        let nodes = nodes_written(&device, before);
        assert!((1..=8).contains(&nodes), "{nodes} nodes: {step:?}");
    }
    for place in [at(LIVE, "beside"), at(OTHER, "moved on"), at(LIVE, "joined")] {
        assert_eq!(value(&engine, &place), bytes);
    }
    assert_eq!(value(&engine, &at(LIVE, "twice")), [bytes.clone(), bytes].concat());
    settle(&engine);
    sound(&engine);
}

#[test]
fn space_comes_back_when_the_last_name_goes() {
    for first in ["source", "copy"] {
        let (_, engine) = new_store();
        let before = used(&engine);
        put_long(&engine, at(LIVE, "source"), &data(6_000_000, 1));
        let with_one = used(&engine);
        assert!(with_one >= before + 6_000_000 && frozen_extents(&engine) > 4);
        copy(&engine, at(LIVE, "source"), at(LIVE, "copy"));
        let with_two = used(&engine);
        assert!(with_two < with_one + 100_000);
        delete(&engine, at(LIVE, first));
        assert!(used(&engine) > before + 6_000_000, "the other still has all of it");
        delete(&engine, at(LIVE, if first == "copy" { "source" } else { "copy" }));
        // A part in each step.
        assert!(engine.step().unwrap());
        let after = used(&engine);
        assert!(after <= before + 64 * 1024, "{after} is used, {before} was");
        assert_eq!(frozen_extents(&engine), 0);
    }
}

/// Reads the values whole, and from the middle over the bounds of pieces.
fn must_be(engine: &Engine, expected: &[(Place, Vec<u8>)]) {
    for (place, bytes) in expected {
        assert!(value(engine, place) == *bytes, "{place:?}");
        let part = engine.view().bytes(place.space, &place.key, 999_000, 600_000).unwrap();
        assert!(part == bytes[999_000..1_599_000], "{place:?}");
        let mapped = engine.view().map(place.space, &place.key, 999_000, 600_000).unwrap();
        assert!(*mapped == bytes[999_000..1_599_000], "{place:?}");
    }
}

#[test]
fn an_edit_of_one_leaves_the_others() {
    let (device, engine) = new_store();
    let bytes = data(3_000_000, 2);
    let before = used(&engine);
    put_long(&engine, at(LIVE, "a"), &bytes);
    done(&engine, Operation::SnapshotSpace { from: LIVE, to: SpaceId(30) });
    done(&engine, Operation::CloneSpace { from: LIVE, to: SpaceId(31) });
    copy(&engine, at(LIVE, "a"), at(OTHER, "b"));
    copy(&engine, at(SpaceId(30), "a"), at(OTHER, "c"));
    let mut a = bytes.clone();
    a[1_000_001..1_000_101].fill(7);
    write(&engine, at(LIVE, "a"), 1_000_001, vec![7; 100]);
    let mut b = bytes.clone();
    b.truncate(2_000_003);
    done(&engine, Operation::Truncate { at: at(OTHER, "b"), length: 2_000_003 });
    let mut c = bytes.clone();
    c.extend_from_slice(&[9; 50_000]);
    done(&engine, Operation::Append { at: at(OTHER, "c"), data: Payload::Bytes(vec![9; 50_000].into()) });
    let mut d = bytes.clone();
    d[..1_048_576].fill(3);
    write(&engine, at(SpaceId(31), "a"), 0, vec![3; 1_048_576]);
    // A part of what was edited, into what was cut.
    b.splice(5..500_005, a[900_000..1_400_000].iter().copied());
    let step = Operation::CloneRange {
        from: at(LIVE, "a"),
        from_offset: 900_000,
        length: 500_000,
        to: at(OTHER, "b"),
        to_offset: 5,
    };
    done(&engine, step);
    let expected = [
        (at(LIVE, "a"), a),
        (at(OTHER, "b"), b),
        (at(OTHER, "c"), c),
        (at(SpaceId(31), "a"), d),
        (at(SpaceId(30), "a"), bytes),
    ];
    let same = |engine: &Engine| must_be(engine, &expected);
    same(&engine);
    settle(&engine);
    sound(&engine);
    same(&engine);
    engine.close().unwrap();
    drop(engine);
    // Opened by a program that does not freeze any more.
    let copy = MemoryDevice::from_bytes(device.inner().to_vec(), 1 << 30);
    let (_, engine) =
        open(copy, Options { background: Background::Manual, frozen_above: usize::MAX, ..Options::default() });
    same(&engine);
    sound(&engine);
    for space in [LIVE, OTHER] {
        engine
            .submit(Batch::new().then(Operation::DeleteRange { space, range: KeyRange::all() }), Durability::Sync)
            .wait()
            .unwrap();
    }
    let view = engine.view();
    assert!(view.get(SpaceId(30), b"a").unwrap().unwrap() == expected[4].1, "the snapshot has it still");
    drop(view);
    for space in [30, 31].map(SpaceId) {
        done(&engine, Operation::DropSpace { space });
    }
    let after = used(&engine);
    assert!(after <= before + 128 * 1024, "{after} is used, {before} was");
    assert_eq!(frozen_extents(&engine), 0);
}

#[test]
fn an_older_view_reads_on_while_a_blob_is_taken_down() {
    let (_, engine) = new_store();
    let bytes = data(5_000_000, 3);
    put_long(&engine, at(LIVE, "a"), &bytes);
    settle(&engine);
    let view = engine.view();
    delete(&engine, at(LIVE, "a"));
    loop {
        assert!(view.get(LIVE, b"a").unwrap().unwrap() == bytes);
        if !engine.step().unwrap() {
            break;
        }
        engine.checkpoint().unwrap();
    }
    put_long(&engine, at(LIVE, "b"), &data(5_000_000, 4));
    assert!(view.get(LIVE, b"a").unwrap().unwrap() == bytes);
}

fn stream(mut sending: koine_engine::Sending) -> Vec<u8> {
    let mut out = Vec::new();
    sending.write_to(&mut out, &mut |_| ()).unwrap();
    out
}

#[test]
fn streams_tell_frozen_values_and_of_edits_only_what_changed() {
    let (_, engine) = new_store();
    let (_, target) = open(formatted(), options());
    let receive = |bytes: &[u8]| {
        let options = ReceiveOptions { space: None, writable: false };
        target.receive(&mut &*bytes, options, &mut |_| ()).unwrap();
    };
    put_long(&engine, at(LIVE, "a"), &data(4_000_000, 5));
    put_long(&engine, at(LIVE, "b"), &data(4_000_000, 6));
    done(&engine, Operation::SnapshotSpace { from: LIVE, to: SpaceId(30) });
    let first = stream(engine.send(SpaceId(30), None).unwrap());
    receive(&first);
    // In what is frozen, in what was cut already, and a hole.
    write(&engine, at(LIVE, "a"), 3_000_001, vec![1; 10]);
    done(&engine, Operation::SnapshotSpace { from: LIVE, to: SpaceId(31) });
    write(&engine, at(LIVE, "a"), 5, vec![2; 100]);
    write(&engine, at(LIVE, "a"), 3_000_005, vec![3; 100]);
    copy(&engine, at(LIVE, "b"), at(LIVE, "c"));
    done(&engine, Operation::Truncate { at: at(LIVE, "b"), length: 1_000_000 });
    done(&engine, Operation::Truncate { at: at(LIVE, "b"), length: 5_000_000 });
    done(&engine, Operation::SnapshotSpace { from: LIVE, to: SpaceId(32) });
    for (snapshot, base) in [(31, 30), (32, 31)] {
        let told = stream(engine.send(SpaceId(snapshot), Some(SpaceId(base))).unwrap());
        // A copy is a new value, and told as a whole.
        let most = if snapshot == 32 { 4_010_000 } else { 10_000 };
        assert!(told.len() < most, "{} bytes tell snapshot {snapshot}", told.len());
        receive(&told);
    }
    for space in [30, 31, 32].map(SpaceId) {
        for key in ["a", "b", "c"] {
            let value = |engine: &Engine| engine.view().get(space, key.as_bytes()).unwrap();
            assert!(value(&engine) == value(&target), "{space:?} {key}");
        }
    }
    sound(&engine);
    sound(&target);
    assert!(frozen_extents(&target) > 0);
}

/// Where the data of a value lies that was written since, and the blocks of index nodes.
fn data_written(device: &Recorded, since: usize) -> u64 {
    let writes: Vec<_> = device.recording().writes().skip(since).collect();
    writes.iter().filter(|(_, length)| *length >= 200_000).map(|(at, _)| *at).next().unwrap()
}

#[test]
fn damage_is_told_by_reading_check_scrub_and_salvage() {
    let (device, engine) = new_store();
    let bytes = data(3_000_000, 8);
    let since = device.recording().writes().count();
    put_long(&engine, at(LIVE, "whole"), &bytes);
    copy(&engine, at(LIVE, "whole"), at(OTHER, "copy"));
    write(&engine, at(OTHER, "copy"), 2_500_000, vec![1; 10]);
    put_long(&engine, at(LIVE, "sound"), &data(2_500_000, 9));
    settle(&engine);
    let place = data_written(&device, since) + 8192;
    engine.close().unwrap();
    drop(engine);
    let mut image = device.inner().to_vec();
    image[place as usize] ^= 1;
    let device = Arc::new(MemoryDevice::from_bytes(image, 1 << 30));
    let engine = Engine::open(Arc::clone(&device) as Arc<dyn Device>, options()).unwrap();
    for (space, key) in [(LIVE, "whole"), (OTHER, "copy")] {
        assert_eq!(engine.view().get(space, key.as_bytes()).unwrap_err().kind(), ErrorKind::Damaged);
    }
    assert_eq!(engine.check(&mut |_| ()).unwrap().findings.len(), 1);
    let clock = Arc::new(koine_env::SimulatedClock::default());
    let mut scrub = engine.scrub(Default::default(), clock, Default::default());
    let mut findings = Vec::new();
    loop {
        let step = scrub.step().unwrap();
        findings.extend(step.findings.iter().map(ToString::to_string));
        if step.done {
            break;
        }
    }
    let names = |place: &str| findings.iter().any(|finding| finding.starts_with(place));
    assert!(findings.len() == 2, "{findings:?}");
    assert!(names("space 20, key b\"whole\", bytes ") && names("space 21, key b\"copy\", bytes "), "{findings:?}");
    engine.close().unwrap();
    drop(engine);
    let (_, target) = open(formatted(), options());
    let source = Arc::clone(&device) as Arc<dyn Device>;
    device.reopen();
    let report = salvage(&source, &mut StoreSink::new(&target, true), &mut |_| ()).unwrap();
    let partial: Vec<_> = report.partial.iter().map(|value| value.at.clone()).collect();
    assert_eq!(partial, [at(LIVE, "whole"), at(OTHER, "copy")]);
    let lost = &report.partial[0].lost;
    assert_eq!((lost.len(), lost[0].1 - lost[0].0), (1, 32 << 10), "one chunk");
    let rescued = value(&target, &at(LIVE, "whole"));
    assert!(rescued[..lost[0].0 as usize] == bytes[..lost[0].0 as usize]);
    assert!(rescued[lost[0].1 as usize..] == bytes[lost[0].1 as usize..]);
    assert!(value(&target, &at(LIVE, "sound")) == data(2_500_000, 9));
}
