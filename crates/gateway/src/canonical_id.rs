//! Canonical user ids: how S3 names the users of a store.
//!
//! Invariants:
//! - Root has one constant id; the id of every other user ends in its number.

use s3s::S3Error;

use crate::errors;

/// The canonical id of root.
pub const ROOT_ID: &str = "6b6f696e652d726f6f742d6f776e65722d6f662d74686973732d73746f72652d31";

/// The canonical id of a user: 64 hexadecimal digits that end in its id; of root the one that it has always had.
pub fn of_user(user: u64) -> String {
    if user == 0 { ROOT_ID.to_owned() } else { format!("{user:064x}") }
}

/// The user of a canonical id, or of the 16 digits that `koine user info` tells.
pub fn user_of(id: &str) -> Result<u64, S3Error> {
    let short = id.strip_prefix(&"0".repeat(48)).filter(|rest| rest.len() == 16).unwrap_or(id);
    let digits = short.len() == 16 && short.bytes().all(|byte| byte.is_ascii_hexdigit());
    match u64::from_str_radix(short, 16) {
        _ if id == ROOT_ID => Ok(0),
        Ok(user) if digits && user != 0 => Ok(user),
        _ => Err(errors::invalid_argument("Invalid id: it is no canonical user id of this store.")),
    }
}
