//! A device that fails by plan, for proving what the engine does about it.
//!
//! Invariants:
//! - Without a fault that is due it behaves as the device beneath.
//! - Calls of each kind are counted from 1, also those that fail; a plan and a seed give the same
//!   troubles for the same calls.
//! - After a failed sync every write since the last good one is in doubt: a seeded part of them is undone.

use std::io;

use koine_env::{Random, SeededRandom};
use parking_lot::Mutex;

use super::{BLOCK_LEN, Device, ReadMode};

/// Which calls a fault concerns.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Call {
    /// `read_at`.
    Read,
    /// `write_at`.
    Write,
    /// `sync`.
    Sync,
    /// `grow`.
    Grow,
}

/// How often a fault happens.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Times {
    /// At that call.
    Once,
    /// At that call and all after it.
    Forever,
}

/// What goes wrong.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Trouble {
    /// The call does nothing and fails.
    Error,
    /// A write happens in part, in units of 512 bytes, and fails.
    Torn,
    /// The call fails for want of space where it reaches past this length in bytes (0: always).
    FullBeyond(u64),
    /// A read that covers this offset gets that byte changed by this mask.
    WrongByte {
        /** Bytes from the start of the device. */
        offset: u64,
        /** Exclusive-ored to the byte. */
        mask: u8,
    },
    /// A write is acknowledged and not done.
    Lost,
    /// A write is acknowledged and done at this offset (where it fits; else it is lost).
    Misdirected(u64),
    /// A read gets what its blocks held before they were last written.
    Stale,
}

/// One entry of a plan.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Fault {
    /// Which calls are counted.
    pub call: Call,
    /// The first call concerned, from 1.
    pub nth: u64,
    /// Whether later ones are too.
    pub times: Times,
    /// What goes wrong.
    pub trouble: Trouble,
}

/// How many calls there were.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Calls {
    /// Of `read_at`.
    pub reads: u64,
    /// Of `write_at`.
    pub writes: u64,
    /// Of `sync`.
    pub syncs: u64,
    /// Of `grow`.
    pub grows: u64,
}

/// A device with a plan of faults over another.
pub struct FaultyDevice<D> {
    inner: D,
    state: Mutex<State>,
}

struct State {
    plan: Vec<Fault>,
    calls: Calls,
    random: SeededRandom,
    /// What each write since the last good sync replaced, oldest first; kept while a sync may fail.
    undo: Vec<(u64, Vec<u8>)>,
    /// What each block held before its last write; kept while a read may be stale.
    before: std::collections::BTreeMap<u64, Vec<u8>>,
}

impl<D: Device> FaultyDevice<D> {
    /// `inner` with the faults of `plan`; `seed` decides what a plan leaves open.
    pub fn new(inner: D, plan: Vec<Fault>, seed: u64) -> Self {
        let state = State {
            plan,
            calls: Calls::default(),
            random: SeededRandom::new(seed),
            undo: Vec::new(),
            before: std::collections::BTreeMap::new(),
        };
        FaultyDevice { inner, state: Mutex::new(state) }
    }

    /// The device beneath.
    pub fn inner(&self) -> &D {
        &self.inner
    }

    /// The calls so far.
    pub fn calls(&self) -> Calls {
        self.state.lock().calls
    }

    /// Replaces the plan (an empty one heals the device); counting goes on.
    pub fn set_plan(&self, plan: Vec<Fault>) {
        self.state.lock().plan = plan;
    }

    /// Another device with the history of this one, so that reads of it may be stale as well; calls count anew.
    pub fn fork(&self, inner: D, plan: Vec<Fault>) -> Self {
        let fork = FaultyDevice::new(inner, plan, 0);
        fork.state.lock().before = self.state.lock().before.clone();
        fork
    }

    /// What each block held before it was last written, by offset, as far as a planned fault may bring it back.
    pub fn before(&self) -> Vec<(u64, Vec<u8>)> {
        self.state.lock().before.iter().map(|(offset, block)| (*offset, block.clone())).collect()
    }

    /// Keeps what a later fault of the plan may bring back.
    fn remember(&self, state: &mut State, offset: u64, length: usize) -> io::Result<()> {
        let wants_undo = state.plan.iter().any(|fault| fault.call == Call::Sync);
        let wants_before = state.plan.iter().any(|fault| fault.trouble == Trouble::Stale);
        if !wants_undo && !wants_before {
            return Ok(());
        }
        let mut old = vec![0; length];
        self.inner.read_at(&mut old, offset, ReadMode::Cached)?;
        if wants_before {
            for (block, index) in old.chunks(BLOCK_LEN).zip(0u64..) {
                state.before.insert(offset + index * BLOCK_LEN as u64, block.to_vec());
            }
        }
        if wants_undo {
            state.undo.push((offset, old));
        }
        Ok(())
    }

    /// Writes about half of the units of 512 bytes.
    fn write_torn(&self, state: &State, data: &[u8], offset: u64) -> io::Result<()> {
        let mut content = vec![0; data.len()];
        self.inner.read_at(&mut content, offset, ReadMode::Cached)?;
        for (unit, new) in content.chunks_mut(512).zip(data.chunks(512)) {
            if state.random.next_u64().is_multiple_of(2) {
                unit.copy_from_slice(new);
            }
        }
        self.inner.write_at(&content, offset)
    }
}

impl State {
    /// Counts a call and says which troubles are due.
    fn count(&mut self, call: Call) -> Vec<Trouble> {
        let counter = match call {
            Call::Read => &mut self.calls.reads,
            Call::Write => &mut self.calls.writes,
            Call::Sync => &mut self.calls.syncs,
            Call::Grow => &mut self.calls.grows,
        };
        *counter += 1;
        let now = *counter;
        let due = |fault: &&Fault| {
            let in_time = if fault.times == Times::Once { now == fault.nth } else { now >= fault.nth };
            fault.call == call && in_time
        };
        self.plan.iter().filter(due).map(|fault| fault.trouble).collect()
    }
}

/// The troubles that make any call fail before it does anything.
fn refuse(troubles: &[Trouble], end: u64) -> io::Result<()> {
    for trouble in troubles {
        match trouble {
            Trouble::Error => return Err(planned("the medium failed, as planned")),
            Trouble::FullBeyond(length) if end > *length => {
                return Err(io::Error::new(io::ErrorKind::StorageFull, "no space is left, as planned"));
            }
            _ => {}
        }
    }
    Ok(())
}

fn planned(message: &str) -> io::Error {
    io::Error::other(message)
}

impl<D: Device> Device for FaultyDevice<D> {
    fn len(&self) -> io::Result<u64> {
        self.inner.len()
    }

    fn grow(&self, length: u64) -> io::Result<()> {
        let troubles = self.state.lock().count(Call::Grow);
        refuse(&troubles, length)?;
        self.inner.grow(length)
    }

    fn holds(&self, offset: u64, length: usize) -> bool {
        self.inner.holds(offset, length)
    }

    fn read_at(&self, buffer: &mut [u8], offset: u64, mode: ReadMode) -> io::Result<()> {
        let mut state = self.state.lock();
        let troubles = state.count(Call::Read);
        let end = offset + buffer.len() as u64;
        refuse(&troubles, end)?;
        self.inner.read_at(buffer, offset, mode)?;
        for trouble in troubles {
            match trouble {
                Trouble::WrongByte { offset: place, mask } if (offset..end).contains(&place) => {
                    if let Some(byte) = buffer.get_mut((place - offset) as usize) {
                        *byte ^= mask;
                    }
                }
                Trouble::Stale => {
                    let first = offset - offset % BLOCK_LEN as u64;
                    for (start, old) in state.before.range(first..end) {
                        overlay(buffer, offset, old, *start);
                    }
                }
                _ => {}
            }
        }
        Ok(())
    }

    fn prefetch(&self, offset: u64, length: u64) {
        self.inner.prefetch(offset, length);
    }

    fn write_at(&self, data: &[u8], offset: u64) -> io::Result<()> {
        let mut state = self.state.lock();
        let troubles = state.count(Call::Write);
        refuse(&troubles, offset + data.len() as u64)?;
        for trouble in &troubles {
            match trouble {
                Trouble::Lost => return Ok(()),
                Trouble::Misdirected(other) => {
                    // Where it does not fit it is only lost.
                    let _ = self.inner.write_at(data, *other);
                    return Ok(());
                }
                Trouble::Torn => {
                    self.remember(&mut state, offset, data.len())?;
                    self.write_torn(&state, data, offset)?;
                    return Err(planned("the medium failed in the middle of a write, as planned"));
                }
                _ => {}
            }
        }
        self.remember(&mut state, offset, data.len())?;
        self.inner.write_at(data, offset)
    }

    fn sync(&self) -> io::Result<()> {
        let mut state = self.state.lock();
        let troubles = state.count(Call::Sync);
        let outcome = refuse(&troubles, u64::MAX);
        let undo = std::mem::take(&mut state.undo);
        if outcome.is_err() {
            for (offset, old) in undo.into_iter().rev() {
                if state.random.next_u64().is_multiple_of(2) {
                    self.inner.write_at(&old, offset)?;
                }
            }
            return outcome;
        }
        self.inner.sync()
    }

    fn discard(&self, offset: u64, length: u64) -> io::Result<()> {
        self.inner.discard(offset, length)
    }

    fn close(&self) -> io::Result<()> {
        self.inner.close()
    }

    fn is_fixed(&self) -> bool {
        self.inner.is_fixed()
    }

    fn refresh(&self) -> io::Result<u64> {
        self.inner.refresh()
    }
}

/// Copies what `old`, which lies at `start`, and `buffer`, which lies at `offset`, have in common.
fn overlay(buffer: &mut [u8], offset: u64, old: &[u8], start: u64) {
    let low = offset.max(start);
    let high = (offset + buffer.len() as u64).min(start + old.len() as u64);
    if low < high {
        let length = (high - low) as usize;
        let (to, from) = ((low - offset) as usize, (low - start) as usize);
        buffer[to..to + length].copy_from_slice(&old[from..from + length]);
    }
}

#[cfg(test)]
mod tests;
