//! What requests keep until their answers come: memory that is shared with the server.

use bytes::Bytes;
use koine_engine::Result;

use crate::wire::fields::malformed;
use crate::wire::frame::{Frame, Shared};
use crate::wire::shared::slots::Part;

/// What a request has until its answer comes.
#[derive(Default)]
pub struct Held {
    /// Room for the answer's data in shared memory.
    pub room: Option<Part>,
    /// Shared memory that holds what it sends.
    #[allow(dead_code, reason = "held, not read")]
    pub sent: Vec<Sent>,
}

/// Shared memory that holds data of a request, so that it is used for nothing else meanwhile.
pub enum Sent {
    /// Bytes of the caller that lie there.
    Bytes(#[allow(dead_code, reason = "held, not read")] Bytes),
    /// A copy that was made for the request.
    Part(#[allow(dead_code, reason = "held, not read")] Part),
}

/// Data that goes with a request.
#[derive(Clone, Copy)]
pub enum Data<'d> {
    /// Behind its message.
    Inline(&'d [u8]),
    /// In shared memory.
    Shared(Shared),
}

/// An answer with its data, wherever that lies.
pub fn received(mut frame: Frame, held: Held) -> Result<Frame> {
    if let Some(shared) = frame.shared {
        let length = shared.length as usize;
        let room = held.room.filter(|room| room.offset() == shared.offset && length <= room.len());
        let room = room.ok_or_else(|| malformed("data in memory that was not lent for it"))?;
        frame.data = room.received(length);
    }
    Ok(frame)
}
