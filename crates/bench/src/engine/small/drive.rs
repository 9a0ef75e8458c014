//! The loops of the small-access benchmark. Every block that is read is looked at.

use super::super::data::{mix, shuffled};
use super::super::place::{Handle, Outcome, Place};
use super::plan::{Access, Cell, LARGE_LEN, Verb};
use std::sync::Barrier;
use std::time::{Duration, Instant};

/// Objects that a cell works on: one for each thread, or one for all.
pub struct Region<'a> {
    /// The numbers of all objects, each of `length` bytes.
    pub numbers: &'a [u64],
    /// Length of an object in bytes.
    pub length: u64,
}

/// What was done, and in which time.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Done {
    /// Blocks.
    pub blocks: u64,
    /// From the first begin to the last end.
    pub elapsed: Duration,
}

/// The block that a thread meets as its `turn`th, of `blocks` in the object. In a shared object the threads meet
/// different ones: blocksize * (threads * i + thread).
fn block_of(cell: &Cell, thread: u64, turn: u64, blocks: u64) -> u64 {
    let threads = if cell.shared { cell.threads as u64 } else { 1 };
    let own = (blocks / threads).max(1);
    let place = match cell.access {
        Access::Sequential => turn % own,
        Access::Random => shuffled(turn % own, own, 5),
    };
    let thread = if cell.shared { thread } else { 0 };
    (threads * place + thread) % blocks.max(1)
}

/// Fills all objects, so that every write overwrites and every read finds something.
pub fn fill(place: &dyn Place, region: &Region<'_>) -> Outcome<()> {
    for number in region.numbers {
        let handle = place.open(*number)?;
        let mut block = Vec::new();
        for offset in (0..region.length).step_by(LARGE_LEN as usize) {
            stamp(&mut block, offset, LARGE_LEN.min(region.length - offset));
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

/// Works for so many seconds; a read ends earlier when everything was read once.
pub fn drive(place: &dyn Place, region: &Region<'_>, cell: &Cell, seconds: f64) -> Outcome<Option<Done>> {
    let object = |thread: usize| if cell.shared { region.numbers.first() } else { region.numbers.get(thread) };
    let handles = (0..cell.threads)
        .map(|thread| place.open(*object(thread).ok_or("there are too few objects")?))
        .collect::<Outcome<Vec<_>>>()?;
    let barrier = Barrier::new(handles.len());
    let work = |thread: usize, handle: &dyn Handle| {
        barrier.wait();
        let begun = Instant::now();
        let done = stretch(handle, region, cell, thread as u64, seconds, begun);
        done.map(|done| (done, begun, Instant::now()))
    };
    let work = &work;
    let done = std::thread::scope(|scope| {
        let threads: Vec<_> = (0_usize..)
            .zip(&handles)
            .map(|(thread, handle)| scope.spawn(move || work(thread, handle.as_ref())))
            .collect();
        let join = |thread: std::thread::ScopedJoinHandle<'_, _>| {
            thread.join().unwrap_or_else(|_| Err("a thread panicked".to_owned()))
        };
        threads.into_iter().map(join).collect::<Outcome<Vec<_>>>()
    })?;
    let first = done.iter().map(|(_, begun, _)| *begun).min();
    let last = done.iter().map(|(_, _, ended)| *ended).max();
    let blocks: Option<u64> = done.iter().map(|(blocks, ..)| *blocks).sum();
    let elapsed = first.zip(last).map_or(Duration::ZERO, |(first, last)| last - first);
    Ok(blocks.map(|blocks| Done { blocks, elapsed }))
}

/// Blocks that one thread did; `None` where there are no transactions.
fn stretch(
    handle: &dyn Handle,
    region: &Region<'_>,
    cell: &Cell,
    thread: u64,
    seconds: f64,
    begun: Instant,
) -> Outcome<Option<u64>> {
    let blocks = (region.length / cell.block_len).max(1);
    let offset = |turn: u64| block_of(cell, thread, turn, blocks) * cell.block_len;
    let own = if cell.shared { blocks / cell.threads as u64 } else { blocks };
    let mut block = Vec::new();
    let mut turn = 0;
    while begun.elapsed().as_secs_f64() < seconds {
        match cell.verb {
            Verb::Write | Verb::WriteSynced => {
                stamp(&mut block, offset(turn), cell.block_len);
                handle.write(offset(turn), &block, cell.verb == Verb::WriteSynced)?;
                turn += 1;
            }
            Verb::Transact => {
                let count = (LARGE_LEN / cell.block_len).max(1);
                let blocks: Vec<(u64, Vec<u8>)> = (turn..turn + count)
                    .map(|turn| {
                        stamp(&mut block, offset(turn), cell.block_len);
                        (offset(turn), block.clone())
                    })
                    .collect();
                let writes: Vec<(u64, &[u8])> =
                    blocks.iter().map(|(offset, block)| (*offset, block.as_slice())).collect();
                if !handle.transact(&writes)? {
                    return Ok(None);
                }
                turn += count;
            }
            Verb::Read if turn >= own => break,
            Verb::Read => {
                block.resize(cell.block_len as usize, 0);
                let count = handle.read(offset(turn), &mut block)?;
                if count != block.len() || block.get(..8) != Some(&offset(turn).to_le_bytes()) {
                    return Err(format!("a read at {} gave wrong bytes", offset(turn)));
                }
                turn += 1;
            }
        }
    }
    Ok(Some(turn))
}

#[cfg(test)]
mod tests {
    use super::super::plan::PLAIN_LEN;
    use super::*;

    fn cell(access: Access, shared: bool, threads: usize) -> Cell {
        Cell { access, shared, verb: Verb::Write, threads, block_len: PLAIN_LEN }
    }

    #[test]
    fn threads_of_a_shared_object_meet_every_block_once() {
        for access in [Access::Sequential, Access::Random] {
            let cell = cell(access, true, 3);
            let mut met: Vec<u64> =
                (0..3).flat_map(|thread| (0..4).map(move |turn| block_of(&cell, thread, turn, 12))).collect();
            met.sort_unstable();
            assert_eq!(met, (0..12).collect::<Vec<_>>(), "{access:?}");
        }
        assert_eq!(block_of(&cell(Access::Sequential, true, 3), 1, 2, 12), 7, "threads * i + thread");
        assert_eq!(block_of(&cell(Access::Sequential, false, 3), 2, 5, 12), 5, "a private object is one's own");
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
