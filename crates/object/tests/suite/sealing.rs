//! Secrets of access keys: sealed, sealed anew, and what the loss of the sealing key costs.

use std::path::Path;
use std::sync::Arc;

use koine_env::{SeededRandom, SimulatedClock, Timestamp};
use koine_kv::{Direction, KeyRange, Kv, SpaceId};
use koine_object::{ErrorKind, KeyOptions, Objects, Sealing, SealingKeys};

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
    assert_eq!(
        (kind(wrong.sealing()), kind(wrong.rotate_sealing_key())),
        (ErrorKind::AccessDenied, ErrorKind::AccessDenied)
    );
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
fn the_first_secret_makes_the_file_and_what_was_made_before_is_sealed_by_a_rotation() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("store.sealing");
    let kv = crate::backend::kv();
    let plain = open(&kv, SealingKeys::none(), 7).identities();
    group_of(&open(&kv, SealingKeys::none(), 8), "lab", &["ann"]);
    let (before, before_secret) = plain.create_key("ann", KeyOptions::default()).wait().unwrap();
    assert!(is_in_catalogue(&kv, before_secret.expose()));
    assert_eq!(plain.sealing().unwrap(), Sealing::AsTheyAre);
    assert_eq!(
        (kind(plain.make_sealing_key()), kind(plain.rotate_sealing_key())),
        (ErrorKind::InvalidRequest, ErrorKind::InvalidRequest)
    );

    let objects = open(&kv, SealingKeys::at(&path), 9);
    let sealing = objects.identities();
    assert_eq!(sealing.sealing().unwrap(), Sealing::Unused);
    sealing.by_access_key(&before).unwrap();
    assert!(!path.exists(), "nothing was to be sealed yet");
    let (_, secret) = sealing.create_key("ann", KeyOptions::default()).wait().unwrap();
    assert!(path.exists() && !is_in_catalogue(&kv, secret.expose()));
    assert_eq!((sealing.sealing().unwrap(), sealing.make_sealing_key().unwrap()), (Sealing::With(1), 1));
    assert_eq!(objects.sealing_file().unwrap(), path);
    assert_eq!(sealing.rotate_sealing_key().unwrap(), 2);
    assert!(!is_in_catalogue(&kv, before_secret.expose()));
    assert_eq!(sealing.by_access_key(&before).unwrap().1, before_secret);
}

#[test]
fn what_another_process_changed_in_the_file_is_taken_when_a_secret_needs_it() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("store.sealing");
    let kv = crate::backend::kv();
    let (server, command) = (open(&kv, SealingKeys::at(&path), 7), open(&kv, SealingKeys::at(&path), 8));
    group_of(&server, "lab", &["ann"]);
    let make = |objects: &Objects| objects.identities().create_key("ann", KeyOptions::default()).wait().unwrap();
    let opens = |objects: &Objects, (key, secret): &(String, koine_object::Secret)| {
        assert_eq!(&objects.identities().by_access_key(key).unwrap().1, secret);
    };
    let first = make(&command);
    opens(&server, &first);
    for round in 2..5 {
        command.identities().rotate_sealing_key().unwrap();
        opens(&server, &first);
        let made = make(&server);
        opens(&command, &made);
        assert_eq!(server.identities().sealing().unwrap(), Sealing::With(round));
    }
    // A running server goes on with what it has read; another finds that the file is gone.
    let kept = std::fs::read(&path).unwrap();
    std::fs::remove_file(&path).unwrap();
    opens(&server, &first);
    let other = open(&kv, SealingKeys::at(&path), 9);
    assert_eq!(other.identities().sealing().unwrap(), Sealing::Lost(4));
    assert_eq!(kind(other.identities().by_access_key(&first.0)), ErrorKind::AccessDenied);
    assert_eq!(kind(other.identities().create_key("ann", KeyOptions::default()).wait()), ErrorKind::AccessDenied);
    assert_eq!(kind(other.identities().rotate_sealing_key()), ErrorKind::AccessDenied);
    assert!(!path.exists(), "no other key is made while one is in use");
    // Root comes back all the same, and the file when it is put back.
    let (root, secret, _) = other.identities().reset_root().unwrap();
    assert_eq!(other.root_key().unwrap().unwrap().secret, secret.expose());
    std::fs::write(&path, kept).unwrap();
    use std::os::unix::fs::PermissionsExt;
    std::fs::set_permissions(&path, std::fs::Permissions::from_mode(0o600)).unwrap();
    opens(&other, &first);
    assert!(is_in_catalogue(&kv, secret.expose()));
    other.identities().rotate_sealing_key().unwrap();
    assert!(!is_in_catalogue(&kv, secret.expose()));
    assert_eq!(other.identities().by_access_key(&root).unwrap().1, secret);
}

#[test]
fn a_wrong_file_is_told_and_what_it_cannot_open_is_forgotten() {
    let folder = tempfile::tempdir().unwrap();
    let kv = crate::backend::kv();
    let objects = open(&kv, file(&folder.path().join("right")), 7);
    group_of(&objects, "lab", &["ann"]);
    objects.identities().create_key("ann", KeyOptions::default()).wait().unwrap();
    let other = SealingKeys::open(&folder.path().join("other"), Some(&SeededRandom::new(2))).unwrap();
    let wrong = open(&kv, other, 8).identities();
    assert_eq!(kind(wrong.sealing()), ErrorKind::AccessDenied);
    assert_eq!(wrong.forget_lost_secrets().unwrap(), 1);
    assert_eq!(wrong.sealing().unwrap(), Sealing::Unused);
    let (key, secret) = wrong.create_key("ann", KeyOptions::default()).wait().unwrap();
    assert_eq!(wrong.by_access_key(&key).unwrap().1, secret);
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
