//! Versions: several objects that a bucket keeps under one name.
//!
//! The newest stands under the name itself, where every call that asks for no version finds it; older ones and delete
//! markers stand behind it, newest first. A name whose newest is a marker has no record of its own.
//!
//! Invariants:
//! - What stands behind a name is put there by [`keep`] alone, which `name` calls for every change of a name, and
//!   taken away by it and by [`DeleteVersion`](delete).
//! - Numbers of a name only grow: the newest's is larger than those of all that are older.
//! - An older version has an id, bytes and a table of parts of its own: none of them is another name's or version's.
//! - A name has at most one version `null`.

mod delete;
mod get;
mod list;
mod setting;

pub(crate) use delete::DeleteVersion;
pub use list::{VersionPage, VersionQuery, VersionSummary};
