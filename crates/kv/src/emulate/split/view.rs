//! Values read from their pieces.
//!
//! Invariants:
//! - A piece that is missing or short where an extent says that it has bytes is damage, never zeros.
//! - Memory is reserved for what a value has, not for what was asked for.

use std::sync::Arc;

use bytes::{Bytes, BytesMut};
use koine_engine::{Error, ErrorKind, KeyRange, Payload, Result, SpaceId};

use super::record::{
    BlobId, Extent, HEAD, Head, Source, damaged, decode_extents, head_key, list_at, piece_at, value_of,
};
use super::stage::StagedValue;
use crate::emulate::SOLE;
use crate::emulate::cursor::{Translate, Translated};
use crate::emulate::draft::Beneath;
use crate::emulate::plan::{keys, one_space, prefixed, unprefixed};
use crate::emulate::token::Staged;
use crate::pass_on;
use crate::seam::{Cursor, Direction, ENTRY_VALUE_LEN_MAX, Entry, Glance, ReadNow, SpaceEntry, Stat, View};
use crate::sparse::{Piece, Sparse};

/// One version of a store of pieces.
#[derive(Clone)]
pub(super) struct SplitView {
    pub(super) below: Arc<dyn View>,
    pub(super) piece_len: u64,
    /// How long a head may be.
    pub(super) head_len: usize,
}

/// Reads a part of a piece; `None` where it cannot be read now.
type ReadPart<'a> = dyn FnMut(&[u8], u64, &mut [u8]) -> Result<Option<usize>> + 'a;

fn not_found() -> Error {
    Error::new(ErrorKind::NotFound, "the key is not there")
}

impl SplitView {
    /// What a key has.
    pub(super) fn head(&self, key: &[u8]) -> Result<Option<Head>> {
        match self.below.bytes(SOLE, &head_key(key), 0, usize::MAX) {
            Ok(record) => Head::decode(&record).map(Some),
            Err(error) if error.kind() == ErrorKind::NotFound => Ok(None),
            Err(error) => Err(error),
        }
    }

    /// The list of a head that has one, as it is encoded.
    pub(super) fn list(&self, list: &BlobId, length: u32) -> Result<Bytes> {
        let mut bytes = BytesMut::new();
        for number in 0..(u64::from(length)).div_ceil(self.piece_len) {
            let key = list_at(list, number as u32).key;
            bytes.extend_from_slice(&self.below.bytes(SOLE, &key, 0, self.piece_len as usize)?);
        }
        if bytes.len() != length as usize { Err(damaged()) } else { Ok(bytes.freeze()) }
    }

    fn extents(&self, head: &Head) -> Result<Vec<Extent>> {
        match head {
            Head::Inline(_) => Ok(Vec::new()),
            Head::Extents { extents, .. } => Ok(extents.clone()),
            Head::Listed { list, length, .. } => decode_extents(&self.list(list, *length)?),
        }
    }

    /// Reads a run of a blob, all of it.
    fn read_blob(&self, blob: &BlobId, from: u64, buffer: &mut [u8]) -> Result<()> {
        self.read_pieces(blob, from, buffer, &mut self.waiting()).map(|_| ())
    }

    /// How a part of a piece is read where waiting is allowed.
    fn waiting(&self) -> impl FnMut(&[u8], u64, &mut [u8]) -> Result<Option<usize>> {
        |key, offset, part| self.below.read(SOLE, key, offset, part).map(Some)
    }

    /// Reads a run of a blob piece by piece; `false` where a piece cannot be read now.
    fn read_pieces(&self, blob: &BlobId, from: u64, buffer: &mut [u8], how: &mut ReadPart<'_>) -> Result<bool> {
        let (mut from, mut rest) = (from, buffer);
        while !rest.is_empty() {
            let offset = from % self.piece_len;
            let count = rest.len().min((self.piece_len - offset) as usize);
            let (part, after) = rest.split_at_mut(count);
            let key = piece_at(blob, from / self.piece_len).key;
            let read = match how(&key, offset, part) {
                Err(error) if error.kind() == ErrorKind::NotFound => 0,
                read => match read? {
                    Some(read) => read,
                    None => return Ok(false),
                },
            };
            if read < count {
                let message = format!("a piece below is shorter than its value says: {read} of {count} bytes");
                return Err(Error::damaged(message));
            }
            from += count as u64;
            rest = after;
        }
        Ok(true)
    }

    /// Reads of a value what its head leads to; `None` where something cannot be read now.
    fn read_head(&self, head: &Head, offset: u64, buffer: &mut [u8], how: &mut ReadPart<'_>) -> Result<Option<usize>> {
        if let Head::Inline(bytes) = head {
            let rest = usize::try_from(offset).ok().and_then(|offset| bytes.get(offset..)).unwrap_or_default();
            let count = rest.len().min(buffer.len());
            if let (Some(target), Some(source)) = (buffer.get_mut(..count), rest.get(..count)) {
                target.copy_from_slice(source);
            }
            return Ok(Some(count));
        }
        let end = offset.saturating_add(buffer.len() as u64).min(head.size());
        let Some(target) = end.checked_sub(offset).and_then(|count| buffer.get_mut(..count as usize)) else {
            return Ok(Some(0));
        };
        target.fill(0);
        let extents = self.extents(head)?;
        let first = extents.partition_point(|extent| extent.at + extent.length <= offset);
        for extent in extents.iter().skip(first).take_while(|extent| extent.at < end) {
            let (start, stop) = (extent.at.max(offset), (extent.at + extent.length).min(end));
            let part = target.get_mut((start - offset) as usize..(stop - offset) as usize).ok_or_else(damaged)?;
            if !self.read_pieces(&extent.blob, extent.from + (start - extent.at), part, how)? {
                return Ok(None);
            }
        }
        Ok(Some(target.len()))
    }

    /// Reads a value that a batch is making.
    pub(super) fn read_value(&self, value: &Sparse<Source>, buffer: &mut [u8]) -> Result<()> {
        buffer.fill(0);
        let mut outcome = Ok(());
        value.each_within(0, buffer.len() as u64, |at, piece| {
            let part = buffer.get_mut(at as usize..(at + piece.length()) as usize);
            if let (Ok(()), Some(part)) = (&outcome, part) {
                match &piece {
                    Source::Inline(bytes) => part.copy_from_slice(bytes),
                    Source::Blob { blob, from, .. } => outcome = self.read_blob(blob, *from, part),
                }
            }
        });
        outcome
    }

    fn head_of(&self, space: SpaceId, key: &[u8]) -> Result<Head> {
        if space != SOLE {
            return Err(not_found());
        }
        self.head(key)?.ok_or_else(not_found)
    }

    fn bytes_of(&self, head: &Head, offset: u64, length: usize) -> Result<Bytes> {
        if let Head::Inline(bytes) = head {
            let start = usize::try_from(offset).unwrap_or(usize::MAX).min(bytes.len());
            return Ok(bytes.slice(start..start.saturating_add(length).min(bytes.len())));
        }
        let rest = head.size().saturating_sub(offset);
        let mut run = BytesMut::zeroed(usize::try_from(rest).map_or(length, |rest| rest.min(length)));
        let count = self.read_head(head, offset, &mut run, &mut self.waiting())?;
        run.truncate(count.unwrap_or(0));
        Ok(run.freeze())
    }
}

impl View for SplitView {
    pass_on!(View, below: version, keep);

    fn has_space(&self, space: SpaceId) -> Result<bool> {
        Ok(space == SOLE && self.below.has_space(space)?)
    }

    fn spaces(&self, from: SpaceId, most: usize) -> Result<Vec<SpaceEntry>> {
        let mut spaces = self.below.spaces(from, most)?;
        spaces.retain(|entry| entry.space == SOLE);
        Ok(spaces)
    }

    fn stat(&self, space: SpaceId, key: &[u8]) -> Result<Option<Stat>> {
        if space != SOLE {
            return Ok(None);
        }
        let Some(stat) = self.below.stat(SOLE, &head_key(key))? else {
            return Ok(None);
        };
        let head = self.head(key)?.ok_or_else(damaged)?;
        Ok(Some(Stat { version: stat.version, size: head.size() }))
    }

    fn read(&self, space: SpaceId, key: &[u8], offset: u64, buffer: &mut [u8]) -> Result<usize> {
        let read = self.read_head(&self.head_of(space, key)?, offset, buffer, &mut self.waiting())?;
        Ok(read.unwrap_or(0))
    }

    fn read_now(&self, space: SpaceId, key: &[u8], offset: u64, buffer: &mut [u8]) -> Result<ReadNow> {
        if space != SOLE {
            return Err(not_found());
        }
        let mut record = vec![0; self.head_len];
        let ReadNow::Read(count) = self.below.read_now(SOLE, &head_key(key), 0, &mut record)? else {
            return Ok(ReadNow::WouldBlock);
        };
        record.truncate(count);
        match Head::decode(&Bytes::from(record))? {
            // A list is read where waiting is allowed.
            Head::Listed { .. } => Ok(ReadNow::WouldBlock),
            head => {
                let read = self.read_head(&head, offset, buffer, &mut |key, offset, part| {
                    Ok(match self.below.read_now(SOLE, key, offset, part)? {
                        ReadNow::Read(count) => Some(count),
                        ReadNow::WouldBlock => None,
                    })
                })?;
                Ok(read.map_or(ReadNow::WouldBlock, ReadNow::Read))
            }
        }
    }

    fn glance(&self, _space: SpaceId, _key: &[u8], _offset: u64, _length: usize) -> Result<Glance> {
        Ok(Glance::Unknown)
    }

    fn bytes(&self, space: SpaceId, key: &[u8], offset: u64, length: usize) -> Result<Bytes> {
        self.bytes_of(&self.head_of(space, key)?, offset, length)
    }

    fn cursor(&self, space: SpaceId, range: KeyRange, direction: Direction) -> Result<Box<dyn Cursor>> {
        let below = self.below.cursor(space, prefixed(HEAD, &range), direction)?;
        Ok(Box::new(Translated::new(below, Entries(self.clone()))))
    }
}

struct Entries(SplitView);

impl Translate for Entries {
    fn key_below(&self, key: &[u8]) -> Bytes {
        head_key(key)
    }

    fn entry(&self, below: Entry) -> Result<Entry> {
        let key = unprefixed(HEAD, &KeyRange { start: below.key, end: None }).start;
        let head = match below.value {
            Some(record) => Head::decode(&record)?,
            None => self.0.head(&key)?.ok_or_else(damaged)?,
        };
        let stat = Stat { version: below.stat.version, size: head.size() };
        let value = match stat.size {
            size @ ..=ENTRY_VALUE_LEN_MAX => Some(self.0.bytes_of(&head, 0, size as usize)?),
            _ => None,
        };
        Ok(Entry { key, stat, value })
    }
}

/// The values before a batch.
pub(super) struct SplitBeneath {
    pub(super) view: SplitView,
}

impl Beneath for SplitBeneath {
    type Piece = Source;

    fn space(&self, space: SpaceId) -> Result<Option<bool>> {
        if space == SOLE { Ok(Some(false)) } else { Err(one_space()) }
    }

    fn has(&self, _space: SpaceId, key: &[u8]) -> Result<bool> {
        Ok(self.view.below.stat(SOLE, &head_key(key))?.is_some())
    }

    fn load(&self, _space: SpaceId, key: &[u8]) -> Result<Option<Sparse<Source>>> {
        let Some(head) = self.view.head(key)? else {
            return Ok(None);
        };
        if let Head::Inline(bytes) = head {
            return Ok(Some(Sparse::from_piece(Source::Inline(bytes))));
        }
        Ok(Some(value_of(head.size(), &self.view.extents(&head)?)))
    }

    fn keys(&self, space: SpaceId, range: &KeyRange) -> Result<Vec<Bytes>> {
        keys(&self.view, space, range)
    }

    fn payload(&self, payload: &Payload) -> Result<Sparse<Source>> {
        Ok(Sparse::from_piece(match payload {
            Payload::Bytes(bytes) => Source::Inline(bytes.clone()),
            Payload::Stage(token) => {
                let staged = token.content_ref::<Staged<StagedValue>>();
                match staged.ok_or_else(|| Error::invalid("a stage of another store"))?.content() {
                    StagedValue::Inline(bytes) => Source::Inline(bytes.clone()),
                    StagedValue::Blob(blob) => Source::Blob { blob: blob.id(), from: 0, length: token.length() },
                }
            }
        }))
    }

    fn read(&self, value: &Sparse<Source>, buffer: &mut [u8]) -> Result<()> {
        self.view.read_value(value, buffer)
    }
}
