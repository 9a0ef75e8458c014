//! Watches over those of the store below.
//!
//! Invariants:
//! - An event that the store below tells is kept back until readers see what it tells of.
//! - An error, or the end of patience, takes no event away.

use std::sync::Arc;
use std::time::{Duration, Instant};

use koine_engine::{Result, SpaceId, Version};

use super::emulated::{Core, Emulation};
use crate::seam::{Change, Watch, WatchEvent};

/// A watch of one space.
pub(super) struct HeldWatch<E: Emulation> {
    core: Arc<Core<E>>,
    below: Box<dyn Watch>,
    space: SpaceId,
    /// What is to be told once readers see this version.
    held: Option<(Version, WatchEvent)>,
}

impl<E: Emulation> HeldWatch<E> {
    pub(super) fn new(core: Arc<Core<E>>, below: Box<dyn Watch>, space: SpaceId) -> Self {
        HeldWatch { core, below, space, held: None }
    }
}

impl<E: Emulation> Watch for HeldWatch<E> {
    fn next(&mut self, timeout: Duration) -> Result<Option<WatchEvent>> {
        self.core.check_open()?;
        let deadline = Instant::now().checked_add(timeout);
        if self.held.is_none() {
            self.held = match self.below.next(timeout)? {
                None => None,
                Some(WatchEvent::Changed(Change { version, keys })) => {
                    let keys = self.core.emulation.told(self.space, &keys);
                    Some((version, WatchEvent::Changed(Change { version, keys })))
                }
                // What was lost may be newer than what readers see.
                Some(event @ WatchEvent::LostSince(_)) => Some((self.core.below.view()?.version(), event)),
            };
        }
        match &self.held {
            Some((version, _)) if self.core.wait_shown(*version, deadline)? => {
                Ok(self.held.take().map(|(_, event)| event))
            }
            _ => Ok(None),
        }
    }
}
