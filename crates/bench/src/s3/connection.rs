//! One connection that sends prepared requests and follows their answers, without blocking.
//!
//! It copies as little as it can: large payload goes out by `sendfile`, and large bodies are dropped inside the kernel
//! (`MSG_TRUNC`), so that what is measured is the server. Status and length of every answer are checked.

use super::payload::Payload;
use super::prepare::{Batch, Segment};
use super::response::{Body, Framing, HEAD_LIMIT, Head, parse_head};
use rustix::io::Errno;
use rustix::net::{RecvFlags, SendAncillaryBuffer, SendFlags};
use std::io::{self, IoSlice};
use std::net::{SocketAddr, TcpStream};
use std::time::Instant;

/// Payload from this size on is not copied.
const LARGE_BYTES: usize = 64 * 1024;
/// The most that is taken from the socket at once.
pub const SCRATCH_BYTES: usize = 1 << 20;
/// So much of a refusal is kept to be shown.
const REFUSAL_BYTES: usize = 400;
/// Segments of one gathered send.
const GATHER: usize = 8;

/// What a connection waits for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Waits {
    /// Room in the socket's send buffer.
    ToSend,
    /// More of the answer.
    ToReceive,
    /// Nothing: the answer is whole and right.
    Complete,
}

/// A connection in use.
pub struct Connection {
    socket: TcpStream,
    buffer: Vec<u8>,
    filled: usize,
    request: usize,
    segment: usize,
    offset: usize,
    head: Option<Head>,
    body: Body,
    refusal: Vec<u8>,
    /// When the request in flight was begun.
    pub begun: Instant,
}

impl Connection {
    /// Connects; nothing is sent yet.
    pub fn open(address: SocketAddr) -> io::Result<Connection> {
        let socket = TcpStream::connect(address)?;
        socket.set_nodelay(true)?;
        socket.set_nonblocking(true)?;
        Ok(Connection {
            socket,
            buffer: vec![0; HEAD_LIMIT + LARGE_BYTES],
            filled: 0,
            request: 0,
            segment: 0,
            offset: 0,
            head: None,
            body: Body::new(Framing::Length(0)),
            refusal: Vec::new(),
            begun: Instant::now(),
        })
    }

    /// For the poller.
    pub fn socket(&self) -> &TcpStream {
        &self.socket
    }

    /// The server announced that it closes after this answer.
    pub fn closes(&self) -> bool {
        self.head.as_ref().is_some_and(|head| head.close)
    }

    /// Begins a request and sends what the socket takes.
    pub fn begin(&mut self, request: usize, batch: &Batch, payload: &Payload, now: Instant) -> io::Result<Waits> {
        self.request = request;
        self.segment = 0;
        self.offset = 0;
        self.filled = 0;
        self.head = None;
        self.refusal.clear();
        self.begun = now;
        self.send(batch, payload)
    }

    /// Goes on sending.
    pub fn send(&mut self, batch: &Batch, payload: &Payload) -> io::Result<Waits> {
        while let Some(segment) = batch.segments().get(self.segment) {
            let range = segment.range();
            let sent = if is_large(segment) {
                let mut position = (range.start + self.offset) as u64;
                let left = range.len() - self.offset;
                rustix::fs::sendfile(&self.socket, payload.file(), Some(&mut position), left)
            } else {
                self.send_small(batch, payload)
            };
            match sent {
                Ok(0) => return Err(io::ErrorKind::WriteZero.into()),
                Ok(sent) => self.advance(batch, sent),
                Err(Errno::AGAIN) => return Ok(Waits::ToSend),
                Err(Errno::INTR) => {}
                Err(error) => return Err(error.into()),
            }
        }
        Ok(Waits::ToReceive)
    }

    /// Sends the small segments up to the next large one in one call.
    fn send_small(&self, batch: &Batch, payload: &Payload) -> rustix::io::Result<usize> {
        let mut slices = [IoSlice::new(&[]); GATHER];
        let mut count = 0;
        let mut offset = self.offset;
        let rest = batch.segments().get(self.segment..).unwrap_or_default();
        for (slot, segment) in slices.iter_mut().zip(rest.iter().take_while(|segment| !is_large(segment))) {
            let whole = match segment {
                Segment::Own(range) => batch.own(self.request).get(range.clone()),
                Segment::Payload(range) => payload.bytes().get(range.clone()),
            };
            *slot = IoSlice::new(whole.and_then(|bytes| bytes.get(offset..)).unwrap_or_default());
            offset = 0;
            count += 1;
        }
        // What follows at once belongs into the same packet.
        let more = if count < rest.len() { SendFlags::MORE } else { SendFlags::empty() };
        let slices = slices.get(..count).unwrap_or_default();
        rustix::net::sendmsg(&self.socket, slices, &mut SendAncillaryBuffer::default(), more | SendFlags::NOSIGNAL)
    }

    fn advance(&mut self, batch: &Batch, mut sent: usize) {
        while let Some(segment) = batch.segments().get(self.segment) {
            let left = segment.range().len() - self.offset;
            if sent < left {
                self.offset += sent;
                return;
            }
            sent -= left;
            self.segment += 1;
            self.offset = 0;
        }
    }

    /// Takes what has come of the answer, one call's worth; an answer that is not the expected one is an error.
    pub fn receive(&mut self, batch: &Batch, scratch: &mut [u8]) -> io::Result<Waits> {
        let skippable = usize::try_from(self.body.skippable_bytes()).unwrap_or(usize::MAX);
        let right = self.head.as_ref().is_some_and(|head| head.status == batch.expected().status);
        if right && skippable >= LARGE_BYTES {
            let limit = skippable.min(scratch.len());
            let target = scratch.get_mut(..limit).unwrap_or_default();
            match rustix::net::recv(&self.socket, target, RecvFlags::TRUNC) {
                Ok((_, 0)) => return Err(io::ErrorKind::UnexpectedEof.into()),
                Ok((_, taken)) => self.body.skip(taken as u64),
                Err(Errno::AGAIN | Errno::INTR) => return Ok(Waits::ToReceive),
                Err(error) => return Err(error.into()),
            }
        } else {
            let target = self.buffer.get_mut(self.filled..).unwrap_or_default();
            match rustix::net::recv(&self.socket, target, RecvFlags::empty()) {
                Ok((_, 0)) => return Err(io::ErrorKind::UnexpectedEof.into()),
                Ok((_, taken)) => self.filled += taken,
                Err(Errno::AGAIN | Errno::INTR) => return Ok(Waits::ToReceive),
                Err(error) => return Err(error.into()),
            }
            self.take_buffer(batch)?;
        }
        if self.head.is_none() || !self.body.done() {
            return Ok(Waits::ToReceive);
        }
        self.check(batch)
    }

    /// Reads head and body from the buffer and empties it; an unfinished head stays.
    fn take_buffer(&mut self, batch: &Batch) -> io::Result<()> {
        let mut bytes = self.buffer.get(..self.filled).unwrap_or_default();
        if self.head.is_none() {
            let Some(head) = parse_head(bytes).map_err(io::Error::other)? else { return Ok(()) };
            bytes = bytes.get(head.bytes..).unwrap_or_default();
            self.body = Body::new(head.framing);
            self.head = Some(head);
        }
        let wrong = self.head.as_ref().is_some_and(|head| head.status != batch.expected().status);
        let refusal = &mut self.refusal;
        let used = self.body.feed(bytes, |content| {
            if wrong {
                let room = REFUSAL_BYTES.saturating_sub(refusal.len());
                refusal.extend_from_slice(content.get(..room).unwrap_or(content));
            }
        });
        if used.map_err(io::Error::other)? < bytes.len() {
            return Err(io::Error::other("bytes after the end of the answer"));
        }
        self.filled = 0;
        Ok(())
    }

    fn check(&self, batch: &Batch) -> io::Result<Waits> {
        let status = self.head.as_ref().map_or(0, |head| head.status);
        let expected = batch.expected();
        if status != expected.status {
            let body = String::from_utf8_lossy(&self.refusal);
            return Err(io::Error::other(format!("status {status} instead of {}: {body}", expected.status)));
        }
        if self.segment < batch.segments().len() {
            return Err(io::Error::other(format!("status {status} before the whole request was sent")));
        }
        match expected.length_bytes {
            Some(length) if length != self.body.content_bytes => {
                let got = self.body.content_bytes;
                Err(io::Error::other(format!("{got} bytes of body instead of {length}")))
            }
            None if self.body.content_bytes == 0 => Err(io::Error::other("an empty body")),
            _ => Ok(Waits::Complete),
        }
    }
}

fn is_large(segment: &Segment) -> bool {
    matches!(segment, Segment::Payload(range) if range.len() >= LARGE_BYTES)
}
