//! Watches: order, range, what is lost, and when they end.

use std::time::Duration;

use koine_engine::{Batch, ErrorKind, KeyRange, Operation, Place, Sources, SpaceId, Version};

use super::Suite;
use super::fixture::{A, B, Fixture, add, append, at, clone_range, delete, put, rename, truncate, write_at};
use crate::seam::{Change, Watch, WatchEvent};

/// Long enough that only a hang reaches it.
const PATIENCE: Duration = Duration::from_secs(60);

fn watch(fixture: &Fixture, range: KeyRange, from: Version) -> Box<dyn Watch> {
    fixture.kv().watch(A, range, from).expect("a watch")
}

/// The next event, which must be a change.
fn change(watch: &mut dyn Watch) -> Change {
    match watch.next(PATIENCE).expect("the next event") {
        Some(WatchEvent::Changed(change)) => change,
        other => panic!("a change was expected, not {other:?}"),
    }
}

/// All changes up to the one of `marker`, a single key that is put last.
fn changes_until(watch: &mut dyn Watch, marker: &str) -> Vec<Change> {
    let mut changes = Vec::new();
    loop {
        let change = change(watch);
        if change.keys == KeyRange::single(marker.to_owned()) {
            return changes;
        }
        changes.push(change);
    }
}

fn nothing_more(watch: &mut dyn Watch) {
    assert_eq!(watch.next(Duration::ZERO).expect("no event"), None);
}

pub(super) fn a_watch_tells_changes_in_order(suite: &Suite) {
    let fixture = Fixture::new(suite);
    let mut watch = watch(&fixture, KeyRange::all(), fixture.view().version());
    nothing_more(&mut *watch);
    let mut expected = Vec::new();
    for round in 0..20 {
        let keys: Vec<_> = (0..round % 4 + 1).map(|number| format!("k{}", (round * 7 + number * 3) % 10)).collect();
        let batch = keys.iter().fold(Batch::new(), |batch, key| batch.put(A, key.clone(), ""));
        let version = fixture.commit(batch).version;
        expected.extend(keys.into_iter().map(|key| Change { version, keys: KeyRange::single(key) }));
        if round % 5 == 0 {
            for change_expected in expected.drain(..) {
                assert_eq!(change(&mut *watch), change_expected);
            }
            nothing_more(&mut *watch);
        }
    }
    for change_expected in expected {
        assert_eq!(change(&mut *watch), change_expected);
    }
    nothing_more(&mut *watch);
}

pub(super) fn a_watch_tells_only_its_range(suite: &Suite) {
    let fixture = Fixture::new(suite);
    fixture.done(Operation::CreateSpace { space: B });
    let mut watch = watch(&fixture, KeyRange::new("b", "d"), fixture.view().version());
    fixture.commit(Batch::new().put(A, "a", "").put(A, "d", "").put(B, "c", "").put(A, "", ""));
    let first = fixture.put("b", "");
    let second = fixture.put("c\u{ff}", "");
    fixture
        .refused(Batch::new().put(A, "c", "").then(rename(at("none"), at("c"))), koine_engine::Refusal::Operation(1));
    fixture.put("d", "");
    assert_eq!(change(&mut *watch), Change { version: first, keys: KeyRange::single("b") });
    assert_eq!(change(&mut *watch), Change { version: second, keys: KeyRange::single("c\u{ff}") });
    nothing_more(&mut *watch);
}

pub(super) fn a_watch_goes_on_from_an_old_version(suite: &Suite) {
    let fixture = Fixture::new(suite);
    let versions: Vec<_> = (0..10).map(|number| fixture.put(&format!("k{number}"), "")).collect();
    for (index, from) in versions.iter().enumerate() {
        let mut watch = watch(&fixture, KeyRange::all(), *from);
        for (number, version) in versions.iter().enumerate().skip(index + 1) {
            let keys = KeyRange::single(format!("k{number}"));
            assert_eq!(change(&mut *watch), Change { version: *version, keys });
        }
        nothing_more(&mut *watch);
    }
    // From the future: what is committed up to there is not told.
    let mut later = watch(&fixture, KeyRange::all(), Version(u64::MAX));
    fixture.put("k", "");
    nothing_more(&mut *later);
}

pub(super) fn a_watch_tells_of_every_kind_of_change(suite: &Suite) {
    let fixture = Fixture::new(suite);
    let kinds: Vec<(Operation, &[&str])> = vec![
        (put(at("a"), "1"), &["a"]),
        (write_at(at("a"), 1, "2"), &["a"]),
        (append(at("a"), "3"), &["a"]),
        (truncate(at("a"), 2), &["a"]),
        (add(at("n"), 1), &["n"]),
        (clone_range(at("a"), 0, 1, at("b"), 0), &["b"]),
        (rename(at("a"), at("c")), &["a", "c"]),
        (Operation::Concatenate { sources: vec![at("b"), at("c")], target: at("d"), fate: Sources::Keep }, &["d"]),
        (
            Operation::Concatenate { sources: vec![at("b"), at("c")], target: at("e"), fate: Sources::Delete },
            &["b", "c", "e"],
        ),
        (delete(at("d")), &["d"]),
        (Operation::DeleteRange { space: A, range: KeyRange::new("e", "o") }, &["e", "n"]),
        (put(at("p/1"), ""), &["p/1"]),
        (Operation::RenamePrefix { space: A, from: "p/".into(), to: "q/".into() }, &["p/1", "q/1"]),
        (put(at("last"), ""), &["last"]),
        (Operation::DropSpace { space: A }, &["last"]),
    ];
    let from = fixture.view().version();
    let mut told = fixture.kv().watch(A, KeyRange::all(), from).expect("a watch");
    for (operation, keys) in kinds {
        let text = format!("{operation:?}");
        let version = fixture.done(operation);
        // Each key lies in a change of this commit; how many events tell it is the back end's.
        let mut left: Vec<&str> = keys.to_vec();
        while !left.is_empty() {
            let change = change(&mut *told);
            assert_eq!(change.version, version, "{text}: {left:?} left");
            left.retain(|key| !change.keys.contains(key.as_bytes()));
        }
        // What is told of the same commit beyond that is no other key.
        while let Some(event) = told.next(Duration::ZERO).expect("the next event") {
            let WatchEvent::Changed(change) = event else { panic!("{event:?}") };
            assert_eq!(change.version, version, "{text}");
            assert!(keys.iter().any(|key| change.keys.contains(key.as_bytes())), "{text}: {change:?}");
        }
    }
}

pub(super) fn a_slow_watch_loses_and_says_so(suite: &Suite) {
    let fixture = Fixture::new(suite);
    let from = fixture.view().version();
    let mut slow = watch(&fixture, KeyRange::all(), from);
    let first = fixture.put("first", "");
    // More than any queue should hold; the writer is not held up.
    for round in 0..8u64 {
        let batch = (0..20_000)
            .fold(Batch::new(), |batch, number| batch.put(A, format!("k{number}"), round.to_le_bytes().to_vec()));
        fixture.commit(batch);
    }
    let last = fixture.put("last", "");
    let mut told = 0u64;
    let mut newest = from;
    let mut lost = None;
    while let Some(event) = slow.next(Duration::ZERO).expect("the next event") {
        match event {
            WatchEvent::Changed(change) => {
                assert!(change.version >= newest, "events must come in commit order");
                newest = change.version;
                told += 1;
            }
            WatchEvent::LostSince(version) => {
                assert!(version >= from && version <= last, "{version:?}");
                assert!(version <= newest || told == 0, "what was said to be known was not told");
                lost = Some(version);
            }
        }
    }
    assert!(lost.is_some() || told == 8 * 20_000 + 2, "{told} of all changes were told, and no loss");
    // It goes on with what comes after.
    let version = fixture.put("after", "");
    let event = change(&mut *slow);
    assert_eq!(event, Change { version, keys: KeyRange::single("after") });
    // A new watch from too old a version says so at once, or still knows.
    let mut late = watch(&fixture, KeyRange::all(), from);
    match late.next(PATIENCE).expect("the next event") {
        Some(WatchEvent::LostSince(version)) => assert_eq!(version, from),
        Some(WatchEvent::Changed(change)) => assert_eq!(change.version, first),
        None => panic!("nothing was told of what happened"),
    }
}

pub(super) fn a_watch_waits_for_the_next_commit(suite: &Suite) {
    let fixture = Fixture::new(suite);
    let mut watch = watch(&fixture, KeyRange::all(), fixture.view().version());
    assert_eq!(watch.next(Duration::from_millis(1)).expect("no event"), None);
    std::thread::scope(|scope| {
        let waiter = scope.spawn(move || changes_until(&mut *watch, "marker"));
        let versions: Vec<_> = (0..50).map(|number| fixture.put(&format!("k{number}"), "")).collect();
        fixture.put("marker", "");
        let told: Vec<_> = waiter.join().expect("the waiter").into_iter().map(|change| change.version).collect();
        assert_eq!(told, versions);
    });
}

pub(super) fn a_watch_stops_with_its_store(suite: &Suite) {
    let fixture = Fixture::new(suite);
    let mut waiting = watch(&fixture, KeyRange::single("never"), fixture.view().version());
    // One in a space that is absent waits as well.
    let now = fixture.view().version();
    let other = fixture.kv().watch(SpaceId(40), KeyRange::all(), now).expect("a watch");
    let at_once = Place::new(A, "k");
    fixture.done(put(at_once, ""));
    std::thread::scope(|scope| {
        let waiter = scope.spawn(move || waiting.next(PATIENCE));
        fixture.kv().close().expect("close");
        let outcome = waiter.join().expect("the waiter");
        assert_eq!(outcome.expect_err("the store is closed").kind(), ErrorKind::Stopped);
    });
    let mut other = other;
    assert_eq!(other.next(PATIENCE).expect_err("the store is closed").kind(), ErrorKind::Stopped);
}
