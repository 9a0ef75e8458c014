//! A process that serves one store by the wire for the benchmark, until its input ends.

use super::contestant::failed;
use super::direct;
use crate::Error;
use koine_env::{OsRandom, Random};
use koine_kv::wire::{Key, Server, ServerOptions};
use std::io::{Read, Write};
use std::net::Ipv4Addr;
use std::path::PathBuf;

/// What it serves and where.
#[derive(Debug, Clone, clap::Args)]
pub struct ServerArguments {
    /// The socket
    #[arg(long, value_name = "PATH")]
    pub socket: PathBuf,
    /// The new file of the store; without one it is in memory
    #[arg(long, value_name = "PATH")]
    pub file: Option<PathBuf>,
    /// Values of so many bytes are given through shared memory
    #[arg(long, value_name = "BYTES")]
    pub shared_from: Option<usize>,
}

/// The hidden argument that makes this program such a process.
pub const SERVER: &str = "wire-server";

/// Serves until the input ends. Its one line of output is the port on loopback and the key for it, for who started it
/// alone.
pub fn serve(arguments: &ServerArguments) -> Result<(), Error> {
    let served = || -> Result<(), String> {
        let kv = direct::open(arguments.file.as_deref())?;
        let mut options = ServerOptions::default();
        options.shared_from = arguments.shared_from.unwrap_or(options.shared_from);
        let server = Server::new(kv.clone(), options);
        server.listen_unix(&arguments.socket).map_err(failed("listen"))?;
        let mut secret = [0; 32];
        OsRandom.fill(&mut secret);
        let key = Key::new(hex::encode(secret)).map_err(failed("make a key"))?;
        let address = server.listen_tcp((Ipv4Addr::LOCALHOST, 0).into(), key).map_err(failed("listen"))?;
        let mut output = std::io::stdout().lock();
        writeln!(output, "{} {}", address.port(), hex::encode(secret)).map_err(failed("tell the port"))?;
        output.flush().map_err(failed("tell the port"))?;
        let mut rest = Vec::new();
        std::io::stdin().lock().read_to_end(&mut rest).map_err(failed("wait for the end"))?;
        server.close();
        kv.close().map_err(failed("close the store"))
    };
    served().map_err(Error::Worker)
}
