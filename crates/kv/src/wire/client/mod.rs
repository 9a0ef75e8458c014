//! A store that another process has, through its wire.
//!
//! Invariants:
//! - Requests of one thread reach the server in the order in which they were made: batches keep their order, and a view
//!   that is taken after an answer sees what the answer told of.
//! - When the connection is lost every call fails with `Stopped`; whether a batch under way was applied is not known then.

mod connect;
mod connection;
mod cursor;
mod held;
mod link;
mod numbers;
mod pending;
mod slot;
mod stage;
mod verbs;
mod view;
mod watch;

use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use koine_engine::{
    Batch, Commit, Durability, Error, ErrorKind, KeyRange, Operation, Payload, Place, Result, SpaceId, StageHint,
    StageToken, Ticket, Version,
};

use self::connection::Connection;
use self::link::{Asked, Link};
use self::slot::Outcome;
use self::stage::{Remote, WireStage};
use self::view::WireView;
use self::watch::WireWatch;
use super::fields::malformed;
use super::frame::DATA_LEN_MAX;
use super::identity::{Key, check_owner};
use super::reply::{take_commit, take_stat, take_usage};
use super::request::{NEWEST, Request, Rule};
use super::shared::SHARED_LEN_MAX;
use super::shared::slots::Buffer;
use super::stream::Stream;
use crate::check::check_batch;
use crate::seam::{Glance, Kv, Profile, Stage, Usage, View, Watch};

pub use self::pending::Pending;
pub use self::slot::letting_go;
pub use self::verbs::{Answer, WireVerbs};

/// How a client behaves.
#[derive(Clone, Debug)]
pub struct ClientOptions {
    /// So long it waits for a server to take the connection and to greet.
    pub connect: Duration,
    /// Bytes of memory that it shares with a server on this machine, each way, at most [`SHARED_LEN_MAX`]; 0 is none.
    pub shared_len: usize,
    /// Data of at least so many bytes goes through that memory and not through the socket.
    pub shared_from: usize,
}

/// From here on shared memory is no slower than the socket (docs/performance.md).
const SHARED_FROM: usize = 4 << 10;

impl Default for ClientOptions {
    fn default() -> ClientOptions {
        ClientOptions { connect: Duration::from_secs(10), shared_len: SHARED_LEN_MAX, shared_from: SHARED_FROM }
    }
}

/// A store behind a connection. Thread-safe; closing it ends the connection, not the store.
pub struct WireKv {
    connection: Arc<Connection>,
    profile: Profile,
}

impl WireKv {
    /// To the owner of a Unix socket on this machine.
    pub fn connect_unix(path: &Path, options: &ClientOptions) -> Result<WireKv> {
        let place = path.display().to_string();
        let stream = connect::unix(path, options)?;
        check_owner(&stream, &place)?;
        WireKv::over(Stream::Unix(stream), &place, None, options)
    }

    /// To a server that knows the same key. `address` is a host and a port.
    pub fn connect_tcp(address: &str, key: &Key, options: &ClientOptions) -> Result<WireKv> {
        WireKv::over(Stream::Tcp(connect::tcp(address, options)?), address, Some(key), options)
    }

    fn over(stream: Stream, place: &str, key: Option<&Key>, options: &ClientOptions) -> Result<WireKv> {
        let (connection, profile) = Connection::begin(stream, place, key, options)?;
        Ok(WireKv { connection, profile })
    }

    /// Asks for the whole value of a key in the newest version, and goes on.
    pub fn begin_get(&self, space: SpaceId, key: Bytes) -> Result<Pending<Option<Bytes>>> {
        let at = Place { space, key };
        let asked = self.retrieve(&at)?;
        Ok(Pending::of((Arc::clone(&self.connection), at), asked, whole))
    }

    /// Asks for a batch, and goes on; batches of one thread are ordered as they were begun.
    pub fn begin(&self, batch: Batch, durability: Durability) -> Result<Pending<Commit>> {
        Ok(Pending::told(self.ask_for(batch, durability)?, |outcome| take_commit(outcome?.message)))
    }

    /// Until the guard is dropped small requests of this connection leave together, many in one call of the system. Who waits
    /// for an answer sends them first.
    pub fn gather(&self) -> Gathering<'_> {
        let link = self.connection.link();
        link.gather();
        Gathering(link)
    }

    fn ask_for(&self, batch: Batch, durability: Durability) -> Result<Asked> {
        check_batch(&self.profile, &batch)?;
        if let ([], [Operation::Put { at, value: Payload::Bytes(value) }]) =
            (&batch.conditions[..], &batch.operations[..])
            && value.len() <= DATA_LEN_MAX
        {
            let request = Request::Store { at: at.clone(), rule: Rule::Any, durability, request: batch.request };
            return self.connection.ask_with_bytes(&request, value);
        }
        let request = Request::Submit { batch, durability };
        self.connection.ask_naming(&request, &|token| self.number_of(token))
    }

    fn retrieve(&self, at: &Place) -> Result<Asked> {
        self.connection.retrieve(NEWEST, at, 0, DATA_LEN_MAX)
    }

    /// Memory of so many bytes that a server on this machine takes a value from by itself: filled, made [`Bytes`] and put, it
    /// is copied once, by the server. `None` where no memory is shared, or all of it is in use: other bytes do as well.
    pub fn buffer(&self, length: usize) -> Option<Buffer> {
        self.connection.buffer(length)
    }

    /// The number of a stage of this connection.
    fn number_of(&self, token: &StageToken) -> Result<u64> {
        let remote = token.content_ref::<Remote>().filter(|remote| remote.is_of(&self.connection));
        let remote = remote.ok_or_else(|| {
            Error::invalid("a stage of another store; stage the bytes in the store that the batch is for")
        })?;
        Ok(remote.number())
    }
}

/// While it is there, small requests are gathered ([`WireKv::gather`]).
#[must_use = "requests are gathered until it is dropped"]
pub struct Gathering<'c>(&'c Link);

impl Drop for Gathering<'_> {
    fn drop(&mut self) {
        self.0.release();
    }
}

/// The value that the answer to `retrieve` has the whole or the beginning of.
fn whole(connection: &Arc<Connection>, at: &Place, outcome: Outcome) -> Result<Option<Bytes>> {
    let frame = match outcome {
        Err(error) if error.kind() == ErrorKind::NotFound => return Ok(None),
        answered => answered?,
    };
    let stat = take_stat(frame.message)?.ok_or_else(|| malformed("a value of a key that is not there"))?;
    if frame.data.len() as u64 == stat.size {
        return Ok(Some(frame.data));
    }
    let view = WireView::open(connection)?;
    let Some(stat) = view.stat(at.space, &at.key)? else { return Ok(None) };
    let length = usize::try_from(stat.size).map_err(|_| Error::invalid("value too large to get whole"))?;
    view.bytes(at.space, &at.key, 0, length).map(Some)
}

impl Kv for WireKv {
    fn profile(&self) -> &Profile {
        &self.profile
    }

    fn view(&self) -> Result<Arc<dyn View>> {
        Ok(Arc::new(WireView::open(&self.connection)?))
    }

    /// In one round, where the value is no longer than a piece.
    fn get(&self, space: SpaceId, key: &[u8]) -> Result<Option<Bytes>> {
        let at = Place { space, key: Bytes::copy_from_slice(key) };
        whole(&self.connection, &at, self.retrieve(&at)?.wait())
    }

    fn glance(&self, _space: SpaceId, _key: &[u8], _offset: u64, _length: usize) -> Result<Glance> {
        Ok(Glance::Unknown)
    }

    fn stage(&self, hint: StageHint) -> Result<Box<dyn Stage>> {
        Ok(Box::new(WireStage::open(&self.connection, hint)?))
    }

    fn submit(&self, batch: Batch, durability: Durability) -> Ticket {
        let (ticket, completer) = Ticket::new();
        match self.ask_for(batch, durability) {
            Ok(asked) => {
                asked.then(move |outcome| completer.complete(outcome.and_then(|frame| take_commit(frame.message))))
            }
            Err(error) => completer.complete(Err(error)),
        }
        ticket.elsewhere()
    }

    /// Without a thread between the answer and who waits for it.
    fn commit(&self, batch: Batch, durability: Durability) -> Result<Commit> {
        take_commit(self.ask_for(batch, durability)?.wait()?.message)
    }

    fn watch(&self, space: SpaceId, range: KeyRange, from: Version) -> Result<Box<dyn Watch>> {
        Ok(Box::new(WireWatch::open(&self.connection, space, range, from)?))
    }

    fn usage(&self) -> Result<Usage> {
        take_usage(self.connection.call(&Request::Usage)?.message)
    }

    fn sync(&self) -> Result<()> {
        self.connection.call(&Request::Sync).map(drop)
    }

    fn close(&self) -> Result<()> {
        self.connection.close();
        Ok(())
    }
}

impl std::fmt::Debug for WireKv {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "WireKv({})", self.connection.place())
    }
}
