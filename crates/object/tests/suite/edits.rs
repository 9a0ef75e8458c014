//! Writing at offsets, appending, truncating, writing bytes of other objects: what docs/semantics.md says of them.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::Duration;

use koine_env::{SimulatedClock, Timestamp};
use koine_kv::{RequestId, Version};
use proptest::prelude::*;

use crate::backend::CASES;
use crate::support::{
    append, append_with, bytes, finish, get, join, keys_in_bucket, kind, options, over_at, put, put_with, store,
    write_at,
};
use koine_object::{
    ByteRange, ChecksumAlgorithm, ChecksumKind, ContentHeaders, EditOptions, ErrorKind, Expected, OBJECT_LEN_MAX,
    ObjectId, ObjectInfo, ObjectName, Objects, PutCondition, PutOptions, Result,
};

fn name(key: &str) -> ObjectName<'_> {
    ObjectName::new("bucket", key)
}

fn truncate(objects: &Objects, key: &str, length: u64) -> Result<ObjectInfo> {
    objects.truncate(name(key), length, EditOptions::default()).wait()
}

fn write_copy(objects: &Objects, from: &str, range: (u64, u64), to: &str, offset: u64) -> Result<ObjectInfo> {
    let range = ByteRange { offset: range.0, length: range.1 };
    objects.write_copy(name(from), range, name(to), offset, EditOptions::default()).wait()
}

/// What may be done to three names, with numbers that are taken modulo what there is.
#[derive(Clone, Debug)]
enum Step {
    Put { key: usize, length: usize },
    WriteAt { key: usize, offset: u64, length: usize },
    Append { key: usize, length: usize },
    Truncate { key: usize, length: u64 },
    WriteCopy { from: usize, start: u64, length: u64, to: usize, offset: u64 },
    Copy { from: usize, to: usize },
    Rename { from: usize, to: usize },
    Exchange { one: usize, other: usize },
    Delete { key: usize },
}

const KEYS: [&str; 3] = ["a", "b", "c"];

fn step() -> impl Strategy<Value = Step> {
    // Small and large ones, so that inline values, staged ones and their borders all come.
    let length = || prop_oneof![3 => 0usize..100, 2 => 4_000usize..10_000, 1 => 60_000usize..200_000];
    let offset = || prop_oneof![3 => 0u64..100, 2 => 4_000u64..10_000, 1 => 60_000u64..400_000];
    let key = || 0..KEYS.len();
    prop_oneof![
        2 => (key(), length()).prop_map(|(key, length)| Step::Put { key, length }),
        4 => (key(), offset(), length()).prop_map(|(key, offset, length)| Step::WriteAt { key, offset, length }),
        4 => (key(), length()).prop_map(|(key, length)| Step::Append { key, length }),
        3 => (key(), offset()).prop_map(|(key, length)| Step::Truncate { key, length }),
        4 => (key(), offset(), offset(), key(), offset())
            .prop_map(|(from, start, length, to, offset)| Step::WriteCopy { from, start, length, to, offset }),
        1 => (key(), key()).prop_map(|(from, to)| Step::Copy { from, to }),
        1 => (key(), key()).prop_map(|(from, to)| Step::Rename { from, to }),
        1 => (key(), key()).prop_map(|(one, other)| Step::Exchange { one, other }),
        1 => key().prop_map(|key| Step::Delete { key }),
    ]
}

fn write_into(value: &mut Vec<u8>, offset: usize, body: &[u8]) {
    if !body.is_empty() {
        value.resize(value.len().max(offset + body.len()), 0);
        value[offset..offset + body.len()].copy_from_slice(body);
    }
}

type Model = BTreeMap<&'static str, Vec<u8>>;

/// The steps that leave bytes as they are.
fn change_names(objects: &Objects, model: &mut Model, step: Step) -> Option<ObjectInfo> {
    match step {
        Step::Copy { from, to } => {
            let outcome = objects.copy(name(KEYS[from]), name(KEYS[to]), Default::default()).wait();
            if let Some(value) = model.get(KEYS[from]).cloned().filter(|_| from != to) {
                model.insert(KEYS[to], value);
                assert!(outcome.is_ok());
            }
            outcome.ok()
        }
        Step::Rename { from, to } => {
            let outcome = objects.rename(name(KEYS[from]), name(KEYS[to]), Default::default()).wait();
            assert_eq!(outcome.is_ok(), model.contains_key(KEYS[from]));
            if let Some(value) = model.remove(KEYS[from]) {
                model.insert(KEYS[to], value);
            }
            outcome.ok()
        }
        Step::Exchange { one, other } => {
            let outcome = objects.exchange(name(KEYS[one]), name(KEYS[other]), Default::default()).wait();
            let both = model.contains_key(KEYS[one]) && model.contains_key(KEYS[other]);
            assert_eq!(outcome.is_ok(), both);
            if both && one != other {
                let (first, second) = (model.remove(KEYS[one]).unwrap(), model.remove(KEYS[other]).unwrap());
                model.extend([(KEYS[one], second), (KEYS[other], first)]);
            }
            None
        }
        Step::Delete { key } => {
            objects.delete("bucket", KEYS[key], Default::default()).wait().unwrap();
            model.remove(KEYS[key]);
            None
        }
        _ => unreachable!("it changes bytes"),
    }
}

/// Does a step to the model and to the store; both must think the same of it.
fn run(objects: &Objects, model: &mut Model, step: Step, seed: u64) {
    let told = match step {
        Step::Put { key, length } => {
            let body = bytes(length, seed);
            model.insert(KEYS[key], body.clone());
            Some(put(objects, KEYS[key], &body))
        }
        Step::WriteAt { key, offset, length } => {
            let body = bytes(length, seed);
            write_into(model.entry(KEYS[key]).or_default(), offset as usize, &body);
            Some(write_at(objects, KEYS[key], offset, &body).unwrap())
        }
        Step::Append { key, length } => {
            let body = bytes(length, seed);
            model.entry(KEYS[key]).or_default().extend_from_slice(&body);
            Some(append(objects, KEYS[key], &body))
        }
        Step::Truncate { key, length } => {
            let outcome = truncate(objects, KEYS[key], length);
            match model.get_mut(KEYS[key]) {
                Some(value) => value.resize(length as usize, 0),
                None => assert_eq!(kind(outcome.clone()), ErrorKind::NoSuchKey),
            }
            outcome.ok()
        }
        Step::WriteCopy { from, start, length, to, offset } => {
            let size = model.get(KEYS[from]).map_or(0, |value| value.len() as u64);
            let start = start % (size + 1);
            let length = length % (size - start + 1);
            let outcome = write_copy(objects, KEYS[from], (start, length), KEYS[to], offset);
            let overlaps = from == to && start < offset + length && offset < start + length;
            match model.get(KEYS[from]).map(|value| value[start as usize..(start + length) as usize].to_vec()) {
                None => assert_eq!(kind(outcome.clone()), ErrorKind::NoSuchKey),
                Some(_) if overlaps => assert_eq!(kind(outcome.clone()), ErrorKind::InvalidRequest),
                Some(body) => write_into(model.entry(KEYS[to]).or_default(), offset as usize, &body),
            }
            outcome.ok()
        }
        step => change_names(objects, model, step),
    };
    if let Some(told) = told {
        assert_eq!(objects.head("bucket", &told.key).unwrap(), told);
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: CASES, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn edits_are_those_of_a_vector_of_bytes(steps in proptest::collection::vec(step(), 1..25)) {
        let objects = store();
        let mut model = Model::new();
        for (seed, step) in (1..).zip(steps) {
            run(&objects, &mut model, step.clone(), seed);
            for key in KEYS {
                match model.get(key) {
                    None => prop_assert_eq!(kind(get(&objects, key)), ErrorKind::NoSuchKey),
                    Some(body) => {
                        prop_assert!(get(&objects, key).unwrap() == *body, "{:?} is another after {:?}", key, step);
                        let info = objects.head("bucket", key).unwrap();
                        prop_assert_eq!(info.size, body.len() as u64);
                        // What checksums are told are those of the bytes.
                        Expected { md5: None, checksums: info.checksums }.verify(body).unwrap();
                    }
                }
            }
            prop_assert_eq!(keys_in_bucket(&objects), model.len() * 2);
        }
    }
}

#[test]
fn an_edit_keeps_the_object_and_changes_its_bytes_times_and_etag() {
    let clock = Arc::new(SimulatedClock::new(Timestamp(1_000)));
    let objects = over_at(crate::backend::kv(), Arc::clone(&clock));
    let put_options = || PutOptions {
        headers: ContentHeaders { content_type: Some("text/plain".into()), ..ContentHeaders::default() },
        metadata: vec![("name".into(), "value".into())],
        tags: vec![("tag".into(), "kept".into())],
        ..PutOptions::default()
    };
    type Edit<'a> = &'a dyn Fn(&str) -> ObjectInfo;
    let edits: [(&str, Edit<'_>); 4] = [
        ("write", &|key| write_at(&objects, key, 3, b"xyz").unwrap()),
        ("append", &|key| append(&objects, key, b"xyz")),
        ("truncate", &|key| truncate(&objects, key, 2).unwrap()),
        ("share", &|key| write_copy(&objects, "source", (0, 3), key, 1).unwrap()),
    ];
    put(&objects, "source", b"source");
    for (what, edit) in edits {
        for key in ["whole", "joined", "edited"].map(|made| format!("{what}-{made}")) {
            clock.advance(Duration::from_nanos(1_000));
            if key.ends_with("joined") {
                join(&objects, &key, &[&bytes(5 << 20, 1), b"tail"]);
            } else {
                put_with(&objects, &key, b"body", put_options()).unwrap();
            }
            if key.ends_with("edited") {
                append(&objects, &key, b"more");
            }
            let before = objects.head("bucket", &key).unwrap();
            clock.advance(Duration::from_nanos(1_000));
            let after = edit(&key);
            let now = Timestamp(before.changed.0 + 1_000);
            assert_eq!((after.id, after.created), (before.id, before.created), "{key}");
            assert!(after.version > before.version);
            assert_eq!((after.modified, after.changed), (now, now), "{key}");
            assert_ne!(after.etag, before.etag);
            assert_eq!(after.etag.to_string().len(), 33);
            assert!(after.etag.to_string().starts_with(&format!("{}-", before.id)));
            assert_eq!(
                (&after.headers, &after.metadata, &after.tags),
                (&before.headers, &before.metadata, &before.tags)
            );
            assert_eq!(after.part_count, None);
            assert!(objects.get("bucket", &key).unwrap().parts().unwrap().is_empty());
            assert_eq!(objects.head("bucket", &key).unwrap(), after);
        }
    }
    // A name and bytes each, and no tables of parts.
    assert_eq!(keys_in_bucket(&objects), 2 * 13);
}

#[test]
fn every_edit_has_another_etag_and_one_that_writes_nothing_is_none() {
    let objects = store();
    put(&objects, "key", b"body");
    let mut seen = BTreeSet::new();
    for round in 0..300 {
        let info = match round % 3 {
            0 => write_at(&objects, "key", 0, b"body").unwrap(),
            1 => truncate(&objects, "key", 4).unwrap(),
            _ => append(&objects, "key", b"x"),
        };
        assert!(seen.insert(info.etag.to_string()));
        truncate(&objects, "key", 4).unwrap();
    }
    let before = objects.head("bucket", "key").unwrap();
    assert_eq!(append(&objects, "key", b""), before);
    assert_eq!(write_at(&objects, "key", 100, b"").unwrap(), before);
    assert_eq!(write_copy(&objects, "key", (4, 0), "key", 100).unwrap(), before);
    assert_eq!(objects.head("bucket", "key").unwrap(), before);
    // Where nothing is there, an object is made.
    assert_eq!(append(&objects, "new", b"").size, 0);
    assert_eq!(write_at(&objects, "other", 100, b"").unwrap().size, 0);
    assert_eq!(write_copy(&objects, "key", (4, 0), "third", 100).unwrap().size, 0);
    assert_eq!(get(&objects, "third").unwrap(), b"");
    assert_eq!(keys_in_bucket(&objects), 8);
}

#[test]
fn checksums_are_combined_by_an_append_and_dropped_where_they_cannot_be() {
    let objects = store();
    let (body, more) = (bytes(100_000, 1), bytes(70_000, 2));
    for algorithm in ChecksumAlgorithm::ALL {
        put_with(&objects, "key", &body, options(algorithm)).unwrap();
        let info = append(&objects, "key", &more);
        let whole = put_with(&objects, "whole", &[body.clone(), more.clone()].concat(), options(algorithm)).unwrap();
        let combined = algorithm.allows(ChecksumKind::FullObject);
        assert_eq!(info.checksums, if combined { whole.checksums } else { Vec::new() });
        assert!(append(&objects, "key", b"again").checksums.len() == usize::from(combined));
        assert!(write_at(&objects, "key", 5, b"x").unwrap().checksums.is_empty());
        // One that was dropped does not come back.
        assert!(append(&objects, "key", b"x").checksums.is_empty());
        put_with(&objects, "key", &body, options(algorithm)).unwrap();
        assert!(truncate(&objects, "key", 100_000).unwrap().checksums.is_empty());
    }
    // Composed of parts' checksums, it is not of all bytes.
    let joined = join(&objects, "joined", &[&bytes(5 << 20, 1), b"tail"]);
    assert_eq!(joined.checksums.len(), 1);
    let info = append(&objects, "joined", b"more");
    let all = [bytes(5 << 20, 1), b"tailmore".to_vec()].concat();
    assert_eq!(info.checksums, put(&objects, "whole", &all).checksums);
}

#[test]
fn a_gap_reads_as_zeros_also_beyond_4_gib() {
    let objects = store();
    let (gib, key) = (1u64 << 30, "key");
    put(&objects, key, b"begin");
    let info = write_at(&objects, key, 5 * gib, b"x").unwrap();
    assert_eq!(info.size, 5 * gib + 1);
    let reader = objects.get("bucket", key).unwrap();
    let read = |offset: u64, length: usize| reader.bytes(offset, length).unwrap().to_vec();
    assert_eq!(read(0, 10), [b"begin".to_vec(), vec![0; 5]].concat());
    assert_eq!(read(4 * gib - 5_000, 10_000), vec![0; 10_000]);
    assert_eq!(read(5 * gib - 2, 10), [0, 0, b'x']);
    assert!(read(5 * gib + 1, 10).is_empty());
    append(&objects, key, b"yz");
    write_copy(&objects, key, (5 * gib, 3), "other", 0).unwrap();
    write_copy(&objects, "other", (1, 2), key, 4 * gib - 1).unwrap();
    assert_eq!(get(&objects, "other").unwrap(), b"xyz");
    let reader = objects.get("bucket", key).unwrap();
    assert_eq!(reader.bytes(4 * gib - 2, 4).unwrap(), &[0, b'y', b'z', 0][..]);
    assert_eq!(truncate(&objects, key, 4 * gib).unwrap().size, 4 * gib);
    let reader = objects.get("bucket", key).unwrap();
    assert_eq!(reader.bytes(4 * gib - 2, 4).unwrap(), &[0, b'y'][..]);
}

#[test]
fn offsets_go_to_the_largest_object_and_not_past_it() {
    let objects = store();
    put(&objects, "key", b"body");
    for writer in [
        objects.write_at(name("key"), OBJECT_LEN_MAX, EditOptions::default()),
        objects.write_at(name("key"), u64::MAX, EditOptions::default()),
    ] {
        assert_eq!(kind(finish(writer, b"x")), ErrorKind::InvalidArgument);
    }
    assert_eq!(kind(truncate(&objects, "key", OBJECT_LEN_MAX + 1)), ErrorKind::InvalidArgument);
    assert_eq!(kind(write_copy(&objects, "key", (0, 1), "key", OBJECT_LEN_MAX)), ErrorKind::InvalidArgument);
    assert_eq!(kind(write_copy(&objects, "key", (0, 5), "other", 0)), ErrorKind::InvalidRange);
    assert_eq!(kind(write_copy(&objects, "key", (u64::MAX, 1), "other", 0)), ErrorKind::InvalidRange);
    assert_eq!(get(&objects, "key").unwrap(), b"body");
}

#[test]
fn conditions_of_edits_name_the_etag_the_id_or_the_version() {
    let objects = store();
    let info = put(&objects, "key", b"body");
    let other = put(&objects, "other", b"other");
    let edit = |key: &str, options: EditOptions| append_with(&objects, key, b"x", options);
    let when = |condition| EditOptions { condition, ..EditOptions::default() };
    let only = |id| EditOptions { only: Some(id), ..EditOptions::default() };
    assert_eq!(kind(edit("key", when(PutCondition::absent()))), ErrorKind::PreconditionFailed);
    assert_eq!(kind(edit("key", when(PutCondition::etag(&other.etag)))), ErrorKind::PreconditionFailed);
    assert_eq!(kind(edit("key", when(PutCondition::version(other.version)))), ErrorKind::PreconditionFailed);
    assert_eq!(kind(edit("key", only(other.id))), ErrorKind::Conflict);
    assert_eq!(kind(edit("none", when(PutCondition::etag(&info.etag)))), ErrorKind::NoSuchKey);
    assert_eq!(kind(edit("none", when(PutCondition::version(Version(0))))), ErrorKind::NoSuchKey);
    assert_eq!(kind(edit("none", only(ObjectId(1)))), ErrorKind::NoSuchKey);
    let there = EditOptions { create: false, ..EditOptions::default() };
    assert_eq!(kind(edit("none", there.clone())), ErrorKind::NoSuchKey);
    assert_eq!(kind(truncate(&objects, "none", 1)), ErrorKind::NoSuchKey);
    assert_eq!(get(&objects, "key").unwrap(), b"body");
    let first = edit("key", when(PutCondition::etag(&info.etag))).unwrap();
    let second = edit("key", when(PutCondition::version(first.version))).unwrap();
    assert_eq!(edit("key", only(second.id)).unwrap().size, 7);
    assert_eq!(edit("key", there).unwrap().size, 8);
    assert_eq!(edit("fresh", when(PutCondition::absent())).unwrap().size, 1);
    // Other changes take a version too.
    let when = PutOptions { condition: PutCondition::version(first.version), ..PutOptions::default() };
    assert_eq!(kind(put_with(&objects, "key", b"", when)), ErrorKind::PreconditionFailed);
}

#[test]
fn an_edit_for_an_object_does_not_touch_another_that_has_its_name() {
    let objects = store();
    let opened = put(&objects, "key", b"body");
    let options = EditOptions { only: Some(opened.id), ..EditOptions::default() };
    let mut writer = objects.write_at(name("key"), 0, options.clone()).unwrap();
    writer.write(b"edit").unwrap();
    put(&objects, "key", b"another");
    assert_eq!(kind(writer.finish(&Expected::none()).wait()), ErrorKind::Conflict);
    assert_eq!(get(&objects, "key").unwrap(), b"another");
    // It is found under its name wherever that is.
    objects.rename(name("key"), name("moved"), Default::default()).wait().unwrap();
    assert_eq!(kind(append_with(&objects, "key", b"x", options)), ErrorKind::NoSuchKey);
}

#[test]
fn an_edit_that_breaks_a_promise_changes_nothing() {
    let objects = store();
    let before = put(&objects, "key", b"body");
    let promised = |length, md5| EditOptions {
        length,
        expected: Expected { md5, checksums: Vec::new() },
        ..EditOptions::default()
    };
    let long = bytes(200_000, 1);
    for body in [&b"short"[..], &long] {
        let wrong = promised(Some(1_000), None);
        assert_eq!(kind(append_with(&objects, "key", body, wrong)), ErrorKind::IncompleteBody);
        let digest = promised(None, Some([7; 16]));
        assert_eq!(kind(append_with(&objects, "key", body, digest)), ErrorKind::BadDigest);
    }
    drop(objects.append(name("key"), EditOptions::default()).unwrap());
    assert_eq!(objects.head("bucket", "key").unwrap(), before);
    assert_eq!(keys_in_bucket(&objects), 2);
}

#[test]
fn an_append_that_is_repeated_is_made_once() {
    let objects = store();
    put(&objects, "key", b"body");
    let options =
        |number| EditOptions { request: Some(RequestId([number; 16])), create: false, ..EditOptions::default() };
    let first = append_with(&objects, "key", b"-first", options(1)).unwrap();
    assert_eq!(append_with(&objects, "key", b"-first", options(1)).unwrap(), first);
    append_with(&objects, "key", b"-second", options(2)).unwrap();
    // Also when others were there in between; told is what stands there now.
    let again = append_with(&objects, "key", b"-first", options(1)).unwrap();
    assert_eq!(again, objects.head("bucket", "key").unwrap());
    assert_eq!(get(&objects, "key").unwrap(), b"body-first-second");
    // Another body is another request.
    append_with(&objects, "key", b"-third", options(1)).unwrap();
    assert_eq!(get(&objects, "key").unwrap(), b"body-first-second-third");
    // It is told apart from one that was never made, also when the object is gone.
    objects.delete("bucket", "key", Default::default()).wait().unwrap();
    let made = append_with(&objects, "key", b"-second", options(2)).unwrap_err();
    assert!(made.message().contains("carried out before"), "{made}");
    assert_eq!(kind(append_with(&objects, "key", b"-second", options(3))), ErrorKind::NoSuchKey);
}

#[test]
fn a_reader_keeps_its_bytes_while_they_are_edited_moved_and_deleted() {
    let objects = store();
    objects.create_bucket("other").wait().unwrap();
    let body = bytes(300_000, 1);
    put(&objects, "key", &body);
    let reader = objects.get("bucket", "key").unwrap();
    let elsewhere = ObjectName::new("other", "key");
    let changes: [&dyn Fn(); 8] = [
        &|| drop(append(&objects, "key", b"more")),
        &|| drop(write_at(&objects, "key", 10, &bytes(200_000, 2)).unwrap()),
        &|| drop(truncate(&objects, "key", 100).unwrap()),
        &|| drop(truncate(&objects, "key", 400_000).unwrap()),
        &|| drop(objects.rename(name("key"), name("moved"), Default::default()).wait().unwrap()),
        &|| drop(objects.rename(name("moved"), elsewhere, Default::default()).wait().unwrap()),
        &|| assert!(objects.delete("other", "key", Default::default()).wait().unwrap().existed),
        &|| objects.delete_bucket("bucket").wait().unwrap(),
    ];
    for change in changes {
        change();
        assert_eq!(reader.bytes(0, usize::MAX).unwrap(), body);
        assert_eq!(reader.info().size, 300_000);
    }
}
