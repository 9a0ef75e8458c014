//! The report agrees with what was written, with the check and with the store's own count of free space.

use super::*;
use crate::Operation;
use crate::scrub::tests::{SPACE, commit, place, put, put_large, store};

#[test]
fn an_empty_store_has_nothing_but_its_frame() {
    let (_, engine) = store(16 << 20);
    engine.checkpoint().unwrap();
    let report = engine.space_report().unwrap();
    assert_eq!(report.spaces, vec![SpaceUse { space: SPACE, ..SpaceUse::default() }]);
    assert_eq!((report.data_len, report.shared_len, report.saved_len), (0, 0, 0));
    assert!(report.node_len > 0 && report.fixed_len > engine.info().ring_len);
    assert!(report.pieces.is_empty());
}

#[test]
fn keys_values_and_pieces_are_counted_by_space() {
    let (_, engine) = store(64 << 20);
    for number in 0..1000 {
        put(&engine, &format!("small-{number:04}"), vec![1; 100]);
    }
    put(&engine, "packed", vec![2; 10_000]);
    put_large(&engine, "large", 5_000_000, 3);
    commit(&engine, Operation::Truncate { at: place("hole"), length: 1 << 30 });
    engine.checkpoint().unwrap();
    let report = engine.space_report().unwrap();
    let used = report.spaces[0];
    assert_eq!((used.keys, used.key_len), (1003, 1000 * 10 + 6 + 5 + 4));
    assert_eq!(used.value_len, 1000 * 100 + 10_000 + 5_000_000 + (1 << 30));
    assert_eq!(used.inline_len, 100_000);
    assert_eq!(used.data_len, 3 * BLOCK + 5_000_000u64.next_multiple_of(BLOCK));
    assert_eq!(report.data_len, used.data_len);
    let values: u64 = report.pieces.values().sum();
    assert_eq!(values, 1002, "what is only a hole has no piece");
    assert_eq!(report.pieces.get(&1), Some(&1001));
    assert_eq!(report.pieces.get(&8), Some(&1), "5 MB in runs of at most 1 MiB");
    let check = engine.check(&mut |_| {}).unwrap();
    assert!(check.is_sound(), "{check:?}");
    assert_eq!(used.nodes + report.engine.nodes, check.nodes);
    assert_eq!(used.pieces + 1000, check.pieces);
    // What is free and what is named make up the store, but for what waits to be used again.
    let runs: u64 = report.free_runs.iter().map(|class| class.length).sum();
    assert_eq!(runs, report.usage.total - report.usage.used);
    let known = report.fixed_len + report.node_len + report.data_len + runs + report.usage.waiting;
    assert_eq!(known, report.usage.total);
}

#[test]
fn what_is_shared_is_told_with_what_it_saves() {
    let (_, engine) = store(64 << 20);
    put_large(&engine, "one", 2 << 20, 7);
    for name in ["two", "three"] {
        let (from, to) = (place("one"), place(name));
        commit(&engine, Operation::CloneRange { from, from_offset: 0, length: 2 << 20, to, to_offset: 0 });
    }
    engine.checkpoint().unwrap();
    let report = engine.space_report().unwrap();
    assert_eq!((report.data_len, report.shared_len, report.saved_len), (2 << 20, 2 << 20, 4 << 20));
    assert_eq!(report.spaces[0].data_len, 6 << 20);
    assert_eq!(report.spaces[0].value_len, 6 << 20);
}

#[test]
fn free_space_in_pieces_shows_in_the_classes() {
    let (_, engine) = store(32 << 20);
    for number in 0..64 {
        put_large(&engine, &format!("{number:02}"), 100_000, 1);
    }
    engine.checkpoint().unwrap();
    let before: u64 = engine.space_report().unwrap().free_runs.iter().map(|class| class.runs).sum();
    for number in (0..64).step_by(2) {
        commit(&engine, Operation::Delete { at: place(&format!("{number:02}")) });
    }
    engine.checkpoint().unwrap();
    engine.checkpoint().unwrap();
    commit(&engine, Operation::Delete { at: place("01") });
    engine.checkpoint().unwrap();
    let report = engine.space_report().unwrap();
    let after: u64 = report.free_runs.iter().map(|class| class.runs).sum();
    assert!(after > before + 20, "{before} runs, then {after}: {:?}", report.free_runs);
    assert!(report.free_runs.iter().all(|class| {
        class.length >= class.runs * class.from_len && class.length < class.runs * class.from_len * 2
    }));
}

#[test]
fn branches_share_their_nodes_and_their_values() {
    let (_, engine) = store(64 << 20);
    for number in 0..1000 {
        put(&engine, &format!("small-{number:04}"), vec![1; 100]);
    }
    put_large(&engine, "large", 2 << 20, 7);
    engine.checkpoint().unwrap();
    let before = engine.space_report().unwrap();
    assert_eq!((before.shared_node_len, before.saved_node_len), (0, 0));
    commit(&engine, Operation::CloneSpace { from: SPACE, to: SpaceId(90) });
    commit(&engine, Operation::SnapshotSpace { from: SPACE, to: SpaceId(91) });
    engine.checkpoint().unwrap();
    let report = engine.space_report().unwrap();
    let nodes = before.spaces[0].node_len;
    assert!(nodes > 100_000, "{nodes}");
    // Roots and what lies on the way to changes are each one's own.
    assert!(report.shared_node_len * 2 > nodes && report.shared_node_len <= nodes, "{report:?}");
    assert!(report.saved_node_len >= 2 * report.shared_node_len - nodes / 2, "{report:?}");
    assert_eq!((report.data_len, report.shared_len, report.saved_len), (2 << 20, 2 << 20, 4 << 20));
    let saved = report.spaces.iter().map(|used| used.node_len).sum::<u64>() - report.saved_node_len;
    assert!(saved <= report.node_len, "what all have less what they share is what is there");
    commit(&engine, Operation::DropSpace { space: SpaceId(90) });
    commit(&engine, Operation::DropSpace { space: SpaceId(91) });
    while engine.step().unwrap() {}
    engine.checkpoint().unwrap();
    let alone = engine.space_report().unwrap();
    assert_eq!((alone.shared_len, alone.saved_len, alone.saved_node_len), (0, 0, 0));
}
