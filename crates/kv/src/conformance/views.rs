//! Views: one version for ever, and every way of reading a value.

use koine_engine::{Batch, Durability, ErrorKind, KeyRange, Operation, Place, SpaceId};

use super::Suite;
use super::fixture::{A, B, Fixture, add, append, at, check_value, delete, dump, pattern, rename, truncate, write_at};
use crate::seam::{Lookup, Wait};

pub(super) fn a_view_shows_one_version_for_ever(suite: &Suite) {
    let fixture = Fixture::new(suite);
    let mut pinned = Vec::new();
    let mut keep = || {
        let view = fixture.view();
        let dump = dump(&*view);
        pinned.push((view, dump));
    };
    keep();
    fixture.commit(Batch::new().put(A, "a", pattern(1, 10)).put(A, "b", pattern(2, 70_000)).put(
        A,
        "c",
        pattern(3, 1_100_000),
    ));
    keep();
    fixture.commit(
        Batch::new().then(write_at(at("a"), 2, "x")).then(write_at(at("b"), 5, "y")).then(append(at("c"), "z")),
    );
    keep();
    fixture.commit(Batch::new().then(rename(at("a"), at("d"))).then(truncate(at("b"), 3)).then(add(at("n"), 1)));
    keep();
    fixture.commit(Batch::new().then(Operation::CreateSpace { space: B }).then(rename(at("c"), Place::new(B, "c"))));
    keep();
    fixture.done(Operation::DeleteRange { space: A, range: KeyRange::all() });
    keep();
    fixture.done(Operation::DropSpace { space: B });
    keep();
    fixture.done(Operation::DropSpace { space: A });
    keep();
    for (index, (view, before)) in pinned.iter().enumerate() {
        assert!(dump(&**view) == *before, "view {index} changed");
    }
    let versions: Vec<_> = pinned.iter().map(|(view, _)| view.version()).collect();
    assert!(versions.is_sorted_by(|a, b| a < b), "{versions:?}");
    let has: Vec<_> = pinned.iter().map(|(view, _)| view.has_space(B).expect("has_space")).collect();
    assert_eq!(has, [false, false, false, false, true, true, false, false]);
}

pub(super) fn a_view_that_is_kept_is_the_same_view(suite: &Suite) {
    let fixture = Fixture::new(suite);
    fixture.put("k", "v");
    let (view, other) = (fixture.view(), fixture.view());
    let before = dump(&*view);
    view.keep().expect("room");
    view.keep().expect("the same one");
    fixture.put("k", "w");
    assert!(dump(&*view) == before);
    drop(view);
    other.keep().expect("room");
    assert!(dump(&*other) == before);
    assert!(dump(&*fixture.view()) != before);
}

pub(super) fn a_view_keeps_what_is_overwritten_many_times(suite: &Suite) {
    let fixture = Fixture::new(suite);
    // In all less than what a view may hold back of a small store before it is expired.
    let value = pattern(1, 40_000);
    let small = pattern(2, 900);
    fixture.commit(Batch::new().put(A, "large", value.clone()).put(A, "small", small.clone()).put(
        A,
        "gone",
        value.clone(),
    ));
    let view = fixture.view();
    fixture.done(delete(at("gone")));
    for round in 0..60 {
        let batch = Batch::new().put(A, "large", pattern(round, 40_000)).put(A, "small", pattern(round, 900));
        let durability = if round % 10 == 0 { Durability::Sync } else { Durability::Memory };
        fixture.commit_at(batch, durability);
    }
    check_value(&*view, &at("large"), &value);
    check_value(&*view, &at("gone"), &value);
    check_value(&*view, &at("small"), &small);
}

pub(super) fn reads_are_short_only_at_the_end(suite: &Suite) {
    let fixture = Fixture::new(suite);
    for size in [0usize, 1, 1000, 5000, 100_000, 1_100_000] {
        let value = pattern(size as u64, size);
        fixture.put("k", value.clone());
        let view = fixture.view();
        let offsets = [0, 1, size / 2, size.saturating_sub(1), size, size + 1, usize::MAX >> 1];
        for offset in offsets {
            for length in [0, 1, 4096, size / 2, size, size + 1, 2 * size + 10] {
                let rest = value.get(offset..).unwrap_or_default();
                let expected = &rest[..length.min(rest.len())];
                let mut buffer = vec![0x5A; length];
                let count = view.read(A, b"k", offset as u64, &mut buffer).expect("read");
                assert_eq!(count, expected.len(), "size {size}, offset {offset}, length {length}");
                assert!(buffer[..count] == *expected, "size {size}, offset {offset}, length {length}");
                assert!(buffer[count..].iter().all(|byte| *byte == 0x5A), "a read must not write past its count");
                let bytes = view.bytes(A, b"k", offset as u64, length).expect("bytes");
                assert!(bytes == expected, "size {size}, offset {offset}, length {length}");
            }
        }
        assert_eq!(view.read(A, b"k", u64::MAX, &mut [0; 10]).expect("read"), 0);
        // A length that nobody has memory for.
        assert!(view.bytes(A, b"k", 0, usize::MAX).expect("bytes") == value);
        assert!(view.bytes(A, b"k", u64::MAX, usize::MAX).expect("bytes").is_empty());
    }
}

pub(super) fn reads_of_absent_keys_are_not_found(suite: &Suite) {
    let fixture = Fixture::new(suite);
    fixture.put("k", "v");
    fixture.done(delete(at("k")));
    let view = fixture.view();
    for (space, key) in [(A, &b"k"[..]), (A, b""), (A, &[b'x'; 2048]), (B, b"k")] {
        assert_eq!(view.stat(space, key).expect("stat"), None);
        assert_eq!(view.read(space, key, 0, &mut [0; 4]).expect_err("read").kind(), ErrorKind::NotFound);
        // A store that has to ask somebody else says that it would wait.
        let now = view.read_into(space, key, 0, &mut [0; 4], Wait::Never).map_err(|error| error.kind());
        assert!(matches!(now, Ok(None) | Err(ErrorKind::NotFound)), "{now:?}");
        assert_eq!(view.lookup(space, key, 0, 4, Wait::Allowed).expect("lookup"), Lookup::Absent);
        assert_eq!(view.bytes(space, key, 0, 4).expect_err("bytes").kind(), ErrorKind::NotFound);
        assert_eq!(fixture.kv().get(space, key).expect("get"), None);
    }
}

pub(super) fn a_get_gives_the_newest_value_whole(suite: &Suite) {
    let fixture = Fixture::new(suite);
    let get = |key: &[u8]| fixture.kv().get(A, key).expect("get");
    assert_eq!((get(b"k"), fixture.kv().get(B, b"k").expect("get")), (None, None));
    for (seed, size) in (0u64..).zip([0, 1, 1000, 5000, 1 << 20, (1 << 20) + 1, 3 << 20, 10]) {
        fixture.put("k", pattern(seed, size));
        assert!(get(b"k").expect("a value") == pattern(seed, size), "{size} bytes");
    }
    fixture.done(delete(at("k")));
    assert_eq!(get(b"k"), None);
}

pub(super) fn holes_read_as_zeros(suite: &Suite) {
    let fixture = Fixture::new(suite);
    let far = 1u64 << 40;
    fixture.commit(Batch::new().then(write_at(at("k"), far, "end")).then(write_at(at("k"), 1000, "middle")));
    let view = fixture.view();
    assert_eq!(view.stat(A, b"k").expect("stat").map(|stat| stat.size), Some(far + 3));
    let zeros = |offset: u64, length: usize| {
        let mut buffer = vec![0xEE; length];
        assert_eq!(view.read(A, b"k", offset, &mut buffer).expect("read"), length);
        buffer
    };
    assert!(zeros(0, 1000).iter().all(|byte| *byte == 0));
    assert_eq!(&zeros(999, 8), b"\0middle\0");
    assert!(zeros(1006, 500_000).iter().all(|byte| *byte == 0));
    assert_eq!(&zeros(far - 3, 6), b"\0\0\0end");
    assert_eq!(view.bytes(A, b"k", far - 1, 100).expect("bytes").as_ref(), b"\0end");
    // A hole is shared and joined as a hole.
    fixture.done(Operation::Concatenate {
        sources: vec![at("k"), at("k")],
        target: at("t"),
        fate: koine_engine::Sources::Keep,
    });
    let view = fixture.view();
    assert_eq!(view.stat(A, b"t").expect("stat").map(|stat| stat.size), Some(2 * far + 6));
    assert_eq!(view.bytes(A, b"t", far + 3 + 999, 8).expect("bytes").as_ref(), b"\0middle\0");
    assert_eq!(view.bytes(A, b"t", 2 * far + 2, 100).expect("bytes").as_ref(), b"\0end");
}

pub(super) fn a_read_that_may_not_wait_reads_or_says_that_it_would(suite: &Suite) {
    let fixture = Fixture::new(suite);
    for size in [0usize, 500, 20_000, 600_000] {
        let value = pattern(size as u64, size);
        fixture.put("k", value.clone());
        let view = fixture.view();
        for offset in [0, size / 2, size, size + 5] {
            let rest = value.get(offset..).unwrap_or_default();
            let mut buffer = vec![0; 4096];
            // Once read with waiting, it may be at hand.
            for _ in 0..2 {
                if let Some(count) = view.read_into(A, b"k", offset as u64, &mut buffer, Wait::Never).expect("a read") {
                    assert_eq!(count, rest.len().min(4096));
                    assert!(buffer[..count] == rest[..count]);
                }
                view.read(A, b"k", offset as u64, &mut buffer).expect("read");
            }
        }
    }
}

pub(super) fn a_lookup_tells_what_a_view_tells_or_nothing(suite: &Suite) {
    let fixture = Fixture::new(suite);
    let check = |key: &[u8], space: SpaceId| {
        let view = fixture.view();
        let stat = view.stat(space, key).expect("stat");
        for (offset, length) in [(0, 0), (0, 4096), (10, 20), (0, usize::MAX), (3000, 70_000), (u64::MAX, 1)] {
            for wait in [Wait::Never, Wait::Allowed] {
                let of_view = view.lookup(space, key, offset, length, wait);
                let newest = fixture.kv().lookup(space, key, offset, length, wait);
                for found in [of_view, newest] {
                    match found.expect("lookup") {
                        Lookup::Absent => assert_eq!(stat, None),
                        Lookup::Found(seen, bytes) => {
                            assert_eq!(Some(seen), stat);
                            assert!(bytes == view.bytes(space, key, offset, length).expect("bytes"));
                        }
                        Lookup::WouldWait => assert_eq!(wait, Wait::Never),
                    }
                }
            }
        }
    };
    for size in [0usize, 500, 4096, 20_000, 100_000] {
        fixture.put("k", pattern(size as u64, size));
        check(b"k", A);
    }
    fixture.done(write_at(at("k"), 300_000, "behind a hole"));
    check(b"k", A);
    fixture.done(delete(at("k")));
    for (space, key) in [(A, &b"k"[..]), (A, b""), (A, &[b'x'; 2048]), (B, b"k")] {
        check(key, space);
    }
    // A look-up in a view tells its version.
    fixture.put("k", "old");
    let view = fixture.view();
    fixture.put("k", "new");
    for wait in [Wait::Never, Wait::Allowed] {
        if let Lookup::Found(_, bytes) = view.lookup(A, b"k", 0, 9, wait).expect("lookup") {
            assert_eq!(bytes, "old");
        }
    }
}

pub(super) fn an_acknowledged_commit_is_seen_by_the_next_view(suite: &Suite) {
    let fixture = Fixture::new(suite);
    for round in 0..30u64 {
        let durability = [Durability::Memory, Durability::Written, Durability::Sync][round as usize % 3];
        let batch = Batch::new().put(A, "k", round.to_le_bytes().to_vec());
        let commit = fixture.kv().commit(batch, durability).expect("the batch is applied");
        assert!(!commit.repeated);
        assert!(fixture.view().version() >= commit.version);
        fixture.check(&at("k"), &round.to_le_bytes());
        assert_eq!(fixture.version_of("k"), commit.version);
    }
}
