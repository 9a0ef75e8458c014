//! The suite of `tests/suite` again, over the wire: the calls are asked of a server of object verbs, as root. What is asked
//! of the library beside the calls of `Objects`, and what no verb is for, is not here.

#[path = "../suite/attributes.rs"]
mod attributes;
mod backend;
#[path = "../suite/branches.rs"]
mod branches;
#[path = "../suite/checksums.rs"]
mod checksums;
#[path = "../suite/compositions.rs"]
mod compositions;
#[path = "../suite/copies.rs"]
mod copies;
#[path = "../suite/decisions.rs"]
mod decisions;
#[path = "../suite/edits.rs"]
mod edits;
#[path = "../suite/extremes.rs"]
mod extremes;
#[path = "../suite/files.rs"]
mod files;
#[path = "../suite/listing.rs"]
mod listing;
mod loss;
mod messages;
#[path = "../suite/multipart.rs"]
mod multipart;
#[path = "../suite/names.rs"]
mod names;
#[path = "../suite/objects.rs"]
mod objects;
mod peers;
#[path = "../suite/pin.rs"]
mod pin;
#[path = "../suite/prefixes.rs"]
mod prefixes;
#[path = "../suite/quotas.rs"]
mod quotas;
#[path = "../suite/races.rs"]
mod races;
#[path = "../suite/search.rs"]
mod search;
#[path = "../suite/settings.rs"]
mod settings;
#[allow(dead_code, reason = "not all modules of the suite are here")]
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
