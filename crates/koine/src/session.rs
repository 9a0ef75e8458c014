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
        let server = Server::new(Arc::clone(owner.kv().unwrap()), ServerOptions::default());
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

    /// A store with an object of a mebibyte, its owner, and a server of it.
    fn shared(options: ServerOptions) -> (tempfile::TempDir, Session, Server, Session) {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("store.koine");
        let place = path.display().to_string();
        let made = OpenOptions { create: true, size_max: Some(64 << 20), ..OpenOptions::default() };
        let owner = Session::open(&place, &made).unwrap();
        let server = Server::new(Arc::clone(owner.kv().unwrap()), options);
        server.listen_unix(&socket_of(&path).unwrap()).unwrap();
        let client = Session::open(&place, &OpenOptions::default()).unwrap();
        owner.create_bucket("bucket").wait().unwrap();
        put(&owner, "long");
        (folder, owner, server, client)
    }

    fn put(objects: &Objects, key: &str) {
        let mut writer = objects.put("bucket", key, PutOptions::default()).unwrap();
        writer.write(&vec![7; 1 << 20]).unwrap();
        writer.finish(&koine_object::Expected::none()).wait().unwrap();
    }

    #[test]
    fn files_that_stay_open_leave_room_for_every_other_call() {
        let options = ServerOptions { handles_max: 64, ..ServerOptions::default() };
        let (_folder, owner, server, client) = shared(options);
        let name = ObjectName::new("bucket", "long");
        let open = || client.open_file(name, FileMode::Read, PutOptions::default());
        let mut files = Vec::new();
        let error = loop {
            match open() {
                Ok(file) => files.push(file),
                Err(error) => break error,
            }
        };
        assert_eq!((error.kind(), files.len()), (koine_object::ErrorKind::Busy, 56), "{error}");
        assert!(error.message().contains("close some"), "{error}");
        for _ in 0..20 {
            assert!(open().is_err() && client.pin().is_err());
            assert_eq!(client.get("bucket", "long").unwrap().bytes(0, 1 << 20).unwrap().len(), 1 << 20);
            put(&client, "other");
            assert_eq!(
                client
                    .list("bucket", &koine_object::ListQuery { limit: 10, ..koine_object::ListQuery::default() })
                    .unwrap()
                    .objects
                    .len(),
                2
            );
            client.delete("bucket", "other", koine_object::DeleteOptions::default()).wait().unwrap();
        }
        let mut bytes = [0; 10];
        files.iter_mut().for_each(|file| file.read_exact(&mut bytes).unwrap());
        files.pop();
        assert!(open().is_ok());
        drop(files);
        client.close().unwrap();
        server.close();
        owner.close().unwrap();
    }

    #[test]
    fn a_session_goes_on_after_the_process_that_has_the_store_was_started_again() {
        let (folder, owner, server, client) = shared(ServerOptions::default());
        let path = folder.path().join("store.koine");
        let reader = client.get("bucket", "long").unwrap();
        server.close();
        drop(server);
        owner.close().unwrap();
        drop(owner);
        let again = std::thread::scope(|scope| {
            // The first call finds nobody there, and waits.
            let listed = scope.spawn(|| {
                client.list("bucket", &koine_object::ListQuery { limit: 10, ..koine_object::ListQuery::default() })
            });
            let owner = Session::open(&path.display().to_string(), &OpenOptions::default()).unwrap();
            let server = Server::new(Arc::clone(owner.kv().unwrap()), ServerOptions::default());
            server.listen_unix(&socket_of(&path).unwrap()).unwrap();
            assert_eq!(listed.join().unwrap().unwrap().objects.len(), 1);
            (owner, server)
        });
        put(&client, "other");
        assert_eq!(client.get("bucket", "other").unwrap().info().size, 1 << 20);
        let error = reader.bytes(0, 10).unwrap_err();
        assert!(
            error.kind() == koine_object::ErrorKind::Expired && error.message().contains("open it again"),
            "{error}"
        );
        client.close().unwrap();
        again.1.close();
        again.0.close().unwrap();
    }
}
