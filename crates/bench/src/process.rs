//! What /proc tells of a process: CPU time with its children, and memory that belongs to nobody's file.

use std::fs;
use std::time::Duration;

/// The number of a running process.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ProcessId(pub u32);

impl ProcessId {
    /// CPU time it has used, with that of children it waited for; `None` when it is gone.
    pub fn cpu(self) -> Option<Duration> {
        let stat = fs::read_to_string(format!("/proc/{}/stat", self.0)).ok()?;
        parse_cpu(&stat, rustix::param::clock_ticks_per_second())
    }

    /// Anonymous and shared memory in bytes, with that of living children; `None` when it is gone.
    pub fn own_memory_bytes(self) -> Option<u64> {
        let status = fs::read_to_string(format!("/proc/{}/status", self.0)).ok()?;
        let own = parse_own_memory(&status)?;
        let children = fs::read_to_string(format!("/proc/{0}/task/{0}/children", self.0)).unwrap_or_default();
        let below: u64 = children
            .split_ascii_whitespace()
            .filter_map(|child| child.parse().ok())
            .filter_map(|child| ProcessId(child).own_memory_bytes())
            .sum();
        Some(own + below)
    }
}

/// utime + stime + cutime + cstime of a `stat` line. The name in parentheses may hold spaces and parentheses itself.
fn parse_cpu(stat: &str, ticks_per_second: u64) -> Option<Duration> {
    let (_, fields) = stat.rsplit_once(')')?;
    // After the name, field 3 (state) is first: utime is the 12th from there.
    let mut ticks = 0_u64;
    let mut times = fields.split_ascii_whitespace().skip(11);
    for _ in 0..4 {
        ticks += times.next()?.parse::<u64>().ok()?;
    }
    Some(Duration::from_millis(ticks * 1000 / ticks_per_second.max(1)))
}

/// RssAnon + RssShmem of a `status` file, in bytes.
fn parse_own_memory(status: &str) -> Option<u64> {
    let kibibytes = |name: &str| -> Option<u64> {
        let line = status.lines().find_map(|line| line.strip_prefix(name))?;
        line.trim_start_matches(':').trim().strip_suffix("kB")?.trim().parse().ok()
    };
    Some((kibibytes("RssAnon")? + kibibytes("RssShmem")?) * 1024)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn cpu_counts_children_and_survives_odd_names() {
        let stat = "42 (a b) c) S 1 42 42 0 -1 4194560 100 0 0 0 250 50 7 3 20 0 9 0 12345 1000 200";
        assert_eq!(parse_cpu(stat, 100), Some(Duration::from_millis(3100)));
        assert_eq!(parse_cpu("42 (short) S 1 2", 100), None);
        assert_eq!(parse_cpu("", 100), None);
    }

    #[test]
    fn memory_is_anonymous_and_shared_only() {
        let status = "VmRSS:\t 9000 kB\nRssAnon:\t    1000 kB\nRssFile:\t    7976 kB\nRssShmem:\t      24 kB\n";
        assert_eq!(parse_own_memory(status), Some(1024 * 1024));
        assert_eq!(parse_own_memory("RssAnon:\t 1 kB\n"), None);
    }

    #[test]
    fn this_process_can_be_read() {
        let own = ProcessId(std::process::id());
        assert!(own.cpu().is_some());
        assert!(own.own_memory_bytes().is_some_and(|bytes| bytes > 0));
    }
}
