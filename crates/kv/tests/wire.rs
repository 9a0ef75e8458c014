//! The conformance suite through the wire: over a Unix socket and over TCP, on a store in memory and on the engine.

use std::path::Path;
use std::sync::Arc;

use koine_engine::device::MemoryDevice;
use koine_engine::{Engine, FormatOptions, Options};
use koine_env::OsRandom;
use koine_kv::conformance::{Opened, Suite};
use koine_kv::wire::{ClientOptions, Key, Server, ServerOptions, WireKv};
use koine_kv::{EngineKv, Kv, MemoryKv};
use parking_lot::Mutex;

fn connect(socket: &Path) -> Arc<dyn Kv> {
    Arc::new(WireKv::connect_unix(socket, &ClientOptions::default()).expect("a connection"))
}

/// A store in memory behind a Unix socket; to open it again is to connect again.
mod unix_memory {
    use super::*;

    fn open_new() -> Opened {
        let folder = tempfile::tempdir().expect("a folder");
        let socket = folder.path().join("store.sock");
        let server = Server::new(Arc::new(MemoryKv::default()), ServerOptions::default());
        server.listen_unix(&socket).expect("a socket");
        let reopen = move || {
            let _ = (&folder, &server);
            connect(&socket)
        };
        Opened { kv: reopen(), reopen: Some(Arc::new(reopen)) }
    }

    koine_kv::conformance_tests!(Suite { open: open_new });
}

/// A store in memory behind TCP and a key.
mod tcp_memory {
    use super::*;

    fn open_new() -> Opened {
        let key = Key::new([7; 32]).expect("a key");
        let server = Server::new(Arc::new(MemoryKv::default()), ServerOptions::default());
        let address = server.listen_tcp(([127, 0, 0, 1], 0).into(), key.clone()).expect("a port");
        let reopen = move || -> Arc<dyn Kv> {
            let _ = &server;
            let connected = WireKv::connect_tcp(&address.to_string(), &key, &ClientOptions::default());
            Arc::new(connected.expect("a connection"))
        };
        Opened { kv: reopen(), reopen: Some(Arc::new(reopen)) }
    }

    koine_kv::conformance_tests!(Suite { open: open_new });
}

/// An engine behind a Unix socket; to open it again its server ends, and another one opens what is on the device.
mod unix_engine {
    use super::*;

    fn open_new() -> Opened {
        let medium = Arc::new(MemoryDevice::growable(64 << 20, 1 << 30));
        Engine::format(medium.as_ref(), FormatOptions::default(), &OsRandom).expect("format");
        let folder = tempfile::tempdir().expect("a folder");
        let socket = folder.path().join("store.sock");
        let running: Mutex<Option<(Server, Arc<dyn Kv>)>> = Mutex::new(None);
        let reopen = move || {
            let _ = &folder;
            let mut running = running.lock();
            if let Some((server, kv)) = running.take() {
                server.close();
                kv.close().expect("close");
                medium.reopen();
            }
            let kv: Arc<dyn Kv> = Arc::new(EngineKv::open(medium.clone(), Options::default()).expect("open"));
            let server = Server::new(Arc::clone(&kv), ServerOptions::default());
            server.listen_unix(&socket).expect("a socket");
            *running = Some((server, kv));
            connect(&socket)
        };
        Opened { kv: reopen(), reopen: Some(Arc::new(reopen)) }
    }

    koine_kv::conformance_tests!(Suite { open: open_new });
}

/// Every value, however short, through shared memory, which is so small that it is full now and then.
mod shared_memory {
    use super::*;

    fn open_new() -> Opened {
        let folder = tempfile::tempdir().expect("a folder");
        let socket = folder.path().join("store.sock");
        let options = ServerOptions { shared_from: 1, ..ServerOptions::default() };
        let server = Server::new(Arc::new(MemoryKv::default()), options);
        server.listen_unix(&socket).expect("a socket");
        let reopen = move || -> Arc<dyn Kv> {
            let _ = (&folder, &server);
            let options = ClientOptions { shared_from: 1, shared_len: 3 << 20, ..ClientOptions::default() };
            Arc::new(WireKv::connect_unix(&socket, &options).expect("a connection"))
        };
        Opened { kv: reopen(), reopen: Some(Arc::new(reopen)) }
    }

    koine_kv::conformance_tests!(Suite { open: open_new });
}

/// A socket without shared memory.
mod no_shared_memory {
    use super::*;

    fn open_new() -> Opened {
        let folder = tempfile::tempdir().expect("a folder");
        let socket = folder.path().join("store.sock");
        let server = Server::new(Arc::new(MemoryKv::default()), ServerOptions::default());
        server.listen_unix(&socket).expect("a socket");
        let reopen = move || -> Arc<dyn Kv> {
            let _ = (&folder, &server);
            let options = ClientOptions { shared_len: 0, ..ClientOptions::default() };
            Arc::new(WireKv::connect_unix(&socket, &options).expect("a connection"))
        };
        Opened { kv: reopen(), reopen: Some(Arc::new(reopen)) }
    }

    koine_kv::conformance_tests!(Suite { open: open_new });
}
