//! Frames on their way out of a connection.
//!
//! Invariants:
//! - Frames leave whole; those of one thread in the order in which they were given.
//! - Who gives a frame never waits for the other side: what the kernel does not take at once is left to the connection's
//!   writer, which waits as long as the connection's timeout allows and then ends it.
//! - What is kept to leave together leaves when the reading thread says that it has no more, or before it is much.

use std::collections::VecDeque;
use std::io::IoSlice;
use std::sync::Arc;
use std::thread::ThreadId;
use std::time::Instant;

use bytes::{Bytes, BytesMut};
use parking_lot::{Condvar, Mutex, MutexGuard};

use super::frame::Frame;
use super::stream::Stream;

/// Frames are kept together up to so many bytes: what a socket takes at once.
const KEPT_LEN_MAX: usize = 64 << 10;
/// A shorter frame is copied behind the one before it, which costs less than a part of its own.
const COPIED_LEN_MAX: usize = 8 << 10;
/// So many parts of frames leave in one call.
const PARTS_MAX: usize = 96;

/// When a frame leaves.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Leave {
    /// At once, as far as the kernel takes it.
    Now,
    /// With others that are about to follow, from the writer's thread.
    WithOthers,
}

/// Frames that wait to be written.
pub struct Outgoing {
    stream: Arc<Stream>,
    state: Mutex<State>,
    changed: Condvar,
}

#[derive(Default)]
struct State {
    /// Parts of frames, in order.
    parts: VecDeque<Bytes>,
    /// Short frames behind them.
    tail: BytesMut,
    /// Bytes in all of them, and in what the writer has.
    length: usize,
    /// Bytes that are to come from other threads.
    promised: usize,
    /// The thread whose frames are kept until it says so.
    gatherer: Option<ThreadId>,
    /// The writer is to write what is there.
    due: bool,
    /// It writes parts that are not here any more.
    writing: bool,
    ended: bool,
}

impl State {
    fn is_empty(&self) -> bool {
        self.parts.is_empty() && self.tail.is_empty()
    }

    /// Keeps what of a frame was not sent.
    fn keep(&mut self, header: &[u8], frame: &Frame, sent: usize) {
        if frame.weight() <= COPIED_LEN_MAX {
            self.length += frame.weight() - sent;
            if self.tail.capacity() < frame.weight() {
                self.seal();
                self.tail.reserve(KEPT_LEN_MAX);
            }
            let before = self.tail.len();
            for part in [header, &frame.message, &frame.data] {
                self.tail.extend_from_slice(part);
            }
            if sent > 0 {
                let rest = self.tail.split_off(before + sent);
                self.tail.truncate(before);
                self.tail.unsplit(rest);
            }
            return;
        }
        self.seal();
        let mut skipped = sent;
        for part in [Bytes::copy_from_slice(header), frame.message.clone(), frame.data.clone()] {
            let skip = skipped.min(part.len());
            skipped -= skip;
            if skip < part.len() {
                self.length += part.len() - skip;
                self.parts.push_back(part.slice(skip..));
            }
        }
    }

    /// Makes the short frames a part.
    fn seal(&mut self) {
        if !self.tail.is_empty() {
            self.parts.push_back(self.tail.split().freeze());
        }
    }
}

impl Outgoing {
    /// Of a connection. [`Outgoing::work`] has to be run by a thread of its own.
    pub fn new(stream: Arc<Stream>) -> Outgoing {
        Outgoing { stream, state: Mutex::default(), changed: Condvar::new() }
    }

    /// Frames of this thread are kept until it calls [`Outgoing::flush`].
    pub fn gather(&self) {
        self.state.lock().gatherer = Some(std::thread::current().id());
    }

    /// What was kept leaves, and nothing is kept any more.
    pub fn flush(&self) {
        let mut state = self.state.lock();
        if state.gatherer.take().is_some() && !state.is_empty() {
            self.push(state);
        }
    }

    /// Sends a frame. One that comes after the end is forgotten: nobody is there to read it.
    pub fn send(&self, frame: &Frame, leave: Leave) {
        let header = frame.header();
        let mut state = self.state.lock();
        if state.ended {
            return;
        }
        let is_kept = match state.gatherer {
            Some(gatherer) => gatherer == std::thread::current().id() && state.length < KEPT_LEN_MAX,
            None => false,
        };
        if !is_kept && leave == Leave::Now && state.is_empty() && !state.writing {
            let parts = [IoSlice::new(&header), IoSlice::new(&frame.message), IoSlice::new(&frame.data)];
            match self.stream.send_now(&parts) {
                Ok(sent) if sent == frame.weight() => {}
                Ok(sent) => {
                    state.keep(&header, frame, sent);
                    state.due = true;
                    self.changed.notify_all();
                }
                Err(_gone) => self.end_with(state),
            }
            return;
        }
        state.keep(&header, frame, 0);
        if is_kept {
            return;
        }
        if leave == Leave::Now {
            return self.push(state);
        }
        let is_first = !state.due;
        state.due = true;
        if is_first && !state.writing {
            self.changed.notify_all();
        }
    }

    /// Sends what waits, as far as the kernel takes it at once.
    fn push(&self, mut state: MutexGuard<'_, State>) {
        state.seal();
        while !state.writing && !state.parts.is_empty() {
            let slices: Vec<IoSlice<'_>> = state.parts.iter().take(PARTS_MAX).map(|part| IoSlice::new(part)).collect();
            let offered: usize = slices.iter().map(|slice| slice.len()).sum();
            let sent = match self.stream.send_now(&slices) {
                Ok(sent) => sent,
                Err(_gone) => return self.end_with(state),
            };
            drop(slices);
            forget(&mut state, sent);
            if sent < offered {
                state.due = true;
                self.changed.notify_all();
                return;
            }
        }
        // What is left is the writer's to go on with.
        state.due = !state.is_empty();
    }

    /// So many bytes are going to be sent: they count as waiting.
    pub fn promise(&self, length: usize) {
        self.state.lock().promised += length;
    }

    /// They were sent, or never will be.
    pub fn fulfil(&self, length: usize) {
        let mut state = self.state.lock();
        state.promised = state.promised.saturating_sub(length);
        self.changed.notify_all();
    }

    /// Waits until fewer bytes than this wait, or the connection has ended.
    pub fn wait_below(&self, length: usize) {
        let mut state = self.state.lock();
        while state.length + state.promised >= length && !state.ended {
            if state.gatherer.take().is_some() {
                // What was kept for this thread, which waits now.
                self.push(state);
                state = self.state.lock();
                continue;
            }
            self.changed.wait(&mut state);
        }
    }

    /// Waits until all has left, up to a moment.
    pub fn finish(&self, until: Instant) {
        self.flush();
        let mut state = self.state.lock();
        while (!state.is_empty() || state.writing) && !state.ended {
            if self.changed.wait_until(&mut state, until).timed_out() {
                return;
            }
        }
    }

    /// Nothing goes out any more, and nothing comes in.
    pub fn end(&self) {
        self.end_with(self.state.lock());
    }

    fn end_with(&self, mut state: MutexGuard<'_, State>) {
        state.ended = true;
        state.parts.clear();
        state.tail.clear();
        state.length = 0;
        self.stream.end();
        self.changed.notify_all();
    }

    /// Writes what others could not, until the end.
    pub fn work(&self) {
        let mut state = self.state.lock();
        loop {
            // What is kept is not for this thread.
            while (state.is_empty() || !state.due) && !state.ended {
                self.changed.wait(&mut state);
            }
            if state.ended {
                return;
            }
            state.seal();
            let count = state.parts.len().min(PARTS_MAX);
            let parts: Vec<Bytes> = state.parts.drain(..count).collect();
            state.writing = true;
            drop(state);
            let written = self.write_all(&parts);
            state = self.state.lock();
            state.writing = false;
            state.length = state.length.saturating_sub(parts.iter().map(Bytes::len).sum());
            state.due &= !state.is_empty();
            self.changed.notify_all();
            if written.is_err() {
                return self.end_with(state);
            }
        }
    }

    fn write_all(&self, parts: &[Bytes]) -> std::io::Result<()> {
        let mut slices: Vec<IoSlice<'_>> = parts.iter().map(|part| IoSlice::new(part)).collect();
        let mut rest = &mut slices[..];
        while !rest.is_empty() {
            match std::io::Write::write_vectored(&mut &*self.stream, rest) {
                Ok(0) => return Err(std::io::ErrorKind::WriteZero.into()),
                Ok(count) => IoSlice::advance_slices(&mut rest, count),
                Err(error) if error.kind() == std::io::ErrorKind::Interrupted => {}
                Err(error) => return Err(error),
            }
        }
        Ok(())
    }
}

/// Takes so many bytes that were sent off the front.
fn forget(state: &mut State, mut sent: usize) {
    state.length = state.length.saturating_sub(sent);
    while let Some(front) = state.parts.front_mut() {
        if sent < front.len() {
            let _sent = front.split_to(sent);
            return;
        }
        sent -= front.len();
        state.parts.pop_front();
    }
}
