//! Values read from their pieces.
//!
//! Invariants:
//! - A piece that is missing or short where an extent says that it has bytes is damage, never zeros.
//! - Memory is reserved for what a value has, not for what was asked for.

use std::sync::Arc;

use bytes::{Bytes, BytesMut};
use koine_engine::{Error, ErrorKind, KeyRange, LOOKUP_COPY_MAX, Payload, Result, SpaceId, Version};

use super::record::{
    BlobId, Extent, HEAD, Head, Source, damaged, decode_extents, head_key, list_at, piece_at, value_of,
};
use super::stage::StagedValue;
use crate::emulate::SOLE;
use crate::emulate::cursor::{Translate, Translated};
use crate::emulate::pending::BackingStore;
use crate::emulate::plan::{keys, one_space, prefixed, unprefixed};
use crate::emulate::token::Staged;
use crate::pass_on;
use crate::seam::{Cursor, Direction, ENTRY_VALUE_LEN_MAX, Entry, Lookup, SpaceEntry, Stat, View, Wait, absent};
use crate::sparse::{Piece, Sparse};

/// One version of a store of pieces.
#[derive(Clone)]
pub(super) struct SplitView {
    pub(super) below: Arc<dyn View>,
    pub(super) piece_len: u64,
}

/// What is known of a key's head.
enum HeadLookup {
    Absent,
    Head(Version, Head),
    WouldWait,
}

impl SplitView {
    /// What a key has.
    pub(super) fn head(&self, key: &[u8]) -> Result<Option<Head>> {
        Ok(match self.find(SOLE, key, Wait::Allowed)? {
            HeadLookup::Head(_, head) => Some(head),
            HeadLookup::Absent | HeadLookup::WouldWait => None,
        })
    }

    fn find(&self, space: SpaceId, key: &[u8], wait: Wait) -> Result<HeadLookup> {
        if space != SOLE {
            return Ok(HeadLookup::Absent);
        }
        Ok(match self.below.lookup(SOLE, &head_key(key), 0, usize::MAX, wait)? {
            Lookup::Absent => HeadLookup::Absent,
            Lookup::Found(stat, record) => HeadLookup::Head(stat.version, Head::decode(&record)?),
            Lookup::WouldWait => HeadLookup::WouldWait,
        })
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
        self.read_pieces(blob, from, buffer, Wait::Allowed).map(|_| ())
    }

    /// Reads a run of a blob piece by piece; `false` where that would wait and may not.
    fn read_pieces(&self, blob: &BlobId, from: u64, buffer: &mut [u8], wait: Wait) -> Result<bool> {
        let (mut from, mut rest) = (from, buffer);
        while !rest.is_empty() {
            let offset = from % self.piece_len;
            let count = rest.len().min((self.piece_len - offset) as usize);
            let (part, after) = rest.split_at_mut(count);
            let key = piece_at(blob, from / self.piece_len).key;
            let read = match self.below.read_into(SOLE, &key, offset, part, wait) {
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

    /// Reads of a value what its head leads to; `None` where that would wait and may not.
    fn read_head(&self, head: &Head, offset: u64, buffer: &mut [u8], wait: Wait) -> Result<Option<usize>> {
        // A list is read where waiting is allowed.
        if wait == Wait::Never && matches!(head, Head::Listed { .. }) {
            return Ok(None);
        }
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
            if !self.read_pieces(&extent.blob, extent.from + (start - extent.at), part, wait)? {
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

    /// Bytes of a value; `None` where that would wait and may not.
    fn bytes_of(&self, head: &Head, offset: u64, length: usize, wait: Wait) -> Result<Option<Bytes>> {
        if let Head::Inline(bytes) = head {
            let start = usize::try_from(offset).unwrap_or(usize::MAX).min(bytes.len());
            return Ok(Some(bytes.slice(start..start.saturating_add(length).min(bytes.len()))));
        }
        let rest = head.size().saturating_sub(offset);
        let count = usize::try_from(rest).map_or(length, |rest| rest.min(length));
        if count == 0 {
            return Ok(Some(Bytes::new()));
        }
        if wait == Wait::Never && count > LOOKUP_COPY_MAX {
            return Ok(None);
        }
        let mut run = BytesMut::zeroed(count);
        Ok(self.read_head(head, offset, &mut run, wait)?.map(|count| {
            run.truncate(count);
            run.freeze()
        }))
    }
}

impl View for SplitView {
    pass_on!(View, below: version, keep);

    fn spaces(&self, from: SpaceId, most: usize) -> Result<Vec<SpaceEntry>> {
        let mut spaces = self.below.spaces(from, most)?;
        spaces.retain(|entry| entry.space == SOLE);
        Ok(spaces)
    }

    fn lookup(&self, space: SpaceId, key: &[u8], offset: u64, length: usize, wait: Wait) -> Result<Lookup> {
        let (version, head) = match self.find(space, key, wait)? {
            HeadLookup::Absent => return Ok(Lookup::Absent),
            HeadLookup::WouldWait => return Ok(Lookup::WouldWait),
            HeadLookup::Head(version, head) => (version, head),
        };
        let bytes = self.bytes_of(&head, offset, length, wait)?;
        let stat = Stat { version, size: head.size() };
        Ok(bytes.map_or(Lookup::WouldWait, |bytes| Lookup::Found(stat, bytes)))
    }

    fn read_into(
        &self,
        space: SpaceId,
        key: &[u8],
        offset: u64,
        buffer: &mut [u8],
        wait: Wait,
    ) -> Result<Option<usize>> {
        match self.find(space, key, wait)? {
            HeadLookup::Absent => Err(absent()),
            HeadLookup::WouldWait => Ok(None),
            HeadLookup::Head(_, head) => self.read_head(&head, offset, buffer, wait),
        }
    }

    fn cursor(&self, space: SpaceId, range: KeyRange, direction: Direction) -> Result<Box<dyn Cursor>> {
        let below = self.below.cursor(space, prefixed(HEAD, &range), direction)?;
        Ok(Box::new(Translated::new(below, HeadEntries(self.clone()))))
    }
}

struct HeadEntries(SplitView);

impl Translate for HeadEntries {
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
            size @ ..=ENTRY_VALUE_LEN_MAX => self.0.bytes_of(&head, 0, size as usize, Wait::Allowed)?,
            _ => None,
        };
        Ok(Entry { key, stat, value })
    }
}

/// The values before a batch.
pub(super) struct SplitBacking {
    pub(super) view: SplitView,
}

impl BackingStore for SplitBacking {
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
