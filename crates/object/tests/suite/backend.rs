//! The suite's back end: memory.

use std::sync::Arc;

use koine_kv::{Kv, MemoryKv, MemoryOptions};

/// How often races are run.
pub const ROUNDS: usize = 20;
/// How many appends each of many writers makes.
pub const APPENDS: usize = 100;
/// How many cases a model is compared over.
pub const CASES: u32 = 300;
/// Whether space that comes back is free at once.
pub const FREES_AT_ONCE: bool = true;
/// Whether what is in memory is read without waiting.
pub const READS_NOW: bool = true;

/// An empty store.
pub fn kv() -> Arc<dyn Kv> {
    Arc::new(MemoryKv::new(MemoryOptions::default()))
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
