//! Runs of a stage while the I/O pool writes them.
//!
//! Invariant: a in_flight always lands, when nobody uses its memory any more: with its buffer, or with what went wrong; also when its writer panicked.

use std::sync::Arc;

use parking_lot::{Condvar, Mutex};

use crate::buffers::Lent;
use crate::core::Core;
use crate::device::BLOCK_LEN;
use crate::error::{Error, ErrorKind, Result};
use crate::staged::Target;

/// Memory of somebody else, kept until it is written.
pub type Shared = Box<dyn AsRef<[u8]> + Send>;

/// What is written from.
pub enum Memory {
    /// A buffer that is filled again afterwards.
    Lent(Lent),
    /// Memory of somebody else.
    Shared(Shared),
}

impl Memory {
    fn bytes(&self) -> &[u8] {
        match self {
            Memory::Lent(buffer) => buffer,
            Memory::Shared(shared) => shared.as_ref().as_ref(),
        }
    }

    /// The buffer, if it is one; what is somebody else's is let go of.
    fn into_lent(self) -> Option<Lent> {
        match self {
            Memory::Lent(buffer) => Some(buffer),
            Memory::Shared(_) => None,
        }
    }
}

/// Writes bytes of a buffer to where they belong.
pub fn write(core: &Core, target: &Target, buffer: &[u8]) -> Result<()> {
    core.write(&buffer[target.bytes.clone()], target.block * BLOCK_LEN as u64)
}

/// Leaves what was written to the cache of data; gives the buffer back where that does not keep it.
pub fn leave(core: &Core, buffer: Lent, targets: Vec<Target>) -> Option<Lent> {
    if !core.data.is_on() {
        return Some(buffer);
    }
    let run = |target: Target| target.extent.map(|extent| (target.bytes.start, extent));
    let runs = targets.into_iter().filter_map(run);
    core.data.put_written(
        buffer,
        runs.map(|(start, extent)| {
            let end = start + extent.run_length as usize;
            (extent, start..end)
        })
        .collect(),
    )
}

#[derive(Default)]
struct Completion {
    landed: Mutex<Option<Result<Option<Lent>>>>,
    told: Condvar,
}

/// Memory on its way to the device.
pub struct InFlightWrite {
    completion: Arc<Completion>,
}

impl InFlightWrite {
    /// Hands memory over to be written.
    pub fn begin(core: &Arc<Core>, memory: Memory, targets: Vec<Target>) -> InFlightWrite {
        let completion = Arc::new(Completion::default());
        let mut guard = CompletionGuard(Some(Arc::clone(&completion)));
        let worker = Arc::clone(core);
        core.io_pool.run(Box::new(move || {
            let written = targets.iter().try_for_each(|target| write(&worker, target, memory.bytes()));
            let buffer = memory.into_lent();
            guard.land(written.map(|()| buffer.and_then(|buffer| leave(&worker, buffer, targets))));
        }));
        InFlightWrite { completion }
    }

    /// Whether there is nothing to wait for.
    pub fn is_done(&self) -> bool {
        self.completion.landed.lock().is_some()
    }

    /// Waits for it; gives the buffer that was lent, unless the cache of data has it now.
    pub fn land(self) -> Result<Option<Lent>> {
        let mut landed = self.completion.landed.lock();
        loop {
            match landed.take() {
                Some(outcome) => return outcome,
                None => self.completion.told.wait(&mut landed),
            }
        }
    }
}

/// Whoever writes. Tells of a panic by being dropped before it has landed.
struct CompletionGuard(Option<Arc<Completion>>);

impl CompletionGuard {
    fn land(&mut self, outcome: Result<Option<Lent>>) {
        if let Some(completion) = self.0.take() {
            *completion.landed.lock() = Some(outcome);
            completion.told.notify_one();
        }
    }
}

impl Drop for CompletionGuard {
    fn drop(&mut self) {
        if self.0.is_some() {
            self.land(Err(Error::new(ErrorKind::Stopped, "a writer of the store panicked")));
        }
    }
}
