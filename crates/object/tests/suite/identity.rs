//! What becomes of an object's identity, times, ETag and attributes: the table of docs/semantics.md, row by row.

use std::sync::Arc;
use std::time::Duration;

use koine_env::{SimulatedClock, Timestamp};

use crate::support::{append, bytes, join, over_at, put, put_with, write_at};
use koine_object::{AttributeChange, ComposeOptions, ETag, ObjectInfo, ObjectName, Objects, PutOptions, Segment};

const STEP: u64 = 1_000;

fn name(key: &str) -> ObjectName<'_> {
    ObjectName::new("bucket", key)
}

/// What a column of the table says.
#[derive(Clone, Copy, Debug, PartialEq)]
enum Is {
    Kept,
    New,
}

/// A row: what is done to `key`, which gives the object that is looked at then.
struct Row<'a> {
    what: &'a str,
    does: Box<dyn Fn(&str) -> ObjectInfo + 'a>,
    id: Is,
    created: Is,
    modified: Is,
    etag: Is,
    /// Headers, user metadata, tags, mode and numeric owner.
    attributes: Is,
}

fn attributes(info: &ObjectInfo) -> impl PartialEq + std::fmt::Debug {
    (info.headers.clone(), info.metadata.clone(), info.tags.clone(), info.mode, info.posix_owner)
}

fn check(row: &Row<'_>, key: &str, before: &ObjectInfo, after: &ObjectInfo, now: Timestamp) {
    let what = format!("{} of {key}", row.what);
    assert!(after.version > before.version, "{what}");
    assert_eq!(after.changed, now, "{what}");
    let column = |is: Is, kept: bool, new: bool| match is {
        Is::Kept => assert!(kept, "{what}: {before:?} became {after:?}"),
        Is::New => assert!(new && !kept, "{what}: {before:?} became {after:?}"),
    };
    column(row.id, after.id == before.id, true);
    column(row.created, after.created == before.created, after.created == now);
    column(row.modified, after.modified == before.modified, after.modified == now);
    column(row.etag, after.etag == before.etag, true);
    column(row.attributes, attributes(after) == attributes(before), true);
}

fn make(objects: &Objects, made: &str, key: &str) -> ObjectInfo {
    match made {
        "joined" => drop(join(objects, key, &[&bytes(5 << 20, 1), b"tail"])),
        _ => drop(put(objects, key, b"whole")),
    }
    if made == "edited" {
        append(objects, key, b"more");
    }
    let pair = vec![("name".to_owned(), "value".to_owned())];
    let change = AttributeChange {
        metadata: Some(koine_object::MetadataChange::Replace(pair.clone())),
        tags: Some(koine_object::MetadataChange::Replace(pair)),
        mode: Some(0o640),
        posix_owner: Some((1, 2)),
        modified: Some(Timestamp(7)),
        ..AttributeChange::default()
    };
    objects.set_attributes(name(key), change, Default::default()).wait().unwrap()
}

#[test]
fn the_table_of_identity_holds_for_objects_put_joined_and_edited() {
    use Is::{Kept, New};
    let clock = Arc::new(SimulatedClock::new(Timestamp(STEP)));
    let objects = over_at(crate::backend::kv(), Arc::clone(&clock));
    objects.create_bucket("other").wait().unwrap();
    let elsewhere = ObjectName::new("other", "moved");
    type Does<'a> = Box<dyn Fn(&str) -> ObjectInfo + 'a>;
    fn replacing<'a>(what: &'a str, does: Does<'a>) -> Row<'a> {
        Row { what, does, id: New, created: New, modified: New, etag: New, attributes: New }
    }
    fn edit<'a>(what: &'a str, does: Does<'a>) -> Row<'a> {
        Row { what, does, id: Kept, created: Kept, modified: New, etag: New, attributes: Kept }
    }
    fn by_name<'a>(what: &'a str, id: Is, does: Does<'a>) -> Row<'a> {
        Row { what, does, id, created: Kept, modified: Kept, etag: Kept, attributes: Kept }
    }
    let o = &objects;
    let rename = move |key: &str, to| o.rename(name(key), to, Default::default()).wait().unwrap();
    let swap = move |key: &str, other| o.exchange(name(key), other, Default::default()).wait().unwrap().1;
    let compose = move |key: &str| {
        let sources = [Segment::whole(name(key)), Segment::whole(name(key))];
        o.compose(&sources, name(key), ComposeOptions::default()).wait().unwrap()
    };
    let touch = move |key: &str| {
        let touch = AttributeChange { modified: Some(Timestamp(7)), ..AttributeChange::default() };
        o.set_attributes(name(key), touch, Default::default()).wait().unwrap()
    };
    let copy = move |key: &str| o.copy(name(key), name("copy"), Default::default()).wait().unwrap();
    let rows = [
        replacing("put", Box::new(move |key| put_with(o, key, b"other", PutOptions::default()).unwrap())),
        replacing("completion", Box::new(move |key| join(o, key, &[b"part"]))),
        replacing("composition", Box::new(compose)),
        Row { etag: Kept, attributes: Kept, ..replacing("copy", Box::new(copy)) },
        edit("write", Box::new(move |key| write_at(o, key, 1, b"x").unwrap())),
        edit("append", Box::new(move |key| append(o, key, b"x"))),
        edit("truncate", Box::new(move |key| o.truncate(name(key), 3, Default::default()).wait().unwrap())),
        by_name("move", Kept, Box::new(move |key| rename(key, name("moved")))),
        by_name("move away", New, Box::new(move |key| rename(key, elsewhere))),
        by_name("exchange", Kept, Box::new(move |key| swap(key, name("beside")))),
        by_name("exchange away", New, Box::new(move |key| swap(key, elsewhere))),
        by_name("touch", Kept, Box::new(touch)),
    ];
    put(&objects, "beside", b"beside");
    for row in rows {
        for made in ["whole", "joined", "edited"] {
            clock.advance(Duration::from_nanos(STEP));
            let before = make(&objects, made, made);
            assert_eq!(matches!(before.etag, ETag::Drawn(id, _) if id == before.id), made != "joined");
            clock.advance(Duration::from_nanos(STEP));
            let after = (row.does)(made);
            check(&row, made, &before, &after, Timestamp(before.changed.0 + STEP));
        }
    }
}

#[test]
fn a_read_leaves_everything_as_it_is() {
    let objects = crate::support::store();
    let before = make(&objects, "whole", "key");
    crate::support::get(&objects, "key").unwrap();
    assert_eq!(objects.head("bucket", "key").unwrap(), before);
}
