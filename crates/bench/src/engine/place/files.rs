//! A file system on a loop device: one file an object, all in one folder, named by their numbers.

use super::loopback::{FileSystem, LoopDevice};
use super::{Handle, Outcome, Place, failed};
use crate::Error;
use rustix::fd::OwnedFd;
use rustix::fs::{AtFlags, Mode, OFlags, fdatasync, fstat, openat, syncfs, unlinkat};
use rustix::io::{pread, pwrite};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering};

/// A mounted file system.
pub struct Files {
    kind: FileSystem,
    device: LoopDevice,
    point: PathBuf,
    /// `None` between two mounts.
    root: Option<OwnedFd>,
    next: AtomicU64,
}

impl Files {
    /// Makes one in a file below `folder`.
    pub fn make(kind: FileSystem, folder: &Path, length: u64, files: u64) -> Result<Files, Error> {
        let device = LoopDevice::make(&folder.join(kind.name()), length)?;
        kind.make(device.path(), files)?;
        let point = folder.join(format!("{}-root", kind.name()));
        let root = Some(kind.mount(device.path(), &point)?);
        Ok(Files { kind, device, point, root, next: AtomicU64::new(1) })
    }

    fn root(&self) -> Outcome<&OwnedFd> {
        self.root.as_ref().ok_or_else(|| "it is not mounted".to_owned())
    }
}

fn name(number: u64) -> String {
    number.to_string()
}

impl Place for Files {
    fn name(&self) -> &'static str {
        self.kind.name()
    }

    fn create(&self) -> Outcome<u64> {
        let number = self.next.fetch_add(1, Ordering::Relaxed);
        let flags = OFlags::RDWR | OFlags::CREATE | OFlags::EXCL | OFlags::CLOEXEC;
        openat(self.root()?, name(number), flags, Mode::RUSR | Mode::WUSR).map_err(failed("create"))?;
        Ok(number)
    }

    fn open(&self, number: u64) -> Outcome<Box<dyn Handle>> {
        let flags = OFlags::RDWR | OFlags::CLOEXEC;
        let file = openat(self.root()?, name(number), flags, Mode::empty()).map_err(failed("open"))?;
        Ok(Box::new(OpenFile(file)))
    }

    fn delete(&self, number: u64) -> Outcome<()> {
        unlinkat(self.root()?, name(number), AtFlags::empty()).map_err(failed("delete"))
    }

    fn settle(&self) -> Outcome<()> {
        syncfs(self.root()?).map_err(failed("sync"))
    }

    fn forget(&mut self) -> Outcome<()> {
        self.settle()?;
        // Its caches go with it.
        self.root = None;
        self.root = Some(self.kind.mount(self.device.path(), &self.point).map_err(failed("mount"))?);
        Ok(())
    }
}

struct OpenFile(OwnedFd);

impl Handle for OpenFile {
    fn write(&self, offset: u64, data: &[u8], synced: bool) -> Outcome<()> {
        let mut done = 0;
        while let Some(rest) = data.get(done..).filter(|rest| !rest.is_empty()) {
            done += pwrite(&self.0, rest, offset + done as u64).map_err(failed("write"))?;
        }
        if synced { fdatasync(&self.0).map_err(failed("sync")) } else { Ok(()) }
    }

    fn transact(&self, _writes: &[(u64, &[u8])]) -> Outcome<bool> {
        Ok(false)
    }

    fn read(&self, offset: u64, buffer: &mut [u8]) -> Outcome<usize> {
        let mut done = 0;
        while let Some(rest) = buffer.get_mut(done..).filter(|rest| !rest.is_empty()) {
            match pread(&self.0, rest, offset + done as u64).map_err(failed("read"))? {
                0 => break,
                count => done += count,
            }
        }
        Ok(done)
    }

    fn status(&self) -> Outcome<u64> {
        fstat(&self.0).map(|status| status.st_size as u64).map_err(failed("stat"))
    }
}
