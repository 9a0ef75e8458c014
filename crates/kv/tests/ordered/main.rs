//! A back end over an ordered map: the conformance suite on a map in memory that can be opened again, and what only
//! such a back end promises.

mod map;

use std::sync::Arc;

use bytes::Bytes;
use koine_kv::conformance::{Opened, Suite};
use koine_kv::emulate::{SOLE, SplitOptions};
use koine_kv::ordered::{Ordered, OrderedKv, Write, full};
use koine_kv::{
    Batch, Condition, Durability, ErrorKind, KeyRange, Kv, Operation, Payload, Place, RequestId, SpaceId, StageHint,
};

use self::map::Map;

const A: SpaceId = SpaceId(20);

fn open(map: &Map) -> Arc<dyn Kv> {
    Arc::new(full(map.clone(), "map", SplitOptions::default()).expect("open"))
}

fn open_new() -> Opened {
    let map = Map::default();
    Opened { kv: open(&map), reopen: Some(Arc::new(move || open(&map))) }
}

koine_kv::conformance_tests!(Suite { open: open_new });

fn create(kv: &dyn Kv) {
    kv.commit(Batch::new().then(Operation::CreateSpace { space: A }), Durability::Sync).expect("a space");
}

#[test]
fn what_is_not_ours_is_refused_and_not_touched() {
    let map = Map::default();
    map.write(vec![Write::Put(Bytes::from_static(b"theirs"), Bytes::from_static(b"1"))]).expect("write");
    let before = map.dump();
    let error = full(map.clone(), "map", SplitOptions::default()).expect_err("another program's map");
    assert_eq!(error.kind(), ErrorKind::Unknown);
    assert!(error.message().contains("another program"), "{error}");
    assert_eq!(map.dump(), before);

    let map = Map::default();
    open(&map).close().expect("close");
    let newer = Bytes::from([&b"koine"[..], &7u32.to_le_bytes()].concat());
    map.write(vec![Write::Put(Bytes::from_static(b"mformat"), newer)]).expect("write");
    let before = map.dump();
    let error = full(map.clone(), "map", SplitOptions::default()).expect_err("a newer program's map");
    assert_eq!(error.kind(), ErrorKind::Unknown);
    assert!(error.message().contains("format 7") && error.message().contains("newer program"), "{error}");
    assert_eq!(map.dump(), before);
}

#[test]
fn a_power_cut_takes_unsynced_commits_from_the_end_and_no_version_comes_back() {
    let map = Map::default();
    let mut last = koine_kv::Version(0);
    for round in 0..5u64 {
        let kv = open(&map);
        if round == 0 {
            create(&*kv);
        }
        let put = |key: &str, level| {
            kv.commit(Batch::new().put(A, key.to_owned(), round.to_le_bytes().to_vec()), level).expect("a commit")
        };
        let request = Batch::new().put(A, "asked", "").with_request(RequestId([round as u8; 16]));
        let asked = kv.commit(request.clone(), Durability::Memory).expect("a commit").version;
        let synced = put("synced", Durability::Sync).version;
        let mut stage = kv.stage(StageHint::default()).expect("a stage");
        stage.write(&[7; 300_000]).expect("a piece");
        let lost = put("lost", Durability::Written).version;
        assert!(last < asked && asked < synced && synced < lost);
        last = lost;
        std::mem::forget((stage, kv));
        map.cut_power();
        let kv = open(&map);
        let view = kv.view().expect("a view");
        assert_eq!(view.stat(A, b"synced").expect("stat").map(|stat| stat.version), Some(synced));
        assert_eq!(view.stat(A, b"lost").expect("stat"), None);
        assert!(view.version() >= lost, "a version that somebody saw is not given again");
        // An outcome is as durable as what was synced after it.
        let again = kv.commit(request, Durability::Memory).expect("the first outcome");
        assert_eq!((again.version, again.repeated), (asked, true));
        assert!(!map.dump().iter().any(|(key, _)| key.starts_with(b"kp") || key.starts_with(b"ko")), "a stage is left");
        std::mem::forget(kv);
    }
}

#[test]
fn the_base_alone_says_what_it_does_not_do() {
    let kv = OrderedKv::open(Map::default(), "map", vec![KeyRange::prefix("quiet")]).expect("open");
    let at = Place::new(SOLE, "k");
    let fails = |batch: Batch| kv.commit(batch, Durability::Memory).expect_err("it is refused");
    let error = fails(Batch::new().put(A, "k", "v"));
    assert_eq!(error.kind(), ErrorKind::Unsupported, "{error:?}");
    let error = fails(Batch::new().then(Operation::CreateSpace { space: A }));
    assert_eq!(error.kind(), ErrorKind::Unsupported, "{error:?}");
    let error = fails(Batch::new().put(SOLE, "k", vec![0; (1 << 20) + 1]));
    assert!(error.kind() == ErrorKind::Unsupported && error.message().contains("1048577"), "{error:?}");
    let error = fails(Batch::new().then(Operation::Truncate { at, length: 1 << 40 }));
    assert_eq!(error.kind(), ErrorKind::Unsupported, "{error:?}");
    assert_eq!(kv.stage(StageHint::default()).map(|_| ()).expect_err("no stages").kind(), ErrorKind::Unsupported);
    // What nobody watches is not remembered, so that nothing is known of it.
    let since = kv.commit(Batch::new().put(SOLE, "quiet/1", "v"), Durability::Memory).expect("a commit").version;
    let unchanged = |range| Batch::new().when(Condition::RangeUnchanged { space: SOLE, range, since });
    assert_eq!(fails(unchanged(KeyRange::prefix("quiet/2"))).kind(), ErrorKind::Refused);
    kv.commit(unchanged(KeyRange::prefix("loud")), Durability::Memory).expect("a commit");
}

#[test]
fn a_long_upload_is_not_remembered_as_changes() {
    // More pieces than changes are remembered.
    let options = SplitOptions { piece_len: 16, ..SplitOptions::default() };
    let kv = Arc::new(full(Map::default(), "map", options).expect("open"));
    create(&*kv);
    let since = kv.commit(Batch::new().put(A, "read", "v"), Durability::Memory).expect("a commit").version;
    let mut stage = kv.stage(StageHint::default()).expect("a stage");
    stage.write(&[1; 1 << 20]).expect("a piece");
    stage.write(&[2; 1 << 20]).expect("a piece");
    let value = Payload::Stage(stage.finish().expect("a token"));
    let put = Operation::Put { at: Place::new(A, "long"), value };
    let unchanged = Condition::RangeUnchanged { space: A, range: KeyRange::single("read"), since };
    kv.commit(Batch::new().when(unchanged).then(put), Durability::Memory).expect("nothing else was changed");
}
