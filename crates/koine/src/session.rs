//! A store as a library's caller has it: its buckets and objects, wherever the store is.
//!
//! Invariants:
//! - A store that another process holds is reached through that process, where it listens; else this one is its owner.
//! - Who logs in, and whom the store does not belong to, has its objects alone, with the rights of that user.
//! - What a session offers is the same either way.

use std::fmt;
use std::ops::Deref;

use koine_object::Objects;

use crate::error::Result;
use crate::place::Place;
use crate::store::{OpenOptions, Store, open};

/// An open store and its objects.
///
/// It has the calls of [`Objects`]. An owner's session runs them itself, over the keys and values of its store, or of the
/// process that holds it; those of others are asked of that process, which runs them with their rights.
pub struct Session {
    store: Store,
}

impl Session {
    /// Opens the store at a path or URL, as [`open`] does; as a client of the process that holds it, where one does.
    pub fn open(place: &str, options: &OpenOptions) -> Result<Self> {
        let store = open(place, &OpenOptions { join: true, ..options.clone() })?;
        Ok(Session { store })
    }

    /// Where the store is.
    pub fn place(&self) -> &Place {
        self.store.place()
    }

    /// Whether this process holds the store, and not another that is asked.
    pub fn is_owner(&self) -> bool {
        self.store.is_owner()
    }

    /// What its owner should know of how it was opened.
    pub fn warning(&self) -> Option<&str> {
        self.store.warning()
    }

    /// Finishes what is under way, makes it durable and gives the store back.
    pub fn close(&self) -> Result<()> {
        self.store.close()
    }
}

impl Deref for Session {
    type Target = Objects;

    fn deref(&self) -> &Objects {
        self.store.objects()
    }
}

impl fmt::Debug for Session {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Session({})", self.place())
    }
}

#[cfg(test)]
mod tests {
    use std::io::{Read, Write};
    use std::sync::Arc;

    use koine_kv::wire::{Server, ServerOptions};
    use koine_object::{FileMode, ObjectName, PutOptions};

    use super::*;
    use crate::socket_of;

    #[test]
    fn a_store_that_is_held_is_reached_through_its_owner() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("store.koine");
        let place = path.display().to_string();
        let options = OpenOptions { create: true, size_max: Some(32 << 20), ..OpenOptions::default() };
        let owner = Session::open(&place, &options).unwrap();
        assert!(Session::open(&place, &OpenOptions::default()).unwrap_err().is_held());
        let server = Server::new(Arc::clone(owner.kv()), ServerOptions::default());
        server.listen_unix(&socket_of(&path).unwrap()).unwrap();
        let client = Session::open(&place, &OpenOptions::default()).unwrap();
        assert_eq!((owner.is_owner(), client.is_owner()), (true, false));
        owner.create_bucket("bucket").wait().unwrap();
        let name = ObjectName::new("bucket", "file");
        let mut file = client.open_file(name, FileMode::Create, PutOptions::default()).unwrap();
        file.write_all(b"some bytes").unwrap();
        file.close().unwrap();
        let mut text = String::new();
        owner.open_file(name, FileMode::Read, PutOptions::default()).unwrap().read_to_string(&mut text).unwrap();
        assert_eq!(text, "some bytes");
        client.close().unwrap();
        server.close();
        owner.close().unwrap();
    }
}
