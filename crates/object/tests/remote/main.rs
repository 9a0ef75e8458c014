//! The suite of `tests/suite` again, over the wire: the calls are asked of a server of object verbs, as root. What is asked
//! of the library beside the calls of `Objects`, and what no verb is for yet, is not here.

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
#[path = "../suite/edits.rs"]
mod edits;
#[path = "../suite/files.rs"]
mod files;
#[path = "../suite/multipart.rs"]
mod multipart;
#[path = "../suite/names.rs"]
mod names;
#[path = "../suite/objects.rs"]
mod objects;
mod peers;
#[path = "../suite/prefixes.rs"]
mod prefixes;
#[path = "../suite/races.rs"]
mod races;
#[allow(dead_code, reason = "the rights of users are tested in peers.rs")]
#[path = "../suite/support.rs"]
mod support;
#[path = "../suite/transactions.rs"]
mod transactions;
#[path = "../suite/usage.rs"]
mod usage;
#[path = "../suite/walks.rs"]
mod walks;
