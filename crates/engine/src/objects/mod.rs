//! Numbered objects: a flat name space of byte arrays on an engine, as a local object store has them.
//!
//! ```
//! # use std::sync::Arc;
//! use koine_engine::device::MemoryDevice;
//! use koine_engine::objects::{Store, StoreOptions};
//! use koine_engine::{Durability, Engine, FormatOptions, Options};
//!
//! let device = Arc::new(MemoryDevice::growable(1 << 20, 1 << 30));
//! Engine::format(&device, FormatOptions::default(), &koine_env::OsRandom)?;
//! let engine = Arc::new(Engine::open(device, Options::default())?);
//!
//! let store = Store::over(engine, StoreOptions::default())?;
//! let object = store.create(0)?;
//! object.write(5, b"later", Durability::Memory)?;
//! object.write(0, b"first", Durability::Sync)?;
//! let mut buffer = [0; 16];
//! assert_eq!(object.read(0, &mut buffer)?, 10);
//! assert_eq!(&buffer[..10], b"firstlater");
//!
//! // Writes that belong together become visible together, in one commit.
//! let mut transaction = object.transaction()?;
//! transaction.write(&object, 0, b"FIRST")?;
//! transaction.write(&object, 20, b"end")?;
//! transaction.execute(Durability::Sync)?;
//!
//! object.delete(Durability::Sync)?;
//! store.close()?;
//! # Ok::<(), koine_engine::Error>(())
//! ```
//!
//! Invariants:
//! - Built on the engine's public face only. Everything lies in one space, [`SPACE`]; while a [`Store`] is open
//!   nothing else writes to it, so that what the store knows in memory (which objects are open, how many there
//!   are) is the truth. A second `Store` on an engine is refused.
//! - A number is given out once, also over crashes: numbers are reserved in large steps by a synced commit.
//! - Whoever asks the store after a call with [`Durability::Memory`](crate::Durability) has returned, from any thread, sees
//!   what it did. Only the end of the process, a failed device or one that is full by then can take it back, from the
//!   end: nothing later stays without it. The latter two are told by the next call on the object, and by the next sync.
//! - Creations (of objects without bytes), deletions and writes with `Durability::Memory` are gathered, and a thread of the
//!   store submits them, thousands in a commit; what follows them keeps its place after them. Until they are visible
//!   memory answers for them. Where there is no room for a creation, the next call on the object tells.
//! - Every read sees one version of its object: a write of any length is seen whole or not at all.
//!
//! This module knows no names, no owners and no times: those are for the floors above.

#[cfg(test)]
mod crash_tests;
mod existence_cache;
mod hint;
mod inner;
mod layout;
mod mapped;
#[cfg(test)]
mod model_tests;
mod node;
mod numbers;
mod object;
mod pending;
mod placing;
mod status;
mod status_cell;
mod store;
mod table;
#[cfg(test)]
mod tests;
mod transaction;
mod write_behind;
mod write_buffer;
#[cfg(test)]
mod write_buffer_tests;

pub use crate::stage::Lifetime;
pub use hint::Hint;
pub use layout::SPACE;
pub use mapped::ObjectBytes;
pub use object::Object;
pub use status::{ObjectStatus, StoreStatus};
pub use store::{CREATE_MANY_MAX, CreateOptions, Store, StoreOptions};
pub use transaction::{Executed, Transaction, TransactionOptions};
