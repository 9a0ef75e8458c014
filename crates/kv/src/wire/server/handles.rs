//! What a session holds under numbers that its client has chosen.
//!
//! Invariants:
//! - A number names one thing at a time, and there are at most as many as were allowed.
//! - What could not be had is remembered under its number: whoever uses it hears why.

use std::collections::HashMap;
use std::collections::hash_map::Entry;

use koine_engine::{Error, ErrorKind, Result};
use parking_lot::Mutex;

/// Things of one kind by number.
pub struct Handles<T> {
    what: &'static str,
    most: usize,
    known: Mutex<HashMap<u64, Result<T>>>,
}

impl<T: Clone> Handles<T> {
    /// None yet, and at most so many.
    pub fn new(what: &'static str, most: usize) -> Handles<T> {
        Handles { what, most, known: Mutex::default() }
    }

    /// Remembers what was opened under a number; an error if the number has something, or there is too much.
    pub fn open(&self, number: u64, open: impl FnOnce() -> Result<T>) -> Result<T> {
        let mut known = self.known.lock();
        let count = known.len();
        match known.entry(number) {
            Entry::Occupied(_) => Err(Error::invalid(format!("{} {number} is open already", self.what))),
            Entry::Vacant(_) if count >= self.most => Err(self.too_many(count)),
            Entry::Vacant(place) => place.insert(open()).clone(),
        }
    }

    /// What a number names.
    pub fn find(&self, number: u64) -> Result<T> {
        let known = self.known.lock();
        known.get(&number).cloned().unwrap_or_else(|| Err(self.unknown(number, known.len())))
    }

    /// Puts something else under a number.
    pub fn replace(&self, number: u64, with: Result<T>) {
        if let Some(place) = self.known.lock().get_mut(&number) {
            *place = with;
        }
    }

    /// Forgets a number.
    pub fn close(&self, number: u64) -> Result<()> {
        let mut known = self.known.lock();
        let (gone, count) = (known.remove(&number), known.len());
        drop(known);
        gone.map(drop).ok_or_else(|| self.unknown(number, count))
    }

    /// Forgets all.
    pub fn clear(&self) {
        let all = std::mem::take(&mut *self.known.lock());
        drop(all);
    }

    fn too_many(&self, count: usize) -> Error {
        Error::new(ErrorKind::Busy, format!("{count} {}s are open on this connection: close some", self.what))
    }

    /// What was refused for want of room is used before the refusal has arrived: nobody waits for an opening.
    fn unknown(&self, number: u64, count: usize) -> Error {
        if count >= self.most {
            return self.too_many(count);
        }
        Error::invalid(format!("there is no {} {number} on this connection", self.what))
    }
}
