//! The servers that are compared: started here on fresh stores, or given by their address.
//!
//! A server started here is stopped by its process id when it is dropped, and its store goes with it. All listen on
//! loopback addresses with ports that the system chose.

use super::client::Client;
use super::reference;
use super::sign::Credentials;
use crate::Error;
use crate::process::ProcessId;
use crate::report::OURS;
use rustix::process::{Pid, Signal, kill_process};
use std::fs::{self, File};
use std::net::{Ipv4Addr, SocketAddr, TcpListener, ToSocketAddrs};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::thread::sleep;
use std::time::{Duration, Instant};
use tempfile::TempDir;

/// A server that does not answer for so long has not started.
const START_LIMIT: Duration = Duration::from_secs(60);
/// A server that is still there so long after SIGTERM is killed.
const STOP_LIMIT: Duration = Duration::from_secs(20);

/// A server under measurement.
#[derive(Debug)]
pub struct Server {
    /// Its name in reports.
    pub name: String,
    /// How to reach it.
    pub client: Client,
    /// Its process, where it is known.
    pub process: Option<ProcessId>,
    /// What holds it when it was started here.
    started: Option<Started>,
}

/// A process and the folder that holds its store and its output. Dropping it stops the one and removes the other.
#[derive(Debug)]
struct Started {
    command: Command,
    child: Child,
    folder: TempDir,
}

impl Drop for Started {
    fn drop(&mut self) {
        self.stop();
    }
}

impl Started {
    fn stop(&mut self) {
        if let Some(pid) = i32::try_from(self.child.id()).ok().and_then(Pid::from_raw) {
            let _already_gone = kill_process(pid, Signal::TERM);
        }
        let begin = Instant::now();
        while begin.elapsed() < STOP_LIMIT {
            match self.child.try_wait() {
                Ok(None) => sleep(Duration::from_millis(20)),
                Ok(Some(_)) | Err(_) => return,
            }
        }
        let _already_gone = self.child.kill();
        let _reaped = self.child.wait();
    }
}

/// What a start needs: where the store goes, which ports are free, who may ask.
pub struct ServerStart<'a> {
    /// An empty folder.
    pub folder: &'a Path,
    /// Ports that were free a moment ago.
    pub ports: [u16; 3],
    /// The key that the server is to know; a server that makes its own puts it here.
    pub credentials: Credentials,
}

impl Server {
    /// Starts Koine: this very program, so that what was built is what is measured. `flags` go to `koine serve`.
    pub fn start_ours(disk: &Path, flags: &[&str]) -> Result<Server, Error> {
        let program = std::env::current_exe().map_err(Error::io("cannot find this program's file"))?;
        Server::start(OURS, disk, |start| {
            let mut command = Command::new(&program);
            command.arg("serve").arg(start.folder.join("store.koine"));
            command.arg("--s3").arg(format!("127.0.0.1:{}", start.ports[0])).args(flags);
            command.env("KOINE_ROOT_USER", &start.credentials.access_key);
            command.env("KOINE_ROOT_PASSWORD", &start.credentials.secret_key);
            Ok(command)
        })
    }

    /// Starts a server in a folder of its own below `disk` and waits until it takes requests.
    pub fn start(
        name: &str,
        disk: &Path,
        command: impl FnOnce(&mut ServerStart<'_>) -> Result<Command, Error>,
    ) -> Result<Server, Error> {
        let folder = tempfile::Builder::new()
            .prefix(&format!("koine-bench-{name}-"))
            .tempdir_in(disk)
            .map_err(Error::io(format!("cannot make a folder below {}", disk.display())))?;
        let mut start = ServerStart { folder: folder.path(), ports: free_ports()?, credentials: fresh_credentials() };
        let mut command = command(&mut start)?;
        let ServerStart { ports, credentials, .. } = start;
        let log = folder.path().join("output.log");
        let output = File::create(&log).map_err(Error::io(format!("cannot create {}", log.display())))?;
        let errors = output.try_clone().map_err(Error::io("cannot share the output file"))?;
        command.stdin(Stdio::null()).stdout(output).stderr(errors);
        let child = command.spawn().map_err(Error::io(format!("cannot start {name}")))?;
        let address = SocketAddr::from((Ipv4Addr::LOCALHOST, ports[0]));
        let mut server = Server {
            name: name.to_owned(),
            client: Client { address, host: address.to_string(), credentials },
            process: Some(ProcessId(child.id())),
            started: Some(Started { command, child, folder }),
        };
        let waited = server.wait_ready().and_then(|()| reference::prepare(&mut server));
        match waited {
            Ok(()) => Ok(server),
            Err(error) => Err(Error::Start { name: name.to_owned(), reason: error.to_string(), log: tail(&log) }),
        }
    }

    /// A server that somebody else runs: `NAME=URL` or `NAME=URL,PID`.
    pub fn parse(text: &str, credentials: &Credentials) -> Result<Server, Error> {
        let wrong = |what: &str| Error::Argument(format!("--endpoint {text}: {what}; want NAME=URL,PID"));
        let (name, rest) = text.split_once('=').ok_or_else(|| wrong("there is no name"))?;
        let (url, process) = match rest.split_once(',') {
            Some((url, pid)) => (url, Some(ProcessId(pid.parse().map_err(|_| wrong("the process id is no number"))?))),
            None => (rest, None),
        };
        let host = url
            .strip_prefix("http://")
            .ok_or_else(|| wrong("the URL must begin with http:// (TLS would measure the client)"))?
            .trim_end_matches('/');
        let address = if host.contains(':') { host.to_owned() } else { format!("{host}:80") };
        let address = address
            .to_socket_addrs()
            .ok()
            .and_then(|mut found| found.next())
            .ok_or_else(|| wrong("the host is not known"))?;
        if process.is_some_and(|process| process.cpu().is_none()) {
            return Err(wrong("there is no such process"));
        }
        let client = Client { address, host: host.to_owned(), credentials: credentials.clone() };
        Ok(Server { name: name.to_owned(), client, process, started: None })
    }

    /// The folder of a server that was started here.
    pub fn folder(&self) -> Option<PathBuf> {
        self.started.as_ref().map(|started| started.folder.path().to_path_buf())
    }

    /// Starts the server again, with nothing of its files in the page cache; whether that can be done.
    pub fn restart_cold(&mut self) -> Result<bool, Error> {
        let Some(started) = &mut self.started else { return Ok(false) };
        started.stop();
        forget_files(started.folder.path()).map_err(Error::io("cannot take files out of the page cache"))?;
        started.child = started.command.spawn().map_err(Error::io(format!("cannot start {} again", self.name)))?;
        self.process = Some(ProcessId(started.child.id()));
        self.wait_ready()?;
        Ok(true)
    }

    /// CPU time of the server so far.
    pub fn cpu(&self) -> Option<Duration> {
        self.process.and_then(ProcessId::cpu)
    }

    /// Ready is: it answers a request for the list of buckets with anything but "come back later".
    fn wait_ready(&mut self) -> Result<(), Error> {
        let begin = Instant::now();
        loop {
            let last = match self.client.send("GET", "/", "", b"") {
                Ok(reply) if reply.status < 500 => return Ok(()),
                Ok(reply) => Error::Answer(format!("status {}", reply.status)),
                Err(error) => error,
            };
            if let Some(started) = &mut self.started
                && let Ok(Some(status)) = started.child.try_wait()
            {
                return Err(Error::Answer(format!("it stopped with {status}")));
            }
            if begin.elapsed() > START_LIMIT {
                return Err(last);
            }
            sleep(Duration::from_millis(50));
        }
    }
}

/// Takes the files of a folder out of the page cache.
fn forget_files(folder: &Path) -> std::io::Result<()> {
    for entry in fs::read_dir(folder)? {
        let entry = entry?;
        if entry.file_type()?.is_dir() {
            forget_files(&entry.path())?;
        } else {
            let file = File::open(entry.path())?;
            // What is dirty stays otherwise.
            file.sync_all()?;
            rustix::fs::fadvise(&file, 0, None, rustix::fs::Advice::DontNeed)?;
        }
    }
    Ok(())
}

/// Three ports that nothing listens on.
fn free_ports() -> Result<[u16; 3], Error> {
    let mut ports = [0; 3];
    let mut held = Vec::new();
    for port in &mut ports {
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).map_err(Error::io("cannot find a free port"))?;
        *port = listener.local_addr().map_err(Error::io("cannot find a free port"))?.port();
        held.push(listener);
    }
    Ok(ports)
}

/// A key for servers on loopback that live as long as this run.
fn fresh_credentials() -> Credentials {
    let region = "us-east-1".to_owned();
    Credentials { access_key: "koinebench".into(), secret_key: format!("bench-{:032x}", nonce()), region }
}

/// A number that no other run has: time and process.
pub fn nonce() -> u128 {
    let now = time::OffsetDateTime::now_utc().unix_timestamp_nanos().unsigned_abs();
    now | u128::from(std::process::id()) << 64
}

/// The last lines of a log.
fn tail(log: &Path) -> String {
    let text = fs::read_to_string(log).unwrap_or_default();
    let lines: Vec<&str> = text.lines().collect();
    lines.get(lines.len().saturating_sub(15)..).unwrap_or_default().join("\n")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn endpoints_are_parsed() {
        let credentials = fresh_credentials();
        let own = std::process::id();
        let server = Server::parse(&format!("a=http://127.0.0.1:9000/,{own}"), &credentials).unwrap();
        assert_eq!((server.name.as_str(), server.client.host.as_str()), ("a", "127.0.0.1:9000"));
        assert_eq!(server.process, Some(ProcessId(own)));
        assert_eq!(Server::parse("a=http://127.0.0.1", &credentials).unwrap().client.address.port(), 80);
        for wrong in
            ["http://x", "a=https://127.0.0.1", "a=http://127.0.0.1:9000,x", "a=http://127.0.0.1:9000,4294967295"]
        {
            let message = Server::parse(wrong, &credentials).unwrap_err().to_string();
            assert!(message.contains("NAME=URL,PID"), "{message}");
        }
    }

    #[test]
    fn a_server_that_stops_at_once_is_reported_with_its_output() {
        let disk = tempfile::tempdir().unwrap();
        let failed = Server::start("broken", disk.path(), |_| {
            let mut command = Command::new("sh");
            command.args(["-c", "echo no such luck; exit 3"]);
            Ok(command)
        });
        let message = failed.unwrap_err().to_string();
        assert!(message.contains("no such luck") && message.contains("broken"), "{message}");
        assert_eq!(fs::read_dir(disk.path()).unwrap().count(), 0, "its folder is removed");
    }
}
