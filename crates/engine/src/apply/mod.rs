//! Applying a commit to the newest state: the same code for a submit and for recovery.
//!
//! - `edition`: the working copy of the state that one commit changes.
//! - `branch`: clones, snapshots and dropped spaces; `reap` takes down what was dropped.
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
pub mod edition;
pub(crate) mod frozen;
mod operation;
mod pieces;
mod reap;
pub mod reference;
mod steps;
mod writes;

pub use edition::{Applied, Counters, Edition};
