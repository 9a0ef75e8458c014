//! The extent engine: an ordered map from byte keys to blobs on one device, in spaces, crash safe.
//!
//! This crate is not a key-value interface for applications (that is `koine-kv`), has no object or
//! file semantics, and opens no network. See docs/format.md for its bytes and docs/write-path.md
//! for how a commit becomes durable.

pub mod batch;
pub mod device;
pub mod error;
pub mod stage;
pub mod ticket;
pub mod tree;
pub mod value;

pub use batch::{
    Batch, Commit, Condition, Durability, KeyRange, Operation, Payload, Place, RequestId, Sources, SpaceId, Version,
};
pub use error::{Error, ErrorKind, Refusal, Result};
pub use stage::{Access, StageHint, StageToken};
pub use ticket::{Completer, Ticket};
pub use tree::{TREE_KEY_LEN_MAX, Tree};
pub use value::{BlobId, BlockRange, Content, Extent, Pending, Piece, Record, SpaceRoot, Value};
