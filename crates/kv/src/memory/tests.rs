//! What only the store in memory promises: its capacity and the bounds of its history.

use std::time::Duration;

use bytes::Bytes;

use super::*;
use crate::seam::WatchEvent;
use koine_engine::{Condition, RequestId};

const SPACE: SpaceId = SpaceId::FIRST;

fn store(options: MemoryOptions) -> MemoryKv {
    let kv = MemoryKv::new(options);
    kv.commit(Batch::new().then(Operation::CreateSpace { space: SPACE }), Durability::Memory).unwrap();
    kv
}

fn put(kv: &MemoryKv, key: &'static str, length: usize) -> Result<Commit> {
    kv.commit(Batch::new().put(SPACE, key, vec![7u8; length]), Durability::Memory)
}

#[test]
fn a_full_store_refuses_new_data_and_still_deletes() {
    let kv = store(MemoryOptions { capacity: Some(1000), ..MemoryOptions::default() });
    put(&kv, "a", 600).unwrap();
    let error = put(&kv, "b", 600).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Full);
    assert_eq!(kv.get(SPACE, b"b").unwrap(), None);
    let mut stage = kv.stage(StageHint::default()).unwrap();
    stage.write(&[1; 300]).unwrap();
    assert_eq!(stage.write(&[1; 300]).unwrap_err().kind(), ErrorKind::Full);
    assert_eq!((stage.length(), kv.usage().unwrap().used), (300, 901));
    drop(stage.finish().unwrap());
    assert_eq!(kv.usage().unwrap().used, 601);
    kv.commit(Batch::new().delete(SPACE, "a"), Durability::Memory).unwrap();
    put(&kv, "b", 600).unwrap();
    assert_eq!(kv.usage().unwrap().free, 399);
}

#[test]
fn what_did_not_fit_may_be_submitted_again_under_its_request() {
    let kv = store(MemoryOptions { capacity: Some(100), ..MemoryOptions::default() });
    put(&kv, "a", 90).unwrap();
    let batch = Batch::new().put(SPACE, "b", vec![1u8; 50]).with_request(RequestId([1; 16]));
    assert_eq!(kv.commit(batch.clone(), Durability::Memory).unwrap_err().kind(), ErrorKind::Full);
    kv.commit(Batch::new().delete(SPACE, "a"), Durability::Memory).unwrap();
    assert!(!kv.commit(batch, Durability::Memory).unwrap().repeated);
}

#[test]
fn forgotten_changes_are_said_to_be_lost_and_never_said_to_be_none() {
    let kv = store(MemoryOptions { changes_max: 4, ..MemoryOptions::default() });
    let start = kv.view().unwrap().version();
    let mut watch = kv.watch(SPACE, KeyRange::all(), start).unwrap();
    let first = put(&kv, "a", 1).unwrap().version;
    let event = watch.next(Duration::ZERO).unwrap().unwrap();
    assert!(matches!(event, WatchEvent::Changed(change) if change.version == first));
    for key in ["b", "c", "d", "e", "f"] {
        put(&kv, key, 1).unwrap();
    }
    // What it knows ends where the last event may not have been its commit's last.
    assert_eq!(watch.next(Duration::ZERO).unwrap(), Some(WatchEvent::LostSince(start)));
    assert_eq!(watch.next(Duration::ZERO).unwrap(), None);
    let last = put(&kv, "g", 1).unwrap().version;
    let event = watch.next(Duration::ZERO).unwrap().unwrap();
    assert!(matches!(event, WatchEvent::Changed(change) if change.version == last));

    let range = KeyRange::single(Bytes::from_static(b"untouched"));
    let unchanged = |since| Batch::new().when(Condition::RangeUnchanged { space: SPACE, range: range.clone(), since });
    let error = kv.commit(unchanged(first), Durability::Memory).unwrap_err();
    assert_eq!(error.refusal(), Some(Refusal::Condition(0)));
    kv.commit(unchanged(last), Durability::Memory).unwrap();
}

#[test]
fn the_oldest_outcomes_are_forgotten() {
    let kv = store(MemoryOptions { outcomes_max: 2, ..MemoryOptions::default() });
    let submit = |id: u8| kv.commit(Batch::new().with_request(RequestId([id; 16])), Durability::Memory).unwrap();
    let firsts: Vec<_> = (0..3).map(submit).collect();
    assert_eq!(submit(2), Commit { repeated: true, ..firsts[2] });
    assert_eq!(submit(1), Commit { repeated: true, ..firsts[1] });
    assert!(!submit(0).repeated);
}
