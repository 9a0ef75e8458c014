//! Flushes counted from outside: a worker runs under strace, and its calls that make something durable are counted.
//!
//! Counted are fsync, fdatasync, msync with MS_SYNC, and each write to a descriptor that was opened with O_SYNC or
//! O_DSYNC (LMDB writes its root so). Two runs that differ only in their commits give the flushes of the commits.

use std::collections::HashSet;
use std::path::Path;
use std::process::Command;

const CALLS: &str = "trace=openat,open,close,fsync,fdatasync,msync,write,pwrite64,writev,pwritev,pwritev2";

/// A command that runs `program` under strace; its arguments follow.
pub fn strace(trace: &Path, program: &Path) -> Command {
    let mut command = Command::new("strace");
    command.args(["-f", "-qq", "-s", "0", "-e", CALLS, "-e", "signal=none", "-o"]).arg(trace).arg(program);
    command
}

/// Whether strace is there and may trace.
pub fn can_trace() -> bool {
    let traced = Command::new("strace").args(["-qq", "-e", "trace=none", "-o", "/dev/null", "true"]).output();
    traced.is_ok_and(|output| output.status.success())
}

/// Counts the flushes in what strace wrote with `-f`.
pub fn count(trace: &str) -> u64 {
    let mut durable: HashSet<&str> = HashSet::new();
    let mut flushes = 0;
    for line in trace.lines() {
        // "1234  pwrite64(5, ""..., 56, 40) = 56"; resumed halves of a call begin with "<...".
        let call = line.trim_start().trim_start_matches(|digit: char| digit.is_ascii_digit()).trim_start();
        let Some((name, rest)) = call.split_once('(') else { continue };
        let descriptor = || rest.split([',', ')', ' ']).next().unwrap_or_default();
        match name {
            "open" | "openat" => {
                let Some((_, result)) = rest.rsplit_once(" = ") else { continue };
                let opened = result.split_whitespace().next().unwrap_or_default();
                if rest.contains("O_DSYNC") || rest.contains("O_SYNC") {
                    durable.insert(opened);
                } else {
                    durable.remove(opened);
                }
            }
            "close" => {
                durable.remove(descriptor());
            }
            "fsync" | "fdatasync" => flushes += 1,
            "msync" if rest.contains("MS_SYNC") => flushes += 1,
            "write" | "pwrite64" | "writev" | "pwritev" | "pwritev2" if durable.contains(descriptor()) => flushes += 1,
            _ => {}
        }
    }
    flushes
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn calls_that_make_durable_are_counted() {
        let trace = "\
100 openat(AT_FDCWD, \"data.mdb\", O_RDWR|O_CREAT|O_CLOEXEC, 0600) = 4
100 openat(AT_FDCWD, \"data.mdb\", O_WRONLY|O_DSYNC|O_CLOEXEC) = 5
100 pwrite64(4, \"\"..., 8192, 4096) = 8192
101 fdatasync(4 <unfinished ...>
100 pwrite64(5, \"\"..., 56, 40) = 56
101 <... fdatasync resumed>) = 0
102 fsync(9) = 0
100 msync(0x7f00, 4096, MS_ASYNC) = 0
100 msync(0x7f00, 4096, MS_SYNC) = 0
100 close(5) = 0
100 write(5, \"\"..., 3) = 3
100 openat(AT_FDCWD, \"log\", O_WRONLY|O_SYNC) = 5
100 openat(AT_FDCWD, \"other\", O_WRONLY) = 5
100 write(5, \"\"..., 3) = 3
";
        assert_eq!(count(trace), 4);
        assert_eq!(count(""), 0);
    }
}
