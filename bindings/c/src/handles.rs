//! Handles: numbers that C sees as pointers.
//!
//! Invariants:
//! - A handle is never dereferenced and never given out twice, so one that was closed is found to be.
//! - Numbers are shared by all kinds of handles: one kind is never taken for another.
//! - What was opened before a fork is the parent's: the child is refused, and ends its handle without a trace. Errors and
//!   results are memory of each.
//! - A call holds what its handle names until it returns, also when another thread closes the handle meanwhile.

use std::collections::HashMap;
use std::hash::{BuildHasherDefault, DefaultHasher};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, PoisonError, RwLock, RwLockReadGuard, RwLockWriteGuard};

use koine::Process;

use crate::errors::Failure;

/// Numbers begin above what programs take for small integers and end in zeros as addresses do.
static NEXT: AtomicUsize = AtomicUsize::new(0x1000);
const STEP: usize = 16;

/// What a handle names, and the process in which it was opened.
type Named<T> = HashMap<usize, (Process, Arc<T>), BuildHasherDefault<DefaultHasher>>;
type Shard<T> = RwLock<Named<T>>;

/// All handles of one kind.
pub struct Handles<T> {
    kind: &'static str,
    /// Whether it is good in a forked copy of the process too.
    is_memory: bool,
    shards: [Shard<T>; 8],
}

impl<T> Handles<T> {
    /// None yet; `kind` names one in errors.
    pub const fn new(kind: &'static str) -> Self {
        Handles::good_in_copies(kind, false)
    }

    /// The same for what is nothing but memory.
    pub const fn of_memory(kind: &'static str) -> Self {
        Handles::good_in_copies(kind, true)
    }

    const fn good_in_copies(kind: &'static str, is_memory: bool) -> Self {
        let shards = [const { RwLock::new(HashMap::with_hasher(BuildHasherDefault::new())) }; 8];
        Handles { kind, is_memory, shards }
    }

    /// What one is called.
    pub fn kind(&self) -> &'static str {
        self.kind
    }

    fn shard(&self, number: usize) -> &Shard<T> {
        &self.shards[number / STEP % self.shards.len()]
    }

    fn read(&self, number: usize) -> RwLockReadGuard<'_, Named<T>> {
        self.shard(number).read().unwrap_or_else(PoisonError::into_inner)
    }

    fn write(&self, number: usize) -> RwLockWriteGuard<'_, Named<T>> {
        self.shard(number).write().unwrap_or_else(PoisonError::into_inner)
    }

    /// A handle for `value`.
    pub fn add<H>(&self, value: T) -> *mut H {
        let number = NEXT.fetch_add(STEP, Ordering::Relaxed);
        self.write(number).insert(number, (Process::here(), Arc::new(value)));
        std::ptr::without_provenance_mut(number)
    }

    /// What a handle names.
    pub fn get<H>(&self, handle: *const H) -> Result<Arc<T>, Failure> {
        let number = handle.addr();
        let all = self.read(number);
        let (process, value) = all.get(&number).ok_or_else(|| self.unknown(number))?;
        self.check(*process)?;
        Ok(Arc::clone(value))
    }

    /// Ends a handle; gives what it named.
    pub fn remove<H>(&self, handle: *const H) -> Result<Arc<T>, Failure> {
        let number = handle.addr();
        let (process, value) = self.take(number).ok_or_else(|| self.unknown(number))?;
        match self.check(process) {
            Ok(()) => Ok(value),
            Err(failure) => {
                std::mem::forget(value);
                Err(failure)
            }
        }
    }

    /// Ends a handle from before a fork, of which there is nothing to close here; false for any other.
    pub fn leave<H>(&self, handle: *const H) -> bool {
        let number = handle.addr();
        let mut all = self.write(number);
        let left = match all.get(&number) {
            Some((process, _)) if !process.is_here() => all.remove(&number),
            _ => return false,
        };
        std::mem::forget(left);
        true
    }

    /// Where the last of a shard goes, so does its memory: nothing is left behind when the program ends.
    fn take(&self, number: usize) -> Option<(Process, Arc<T>)> {
        let mut all = self.write(number);
        let taken = all.remove(&number);
        if all.is_empty() {
            *all = HashMap::default();
        }
        taken
    }

    fn check(&self, process: Process) -> Result<(), Failure> {
        if self.is_memory || process.is_here() {
            return Ok(());
        }
        Err(Failure::forked(format!(
            "the {} was opened before this process was forked, and belongs to the parent: open the store again in this process",
            self.kind
        )))
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
