//! What a group takes, who writes it, and when it is shown.

use std::sync::Arc;

use crate::batch::{Batch, Durability, Operation, SpaceId};
use crate::device::{BLOCK_LEN, Call, Fault, FaultyDevice, MemoryDevice, Times, Trouble};
use crate::engine::{Background, Engine, Options};
use crate::error::ErrorKind;
use crate::format::FormatOptions;

const SPACE: SpaceId = SpaceId::FIRST;
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
    assert_eq!(engine.shared().head.lock().untold, 0);
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
