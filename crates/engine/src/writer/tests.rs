//! What a group takes, who writes it, and when it is shown.

use std::io;
use std::sync::Arc;
use std::thread::ThreadId;

use parking_lot::Mutex;

use crate::batch::{Batch, Durability, Operation, Payload, Place, Sources, SpaceId};
use crate::commit::begun::tests::{each_power_cut, formatted};
use crate::device::{
    BLOCK_LEN, Call, Device, Fault, FaultyDevice, MemoryDevice, RecordingDevice, Times, Trouble, pass_on,
};
use crate::engine::Engine;
use crate::error::ErrorKind;
use crate::format::FormatOptions;
use crate::options::{Background, Options};
use crate::stage::StageHint;
use crate::ticket::{Ticket, awaited};

const SPACE: SpaceId = SpaceId::FIRST;
const BRANCH: SpaceId = SpaceId(SPACE.0 + 1);
const BLOCK: u64 = BLOCK_LEN as u64;

fn options(background: Background) -> Options {
    Options { background, ..Options::default() }
}

fn store(background: Background) -> (Arc<MemoryDevice>, Engine) {
    let device = Arc::new(MemoryDevice::fixed(16 << 20));
    Engine::format(&device, FormatOptions::default(), &koine_env::OsRandom).unwrap();
    let engine = Engine::open(Arc::clone(&device) as _, options(background)).unwrap();
    engine.commit(Batch::new().then(Operation::CreateSpace { space: SPACE }), Durability::Sync).unwrap();
    (device, engine)
}

fn put(engine: &Engine, number: u64, durability: Durability) {
    let value = number.to_le_bytes().to_vec();
    engine.commit(Batch::new().put(SPACE, number.to_be_bytes().to_vec(), value), durability).unwrap();
}

fn logged(engine: &Engine) -> u64 {
    engine.shared().head.lock().sealed.position.0
}

fn has(engine: &Engine, number: u64) -> bool {
    engine.view().stat(SPACE, &number.to_be_bytes()).unwrap().is_some()
}

#[test]
fn small_commits_share_a_block_until_one_is_synced() {
    for background in [Background::Manual, Background::Threads] {
        let (_, engine) = store(background);
        let begin = logged(&engine);
        (0..20).for_each(|number| put(&engine, number, Durability::Written));
        assert_eq!(logged(&engine), begin + BLOCK, "{background:?}");
        // The synced one goes into the same block, and nothing after it.
        put(&engine, 20, Durability::Sync);
        assert_eq!(logged(&engine), begin + BLOCK);
        put(&engine, 21, Durability::Written);
        assert!(logged(&engine) > begin + BLOCK);
        let end = logged(&engine);
        engine.sync().unwrap();
        put(&engine, 22, Durability::Written);
        assert!(logged(&engine) > end, "what was synced is not written over");
    }
}

#[test]
fn what_shares_a_block_is_there_after_the_process_has_ended() {
    for last in 1..80 {
        let (device, engine) = store(Background::Manual);
        for number in 0..last {
            put(&engine, number, Durability::Written);
            if number == 7 {
                // Its superblock names the end of an open group: the next commit begins another.
                engine.checkpoint().unwrap();
            }
            if number == 15 {
                engine.sync().unwrap();
            }
        }
        std::mem::forget(engine);
        let again = Engine::open(device as _, options(Background::Manual)).unwrap();
        assert!((0..last).all(|number| has(&again, number)), "of {last}");
    }
}

#[test]
fn memory_commits_are_seen_at_once_and_written_with_what_follows() {
    let (device, engine) = store(Background::Manual);
    let begin = logged(&engine);
    (0..5).for_each(|number| put(&engine, number, Durability::Memory));
    assert!((0..5).all(|number| has(&engine, number)));
    assert_eq!(logged(&engine), begin, "nothing was written for them");
    put(&engine, 5, Durability::Written);
    assert!(logged(&engine) > begin);
    std::mem::forget(engine);
    let again = Engine::open(device as _, options(Background::Manual)).unwrap();
    assert!((0..6).all(|number| has(&again, number)));
}

#[test]
fn a_memory_commit_waits_behind_one_that_is_not_durable_yet() {
    let (_, engine) = store(Background::Manual);
    let synced = engine.submit(Batch::new().put(SPACE, "a", "1"), Durability::Sync);
    let beside = engine.submit(Batch::new().put(SPACE, "b", "2"), Durability::Memory);
    assert!(synced.peek().is_none() && beside.peek().is_none());
    assert!(engine.view().stat(SPACE, b"a").unwrap().is_none());
    beside.wait().unwrap();
    assert!(synced.peek().is_some() && engine.view().stat(SPACE, b"a").unwrap().is_some());
}

#[test]
fn memory_commits_are_written_before_a_checkpoint_and_a_close() {
    let (device, engine) = store(Background::Threads);
    put(&engine, 1, Durability::Memory);
    engine.checkpoint().unwrap();
    assert!(engine.shared().head.lock().queue.is_empty());
    put(&engine, 2, Durability::Memory);
    engine.close().unwrap();
    device.reopen();
    let again = Engine::open(device as _, options(Background::Manual)).unwrap();
    assert!(has(&again, 1) && has(&again, 2));
}

#[test]
fn the_writer_comes_for_memory_commits_by_itself() {
    let (_, engine) = store(Background::Threads);
    let begin = logged(&engine);
    put(&engine, 1, Durability::Memory);
    while logged(&engine) == begin {
        std::thread::yield_now();
    }
}

#[test]
fn a_store_that_nobody_writes_to_makes_a_checkpoint_by_itself() {
    let (_, engine) = store(Background::Threads);
    let begin = engine.checkpoints();
    for number in 0..2000 {
        let value = vec![7; 900];
        let batch = Batch::new().put(SpaceId::FIRST, number.to_string().into_bytes(), value);
        engine.commit(batch, Durability::Written).unwrap();
    }
    while engine.shared().head.lock().dirty.device_len > 1 << 20 {
        std::thread::yield_now();
    }
    assert!(engine.checkpoints() > begin);
    let view = engine.view();
    assert_eq!(view.bytes(SpaceId::FIRST, b"1999", 0, 900).unwrap(), vec![7; 900]);
}

#[test]
fn many_threads_commit_and_each_finds_what_it_wrote() {
    let (_, engine) = store(Background::Threads);
    std::thread::scope(|scope| {
        for thread in 0..8u64 {
            let engine = &engine;
            scope.spawn(move || {
                for turn in 0..200 {
                    let level = [Durability::Sync, Durability::Written, Durability::Memory][(turn % 3) as usize];
                    let number = thread << 32 | turn;
                    put(engine, number, level);
                    assert!(has(engine, number));
                }
            });
        }
    });
    assert_eq!(engine.shared().head.lock().uncompleted, 0);
    engine.close().unwrap();
}

#[test]
fn a_failed_write_is_told_to_whoever_wrote_the_group_and_to_all_who_wait() {
    for call in [Call::Write, Call::Sync] {
        let device = Arc::new(FaultyDevice::new(MemoryDevice::fixed(16 << 20), Vec::new(), 1));
        Engine::format(&device, FormatOptions::default(), &koine_env::OsRandom).unwrap();
        let engine = Engine::open(Arc::clone(&device) as _, options(Background::Threads)).unwrap();
        engine.commit(Batch::new().then(Operation::CreateSpace { space: SPACE }), Durability::Sync).unwrap();
        let waiting = engine.submit(Batch::new().put(SPACE, "before", "0"), Durability::Sync);
        waiting.wait().unwrap();
        device.set_plan(vec![Fault { call, nth: 1, times: Times::Forever, trouble: Trouble::Error }]);
        let failed = engine.commit(Batch::new().put(SPACE, "k", "1"), Durability::Sync).unwrap_err();
        assert!(matches!(failed.kind(), ErrorKind::Stopped | ErrorKind::Device), "{failed}");
        let later = engine.commit(Batch::new().put(SPACE, "l", "2"), Durability::Memory).unwrap_err();
        assert_eq!(later.kind(), ErrorKind::Stopped);
        assert!(engine.view().stat(SPACE, b"k").unwrap().is_none());
    }
}

/// Memory that knows which threads write to it.
struct Signed {
    memory: MemoryDevice,
    writers: Mutex<Vec<(ThreadId, usize)>>,
}

impl Device for Signed {
    pass_on!(memory: len, grow, holds, read_at, sync, discard, close, is_fixed);

    fn write_at(&self, data: &[u8], offset: u64) -> io::Result<()> {
        self.writers.lock().push((std::thread::current().id(), data.len()));
        self.memory.write_at(data, offset)
    }
}

fn signed() -> (Arc<Signed>, Engine) {
    let device = Arc::new(Signed { memory: MemoryDevice::fixed(16 << 20), writers: Mutex::default() });
    Engine::format(device.as_ref(), FormatOptions::default(), &koine_env::OsRandom).unwrap();
    let engine = Engine::open(Arc::clone(&device) as _, options(Background::Threads)).unwrap();
    engine.commit(Batch::new().then(Operation::CreateSpace { space: SPACE }), Durability::Sync).unwrap();
    device.writers.lock().clear();
    (device, engine)
}

fn staged(engine: &Engine, data: &[u8]) -> Payload {
    let mut stage = engine.stage(StageHint::default()).unwrap();
    stage.write(data).unwrap();
    Payload::Stage(stage.finish().unwrap())
}

fn put_of(key: &'static str, value: Payload) -> Batch {
    Batch::new().then(Operation::Put { at: Place::new(SPACE, key), value })
}

fn submitted(engine: &Engine, key: &'static str, value: Payload) -> Ticket {
    awaited(|| engine.submit(put_of(key, value), Durability::Sync))
}

fn value(engine: &Engine, key: &str) -> Option<Vec<u8>> {
    engine.get(SPACE, key.as_bytes()).unwrap().map(Vec::from)
}

#[test]
fn who_waits_for_what_it_submits_writes_data_and_group() {
    let (device, engine) = signed();
    let payload = staged(&engine, &[5; 100_000]);
    assert_eq!(device.writers.lock().as_slice(), [], "what is one run waits for its commit");
    submitted(&engine, "k", payload).wait().unwrap();
    let writers: Vec<_> = device.writers.lock().iter().take(2).copied().collect();
    let this = std::thread::current().id();
    assert_eq!(writers, [(this, BLOCK_LEN), (this, 25 * BLOCK_LEN)]);
    assert_eq!(value(&engine, "k").unwrap(), [5; 100_000]);
}

#[test]
fn what_is_submitted_to_be_waited_for_and_is_not_is_written_all_the_same() {
    let (_, engine) = signed();
    let (tell, told) = std::sync::mpsc::channel();
    submitted(&engine, "called", staged(&engine, b"1")).on_done(move |outcome| tell.send(outcome).unwrap());
    told.recv().unwrap().unwrap();
    assert_eq!(value(&engine, "called").unwrap(), b"1");

    drop(submitted(&engine, "dropped", staged(&engine, b"2")));
    engine.sync().unwrap();
    assert_eq!(value(&engine, "dropped").unwrap(), b"2");

    // Others, whether somebody waits for them or not, do not wait for one that is just kept.
    let kept = submitted(&engine, "kept", staged(&engine, b"3"));
    engine.submit(Batch::new().put(SPACE, "other", "4"), Durability::Sync).wait().unwrap();
    assert_eq!(value(&engine, "kept").unwrap(), b"3");
    let again = submitted(&engine, "again", staged(&engine, b"5"));
    assert!(engine.check(&mut |_| ()).unwrap().is_sound());
    assert_eq!(value(&engine, "again").unwrap(), b"5");
    assert_eq!((kept.wait().is_ok(), again.wait().is_ok()), (true, true));

    let left = submitted(&engine, "left", staged(&engine, b"6"));
    engine.close().unwrap();
    left.wait().unwrap();
}

#[test]
fn what_needs_data_that_is_on_its_way_waits_for_it() {
    let number = |value: u64| value.to_le_bytes().to_vec();
    let place = |key: &'static str| Place::new(SPACE, key);
    let long = |byte: u8| vec![byte; 20_000];
    for background in [Background::Threads, Background::Manual] {
        let (_, engine) = store(background);
        let submit = |batch: Batch| awaited(|| engine.submit(batch, Durability::Sync));
        let put = |key: &'static str, data: &[u8]| submit(put_of(key, staged(&engine, data)));
        let then = |operation: Operation| submit(Batch::new().then(operation));
        let tickets = vec![
            put("counter", &number(7)),
            then(Operation::AddCounter { at: place("counter"), delta: 5 }),
            put("from", &long(1)),
            then(Operation::Rename { from: place("from"), to: place("renamed") }),
            put("from", &long(2)),
            then(Operation::CloneRange {
                from: place("from"),
                from_offset: 0,
                length: 20_000,
                to: place("cloned"),
                to_offset: 0,
            }),
            put("from", &long(3)),
            then(Operation::Concatenate {
                sources: vec![place("cloned"), place("from")],
                target: place("both"),
                fate: Sources::Keep,
            }),
            put("from", &long(4)),
            then(Operation::CloneSpace { from: SPACE, to: BRANCH }),
            put("from", &long(5)),
        ];
        assert!(tickets.into_iter().all(|ticket| ticket.wait().is_ok()));
        assert_eq!(value(&engine, "counter").unwrap(), number(12));
        let held = [("renamed", long(1)), ("both", [long(2), long(3)].concat()), ("from", long(5))];
        for (key, bytes) in held {
            assert_eq!(value(&engine, key).unwrap(), bytes, "{key}");
        }
        assert_eq!(engine.get(BRANCH, b"from").unwrap().unwrap(), long(4));
        assert!(engine.check(&mut |_| ()).unwrap().is_sound());
    }
}

#[test]
fn a_power_cut_leaves_a_staged_value_before_or_after() {
    for length in [3000, 60_000, 1 << 20] {
        let device = Arc::new(RecordingDevice::new(formatted()).unwrap());
        let open = |device: Arc<dyn Device>| Engine::open(device, options(Background::Manual)).unwrap();
        let engine = open(device.clone());
        engine.commit(Batch::new().then(Operation::CreateSpace { space: SPACE }), Durability::Sync).unwrap();
        let mut known = Vec::new();
        for number in 1..5 {
            submitted(&engine, "k", staged(&engine, &vec![number; length])).wait().unwrap();
            known.push((device.position(), number));
        }
        let images = each_power_cut(&device, &known, &|image| {
            let found = value(&open(Arc::new(image)), "k").unwrap();
            assert!(found.len() == length && found.iter().all(|byte| *byte == found[0]));
            found[0]
        });
        assert!(images > 30, "{images} images");
    }
}

#[test]
fn memory_of_long_groups_is_used_again() {
    let (_, engine) = store(Background::Manual);
    let kept = || engine.shared().head.lock().group_buffer.as_ref().map(|buffer| buffer.as_ptr());
    let commit = |count: u64, from: u64| {
        let batch = (0..count)
            .fold(Batch::new(), |batch, number| batch.put(SPACE, (from + number).to_be_bytes().to_vec(), vec![7; 900]));
        engine.commit(batch, Durability::Written).unwrap();
    };
    commit(150, 0);
    let first = kept();
    assert!(first.is_some());
    commit(120, 1000);
    put(&engine, 2000, Durability::Written);
    assert_eq!(kept(), first, "neither a shorter group nor one of a block needs memory of its own");
    engine.close().unwrap();
}

#[test]
fn threads_that_commit_without_a_sync_write_their_own_groups() {
    let (_, engine) = store(Background::Threads);
    std::thread::scope(|scope| {
        for thread in 0..8 {
            let engine = &engine;
            scope.spawn(move || (0..100).for_each(|number| put(engine, thread * 100 + number, Durability::Written)));
        }
        // Those that are synced between them wait for no turn.
        (800..820).for_each(|number| put(&engine, number, Durability::Sync));
    });
    assert!((0..820).all(|number| has(&engine, number)));
    assert!(engine.shared().turn.try_lock().is_some());
    engine.close().unwrap();
}
