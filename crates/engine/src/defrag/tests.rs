//! Defragmentation: fewer pieces and the same bytes, versions and views; what is shared stays; a power cut anywhere.

use std::sync::Arc;

use koine_env::{Clock, Random, SeededRandom, SystemClock};

use super::*;
use crate::batch::{Batch, Durability, Operation, Payload, Place};
use crate::device::{Device, MemoryDevice, RecordingDevice};
use crate::{Background, FormatOptions, Options};

const SPACE: SpaceId = SpaceId::FIRST;
const BLOCK: u64 = 4096;

fn open(device: Arc<dyn Device>) -> Engine {
    Engine::open(device, Options { background: Background::Manual, memory_len: 16 << 20, ..Options::default() })
        .unwrap()
}

fn store(length: usize) -> (Arc<RecordingDevice<MemoryDevice>>, Engine) {
    let inner = MemoryDevice::fixed(length);
    let format = FormatOptions { ring_len: 256 << 10, ..FormatOptions::default() };
    Engine::format(&inner, format, &SeededRandom::new(1)).unwrap();
    let device = Arc::new(RecordingDevice::new(inner).unwrap());
    let engine = open(device.clone());
    done(&engine, Operation::CreateSpace { space: SPACE });
    (device, engine)
}

fn done(engine: &Engine, operation: Operation) {
    engine.submit(Batch::new().then(operation), Durability::Sync).wait().unwrap();
}

fn place(key: &str) -> Place {
    Place::new(SPACE, key.to_owned())
}

/// A value of `blocks` blocks written in random order, a checkpoint between some, and what it holds.
fn scatter(engine: &Engine, key: &str, blocks: u64, seed: u64) -> Vec<u8> {
    let random = SeededRandom::new(seed);
    let mut content = vec![0; (blocks * BLOCK) as usize];
    let mut order: Vec<u64> = (0..blocks).collect();
    for at in (1..order.len()).rev() {
        order.swap(at, random.next_u64() as usize % (at + 1));
    }
    for (count, block) in order.into_iter().enumerate() {
        let data = vec![random.next_u64() as u8; BLOCK as usize];
        let at = (block * BLOCK) as usize;
        content[at..at + data.len()].copy_from_slice(&data);
        let data = Payload::Bytes(data.into());
        let write = Operation::WriteAt { at: place(key), offset: block * BLOCK, data };
        engine.submit(Batch::new().then(write), Durability::Written).wait().unwrap();
        if count % 16 == 0 {
            engine.checkpoint().unwrap();
        }
    }
    engine.checkpoint().unwrap();
    content
}

fn all(engine: &Engine, options: DefragOptions) -> DefragStep {
    let mut defrag = engine.defrag(options, Arc::new(SystemClock::new()), DefragPosition::default()).unwrap();
    let mut sum = DefragStep::default();
    loop {
        let step = defrag.step().unwrap();
        sum.windows += step.windows;
        sum.rewritten_len += step.rewritten_len;
        sum.pieces_before += step.pieces_before;
        sum.pieces_after += step.pieces_after;
        sum.left += step.left;
        if step.done {
            return sum;
        }
    }
}

fn read(view: &View, key: &str) -> Bytes {
    view.bytes(SPACE, key.as_bytes(), 0, 1 << 24).unwrap()
}

fn must_be_sound(engine: &Engine) {
    let report = engine.check(&mut |_| ()).unwrap();
    assert!(report.is_sound(), "{:?}", report.findings);
}

/// How many values have at most so many pieces.
fn most_pieces(engine: &Engine) -> u64 {
    engine.space_report().unwrap().pieces.keys().max().copied().unwrap_or(0)
}

#[test]
fn scattered_values_become_few_pieces_and_nobody_notices() {
    let (_, engine) = store(32 << 20);
    let contents: Vec<(String, Vec<u8>)> =
        (0..3).map(|n| (format!("value {n}"), scatter(&engine, &format!("value {n}"), 300 + n, n))).collect();
    assert!(most_pieces(&engine) >= 256);
    let before = engine.view();
    let mut watch = engine.watch(SPACE, KeyRange::all(), before.version()).unwrap();
    let stats: Vec<_> = contents.iter().map(|(key, _)| before.stat(SPACE, key.as_bytes()).unwrap()).collect();
    let did = all(&engine, DefragOptions::default());
    assert!(did.windows >= 6 && did.pieces_before > 800 && did.pieces_after < 20, "{did:?}");
    engine.checkpoint().unwrap();
    assert!(most_pieces(&engine) <= 2, "{:?}", engine.space_report().unwrap().pieces);
    let now = engine.view();
    for ((key, content), stat) in contents.iter().zip(stats) {
        assert!(read(&now, key) == content && read(&before, key) == content, "{key}");
        assert_eq!(now.stat(SPACE, key.as_bytes()).unwrap(), stat, "its version is that of the last who changed it");
    }
    assert!(watch.next(Duration::ZERO).unwrap().is_none(), "nothing was changed");
    must_be_sound(&engine);
    assert_eq!(all(&engine, DefragOptions::default()).windows, 0, "what was done is not done again");
    drop((before, now));
    for _ in 0..3 {
        done(&engine, Operation::Put { at: place("tick"), value: Payload::Bytes(Bytes::from_static(b"x")) });
        engine.checkpoint().unwrap();
    }
    must_be_sound(&engine);
}

#[test]
fn what_is_cut_out_of_long_runs_comes_back() {
    let (_, engine) = store(32 << 20);
    let data = Payload::Bytes(vec![7; 8 << 20].into());
    done(&engine, Operation::Put { at: place("long"), value: data });
    // Of every MiB a few bytes stay: their chunks hold 32 KiB each.
    for mib in 0..8u64 {
        let hole = vec![9; 1000];
        done(&engine, Operation::Put { at: place("patch"), value: Payload::Bytes(hole.into()) });
        for (from, to) in [(10_000, 500_000), (510_000, 1 << 20)] {
            let (from, to) = (mib * (1 << 20) + from, mib * (1 << 20) + to);
            let range = Payload::Bytes(vec![8; (to - from) as usize].into());
            done(&engine, Operation::WriteAt { at: place("long"), offset: from, data: range });
        }
    }
    let before = engine.view();
    all(&engine, DefragOptions::default());
    let now = engine.view();
    assert!(read(&before, "long") == read(&now, "long"));
    let allocated = |view: &View| view.allocated(SPACE, b"long").unwrap().unwrap();
    assert!(allocated(&now) <= allocated(&before), "{} of {}", allocated(&now), allocated(&before));
    drop((before, now));
    must_be_sound(&engine);
}

#[test]
fn what_others_share_is_left() {
    let (_, engine) = store(32 << 20);
    let content = scatter(&engine, "kept", 200, 1);
    done(&engine, Operation::SnapshotSpace { from: SPACE, to: SpaceId(90) });
    // Few enough pieces that the clone has them too, and is not frozen.
    scatter(&engine, "fresh", 60, 2);
    let clone = Operation::CloneRange {
        from: place("fresh"),
        from_offset: 0,
        length: u64::MAX,
        to: place("clone"),
        to_offset: 0,
    };
    done(&engine, clone);
    scatter(&engine, "alone", 100, 3);
    engine.checkpoint().unwrap();
    let did = all(&engine, DefragOptions::default());
    assert!(did.left >= 3 && did.pieces_before == 100, "{did:?}");
    let view = engine.view();
    assert!(read(&view, "kept") == content && view.bytes(SpaceId(90), b"kept", 0, 1 << 24).unwrap() == content);
    must_be_sound(&engine);
}

#[test]
fn it_goes_on_where_it_was_and_keeps_its_rate() {
    let (_, engine) = store(32 << 20);
    let contents: Vec<Vec<u8>> = (0..4).map(|n| scatter(&engine, &format!("value {n}"), 64, n)).collect();
    let clock: Arc<dyn Clock> = Arc::new(SystemClock::new());
    let options = DefragOptions { rate_per_second: 1 << 20, step_len: 1 };
    let mut position = DefragPosition::default();
    let mut windows = 0;
    for steps in 0.. {
        assert!(steps < 20, "it never ends");
        // Another one each time, as after a restart.
        let kept = DefragPosition::from_bytes(&position.to_bytes()).unwrap();
        assert_eq!(kept, position);
        let mut defrag = engine.defrag(options, Arc::clone(&clock), kept).unwrap();
        let step = defrag.step().unwrap();
        assert!(step.windows <= 1);
        if step.windows == 1 {
            // 256 KiB at 1 MiB a second.
            let wait = defrag.wait();
            assert!(wait > Duration::from_millis(1) && wait <= Duration::from_millis(251), "{wait:?}");
        }
        windows += step.windows;
        position = defrag.position().clone();
        if step.done {
            break;
        }
    }
    assert_eq!(windows, 4);
    let view = engine.view();
    for (n, content) in contents.iter().enumerate() {
        assert!(read(&view, &format!("value {n}")) == content);
    }
    assert!(DefragPosition::from_bytes(b"short").is_err());
}

#[test]
fn a_power_cut_leaves_the_same_bytes() {
    let (device, engine) = store(4 << 20);
    let contents: Vec<Vec<u8>> = (0..3).map(|n| scatter(&engine, &format!("value {n}"), 40, n)).collect();
    engine.sync().unwrap();
    let begun = device.position();
    let mut defrag = engine
        .defrag(
            DefragOptions { step_len: 1, ..DefragOptions::default() },
            Arc::new(SystemClock::new()),
            DefragPosition::default(),
        )
        .unwrap();
    for number in 0.. {
        if defrag.step().unwrap().done {
            break;
        }
        // Others write in between, so that what was freed is used again.
        let value = Payload::Bytes(vec![number as u8; 90_000].into());
        done(&engine, Operation::Put { at: place("other"), value });
        engine.checkpoint().unwrap();
    }
    let recording = device.recording();
    let mut walker = recording.images(2);
    for cut in begun..=recording.len() {
        walker.advance(cut);
        for part in 0..3 {
            let image = if part == 0 { walker.durable() } else { walker.partial(part) };
            let engine = open(Arc::new(MemoryDevice::from_image(image, 4 << 20)));
            must_be_sound(&engine);
            let view = engine.view();
            for (n, content) in contents.iter().enumerate() {
                assert!(read(&view, &format!("value {n}")) == content, "cut {cut}, part {part}, value {n}");
            }
        }
    }
}
