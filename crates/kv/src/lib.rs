//! The `Kv` seam: one trait, its conformance suite, back ends and transactions.
//!
//! Everything above (objects, documents, the cluster) knows only [`Kv`]. This crate has no object
//! semantics; [`wire`] is its only way to other processes.
//!
//! Invariants of the seam:
//! - `submit` is the one way to change anything visible; a batch happens whole or not at all.
//! - A view is one version of everything; nothing reachable from it changes until it is dropped.
//! - Visibility is one watermark over log numbers: a `Sync` commit is seen by nobody before it is durable.

mod check;
mod closed;
#[cfg(any(test, feature = "testing"))]
pub mod conformance;
pub mod copies;
pub mod copy;
pub mod emulate;
mod engine;
mod memory;
pub mod ordered;
#[cfg(feature = "rocksdb")]
mod rocks;
mod seam;
mod sparse;
mod transaction;
pub mod wire;
pub mod wrap;

pub use bytes::Bytes;
pub use check::check_batch;
pub use closed::Closed;
pub use engine::EngineKv;
pub use koine_engine::batch::{BATCH_BYTES_MAX, BATCH_OPERATIONS_MAX, KEY_LEN_MAX, VALUE_LEN_MAX, after_prefix};
pub use koine_engine::stage::STAGE_PIECE_LEN_MAX;
pub use koine_engine::{
    Access, Batch, Commit, Completer, Condition, Durability, Error, ErrorKind, KeyRange, LOOKUP_COPY_MAX, Lifetime,
    Operation, Payload, Place, Refusal, RequestId, Result, Sources, SpaceId, StageHint, StageToken, Ticket, Version,
    awaited,
};
pub use memory::{MemoryKv, MemoryOptions};
#[cfg(feature = "rocksdb")]
pub use rocks::{RocksOptions, open_rocks};
pub use seam::{
    Change, Cursor, Direction, ENTRY_VALUE_LEN_MAX, Entry, Kv, KvExt, Lookup, Profile, SpaceEntry, Stage, Stat, Usage,
    View, Wait, Watch, WatchEvent,
};
pub use transaction::{
    ATTEMPTS_MAX, Mark, Seen, SeenEntry, Transaction, TransactionCursor, pause_before_attempt, request_of_attempt,
};
