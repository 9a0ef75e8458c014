//! Free space as a checkpoint stores it: a chain of pages, each named and checked by the one before.
//!
//! A page: magic `KFRE`, the number of runs (u32), the next page (start u64, blocks u32, unused u32,
//! checksum u64; no next page: all zero), then for every run its start and count (u64 each), zeros to a
//! multiple of the block. The superblock names the first page.
//!
//! Invariant: the list names exactly the blocks that are free at the cut: neither reachable from the
//! root, nor the list's own, nor the ring's or the superblocks'.

use crate::address::BlockRange;
use crate::allocator::runs::Runs;
use crate::codec::{Reader, Writer};
use crate::device::{BLOCK_LEN, Device, ReadMode};
use crate::error::{Error, Result};
use crate::superblock::FreeListRef;

const MAGIC: [u8; 4] = *b"KFRE";
const HEADER_LEN: usize = 32;
const RUN_LEN: usize = 16;
/// The largest page: 1 MiB.
const PAGE_BLOCKS_MAX: usize = 256;

/// How many runs fit on a page of this many blocks.
fn runs_on(blocks: usize) -> usize {
    (blocks * BLOCK_LEN - HEADER_LEN) / RUN_LEN
}

/// How many blocks the next page wants when so many runs are left to write.
pub fn page_blocks(runs: usize) -> u32 {
    let bytes = HEADER_LEN + runs * RUN_LEN;
    bytes.div_ceil(BLOCK_LEN).clamp(1, PAGE_BLOCKS_MAX) as u32
}

/// How many runs a set of pages can hold.
pub fn capacity(pages: &[BlockRange]) -> usize {
    pages.iter().map(|page| runs_on(page.count as usize)).sum()
}

/// Writes the runs to the pages, which have room for them, last page first; gives the first.
pub fn write(device: &dyn Device, runs: &Runs, pages: &[BlockRange]) -> Result<Option<FreeListRef>> {
    let all: Vec<(u64, u64)> = runs.iter().collect();
    debug_assert!(capacity(pages) >= all.len());
    let mut parts = Vec::with_capacity(pages.len());
    let mut rest = all.as_slice();
    for page in pages {
        let (part, later) = rest.split_at(rest.len().min(runs_on(page.count as usize)));
        parts.push((page, part));
        rest = later;
    }
    let mut next: Option<FreeListRef> = None;
    for (page, part) in parts.into_iter().rev() {
        let bytes = encode_page(page.count as usize, part, next);
        device
            .write_at(&bytes, page.start * BLOCK_LEN as u64)
            .map_err(|e| Error::device(format!("cannot write the free list at block {}", page.start), e))?;
        next = Some(FreeListRef { at: *page, checksum: crate::checksum::crc64(&bytes) });
    }
    Ok(next)
}

fn encode_page(blocks: usize, runs: &[(u64, u64)], next: Option<FreeListRef>) -> Vec<u8> {
    let mut out = Vec::with_capacity(blocks * BLOCK_LEN);
    out.extend_from_slice(&MAGIC);
    out.put_u32(runs.len() as u32);
    out.put_u64(next.map_or(0, |n| n.at.start));
    out.put_u32(next.map_or(0, |n| n.at.count));
    out.put_u32(0);
    out.put_u64(next.map_or(0, |n| n.checksum));
    for (start, count) in runs {
        out.put_u64(*start);
        out.put_u64(*count);
    }
    out.resize(blocks * BLOCK_LEN, 0);
    out
}

/// Reads the list: the free runs, and the pages that hold it.
pub fn read(device: &dyn Device, first: Option<FreeListRef>, blocks: u64) -> Result<(Runs, Vec<BlockRange>)> {
    let mut runs = Runs::new();
    let mut pages: Vec<BlockRange> = Vec::new();
    let mut next = first;
    while let Some(page) = next {
        let end = page.at.start.checked_add(u64::from(page.at.count));
        let sound = end.is_some_and(|end| end <= blocks) && (page.at.count as usize) <= PAGE_BLOCKS_MAX;
        if !sound || pages.len() as u64 > blocks {
            return Err(Error::damaged(format!(
                "the free list names a page at block {} that cannot be",
                page.at.start
            )));
        }
        let mut bytes = vec![0; page.at.count as usize * BLOCK_LEN];
        device
            .read_at(&mut bytes, page.at.start * BLOCK_LEN as u64, ReadMode::Direct)
            .map_err(|e| Error::device(format!("cannot read the free list at block {}", page.at.start), e))?;
        if crate::checksum::crc64(&bytes) != page.checksum {
            let message = format!("the free list at block {} does not match its checksum", page.at.start);
            return Err(Error::damaged(message));
        }
        next = decode_page(&bytes, blocks, &mut runs)?;
        pages.push(page.at);
    }
    Ok((runs, pages))
}

fn decode_page(bytes: &[u8], blocks: u64, runs: &mut Runs) -> Result<Option<FreeListRef>> {
    let mut reader = Reader::new(bytes);
    if reader.array::<4>()? != MAGIC {
        return Err(Error::damaged("a page of the free list does not begin as one"));
    }
    let count = reader.u32()?;
    let at = BlockRange { start: reader.u64()?, count: reader.u32()? };
    reader.u32()?;
    let checksum = reader.u64()?;
    for _ in 0..count {
        let (start, length) = (reader.u64()?, reader.u64()?);
        if length == 0 || start.checked_add(length).is_none_or(|end| end > blocks) {
            return Err(Error::damaged(
                "the free list names a run without blocks, or blocks past the end of the store",
            ));
        }
        runs.add(start, length)?;
    }
    Ok((at.count > 0).then_some(FreeListRef { at, checksum }))
}
