//! Calls of the device through io_uring: a large one goes out in parts that are under way at once.
//!
//! Invariants:
//! - A call returns only when nothing of it is with the kernel any more: the memory is the caller's again.
//! - A ring is used by one call at a time; rings are kept for the next calls, at most [`RINGS_IDLE_MAX`].

use std::fs::File;
use std::io;
use std::os::fd::AsRawFd;

use io_uring::{IoUring, Probe, opcode, squeue, types};
use parking_lot::Mutex;

use super::BLOCK_LEN;

/// Parts of a call.
const PART_LEN: usize = 256 << 10;
/// The most parts of a call under way at once.
const PARTS_MAX: usize = 8;
/// Rings kept while nobody uses them.
const RINGS_IDLE_MAX: usize = 8;

/// The rings of one device.
pub(super) struct Rings {
    idle: Mutex<Vec<IoUring>>,
}

/// A part of a call that is still to be done.
#[derive(Clone, Copy)]
struct Part {
    at: usize,
    length: usize,
}

impl Rings {
    /// Fails, saying why, where the kernel gives no ring or knows too little.
    pub(super) fn new() -> Result<Rings, String> {
        let refused = |error: io::Error| format!("the kernel refuses io_uring ({error}); positional calls are used");
        let ring = IoUring::new(PARTS_MAX as u32).map_err(refused)?;
        let mut probe = Probe::new();
        ring.submitter().register_probe(&mut probe).map_err(refused)?;
        let needed = [opcode::Read::CODE, opcode::Write::CODE, opcode::Fsync::CODE];
        if needed.iter().any(|code| !probe.is_supported(*code)) {
            return Err("this kernel's io_uring does not read and write; positional calls are used".into());
        }
        Ok(Rings { idle: Mutex::new(vec![ring]) })
    }

    fn with<T>(&self, work: impl FnOnce(&mut IoUring) -> io::Result<T>) -> io::Result<T> {
        let kept = self.idle.lock().pop();
        let mut ring = kept.map_or_else(|| IoUring::new(PARTS_MAX as u32), Ok)?;
        let done = work(&mut ring);
        let mut idle = self.idle.lock();
        if idle.len() < RINGS_IDLE_MAX {
            idle.push(ring);
        }
        done
    }

    /// Fills at least the first `wanted` bytes of `buffer`.
    pub(super) fn read(&self, file: &File, buffer: &mut [u8], offset: u64, wanted: usize) -> io::Result<()> {
        let (start, fd) = (buffer.as_mut_ptr(), types::Fd(file.as_raw_fd()));
        let entry = |part: Part| {
            opcode::Read::new(fd, start.wrapping_add(part.at), part.length as u32)
                .offset(offset + part.at as u64)
                .build()
        };
        let ends = |at: usize| {
            let message = format!("the device ends at {}, before what was to be read", offset + at as u64);
            (at < wanted).then(|| io::Error::new(io::ErrorKind::UnexpectedEof, message))
        };
        // SAFETY: every part lies within `buffer`, which is borrowed until `transfer` returns, and it returns only when
        // the kernel has given all parts back.
        #[allow(unsafe_code)]
        self.with(|ring| unsafe { transfer(ring, buffer.len(), &entry, &ends) })
    }

    /// Writes everything.
    pub(super) fn write(&self, file: &File, data: &[u8], offset: u64) -> io::Result<()> {
        let (start, fd) = (data.as_ptr(), types::Fd(file.as_raw_fd()));
        let entry = |part: Part| {
            opcode::Write::new(fd, start.wrapping_add(part.at), part.length as u32)
                .offset(offset + part.at as u64)
                .build()
        };
        let full = |at: usize| {
            let message = format!("the device takes no block at {}", offset + at as u64);
            Some(io::Error::new(io::ErrorKind::WriteZero, message))
        };
        // SAFETY: as in `read`; the kernel only reads the memory.
        #[allow(unsafe_code)]
        self.with(|ring| unsafe { transfer(ring, data.len(), &entry, &full) })
    }

    /// Makes data durable.
    pub(super) fn sync_data(&self, file: &File) -> io::Result<()> {
        let entry = opcode::Fsync::new(types::Fd(file.as_raw_fd())).flags(types::FsyncFlags::DATASYNC).build();
        // SAFETY: the call names no memory.
        #[allow(unsafe_code)]
        self.with(|ring| unsafe {
            push(ring, &entry)?;
            wait(ring, 1);
            let done = ring.completion().next().map_or(0, |done| done.result());
            if done < 0 { Err(io::Error::from_raw_os_error(-done)) } else { Ok(()) }
        })
    }
}

/// Puts an entry into the queue of submissions.
///
/// # Safety
/// What the entry names must live until its completion was taken.
#[allow(unsafe_code)]
unsafe fn push(ring: &mut IoUring, entry: &squeue::Entry) -> io::Result<()> {
    // SAFETY: the caller's word.
    unsafe { ring.submission().push(entry) }.map_err(|_| io::Error::other("the queue of io_uring is full"))
}

/// Waits until so many completions are there. Never gives up: memory is with the kernel until then.
fn wait(ring: &mut IoUring, count: usize) {
    while ring.completion().len() < count {
        if ring.submit_and_wait(count).is_err() {
            // Interrupted, or for the moment out of memory.
            std::thread::yield_now();
        }
    }
}

/// Does a call in parts; `entry` makes one, `stuck` tells what no progress at a place means (`None`: it is enough).
///
/// # Safety
/// What entries name must live until this returns.
#[allow(unsafe_code)]
unsafe fn transfer(
    ring: &mut IoUring,
    length: usize,
    entry: &dyn Fn(Part) -> squeue::Entry,
    stuck: &dyn Fn(usize) -> Option<io::Error>,
) -> io::Result<()> {
    let whole = |at: usize| Part { at, length: PART_LEN.min(length - at) };
    let mut left: Vec<Part> = (0..length).step_by(PART_LEN).map(whole).rev().collect();
    let mut failed = None;
    while !left.is_empty() && failed.is_none() {
        let begun: Vec<Part> =
            std::iter::from_fn(|| left.pop()).take(PARTS_MAX.min(ring.params().sq_entries() as usize)).collect();
        let mut under_way = 0;
        for (index, part) in begun.iter().enumerate() {
            // SAFETY: the caller's word; all that was pushed is waited for below.
            match unsafe { push(ring, &entry(*part).user_data(index as u64)) } {
                Ok(()) => under_way += 1,
                Err(error) => {
                    failed = Some(error);
                    break;
                }
            }
        }
        wait(ring, under_way);
        for done in ring.completion() {
            let Some(part) = begun.get(done.user_data() as usize) else { continue };
            match rest_of(*part, done.result()) {
                Ok(Some(rest)) if rest.at == part.at && done.result() >= 0 => {
                    failed = failed.or_else(|| stuck(part.at));
                }
                Ok(Some(rest)) => left.push(rest),
                Ok(None) => {}
                Err(error) => failed = failed.or(Some(error)),
            }
        }
    }
    failed.map_or(Ok(()), Err)
}

/// What is left of a part after the kernel's answer: whole blocks are done.
fn rest_of(part: Part, answer: i32) -> io::Result<Option<Part>> {
    let Ok(count) = usize::try_from(answer) else {
        let error = io::Error::from_raw_os_error(answer.saturating_neg());
        let again = [io::ErrorKind::Interrupted, io::ErrorKind::WouldBlock].contains(&error.kind());
        return if again { Ok(Some(part)) } else { Err(error) };
    };
    if count >= part.length {
        return Ok(None);
    }
    let done = count - count % BLOCK_LEN;
    Ok(Some(Part { at: part.at + done, length: part.length - done }))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_part_goes_on_from_a_whole_block() {
        let part = Part { at: 1 << 20, length: 10_000 };
        let rest = |answer| rest_of(part, answer).map(|rest| rest.map(|rest| (rest.at - part.at, rest.length)));
        assert_eq!(rest(10_000).unwrap(), None);
        assert_eq!(rest(9_000).unwrap(), Some((8192, 1808)));
        assert_eq!(rest(4095).unwrap(), Some((0, 10_000)));
        assert_eq!(rest(-libc::EINTR).unwrap(), Some((0, 10_000)));
        assert_eq!(rest(-libc::EIO).unwrap_err().raw_os_error(), Some(libc::EIO));
    }
}
