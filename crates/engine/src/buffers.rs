//! Large aligned buffers that streams lend from each other, so that memory is neither zeroed nor given back all the time.
//!
//! Invariants:
//! - Never more than the budget is lent; who gets none works with what it has.
//! - Two of them lie in one huge page. Of an idle one whose other half is lent the memory stays.
//! - A buffer's bytes are whatever was in it before: who lends one reads only what it wrote.

use std::ops::{Deref, DerefMut};
use std::sync::Arc;

use crate::device::{AlignedBuffer, HUGE_LEN};
use crate::lock::Mutex;

/// The length of a buffer in bytes.
pub const BUFFER_LEN: usize = HUGE_LEN / 2;
/// So many are kept while nobody has them.
const IDLE_MAX: usize = 4;

#[derive(Default)]
struct State {
    idle: Vec<AlignedBuffer>,
    lent: usize,
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
        let buffer = state.idle.pop().unwrap_or_else(|| {
            let [buffer, other] = AlignedBuffer::pair();
            state.idle.push(other);
            buffer
        });
        Some(Lent { buffer: Some(buffer), home: Some(Arc::clone(self)) })
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
}

impl Lent {
    /// One of any length, outside of the budget.
    pub fn own(length: usize) -> Lent {
        Lent { buffer: Some(AlignedBuffer::zeroed(length)), home: None }
    }
}

impl Drop for Lent {
    fn drop(&mut self) {
        let Some((home, buffer)) = self.home.take().zip(self.buffer.take()) else { return };
        let mut state = home.state.lock();
        state.lent -= 1;
        if state.idle.len() < IDLE_MAX {
            state.idle.push(buffer);
        }
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
        assert_eq!((buffers.free(), buffers.state.lock().idle.len()), (6, IDLE_MAX));
        assert_eq!(Lent::own(4096).len(), 4096);
        assert_eq!(buffers.free(), 6);
        assert_eq!(Buffers::new(0).free(), 2);
    }
}
