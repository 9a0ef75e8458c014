//! One owner per store: an advisory lock on the store itself.
//!
//! Invariants:
//! - A writer holds the lock alone; readers share it with readers.
//! - The lock belongs to the open file, not to the process: a second open in one process is refused
//!   like one from outside, and the end of the owner, however sudden, frees the store.

use std::fs::File;
use std::io;
use std::os::unix::fs::MetadataExt;
use std::path::Path;

use rustix::fs::{FlockOperation, flock, major, minor};
use rustix::io::Errno;

use crate::error::{Error, ErrorKind, Result};

/// How a store is to be held.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Hold {
    /// By one.
    Alone,
    /// By any number of readers.
    Shared,
}

/// Takes the lock on `file`, which was opened from `path`, or says who has it.
pub(super) fn hold(file: &File, path: &Path, hold: Hold) -> Result<()> {
    let operation = match hold {
        Hold::Alone => FlockOperation::NonBlockingLockExclusive,
        Hold::Shared => FlockOperation::NonBlockingLockShared,
    };
    loop {
        match flock(file, operation) {
            Ok(()) => return Ok(()),
            Err(Errno::INTR) => {}
            Err(Errno::WOULDBLOCK) => return Err(owned(path)),
            Err(error) => {
                return Err(Error::device(format!("cannot lock {}", path.display()), error.into()));
            }
        }
    }
}

/// Gives the lock up at once: closing alone would leave it to a child process that is just being started
/// and has all our descriptors until it runs its own program.
pub(super) fn release(file: &File) {
    // When this fails the descriptor's end does it.
    let _ = flock(file, FlockOperation::Unlock);
}

/// The error for a store that somebody has open; names the owner's pid where it can be found.
pub(super) fn owned(path: &Path) -> Error {
    let shown = path.display();
    let share = format!("stop it first, or run `koine serve {shown}` in its place: then all connect by that path");
    let who = match owner_pid(path) {
        Some(pid) if pid == std::process::id() => format!("this process already (pid {pid}); close it first"),
        Some(pid) => format!("the process with pid {pid}; {share}"),
        None => format!("another process; {share}"),
    };
    Error::new(ErrorKind::Owned, format!("{shown} is held by {who}"))
}

/// The process that holds the store at `path`, if one does and can be seen from here.
///
/// Readers count as holders: of several, one is named.
pub fn owner_pid(path: &Path) -> Option<u32> {
    let metadata = std::fs::metadata(path).ok()?;
    let locks = std::fs::read_to_string("/proc/locks").ok()?;
    find_owner(&locks, metadata.dev(), metadata.ino())
}

/// Looks for the inode in the kernel's table of locks, whose lines are
/// `1: FLOCK  ADVISORY  WRITE 1234 08:01:5678 0 EOF`, with `->` before the kind for those who wait.
fn find_owner(locks: &str, device: u64, inode: u64) -> Option<u32> {
    let mut other_device = Vec::new();
    for line in locks.lines() {
        let mut fields = line.split_ascii_whitespace().skip(1);
        if fields.next() != Some("FLOCK") {
            continue;
        }
        let Some(pid) = fields.nth(2).and_then(|field| field.parse::<u32>().ok()) else { continue };
        let Some(place) = fields.next() else { continue };
        let mut parts = place.split(':');
        let mut number = |radix| u64::from_str_radix(parts.next()?, radix).ok();
        let (Some(found_major), Some(found_minor), Some(found_inode)) = (number(16), number(16), number(10)) else {
            continue;
        };
        if found_inode != inode || pid == 0 {
            continue;
        }
        if (found_major, found_minor) == (u64::from(major(device)), u64::from(minor(device))) {
            return Some(pid);
        }
        other_device.push(pid);
    }
    // Some file systems show another device number to `stat` than to the kernel's table of locks.
    match other_device.as_slice() {
        [pid] => Some(*pid),
        _ => None,
    }
}

/// Whether this error of `open` says that somebody has a block device for himself (a mount, another owner).
pub(super) fn is_held_elsewhere(error: &io::Error) -> bool {
    error.raw_os_error() == Some(Errno::BUSY.raw_os_error())
}

#[cfg(test)]
mod tests {
    use super::*;
    use rustix::fs::makedev;

    const LOCKS: &str = "1: POSIX  ADVISORY  WRITE 900 08:01:42 0 EOF\n\
        2: FLOCK  ADVISORY  WRITE 4321 08:01:42 0 EOF\n\
        2: -> FLOCK  ADVISORY  WRITE 77 08:01:43 0 EOF\n\
        3: FLOCK  ADVISORY  READ  55 00:2a:44 0 EOF\n\
        garbage\n4: FLOCK ADVISORY WRITE x y\n";

    #[test]
    fn the_owner_is_found_by_device_and_inode() {
        assert_eq!(find_owner(LOCKS, makedev(8, 1), 42), Some(4321));
        assert_eq!(find_owner(LOCKS, makedev(8, 1), 43), None, "who waits is not the owner");
        assert_eq!(find_owner(LOCKS, makedev(0, 0x2a), 44), Some(55));
        assert_eq!(find_owner(LOCKS, makedev(0, 0x99), 44), Some(55), "only the inode fits, and only one");
        assert_eq!(find_owner(LOCKS, makedev(8, 1), 45), None);
        assert_eq!(find_owner("", makedev(8, 1), 45), None);
    }
}
