//! Reads that wait in a transaction.
//!
//! Invariants:
//! - Neighbouring and overlapping reads of one object are answered by one read of the store.
//! - A read is taken off the queue once its buffer is filled; after an error those not filled are still there.

use crate::error::Result;

/// How many reads wait at most; then they are answered.
pub const READS_MAX: usize = 1024;
/// How much is read at once for several reads, in bytes.
const RUN_LEN_MAX: u64 = 1 << 20;

/// Gets bytes of a read: the offset from its start, and the bytes there.
pub type Fill<'b> = Box<dyn FnMut(usize, &[u8]) + Send + 'b>;

/// Where the bytes of a read go.
pub enum Target<'b> {
    /// Into a buffer.
    Slice(&'b mut [u8]),
    /// To a function, in pieces: the offset from the read's start, and bytes.
    Call {
        /** How many bytes are wanted. */
        length: usize,
        /** Gets them. */
        fill: Fill<'b>,
    },
}

impl Target<'_> {
    fn len(&self) -> u64 {
        match self {
            Target::Slice(buffer) => buffer.len() as u64,
            Target::Call { length, .. } => *length as u64,
        }
    }

    fn put(&mut self, bytes: &[u8]) {
        match self {
            Target::Slice(buffer) => buffer[..bytes.len()].copy_from_slice(bytes),
            Target::Call { fill, .. } => fill(0, bytes),
        }
    }
}

/// A read that waits.
pub struct QueuedRead<'b> {
    /// Its place among all reads of the transaction.
    pub index: usize,
    /// The object.
    pub number: u64,
    /// Where it begins.
    pub offset: u64,
    /// Where its bytes go.
    pub target: Target<'b>,
}

impl QueuedRead<'_> {
    fn end(&self) -> u64 {
        self.offset.saturating_add(self.target.len())
    }
}

/// Answers reads of one object, sorted by offset; `read` fills a buffer and gives a short count at the end.
/// Removes what is answered from `reads`, and tells each one's count to `done`.
pub fn answer(
    reads: &mut Vec<QueuedRead<'_>>,
    mut read: impl FnMut(u64, &mut [u8]) -> Result<usize>,
    mut done: impl FnMut(usize, usize),
) -> Result<()> {
    reads.sort_by_key(|queued| std::cmp::Reverse(queued.offset));
    while let Some(first) = reads.last() {
        let (start, mut end) = (first.offset, first.end());
        let joins = |queued: &&QueuedRead<'_>| {
            let fits = queued.offset <= end && queued.end().max(end) - start <= RUN_LEN_MAX;
            if fits {
                end = end.max(queued.end());
            }
            fits
        };
        let many = reads.iter().rev().take_while(joins).count().max(1);
        let run = reads.len() - many;
        if many == 1
            && let Some(QueuedRead { index, target: Target::Slice(buffer), .. }) = reads.last_mut()
        {
            done(*index, read(start, buffer)?);
        } else {
            let mut bytes = vec![0; (end - start) as usize];
            let count = read(start, &mut bytes)?;
            for queued in &mut reads[run..] {
                let from = count.min((queued.offset - start) as usize);
                let to = count.min((queued.end() - start) as usize);
                queued.target.put(&bytes[from..to]);
                done(queued.index, to - from);
            }
        }
        reads.truncate(run);
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn neighbours_are_read_at_once() {
        let source: Vec<u8> = (0..100).collect();
        let mut buffers = vec![vec![0xEE; 10]; 6];
        let offsets = [20u64, 10, 95, 15, 60, 200];
        let mut reads: Vec<QueuedRead<'_>> = Vec::new();
        for (index, buffer) in buffers.iter_mut().enumerate() {
            reads.push(QueuedRead { index, number: 1, offset: offsets[index], target: Target::Slice(buffer) });
        }
        let (mut calls, mut counts) = (Vec::new(), vec![99; 6]);
        let read = |offset: u64, buffer: &mut [u8]| {
            calls.push((offset, buffer.len()));
            let from = source.len().min(offset as usize);
            let to = source.len().min(from + buffer.len());
            buffer[..to - from].copy_from_slice(&source[from..to]);
            Ok(to - from)
        };
        answer(&mut reads, read, |index, count| counts[index] = count).unwrap();
        assert!(reads.is_empty());
        drop(reads);
        assert_eq!(calls, [(10, 20), (60, 10), (95, 10), (200, 10)]);
        assert_eq!(counts, [10, 10, 5, 10, 10, 0]);
        for (index, buffer) in buffers.iter().enumerate() {
            let from = source.len().min(offsets[index] as usize);
            assert_eq!(buffer[..counts[index]], source[from..from + counts[index]]);
            assert!(buffer[counts[index]..].iter().all(|byte| *byte == 0xEE));
        }
    }

    #[test]
    fn after_an_error_the_rest_still_waits() {
        let mut buffers = [[0; 4], [0; 4]];
        let mut reads: Vec<QueuedRead<'_>> = Vec::new();
        for (index, buffer) in buffers.iter_mut().enumerate() {
            reads.push(QueuedRead { index, number: 1, offset: index as u64 * 100, target: Target::Slice(buffer) });
        }
        let read = |offset: u64, _: &mut [u8]| if offset == 0 { Ok(4) } else { Err(crate::Error::invalid("no")) };
        assert!(answer(&mut reads, read, |_, _| ()).is_err());
        assert_eq!(reads.iter().map(|queued| queued.index).collect::<Vec<_>>(), [1]);
    }
}
