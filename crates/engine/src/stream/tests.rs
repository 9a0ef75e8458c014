//! Streams against a model: equal spaces, little read, nothing kept of a damaged stream, power cuts while receiving.

use std::collections::BTreeMap;
use std::sync::Arc;

use bytes::Bytes;
use koine_env::{Random, SeededRandom};

use super::*;
use crate::batch::{Batch, Durability, KeyRange, Operation, Payload, Place, SpaceId};
use crate::device::{Device, MemoryDevice, RecordingDevice};
use crate::error::{ErrorKind, Result};
use crate::{Background, Engine, FormatOptions, Options};

const LIVE: SpaceId = SpaceId(20);

type Content = BTreeMap<Bytes, Bytes>;

fn open(device: Arc<dyn Device>) -> Engine {
    // What comes in several extents becomes a frozen blob.
    let (background, frozen_above) = (Background::Manual, 0);
    Engine::open(device, Options { background, memory_len: 16 << 20, frozen_above, ..Options::default() }).unwrap()
}

fn formatted(length: usize, ring_len: u64, seed: u64) -> MemoryDevice {
    let device = MemoryDevice::growable(length, 1 << 30);
    Engine::format(&device, FormatOptions { ring_len, ..FormatOptions::default() }, &SeededRandom::new(seed)).unwrap();
    device
}

fn store(seed: u64) -> Engine {
    open(Arc::new(formatted(16 << 20, 256 << 10, seed)))
}

fn done(engine: &Engine, operation: Operation) {
    engine.submit(Batch::new().then(operation), Durability::Sync).wait().unwrap();
}

fn content(engine: &Engine, space: SpaceId) -> Content {
    let view = engine.view();
    let mut cursor = view.cursor(space, KeyRange::all(), false).unwrap();
    let mut out = Content::new();
    while let Some(entry) = cursor.next().unwrap() {
        out.insert(entry.key.clone(), view.bytes(space, &entry.key, 0, entry.stat.size as usize).unwrap());
    }
    out
}

fn spaces(engine: &Engine) -> Vec<SpaceId> {
    let view = engine.view();
    let mut found = Vec::new();
    passing::each_space(view.state(), &engine.shared().nodes, SpaceId::FIRST, &mut |space, _| found.push(space))
        .unwrap();
    found
}

fn settle(engine: &Engine) {
    while engine.step().unwrap() {}
    engine.checkpoint().unwrap();
    while engine.step().unwrap() {}
}

fn must_be_sound(engine: &Engine) {
    let report = engine.check(&mut |_| ()).unwrap();
    assert!(report.is_sound(), "{:#?}", report.findings);
}

fn bytes_of(mut sending: Sending) -> (Vec<u8>, u64) {
    let mut out = Vec::new();
    loop {
        let before = out.len();
        let more = sending.next(&mut out).unwrap();
        assert!(out.len() - before < 8 << 20, "a part takes memory for some MiB");
        if !more {
            return (out, sending.nodes());
        }
    }
}

fn receive(engine: &Engine, stream: &[u8], options: ReceiveOptions) -> Result<Received> {
    engine.receive(&mut &*stream, options, &mut |_| ())
}

/// A random life of one space.
struct Life {
    random: SeededRandom,
    values: u64,
}

impl Life {
    fn below(&self, end: u64) -> u64 {
        self.random.next_u64() % end
    }

    fn data(&mut self, most: u64) -> Bytes {
        self.values += 1;
        let length = 1 + self.below(most) as usize;
        let start = self.values.wrapping_mul(0x9E37_79B9_7F4A_7C15);
        let mut data: Vec<u8> =
            (0..length.div_ceil(8) as u64).flat_map(|at| (start ^ at << 20).to_le_bytes()).collect();
        data.truncate(length);
        data.into()
    }

    fn key(&self) -> Place {
        Place::new(LIVE, format!("key/{:03}", self.below(60)))
    }

    fn operation(&mut self) -> Operation {
        let (at, size) = (self.key(), 1 << self.below(19));
        match self.below(12) {
            0..4 => Operation::Put { at, value: Payload::Bytes(self.data(size)) },
            4..7 => Operation::WriteAt {
                at,
                offset: self.below(300_000),
                data: Payload::Bytes(self.data(size.min(60_000))),
            },
            7 => Operation::Truncate { at, length: self.below(300_000) },
            8 => Operation::Delete { at },
            9 => Operation::RenamePrefix {
                space: LIVE,
                from: Bytes::from(format!("key/{:02}", self.below(6))),
                to: Bytes::from(format!("key/{:02}", self.below(6))),
            },
            10 => Operation::Append { at, data: Payload::Bytes(self.data(5000)) },
            _ => Operation::CloneRange {
                from: at,
                from_offset: 0,
                length: u64::MAX,
                to: self.key(),
                to_offset: self.below(100_000),
            },
        }
    }

    fn live(&mut self, engine: &Engine, steps: u64) {
        for _ in 0..steps {
            let mut batch = Batch::new();
            for _ in 0..=self.below(3) {
                batch = batch.then(self.operation());
            }
            // What does not fit what is there (a clone of nothing) is refused and changes nothing.
            let _ = engine.submit(batch, Durability::Written).wait();
            if self.below(10) == 0 {
                engine.step().unwrap();
            }
        }
    }
}

#[test]
fn what_is_received_is_equal_at_every_snapshot() {
    for seed in 0..12 {
        let (from, to) = (store(1), store(2));
        done(&from, Operation::CreateSpace { space: LIVE });
        let mut life = Life { random: SeededRandom::new(seed), values: seed << 32 };
        let mut base = None;
        for number in 0..5 {
            life.live(&from, 5 + life.below(60));
            let snapshot = SpaceId(30 + number);
            // Also with changes of the space before and after it in the same commit.
            let batch = Batch::new()
                .put(LIVE, "same commit", format!("before {number}"))
                .then(Operation::WriteAt { at: life.key(), offset: 9, data: Payload::Bytes(life.data(40_000)) })
                .then(Operation::SnapshotSpace { from: LIVE, to: snapshot })
                .put(LIVE, "same commit", format!("after {number}"))
                .then(Operation::WriteAt { at: life.key(), offset: 70, data: Payload::Bytes(life.data(40_000)) });
            from.submit(batch, Durability::Sync).wait().unwrap();
            if life.below(2) == 0 {
                settle(&from);
            }
            let (stream, _) = bytes_of(from.send(snapshot, base).unwrap());
            let received = receive(&to, &stream, ReceiveOptions::default()).unwrap();
            assert_eq!(received.spaces, [snapshot]);
            assert!(content(&from, snapshot) == content(&to, snapshot), "seed {seed}, snapshot {number}");
            base = Some(snapshot);
            if life.below(2) == 0 {
                settle(&to);
            }
        }
        // From the first to the last at once, elsewhere.
        let third = store(3);
        for (snapshot, base) in [(SpaceId(30), None), (SpaceId(34), Some(SpaceId(30)))] {
            let (stream, _) = bytes_of(from.send(snapshot, base).unwrap());
            receive(&third, &stream, ReceiveOptions::default()).unwrap();
        }
        assert!(content(&from, SpaceId(34)) == content(&third, SpaceId(34)), "seed {seed}");
        for engine in [&from, &to, &third] {
            settle(engine);
            must_be_sound(engine);
        }
        assert_eq!(spaces(&third), [SpaceId(30), SpaceId(34)], "nothing else is left");
    }
}

#[test]
fn against_a_base_only_what_differs_is_read() {
    let from = store(1);
    done(&from, Operation::CreateSpace { space: LIVE });
    for first in (0..40_000u32).step_by(500) {
        let puts = (first..first + 500)
            .fold(Batch::new(), |batch, n| batch.put(LIVE, format!("key/{n:06}"), vec![n as u8; 60]));
        from.submit(puts, Durability::Written).wait().unwrap();
    }
    // One large value of many pieces, too.
    let large = Place::new(LIVE, "large");
    for at in 0..200u64 {
        let data = Payload::Bytes(vec![at as u8; 40_000].into());
        done(&from, Operation::WriteAt { at: large.clone(), offset: at * 40_000, data });
    }
    settle(&from);
    done(&from, Operation::SnapshotSpace { from: LIVE, to: SpaceId(30) });
    for n in [3, 20_000, 39_999] {
        done(&from, Operation::Delete { at: Place::new(LIVE, format!("key/{n:06}")) });
    }
    let data = Payload::Bytes(Bytes::from_static(b"a few bytes"));
    done(&from, Operation::WriteAt { at: large, offset: 4_000_123, data });
    settle(&from);
    done(&from, Operation::SnapshotSpace { from: LIVE, to: SpaceId(31) });
    let (whole, all_nodes) = bytes_of(from.send(SpaceId(31), None).unwrap());
    let (changes, few_nodes) = bytes_of(from.send(SpaceId(31), Some(SpaceId(30))).unwrap());
    assert!(all_nodes > 200, "{all_nodes}");
    assert!(few_nodes < 40, "{few_nodes} of {all_nodes}");
    assert!(changes.len() < 100_000 && whole.len() > 10_000_000, "{} of {}", changes.len(), whole.len());
    let to = store(2);
    for stream in [bytes_of(from.send(SpaceId(30), None).unwrap()).0, changes] {
        receive(&to, &stream, ReceiveOptions::default()).unwrap();
    }
    assert!(content(&to, SpaceId(31)) == content(&from, SpaceId(31)));
}

/// A store with a little of everything and a stream of it.
fn small() -> (Engine, Vec<u8>) {
    let from = store(1);
    done(&from, Operation::CreateSpace { space: LIVE });
    let mut life = Life { random: SeededRandom::new(77), values: 1 };
    life.live(&from, 10);
    done(&from, Operation::Truncate { at: Place::new(LIVE, "holes"), length: 50_000 });
    done(&from, Operation::SnapshotSpace { from: LIVE, to: SpaceId(30) });
    life.live(&from, 4);
    done(&from, Operation::SnapshotSpace { from: LIVE, to: SpaceId(31) });
    let (stream, _) = bytes_of(from.send(SpaceId(30), None).unwrap());
    (from, stream)
}

#[test]
fn a_damaged_or_cut_stream_leaves_nothing() {
    let (from, first) = small();
    let (second, _) = bytes_of(from.send(SpaceId(31), Some(SpaceId(30))).unwrap());
    let to = store(2);
    receive(&to, &first, ReceiveOptions::default()).unwrap();
    let before = (spaces(&to), content(&to, SpaceId(30)));
    let random = SeededRandom::new(5);
    let ends = [0, 1, 31, 32, 33, second.len() - 1];
    let cuts = ends.into_iter().chain((0..60).map(|_| random.next_u64() as usize % second.len()));
    for cut in cuts {
        let error = receive(&to, &second[..cut], ReceiveOptions::default()).unwrap_err();
        assert!(error.kind() == ErrorKind::Damaged && error.message().contains("too early"), "{cut}: {error}");
        assert_eq!(spaces(&to), before.0);
    }
    let places = (0..32).chain((0..120).map(|_| random.next_u64() as usize % second.len()));
    for place in places {
        let mut wrong = second.clone();
        wrong[place] ^= 1 << (random.next_u64() % 8);
        let error = receive(&to, &wrong, ReceiveOptions::default()).unwrap_err();
        assert!(matches!(error.kind(), ErrorKind::Damaged | ErrorKind::Unknown), "{place}: {error}");
        assert_eq!(spaces(&to), before.0);
    }
    settle(&to);
    must_be_sound(&to);
    assert!(content(&to, SpaceId(30)) == before.1);
    receive(&to, &second, ReceiveOptions::default()).unwrap();
    assert!(content(&to, SpaceId(31)) == content(&from, SpaceId(31)));
}

#[test]
fn a_base_must_be_there_and_be_one() {
    let (from, first) = small();
    let kind = |space, base| from.send(SpaceId(space), Some(SpaceId(base))).err().map(|error| error.kind());
    assert_eq!(kind(31, 20), Some(ErrorKind::Invalid), "a base is a snapshot");
    assert_eq!(kind(30, 31), Some(ErrorKind::Invalid), "a base is older");
    assert_eq!(kind(31, 99), Some(ErrorKind::NotFound));
    done(&from, Operation::CreateSpace { space: SpaceId(40) });
    assert_eq!(kind(40, 30), Some(ErrorKind::Invalid));
    let (second, _) = bytes_of(from.send(SpaceId(31), Some(SpaceId(30))).unwrap());
    let to = store(2);
    assert_eq!(receive(&to, &second, ReceiveOptions::default()).unwrap_err().kind(), ErrorKind::NotFound);
    // A snapshot of the same id that is another does not do.
    receive(&to, &first, ReceiveOptions::default()).unwrap();
    done(&to, Operation::DropSpace { space: SpaceId(30) });
    done(&to, Operation::CreateSpace { space: LIVE });
    done(&to, Operation::SnapshotSpace { from: LIVE, to: SpaceId(30) });
    assert_eq!(receive(&to, &second, ReceiveOptions::default()).unwrap_err().kind(), ErrorKind::NotFound);
    // Under another id it is found; what is there is not overwritten.
    let options = ReceiveOptions { space: Some(SpaceId(50)), writable: false };
    receive(&to, &first, options).unwrap();
    assert_eq!(receive(&to, &first, options).unwrap_err().kind(), ErrorKind::Invalid);
    let options = ReceiveOptions { space: Some(SpaceId(51)), writable: true };
    receive(&to, &second, options).unwrap();
    assert!(content(&to, SpaceId(51)) == content(&from, SpaceId(31)));
    done(&to, Operation::Delete { at: Place::new(SpaceId(51), "holes") });
    assert!(receive(&to, b"something else, and long enough", ReceiveOptions::default()).is_err());
}

#[test]
fn an_export_is_one_version_of_everything_while_it_changes() {
    let (from, _) = small();
    let before: Vec<(SpaceId, Content)> =
        spaces(&from).into_iter().map(|space| (space, content(&from, space))).collect();
    let mut sending = from.export(&[]).unwrap();
    let mut stream = Vec::new();
    let mut life = Life { random: SeededRandom::new(9), values: 1 << 40 };
    loop {
        life.live(&from, 3);
        if !sending.next(&mut stream).unwrap() {
            break;
        }
    }
    drop(sending);
    settle(&from);
    assert_eq!(spaces(&from).len(), 3, "the passing snapshot is gone");
    let to = store(2);
    let received = receive(&to, &stream, ReceiveOptions::default()).unwrap();
    assert_eq!(received.spaces, before.iter().map(|(space, _)| *space).collect::<Vec<_>>());
    for (space, content_before) in before {
        assert!(content(&to, space) == content_before, "space {}", space.0);
    }
    done(&to, Operation::Delete { at: Place::new(LIVE, "holes") });
    let refused = to.submit(Batch::new().put(SpaceId(30), "a", "b"), Durability::Sync).wait();
    assert_eq!(refused.unwrap_err().kind(), ErrorKind::Refused, "a snapshot stays one");
    settle(&to);
    must_be_sound(&to);
}

#[test]
fn a_power_cut_while_receiving_leaves_all_or_nothing() {
    let (from, first) = small();
    let (second, _) = bytes_of(from.send(SpaceId(31), Some(SpaceId(30))).unwrap());
    let device = Arc::new(RecordingDevice::new(formatted(1 << 20, 64 << 10, 2)).unwrap());
    let to = open(device.clone());
    let mut ends = Vec::new();
    for stream in [&first, &second] {
        receive(&to, stream, ReceiveOptions::default()).unwrap();
        ends.push(device.position());
        settle(&to);
    }
    let expected = [content(&from, SpaceId(30)), content(&from, SpaceId(31))];
    let recording = device.recording();
    let mut walker = recording.images(3);
    let mut seen = [0, 0, 0];
    for cut in (0..=recording.len()).step_by((recording.len() / 70).max(1)) {
        walker.advance(cut);
        for part in 0..3 {
            let image = if part == 0 { walker.durable() } else { walker.partial(part) };
            let engine = open(Arc::new(MemoryDevice::from_image(image, 1 << 30)));
            let found = spaces(&engine);
            assert!(
                [vec![], vec![SpaceId(30)], vec![SpaceId(30), SpaceId(31)]].contains(&found),
                "cut {cut}: {found:?}"
            );
            let certain = ends.iter().filter(|end| **end <= cut).count();
            assert!(found.len() >= certain, "cut {cut}: {found:?}");
            for (space, content_then) in found.iter().zip(&expected) {
                assert!(content(&engine, *space) == *content_then, "cut {cut}, space {}", space.0);
            }
            must_be_sound(&engine);
            settle(&engine);
            must_be_sound(&engine);
            seen[found.len()] += 1;
        }
    }
    assert!(seen.iter().all(|count| *count > 0), "{seen:?}");
}

#[test]
fn the_bytes_are_those_of_the_document() {
    let mut out = Vec::new();
    let mut writer = frame::FrameWriter::begin(7, &mut out);
    writer.write(&frame::Frame::Hole { offset: 1, length: 2 }, &mut out);
    assert_eq!(&out[..24], b"KOINE\0T\n\0\0\0\0\0\0\0\0\x07\0\0\0\0\0\0\0");
    let header = crate::checksum::crc64(&out[..24]).to_le_bytes();
    assert_eq!(out[24..32], header);
    assert_eq!(&out[32..40], b"\x05\0\0\0\x10\0\0\0");
    let payload = b"\x01\0\0\0\0\0\0\0\x02\0\0\0\0\0\0\0";
    let sealed = [&header[..], &out[32..40], payload].concat();
    assert_eq!(out[40..48], crate::checksum::crc64(&sealed).to_le_bytes());
    assert_eq!(&out[48..], payload);
}

/// Bytes of data and of index that a store has in use, after all that waits was done.
fn used(engine: &Engine) -> u64 {
    settle(engine);
    let report = engine.space_report().unwrap();
    report.data_len + report.node_len
}

/// A space with two snapshots, a clone of one of them and a snapshot of that clone.
fn family(seed: u64) -> Engine {
    let from = store(seed);
    done(&from, Operation::CreateSpace { space: LIVE });
    done(&from, Operation::CreateSpace { space: SpaceId(21) });
    let mut life = Life { random: SeededRandom::new(seed), values: 1 };
    for number in 0..20u64 {
        let data = Payload::Bytes(life.data(1 << 18));
        done(&from, Operation::WriteAt { at: Place::new(LIVE, format!("large/{number}")), offset: 0, data });
    }
    let puts = (0..3000).fold(Batch::new(), |batch, n| match n % 500 {
        499 => {
            from.submit(batch.put(LIVE, format!("small/{n}"), vec![7; 90]), Durability::Written).wait().unwrap();
            Batch::new()
        }
        _ => batch.put(LIVE, format!("small/{n}"), vec![n as u8; 90]),
    });
    assert!(puts.operations.is_empty());
    life.live(&from, 30);
    for operation in [
        Operation::SnapshotSpace { from: LIVE, to: SpaceId(30) },
        Operation::CloneSpace { from: SpaceId(30), to: SpaceId(22) },
        Operation::Put {
            at: Place::new(SpaceId(22), "own"),
            value: Payload::Bytes(Bytes::from_static(b"of the clone")),
        },
        Operation::SnapshotSpace { from: SpaceId(22), to: SpaceId(32) },
    ] {
        done(&from, operation);
    }
    life.live(&from, 5);
    // One commit, one key, two values.
    let both = Batch::new().put(LIVE, "key/001", "of one").put(SpaceId(22), "key/001", "of the other");
    from.submit(both, Durability::Sync).wait().unwrap();
    done(&from, Operation::SnapshotSpace { from: LIVE, to: SpaceId(31) });
    life.live(&from, 3);
    from
}

#[test]
fn what_spaces_share_is_told_once_and_shared_where_it_is_received() {
    for seed in [1, 5, 9] {
        let from = family(seed);
        let before = used(&from);
        let (stream, _) = bytes_of(from.export(&[]).unwrap());
        let alone: usize =
            [20, 22, 30, 31, 32].map(|space| bytes_of(from.send(SpaceId(space), None).unwrap()).0.len()).iter().sum();
        assert!(stream.len() * 3 < alone, "{} of {alone}", stream.len());
        let to = store(2);
        receive(&to, &stream, ReceiveOptions::default()).unwrap();
        for space in spaces(&from) {
            assert!(content(&to, space) == content(&from, space), "seed {seed}, space {}", space.0);
        }
        assert_eq!(spaces(&to), spaces(&from));
        let after = used(&to);
        assert!(after * 4 < before * 5, "{before} bytes are {after} in the other store");
        must_be_sound(&to);
        // A snapshot of them is a base for what comes later.
        done(&from, Operation::Put { at: Place::new(LIVE, "later"), value: Payload::Bytes(Bytes::from_static(b"x")) });
        done(&from, Operation::SnapshotSpace { from: LIVE, to: SpaceId(33) });
        let (later, _) = bytes_of(from.send(SpaceId(33), Some(SpaceId(31))).unwrap());
        receive(&to, &later, ReceiveOptions::default()).unwrap();
        assert!(content(&to, SpaceId(33)) == content(&from, SpaceId(33)));
        // What came in passing went away.
        for space in [20, 22, 30, 31, 32, 33] {
            done(&to, Operation::DropSpace { space: SpaceId(space) });
        }
        settle(&to);
        must_be_sound(&to);
    }
}

#[test]
fn a_store_that_is_read_only_tells_what_is_shared_once_too() {
    let device = Arc::new(formatted(16 << 20, 256 << 10, 4));
    let writer = open(device.clone());
    done(&writer, Operation::CreateSpace { space: LIVE });
    let data = Payload::Bytes(Bytes::from(vec![5; 300_000]));
    done(&writer, Operation::Put { at: Place::new(LIVE, "a"), value: data });
    done(&writer, Operation::CloneSpace { from: LIVE, to: SpaceId(21) });
    done(&writer, Operation::Delete { at: Place::new(SpaceId(21), "a") });
    done(&writer, Operation::CloneSpace { from: LIVE, to: SpaceId(22) });
    settle(&writer);
    drop(writer);
    device.reopen();
    let options = Options { background: Background::Manual, read_only: true, ..Options::default() };
    let reader = Engine::open(device, options).unwrap();
    let (stream, _) = bytes_of(reader.export(&[]).unwrap());
    assert!(stream.len() < 310_000, "{}", stream.len());
    let to = store(2);
    receive(&to, &stream, ReceiveOptions::default()).unwrap();
    for space in [LIVE, SpaceId(21), SpaceId(22)] {
        assert!(content(&to, space) == content(&reader, space), "{space:?}");
    }
}

#[test]
fn a_note_is_told_first_and_its_stream_lands_with_other_changes() {
    let (from, _) = small();
    let wanted = [SpaceId(30), SpaceId(31), LIVE];
    let (stream, _) = bytes_of(from.send_noted(&wanted, None, Bytes::from_static(b"the note")).unwrap());
    let to = store(2);
    let refused = to.arrive(&mut &*stream, &mut |note| Err(crate::Error::invalid(format!("{note:?}"))), &mut |_| ());
    assert!(refused.err().unwrap().message().contains("the note"));
    let mut told = None;
    let mut accept = |note: Option<&Bytes>| {
        told = note.cloned();
        Ok(None)
    };
    drop(to.arrive(&mut &*stream, &mut accept, &mut |_| ()).unwrap());
    assert_eq!((told.as_deref(), spaces(&to)), (Some(b"the note".as_slice()), vec![]));
    let arrived = to.arrive(&mut &*stream, &mut |_| Ok(None), &mut |_| ()).unwrap();
    let landing = |from, to, is_snapshot| Landing { from: SpaceId(from), to: SpaceId(to), is_snapshot };
    let landings = [landing(30, 50, true), landing(31, 51, false), landing(31, 52, true)];
    let others = Batch::new().then(Operation::CreateSpace { space: SpaceId(60) }).put(SpaceId(60), "k", "v");
    let received = arrived.land(&landings, others).unwrap();
    assert_eq!(received.spaces, [50, 51, 52].map(SpaceId));
    assert_eq!(spaces(&to), [50, 51, 52, 60].map(SpaceId));
    for (here, there) in [(50, 30), (51, 31), (52, 31)] {
        assert!(content(&to, SpaceId(here)) == content(&from, SpaceId(there)));
    }
    done(&to, Operation::Delete { at: Place::new(SpaceId(51), "holes") });
    // Raw, the note is left aside.
    receive(&to, &stream, ReceiveOptions::default()).unwrap();
    assert!(from.send_noted(&wanted, None, Bytes::from(vec![0; (1 << 20) + 1])).is_err());
    settle(&to);
    must_be_sound(&to);
}
