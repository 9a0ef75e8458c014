//! The tests of this crate over its public calls; docs/semantics.md names them.

mod backend;
mod branches;
mod checksums;
mod copies;
mod documents;
mod edits;
mod files;
mod listing;
mod multipart;
mod names;
mod objects;
mod races;
mod rights;
mod support;
