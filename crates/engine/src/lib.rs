//! The extent engine: an ordered map from byte keys to blobs on one device, in spaces, crash safe.
//!
//! This crate is not a key-value interface for applications (that is `koine-kv`), has no object or
//! file semantics, and opens no network. See docs/format.md for its bytes and docs/write-path.md
//! for how a commit becomes durable.

pub mod address;
mod allocator;
mod apply;
mod atomic;
pub mod batch;
mod buffers;
pub mod changes;
pub mod check;
mod checkpoint;
mod checkpoint_state;
mod checksum;
mod codec;
mod commit;
mod commit_state;
mod content;
mod core;
mod data_cache;
mod defrag;
pub mod device;
mod dirty_budget;
pub mod engine;
pub mod error;
pub mod extent;
mod filter;
mod filter_builder;
mod format;
#[cfg(any(test, feature = "fuzzing"))]
#[doc(hidden)]
pub mod fuzzing;
mod grow;
mod io_pool;
mod limits;
mod lock;
mod log;
mod lookup;
mod node_cache;
pub mod objects;
pub mod options;
mod pins;
mod range_map;
mod read_ahead;
mod reclaimer;
mod recovery;
pub mod repair;
pub mod report;
mod requests;
mod reservations;
mod reserve;
pub mod salvage;
pub mod scrub;
mod spaces;
pub mod stage;
mod staged;
mod staging;
mod state;
mod stream;
mod superblock;
pub mod ticket;
mod together;
pub mod tree;
mod trim;
pub mod upgrade;
mod usage;
mod view;
mod writer;

pub use address::BlockRange;
pub use batch::{
    Batch, Commit, Condition, Durability, KeyRange, Operation, Payload, Place, RequestId, Sources, SpaceId, Version,
};
pub use changes::{Event, Watch};
pub use check::{Progress, Report};
pub use defrag::{Defrag, DefragOptions, DefragPosition, DefragStep};
pub use engine::{Engine, Info};
pub use error::{Error, ErrorKind, Refusal, Result};
pub use extent::Extent;
pub use format::FormatOptions;
pub use grow::{GrowTo, Grown};
pub use limits::Limits;
pub use lock::LockWaits;
pub use log::longest::LongestWrites;
pub use options::{Background, Options};
pub use recovery::Recovered;
pub use repair::Repair;
pub use report::{RunClass, SpaceReport, SpaceUse};
pub use requests::REQUESTS_KEPT;
pub use salvage::{LostKeys, Origin, PartialValue, SalvageProgress, SalvageReport, SalvageSink, StoreSink, salvage};
pub use scrub::{Concern, Finding, Scrub, ScrubOptions, ScrubPosition, ScrubStep};
pub use spaces::SpaceInfo;
pub use stage::{Access, Lifetime, StageHint, StageToken};
pub use staging::Stage;
pub use stream::{Accept, Arrived, Landing, ReceiveOptions, Received, Sending};
pub use superblock::FORMAT;
pub use ticket::{Completer, Ticket, awaited};
pub use together::Together;
pub use tree::value::{BlobId, Content, Frozen, Pending, Piece, Record, SpaceRoot, Value};
pub use tree::{TREE_KEY_LEN_MAX, Tree};
pub use upgrade::Upgrade;
pub use usage::Usage;
pub use view::{Cursor, Entry, EntryRef, LOOKUP_COPY_MAX, Lookup, Mapped, Stat, View};
