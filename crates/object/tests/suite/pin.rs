//! Many reads at one version of the store.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;

use koine_env::{Random, SeededRandom};
use koine_object::{
    AccessList, BucketQuery, ByteRange, Caller, CopyOptions, CopyPrefixOptions, DeleteOptions, ErrorKind, Grant,
    Grantee, Indexed, ListQuery, ObjectName, Objects, Pinned, PutOptions, RenameOptions, SearchQuery, UploadOptions,
    UploadQuery, UserChange, UserState, VersionQuery, Versioning,
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

/// The list that opens an object or a bucket to a user.
fn open_to(objects: &Objects, user: &str) -> AccessList {
    let to = Grantee::User(objects.identities().user(user).unwrap().id);
    AccessList::new(vec![Grant { to, rights: Grant::READ }]).unwrap()
}

/// A store with a bucket of `ann`, another of whose users is `eve`.
fn of_ann() -> (Objects, Objects) {
    let objects = store();
    crate::support::group_of(&objects, "group", &["ann"]);
    crate::support::group_of(&objects, "others", &["eve"]);
    objects.identities().change_owner("bucket", "ann", None).wait().unwrap();
    put(&objects, "key", b"private");
    let eve = crate::support::user_of(&objects, "eve");
    (objects, eve)
}

#[test]
fn a_name_of_a_bucket_that_was_taken_again_opens_nothing_of_the_old_one() {
    let (objects, eve) = of_ann();
    let pinned = eve.pin().unwrap();
    objects.delete("bucket", "key", DeleteOptions::default()).wait().unwrap();
    objects.delete_bucket("bucket").wait().unwrap();
    eve.create_bucket("bucket").wait().unwrap();
    assert_eq!(kind(pinned.get("bucket", "key")), ErrorKind::AccessDenied);
    assert_eq!(kind(pinned.head("bucket", "key")), ErrorKind::AccessDenied);
    assert_eq!(kind(pinned.list("bucket", &ListQuery::default())), ErrorKind::AccessDenied);
    assert_eq!(kind(pinned.head_bucket("bucket")), ErrorKind::AccessDenied);
    assert!(pinned.list_buckets(&BucketQuery::default()).unwrap().buckets.is_empty());
}

#[test]
fn a_public_object_in_the_place_of_a_private_one_does_not_open_that() {
    let (objects, eve) = of_ann();
    let (pinned, name) = (eve.pin().unwrap(), ObjectName::new("bucket", "key"));
    put(&objects, "key", b"public");
    objects.identities().set_object_access(name, open_to(&objects, "eve")).wait().unwrap();
    assert_eq!(eve.get("bucket", "key").unwrap().bytes(0, 9).unwrap(), "public");
    assert_eq!(kind(pinned.get("bucket", "key")), ErrorKind::AccessDenied);
    let open = eve.pin().unwrap();
    assert_eq!(open.get("bucket", "key").unwrap().bytes(0, 9).unwrap(), "public");
    // The list of the same object counts as it is now; replaced, it counts as it was.
    put(&objects, "key", b"next");
    assert_eq!(open.get("bucket", "key").unwrap().bytes(0, 9).unwrap(), "public");
    objects.identities().set_object_access(name, open_to(&objects, "eve")).wait().unwrap();
    let open = eve.pin().unwrap();
    objects.identities().set_object_access(name, AccessList::default()).wait().unwrap();
    assert_eq!(kind(open.get("bucket", "key")), ErrorKind::AccessDenied);
}

#[test]
fn a_snapshot_is_opened_by_the_lists_of_its_own_objects() {
    let (objects, eve) = of_ann();
    let name = ObjectName::new("bucket", "key");
    objects.snapshot_bucket("bucket", "private").wait().unwrap();
    put(&objects, "key", b"public");
    objects.identities().set_object_access(name, open_to(&objects, "eve")).wait().unwrap();
    assert_eq!(eve.get("bucket", "key").unwrap().bytes(0, 9).unwrap(), "public");
    assert_eq!(kind(eve.get("bucket@private", "key")), ErrorKind::AccessDenied);
    assert_eq!(kind(eve.head("bucket@private", "key")), ErrorKind::AccessDenied);
    eve.create_bucket("copies").wait().unwrap();
    let copy = |from| {
        let to = ObjectName::new("copies", "copy");
        eve.copy(ObjectName::new(from, "key"), to, CopyOptions::default()).wait()
    };
    assert_eq!(kind(copy("bucket@private")), ErrorKind::AccessDenied);
    copy("bucket").unwrap();
    // What is public in a snapshot is, until the same object is closed.
    objects.snapshot_bucket("bucket", "public").wait().unwrap();
    assert_eq!(eve.get("bucket@public", "key").unwrap().bytes(0, 9).unwrap(), "public");
    objects.identities().set_object_access(name, AccessList::default()).wait().unwrap();
    assert_eq!(kind(eve.get("bucket@public", "key")), ErrorKind::AccessDenied);
    // An edit keeps the object, and its list of now is not that of the snapshot.
    objects.snapshot_bucket("bucket", "closed").wait().unwrap();
    objects.identities().set_object_access(name, open_to(&objects, "eve")).wait().unwrap();
    assert_eq!(kind(eve.get("bucket@closed", "key")), ErrorKind::AccessDenied);
}

#[test]
fn an_open_reader_and_an_open_transaction_end_with_the_right() {
    let (objects, _) = of_ann();
    let ann = crate::support::user_of(&objects, "ann");
    // More than comes along when it is opened elsewhere.
    put(&objects, "key", &vec![b'p'; 1 << 20]);
    let (name, reader) = (ObjectName::new("bucket", "key"), ann.get("bucket", "key").unwrap());
    assert_eq!(reader.bytes(900_000, 3).unwrap(), "ppp");
    put(&objects, "key", b"another");
    assert_eq!(reader.bytes(900_000, 3).unwrap(), "ppp", "a reader keeps its version");
    let state = |state| {
        let change = UserChange { state: Some(state), ..UserChange::default() };
        objects.identities().set_user("ann", change).wait().unwrap();
    };
    let outcome = ann.transact(None, |txn| {
        txn.head(name)?;
        state(UserState::Disabled);
        assert_eq!(kind(txn.head(name)), ErrorKind::AccessDenied);
        assert_eq!(kind(txn.read(name, ByteRange { offset: 0, length: 9 })), ErrorKind::AccessDenied);
        assert_eq!(kind(txn.list("bucket", &ListQuery::default())), ErrorKind::AccessDenied);
        Ok(())
    });
    outcome.unwrap();
    let mut buffer = [0; 3];
    assert_eq!(kind(reader.bytes(900_000, 3)), ErrorKind::AccessDenied);
    assert_eq!(kind(reader.read(900_000, &mut buffer)), ErrorKind::AccessDenied);
    assert_eq!(reader.bytes_now(900_000, 3).unwrap(), None);
    state(UserState::Live);
    assert_eq!(reader.bytes(900_000, 3).unwrap(), "ppp");
    // A bucket that was given away is another's.
    objects.identities().change_owner("bucket", "root", None).wait().unwrap();
    assert_eq!(kind(reader.bytes(900_000, 3)), ErrorKind::AccessDenied);
}
