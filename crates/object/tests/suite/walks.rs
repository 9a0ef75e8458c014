//! Walks over pages while names come, go and move.

use std::collections::BTreeMap;
use std::ops::ControlFlow;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;

use koine_env::{Random, SeededRandom};
use koine_object::{
    BucketInfo, DeleteOptions, ErrorKind, ListQuery, ObjectName, ObjectSummary, Objects, RenameOptions,
};

use crate::backend::ROUNDS;
use crate::support::{put, store};

/// A walk by pages of a few: how often each name was told, in the order of its bytes.
fn walk(objects: &Objects, limit: usize) -> BTreeMap<String, usize> {
    let mut told = BTreeMap::new();
    let mut query = ListQuery { limit, ..ListQuery::default() };
    let mut last = String::new();
    loop {
        let page = objects.list("bucket", &query).unwrap();
        for object in page.objects {
            assert!(object.key > last, "{:?} was told after {last:?}", object.key);
            last.clone_from(&object.key);
            *told.entry(object.key).or_default() += 1;
        }
        match page.next {
            Some(next) => query.after = Some(next),
            None => return told,
        }
    }
}

#[test]
fn a_walk_tells_what_stays_once_and_what_comes_and_goes_at_most_once() {
    const NAMES: u64 = 400;
    let objects = store();
    let fixed: Vec<String> = (0..NAMES).step_by(20).map(|number| format!("{number:04}-fixed")).collect();
    fixed.iter().for_each(|key| drop(put(&objects, key, b"")));
    let stop = AtomicBool::new(false);
    thread::scope(|scope| {
        for thread in 0..8 {
            let (objects, stop) = (&objects, &stop);
            scope.spawn(move || {
                let random = SeededRandom::new(thread);
                let name = || format!("{:04}-moving", random.next_u64() % NAMES);
                while !stop.load(Ordering::SeqCst) {
                    let (one, two) = (name(), name());
                    match random.next_u64() % 4 {
                        0 | 1 => drop(put(objects, &one, b"")),
                        2 => drop(objects.delete("bucket", &one, DeleteOptions::default()).wait().unwrap()),
                        _ => {
                            let (from, to) = (ObjectName::new("bucket", &one), ObjectName::new("bucket", &two));
                            if let Err(error) = objects.rename(from, to, RenameOptions::default()).wait() {
                                assert_eq!(error.kind(), ErrorKind::NoSuchKey, "{error}");
                            }
                        }
                    }
                }
            });
        }
        for _ in 0..ROUNDS * 2 {
            let told = walk(&objects, 7);
            assert!(told.values().all(|count| *count == 1));
            assert!(fixed.iter().all(|key| told.contains_key(key)), "a name that stayed was passed over");
        }
        stop.store(true, Ordering::SeqCst);
    });
}

#[test]
fn a_listing_after_a_change_shows_it() {
    let objects = store();
    for round in 0..20 * ROUNDS {
        let key = format!("key-{}", round % 3);
        put(&objects, &key, b"");
        assert!(walk(&objects, 9).contains_key(&key));
        objects.delete("bucket", &key, DeleteOptions::default()).wait().unwrap();
        assert!(!walk(&objects, 9).contains_key(&key));
    }
}

#[test]
fn each_object_and_each_bucket_is_told_until_it_is_enough() {
    let objects = store();
    let names: Vec<String> = (0..2_500).map(|number| format!("key-{number:04}")).collect();
    names.iter().for_each(|key| drop(put(&objects, key, b"")));
    put(&objects, "other", b"");
    let told = |most: usize| {
        let mut told = Vec::new();
        let each = |object: ObjectSummary| {
            told.push(object.key);
            if told.len() == most { ControlFlow::Break(()) } else { ControlFlow::Continue(()) }
        };
        objects.for_each("bucket", "key-", each).unwrap();
        told
    };
    assert_eq!(told(usize::MAX), names);
    assert_eq!(told(1_500), names[..1_500]);
    let mut buckets = Vec::new();
    ["bucket-2", "bucket-1", "other"].iter().for_each(|name| drop(objects.create_bucket(name).wait().unwrap()));
    let each = |bucket: BucketInfo| {
        buckets.push(bucket.name);
        ControlFlow::Continue(())
    };
    objects.for_each_bucket("bucket", each).unwrap();
    assert_eq!(buckets, ["bucket", "bucket-1", "bucket-2"]);
}
