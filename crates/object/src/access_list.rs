//! Access lists: who may read or write a bucket or an object beside those whose it is.
//!
//! Invariant: a list gives and never takes; what it does not know it refuses.

use crate::error::{Error, ErrorKind, Result};
use crate::fields::Reader;

/// The most grants of one list, as on AWS.
pub const GRANTS_MAX: usize = 100;

/// To whom something is granted.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum Grantee {
    /// The user of this id.
    User(u64),
    /// Members of the group of this id.
    Group(u64),
    /// Every user of the store.
    EveryUser,
    /// Everybody, also without an identity, where public access is on.
    Everyone,
}

/// One line of an access list.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Grant {
    /// To whom.
    pub to: Grantee,
    /// What: [`Grant::READ`] and the others, together.
    pub rights: u32,
}

impl Grant {
    /// Of a bucket: listing it. Of an object: reading it.
    pub const READ: u32 = 1;
    /// Of a bucket: putting and deleting in it. Of an object: editing it.
    pub const WRITE: u32 = 2;
    /// Reading the list.
    pub const READ_LIST: u32 = 4;
    /// Setting the list.
    pub const WRITE_LIST: u32 = 8;
    const ALL: u32 = 15;
}

/// An access list; at most [`GRANTS_MAX`] grants.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub struct AccessList {
    grants: Vec<Grant>,
}

impl AccessList {
    /// A list of these grants.
    pub fn new(grants: Vec<Grant>) -> Result<Self> {
        if grants.len() > GRANTS_MAX {
            let message = format!("{} grants were given; {GRANTS_MAX} are allowed", grants.len());
            return Err(Error::new(ErrorKind::InvalidArgument, message));
        }
        if grants.iter().any(|grant| grant.rights & !Grant::ALL != 0) {
            return Err(Error::new(ErrorKind::InvalidArgument, "a grant has a right that this program does not know"));
        }
        Ok(AccessList { grants })
    }

    /// Its grants in order.
    pub fn grants(&self) -> &[Grant] {
        &self.grants
    }

    /// Whether it grants nothing.
    pub fn is_empty(&self) -> bool {
        self.grants.is_empty()
    }

    pub(crate) fn encode(&self) -> Vec<u8> {
        let mut bytes = Vec::with_capacity(self.grants.len() * 13);
        for grant in &self.grants {
            let (kind, id) = match grant.to {
                Grantee::User(id) => (1, id),
                Grantee::Group(id) => (2, id),
                Grantee::EveryUser => (3, 0),
                Grantee::Everyone => (4, 0),
            };
            bytes.push(kind);
            bytes.extend_from_slice(&id.to_le_bytes());
            bytes.extend_from_slice(&grant.rights.to_le_bytes());
        }
        bytes
    }

    pub(crate) fn decode(bytes: &[u8]) -> Result<Self> {
        let mut reader = Reader::new(bytes);
        let mut grants = Vec::new();
        while !reader.is_empty() {
            let (kind, id, rights) = (reader.byte()?, reader.u64()?, reader.u32()?);
            let to = match kind {
                1 => Grantee::User(id),
                2 => Grantee::Group(id),
                3 if id == 0 => Grantee::EveryUser,
                4 if id == 0 => Grantee::Everyone,
                _ => return Err(Error::damaged(format!("an access list grants to kind {kind}: use a newer program"))),
            };
            grants.push(Grant { to, rights });
        }
        AccessList::new(grants).map_err(|error| Error::damaged(error.message().to_owned()))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_list_has_the_bytes_of_the_document() {
        let list = AccessList::new(vec![Grant { to: Grantee::User(7), rights: Grant::READ | Grant::WRITE }]).unwrap();
        let bytes = [1, 7, 0, 0, 0, 0, 0, 0, 0, 3, 0, 0, 0];
        assert_eq!(list.encode(), bytes);
        assert_eq!(AccessList::decode(&bytes).unwrap(), list);
        for (at, wrong) in [(0, 5), (0, 0), (9, 16), (12, 1)] {
            let mut bytes = bytes;
            bytes[at] = wrong;
            assert_eq!(AccessList::decode(&bytes).unwrap_err().kind(), ErrorKind::Damaged);
        }
        assert_eq!(AccessList::decode(&bytes.repeat(101)).unwrap_err().kind(), ErrorKind::Damaged);
    }
}
