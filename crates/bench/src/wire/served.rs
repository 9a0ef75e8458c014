//! A store of ours behind the wire, in a process of its own, and connections to it.

use super::contestant::{Contestant, Outcome, StoreSetup, Transport, WireOperation, failed, is_same};
use super::direct::{SPACE, level};
use super::serve::SERVER;
use crate::Error;
use crate::process::ProcessId;
use bytes::Bytes;
use koine_engine::{Batch, Commit, Durability};
use koine_kv::wire::{ClientOptions, Key, Pending, WireKv};
use std::collections::VecDeque;
use std::io::{BufRead, BufReader};
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::sync::Arc;
use std::time::Duration;
use tempfile::TempDir;

/// From here on a value is made in shared memory, where there is some.
const LARGE_LEN: usize = 1 << 20;

/// A process that serves a store. Dropped, it ends when its last connection is dropped.
pub struct Served {
    process: Arc<ServerProcess>,
    durability: Durability,
}

struct ServerProcess {
    child: std::sync::Mutex<Child>,
    id: ProcessId,
    folder: TempDir,
    port: u16,
    key: Key,
}

impl Drop for ServerProcess {
    fn drop(&mut self) {
        let Ok(child) = self.child.get_mut() else { return };
        drop(child.stdin.take());
        let _gone = child.wait();
    }
}

impl Served {
    /// Starts one.
    pub fn start(store: StoreSetup, dir: &Path) -> Result<Served, Error> {
        Served::start_sharing(store, dir, None)
    }

    /// The same; values of so many bytes are given through shared memory.
    pub fn start_sharing(store: StoreSetup, dir: &Path, shared_from: Option<usize>) -> Result<Served, Error> {
        let folder = tempfile::Builder::new()
            .prefix("koine-bench-")
            .tempdir_in(dir)
            .map_err(Error::io(format!("cannot make a folder in {}", dir.display())))?;
        let program = std::env::current_exe().map_err(Error::io("cannot find this program's file"))?;
        let mut command = Command::new(program);
        command.args(["bench", SERVER, "--socket"]).arg(folder.path().join("wire.sock"));
        if store.is_file {
            command.arg("--file").arg(folder.path().join("store.koine"));
        }
        if let Some(length) = shared_from {
            command.arg("--shared-from").arg(length.to_string());
        }
        command.stdin(Stdio::piped()).stdout(Stdio::piped());
        let mut child = command.spawn().map_err(Error::io("cannot start a server"))?;
        let output = child.stdout.take().ok_or_else(|| Error::Worker("a server has no pipe".into()))?;
        let mut line = String::new();
        BufReader::new(output).read_line(&mut line).map_err(Error::io("a server does not start"))?;
        let told = line.trim().split_once(' ').and_then(|(port, key)| Some((port.parse().ok()?, Key::new(key).ok()?)));
        let (port, key) = told.ok_or_else(|| Error::Worker("a server has ended at its start".into()))?;
        let id = ProcessId(child.id());
        let process = ServerProcess { child: std::sync::Mutex::new(child), id, folder, port, key };
        Ok(Served { process: Arc::new(process), durability: level(store.durability) })
    }

    /// A connection by one way.
    pub fn connect(&self, way: Transport) -> Outcome<WireConnection> {
        self.connect_with(way, &ClientOptions::default())
    }

    /// The same, of a client that behaves so.
    pub fn connect_with(&self, way: Transport, options: &ClientOptions) -> Outcome<WireConnection> {
        let process = Arc::clone(&self.process);
        let kv = match way {
            Transport::Tcp => WireKv::connect_tcp(&format!("127.0.0.1:{}", process.port), &process.key, options),
            _ => WireKv::connect_unix(&process.folder.path().join("wire.sock"), options),
        };
        let kv = kv.map_err(failed("connect"))?;
        Ok(WireConnection { way, kv, durability: self.durability, begun: VecDeque::new(), process })
    }
}

enum PendingRequest {
    Put(Pending<Commit>),
    Get(Pending<Option<Bytes>>),
}

/// A connection.
pub struct WireConnection {
    way: Transport,
    kv: WireKv,
    durability: Durability,
    begun: VecDeque<PendingRequest>,
    process: Arc<ServerProcess>,
}

impl WireConnection {
    /// A long value, as a program that makes it where the server takes it from: only its ends are written anew.
    fn in_place(&self, value: &Bytes) -> Bytes {
        let buffer = if value.len() >= LARGE_LEN { self.kv.buffer(value.len()) } else { None };
        let Some(mut buffer) = buffer else { return value.clone() };
        if let (Some((first, _)), Some((_, last))) =
            (buffer.split_first_chunk_mut::<16>(), value.split_last_chunk::<16>())
        {
            first.copy_from_slice(value.get(..16).unwrap_or(last));
        }
        if let (Some((_, end)), Some((_, last))) = (buffer.split_last_chunk_mut::<16>(), value.split_last_chunk::<16>())
        {
            end.copy_from_slice(last);
        }
        buffer.freeze()
    }
}

impl Contestant for WireConnection {
    fn way(&self) -> Transport {
        self.way
    }

    fn begin(&mut self, work: WireOperation, keys: &[&Bytes], value: &Bytes) -> Outcome<()> {
        let _together = self.kv.gather();
        for key in keys {
            let key = Bytes::clone(key);
            self.begun.push_back(match work {
                WireOperation::Put => {
                    let batch = Batch::new().put(SPACE, key, self.in_place(value));
                    PendingRequest::Put(self.kv.begin(batch, self.durability).map_err(failed("put"))?)
                }
                WireOperation::Get => PendingRequest::Get(self.kv.begin_get(SPACE, key).map_err(failed("get"))?),
            });
        }
        Ok(())
    }

    fn finish(&mut self, value: &Bytes) -> Outcome<()> {
        match self.begun.pop_front().ok_or("nothing is under way")? {
            PendingRequest::Put(pending) => pending.wait().map(drop).map_err(failed("put")),
            PendingRequest::Get(pending) => match pending.wait().map_err(failed("get"))? {
                Some(got) if is_same(&got, value) => Ok(()),
                _ => Err("a value is missing or wrong".into()),
            },
        }
    }

    fn is_ready(&mut self) -> Outcome<bool> {
        Ok(match self.begun.front() {
            Some(PendingRequest::Put(pending)) => pending.is_ready(),
            Some(PendingRequest::Get(pending)) => pending.is_ready(),
            None => false,
        })
    }

    fn server_cpu(&self) -> Option<Duration> {
        self.process.id.cpu()
    }
}
