//! Reading of values: from pieces in memory and from verified chunks on the device.
//!
//! Invariants:
//! - Every chunk read from the device is compared with its checksum before a byte of it is handed out.
//! - A range without a piece reads as zeros.
//! - Keys inside a space's tree: byte 1 and the user's key for a record; byte 2, the blob's number and an
//!   offset (both big-endian) for a piece of a large value.

mod parts;
mod pieces;

use std::cell::{Cell, RefCell};

use bytes::{Bytes, BytesMut};

use crate::batch::KeyRange;
use crate::checksum::crc32c;
use crate::data_cache::DataCache;
use crate::device::{BLOCK_LEN, Device, ReadMode, STEP_LEN};
use crate::error::{Error, Result};
use crate::extent::Extent;
use crate::state::State;
use crate::tree::value::{BlobId, Content, Piece, Record, Value};
use crate::tree::{NodeSource, Tree};
use parts::Parts;
pub use pieces::{Blobs, Flat, Pieces};

const RECORD: u8 = 1;
const PIECE: u8 = 2;

/// The tree's key for a user's key.
pub fn record_key(key: &[u8]) -> Bytes {
    let mut out = BytesMut::with_capacity(key.len() + 1);
    out.extend_from_slice(&[RECORD]);
    out.extend_from_slice(key);
    out.freeze()
}

/// Whether a tree's key is that of a user's key.
pub fn is_record_key(key: &[u8]) -> bool {
    key.first() == Some(&RECORD)
}

/// The tree's keys for many of the user's, in one piece of memory.
pub struct RecordKeys {
    bytes: Vec<u8>,
    ends: Vec<usize>,
}

impl RecordKeys {
    /// For these.
    pub fn of<'k>(keys: impl ExactSizeIterator<Item = &'k Bytes> + Clone) -> RecordKeys {
        let mut bytes = Vec::with_capacity(keys.clone().map(|key| key.len() + 1).sum());
        let mut ends = Vec::with_capacity(keys.len());
        for key in keys {
            bytes.push(RECORD);
            bytes.extend_from_slice(key);
            ends.push(bytes.len());
        }
        RecordKeys { bytes, ends }
    }

    /// The keys.
    pub fn as_slices(&self) -> Vec<&[u8]> {
        let starts = std::iter::once(0).chain(self.ends.iter().copied());
        starts.zip(&self.ends).map(|(start, end)| self.bytes.get(start..*end).unwrap_or_default()).collect()
    }
}

/// The user's key in a tree's key.
pub fn user_key(key: &Bytes) -> Bytes {
    key.slice(1.min(key.len())..)
}

/// The tree's keys for a range of the user's.
pub fn record_range(range: &KeyRange) -> KeyRange {
    let end = range.end.as_ref().map_or_else(|| Bytes::from_static(&[PIECE]), |end| record_key(end));
    KeyRange { start: record_key(&range.start), end: Some(end) }
}

/// The tree's keys for all pieces of a blob.
pub fn piece_range(blob: BlobId) -> KeyRange {
    KeyRange { start: piece_key(blob, 0), end: Some(piece_key(BlobId(blob.0.saturating_add(1)), 0)) }
}

/// The tree's key for a piece.
pub fn piece_key(blob: BlobId, offset: u64) -> Bytes {
    let mut out = BytesMut::with_capacity(17);
    out.extend_from_slice(&[PIECE]);
    out.extend_from_slice(&blob.0.to_be_bytes());
    out.extend_from_slice(&offset.to_be_bytes());
    out.freeze()
}

/// The blob and the offset that a piece's key names.
pub fn split_piece_key(key: &[u8]) -> Result<(BlobId, u64)> {
    let parts = key.split_first().and_then(|(_, rest)| rest.split_first_chunk::<8>());
    let Some((blob, offset)) = parts.and_then(|(blob, rest)| Some((blob, rest.first_chunk::<8>()?))) else {
        return Err(Error::damaged("the key of a piece is too short"));
    };
    Ok((BlobId(u64::from_be_bytes(*blob)), u64::from_be_bytes(*offset)))
}

/// The blob and the offset that a bound between pieces names, which may be shorter than a key.
pub fn piece_bound(bound: &[u8]) -> (BlobId, u64) {
    let mut padded = [0; 16];
    let rest = bound.get(1..).unwrap_or_default();
    padded.iter_mut().zip(rest).for_each(|(to, from)| *to = *from);
    let (blob, offset) = padded.split_at(8);
    let number = |bytes: &[u8]| bytes.iter().fold(0u64, |sum, byte| sum << 8 | u64::from(*byte));
    (BlobId(number(blob)), number(offset))
}

/// The piece in a leaf's value.
pub fn as_piece(value: Value) -> Result<Piece> {
    match value {
        Value::Piece(piece) => Ok(piece),
        _ => Err(Error::damaged("a leaf holds something else where a piece should be")),
    }
}

/// The record in a leaf's value.
pub fn as_record(value: Value) -> Result<Record> {
    match value {
        Value::Record(record) => Ok(record),
        _ => Err(Error::damaged("a leaf holds something else where a record should be")),
    }
}

/// Keys up to this length are put together on the stack, in bytes.
const SHORT_KEY_LEN: usize = 128;

/// Calls `act` with the tree's key for a user's key.
pub fn with_record_key<R>(key: &[u8], act: impl FnOnce(&[u8]) -> R) -> R {
    let mut short = [0; SHORT_KEY_LEN + 1];
    if let Some(place) = short.get_mut(1..=key.len()) {
        place.copy_from_slice(key);
        short[0] = RECORD;
        return act(&short[..=key.len()]);
    }
    act(&record_key(key))
}

/// The record of a user's key.
pub fn find_record(tree: &Tree, source: &dyn NodeSource, key: &[u8]) -> Result<Option<Record>> {
    with_record_key(key, |key| tree.get(source, key))?.map(as_record).transpose()
}

/// Pieces of at least this length are read past the page cache when it does not hold them.
const STREAM_LEN_MIN: usize = 64 << 10;
/// A chunk of at most this length is kept for the next read.
const KEPT_LEN_MAX: u64 = 64 << 10;

/// What a read tells beside its bytes.
#[derive(Default)]
pub struct Notes {
    cold: Cell<bool>,
    chunk: RefCell<Option<(u64, Vec<u8>)>>,
}

impl Notes {
    /// Whether a large piece had to be waited for.
    pub fn is_cold(&self) -> bool {
        self.cold.get()
    }

    /// Verified bytes around the last part of a chunk that was read, and their offset in the value.
    pub fn into_chunk(self) -> Option<(u64, Vec<u8>)> {
        self.chunk.into_inner()
    }

    /// The value ends here, whatever a piece holds.
    pub fn cut(&self, size: u64) {
        if let Some((start, bytes)) = &mut *self.chunk.borrow_mut() {
            bytes.truncate(size.saturating_sub(*start).min(bytes.len() as u64) as usize);
        }
    }
}

/// Where a read takes its bytes from.
#[derive(Clone, Copy)]
pub struct Reading<'a> {
    /// The nodes.
    pub source: &'a dyn NodeSource,
    /// The data.
    pub device: &'a dyn Device,
    /// Whether it may wait.
    pub mode: ReadMode,
    /// The frozen blobs.
    pub blobs: Blobs<'a>,
    /// Data in memory, where that may answer.
    pub data: Option<&'a DataCache>,
}

impl<'a> Reading<'a> {
    /// Of pieces that are no parts of frozen blobs.
    pub fn new(source: &'a dyn NodeSource, device: &'a dyn Device, mode: ReadMode) -> Reading<'a> {
        Reading { source, device, mode, blobs: Blobs::Nowhere, data: None }
    }

    /// The same, answered from the cache of data where that has it, and leaving there what was read.
    pub fn through(self, data: &'a DataCache) -> Reading<'a> {
        Reading { data: Some(data).filter(|data| data.is_on()), ..self }
    }

    /// The same in a state.
    pub fn within(self, state: &'a State) -> Reading<'a> {
        Reading { blobs: Blobs::Of(state), ..self }
    }
}

impl Reading<'_> {
    /// Fills `buffer` from `offset` of a value; the caller has cut it at the value's end.
    pub fn read(&self, tree: &Tree, record: &Record, offset: u64, buffer: &mut [u8]) -> Result<()> {
        self.read_noting(tree, record, offset, buffer, &Notes::default())
    }

    /// As `read`, and tells what it met.
    pub fn read_noting(
        &self,
        tree: &Tree,
        record: &Record,
        offset: u64,
        buffer: &mut [u8],
        notes: &Notes,
    ) -> Result<()> {
        match &record.content {
            Content::Empty => buffer.fill(0),
            Content::Single(Piece::Frozen(_)) | Content::Pieces(_) => {
                let end = offset + buffer.len() as u64;
                let pieces = Flat::new(tree, self.source, self.blobs, &record.content, offset, end)?;
                self.read_pieces(pieces, offset, buffer, notes)?;
            }
            Content::Single(piece) => self.read_single(piece, offset, buffer, notes)?,
        }
        notes.cut(record.size);
        Ok(())
    }

    fn read_single(&self, piece: &Piece, offset: u64, buffer: &mut [u8], notes: &Notes) -> Result<()> {
        let held = piece.len().saturating_sub(offset).min(buffer.len() as u64) as usize;
        let (head, tail) = buffer.split_at_mut(held);
        tail.fill(0);
        if head.is_empty() { Ok(()) } else { self.read_part(piece, 0, offset, head, notes) }
    }

    fn read_pieces(&self, mut pieces: Flat<'_>, offset: u64, buffer: &mut [u8], notes: &Notes) -> Result<()> {
        let end = offset + buffer.len() as u64;
        let (mut at, mut parts) = (offset, Parts::default());
        while let Some((start, piece)) = pieces.next(self.source)? {
            let from = start.max(at);
            let to = end.min(start.saturating_add(piece.len()));
            if from >= to {
                continue;
            }
            buffer[(at - offset) as usize..(from - offset) as usize].fill(0);
            at = to;
            if let Some(piece) = parts.add(piece, start, from..to) {
                self.read_parts(&std::mem::take(&mut parts), offset, buffer, notes)?;
                parts.add(piece, start, from..to);
            }
        }
        self.read_parts(&parts, offset, buffer, notes)?;
        buffer[(at - offset) as usize..].fill(0);
        Ok(())
    }

    /// Fills `buffer` from `from` of a piece, which holds so much.
    pub fn read_piece(&self, piece: &Piece, from: u64, buffer: &mut [u8]) -> Result<()> {
        self.read_part(piece, 0, from, buffer, &Notes::default())
    }

    /// As `read_piece`, of a piece that begins at `piece_at` of its value.
    fn read_part(&self, piece: &Piece, piece_at: u64, from: u64, buffer: &mut [u8], notes: &Notes) -> Result<()> {
        match piece {
            Piece::Inline(bytes) => copy_from(bytes, from, buffer),
            Piece::Pending(pending) => copy_from(&pending.bytes, from, buffer),
            Piece::Disk(extent) => self.read_extent(extent, piece_at, from, buffer, notes),
            Piece::Frozen(frozen) => {
                let pieces = Flat::of(piece.clone(), self.blobs, from, from + buffer.len() as u64);
                debug_assert!(from + buffer.len() as u64 <= frozen.length, "the caller cuts what it wants");
                self.read_pieces(pieces, from, buffer, notes)
            }
        }
    }

    fn read_extent(&self, extent: &Extent, piece_at: u64, from: u64, buffer: &mut [u8], notes: &Notes) -> Result<()> {
        let chunk = 1u64 << extent.chunk_log2;
        let run = u64::from(extent.run_length);
        let start = u64::from(extent.skip) + from;
        let end = start + buffer.len() as u64;
        if end > run {
            return Err(Error::damaged(format!(
                "the extent at block {} is shorter than its piece",
                extent.start_block
            )));
        }
        if let Some(run) = self.cached_run(extent, buffer.len(), notes)? {
            return copy_from(&run, start, buffer);
        }
        let around = Around { extent, piece_at };
        // Chunks that are wanted whole are read where they belong; of the first and the last maybe only a part is.
        let inner_start = start.next_multiple_of(chunk).min(end);
        let inner_end = if end == run { end } else { (end - end % chunk).max(inner_start) };
        if inner_end - inner_start < STREAM_LEN_MIN as u64 && (inner_start, inner_end) != (start, end) {
            return self.read_around(around, start, buffer, notes);
        }
        let (head, rest) = buffer.split_at_mut((inner_start - start) as usize);
        let (inner, tail) = rest.split_at_mut((inner_end - inner_start) as usize);
        if !head.is_empty() {
            self.read_around(around, start, head, notes)?;
        }
        if !inner.is_empty() {
            self.read_chunks(extent, inner_start, inner, notes)?;
        }
        if tail.is_empty() { Ok(()) } else { self.read_around(around, inner_end, tail, notes) }
    }

    /// The whole run of an extent out of the cache of data. One of which so much is wanted, at least half, is read into it.
    fn cached_run(&self, extent: &Extent, wanted: usize, notes: &Notes) -> Result<Option<Bytes>> {
        let Some(data) = self.data else { return Ok(None) };
        if let Some(run) = data.get(extent) {
            return Ok(Some(run));
        }
        let run_len = extent.run_length as usize;
        if self.mode != ReadMode::Cached || run_len < STREAM_LEN_MIN || 2 * wanted < run_len {
            return Ok(None);
        }
        data.load(extent, |memory| self.read_chunks(extent, 0, memory, notes))
    }

    /// A range of a value, shared, where the cache of data has all of it in one run, or takes it in.
    pub fn share(&self, tree: &Tree, record: &Record, offset: u64, count: usize) -> Result<Option<Bytes>> {
        if self.data.is_none() || count == 0 {
            return Ok(None);
        }
        let end = offset + count as u64;
        let first = match &record.content {
            Content::Empty => None,
            Content::Single(Piece::Disk(extent)) => Some((0, Piece::Disk(extent.clone()))),
            content => Flat::new(tree, self.source, self.blobs, content, offset, end)?.next(self.source)?,
        };
        let Some((start, Piece::Disk(extent))) = first else { return Ok(None) };
        if offset < start || end > start.saturating_add(u64::from(extent.length)) {
            return Ok(None);
        }
        let from = (u64::from(extent.skip) + (offset - start)) as usize;
        let run = self.cached_run(&extent, count, &Notes::default())?;
        Ok(run.filter(|run| from + count <= run.len()).map(|run| run.slice(from..from + count)))
    }

    /// Reads parts of chunks through memory of its own.
    fn read_around(&self, around: Around<'_>, start: u64, buffer: &mut [u8], notes: &Notes) -> Result<()> {
        let extent = around.extent;
        let chunk = 1u64 << extent.chunk_log2;
        let first = start - start % chunk;
        let last = (start + buffer.len() as u64).next_multiple_of(chunk).min(u64::from(extent.run_length));
        let mut whole = vec![0; (last - first) as usize];
        self.read_chunks(extent, first, &mut whole, notes)?;
        let skip = (start - first) as usize;
        buffer.copy_from_slice(&whole[skip..skip + buffer.len()]);
        if last - first <= KEPT_LEN_MAX {
            // Of the run only this part is the value's.
            let (part, part_end) = (u64::from(extent.skip), u64::from(extent.skip) + u64::from(extent.length));
            whole.truncate(last.min(part_end).saturating_sub(first) as usize);
            whole.drain(..(part.saturating_sub(first) as usize).min(whole.len()));
            let offset = around.piece_at + first.max(part) - part;
            let mut kept = notes.chunk.borrow_mut();
            // Of two that of the end: who reads on begins there.
            if kept.as_ref().is_none_or(|(other, _)| *other <= offset) {
                *kept = Some((offset, whole));
            }
        }
        Ok(())
    }

    /// How chunks at `at` of the device are read.
    fn mode_for(&self, at: u64, length: usize, notes: &Notes) -> Result<ReadMode> {
        if self.mode == ReadMode::Direct || length < STREAM_LEN_MIN || self.device.holds(at, length) {
            return Ok(self.mode);
        }
        notes.cold.set(true);
        // The page cache is not even asked for what it does not hold: that would have the kernel read ahead too.
        if self.mode == ReadMode::Now { Err(Error::would_block()) } else { Ok(ReadMode::Stream) }
    }

    /// Reads whole chunks from `start` of the run and verifies each.
    fn read_chunks(&self, extent: &Extent, start: u64, buffer: &mut [u8], notes: &Notes) -> Result<()> {
        let at = extent.start_block * BLOCK_LEN as u64 + start;
        let mode = self.mode_for(at, buffer.len(), notes)?;
        let step = step_len(mode).max(1 << extent.chunk_log2);
        let mut start = start;
        for part in buffer.chunks_mut(step) {
            self.read_verified(extent, start, part, mode)?;
            start += part.len() as u64;
        }
        Ok(())
    }

    fn read_verified(&self, extent: &Extent, start: u64, buffer: &mut [u8], mode: ReadMode) -> Result<()> {
        let at = extent.start_block * BLOCK_LEN as u64 + start;
        self.device.read_at(buffer, at, mode).map_err(|e| Error::read_failed(at, e))?;
        let Some(first_bad) = first_damaged(extent, start, buffer) else { return Ok(()) };
        match mode {
            // The page cache may hold what was there before: a read of neighbouring bytes while these were
            // written past it can leave old pages behind. Only the medium's word counts.
            ReadMode::Now => return Err(Error::would_block()),
            ReadMode::Cached | ReadMode::Stream => {
                self.device.read_at(buffer, at, ReadMode::Direct).map_err(|e| Error::read_failed(at, e))?;
                if first_damaged(extent, start, buffer).is_none() {
                    return Ok(());
                }
            }
            ReadMode::Direct => {}
        }
        let (place, length) = first_bad;
        Err(Error::damaged(format!("data at byte {place} of the store ({length} bytes) is damaged")))
    }
}

/// An extent, and where its part begins in the value.
#[derive(Clone, Copy)]
struct Around<'a> {
    extent: &'a Extent,
    piece_at: u64,
}

/// How much is read before it is verified, where the page cache has it: so much is in the processor's cache then. A device is
/// asked for all at once.
fn step_len(mode: ReadMode) -> usize {
    match mode {
        ReadMode::Cached | ReadMode::Now => STEP_LEN,
        ReadMode::Stream | ReadMode::Direct => usize::MAX / 2 + 1,
    }
}

/// Where the first chunk lies that does not match its checksum, and how long it is.
fn first_damaged(extent: &Extent, start: u64, bytes: &[u8]) -> Option<(u64, usize)> {
    let chunk = 1usize << extent.chunk_log2;
    let first = (start >> extent.chunk_log2) as usize;
    let mut chunks = bytes.chunks(chunk).enumerate();
    let (index, bad) = chunks.find(|(index, bytes)| extent.checksums.get(first + index) != Some(&crc32c(bytes)))?;
    Some((extent.start_block * BLOCK_LEN as u64 + start + (index * chunk) as u64, bad.len()))
}

fn copy_from(bytes: &[u8], from: u64, buffer: &mut [u8]) -> Result<()> {
    let from = usize::try_from(from).unwrap_or(usize::MAX);
    let part = bytes.get(from..from.saturating_add(buffer.len()));
    buffer.copy_from_slice(part.ok_or_else(|| Error::damaged("a piece is shorter than its entry says"))?);
    Ok(())
}
