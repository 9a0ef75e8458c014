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
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Instant;

use bytes::Bytes;
use parking_lot::{Condvar, Mutex, MutexGuard};

use super::frame::{Frame, HEADER_LEN};
use super::stream::Stream;

/// Frames are kept together up to so many bytes: what a socket takes at once.
const KEPT_LEN_MAX: usize = 64 << 10;
/// A shorter part of a frame is copied behind what is before it, which costs less than a part of its own.
const COPIED_LEN_MAX: usize = 8 << 10;
/// Memory for what is kept, and the frame that makes it much.
const TAIL_LEN: usize = KEPT_LEN_MAX + 2 * COPIED_LEN_MAX + HEADER_LEN;
/// So many parts of frames leave in one call.
const PARTS_MAX: usize = 96;

/// A thread that lives, by something that only it has: cheaper to ask for than the thread's id.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Here(usize);

impl Here {
    /// This thread.
    pub fn now() -> Here {
        thread_local!(static MARK: u8 = const { 0 });
        MARK.with(|mark| Here(std::ptr::from_ref(mark).addr()))
    }
}

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
    state: Mutex<OutgoingState>,
    changed: Condvar,
    /// About how many bytes wait.
    waiting: AtomicUsize,
}

#[derive(Default)]
struct OutgoingState {
    /// Parts of frames, in order.
    parts: VecDeque<Bytes>,
    /// Short frames behind them.
    tail: Vec<u8>,
    /// Bytes in all of them, and in what the writer has.
    length: usize,
    /// Bytes that are to come from other threads.
    promised: usize,
    /// The thread whose frames are kept until it says so.
    gatherer: Option<Here>,
    /// The writer is to write what is there.
    due: bool,
    /// It writes parts that are not here any more.
    writing: bool,
    ended: bool,
}

impl OutgoingState {
    fn is_empty(&self) -> bool {
        self.parts.is_empty() && self.tail.is_empty()
    }

    /// Keeps what of a frame was not sent.
    fn keep(&mut self, header: &[u8], frame: &Frame, sent: usize) {
        self.length += frame.weight() - sent;
        let mut skipped = sent;
        self.copy(header, &mut skipped);
        if frame.message.len() <= COPIED_LEN_MAX {
            self.copy(&frame.message, &mut skipped);
        } else {
            self.share(frame.message.part(0..frame.message.len()), &mut skipped);
        }
        if frame.data.len() <= COPIED_LEN_MAX {
            self.copy(&frame.data, &mut skipped);
        } else {
            self.share(frame.data.clone(), &mut skipped);
        }
    }

    fn copy(&mut self, part: &[u8], skipped: &mut usize) {
        if self.tail.capacity() == 0 {
            self.tail.reserve(TAIL_LEN);
        }
        let skip = part.len().min(*skipped);
        *skipped -= skip;
        self.tail.extend_from_slice(part.get(skip..).unwrap_or_default());
    }

    fn share(&mut self, part: Bytes, skipped: &mut usize) {
        self.seal();
        let skip = part.len().min(*skipped);
        *skipped -= skip;
        if skip < part.len() {
            self.parts.push_back(part.slice(skip..));
        }
    }

    /// Makes the short frames a part.
    fn seal(&mut self) {
        if self.tail.len() > COPIED_LEN_MAX {
            self.parts.push_back(std::mem::take(&mut self.tail).into());
        } else if !self.tail.is_empty() {
            // A little does not keep memory for much.
            self.parts.push_back(Bytes::copy_from_slice(&self.tail));
            self.tail.clear();
        }
    }

    /// Takes so many bytes that were sent off the front.
    fn forget(&mut self, mut sent: usize) {
        self.length = self.length.saturating_sub(sent);
        while let Some(front) = self.parts.front_mut() {
            if sent < front.len() {
                let _sent = front.split_to(sent);
                return;
            }
            sent -= front.len();
            self.parts.pop_front();
        }
        if sent >= self.tail.len() {
            self.tail.clear();
        } else if sent > 0 {
            self.tail.drain(..sent);
        }
    }
}

impl Outgoing {
    /// Of a connection. [`Outgoing::work`] has to be run by a thread of its own.
    pub fn new(stream: Arc<Stream>) -> Outgoing {
        Outgoing { stream, state: Mutex::default(), changed: Condvar::new(), waiting: AtomicUsize::new(0) }
    }

    /// Frames of this thread are kept until it calls [`Outgoing::flush`].
    pub fn gather(&self) {
        self.state.lock().gatherer = Some(Here::now());
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
            Some(gatherer) => gatherer == Here::now() && state.length < KEPT_LEN_MAX,
            None => false,
        };
        if !is_kept && leave == Leave::Now && state.is_empty() && !state.writing {
            let parts = [IoSlice::new(&header), IoSlice::new(&frame.message), IoSlice::new(&frame.data)];
            match self.stream.send_now(&parts) {
                Ok(sent) if sent == frame.weight() => {}
                Ok(sent) => {
                    state.keep(&header, frame, sent);
                    state.due = true;
                    self.note(&state);
                    self.changed.notify_all();
                }
                Err(_gone) => self.end_with(state),
            }
            return;
        }
        state.keep(&header, frame, 0);
        self.note(&state);
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
    fn push(&self, mut state: MutexGuard<'_, OutgoingState>) {
        while !state.writing && !state.is_empty() {
            let (sent, offered) = if state.parts.is_empty() {
                (self.stream.send_now(&[IoSlice::new(&state.tail)]), state.tail.len())
            } else {
                state.seal();
                let slices: Vec<_> = state.parts.iter().take(PARTS_MAX).map(|part| IoSlice::new(part)).collect();
                (self.stream.send_now(&slices), slices.iter().map(|slice| slice.len()).sum())
            };
            let Ok(sent) = sent else { return self.end_with(state) };
            state.forget(sent);
            if sent < offered {
                state.due = true;
                self.changed.notify_all();
                return self.note(&state);
            }
        }
        // What is left is the writer's to go on with.
        state.due = !state.is_empty();
        self.note(&state);
    }

    /// Tells those who do not hold the lock.
    fn note(&self, state: &OutgoingState) {
        self.waiting.store(state.length + state.promised, Ordering::Relaxed);
    }

    /// About how many bytes wait.
    pub fn waiting(&self) -> usize {
        self.waiting.load(Ordering::Relaxed)
    }

    /// So many bytes are going to be sent: they count as waiting.
    pub fn promise(&self, length: usize) {
        let mut state = self.state.lock();
        state.promised += length;
        self.note(&state);
    }

    /// They were sent, or never will be.
    pub fn fulfil(&self, length: usize) {
        let mut state = self.state.lock();
        state.promised = state.promised.saturating_sub(length);
        self.note(&state);
        self.changed.notify_all();
    }

    /// Waits until fewer bytes than this wait, or the connection has ended.
    pub fn wait_below(&self, length: usize) {
        if self.waiting() < length {
            return;
        }
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

    fn end_with(&self, mut state: MutexGuard<'_, OutgoingState>) {
        state.ended = true;
        state.parts.clear();
        state.tail.clear();
        state.length = 0;
        self.note(&state);
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
            self.note(&state);
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
