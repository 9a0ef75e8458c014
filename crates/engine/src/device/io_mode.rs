//! In which way a file or block device is reached, and the next best where that is refused.

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

/// The rings, where they are asked for and can be had; else why not.
pub(super) fn way_to(io: IoMode, is_direct: bool) -> (Option<Rings>, Option<String>) {
    const NOT_DIRECT: &str = "its file system takes no direct I/O; it is reached through the page cache";
    match io {
        IoMode::Buffered => (None, None),
        _ if !is_direct => (None, Some(NOT_DIRECT.into())),
        IoMode::Direct => (None, None),
        IoMode::Uring => match Rings::new() {
            Ok(rings) => (Some(rings), None),
            Err(why) => (None, Some(why)),
        },
    }
}
