//! The door over a store in memory, by requests written byte for byte and signed by code of its own.

mod actions;
mod answers;
mod bodies;
mod compatibility;
mod extremes;
mod fairness;
mod keys;
mod limits;
mod owners;
mod signatures;
mod subresources;
mod support;
mod transfers;
