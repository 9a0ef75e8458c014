//! A large value on its way to a server.
//!
//! Invariants:
//! - A bounded number of pieces is under way; an error of one is told by a later call, at the latest by `finish`.
//! - The server's stage goes with the stage, or with the last clone of its token.

use std::collections::VecDeque;
use std::sync::Arc;

use koine_engine::stage::STAGE_PIECE_LEN_MAX;
use koine_engine::{Error, ErrorKind, Result, StageHint, StageToken};

use super::connection::Connection;
use super::line::is_loss;
use super::link::SentRequest;
use crate::seam::Stage;
use crate::wire::reply::take_number;
use crate::wire::request::Request;

/// Pieces under way at once.
const UNDER_WAY_MAX: usize = 8;

/// A stage of the server; its drop lets go of it.
pub(super) struct Remote {
    connection: Arc<Connection>,
    number: u64,
}

impl Remote {
    pub fn number(&self) -> u64 {
        self.number
    }

    /// Whether it is of a connection; an error where it went with its own.
    pub fn is_of(&self, connection: &Arc<Connection>) -> Result<bool> {
        if self.connection.link().has_ended() {
            Err(lost(&self.connection))
        } else {
            Ok(Arc::ptr_eq(&self.connection, connection))
        }
    }
}

/// Nothing of it is in the store.
fn lost(connection: &Connection) -> Error {
    connection.lost_with_it(
        ErrorKind::Disconnected,
        "the value that was on its way went with it: nothing of it was stored; write it again",
    )
}

impl Drop for Remote {
    fn drop(&mut self) {
        // Without a connection the server has let go already.
        let _gone = self.connection.ask(&Request::DropStage { stage: self.number });
    }
}

pub(super) struct WireStage {
    remote: Remote,
    hint: StageHint,
    length: u64,
    under_way: VecDeque<SentRequest>,
    failed: Option<Error>,
}

impl WireStage {
    /// Begins one.
    pub fn open(connection: &Arc<Connection>, hint: StageHint) -> Result<WireStage> {
        let number = connection.next_number();
        connection.call(&Request::OpenStage { stage: number, hint })?;
        let remote = Remote { connection: Arc::clone(connection), number };
        Ok(WireStage { remote, hint, length: 0, under_way: VecDeque::new(), failed: None })
    }

    fn told(&self, error: Error) -> Error {
        if is_loss(&error) { lost(&self.remote.connection) } else { error }
    }

    /// Waits until at most so many pieces are under way, and hears of those that have arrived.
    fn settle(&mut self, most: usize) -> Result<()> {
        while self.under_way.len() > most || self.under_way.front().is_some_and(SentRequest::is_done) {
            let Some(asked) = self.under_way.pop_front() else { break };
            if let Err(error) = asked.wait() {
                let error = self.told(error);
                self.failed.get_or_insert(error);
            }
        }
        self.failed.clone().map_or(Ok(()), Err)
    }
}

impl Stage for WireStage {
    fn write(&mut self, piece: &[u8]) -> Result<()> {
        if piece.len() > STAGE_PIECE_LEN_MAX {
            let message = format!("a piece of {} bytes; at most {STAGE_PIECE_LEN_MAX} at once", piece.len());
            return Err(Error::invalid(message));
        }
        let after = self.length + piece.len() as u64;
        if let Some(length) = self.hint.length.filter(|length| after > *length) {
            return Err(Error::invalid(format!("the stage was begun for {length} bytes, and more were written")));
        }
        self.settle(UNDER_WAY_MAX - 1)?;
        let asked = self.remote.connection.ask_with(&Request::WriteStage { stage: self.remote.number }, piece);
        let asked = asked.map_err(|error| self.told(error))?;
        self.under_way.push_back(asked);
        self.length = after;
        Ok(())
    }

    fn length(&self) -> u64 {
        self.length
    }

    fn finish(mut self: Box<Self>) -> Result<StageToken> {
        let asked = self.remote.connection.ask(&Request::FinishStage { stage: self.remote.number });
        let asked = asked.map_err(|error| self.told(error))?;
        self.settle(0)?;
        let finished = asked.wait().map_err(|error| self.told(error))?;
        let length = take_number(finished.message)?;
        Ok(StageToken::new(length, Arc::new(self.remote)))
    }
}
