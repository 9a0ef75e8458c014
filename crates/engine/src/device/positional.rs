//! Positional calls, taken up again after an interruption or a short count until all is done.

use std::fs::File;
use std::io::{self, IoSliceMut};

use rustix::io::{Errno, ReadWriteFlags, pread, preadv2, pwrite, retry_on_intr};

use super::BLOCK_LEN;

/// Fills the buffer.
pub(super) fn read_full(file: &File, buffer: &mut [u8], offset: u64) -> io::Result<()> {
    let length = buffer.len();
    read_at_least(file, buffer, offset, length)
}

/// Fills at least the first `wanted` bytes of `buffer`.
pub(super) fn read_at_least(file: &File, buffer: &mut [u8], offset: u64, wanted: usize) -> io::Result<()> {
    let mut done = 0;
    while done < wanted {
        match retry_on_intr(|| pread(file, &mut buffer[done..], offset + done as u64))? {
            0 => {
                let message = format!("the device ends at {}, before what was to be read", offset + done as u64);
                return Err(io::Error::new(io::ErrorKind::UnexpectedEof, message));
            }
            count => done += count,
        }
    }
    Ok(())
}

/// Fills the buffer from the page cache, or says that this needs a wait.
pub(super) fn read_now(file: &File, buffer: &mut [u8], offset: u64) -> io::Result<()> {
    let mut done = 0;
    while done < buffer.len() {
        let at = offset + done as u64;
        let mut slices = [IoSliceMut::new(&mut buffer[done..])];
        match retry_on_intr(|| preadv2(file, &mut slices, at, ReadWriteFlags::NOWAIT)) {
            // The end of the file where there should be none: the read that waits shall tell.
            Ok(0) | Err(Errno::AGAIN | Errno::OPNOTSUPP | Errno::NOSYS | Errno::INVAL) => {
                return Err(io::ErrorKind::WouldBlock.into());
            }
            Ok(count) => done += count,
            Err(error) => return Err(error.into()),
        }
    }
    Ok(())
}

/// Writes everything. After a short write it goes on from a whole block, as direct I/O must.
pub(super) fn write_full(file: &File, data: &[u8], offset: u64) -> io::Result<()> {
    const STALLS_MAX: usize = 16;
    let (mut done, mut stalls) = (0, 0);
    while done < data.len() {
        let count = retry_on_intr(|| pwrite(file, &data[done..], offset + done as u64))?;
        let whole = count - count % BLOCK_LEN;
        stalls = if whole == 0 { stalls + 1 } else { 0 };
        if stalls == STALLS_MAX {
            let message = format!("the device takes no block at {}", offset + done as u64);
            return Err(io::Error::new(io::ErrorKind::WriteZero, message));
        }
        done += whole;
    }
    Ok(())
}
