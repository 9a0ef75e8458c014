//! Answers to requests: each request gets one, from whatever thread has it.

use std::sync::Arc;

use bytes::Bytes;
use koine_engine::{Error, ErrorKind, Result};

use super::flow::Flow;
use crate::wire::frame::{Frame, Kind, Shared};
use crate::wire::identity::Peer;
use crate::wire::message::Message;
use crate::wire::reply::put_error;

/// Answers the verbs that a higher floor has registered.
pub trait Handler: Send + Sync {
    /// A connection asks for its first verb from [`VERB_FOREIGN_FIRST`](crate::wire::VERB_FOREIGN_FIRST) on. What is given
    /// belongs to it, and is dropped when it ends.
    fn begin(&self, peer: &Peer) -> Box<dyn HandlerConnection>;
}

/// What a handler has of one connection.
pub trait HandlerConnection: Send {
    /// Works on a request, on the connection's own thread: its next request comes after this returns, and nobody else
    /// waits. The answer may come later, from any thread.
    fn handle(&mut self, verb: u16, message: Bytes, data: Bytes, answer: Responder);

    /// Whether it is known by now who asks. At a server of verbs alone who is not is cut off after a while.
    fn is_known(&self) -> bool {
        true
    }

    /// Whether nothing is lost when the connection ends between two requests, so that it may make room for others.
    fn is_idle(&self) -> bool {
        false
    }
}

/// Where the answer to one request goes. Dropped without one, it tells the client that there is none.
pub struct Responder {
    verb: u16,
    id: u64,
    flow: Option<Arc<Flow>>,
    /// Bytes of the answer that count already.
    promised: usize,
}

impl Responder {
    pub(super) fn new(verb: u16, id: u64, flow: Arc<Flow>) -> Responder {
        Responder { verb, id, flow: Some(flow), promised: 0 }
    }

    /// The same, of which it is known how long the answer is.
    pub(super) fn promising(mut self, length: usize) -> Responder {
        if let Some(flow) = &self.flow {
            flow.promise(length);
            self.promised += length;
        }
        self
    }

    /// Answers with a message and data, or with an error.
    pub fn answer(self, outcome: Result<(Vec<u8>, Bytes)>) {
        self.reply(outcome.map(|(message, data)| (message.into(), data)));
    }

    /// As `answer`.
    pub(super) fn reply(mut self, outcome: Result<(Message, Bytes)>) {
        self.give(outcome);
    }

    /// Answers with a message that may be short, or with an error.
    pub(super) fn say(self, outcome: Result<impl Into<Message>>) {
        self.reply(outcome.map(|message| (message.into(), Bytes::new())));
    }

    /// Answers with a message, and data that was put into shared memory, or with an error.
    pub(super) fn answer_shared(mut self, outcome: Result<(Message, Shared)>) {
        match outcome {
            Ok((message, shared)) => {
                let Some(flow) = self.flow.take() else { return };
                let frame = Frame::new(self.verb, Kind::Reply, self.id, message).with_shared(shared);
                flow.leave(&frame, self.promised);
            }
            Err(error) => self.tell(Err(error)),
        }
    }

    /// Answers with a message, or with an error.
    pub fn tell(self, outcome: Result<Vec<u8>>) {
        self.say(outcome);
    }

    fn give(&mut self, outcome: Result<(Message, Bytes)>) {
        let Some(flow) = self.flow.take() else { return };
        let frame = match outcome {
            Ok((message, data)) => Frame::new(self.verb, Kind::Reply, self.id, message).with_data(data),
            Err(error) => Frame::new(self.verb, Kind::Failure, self.id, put_error(&error)),
        };
        flow.leave(&frame, self.promised);
    }
}

impl Drop for Responder {
    fn drop(&mut self) {
        let message = "the server has no answer: it is stopping; whether what was under way has happened is not known";
        self.give(Err(Error::new(ErrorKind::Disconnected, message)));
    }
}
