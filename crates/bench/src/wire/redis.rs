//! Redis, where it is on PATH.

use super::contestant::{Contestant, Durability, Outcome, Transport, WireOperation, failed, is_same};
use crate::Error;
use crate::process::ProcessId;
use crate::resp::{self, RespReply};
use bytes::Bytes;
use rustix::process::{Pid, Signal, kill_process};
use std::io::{BufReader, Read, Write};
use std::net::{Ipv4Addr, TcpListener, TcpStream};
use std::os::unix::net::UnixStream;
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::sync::Arc;
use std::time::{Duration, Instant};
use tempfile::TempDir;

const PROGRAM: &str = "redis-server";
/// One that does not answer for so long has not started.
const START_LIMIT: Duration = Duration::from_secs(20);
/// Answers that came together are read together.
const READ_LEN: usize = 64 << 10;

/// A running server. Dropping it stops it and removes its folder.
struct RedisProcess {
    child: Child,
    _folder: TempDir,
}

impl Drop for RedisProcess {
    fn drop(&mut self) {
        if let Some(pid) = i32::try_from(self.child.id()).ok().and_then(Pid::from_raw) {
            // What it has is wanted no more.
            let _already_gone = kill_process(pid, Signal::KILL);
        }
        let _reaped = self.child.wait();
    }
}

trait Stream: Read + Send {
    fn write_all(&mut self, bytes: &[u8]) -> std::io::Result<()>;
}

impl Stream for UnixStream {
    fn write_all(&mut self, bytes: &[u8]) -> std::io::Result<()> {
        Write::write_all(self, bytes)
    }
}

impl Stream for TcpStream {
    fn write_all(&mut self, bytes: &[u8]) -> std::io::Result<()> {
        Write::write_all(self, bytes)
    }
}

/// A connection to one.
pub struct RedisClient {
    way: Transport,
    stream: BufReader<Box<dyn Stream>>,
    /// Commands that are not sent yet.
    waiting: Vec<u8>,
    keeps_log: bool,
    process: Arc<RedisProcess>,
}

impl RedisClient {
    /// Starts a server that promises this durability and connects by both ways; none where Redis is not installed.
    pub fn start(durability: Durability, dir: &Path) -> Result<Vec<RedisClient>, Error> {
        if Command::new(PROGRAM).arg("--version").stdout(Stdio::null()).status().is_err() {
            crate::say("redis-server is not on PATH (Debian: redis-server); it has no figures");
            return Ok(Vec::new());
        }
        let folder = tempfile::Builder::new()
            .prefix("koine-bench-redis-")
            .tempdir_in(dir)
            .map_err(Error::io("cannot make a folder"))?;
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).map_err(Error::io("cannot find a free port"))?;
        let port = listener.local_addr().map_err(Error::io("cannot find a free port"))?.port();
        drop(listener);
        let socket = folder.path().join("redis.sock");
        let (log, sync) = match durability {
            Durability::Memory => ("no", "no"),
            Durability::Written => ("yes", "no"),
            Durability::Sync => ("yes", "always"),
        };
        let child = Command::new(PROGRAM)
            .args(["--port", &port.to_string(), "--bind", "127.0.0.1", "--unixsocket"])
            .arg(&socket)
            .args(["--save", "", "--appendonly", log, "--appendfsync", sync, "--auto-aof-rewrite-percentage", "0"])
            .arg("--dir")
            .arg(folder.path())
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .spawn()
            .map_err(Error::io("cannot start redis-server"))?;
        let process = Arc::new(RedisProcess { child, _folder: folder });
        let begin = Instant::now();
        let unix = loop {
            match UnixStream::connect(&socket) {
                Ok(stream) => break stream,
                Err(_) if begin.elapsed() < START_LIMIT => std::thread::sleep(Duration::from_millis(20)),
                Err(error) => return Err(Error::Worker(format!("redis-server does not start: {error}"))),
            }
        };
        let tcp = TcpStream::connect((Ipv4Addr::LOCALHOST, port)).map_err(Error::io("cannot connect to Redis"))?;
        tcp.set_nodelay(true).map_err(Error::io("cannot connect to Redis"))?;
        let over = |way, stream: Box<dyn Stream>| RedisClient {
            way,
            stream: BufReader::with_capacity(READ_LEN, stream),
            waiting: Vec::new(),
            keeps_log: durability != Durability::Memory,
            process: Arc::clone(&process),
        };
        Ok(vec![over(Transport::RedisUnix, Box::new(unix)), over(Transport::RedisTcp, Box::new(tcp))])
    }

    fn flush(&mut self) -> Outcome<()> {
        let sent = self.stream.get_mut().write_all(&self.waiting).map_err(failed("ask Redis"));
        self.waiting.clear();
        sent
    }

    /// One command, and its answer.
    fn call(&mut self, parts: &[&[u8]]) -> Outcome<RespReply> {
        resp::ask(&mut self.waiting, parts);
        self.flush()?;
        RespReply::read(&mut self.stream)
    }
}

impl Contestant for RedisClient {
    fn way(&self) -> Transport {
        self.way
    }

    fn begin(&mut self, work: WireOperation, keys: &[&Bytes], value: &Bytes) -> Outcome<()> {
        for key in keys {
            match work {
                WireOperation::Put => resp::ask(&mut self.waiting, &[b"SET", key, value]),
                WireOperation::Get => resp::ask(&mut self.waiting, &[b"GET", key]),
            }
        }
        self.flush()
    }

    fn finish(&mut self, value: &Bytes) -> Outcome<()> {
        match RespReply::read(&mut self.stream)? {
            RespReply::Line(text) if text == "OK" => Ok(()),
            RespReply::Value(got) if is_same(&got, value) => Ok(()),
            _ => Err("a value of Redis is missing or wrong".into()),
        }
    }

    fn is_ready(&mut self) -> Outcome<bool> {
        // An answer is written whole, so that what has begun to come is there at once.
        Ok(!self.stream.buffer().is_empty())
    }

    fn server_cpu(&self) -> Option<Duration> {
        ProcessId(self.process.child.id()).cpu()
    }

    /// Its log holds every put; a new one holds the keys alone.
    fn tidy(&mut self) -> Outcome<()> {
        if self.keeps_log && self.way == Transport::RedisUnix {
            self.call(&[b"CONFIG", b"SET", b"appendonly", b"no"])?;
            self.call(&[b"CONFIG", b"SET", b"appendonly", b"yes"])?;
            let begin = Instant::now();
            while let RespReply::Value(text) = self.call(&[b"INFO", b"persistence"])? {
                let text = String::from_utf8_lossy(&text).into_owned();
                if !text.contains("aof_rewrite_in_progress:1") && !text.contains("aof_rewrite_scheduled:1") {
                    break;
                }
                if begin.elapsed() > START_LIMIT {
                    return Err("Redis does not end writing its log anew".into());
                }
                std::thread::sleep(Duration::from_millis(50));
            }
        }
        Ok(())
    }
}
