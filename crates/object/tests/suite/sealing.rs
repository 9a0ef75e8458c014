//! Secrets of access keys: sealed, sealed anew, and what the loss of the sealing key costs.

use std::path::Path;
use std::sync::Arc;

use koine_env::{SeededRandom, SimulatedClock, Timestamp};
use koine_kv::{Direction, KeyRange, Kv, SpaceId};
use koine_object::{ErrorKind, KeyOptions, Objects, SealingKeys};

use crate::identities::Interrupted;
use crate::support::{group_of, kind};

fn open(kv: &Arc<dyn Kv>, sealing: SealingKeys, seed: u64) -> Objects {
    let clock = Arc::new(SimulatedClock::new(Timestamp(1_700_000_000_000_000_000)));
    Objects::open(Arc::clone(kv), clock, Arc::new(SeededRandom::new(seed))).unwrap().with_sealing_keys(sealing)
}

fn file(path: &Path) -> SealingKeys {
    SealingKeys::open(path, Some(&SeededRandom::new(1))).unwrap()
}

/// Whether any value of the catalogue holds these bytes.
fn is_in_catalogue(kv: &Arc<dyn Kv>, wanted: &str) -> bool {
    let view = kv.view().unwrap();
    let mut cursor = view.cursor(SpaceId(16), KeyRange::all(), Direction::Forward).unwrap();
    while let Some(entry) = cursor.next().unwrap() {
        let value = view.bytes(SpaceId(16), &entry.key, 0, usize::try_from(entry.stat.size).unwrap()).unwrap();
        if value.windows(wanted.len()).any(|window| window == wanted.as_bytes()) {
            return true;
        }
    }
    false
}

#[test]
fn a_secret_stands_sealed_and_is_lost_with_its_key() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("store.sealing");
    let kv = crate::backend::kv();
    let objects = open(&kv, file(&path), 7);
    group_of(&objects, "lab", &["ann"]);
    let (key, secret) = objects.identities().create_key("ann", KeyOptions::default()).wait().unwrap();
    assert!(!is_in_catalogue(&kv, secret.expose()));
    assert_eq!(objects.identities().by_access_key(&key).unwrap().1, secret);
    let (root, root_secret, _) = objects.identities().reset_root().unwrap();
    assert!(!is_in_catalogue(&kv, root_secret.expose()));
    // Another file with a key of the same number, and none at all.
    let other = SealingKeys::open(&folder.path().join("other"), Some(&SeededRandom::new(2))).unwrap();
    let wrong = open(&kv, other, 8).identities();
    assert_eq!(kind(wrong.by_access_key(&key)), ErrorKind::Damaged);
    assert_eq!(kind(wrong.create_key("ann", KeyOptions::default()).wait()), ErrorKind::AccessDenied);
    let lost = open(&kv, SealingKeys::none(), 9).identities();
    assert_eq!(kind(lost.by_access_key(&key)), ErrorKind::AccessDenied);
    assert_eq!(kind(lost.create_key("ann", KeyOptions::default()).wait()), ErrorKind::AccessDenied);
    assert_eq!(lost.forget_lost_secrets().unwrap(), 2);
    assert_eq!(kind(lost.by_access_key(&key)), ErrorKind::NoSuchAccessKey);
    assert_eq!(kind(lost.by_access_key(&root)), ErrorKind::NoSuchAccessKey);
    assert!(lost.keys_of("ann").unwrap().is_empty());
    let (key, _) = lost.create_key("ann", KeyOptions::default()).wait().unwrap();
    assert!(lost.by_access_key(&key).is_ok());
}

#[test]
fn sealing_anew_goes_on_wherever_it_was_interrupted() {
    for allowed in 0.. {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("store.sealing");
        let kv = crate::backend::kv();
        let plain = open(&kv, SealingKeys::none(), 7);
        group_of(&plain, "lab", &["ann"]);
        let make = |objects: &Objects| objects.identities().create_key("ann", KeyOptions::default()).wait().unwrap();
        let mut made = vec![make(&plain)];
        made.push(make(&open(&kv, file(&path), 8)));
        let before = std::fs::read_to_string(&path).unwrap();

        let interrupted = Interrupted::new(&kv, allowed);
        let first = open(&(Arc::new(interrupted) as Arc<dyn Kv>), file(&path), 9).identities().rotate_sealing_key();
        let done = first.is_ok();
        // Every secret opens, and new ones are made, wherever it ended.
        let between = open(&kv, file(&path), 10);
        made.push(make(&between));
        for (key, secret) in &made {
            assert_eq!(&between.identities().by_access_key(key).unwrap().1, secret);
        }
        if !done {
            assert_eq!(kind(first), ErrorKind::Stopped);
            between.identities().rotate_sealing_key().unwrap();
        }
        let after = std::fs::read_to_string(&path).unwrap();
        assert_eq!((before.lines().count(), after.lines().count()), (1, 1));
        assert_ne!(before, after);
        let last = open(&kv, file(&path), 11);
        for (key, secret) in &made {
            assert_eq!(&last.identities().by_access_key(key).unwrap().1, secret);
            assert!(!is_in_catalogue(&kv, secret.expose()));
        }
        if done {
            assert!(allowed > 2);
            return;
        }
    }
}
