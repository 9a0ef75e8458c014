//! An object that is read elsewhere.
//!
//! Invariant: what is given is as long as was asked for, or up to the object's end.

use std::collections::VecDeque;
use std::sync::Arc;

use bytes::{Bytes, BytesMut};
use koine_kv::wire::{Answer, letting_go};

use super::{Remote, told};
use crate::copy::Name;
use crate::error::{Error, Result};
use crate::info::{ObjectInfo, PartInfo};
use crate::remote::calls::{CloseReader, OpenReader, OpenVersion, Read, ReaderParts};
use crate::remote::{FIRST_LEN, PIECE_LEN_MAX};
use crate::version::VersionId;

/// So many pieces are asked for at once.
const PIECES_MAX: usize = 4;

/// A reader of the other side.
pub(crate) struct RemoteReader {
    remote: Arc<Remote>,
    number: u64,
    /// Whether the other side has it still.
    is_open: bool,
    /// The first bytes came along.
    first: Bytes,
}

impl RemoteReader {
    /// Opens an object as it is now.
    pub fn open(remote: &Arc<Remote>, name: Name) -> Result<(RemoteReader, ObjectInfo)> {
        let number = remote.next_number();
        let told = remote.call_for_data::<OpenReader>((number, name, FIRST_LEN as u32))?;
        Ok(RemoteReader::new(remote, number, told))
    }

    /// Opens a version of an object.
    pub fn open_version(remote: &Arc<Remote>, name: Name, version: VersionId) -> Result<(RemoteReader, ObjectInfo)> {
        let number = remote.next_number();
        let told = remote.call_for_data::<OpenVersion>((number, name, version, FIRST_LEN as u32))?;
        Ok(RemoteReader::new(remote, number, told))
    }

    fn new(
        remote: &Arc<Remote>,
        number: u64,
        ((info, is_open), first): ((ObjectInfo, bool), Bytes),
    ) -> (Self, ObjectInfo) {
        (RemoteReader { remote: Arc::clone(remote), number, is_open, first }, info)
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
        self.remote.ask::<Read>(&(self.number, offset, length as u32), &[])
    }

    fn taken(&self, answer: Answer, length: usize) -> Result<Bytes> {
        let ((), data) = told::<()>(answer.wait())?;
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
        self.remote.call::<ReaderParts>(self.number)
    }
}

impl Drop for RemoteReader {
    fn drop(&mut self) {
        if self.is_open {
            // Where the connection is gone so is the reader.
            let _gone = letting_go(|| self.remote.ask::<CloseReader>(&self.number, &[]));
        }
    }
}
