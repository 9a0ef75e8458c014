//! Media that lie: writes that are acknowledged and lost or land elsewhere, reads that give what was there before.
//!
//! What must hold, in the running store and after opening it again: everything read is right, or an error says that
//! the store is damaged. The one exception is told in docs/format.md: the last group of all, which nothing follows.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;

use koine_engine::device::{BLOCK_LEN, Call, Device, Fault, FaultyDevice, MemoryDevice, Times, Trouble};
use koine_engine::{Batch, Durability, ErrorKind, Operation, SpaceId};

use crate::coverage::Coverage;
use crate::dice::Dice;
use crate::flips::{self, MARK};
use crate::run::{Run, State, Stop, Verdict, stop};
use crate::store::{self, Build};
use crate::workload::{Generator, Shape};

type Medium = FaultyDevice<MemoryDevice>;

/// A life that a crash ended: the device after it, and the states that it may hold.
struct Life {
    /// With what the crash has left, and the history of the device.
    device: Medium,
    allowed: Vec<State>,
    /// What went wrong was noticed before the end.
    noticed: bool,
    /// How many writes there were.
    writes: u64,
}

fn generator(seed: u64, actions: usize) -> Generator {
    let mut generator = Generator::new(seed);
    generator.shape.actions = actions;
    generator.shape.live_max = 200_000;
    generator
}

/// Lives until the end, or until the engine says that something is damaged. The last commits are synced, and a group
/// after them says so.
fn live(seed: u64, actions: usize, plan: Vec<Fault>) -> Verdict<Life> {
    let mut generator = generator(seed, actions);
    let memory = store::formatted(&generator.shape, seed)?;
    let device = Arc::new(FaultyDevice::new(memory, plan, seed));
    let engine = match store::open(device.clone(), Build::Right) {
        Ok(engine) => engine,
        Err(error) if error.kind() == ErrorKind::Damaged => {
            return Ok(Life { device: left(&device), allowed: Vec::new(), noticed: true, writes: 0 });
        }
        Err(error) => return Err(stop("opening failed")(error)),
    };
    let mut run = Run::new(device.clone(), engine)?;
    run.holds_views = false;
    let done = run.live(&mut generator).and_then(|()| {
        run.submit(Batch::new().put(SpaceId::FIRST, &b"last"[..], &b"x"[..]), Durability::Sync)?;
        run.settle()
    });
    let noticed = match done {
        Ok(()) => false,
        // Where the store stops, it was told why.
        Err(Stop::Damaged(_) | Stop::Failed(_)) => true,
        Err(wrong) => return Err(wrong),
    };
    // Its own group may be what is lost; and a store that has stopped takes it no more.
    let mark = Batch::new().put(SpaceId::FIRST, MARK, &b"x"[..]);
    drop(run.engine.submit(mark, Durability::Written).wait());
    let allowed = run.in_doubt()?;
    // Before the engine is dropped, which closes the store in order.
    Ok(Life { device: left(&device), allowed, noticed, writes: device.calls().writes })
}

/// A copy of a device as it is, without faults.
fn left(device: &Medium) -> Medium {
    device.fork(MemoryDevice::from_image(device.inner().image(), 1 << 30), Vec::new())
}

/// Looks at what a life has left, after a crash, without further faults.
fn look(life: &Life, coverage: &mut Coverage) -> Verdict {
    let memory = MemoryDevice::from_image(life.device.inner().image(), 1 << 30);
    reopened(Arc::new(memory), life, coverage)
}

fn reopened(device: Arc<dyn Device>, life: &Life, coverage: &mut Coverage) -> Verdict {
    let Some((engine, found, errors)) = store::open_damaged(device, coverage)? else { return Ok(()) };
    let right = |state: &&State| {
        let all = errors.is_empty();
        if all { state.content.fits(&found) } else { flips::is_part(&found, &state.content) }
    };
    if life.allowed.iter().find(right).is_none() && !life.allowed.is_empty() {
        let differences: Vec<String> =
            life.allowed.iter().filter_map(|state| state.content.difference(&found)).collect();
        let message =
            format!("{} states are allowed: {}; errors: {errors:?}", life.allowed.len(), differences.join("; "));
        return Err(Stop::Wrong(message));
    }
    coverage.count(if !errors.is_empty() {
        "found by reading"
    } else if store::is_sound(&engine)? {
        "harmless"
    } else {
        "found by check"
    });
    Ok(())
}

/// Lives once for each write of a life, which is lost, or done elsewhere.
pub fn every_write_goes_astray(seed: u64, actions: usize, coverage: &mut Coverage) -> Verdict {
    let sound = live(seed, actions, Vec::new())?;
    look(&sound, &mut Coverage::default())?;
    let (writes, blocks) = (sound.writes, sound.device.inner().image().len() / BLOCK_LEN);
    let dice = Dice::new(seed);
    // The last group is the mark's: it is expendable.
    for nth in 1..writes {
        let elsewhere = (dice.below(blocks) * BLOCK_LEN) as u64;
        for trouble in [Trouble::Lost, Trouble::Misdirected(elsewhere)] {
            let fault = Fault { call: Call::Write, nth, times: Times::Once, trouble };
            let one = AssertUnwindSafe(|| {
                let life = live(seed, actions, vec![fault])?;
                if life.noticed {
                    coverage.count("noticed while running");
                }
                look(&life, coverage)
            });
            let verdict = catch_unwind(one).unwrap_or_else(|_| Err(Stop::Wrong("panic".to_owned())));
            verdict.map_err(|stop| format!("workload {seed} of {actions} actions, {fault:?}: {stop}"))?;
        }
    }
    Ok(())
}

/// Writes noise over the second superblock and its neighbours, once for each place and length that one write may have,
/// in the first life of stores of several lengths: the acknowledged commit is there, or opening them is refused.
pub fn every_write_near_the_second_superblock(coverage: &mut Coverage) -> Verdict {
    let (first, longest) = (1usize, 256usize);
    for length in [1 << 20, 2 << 20, 8 << 20] {
        let shape = Shape { length, length_max: length as u64, fixed: true, ..Shape::from(0) };
        let device = Arc::new(store::formatted(&shape, 5)?);
        let engine = store::open(device.clone(), Build::Right).map_err(stop("opening failed"))?;
        let space = SpaceId::FIRST;
        let batch = Batch::new().then(Operation::CreateSpace { space }).put(space, &b"first"[..], &b"x"[..]);
        engine.submit(batch, Durability::Sync).wait().map_err(stop("no commit"))?;
        // No checkpoint has followed: the second superblock is the newest, and only the log has the commit.
        let content = store::read_all(&engine).map_err(stop("cannot read"))?;
        let medium = Medium::new(MemoryDevice::from_image(device.image(), 1 << 30), Vec::new(), 5);
        let allowed = vec![State { content, version: 0, repeatable: None }];
        let life = Life { device: medium, allowed, noticed: false, writes: 0 };
        // In the smallest store the ring is its end.
        let most = length / BLOCK_LEN - 16;
        let noise = vec![0xA5; longest * BLOCK_LEN];
        for start in first..=128 {
            let ends = [129, 130, 132, 150, 200, 240, 384].into_iter();
            for end in ends.filter(|end| *end <= most && end - start <= longest) {
                let mut image = device.image();
                image.write(start * BLOCK_LEN, &noise[..(end - start) * BLOCK_LEN]);
                let verdict = reopened(Arc::new(MemoryDevice::from_image(image, 1 << 30)), &life, coverage);
                verdict.map_err(|stop| format!("{length} bytes, blocks {start}..{end} written over: {stop}"))?;
            }
        }
    }
    Ok(())
}

/// Opens and reads a store once for each block that was written twice, where it holds what it did before.
pub fn every_block_is_stale(seed: u64, coverage: &mut Coverage) -> Verdict {
    // While such a fault is planned the device keeps what it may bring back.
    let stale = Fault { call: Call::Read, nth: u64::MAX, times: Times::Once, trouble: Trouble::Stale };
    let life = live(seed, 60, vec![stale])?;
    for (offset, before) in life.device.before() {
        let one = AssertUnwindSafe(|| {
            let mut image = life.device.inner().image();
            image.write(offset as usize, &before);
            reopened(Arc::new(MemoryDevice::from_image(image, 1 << 30)), &life, coverage)
        });
        let verdict = catch_unwind(one).unwrap_or_else(|_| Err(Stop::Wrong("panic".to_owned())));
        verdict.map_err(|stop| format!("workload {seed}, the block at {offset} is stale: {stop}"))?;
    }
    Ok(())
}

/// Cuts a device short at each block.
pub fn every_shorter_device_is_refused(seed: u64) -> Verdict {
    let life = live(seed, 30, Vec::new())?;
    let whole = life.device.inner().to_vec();
    for blocks in 0..whole.len() / BLOCK_LEN {
        let memory = MemoryDevice::from_bytes(whole[..blocks * BLOCK_LEN].to_vec(), 1 << 30);
        match store::open(Arc::new(memory), Build::Right) {
            Err(error) if matches!(error.kind(), ErrorKind::Damaged | ErrorKind::Unknown) => {}
            Err(error) => return Err(Stop::Wrong(format!("cut to {blocks} blocks it says {error:?}"))),
            Ok(_) => return Err(Stop::Wrong(format!("cut to {blocks} blocks it opens"))),
        }
    }
    Ok(())
}

/// Puts superblocks of before in the places of the newest: one, the other, both.
pub fn old_superblocks_are_noticed(seed: u64, coverage: &mut Coverage) -> Verdict {
    let slots = [0, 128 * BLOCK_LEN];
    // Lives of one store one after the other, each closed in order; and what its superblocks were at the ends.
    let mut generator = generator(seed, 12);
    let device = Arc::new(FaultyDevice::new(store::formatted(&generator.shape, seed)?, Vec::new(), seed));
    let mut before: Vec<[Vec<u8>; 2]> = Vec::new();
    for life in 0..4 {
        device.inner().reopen();
        let bytes = device.inner().to_vec();
        before.push(slots.map(|at| bytes[at..at + BLOCK_LEN].to_vec()));
        let engine = store::open(device.clone(), Build::Right).map_err(stop("opening failed"))?;
        let mut run = Run::new(device.clone(), engine)?;
        if life == 0 {
            run.live(&mut generator)?;
        }
        run.submit(Batch::new().put(SpaceId::FIRST, &b"life"[..], vec![life; 100]), Durability::Sync)?;
        run.settle()?;
        for (number, old) in before.iter().enumerate() {
            for which in [&[0][..], &[1], &[0, 1]] {
                let mut image = device.inner().image();
                which.iter().for_each(|slot: &usize| image.write(slots[*slot], &old[*slot]));
                let allowed = vec![run.states[run.states.len() - 1].clone()];
                let life = Life { device: left(&device), allowed, noticed: false, writes: 0 };
                let verdict = reopened(Arc::new(MemoryDevice::from_image(image, 1 << 30)), &life, coverage);
                verdict.map_err(|stop| format!("workload {seed}, superblocks {which:?} of life {number}: {stop}"))?;
            }
        }
        run.engine.close().map_err(stop("closing failed"))?;
    }
    Ok(())
}
