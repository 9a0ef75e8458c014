//! `koine._koine`: the part of the Python package that is written in Rust. What users see of it is told by the stubs
//! beside the package (`python/koine/_koine.pyi`).
//!
//! Invariants:
//! - The interpreter lock is released in every call that may wait, and no lock of ours is waited for while it is held.
//! - Bytes go between the caller's memory and the store without a copy in between.
//! - `unsafe` stands in `buffers` alone, where the caller's memory is reached.

// Changes and queries of the object library grow; what a call does not set of them is as by default.
#![allow(clippy::needless_update)]

#[macro_use]
mod docs;

mod arguments;
mod bucket;
mod bucket_edits;
mod bucket_keeping;
mod buffers;
mod edits;
mod errors;
mod file;
mod identity;
mod info;
mod listing;
mod patience;
mod search;
mod session;
mod store;
mod transact;
mod transact_bucket;
mod transfer;
mod upload;
mod versions;

use pyo3::prelude::*;

/// The extension module.
#[pymodule]
mod _koine {
    #[pymodule_export]
    use super::bucket::Bucket;
    #[pymodule_export]
    use super::file::RawFile;
    #[pymodule_export]
    use super::identity::{Decision, GroupInfo, UserInfo};
    #[pymodule_export]
    use super::info::{BucketInfo, ObjectInfo, ObjectSummary, PartInfo, Prefix, SnapshotInfo};
    #[pymodule_export]
    use super::listing::{BucketListing, ListPage, Listing};
    #[pymodule_export]
    use super::search::{IndexInfo, Search};
    #[pymodule_export]
    use super::session::{Session, connect};
    #[pymodule_export]
    use super::transact::Transaction;
    #[pymodule_export]
    use super::transact_bucket::TransactionBucket;
    #[pymodule_export]
    use super::upload::Upload;
    #[pymodule_export]
    use super::versions::{Version, VersionListing};

    use pyo3::prelude::*;

    #[pymodule_init]
    fn init(module: &Bound<'_, PyModule>) -> PyResult<()> {
        module.add("__version__", env!("CARGO_PKG_VERSION"))
    }
}
