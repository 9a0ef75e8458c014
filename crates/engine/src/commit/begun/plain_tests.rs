//! Puts and deletions whose group is begun before they are applied: after power cuts and on media that fail.

use std::sync::Arc;

use super::tests::{STORE_LEN, each_power_cut, formatted};
use crate::device::{Call, Device, Fault, FaultyDevice, MemoryDevice, RecordingDevice, Times, Trouble};
use crate::{Background, Batch, Durability, Engine, ErrorKind, Operation, Options, Place, SpaceId};

const SPACE: SpaceId = SpaceId(20);

fn open(device: Arc<dyn Device>) -> Engine {
    Engine::open(device, Options { background: Background::Manual, ..Options::default() }).unwrap()
}

fn with_space(device: Arc<dyn Device>) -> Engine {
    let engine = open(device);
    engine.commit(Batch::new().then(Operation::CreateSpace { space: SPACE }), Durability::Sync).unwrap();
    engine
}

/// Two values that are alike, and one that moves on from key to key.
fn step(number: u8, length: usize) -> Batch {
    let value = || vec![number; length];
    let batch = Batch::new().put(SPACE, vec![b'a'], value()).put(SPACE, vec![b'b'], value());
    batch.delete(SPACE, vec![b'c', number - 1]).put(SPACE, vec![b'c', number], value())
}

/// The number of the last step; every key agrees.
fn number_in(engine: &Engine, length: usize) -> u8 {
    let value = engine.get(SPACE, b"a").unwrap().unwrap();
    let number = value[0];
    assert_eq!(value, vec![number; length]);
    assert_eq!(engine.get(SPACE, b"b").unwrap().unwrap(), value);
    for other in 0..10 {
        assert_eq!(engine.contains(SPACE, &[b'c', other]).unwrap(), other == number, "{other} beside {number}");
    }
    number
}

#[test]
fn a_power_cut_at_any_moment_leaves_all_of_a_batch_or_nothing() {
    for length in [100, 5000, 20_000] {
        let device = Arc::new(RecordingDevice::new(formatted()).unwrap());
        let engine = with_space(device.clone());
        let mut known = Vec::new();
        for number in 1..6 {
            engine.commit(step(number, length), Durability::Sync).unwrap();
            known.push((device.position(), number));
        }
        let images = each_power_cut(&device, &known, &|image| number_in(&open(Arc::new(image)), length));
        assert!(images > 20, "{images} images");
    }
}

#[test]
fn what_cannot_be_applied_after_all_is_taken_back() {
    let device = Arc::new(formatted());
    let engine = with_space(device.clone());
    let key = |number: u16| number.to_be_bytes().to_vec();
    for number in 0..600 {
        engine.commit(Batch::new().put(SPACE, key(number), vec![1; 900]), Durability::Memory).unwrap();
    }
    engine.close().unwrap();
    let bytes = device.to_vec();
    let put = |byte: u8| Batch::new().put(SPACE, key(300), vec![byte; 900]);
    let delete = Batch::new().delete(SPACE, key(300));
    for (batch, after_it) in [(put(2), Some(2)), (delete, None)] {
        let (mut taken_back, mut nth) = (0, 0);
        loop {
            let device = Arc::new(FaultyDevice::new(MemoryDevice::from_bytes(bytes.clone(), STORE_LEN), Vec::new(), 1));
            let engine = open(device.clone());
            let before = device.calls();
            let fault =
                Fault { call: Call::Read, nth: before.reads + nth, times: Times::Once, trouble: Trouble::Error };
            device.set_plan(vec![fault]);
            let done = engine.commit(batch.clone(), Durability::Sync);
            let after = device.calls();
            device.set_plan(Vec::new());
            let read = |engine: &Engine| engine.get(SPACE, &key(300)).unwrap().map(|value| value[0]);
            let cut = || open(Arc::new(MemoryDevice::from_bytes(device.inner().to_vec(), STORE_LEN)));
            let Err(error) = done else {
                assert_eq!((read(&engine), read(&cut())), (after_it, after_it));
                if after.reads < before.reads + nth {
                    break;
                }
                nth += 1;
                continue;
            };
            assert_eq!(error.kind(), ErrorKind::Device);
            assert_eq!((read(&engine), read(&cut())), (Some(1), Some(1)), "not visible, nor in the log");
            if after.writes > before.writes {
                assert_eq!((after.writes - before.writes, after.syncs - before.syncs), (2, 1));
                taken_back += 1;
            }
            // The store goes on, in the same place of the ring.
            engine.commit(put(3), Durability::Sync).unwrap();
            assert_eq!((read(&engine), read(&cut())), (Some(3), Some(3)));
            nth += 1;
        }
        assert!(taken_back > 0, "of {nth} reads");
    }
}

#[test]
fn what_would_be_refused_is_not_begun() {
    let device = Arc::new(FaultyDevice::new(formatted(), Vec::new(), 1));
    let engine = with_space(device.clone());
    let snapshot = SpaceId(21);
    let snap = Operation::SnapshotSpace { from: SPACE, to: snapshot };
    engine.commit(Batch::new().then(snap), Durability::Sync).unwrap();
    let before = device.calls().writes;
    for space in [snapshot, SpaceId(22)] {
        // The first operation alone would do.
        let batch = || Batch::new().put(SPACE, b"a".to_vec(), b"1".to_vec());
        for batch in [batch().put(space, b"a".to_vec(), b"1".to_vec()), batch().delete(space, b"a".to_vec())] {
            let refused = engine.commit(batch, Durability::Sync).unwrap_err();
            assert_eq!(refused.kind(), ErrorKind::Refused);
        }
    }
    let present = crate::Condition::Present { space: SPACE, key: b"a".to_vec().into() };
    let batch = Batch::new().when(present).delete(SPACE, b"a".to_vec());
    assert_eq!(engine.commit(batch, Durability::Sync).unwrap_err().kind(), ErrorKind::Refused);
    assert_eq!(device.calls().writes, before);
    assert!(!engine.contains(SPACE, b"a").unwrap());
    let at = Place::new(SPACE, b"a".to_vec());
    engine.commit(Batch::new().then(Operation::Delete { at }), Durability::Sync).unwrap();
}
