//! Moves and exchanges: what docs/semantics.md says of them.

use std::thread;

use crate::backend::ROUNDS;
use crate::support::{bytes, get, join, keys_in_bucket, kind, names, put, store};
use koine_kv::RequestId;
use koine_object::{
    ErrorKind, EtagMatch, ExchangeOptions, ListQuery, ObjectInfo, ObjectName, Objects, PutCondition, ReadCondition,
    RenameOptions, Result,
};

fn name(key: &str) -> ObjectName<'_> {
    ObjectName::new("bucket", key)
}

fn rename(objects: &Objects, from: &str, to: &str) -> Result<ObjectInfo> {
    objects.rename(name(from), name(to), RenameOptions::default()).wait()
}

fn request(number: u8) -> Option<RequestId> {
    Some(RequestId([number; 16]))
}

/// What a move leaves as it was.
fn kept(info: &ObjectInfo) -> ObjectInfo {
    ObjectInfo { key: String::new(), version: Default::default(), changed: info.modified, ..info.clone() }
}

#[test]
fn a_move_within_a_bucket_keeps_the_object_and_replaces_the_target() {
    let objects = store();
    for length in [0, 10, 300_000] {
        let body = bytes(length, 1);
        let source = put(&objects, "source", &body);
        let target = put(&objects, "target", b"replaced");
        let moved = rename(&objects, "source", "target").unwrap();
        assert_eq!(kept(&moved), kept(&source));
        assert_eq!((moved.id, moved.key.as_str()), (source.id, "target"));
        assert!(moved.version > target.version);
        assert_eq!(objects.head("bucket", "target").unwrap(), moved);
        assert_eq!(get(&objects, "target").unwrap(), body);
        assert_eq!(kind(get(&objects, "source")), ErrorKind::NoSuchKey);
        assert_eq!(keys_in_bucket(&objects), 2);
    }
}

#[test]
fn a_move_between_buckets_takes_bytes_and_parts_along_under_a_new_id() {
    let objects = store();
    objects.create_bucket("other").wait().unwrap();
    let there = ObjectName::new("other", "there");
    put(&objects, "whole", &bytes(100_000, 1));
    objects.copy(name("whole"), there, Default::default()).wait().unwrap();
    let joined = join(&objects, "joined", &[&bytes(5 << 20, 2), b"tail"]);
    let moved = objects.rename(name("joined"), there, RenameOptions::default()).wait().unwrap();
    assert_ne!(moved.id, joined.id);
    assert_eq!(kept(&ObjectInfo { id: joined.id, ..moved.clone() }), kept(&joined));
    let reader = objects.get("other", "there").unwrap();
    assert_eq!(reader.parts().unwrap().len(), 2);
    assert_eq!(reader.bytes(0, usize::MAX).unwrap(), [bytes(5 << 20, 2), b"tail".to_vec()].concat());
    assert_eq!(keys_in_bucket(&objects), 2);
    objects.delete("other", "there", Default::default()).wait().unwrap();
    objects.delete_bucket("other").wait().unwrap();
}

#[test]
fn conditions_of_a_move_hold_and_onto_itself_it_changes_nothing() {
    let objects = store();
    let source = put(&objects, "source", b"source");
    put(&objects, "target", b"target");
    let absent = RenameOptions { condition: PutCondition::absent(), ..RenameOptions::default() };
    let move_if = |to, options| objects.rename(name("source"), name(to), options).wait();
    assert_eq!(kind(move_if("target", absent.clone())), ErrorKind::PreconditionFailed);
    let other = ReadCondition { if_match: Some(EtagMatch::parse("other")), ..ReadCondition::default() };
    let of_source = RenameOptions { source_condition: other, ..RenameOptions::default() };
    assert_eq!(kind(move_if("fresh", of_source)), ErrorKind::PreconditionFailed);
    assert_eq!(kind(rename(&objects, "missing", "target")), ErrorKind::NoSuchKey);
    assert_eq!(kind(rename(&objects, "missing", "missing")), ErrorKind::NoSuchKey);
    assert_eq!(kind(rename(&objects, "source", "")), ErrorKind::InvalidArgument);
    assert_eq!(rename(&objects, "source", "source").unwrap(), source);
    assert_eq!(objects.head("bucket", "source").unwrap(), source);
    assert_eq!(get(&objects, "target").unwrap(), b"target");
    move_if("fresh", absent).unwrap();
    assert_eq!(names(&objects), ["fresh", "target"]);
}

#[test]
fn a_move_that_is_repeated_learns_that_it_was_made() {
    let objects = store();
    put(&objects, "source", b"source");
    let options = RenameOptions { request: request(1), condition: PutCondition::absent(), ..RenameOptions::default() };
    let again = || objects.rename(name("source"), name("target"), options.clone()).wait();
    let first = again().unwrap();
    assert_eq!(again().unwrap(), first);
    // Also when something else stands at both names by then, which stays as it is.
    put(&objects, "source", b"new source");
    put(&objects, "target", b"new target");
    assert_eq!(again().unwrap(), objects.head("bucket", "target").unwrap());
    rename(&objects, "source", "elsewhere").unwrap();
    assert_eq!(again().unwrap(), objects.head("bucket", "target").unwrap());
    assert_eq!(get(&objects, "target").unwrap(), b"new target");
    assert_eq!(kind(rename(&objects, "source", "target")), ErrorKind::NoSuchKey);
}

#[test]
fn an_exchange_swaps_names_within_a_bucket_and_between_two() {
    let objects = store();
    objects.create_bucket("other").wait().unwrap();
    let joined = join(&objects, "joined", &[&bytes(5 << 20, 2), b"tail"]);
    let whole = put(&objects, "whole", b"whole");
    let exchange = |one, other| objects.exchange(one, other, ExchangeOptions::default()).wait();
    let (one, other) = exchange(name("joined"), name("whole")).unwrap();
    assert_eq!((one.id, other.id), (whole.id, joined.id));
    assert_eq!((kept(&one), kept(&other)), (kept(&whole), kept(&joined)));
    assert_eq!(get(&objects, "joined").unwrap(), b"whole");
    assert_eq!(objects.get("bucket", "whole").unwrap().parts().unwrap().len(), 2);
    assert_eq!(keys_in_bucket(&objects), 5);

    let there = ObjectName::new("other", "there");
    objects.copy(name("joined"), there, Default::default()).wait().unwrap();
    let (here, there_now) = exchange(name("whole"), there).unwrap();
    assert_eq!((here.etag, there_now.etag), (whole.etag, joined.etag));
    assert_eq!(get(&objects, "whole").unwrap(), b"whole");
    assert_eq!(objects.get("other", "there").unwrap().parts().unwrap().len(), 2);
    assert_eq!(objects.get("other", "there").unwrap().bytes(5 << 20, 9).unwrap(), &b"tail"[..]);
    assert_eq!(keys_in_bucket(&objects), 4);

    let before = objects.head("bucket", "whole").unwrap();
    assert_eq!(exchange(name("whole"), name("whole")).unwrap(), (before.clone(), before));
    assert_eq!(kind(exchange(name("whole"), name("missing"))), ErrorKind::NoSuchKey);
    assert_eq!(kind(exchange(name("missing"), name("whole"))), ErrorKind::NoSuchKey);
}

#[test]
fn an_exchange_that_is_repeated_does_not_swap_back() {
    let objects = store();
    put(&objects, "a", b"first");
    put(&objects, "b", b"second");
    let again = || objects.exchange(name("a"), name("b"), ExchangeOptions { request: request(2) }).wait().unwrap();
    let first = again();
    assert_eq!(again(), first);
    assert_eq!(get(&objects, "a").unwrap(), b"second");
    put(&objects, "a", b"third");
    assert_eq!(again().0.size, 5);
    assert_eq!((get(&objects, "a").unwrap(), get(&objects, "b").unwrap()), (b"third".to_vec(), b"first".to_vec()));
    assert_eq!(keys_in_bucket(&objects), 4);
}

/// Runs `change` on one thread while another lists the bucket again and again.
fn beside_a_listing(objects: &Objects, change: impl Fn() + Send, look: impl Fn(Vec<(String, String)>)) {
    thread::scope(|scope| {
        let changing = scope.spawn(move || (0..ROUNDS * 50).for_each(|_| change()));
        loop {
            let done = changing.is_finished();
            let query = ListQuery { limit: 10, ..ListQuery::default() };
            let page = objects.list("bucket", &query).unwrap();
            look(page.objects.into_iter().map(|object| (object.key, object.etag.to_string())).collect());
            if done {
                break;
            }
        }
    });
}

#[test]
fn a_listing_sees_a_moved_object_under_exactly_one_name() {
    let objects = store();
    let info = put(&objects, "a", b"body");
    let there_and_back = || {
        rename(&objects, "a", "b").unwrap();
        rename(&objects, "b", "a").unwrap();
    };
    beside_a_listing(&objects, there_and_back, |page| {
        assert_eq!(page.len(), 1, "{page:?}");
        assert_eq!(page[0].1, info.etag.to_string());
    });
    assert_eq!(objects.head("bucket", "a").unwrap().id, info.id);
}

#[test]
fn a_view_never_sees_one_content_under_both_of_two_names_that_are_exchanged() {
    let objects = store();
    put(&objects, "a", b"first");
    put(&objects, "b", b"second");
    let exchange = || drop(objects.exchange(name("a"), name("b"), ExchangeOptions::default()).wait().unwrap());
    beside_a_listing(&objects, exchange, |page| {
        assert_eq!(page.len(), 2);
        assert_ne!(page[0].1, page[1].1);
    });
    assert_eq!(get(&objects, "a").unwrap(), b"first");
    assert_eq!(keys_in_bucket(&objects), 4);
}
