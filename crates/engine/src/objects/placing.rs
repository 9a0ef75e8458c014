//! Ranges of objects that are written together become payloads of one batch: short ones go through the log, the others
//! to the device side by side.

use std::sync::Arc;

use bytes::{Bytes, BytesMut};

use super::write_behind::{Kept, Ranges};
use crate::batch::Payload;
use crate::device::{BLOCK_LEN, is_aligned};
use crate::engine::Engine;
use crate::error::Result;
use crate::stage::{Access, Lifetime, STAGE_PIECE_LEN_MAX, StageHint};
use crate::staging::bundle::{Bundle, Part};

/// As little as this goes through the log whole.
const SMALL_LEN: u64 = 64 << 10;
/// What a range in the log weighs beside its bytes.
const INLINE_COST: usize = 32;
/// Ranges from this length on may be read with large checksum chunks.
const IN_ORDER_LEN_MIN: u64 = 32 << 10;

/// Parts of at least this length are not copied once more.
const SHARED_LEN_MIN: usize = 256 << 10;
/// The extents of so many bytes take a byte in the log. A range whose extents take more than a slab of them is staged alone,
/// so that they are logged before the batch.
const EXTENT_SHARE: u64 = 512;

/// Where bytes are.
#[derive(Clone, Copy)]
pub enum Source<'s> {
    /// Here.
    Slice(&'s [u8]),
    /// In ranges, from this offset on.
    Kept(&'s Arc<Ranges>, u64),
}

/// A range that is to be written.
pub struct Range<'s> {
    /// Its bytes.
    pub source: Source<'s>,
    /// How many they are.
    pub length: u64,
    /// How they will be read.
    pub access: Access,
    /// Space was set aside for the object.
    pub reserved: bool,
    /// How long they will be kept.
    pub lifetime: Lifetime,
}

impl<'s> Range<'s> {
    /// Its bytes; long parts that can be written from where they are as such.
    fn parts(&self) -> impl Iterator<Item = Part<'s>> {
        let (slice, kept) = match self.source {
            Source::Slice(bytes) => (Some(Part::Bytes(bytes)), None),
            Source::Kept(ranges, offset) => (None, Some(ranges.shared_within(offset, offset + self.length))),
        };
        let part = |(bytes, kept): (&'s [u8], _)| {
            let is_whole = bytes.len() >= SHARED_LEN_MIN && bytes.len().is_multiple_of(BLOCK_LEN) && is_aligned(bytes);
            if is_whole { Part::Shared(Box::new(keep(kept))) } else { Part::Bytes(bytes) }
        };
        slice.into_iter().chain(kept.into_iter().flatten().map(part))
    }

    /// Its bytes, to be copied.
    fn slices(&self) -> impl Iterator<Item = &'s [u8]> {
        let (slice, kept) = match self.source {
            Source::Slice(bytes) => (Some(bytes), None),
            Source::Kept(ranges, offset) => (None, Some(ranges.within(offset, offset + self.length))),
        };
        slice.into_iter().chain(kept.into_iter().flatten().map(|(_, bytes)| bytes))
    }

    fn copied(&self) -> Bytes {
        let mut bytes = BytesMut::with_capacity(self.length as usize);
        self.slices().for_each(|part| bytes.extend_from_slice(part));
        bytes.freeze()
    }
}

fn keep(kept: impl FnOnce() -> Kept) -> Kept {
    kept()
}

/// The payload of each range, in order.
pub fn payloads(engine: &Engine, ranges: &[Range<'_>]) -> Result<Vec<Payload>> {
    let limits = engine.limits();
    let mut inline_left = limits.batch_bytes_max / 2;
    let total: u64 = ranges.iter().map(|range| range.length).sum();
    let is_small = total <= SMALL_LEN.min(inline_left as u64);
    let mut all = Vec::with_capacity(ranges.len());
    // Whether space was set aside, how long they live, and which of the ranges.
    let mut placed: Vec<(bool, Lifetime, Vec<usize>)> = Vec::new();
    for (index, range) in ranges.iter().enumerate() {
        let is_short = range.length < BLOCK_LEN as u64 || is_small && range.length <= limits.pending_len_max as u64;
        let inline_len = range.length as usize + INLINE_COST;
        if is_short && inline_len <= inline_left {
            inline_left -= inline_len;
            all.push(Payload::Bytes(range.copied()));
            continue;
        }
        if range.length > limits.slab_len_max as u64 * EXTENT_SHARE {
            let Range { access, reserved, lifetime, .. } = *range;
            let hint = StageHint { length: Some(range.length), access, reserved, lifetime };
            all.push(staged(engine, hint, range.slices())?);
            continue;
        }
        all.push(Payload::Bytes(Bytes::new()));
        match placed.iter_mut().find(|of| (of.0, of.1) == (range.reserved, range.lifetime)) {
            Some((.., indexes)) => indexes.push(index),
            None => placed.push((range.reserved, range.lifetime, vec![index])),
        }
    }
    for (reserved, lifetime, indexes) in placed {
        let bundle = |length| Bundle::new(Arc::clone(engine.shared()), length, reserved, lifetime);
        place(ranges, &indexes, bundle, &mut all)?;
    }
    Ok(all)
}

/// Places bytes of a known length by themselves.
pub fn staged<'b>(engine: &Engine, hint: StageHint, parts: impl Iterator<Item = &'b [u8]>) -> Result<Payload> {
    let mut stage = engine.stage(hint)?;
    for part in parts {
        part.chunks(STAGE_PIECE_LEN_MAX).try_for_each(|piece| stage.write(piece))?;
    }
    Ok(Payload::Stage(stage.finish()?))
}

/// Places those of the ranges that have these numbers, in a bundle of so many bytes.
fn place(
    ranges: &[Range<'_>],
    indexes: &[usize],
    bundle: impl FnOnce(u64) -> Bundle,
    all: &mut [Payload],
) -> Result<()> {
    let chosen = || indexes.iter().filter_map(|index| ranges.get(*index));
    let length = chosen().map(|range| range.length.next_multiple_of(BLOCK_LEN as u64)).sum();
    let mut bundle = bundle(length);
    for range in chosen() {
        let access = if range.length < IN_ORDER_LEN_MIN { Access::Random } else { range.access };
        bundle.push(access, range.parts())?;
    }
    for (index, token) in indexes.iter().zip(bundle.finish()?) {
        if let Some(payload) = all.get_mut(*index) {
            *payload = Payload::Stage(token);
        }
    }
    Ok(())
}
