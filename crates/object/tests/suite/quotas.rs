//! What the buckets of users and groups hold together, and how much they may.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use koine_env::{SimulatedClock, Timestamp};
use koine_object::{
    BucketQuery, BucketUsage, CopyOptions, DeleteOptions, EditOptions, ErrorKind, Expected, GroupChange, ObjectName,
    Objects, PartOptions, PutOptions, Result, StageOptions, UploadOptions, UserChange, Whose,
};

use crate::support::{finish, group_of, kind, kv_of, over_at, put_into, race, store, user_of};

fn clocked() -> (Objects, Arc<SimulatedClock>) {
    let clock = Arc::new(SimulatedClock::new(Timestamp(1_700_000_000_000_000_000)));
    (over_at(crate::backend::kv(), Arc::clone(&clock)), clock)
}

fn used(objects: &Objects, whose: Whose<'_>) -> (u64, u64) {
    let BucketUsage { objects, bytes, upload_bytes, .. } = objects.identities().usage(whose).unwrap();
    (objects, bytes + upload_bytes)
}

fn quota(objects: &Objects, user: &str, bytes: Option<u64>, count: Option<u64>) {
    let change = UserChange { quota_bytes: Some(bytes), quota_objects: Some(count), ..UserChange::default() };
    let told = objects.identities().set_user(user, change).wait().unwrap();
    assert_eq!((told.quota_bytes, told.quota_objects), (bytes, count));
}

fn put(objects: &Objects, bucket: &str, key: &str, length: usize) -> Result<()> {
    put_into(objects, bucket, key, &vec![7; length]).map(drop)
}

fn name<'a>(bucket: &'a str, key: &'a str) -> ObjectName<'a> {
    ObjectName::new(bucket, key)
}

/// S-343.
#[test]
fn usage_is_that_of_the_buckets_and_goes_along_with_one() {
    let objects = store();
    group_of(&objects, "lab", &["ann", "bob"]);
    group_of(&objects, "office", &["cleo"]);
    let [ann, bob] = ["ann", "bob"].map(|user| user_of(&objects, user));
    ["one", "two"].into_iter().for_each(|bucket| drop(ann.create_bucket(bucket).wait().unwrap()));
    bob.create_bucket("three").wait().unwrap();
    put(&ann, "one", "a", 100).unwrap();
    put(&bob, "two", "b", 20).unwrap();
    put(&bob, "three", "c", 3).unwrap();
    let upload = ann.create_upload("two", "u", UploadOptions::default()).wait().unwrap();
    let mut part = ann.put_part(name("two", "u"), upload, 1, PartOptions::default()).unwrap();
    part.write(&[0; 4_000]).unwrap();
    part.finish(&Expected::none()).wait().unwrap();
    assert_eq!((used(&objects, Whose::User("ann")), used(&objects, Whose::User("BOB"))), ((2, 4_120), (1, 3)));
    assert_eq!(used(&objects, Whose::Group("lab")), (3, 4_123));
    assert_eq!(used(&objects, Whose::Group("office")), (0, 0));
    put(&objects, "bucket", "of root", 9).unwrap();
    assert_eq!((used(&objects, Whose::User("root")), used(&objects, Whose::Group("root"))), ((1, 9), (1, 9)));
    // Its bytes go along with a bucket.
    objects.identities().change_owner("two", "cleo", None).wait().unwrap();
    assert_eq!((used(&objects, Whose::User("ann")), used(&objects, Whose::User("cleo"))), ((1, 100), (1, 4_020)));
    assert_eq!((used(&objects, Whose::Group("lab")), used(&objects, Whose::Group("office"))), ((2, 103), (1, 4_020)));
    // A branch is its maker's; a purge and a restored snapshot count as they are.
    objects.snapshot_bucket("one", "s").wait().unwrap();
    ann.branch_bucket("one", "branch").wait().unwrap();
    ann.purge_bucket("one").wait().unwrap();
    assert_eq!(used(&objects, Whose::User("ann")), (1, 100));
    objects.restore_bucket("one", "s").wait().unwrap();
    assert_eq!(used(&objects, Whose::User("ann")), (2, 200));
    // Who is told.
    assert_eq!(used(&ann, Whose::User("ann")), (2, 200));
    assert_eq!(used(&ann, Whose::Group("lab")), (3, 203));
    assert_eq!(kind(ann.identities().usage(Whose::User("bob"))), ErrorKind::AccessDenied);
    assert_eq!(kind(ann.identities().usage(Whose::Group("office"))), ErrorKind::AccessDenied);
    assert_eq!(kind(objects.identities().usage(Whose::User("nobody"))), ErrorKind::NoSuchUser);
    assert_eq!(kind(objects.identities().usage(Whose::Group("none"))), ErrorKind::NoSuchGroup);
}

/// S-344.
#[test]
fn a_user_with_two_buckets_is_held_to_its_quota() {
    let (objects, clock) = clocked();
    group_of(&objects, "lab", &["ann"]);
    let ann = user_of(&objects, "ann");
    ["one", "two"].into_iter().for_each(|bucket| drop(ann.create_bucket(bucket).wait().unwrap()));
    quota(&objects, "ann", Some(1_000), Some(4));
    let later = || clock.advance(Duration::from_secs(1));
    let refused = |outcome: Result<()>| {
        assert_eq!(kind(outcome), ErrorKind::QuotaExceeded);
    };
    put(&ann, "one", "a", 600).unwrap();
    later();
    put(&ann, "two", "b", 300).unwrap();
    later();
    let before = kv_of(&objects).view().unwrap().version();
    refused(put(&ann, "two", "c", 101));
    // Whoever puts it.
    refused(put(&objects, "two", "c", 101));
    refused(put(&ann, "one", "a", 701));
    refused(ann.copy(name("one", "a"), name("two", "copy"), CopyOptions::default()).wait().map(drop));
    refused(finish(ann.append(name("one", "a"), EditOptions::default()), &[0; 101]).map(drop));
    refused(ann.truncate(name("one", "a"), 701, EditOptions::default()).wait().map(drop));
    refused(ann.branch_bucket("two", "branch").wait().map(drop).and_then(|()| put(&ann, "branch", "x", 0)));
    let body = |length: usize| {
        let mut writer = ann.stage(StageOptions::default()).unwrap();
        writer.write(&vec![1; length]).unwrap();
        writer.finish(&Expected::none()).unwrap()
    };
    let (first, second) = (body(60), body(50));
    let both = ann.transact(None, |txn| {
        txn.put(name("one", "x"), &first, &PutOptions::default())?;
        txn.put(name("two", "y"), &second, &PutOptions::default())
    });
    refused(both.map(drop));
    assert_eq!(kv_of(&objects).view().unwrap().version(), before);
    // What makes smaller goes, and makes room at once.
    put(&ann, "one", "a", 500).unwrap();
    put(&ann, "two", "c", 101).unwrap();
    later();
    put(&ann, "one", "empty", 0).unwrap();
    later();
    refused(put(&ann, "one", "another", 0));
    ann.delete("two", "c", DeleteOptions::default()).wait().unwrap();
    put(&ann, "one", "another", 0).unwrap();
    // A bucket that is given away takes its bytes along; without a quota all goes.
    objects.identities().change_owner("two", "root", None).wait().unwrap();
    put(&ann, "one", "a", 1_000).unwrap();
    later();
    refused(put(&ann, "one", "a", 1_001));
    put(&objects, "two", "of root", 100_000).unwrap();
    quota(&objects, "ann", None, None);
    put(&ann, "one", "a", 100_000).unwrap();
}

#[test]
fn a_group_is_held_to_its_quota_whoever_of_it_owns_the_buckets() {
    let (objects, clock) = clocked();
    group_of(&objects, "lab", &["ann", "bob"]);
    let [ann, bob] = ["ann", "bob"].map(|user| user_of(&objects, user));
    ann.create_bucket("one").wait().unwrap();
    bob.create_bucket("two").wait().unwrap();
    let change = GroupChange { quota_bytes: Some(Some(1_000)), ..GroupChange::default() };
    assert_eq!(objects.identities().set_group("lab", change).wait().unwrap().quota_bytes, Some(1_000));
    put(&ann, "one", "a", 600).unwrap();
    clock.advance(Duration::from_secs(1));
    assert_eq!(kind(put(&bob, "two", "b", 401)), ErrorKind::QuotaExceeded);
    put(&bob, "two", "b", 400).unwrap();
    put(&ann, "one", "a", 100).unwrap();
    put(&bob, "two", "c", 500).unwrap();
}

#[test]
fn writers_go_past_the_quota_of_a_user_by_what_a_second_brings_at_most() {
    const MOST: u64 = 200_000;
    const LENGTH: usize = 1_000;
    const STEP: Duration = Duration::from_millis(20);
    let (objects, clock) = clocked();
    group_of(&objects, "lab", &["ann"]);
    let ann = user_of(&objects, "ann");
    ["one", "two"].into_iter().for_each(|bucket| drop(ann.create_bucket(bucket).wait().unwrap()));
    quota(&objects, "ann", Some(MOST), None);
    let made = AtomicU64::new(0);
    race(|writer| {
        for number in 0.. {
            clock.advance(STEP);
            let bucket = ["one", "two"][(writer + number) % 2];
            match put(&ann, bucket, &format!("{writer}-{number}"), LENGTH) {
                Ok(()) => made.fetch_add(1, Ordering::SeqCst),
                Err(error) => {
                    assert_eq!(error.kind(), ErrorKind::QuotaExceeded);
                    break;
                }
            };
        }
    });
    let (_, bytes) = used(&objects, Whose::User("ann"));
    assert_eq!(bytes, made.load(Ordering::SeqCst) * LENGTH as u64);
    // Fifty begin in a second, and each writer may have one under way.
    let over = (50 + crate::support::RACERS as u64) * LENGTH as u64;
    assert!((MOST..=MOST + over).contains(&bytes), "{bytes}");
}

/// A transaction looks at its own view, which may be older than the second that a sum may be.
#[test]
fn the_view_of_a_long_transaction_lets_nobody_else_in() {
    let (objects, clock) = clocked();
    group_of(&objects, "lab", &["ann"]);
    let ann = user_of(&objects, "ann");
    ["one", "two"].into_iter().for_each(|bucket| drop(ann.create_bucket(bucket).wait().unwrap()));
    quota(&objects, "ann", Some(1_000), None);
    let mut writer = ann.stage(StageOptions::default()).unwrap();
    writer.write(&[1; 10]).unwrap();
    let body = writer.finish(&Expected::none()).unwrap();
    let mut filled = false;
    let outcome = ann.transact(None, |txn| {
        assert!(txn.head(name("two", "none"))?.is_none());
        if !std::mem::replace(&mut filled, true) {
            put(&ann, "one", "full", 1_000)?;
            clock.advance(Duration::from_secs(2));
        }
        txn.put(name("two", "x"), &body, &PutOptions::default())
    });
    assert_eq!(kind(outcome), ErrorKind::QuotaExceeded);
    assert_eq!(kind(put(&ann, "two", "y", 10)), ErrorKind::QuotaExceeded);
    assert_eq!(used(&objects, Whose::User("ann")), (1, 1_000));
}

fn buckets(objects: &Objects, group: &str) -> Result<Vec<String>> {
    let query = |after| BucketQuery { group: Some(group.to_owned()), limit: 2, after, ..BucketQuery::default() };
    let (mut names, mut after) = (Vec::new(), None);
    loop {
        let page = objects.list_buckets(&query(after))?;
        names.extend(page.buckets.into_iter().map(|bucket| bucket.name));
        match page.next {
            None => return Ok(names),
            next => after = next,
        }
    }
}

#[test]
fn the_buckets_of_a_group_are_listed_and_deleted_together() {
    let objects = store();
    group_of(&objects, "lab", &["ann", "bob"]);
    group_of(&objects, "office", &["cleo"]);
    let [ann, bob, cleo] = ["ann", "bob", "cleo"].map(|user| user_of(&objects, user));
    ["three", "one", "two"].into_iter().for_each(|bucket| drop(ann.create_bucket(bucket).wait().unwrap()));
    ["four", "five"].into_iter().for_each(|bucket| drop(bob.create_bucket(bucket).wait().unwrap()));
    cleo.create_bucket("hers").wait().unwrap();
    put(&ann, "one", "content", 100_000).unwrap();
    objects.snapshot_bucket("two", "kept").wait().unwrap();
    assert_eq!(buckets(&objects, "lab").unwrap(), ["five", "four", "one", "three", "two"]);
    assert_eq!(buckets(&ann, "lab").unwrap(), ["five", "four", "one", "three", "two"]);
    assert_eq!(buckets(&objects, "root").unwrap(), ["bucket"]);
    assert_eq!(kind(buckets(&cleo, "lab")), ErrorKind::AccessDenied);
    assert_eq!(kind(buckets(&objects, "none")), ErrorKind::NoSuchGroup);
    // It is for who administers the group.
    assert_eq!(kind(ann.delete_buckets_of("lab")), ErrorKind::AccessDenied);
    objects.identities().add_member("lab", "cleo", true).wait().unwrap();
    let spaces = || kv_of(&objects).view().unwrap().spaces(koine_kv::SpaceId(0), 1_000).unwrap().len();
    let before = spaces();
    assert_eq!(cleo.delete_buckets_of("lab").unwrap(), 5);
    assert_eq!(spaces(), before - 6);
    assert_eq!(buckets(&objects, "lab").unwrap(), Vec::<String>::new());
    assert_eq!(objects.delete_buckets_of("lab").unwrap(), 0);
    assert_eq!(buckets(&objects, "office").unwrap(), ["hers"]);
    assert_eq!(kind(objects.delete_buckets_of("none")), ErrorKind::NoSuchGroup);
    // The group and its users stay.
    ann.create_bucket("one").wait().unwrap();
}
