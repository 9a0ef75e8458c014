//! Batches of one thread that are to be written together, by that thread.
//!
//! Invariants:
//! - Batches are checked, applied and ordered when they are submitted, as ever: only who writes them, and when, is another.
//! - Nobody waits for a writer that was not told: what was held back is written, or left to the writer, at the end, and before
//!   its thread waits for a ticket.

use std::cell::RefCell;
use std::marker::PhantomData;
use std::sync::Arc;

/// A store that batches are submitted to.
pub(crate) trait GroupWriter: Send + Sync {
    /// Wakes the thread that writes groups.
    fn wake_writer(&self);

    /// Writes what is queued, on this thread, unless somebody else does.
    fn lead(&self);
}

thread_local! {
    /// The stores that this thread has submitted batches to since it said so; `None` where it writes nothing together.
    static HELD: RefCell<Option<Vec<Held>>> = const { RefCell::new(None) };
}

/// A store, and what its batches wait for.
struct Held {
    store: Arc<dyn GroupWriter>,
    /// This thread is to write.
    leads: bool,
    /// The writer is to be woken: what comes next takes long.
    wakes: bool,
}

/// While a `Together` exists, batches that its thread submits to any store wake no writer. [`Together::end`] writes them, in
/// one group if nobody else was writing; batches that must be flushed are left to the writer. A thread that submits many
/// batches and then waits for all of them saves the store many small groups.
#[must_use = "batches are written when it ends"]
#[derive(Debug)]
pub struct Together {
    /// Whether it is the outermost one.
    holds: bool,
    _of_this_thread: PhantomData<*const ()>,
}

impl Together {
    /// From now on.
    pub fn begin() -> Together {
        let holds = HELD.with_borrow_mut(|held| {
            let is_first = held.is_none();
            held.get_or_insert_default();
            is_first
        });
        Together { holds, _of_this_thread: PhantomData }
    }

    /// Has everything written that was held back.
    pub fn end(self) {
        drop(self);
    }
}

impl Drop for Together {
    fn drop(&mut self) {
        if self.holds {
            let held = HELD.take();
            write(held.unwrap_or_default());
        }
    }
}

/// What this thread holds back. A thread that is being taken down, and submits or waits in doing so, holds nothing.
fn with_held<R: Default>(change: impl FnOnce(&mut Option<Vec<Held>>) -> R) -> R {
    HELD.try_with(|held| change(&mut held.borrow_mut())).unwrap_or_default()
}

/// Has everything written that this thread holds back: it is going to wait.
pub(crate) fn release() {
    write(with_held(|held| held.as_mut().map(std::mem::take)).unwrap_or_default());
}

fn write(held: Vec<Held>) {
    for Held { store, leads, wakes } in held {
        if wakes {
            store.wake_writer();
        } else if leads {
            store.lead();
        }
    }
}

/// This thread is about to submit to a store; whether what it submits is held back.
pub(crate) fn join<S: GroupWriter + 'static>(store: &Arc<S>) -> bool {
    with_held(|held| {
        let Some(held) = held else { return false };
        if !held.iter().any(|held| std::ptr::addr_eq(Arc::as_ptr(&held.store), Arc::as_ptr(store))) {
            let store: Arc<dyn GroupWriter> = Arc::<S>::clone(store);
            held.push(Held { store, leads: false, wakes: false });
        }
        true
    })
}

/// Whether the writer of a store need not be woken now for a batch of this thread: at the end of what is held back it is
/// woken if it `is_for_writer`, and this thread writes otherwise.
pub(crate) fn holds<S: GroupWriter>(store: &S, is_for_writer: bool) -> bool {
    with_held(|held| {
        let found = held.iter_mut().flatten().find(|held| std::ptr::addr_eq(Arc::as_ptr(&held.store), store));
        let Some(held) = found else { return false };
        if is_for_writer {
            held.wakes = true;
        } else {
            held.leads = true;
        }
        true
    })
}

#[cfg(test)]
mod tests {
    use koine_env::SeededRandom;

    use super::*;
    use crate::batch::{Batch, Durability, Operation, SpaceId};
    use crate::device::MemoryDevice;
    use crate::engine::{Engine, FormatOptions};
    use crate::options::Options;

    const SPACE: SpaceId = SpaceId(20);

    fn engine() -> Engine {
        let device = Arc::new(MemoryDevice::fixed(32 << 20));
        Engine::format(&device, FormatOptions::default(), &SeededRandom::new(1)).unwrap();
        let engine = Engine::open(device, Options::default()).unwrap();
        engine.commit(Batch::new().then(Operation::CreateSpace { space: SPACE }), Durability::Sync).unwrap();
        engine
    }

    #[test]
    fn what_is_submitted_together_is_written_at_the_end_and_by_this_thread() {
        let engine = engine();
        let (tell, told) = std::sync::mpsc::channel();
        let together = Together::begin();
        for number in 0..50_u32 {
            let tell = tell.clone();
            let batch = Batch::new().put(SPACE, number.to_be_bytes().to_vec(), vec![1; 2000]);
            let here = std::thread::current().id();
            engine.submit(batch, Durability::Written).on_done(move |outcome| {
                let version = outcome.map(|commit| commit.version);
                tell.send((version, std::thread::current().id() == here)).unwrap();
            });
        }
        together.end();
        let outcomes: Vec<_> = (0..50).map(|_| told.recv().unwrap()).collect();
        assert!(outcomes.is_sorted_by_key(|(version, _)| version.as_ref().unwrap()));
        // Unless the writer was at work for another reason.
        assert!(outcomes.iter().filter(|(_, here)| *here).count() > 0);
        assert_eq!(engine.view().stat(SPACE, &49_u32.to_be_bytes()).unwrap().unwrap().size, 2000);
    }

    #[test]
    fn a_thread_that_is_taken_down_can_still_commit() {
        struct Last(Arc<Engine>);
        impl Drop for Last {
            fn drop(&mut self) {
                self.0.commit(Batch::new().put(SPACE, "last", "words"), Durability::Written).unwrap();
            }
        }
        thread_local!(static LAST: RefCell<Option<Last>> = const { RefCell::new(None) });
        let engine = Arc::new(engine());
        let same = Arc::clone(&engine);
        std::thread::spawn(move || {
            LAST.with_borrow_mut(|last| *last = Some(Last(same)));
            Together::begin().end();
        })
        .join()
        .unwrap();
        assert!(engine.contains(SPACE, b"last").unwrap());
    }

    #[test]
    fn who_waits_in_between_waits_for_nobody_else() {
        let engine = engine();
        let together = Together::begin();
        let put = |key: &'static str| Batch::new().put(SPACE, key, "value");
        for durability in [Durability::Memory, Durability::Written, Durability::Sync] {
            let waiting = engine.submit(put("a"), durability);
            let inner = Together::begin();
            let last = engine.submit(put("b"), durability);
            inner.end();
            let version = last.wait().unwrap().version;
            assert!(waiting.wait().unwrap().version < version);
            assert!(engine.commit(put("c"), durability).unwrap().version > version);
        }
        // More than a queue holds.
        let tickets: Vec<_> = (0..64)
            .map(|_| engine.submit(Batch::new().put(SPACE, "k", vec![7; 20_000]), Durability::Written))
            .collect();
        engine.sync().unwrap();
        for ticket in tickets {
            ticket.wait().unwrap();
        }
        drop(together);
        engine.close().unwrap();
    }
}
