//! Every store in this build: what was put is read, scanned in order, and there after a reopen.

use super::super::data::{Values, key};
use super::*;

const MEMORY: Memory = Memory { total_len: 8 << 20 };

fn stores() -> impl Iterator<Item = StoreKind> {
    [StoreKind::Koine].into_iter().chain(StoreKind::REFERENCES).filter(|kind| kind.is_built())
}

fn item(values: &Values, number: u64, generation: u64) -> Item {
    let mut value = Vec::new();
    values.fill(number, generation, &mut value);
    Item { key: key(number), value }
}

#[test]
fn what_was_put_is_read_and_scanned_and_survives_a_reopen() {
    for kind in stores() {
        let folder = tempfile::tempdir().unwrap();
        let values = Values::new(400);
        let store = open(kind, folder.path(), MEMORY).unwrap();
        store.prepare(Level::Written).unwrap();
        let items: Vec<Item> = (0..100).map(|number| item(&values, number, 0)).collect();
        store.put(&items, Level::Written).unwrap();
        store.prepare(Level::Sync).unwrap();
        store.put(&[item(&values, 7, 1)], Level::Sync).unwrap();
        if let Some(pending) = store.submit(&item(&values, 8, 2), Level::Sync) {
            pending.wait().unwrap();
        }
        store.settle().unwrap();
        assert!(store.used_len().unwrap().is_none_or(|used| used >= 40_000), "{kind:?}");
        store.close().unwrap();

        let store = open(kind, folder.path(), MEMORY).unwrap();
        let mut session = store.session().unwrap();
        for pinned in [false, true] {
            if pinned {
                session.pin().unwrap();
            }
            let mut found = Vec::new();
            assert!(session.get(&key(7), &mut |value| found = value.to_vec()).unwrap(), "{kind:?}");
            assert_eq!(found, item(&values, 7, 1).value, "{kind:?}");
            assert!(!session.get(&key(1 << 40), &mut |_| ()).unwrap(), "{kind:?}");
        }
        let mut seen = Vec::new();
        let mut all_right = true;
        session
            .scan(&key(10), &mut |key, value| {
                all_right &= values.verify(key, value);
                seen.push(key.to_vec());
                seen.len() < 50
            })
            .unwrap();
        assert!(all_right, "{kind:?}");
        assert_eq!(seen, (10..60).map(|number| key(number).to_vec()).collect::<Vec<_>>(), "{kind:?}");
        drop(session);
        store.close().unwrap();
    }
}

#[test]
fn our_engine_flushes_once_for_a_synced_commit() {
    let folder = tempfile::tempdir().unwrap();
    let values = Values::new(100);
    let store = open(StoreKind::Koine, folder.path(), MEMORY).unwrap();
    let before = store.flushes().unwrap();
    for number in 0..10 {
        store.put(&[item(&values, number, 0)], Level::Sync).unwrap();
    }
    let flushes = store.flushes().unwrap() - before;
    assert!((10..=20).contains(&flushes), "{flushes} flushes for ten commits");
    store.close().unwrap();
}
