//! The loops of the small-access benchmark. Every block that is read is looked at.

use super::super::place::{Handle, Outcome, Place};
use super::plan::{Access, LARGE_LEN, SmallCell, SmallOperation};
use crate::stores::data::{mix, shuffled};
use std::sync::Barrier;
use std::time::{Duration, Instant};

/// Objects that a cell works on: the same bytes in all, whether threads have their own objects or share one.
pub struct Region {
    /// Objects of `length` bytes each; every thread has as many of them for itself.
    pub private: Vec<u64>,
    /// One as long as all the others together.
    pub shared: u64,
    /// Length of a private object in bytes.
    pub length: u64,
}

impl Region {
    fn whole(&self) -> u64 {
        self.length * self.private.len() as u64
    }
}

/// What was done, and in which time.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Done {
    /// Blocks.
    pub blocks: u64,
    /// From the first begin to the last end.
    pub elapsed: Duration,
}

/// The block, counted over all bytes of the region, that a thread meets as its `turn`th.
///
/// In a shared object the threads meet different ones: blocksize * (threads * i + thread). Private ones they go through
/// one after the other.
fn block_of(cell: &SmallCell, thread: u64, turn: u64, blocks: u64) -> u64 {
    let threads = cell.threads as u64;
    let own = (blocks / threads).max(1);
    let place = match cell.access {
        Access::Sequential => turn % own,
        Access::Random => shuffled(turn % own, own, 5),
    };
    if cell.shared { threads * place + thread } else { thread * own + place }
}

/// Fills all objects, so that every write overwrites and every read finds something.
pub fn fill(place: &dyn Place, region: &Region) -> Outcome<()> {
    let private = region.private.iter().map(|number| (*number, region.length));
    for (number, length) in private.chain([(region.shared, region.whole())]) {
        let handle = place.open(number)?;
        let mut block = Vec::new();
        for offset in (0..length).step_by(LARGE_LEN as usize) {
            stamp(&mut block, offset, LARGE_LEN.min(length - offset));
            handle.write(offset, &block, false)?;
        }
    }
    place.settle()
}

/// Every 4 KiB begins with its own offset.
fn stamp(block: &mut Vec<u8>, offset: u64, length: u64) {
    const STEP: u64 = 4096;
    if block.len() as u64 != length {
        *block = (0..length.div_ceil(8)).flat_map(|word| mix(word).to_le_bytes()).take(length as usize).collect();
    }
    for (step, chunk) in (0_u64..).zip(block.chunks_mut(STEP as usize)) {
        if let Some(head) = chunk.get_mut(..8) {
            head.copy_from_slice(&(offset + step * STEP).to_le_bytes());
        }
    }
}

/// Works for so many seconds. Reads and writes that are not synced one by one end earlier when every block was met
/// once; such writes are over when all of them are durable.
pub fn drive(place: &dyn Place, region: &Region, cell: &SmallCell, seconds: f64) -> Outcome<Option<Done>> {
    let numbers = if cell.shared { std::slice::from_ref(&region.shared) } else { region.private.as_slice() };
    let handles = numbers.iter().map(|number| place.open(*number)).collect::<Outcome<Vec<_>>>()?;
    let open = OpenBlocks { handles: &handles, object_len: if cell.shared { region.whole() } else { region.length } };
    let blocks = region.whole() / cell.block_len;
    let barrier = Barrier::new(cell.threads);
    let work = |thread: usize| {
        barrier.wait();
        let begun = Instant::now();
        let done = stretch(&open, cell, thread as u64, blocks, seconds);
        done.map(|done| (done, begun, Instant::now()))
    };
    let work = &work;
    let done = std::thread::scope(|scope| {
        let threads: Vec<_> = (0..cell.threads).map(|thread| scope.spawn(move || work(thread))).collect();
        let join = |thread: std::thread::ScopedJoinHandle<'_, _>| {
            thread.join().unwrap_or_else(|_| Err("a thread panicked".to_owned()))
        };
        threads.into_iter().map(join).collect::<Outcome<Vec<_>>>()
    })?;
    if cell.verb == SmallOperation::Write {
        place.settle()?;
    }
    let first = done.iter().map(|(_, begun, _)| *begun).min();
    let last = done.iter().map(|(_, _, ended)| *ended).max();
    let last = if cell.verb == SmallOperation::Write { Some(Instant::now()) } else { last };
    let blocks: Option<u64> = done.iter().map(|(blocks, ..)| *blocks).sum();
    let elapsed = first.zip(last).map_or(Duration::ZERO, |(first, last)| last - first);
    Ok(blocks.map(|blocks| Done { blocks, elapsed }))
}

/// The objects of a cell, open.
struct OpenBlocks<'a> {
    handles: &'a [Box<dyn Handle>],
    object_len: u64,
}

impl OpenBlocks<'_> {
    /// Where a byte of the region lies.
    fn find(&self, at: u64) -> Outcome<(&dyn Handle, u64)> {
        let handle = self.handles.get((at / self.object_len) as usize).ok_or("there are too few objects")?;
        Ok((handle.as_ref(), at % self.object_len))
    }
}

/// Blocks that one thread did; `None` where there are no transactions.
fn stretch(open: &OpenBlocks<'_>, cell: &SmallCell, thread: u64, blocks: u64, seconds: f64) -> Outcome<Option<u64>> {
    let find = |turn: u64| open.find(block_of(cell, thread, turn, blocks) * cell.block_len);
    let own = (blocks / cell.threads as u64).max(1);
    let begun = Instant::now();
    let mut block = Vec::new();
    let mut turn = 0;
    while begun.elapsed().as_secs_f64() < seconds {
        match cell.verb {
            SmallOperation::Write | SmallOperation::Read if turn >= own => break,
            SmallOperation::Write | SmallOperation::WriteSynced => {
                let (handle, offset) = find(turn)?;
                stamp(&mut block, offset, cell.block_len);
                handle.write(offset, &block, cell.verb == SmallOperation::WriteSynced)?;
                turn += 1;
            }
            SmallOperation::Transact => {
                let count = (LARGE_LEN / cell.block_len).max(1);
                if !transact(cell.block_len, &mut block, (turn..turn + count).map(find))? {
                    return Ok(None);
                }
                turn += count;
            }
            SmallOperation::Read => {
                let (handle, offset) = find(turn)?;
                block.resize(cell.block_len as usize, 0);
                let count = handle.read(offset, &mut block)?;
                if count != block.len() || block.get(..8) != Some(&offset.to_le_bytes()) {
                    return Err(format!("a read at {offset} gave wrong bytes"));
                }
                turn += 1;
            }
        }
    }
    Ok(Some(turn))
}

/// Writes blocks in one transaction on the object of the first; false where there are no transactions.
fn transact<'a>(
    block_len: u64,
    block: &mut Vec<u8>,
    mut places: impl Iterator<Item = Outcome<(&'a dyn Handle, u64)>>,
) -> Outcome<bool> {
    let Some(first) = places.next().transpose()? else { return Ok(true) };
    let mut blocks: Vec<(u64, Vec<u8>)> = Vec::new();
    for place in std::iter::once(Ok(first)).chain(places) {
        let (_, offset) = place?;
        stamp(block, offset, block_len);
        blocks.push((offset, block.clone()));
    }
    let writes: Vec<(u64, &[u8])> = blocks.iter().map(|(offset, block)| (*offset, block.as_slice())).collect();
    first.0.transact(&writes)
}

#[cfg(test)]
mod tests {
    use super::super::plan::PLAIN_LEN;
    use super::*;

    fn cell(access: Access, shared: bool, threads: usize) -> SmallCell {
        SmallCell { access, shared, verb: SmallOperation::Write, threads, block_len: PLAIN_LEN }
    }

    #[test]
    fn threads_meet_every_block_once() {
        for (access, shared) in
            [(Access::Sequential, true), (Access::Random, true), (Access::Sequential, false), (Access::Random, false)]
        {
            let cell = cell(access, shared, 3);
            let mut met: Vec<u64> =
                (0..3).flat_map(|thread| (0..4).map(move |turn| block_of(&cell, thread, turn, 12))).collect();
            met.sort_unstable();
            assert_eq!(met, (0..12).collect::<Vec<_>>(), "{access:?} {shared}");
        }
        assert_eq!(block_of(&cell(Access::Sequential, true, 3), 1, 2, 12), 7, "threads * i + thread");
        assert_eq!(block_of(&cell(Access::Sequential, false, 3), 2, 3, 12), 11, "private ones one after the other");
    }

    #[test]
    fn every_block_names_its_place() {
        let mut block = Vec::new();
        stamp(&mut block, 1 << 20, 8192);
        assert_eq!(block.len(), 8192);
        assert_eq!(&block[4096..4104], ((1_u64 << 20) + 4096).to_le_bytes());
        stamp(&mut block, 0, 4096);
        assert_eq!((block.len(), &block[..8]), (4096, [0; 8].as_slice()));
    }
}
