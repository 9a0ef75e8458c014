//! A store that another process has, through its wire.
//!
//! Invariants:
//! - Requests of one thread reach the server in the order in which they were made: batches keep their order, and a view
//!   that is taken after an answer sees what the answer told of.
//! - Where the connection is lost the next call makes another one. Reads are asked for again on it, and so are batches with
//!   a request id, whose outcome the store remembers; of another batch that was under way it is not known whether it was
//!   applied, and the error says so.
//! - What a connection holds goes with it: a view that was read from expires, a value on its way is lost, a watch tells that
//!   events were.

mod connection;
mod cursor;
mod line;
mod link;
mod pending;
mod slot;
mod stage;
mod verbs;
mod view;
mod watch;

use std::marker::PhantomData;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use bytes::Bytes;
use koine_engine::{
    Batch, Commit, Completer, Durability, Error, ErrorKind, KeyRange, Operation, Payload, Place, Result, SpaceId,
    StageHint, StageToken, Ticket, Version,
};

use self::connection::Connection;
use self::line::{Line, Reach, is_loss};
use self::link::SentRequest;
use self::slot::Outcome;
use self::stage::{Remote, WireStage};
use self::view::WireView;
use self::watch::WireWatch;
use super::fields::malformed;
use super::frame::DATA_LEN_MAX;
use super::identity::Key;
use super::reply::{take_commit, take_stat, take_usage};
use super::request::{NEWEST, Request, Rule};
use super::shared::SHARED_LEN_MAX;
use super::shared::slots::Buffer;
use crate::check::check_batch;
use crate::seam::{Kv, Lookup, Profile, Stage, Usage, View, Wait, Watch};

pub use self::pending::Pending;
pub use self::verbs::{Answer, BeginChannel, Channel, WireVerbs};

/// How long a client waits for a server; [`Duration::MAX`] is for ever.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Timeouts {
    /// For it to take a connection, and to greet: 10 seconds. Then it is `TimedOut`.
    pub connect: Duration,
    /// For the answer to a call, beyond what the server was asked to wait itself: a minute. Then the call is `TimedOut`, and
    /// whether what it asked for happens is not known. A body of any length is many calls.
    pub call: Duration,
    /// For a server that went away to come back, from when that was found: 10 seconds. Then it is `Disconnected`, and each
    /// later call tries once to connect.
    pub reconnect: Duration,
}

impl Default for Timeouts {
    fn default() -> Timeouts {
        let (short, long) = (Duration::from_secs(10), Duration::from_secs(60));
        Timeouts { connect: short, call: long, reconnect: short }
    }
}

/// How a client behaves.
#[derive(Clone, Debug)]
pub struct ClientOptions {
    /// How long it waits.
    pub timeouts: Timeouts,
    /// Bytes of memory that it shares with a server on this machine, each way, at most [`SHARED_LEN_MAX`]; 0 is none.
    pub shared_len: usize,
    /// Data of at least so many bytes goes through that memory and not through the socket.
    pub shared_from: usize,
}

/// From here on shared memory is no slower than the socket (docs/performance.md).
const SHARED_FROM: usize = 4 << 10;

impl Default for ClientOptions {
    fn default() -> ClientOptions {
        ClientOptions { timeouts: Timeouts::default(), shared_len: SHARED_LEN_MAX, shared_from: SHARED_FROM }
    }
}

/// A store behind a connection. Thread-safe; closing it ends the connection, not the store.
pub struct WireKv {
    line: Arc<Line>,
    profile: Profile,
    /// The number of the connection on which something was last changed without a sync, plus one; 0 for none.
    unsynced: AtomicU64,
}

impl WireKv {
    /// To the owner of a Unix socket on this machine.
    pub fn connect_unix(path: &Path, options: &ClientOptions) -> Result<WireKv> {
        WireKv::over(Reach::Own(path.to_owned()), options)
    }

    /// To a server that knows the same key. `address` is a host and a port.
    pub fn connect_tcp(address: &str, key: &Key, options: &ClientOptions) -> Result<WireKv> {
        WireKv::over(Reach::Tcp(address.to_owned(), key.clone()), options)
    }

    fn over(reach: Reach, options: &ClientOptions) -> Result<WireKv> {
        let (line, profile) = Line::open(reach, options.clone(), None)?;
        Ok(WireKv { line: Arc::new(line), profile, unsynced: AtomicU64::new(0) })
    }

    /// Asks for the whole value of a key in the newest version, and goes on.
    pub fn begin_get(&self, space: SpaceId, key: Bytes) -> Result<Pending<Option<Bytes>>> {
        let at = Place { space, key };
        let asked = self.line.connection()?.retrieve(NEWEST, &at, 0, DATA_LEN_MAX)?;
        Ok(Pending::get(Arc::clone(&self.line), at, asked))
    }

    /// Asks for a batch, and goes on; batches of one thread are ordered as they were begun.
    pub fn begin(&self, batch: Batch, durability: Durability) -> Result<Pending<Commit>> {
        let asked = self.ask_for(&self.line.fresh()?, batch, durability)?;
        Ok(Pending::commit(asked))
    }

    /// Until the guard is dropped small requests of this connection leave together, many in one call of the system. Who waits
    /// for an answer sends them first.
    pub fn gather(&self) -> Gathering<'_> {
        let connection = self.line.connection().ok();
        connection.iter().for_each(|connection| connection.link().gather());
        Gathering { connection, of: PhantomData }
    }

    fn ask_for(&self, connection: &Arc<Connection>, batch: Batch, durability: Durability) -> Result<SentRequest> {
        check_batch(&self.profile, &batch)?;
        if durability != Durability::Sync {
            self.unsynced.store(connection.number() + 1, Ordering::Release);
        }
        if let ([], [Operation::Put { at, value: Payload::Bytes(value) }]) =
            (&batch.conditions[..], &batch.operations[..])
            && value.len() <= DATA_LEN_MAX
        {
            let request = Request::Store { at: at.clone(), rule: Rule::Any, durability, request: batch.request };
            return connection.ask_with_bytes(&request, value);
        }
        let request = Request::Submit { batch, durability };
        connection.ask_naming(&request, &|token| number_of(connection, token))
    }

    fn commit_again(&self, batch: &Batch, durability: Durability) -> Result<Commit> {
        self.line.repeat(|connection| take_commit(self.ask_for(connection, batch.clone(), durability)?.wait()?.message))
    }

    /// Without a thread between the answer and who waits for it.
    fn commit_here(&self, batch: Batch, durability: Durability) -> Result<Commit> {
        if batch.request.is_some() {
            return self.commit_again(&batch, durability);
        }
        take_commit(self.ask_for(&self.line.fresh()?, batch, durability)?.wait()?.message)
    }

    /// Memory of so many bytes that a server on this machine takes a value from by itself: filled, made [`Bytes`] and put, it
    /// is copied once, by the server. `None` where no memory is shared, or all of it is in use: other bytes do as well.
    pub fn buffer(&self, length: usize) -> Option<Buffer> {
        self.line.connection().ok()?.buffer(length)
    }
}

/// The number of a stage of a connection.
fn number_of(connection: &Arc<Connection>, token: &StageToken) -> Result<u64> {
    let remote = token.content_ref::<Remote>().ok_or_else(another_store)?;
    match remote.is_of(connection) {
        Ok(is_of) if is_of => Ok(remote.number()),
        Ok(_) => Err(another_store()),
        Err(lost) => Err(lost),
    }
}

fn another_store() -> Error {
    Error::invalid("a stage of another store; stage the bytes in the store that the batch is for")
}

/// While it is there, small requests are gathered ([`WireKv::gather`]).
#[must_use = "requests are gathered until it is dropped"]
pub struct Gathering<'c> {
    connection: Option<Arc<Connection>>,
    of: PhantomData<&'c WireKv>,
}

impl Drop for Gathering<'_> {
    fn drop(&mut self) {
        self.connection.iter().for_each(|connection| connection.link().release());
    }
}

/// The same batch on another connection, by a thread that may wait for it.
fn submit_again(line: Arc<Line>, batch: Batch, durability: Durability, completer: Completer) {
    let again = move || {
        let commit = line.repeat(|connection| {
            let request = Request::Submit { batch: batch.clone(), durability };
            let asked = connection.ask_naming(&request, &|token| number_of(connection, token))?;
            take_commit(asked.wait()?.message)
        });
        completer.complete(commit);
    };
    // Without a thread the completer goes with the closure: who waits hears that the store stopped.
    let _begun = std::thread::Builder::new().name("koine-again".into()).spawn(again);
}

/// A part of the newest value of a key, in one round where it is no longer than a piece.
fn newest(line: &Arc<Line>, at: &Place, offset: u64, length: usize) -> Result<Lookup> {
    if length == 0 {
        let exist = || Request::Exist { view: NEWEST, at: at.clone() };
        let stat = line.repeat(|connection| take_stat(connection.call(&exist())?.message))?;
        return Ok(stat.map_or(Lookup::Absent, |stat| Lookup::Found(stat, Bytes::new())));
    }
    let piece_len = length.min(DATA_LEN_MAX);
    line.repeat(|connection| {
        let outcome = connection.retrieve(NEWEST, at, offset, piece_len)?.wait();
        part_of(line, at, (offset, length), outcome)
    })
}

/// The part, of which the answer to `retrieve` has all or the beginning.
fn part_of(line: &Arc<Line>, at: &Place, (offset, length): (u64, usize), outcome: Outcome) -> Result<Lookup> {
    let frame = match outcome {
        Err(error) if error.kind() == ErrorKind::NotFound => return Ok(Lookup::Absent),
        answered => answered?,
    };
    let stat = take_stat(frame.message)?.ok_or_else(|| malformed("a value of a key that is not there"))?;
    let wanted = stat.size.saturating_sub(offset).min(length as u64);
    if frame.data.len() as u64 == wanted {
        return Ok(Lookup::Found(stat, frame.data));
    }
    WireView::open(line)?.lookup(at.space, &at.key, offset, length, Wait::Allowed)
}

impl Kv for WireKv {
    fn profile(&self) -> &Profile {
        &self.profile
    }

    fn view(&self) -> Result<Arc<dyn View>> {
        Ok(Arc::new(WireView::open(&self.line)?))
    }

    fn lookup(&self, space: SpaceId, key: &[u8], offset: u64, length: usize, wait: Wait) -> Result<Lookup> {
        match wait {
            Wait::Allowed => newest(&self.line, &Place { space, key: Bytes::copy_from_slice(key) }, offset, length),
            Wait::Never => Ok(Lookup::WouldWait),
        }
    }

    fn stage(&self, hint: StageHint) -> Result<Box<dyn Stage>> {
        let stage = self.line.repeat(|connection| WireStage::open(connection, hint))?;
        Ok(Box::new(stage))
    }

    fn submit(&self, batch: Batch, durability: Durability, wait: Wait) -> Ticket {
        if wait == Wait::Allowed {
            return Ticket::ready(self.commit_here(batch, durability));
        }
        let (ticket, completer) = Ticket::new();
        let again = batch.request.is_some().then(|| batch.clone());
        let begun = self.line.fresh().and_then(|connection| self.ask_for(&connection, batch, durability));
        match begun {
            Ok(asked) => {
                let line = Arc::clone(&self.line);
                asked.then(move |outcome| match (outcome, again) {
                    (Err(error), Some(batch)) if is_loss(&error) => {
                        submit_again(line, batch, durability, completer);
                    }
                    (outcome, _) => completer.complete(outcome.and_then(|frame| take_commit(frame.message))),
                });
            }
            Err(error) => completer.complete(Err(error)),
        }
        ticket.elsewhere()
    }

    fn watch(&self, space: SpaceId, range: KeyRange, from: Version) -> Result<Box<dyn Watch>> {
        Ok(Box::new(WireWatch::open(&self.line, space, range, from)?))
    }

    fn usage(&self) -> Result<Usage> {
        self.line.repeat(|connection| take_usage(connection.call(&Request::Usage)?.message))
    }

    /// Once more where the connection was lost, unless what was to be made durable may have been lost with it.
    fn sync(&self) -> Result<()> {
        self.line.repeat(|connection| {
            let unsynced = self.unsynced.load(Ordering::Acquire);
            if unsynced != 0 && unsynced != connection.number() + 1 {
                let _told = self.unsynced.compare_exchange(unsynced, 0, Ordering::AcqRel, Ordering::Relaxed);
                let message = "what was changed without a sync before may be lost too: look, and change it again";
                return Ok(Err(connection.lost_with_it(ErrorKind::Disconnected, message)));
            }
            connection.call(&Request::Sync)?;
            let _later = self.unsynced.compare_exchange(unsynced, 0, Ordering::AcqRel, Ordering::Relaxed);
            Ok(Ok(()))
        })?
    }

    fn close(&self) -> Result<()> {
        self.line.close();
        Ok(())
    }
}

impl std::fmt::Debug for WireKv {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "WireKv({})", self.line.place())
    }
}
