//! How a store that is served is made and reached: the options that all who serve one have.

use clap::Args;
use koine::{FormatOptions, IoMode, OpenOptions};

use super::memory;
use crate::{allocator, size};

/// Of the memory that there is, the cache of data takes one byte of so many.
const CACHE_SHARE: u64 = 4;

/// What a store is made like, and how it is reached.
#[derive(Args, Debug)]
pub struct MediumArgs {
    /// Up to what a file may grow [default: as far as the disk allows].
    #[arg(long, value_name = "SIZE", value_parser = size::parse)]
    size: Option<u64>,
    /// The block size of a store that is made: see `koine format` [default: 4KiB].
    #[arg(long, value_name = "SIZE", value_parser = size::parse)]
    block_size: Option<u64>,
    /// Memory for tables and caches [default: 128MiB].
    #[arg(long, value_name = "SIZE", value_parser = size::parse)]
    memory: Option<u64>,
    /// Memory beside that for data that was written or read lately; 0 for none [default: a quarter of the memory that this
    /// machine, or the control group, has].
    #[arg(long, value_name = "SIZE", value_parser = size::parse)]
    cache: Option<u64>,
    /// How the file or device is reached: `direct` past the page cache, `buffered` through it, `uring` past it by
    /// io_uring; where the system refuses, the next best is taken and the log says so.
    #[arg(long, value_name = "WAY", default_value = "direct")]
    io: IoMode,
    /// Give space that is freed back to the device or the file system once it may be used again [default: keep it].
    #[arg(long)]
    discard: bool,
}

impl MediumArgs {
    /// To open the store, or make it where that can be done without being asked. The allocator is told of the budget.
    pub fn options(&self) -> OpenOptions {
        self.memory.into_iter().for_each(allocator::set_up_for);
        OpenOptions {
            create: true,
            size_max: self.size,
            block_size: self.block_size,
            memory: self.memory,
            cache: self.cache.unwrap_or_else(|| memory::available() / CACHE_SHARE),
            io: self.io,
            discard: self.discard,
            ..OpenOptions::default()
        }
    }

    /// To make it, where nothing is.
    pub fn format_options(&self) -> FormatOptions {
        FormatOptions { size_max: self.size, block_size: self.block_size, force: false }
    }
}
