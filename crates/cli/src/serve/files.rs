//! How many files and sockets a server may have open.
//!
//! Invariant: connections never take the files that the store, its sockets and its commands need.

use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};

/// What is kept for everything but connections of S3: the store, its sockets and those who are connected there.
const KEPT: u64 = 256;

/// Takes as many as the system gives without being asked for more rights, and tells how many of them connections may have:
/// `wanted`, or fewer.
pub fn for_connections(wanted: usize) -> usize {
    let limit = getrlimit(Resource::Nofile);
    // Programs begin with 1,024 for the sake of an old system call that is not used here.
    let _unchanged = setrlimit(Resource::Nofile, Rlimit { current: limit.maximum, maximum: limit.maximum });
    let files = getrlimit(Resource::Nofile).current;
    let granted = fitting(wanted, files);
    if granted < wanted {
        tracing::warn!(
            "{granted} connections at once instead of {wanted}: the system lets this program open {} files (ulimit -n)",
            files.unwrap_or(u64::MAX)
        );
    }
    granted
}

/// Of so many files, where there is a limit.
fn fitting(wanted: usize, files: Option<u64>) -> usize {
    let for_all = files.map_or(u64::MAX, |files| files.saturating_sub(KEPT).max(files / 2));
    wanted.min(usize::try_from(for_all).unwrap_or(usize::MAX)).max(1)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn connections_leave_files_for_the_store() {
        assert_eq!(fitting(1024, None), 1024);
        assert_eq!(fitting(1024, Some(524_288)), 1024);
        assert_eq!(fitting(1024, Some(1280)), 1024);
        assert_eq!(fitting(1024, Some(1024)), 768);
        assert_eq!(fitting(1024, Some(256)), 128);
        assert_eq!(fitting(1024, Some(0)), 1);
    }
}
