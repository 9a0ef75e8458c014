//! The conformance suite on RocksDB, and what it promises of its folder.
#![cfg(feature = "rocksdb")]

use std::path::Path;
use std::sync::Arc;

use koine_kv::conformance::{Opened, Suite};
use koine_kv::{Batch, Direction, Durability, ErrorKind, KeyRange, Kv, Operation, RocksOptions, SpaceId, open_rocks};

const A: SpaceId = SpaceId(20);

fn options(create: bool) -> RocksOptions {
    RocksOptions { create, ..RocksOptions::default() }
}

fn open(folder: &Path) -> Arc<dyn Kv> {
    Arc::new(open_rocks(folder, &options(true)).expect("open"))
}

fn open_new() -> Opened {
    let folder = tempfile::tempdir().expect("a folder");
    let kv = open(folder.path());
    Opened { kv, reopen: Some(Arc::new(move || open(folder.path()))) }
}

koine_kv::conformance_tests!(Suite { open: open_new });

/// Every file of a folder and what is in it.
fn content(folder: &Path) -> Vec<(std::path::PathBuf, Vec<u8>)> {
    let entries = std::fs::read_dir(folder).expect("a folder").map(|entry| entry.expect("an entry").path());
    let mut files: Vec<_> = entries.map(|path| (path.clone(), std::fs::read(path).expect("a file"))).collect();
    files.sort();
    files
}

fn refused(folder: &Path) -> koine_kv::Error {
    let before = content(folder);
    let error = open_rocks(folder, &options(true)).expect_err("it is not ours");
    assert!(content(folder) == before, "the folder was changed");
    error
}

#[test]
fn what_is_not_ours_is_refused_and_not_touched() {
    let folder = tempfile::tempdir().expect("a folder");
    std::fs::write(folder.path().join("notes.txt"), "mine").expect("a file");
    let error = refused(folder.path());
    assert_eq!(error.kind(), ErrorKind::Unknown);
    assert!(error.message().contains("no RocksDB"), "{error}");

    let folder = tempfile::tempdir().expect("a folder");
    {
        let database = rocksdb::DB::open_default(folder.path()).expect("a database");
        database.put("theirs", "1").expect("put");
    }
    let error = refused(folder.path());
    assert_eq!(error.kind(), ErrorKind::Unknown);
    assert!(error.message().contains("another program"), "{error}");

    let folder = tempfile::tempdir().expect("a folder");
    open(folder.path()).close().expect("close");
    {
        let database = rocksdb::DB::open_default(folder.path()).expect("the database");
        database.put("mformat", [&b"koine"[..], &9u32.to_le_bytes()].concat()).expect("put");
    }
    let error = refused(folder.path());
    assert_eq!(error.kind(), ErrorKind::Unknown);
    assert!(error.message().contains("format 9"), "{error}");
}

#[test]
fn a_missing_store_is_made_only_where_that_is_asked_for() {
    let folder = tempfile::tempdir().expect("a folder");
    let path = folder.path().join("a/b");
    let error = open_rocks(&path, &options(false)).expect_err("there is none");
    assert_eq!(error.kind(), ErrorKind::NotFound);
    assert!(!path.exists());
    open(&path).close().expect("close");
    open_rocks(&path, &options(false)).expect("it is there now").close().expect("close");
}

#[test]
fn one_at_a_time_has_it_and_closing_gives_it_back_whatever_views_are_left() {
    let folder = tempfile::tempdir().expect("a folder");
    let kv = open(folder.path());
    let made = Batch::new().then(Operation::CreateSpace { space: A }).put(A, "k", "v");
    kv.commit(made, Durability::Memory).expect("a commit");
    let error = open_rocks(folder.path(), &options(false)).expect_err("it is open");
    assert_eq!(error.kind(), ErrorKind::Owned, "{error:?}");
    let view = kv.view().expect("a view");
    let mut cursor = view.cursor(A, KeyRange::all(), Direction::Forward).expect("a cursor");
    kv.close().expect("close");
    let again = open(folder.path());
    assert_eq!(view.bytes(A, b"k", 0, 1).expect_err("it is closed").kind(), ErrorKind::Stopped);
    assert_eq!(cursor.next().expect_err("it is closed").kind(), ErrorKind::Stopped);
    assert_eq!(again.get(A, b"k").expect("get").as_deref(), Some(&b"v"[..]));
}

#[test]
fn a_damaged_table_is_said_to_be_damaged() {
    let folder = tempfile::tempdir().expect("a folder");
    let kv = open(folder.path());
    kv.commit(Batch::new().then(Operation::CreateSpace { space: A }), Durability::Sync).expect("a commit");
    for number in 0..200u64 {
        let value = number.to_le_bytes().repeat(2000);
        kv.commit(Batch::new().put(A, format!("k{number}"), value), Durability::Sync).expect("a commit");
    }
    kv.close().expect("close");
    drop(kv);
    // Opened once more its log becomes a table.
    open(folder.path()).close().expect("close");
    let tables: Vec<_> =
        content(folder.path()).into_iter().filter(|(path, _)| path.extension().is_some_and(|of| of == "sst")).collect();
    let (path, mut bytes) = tables.into_iter().max_by_key(|(_, bytes)| bytes.len()).expect("a table");
    let (middle, quarter) = (bytes.len() / 2, bytes.len() / 4);
    bytes[middle..middle + quarter].fill(0x55);
    std::fs::write(path, bytes).expect("the damage");
    let kv = open(folder.path());
    let view = kv.view().expect("a view");
    let read = |number: u64| match view.bytes(A, format!("k{number}").as_bytes(), 0, usize::MAX) {
        Ok(bytes) => {
            assert!(bytes == number.to_le_bytes().repeat(2000), "a wrong byte is never given");
            false
        }
        Err(error) => {
            assert_eq!(error.kind(), ErrorKind::Damaged, "{error:?}");
            true
        }
    };
    assert!((0..200).map(read).filter(|damaged| *damaged).count() > 0);
}
