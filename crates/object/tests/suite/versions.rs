//! Buckets that keep versions: what each call leaves behind, what is told of it, and that nothing else is left.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use koine_env::{Clock, Random, SeededRandom, Timestamp};
use koine_kv::{Direction, KeyRange, MemoryKv, MemoryOptions};
use koine_object::{
    AttributeChange, BucketChange, BucketUsage, ByteRange, CollectOptions, CompleteOptions, CopyOptions, DeleteOptions,
    Deleted, EditOptions, ErrorKind, ExchangeOptions, ListQuery, MetadataChange, ObjectName, Objects, PutCondition,
    PutOptions, ReadCondition, RenameOptions, Result, Segment, StageOptions, UploadOptions, VersionId, VersionQuery,
    VersionSummary, Versioning,
};

use crate::backend::{CASES, ROUNDS};
use crate::support::{
    append, append_with, bytes, finish, get, group_of, join, kind, kv_of, names, options, over, put, put_into,
    put_with, store, user_of, write_at,
};

fn name(key: &str) -> ObjectName<'_> {
    ObjectName::new("bucket", key)
}

/// A clock that also goes back.
#[derive(Debug)]
struct AnyClock(AtomicU64);

impl AnyClock {
    fn set(&self, time: u64) {
        self.0.store(time, Ordering::SeqCst);
    }
}

impl Clock for AnyClock {
    fn now(&self) -> Timestamp {
        Timestamp(self.0.load(Ordering::SeqCst))
    }

    fn monotonic(&self) -> Duration {
        Duration::ZERO
    }

    fn sleep(&self, _pause: Duration) {}
}

/// A store with one bucket, and its clock.
fn store_at(time: u64) -> (Objects, Arc<AnyClock>) {
    let clock = Arc::new(AnyClock(AtomicU64::new(time)));
    let objects = Objects::open(crate::backend::kv(), clock.clone(), Arc::new(SeededRandom::new(7))).unwrap();
    let objects = crate::backend::through(objects);
    objects.create_bucket("bucket").wait().unwrap();
    (objects, clock)
}

/// A store whose bucket keeps versions.
fn versioned() -> Objects {
    let objects = store();
    set(&objects, Versioning::Enabled);
    objects
}

fn set(objects: &Objects, versioning: Versioning) {
    objects.set_versioning("bucket", versioning).wait().unwrap();
}

fn delete(objects: &Objects, key: &str) -> Deleted {
    objects.delete("bucket", key, DeleteOptions::default()).wait().unwrap()
}

/// All versions of a bucket, by pages of `limit`.
fn walk(objects: &Objects, bucket: &str, limit: usize) -> Vec<VersionSummary> {
    let (mut told, mut query) = (Vec::new(), VersionQuery { limit, ..VersionQuery::default() });
    loop {
        let page = objects.list_versions(bucket, &query).unwrap();
        assert!(page.versions.len() <= limit);
        told.extend(page.versions);
        let Some((key, version)) = page.next else { return told };
        (query.key_after, query.version_after) = (Some(key), version);
    }
}

/// The versions of a name, newest first, with their bytes; `None` is a delete marker.
fn versions(objects: &Objects, key: &str) -> Vec<(VersionId, Option<Vec<u8>>)> {
    versions_in(objects, "bucket", key)
}

fn versions_in(objects: &Objects, bucket: &str, key: &str) -> Vec<(VersionId, Option<Vec<u8>>)> {
    let of_name = walk(objects, bucket, 1000).into_iter().filter(|version| version.key == key);
    let read = |version: VersionSummary| {
        let reader = objects.get_version(ObjectName::new(bucket, key), version.id);
        if version.object.is_none() {
            assert_eq!(kind(reader), ErrorKind::InvalidRequest, "a marker has no bytes");
            return (version.id, None);
        }
        let reader = reader.unwrap();
        assert_eq!(reader.info().version_id, version.id);
        assert_eq!(reader.info().size, version.object.unwrap().size);
        (version.id, Some(reader.bytes(0, usize::MAX).unwrap().to_vec()))
    };
    of_name.map(read).collect()
}

fn bodies(objects: &Objects, key: &str) -> Vec<Option<Vec<u8>>> {
    versions(objects, key).into_iter().map(|(_, body)| body).collect()
}

fn some(bodies: &[&[u8]]) -> Vec<Option<Vec<u8>>> {
    bodies.iter().map(|body| Some(body.to_vec())).collect()
}

/// Every record leads to bytes and, where it says so, to a table of parts, and nothing else is there; counts are those
/// of a scan; ids and order are as they have to be.
fn check(objects: &Objects, bucket: &str) {
    let space = objects.head_bucket(bucket).unwrap().space;
    let view = kv_of(objects).view().unwrap();
    let keys_of = |room: &[u8]| {
        let mut cursor = view.cursor(space, KeyRange::prefix(room.to_vec()), Direction::Forward).unwrap();
        let mut keys = BTreeSet::new();
        while let Some(entry) = cursor.next().unwrap() {
            keys.insert(entry.key[1..].to_vec());
        }
        keys
    };
    let (mut data, mut tables, mut usage) = (BTreeSet::new(), BTreeSet::new(), BucketUsage::default());
    let mut last: Option<VersionSummary> = None;
    let mut nulls = BTreeSet::new();
    for version in walk(objects, bucket, 7) {
        let first = last.as_ref().is_none_or(|last| last.key != version.key);
        assert_eq!(version.newest, first, "{version:?} after {last:?}");
        if let (false, Some(VersionId::Number(last)), VersionId::Number(this)) =
            (first, last.as_ref().map(|last| last.id), version.id)
        {
            assert!(last > this, "{version:?}");
        }
        if version.id == VersionId::Null {
            assert!(nulls.insert(version.key.clone()), "{:?} has two versions null", version.key);
        }
        match &version.object {
            None => usage.older += 1,
            Some(object) => {
                let reader = objects.get_version(ObjectName::new(bucket, &version.key), version.id).unwrap();
                assert!(data.insert(reader.info().id.0.to_be_bytes().to_vec()), "an id stands twice: {version:?}");
                assert_eq!(reader.bytes(0, usize::MAX).unwrap().len() as u64, object.size);
                if reader.info().part_count.is_some() {
                    tables.insert(reader.info().id.0.to_be_bytes().to_vec());
                    assert_eq!(reader.parts().unwrap().iter().map(|part| part.size).sum::<u64>(), object.size);
                }
                let (count, sum) = match version.newest {
                    true => (&mut usage.objects, &mut usage.bytes),
                    false => (&mut usage.older, &mut usage.older_bytes),
                };
                *count += 1;
                *sum += object.size;
            }
        }
        last = Some(version);
    }
    assert_eq!(data, keys_of(b"d"));
    assert_eq!(tables, keys_of(b"t"));
    assert_eq!(objects.bucket_usage(bucket).unwrap(), usage);
    let collected = crate::backend::below(objects).collect(&CollectOptions::default()).unwrap();
    assert_eq!(collected.found(), 0, "{collected:?}");
}

#[test]
fn a_bucket_keeps_one_object_a_name_or_all_or_the_old_ones() {
    let objects = store();
    let state = || objects.head_bucket("bucket").unwrap().versioning;
    assert_eq!(state(), Versioning::Never);
    set(&objects, Versioning::Never);
    put(&objects, "a", b"1");
    put(&objects, "a", b"2");
    assert_eq!(versions(&objects, "a"), [(VersionId::Null, Some(b"2".to_vec()))]);
    set(&objects, Versioning::Enabled);
    assert_eq!(state(), Versioning::Enabled);
    let (three, four) = (put(&objects, "a", b"3").version_id, put(&objects, "a", b"4").version_id);
    set(&objects, Versioning::Suspended);
    assert_eq!(state(), Versioning::Suspended);
    assert_eq!(put(&objects, "a", b"5").version_id, VersionId::Null);
    let ids: Vec<_> = versions(&objects, "a").into_iter().map(|(id, _)| id).collect();
    assert_eq!(ids, [VersionId::Null, four, three]);
    for versioning in [Versioning::Suspended, Versioning::Enabled] {
        set(&objects, versioning);
        let back = objects.set_versioning("bucket", Versioning::Never).wait();
        assert_eq!(kind(back), ErrorKind::InvalidRequest);
        assert_eq!(state(), versioning);
    }
    put(&objects, "a", b"6");
    assert_eq!(bodies(&objects, "a"), some(&[b"6", b"5", b"4", b"3"]));
    check(&objects, "bucket");
    assert_eq!(kind(objects.set_versioning("absent", Versioning::Enabled).wait()), ErrorKind::NoSuchBucket);
}

#[test]
fn version_ids_grow_also_where_the_clock_goes_back() {
    const HOUR: u64 = 3_600_000_000_000;
    let (objects, clock) = store_at(1_700_000_000_000_000_000);
    put(&objects, "a", b"null");
    set(&objects, Versioning::Enabled);
    let VersionId::Number(first) = put(&objects, "a", b"1").version_id else { panic!("it has no number") };
    assert_eq!(first, 1_700_000_000_000_000_001, "one more than that of what it replaced");
    clock.set(1_700_000_000_000_000_000 - HOUR);
    assert_eq!(put(&objects, "a", b"2").version_id, VersionId::Number(first + 1));
    assert_eq!(delete(&objects, "a").version, Some(VersionId::Number(first + 2)));
    assert_eq!(put(&objects, "a", b"3").version_id, VersionId::Number(first + 3));
    clock.set(first + HOUR);
    let last = put(&objects, "a", b"4").version_id;
    assert_eq!(last, VersionId::Number(first + HOUR));
    assert_eq!(last.to_string().parse::<VersionId>().unwrap(), last);
    assert_eq!(last.to_string().len(), 16);
    assert_eq!("null".parse::<VersionId>().unwrap(), VersionId::Null);
    for wrong in ["", "1", "0x00000000000000", "Null", "00000000000000001", "+000000000000001"] {
        assert_eq!(kind(wrong.parse::<VersionId>()), ErrorKind::InvalidArgument, "{wrong}");
    }
    let ids = |bucket: &str| walk(&objects, bucket, 9).into_iter().map(|version| version.id).collect::<Vec<_>>();
    objects.branch_bucket("bucket", "branch").wait().unwrap();
    assert_eq!(ids("branch"), ids("bucket"));
    check(&objects, "bucket");
}

#[test]
fn a_deleted_name_is_absent_until_its_marker_is_deleted() {
    let objects = versioned();
    let first = put(&objects, "a", b"1").version_id;
    put(&objects, "a", b"2");
    let Deleted { existed: true, marker: true, version: Some(marker) } = delete(&objects, "a") else { panic!() };
    assert_eq!(kind(get(&objects, "a")), ErrorKind::NoSuchKey);
    assert!(!objects.exists("bucket", "a").unwrap());
    assert!(names(&objects).is_empty());
    assert_eq!(kind(objects.head_version(name("a"), marker)), ErrorKind::InvalidRequest);
    assert_eq!(kind(objects.truncate(name("a"), 0, EditOptions::default()).wait()), ErrorKind::NoSuchKey);
    check(&objects, "bucket");
    assert_eq!(
        objects.delete_version(name("a"), marker).wait().unwrap(),
        Deleted { existed: true, marker: true, version: Some(marker) }
    );
    assert_eq!(get(&objects, "a").unwrap(), b"2");
    check(&objects, "bucket");
    objects.delete_version(name("a"), objects.head("bucket", "a").unwrap().version_id).wait().unwrap();
    assert_eq!(get(&objects, "a").unwrap(), b"1");
    objects.delete_version(name("a"), first).wait().unwrap();
    assert_eq!(versions(&objects, "a"), []);
    assert_eq!(kind(objects.delete_version(name("a"), first).wait()), ErrorKind::NoSuchVersion);
    assert_eq!(kind(objects.get_version(name("a"), VersionId::Null)), ErrorKind::NoSuchVersion);
    // What is absent gets a marker too, and another.
    assert!(!delete(&objects, "b").existed);
    delete(&objects, "b");
    assert_eq!(bodies(&objects, "b"), [None, None]);
    let put_absent = PutOptions { condition: PutCondition::absent(), ..PutOptions::default() };
    put_with(&objects, "b", b"new", put_absent.clone()).unwrap();
    assert_eq!(kind(put_with(&objects, "b", b"newer", put_absent)), ErrorKind::PreconditionFailed);
    // A marker in the midst goes without bringing anything up.
    let middle = versions(&objects, "b")[1].0;
    objects.delete_version(name("b"), middle).wait().unwrap();
    assert_eq!(bodies(&objects, "b"), [Some(b"new".to_vec()), None]);
    // Under the newest is a marker: the name is absent then.
    objects.delete_version(name("b"), versions(&objects, "b")[0].0).wait().unwrap();
    assert_eq!(kind(get(&objects, "b")), ErrorKind::NoSuchKey);
    check(&objects, "bucket");
}

#[test]
fn without_versions_a_version_is_deleted_as_an_object_is() {
    let objects = store();
    join(&objects, "a", &[b"joined"]);
    assert_eq!(objects.head("bucket", "a").unwrap().version_id, VersionId::Null);
    assert_eq!(objects.get_version(name("a"), VersionId::Null).unwrap().bytes(0, 6).unwrap(), "joined");
    assert_eq!(kind(objects.get_version(name("a"), VersionId::Number(1))), ErrorKind::NoSuchVersion);
    objects.delete_version(name("a"), VersionId::Null).wait().unwrap();
    assert_eq!(delete(&objects, "a"), Deleted { existed: false, marker: false, version: None });
    check(&objects, "bucket");
    assert_eq!(crate::support::keys_in_bucket(&objects), 0);
}

#[test]
fn a_suspended_bucket_has_one_version_null_a_name() {
    let objects = versioned();
    let first = put(&objects, "a", b"v1").version_id;
    set(&objects, Versioning::Suspended);
    put(&objects, "a", b"2");
    put(&objects, "a", b"3");
    assert_eq!(versions(&objects, "a"), [(VersionId::Null, Some(b"3".to_vec())), (first, Some(b"v1".to_vec()))]);
    assert_eq!(delete(&objects, "a").version, Some(VersionId::Null));
    assert_eq!(versions(&objects, "a"), [(VersionId::Null, None), (first, Some(b"v1".to_vec()))]);
    delete(&objects, "a");
    assert_eq!(bodies(&objects, "a"), [None, Some(b"v1".to_vec())]);
    check(&objects, "bucket");
    put(&objects, "a", b"4");
    append(&objects, "a", b"5");
    assert_eq!(bodies(&objects, "a"), some(&[b"45", b"v1"]));
    set(&objects, Versioning::Enabled);
    put(&objects, "a", b"6");
    put(&objects, "a", b"7");
    // The version null stands in the midst now, and still there is one of it.
    set(&objects, Versioning::Suspended);
    append(&objects, "a", b"8");
    assert_eq!(bodies(&objects, "a"), some(&[b"78", b"7", b"6", b"v1"]));
    assert_eq!(objects.head("bucket", "a").unwrap().version_id, VersionId::Null);
    check(&objects, "bucket");
    assert_eq!(delete(&objects, "never there").version, Some(VersionId::Null));
    objects.delete_version(name("never there"), VersionId::Null).wait().unwrap();
    check(&objects, "bucket");
}

#[test]
fn an_edit_or_a_move_leaves_the_old_version_readable() {
    const PIECE: usize = 100_000;
    let objects = versioned();
    let mut wanted = bytes(PIECE * 4, 1);
    let before = join(&objects, "a", &[&wanted]);
    let mut all = vec![Some(wanted.clone())];
    for seed in 0..10 {
        let piece = bytes(PIECE, 10 + seed);
        append(&objects, "a", &piece);
        wanted.extend(piece);
        all.insert(0, Some(wanted.clone()));
    }
    assert!(versions(&objects, "a").into_iter().map(|(_, body)| body).eq(all.iter().cloned()));
    let now = objects.head("bucket", "a").unwrap();
    assert_eq!((now.id, now.created), (before.id, before.created));
    let oldest = objects.get_version(name("a"), before.version_id).unwrap();
    assert_ne!(oldest.info().id, before.id);
    assert_eq!((oldest.info().etag.clone(), oldest.parts().unwrap().len()), (before.etag, 1));
    check(&objects, "bucket");
    write_at(&objects, "a", 7, b"seven").unwrap();
    objects.truncate(name("a"), 9, EditOptions::default()).wait().unwrap();
    objects
        .write_copy(name("a"), koine_object::ByteRange { offset: 7, length: 2 }, name("a"), 0, EditOptions::default())
        .wait()
        .unwrap();
    assert_eq!(versions(&objects, "a").len(), 14);
    assert_eq!(&get(&objects, "a").unwrap()[..2], b"se");
    // A move: the object keeps its id, and the old name its versions.
    let moved = objects.rename(name("a"), name("b"), RenameOptions::default()).wait().unwrap();
    assert_eq!(moved.id, before.id);
    assert_eq!(kind(get(&objects, "a")), ErrorKind::NoSuchKey);
    assert_eq!(versions(&objects, "a").len(), 15);
    assert_eq!(bodies(&objects, "a")[1], bodies(&objects, "b")[0]);
    check(&objects, "bucket");
}

#[test]
fn moves_and_exchanges_between_any_two_buckets_keep_what_each_keeps() {
    let states = [Versioning::Never, Versioning::Enabled, Versioning::Suspended];
    let objects = store();
    objects.create_bucket("other").wait().unwrap();
    for (round, (one, other)) in states.iter().flat_map(|one| states.map(|other| (*one, other))).enumerate() {
        for (bucket, state) in [("bucket", one), ("other", other)] {
            objects.purge_bucket(bucket).wait().unwrap();
            objects.delete_bucket(bucket).wait().unwrap();
            objects.create_bucket(bucket).wait().unwrap();
            objects.set_versioning(bucket, state).wait().unwrap();
        }
        join(&objects, "a", &[b"joined"]);
        put_into(&objects, "other", "b", b"b").unwrap();
        let (a, b) = (name("a"), ObjectName::new("other", "b"));
        objects.exchange(a, b, ExchangeOptions::default()).wait().unwrap();
        let told = |count: usize, keeps| if keeps == Versioning::Enabled { count } else { 1 };
        assert_eq!(versions_in(&objects, "bucket", "a").len(), told(2, one), "{round}");
        assert_eq!(versions_in(&objects, "other", "b").len(), told(2, other), "{round}");
        assert_eq!(get(&objects, "a").unwrap(), b"b");
        assert_eq!(objects.get("other", "b").unwrap().parts().unwrap().len(), 1);
        check(&objects, "bucket");
        check(&objects, "other");
        objects.rename(b, a, RenameOptions::default()).wait().unwrap();
        assert_eq!(objects.get("bucket", "a").unwrap().parts().unwrap().len(), 1);
        assert_eq!(bodies(&objects, "a")[0], Some(b"joined".to_vec()));
        let left = match other {
            Versioning::Never => 0,
            Versioning::Enabled => 3,
            Versioning::Suspended => 1,
        };
        assert_eq!(versions_in(&objects, "other", "b").len(), left, "{round}");
        check(&objects, "bucket");
        check(&objects, "other");
    }
}

#[test]
fn attributes_are_changed_without_a_new_version() {
    let objects = versioned();
    put(&objects, "a", b"1");
    let before = put(&objects, "a", b"2");
    let tags = Some(MetadataChange::Replace(vec![("k".into(), "v".into())]));
    let change = AttributeChange { tags, ..AttributeChange::default() };
    let after = objects.set_attributes(name("a"), change, EditOptions::default()).wait().unwrap();
    assert_eq!(after.version_id, before.version_id);
    assert_ne!(after.version, before.version);
    assert_eq!(bodies(&objects, "a"), some(&[b"2", b"1"]));
    check(&objects, "bucket");
}

#[test]
fn versions_are_told_by_name_then_newest_first_on_pages_of_any_length() {
    let objects = versioned();
    for round in 0..3 {
        for key in ["a", "a/b", "a/c", "a0", "b"] {
            put(&objects, key, format!("{key} {round}").as_bytes());
        }
    }
    delete(&objects, "a/b");
    delete(&objects, "gone");
    set(&objects, Versioning::Suspended);
    put(&objects, "a0", b"null");
    put(&objects, "null alone", b"null");
    set(&objects, Versioning::Enabled);
    put(&objects, "a0", b"more");
    let whole = walk(&objects, "bucket", 1000);
    let keys: Vec<_> = whole.iter().map(|version| version.key.as_str()).collect();
    let wanted = [("a", 3), ("a/b", 4), ("a/c", 3), ("a0", 5), ("b", 3), ("gone", 1), ("null alone", 1)];
    assert!(keys.iter().copied().eq(wanted.iter().flat_map(|(key, count)| std::iter::repeat_n(*key, *count))));
    for limit in 1..8 {
        assert_eq!(walk(&objects, "bucket", limit), whole, "{limit}");
    }
    let query = VersionQuery { prefix: "a".into(), delimiter: "/".into(), limit: 1, ..VersionQuery::default() };
    let (mut told, mut query) = (Vec::new(), query);
    loop {
        let page = objects.list_versions("bucket", &query).unwrap();
        assert_eq!(page.versions.len() + page.common_prefixes.len(), 1);
        told.extend(page.versions.into_iter().map(|version| version.key));
        told.extend(page.common_prefixes);
        let Some((key, version)) = page.next else { break };
        (query.key_after, query.version_after) = (Some(key), version);
    }
    assert_eq!(told, ["a", "a", "a", "a/", "a0", "a0", "a0", "a0", "a0"]);
    // After a version that is gone; after any version of a name.
    let third = whole[2].id;
    objects.delete_version(name("a"), third).wait().unwrap();
    let after = |version| {
        let query =
            VersionQuery { key_after: Some("a".into()), version_after: version, limit: 1, ..Default::default() };
        objects.list_versions("bucket", &query).unwrap().versions.remove(0).key
    };
    assert_eq!(after(Some(third)), "a/b");
    assert_eq!(after(None), "a/b");
    assert_eq!(after(Some(whole[0].id)), "a");
    assert!(objects.list_versions("bucket", &VersionQuery::default()).unwrap().versions.is_empty());
    // A bucket with a version or marker is not empty.
    let ordinary = ["a", "a/c", "a0", "b", "null alone"];
    assert_eq!(names(&objects), ordinary);
    objects.delete_many("bucket", &ordinary.map(str::to_owned)).wait().unwrap();
    assert!(names(&objects).is_empty());
    assert_eq!(kind(objects.delete_bucket("bucket").wait()), ErrorKind::BucketNotEmpty);
    check(&objects, "bucket");
    for version in walk(&objects, "bucket", 1000) {
        objects.delete_version(name(&version.key), version.id).wait().unwrap();
    }
    check(&objects, "bucket");
    objects.delete_bucket("bucket").wait().unwrap();
}

#[test]
fn in_a_full_store_versions_are_deleted_and_markers_need_room() {
    let options = MemoryOptions { capacity: Some(1 << 20), ..MemoryOptions::default() };
    let objects = over(Arc::new(MemoryKv::new(options)));
    set(&objects, Versioning::Enabled);
    let first = put(&objects, "a", &bytes(500_000, 1)).version_id;
    put(&objects, "a", &bytes(400_000, 2));
    let mut rest = 100_000;
    while rest > 0 {
        if put_with(&objects, "fill", &bytes(rest, 3), PutOptions::default()).is_err() {
            rest /= 2;
        }
    }
    assert_eq!(kind(put_with(&objects, "more", &bytes(400_000, 2), PutOptions::default())), ErrorKind::Full);
    objects.delete_version(name("a"), first).wait().unwrap();
    put(&objects, "more", &bytes(400_000, 2));
    check(&objects, "bucket");
}

#[test]
fn every_way_to_put_over_and_to_delete_keeps_what_was_there() {
    let objects = versioned();
    let first = put(&objects, "a", b"1");
    put(&objects, "source", b"copied");
    objects.copy(name("source"), name("a"), CopyOptions::default()).wait().unwrap();
    join(&objects, "a", &[b"joined"]);
    let sources = [Segment::whole(name("a")), Segment::whole(name("source"))];
    objects.compose(&sources, name("a"), Default::default()).wait().unwrap();
    let mut file = objects.open_file(name("a"), koine_object::FileMode::ReadWrite, PutOptions::default()).unwrap();
    std::io::Write::write_all(&mut file, b"J").unwrap();
    file.close().unwrap();
    let staged = |body: &[u8]| {
        let mut writer = objects.stage(StageOptions::default()).unwrap();
        writer.write(body).unwrap();
        writer.finish(&koine_object::Expected::none()).unwrap()
    };
    let (two, three) = (staged(b"two"), staged(b"three"));
    let (left, _) = objects
        .transact(None, |txn| {
            txn.put(name("a"), &two, &PutOptions::default())?;
            txn.put(name("a"), &three, &PutOptions::default())?;
            let deleted = txn.delete(name("a"), &DeleteOptions::default())?;
            assert!(txn.head(name("a"))?.is_none());
            txn.delete_version(name("a"), deleted.version.unwrap())?;
            assert_eq!(txn.head(name("a"))?.unwrap().size, 5);
            txn.delete(name("a"), &DeleteOptions::default())
        })
        .unwrap();
    let wanted = [b"three".as_slice(), b"two", b"Joinedcopied", b"joinedcopied", b"joined", b"copied", b"1"];
    let mut told = bodies(&objects, "a");
    assert_eq!(told.remove(0), None);
    assert_eq!(told, some(&wanted));
    assert_eq!(versions(&objects, "a")[0].0, left.version.unwrap());
    assert_eq!(versions(&objects, "a")[7].0, first.version_id);
    check(&objects, "bucket");
    // Many in one commit, one of them twice.
    put(&objects, "b", b"1");
    let keys = ["b", "absent", "b", ""].map(str::to_owned);
    let outcomes = objects.delete_many("bucket", &keys).wait().unwrap();
    let told: Vec<_> =
        outcomes.iter().map(|outcome| outcome.as_ref().map(|told| (told.existed, told.marker))).collect();
    assert!(told[3].is_err());
    let told: Vec<_> = told.into_iter().flatten().collect();
    assert_eq!(told, [(true, true), (false, true), (true, true)]);
    check(&objects, "bucket");
}

#[test]
fn what_is_copied_or_composed_may_be_an_older_version() {
    let objects = versioned();
    let first = put_with(&objects, "a", b"first", options(koine_object::ChecksumAlgorithm::Crc32)).unwrap();
    put(&objects, "a", b"second");
    let copy = |source_version| CopyOptions { source_version, ..CopyOptions::default() };
    assert_eq!(kind(objects.copy(name("a"), name("a"), copy(None)).wait()), ErrorKind::InvalidRequest);
    let again = objects.copy(name("a"), name("a"), copy(Some(first.version_id))).wait().unwrap();
    assert_eq!((again.etag, again.checksums), (first.etag, first.checksums));
    assert_eq!(bodies(&objects, "a"), some(&[b"first", b"second", b"first"]));
    let marker = delete(&objects, "a").version;
    let with_checksum =
        CopyOptions { checksum: Some(koine_object::ChecksumAlgorithm::Sha256), ..copy(Some(first.version_id)) };
    objects.copy(name("a"), name("b"), with_checksum).wait().unwrap();
    assert_eq!(get(&objects, "b").unwrap(), b"first");
    assert_eq!(kind(objects.copy(name("a"), name("b"), copy(marker)).wait()), ErrorKind::InvalidRequest);
    let absent = copy(Some(VersionId::Number(5)));
    assert_eq!(kind(objects.copy(name("a"), name("b"), absent).wait()), ErrorKind::NoSuchVersion);
    let segment = |version| Segment { version, ..Segment::whole(name("a")) };
    let second = versions(&objects, "a")[2].0;
    let sources = [segment(Some(second)), segment(Some(first.version_id))];
    objects.compose(&sources, name("c"), Default::default()).wait().unwrap();
    assert_eq!(get(&objects, "c").unwrap(), b"secondfirst");
    assert_eq!(kind(objects.compose(&[segment(None)], name("c"), Default::default()).wait()), ErrorKind::NoSuchKey);
    check(&objects, "bucket");
}

#[test]
fn a_part_is_copied_from_the_version_that_is_named() {
    let objects = versioned();
    let first = put(&objects, "a", b"old bytes").version_id;
    put(&objects, "a", b"new");
    let upload = objects.create_upload("bucket", "joined", UploadOptions::default()).wait().unwrap();
    let (always, id) = (ReadCondition::default(), upload);
    let copy = |version, range, number| {
        objects.copy_part_of_version((name("a"), version), range, &always, name("joined"), id, number).wait()
    };
    assert_eq!(copy(first, Some(ByteRange { offset: 4, length: 5 }), 1).unwrap().size, 5);
    let newest = objects.head("bucket", "a").unwrap().version_id;
    assert_eq!(copy(newest, None, 1).unwrap().size, 3);
    assert_eq!(copy(first, None, 1).unwrap().size, 9);
    assert_eq!(kind(copy(VersionId::Number(1), None, 2)), ErrorKind::NoSuchVersion);
    assert_eq!(kind(copy(first, Some(ByteRange { offset: 5, length: 5 }), 2)), ErrorKind::InvalidRange);
    let marker = delete(&objects, "a").version.unwrap();
    assert_eq!(kind(copy(marker, None, 2)), ErrorKind::InvalidRequest);
    objects.delete_version(name("a"), first).wait().unwrap();
    let options = CompleteOptions { all_parts: true, ..CompleteOptions::default() };
    objects.complete_upload(name("joined"), id, options).wait().unwrap();
    assert_eq!(get(&objects, "joined").unwrap(), b"old bytes");
    check(&objects, "bucket");
}

#[test]
fn prefixes_snapshots_branches_and_restored_buckets_have_their_versions() {
    let objects = versioned();
    for body in [b"1", b"2"] {
        put(&objects, "d/a", body);
        put(&objects, "d/b", body);
    }
    delete(&objects, "d/b");
    let before = (versions(&objects, "d/a"), versions(&objects, "d/b"));
    objects.rename_prefix("bucket", "d/", "longer/").wait().unwrap();
    assert_eq!((versions(&objects, "longer/a"), versions(&objects, "longer/b")), before);
    assert_eq!(versions(&objects, "d/a"), []);
    // Where only markers are, something is.
    delete(&objects, "d/x");
    let there = objects.rename_prefix("bucket", "longer/", "d/").wait();
    assert_eq!(kind(there), ErrorKind::AlreadyExists);
    objects.snapshot_bucket("bucket", "s").wait().unwrap();
    objects.branch_bucket("bucket@s", "branch").wait().unwrap();
    assert_eq!(objects.head_bucket("branch").unwrap().versioning, Versioning::Enabled);
    put(&objects, "longer/a", b"3");
    assert_eq!(versions_in(&objects, "bucket@s", "longer/a"), before.0);
    assert_eq!(versions_in(&objects, "branch", "longer/a"), before.0);
    put_into(&objects, "branch", "longer/a", b"4").unwrap();
    check(&objects, "branch");
    let snapshot = ObjectName::new("bucket@s", "longer/a");
    assert_eq!(kind(objects.delete_version(snapshot, before.0[0].0).wait()), ErrorKind::ReadOnly);
    let copied = objects.copy_prefix(name("longer/"), name("copy/"), Default::default()).unwrap();
    assert_eq!(copied.objects, 1);
    assert_eq!(bodies(&objects, "copy/a"), some(&[b"3"]));
    check(&objects, "bucket");
    objects.restore_bucket("bucket", "s").wait().unwrap();
    assert_eq!(versions(&objects, "longer/a"), before.0);
    assert_eq!(objects.head_bucket("bucket").unwrap().versioning, Versioning::Enabled);
    objects.purge_bucket("bucket").wait().unwrap();
    assert!(walk(&objects, "bucket", 9).is_empty());
    assert_eq!(objects.head_bucket("bucket").unwrap().versioning, Versioning::Enabled);
    check(&objects, "bucket");
}

#[test]
fn a_listing_passes_over_any_number_of_older_versions() {
    let objects = versioned();
    for round in 0..40 {
        for key in ["a", "b", "c"] {
            put(&objects, key, format!("{round}").as_bytes());
        }
    }
    delete(&objects, "b");
    assert_eq!(names(&objects), ["a", "c"]);
    let query = ListQuery { limit: 1, ..ListQuery::default() };
    let page = objects.list("bucket", &query).unwrap();
    assert_eq!((page.objects[0].key.as_str(), page.next.as_deref()), ("a", Some("a")));
    let page = objects.list("bucket", &ListQuery { after: page.next, ..query }).unwrap();
    assert_eq!((page.objects[0].key.as_str(), page.next), ("c", None));
}

#[test]
fn quotas_hold_for_older_versions_and_never_for_deleting() {
    let objects = versioned();
    let quota = BucketChange { quota_bytes: Some(Some(10)), quota_objects: Some(Some(3)), ..BucketChange::default() };
    objects.set_bucket("bucket", quota).wait().unwrap();
    put(&objects, "a", b"12345");
    put(&objects, "a", b"1234");
    assert_eq!(kind(put_with(&objects, "a", b"12", PutOptions::default())), ErrorKind::QuotaExceeded);
    put(&objects, "a", b"1");
    assert_eq!(kind(put_with(&objects, "a", b"", PutOptions::default())), ErrorKind::QuotaExceeded);
    let delete_marker = delete(&objects, "a").version.unwrap();
    objects.delete_version(name("a"), delete_marker).wait().unwrap();
    let usage = objects.bucket_usage("bucket").unwrap();
    assert_eq!((usage.objects, usage.bytes, usage.older, usage.older_bytes), (1, 1, 2, 9));
    check(&objects, "bucket");
}

#[test]
fn versions_have_rights_of_their_own() {
    let objects = versioned();
    group_of(&objects, "lab", &["ann", "bob"]);
    objects.identities().change_owner("bucket", "ann", Some("lab")).wait().unwrap();
    let first = put(&objects, "a", b"1").version_id;
    put(&objects, "a", b"2");
    objects.identities().create_group("out", "").wait().unwrap();
    objects.identities().create_user("out", "eve", None).unwrap();
    let (bob, eve) = (user_of(&objects, "bob"), user_of(&objects, "eve"));
    assert_eq!(bob.get_version(name("a"), first).unwrap().bytes(0, 9).unwrap(), "1");
    assert_eq!(walk(&bob, "bucket", 9).len(), 2);
    assert_eq!(kind(bob.set_versioning("bucket", Versioning::Suspended).wait()), ErrorKind::AccessDenied);
    user_of(&objects, "ann").set_versioning("bucket", Versioning::Suspended).wait().unwrap();
    let policy = r#"{"Version": "2012-10-17", "Statement": [
        {"Effect": "Allow", "Principal": {"AWS": "arn:aws:iam:::user/eve"}, "Action": ["s3:GetObject"], "Resource": "arn:aws:s3:::bucket/*"},
        {"Effect": "Deny", "Principal": {"AWS": "arn:aws:iam:::user/bob"}, "Action": "s3:DeleteObjectVersion", "Resource": "arn:aws:s3:::bucket/*"},
        {"Effect": "Deny", "Principal": {"AWS": "arn:aws:iam:::user/bob"}, "Action": "s3:GetObjectVersion", "Resource": "arn:aws:s3:::bucket/*",
         "Condition": {"StringEquals": {"s3:VersionId": "ID"}}}]}"#;
    let policy = policy.replace("ID", &first.to_string());
    objects.identities().set_bucket_policy("bucket", Some(&policy)).wait().unwrap();
    assert_eq!(get(&eve, "a").unwrap(), b"2");
    assert_eq!(kind(eve.get_version(name("a"), first)), ErrorKind::AccessDenied);
    eve.create_bucket("eves").wait().unwrap();
    let to = ObjectName::new("eves", "joined");
    let upload = eve.create_upload(to.bucket, to.key, UploadOptions::default()).wait().unwrap();
    let from = (name("a"), first);
    let part = eve.copy_part_of_version(from, None, &ReadCondition::default(), to, upload, 1);
    assert_eq!(kind(part.wait()), ErrorKind::AccessDenied);
    assert_eq!(
        kind(eve.list_versions("bucket", &VersionQuery { limit: 1, ..Default::default() })),
        ErrorKind::AccessDenied
    );
    assert_eq!(kind(bob.delete_version(name("a"), first).wait()), ErrorKind::AccessDenied);
    assert_eq!(kind(bob.get_version(name("a"), first)), ErrorKind::AccessDenied);
    assert_eq!(bob.get_version(name("a"), objects.head("bucket", "a").unwrap().version_id).unwrap().info().size, 1);
}

/// What a name has, oldest first.
type Model = BTreeMap<String, Vec<(VersionId, Option<Vec<u8>>)>>;

/// A bucket and what should be in it.
struct Compared {
    objects: Objects,
    random: SeededRandom,
    state: Versioning,
    model: Model,
}

impl Compared {
    fn below(&self, count: u64) -> u64 {
        self.random.next_u64() % count
    }

    fn newest(&self, key: &str) -> Option<Vec<u8>> {
        self.model.get(key).and_then(|versions| versions.last()).and_then(|(_, body)| body.clone())
    }

    /// What a change of a name leaves of it; the id is the one that was told.
    fn changed(&mut self, key: &str, id: Option<VersionId>, body: Option<Vec<u8>>) {
        let versions = self.model.entry(key.to_owned()).or_default();
        match self.state {
            Versioning::Never => {
                versions.clear();
                assert!(id.is_none_or(|id| id == VersionId::Null));
                versions.extend(body.map(|body| (VersionId::Null, Some(body))));
            }
            Versioning::Enabled => {
                let numbers = versions.iter().map(|(id, _)| *id).max();
                assert!(id > numbers, "{id:?} after {numbers:?}");
                versions.push((id.unwrap(), body));
            }
            Versioning::Suspended => {
                assert_eq!(id, Some(VersionId::Null));
                versions.retain(|(id, _)| *id != VersionId::Null);
                versions.push((VersionId::Null, body));
            }
        }
    }

    /// One random call, here and in the model.
    fn step(&mut self) {
        let (one, two) = (format!("k{}", self.below(3)), format!("k{}", self.below(3)));
        let body = bytes([0, 1, 2000][self.below(3) as usize], self.random.next_u64());
        let (a, b) = (name(&one), name(&two));
        match self.below(12) {
            0..3 => {
                let info = put(&self.objects, &one, &body);
                self.changed(&one, Some(info.version_id), Some(body));
            }
            3 => {
                let deleted = delete(&self.objects, &one);
                assert_eq!(deleted.existed, self.newest(&one).is_some());
                assert_eq!(deleted.marker, self.state != Versioning::Never);
                self.changed(&one, deleted.version, None);
            }
            4 | 5 if !body.is_empty() => {
                let info = append(&self.objects, &one, &body);
                let whole = [self.newest(&one).unwrap_or_default(), body].concat();
                self.changed(&one, Some(info.version_id), Some(whole));
            }
            6 => match self.objects.rename(a, b, RenameOptions::default()).wait() {
                Err(error) => assert_eq!((error.kind(), self.newest(&one)), (ErrorKind::NoSuchKey, None)),
                Ok(_) if one == two => {}
                Ok(info) => {
                    let whole = self.newest(&one);
                    let marker = versions(&self.objects, &one).first().map(|(id, _)| *id);
                    self.changed(&one, marker, None);
                    self.changed(&two, Some(info.version_id), whole);
                }
            },
            7 => match self.objects.exchange(a, b, ExchangeOptions::default()).wait() {
                Err(error) => assert_eq!(error.kind(), ErrorKind::NoSuchKey),
                Ok(_) if one == two => {}
                Ok((left, right)) => {
                    let (of_one, of_two) = (self.newest(&one), self.newest(&two));
                    self.changed(&one, Some(left.version_id), of_two);
                    self.changed(&two, Some(right.version_id), of_one);
                }
            },
            8 | 9 => {
                let there = self.model.get(&one).cloned().unwrap_or_default();
                if let Some((id, body)) = there.get(self.below(1 + there.len() as u64) as usize) {
                    let deleted = self.objects.delete_version(a, *id).wait().unwrap();
                    assert_eq!((deleted.marker, deleted.version), (body.is_none(), Some(*id)));
                    self.model.get_mut(&one).unwrap().retain(|(known, _)| known != id);
                } else {
                    let absent = self.objects.delete_version(a, VersionId::Number(77)).wait();
                    assert_eq!(kind(absent), ErrorKind::NoSuchVersion);
                }
            }
            10 => match self.objects.copy(a, b, CopyOptions::default()).wait() {
                Err(_) => assert!(one == two || self.newest(&one).is_none()),
                Ok(info) => self.changed(&two, Some(info.version_id), self.newest(&one)),
            },
            11 => {
                self.state = [Versioning::Enabled, Versioning::Suspended][self.below(2) as usize];
                set(&self.objects, self.state);
            }
            _ => {}
        }
    }

    fn compare(&self) {
        for key in ["k0", "k1", "k2"] {
            let mut wanted = self.model.get(key).cloned().unwrap_or_default();
            wanted.reverse();
            assert!(versions(&self.objects, key) == wanted, "{key}");
            assert_eq!(get(&self.objects, key).ok(), self.newest(key));
        }
        let there: Vec<_> = self.model.keys().filter(|key| self.newest(key).is_some()).cloned().collect();
        assert_eq!(names(&self.objects), there);
        check(&self.objects, "bucket");
    }
}

#[test]
fn versions_are_those_of_a_simple_model() {
    for case in 0..u64::from(CASES) {
        let (objects, clock) = store_at(1_000 + case);
        let random = SeededRandom::new(case);
        let mut compared = Compared { objects, random, state: Versioning::Never, model: Model::new() };
        for step in 0..40 {
            // It stands still, goes on, and goes back.
            clock.set(1_000 + compared.below(60));
            compared.step();
            if step % 4 == 3 {
                compared.compare();
            }
        }
    }
}

/// One random call of many threads; what is refused changes nothing.
fn any_call(objects: &Objects, random: &SeededRandom) -> Result<()> {
    let below = |count: u64| random.next_u64() % count;
    let (one, two) = (format!("k{}", below(4)), format!("k{}", below(4)));
    let (a, b) = (name(&one), name(&two));
    match below(11) {
        0..2 => put_with(objects, &one, &bytes(below(3000) as usize, 1), PutOptions::default()).map(drop),
        2 => objects.delete("bucket", &one, DeleteOptions::default()).wait().map(drop),
        3 => append_with(objects, &one, b"more", EditOptions::default()).map(drop),
        4 => finish(objects.write_at(a, below(100), EditOptions::default()), b"in").map(drop),
        5 => objects.rename(a, b, RenameOptions::default()).wait().map(drop),
        6 => objects.exchange(a, b, ExchangeOptions::default()).wait().map(drop),
        7 => objects.delete_many("bucket", &[one, two]).wait().map(drop),
        8 => {
            let versioning = [Versioning::Enabled, Versioning::Enabled, Versioning::Suspended][below(3) as usize];
            if below(10) == 0 { objects.set_versioning("bucket", versioning).wait() } else { Ok(()) }
        }
        _ => {
            let query = VersionQuery { prefix: one.clone(), limit: 30, ..VersionQuery::default() };
            let there = objects.list_versions("bucket", &query)?.versions;
            match there.get(below(1 + there.len() as u64) as usize) {
                Some(version) => objects.delete_version(a, version.id).wait().map(drop),
                None => Ok(()),
            }
        }
    }
}

#[test]
fn eight_writers_at_once_leave_versions_that_belong_together() {
    let objects = store();
    std::thread::scope(|scope| {
        for thread in 0..8 {
            let objects = &objects;
            scope.spawn(move || {
                let random = SeededRandom::new(thread);
                for _ in 0..20 * ROUNDS {
                    if let Err(error) = any_call(objects, &random) {
                        let expected = [ErrorKind::NoSuchKey, ErrorKind::NoSuchVersion, ErrorKind::Conflict];
                        assert!(expected.contains(&error.kind()), "{error:?}");
                    }
                }
            });
        }
    });
    check(&objects, "bucket");
}

#[test]
fn of_many_puts_at_once_each_is_a_version() {
    let objects = versioned();
    let ids = crate::support::race(|racer| put(&objects, "a", &[racer as u8]).version_id);
    let told: BTreeSet<_> = versions(&objects, "a").into_iter().map(|(id, _)| id).collect();
    assert_eq!(told, ids.into_iter().collect());
    assert_eq!(told.len(), crate::support::RACERS);
    check(&objects, "bucket");
}
