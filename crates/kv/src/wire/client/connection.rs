//! The connection of a client: requests go out in order, answers come back as they are ready.
//!
//! Invariants:
//! - Every request has exactly one outcome: its answer, or why the connection ended.
//! - At most as many requests are under way as the server allows; who asks for one more waits. The thread that reads
//!   answers never waits so: a callback may ask again.

use std::collections::HashMap;
use std::io::BufReader;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::thread::{JoinHandle, ThreadId};

use koine_engine::{Error, ErrorKind, Result};
use koine_env::{OsRandom, Random};
use parking_lot::{Condvar, Mutex};

use super::ClientOptions;
use crate::seam::Profile;
use crate::wire::batch::NumberOf;
use crate::wire::fields::malformed;
use crate::wire::frame::{Frame, Kind, Limits, write_request};
use crate::wire::identity::{Key, Side};
use crate::wire::reply::{Greeting, Welcome, take_error};
use crate::wire::request::{PROTOCOL, Request, without_stages};
use crate::wire::stream::Stream;

/// Memory for answers that came together.
const READ_LEN: usize = 64 << 10;

/// What came of a request: its answer, or why there is none.
pub(super) type Outcome = Result<Frame>;
type Callback = Box<dyn FnOnce(Outcome) + Send>;

enum State {
    Waiting,
    Called(Callback),
    Done(Outcome),
    Taken,
}

struct Slot {
    state: Mutex<State>,
    done: Condvar,
}

impl Slot {
    fn give(&self, outcome: Outcome) {
        let mut state = self.state.lock();
        match std::mem::replace(&mut *state, State::Taken) {
            State::Waiting => {
                *state = State::Done(outcome);
                self.done.notify_all();
            }
            State::Called(callback) => {
                drop(state);
                callback(outcome);
            }
            other => *state = other,
        }
    }
}

/// A request that was sent. Dropped, its answer is not looked at.
pub(super) struct Asked(Arc<Slot>);

impl Asked {
    /// Waits for the answer.
    pub fn wait(self) -> Outcome {
        let mut state = self.0.state.lock();
        loop {
            match std::mem::replace(&mut *state, State::Taken) {
                State::Done(outcome) => return outcome,
                other => *state = other,
            }
            self.0.done.wait(&mut state);
        }
    }

    /// Whether the answer is there.
    pub fn is_done(&self) -> bool {
        matches!(*self.0.state.lock(), State::Done(_))
    }

    /// Calls back with the answer, on the thread that reads it, or at once.
    pub fn then(self, callback: impl FnOnce(Outcome) + Send + 'static) {
        let mut state = self.0.state.lock();
        match std::mem::replace(&mut *state, State::Taken) {
            State::Done(outcome) => {
                drop(state);
                callback(outcome);
            }
            _ => *state = State::Called(Box::new(callback)),
        }
    }
}

/// Who waits for which answer.
struct Inbox {
    state: Mutex<Pending>,
    fewer: Condvar,
}

#[derive(Default)]
struct Pending {
    slots: HashMap<u64, Arc<Slot>>,
    /// Why there is no connection any more.
    dead: Option<Error>,
    reader: Option<ThreadId>,
}

impl Inbox {
    /// Fails what is under way and all that comes; the first reason stays.
    fn end(&self, why: Error) {
        let mut state = self.state.lock();
        let why = state.dead.get_or_insert(why).clone();
        let slots = std::mem::take(&mut state.slots);
        self.fewer.notify_all();
        drop(state);
        slots.into_values().for_each(|slot| slot.give(Err(why.clone())));
    }

    fn deliver(&self, frame: Frame) -> Result<()> {
        let slot = self.state.lock().slots.remove(&frame.id);
        self.fewer.notify_one();
        let slot = slot.ok_or_else(|| malformed("an answer to no request"))?;
        match frame.kind {
            Kind::Reply => slot.give(Ok(frame)),
            Kind::Failure => slot.give(Err(take_error(frame.message))),
            Kind::Request => {
                slot.give(Err(malformed("a request where an answer is wanted")));
                return Err(malformed("a request where an answer is wanted"));
            }
        }
        Ok(())
    }
}

/// A connection to a server.
pub(super) struct Connection {
    stream: Arc<Stream>,
    place: String,
    inbox: Arc<Inbox>,
    /// Held while a request is written; the number of the last one.
    sent: Mutex<u64>,
    in_flight_max: usize,
    /// Of views, stages and watches.
    numbers: AtomicU64,
    reader: Mutex<Option<JoinHandle<()>>>,
}

impl Connection {
    /// Greets the server, and gives what its store takes.
    pub fn begin(
        stream: Stream,
        place: &str,
        key: Option<&Key>,
        options: &ClientOptions,
    ) -> Result<(Arc<Connection>, Profile)> {
        let lost = |error| Error::new(ErrorKind::Stopped, format!("the server at {place} is gone")).with_source(error);
        stream.prepare().map_err(lost)?;
        stream.set_read_timeout(Some(options.connect)).map_err(lost)?;
        stream.set_write_timeout(Some(options.connect)).map_err(lost)?;
        let (welcome, in_flight_max) = greet(&stream, place, key)?;
        stream.set_read_timeout(None).map_err(lost)?;
        stream.set_write_timeout(None).map_err(lost)?;
        let stream = Arc::new(stream);
        let inbox = Arc::new(Inbox { state: Mutex::default(), fewer: Condvar::new() });
        let (reading, answers, named) = (Arc::clone(&stream), Arc::clone(&inbox), place.to_owned());
        let reader =
            std::thread::Builder::new().name("koine-wire".into()).spawn(move || read(&reading, &answers, &named));
        let reader = reader.map_err(|error| Error::new(ErrorKind::Busy, "cannot start a thread").with_source(error))?;
        inbox.state.lock().reader = Some(reader.thread().id());
        let connection = Connection {
            stream,
            place: place.to_owned(),
            inbox,
            sent: Mutex::new(2),
            in_flight_max,
            numbers: AtomicU64::new(1),
            reader: Mutex::new(Some(reader)),
        };
        Ok((Arc::new(connection), welcome.profile))
    }

    /// Where the server is.
    pub fn place(&self) -> &str {
        &self.place
    }

    /// A number for a view, a stage or a watch.
    pub fn next_number(&self) -> u64 {
        self.numbers.fetch_add(1, Ordering::Relaxed)
    }

    /// Sends a request that names no stages.
    pub fn ask(&self, request: &Request) -> Result<Asked> {
        self.ask_naming(request, &without_stages)
    }

    /// Sends a request.
    pub fn ask_naming(&self, request: &Request, number: NumberOf<'_>) -> Result<Asked> {
        self.send(request.verb(), &request.encode(number)?, &[])
    }

    /// Sends a request with data.
    pub fn ask_with(&self, request: &Request, data: &[u8]) -> Result<Asked> {
        self.send(request.verb(), &request.encode(&without_stages)?, data)
    }

    /// Sends a request and waits for its answer.
    pub fn call(&self, request: &Request) -> Outcome {
        self.ask(request)?.wait()
    }

    fn send(&self, verb: u16, message: &[u8], data: &[u8]) -> Result<Asked> {
        let slot = Arc::new(Slot { state: Mutex::new(State::Waiting), done: Condvar::new() });
        let mut last = self.sent.lock();
        let id = *last + 1;
        {
            let mut pending = self.inbox.state.lock();
            let may_wait = pending.reader != Some(std::thread::current().id());
            while may_wait && pending.dead.is_none() && pending.slots.len() >= self.in_flight_max {
                self.inbox.fewer.wait(&mut pending);
            }
            if let Some(why) = &pending.dead {
                return Err(why.clone());
            }
            pending.slots.insert(id, Arc::clone(&slot));
        }
        *last = id;
        if let Err(error) = write_request(&mut &*self.stream, verb, id, message, data) {
            if error.kind() == std::io::ErrorKind::InvalidInput {
                self.inbox.state.lock().slots.remove(&id);
                return Err(Error::invalid(error.to_string()));
            }
            // A part of it may have gone out: nothing can follow.
            self.fail(gone(&self.place).with_source(error));
        }
        Ok(Asked(slot))
    }

    fn fail(&self, why: Error) {
        self.stream.end();
        self.inbox.end(why);
    }

    /// Ends it; later calls fail.
    pub fn close(&self) {
        self.fail(Error::new(ErrorKind::Stopped, "the store was closed"));
        let reader = self.reader.lock().take();
        if let Some(reader) = reader.filter(|reader| reader.thread().id() != std::thread::current().id()) {
            let _panicked = reader.join();
        }
    }
}

impl Drop for Connection {
    fn drop(&mut self) {
        self.close();
    }
}

fn gone(place: &str) -> Error {
    let message = format!(
        "the server at {place} is gone; whether what was under way has happened is not known: connect again and look"
    );
    Error::new(ErrorKind::Stopped, message)
}

/// Takes answers in until the connection ends.
fn read(stream: &Stream, inbox: &Inbox, place: &str) {
    let mut reader = BufReader::with_capacity(READ_LEN, stream);
    let why = loop {
        match Frame::read(&mut reader, Limits::FULL) {
            Ok(Some(frame)) => {
                if let Err(error) = inbox.deliver(frame) {
                    break error;
                }
            }
            Ok(None) => break gone(place),
            Err(error) if error.kind() == ErrorKind::Stopped => break gone(place).with_source(error),
            Err(error) => {
                break Error::new(ErrorKind::Stopped, format!("the server at {place} cannot be understood"))
                    .with_source(error);
            }
        }
    };
    stream.end();
    inbox.end(why);
}

/// Says who is here and hears who is there.
fn greet(stream: &Stream, place: &str, key: Option<&Key>) -> Result<(Welcome, usize)> {
    let refused = || {
        let message = format!(
            "the server at {place} has ended the connection before it greeted: it has too many, or belongs to another user"
        );
        Error::new(ErrorKind::Busy, message)
    };
    let call = |id: u64, request: &Request| -> Result<Frame> {
        let message = request.encode(&without_stages)?;
        write_request(&mut &*stream, request.verb(), id, &message, &[])
            .map_err(|error| refused().with_source(error))?;
        let frame = Frame::read(&mut &*stream, Limits::GREETING).map_err(|error| match error.kind() {
            ErrorKind::Stopped => {
                Error::new(ErrorKind::Busy, format!("the server at {place} does not greet")).with_source(error)
            }
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
    Ok((welcome, (greeting.in_flight_max as usize).max(1)))
}
