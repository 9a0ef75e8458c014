//! The suite's back end: RocksDB in a folder of its own.

use std::sync::Arc;

use koine_kv::emulate::Spaces;
use koine_kv::{Kv, RocksOptions, open_rocks, pass_on};

/// How often races are run.
pub const ROUNDS: usize = 5;
/// How many appends each of many writers makes.
pub const APPENDS: usize = 10;
/// How many cases a model is compared over.
pub const CASES: u32 = 20;
/// Whether space that comes back is free at once.
pub const FREES_AT_ONCE: bool = false;
/// Whether what is in memory is read without waiting.
pub const READS_NOW: bool = false;

/// A store and its folder, which goes with it.
struct Kept {
    store: Spaces,
    _folder: tempfile::TempDir,
}

impl Kv for Kept {
    pass_on!(Kv, store: profile, view, lookup, stage, submit, watch, usage, sync, close);
}

/// An empty store.
pub fn kv() -> Arc<dyn Kv> {
    let folder = tempfile::tempdir().unwrap();
    let store = open_rocks(folder.path(), &RocksOptions { create: true, ..RocksOptions::default() }).unwrap();
    Arc::new(Kept { store, _folder: folder })
}

/// The calls as tests make them: of the store itself.
pub fn through(objects: koine_object::Objects) -> koine_object::Objects {
    objects
}

/// The store whose calls these are.
pub fn below(objects: &koine_object::Objects) -> koine_object::Objects {
    objects.clone()
}

/// A user of the store, as who signs with a key of its own.
pub fn user_of(objects: &koine_object::Objects, user: &str) -> koine_object::Objects {
    let identities = objects.identities();
    let (key, _) = identities.create_key(user, koine_object::KeyOptions::default()).wait().unwrap();
    objects.as_caller(identities.by_access_key(&key).unwrap().0)
}
