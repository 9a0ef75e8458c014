//! Calls that are answered at once, or not at all.

use koine_env::{Random, SeededRandom};
use koine_object::{DeleteOptions, ErrorKind, Objects, Result};

use crate::backend::{READS_NOW, below, user_of};
use crate::support::{bytes, kind, put, store};

fn body(objects: &Objects, key: &str) -> Result<Vec<u8>> {
    let reader = objects.get("bucket", key)?;
    Ok(reader.bytes(0, usize::MAX)?.to_vec())
}

#[test]
fn what_is_answered_at_once_is_what_a_call_that_waits_answers() {
    let objects = store();
    let random = SeededRandom::new(7);
    let mut answered = 0;
    for round in 0..300 {
        let key = format!("key-{:02}", random.next_u64() % 20);
        match random.next_u64() % 3 {
            0 => drop(objects.delete("bucket", &key, DeleteOptions::default()).wait().unwrap()),
            _ => drop(put(&objects, &key, &bytes((random.next_u64() % 9000) as usize, round))),
        }
        let key = format!("key-{:02}", random.next_u64() % 20);
        match (objects.at_once(|objects| body(objects, &key)), body(&objects, &key)) {
            (Ok(None), _) => assert!(!READS_NOW || objects.is_remote(), "{key}"),
            (Ok(Some(at_once)), Ok(body)) => {
                assert_eq!(at_once, body, "{key}");
                answered += 1;
            }
            (at_once, body) => assert_eq!(kind(at_once), kind(body), "{key}"),
        }
        let info = objects.at_once(|objects| objects.head("bucket", &key)).ok().flatten();
        assert!(info.is_none() || info == objects.head("bucket", &key).ok(), "{key}");
    }
    assert!(answered > 100 || !READS_NOW || objects.is_remote(), "{answered}");
}

#[test]
fn a_change_is_never_made_at_once() {
    let objects = store();
    put(&objects, "key", b"body");
    let change = |objects: &Objects| objects.delete("bucket", "key", DeleteOptions::default()).wait().map(drop);
    assert_eq!(objects.at_once(change).unwrap(), None);
    let change = |objects: &Objects| objects.create_bucket("another").wait().map(drop);
    assert_eq!(objects.at_once(change).unwrap(), None);
    assert_eq!(body(&objects, "key").unwrap(), b"body");
    assert_eq!(kind(objects.head_bucket("another")), ErrorKind::NoSuchBucket);
}

#[test]
fn rights_are_asked_at_once_too() {
    let objects = below(&store());
    put(&objects, "key", b"body");
    let identities = objects.identities();
    identities.create_group("staff", "").wait().unwrap();
    identities.create_user("staff", "ada", None).unwrap();
    let ada = user_of(&objects, "ada");
    match ada.at_once(|ada| body(ada, "key")) {
        Ok(answered) => assert_eq!(answered, None),
        Err(error) => assert_eq!(error.kind(), ErrorKind::AccessDenied),
    }
    let pinned = objects.pin().unwrap();
    put(&objects, "key", b"newer");
    let read = |objects: &Objects| objects.at_once(|objects| body(objects, "key")).unwrap();
    assert!(read(pinned.objects()).is_none_or(|body| body == b"body"));
    assert!(read(&objects).is_none_or(|body| body == b"newer"));
}
