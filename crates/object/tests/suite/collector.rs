//! The collector: finds exactly what was left over, removes exactly that, and never anything live.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::thread;
use std::time::Duration;

use koine_env::{Clock, Random, SeededRandom, SimulatedClock, Timestamp};
use koine_kv::{Batch, Condition, Direction, Durability, KeyRange, Operation, Place, SpaceId, View};
use koine_object::{
    BucketUsage, CollectEvent, CollectOptions, Collected, ErrorKind, LeftOver, ObjectName, Objects, PartOptions,
    UploadOptions,
};

use crate::backend::ROUNDS;
use crate::support::{append, bytes, get, group_of, join, kind, over_at, put, put_into, store, user_of};
use crate::usage;

const CATALOGUE: SpaceId = SpaceId(16);
/// Ids of nothing: the random ones of the tests never are these.
const NOBODY: u64 = 0xDEAD_0000_0000_0001;

/// Every key of every space with its value, but for the counters.
pub fn content(view: &dyn View) -> BTreeMap<(u64, Vec<u8>), Vec<u8>> {
    let mut all = BTreeMap::new();
    for space in view.spaces(CATALOGUE, 10_000).unwrap() {
        let space = space.space;
        let mut cursor = view.cursor(space, KeyRange::all(), Direction::Forward).unwrap();
        while let Some(entry) = cursor.next().unwrap() {
            if space == CATALOGUE || !entry.key.starts_with(b"c") {
                let value = view.bytes(space, &entry.key, 0, entry.stat.size as usize).unwrap();
                all.insert((space.0, entry.key.to_vec()), value.to_vec());
            }
        }
    }
    all
}

fn whole(objects: &Objects) -> BTreeMap<(u64, Vec<u8>), Vec<u8>> {
    content(objects.kv().unwrap().view().unwrap().as_ref())
}

/// A look that removes nothing; with memory for so many ids.
pub fn look(objects: &Objects, ids_at_once: usize) -> Collected {
    objects.collect(&CollectOptions { ids_at_once, ..CollectOptions::default() }).unwrap()
}

fn remove(objects: &Objects, ids_at_once: usize) -> Collected {
    objects.collect(&CollectOptions { remove: true, ids_at_once, ..CollectOptions::default() }).unwrap()
}

fn key(parts: &[&[u8]]) -> Vec<u8> {
    parts.concat()
}

/// What `plant` puts into the space of `bucket`: keys, and a part of `upload` that has no record.
fn orphans_of_bucket(objects: &Objects, bucket: &str) -> Vec<(LeftOver, Vec<u8>)> {
    let listed = objects.list(bucket, &koine_object::ListQuery { limit: 9, ..Default::default() }).unwrap();
    let mut orphans = Vec::new();
    for id in [0, 1, NOBODY, NOBODY + 1, u64::MAX] {
        for (letter, what) in [(b"d", LeftOver::Data), (b"t", LeftOver::Table), (b"a", LeftOver::AccessTime)] {
            orphans.push((what, key(&[letter, &id.to_be_bytes()])));
        }
    }
    // A table of an object that says that it has none.
    let plain = listed.objects.iter().map(|object| objects.head(bucket, &object.key).unwrap());
    if let Some(object) = plain.into_iter().find(|object| object.part_count.is_none()) {
        orphans.push((LeftOver::Table, key(&[b"t", &object.id.0.to_be_bytes()])));
    }
    for upload in [[0; 16], [9; 16], [0xFF; 16]] {
        for number in [1u32, 10_000] {
            orphans.push((LeftOver::Part, key(&[b"p", &upload, &[0], &number.to_be_bytes()])));
            orphans.push((LeftOver::Part, key(&[b"p", &upload, &[1], &number.to_be_bytes()])));
        }
    }
    let uploads = objects.list_uploads(bucket, &koine_object::UploadQuery { limit: 1, ..Default::default() }).unwrap();
    for upload in uploads.uploads {
        orphans.push((LeftOver::Part, key(&[b"p", &upload.id.0, &[1], &9_999u32.to_be_bytes()])));
    }
    orphans
}

fn orphans_of_catalogue() -> Vec<(LeftOver, Vec<u8>, Vec<u8>)> {
    let (nobody, id) = (NOBODY.to_be_bytes(), NOBODY.to_le_bytes().to_vec());
    let root = [0; 8];
    let catalogue = |parts: &[&[u8]], value: &[u8]| (LeftOver::Catalogue, key(parts), value.to_vec());
    let snapshot = [&[1, 1, 8][..], &(NOBODY | 1 << 40).to_le_bytes(), &[2, 8], &[0; 8]].concat();
    vec![
        catalogue(&[b"h", &nobody, b"bucket"], &id),
        catalogue(&[b"h", &root, b"no-such-bucket"], &id),
        catalogue(&[b"o", &nobody, b"bucket"], &id),
        catalogue(&[b"o", &root, b"no-such-bucket"], &id),
        catalogue(&[b"G", b"nobodies"], &id),
        catalogue(&[b"U", b"nobody"], &id),
        catalogue(&[b"l", &[0, 0, 0, 77]], &id),
        catalogue(&[b"m", &root, &nobody], b"\x01"),
        catalogue(&[b"A", &nobody, b"KEY"], b""),
        catalogue(&[b"T", &nobody, &[7; 32]], &[0; 8]),
        catalogue(&[b"y", &nobody, &[1]], b"\x01"),
        catalogue(&[b"v", &nobody, b"snapshot"], &snapshot),
    ]
}

/// Puts in what nothing leads to: how many of each kind there are, and the values' bytes.
pub fn plant(objects: &Objects, buckets: &[&str]) -> Collected {
    let mut planted = Collected::default();
    let mut batch = Batch::new();
    let mut count = |what: LeftOver, bytes: usize| {
        planted.bytes += bytes as u64;
        match what {
            LeftOver::Data => planted.data += 1,
            LeftOver::Table => planted.tables += 1,
            LeftOver::Part => planted.parts += 1,
            LeftOver::AccessTime => planted.access_times += 1,
            _ => planted.catalogue += 1,
        }
    };
    for bucket in buckets {
        let space = objects.head_bucket(bucket).unwrap().space;
        for (number, (what, key)) in orphans_of_bucket(objects, bucket).into_iter().enumerate() {
            let value = bytes(number * 13, 5);
            count(what, value.len());
            batch = batch.put(space, key, value);
        }
        // The shard of a writer, and one of its own.
        for (kind, delta) in [(0u8, -5), (1, 7), (4, 1_000_000)] {
            let at = Place::new(space, vec![b'c', kind, 3]);
            batch = batch.then(Operation::AddCounter { at, delta });
        }
    }
    for (what, key, value) in orphans_of_catalogue() {
        count(what, value.len());
        batch = batch.put(CATALOGUE, key, value);
    }
    objects.kv().unwrap().commit(batch, Durability::Sync).unwrap();
    Collected { counters: 3 * buckets.len() as u64, ..planted }
}

/// What was found, without what was looked at.
pub fn only_found(collected: Collected) -> Collected {
    Collected { buckets: 0, names: 0, removed: 0, ..collected }
}

/// A store with something of everything.
pub fn lively(objects: &Objects) {
    for number in 0..20 {
        put(objects, &format!("key-{number}"), &bytes(number * 1_000, number as u64));
    }
    join(objects, "joined", &[&bytes(5 << 20, 1), b"the end"]);
    append(objects, "key-3", b"more");
    let upload = objects.create_upload("bucket", "under way", UploadOptions::default()).wait().unwrap();
    let part = objects.put_part(ObjectName::new("bucket", "under way"), upload, 4, PartOptions::default());
    let mut part = part.unwrap();
    part.write(&bytes(3_000, 3)).unwrap();
    part.finish(&koine_object::Expected::none()).wait().unwrap();
    objects.snapshot_bucket("bucket", "kept").wait().unwrap();
    objects.branch_bucket("bucket", "branch").wait().unwrap();
    group_of(objects, "physics", &["ann", "bob"]);
    let identities = objects.identities();
    identities.set_password("ann", "a long password").unwrap();
    identities.log_in("ann", "a long password", Duration::from_secs(3600)).unwrap();
    user_of(objects, "bob").create_bucket("of-bob").wait().unwrap();
    put_into(objects, "of-bob", "x", b"y").unwrap();
}

fn usages(objects: &Objects) -> Vec<BucketUsage> {
    ["bucket", "branch", "of-bob", "bucket@kept"].map(|bucket| objects.bucket_usage(bucket).unwrap()).to_vec()
}

/// S-303, the half of the collector.
#[test]
fn what_was_planted_is_found_exactly_and_removed_exactly() {
    let objects = store();
    lively(&objects);
    assert_eq!(look(&objects, 1 << 20).found(), 0);
    for ids_at_once in [1, 3, 1 << 20] {
        let (before, counted) = (whole(&objects), usages(&objects));
        let planted = plant(&objects, &["bucket", "branch", "of-bob"]);
        assert_ne!(usages(&objects), counted);
        let with_orphans = whole(&objects);
        let found = look(&objects, ids_at_once);
        assert_eq!((only_found(found), found.removed), (planted, 0));
        assert_eq!((found.buckets, found.names), (3, 21 + 21 + 1));
        assert!(whole(&objects) == with_orphans, "a look changed something");
        let removed = remove(&objects, ids_at_once);
        assert_eq!((only_found(removed), removed.removed), (planted, planted.found()));
        assert!(whole(&objects) == before, "not exactly what was planted went");
        assert_eq!(usages(&objects), counted);
        assert_eq!(remove(&objects, ids_at_once).found(), 0);
    }
    assert_eq!(get(&objects, "key-19").unwrap(), bytes(19_000, 19));
}

#[test]
fn each_thing_is_told_before_it_is_removed() {
    let objects = store();
    let space = objects.head_bucket("bucket").unwrap().space;
    let orphan = key(&[b"d", &NOBODY.to_be_bytes()]);
    let batch = Batch::new().put(space, orphan.clone(), vec![1; 123]);
    objects.kv().unwrap().commit(batch, Durability::Sync).unwrap();
    let mut told = Vec::new();
    let mut tell = |event: CollectEvent<'_>| {
        if let CollectEvent::Found(found) = event {
            assert!(objects.kv().unwrap().view().unwrap().stat(space, found.key).unwrap().is_some());
            told.push((found.bucket.map(str::to_owned), found.what, found.key.to_vec(), found.bytes));
        }
    };
    let options = CollectOptions { remove: true, ..CollectOptions::default() };
    assert_eq!(objects.collect_telling(&options, &mut tell).unwrap().removed, 1);
    assert_eq!(told, [(Some("bucket".to_owned()), LeftOver::Data, orphan.clone(), 123)]);
    assert_eq!(objects.kv().unwrap().view().unwrap().stat(space, &orphan).unwrap(), None);
}

#[test]
fn tokens_go_when_they_have_expired() {
    let clock = Arc::new(SimulatedClock::new(Timestamp(1_700_000_000_000_000_000)));
    let objects = over_at(crate::backend::kv(), Arc::clone(&clock));
    group_of(&objects, "physics", &["ann"]);
    let identities = objects.identities();
    identities.set_password("ann", "a long password").unwrap();
    let log_in = |hours: u64| identities.log_in("ann", "a long password", Duration::from_secs(hours * 3600)).unwrap();
    let before = whole(&objects);
    log_in(1);
    let lasting = log_in(3);
    assert_eq!(look(&objects, 9).found(), 0);
    clock.advance(Duration::from_secs(2 * 3600));
    assert_eq!(look(&objects, 9).tokens, 1);
    assert_eq!(remove(&objects, 9).removed, 1);
    assert!(identities.by_token(&lasting.token).is_ok());
    clock.advance(Duration::from_secs(2 * 3600));
    assert_eq!((remove(&objects, 9).tokens, look(&objects, 9).found()), (1, 0));
    assert!(whole(&objects) == before);
}

#[test]
fn a_bounded_rate_is_kept_and_only_who_may_collects() {
    let clock = Arc::new(SimulatedClock::new(Timestamp(1_700_000_000_000_000_000)));
    let objects = over_at(crate::backend::kv(), Arc::clone(&clock));
    for number in 0..100 {
        put(&objects, &format!("key-{number}"), b"x");
    }
    let began = clock.monotonic();
    let options = CollectOptions { bytes_per_second: Some(1_000), ..CollectOptions::default() };
    objects.collect(&options).unwrap();
    let took = clock.monotonic() - began;
    assert!((5..60).contains(&took.as_secs()), "{took:?} for 100 records");
    group_of(&objects, "physics", &["ann"]);
    let ann = user_of(&objects, "ann");
    assert_eq!(kind(ann.collect(&CollectOptions::default())), ErrorKind::AccessDenied);
}

#[test]
fn what_was_planted_goes_while_8_threads_do_anything_and_nothing_live_does() {
    let objects = store();
    objects.create_bucket("other").wait().unwrap();
    let left = AtomicUsize::new(8);
    thread::scope(|scope| {
        for thread in 0..8 {
            let (objects, left) = (&objects, &left);
            scope.spawn(move || {
                let random = SeededRandom::new(900 + thread);
                for _ in 0..30 * ROUNDS {
                    drop(usage::step(objects, &random));
                }
                left.fetch_sub(1, Ordering::SeqCst);
            });
        }
        for round in 0u64.. {
            let last = left.load(Ordering::SeqCst) == 0;
            let random = SeededRandom::new(round);
            let space = objects.head_bucket(["bucket", "other"][(round % 2) as usize]).unwrap().space;
            let [id, upload] = [random.next_u64(), random.next_u64()].map(u64::to_be_bytes);
            let mut batch = Batch::new();
            for orphan in [key(&[b"d", &id]), key(&[b"t", &id]), key(&[b"p", &upload, &id, &[1], &[0, 0, 0, 1]])] {
                batch = batch.when(Condition::Absent { space, key: orphan.clone().into() }).put(
                    space,
                    orphan,
                    b"left over".to_vec(),
                );
            }
            let at = Place::new(space, vec![b'c', (round % 2) as u8, 5]);
            batch = batch.then(Operation::AddCounter { at, delta: 11 });
            objects.kv().unwrap().commit(batch, Durability::Memory).unwrap();
            let collected = remove(&objects, 4);
            let expected = Collected { data: 1, tables: 1, parts: 1, counters: 1, bytes: 27, ..Collected::default() };
            assert_eq!((only_found(collected), collected.removed), (expected, 4), "round {round}");
            if last {
                break;
            }
        }
    });
    assert_eq!(look(&objects, 1 << 20).found(), 0);
    for bucket in ["bucket", "other"] {
        usage::check(&objects, bucket);
        objects
            .for_each(bucket, "", |object| {
                let reader = objects.get(bucket, &object.key).unwrap();
                assert_eq!(reader.bytes(0, object.size as usize).unwrap().len() as u64, object.size);
                std::ops::ControlFlow::Continue(())
            })
            .unwrap();
    }
}
