//! Handles: numbers that C sees as pointers.
//!
//! Invariants:
//! - A handle is never dereferenced and never given out twice, so one that was closed is found to be.
//! - Numbers are shared by all kinds of handles: one kind is never taken for another.
//! - A call holds what its handle names until it returns, also when another thread closes the handle meanwhile.

use std::collections::HashMap;
use std::hash::{BuildHasherDefault, DefaultHasher};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, PoisonError, RwLock, RwLockReadGuard, RwLockWriteGuard};

use crate::errors::Failure;

/// Numbers begin above what programs take for small integers and end in zeros as addresses do.
static NEXT: AtomicUsize = AtomicUsize::new(0x1000);
const STEP: usize = 16;

type Shard<T> = RwLock<HashMap<usize, Arc<T>, BuildHasherDefault<DefaultHasher>>>;

/// All handles of one kind.
pub struct Handles<T> {
    kind: &'static str,
    shards: [Shard<T>; 8],
}

impl<T> Handles<T> {
    /// None yet; `kind` names one in errors.
    pub const fn new(kind: &'static str) -> Self {
        Handles { kind, shards: [const { RwLock::new(HashMap::with_hasher(BuildHasherDefault::new())) }; 8] }
    }

    fn shard(&self, number: usize) -> &Shard<T> {
        &self.shards[number / STEP % self.shards.len()]
    }

    fn read(&self, number: usize) -> RwLockReadGuard<'_, HashMap<usize, Arc<T>, BuildHasherDefault<DefaultHasher>>> {
        self.shard(number).read().unwrap_or_else(PoisonError::into_inner)
    }

    fn write(&self, number: usize) -> RwLockWriteGuard<'_, HashMap<usize, Arc<T>, BuildHasherDefault<DefaultHasher>>> {
        self.shard(number).write().unwrap_or_else(PoisonError::into_inner)
    }

    /// A handle for `value`.
    pub fn add<H>(&self, value: T) -> *mut H {
        let number = NEXT.fetch_add(STEP, Ordering::Relaxed);
        self.write(number).insert(number, Arc::new(value));
        std::ptr::without_provenance_mut(number)
    }

    /// What a handle names.
    pub fn get<H>(&self, handle: *const H) -> Result<Arc<T>, Failure> {
        let number = handle.addr();
        self.read(number).get(&number).cloned().ok_or_else(|| self.unknown(number))
    }

    /// Ends a handle; gives what it named.
    pub fn remove<H>(&self, handle: *const H) -> Result<Arc<T>, Failure> {
        let number = handle.addr();
        self.write(number).remove(&number).ok_or_else(|| self.unknown(number))
    }

    fn unknown(&self, number: usize) -> Failure {
        Failure::invalid(match number {
            0 => format!("the {} is NULL", self.kind),
            _ => format!("the {} is not open: it was closed before, or never opened", self.kind),
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    static WORDS: Handles<&str> = Handles::new("word");
    static NUMBERS: Handles<u32> = Handles::new("number");

    #[test]
    fn what_is_not_open_is_told() {
        let handle: *mut u8 = WORDS.add("one");
        assert_eq!(*WORDS.get(handle).unwrap(), "one");
        assert!(NUMBERS.get(handle).unwrap_err().message.contains("number is not open"));
        assert!(WORDS.get(std::ptr::null::<u8>()).unwrap_err().message.contains("word is NULL"));
        assert!(WORDS.get(std::ptr::without_provenance::<u8>(usize::MAX)).is_err());
        assert_eq!(*WORDS.remove(handle).unwrap(), "one");
        assert!(WORDS.get(handle).is_err() && WORDS.remove(handle).is_err());
    }
}
