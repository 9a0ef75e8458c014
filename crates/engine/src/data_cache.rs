//! A cache of data: runs that were written or read lately, in memory, verified once.
//!
//! Invariants:
//! - A run answers only for an extent whose chunks have the very checksums that it was verified against, so nothing has to be
//!   dropped when blocks are freed.
//! - Whoever writes a run puts it or forgets it. CRC32C is not unique: new bytes at the same blocks may have the checksums of
//!   the old ones, so the writer replaces or removes what has that key.
//! - What it holds is at most its budget, counted by runs: a buffer of which a quarter was never filled is kept whole, and one
//!   that several runs share stays until the last of them goes. What a reader still has of a run that was evicted is the
//!   reader's.
//! - With a budget of zero it holds nothing, and readers skip it. Below some 2 MiB the longest runs are not taken in.
//! - It is a leaf: nothing of the store is locked or waited for while it is asked, but by [`DataCache::load`], which reads.

use std::ops::Range;
use std::sync::Arc;

use bytes::Bytes;
use quick_cache::sync::{Cache, DefaultLifecycle, GuardResult};
use quick_cache::{DefaultHashBuilder, OptionsBuilder, Weighter};

use crate::buffers::{BUFFER_LEN, Buffers, Lent};
use crate::device::BLOCK_LEN;
use crate::error::Result;
use crate::extent::Extent;

/// What a run costs beside its bytes.
const CACHED_LEN: usize = 192;
/// This much of it is for runs that were read again; the rest is for what came last, in that order.
const HOT_ALLOCATION: f64 = 0.5;
/// The cache expects runs of this length.
const RUN_LEN_EXPECTED: u64 = 64 << 10;
/// A part of the cache that is locked by itself has at least so many bytes: room for many runs of the longest kind, for one
/// that is longer than what a part has for hot runs would not be taken in.
const SHARD_LEN_MIN: u64 = 16 << 20;
/// The most such parts.
const SHARDS_MAX: u64 = 64;

/// Where a run lies, and a digest of its checksums.
type Key = (u64, u64);

/// Bytes that match these checksums.
#[derive(Clone)]
struct Run {
    bytes: Bytes,
    chunk_log2: u8,
    checksums: Arc<[u32]>,
}

impl Run {
    fn is_of(&self, extent: &Extent) -> bool {
        self.bytes.len() == extent.run_length as usize
            && self.chunk_log2 == extent.chunk_log2
            && (Arc::ptr_eq(&self.checksums, &extent.checksums) || self.checksums == extent.checksums)
    }
}

fn key_of(extent: &Extent) -> Key {
    // Any digest does: who finds a run compares all checksums.
    let mix =
        |sum: u64, checksum: &u32| (sum ^ u64::from(*checksum)).wrapping_mul(0x9E37_79B9_7F4A_7C15).rotate_left(29);
    (extent.start_block, extent.checksums.iter().fold(u64::from(extent.run_length), mix))
}

#[derive(Clone)]
struct ByLength;

impl Weighter<Key, Run> for ByLength {
    fn weight(&self, _: &Key, run: &Run) -> u64 {
        (run.bytes.len() + 4 * run.checksums.len() + CACHED_LEN) as u64
    }
}

type Runs = Cache<Key, Run, ByLength, DefaultHashBuilder, DefaultLifecycle<Key, Run>>;

/// Runs of data in memory.
pub struct DataCache {
    runs: Option<Runs>,
    buffers: Arc<Buffers>,
}

impl DataCache {
    /// Of at most `budget_len` bytes; of zero: none. Long runs lie in memory from `buffers`.
    pub fn new(budget_len: u64, buffers: &Arc<Buffers>) -> DataCache {
        let options = OptionsBuilder::new()
            .estimated_items_capacity((budget_len / RUN_LEN_EXPECTED).max(16) as usize)
            .weight_capacity(budget_len)
            .hot_allocation(HOT_ALLOCATION)
            .shards((budget_len / SHARD_LEN_MIN).clamp(1, SHARDS_MAX) as usize)
            .build();
        let runs = options.ok().filter(|_| budget_len > 0);
        let runs = runs.map(|options| Cache::with_options(options, ByLength, Default::default(), Default::default()));
        DataCache { runs, buffers: Arc::clone(buffers) }
    }

    /// Whether it can hold anything.
    pub fn is_on(&self) -> bool {
        self.runs.is_some()
    }

    /// The whole run of an extent, if it is here.
    pub fn get(&self, extent: &Extent) -> Option<Bytes> {
        let run = self.runs.as_ref()?.get(&key_of(extent))?;
        run.is_of(extent).then_some(run.bytes)
    }

    /// Takes in the run of an extent, verified.
    pub fn put(&self, extent: &Extent, bytes: Bytes) {
        let Some(runs) = &self.runs else { return };
        let checksums = Arc::clone(&extent.checksums);
        runs.insert(key_of(extent), Run { bytes, chunk_log2: extent.chunk_log2, checksums });
    }

    /// A run was written that is not taken in: what is here of the same place with the same checksums goes.
    pub fn forget(&self, extent: &Extent) {
        if let Some(runs) = &self.runs {
            runs.remove(&key_of(extent));
        }
    }

    /// The whole run of an extent, taken in by `read`, which fills and verifies it, where it is not here. Who asks for one
    /// that somebody reads just now waits for that. `None` where nothing can be held.
    pub fn load(&self, extent: &Extent, read: impl FnOnce(&mut [u8]) -> Result<()>) -> Result<Option<Bytes>> {
        let Some(runs) = &self.runs else { return Ok(None) };
        let guard = match runs.get_value_or_guard(&key_of(extent), None) {
            GuardResult::Value(run) => return Ok(run.is_of(extent).then_some(run.bytes)),
            GuardResult::Guard(guard) => guard,
            GuardResult::Timeout => return Ok(None),
        };
        let length = extent.run_length as usize;
        let padded = length.next_multiple_of(BLOCK_LEN);
        let mut memory = if padded == BUFFER_LEN { self.buffers.take() } else { Lent::own(padded) };
        read(&mut memory[..length])?;
        let bytes = Bytes::from_owner(memory).slice(..length);
        let run = Run { bytes: bytes.clone(), chunk_log2: extent.chunk_log2, checksums: Arc::clone(&extent.checksums) };
        // It may have been taken in meanwhile by who wrote it.
        let _ = guard.insert(run);
        Ok(Some(bytes))
    }

    /// Takes in runs that were just written, each from its part of a buffer. Where they fill less than three quarters of it they
    /// are copied, and the buffer is given back.
    pub fn put_written(&self, buffer: Lent, runs: Vec<(Extent, Range<usize>)>) -> Option<Lent> {
        let length: usize = runs.iter().map(|(_, part)| part.len()).sum();
        if !self.is_on() || length == 0 {
            return Some(buffer);
        }
        if 4 * length < 3 * buffer.len() {
            for (extent, part) in runs {
                self.put(&extent, Bytes::copy_from_slice(&buffer[part]));
            }
            return Some(buffer);
        }
        let bytes = Bytes::from_owner(buffer.kept());
        for (extent, part) in runs {
            self.put(&extent, bytes.slice(part));
        }
        None
    }
}

#[cfg(test)]
mod tests;
