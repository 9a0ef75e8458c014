//! Tokens of stages: whose they are, and that a commit takes each at most once.
//!
//! Invariant: a token is taken under the lock that orders the store's batches.

use std::collections::HashSet;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use koine_engine::stage::STAGE_PIECE_LEN_MAX;
use koine_engine::{Batch, Error, Operation, Payload, Result, StageHint, StageToken};

/// Tells one store's stages from another's.
#[derive(Debug, Default)]
pub(super) struct Owner;

/// What a token of an emulated store holds.
pub(super) struct Staged<T> {
    owner: Arc<Owner>,
    taken: AtomicBool,
    content: T,
}

impl<T: Send + Sync + 'static> Staged<T> {
    pub(super) fn token(owner: &Arc<Owner>, length: u64, content: T) -> StageToken {
        let owner = Arc::clone(owner);
        StageToken::new(length, Arc::new(Staged { owner, taken: AtomicBool::new(false), content }))
    }

    pub(super) fn content(&self) -> &T {
        &self.content
    }

    pub(super) fn is_taken(&self) -> bool {
        self.taken.load(Ordering::Acquire)
    }

    pub(super) fn take(&self) {
        self.taken.store(true, Ordering::Release);
    }
}

fn foreign() -> Error {
    Error::invalid("a stage of another store; stage the bytes in the store that the batch is for")
}

pub(super) fn taken() -> Error {
    Error::invalid("a stage was taken by an earlier commit; stage the bytes again")
}

/// The stage that an operation names.
pub(super) fn stage_of(operation: &Operation) -> Option<&StageToken> {
    match operation {
        Operation::Put { value: Payload::Stage(token), .. }
        | Operation::WriteAt { data: Payload::Stage(token), .. }
        | Operation::Append { data: Payload::Stage(token), .. } => Some(token),
        _ => None,
    }
}

/// What the stages of a batch hold; each must be this store's and named once.
pub(super) fn stages<T: Send + Sync + 'static>(batch: &Batch, owner: &Arc<Owner>) -> Result<Vec<Arc<Staged<T>>>> {
    let mut seen = HashSet::new();
    let mut stages = Vec::new();
    for token in batch.operations.iter().filter_map(stage_of) {
        let staged = token.content::<Staged<T>>().ok_or_else(foreign)?;
        if !Arc::ptr_eq(&staged.owner, owner) {
            return Err(foreign());
        }
        if !seen.insert(Arc::as_ptr(&staged)) {
            return Err(Error::invalid("a batch names one stage twice; clone the range of the first instead"));
        }
        stages.push(staged);
    }
    Ok(stages)
}

/// Whether a piece may be added to a stage of `length` bytes.
pub(super) fn check_piece(hint: &StageHint, length: u64, piece: &[u8]) -> Result<()> {
    if piece.len() > STAGE_PIECE_LEN_MAX {
        let message = format!("a piece of {} bytes; at most {STAGE_PIECE_LEN_MAX} at once", piece.len());
        return Err(Error::invalid(message));
    }
    match hint.length {
        Some(most) if length + piece.len() as u64 > most => {
            Err(Error::invalid(format!("the stage was begun for {most} bytes, and more were written")))
        }
        _ => Ok(()),
    }
}
