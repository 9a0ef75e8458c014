//! Stages whose pieces are written as they arrive.
//!
//! Invariants:
//! - A stage keeps less than one piece in memory, beside the one that is being added.
//! - Before the first piece of a blob is there, a mark says that no commit took it; the commit that takes it removes the
//!   mark. Marked blobs that a crash left are removed when the store is opened.
//! - A blob that no commit took is removed when its stage or token is dropped.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use bytes::{Bytes, BytesMut};
use koine_engine::{Batch, Durability, Operation, Payload, Result, StageHint, StageToken};

use super::SplitEmulation;
use super::record::{BlobId, piece_at, pieces_of, staged_at};
use crate::emulate::SOLE;
use crate::emulate::emulated::{Core, token};
use crate::emulate::token::check_piece;
use crate::seam::{Kv, Stage};

/// What a token holds.
pub enum StagedValue {
    /// A short value.
    Inline(Bytes),
    /// The pieces of a long one.
    Blob(StagedBlob),
}

/// Pieces that no commit took yet; removed when this is dropped.
pub struct StagedBlob {
    below: Arc<dyn Kv>,
    id: BlobId,
    /// A commit took them.
    kept: AtomicBool,
}

impl StagedBlob {
    pub(super) fn id(&self) -> BlobId {
        self.id
    }

    /// They belong to a value, or were removed by the batch that named them.
    pub(super) fn keep(&self) {
        self.kept.store(true, Ordering::Release);
    }
}

/// What removes a blob that no commit took.
pub(super) fn removal(batch: Batch, blob: &BlobId) -> Batch {
    batch
        .then(Operation::DeleteRange { space: SOLE, range: pieces_of(blob) })
        .then(Operation::Delete { at: staged_at(blob) })
}

impl Drop for StagedBlob {
    fn drop(&mut self) {
        if !self.kept.load(Ordering::Acquire) {
            // What cannot be removed now is removed when the store is opened again.
            let _ = self.below.commit(removal(Batch::new(), &self.id), Durability::Memory);
        }
    }
}

/// A value on its way in.
pub(super) struct SplitStage {
    core: Arc<Core<SplitEmulation>>,
    hint: StageHint,
    length: u64,
    blob: Option<StagedBlob>,
    /// The number of the next piece.
    next: u64,
    /// What is not a whole piece yet.
    rest: BytesMut,
}

impl SplitStage {
    pub(super) fn new(core: Arc<Core<SplitEmulation>>, hint: StageHint) -> Self {
        SplitStage { core, hint, length: 0, blob: None, next: 0, rest: BytesMut::new() }
    }

    /// Writes these pieces, and first of all the mark.
    fn place(&mut self, pieces: Vec<Bytes>) -> Result<()> {
        let id = self.blob.as_ref().map_or_else(|| self.core.emulation.new_id(), StagedBlob::id);
        let mut batch = Batch::new();
        if self.blob.is_none() {
            batch = batch.then(Operation::Put { at: staged_at(&id), value: Payload::Bytes(Bytes::new()) });
        }
        let count = pieces.len() as u64;
        for (number, piece) in (self.next..).zip(pieces) {
            batch = batch.then(Operation::Put { at: piece_at(&id, number), value: Payload::Bytes(piece) });
        }
        self.core.below.commit(batch, Durability::Memory)?;
        if self.blob.is_none() {
            self.blob = Some(StagedBlob { below: Arc::clone(&self.core.below), id, kept: AtomicBool::new(false) });
        }
        self.next += count;
        Ok(())
    }
}

impl Stage for SplitStage {
    fn write(&mut self, piece: &[u8]) -> Result<()> {
        self.core.check_open()?;
        check_piece(&self.hint, self.length, piece)?;
        let piece_len = self.core.emulation.piece_len();
        let before = self.rest.len();
        self.rest.extend_from_slice(piece);
        if self.rest.len() >= piece_len {
            let kept = BytesMut::from(self.rest.get(..before).unwrap_or_default());
            let mut pieces = Vec::new();
            while self.rest.len() >= piece_len {
                pieces.push(self.rest.split_to(piece_len).freeze());
            }
            if let Err(error) = self.place(pieces) {
                self.rest = kept;
                return Err(error);
            }
        }
        self.length += piece.len() as u64;
        Ok(())
    }

    fn length(&self) -> u64 {
        self.length
    }

    fn finish(mut self: Box<Self>) -> Result<StageToken> {
        self.core.check_open()?;
        let rest = std::mem::take(&mut self.rest).freeze();
        if self.blob.is_none() && rest.len() <= self.core.emulation.inline_len() {
            return Ok(token(&self.core, self.length, StagedValue::Inline(rest)));
        }
        if !rest.is_empty() {
            self.place(vec![rest])?;
        }
        let content = match self.blob.take() {
            Some(blob) => StagedValue::Blob(blob),
            None => StagedValue::Inline(Bytes::new()),
        };
        Ok(token(&self.core, self.length, content))
    }
}
