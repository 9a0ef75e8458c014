//! Writes for which memory is enough: read before they are submitted, submitted together, lost only from the end, and
//! never in silence.

use std::sync::atomic::{AtomicBool, Ordering};

use super::*;
use crate::{Batch, Place};

/// A store whose commits only happen when somebody asks for something.
fn still_store(device: MemoryDevice, ring_len: u64) -> (Store, Arc<Engine>) {
    let device = Arc::new(device);
    format(&device, ring_len);
    let engine = engine_on(device, Background::Manual);
    (over(Arc::clone(&engine), None).unwrap(), engine)
}

fn commits(engine: &Engine) -> u64 {
    engine.view().version().0
}

#[test]
fn small_writes_are_read_at_once_and_become_one_commit() {
    let (store, engine) = still_store(MemoryDevice::growable(4 << 20, 1 << 30), 0);
    let (first, second) = (store.create(0).unwrap(), store.create(0).unwrap());
    store.sync().unwrap();
    let before = commits(&engine);
    let mut expected = vec![0; 400_000];
    for turn in 0..2000u64 {
        let (offset, byte) = (turn * 7919 % 390_000, turn as u8 | 1);
        first.write(offset, &[byte; 1500], MEMORY).unwrap();
        expected[offset as usize..offset as usize + 1500].fill(byte);
        second.write(turn * 3, b"abc", MEMORY).unwrap();
    }
    let end = first.size().unwrap();
    assert_eq!(content(&first), expected[..end as usize]);
    assert_eq!(content(&second), b"abc".repeat(2000));
    // Past the end, over a hole.
    first.write(end + 1000, b"far", MEMORY).unwrap();
    let mut buffer = [9; 2000];
    assert_eq!(first.read(end - 1, &mut buffer).unwrap(), 1004);
    assert_eq!(buffer[..1004], [&expected[end as usize - 1..end as usize], &[0; 1000], b"far"].concat());
    assert_eq!(commits(&engine), before);
    store.sync().unwrap();
    assert_eq!(commits(&engine), before + 1);
    expected.resize(end as usize + 1000, 0);
    expected.extend_from_slice(b"far");
    assert_eq!(content(&first), expected);
    let number = first.number();
    drop((first, second));
    assert_eq!(content(&store.open_object(number).unwrap()), expected);
}

#[test]
fn long_runs_are_placed_without_the_others() {
    let device = Arc::new(MemoryDevice::growable(4 << 20, 1 << 30));
    format(&device, 0);
    let store = over(engine_on(device.clone(), Background::Threads), None).unwrap();
    let (object, other) = (store.create(0).unwrap(), store.create(0).unwrap());
    store.sync().unwrap();
    let before = commits(&store.inner.engine);
    // In order, with a write in between that no later one is aligned after.
    let mut expected = Vec::new();
    for turn in 0..2000u64 {
        let data = vec![turn as u8 | 1; if turn == 1300 { 77 } else { 4096 }];
        object.write(expected.len() as u64, &data, MEMORY).unwrap();
        expected.extend_from_slice(&data);
        other.write(turn * 9000, &data, MEMORY).unwrap();
    }
    store.sync().unwrap();
    assert!(commits(&store.inner.engine) - before < 10);
    let numbers = (object.number(), other.number());
    std::mem::forget((object, other, store));
    let again = after_kill(&device);
    assert!(content(&again.open_object(numbers.0).unwrap()) == expected);
    let mut buffer = [0; 9000];
    again.open_object(numbers.1).unwrap().read(1999 * 9000, &mut buffer).unwrap();
    assert!(buffer[..4096] == [1999u64 as u8 | 1; 4096]);
}

#[test]
fn writes_are_kept_while_a_checkpoint_is_under_way() {
    let (store, engine) = still_store(MemoryDevice::fixed(512 << 20), 0);
    let object = store.create(0).unwrap();
    store.sync().unwrap();
    let before = commits(&engine);
    let checkpointed = engine.shared().checkpointed.lock();
    (0..100).for_each(|turn| object.write(turn * 5000, &[1; 4096], MEMORY).unwrap());
    drop(checkpointed);
    assert_eq!((commits(&engine), object.size().unwrap()), (before, 99 * 5000 + 4096));
}

#[test]
fn an_object_that_is_closed_still_knows_what_was_written() {
    let (store, engine) = still_store(MemoryDevice::growable(4 << 20, 1 << 30), 0);
    let object = store.create(0).unwrap();
    let number = object.number();
    object.write(0, b"kept", MEMORY).unwrap();
    object.close(MEMORY).unwrap();
    let before = commits(&engine);
    let again = store.open_object(number).unwrap();
    assert_eq!(again.read(0, &mut [0; 4]).unwrap(), 4);
    assert_eq!(commits(&engine), before);
    assert_eq!(again.status().unwrap().size, 4);
    assert!(commits(&engine) > before);
    drop(again);
    store.close().unwrap();
}

#[test]
fn what_follows_comes_after_it() {
    let (store, _) = still_store(MemoryDevice::growable(4 << 20, 1 << 30), 0);
    let object = store.create(0).unwrap();
    object.write(0, &[1; 10_000], MEMORY).unwrap();
    object.resize(5000, MEMORY).unwrap();
    object.write(4000, &[2; 500], MEMORY).unwrap();
    let mut transaction = object.transaction().unwrap();
    transaction.write(&object, 0, &[3; 10]).unwrap();
    let mut seen = [0; 20];
    assert_eq!(transaction.read(&object, 4490, &mut seen).unwrap(), 20);
    assert_eq!(seen, [[2; 10], [1; 10]].concat()[..]);
    transaction.execute(MEMORY).unwrap();
    object.write(5, &[4; 10], SYNC).unwrap();
    let expected = [&[3; 5][..], &[4; 10], &[1; 3985], &[2; 500], &[1; 500]].concat();
    assert_eq!(content(&object), expected);
    // A write longer than is kept.
    object.write(1, &vec![5; 9 << 20], MEMORY).unwrap();
    assert_eq!(object.size().unwrap(), 1 + (9 << 20));
}

#[test]
fn a_deleted_object_takes_what_was_written_to_it_along() {
    let (store, engine) = still_store(MemoryDevice::growable(4 << 20, 1 << 30), 0);
    let (gone, stays) = (store.create(0).unwrap(), store.create(0).unwrap());
    store.sync().unwrap();
    let free = engine.usage().free;
    gone.write(0, &vec![1; 1 << 20], MEMORY).unwrap();
    stays.write(0, b"stays", MEMORY).unwrap();
    gone.delete(MEMORY).unwrap();
    let new = store.create(0).unwrap();
    new.write(0, b"new", MEMORY).unwrap();
    let before = commits(&engine);
    store.sync().unwrap();
    assert_eq!(commits(&engine), before + 1);
    assert!(engine.usage().free + (100 << 10) > free, "its bytes were never placed");
    assert_eq!((content(&stays), content(&new)), (b"stays".to_vec(), b"new".to_vec()));
    assert_eq!(store.list(0, 10).unwrap(), [stays.number(), new.number()]);
}

#[test]
fn an_object_removed_past_the_store_loses_its_writes_alone() {
    let (store, engine) = still_store(MemoryDevice::growable(4 << 20, 1 << 30), 0);
    let objects: Vec<Object> = (0..3).map(|_| store.create(0).unwrap()).collect();
    store.sync().unwrap();
    engine.commit(Batch::new().delete(SPACE, objects[1].number().to_be_bytes().to_vec()), SYNC).unwrap();
    objects.iter().for_each(|object| object.write(0, &[7; 5000], MEMORY).unwrap());
    assert_eq!(kind(store.sync()), ErrorKind::NotFound);
    store.sync().unwrap();
    assert_eq!(kind(objects[1].write(0, b"x", MEMORY)), ErrorKind::NotFound);
    assert_eq!((content(&objects[0]), content(&objects[2])), (vec![7; 5000], vec![7; 5000]));
    assert!(!engine.contains(SPACE, &objects[1].number().to_be_bytes()).unwrap());
}

#[test]
fn where_there_is_no_room_nothing_is_kept() {
    let (store, engine) = still_store(MemoryDevice::fixed(8 << 20), 64 << 10);
    let object = store.create(0).unwrap();
    let mut written = 0;
    let full = loop {
        match object.write(written, &[1; 50_000], MEMORY) {
            Ok(()) => written += 50_000,
            Err(error) => break error,
        }
        assert!(written < 8 << 20);
    };
    assert_eq!(full.kind(), ErrorKind::Full);
    store.sync().unwrap();
    assert_eq!(object.size().unwrap(), written);
    assert!(written > 4 << 20 && engine.usage().free < 200_000, "{written}");
    let number = object.number();
    object.delete(SYNC).unwrap();
    store.create(0).unwrap().write(0, b"room again", SYNC).unwrap();
    assert_eq!(kind(store.open_object(number)), ErrorKind::NotFound);
}

#[test]
fn room_that_is_gone_meanwhile_is_told() {
    let (store, engine) = still_store(MemoryDevice::fixed(8 << 20), 512 << 10);
    let (large, small) = (store.create(0).unwrap(), store.create(0).unwrap());
    store.sync().unwrap();
    for at in 0..20 {
        large.write(at * 65_536, &[1; 65_536], MEMORY).unwrap();
    }
    // Somebody else takes what was free.
    let mut taken = 0;
    while engine.usage().free > 300_000 {
        let key = vec![taken; 8];
        let value = vec![taken; 100_000];
        let mut stage = engine.stage(crate::StageHint::default()).unwrap();
        stage.write(&value).unwrap();
        let value = crate::Payload::Stage(stage.finish().unwrap());
        let put = crate::Operation::Put { at: Place::new(SPACE, [&[9; 9][..], &key].concat()), value };
        engine.commit(Batch::new().then(put), MEMORY).unwrap();
        taken += 1;
    }
    assert_eq!(kind(store.sync()), ErrorKind::Full);
    store.sync().unwrap();
    assert_eq!(kind(large.write(0, b"x", MEMORY)), ErrorKind::Full);
    small.write(0, b"goes", SYNC).unwrap();
    let number = large.number();
    drop(large);
    assert_eq!(store.open_object(number).unwrap().size().unwrap(), 0);
}

#[test]
fn as_much_as_memory_allows_is_kept() {
    let device = Arc::new(MemoryDevice::growable(4 << 20, 1 << 30));
    format(&device, 1 << 20);
    let options = Options { memory_len: 4 << 20, ..Options::default() };
    let engine = Arc::new(Engine::open(device, options).unwrap());
    let store = over(Arc::clone(&engine), None).unwrap();
    let object = store.create(0).unwrap();
    let before = commits(&engine);
    for turn in 0..20_000u64 {
        object.write((turn * 7919 % 20_000) * 1024, &[turn as u8; 1024], MEMORY).unwrap();
        assert!(store.inner.gather.kept_len() <= 9 << 20);
    }
    let made = commits(&engine) - before;
    // While a checkpoint that others slow down makes room, writes go through one by one.
    assert!((2..5000).contains(&made), "{made} commits for 20,000 writes");
    for turn in (0..20_000u64).step_by(97) {
        let mut buffer = [0; 1024];
        object.read((turn * 7919 % 20_000) * 1024, &mut buffer).unwrap();
        assert_eq!(buffer, [turn as u8; 1024]);
    }
    drop(object);
    store.close().unwrap();
}

#[test]
fn a_write_is_seen_whole_or_not_at_all_while_others_submit() {
    const LENGTH: usize = 70_000;
    let (store, device) = new_store(None);
    let object = store.create(0).unwrap();
    object.write(0, &[0; LENGTH], MEMORY).unwrap();
    let done = AtomicBool::new(false);
    std::thread::scope(|scope| {
        let writers: Vec<_> = (0..2u8)
            .map(|thread| {
                let object = &object;
                scope.spawn(move || {
                    for turn in 0..1500u64 {
                        let durability = if turn % 100 == 99 { SYNC } else { MEMORY };
                        object.write(0, &[thread * 100 + turn as u8 % 100; LENGTH], durability).unwrap();
                    }
                })
            })
            .collect();
        for thread in 0..2 {
            let (object, done, store) = (&object, &done, &store);
            scope.spawn(move || {
                let mut buffer = vec![0; LENGTH + 1];
                while !done.load(Ordering::Acquire) {
                    assert_eq!(object.read(0, &mut buffer).unwrap(), LENGTH);
                    assert!(buffer[..LENGTH].iter().all(|byte| *byte == buffer[0]));
                    assert_eq!(object.size().unwrap(), LENGTH as u64);
                    if thread == 0 {
                        store.engine();
                    }
                }
            });
        }
        writers.into_iter().for_each(|writer| writer.join().unwrap());
        done.store(true, Ordering::Release);
    });
    object.sync().unwrap();
    let (expected, number) = (content(&object), object.number());
    std::mem::forget((object, store));
    assert_eq!(content(&after_kill(&device).open_object(number).unwrap()), expected);
}

#[test]
fn after_a_kill_no_later_write_is_there_without_the_earlier() {
    let (store, device) = new_store(None);
    let objects: Vec<Object> = (0..4).map(|_| store.create(0).unwrap()).collect();
    let numbers: Vec<u64> = objects.iter().map(Object::number).collect();
    store.sync().unwrap();
    let done = AtomicBool::new(false);
    let images = std::thread::scope(|scope| {
        scope.spawn(|| {
            for turn in 0..40_000u64 {
                // Each object tells the last turn; they come round one after the other.
                let object = &objects[turn as usize % 4];
                object.write(turn % 7 * 5000, &[turn as u8; 5000], MEMORY).unwrap();
                object.write(40_000, &turn.to_be_bytes(), MEMORY).unwrap();
                if turn % 10_000 == 5000 {
                    store.engine();
                }
            }
            done.store(true, Ordering::Release);
        });
        let mut images = Vec::new();
        while !done.load(Ordering::Acquire) {
            images.push(device.to_vec());
            std::thread::yield_now();
        }
        images
    });
    let step = images.len().div_ceil(15);
    for image in images.into_iter().step_by(step) {
        let again = after_kill(&MemoryDevice::from_bytes(image, 1 << 30));
        let turns: Vec<u64> = numbers
            .iter()
            .map(|number| {
                let mut turn = [0; 8];
                again.open_object(*number).unwrap().read(40_000, &mut turn).unwrap();
                u64::from_be_bytes(turn)
            })
            .collect();
        let newest = turns.iter().max().copied().unwrap();
        for (object, turn) in turns.iter().enumerate().filter(|_| newest > 4) {
            // Written right before the newest: at most one round ago.
            assert!(newest - turn < 4 + 1 && *turn as usize % 4 == object, "{turns:?}");
        }
    }
}
