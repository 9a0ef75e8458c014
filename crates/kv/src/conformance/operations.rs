//! Operations: each alone, in combination, and all or nothing.

use bytes::Bytes;
use koine_engine::batch::KEY_LEN_MAX;
use koine_engine::{Batch, KeyRange, Operation, Place, Refusal, Sources, SpaceId, Version};

use super::Suite;
use super::fixture::{
    A, B, C, Fixture, add, append, at, clone_range, delete, pattern, put, rename, truncate, write_at,
};

/// Around every size at which a back end may change how it keeps a value.
pub(super) const SIZES: [usize; 21] = [
    0, 1, 7, 511, 512, 1023, 1024, 1025, 4095, 4096, 4097, 32_767, 32_768, 32_769, 65_535, 65_536, 65_537, 1_048_575,
    1_048_576, 1_048_577, 5_000_001,
];

pub(super) fn put_sets_and_replaces_values_of_every_size(suite: &Suite) {
    let fixture = Fixture::new(suite);
    for (seed, size) in (0u64..).zip(SIZES) {
        fixture.put(&format!("k{size}"), pattern(seed, size));
    }
    for (seed, size) in (0u64..).zip(SIZES) {
        fixture.check(&at(&format!("k{size}")), &pattern(seed, size));
    }
    // One key goes through every size, up and down.
    for (seed, size) in (100u64..).zip(SIZES.into_iter().chain(SIZES.into_iter().rev())) {
        let version = fixture.put("one", pattern(seed, size));
        fixture.check(&at("one"), &pattern(seed, size));
        assert_eq!(fixture.version_of("one"), version);
    }
}

/// Does the same to a store and a plain vector.
struct Twin<'a> {
    fixture: &'a Fixture,
    place: Place,
    model: Vec<u8>,
}

impl Twin<'_> {
    fn write(&mut self, offset: usize, data: Bytes) {
        self.fixture.done(write_at(self.place.clone(), offset as u64, data.clone()));
        if !data.is_empty() {
            self.model.resize(self.model.len().max(offset + data.len()), 0);
            self.model[offset..offset + data.len()].copy_from_slice(&data);
        }
        self.fixture.check(&self.place, &self.model);
    }

    fn truncate(&mut self, length: usize) {
        self.fixture.done(truncate(self.place.clone(), length as u64));
        self.model.resize(length, 0);
        self.fixture.check(&self.place, &self.model);
    }

    fn append(&mut self, data: Bytes) {
        self.fixture.done(append(self.place.clone(), data.clone()));
        self.model.extend_from_slice(&data);
        self.fixture.check(&self.place, &self.model);
    }
}

fn twin<'a>(fixture: &'a Fixture, key: &str) -> Twin<'a> {
    Twin { fixture, place: at(key), model: Vec::new() }
}

pub(super) fn write_at_creates_extends_and_overwrites(suite: &Suite) {
    let fixture = Fixture::new(suite);
    let mut small = twin(&fixture, "small");
    small.write(3, pattern(1, 5));
    small.write(0, pattern(2, 1));
    small.write(4, pattern(3, 2));
    small.write(6, pattern(4, 10));
    small.write(20, Bytes::new());
    small.write(2, Bytes::new());
    small.write(1000, pattern(5, 100));
    small.write(0, pattern(6, 2000));
    let mut nothing = twin(&fixture, "nothing");
    nothing.write(50, Bytes::new());
    let mut large = twin(&fixture, "large");
    large.write(100_000, pattern(7, 200_001));
    large.write(99_990, pattern(8, 20));
    large.write(150_001, pattern(9, 70_000));
    large.write(300_000, pattern(10, 3));
    large.write(5_000_000, pattern(11, 1));
    large.write(0, pattern(12, 1_100_000));
    large.write(1, pattern(13, 1));
}

pub(super) fn many_small_overwrites_of_a_large_value(suite: &Suite) {
    let fixture = Fixture::new(suite);
    let length = 300_000;
    let mut model = pattern(1, length).to_vec();
    fixture.put("k", model.clone());
    for round in 0u64..20 {
        let mut batch = Batch::new();
        for step in 0..50 {
            let seed = round * 50 + step;
            let offset = (seed as usize * 7919) % length;
            let data = pattern(seed, (1 + seed as usize % 100).min(length - offset));
            model[offset..offset + data.len()].copy_from_slice(&data);
            batch = batch.then(write_at(at("k"), offset as u64, data));
        }
        fixture.commit(batch);
    }
    fixture.check(&at("k"), &model);
}

pub(super) fn append_adds_at_the_end(suite: &Suite) {
    let fixture = Fixture::new(suite);
    let mut twin = twin(&fixture, "k");
    for (seed, size) in (0u64..).zip([0, 3, 0, 1021, 1, 3000, 29_000, 1, 70_000, 13, 1_500_000, 5]) {
        twin.append(pattern(seed, size));
    }
    fixture.done(append(at("absent"), ""));
    fixture.check(&at("absent"), b"");
}

pub(super) fn truncate_cuts_and_extends_with_zeros(suite: &Suite) {
    let fixture = Fixture::new(suite);
    let mut twin = twin(&fixture, "k");
    twin.truncate(10);
    twin.append(pattern(1, 100_000));
    for length in [100_010, 50_001, 60_000, 4096, 4097, 1, 0, 2_000_000, 1_000_000, 0] {
        twin.truncate(length);
    }
    // What was cut off does not come back.
    twin.append(pattern(2, 70_000));
    twin.truncate(5);
    twin.truncate(80_000);
    twin.write(79_000, pattern(3, 10));
    twin.truncate(79_005);
    twin.append(pattern(4, 9));
}

pub(super) fn delete_removes_and_ignores_absent_keys(suite: &Suite) {
    let fixture = Fixture::new(suite);
    fixture.put("a", "1");
    fixture.put("b", pattern(1, 100_000));
    fixture.done(delete(at("a")));
    fixture.done(delete(at("a")));
    fixture.done(delete(at("never")));
    assert_eq!(fixture.get("a"), None);
    assert_eq!(fixture.keys(A), ["b"]);
    fixture.commit(Batch::new().delete(A, "b").delete(A, "b").put(A, "b", "2"));
    fixture.check(&at("b"), b"2");
    fixture.commit(Batch::new().put(A, "b", "3").delete(A, "b"));
    assert_eq!(fixture.get("b"), None);
}

pub(super) fn delete_range_removes_exactly_the_range(suite: &Suite) {
    let fixture = Fixture::new(suite);
    let fill = || {
        let keys = ["", "a", "a\0", "b", "b1", "b2", "c", "d"];
        fixture.commit(keys.into_iter().fold(Batch::new(), |batch, key| batch.put(A, key, pattern(1, 2000))));
    };
    let expect = |range: KeyRange, left: &[&str]| {
        fill();
        fixture.done(Operation::DeleteRange { space: A, range });
        assert_eq!(fixture.keys(A), left);
    };
    expect(KeyRange::new("a", "b"), &["", "b", "b1", "b2", "c", "d"]);
    expect(KeyRange::new("a\0", "b1"), &["", "a", "b1", "b2", "c", "d"]);
    expect(KeyRange::prefix("b"), &["", "a", "a\0", "c", "d"]);
    expect(KeyRange::new("b3", "c"), &["", "a", "a\0", "b", "b1", "b2", "c", "d"]);
    expect(KeyRange::new("d", "a"), &["", "a", "a\0", "b", "b1", "b2", "c", "d"]);
    expect(KeyRange { start: "b2".into(), end: None }, &["", "a", "a\0", "b", "b1"]);
    expect(KeyRange::new("", "a"), &["a", "a\0", "b", "b1", "b2", "c", "d"]);
    expect(KeyRange::all(), &[]);
    // In the middle of a batch: what was put before goes, what is put after stays.
    fill();
    let range = Operation::DeleteRange { space: A, range: KeyRange::prefix("b") };
    fixture.commit(Batch::new().put(A, "b0", "").delete(A, "b1").then(range).put(A, "b1", "new"));
    assert_eq!(fixture.keys(A), ["", "a", "a\0", "b1", "c", "d"]);
    fixture.check(&at("b1"), b"new");
}

pub(super) fn rename_moves_and_replaces(suite: &Suite) {
    let fixture = Fixture::new(suite);
    fixture.done(Operation::CreateSpace { space: B });
    for (seed, size) in (0u64..).zip([0, 5, 2000, 40_000, 1_200_000]) {
        let value = pattern(seed, size);
        fixture.put("from", value.clone());
        fixture.put("to", pattern(seed + 50, 100_000));
        let version = fixture.done(rename(at("from"), at("to")));
        assert_eq!(fixture.get("from"), None);
        fixture.check(&at("to"), &value);
        assert_eq!(fixture.version_of("to"), version);
        // To another space, and back over itself.
        fixture.done(rename(at("to"), Place::new(B, "other")));
        fixture.check(&Place::new(B, "other"), &value);
        let version = fixture.done(rename(Place::new(B, "other"), Place::new(B, "other")));
        fixture.check(&Place::new(B, "other"), &value);
        let stat = fixture.view().stat(B, b"other").expect("stat").expect("the key is there");
        assert_eq!(stat.version, version);
    }
    fixture.not_done(rename(at("from"), at("to")));
    fixture.not_done(rename(at("from"), at("from")));
    // A chain in one batch: a swap.
    fixture.commit(Batch::new().put(A, "x", "1").put(A, "y", "2"));
    let swap = [rename(at("x"), at("t")), rename(at("y"), at("x")), rename(at("t"), at("y"))];
    fixture.commit(swap.into_iter().fold(Batch::new(), Batch::then));
    assert_eq!(fixture.keys(A), ["x", "y"]);
    fixture.check(&at("x"), b"2");
    fixture.check(&at("y"), b"1");
}

pub(super) fn rename_prefix_moves_every_key(suite: &Suite) {
    let fixture = Fixture::new(suite);
    let prefix =
        |from: &'static str, to: &'static str| Operation::RenamePrefix { space: A, from: from.into(), to: to.into() };
    let fill = || {
        let all = Operation::DeleteRange { space: A, range: KeyRange::all() };
        let keys = ["a", "d/", "d/1", "d/2", "e/1", "e/3"];
        fixture.commit(keys.into_iter().fold(Batch::new().then(all), |batch, key| batch.put(A, key, key)));
    };
    fill();
    let version = fixture.done(prefix("d/", "e/"));
    assert_eq!(fixture.keys(A), ["a", "e/", "e/1", "e/2", "e/3"]);
    fixture.check(&at("e/1"), b"d/1");
    fixture.check(&at("e/3"), b"e/3");
    assert_eq!(fixture.version_of("e/2"), version);
    fill();
    fixture.done(prefix("d/", "d/d/"));
    assert_eq!(fixture.keys(A), ["a", "d/d/", "d/d/1", "d/d/2", "e/1", "e/3"]);
    fixture.done(prefix("d/d/", "d/"));
    assert_eq!(fixture.keys(A), ["a", "d/", "d/1", "d/2", "e/1", "e/3"]);
    fixture.done(prefix("none", "a"));
    fixture.done(prefix("", "z"));
    assert_eq!(fixture.keys(A), ["za", "zd/", "zd/1", "zd/2", "ze/1", "ze/3"]);
    fixture.done(prefix("zd", "zd"));
    assert_eq!(fixture.keys(A).len(), 6);
    let long = Operation::RenamePrefix { space: A, from: "zd".into(), to: vec![b'x'; KEY_LEN_MAX].into() };
    fixture.not_done(long);
    fixture.not_done(Operation::RenamePrefix { space: B, from: "a".into(), to: "b".into() });
}

pub(super) fn counters_add_and_refuse_overflow(suite: &Suite) {
    let fixture = Fixture::new(suite);
    let check = |number: i64| fixture.check(&at("n"), &number.to_le_bytes());
    fixture.done(add(at("n"), 0));
    check(0);
    fixture.done(add(at("n"), -5));
    check(-5);
    fixture.commit(Batch::new().then(add(at("n"), 2)).then(add(at("n"), 40)));
    check(37);
    fixture.done(add(at("n"), i64::MAX - 37));
    check(i64::MAX);
    fixture.not_done(add(at("n"), 1));
    fixture.refused(Batch::new().then(add(at("n"), -1)).then(add(at("n"), 2)), Refusal::Operation(1));
    fixture.put("n", i64::MIN.to_le_bytes().to_vec());
    fixture.not_done(add(at("n"), -1));
    fixture.done(add(at("n"), i64::MAX));
    check(-1);
    for length in [0, 7, 9, 5000] {
        fixture.put("n", pattern(1, length));
        fixture.not_done(add(at("n"), 1));
    }
    fixture.commit(Batch::new().delete(A, "n").then(add(at("n"), 3)));
    check(3);
}

pub(super) fn each_operation_sees_those_before_it(suite: &Suite) {
    let fixture = Fixture::new(suite);
    fixture.put("old", "0123456789");
    let in_b = |key: &'static str| Place::new(B, key);
    let batch = Batch::new()
        .then(Operation::CreateSpace { space: B })
        .then(put(in_b("k"), "abc"))
        .then(append(in_b("k"), "def"))
        .then(write_at(in_b("k"), 1, "XY"))
        .then(truncate(in_b("k"), 5))
        .then(clone_range(at("old"), 2, 3, in_b("k"), 5))
        .then(rename(in_b("k"), in_b("l")))
        .then(Operation::Concatenate {
            sources: vec![in_b("l"), at("old"), in_b("l")],
            target: in_b("m"),
            fate: Sources::Keep,
        })
        .then(delete(at("old")))
        .then(add(in_b("n"), 1))
        .then(add(in_b("n"), 1));
    let version = fixture.commit(batch).version;
    assert_eq!(fixture.keys(B), ["l", "m", "n"]);
    assert_eq!(fixture.keys(A), Vec::<String>::new());
    fixture.check(&in_b("l"), b"aXYde234");
    fixture.check(&in_b("m"), b"aXYde2340123456789aXYde234");
    fixture.check(&in_b("n"), &2i64.to_le_bytes());
    for key in ["l", "m", "n"] {
        let stat = fixture.view().stat(B, key.as_bytes()).expect("stat").expect("the key is there");
        assert_eq!(stat.version, version, "one commit, one version");
    }
    // A space dropped and made again within a batch.
    let again = Batch::new().then(Operation::DropSpace { space: B }).then(Operation::CreateSpace { space: B });
    fixture.commit(again.then(put(in_b("z"), "1")));
    assert_eq!(fixture.keys(B), ["z"]);
}

pub(super) fn a_failing_operation_takes_back_the_whole_batch(suite: &Suite) {
    let fixture = Fixture::new(suite);
    let value = pattern(1, 50_000);
    let keys = ["a", "b", "c", "d/1", "d/2"];
    fixture.commit(keys.into_iter().fold(Batch::new(), |batch, key| batch.put(A, key, value.clone())));
    fixture.done(add(at("n"), 5));
    fixture.done(Operation::CreateSpace { space: C });
    fixture.commit(Batch::new().put(C, "c", "in another space"));
    let failing = [
        rename(at("none"), at("a")),
        clone_range(at("a"), 49_999, 2, at("b"), 0),
        Operation::Concatenate { sources: vec![at("a"), at("none")], target: at("t"), fate: Sources::Delete },
        add(at("a"), 1),
        Operation::CreateSpace { space: A },
        Operation::DropSpace { space: SpaceId(40) },
        put(Place::new(SpaceId(40), "k"), "v"),
    ];
    for operation in failing {
        let changes = [
            put(at("a"), "changed"),
            put(at("new"), pattern(2, 80_000)),
            append(at("b"), "more"),
            write_at(at("b"), 10, "over"),
            truncate(at("c"), 3),
            truncate(at("c"), 60_000),
            Operation::DeleteRange { space: A, range: KeyRange::prefix("d/") },
            rename(at("c"), at("c2")),
            clone_range(at("c2"), 0, u64::MAX, at("d/3"), 7),
            Operation::Concatenate { sources: vec![at("b"), at("c2")], target: at("bc"), fate: Sources::Delete },
            put(at("a"), value.clone()),
            add(at("n"), 1),
            Operation::DropSpace { space: C },
            Operation::CreateSpace { space: B },
            put(Place::new(B, "k"), "v"),
        ];
        let index = changes.len() as u32;
        let batch = changes.into_iter().fold(Batch::new(), Batch::then);
        // What follows the failing operation does not matter.
        fixture.refused(batch.then(operation).then(put(at("z"), "")), Refusal::Operation(index));
        assert!(!fixture.view().has_space(B).expect("has_space"));
    }
}

pub(super) fn keys_are_any_bytes_in_byte_order(suite: &Suite) {
    let fixture = Fixture::new(suite);
    let mut keys: Vec<Bytes> = (0..=255u8).map(|byte| Bytes::from(vec![byte])).collect();
    keys.push(Bytes::new());
    for length in [2, 3, 100, KEY_LEN_MAX - 1, KEY_LEN_MAX] {
        keys.extend([0x00, 0x2F, 0x80, 0xFF].map(|byte| Bytes::from(vec![byte; length])));
    }
    let mut batch = Batch::new();
    for (seed, key) in (0u64..).zip(keys.iter().rev()) {
        batch = batch.put(A, key.clone(), pattern(seed, 10));
    }
    fixture.commit(batch);
    keys.sort();
    let found: Vec<Bytes> = fixture.dump().into_keys().map(|(_, key)| key).collect();
    assert!(found == keys, "the keys must come in byte order");
    for key in &keys {
        assert!(fixture.view().stat(A, key).expect("stat").is_some(), "{key:?}");
    }
}

pub(super) fn operations_on_an_absent_space_are_refused(suite: &Suite) {
    let fixture = Fixture::new(suite);
    fixture.put("k", "v");
    let there = Place::new(B, "k");
    let operations = [
        put(there.clone(), "v"),
        write_at(there.clone(), 0, "v"),
        append(there.clone(), "v"),
        truncate(there.clone(), 0),
        delete(there.clone()),
        Operation::DeleteRange { space: B, range: KeyRange::all() },
        rename(there.clone(), at("k")),
        rename(at("k"), there.clone()),
        clone_range(there.clone(), 0, 0, at("k"), 0),
        clone_range(at("k"), 0, 1, there.clone(), 0),
        Operation::Concatenate { sources: vec![at("k")], target: there.clone(), fate: Sources::Delete },
        Operation::Concatenate { sources: vec![there.clone()], target: at("l"), fate: Sources::Keep },
        add(there, 1),
        Operation::DropSpace { space: B },
    ];
    for operation in operations {
        fixture.not_done(operation);
    }
}

pub(super) fn versions_grow_and_name_the_commit(suite: &Suite) {
    let fixture = Fixture::new(suite);
    let mut last = fixture.view().version();
    assert!(last > Version(0));
    for round in 0..50u64 {
        let version = fixture.commit(Batch::new().put(A, "a", "").put(A, format!("k{round}"), "")).version;
        assert!(version > last, "{version:?} after {last:?}");
        assert_eq!(fixture.version_of("a"), version);
        assert_eq!(fixture.version_of(&format!("k{round}")), version);
        assert!(fixture.view().version() >= version);
        last = version;
    }
    // A version stays what it was when other keys change.
    assert!(fixture.version_of("k0") < fixture.version_of("k1"));
}

pub(super) fn a_batch_of_nothing_is_a_commit(suite: &Suite) {
    let fixture = Fixture::new(suite);
    let before = fixture.dump();
    let first = fixture.commit(Batch::new());
    let second = fixture.commit(Batch::new());
    assert!(second.version > first.version && !second.repeated);
    assert!(fixture.dump() == before);
}
