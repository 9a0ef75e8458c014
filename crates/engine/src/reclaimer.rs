//! The reclaimer: gives the space of dropped trees back, a part in each commit, in the background. Its thread also reads
//! spaces through that want a filter.
//!
//! Invariant: a part is small, so that commits of others go in between.

use std::sync::Arc;
use std::time::Duration;

use crate::batch::Durability;
use crate::core::Core;
use crate::error::{ErrorKind, Result};
use crate::log::record::Step;
use crate::options::Background;
use crate::ticket::is_completing;

/// Leaves taken down in one commit: some milliseconds of work.
const LEAVES_A_PART: u32 = 64;
/// Where there are no threads, so that a search over a small store sees a tree taken down in several commits.
const LEAVES_A_STEP: u32 = 1;

impl Core {
    /// Whether something dropped is left.
    fn has_dropped(&self) -> Result<bool> {
        let state = self.head.lock().state.clone();
        state.has_dropped(&self.nodes)
    }

    /// Takes a part down of what was dropped; false when there is nothing.
    pub(crate) fn reclaim(self: &Arc<Core>) -> Result<bool> {
        if self.read_only || !self.has_dropped()? {
            return Ok(false);
        }
        let leaves = if self.background == Background::Manual { LEAVES_A_STEP } else { LEAVES_A_PART };
        let ticket = self.submit_step(Step::Reclaim { leaves }, Durability::Memory);
        if self.background == Background::Threads {
            ticket.wait()?;
        }
        Ok(true)
    }

    /// Takes a part down because somebody needs the room; false when there is nothing, or when this thread may not wait.
    pub(crate) fn reclaim_for_room(self: &Arc<Core>) -> Result<bool> {
        Ok(!is_completing() && self.reclaim()?)
    }

    /// The reclaimer's thread.
    pub(crate) fn run_reclaimer(self: Arc<Core>) {
        loop {
            match self.reclaim().and_then(|reaped| Ok(self.build_filter()? || reaped)) {
                Ok(true) => continue,
                Ok(false) => {}
                Err(error) if error.kind() == ErrorKind::Stopped => return,
                // Damage, or no room: looked at again later; a check tells the user.
                Err(_) => {}
            }
            let mut head = self.head.lock();
            if head.closing || self.check_running().is_err() {
                return;
            }
            self.reclaim_work.wait_for(&mut head, Duration::from_secs(1));
            if head.closing || self.check_running().is_err() {
                return;
            }
        }
    }
}
