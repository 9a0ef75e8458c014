//! The tests of this crate over its public calls; docs/semantics.md names them.

mod attributes;
mod backend;
mod branches;
mod checksums;
mod collector;
mod compositions;
mod copies;
mod documents;
mod edits;
mod files;
mod identities;
mod identity;
mod listing;
mod multipart;
mod names;
mod objects;
mod prefixes;
mod races;
mod rights;
mod sealing;
mod search;
mod support;
mod transactions;
mod usage;
mod walks;
