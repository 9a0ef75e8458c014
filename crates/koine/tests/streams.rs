//! Buckets by name in streams: usable at once where they are received, with their snapshots, sharing what they shared.

use std::ops::Range;
use std::path::{Path, PathBuf};

use koine::object::{Expected, ListQuery, PutOptions, ReceiveBucket, Versioning};
use koine::{FormatOptions, OpenOptions, ReceiveHow, ReceivedBucket, Spaces, Store};

const OBJECT_LEN: usize = 40_000;

fn made(folder: &Path, name: &str) -> PathBuf {
    let path = folder.join(name);
    koine::format(&path, &FormatOptions { size_max: Some(64 << 20), ..FormatOptions::default() }).unwrap();
    path
}

fn open(path: &Path) -> Store {
    koine::open(path.to_str().unwrap(), &OpenOptions::default()).unwrap()
}

fn body(number: usize) -> Vec<u8> {
    (0..OBJECT_LEN).map(|at| (at * 7 + number * 13 + at / 251) as u8).collect()
}

fn put(store: &Store, bucket: &str, numbers: Range<usize>) {
    for number in numbers {
        let mut writer = store.objects().put(bucket, &format!("k{number:03}"), PutOptions::default()).unwrap();
        writer.write(&body(number)).unwrap();
        writer.finish(&Expected::none()).wait().unwrap();
    }
}

/// The numbers of the objects of a bucket, each read and compared.
fn numbers(store: &Store, bucket: &str) -> Vec<usize> {
    let page = store.objects().list(bucket, &ListQuery { limit: 1000, ..ListQuery::default() }).unwrap();
    let number = |key: &str| key[1..].parse().unwrap();
    for object in &page.objects {
        let reader = store.objects().get(bucket, &object.key).unwrap();
        assert!(reader.bytes(0, OBJECT_LEN).unwrap()[..] == body(number(&object.key)), "{bucket}/{}", object.key);
    }
    page.objects.iter().map(|object| number(&object.key)).collect()
}

fn send(path: &Path, bucket: &str, base: Option<&str>) -> Vec<u8> {
    let mut out = Vec::new();
    Spaces::open(path, true).unwrap().send_bucket(bucket, base, &mut out, &mut |_| ()).unwrap();
    out
}

fn receive(path: &Path, stream: &[u8], how: &ReceiveHow) -> koine::Result<Option<ReceivedBucket>> {
    let store = Spaces::open(path, false).unwrap();
    let received = store.receive(&mut &*stream, how, &mut |_| ());
    store.close().unwrap();
    received.map(|(_, bucket)| bucket)
}

fn named(name: &str, owner: Option<&str>) -> ReceiveHow {
    let bucket = ReceiveBucket { name: Some(name.to_owned()), owner: owner.map(str::to_owned) };
    ReceiveHow { bucket, ..ReceiveHow::default() }
}

/// A store with a bucket of 60 objects, of which two snapshots have 40 and 50.
fn photos(folder: &Path) -> PathBuf {
    let path = made(folder, "from.koine");
    let store = open(&path);
    store.objects().create_bucket("photos").wait().unwrap();
    store.objects().set_versioning("photos", Versioning::Enabled).wait().unwrap();
    put(&store, "photos", 0..40);
    store.objects().snapshot_bucket("photos", "monday").wait().unwrap();
    put(&store, "photos", 40..50);
    store.objects().snapshot_bucket("photos", "tuesday").wait().unwrap();
    put(&store, "photos", 50..60);
    store.close().unwrap();
    path
}

fn data_len(path: &Path) -> u64 {
    koine::inspect(path).unwrap().space_report().unwrap().data_len
}

#[test]
fn a_bucket_is_received_with_its_snapshots_and_what_they_share() {
    let folder = tempfile::tempdir().unwrap();
    let (from, to) = (photos(folder.path()), made(folder.path(), "to.koine"));
    let stream = send(&from, "photos", None);
    // 60 objects, and not 40 and 50 and 60.
    assert!(stream.len() < 70 * OBJECT_LEN, "{}", stream.len());
    let got = receive(&to, &stream, &ReceiveHow::default()).unwrap().unwrap();
    let snapshots = vec!["monday".to_owned(), "tuesday".to_owned()];
    assert_eq!(got, ReceivedBucket { bucket: "photos".to_owned(), is_there: false, snapshots });
    let (before, after) = (data_len(&from), data_len(&to));
    assert!(after <= before + before / 10, "{before} bytes are {after} in the other store");

    let store = open(&to);
    assert_eq!(numbers(&store, "photos"), (0..60).collect::<Vec<_>>());
    assert_eq!(numbers(&store, "photos@monday"), (0..40).collect::<Vec<_>>());
    assert_eq!(numbers(&store, "photos@tuesday"), (0..50).collect::<Vec<_>>());
    assert_eq!(store.objects().head_bucket("photos").unwrap().versioning, Versioning::Enabled);
    assert_eq!(store.objects().identities().owner("photos").unwrap(), ("root".to_owned(), "root".to_owned()));
    // It is a bucket as any other.
    put(&store, "photos", 60..61);
    store.objects().snapshot_bucket("photos", "here").wait().unwrap();
    store.objects().restore_bucket("photos", "monday").wait().unwrap();
    assert_eq!(numbers(&store, "photos").len(), 40);
    store.objects().purge_bucket("photos").wait().unwrap();
    store.objects().delete_bucket_and_snapshots("photos").wait().unwrap();
    store.close().unwrap();
    assert!(koine::inspect(&to).unwrap().check(&mut |_| ()).unwrap().is_sound());
}

#[test]
fn a_name_that_is_taken_is_refused_and_another_can_be_given() {
    let folder = tempfile::tempdir().unwrap();
    let (from, to) = (photos(folder.path()), made(folder.path(), "to.koine"));
    let stream = send(&from, "photos@monday", None);
    receive(&to, &stream, &ReceiveHow::default()).unwrap();
    let told = receive(&to, &stream, &ReceiveHow::default()).unwrap_err().to_string();
    assert!(told.contains("\"photos\" is there already") && told.contains("--as"), "{told}");
    assert!(receive(&to, &stream, &named("Not A Name", None)).is_err());
    let told = receive(&to, &stream, &named("album", Some("anna"))).unwrap_err().to_string();
    assert!(told.contains("anna"), "{told}");
    let store = open(&to);
    store.objects().identities().create_group("family", "").wait().unwrap();
    store.objects().identities().create_user("family", "anna", None).unwrap();
    store.close().unwrap();
    receive(&to, &stream, &named("album", Some("anna"))).unwrap();
    let store = open(&to);
    assert_eq!(store.objects().identities().owner("album").unwrap(), ("anna".to_owned(), "family".to_owned()));
    assert_eq!(numbers(&store, "album").len(), 40);
    assert_eq!(numbers(&store, "album@monday").len(), 40);
    store.close().unwrap();
    // A stream of a bucket is no stream of spaces, unless that is asked for.
    let id = ReceiveHow {
        spaces: koine::ReceiveOptions { space: Some(koine::SpaceId(18)), writable: true },
        ..ReceiveHow::default()
    };
    assert!(receive(&to, &stream, &id).is_err());
    assert_eq!(receive(&to, &stream, &ReceiveHow { raw: true, ..id }).unwrap(), None);
    assert!(Spaces::open(&to, true).unwrap().list().unwrap().iter().any(|info| info.space.0 == 18));
}

#[test]
fn a_later_snapshot_is_added_to_the_bucket_that_has_the_older_one() {
    let folder = tempfile::tempdir().unwrap();
    let (from, to) = (photos(folder.path()), made(folder.path(), "to.koine"));
    let later = send(&from, "photos@tuesday", Some("monday"));
    assert!(later.len() < 12 * OBJECT_LEN, "{}", later.len());
    assert!(receive(&to, &later, &ReceiveHow::default()).unwrap_err().to_string().contains("receive that first"));
    receive(&to, &send(&from, "photos@monday", None), &ReceiveHow::default()).unwrap();
    let got = receive(&to, &later, &ReceiveHow::default()).unwrap().unwrap();
    assert_eq!((got.is_there, got.snapshots), (true, vec!["tuesday".to_owned()]));
    let told = receive(&to, &later, &ReceiveHow::default()).unwrap_err().to_string();
    assert!(told.contains("has a snapshot \"tuesday\" already"), "{told}");
    let store = open(&to);
    assert_eq!(numbers(&store, "photos").len(), 40);
    assert_eq!(numbers(&store, "photos@tuesday").len(), 50);
    store.objects().restore_bucket("photos", "tuesday").wait().unwrap();
    assert_eq!(numbers(&store, "photos").len(), 50);
    store.close().unwrap();
    // The content of a bucket has no base, and what is not there cannot be sent.
    let spaces = Spaces::open(&from, true).unwrap();
    for (bucket, base) in [("photos", Some("monday")), ("photos@friday", None), ("music", None)] {
        assert!(spaces.send_bucket(bucket, base, &mut Vec::new(), &mut |_| ()).is_err(), "{bucket}");
    }
    let names = spaces.names();
    let mut known: Vec<&str> = spaces.list().unwrap().iter().filter_map(|info| names.get(info.space)).collect();
    known.sort();
    assert_eq!(known, ["photos", "photos@monday", "photos@tuesday"]);
}
