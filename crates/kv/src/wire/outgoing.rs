//! Frames on their way out of a connection.
//!
//! Invariants:
//! - Frames leave whole and in the order in which they were given.
//! - Who gives a frame never waits for the other side: what the kernel does not take at once is left to the connection's
//!   writer, which waits as long as the connection's timeout allows and then ends it.

use std::collections::VecDeque;
use std::io::IoSlice;
use std::sync::Arc;

use bytes::Bytes;
use parking_lot::{Condvar, Mutex};

use super::frame::Frame;
use super::stream::Stream;

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
    /// Bytes in them.
    length: usize,
    /// The writer has parts that are not here any more.
    writing: bool,
    ended: bool,
}

impl Outgoing {
    /// Of a connection. [`Outgoing::work`] has to be run by a thread of its own.
    pub fn new(stream: Arc<Stream>) -> Outgoing {
        Outgoing { stream, state: Mutex::default(), changed: Condvar::new() }
    }

    /// Sends a frame. One that comes after the end is forgotten: nobody is there to read it.
    pub fn send(&self, frame: &Frame) {
        let mut state = self.state.lock();
        if state.ended {
            return;
        }
        let header = frame.header();
        let mut sent = 0;
        if state.parts.is_empty() && !state.writing {
            let parts = [IoSlice::new(&header), IoSlice::new(&frame.message), IoSlice::new(&frame.data)];
            match self.stream.send_now(&parts) {
                Ok(count) => sent = count,
                Err(_gone) => {
                    drop(state);
                    return self.end();
                }
            }
            if sent == frame.weight() {
                return;
            }
        }
        for part in [Bytes::copy_from_slice(&header), frame.message.clone(), frame.data.clone()] {
            let skipped = sent.min(part.len());
            sent -= skipped;
            if skipped < part.len() {
                state.length += part.len() - skipped;
                state.parts.push_back(part.slice(skipped..));
            }
        }
        self.changed.notify_all();
    }

    /// Waits until fewer bytes than this wait, or the connection has ended.
    pub fn wait_below(&self, length: usize) {
        let mut state = self.state.lock();
        while state.length >= length && !state.ended {
            self.changed.wait(&mut state);
        }
    }

    /// Nothing goes out any more, and nothing comes in.
    pub fn end(&self) {
        let mut state = self.state.lock();
        state.ended = true;
        state.parts.clear();
        state.length = 0;
        self.stream.end();
        self.changed.notify_all();
    }

    /// Writes what others could not, until the end.
    pub fn work(&self) {
        let mut state = self.state.lock();
        loop {
            while state.parts.is_empty() && !state.ended {
                self.changed.wait(&mut state);
            }
            if state.ended {
                return;
            }
            let Some(part) = state.parts.pop_front() else { continue };
            state.writing = true;
            drop(state);
            let written = std::io::Write::write_all(&mut &*self.stream, &part);
            state = self.state.lock();
            state.writing = false;
            state.length = state.length.saturating_sub(part.len());
            self.changed.notify_all();
            if written.is_err() {
                drop(state);
                return self.end();
            }
        }
    }
}
