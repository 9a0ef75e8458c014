//! Stages in memory.
//!
//! Invariants:
//! - The meter counts every byte that lies in a stage or a token and was not taken by a commit.
//! - A token is taken at most once, under the store's lock.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

use bytes::Bytes;
use koine_engine::stage::STAGE_PIECE_LEN_MAX;
use koine_engine::{Error, Result, StageHint, StageToken};

use super::MemoryShared;
use crate::copies;
use crate::seam::Stage;
use crate::sparse::Value;

/// Bytes in stages; also tells one store's stages from another's.
#[derive(Debug, Default)]
pub(super) struct Meter {
    staged: AtomicU64,
}

impl Meter {
    pub(super) fn staged(&self) -> u64 {
        self.staged.load(Ordering::Relaxed)
    }
}

/// What a token holds; its drop gives the bytes back.
#[derive(Debug)]
pub(super) struct Staged {
    meter: Arc<Meter>,
    value: Value,
    taken: AtomicBool,
}

impl Staged {
    pub(super) fn value(&self) -> &Value {
        &self.value
    }

    pub(super) fn belongs_to(&self, meter: &Arc<Meter>) -> bool {
        Arc::ptr_eq(&self.meter, meter)
    }

    pub(super) fn is_taken(&self) -> bool {
        self.taken.load(Ordering::Relaxed)
    }

    /// A commit took the bytes: they count as a value's from now on.
    pub(super) fn take(&self) {
        if !self.taken.swap(true, Ordering::Relaxed) {
            self.meter.staged.fetch_sub(self.value.length(), Ordering::Relaxed);
        }
    }
}

impl Drop for Staged {
    fn drop(&mut self) {
        self.take();
    }
}

/// A value on its way in.
pub(super) struct MemoryStage {
    shared: Arc<MemoryShared>,
    hint: StageHint,
    staged: Staged,
}

impl MemoryStage {
    pub(super) fn new(shared: Arc<MemoryShared>, hint: StageHint) -> Self {
        let meter = Arc::clone(&shared.meter);
        let staged = Staged { meter, value: Value::default(), taken: AtomicBool::new(false) };
        MemoryStage { shared, hint, staged }
    }
}

impl Stage for MemoryStage {
    fn write(&mut self, piece: &[u8]) -> Result<()> {
        if piece.len() > STAGE_PIECE_LEN_MAX {
            let message = format!("a piece of {} bytes; at most {STAGE_PIECE_LEN_MAX} at once", piece.len());
            return Err(Error::invalid(message));
        }
        let added = piece.len() as u64;
        let offset = self.staged.value.length();
        if let Some(length) = self.hint.length
            && offset + added > length
        {
            return Err(Error::invalid(format!("the stage was begun for {length} bytes, and more were written")));
        }
        {
            // Under the lock, so that stages and commits do not both take the last free bytes.
            let inner = self.shared.open()?;
            self.shared.check_room(inner.state.bytes(), added)?;
            self.shared.meter.staged.fetch_add(added, Ordering::Relaxed);
        }
        self.staged.value.write(offset, Bytes::copy_from_slice(piece));
        copies::copied(piece.len());
        Ok(())
    }

    fn length(&self) -> u64 {
        self.staged.value.length()
    }

    fn finish(self: Box<Self>) -> Result<StageToken> {
        let staged = self.staged;
        Ok(StageToken::new(staged.value.length(), Arc::new(staged)))
    }
}
