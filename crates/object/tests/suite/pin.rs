//! Many reads at one version of the store.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;

use koine_env::{Random, SeededRandom};
use koine_object::{
    Caller, CopyPrefixOptions, DeleteOptions, ErrorKind, Indexed, ListQuery, ObjectName, Objects, Pinned, PutOptions,
    RenameOptions, SearchQuery, UploadOptions, UploadQuery, VersionQuery, Versioning,
};

use crate::backend::ROUNDS;
use crate::support::{kind, put, put_with, store};

/// Every name and its version, by pages of a few.
fn walk(pinned: &Pinned) -> BTreeMap<String, u64> {
    let mut told = BTreeMap::new();
    let mut query = ListQuery { limit: 7, ..ListQuery::default() };
    loop {
        let page = pinned.list("bucket", &query).unwrap();
        for object in page.objects {
            let info = pinned.head("bucket", &object.key).unwrap();
            assert_eq!((info.version, info.size), (object.version, object.size));
            assert!(object.version <= pinned.version());
            assert!(told.insert(object.key, object.version.0).is_none());
        }
        match page.next {
            Some(next) => query.after = Some(next),
            None => return told,
        }
    }
}

fn change(objects: &Objects, random: &SeededRandom) {
    let name = || format!("key-{:02}", random.next_u64() % 40);
    let (one, two) = (name(), name());
    match random.next_u64() % 4 {
        0 | 1 => {
            let metadata = vec![("color".to_owned(), two)];
            put_with(objects, &one, b"body", PutOptions { metadata, ..PutOptions::default() }).unwrap();
        }
        2 => drop(objects.delete("bucket", &one, DeleteOptions::default()).wait().unwrap()),
        _ => {
            let (from, to) = (ObjectName::new("bucket", &one), ObjectName::new("bucket", &two));
            drop(objects.rename(from, to, RenameOptions::default()).wait());
        }
    }
}

#[test]
fn a_pinned_version_is_walked_read_and_searched_as_it_was() {
    let objects = store();
    let random = SeededRandom::new(1);
    (0..60).for_each(|_| change(&objects, &random));
    let stop = AtomicBool::new(false);
    thread::scope(|scope| {
        for thread in 0..4 {
            let (objects, stop) = (&objects, &stop);
            scope.spawn(move || {
                let random = SeededRandom::new(2 + thread);
                while !stop.load(Ordering::SeqCst) {
                    change(objects, &random);
                }
            });
        }
        for round in 0..ROUNDS * 2 {
            let pinned = objects.pin().unwrap();
            let told = walk(&pinned);
            if round == ROUNDS {
                drop(objects.add_index("bucket", Indexed::Metadata("color".into())).unwrap());
            }
            assert_eq!(walk(&pinned), told);
            let found = pinned.search("bucket", &SearchQuery::new(Indexed::Metadata("color".into()))).unwrap().found;
            assert!(found.iter().all(|(_, object)| told.get(&object.key) == Some(&object.version.0)));
            assert_eq!(found.len(), told.len());
            for (key, version) in &told {
                let reader = pinned.get("bucket", key).unwrap();
                assert_eq!((reader.info().version.0, &reader.bytes(0, 9).unwrap()[..]), (*version, &b"body"[..]));
            }
            assert_eq!(pinned.bucket_usage("bucket").unwrap().objects, told.len() as u64);
        }
        stop.store(true, Ordering::SeqCst);
    });
}

#[test]
fn what_is_pinned_is_read_by_the_rules_of_the_moment() {
    let objects = store();
    put(&objects, "key", b"body");
    crate::support::group_of(&objects, "group", &["user"]);
    objects.identities().change_owner("bucket", "user", None).wait().unwrap();
    let pinned = crate::support::user_of(&objects, "user").pin().unwrap();
    assert!(pinned.exists("bucket", "key").unwrap());
    objects.delete("bucket", "key", DeleteOptions::default()).wait().unwrap();
    assert!(pinned.exists("bucket", "key").unwrap());
    objects.identities().change_owner("bucket", "root", None).wait().unwrap();
    assert_eq!(kind(pinned.get("bucket", "key")), ErrorKind::AccessDenied);
    assert_eq!(
        kind(crate::backend::below(&objects).as_caller(Caller::Everyone).pin().unwrap().get("bucket", "key")),
        ErrorKind::AccessDenied
    );
}

#[test]
fn versions_snapshots_and_uploads_are_read_as_they_were() {
    let objects = store();
    objects.set_versioning("bucket", Versioning::Enabled).wait().unwrap();
    let first = put(&objects, "key", b"first").version_id;
    put(&objects, "key", b"second");
    objects.snapshot_bucket("bucket", "kept").wait().unwrap();
    let upload = objects.create_upload("bucket", "large", UploadOptions::default()).wait().unwrap();
    let (name, large) = (ObjectName::new("bucket", "key"), ObjectName::new("bucket", "large"));
    let pinned = objects.pin().unwrap();
    let tell = |pinned: &Pinned| {
        let query = VersionQuery { limit: 10, ..VersionQuery::default() };
        let versions = pinned.list_versions("bucket", &query).unwrap().versions;
        let uploads = pinned.list_uploads("bucket", &UploadQuery { limit: 10, ..UploadQuery::default() }).unwrap();
        let mut buckets = Vec::new();
        pinned
            .for_each_bucket("", |bucket| {
                buckets.push(bucket.name);
                std::ops::ControlFlow::Continue(())
            })
            .unwrap();
        (versions, pinned.list_snapshots("bucket").unwrap(), uploads.uploads, buckets)
    };
    let told = tell(&pinned);
    assert_eq!((told.0.len(), told.1.len(), told.2.len(), told.3.len()), (2, 1, 1, 1));
    objects.delete_version(name, first).wait().unwrap();
    objects.delete("bucket", "key", DeleteOptions::default()).wait().unwrap();
    objects.delete_snapshot("bucket", "kept").wait().unwrap();
    objects.abort_upload(large, upload).wait().unwrap();
    objects.create_bucket("another").wait().unwrap();
    assert_eq!(tell(&pinned), told);
    assert_eq!(pinned.get_version(name, first).unwrap().bytes(0, 9).unwrap(), "first");
    assert_eq!(pinned.head_version(name, first).unwrap().size, 5);
    assert!(pinned.list_parts(large, upload, 0, 10).unwrap().parts.is_empty());
    // It is for reading.
    let there = pinned.objects();
    assert_eq!(kind(there.create_bucket("third").wait()), ErrorKind::ReadOnly);
    assert_eq!(kind(crate::support::put_into(there, "bucket", "new", b"x")), ErrorKind::ReadOnly);
    assert_eq!(kind(there.delete("bucket", "key", DeleteOptions::default()).wait()), ErrorKind::ReadOnly);
    assert_eq!(kind(there.transact(None, |_| Ok(()))), ErrorKind::ReadOnly);
    assert_eq!(kind(there.copy_prefix(name, large, CopyPrefixOptions::default())), ErrorKind::ReadOnly);
    assert_eq!(kind(there.identities().create_group("new", "").wait()), ErrorKind::ReadOnly);
    let newest = objects.pin().unwrap();
    assert!(newest.version() > pinned.version());
    assert_eq!(kind(newest.head_version(name, first)), ErrorKind::NoSuchVersion);
    let now = tell(&newest);
    assert_eq!((now.0.len(), now.1.len(), now.2.len(), now.3.len()), (2, 0, 0, 2));
}
