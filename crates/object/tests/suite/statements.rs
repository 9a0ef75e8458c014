//! Statements of docs/semantics.md that no other module is about: identity, ETags, times, order and snapshots.

use std::collections::HashSet;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use koine_env::{Clock, SeededRandom, SimulatedClock, Timestamp};
use koine_object::{
    AccessList, ByteRange, ComposeOptions, CopyOptions, EditOptions, ErrorKind, EtagMatch, ExchangeOptions, Expected,
    Grant, Grantee, ListQuery, ObjectName, Objects, PutCondition, PutOptions, RenameOptions, Segment,
};

use crate::support::{append, bytes, get, group_of, kind, put, put_into, put_with, store, user_of, write_at};

fn name(key: &str) -> ObjectName<'_> {
    ObjectName::new("bucket", key)
}

/// S-121.
#[test]
fn a_put_over_an_object_is_another_and_who_had_the_old_one_never_meets_it() {
    let objects = store();
    let (old, new) = (bytes(200_000, 1), bytes(300_000, 2));
    let first = put(&objects, "key", &old);
    let reader = objects.get("bucket", "key").unwrap();
    assert_eq!(reader.bytes(0, 1_000).unwrap(), old[..1_000]);
    let second = put(&objects, "key", &new);
    assert_ne!(first.id, second.id);
    assert_eq!(reader.bytes(0, old.len()).unwrap(), old);
    let only = EditOptions { only: Some(first.id), ..EditOptions::default() };
    let edited = objects.append(name("key"), only.clone()).and_then(|mut writer| {
        writer.write(b"late")?;
        writer.finish(&Expected::none()).wait()
    });
    assert_eq!(kind(edited), ErrorKind::Conflict);
    assert_eq!(kind(objects.truncate(name("key"), 1, only).wait()), ErrorKind::Conflict);
    assert_eq!(get(&objects, "key").unwrap(), new);
}

/// S-160.
#[test]
fn an_etag_is_the_sources_until_bytes_change_and_then_that_of_no_other_edit() {
    let objects = store();
    let put = put(&objects, "key", &bytes(3_000, 1));
    let copied = objects.copy(name("key"), name("copy"), CopyOptions::default()).wait().unwrap();
    let moved = objects.rename(name("copy"), name("moved"), RenameOptions::default()).wait().unwrap();
    objects.branch_bucket("bucket", "branch").wait().unwrap();
    let branched = objects.head("branch", "moved").unwrap();
    assert!([&copied.etag, &moved.etag, &branched.etag].into_iter().all(|etag| *etag == put.etag));
    let mut seen = HashSet::from([put.etag.to_string()]);
    let mut met = |etag: String| {
        let parts: Vec<usize> = etag.split('-').map(str::len).collect();
        assert!(parts == [16, 16] && seen.insert(etag.clone()), "{etag}");
    };
    for _ in 0..500 {
        met(append(&objects, "moved", b"x").etag.to_string());
        met(write_at(&objects, "key", 7, b"y").unwrap().etag.to_string());
        met(objects.truncate(name("key"), 2_000, EditOptions::default()).wait().unwrap().etag.to_string());
    }
    let range = Some(ByteRange { offset: 1, length: 10 });
    let segments = [Segment { range, ..Segment::whole(name("key")) }, Segment::whole(name("moved"))];
    for _ in 0..10 {
        met(objects.compose(&segments, name("composed"), ComposeOptions::default()).wait().unwrap().etag.to_string());
    }
}

/// A clock that goes back by a second at each look.
#[derive(Debug)]
struct Backwards(AtomicU64);

impl Clock for Backwards {
    fn now(&self) -> Timestamp {
        Timestamp(self.0.fetch_sub(1_000_000_000, Ordering::SeqCst))
    }
    fn monotonic(&self) -> Duration {
        Duration::ZERO
    }
    fn sleep(&self, _: Duration) {}
}

/// What is done, and what is told of it; without times.
fn told(clock: Arc<dyn Clock>) -> Vec<String> {
    let objects = Objects::open(crate::backend::kv(), clock, Arc::new(SeededRandom::new(7))).unwrap();
    objects.create_bucket("bucket").wait().unwrap();
    let mut told = Vec::new();
    for number in 0..5_u64 {
        for key in ["b", "a", "c"] {
            let info = put_with(&objects, key, &bytes(900, number), PutOptions::default()).unwrap();
            let if_match = Some(EtagMatch::parse(&info.etag.to_string()));
            let condition = PutCondition { if_match, if_version: Some(info.version), if_absent: false };
            let info = put_with(&objects, key, b"over", PutOptions { condition, ..PutOptions::default() }).unwrap();
            told.push(format!("{key} {}", info.etag));
        }
        let page = objects.list("bucket", &ListQuery::default()).unwrap();
        told.extend(page.objects.into_iter().map(|object| format!("{} {} {}", object.key, object.size, object.etag)));
    }
    objects.snapshot_bucket("bucket", "kept").wait().unwrap();
    told.push(format!("{:?}", objects.list("bucket@kept", &ListQuery::default()).unwrap().objects.len()));
    told
}

/// S-223.
#[test]
fn a_clock_that_goes_back_changes_no_order_and_no_condition() {
    const START: u64 = 1_700_000_000_000_000_000;
    assert_eq!(told(Arc::new(Backwards(AtomicU64::new(START)))), told(Arc::new(SimulatedClock::new(Timestamp(START)))));
}

/// S-243.
#[test]
fn the_order_is_that_of_bytes_also_where_a_delimiter_groups() {
    let objects = store();
    ["a0", "a/2", "a-b", "a/1"].into_iter().for_each(|key| drop(put(&objects, key, b"")));
    let mut query = ListQuery { limit: 1, delimiter: "/".to_owned(), ..ListQuery::default() };
    let mut seen = Vec::new();
    loop {
        let page = objects.list("bucket", &query).unwrap();
        seen.extend(page.objects.into_iter().map(|object| object.key));
        seen.extend(page.common_prefixes);
        query.after = page.next;
        if query.after.is_none() {
            break;
        }
    }
    assert_eq!(seen, ["a-b", "a/", "a0"]);
}

/// S-284.
#[test]
fn a_snapshot_is_read_by_the_rights_of_today() {
    let objects = store();
    group_of(&objects, "lab", &["ann"]);
    group_of(&objects, "office", &[]);
    let identities = objects.identities();
    let ann = user_of(&objects, "ann");
    objects.create_bucket("shared").wait().unwrap();
    identities.change_owner("shared", "root", Some("lab")).wait().unwrap();
    put_into(&objects, "shared", "key", b"kept").unwrap();
    objects.snapshot_bucket("shared", "then").wait().unwrap();
    assert_eq!(ann.get("shared@then", "key").unwrap().bytes(0, 9).unwrap(), &b"kept"[..]);
    identities.change_owner("shared", "root", Some("office")).wait().unwrap();
    assert_eq!(kind(ann.get("shared@then", "key").map(drop)), ErrorKind::AccessDenied);
    assert_eq!(kind(ann.list("shared@then", &ListQuery::default())), ErrorKind::AccessDenied);
}

/// S-120, its last column.
#[test]
fn an_access_list_stays_goes_with_bytes_or_is_dropped_as_the_table_says() {
    let objects = store();
    objects.create_bucket("other").wait().unwrap();
    let grants = vec![Grant { to: Grantee::EveryUser, rights: Grant::READ }];
    let (open, none) = (AccessList::new(grants).unwrap(), AccessList::default());
    let identities = objects.identities();
    identities.set_public_access(true).wait().unwrap();
    let list = |name| identities.object_access(name).unwrap();
    let opened = |key: &str| {
        put(&objects, key, b"bytes");
        identities.set_object_access(name(key), open.clone()).wait().unwrap();
    };
    opened("key");
    put(&objects, "key", b"a put over it");
    assert_eq!(list(name("key")), none);
    opened("key");
    append(&objects, "key", b"more");
    write_at(&objects, "key", 1, b"in place").unwrap();
    objects.truncate(name("key"), 3, EditOptions::default()).wait().unwrap();
    assert_eq!(list(name("key")), open);
    objects.copy(name("key"), name("copy"), CopyOptions::default()).wait().unwrap();
    assert_eq!((list(name("key")), list(name("copy"))), (open.clone(), none.clone()));
    objects.rename(name("key"), name("moved"), RenameOptions::default()).wait().unwrap();
    assert_eq!(list(name("moved")), open);
    objects.exchange(name("moved"), name("copy"), ExchangeOptions::default()).wait().unwrap();
    assert_eq!((list(name("moved")), list(name("copy"))), (none.clone(), open.clone()));
    objects.compose(&[Segment::whole(name("copy"))], name("composed"), ComposeOptions::default()).wait().unwrap();
    assert_eq!(list(name("composed")), none);
    let there = ObjectName::new("other", "key");
    objects.rename(name("copy"), there, RenameOptions::default()).wait().unwrap();
    assert_eq!(list(there), none);
}

/// S-120, its last row.
#[test]
fn a_snapshot_and_a_branch_have_what_is_known_of_objects_as_it_was() {
    let objects = store();
    let metadata = vec![("colour".to_owned(), "green".to_owned())];
    let put = put_with(&objects, "key", &bytes(90_000, 1), PutOptions { metadata, ..PutOptions::default() }).unwrap();
    objects.snapshot_bucket("bucket", "then").wait().unwrap();
    objects.branch_bucket("bucket", "branch").wait().unwrap();
    for bucket in ["bucket@then", "branch"] {
        let found = objects.head(bucket, "key").unwrap();
        assert_eq!((found.id, found.version, found.created), (put.id, put.version, put.created), "{bucket}");
        assert_eq!((found.modified, found.changed), (put.modified, put.changed), "{bucket}");
        assert_eq!((found.etag, found.metadata), (put.etag.clone(), put.metadata.clone()), "{bucket}");
        assert_ne!(objects.head_bucket(bucket).unwrap().space, objects.head_bucket("bucket").unwrap().space);
    }
}
