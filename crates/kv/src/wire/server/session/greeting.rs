//! The beginning of a connection: both sides say who they are, in bounded time and frames of a few hundred bytes.
//!
//! Invariants:
//! - However slowly a stranger speaks, it has `greeting` and no more.

use std::time::Instant;

use koine_engine::{Error, ErrorKind, Result};

use super::standing::{KNOWN, STRANGER};
use super::{Reader, Session, no_stage};
use crate::wire::fields::{Fields, malformed};
use crate::wire::frame::Limits;
use crate::wire::identity::{Key, Side};
use crate::wire::reply::{Greeting, Welcome};
use crate::wire::request::{PROTOCOL, Request};
use crate::wire::server::answers::Responder;

impl Session {
    /// Says who is here and hears who is there.
    pub(super) fn greet(&self, reader: &mut Reader, key: Option<&Key>) -> Result<()> {
        reader.get_mut().read_until(Some(Instant::now() + self.shared.options.greeting)).map_err(lost)?;
        self.stream.set_write_timeout(Some(self.shared.options.patience)).map_err(lost)?;
        let mut next = || -> Result<(Responder, Request)> {
            let frame = self.read(reader, Limits::GREETING)?.ok_or_else(|| malformed("the end"))?;
            let responder = self.responder(&frame);
            let request = Request::decode(frame.verb, Fields::new(frame.message), &mut no_stage);
            match request {
                Ok(Some(request @ (Request::Hello { .. } | Request::Prove { .. }))) => Ok((responder, request)),
                _ => {
                    let error = malformed("something else where a greeting is wanted");
                    responder.tell(Err(error.clone()));
                    Err(error)
                }
            }
        };
        let (responder, Request::Hello { protocol, nonce: client }) = next()? else {
            return Err(malformed("no greeting"));
        };
        if protocol != PROTOCOL {
            let message =
                format!("the server speaks protocol {PROTOCOL}, the client {protocol}: use one version for both");
            let error = Error::new(ErrorKind::Unknown, message);
            responder.tell(Err(error.clone()));
            return Err(error);
        }
        let mut server = [0; 32];
        self.shared.random.fill(&mut server);
        let options = &self.shared.options;
        let greeting = Greeting {
            protocol: PROTOCOL,
            nonce: server,
            wants_proof: key.is_some(),
            in_flight_max: u32::try_from(options.in_flight_max).unwrap_or(u32::MAX),
            handles_max: u32::try_from(options.handles_max).unwrap_or(u32::MAX),
        };
        responder.tell(Ok(greeting.encode()));
        let (responder, Request::Prove { proof }) = next()? else { return Err(malformed("no proof")) };
        let own = match key {
            None => [0; 32],
            Some(key) if key.verify(Side::Client, &server, &client, &proof) => {
                key.proof(Side::Server, &server, &client)?
            }
            Some(_) => {
                let error = Error::invalid("the server has another key: see how it was started");
                responder.tell(Err(error.clone()));
                return Err(error);
            }
        };
        let is_known = if self.shared.is_raw { KNOWN } else { STRANGER };
        if !self.standing.becomes(STRANGER, is_known) {
            return Err(Error::new(ErrorKind::Busy, "somebody else needs the room"));
        }
        // From the proof on a client may pass memory: before that what it passes is closed by the kernel.
        if self.shared.is_raw {
            reader.get_mut().receive_files();
        }
        responder.tell(Ok(Welcome { proof: own, profile: self.shared.kv.profile().clone() }.encode()));
        if self.shared.is_raw {
            reader.get_mut().read_until(None).map_err(lost)
        } else {
            self.listen_to_a_stranger(reader)
        }
    }
}

pub(super) fn lost(error: std::io::Error) -> Error {
    Error::new(ErrorKind::Stopped, "the connection failed").with_source(error)
}
