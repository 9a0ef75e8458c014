//! Large values on their way into a store, and what memory they take meanwhile.
//!
//! Invariant: stages that are open hold no more than their connection, and all connections together, are allowed.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use koine_engine::{Error, ErrorKind, Result, StageToken};

use crate::seam::Stage;

/// A store keeps so much of a stage in memory, whatever its length.
const KEPT_LEN_MAX: usize = 1 << 20;
/// From here on it takes all of that at once.
const SHORT_LEN_MAX: u64 = 128 << 10;

/// Memory of stages that are open.
pub struct StageQuota {
    held: AtomicUsize,
    most: usize,
    /// What this is a part of.
    above: Option<Arc<StageQuota>>,
}

impl StageQuota {
    /// At most so many bytes.
    pub fn new(most: usize) -> StageQuota {
        StageQuota { held: AtomicUsize::new(0), most, above: None }
    }

    /// At most so many bytes of those.
    pub fn below(above: &Arc<StageQuota>, most: usize) -> StageQuota {
        StageQuota { above: Some(Arc::clone(above)), ..StageQuota::new(most) }
    }

    fn take(&self, length: usize) -> Result<()> {
        if self.held.fetch_add(length, Ordering::AcqRel) + length > self.most {
            self.held.fetch_sub(length, Ordering::AcqRel);
            let message = format!("{} MiB of values are on their way: finish or drop some", self.most >> 20);
            return Err(Error::new(ErrorKind::Busy, message));
        }
        let taken = self.above.as_ref().map_or(Ok(()), |above| above.take(length));
        taken.inspect_err(|_| {
            self.held.fetch_sub(length, Ordering::AcqRel);
        })
    }

    fn give_back(&self, length: usize) {
        self.held.fetch_sub(length, Ordering::AcqRel);
        self.above.iter().for_each(|above| above.give_back(length));
    }
}

enum StageState {
    /// Pieces come.
    Open(Box<dyn Stage>),
    /// A batch may name it.
    Finished(StageToken),
    /// It could not be finished.
    Gone,
}

/// A stage of a session.
pub struct Staged {
    state: StageState,
    quota: Arc<StageQuota>,
    /// What it has taken of that.
    taken: usize,
}

impl Staged {
    /// One into which pieces come.
    pub fn new(stage: Box<dyn Stage>, quota: &Arc<StageQuota>) -> Staged {
        Staged { state: StageState::Open(stage), quota: Arc::clone(quota), taken: 0 }
    }

    /// Adds a piece; the length so far.
    pub fn write(&mut self, number: u64, piece: &[u8]) -> Result<u64> {
        let StageState::Open(stage) = &mut self.state else {
            return Err(Error::invalid(format!("stage {number} is finished")));
        };
        let length = stage.length().saturating_add(piece.len() as u64);
        let wants = if length < SHORT_LEN_MAX { length as usize } else { KEPT_LEN_MAX };
        if wants > self.taken {
            self.quota.take(wants - self.taken)?;
            self.taken = wants;
        }
        stage.write(piece).map(|()| stage.length())
    }

    /// Whether no more pieces come.
    pub fn is_finished(&self) -> bool {
        !matches!(self.state, StageState::Open(_))
    }

    /// No more pieces; the length.
    pub fn finish(&mut self) -> Result<u64> {
        match std::mem::replace(&mut self.state, StageState::Gone) {
            StageState::Open(stage) => {
                let token = stage.finish();
                self.quota.give_back(std::mem::take(&mut self.taken));
                let token = token?;
                let length = token.length();
                self.state = StageState::Finished(token);
                Ok(length)
            }
            other => {
                self.state = other;
                Err(Error::invalid("the stage is finished"))
            }
        }
    }

    /// What names it in a batch.
    pub fn token(&self, number: u64) -> Result<StageToken> {
        match &self.state {
            StageState::Finished(token) => Ok(token.clone()),
            StageState::Open(_) | StageState::Gone => Err(Error::invalid(format!("stage {number} is not finished"))),
        }
    }
}

impl Drop for Staged {
    fn drop(&mut self) {
        self.quota.give_back(self.taken);
    }
}
