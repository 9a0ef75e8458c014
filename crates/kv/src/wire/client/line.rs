//! The way to a server: a connection, and another one where that was lost.
//!
//! Invariants:
//! - A line that was closed here never connects again.
//! - One thread connects, the others wait for it. Who finds the server away waits until it is back, up to
//!   [`Timeouts::reconnect`](super::Timeouts::reconnect) after the loss was found; later calls try once.
//! - What may have happened on a connection that was lost is asked for again only where a second time changes nothing.

use std::net::{TcpStream, ToSocketAddrs};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use koine_engine::device::Process;
use koine_engine::{Error, ErrorKind, Result};
use koine_env::patience;
use parking_lot::{Mutex, RwLock};

use super::ClientOptions;
use super::connection::Connection;
use super::slot::TELLING;
use crate::seam::Profile;
use crate::wire::identity::{Key, check_owner, check_server};
use crate::wire::stream::{Stream, bounded};

/// So often a call is asked for again whose connection was lost.
const LOSSES_MAX: usize = 4;
/// Pauses between two attempts to connect.
const PAUSE_MIN: Duration = Duration::from_millis(5);
const PAUSE_MAX: Duration = Duration::from_millis(200);

/// Where a server is, and how it is told from others.
pub(super) enum Reach {
    /// A Unix socket of this user's, or of root's.
    Own(PathBuf),
    /// One that may also be of a user who is known to have the store.
    Of(PathBuf, Option<u32>),
    /// A host and a port, of a server that knows the same key.
    Tcp(String, Key),
}

/// What is said first on every connection of a line.
pub(super) type Begin = Box<dyn Fn(&Arc<Connection>) -> Result<()> + Send + Sync>;

/// The way to a server.
pub(super) struct Line {
    reach: Reach,
    options: ClientOptions,
    process: Process,
    /// `None` once it was closed.
    current: RwLock<Option<Arc<Connection>>>,
    /// Since when the server is known to be away.
    away: Mutex<Option<Instant>>,
    /// Held by who connects. Nobody waits for it: who has it may run a caller's handler.
    connecting: Mutex<()>,
    /// How many connections there were.
    count: AtomicU64,
    begin: Option<Begin>,
}

impl Line {
    /// Connects for the first time. `begin` is called with each connection before anybody else has it.
    pub fn open(reach: Reach, options: ClientOptions, begin: Option<Begin>) -> Result<(Line, Profile)> {
        let line = Line {
            reach,
            options,
            process: Process::here(),
            current: RwLock::new(None),
            away: Mutex::new(None),
            connecting: Mutex::new(()),
            count: AtomicU64::new(0),
            begin,
        };
        let (connection, profile) = line.connect()?;
        *line.current.write() = Some(connection);
        Ok((line, profile))
    }

    /// Where the server is.
    pub fn place(&self) -> String {
        match &self.reach {
            Reach::Own(path) | Reach::Of(path, _) => path.display().to_string(),
            Reach::Tcp(address, _) => address.clone(),
        }
    }

    /// The connection, for what may be asked for again where it turns out to be lost.
    pub fn connection(&self) -> Result<Arc<Connection>> {
        let connection = self.current()?;
        if connection.link().has_ended() { self.connect_again() } else { Ok(connection) }
    }

    /// The connection after a look at it, for what may be asked for only once.
    pub fn fresh(&self) -> Result<Arc<Connection>> {
        let connection = self.current()?;
        if connection.link().is_found_ended() { self.connect_again() } else { Ok(connection) }
    }

    /// Asks for what a second time changes nothing of: again where the connection is lost meanwhile.
    pub fn repeat<T>(&self, mut ask: impl FnMut(&Arc<Connection>) -> Result<T>) -> Result<T> {
        let mut losses = 0;
        loop {
            let connection = self.connection()?;
            match ask(&connection) {
                Err(error) if is_loss(&error) && losses < LOSSES_MAX => losses += 1,
                done => return done,
            }
        }
    }

    fn current(&self) -> Result<Arc<Connection>> {
        // Before a lock is touched, which a thread may hold that is not in a forked copy.
        self.process.check()?;
        self.current.read().clone().ok_or_else(closed)
    }

    /// Fails in a forked copy.
    pub fn check(&self) -> Result<()> {
        self.process.check()
    }

    fn connect_again(&self) -> Result<Arc<Connection>> {
        let since = *self.away.lock().get_or_insert_with(Instant::now);
        let mut pause = PAUSE_MIN;
        loop {
            // One thread connects. The others wait beside it, and so does a call of a handler that was run in its wait.
            let turn = self.connecting.try_lock();
            // Another thread may have connected, or closed the line.
            let current = self.current()?;
            if !current.link().has_ended() {
                *self.away.lock() = None;
                return Ok(current);
            }
            let failed = match turn.as_ref().map(|_| self.connect()) {
                Some(Ok((connection, _))) => return self.take_up(connection),
                Some(Err(error)) => error,
                None => Error::new(ErrorKind::Disconnected, format!("{} is away: another call connects", self.place())),
            };
            drop(turn);
            // A callback waits for nothing.
            if !passes(&failed) || TELLING.get() || since.elapsed() >= self.options.timeouts.reconnect {
                return Err(failed);
            }
            if patience::is_over() {
                return Err(Error::interrupted());
            }
            std::thread::sleep(pause);
            pause = (pause * 2).min(PAUSE_MAX);
        }
    }

    fn take_up(&self, connection: Arc<Connection>) -> Result<Arc<Connection>> {
        *self.away.lock() = None;
        let mut current = self.current.write();
        if current.is_none() {
            return Err(closed());
        }
        *current = Some(Arc::clone(&connection));
        Ok(connection)
    }

    fn connect(&self) -> Result<(Arc<Connection>, Profile)> {
        let (stream, key) = self.reach.connect(self.options.timeouts.connect)?;
        let number = self.count.fetch_add(1, Ordering::Relaxed);
        let (connection, profile) = Connection::begin(stream, &self.place(), key, &self.options, number)?;
        if let Some(begin) = &self.begin {
            begin(&connection)?;
        }
        Ok((connection, profile))
    }

    /// Ends it: calls fail from now on.
    pub fn close(&self) {
        if !self.process.is_here() {
            return;
        }
        if let Some(connection) = self.current.write().take() {
            connection.close();
        }
    }
}

impl Drop for Line {
    fn drop(&mut self) {
        self.process.leave(|| self.current.get_mut().take());
    }
}

/// Whether an error is that the server, or the connection to it, is going away: what was asked for may have happened or not.
pub(super) fn is_loss(error: &Error) -> bool {
    error.kind() == ErrorKind::Disconnected
}

fn closed() -> Error {
    Error::new(ErrorKind::Stopped, "the store was closed")
}

/// Whether a server may be there a little later.
fn passes(error: &Error) -> bool {
    matches!(error.kind(), ErrorKind::Disconnected | ErrorKind::TimedOut | ErrorKind::Busy)
}

impl Reach {
    fn connect(&self, timeout: Duration) -> Result<(Stream, Option<&Key>)> {
        let unix = |path: &Path| {
            let place = path.display().to_string();
            let stream = Stream::connect_unix(path, timeout).map_err(|error| failed_to_connect(&place, error))?;
            Ok::<_, Error>((stream, place))
        };
        match self {
            Reach::Own(path) => {
                let (stream, place) = unix(path)?;
                check_owner(&stream, &place)?;
                Ok((Stream::Unix(stream), None))
            }
            Reach::Of(path, owner) => {
                let (stream, place) = unix(path)?;
                check_server(&stream, &place, *owner)?;
                Ok((Stream::Unix(stream), None))
            }
            Reach::Tcp(address, key) => {
                let found = address.to_socket_addrs().map_err(|error| failed_to_connect(address, error))?;
                let mut failed = Error::new(ErrorKind::Disconnected, format!("{address} has no address"));
                for place in found {
                    let connected = match bounded(timeout) {
                        Some(timeout) => TcpStream::connect_timeout(&place, timeout),
                        None => TcpStream::connect(place),
                    };
                    match connected {
                        Ok(stream) => return Ok((Stream::Tcp(stream), Some(key))),
                        Err(error) => failed = failed_to_connect(address, error),
                    }
                }
                Err(failed)
            }
        }
    }
}

/// What to do about a server that is not there.
fn failed_to_connect(place: &str, error: std::io::Error) -> Error {
    use std::io::ErrorKind as Io;
    let (kind, message) = match error.kind() {
        Io::NotFound | Io::ConnectionRefused => {
            (ErrorKind::Disconnected, format!("no server is at {place}: start `koine serve`, or name another place"))
        }
        Io::PermissionDenied => (ErrorKind::Invalid, format!("{place} belongs to another user")),
        Io::TimedOut | Io::WouldBlock => (ErrorKind::TimedOut, format!("the server at {place} does not answer")),
        _ => (ErrorKind::Disconnected, format!("cannot connect to {place}")),
    };
    Error::new(kind, message).with_source(error)
}
