//! A large value on its way into a store.

use koine_engine::{Error, Result, StageToken};

use crate::seam::Stage;

/// A stage of a session.
pub enum Staged {
    /// Pieces come.
    Open(Box<dyn Stage>),
    /// A batch may name it.
    Finished(StageToken),
    /// It could not be finished.
    Gone,
}

impl Staged {
    /// Adds a piece; the length so far.
    pub fn write(&mut self, number: u64, piece: &[u8]) -> Result<u64> {
        match self {
            Staged::Open(stage) => stage.write(piece).map(|()| stage.length()),
            Staged::Finished(_) | Staged::Gone => Err(Error::invalid(format!("stage {number} is finished"))),
        }
    }

    /// Whether no more pieces come.
    pub fn is_finished(&self) -> bool {
        !matches!(self, Staged::Open(_))
    }

    /// No more pieces; the length.
    pub fn finish(&mut self) -> Result<u64> {
        match std::mem::replace(self, Staged::Gone) {
            Staged::Open(stage) => {
                let token = stage.finish()?;
                let length = token.length();
                *self = Staged::Finished(token);
                Ok(length)
            }
            other => {
                *self = other;
                Err(Error::invalid("the stage is finished"))
            }
        }
    }

    /// What names it in a batch.
    pub fn token(&self, number: u64) -> Result<StageToken> {
        match self {
            Staged::Finished(token) => Ok(token.clone()),
            Staged::Open(_) | Staged::Gone => Err(Error::invalid(format!("stage {number} is not finished"))),
        }
    }
}
