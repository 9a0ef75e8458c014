//! Metadata, tags, times and the like of objects that stand: what docs/semantics.md says of them.

use std::sync::Arc;
use std::time::Duration;

use koine_env::{SimulatedClock, Timestamp};
use koine_kv::RequestId;

use crate::support::{bytes, get, join, keys_in_bucket, kind, over_at, put, put_with, race, store};
use koine_object::{
    AttributeChange, ContentHeaders, CopiedMetadata, CopyOptions, EditOptions, ErrorKind, MetadataChange, ObjectInfo,
    ObjectName, Objects, PutCondition, PutOptions, Result,
};

fn name(key: &str) -> ObjectName<'_> {
    ObjectName::new("bucket", key)
}

fn set(objects: &Objects, key: &str, change: AttributeChange) -> Result<ObjectInfo> {
    objects.set_attributes(name(key), change, EditOptions::default()).wait()
}

fn pairs(pairs: &[(&str, &str)]) -> Vec<(String, String)> {
    pairs.iter().map(|(name, value)| ((*name).to_owned(), (*value).to_owned())).collect()
}

fn merge(set: &[(&str, &str)], remove: &[&str]) -> Option<MetadataChange> {
    Some(MetadataChange::Merge { set: pairs(set), remove: remove.iter().map(|name| (*name).to_owned()).collect() })
}

#[test]
fn attributes_change_by_themselves_and_nothing_else_does() {
    let clock = Arc::new(SimulatedClock::new(Timestamp(1_000)));
    let objects = over_at(crate::backend::kv(), Arc::clone(&clock));
    let joined = join(&objects, "joined", &[&bytes(5 << 20, 1), b"tail"]);
    let changes = [
        AttributeChange { metadata: merge(&[("a", "1"), ("b", "2")], &[]), ..AttributeChange::default() },
        AttributeChange { tags: merge(&[("t", "1")], &[]), ..AttributeChange::default() },
        AttributeChange { mode: Some(0o640), ..AttributeChange::default() },
        AttributeChange { posix_owner: Some((1000, 100)), ..AttributeChange::default() },
        AttributeChange {
            headers: Some(ContentHeaders { content_type: Some("a/b".into()), ..ContentHeaders::default() }),
            ..AttributeChange::default()
        },
        AttributeChange { metadata: merge(&[("b", "3"), ("c", "4")], &["a"]), ..AttributeChange::default() },
        AttributeChange { modified: Some(Timestamp(5)), ..AttributeChange::default() },
    ];
    let mut version = joined.version;
    for change in changes {
        clock.advance(Duration::from_nanos(10));
        let info = set(&objects, "joined", change).unwrap();
        assert_eq!((info.id, &info.etag, info.size, info.part_count), (joined.id, &joined.etag, joined.size, Some(2)));
        assert_eq!((info.created, &info.checksums), (joined.created, &joined.checksums));
        assert!(info.version > version && info.changed.0 > joined.changed.0);
        version = info.version;
        assert_eq!(objects.head("bucket", "joined").unwrap(), info);
    }
    let info = objects.head("bucket", "joined").unwrap();
    assert_eq!(info.metadata, pairs(&[("b", "3"), ("c", "4")]));
    assert_eq!(info.tags, pairs(&[("t", "1")]));
    assert_eq!((info.mode, info.posix_owner, info.modified), (0o640, Some((1000, 100)), Timestamp(5)));
    assert_eq!(info.headers.content_type.as_deref(), Some("a/b"));
    assert_eq!(objects.get("bucket", "joined").unwrap().parts().unwrap().len(), 2);
    assert_eq!(keys_in_bucket(&objects), 3);
    let replace = Some(MetadataChange::Replace(pairs(&[("only", "this")])));
    let info = set(&objects, "joined", AttributeChange { metadata: replace, ..AttributeChange::default() }).unwrap();
    assert_eq!(info.metadata, pairs(&[("only", "this")]));
}

#[test]
fn attributes_have_limits_and_a_change_past_them_changes_nothing() {
    let objects = store();
    assert_eq!(kind(set(&objects, "none", AttributeChange::default())), ErrorKind::NoSuchKey);
    let before = put(&objects, "key", b"body");
    let long = "x".repeat(2_049);
    let metadata = AttributeChange { metadata: merge(&[("a", &long)], &[]), ..AttributeChange::default() };
    assert_eq!(kind(set(&objects, "key", metadata)), ErrorKind::MetadataTooLarge);
    let tagged = |tags: Vec<(String, String)>| AttributeChange {
        tags: Some(MetadataChange::Replace(tags)),
        ..AttributeChange::default()
    };
    let many = |count: usize| (0..count).map(|number| (number.to_string(), "é".repeat(256))).collect::<Vec<_>>();
    let (name_long, value_long) = ("é".repeat(129), "é".repeat(257));
    for wrong in [
        many(11),
        pairs(&[(&name_long, "")]),
        pairs(&[("a", &value_long)]),
        pairs(&[("", "x")]),
        pairs(&[("a", "1"), ("a", "2")]),
    ] {
        assert_eq!(kind(set(&objects, "key", tagged(wrong.clone()))), ErrorKind::InvalidTag);
        let with_put = PutOptions { tags: wrong, ..PutOptions::default() };
        assert_eq!(kind(put_with(&objects, "key", b"other", with_put)), ErrorKind::InvalidTag);
    }
    assert_eq!(objects.head("bucket", "key").unwrap(), before);
    assert_eq!(set(&objects, "key", tagged(many(10))).unwrap().tags, many(10));
}

#[test]
fn changes_of_attributes_have_conditions_and_are_made_once() {
    let objects = store();
    let before = put(&objects, "key", b"body");
    let when = |condition| EditOptions { condition, ..EditOptions::default() };
    let mode = |mode| AttributeChange { mode: Some(mode), ..AttributeChange::default() };
    let set_when = |change, options| objects.set_attributes(name("key"), change, options).wait();
    let info = set_when(mode(1), when(PutCondition::version(before.version))).unwrap();
    assert_eq!(kind(set_when(mode(2), when(PutCondition::version(before.version)))), ErrorKind::PreconditionFailed);
    set_when(mode(3), when(PutCondition::etag(&info.etag))).unwrap();
    let request = || EditOptions { request: Some(RequestId([9; 16])), ..EditOptions::default() };
    set_when(mode(4), request()).unwrap();
    set_when(mode(5), EditOptions::default()).unwrap();
    assert_eq!(set_when(mode(4), request()).unwrap().mode, 5);
}

#[test]
fn of_64_threads_that_each_add_an_entry_all_succeed() {
    let objects = store();
    put(&objects, "key", b"body");
    for outcome in race(|number| {
        let (own, tag) = (format!("entry-{number:02}"), format!("tag-{}", number % 10));
        let change = AttributeChange {
            metadata: merge(&[(&own, "x")], &[]),
            tags: merge(&[(&tag, "y")], &[]),
            ..AttributeChange::default()
        };
        set(&objects, "key", change)
    }) {
        outcome.unwrap();
    }
    let mut info = objects.head("bucket", "key").unwrap();
    info.metadata.sort_unstable();
    info.tags.sort_unstable();
    assert!(info.metadata.iter().map(|(name, _)| name.clone()).eq((0..64).map(|number| format!("entry-{number:02}"))));
    assert_eq!(info.tags.len(), 10);
    assert_eq!(keys_in_bucket(&objects), 2);
}

#[test]
fn tags_go_with_puts_and_copies() {
    let objects = store();
    let tagged = PutOptions { tags: pairs(&[("t", "put")]), ..PutOptions::default() };
    assert_eq!(put_with(&objects, "key", b"body", tagged).unwrap().tags, pairs(&[("t", "put")]));
    let copy = |options| objects.copy(name("key"), name("copy"), options).wait().unwrap().tags;
    assert_eq!(copy(CopyOptions::default()), pairs(&[("t", "put")]));
    let replaced = CopiedMetadata::Replace { headers: ContentHeaders::default(), metadata: Vec::new() };
    assert_eq!(copy(CopyOptions { metadata: replaced, ..CopyOptions::default() }), pairs(&[("t", "put")]));
    assert_eq!(
        copy(CopyOptions { tags: Some(pairs(&[("t", "new")])), ..CopyOptions::default() }),
        pairs(&[("t", "new")])
    );
}

#[test]
fn what_is_there_exists() {
    let objects = store();
    put(&objects, "key", b"");
    assert!(objects.exists("bucket", "key").unwrap());
    assert!(!objects.exists("bucket", "ke").unwrap());
    assert_eq!(kind(objects.exists("missing", "key")), ErrorKind::NoSuchBucket);
    assert_eq!(kind(objects.exists("bucket", "")), ErrorKind::InvalidArgument);
    assert!(get(&objects, "key").unwrap().is_empty());
}
