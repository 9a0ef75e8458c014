//! The suite of `tests/suite` again, over the engine.

#[path = "../suite/accessed.rs"]
mod accessed;
#[path = "../suite/attributes.rs"]
mod attributes;
mod backend;
#[path = "../suite/branches.rs"]
mod branches;
#[path = "../suite/checksums.rs"]
mod checksums;
#[path = "../suite/collector.rs"]
mod collector;
#[path = "../suite/compositions.rs"]
mod compositions;
mod constant;
#[path = "../suite/copies.rs"]
mod copies;
mod cuts;
#[path = "../suite/decisions.rs"]
mod decisions;
mod durability;
#[path = "../suite/edits.rs"]
mod edits;
#[path = "../suite/files.rs"]
mod files;
#[path = "../suite/identities.rs"]
mod identities;
#[path = "../suite/identity.rs"]
mod identity;
#[path = "../suite/listing.rs"]
mod listing;
#[path = "../suite/multipart.rs"]
mod multipart;
#[path = "../suite/names.rs"]
mod names;
#[path = "../suite/objects.rs"]
mod objects;
mod pages;
#[path = "../suite/pin.rs"]
mod pin;
#[path = "../suite/prefixes.rs"]
mod prefixes;
#[path = "../suite/quotas.rs"]
mod quotas;
#[path = "../suite/races.rs"]
mod races;
#[path = "../suite/rights.rs"]
mod rights;
#[path = "../suite/sealing.rs"]
mod sealing;
#[path = "../suite/search.rs"]
mod search;
#[path = "../suite/settings.rs"]
mod settings;
#[path = "../suite/statements.rs"]
mod statements;
#[path = "../suite/support.rs"]
mod support;
#[path = "../suite/transactions.rs"]
mod transactions;
#[path = "../suite/usage.rs"]
mod usage;
#[path = "../suite/versions.rs"]
mod versions;
#[path = "../suite/walks.rs"]
mod walks;
