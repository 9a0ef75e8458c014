//! The store for other processes: its socket, unless that is not wanted; TCP, where that is asked for.
//!
//! Invariants:
//! - The socket is its owner's alone; over TCP nobody gets in without the key. The socket for others has the verbs of
//!   objects alone, for who is a user of the store or logs in as one.
//! - A key is read from a file, never from the command line, where every user of the machine could see it, and from no file that others
//!   may read.

use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use clap::Args;
use koine::Store;
use koine::kv::wire::{Handler, Server, ServerOptions};
use koine::object::ObjectVerbs;

use crate::failure::{Failure, Outcome};
use crate::secret::read_key;

/// How other processes reach the store.
#[derive(Args, Debug)]
pub struct WireArgs {
    /// The socket for other processes of this user; `none` makes none [default: STORE.sock; for a device in
    /// $XDG_RUNTIME_DIR or /run].
    #[arg(long, value_name = "PATH")]
    socket: Option<PathBuf>,
    /// Where other machines reach keys and values; needs --wire-key. The traffic is not encrypted.
    #[arg(long, value_name = "ADDRESS", requires = "wire_key", value_delimiter = ',')]
    wire: Vec<SocketAddr>,
    /// A file with the key that they have to know: at least 16 bytes, from a random source. Its owner alone may read it.
    #[arg(long, value_name = "FILE")]
    wire_key: Option<PathBuf>,
}

/// How other users reach its objects.
#[derive(Args, Debug)]
pub struct OthersArgs {
    /// The socket for other users of this machine: objects, with the rights of who logs in; `none` makes none [default:
    /// STORE.objects.sock; for a device in $XDG_RUNTIME_DIR or /run].
    #[arg(long, value_name = "PATH")]
    objects_socket: Option<PathBuf>,
}

/// The doors of a store that is served.
pub struct Wire {
    server: Server,
    others: Option<Server>,
    /// Where other processes find it.
    pub socket: Option<PathBuf>,
    /// Where other users do.
    pub objects_socket: Option<PathBuf>,
    /// Where other machines do.
    pub addresses: Vec<SocketAddr>,
}

impl Wire {
    /// Opens them.
    pub fn open(args: &WireArgs, others: Option<&OthersArgs>, store: &Store) -> Outcome<Wire> {
        let verbs: Option<Arc<dyn Handler>> =
            others.map(|_| Arc::new(ObjectVerbs::new(store.objects().clone())) as Arc<dyn Handler>);
        // Who knows the key of TCP may log in as a user too.
        let options = ServerOptions { handler: verbs.clone(), ..ServerOptions::default() };
        let mut wire = Wire {
            server: Server::new(Arc::clone(store.kv()), options),
            others: verbs.map(|verbs| Server::of_verbs(verbs, ObjectVerbs::server_options())),
            socket: None,
            objects_socket: None,
            addresses: Vec::new(),
        };
        let none = Path::new("none");
        match args.socket.as_deref() {
            Some(path) if path == none => {}
            Some(path) => wire.listen(path).map_err(|error| Failure::failed(error.to_string()))?,
            None => {
                if let Some(path) = store.place().path().and_then(koine::socket_of)
                    && let Err(error) = wire.listen(&path)
                {
                    tracing::warn!("other processes cannot reach the store while it is served: {error}; see --socket");
                }
            }
        }
        if let Some(others) = others {
            wire.listen_for_others(others, store)?;
        }
        if let Some(key) = args.wire_key.as_deref().map(read_key).transpose()? {
            for address in &args.wire {
                let bound = wire.server.listen_tcp(*address, key.clone());
                wire.addresses.push(bound.map_err(|error| Failure::failed(error.to_string()))?);
            }
        }
        Ok(wire)
    }

    fn listen(&mut self, path: &Path) -> koine::kv::Result<()> {
        self.server.listen_unix(path)?;
        self.socket = Some(path.to_owned());
        Ok(())
    }

    fn listen_for_others(&mut self, args: &OthersArgs, store: &Store) -> Outcome {
        let found = store.place().path().and_then(koine::objects_socket_of);
        let (path, must) = match args.objects_socket.as_deref() {
            Some(path) if path == Path::new("none") => return Ok(()),
            Some(path) => (Some(path.to_owned()), true),
            None => (found, false),
        };
        let (Some(path), Some(server)) = (path, &self.others) else { return Ok(()) };
        match server.listen_unix(&path) {
            Ok(()) => self.objects_socket = Some(path),
            Err(error) if must => return Err(Failure::failed(error.to_string())),
            Err(error) => {
                tracing::warn!("other users cannot reach the store while it is served: {error}; see --objects-socket");
            }
        }
        Ok(())
    }

    /// Closes them, and ends who came in by them.
    pub fn close(&self) {
        self.others.iter().for_each(Server::close);
        self.server.close();
    }
}
