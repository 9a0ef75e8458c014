//! What a store and an object tell of themselves.

use std::sync::Arc;

use crate::batch::Version;

/// An object, at the moment of the call.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ObjectStatus {
    /// Its number.
    pub number: u64,
    /// Its size in bytes: the end of its last byte, holes included.
    pub size: u64,
    /// Bytes of the device that its data takes, in whole blocks, data not placed yet included. Holes take none, nor
    /// does what lies in the index itself (objects up to 1 KiB).
    pub allocated: u64,
    /// Bytes that are set aside for what is written to it for the first time, and for the index of that.
    pub reserved: u64,
    /// The commit that last changed it.
    pub version: Version,
    /// The store's name: its path where it has one.
    pub store: Arc<str>,
}

/// A store, at the moment of the call.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct StoreStatus {
    /// Its name: its path where it has one.
    pub store: String,
    /// Drawn when it was formatted.
    pub store_id: u64,
    /// The block size that it was made with, in bytes: the unit in which space for objects is given out.
    pub block_len: u64,
    /// How many objects there are.
    pub objects: u64,
    /// How many are open: handles, not objects.
    pub open: u64,
    /// The most objects that there may be; `None`: as many as fit.
    pub limit: Option<u64>,
    /// How many can still be created as far as the limit goes; `None` without a limit.
    pub possible: Option<u64>,
    /// The store's length in bytes.
    pub total: u64,
    /// Bytes used by anything, space waiting to be reused included.
    pub used: u64,
    /// Bytes that new data can get at this length.
    pub free: u64,
    /// Up to how many bytes the store may grow; `None`: as far as the medium goes.
    pub total_max: Option<u64>,
}
