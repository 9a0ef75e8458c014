//! Many calls in one commit: what docs/semantics.md says of transactions.

use std::sync::Barrier;
use std::thread;

use crate::backend::ROUNDS;
use crate::support::{bytes, get, here, keys_in_bucket, kind, kv_of, names, put, store};
use koine_kv::RequestId;
use koine_object::{
    AttributeChange, ByteRange, ComposeOptions, CopyOptions, DeleteOptions, EditOptions, ErrorKind, Expected,
    ListQuery, MetadataChange, ObjectName, Objects, PutCondition, PutOptions, RenameOptions, Result, Segment,
    StageOptions, StagedBody, TRANSACTION_CHANGES_MAX, Transaction,
};

fn name(key: &str) -> ObjectName<'_> {
    ObjectName::new("bucket", key)
}

fn staged(objects: &Objects, body: &[u8]) -> StagedBody {
    let mut writer = objects.stage(StageOptions::default()).unwrap();
    writer.write(body).unwrap();
    writer.finish(&Expected::none()).unwrap()
}

fn all(limit: usize) -> ListQuery {
    ListQuery { limit, ..ListQuery::default() }
}

#[test]
fn calls_of_every_kind_are_one_commit_and_see_each_other() {
    let objects = store();
    objects.create_bucket("other").wait().unwrap();
    let large = bytes(3_000_000, 1);
    for key in ["moved", "copied", "one", "two", "edited", "gone"] {
        put(&objects, key, key.as_bytes());
    }
    let (small, large_body, tail) = (staged(&objects, b"new"), staged(&objects, &large), staged(&objects, b"-tail"));
    let there = ObjectName::new("other", "there");
    let edit = EditOptions::default();
    let (told, commit) = objects
        .transact(None, |txn| {
            txn.put(name("small"), &small, &PutOptions::default())?;
            txn.put(name("large"), &large_body, &PutOptions::default())?;
            txn.append(name("edited"), &tail, &edit)?;
            txn.truncate(name("two"), 2, &edit)?;
            txn.rename(name("moved"), name("small/moved"), &RenameOptions::default())?;
            txn.copy(name("copied"), there, &CopyOptions::default())?;
            txn.exchange(name("one"), name("two"))?;
            txn.compose(
                &[Segment::whole(name("one")), Segment::whole(name("edited"))],
                name("whole"),
                &ComposeOptions::default(),
            )?;
            let set = vec![("a".to_owned(), "b".to_owned())];
            let metadata = Some(MetadataChange::Merge { set, remove: Vec::new() });
            txn.set_attributes(name("one"), AttributeChange { metadata, ..AttributeChange::default() }, &edit)?;
            assert!(txn.delete(name("gone"), &DeleteOptions::default())?.existed);
            assert!(!txn.delete(name("gone"), &DeleteOptions::default())?.existed);
            assert!(txn.head(name("gone"))?.is_none());
            let page = txn.list("bucket", &all(100))?;
            let names: Vec<String> = page.objects.iter().map(|object| object.key.clone()).collect();
            Ok((names, txn.head(name("large"))?.unwrap().size, txn.head(there)?.unwrap().size))
        })
        .unwrap();
    assert_eq!(told.0, ["copied", "edited", "large", "one", "small", "small/moved", "two", "whole"]);
    assert_eq!((told.1, told.2), (3_000_000, 6));
    assert!(!commit.repeated);
    for (key, body) in [
        ("small", &b"new"[..]),
        ("large", &large),
        ("edited", b"edited-tail"),
        ("one", b"tw"),
        ("two", b"one"),
        ("whole", b"twedited-tail"),
        ("small/moved", b"moved"),
    ] {
        assert_eq!(get(&objects, key).unwrap(), body, "{key}");
        let info = objects.head("bucket", key).unwrap();
        assert_eq!(info.version, commit.version, "{key}");
    }
    assert_eq!(objects.head("bucket", "one").unwrap().metadata, [("a".to_owned(), "b".to_owned())]);
    assert_eq!(names(&objects), told.0);
}

#[test]
fn what_fails_changes_nothing_and_the_body_may_go_on() {
    let objects = store();
    put(&objects, "there", b"old");
    let before = keys_in_bucket(&objects);
    let body = staged(&objects, b"new");
    let failed = objects.transact(None, |txn| {
        txn.put(name("fresh"), &body, &PutOptions::default())?;
        let options = PutOptions { condition: PutCondition::absent(), ..PutOptions::default() };
        txn.put(name("there"), &body, &options)
    });
    assert_eq!(kind(failed), ErrorKind::PreconditionFailed);
    assert_eq!((keys_in_bucket(&objects), names(&objects)), (before, vec!["there".to_owned()]));
    let (caught, _) = objects
        .transact(None, |txn| {
            txn.put(name("fresh"), &body, &PutOptions::default())?;
            let caught = txn.truncate(name("absent"), 0, &EditOptions::default());
            Ok(kind(caught))
        })
        .unwrap();
    assert_eq!(caught, ErrorKind::NoSuchKey);
    assert_eq!(names(&objects), ["fresh", "there"]);
}

#[test]
fn bytes_and_keys_are_read_and_changed_together() {
    let objects = here(crate::backend::kv());
    put(&objects, "a", b"0123456789");
    let space = objects.head_bucket("bucket").unwrap().space;
    let (read, _) = objects
        .transact(None, |txn| {
            let middle = txn.read(name("a"), ByteRange { offset: 3, length: 4 })?;
            let end = txn.read(name("a"), ByteRange { offset: 8, length: 100 })?;
            let past = txn.read(name("a"), ByteRange { offset: 50, length: 1 })?;
            // A key beside those of objects, in the same commit.
            txn.keys()?.put(space, &b"zz"[..], koine_kv::Bytes::from_static(b"7"));
            txn.delete(name("a"), &DeleteOptions::default())?;
            Ok((middle, end, past))
        })
        .unwrap();
    assert_eq!((&read.0[..], &read.1[..], &read.2[..]), (&b"3456"[..], &b"89"[..], &b""[..]));
    let view = kv_of(&objects).view().unwrap();
    assert_eq!(view.bytes(space, b"zz", 0, 10).unwrap(), b"7"[..]);
    assert_eq!(kind(objects.head("bucket", "a")), ErrorKind::NoSuchKey);
}

#[test]
fn a_transaction_that_only_reads_commits_nothing_and_sees_one_version() {
    let objects = store();
    put(&objects, "a", b"1");
    let (told, commit) = objects
        .transact(None, |txn| {
            let first = txn.head(name("a"))?.unwrap().version;
            // Somebody else changes it meanwhile.
            put(&objects, "a", b"22");
            let info = txn.head(name("a"))?.unwrap();
            Ok((first, info.version, info.size))
        })
        .unwrap();
    assert_eq!((told.0, told.2), (told.1, 1));
    assert!(commit.version < objects.head("bucket", "a").unwrap().version);
}

#[test]
fn a_sum_over_two_objects_is_kept_by_all_who_move_parts_of_it() {
    let objects = store();
    put(&objects, "a", &[1; 50]);
    put(&objects, "b", &[1; 50]);
    let sizes = |txn: &mut Transaction<'_>| -> Result<(u64, u64)> {
        let size = |info: Option<koine_object::ObjectInfo>| info.map_or(0, |info| info.size);
        Ok((size(txn.head(name("a"))?), size(txn.head(name("b"))?)))
    };
    thread::scope(|scope| {
        for writer in 0..4_u64 {
            let objects = &objects;
            scope.spawn(move || {
                for round in 0..ROUNDS as u64 {
                    // One byte goes from one to the other; by another door in between, of both together.
                    let (from, to) = if (writer + round) % 2 == 0 { ("a", "b") } else { ("b", "a") };
                    let moved = objects.transact(None, |txn| {
                        let (a, b) = sizes(txn)?;
                        assert_eq!(a + b, 100);
                        let has = if from == "a" { a } else { b };
                        if has == 0 {
                            return Ok(());
                        }
                        let range = ByteRange { offset: has - 1, length: 1 };
                        let at = 100 - has;
                        txn.write_copy(name(from), range, name(to), at, &EditOptions::default())?;
                        txn.truncate(name(from), has - 1, &EditOptions::default())
                    });
                    match moved {
                        Ok(_) => {}
                        Err(error) => assert_eq!(error.kind(), ErrorKind::Busy, "{error}"),
                    }
                }
            });
        }
    });
    let ((a, b), _) = objects.transact(None, sizes).unwrap();
    assert_eq!(a + b, 100);
}

#[test]
fn nobody_slips_into_a_range_that_was_listed() {
    let objects = store();
    const MOST: usize = 10;
    let barrier = Barrier::new(8);
    thread::scope(|scope| {
        for writer in 0..8 {
            let (objects, barrier) = (&objects, &barrier);
            scope.spawn(move || {
                barrier.wait();
                for round in 0..4 {
                    let body = staged(objects, b"x");
                    let key = format!("few/{writer}-{round}");
                    let query = ListQuery { prefix: "few/".to_owned(), ..all(100) };
                    let outcome = objects.transact(None, |txn| {
                        if txn.list("bucket", &query)?.objects.len() < MOST {
                            txn.put(name(&key), &body, &PutOptions::default())?;
                        }
                        Ok(())
                    });
                    if let Err(error) = outcome {
                        assert_eq!(error.kind(), ErrorKind::Busy, "{error}");
                    }
                }
            });
        }
    });
    let listed = names(&objects).len();
    assert!((1..=MOST).contains(&listed), "{listed}");
}

#[test]
fn what_it_read_and_another_door_changed_is_read_again() {
    let objects = store();
    put(&objects, "a", b"1");
    let mut runs = 0;
    let (size, _) = objects
        .transact(None, |txn| {
            runs += 1;
            let size = txn.head(name("a"))?.unwrap().size;
            if runs == 1 {
                put(&objects, "a", b"four");
            }
            let body = staged(&objects, size.to_string().as_bytes());
            txn.put(name("told"), &body, &PutOptions::default())?;
            Ok(size)
        })
        .unwrap();
    assert_eq!((runs, size, get(&objects, "told").unwrap()), (2, 4, b"4".to_vec()));
    // A name that was absent is a condition as well.
    let mut runs = 0;
    objects
        .transact(None, |txn| {
            runs += 1;
            let there = txn.head(name("b"))?.is_some();
            if runs == 1 {
                put(&objects, "b", b"2");
            }
            let body = staged(&objects, if there { b"there" } else { b"absent" });
            txn.put(name("told"), &body, &PutOptions::default())
        })
        .unwrap();
    assert_eq!((runs, get(&objects, "told").unwrap()), (2, b"there".to_vec()));
}

#[test]
fn a_repeat_of_a_request_changes_nothing_more() {
    let objects = store();
    let request = Some(RequestId([9; 16]));
    let append = || {
        let body = staged(&objects, b"once");
        objects.transact(request, |txn| txn.append(name("log"), &body, &EditOptions::default()))
    };
    let first = append().unwrap().1;
    let second = append().unwrap().1;
    assert_eq!((first.version, second.repeated), (second.version, true));
    assert_eq!(get(&objects, "log").unwrap(), b"once");
}

#[test]
fn one_that_is_too_large_changes_nothing() {
    let objects = here(crate::backend::kv());
    let space = objects.head_bucket("bucket").unwrap().space;
    let refused = objects.transact(None, |txn| {
        let keys = txn.keys()?;
        for number in 0..=TRANSACTION_CHANGES_MAX as u32 {
            keys.put(space, number.to_be_bytes().to_vec(), koine_kv::Bytes::new());
        }
        Ok(())
    });
    assert_eq!(kind(refused), ErrorKind::TransactionTooLarge);
    assert_eq!(keys_in_bucket(&objects), 0);
}
