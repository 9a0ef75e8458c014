//! Which process something was opened in.
//!
//! Invariants:
//! - A fork copies memory, but neither threads nor the ownership of a store: what was opened before it belongs to the
//!   process that opened it. The copy refuses every call, writes nothing, and is dropped without a trace.
//! - To ask costs one load: the system calls back in a forked process before anything else runs there.

// The system is told whom to call.
#![allow(unsafe_code)]

use std::io;
use std::sync::Once;
use std::sync::atomic::{AtomicU32, Ordering};

use crate::error::{Error, ErrorKind, Result};

/// How many forks lie between the first process that opened something and this one.
static FORKS: AtomicU32 = AtomicU32::new(0);

/// What a forked copy answers.
const FORKED: &str =
    "it was opened before this process was forked, and belongs to the parent: open it again in this process";

extern "C" fn forked() {
    FORKS.fetch_add(1, Ordering::Relaxed);
}

/// The process in which something was opened.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Process(u32);

impl Process {
    /// This one.
    pub fn here() -> Process {
        static WATCHED: Once = Once::new();
        // SAFETY: the handler is a function of this library that touches one atomic number. Where there is no memory for
        // it nothing is called, and a copy is not told from its parent, as before.
        WATCHED.call_once(|| {
            let _ = unsafe { libc::pthread_atfork(None, None, Some(forked)) };
        });
        Process(FORKS.load(Ordering::Relaxed))
    }

    /// Whether this is still that process, and not a forked copy.
    pub fn is_here(self) -> bool {
        self.0 == FORKS.load(Ordering::Relaxed)
    }

    /// Fails in a forked copy.
    pub fn check(self) -> Result<()> {
        if self.is_here() { Ok(()) } else { Err(Error::new(ErrorKind::Stopped, FORKED)) }
    }

    /// The same, for what speaks with the operating system.
    pub(super) fn check_io(self) -> io::Result<()> {
        if self.is_here() { Ok(()) } else { Err(io::Error::other(FORKED)) }
    }

    /// Leaves something to the parent: in a forked copy it is taken, and never dropped.
    pub fn leave<T>(self, take: impl FnOnce() -> T) {
        if !self.is_here() {
            std::mem::forget(take());
        }
    }
}
