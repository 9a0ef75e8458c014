//! Redis: a server of its own over loopback, with an append-only file, as YCSB's binding uses it.
//!
//! Redis keeps no order among keys: those that are inserted are named in a sorted set too, which scans read, as YCSB's
//! binding does. `Level::Written` is `appendfsync everysec` (the nearest that Redis has), `Level::Sync` is `always`.
//!
//! Invariant: the server ends with this value, or with this process.

use super::super::data::Key;
use super::{Item, Level, Outcome, Session, Store, failed};
use crate::resp::{self, RespReply};
use parking::Connections;
use std::io::{BufReader, Write};
use std::net::{Ipv4Addr, TcpListener, TcpStream};
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

const PROGRAM: &str = "redis-server";
/// The sorted set of all keys.
const INDEX: &[u8] = b"_index";
/// How many entries a scan asks for at once: as many as the longest scan wants.
const PAGE: usize = 100;
/// So long a server may take to start.
const PATIENCE: Duration = Duration::from_secs(60);

/// Whether the server's program is on PATH.
pub fn is_installed() -> bool {
    std::env::split_paths(&std::env::var_os("PATH").unwrap_or_default()).any(|folder| folder.join(PROGRAM).is_file())
}

/// A running server.
pub struct RedisStore {
    server: Child,
    connections: Connections,
}

impl RedisStore {
    /// Starts a server whose files lie in a folder.
    pub fn open(folder: &Path) -> Outcome<RedisStore> {
        // A port that was free a moment ago; should somebody take it meanwhile, the server says so and the run fails.
        let free = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).and_then(|listener| listener.local_addr());
        let port = free.map_err(failed("find a port"))?.port();
        // A killed worker takes its server along.
        let mut command = Command::new("setpriv");
        command.args(["--pdeathsig", "KILL", "--", PROGRAM, "--port", &port.to_string(), "--bind", "127.0.0.1"]);
        command.args(["--daemonize", "no", "--save", "", "--appendonly", "yes", "--appendfsync", "everysec"]);
        command.args(["--loglevel", "warning", "--dir"]).arg(folder).stdin(Stdio::null()).stdout(Stdio::null());
        let server = command.spawn().map_err(failed("start redis-server"))?;
        let mut redis = RedisStore { server, connections: Connections::new(port) };
        redis.wait_for_start()?;
        Ok(redis)
    }

    fn wait_for_start(&mut self) -> Outcome<()> {
        let begun = Instant::now();
        loop {
            let answer = self.connections.with(|link| link.call(&[b"PING"]));
            match answer {
                Ok(_) => return Ok(()),
                Err(error) if begun.elapsed() > PATIENCE => return Err(error),
                Err(_) => std::thread::sleep(Duration::from_millis(20)),
            }
            if let Ok(Some(status)) = self.server.try_wait() {
                return Err(format!("redis-server ended at once: {status}"));
            }
        }
    }
}

impl Drop for RedisStore {
    fn drop(&mut self) {
        let _already_gone = self.server.kill();
        let _reaped = self.server.wait();
    }
}

impl Store for RedisStore {
    fn prepare(&self, level: Level) -> Outcome<()> {
        let mode: &[u8] = if level == Level::Sync { b"always" } else { b"everysec" };
        self.connections.with(|link| link.call(&[b"CONFIG", b"SET", b"appendfsync", mode])).map(drop)
    }

    fn session(&self) -> Outcome<Box<dyn Session + '_>> {
        Ok(Box::new(RedisSession(self.connections.take()?)))
    }

    fn put(&self, items: &[Item], _level: Level) -> Outcome<()> {
        self.connections.with(|link| {
            items.iter().for_each(|item| link.ask(&[b"SET", &item.key, &item.value]));
            link.answers(items.len())
        })
    }

    fn insert(&self, items: &[Item], _level: Level) -> Outcome<()> {
        self.connections.with(|link| {
            for item in items {
                link.ask(&[b"SET", &item.key, &item.value]);
                link.ask(&[b"ZADD", INDEX, b"0", &item.key]);
            }
            link.answers(2 * items.len())
        })
    }

    fn remove(&self, keys: &[Key], _level: Level) -> Outcome<()> {
        self.connections.with(|link| {
            for key in keys {
                link.ask(&[b"DEL", key]);
                link.ask(&[b"ZREM", INDEX, key]);
            }
            link.answers(2 * keys.len())
        })
    }

    fn processes(&self) -> Vec<u32> {
        vec![self.server.id()]
    }

    fn sync(&self) -> Outcome<()> {
        // There is no such call; a change under `always` returns when all before it is durable.
        self.prepare(Level::Sync)?;
        self.connections
            .with(|link| link.call(&[b"SET", b"_synced", b""]).and_then(|_| link.call(&[b"DEL", b"_synced"])))?;
        Ok(())
    }

    fn settle(&self) -> Outcome<()> {
        self.sync()
    }

    fn used_len(&self) -> Outcome<Option<u64>> {
        Ok(None)
    }

    fn close(self: Box<Self>) -> Outcome<()> {
        self.sync()
    }
}

struct RedisSession(Link);

impl Session for RedisSession {
    fn pin(&mut self) -> Outcome<()> {
        Ok(())
    }

    fn get(&mut self, key: &[u8], found: &mut dyn FnMut(&[u8])) -> Outcome<bool> {
        let answer = self.0.call(&[b"GET", key])?;
        Ok(answer.value().map(found).is_some())
    }

    fn scan(&mut self, from: &[u8], each: &mut dyn FnMut(&[u8], &[u8]) -> bool) -> Outcome<()> {
        let mut start = [b"[".as_slice(), from].concat();
        loop {
            let page = PAGE.to_string();
            let call = [b"ZRANGE", INDEX, &start, b"+", b"BYLEX", b"LIMIT", b"0", page.as_bytes()];
            let RespReply::Many(keys) = self.0.call(&call)? else { return Err("redis: no list of keys".into()) };
            let keys: Vec<&[u8]> = keys.iter().filter_map(RespReply::value).collect();
            let Some(last) = keys.last() else { return Ok(()) };
            let values = self.0.call(&[[b"MGET".as_slice()].as_slice(), &keys].concat())?;
            let RespReply::Many(values) = values else { return Err("redis: no list of values".into()) };
            for (key, value) in keys.iter().zip(&values) {
                // A key that was deleted in between has no value.
                if value.value().is_some_and(|value| !each(key, value)) {
                    return Ok(());
                }
            }
            if keys.len() < PAGE {
                return Ok(());
            }
            start = [b"(".as_slice(), last].concat();
        }
    }
}

/// A connection, which speaks RESP.
struct Link {
    output: TcpStream,
    input: BufReader<TcpStream>,
    asked: Vec<u8>,
}

impl Link {
    fn connect(port: u16) -> Outcome<Link> {
        let output = TcpStream::connect((Ipv4Addr::LOCALHOST, port)).map_err(failed("connect to redis-server"))?;
        output.set_nodelay(true).map_err(failed("set up the connection"))?;
        let input = BufReader::with_capacity(64 << 10, output.try_clone().map_err(failed("share the connection"))?);
        Ok(Link { output, input, asked: Vec::new() })
    }

    /// Adds a request, which goes out with the next read of answers.
    fn ask(&mut self, words: &[&[u8]]) {
        resp::ask(&mut self.asked, words);
    }

    fn send(&mut self) -> Outcome<()> {
        self.output.write_all(&self.asked).map_err(failed("ask redis-server"))?;
        self.asked.clear();
        Ok(())
    }

    fn call(&mut self, words: &[&[u8]]) -> Outcome<RespReply> {
        self.ask(words);
        self.send()?;
        RespReply::read(&mut self.input)
    }

    fn answers(&mut self, count: usize) -> Outcome<()> {
        self.send()?;
        (0..count).try_for_each(|_| RespReply::read(&mut self.input).map(drop))
    }
}

/// Connections that threads borrow.
mod parking {
    use super::{Link, Outcome};
    use std::sync::{Mutex, PoisonError};

    pub struct Connections {
        port: u16,
        idle: Mutex<Vec<Link>>,
    }

    impl Connections {
        pub fn new(port: u16) -> Connections {
            Connections { port, idle: Mutex::default() }
        }

        /// One of its own.
        pub fn take(&self) -> Outcome<Link> {
            match self.idle.lock().unwrap_or_else(PoisonError::into_inner).pop() {
                Some(link) => Ok(link),
                None => Link::connect(self.port),
            }
        }

        /// One for as long as `act` takes; one that failed is not used again.
        pub fn with<T>(&self, act: impl FnOnce(&mut Link) -> Outcome<T>) -> Outcome<T> {
            let mut link = self.take()?;
            let done = act(&mut link)?;
            self.idle.lock().unwrap_or_else(PoisonError::into_inner).push(link);
            Ok(done)
        }
    }
}
