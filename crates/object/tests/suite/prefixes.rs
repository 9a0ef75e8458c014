//! Moving and copying prefixes: what docs/semantics.md says of them.

use std::thread;

use crate::support::{bytes, get, keys_in_bucket, kind, names, put, store};
use koine_object::{COPY_PREFIX_BATCH, CopyPrefixOptions, ErrorKind, ListQuery, ObjectName, Objects, PutCondition};

fn name(key: &str) -> ObjectName<'_> {
    ObjectName::new("bucket", key)
}

fn fill(objects: &Objects, prefix: &str, count: usize) {
    (0..count).for_each(|number| drop(put(objects, &format!("{prefix}{number:05}"), number.to_string().as_bytes())));
}

#[test]
fn a_prefix_is_moved_in_one_commit_and_its_objects_stay_as_they_are() {
    let objects = store();
    fill(&objects, "from/", 20);
    put(&objects, "from", b"beside");
    put(&objects, "from0", b"after");
    put(&objects, "from/00003/below", &bytes(100_000, 1));
    let before = objects.head("bucket", "from/00007").unwrap();
    objects.rename_prefix("bucket", "from/", "the/target/").wait().unwrap();
    let after = objects.head("bucket", "the/target/00007").unwrap();
    assert_eq!((after.id, after.changed, &after.etag), (before.id, before.changed, &before.etag));
    assert_eq!(get(&objects, "the/target/00003/below").unwrap(), bytes(100_000, 1));
    let told = names(&objects);
    assert_eq!(told.len(), 23);
    assert_eq!(told[..2], ["from", "from0"]);
    assert!(told[2..].iter().all(|name| name.starts_with("the/target/")));
    assert_eq!(keys_in_bucket(&objects), 46);
}

#[test]
fn a_prefix_goes_only_where_nothing_is_and_names_fit() {
    let objects = store();
    let rename = |from: &str, to: &str| objects.rename_prefix("bucket", from, to).wait();
    fill(&objects, "a/", 3);
    put(&objects, "b/there", b"");
    assert_eq!(kind(rename("a/", "b/")), ErrorKind::AlreadyExists);
    for (from, to) in [("a/", "a/b/"), ("a/b/", "a/"), ("a/", "a/"), ("", "x/"), ("a/", "")] {
        assert_eq!(kind(rename(from, to)), ErrorKind::InvalidRequest, "{from} {to}");
    }
    assert_eq!(kind(rename("a/", &"x".repeat(1_020))), ErrorKind::KeyTooLong);
    assert_eq!(kind(objects.rename_prefix("missing", "a/", "c/").wait()), ErrorKind::NoSuchBucket);
    // Where nothing is nothing happens, so that a repeat is none.
    rename("nothing/", "b/").unwrap();
    rename("a/", "c/").unwrap();
    rename("a/", "c/").unwrap();
    assert_eq!(names(&objects), ["b/there", "c/00000", "c/00001", "c/00002"]);
}

#[test]
fn a_listing_beside_a_moved_prefix_sees_all_old_or_all_new() {
    let objects = store();
    const COUNT: usize = 300;
    fill(&objects, "a/", COUNT);
    thread::scope(|scope| {
        let moving = scope.spawn(|| {
            for _ in 0..10 {
                objects.rename_prefix("bucket", "a/", "b/").wait().unwrap();
                objects.rename_prefix("bucket", "b/", "a/").wait().unwrap();
            }
        });
        while !moving.is_finished() {
            let query = ListQuery { limit: 2 * COUNT, ..ListQuery::default() };
            let page = objects.list("bucket", &query).unwrap();
            assert_eq!(page.objects.len(), COUNT);
            let under_a = page.objects.iter().filter(|object| object.key.starts_with("a/")).count();
            assert!(under_a == 0 || under_a == COUNT, "{under_a} of {COUNT}");
        }
    });
}

#[test]
fn a_put_beside_a_moved_prefix_is_moved_or_stays_and_is_never_lost() {
    let objects = store();
    fill(&objects, "a/", 3);
    thread::scope(|scope| {
        let putting = scope.spawn(|| {
            for number in 0..100 {
                put(&objects, &format!("a/put-{number:03}"), b"");
                put(&objects, &format!("b-{number:03}"), b"");
            }
        });
        while !putting.is_finished() {
            objects.rename_prefix("bucket", "a/", "b/").wait().unwrap();
            // What was put since is in the way.
            match objects.rename_prefix("bucket", "b/", "a/").wait() {
                Ok(()) => {}
                Err(error) => {
                    assert_eq!(error.kind(), ErrorKind::AlreadyExists);
                    break;
                }
            }
        }
    });
    let told = names(&objects);
    assert_eq!(told.len(), 203);
    let put: Vec<_> = told.iter().filter_map(|name| name.split_once("/put-").map(|(_, number)| number)).collect();
    assert_eq!(put.len(), 100);
    assert_eq!(keys_in_bucket(&objects), 406);
}

#[test]
fn a_prefix_is_copied_in_batches_that_go_on_after_the_last_key() {
    let objects = store();
    objects.create_bucket("other").wait().unwrap();
    let count = COPY_PREFIX_BATCH + 5;
    fill(&objects, "a/", count);
    put(&objects, "b", b"not under it");
    let to = ObjectName::new("other", "copied/");
    let mut options = CopyPrefixOptions::default();
    let first = objects.copy_prefix(name("a/"), to, options.clone()).unwrap();
    assert_eq!(first.objects, COPY_PREFIX_BATCH as u64);
    assert_eq!(first.next, Some(format!("a/{:05}", COPY_PREFIX_BATCH - 1)));
    options.after = first.next;
    let second = objects.copy_prefix(name("a/"), to, options.clone()).unwrap();
    assert_eq!((second.objects, second.next), (5, None));
    let query = ListQuery { limit: usize::MAX, ..ListQuery::default() };
    let page = objects.list("other", &query).unwrap();
    assert_eq!(page.objects.len(), count);
    let last = objects.get("other", &format!("copied/{:05}", count - 1)).unwrap();
    assert_eq!(last.bytes(0, 10).unwrap(), (count - 1).to_string().as_bytes());
    options.after = Some("a/99999".into());
    assert_eq!(objects.copy_prefix(name("a/"), to, options).unwrap().objects, 0);
}

#[test]
fn a_copied_prefix_replaces_or_is_refused_whole() {
    let objects = store();
    fill(&objects, "a/", 3);
    put(&objects, "b/00001", &bytes(100_000, 1));
    let absent = CopyPrefixOptions { condition: PutCondition::absent(), after: None };
    let refused = objects.copy_prefix(name("a/"), name("b/"), absent);
    assert_eq!(kind(refused), ErrorKind::PreconditionFailed);
    assert_eq!(names(&objects).len(), 4);
    assert_eq!(objects.copy_prefix(name("a/"), name("b/"), Default::default()).unwrap().objects, 3);
    assert_eq!(get(&objects, "b/00001").unwrap(), b"1");
    assert_eq!(keys_in_bucket(&objects), 12);
    assert_eq!(kind(objects.copy_prefix(name("a/"), name("a/b/"), Default::default())), ErrorKind::InvalidRequest);
    let long = "x".repeat(1_020);
    assert_eq!(kind(objects.copy_prefix(name("a/"), name(&long), Default::default())), ErrorKind::KeyTooLong);
    assert_eq!(keys_in_bucket(&objects), 12);
}
