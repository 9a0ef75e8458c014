//! Streams: written while they go on, bounded, told of every failure, given back whole.

use std::io;

use koine_env::SeededRandom;
use parking_lot::{Condvar, Mutex};

use super::bundle::{Bundle, Part};
use super::extent_writer::IN_FLIGHT_MAX;
use super::*;
use crate::device::{AlignedBuffer, Call, Device, Fault, FaultyDevice, MemoryDevice, Times, Trouble, pass_on};
use crate::{Background, Batch, Engine, FormatOptions, Lifetime, Operation, Options, Payload, Place, SpaceId};

const SPACE: SpaceId = SpaceId(20);
const MIB: usize = 1 << 20;

/// Memory whose writes wait while it is shut.
struct Gated {
    memory: MemoryDevice,
    shut: Mutex<bool>,
    opened: Condvar,
}

impl Gated {
    fn set_shut(&self, shut: bool) {
        *self.shut.lock() = shut;
        self.opened.notify_all();
    }
}

impl Device for Gated {
    pass_on!(memory: len, grow, holds, read_at, sync, discard, close, is_fixed);

    fn write_at(&self, data: &[u8], offset: u64) -> io::Result<()> {
        let mut shut = self.shut.lock();
        while *shut {
            self.opened.wait(&mut shut);
        }
        drop(shut);
        self.memory.write_at(data, offset)
    }
}

fn open<D: Device + 'static>(device: D) -> (Arc<D>, Engine) {
    let device = Arc::new(device);
    Engine::format(
        device.as_ref(),
        FormatOptions { ring_len: 1 << 20, ..FormatOptions::default() },
        &SeededRandom::new(7),
    )
    .unwrap();
    let engine = Engine::open(device.clone(), Options { background: Background::Threads, ..Options::default() });
    let engine = engine.unwrap();
    let made = Batch::new().then(Operation::CreateSpace { space: SPACE });
    engine.submit(made, Durability::Sync).wait().unwrap();
    (device, engine)
}

fn piece(number: usize) -> Vec<u8> {
    (0..MIB).map(|index| (index * 7 + index / 251 + number * 31) as u8).collect()
}

#[test]
fn a_long_value_comes_back_as_it_was() {
    let (_, engine) = open(MemoryDevice::fixed(64 << 20));
    let all = engine.shared().buffers.free();
    for (key, hint) in [("known", Some(12 * MIB as u64 + 777)), ("unknown", None)] {
        let mut stage =
            engine.stage(StageHint { length: hint, access: Access::Sequential, ..StageHint::default() }).unwrap();
        let mut expected = Vec::new();
        for number in 0..12 {
            let piece = piece(number);
            // Parts that meet no boundary.
            piece.chunks(300_001).for_each(|part| stage.write(part).unwrap());
            expected.extend_from_slice(&piece);
        }
        stage.write(&expected[..777]).unwrap();
        expected.extend_from_within(..777);
        let value = Payload::Stage(stage.finish().unwrap());
        let put = Operation::Put { at: Place::new(SPACE, key), value };
        engine.submit(Batch::new().then(put), Durability::Sync).wait().unwrap();
        assert!(engine.view().bytes(SPACE, key.as_bytes(), 0, usize::MAX).unwrap() == expected, "{key}");
    }
    assert_eq!(engine.shared().buffers.free(), all, "every buffer came back");
    engine.close().unwrap();
}

#[test]
fn a_value_of_known_length_lies_in_a_row() {
    let (_, engine) = open(MemoryDevice::fixed(64 << 20));
    let free = engine.usage().free;
    let mut stages: Vec<Stage> = (0..2)
        .map(|_| {
            engine
                .stage(StageHint {
                    length: Some(5 * MIB as u64 + 1),
                    access: Access::Sequential,
                    ..StageHint::default()
                })
                .unwrap()
        })
        .collect();
    for number in 0..5 {
        stages.iter_mut().for_each(|stage| stage.write(&piece(number)).unwrap());
    }
    for mut stage in stages {
        stage.write(&[1]).unwrap();
        let token = stage.finish().unwrap();
        let staged = token.content_ref::<Staged>().unwrap();
        let blocks: Vec<BlockRange> = staged.extents().iter().map(Extent::blocks).collect();
        assert_eq!(blocks.len(), 6);
        assert!(blocks.windows(2).all(|pair| pair[0].end() == pair[1].start), "{blocks:?}");
    }
    assert_eq!(engine.usage().free, free, "what no commit named is free again");
}

#[test]
fn more_than_was_needed_is_given_back() {
    let (_, engine) = open(MemoryDevice::fixed(64 << 20));
    let free = engine.usage().free;
    let mut stage = engine
        .stage(StageHint { length: Some(9 * MIB as u64), access: Access::Sequential, ..StageHint::default() })
        .unwrap();
    (0..2).for_each(|number| stage.write(&piece(number)).unwrap());
    let token = stage.finish().unwrap();
    assert_eq!(engine.usage().free, free - 2 * MIB as u64);
    drop(token);
    assert_eq!(engine.usage().free, free);
}

#[test]
fn a_stream_goes_on_while_it_is_written_but_not_without_end() {
    let memory = MemoryDevice::fixed(64 << 20);
    let (device, engine) = open(Gated { memory, shut: Mutex::new(false), opened: Condvar::new() });
    let free = engine.usage().free;
    let mut stage = engine.stage(StageHint::default()).unwrap();
    device.set_shut(true);
    // One that is being filled, and three on their way.
    (0..=IN_FLIGHT_MAX).for_each(|number| stage.write(&piece(number)).unwrap());
    assert_eq!(stage.extent_writer.in_flight(), IN_FLIGHT_MAX);
    std::thread::scope(|scope| {
        let writer = scope.spawn(|| {
            stage.write(&piece(9)).unwrap();
            stage
        });
        // The fifth finds no buffer until a write has returned.
        while engine.usage().free > free - (IN_FLIGHT_MAX as u64 + 1) * MIB as u64 {
            std::thread::yield_now();
        }
        assert!(!writer.is_finished());
        device.set_shut(false);
        stage = writer.join().unwrap();
        device.set_shut(true);
        stage.write(&piece(10)).unwrap();
        // Dropped while writes are under way: the blocks stay taken until the last has returned.
        let dropper = scope.spawn(|| drop(stage));
        for _ in 0..100 {
            std::thread::yield_now();
            assert!(engine.usage().free < free);
        }
        device.set_shut(false);
        dropper.join().unwrap();
    });
    assert_eq!(engine.usage().free, free);
    engine.close().unwrap();
}

#[test]
fn a_failed_write_fails_the_stage_and_stops_the_store() {
    // The ring and the space take some writes before the first piece.
    for nth in 1..=6 {
        let (device, engine) = open(FaultyDevice::new(MemoryDevice::fixed(64 << 20), Vec::new(), 1));
        let mut stage = engine.stage(StageHint::default()).unwrap();
        let nth = device.calls().writes + nth;
        device.set_plan(vec![Fault { call: Call::Write, nth, times: Times::Once, trouble: Trouble::Error }]);
        let written = (0..5).try_for_each(|number| stage.write(&piece(number)));
        let kind = match written.and_then(|()| stage.write(&[1])) {
            Err(error) => {
                assert_eq!(stage.write(&[1]).unwrap_err().kind(), error.kind(), "nothing comes after a failure");
                assert!(stage.finish().is_err());
                error.kind()
            }
            Ok(()) => stage.finish().map(drop).unwrap_err().kind(),
        };
        assert!([ErrorKind::Device, ErrorKind::Stopped].contains(&kind), "{nth}: {kind:?}");
        let put = Batch::new().put(SPACE, "k", "v");
        assert_eq!(engine.submit(put, Durability::Memory).wait().unwrap_err().kind(), ErrorKind::Stopped);
    }
}

#[test]
fn a_stage_that_finds_the_store_full_takes_nothing_more() {
    let (_, engine) = open(MemoryDevice::fixed(16 << 20));
    let free = engine.usage().free;
    let mut stage = engine.stage(StageHint::default()).unwrap();
    let outcome = (0..20).try_for_each(|number| stage.write(&piece(number)));
    assert_eq!(outcome.unwrap_err().kind(), ErrorKind::Full);
    assert_eq!(stage.write(&[1]).unwrap_err().kind(), ErrorKind::Full);
    assert_eq!(stage.finish().map(drop).unwrap_err().kind(), ErrorKind::Full);
    // All but what the checkpoints wrote that were to make room.
    assert!(engine.usage().free > free - MIB as u64 / 2);
    let mut small = engine.stage(StageHint::default()).unwrap();
    small.write(&piece(1)).unwrap();
    assert_eq!(small.finish().unwrap().length(), MIB as u64);
}

#[test]
fn values_of_a_bundle_lie_apart_and_can_go_one_by_one() {
    let (_device, engine) = open(MemoryDevice::fixed(64 << 20));
    let before = engine.usage().free;
    let lengths = [5000, 4096, 3 * MIB + 77, 1, 2 * MIB, 8192];
    let whole = lengths.iter().map(|length: &usize| length.next_multiple_of(4096) as u64).sum();
    let mut bundle = Bundle::new(Arc::clone(engine.shared()), whole, false, Lifetime::Unknown);
    let values: Vec<Vec<u8>> =
        lengths.iter().enumerate().map(|(n, length)| piece(n).repeat(4)[..*length].to_vec()).collect();
    for (number, value) in values.iter().enumerate() {
        let access = if number % 2 == 0 { Access::Random } else { Access::Sequential };
        bundle.push(access, value.chunks(70_000).map(Part::Bytes)).unwrap();
    }
    let mut tokens = bundle.finish().unwrap();
    assert!(tokens.iter().map(StageToken::length).eq(lengths.iter().map(|length| *length as u64)));
    // One that nobody names gives its blocks back alone.
    drop(tokens.remove(4));
    let mut batch = Batch::new();
    let kept: Vec<&Vec<u8>> = values.iter().enumerate().filter(|(n, _)| *n != 4).map(|(_, value)| value).collect();
    for (number, token) in tokens.drain(..).enumerate() {
        batch = batch.then(Operation::Put { at: Place::new(SPACE, vec![number as u8]), value: Payload::Stage(token) });
    }
    engine.commit(batch, Durability::Sync).unwrap();
    for (number, value) in kept.iter().enumerate() {
        let mut read = vec![0; value.len() + 1];
        assert_eq!(engine.view().read(SPACE, &[number as u8], 0, &mut read).unwrap(), value.len());
        assert!(read[..value.len()] == value[..]);
    }
    let mut batch = Batch::new();
    for number in 0..kept.len() {
        batch = batch.delete(SPACE, vec![number as u8]);
    }
    engine.commit(batch, Durability::Sync).unwrap();
    engine.checkpoint().unwrap();
    engine.checkpoint().unwrap();
    assert!(engine.usage().free + (1 << 20) > before, "{} of {before}", engine.usage().free);
}

#[test]
fn a_bundle_that_is_given_up_leaves_nothing() {
    let (_device, engine) = open(MemoryDevice::fixed(16 << 20));
    let before = engine.usage().free;
    let mut bundle = Bundle::new(Arc::clone(engine.shared()), 4 << 20, false, Lifetime::Unknown);
    (0..3).for_each(|n| bundle.push(Access::Random, [Part::Bytes(&piece(n))].into_iter()).unwrap());
    drop(bundle);
    assert_eq!(engine.usage().free, before);
    // One for which there is no room.
    let mut bundle = Bundle::new(Arc::clone(engine.shared()), 64 << 20, false, Lifetime::Unknown);
    let full = (0..64).find_map(|n| bundle.push(Access::Random, [Part::Bytes(&piece(n))].into_iter()).err());
    assert_eq!(full.unwrap().kind(), ErrorKind::Full);
    assert!(bundle.push(Access::Random, [Part::Bytes(&piece(0))].into_iter()).is_err());
    drop(bundle);
    // But for what a checkpoint wrote to find some.
    assert!(engine.usage().free + (64 << 10) > before);
}

#[test]
fn memory_of_others_is_written_from_where_it_is() {
    let (_device, engine) = open(MemoryDevice::fixed(64 << 20));
    let mut bundle = Bundle::new(Arc::clone(engine.shared()), 12 << 20, false, Lifetime::Unknown);
    let aligned = |number: usize| Box::new(AlignedBuffer::padded(&piece(number)));
    // Blocks, then a few bytes after which nothing lies at a block.
    let parts = [Part::Bytes(&[1; 8192]), Part::Shared(aligned(0)), Part::Shared(aligned(1)), Part::Bytes(&[2; 77])];
    bundle.push(Access::Random, parts.into_iter().chain([Part::Shared(aligned(2)), Part::Bytes(&[3; 10])])).unwrap();
    bundle.push(Access::Sequential, (3..9).map(|number| Part::Shared(aligned(number)))).unwrap();
    let mut tokens = bundle.finish().unwrap().into_iter();
    let mut batch = Batch::new();
    for key in [b"a", b"b"] {
        let value = Payload::Stage(tokens.next().unwrap());
        batch = batch.then(Operation::Put { at: Place::new(SPACE, &key[..]), value });
    }
    engine.commit(batch, Durability::Sync).unwrap();
    let expected = [
        [&[1; 8192][..], &piece(0), &piece(1), &[2; 77], &piece(2), &[3; 10]].concat(),
        (3..9).flat_map(piece).collect(),
    ];
    for (key, expected) in [b"a", b"b"].into_iter().zip(expected) {
        let mut read = vec![0; expected.len() + 1];
        assert_eq!(engine.view().read(SPACE, key, 0, &mut read).unwrap(), expected.len());
        assert!(read[..expected.len()] == expected[..]);
    }
}

#[test]
fn a_few_finished_stages_wait_for_their_commits_and_no_more() {
    let (device, engine) =
        open(Gated { memory: MemoryDevice::fixed(64 * MIB), shut: Mutex::new(false), opened: Condvar::new() });
    let finished = || {
        let mut stage = engine.stage(StageHint::default()).unwrap();
        stage.write(&piece(1)).unwrap();
        stage.finish().unwrap()
    };
    // While nothing can be written: only what writes nothing comes back.
    device.set_shut(true);
    let mut kept: Vec<StageToken> = (0..unwritten::KEPT_MAX).map(|_| finished()).collect();
    device.set_shut(false);
    assert!(!finished().content::<Staged>().unwrap().is_unwritten());
    assert!(kept.iter().all(|token| token.content::<Staged>().unwrap().is_unwritten()));
    // Room for another is there when one is given up, or written by its commit.
    kept.pop();
    kept.push(finished());
    assert!(kept.last().unwrap().content::<Staged>().unwrap().is_unwritten());
    let at = Place::new(SPACE, "k");
    let put = Batch::new().then(Operation::Put { at, value: Payload::Stage(kept.remove(0)) });
    engine.submit(put, Durability::Sync).wait().unwrap();
    assert!(finished().content::<Staged>().unwrap().is_unwritten());
    assert_eq!(engine.get(SPACE, b"k").unwrap().unwrap(), piece(1));
}
