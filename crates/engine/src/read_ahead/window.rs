//! A stretch of a value in memory, or on its way there.
//!
//! Invariant: its bytes are set once, all of them verified, or never; who waits is always woken.

use std::sync::OnceLock;
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};

use parking_lot::Mutex;

use super::Source;
use crate::buffers::Lent;
use crate::content::Notes;

enum Memory {
    /// Of the store's budget.
    Lent(Lent),
    /// A chunk.
    Own(Vec<u8>),
}

/// A stretch of a value.
pub struct Window {
    /// Where it begins in the value.
    pub start: u64,
    length: usize,
    /// What it will be read into.
    room: Mutex<Option<Lent>>,
    /// `None` inside when it could not be read.
    bytes: OnceLock<Option<Memory>>,
    cold: AtomicBool,
    turn: AtomicU64,
    served: AtomicUsize,
}

impl Window {
    /// One that is still to be read into `room`.
    pub fn empty(start: u64, length: usize, room: Lent) -> Window {
        Window {
            start,
            length: length.min(room.len()),
            room: Mutex::new(Some(room)),
            bytes: OnceLock::new(),
            cold: AtomicBool::new(false),
            turn: AtomicU64::new(0),
            served: AtomicUsize::new(0),
        }
    }

    /// Of bytes that were verified already.
    pub fn of(start: u64, bytes: Vec<u8>) -> Window {
        Window {
            start,
            length: bytes.len(),
            room: Mutex::new(None),
            bytes: OnceLock::from(Some(Memory::Own(bytes))),
            cold: AtomicBool::new(false),
            turn: AtomicU64::new(0),
            served: AtomicUsize::new(0),
        }
    }

    /// Where it ends.
    pub fn end(&self) -> u64 {
        self.start + self.length as u64
    }

    /// Whether a place lies in it.
    pub fn holds(&self, at: u64) -> bool {
        (self.start..self.end()).contains(&at)
    }

    /// Reads it, once.
    pub fn fill<S: Source>(&self, source: &S) {
        let Some(mut room) = self.room.lock().take() else { return };
        // Wakes who waits, also when the source panics.
        let failed = OnDrop(&self.bytes);
        let notes = Notes::default();
        let read = source.read(self.start, &mut room[..self.length], &notes);
        self.cold.store(notes.is_cold(), Ordering::Relaxed);
        if read.is_ok_and(|count| count == self.length) && source.still_holds() {
            let _ = self.bytes.set(Some(Memory::Lent(room)));
        }
        drop(failed);
    }

    /// Its bytes, once they are there; `None` when they cannot be had.
    pub fn wait(&self) -> Option<&[u8]> {
        let memory = self.bytes.wait().as_ref()?;
        match memory {
            Memory::Lent(bytes) => bytes.get(..self.length),
            Memory::Own(bytes) => Some(bytes),
        }
    }

    /// Whether `wait` gives bytes at once.
    pub fn is_ready(&self) -> bool {
        self.bytes.get().is_some_and(Option::is_some)
    }

    /// Whether the device had to be waited for.
    pub fn is_cold(&self) -> bool {
        self.cold.load(Ordering::Relaxed)
    }

    /// Notes when it was last of use.
    pub fn touch(&self, turn: u64) {
        self.turn.store(turn, Ordering::Relaxed);
    }

    /// When it was last of use.
    pub fn turn(&self) -> u64 {
        self.turn.load(Ordering::Relaxed)
    }

    /// Notes that so much of it was handed out.
    pub fn served(&self, length: usize) {
        self.served.fetch_add(length, Ordering::Relaxed);
    }

    /// Whether anything of it was handed out.
    pub fn was_served(&self) -> bool {
        self.served.load(Ordering::Relaxed) > 0
    }

    /// Whether as much was handed out as there is in it: nobody is likely to come back to it.
    pub fn is_used_up(&self) -> bool {
        self.served.load(Ordering::Relaxed) >= self.length
    }
}

struct OnDrop<'a>(&'a OnceLock<Option<Memory>>);

impl Drop for OnDrop<'_> {
    fn drop(&mut self) {
        let _ = self.0.set(None);
    }
}
