//! The store for other processes: its socket, unless that is not wanted; TCP, where that is asked for.
//!
//! Invariants:
//! - The socket is its owner's alone; over TCP nobody gets in without the key.
//! - A key is read from a file, never from the command line, where every user of the machine could see it.

use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use clap::Args;
use koine::Store;
use koine::kv::wire::{Key, Server, ServerOptions};

use crate::failure::{Failure, Outcome};

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
    /// A file with the key that they have to know: at least 16 bytes, from a random source.
    #[arg(long, value_name = "FILE")]
    wire_key: Option<PathBuf>,
}

/// The doors of a store that is served.
pub struct Wire {
    server: Server,
    /// Where other processes find it.
    pub socket: Option<PathBuf>,
    /// Where other machines do.
    pub addresses: Vec<SocketAddr>,
}

impl Wire {
    /// Opens them.
    pub fn open(args: &WireArgs, store: &Store) -> Outcome<Wire> {
        let mut wire = Wire {
            server: Server::new(Arc::clone(store.kv()), ServerOptions::default()),
            socket: None,
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

    /// Closes them, and ends who came in by them.
    pub fn close(&self) {
        self.server.close();
    }
}

/// The key in a file; spaces and the end of the line around it do not count.
pub fn read_key(path: &Path) -> Outcome<Key> {
    let text = std::fs::read(path).map_err(|error| Failure::io(format!("cannot read {}", path.display()), &error))?;
    Key::new(text.trim_ascii()).map_err(|error| Failure::usage(format!("{}: {error}", path.display())))
}
