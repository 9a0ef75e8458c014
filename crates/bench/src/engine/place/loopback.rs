//! Loop devices over sparse files, and file systems on them, for root.
//!
//! Invariants:
//! - Nothing outlives this process, however it ends: a device frees itself when the last descriptor of it is closed, and
//!   a file system has no mount point any more when it is used; it lives as long as the descriptor of its root.

use crate::Error;
use rustix::fd::OwnedFd;
use rustix::fs::{Mode, OFlags, open};
use std::path::{Path, PathBuf};
use std::process::Command;

/// A loop device over a sparse file, with direct I/O to it, so that nothing is cached twice.
pub struct LoopDevice {
    path: PathBuf,
    /// Keeps the device.
    _open: OwnedFd,
}

/// Runs a program of the system; what it wrote to standard output.
fn call(program: &str, arguments: &[&str]) -> Result<String, Error> {
    let output = Command::new(program).args(arguments).output().map_err(Error::io(format!("cannot run {program}")))?;
    if output.status.success() {
        return Ok(String::from_utf8_lossy(&output.stdout).trim().to_owned());
    }
    let said = String::from_utf8_lossy(&output.stderr);
    Err(Error::Worker(format!("{program} failed: {}", said.lines().next_back().unwrap_or("without a word"))))
}

impl LoopDevice {
    /// Makes the file and the device over it.
    pub fn make(file: &Path, length: u64) -> Result<LoopDevice, Error> {
        let doing = || format!("cannot make {}", file.display());
        std::fs::File::create(file).and_then(|made| made.set_len(length)).map_err(Error::io(doing()))?;
        let name = file.to_string_lossy();
        let path = PathBuf::from(call("losetup", &["--find", "--show", "--direct-io=on", &name])?);
        let opened = open(&path, OFlags::RDONLY | OFlags::CLOEXEC, Mode::empty())
            .map_err(Error::io(format!("cannot open {}", path.display())));
        // While it is open this only says: when the last descriptor is closed.
        call("losetup", &["--detach", &path.to_string_lossy()])?;
        Ok(LoopDevice { path, _open: opened? })
    }

    /// The device.
    pub fn path(&self) -> &Path {
        &self.path
    }
}

/// A kind of file system.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum FileSystem {
    /// ext4 with an inode for each object.
    Ext4,
    /// XFS.
    Xfs,
    /// btrfs.
    Btrfs,
}

impl FileSystem {
    /// All of them.
    pub const ALL: [FileSystem; 3] = [FileSystem::Ext4, FileSystem::Xfs, FileSystem::Btrfs];

    /// Its name in reports and for `mount`.
    pub fn name(self) -> &'static str {
        match self {
            FileSystem::Ext4 => "ext4",
            FileSystem::Xfs => "xfs",
            FileSystem::Btrfs => "btrfs",
        }
    }

    /// Makes an empty one with room for so many files. No discards: they would make the loop's file sparse again.
    pub fn make(self, device: &Path, files: u64) -> Result<(), Error> {
        let device = device.to_string_lossy();
        match self {
            FileSystem::Ext4 => {
                let inodes = (files + files / 10 + 10_000).to_string();
                let now = "nodiscard,lazy_itable_init=0,lazy_journal_init=0";
                call("mkfs.ext4", &["-q", "-F", "-N", &inodes, "-E", now, &device])
            }
            FileSystem::Xfs => call("mkfs.xfs", &["-q", "-f", "-K", &device]),
            FileSystem::Btrfs => call("mkfs.btrfs", &["-q", "-f", "-K", &device]),
        }
        .map(drop)
    }

    /// Mounts it and gives its root, which is all that is left of the mount.
    pub fn mount(self, device: &Path, point: &Path) -> Result<OwnedFd, Error> {
        std::fs::create_dir_all(point).map_err(Error::io("cannot make a mount point"))?;
        let (device, point_name) = (device.to_string_lossy(), point.to_string_lossy());
        call("mount", &["-t", self.name(), "-o", "noatime", &device, &point_name])?;
        let root = open(point, OFlags::RDONLY | OFlags::DIRECTORY | OFlags::CLOEXEC, Mode::empty())
            .map_err(Error::io("cannot open the root of a file system"));
        call("umount", &["--lazy", &point_name])?;
        root
    }
}
