//! Serves a store to other processes and machines.
//!
//! Invariants:
//! - Nobody gets at the store who is not of the same user (or root) on a Unix socket, or does not know the key over TCP.
//!   A server of verbs alone ([`Server::of_verbs`]) lets every user of the machine in, and has no store.
//! - A client that is dead, slow or malicious costs a bounded number of threads, handles and bytes, and harms nobody else:
//!   what its session held is let go when its connection ends.
//! - Frames of one connection are begun in the order in which they came; answers come as they are ready.

mod answers;
mod flow;
mod handles;
mod listing;
mod session;
mod staged;
mod watches;
mod workers;

use std::net::{SocketAddr, TcpListener};
use std::os::unix::fs::PermissionsExt;
use std::os::unix::net::UnixListener;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use koine_engine::{Error, ErrorKind, Result};
use koine_env::{OsRandom, Random};
use parking_lot::Mutex;
use rustix::net::Shutdown;

use self::session::Session;
use self::staged::StageQuota;
use self::workers::Workers;
use super::frame::{DATA_LEN_MAX, Limits};
use super::identity::{Key, Peer, any_local_peer, local_peer};
use super::stream::Stream;
use crate::closed::Closed;
use crate::seam::Kv;

pub use self::answers::{Handler, HandlerConnection, Responder};
#[cfg(test)]
pub(super) use self::watches::WATCHES_MAX;

/// So long a server that stops waits for what was asked for before.
pub const STOP_TIME_MAX: Duration = Duration::from_secs(5);

/// The longest message of a verb, in bytes, at a server of verbs alone.
pub const VERB_MESSAGE_LEN_MAX: usize = 2 << 20;

/// What a server allows.
#[derive(Clone)]
pub struct ServerOptions {
    /// The most connections at once. A newcomer takes the place of the oldest one that has not said who it is, or of an idle
    /// one; at a server of verbs alone whoever owns the store has an eighth beside.
    pub connections_max: usize,
    /// The most of one user of this machine, or of one address.
    pub connections_each_max: usize,
    /// The most requests of a connection that wait for their answers.
    pub in_flight_max: usize,
    /// The most views, and the most stages, of a connection.
    pub handles_max: usize,
    /// Bytes that a connection's open stages may hold in memory; all connections together four times that.
    pub staging_len_max: usize,
    /// Bytes of answers that may wait for a connection to read them; beyond, nothing more is read from it.
    pub waiting_len_max: usize,
    /// Threads for reads that have to wait for the device.
    pub workers: usize,
    /// What is read of a value goes through shared memory from so many bytes on, where its client has lent room.
    pub shared_from: usize,
    /// A stranger has so long to say who it is.
    pub greeting: Duration,
    /// At a server of verbs alone a peer has so long after its greeting, or its log out, until the handler knows who it is.
    pub log_in: Duration,
    /// A client that reads nothing for so long, while answers wait, is cut off.
    pub patience: Duration,
    /// Who answers verbs from [`VERB_FOREIGN_FIRST`](super::VERB_FOREIGN_FIRST) on.
    pub handler: Option<Arc<dyn Handler>>,
}

impl Default for ServerOptions {
    fn default() -> ServerOptions {
        ServerOptions {
            connections_max: 128,
            connections_each_max: usize::MAX,
            in_flight_max: 1024,
            handles_max: 4096,
            staging_len_max: 256 << 20,
            waiting_len_max: 32 << 20,
            workers: 8,
            shared_from: 4 << 10,
            greeting: Duration::from_secs(10),
            log_in: Duration::from_secs(60),
            patience: Duration::from_secs(60),
            handler: None,
        }
    }
}

/// What all connections share.
pub(super) struct Shared {
    kv: Arc<dyn Kv>,
    /// Whether keys and values are served. Else `kv` is nothing.
    is_raw: bool,
    options: ServerOptions,
    workers: Workers,
    /// What the stages of all take.
    quota: Arc<StageQuota>,
    random: Box<dyn Random>,
    connections: AtomicUsize,
    /// How many connections there have been.
    admitted: AtomicU64,
    /// How many requests there have been.
    asked: AtomicU64,
    open: Mutex<Vec<std::sync::Weak<Session>>>,
    closing: AtomicBool,
}

impl Shared {
    /// How long frames of those may be who have greeted.
    fn limits(&self) -> Limits {
        if self.is_raw { Limits::FULL } else { Limits { message_len: VERB_MESSAGE_LEN_MAX, data_len: DATA_LEN_MAX } }
    }

    /// Whether one user of this machine, or one address, has as many connections as it may.
    fn has_enough(&self, peer: &Peer) -> bool {
        let most = self.options.connections_each_max;
        let open = self.open.lock();
        let sessions = open.iter().filter_map(std::sync::Weak::upgrade);
        most < usize::MAX && sessions.filter(|session| session.peer().is_like(peer)).take(most).count() >= most
    }

    /// Ends a connection of those that may end: the oldest that has not said who it is; where there is none, of the peer
    /// that has most, the one that has been idle longest. False where there is none either.
    fn make_room(&self, among: impl Fn(&Session) -> bool) -> bool {
        let open: Vec<_> = self.open.lock().iter().filter_map(std::sync::Weak::upgrade).collect();
        if open.iter().any(|session| among(session) && session.send_away()) {
            return true;
        }
        let idle = open.iter().filter(|session| among(session) && session.is_idle());
        let mut idle: Vec<_> = idle
            .map(|session| {
                let alike = open.iter().filter(|other| other.peer().is_like(session.peer())).count();
                (std::cmp::Reverse(alike), session.last_asked(), session)
            })
            .collect();
        idle.sort_by_key(|(alike, last_asked, _)| (*alike, *last_asked));
        idle.iter().any(|(_, _, session)| session.make_way())
    }

    /// How many connections there may be when this peer comes.
    fn connections_max(&self, peer: &Peer) -> usize {
        let most = self.options.connections_max;
        if !self.is_raw && peer.owns_this_process() { most.saturating_add(most / 8) } else { most }
    }
}

/// A store that is served. Dropping it ends all connections; the store stays open.
pub struct Server {
    shared: Arc<Shared>,
    doors: Mutex<Vec<Door>>,
}

/// Where connections come in.
struct Door {
    thread: JoinHandle<()>,
    socket: Socket,
}

enum Socket {
    Unix(Arc<UnixListener>, PathBuf),
    Tcp(Arc<TcpListener>),
}

impl Socket {
    /// Wakes who waits for a connection, and lets nobody in any more.
    fn end(&self) {
        let _already = match self {
            Socket::Unix(listener, _) => rustix::net::shutdown(listener, Shutdown::Both),
            Socket::Tcp(listener) => rustix::net::shutdown(listener, Shutdown::Both),
        };
        if let Socket::Unix(_, path) = self {
            let _gone = std::fs::remove_file(path);
        }
    }
}

impl Server {
    /// Of a store; nobody can connect before a `listen_…`.
    pub fn new(kv: Arc<dyn Kv>, options: ServerOptions) -> Server {
        Server::over(kv, true, options)
    }

    /// Of the verbs of a handler and of nothing else: every other one is refused before it is looked at, no memory is
    /// shared, and every user of the machine may connect.
    pub fn of_verbs(handler: Arc<dyn Handler>, options: ServerOptions) -> Server {
        Server::over(Arc::new(Closed::new()), false, ServerOptions { handler: Some(handler), ..options })
    }

    fn over(kv: Arc<dyn Kv>, is_raw: bool, options: ServerOptions) -> Server {
        let workers = Workers::new(options.workers);
        let quota = Arc::new(StageQuota::new(options.staging_len_max.saturating_mul(4)));
        let shared = Shared {
            kv,
            is_raw,
            quota,
            options,
            workers,
            random: Box::new(OsRandom),
            connections: AtomicUsize::new(0),
            admitted: AtomicU64::new(0),
            asked: AtomicU64::new(0),
            open: Mutex::default(),
            closing: AtomicBool::new(false),
        };
        Server { shared: Arc::new(shared), doors: Mutex::default() }
    }

    /// Listens on a Unix socket: one that only its owner may use, unless it is of verbs alone. A socket that nobody listens on any more is replaced; anything
    /// else at that path is left alone, and an error.
    pub fn listen_unix(&self, path: &Path) -> Result<()> {
        let failed = |error| failed_to_listen(&path.display().to_string(), error);
        let listener = match UnixListener::bind(path) {
            Err(error) if error.kind() == std::io::ErrorKind::AddrInUse && is_abandoned(path) => {
                std::fs::remove_file(path).and_then(|()| UnixListener::bind(path)).map_err(failed)?
            }
            bound => bound.map_err(failed)?,
        };
        // Between the two nobody else gets in: a peer of another user is refused by its credentials too.
        let mode = if self.shared.is_raw { 0o600 } else { 0o666 };
        std::fs::set_permissions(path, std::fs::Permissions::from_mode(mode)).map_err(failed)?;
        let listener = Arc::new(listener);
        let (shared, door) = (Arc::clone(&self.shared), Arc::clone(&listener));
        let thread = spawn("koine-wire", move || {
            accept(&shared, || door.accept().map(|(stream, _)| Stream::Unix(stream)), None);
        })?;
        self.doors.lock().push(Door { thread, socket: Socket::Unix(listener, path.to_owned()) });
        Ok(())
    }

    /// Listens on TCP for clients that know the key; where, with the port that was chosen for 0.
    pub fn listen_tcp(&self, address: SocketAddr, key: Key) -> Result<SocketAddr> {
        let failed = |error| failed_to_listen(&address.to_string(), error);
        let listener = TcpListener::bind(address).map_err(failed)?;
        let bound = listener.local_addr().map_err(failed)?;
        let listener = Arc::new(listener);
        let (shared, door) = (Arc::clone(&self.shared), Arc::clone(&listener));
        let thread = spawn("koine-wire", move || {
            accept(&shared, || door.accept().map(|(stream, _)| Stream::Tcp(stream)), Some(&key));
        })?;
        self.doors.lock().push(Door { thread, socket: Socket::Tcp(listener) });
        Ok(bound)
    }

    /// How many connections there are.
    pub fn connections(&self) -> usize {
        self.shared.connections.load(Ordering::Relaxed)
    }

    /// Listens no more; what was asked for is answered, for up to [`STOP_TIME_MAX`], and all connections end.
    pub fn close(&self) {
        self.shared.closing.store(true, Ordering::Release);
        for door in self.doors.lock().drain(..) {
            door.socket.end();
            let _panicked = door.thread.join();
        }
        let open = std::mem::take(&mut *self.shared.open.lock());
        open.iter().filter_map(std::sync::Weak::upgrade).for_each(|session| session.stop());
        let begun = Instant::now();
        while self.connections() > 0 && begun.elapsed() < STOP_TIME_MAX {
            std::thread::sleep(Duration::from_millis(2));
        }
        open.iter().filter_map(std::sync::Weak::upgrade).for_each(|session| session.end());
        self.shared.workers.end();
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        self.close();
    }
}

/// Whether a socket is there that nobody listens on.
fn is_abandoned(path: &Path) -> bool {
    use std::os::unix::fs::FileTypeExt;
    let is_socket = std::fs::symlink_metadata(path).is_ok_and(|metadata| metadata.file_type().is_socket());
    is_socket
        && std::os::unix::net::UnixStream::connect(path)
            .is_err_and(|error| error.kind() == std::io::ErrorKind::ConnectionRefused)
}

fn failed_to_listen(place: &str, error: std::io::Error) -> Error {
    let kind = if error.kind() == std::io::ErrorKind::AddrInUse { ErrorKind::Owned } else { ErrorKind::Invalid };
    Error::new(kind, format!("cannot listen on {place}")).with_source(error)
}

pub(super) fn spawn(name: &str, work: impl FnOnce() + Send + 'static) -> Result<JoinHandle<()>> {
    let spawned = std::thread::Builder::new().name(name.to_owned()).spawn(work);
    spawned.map_err(|error| Error::new(ErrorKind::Busy, "cannot start a thread").with_source(error))
}

/// Lets connections in until the server closes.
fn accept(shared: &Arc<Shared>, next: impl Fn() -> std::io::Result<Stream>, key: Option<&Key>) {
    while !shared.closing.load(Ordering::Acquire) {
        match next() {
            Ok(stream) if !shared.closing.load(Ordering::Acquire) => admit(shared, stream, key.cloned()),
            Ok(_) => {}
            // Out of descriptors, or the like: others may end meanwhile.
            Err(_) => std::thread::sleep(Duration::from_millis(50)),
        }
    }
}

/// Begins a session; a connection too many, or of another user, is ended without a word.
fn admit(shared: &Arc<Shared>, stream: Stream, key: Option<Key>) {
    let peer = match &stream {
        Stream::Unix(stream) if shared.is_raw => local_peer(stream),
        Stream::Unix(stream) => any_local_peer(stream),
        Stream::Tcp(stream) => Ok(Peer::Remote {
            address: stream.peer_addr().map_or_else(|_| "unknown".into(), |address| address.to_string()),
        }),
    };
    let Ok(peer) = peer else { return stream.end() };
    if shared.has_enough(&peer) && !shared.make_room(|session| session.peer().is_like(&peer)) {
        return stream.end();
    }
    // Where there is no room, whoever has not said yet who it is makes some: strangers keep nobody out for long.
    let is_full = shared.connections.fetch_add(1, Ordering::AcqRel) >= shared.connections_max(&peer);
    if is_full && !shared.make_room(|_| true) {
        shared.connections.fetch_sub(1, Ordering::AcqRel);
        return stream.end();
    }
    let number = shared.admitted.fetch_add(1, Ordering::Relaxed);
    let session = Session::new(number, Arc::clone(shared), stream, peer);
    {
        let mut open = shared.open.lock();
        open.retain(|session| session.strong_count() > 0);
        open.push(Arc::downgrade(&session));
    }
    let running = Running { session, shared: Arc::clone(shared) };
    // Where no thread can be had it is dropped here.
    let _begun = spawn("koine-session", move || running.session.run(key.as_ref()));
}

/// A session that counts. Invariant: however its thread ends, by a panic too, its connection ends with it and counts no
/// more.
struct Running {
    session: Arc<Session>,
    shared: Arc<Shared>,
}

impl Drop for Running {
    fn drop(&mut self) {
        self.session.end();
        self.shared.connections.fetch_sub(1, Ordering::AcqRel);
    }
}
