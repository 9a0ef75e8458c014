//! Applying a commit to the newest state: the same code for a submit and for recovery.
//!
//! - `write_transaction`: the working copy of the state that one commit changes.
//! - `branch`: clones, snapshots and dropped spaces; `reclaim` takes down what was dropped.
//! - `condition`: whether a batch's conditions hold.
//! - `deletes`: deletions that stand one after the other.
//! - `frozen`: blobs that many values share under one name, and what becomes of them.
//! - `operation`: each operation of a batch.
//! - `pieces`: cutting, sharing and joining the pieces of values.
//! - `reference`: counts of blocks that more than one piece names.
//! - `steps`: all of a batch, in order.
//! - `writes`: writes of one value that stand one after the other.

pub(crate) mod branch;
pub mod condition;
mod deletes;
pub(crate) mod frozen;
mod operation;
mod pieces;
mod reclaim;
pub mod reference;
mod steps;
pub mod write_transaction;
mod writes;

pub use write_transaction::{Applied, Counters, WriteTransaction};
