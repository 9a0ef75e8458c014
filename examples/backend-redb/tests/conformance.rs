//! The suite that every back end passes, and that redb's own lock is told as such.

use std::sync::Arc;

use koine_backend_redb::open;
use koine_kv::conformance::{Opened, Suite};
use koine_kv::{ErrorKind, Kv};

fn open_new() -> Opened {
    let folder = tempfile::tempdir().expect("a folder");
    let path = folder.path().join("store.redb");
    let kv: Arc<dyn Kv> = Arc::new(open(&path).expect("a new store"));
    let reopen = move || -> Arc<dyn Kv> {
        let _ = &folder;
        Arc::new(open(&path).expect("the store again"))
    };
    Opened { kv, reopen: Some(Arc::new(reopen)) }
}

koine_kv::conformance_tests!(Suite { open: open_new });

#[test]
fn a_store_has_one_owner() {
    let folder = tempfile::tempdir().expect("a folder");
    let path = folder.path().join("store.redb");
    let store = open(&path).expect("a new store");
    assert_eq!(open(&path).expect_err("it is open").kind(), ErrorKind::Owned);
    store.close().expect("close");
    drop(store);
    open(&path).expect("it is free");
}
