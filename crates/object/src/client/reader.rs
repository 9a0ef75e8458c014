//! An object that is read elsewhere.
//!
//! Invariant: what is given is as long as was asked for, or up to the object's end.

use std::collections::VecDeque;
use std::sync::Arc;

use bytes::{Bytes, BytesMut};
use koine_kv::wire::{Answer, Channel};

use super::{Opened, Remote, lost, told};
use crate::calls::verbs::{CloseReader, OpenReader, OpenVersion, Read, ReaderParts};
use crate::calls::{Call, FIRST_LEN, PIECE_LEN_MAX};
use crate::error::{Error, ErrorKind, Result};
use crate::info::{ObjectInfo, PartInfo};
use crate::object_name::Name;
use crate::version_id::VersionId;

/// So many pieces are asked for at once.
const PIECES_MAX: usize = 4;

/// A reader of the other side.
pub(crate) struct RemoteReader {
    remote: Arc<Remote>,
    /// Where it is open.
    channel: Channel,
    number: u64,
    info: ObjectInfo,
    /// Whether the other side has it still.
    is_open: bool,
    /// The first bytes came along.
    first: Bytes,
}

impl RemoteReader {
    /// Opens an object as it is now.
    pub fn open(remote: &Arc<Remote>, name: Name) -> Result<RemoteReader> {
        let number = remote.next_number();
        let opened = remote.open::<OpenReader>((number, name, FIRST_LEN as u32))?;
        Ok(RemoteReader::new(remote, number, opened))
    }

    /// Opens a version of an object.
    pub fn open_version(remote: &Arc<Remote>, name: Name, version: VersionId) -> Result<RemoteReader> {
        let number = remote.next_number();
        let opened = remote.open::<OpenVersion>((number, name, version, FIRST_LEN as u32))?;
        Ok(RemoteReader::new(remote, number, opened))
    }

    fn new(remote: &Arc<Remote>, number: u64, (channel, (info, is_open), first): Opened<(ObjectInfo, bool)>) -> Self {
        RemoteReader { remote: Arc::clone(remote), channel, number, info, is_open, first }
    }

    /// What is known of the object.
    pub fn info(&self) -> &ObjectInfo {
        &self.info
    }

    /// The first bytes, as far as they are here.
    pub fn here(&self, offset: u64, length: usize) -> Option<Bytes> {
        let from = usize::try_from(offset).ok()?;
        let end = from.checked_add(length)?;
        (end <= self.first.len()).then(|| self.first.slice(from..end))
    }

    /// Bytes of a range that lies within the object.
    pub fn bytes(&self, offset: u64, length: usize) -> Result<Bytes> {
        if let Some(bytes) = self.here(offset, length) {
            return Ok(bytes);
        }
        if length <= PIECE_LEN_MAX {
            return self.taken(self.ask(offset, length)?, length);
        }
        let mut whole = BytesMut::with_capacity(length);
        self.pieces(offset, length, |piece| whole.extend_from_slice(&piece))?;
        Ok(whole.freeze())
    }

    /// The same into a buffer.
    pub fn read(&self, offset: u64, buffer: &mut [u8]) -> Result<()> {
        let length = buffer.len();
        let mut rest = buffer;
        let mut put = |piece: Bytes| {
            let (target, behind) = std::mem::take(&mut rest).split_at_mut(piece.len());
            target.copy_from_slice(&piece);
            rest = behind;
        };
        match self.here(offset, length) {
            Some(bytes) => put(bytes),
            None => self.pieces(offset, length, put)?,
        }
        Ok(())
    }

    /// Some are asked for before the first has come.
    fn pieces(&self, offset: u64, length: usize, mut each: impl FnMut(Bytes)) -> Result<()> {
        let mut under_way: VecDeque<(Answer, usize)> = VecDeque::new();
        let mut asked = 0;
        while asked < length || !under_way.is_empty() {
            while asked < length && under_way.len() < PIECES_MAX {
                let piece = PIECE_LEN_MAX.min(length - asked);
                under_way.push_back((self.ask(offset + asked as u64, piece)?, piece));
                asked += piece;
            }
            if let Some((answer, piece)) = under_way.pop_front() {
                each(self.taken(answer, piece)?);
            }
        }
        Ok(())
    }

    fn ask(&self, offset: u64, length: usize) -> Result<Answer> {
        self.ask_for::<Read>(&(self.number, offset, length as u32))
    }

    fn ask_for<C: Call>(&self, asked: &C::Asked) -> Result<Answer> {
        let (verb, message) = self.remote.request::<C>(asked);
        self.channel.ask(verb, &message, &[]).map_err(|error| self.lost(error))
    }

    fn lost(&self, error: koine_kv::Error) -> Error {
        lost(&self.channel, error, ErrorKind::Expired, "the object that was being read went with it: open it again")
    }

    fn taken(&self, answer: Answer, length: usize) -> Result<Bytes> {
        let ((), data) = told::<()>(Ok(answer.wait().map_err(|error| self.lost(error))?))?;
        if data.len() != length {
            return Err(Error::damaged(format!(
                "{} bytes came from {}, not {length}",
                data.len(),
                self.remote.place()
            )));
        }
        Ok(data)
    }

    /// The parts that it was joined from.
    pub fn parts(&self) -> Result<Vec<PartInfo>> {
        let answer = self.ask_for::<ReaderParts>(&self.number)?.wait().map_err(|error| self.lost(error))?;
        told(Ok(answer)).map(|(parts, _)| parts)
    }
}

impl Drop for RemoteReader {
    fn drop(&mut self) {
        if self.is_open {
            // Where the connection is gone so is the reader.
            let _gone = self.ask_for::<CloseReader>(&self.number);
        }
    }
}
