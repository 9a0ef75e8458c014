//! Runs of a stage while the crew writes them.
//!
//! Invariant: a flight always lands, when nobody uses its memory any more: with its buffer, or with what went wrong; also when its writer panicked.

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
struct Runway {
    landed: Mutex<Option<Result<Option<Lent>>>>,
    told: Condvar,
}

/// Memory on its way to the device.
pub struct Flight {
    runway: Arc<Runway>,
}

impl Flight {
    /// Hands memory over to be written.
    pub fn begin(core: &Arc<Core>, memory: Memory, targets: Vec<Target>) -> Flight {
        let runway = Arc::new(Runway::default());
        let mut pilot = Pilot(Some(Arc::clone(&runway)));
        let worker = Arc::clone(core);
        core.crew.run(Box::new(move || {
            let written = targets.iter().try_for_each(|target| write(&worker, target, memory.bytes()));
            let buffer = memory.into_lent();
            pilot.land(written.map(|()| buffer.and_then(|buffer| leave(&worker, buffer, targets))));
        }));
        Flight { runway }
    }

    /// Whether there is nothing to wait for.
    pub fn has_landed(&self) -> bool {
        self.runway.landed.lock().is_some()
    }

    /// Waits for it; gives the buffer that was lent, unless the cache of data has it now.
    pub fn land(self) -> Result<Option<Lent>> {
        let mut landed = self.runway.landed.lock();
        loop {
            match landed.take() {
                Some(outcome) => return outcome,
                None => self.runway.told.wait(&mut landed),
            }
        }
    }
}

/// Whoever writes. Tells of a panic by being dropped before it has landed.
struct Pilot(Option<Arc<Runway>>);

impl Pilot {
    fn land(&mut self, outcome: Result<Option<Lent>>) {
        if let Some(runway) = self.0.take() {
            *runway.landed.lock() = Some(outcome);
            runway.told.notify_one();
        }
    }
}

impl Drop for Pilot {
    fn drop(&mut self) {
        if self.0.is_some() {
            self.land(Err(Error::new(ErrorKind::Stopped, "a writer of the store panicked")));
        }
    }
}
