//! How large values arrive: placed piece by piece before the batch that names them.
//!
//! Invariants:
//! - Nobody can read a stage; only the holder of its token can name it in a batch.
//! - When the last clone of a token is dropped without a commit, the space comes back.

use std::any::Any;
use std::fmt;
use std::sync::Arc;

/// The largest piece written to a stage at once, in bytes.
pub const STAGE_PIECE_LEN_MAX: usize = 1 << 20;

/// What is known beforehand about a value.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct StageHint {
    /// The whole length in bytes, when known: more may not be written.
    pub length: Option<u64>,
    /// How it will be read.
    pub access: Access,
    /// It is written to a value that space was set aside for: it may take from that.
    pub reserved: bool,
    /// How long it will be kept.
    pub lifetime: Lifetime,
}

/// How long data will live, as far as the caller knows. Data that goes soon lies apart from data that stays, so that
/// it leaves long free runs behind.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Lifetime {
    /// Nothing is known.
    #[default]
    Unknown,
    /// Deleted or overwritten soon.
    Short,
    /// Kept.
    Long,
}

/// How a value will be read.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Access {
    /// From front to back: large checksum chunks.
    #[default]
    Sequential,
    /// In small pieces anywhere: small checksum chunks.
    Random,
}

/// A finished stage, to be named by a batch.
///
/// Cheap to clone, so that a batch can be submitted again after a refusal.
#[derive(Clone)]
pub struct StageToken {
    length: u64,
    content: Arc<dyn Any + Send + Sync>,
}

impl StageToken {
    /// A token for `length` bytes held by a back end as `content`; its drop gives the space back
    /// unless a commit took it.
    pub fn new(length: u64, content: Arc<dyn Any + Send + Sync>) -> Self {
        StageToken { length, content }
    }

    /// The staged length in bytes.
    pub fn length(&self) -> u64 {
        self.length
    }

    /// The back end's own content, if it is of type `T`: a token of another back end is not.
    pub fn content<T: Any + Send + Sync>(&self) -> Option<Arc<T>> {
        Arc::clone(&self.content).downcast().ok()
    }

    /// As `content`, borrowed.
    pub fn content_ref<T: Any + Send + Sync>(&self) -> Option<&T> {
        self.content.downcast_ref()
    }
}

impl fmt::Debug for StageToken {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "StageToken({} bytes)", self.length)
    }
}
