//! Many reads at one version of the store.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;

use koine_env::{Random, SeededRandom};
use koine_object::{
    Caller, DeleteOptions, ErrorKind, Indexed, ListQuery, ObjectName, Objects, Pinned, PutOptions, RenameOptions,
    SearchQuery,
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
    assert_eq!(kind(objects.as_caller(Caller::Everyone).pin().unwrap().get("bucket", "key")), ErrorKind::AccessDenied);
}
