//! Memory control groups, of version 1 or 2, where this process may make them.
//!
//! The limit holds for the page cache too, so that data larger than it must come from the disk.

use crate::Error;
use std::fs;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU32, Ordering};

/// A group of its own for one process. Dropped, it is removed; its process must have ended before.
#[derive(Debug)]
pub struct MemoryGroup {
    folder: PathBuf,
}

/// Where groups are made, and the file that takes the limit.
const PLACES: [(&str, &str); 2] =
    [("/sys/fs/cgroup/memory", "memory.limit_in_bytes"), ("/sys/fs/cgroup", "memory.max")];

static MADE: AtomicU32 = AtomicU32::new(0);

impl MemoryGroup {
    /// Makes one.
    pub fn make(limit_len: u64) -> Result<MemoryGroup, Error> {
        let name = format!("koine-bench-{}-{}", std::process::id(), MADE.fetch_add(1, Ordering::Relaxed));
        let mut reason = "there is no memory controller".to_owned();
        for (place, limit_file) in PLACES {
            match MemoryGroup::make_at(Path::new(place), &name, limit_file, limit_len) {
                Ok(group) => return Ok(group),
                Err(error) => reason = error.to_string(),
            }
        }
        Err(Error::Worker(format!("no memory control group can be made: {reason}")))
    }

    fn make_at(place: &Path, name: &str, limit_file: &str, limit_len: u64) -> std::io::Result<MemoryGroup> {
        fs::create_dir(place.join(name))?;
        let group = MemoryGroup { folder: place.join(name) };
        fs::write(group.folder.join(limit_file), limit_len.to_string())?;
        if !group.folder.join("cgroup.procs").exists() {
            return Err(std::io::Error::other("it takes no processes"));
        }
        Ok(group)
    }

    /// Whether one can be made here; else why not.
    pub fn probe() -> Result<(), Error> {
        MemoryGroup::make(64 << 20).map(drop)
    }

    /// Moves a process into it.
    pub fn add(&self, process: u32) -> Result<(), Error> {
        let file = self.folder.join("cgroup.procs");
        fs::write(&file, process.to_string()).map_err(Error::io(format!("cannot write {}", file.display())))
    }
}

impl Drop for MemoryGroup {
    fn drop(&mut self) {
        let _busy_or_gone = fs::remove_dir(&self.folder);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_group_holds_its_limit_and_goes_away() {
        // Where none can be made the error says why; nothing else can be tested there.
        match MemoryGroup::make(64 << 20) {
            Err(error) => assert!(error.to_string().starts_with("no memory control group can be made: ")),
            Ok(group) => {
                let folder = group.folder.clone();
                let limit = PLACES.iter().find_map(|(_, file)| fs::read_to_string(folder.join(file)).ok());
                assert_eq!(limit.as_deref().map(str::trim), Some("67108864"));
                drop(group);
                assert!(!folder.exists());
            }
        }
    }
}
