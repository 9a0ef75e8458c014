//! Calls on buckets and named objects.

pub mod buckets;
pub mod changes;
pub mod content;
pub mod credentials;
pub mod identity;
pub mod keys;
pub mod listing;
pub mod options;
pub mod rights;
pub mod search;
pub mod stream;
pub mod transact;
pub mod upload;
pub mod versions;
