//! Runs of a stage while the crew writes them.
//!
//! Invariant: a flight always lands: with its buffer, or with what went wrong; also when its writer panicked.

use std::ops::Range;
use std::sync::Arc;

use parking_lot::{Condvar, Mutex};

use crate::buffers::Lent;
use crate::core::Core;
use crate::device::BLOCK_LEN;
use crate::error::{Error, ErrorKind, Result};

/// Where bytes of a buffer belong.
pub struct Target {
    /// Of the buffer: whole blocks.
    pub bytes: Range<usize>,
    /// The first block on the device.
    pub block: u64,
}

impl Target {
    /// Writes them.
    pub fn write(&self, core: &Core, buffer: &[u8]) -> Result<()> {
        core.write(&buffer[self.bytes.clone()], self.block * BLOCK_LEN as u64)
    }
}

#[derive(Default)]
struct Runway {
    landed: Mutex<Option<Result<Lent>>>,
    told: Condvar,
}

/// A buffer on its way to the device.
pub struct Flight {
    runway: Arc<Runway>,
}

impl Flight {
    /// Hands a buffer over to be written.
    pub fn begin(core: &Arc<Core>, buffer: Lent, targets: Vec<Target>) -> Flight {
        let runway = Arc::new(Runway::default());
        let mut pilot = Pilot(Some(Arc::clone(&runway)));
        let worker = Arc::clone(core);
        core.crew.run(Box::new(move || {
            let written = targets.iter().try_for_each(|target| target.write(&worker, &buffer));
            pilot.land(written.map(|()| buffer));
        }));
        Flight { runway }
    }

    /// Whether there is nothing to wait for.
    pub fn has_landed(&self) -> bool {
        self.runway.landed.lock().is_some()
    }

    /// Waits for it.
    pub fn land(self) -> Result<Lent> {
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
    fn land(&mut self, outcome: Result<Lent>) {
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
