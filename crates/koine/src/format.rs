//! Making a store on a file or a device.
//!
//! Invariants:
//! - Nothing is overwritten unless both ends are zero or the caller insists; the lock is held while looking.
//! - A file grows to its first length before the first byte of the store is written.

use std::path::Path;

use koine_engine::Engine;
use koine_engine::device::{Device, FileDevice, OpenOptions};
use koine_env::OsRandom;

use crate::error::{Error, Result};
use crate::probe::{Found, probe};

/// The length of a new file, unless its limit is lower.
const FILE_LEN_FIRST: u64 = 256 << 20;
/// The block size of a store whose owner wants no other.
const BLOCK_SIZE: u64 = 4096;
/// The smallest store.
pub const STORE_LEN_MIN: u64 = 1 << 20;

/// What a new store is like.
#[derive(Clone, Copy, Debug, Default)]
pub struct FormatOptions {
    /// Up to how many bytes it grows; `None` is as far as the medium goes.
    pub size_max: Option<u64>,
    /// Its block size in bytes, for ever: the unit in which space for values is given out; a power of two from 4 KiB
    /// to 1 MiB. `None` is 4 KiB.
    pub block_size: Option<u64>,
    /// Overwrite what is there.
    pub force: bool,
}

/// What was made.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Formatted {
    /// The store's length in bytes.
    pub size: u64,
    /// Up to what it grows by itself; `None` is as far as the medium goes.
    pub size_max: Option<u64>,
    /// Its block size in bytes.
    pub block_size: u64,
}

/// Makes an empty store at a path: a file (made when missing) or a block device.
pub fn format(path: &Path, options: &FormatOptions) -> Result<Formatted> {
    if let Found::Other(found) = probe(path)?
        && path.is_dir()
    {
        return Err(Error::Occupied { path: path.to_owned(), found });
    }
    if let Some(size) = options.size_max.filter(|size| *size < STORE_LEN_MIN) {
        return Err(Error::BadSize(format!("{size} bytes are too few for a store: give at least 1MiB")));
    }
    check_block_size(options.block_size)?;
    let made = probe(path)? == Found::Missing;
    let device = FileDevice::open(path, OpenOptions { create: true, read_only: false }).map_err(Error::at(path))?;
    let result = format_open(path, &device, options);
    // The lock goes with it; what matters was synced before.
    let closed = device.close();
    if result.is_err() && made {
        // A file that was only made for this: an error leaves things as they were.
        let _ = std::fs::remove_file(path);
    }
    let formatted = result?;
    closed.map_err(|source| Error::Io { what: "close", path: path.to_owned(), source })?;
    Ok(formatted)
}

/// Refuses a block size that no store can have.
pub(crate) fn check_block_size(block_size: Option<u64>) -> Result<()> {
    // 0 is none that anybody asks for.
    let asked = block_size.map_or(BLOCK_SIZE, |size| size.max(1));
    koine_engine::FormatOptions::check_block_len(asked).map_err(|error| Error::BadSize(error.message().to_owned()))
}

/// Formats a device that this process holds.
pub(crate) fn format_open(path: &Path, device: &FileDevice, options: &FormatOptions) -> Result<Formatted> {
    match probe(path)? {
        Found::Missing | Found::Empty | Found::Zeros => {}
        Found::Store if !options.force => {
            return Err(Error::Occupied { path: path.to_owned(), found: "a Koine store already".to_owned() });
        }
        Found::Other(found) if !options.force => return Err(Error::Occupied { path: path.to_owned(), found }),
        Found::Store | Found::Other(_) => {}
    }
    let failed = |what| move |source| Error::Io { what, path: path.to_owned(), source };
    let length = device.len().map_err(failed("find the size of"))?;
    if length == 0 {
        let first = options.size_max.unwrap_or(u64::MAX).min(FILE_LEN_FIRST);
        device.grow(first / 4096 * 4096).map_err(failed("make room in"))?;
    } else if let Some(size) = options.size_max.filter(|size| *size < length) {
        return Err(Error::BadSize(format!(
            "{} has {length} bytes already, more than the size asked for ({size}); remove it first, or ask for more",
            path.display()
        )));
    }
    let block_size = options.block_size.unwrap_or(BLOCK_SIZE);
    let size_max = options.size_max.unwrap_or(0);
    let engine = koine_engine::FormatOptions { size_max, block_len: block_size, ..Default::default() };
    Engine::format(device, engine, &OsRandom).map_err(Error::at(path))?;
    let size = device.len().map_err(failed("find the size of"))?;
    Ok(Formatted { size, size_max: if device.is_fixed() { Some(size) } else { options.size_max }, block_size })
}
