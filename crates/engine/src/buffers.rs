//! Large aligned buffers that streams lend from each other, so that memory is neither zeroed nor given back all the time.
//!
//! Invariants:
//! - Never more than the budget is lent, and reading ahead leaves some of it to writers; who gets none works with what it has. What `take` gives is beside the budget: the cache of
//!   data counts its own, and nothing here bounds what readers keep.
//! - Two of them lie in one huge page, whose memory is given back with the second: an idle one whose other half is in use is
//!   kept for the next, and a page whose halves are both idle is given back where enough are.
//! - A buffer's bytes are whatever was in it before: who lends one reads only what it wrote.

use std::ops::{Deref, DerefMut};
use std::sync::Arc;

use crate::device::{AlignedBuffer, HUGE_LEN};
use crate::lock::Mutex;

/// The length of a buffer in bytes.
pub const BUFFER_LEN: usize = HUGE_LEN / 2;
/// So many are kept while nobody has them, and those whose other half somebody has.
const IDLE_MAX: usize = 4;

/// One of so many is left to who writes: a large write without a buffer waits for each of its pieces.
const WRITERS_SHARE: usize = 8;

#[derive(Default)]
struct State {
    idle: Vec<AlignedBuffer>,
    lent: usize,
}

impl State {
    fn next(&mut self) -> AlignedBuffer {
        self.idle.pop().unwrap_or_else(|| {
            let [buffer, other] = AlignedBuffer::pair();
            self.idle.push(other);
            buffer
        })
    }

    /// Takes one back. What is dropped is given: it takes time.
    fn give_back(&mut self, buffer: AlignedBuffer) -> Option<[AlignedBuffer; 2]> {
        let page = |buffer: &AlignedBuffer| buffer.as_ptr() as usize / HUGE_LEN;
        let enough = self.idle.len() >= IDLE_MAX;
        match self.idle.iter().position(|other| page(other) == page(&buffer)).filter(|_| enough) {
            Some(other) => Some([buffer, self.idle.swap_remove(other)]),
            None => {
                self.idle.push(buffer);
                None
            }
        }
    }
}

/// The buffers of one store.
pub struct Buffers {
    state: Mutex<State>,
    most: usize,
}

impl Buffers {
    /// At most `budget_len` bytes, and at least two buffers.
    pub fn new(budget_len: u64) -> Arc<Buffers> {
        let most = usize::try_from(budget_len / BUFFER_LEN as u64).unwrap_or(usize::MAX).max(2);
        Arc::new(Buffers { state: Mutex::default(), most })
    }

    /// A buffer of [`BUFFER_LEN`] bytes, unless all are lent.
    pub fn lend(self: &Arc<Self>) -> Option<Lent> {
        let mut state = self.state.lock();
        if state.lent == self.most {
            return None;
        }
        state.lent += 1;
        Some(Lent { buffer: Some(state.next()), home: Some(Arc::clone(self)), counted: true })
    }

    /// As `lend`, but some are left to who writes.
    pub fn lend_spare(self: &Arc<Self>) -> Option<Lent> {
        if self.spare() == 0 { None } else { self.lend() }
    }

    /// A buffer outside of the budget: for who counts what it has, or hands it out.
    pub fn take(self: &Arc<Self>) -> Lent {
        Lent { buffer: Some(self.state.lock().next()), home: Some(Arc::clone(self)), counted: false }
    }

    /// How many `lend_spare` may have lent at once.
    pub fn spare_max(&self) -> usize {
        self.most - self.most / WRITERS_SHARE
    }

    /// How many `lend_spare` could lend now.
    pub fn spare(&self) -> usize {
        self.free().saturating_sub(self.most / WRITERS_SHARE)
    }

    /// How many could be lent now.
    pub fn free(&self) -> usize {
        self.most - self.state.lock().lent
    }
}

/// A buffer for the time being.
pub struct Lent {
    /// `None` only once it was dropped.
    buffer: Option<AlignedBuffer>,
    /// `None` for one that is nobody else's.
    home: Option<Arc<Buffers>>,
    /// Whether it counts as lent.
    counted: bool,
}

impl Lent {
    /// One of any length, outside of the budget.
    pub fn own(length: usize) -> Lent {
        Lent { buffer: Some(AlignedBuffer::zeroed(length)), home: None, counted: false }
    }

    /// The same outside of the budget: somebody else counts it.
    pub fn kept(mut self) -> Lent {
        if let Some(home) = self.home.as_ref().filter(|_| std::mem::take(&mut self.counted)) {
            home.state.lock().lent -= 1;
        }
        self
    }
}

impl Drop for Lent {
    fn drop(&mut self) {
        let Some((home, buffer)) = self.home.take().zip(self.buffer.take()) else { return };
        let mut state = home.state.lock();
        state.lent -= usize::from(self.counted);
        let dropped = state.give_back(buffer);
        drop(state);
        drop(dropped);
    }
}

/// For `bytes::Bytes::from_owner`.
impl AsRef<[u8]> for Lent {
    fn as_ref(&self) -> &[u8] {
        self
    }
}

impl Deref for Lent {
    type Target = [u8];

    fn deref(&self) -> &[u8] {
        self.buffer.as_deref().unwrap_or_default()
    }
}

impl DerefMut for Lent {
    fn deref_mut(&mut self) -> &mut [u8] {
        self.buffer.as_deref_mut().unwrap_or_default()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_budget_holds_and_buffers_come_back() {
        let buffers = Buffers::new(6 << 20);
        let lent: Vec<Lent> = std::iter::from_fn(|| buffers.lend()).collect();
        assert_eq!((lent.len(), buffers.free()), (6, 0));
        assert!(lent.iter().all(|buffer| buffer.len() == BUFFER_LEN && crate::device::is_aligned(buffer)));
        drop(lent);
        let idle = || buffers.state.lock().idle.len();
        assert!(buffers.free() == 6 && (1..=IDLE_MAX).contains(&idle()), "{}", idle());
        // What somebody else counts is not of the budget.
        let kept: Vec<Lent> = (0..20).filter_map(|_| buffers.lend().map(Lent::kept)).collect();
        assert_eq!((buffers.free(), kept.len()), (6, 20));
        // Of each page one half goes: the others are in use, so the memory stays, for the next.
        let is_first = |buffer: &Lent| (buffer.as_ptr() as usize).is_multiple_of(HUGE_LEN);
        let (first, second): (Vec<_>, Vec<_>) = kept.into_iter().partition(is_first);
        let before = idle() + first.len();
        drop(first);
        assert!(before > 2 * IDLE_MAX && idle() + 2 >= before, "{} of {before}", idle());
        let taken = buffers.take();
        assert!(idle() + 3 >= before && buffers.free() == 6);
        drop((taken, second));
        assert!(idle() <= IDLE_MAX, "{}", idle());
        assert_eq!(Lent::own(4096).len(), 4096);
        assert_eq!(buffers.free(), 6);
        assert_eq!(Buffers::new(0).free(), 2);
    }

    #[test]
    fn who_reads_ahead_leaves_some_to_who_writes() {
        let buffers = Buffers::new(16 << 20);
        let read: Vec<Lent> = std::iter::from_fn(|| buffers.lend_spare()).collect();
        assert_eq!((read.len(), buffers.spare_max(), buffers.spare(), buffers.free()), (14, 14, 0, 2));
        let written: Vec<Lent> = std::iter::from_fn(|| buffers.lend()).collect();
        assert_eq!(written.len(), 2);
        drop(read);
        assert_eq!(buffers.spare(), 12);
        // Few are not shared.
        assert_eq!(Buffers::new(0).spare_max(), 2);
    }
}
