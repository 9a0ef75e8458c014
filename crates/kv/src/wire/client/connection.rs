//! The connection of a client: greets, gives requests out in order, and numbers what they name.
//!
//! Invariant: who greets is looked at before anything is asked for.

use std::cell::{Cell, RefCell};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::thread::JoinHandle;
use std::time::Instant;

use bytes::Bytes;
use koine_engine::{Error, ErrorKind, Place, Result, StageToken};
use koine_env::{OsRandom, Random};
use parking_lot::Mutex;

use super::ClientOptions;
use super::link::{Data, Held, Link, Sent, SentRequest};
use super::slot::Outcome;
use crate::seam::Profile;
use crate::wire::batch::Names;
use crate::wire::fields::malformed;
use crate::wire::frame::{DATA_LEN_MAX, Frame, Kind, Limits, Shared, request_header, write_request};
use crate::wire::identity::{Key, Side, shares_memory};
use crate::wire::reply::{Greeting, Welcome, take_error};
use crate::wire::request::{PROTOCOL, Request, without_stages};
use crate::wire::shared::offer::{ClientSide, make};
use crate::wire::shared::slots::{Buffer, Part};
use crate::wire::shared::{PART_LEN, SHARED_LEN_MAX};
use crate::wire::stream::{Stream, StreamReader, bounded, is_nothing};

/// The number of the last request of a greeting.
const GREETED: u64 = 3;

/// Memory for a message is kept for the next one up to so many bytes.
const MESSAGE_KEPT_MAX: usize = 4 << 10;

/// A connection to a server.
pub(super) struct Connection {
    link: Arc<Link>,
    /// No other connection of its line has it.
    number: u64,
    /// So many views, and so many stages, may be open at once.
    handles_max: usize,
    /// How many views are kept.
    kept: AtomicUsize,
    /// Of views, stages and watches.
    numbers: AtomicU64,
    shared: Option<ClientSide>,
    /// Data of at least so many bytes goes through it.
    shared_from: usize,
    /// The thread that reads for those who cannot.
    attendant: Mutex<Option<JoinHandle<()>>>,
}

impl Connection {
    /// Greets the server, and gives what its store takes.
    pub fn begin(
        stream: Stream,
        place: &str,
        key: Option<&Key>,
        options: &ClientOptions,
        number: u64,
    ) -> Result<(Arc<Connection>, Profile)> {
        let lost =
            |error| Error::new(ErrorKind::Disconnected, format!("the server at {place} has gone")).with_source(error);
        let timeouts = options.timeouts;
        stream.prepare().map_err(lost)?;
        stream.set_read_timeout(bounded(timeouts.connect)).map_err(lost)?;
        stream.set_write_timeout(bounded(timeouts.connect)).map_err(lost)?;
        let stream = Arc::new(stream);
        let mut answers = StreamReader::new(Arc::clone(&stream));
        answers.read_until(Instant::now().checked_add(timeouts.connect)).map_err(lost)?;
        let (welcome, greeting) = greet((&stream, &mut answers), place, key)?;
        let shared = share((&stream, &mut answers), options.shared_len)?;
        let in_flight_max = (greeting.in_flight_max as usize).max(1);
        let link = Link::new(stream, place, in_flight_max, GREETED, bounded(timeouts.call))?;
        let link = Arc::new(link);
        let attended = Arc::clone(&link);
        let attendant = std::thread::Builder::new().name("koine-wire".into()).spawn(move || attended.attend());
        let attendant =
            attendant.map_err(|error| Error::new(ErrorKind::Busy, "cannot start a thread").with_source(error))?;
        let connection = Connection {
            link,
            number,
            handles_max: greeting.handles_max as usize,
            kept: AtomicUsize::new(0),
            numbers: AtomicU64::new(1),
            shared,
            shared_from: options.shared_from.max(1),
            attendant: Mutex::new(Some(attendant)),
        };
        Ok((Arc::new(connection), welcome.profile))
    }

    /// No other connection of its line has it.
    pub fn number(&self) -> u64 {
        self.number
    }

    /// What went with the connection, and what to do.
    pub fn lost_with_it(&self, kind: ErrorKind, what: &str) -> Error {
        Error::new(kind, format!("the connection to the server at {} was lost, and {what}", self.place()))
    }

    /// One more view is kept while others come and go: the last eighth of what may be open is for those.
    pub fn keep_view(&self) -> Result<()> {
        let most = self.handles_max - self.handles_max / 8;
        let kept =
            self.kept.fetch_update(Ordering::Relaxed, Ordering::Relaxed, |kept| (kept < most).then_some(kept + 1));
        kept.map(drop).map_err(|kept| {
            let message =
                format!("{kept} objects, transactions or pinned versions are open on this connection: close some");
            Error::new(ErrorKind::Busy, message)
        })
    }

    /// It is kept no more.
    pub fn leave_view(&self) {
        self.kept.fetch_sub(1, Ordering::Relaxed);
    }

    /// Where the server is.
    pub fn place(&self) -> &str {
        self.link.place()
    }

    /// A number for a view, a stage or a watch.
    pub fn next_number(&self) -> u64 {
        self.numbers.fetch_add(1, Ordering::Relaxed)
    }

    /// Sends a request that names no stages.
    pub fn ask(&self, request: &Request) -> Result<SentRequest> {
        self.send(request, Data::Inline(&[]), Held::default())
    }

    /// Sends a request that names no stages; its message is built where the thread's last one was.
    fn send(&self, request: &Request, data: Data<'_>, held: Held) -> Result<SentRequest> {
        thread_local!(static LAST: Cell<Vec<u8>> = const { Cell::new(Vec::new()) });
        let mut message = LAST.take();
        message.clear();
        let encoded = request.encode_into(&mut message, &without_stages);
        let asked = encoded.and_then(|()| self.link.ask(request.verb(), &message, data, held));
        if message.capacity() <= MESSAGE_KEPT_MAX {
            LAST.set(message);
        }
        asked
    }

    /// Sends a request whose batch names stages, or bytes that are long.
    pub fn ask_naming(&self, request: &Request, number: &dyn Fn(&StageToken) -> Result<u64>) -> Result<SentRequest> {
        let naming = Naming { connection: self, number, sent: RefCell::default() };
        let message = request.encode(&naming)?;
        let held = Held { room: None, sent: naming.sent.into_inner() };
        self.link.ask(request.verb(), &message, Data::Inline(&[]), held)
    }

    /// Sends a request with data.
    pub fn ask_with(&self, request: &Request, data: &[u8]) -> Result<SentRequest> {
        match self.copy_in(data) {
            Some((offset, sent)) => self.ask_shared(request, offset, data.len(), sent),
            None => self.send(request, Data::Inline(data), Held::default()),
        }
    }

    /// Sends a request with data that may lie in shared memory already.
    pub fn ask_with_bytes(&self, request: &Request, data: &Bytes) -> Result<SentRequest> {
        match self.find(data) {
            Some((offset, sent)) => self.ask_shared(request, offset, data.len(), sent),
            None => self.ask_with(request, data),
        }
    }

    fn ask_shared(&self, request: &Request, offset: u64, length: usize, sent: Sent) -> Result<SentRequest> {
        let shared = Shared { offset, length: u32::try_from(length).unwrap_or(u32::MAX) };
        let held = Held { room: None, sent: vec![sent] };
        self.send(request, Data::Shared(shared), held)
    }

    /// Where bytes lie in shared memory, if the caller has put them there.
    fn find(&self, data: &Bytes) -> Option<(u64, Sent)> {
        let shared = self.memory().filter(|_| !data.is_empty())?;
        shared.to_server.find(data).map(|offset| (offset, Sent::Bytes(data.clone())))
    }

    /// Puts long data into shared memory, where there is some and room in it.
    fn copy_in(&self, data: &[u8]) -> Option<(u64, Sent)> {
        let shared = self.memory().filter(|_| data.len() >= self.shared_from && data.len() <= DATA_LEN_MAX)?;
        let part = shared.to_server.lend(data.len())?;
        part.fill(data).ok()?;
        Some((part.offset(), Sent::Part(part)))
    }

    /// Asks for a part of a value, with room for it in shared memory where it may be long.
    pub fn retrieve(&self, view: u64, at: &Place, offset: u64, length: usize) -> Result<SentRequest> {
        let length = length.min(DATA_LEN_MAX);
        let shared = self.memory().filter(|_| length >= self.shared_from);
        let room = shared.and_then(|shared| shared.to_client.lend(length));
        let into = room.as_ref().map(Part::offset);
        let request = Request::Retrieve { view, at: at.clone(), offset, length: length as u32, into };
        self.send(&request, Data::Inline(&[]), Held { room, sent: Vec::new() })
    }

    /// Memory from which the server takes bytes itself.
    pub fn buffer(&self, length: usize) -> Option<Buffer> {
        self.memory()?.to_server.lend(length).map(Buffer::new)
    }

    /// The memory that is shared with the server; a forked copy leaves it alone.
    fn memory(&self) -> Option<&ClientSide> {
        self.shared.as_ref().filter(|_| self.link.process.is_here())
    }

    /// Sends a request and waits for its answer.
    pub fn call(&self, request: &Request) -> Outcome {
        self.ask(request)?.wait()
    }

    /// The socket.
    pub fn link(&self) -> &Arc<Link> {
        &self.link
    }

    /// Ends it; later calls fail.
    pub fn close(&self) {
        if !self.link.process.is_here() {
            return;
        }
        self.link.fail(Error::new(ErrorKind::Stopped, "the store was closed"));
        let attendant = self.attendant.lock().take();
        if let Some(attendant) = attendant.filter(|_| !self.link.is_attended_here()) {
            let _panicked = attendant.join();
        }
    }
}

impl Drop for Connection {
    fn drop(&mut self) {
        // The thread is not in a forked copy.
        self.link.process.leave(|| (Arc::clone(&self.link), self.attendant.get_mut().take()));
        self.close();
    }
}

/// What a batch names, as the server calls it; long bytes go through shared memory.
struct Naming<'n> {
    connection: &'n Connection,
    number: &'n dyn Fn(&StageToken) -> Result<u64>,
    sent: RefCell<Vec<Sent>>,
}

impl Names for Naming<'_> {
    fn stage(&self, token: &StageToken) -> Result<u64> {
        (self.number)(token)
    }

    fn shared(&self, bytes: &Bytes) -> Option<u64> {
        let (offset, sent) = self.connection.find(bytes).or_else(|| self.connection.copy_in(bytes))?;
        self.sent.borrow_mut().push(sent);
        Some(offset)
    }
}

/// Passes memory to a server on this machine. Where that cannot be, all goes through the socket.
fn share((stream, answers): (&Stream, &mut StreamReader), length: usize) -> Result<Option<ClientSide>> {
    let Stream::Unix(socket) = stream else { return Ok(None) };
    let length = length.min(SHARED_LEN_MAX) / PART_LEN * PART_LEN;
    if length == 0 || !shares_memory(socket) {
        return Ok(None);
    }
    let Ok((side, files)) = make(length) else { return Ok(None) };
    let lost = |error: std::io::Error| Error::new(ErrorKind::Disconnected, "the server has gone").with_source(error);
    let request = Request::Share { to_server: length as u64, to_client: length as u64 };
    let message = request.encode(&without_stages)?;
    let header = request_header(request.verb(), GREETED, &message, &[], None);
    stream.send_files(&[&header[..], &message].concat(), &files).map_err(lost)?;
    match Frame::read(answers, Limits::FULL)? {
        Some(frame) if frame.id == GREETED && frame.kind == Kind::Reply => Ok(Some(side)),
        Some(frame) if frame.id == GREETED && frame.kind == Kind::Failure => Ok(None),
        _ => Err(malformed("no answer to shared memory")),
    }
}

/// Says who is here and hears who is there.
fn greet(
    (stream, answers): (&Stream, &mut StreamReader),
    place: &str,
    key: Option<&Key>,
) -> Result<(Welcome, Greeting)> {
    let refused = || {
        let message = format!(
            "the server at {place} has ended the connection before it greeted: it has too many, or belongs to another user"
        );
        Error::new(ErrorKind::Busy, message)
    };
    let mut call = |id: u64, request: &Request| -> Result<Frame> {
        let message = request.encode(&without_stages)?;
        write_request(&mut { stream }, request.verb(), id, &message, &[])
            .map_err(|error| refused().with_source(error))?;
        let frame = Frame::read(answers, Limits::GREETING).map_err(|error| match error.kind() {
            ErrorKind::Stopped if is_late(&error) => {
                Error::new(ErrorKind::TimedOut, format!("the server at {place} does not greet")).with_source(error)
            }
            ErrorKind::Stopped => refused().with_source(error),
            _ => error,
        })?;
        let frame = frame.ok_or_else(refused)?;
        match frame.kind {
            Kind::Reply if frame.id == id => Ok(frame),
            Kind::Failure => Err(take_error(frame.message)),
            _ => Err(malformed("no greeting")),
        }
    };
    let mut nonce = [0; 32];
    OsRandom.fill(&mut nonce);
    let greeting = Greeting::decode(call(1, &Request::Hello { protocol: PROTOCOL, nonce })?.message)?;
    let proof = match (greeting.wants_proof, key) {
        (false, None) => [0; 32],
        (true, Some(key)) => key.proof(Side::Client, &greeting.nonce, &nonce)?,
        (true, None) => return Err(Error::invalid(format!("the server at {place} wants a key"))),
        (false, Some(_)) => {
            return Err(Error::invalid(format!(
                "the server at {place} asks for no key: it may not be the one that is meant"
            )));
        }
    };
    let welcome = Welcome::decode(call(2, &Request::Prove { proof })?.message)?;
    if let Some(key) = key
        && !key.verify(Side::Server, &greeting.nonce, &nonce, &welcome.proof)
    {
        return Err(Error::invalid(format!(
            "the server at {place} does not know the key: it is not the one that is meant"
        )));
    }
    Ok((welcome, greeting))
}

/// Whether a read only ended because nothing came in time.
fn is_late(error: &Error) -> bool {
    let source = std::error::Error::source(error).and_then(|source| source.downcast_ref::<std::io::Error>());
    source.is_some_and(is_nothing)
}
