//! In which way a file or block device is reached, and the next best where that is refused.

use std::fs::File;

use rustix::fs::fstatfs;

use super::uring::Rings;
use crate::error::{Error, Result};

/// How a [`FileDevice`](super::FileDevice) reaches its medium. What it writes and when it is durable is the same in all of them.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum IoMode {
    /// Positional calls: writes and large reads past the page cache, small reads through it.
    #[default]
    Direct,
    /// Positional calls through the page cache, writes too.
    Buffered,
    /// As `Direct`; what goes past the page cache, and syncs, through io_uring.
    Uring,
}

impl std::str::FromStr for IoMode {
    type Err = Error;

    fn from_str(text: &str) -> Result<IoMode> {
        match text {
            "direct" => Ok(IoMode::Direct),
            "buffered" => Ok(IoMode::Buffered),
            "uring" => Ok(IoMode::Uring),
            _ => Err(Error::invalid(format!("`{text}` is no way to a device: direct, buffered or uring"))),
        }
    }
}

/// Whether a file lies on a file system in user space. The kernel hands its server one direct write of a file after the
/// other, unless they are asynchronous, and not every server can tell several apart: QEMU's export of a disk, up to 10.0,
/// writes the bytes of one to the place of another. So nothing is asynchronous there.
pub(super) fn is_in_user_space(file: &File) -> bool {
    /// `FUSE_SUPER_MAGIC` of linux/magic.h.
    const FUSE: i128 = 0x6573_5546;
    fstatfs(file).is_ok_and(|system| i128::from(system.f_type) == FUSE)
}

/// The rings, where they are asked for and can be had; else why not.
pub(super) fn way_to(io: IoMode, is_direct: bool, is_in_user_space: bool) -> (Option<Rings>, Option<String>) {
    const IN_USER_SPACE: &str = "its file system is one in user space (FUSE), which gets one write after the other";
    const NOT_DIRECT: &str = "its file system takes no direct I/O; it is reached through the page cache";
    match io {
        IoMode::Buffered => (None, None),
        _ if !is_direct => (None, Some(NOT_DIRECT.into())),
        IoMode::Direct => (None, None),
        IoMode::Uring if is_in_user_space => (None, Some(IN_USER_SPACE.into())),
        IoMode::Uring => match Rings::new() {
            Ok(rings) => (Some(rings), None),
            Err(why) => (None, Some(why)),
        },
    }
}
