//! Cursors: order, bounds, seeks, and what comes with an entry.

use std::collections::BTreeSet;

use bytes::Bytes;
use koine_engine::{Batch, KeyRange, Operation};
use koine_env::{Random, SeededRandom};

use super::Suite;
use super::fixture::{A, B, Fixture, at, delete, entries, pattern};
use crate::seam::{Cursor, Direction, ENTRY_VALUE_LEN_MAX};

fn names(cursor: Box<dyn Cursor>) -> Vec<String> {
    entries(cursor).into_iter().map(|entry| String::from_utf8_lossy(&entry.key).into_owned()).collect()
}

fn filled(suite: &Suite) -> Fixture {
    let fixture = Fixture::new(suite);
    let keys = ["", "a", "b", "bb", "c", "c\0", "d"];
    fixture.commit(keys.into_iter().fold(Batch::new(), |batch, key| batch.put(A, key, key)));
    fixture
}

pub(super) fn cursors_walk_both_ways_inside_the_range(suite: &Suite) {
    let fixture = filled(suite);
    let view = fixture.view();
    let open =
        |start: &'static str, end: Option<&'static str>| KeyRange { start: start.into(), end: end.map(Into::into) };
    let cases: [(KeyRange, &[&str]); 9] = [
        (KeyRange::all(), &["", "a", "b", "bb", "c", "c\0", "d"]),
        (open("b", None), &["b", "bb", "c", "c\0", "d"]),
        (open("b", Some("c")), &["b", "bb"]),
        (open("b", Some("c\0")), &["b", "bb", "c"]),
        (open("", Some("a")), &[""]),
        (open("aa", Some("bb\0")), &["b", "bb"]),
        (KeyRange::prefix("b"), &["b", "bb"]),
        (KeyRange::single("c"), &["c"]),
        (KeyRange::single(""), &[""]),
    ];
    for (range, expected) in cases {
        let forward = names(view.cursor(A, range.clone(), Direction::Forward).expect("a cursor"));
        assert_eq!(forward, expected, "{range:?}");
        let mut backward = names(view.cursor(A, range.clone(), Direction::Backward).expect("a cursor"));
        backward.reverse();
        assert_eq!(backward, expected, "{range:?}");
    }
}

pub(super) fn cursors_seek_to_either_side(suite: &Suite) {
    let fixture = filled(suite);
    let view = fixture.view();
    let range = KeyRange::new("a", "d");
    let check = |direction, key: &str, expected: &[&str]| {
        let mut cursor = view.cursor(A, range.clone(), direction).expect("a cursor");
        // From the start, from the middle, and after the end.
        for steps in [0, 2, 10] {
            for _ in 0..steps {
                cursor.next().expect("the next entry");
            }
            cursor.seek(key.as_bytes()).expect("seek");
            let mut found = Vec::new();
            while let Some(entry) = cursor.next().expect("the next entry") {
                found.push(String::from_utf8_lossy(&entry.key).into_owned());
            }
            assert_eq!(found, expected, "{direction:?} to {key:?} after {steps} steps");
        }
    };
    check(Direction::Forward, "", &["a", "b", "bb", "c", "c\0"]);
    check(Direction::Forward, "b", &["b", "bb", "c", "c\0"]);
    check(Direction::Forward, "b\0", &["bb", "c", "c\0"]);
    check(Direction::Forward, "c\0", &["c\0"]);
    check(Direction::Forward, "c\0\0", &[]);
    check(Direction::Forward, "z", &[]);
    check(Direction::Backward, "z", &["c\0", "c", "bb", "b", "a"]);
    check(Direction::Backward, "d", &["c\0", "c", "bb", "b", "a"]);
    check(Direction::Backward, "c", &["c", "bb", "b", "a"]);
    check(Direction::Backward, "ba", &["b", "a"]);
    check(Direction::Backward, "a", &["a"]);
    check(Direction::Backward, "", &[]);
}

pub(super) fn cursors_give_small_values_with_the_entry(suite: &Suite) {
    let fixture = Fixture::new(suite);
    let sizes = [0, 1, 100, 1023, 1024, 1025, 40_000];
    for size in sizes {
        fixture.put(&format!("{size:06}"), pattern(size as u64, size));
    }
    for direction in [Direction::Forward, Direction::Backward] {
        let mut found = entries(fixture.view().cursor(A, KeyRange::all(), direction).expect("a cursor"));
        found.sort_by(|a, b| a.key.cmp(&b.key));
        assert_eq!(found.len(), sizes.len());
        for (entry, size) in found.iter().zip(sizes) {
            assert_eq!(entry.stat.size, size as u64);
            if let Some(value) = &entry.value {
                assert!(*value == pattern(size as u64, size), "the value of {size} bytes");
            }
            assert!(entry.value.is_some() || entry.stat.size > ENTRY_VALUE_LEN_MAX, "{size} bytes come with the entry");
        }
    }
}

pub(super) fn cursors_keep_their_version(suite: &Suite) {
    let fixture = filled(suite);
    let mut forward = fixture.view().cursor(A, KeyRange::all(), Direction::Forward).expect("a cursor");
    let mut backward = fixture.view().cursor(A, KeyRange::all(), Direction::Backward).expect("a cursor");
    forward.next().expect("the next entry");
    backward.next().expect("the next entry");
    let all = Operation::DeleteRange { space: A, range: KeyRange::all() };
    fixture.commit(Batch::new().then(all).put(A, "ab", "new"));
    fixture.done(Operation::DropSpace { space: A });
    forward.seek(b"").expect("seek");
    assert_eq!(names(forward), ["", "a", "b", "bb", "c", "c\0", "d"]);
    assert_eq!(names(backward), ["c\0", "c", "bb", "b", "a", ""]);
}

pub(super) fn cursors_over_nothing_end_at_once(suite: &Suite) {
    let fixture = filled(suite);
    let view = fixture.view();
    let ranges = [
        (A, KeyRange::new("d", "a")),
        (A, KeyRange::new("b", "b")),
        (A, KeyRange::new("x", "z")),
        (A, KeyRange::new("", "")),
        (B, KeyRange::all()),
    ];
    for (space, range) in ranges {
        for direction in [Direction::Forward, Direction::Backward] {
            let mut cursor = view.cursor(space, range.clone(), direction).expect("a cursor");
            for key in ["", "b", "zz"] {
                assert_eq!(cursor.next().expect("the next entry"), None, "{range:?}");
                cursor.seek(key.as_bytes()).expect("seek");
            }
            assert_eq!(cursor.next().expect("the next entry"), None, "{range:?}");
        }
    }
}

pub(super) fn cursors_walk_thousands_of_keys_after_changes(suite: &Suite) {
    let fixture = Fixture::new(suite);
    let random = SeededRandom::new(7);
    let mut model = BTreeSet::new();
    for round in 0..8 {
        let mut batch = Batch::new();
        for _ in 0..1500 {
            let key = Bytes::from(format!(
                "{:05}/{}",
                random.next_u64() % 20_000,
                "x".repeat((random.next_u64() % 60) as usize)
            ));
            if random.next_u64().is_multiple_of(3) {
                batch = batch.delete(A, key.clone());
                model.remove(&key);
            } else {
                batch = batch.put(A, key.clone(), pattern(round, (random.next_u64() % 200) as usize));
                model.insert(key);
            }
        }
        fixture.commit(batch);
        let lower = Bytes::from(format!("{:05}", random.next_u64() % 10_000));
        let range = KeyRange { start: lower.clone(), end: Some(format!("{:05}", 10_000 + round).into()) };
        let cut: Vec<Bytes> = model.iter().filter(|key| range.contains(key)).cloned().collect();
        let forward = entries(fixture.view().cursor(A, range.clone(), Direction::Forward).expect("a cursor"));
        assert!(forward.into_iter().map(|entry| entry.key).eq(cut.iter().cloned()), "forward in round {round}");
        let backward = entries(fixture.view().cursor(A, range, Direction::Backward).expect("a cursor"));
        assert!(backward.into_iter().map(|entry| entry.key).eq(cut.into_iter().rev()), "backward in round {round}");
    }
    fixture.done(delete(at("never")));
    assert_eq!(fixture.keys(A).len(), model.len());
}
