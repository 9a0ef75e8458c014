//! Requests on their way out: at once, or gathered to leave together.
//!
//! Invariant: a request leaves whole, or the connection ends.

use std::io::{IoSlice, Write};
use std::sync::atomic::Ordering;
use std::time::Instant;

use super::{Link, gone};
use koine_env::patience;

use crate::copies;
use crate::wire::stream::is_nothing;

/// Requests of at most so many bytes are gathered, up to so many in all.
const GATHERED_LEN_MAX: usize = 16 << 10;
const GATHERED_ALL_LEN_MAX: usize = 64 << 10;

/// Requests that are to leave together.
#[derive(Default)]
pub(super) struct Gathered {
    holders: usize,
    bytes: Vec<u8>,
}

impl Link {
    /// Until [`Link::release`] small requests are kept together.
    pub fn gather(&self) {
        self.gathered.lock().holders += 1;
    }

    /// What was kept leaves.
    pub fn release(&self) {
        let mut gathered = self.gathered.lock();
        gathered.holders -= 1;
        self.write_gathered(&mut gathered);
    }

    /// Who waits for an answer shall not wait for a request that was kept.
    pub(super) fn flush(&self) {
        if self.has_gathered.load(Ordering::Acquire) {
            self.write_gathered(&mut self.gathered.lock());
        }
    }

    fn write_gathered(&self, gathered: &mut Gathered) {
        if !gathered.bytes.is_empty() {
            self.write(&[&gathered.bytes]);
            gathered.bytes.clear();
        }
        self.has_gathered.store(false, Ordering::Release);
    }

    /// Sends a request, or keeps it. Where the connection fails its slot hears of it.
    pub(super) fn send(&self, parts: &[&[u8]]) {
        let length: usize = parts.iter().map(|part| part.len()).sum();
        let mut gathered = self.gathered.lock();
        if gathered.holders > 0 && length <= GATHERED_LEN_MAX {
            parts.iter().for_each(|part| gathered.bytes.extend_from_slice(part));
            copies::copied(length);
            self.has_gathered.store(true, Ordering::Release);
            if gathered.bytes.len() >= GATHERED_ALL_LEN_MAX {
                self.write_gathered(&mut gathered);
            }
            return;
        }
        self.write_gathered(&mut gathered);
        self.write(parts);
    }

    fn write(&self, parts: &[&[u8]]) {
        if !self.process.is_here() {
            return;
        }
        let mut slices: Vec<IoSlice<'_>> = parts.iter().map(|part| IoSlice::new(part)).collect();
        let mut rest = &mut slices[..];
        IoSlice::advance_slices(&mut rest, 0);
        let written = self.stream.send_now(rest).and_then(|count| {
            IoSlice::advance_slices(&mut rest, count);
            if rest.is_empty() { Ok(()) } else { self.write_slowly(rest) }
        });
        if let Err(error) = written {
            // A part of it may have gone out: nothing can follow.
            self.fail(gone(&self.place).with_source(error));
        }
    }

    /// The server takes no more for now: perhaps because nobody reads what it answers.
    fn write_slowly(&self, mut rest: &mut [IoSlice<'_>]) -> std::io::Result<()> {
        {
            let mut pending = self.pending.lock();
            pending.wanted += 1;
            self.wake_if_wanted(&pending);
        }
        let (mut written, mut moved) = (Ok(()), Instant::now());
        while !rest.is_empty() && written.is_ok() {
            written = match (&*self.stream).write_vectored(rest) {
                Ok(0) => Err(std::io::ErrorKind::WriteZero.into()),
                Ok(count) => {
                    IoSlice::advance_slices(&mut rest, count);
                    moved = Instant::now();
                    Ok(())
                }
                // Where it took something since the last time the caller is not asked.
                Err(error)
                    if is_nothing(&error)
                        && self.call_max.is_none_or(|most| moved.elapsed() < most)
                        && !patience::is_over() =>
                {
                    Ok(())
                }
                Err(error) => Err(error),
            };
        }
        self.unwant();
        written
    }
}
