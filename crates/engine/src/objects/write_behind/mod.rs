//! Writes for which memory is enough: kept by each object until the store submits them together.
//!
//! As a file system gathers writes in its page cache, so that small ones become long ones. What was gathered is read by
//! whoever reads the object, before it has its place in the order of commits.
//!
//! Invariants:
//! - Who writes, or takes what was written to submit it, keeps the order: a set is taken with every writer shut out, so it
//!   is what was written up to a moment, of all objects.
//! - Bytes are in `open` until they are taken, then in `flying` until the commit that names them is visible (or has
//!   failed); the object's epoch is raised when they leave that. So who finds the same epoch before and after
//!   reading what is visible has lost none of them in between.

mod budget;
mod ranges;

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

pub use budget::{Budget, Verdict};
pub use ranges::{Kept, Ranges};

use super::hint::Hint;
use crate::lock::Mutex;
use crate::stage::{Access, Lifetime};

/// What was taken of an object to be submitted.
pub struct Taken {
    /// Its bytes.
    pub ranges: Arc<Ranges>,
    /// How they will be read.
    pub access: Access,
    /// How long they will be kept.
    pub lifetime: Lifetime,
}

#[derive(Default)]
struct State {
    open: Ranges,
    flying: Option<Arc<Ranges>>,
    /// Whether the store knows that there is something.
    listed: bool,
    /// What who wrote last has said of the object.
    hint: Hint,
}

/// What was written to one object and is not visible yet.
#[derive(Default)]
pub struct WriteBehind {
    /// Whether there is anything.
    holds: AtomicBool,
    state: Mutex<State>,
}

impl WriteBehind {
    /// Whether there is anything.
    pub fn holds(&self) -> bool {
        self.holds.load(Ordering::Acquire)
    }

    /// Keeps a write; whether it is the first of its set.
    pub fn write(&self, offset: u64, data: &[u8], hint: Hint, budget: &Budget) -> bool {
        let mut state = self.state.lock();
        let (memory_len, runs) = (state.open.memory_len(), state.open.run_count());
        state.open.write(offset, data, |length| budget.slab(length));
        budget.note(state.open.memory_len() - memory_len, runs, state.open.run_count());
        state.hint = hint;
        self.holds.store(true, Ordering::Release);
        !std::mem::replace(&mut state.listed, true)
    }

    /// Forgets what was not taken yet: the object goes.
    pub fn clear(&self, budget: &Budget) {
        let mut state = self.state.lock();
        let open = std::mem::take(&mut state.open);
        self.holds.store(state.flying.is_some(), Ordering::Release);
        drop(state);
        budget.forget(open);
    }

    /// Takes what was written, to submit it.
    pub fn take(&self) -> Option<Taken> {
        let mut state = self.state.lock();
        state.listed = false;
        if state.open.is_empty() {
            return None;
        }
        let ranges = Arc::new(std::mem::take(&mut state.open));
        state.flying = Some(Arc::clone(&ranges));
        let Hint { access, lifetime, .. } = state.hint;
        Some(Taken { ranges, access: access.unwrap_or(Access::Random), lifetime })
    }

    /// What was taken is visible, or lost.
    pub fn land(&self, epoch: &AtomicU64) {
        let mut state = self.state.lock();
        epoch.fetch_add(1, Ordering::Release);
        let landed = state.flying.take();
        self.holds.store(!state.open.is_empty(), Ordering::Release);
        drop(state);
        drop(landed);
    }

    /// Answers a read of which every byte is here.
    pub fn read_whole(&self, offset: u64, buffer: &mut [u8]) -> bool {
        let state = self.state.lock();
        let newest = state.open.copy_into(offset, buffer);
        if newest == buffer.len() {
            return true;
        }
        let Some(flying) = &state.flying else { return false };
        flying.copy_into(offset, buffer) == buffer.len() && {
            state.open.copy_into(offset, buffer);
            true
        }
    }

    /// Puts what is here over the first `below` bytes that are visible. The count with what reaches beyond them; `None`
    /// when the object's epoch is another by now.
    pub fn read_over(
        &self,
        offset: u64,
        buffer: &mut [u8],
        below: usize,
        epoch: &AtomicU64,
        since: u64,
    ) -> Option<usize> {
        let state = self.state.lock();
        if epoch.load(Ordering::Acquire) != since {
            return None;
        }
        let end = state.end().saturating_sub(offset).min(buffer.len() as u64) as usize;
        let count = below.max(end);
        let read = buffer.get_mut(..count)?;
        read.get_mut(below..)?.fill(0);
        if let Some(flying) = &state.flying {
            flying.copy_into(offset, read);
        }
        state.open.copy_into(offset, read);
        Some(count)
    }

    /// The object's size with what is here; `None` as for `read_over`.
    pub fn size_over(&self, below: u64, epoch: &AtomicU64, since: u64) -> Option<u64> {
        let state = self.state.lock();
        (epoch.load(Ordering::Acquire) == since).then(|| below.max(state.end()))
    }
}

impl State {
    fn end(&self) -> u64 {
        self.open.end().max(self.flying.as_ref().map_or(0, |flying| flying.end()))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn newer_bytes_lie_over_older_ones() {
        let (budget, epoch) = (Budget::new(1 << 20, 1 << 20), AtomicU64::new(5));
        let object = WriteBehind::default();
        assert!(!object.holds() && object.take().is_none());
        assert!(object.write(10, &[1; 10], Hint::default(), &budget));
        assert!(!object.write(30, &[1; 10], Hint::default(), &budget));
        let taken = object.take().unwrap();
        assert_eq!((taken.ranges.runs(), taken.access), (vec![(10, 10), (30, 10)], Access::Random));
        assert!(object.write(15, &[2; 10], Hint::sequential(), &budget) && object.holds());
        let mut buffer = [9; 30];
        assert!(!object.read_whole(10, &mut buffer));
        assert!(object.read_whole(10, &mut buffer[..10]));
        assert_eq!(buffer[..10], [[1; 5], [2; 5]].concat());
        // Visible so far: twelve bytes from offset 5 on.
        let mut buffer = [9; 30];
        assert_eq!(object.read_over(5, &mut buffer, 12, &epoch, 4), None);
        assert_eq!(object.read_over(5, &mut buffer, 12, &epoch, 5), Some(30));
        let expected = [&[9; 5][..], &[1; 5], &[2; 10], &[0; 5], &[1; 5]].concat();
        assert_eq!(buffer[..], expected);
        assert_eq!((object.size_over(3, &epoch, 5), object.size_over(70, &epoch, 5)), (Some(40), Some(70)));
        object.land(&epoch);
        assert_eq!((epoch.load(Ordering::Relaxed), object.holds()), (6, true));
        assert_eq!(object.size_over(3, &epoch, 6), Some(25));
        object.clear(&budget);
        assert!(!object.holds() && object.take().is_none());
        assert!(object.write(0, &[3], Hint::default(), &budget), "listed anew");
        assert_eq!(object.take().unwrap().access, Access::Random);
    }
}
