//! How much memory this process may use: what the machine has, or less where a control group says so.
//!
//! Invariant: what cannot be found out is no limit; where nothing can be, the answer is small.

use std::fs::read_to_string;
use std::path::Path;

/// Where nothing is known.
const UNKNOWN: u64 = 512 << 20;

/// Bytes.
pub fn available() -> u64 {
    let cgroup = read_to_string("/proc/self/cgroup").unwrap_or_default();
    let groups = limits_of(&cgroup).filter_map(|path| limit_in(&read_to_string(path).ok()?));
    let machine = total_in(&read_to_string("/proc/meminfo").unwrap_or_default());
    groups.chain(machine).min().unwrap_or(UNKNOWN)
}

/// The files with the limits of the groups that `/proc/self/cgroup` names, and of those around them.
fn limits_of(cgroup: &str) -> impl Iterator<Item = std::path::PathBuf> {
    cgroup.lines().flat_map(|line| {
        let mut fields = line.splitn(3, ':');
        let (controllers, group) = (fields.nth(1).unwrap_or_default(), fields.next().unwrap_or_default());
        let (root, file) = match controllers {
            "" => ("/sys/fs/cgroup", "memory.max"),
            _ if controllers.split(',').any(|controller| controller == "memory") => {
                ("/sys/fs/cgroup/memory", "memory.limit_in_bytes")
            }
            _ => return Vec::new(),
        };
        // In a container the group's name may be that outside of it: the root is its own then.
        let groups = Path::new(group).ancestors();
        groups.map(|group| Path::new(root).join(group.strip_prefix("/").unwrap_or(group)).join(file)).collect()
    })
}

fn limit_in(text: &str) -> Option<u64> {
    text.trim().parse().ok()
}

/// `MemTotal` of `/proc/meminfo`.
fn total_in(meminfo: &str) -> Option<u64> {
    let line = meminfo.lines().find_map(|line| line.strip_prefix("MemTotal:"))?;
    let kibibytes: u64 = line.split_whitespace().next()?.parse().ok()?;
    kibibytes.checked_mul(1024)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn limits_are_those_of_all_groups_around() {
        let paths = |cgroup: &str| limits_of(cgroup).map(|path| path.display().to_string()).collect::<Vec<_>>();
        let (v2, v1) = ("/sys/fs/cgroup/memory.max", "/sys/fs/cgroup/memory/memory.limit_in_bytes");
        assert_eq!(paths("0::/\n"), [v2]);
        assert_eq!(paths("0::/a/b\n"), ["/sys/fs/cgroup/a/b/memory.max", "/sys/fs/cgroup/a/memory.max", v2]);
        assert_eq!(paths("9:memory:/a\n3:cpu,cpuacct:/b\n"), ["/sys/fs/cgroup/memory/a/memory.limit_in_bytes", v1]);
        assert_eq!((limit_in("max\n"), limit_in("1048576\n")), (None, Some(1 << 20)));
        assert_eq!(total_in("MemFree: 3 kB\nMemTotal:       2048 kB\n"), Some(2 << 20));
        assert_eq!(total_in("nothing"), None);
        assert!(available() > 0);
    }
}
