//! Frames as they come out of a stream, many in one call of the system.
//!
//! Invariants:
//! - What a frame holds is its own: no short value keeps a long buffer.
//! - Memory for a frame is taken once its header was believed, and filled as its bytes come.

use std::io::Read;

use bytes::Bytes;
use koine_engine::{Error, Result};
use koine_env::patience;

use super::frame::{Frame, HEADER_LEN, Header, Limits, cut, is_whole};
use super::message::{Message, SHORT_LEN_MAX};
use super::stream::{failed, is_tick};

/// Memory for frames that came together.
const READ_LEN: usize = 64 << 10;

/// A stream of frames.
pub struct Incoming<R> {
    from: R,
    /// What was read ahead lies from `start` to `end`.
    buffer: Box<[u8]>,
    start: usize,
    end: usize,
    /// A frame was begun, and its end did not come.
    is_within: bool,
}

impl<R: Read> Incoming<R> {
    /// Out of a stream.
    pub fn new(from: R) -> Incoming<R> {
        Incoming { from, buffer: vec![0; READ_LEN].into(), start: 0, end: 0, is_within: false }
    }

    /// The stream.
    pub fn get_mut(&mut self) -> &mut R {
        &mut self.from
    }

    /// Whether a whole frame was read ahead: the next one comes without waiting.
    pub fn has_next(&self) -> bool {
        is_whole(self.ahead())
    }

    /// Whether the last call failed within a frame: nothing can follow then.
    pub fn is_within(&self) -> bool {
        self.is_within
    }

    /// The next frame; `None` at the end of the stream. `Stopped` when the stream fails or ends within one, `Interrupted` where
    /// who reads is to ask whether it waits still.
    pub fn next(&mut self, limits: Limits) -> Result<Option<Frame>> {
        let next = self.next_frame(limits);
        self.is_within &= next.is_err();
        next
    }

    fn next_frame(&mut self, limits: Limits) -> Result<Option<Frame>> {
        self.fill(HEADER_LEN)?;
        let Some(header) = self.ahead().first_chunk::<HEADER_LEN>() else {
            return if self.ahead().is_empty() { Ok(None) } else { Err(cut()) };
        };
        let header = Header::decode(header, limits)?;
        self.start += HEADER_LEN;
        self.is_within = true;
        if let Some((message, data)) = self.split_ahead(&header) {
            // Compared where they lie, which the processor has at hand, before they are copied.
            header.check(message, data)?;
            let (message, data) = (Message::copy_of(message), Bytes::copy_from_slice(data));
            self.start += header.message_len() + header.data_len();
            return Ok(Some(Frame::assemble(&header, message, data)));
        }
        let message = if header.message_len() <= SHORT_LEN_MAX {
            self.fill(header.message_len())?;
            let message = Message::copy_of(self.ahead().get(..header.message_len()).ok_or_else(cut)?);
            self.start += header.message_len();
            message
        } else {
            self.take(header.message_len())?.into()
        };
        let data = self.take(header.data_len())?;
        header.check(&message, &data)?;
        Ok(Some(Frame::assemble(&header, message, data.into())))
    }

    /// Message and data, where all of both was read ahead.
    fn split_ahead(&self, header: &Header) -> Option<(&[u8], &[u8])> {
        let (message, rest) = self.ahead().split_at_checked(header.message_len())?;
        Some((message, rest.get(..header.data_len())?))
    }

    fn ahead(&self) -> &[u8] {
        self.buffer.get(self.start..self.end).unwrap_or_default()
    }

    /// Reads ahead until there are so many bytes, at most a buffer full, or the stream ends.
    fn fill(&mut self, length: usize) -> Result<()> {
        if self.end - self.start >= length {
            return Ok(());
        }
        self.buffer.copy_within(self.start..self.end, 0);
        (self.start, self.end) = (0, self.end - self.start);
        while self.end < length {
            match self.from.read(self.buffer.get_mut(self.end..).unwrap_or_default()) {
                Ok(0) => break,
                Ok(count) => self.end += count,
                Err(error) => self.after(error)?,
            }
        }
        Ok(())
    }

    /// Whether to read again after an error: one that is none, within a frame, whose rest is on its way.
    fn after(&self, error: std::io::Error) -> Result<()> {
        match is_tick(&error) {
            true if self.is_within && patience::is_over() => Err(Error::interrupted()),
            true if self.is_within || !patience::is_given() => Ok(()),
            // Between frames: who reads asks whether to go on.
            true => Err(Error::interrupted()),
            false => Err(failed(error)),
        }
    }

    /// The next bytes, in memory of their own.
    fn take(&mut self, length: usize) -> Result<Vec<u8>> {
        let mut taken = Vec::with_capacity(length);
        self.move_to(&mut taken, length);
        let left = length - taken.len();
        if left >= self.buffer.len() {
            // Nothing is ahead any more: the rest goes where it belongs at once.
            while taken.len() < length {
                let left = (length - taken.len()) as u64;
                match self.from.by_ref().take(left).read_to_end(&mut taken) {
                    Ok(_) => break,
                    Err(error) => self.after(error)?,
                }
            }
        } else if left > 0 {
            self.fill(left)?;
            self.move_to(&mut taken, length);
        }
        if taken.len() < length { Err(cut()) } else { Ok(taken) }
    }

    /// Moves what is ahead, up to a length in all.
    fn move_to(&mut self, taken: &mut Vec<u8>, length: usize) {
        let count = (self.end - self.start).min(length - taken.len());
        taken.extend_from_slice(self.ahead().get(..count).unwrap_or_default());
        self.start += count;
    }
}

#[cfg(test)]
mod tests {
    use koine_engine::ErrorKind;

    use super::super::frame::{Kind, Shared};
    use super::*;

    /// Gives at most so many bytes at once.
    struct Slow<'b>(&'b [u8], usize);

    impl Read for Slow<'_> {
        fn read(&mut self, buffer: &mut [u8]) -> std::io::Result<usize> {
            let most = self.1.min(buffer.len());
            self.0.read(&mut buffer[..most])
        }
    }

    #[test]
    fn frames_come_out_as_they_went_in_however_they_are_cut() {
        let lengths = [0, 1, 17, SHORT_LEN_MAX, SHORT_LEN_MAX + 1, 4096, READ_LEN - 1, READ_LEN, READ_LEN + 1, 300_000];
        let mut frames: Vec<Frame> = lengths
            .iter()
            .flat_map(|message| lengths.iter().map(move |data| (*message, *data)))
            .zip(1..)
            .map(|((message, data), id)| {
                Frame::new(7, Kind::Request, id, vec![id as u8; message]).with_data(vec![!id as u8; data].into())
            })
            .collect();
        frames.push(Frame::new(7, Kind::Reply, 500, vec![1; 17]).with_shared(Shared { offset: 5, length: 9 }));
        let bytes: Vec<u8> =
            frames.iter().flat_map(|frame| [&frame.header()[..], &frame.message, &frame.data].concat()).collect();
        for at_once in [1000, 4099, READ_LEN, usize::MAX] {
            let mut incoming = Incoming::new(Slow(&bytes, at_once));
            for frame in &frames {
                assert_eq!(incoming.next(Limits::FULL).unwrap().as_ref(), Some(frame));
            }
            assert!(!incoming.has_next() && incoming.next(Limits::FULL).unwrap().is_none());
        }
        // One byte at a time, of the short ones.
        let short: Vec<&Frame> = frames.iter().filter(|frame| frame.weight() < 500).collect();
        let bytes: Vec<u8> =
            short.iter().flat_map(|frame| [&frame.header()[..], &frame.message, &frame.data].concat()).collect();
        let mut incoming = Incoming::new(Slow(&bytes, 1));
        for frame in short {
            assert_eq!(incoming.next(Limits::FULL).unwrap().as_ref(), Some(frame));
        }
        // Cut anywhere, the end is told as what it is.
        let first = &bytes[..HEADER_LEN + 1];
        for end in 1..first.len() {
            let cut = Incoming::new(&first[..end]).next(Limits::FULL);
            assert!(end == HEADER_LEN || cut.is_err_and(|error| error.kind() == ErrorKind::Stopped), "{end}");
        }
    }
}
