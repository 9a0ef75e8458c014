//! One line about the machine, so that a figure is never read without it.

use std::fs;
use std::path::Path;

/// Processor, cores, memory, kernel, the file system of `folder`, and how this program was built.
pub fn describe(folder: &Path) -> String {
    let read = |path: &str| fs::read_to_string(path).unwrap_or_default();
    let processor = field(&read("/proc/cpuinfo"), "model name").unwrap_or_else(|| "unknown processor".into());
    let cores = std::thread::available_parallelism().map_or(1, usize::from);
    let memory = field(&read("/proc/meminfo"), "MemTotal")
        .and_then(|value| value.strip_suffix("kB")?.trim().parse::<u64>().ok())
        .map_or_else(|| "unknown memory".into(), |kibibytes| format!("{} GiB", kibibytes.div_ceil(1 << 20)));
    let kernel = rustix::system::uname().release().to_string_lossy().into_owned();
    let folder = fs::canonicalize(folder).unwrap_or_else(|_| folder.to_path_buf());
    let system = file_system(&read("/proc/self/mounts"), &folder).unwrap_or_else(|| "unknown file system".into());
    let build = if cfg!(debug_assertions) { "build with debug assertions" } else { "release build" };
    format!("{processor}, {cores} cores, {memory}, Linux {kernel}, {system} below {}, {build}", folder.display())
}

/// The file system of a folder lives in memory only: a sync there costs nothing and proves nothing.
pub fn is_volatile(folder: &Path) -> bool {
    let folder = fs::canonicalize(folder).unwrap_or_else(|_| folder.to_path_buf());
    let mounts = fs::read_to_string("/proc/self/mounts").unwrap_or_default();
    file_system(&mounts, &folder).is_some_and(|system| system == "tmpfs" || system == "ramfs")
}

/// The value of the first `name : value` line.
fn field(text: &str, name: &str) -> Option<String> {
    let value = text.lines().find_map(|line| line.strip_prefix(name))?;
    Some(value.trim_start_matches(['\t', ' ', ':']).trim().to_owned())
}

/// The type of the mount that holds `folder`: the deepest one; of equally deep ones the last, which covers the others.
fn file_system(mounts: &str, folder: &Path) -> Option<String> {
    let mut best: Option<(usize, &str)> = None;
    for line in mounts.lines() {
        let mut words = line.split(' ');
        let (Some(_), Some(point), Some(system)) = (words.next(), words.next(), words.next()) else { continue };
        let depth = Path::new(point).components().count();
        if folder.starts_with(point) && best.is_none_or(|(deepest, _)| depth >= deepest) {
            best = Some((depth, system));
        }
    }
    best.map(|(_, system)| system.to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_deepest_and_last_mount_counts() {
        let mounts =
            "/dev/vda / ext4 rw 0 0\ntmpfs /tmp tmpfs rw 0 0\n/dev/vdb /tmp/disk xfs rw 0 0\nx / btrfs rw 0 0\n";
        for (folder, expected) in
            [("/var/tmp", "btrfs"), ("/tmp/a", "tmpfs"), ("/tmp/disk/b", "xfs"), ("/tmpfoo", "btrfs")]
        {
            assert_eq!(file_system(mounts, Path::new(folder)).as_deref(), Some(expected), "{folder}");
        }
        assert_eq!(file_system("", Path::new("/")), None);
    }

    #[test]
    fn fields_lose_their_padding() {
        assert_eq!(field("a: 1\nmodel name\t: Some CPU\n", "model name").as_deref(), Some("Some CPU"));
        assert_eq!(field("a: 1\n", "b"), None);
    }

    #[test]
    fn the_line_names_the_build() {
        assert!(describe(Path::new("/")).ends_with("build") || describe(Path::new("/")).ends_with("assertions"));
    }
}
