//! The suite's back end: memory, in a server whose objects are asked for over a socket.

use std::collections::HashMap;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex};

use koine_kv::wire::{ClientOptions, Server, ServerOptions};
use koine_kv::{Kv, MemoryKv, MemoryOptions};
use koine_object::{LogIn, ObjectVerbs, Objects, Password, RemoteObjects};

/// How often races are run.
pub const ROUNDS: usize = 5;
/// How many appends each of many writers makes.
pub const APPENDS: usize = 20;
/// How many cases a model is compared over.
pub const CASES: u32 = 20;
/// Whether space that comes back is free at once.
pub const FREES_AT_ONCE: bool = false;
/// Whether what is in memory is read without waiting.
pub const READS_NOW: bool = true;

/// An empty store.
pub fn kv() -> Arc<dyn Kv> {
    Arc::new(MemoryKv::new(MemoryOptions::default()))
}

/// What each server serves, by how its clients print; it goes on to the end of the tests.
static SERVED: Mutex<Option<HashMap<String, Served>>> = Mutex::new(None);

struct Served {
    objects: Objects,
    socket: PathBuf,
    _server: Server,
    _folder: tempfile::TempDir,
}

/// A server of these objects alone.
pub fn serve(objects: &Objects, socket: &Path) -> Server {
    let options = ServerOptions { connections_each_max: 64, ..ObjectVerbs::server_options() };
    let server = Server::of_verbs(Arc::new(ObjectVerbs::new(objects.clone())), options);
    server.listen_unix(socket).unwrap();
    server
}

/// The calls as tests make them: asked of a server, as root.
pub fn through(objects: Objects) -> Objects {
    let folder = tempfile::tempdir().unwrap();
    let socket = folder.path().join("store.objects.sock");
    let server = serve(&objects, &socket);
    let password = objects.identities().reset_root().unwrap().2;
    let remote = RemoteObjects::connect_unix(&socket, None, &ClientOptions::default()).unwrap();
    let life = std::time::Duration::from_secs(3600 * 24 * 30);
    let (user, login) = remote.log_in(&LogIn::Password("root".to_owned(), password, life)).unwrap();
    assert!(user == "root" && login.is_some());
    let calls = remote.objects();
    let served = Served { objects, socket, _server: server, _folder: folder };
    SERVED.lock().unwrap().get_or_insert_default().insert(format!("{calls:?}"), served);
    calls
}

/// The store whose calls these are.
pub fn below(objects: &Objects) -> Objects {
    let served = SERVED.lock().unwrap();
    let found = served.iter().flatten().find(|(name, _)| **name == format!("{objects:?}"));
    found.map_or_else(|| objects.clone(), |(_, served)| served.objects.clone())
}

/// A user of the store, as who has logged in over a connection of its own.
pub fn user_of(objects: &Objects, user: &str) -> Objects {
    let served = SERVED.lock().unwrap();
    let served = served.iter().flatten().find(|(name, _)| **name == format!("{objects:?}")).unwrap().1;
    objects.identities().set_password(user, "its own password").unwrap();
    let remote = RemoteObjects::connect_unix(&served.socket, None, &ClientOptions::default()).unwrap();
    let life = std::time::Duration::from_secs(3600 * 24 * 30);
    remote.log_in(&LogIn::Password(user.to_owned(), Password::new("its own password"), life)).unwrap();
    remote.objects()
}
