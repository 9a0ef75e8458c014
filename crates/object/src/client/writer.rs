//! A body on its way to where the store is.
//!
//! Invariants:
//! - A piece is held here until it is as long as a frame takes; a few are on their way.
//! - Dropped before it is finished, it is dropped there too.

use std::collections::VecDeque;
use std::sync::Arc;

use koine_kv::wire::{Answer, Channel};

use super::{Remote, RemoteBody, lost, message, pending, told};
use crate::body::{check_length, check_uncut};
use crate::calls::verbs::{DropWriter, FinishBody, OpenWriter, WritePiece};
use crate::calls::{Call, PIECE_LEN_MAX, Writing};
use crate::checksum::Expected;
use crate::error::{Error, ErrorKind, Result};
use crate::pending::Pending;

/// So many pieces are on their way at once.
const PIECES_MAX: usize = 4;

/// A writer of the other side.
pub(crate) struct RemoteWriter {
    /// Where it is open.
    channel: Channel,
    number: u64,
    length: u64,
    length_wanted: Option<u64>,
    /// What was not sent yet.
    held: Vec<u8>,
    under_way: VecDeque<Answer>,
    is_open: bool,
    /// A piece was not taken whole: nothing can follow.
    is_cut: bool,
}

impl RemoteWriter {
    /// Begins one.
    pub fn open(remote: &Arc<Remote>, writing: Writing) -> Result<RemoteWriter> {
        let length_wanted = match &writing {
            Writing::Put(_, options) => options.length,
            Writing::At(_, _, options) | Writing::End(_, options) => options.length,
            Writing::Part(_, _, _, options) => options.length,
            Writing::Body(options) => options.length,
        };
        let number = remote.next_number();
        let (channel, (), _) = remote.open::<OpenWriter>((number, writing))?;
        Ok(RemoteWriter {
            channel,
            number,
            length: 0,
            length_wanted,
            held: Vec::new(),
            under_way: VecDeque::new(),
            is_open: true,
            is_cut: false,
        })
    }

    /// Adds a piece of any length. What the other side says of it may come with a later one.
    pub fn write(&mut self, piece: &[u8]) -> Result<()> {
        check_uncut(self.is_cut)?;
        self.is_cut = true;
        self.take(piece)?;
        self.is_cut = false;
        Ok(())
    }

    fn take(&mut self, mut piece: &[u8]) -> Result<()> {
        let length = self.length.saturating_add(piece.len() as u64);
        check_length(length, self.length_wanted)?;
        self.length = length;
        while self.held.len() + piece.len() >= PIECE_LEN_MAX {
            let (now, later) = piece.split_at(PIECE_LEN_MAX - self.held.len());
            if self.held.is_empty() {
                self.send(now)?;
            } else {
                let mut held = std::mem::take(&mut self.held);
                held.extend_from_slice(now);
                self.send(&held)?;
                held.clear();
                self.held = held;
            }
            piece = later;
        }
        self.held.extend_from_slice(piece);
        Ok(())
    }

    fn send(&mut self, piece: &[u8]) -> Result<()> {
        Error::check_patience()?;
        if self.under_way.len() >= PIECES_MAX
            && let Some(answer) = self.under_way.pop_front()
        {
            told::<()>(Ok(answer.wait().map_err(|error| self.lost(error))?))?;
        }
        let asked = self.channel.ask(WritePiece::VERB, &message(&self.number), piece);
        self.under_way.push_back(asked.map_err(|error| self.lost(error))?);
        Ok(())
    }

    fn lost(&self, error: koine_kv::Error) -> Error {
        let what = "the body that was on its way went with it: nothing of it was stored; write it again";
        lost(&self.channel, error, ErrorKind::Disconnected, what)
    }

    /// No more pieces: what the other side makes of all.
    pub fn finish<C: Call<Asked = (u64, Expected)>>(mut self, trailers: &Expected) -> Pending<C::Told> {
        if let Err(error) = check_uncut(self.is_cut).and_then(|()| Error::check_patience()) {
            return Pending::ready(Err(error));
        }
        self.is_open = false;
        match self.channel.ask(C::VERB, &message(&(self.number, trailers.clone())), &self.held) {
            Ok(answer) => pending(answer, told),
            Err(error) => Pending::ready(Err(self.lost(error))),
        }
    }

    /// No more pieces: the body waits there for a transaction; its length.
    pub fn finish_body(self, trailers: &Expected) -> Result<(RemoteBody, u64)> {
        let body = RemoteBody { channel: self.channel.clone(), number: self.number };
        Ok((body, self.finish::<FinishBody>(trailers).wait()?))
    }
}

impl Drop for RemoteWriter {
    fn drop(&mut self) {
        if self.is_open {
            let _gone = self.channel.ask(DropWriter::VERB, &message(&self.number), &[]);
        }
    }
}
