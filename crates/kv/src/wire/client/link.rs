//! The socket of a client, and the answers on their way to who waits for them.
//!
//! Invariants:
//! - Every request has exactly one outcome: its answer, or why the connection ended.
//! - One thread reads at a time. Who waits while nobody reads does it itself, so that an answer is taken in by the thread that
//!   wants it; who has its answer hands over to another who waits. Callbacks, senders that are held up, and answers that
//!   nobody fetches are served by the connection's own thread.
//! - At most as many requests are under way as the server allows; who asks for one more waits. A callback never waits so: it
//!   may ask again.

use std::collections::BTreeMap;
use std::io::IoSlice;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use koine_engine::device::Process;
use koine_engine::{Error, ErrorKind, Result};
use koine_env::patience;
use parking_lot::{Condvar, Mutex, MutexGuard};

use super::held::{Data, Held, received};
use super::numbers::ByNumber;
use super::slot::{Outcome, Slot, State, TELLING};
use crate::copies;
use crate::wire::fields::malformed;
use crate::wire::frame::{Frame, Kind, Limits, check_lengths, request_header};
use crate::wire::incoming::Incoming;
use crate::wire::reply::take_error;
use crate::wire::stream::{Stream, StreamReader, is_tick};

/// Requests of at most so many bytes are gathered, up to so many in all.
const GATHERED_LEN_MAX: usize = 16 << 10;
const GATHERED_ALL_LEN_MAX: usize = 64 << 10;
/// So often the connection's own thread looks whether answers lie about that nobody fetches: a server does not wait for ever.
const LOOK_AFTER: Duration = Duration::from_secs(5);

/// A request that was sent. Dropped, its answer is not looked at.
pub struct Asked {
    slot: Arc<Slot>,
    link: Arc<Link>,
}

impl Asked {
    /// Waits for the answer.
    pub fn wait(self) -> Outcome {
        self.link.process.check()?;
        self.link.flush();
        let mut leads = false;
        loop {
            let waited = if leads { self.link.lead(&self.slot) } else { Ok(()) };
            match (self.slot.take(), waited) {
                // The connection may have ended by that.
                (None | Some(Err(_)), Err(interrupted)) => return Err(interrupted),
                (Some(outcome), _) => return outcome,
                (None, Ok(())) => {}
            }
            leads = self.link.may_lead(&self.slot) || self.link.rest(&self.slot)?;
        }
    }

    /// Whether the answer was taken in.
    pub fn is_done(&self) -> bool {
        self.slot.is_done()
    }

    /// Calls back with the answer, on the thread that reads it, or at once.
    pub fn then(self, callback: impl FnOnce(Outcome) + Send + 'static) {
        let mut pending = self.link.pending.lock();
        let mut state = self.slot.state.lock();
        match std::mem::replace(&mut *state, State::Taken) {
            State::Done(outcome) => {
                drop((state, pending));
                callback(outcome);
            }
            _ => {
                *state = State::Called(Box::new(callback));
                drop(state);
                pending.wanted += 1;
                self.link.wake_if_wanted(&pending);
            }
        }
    }
}

/// Who waits for which answer.
struct Pending {
    /// The number of the last request.
    last: u64,
    slots: ByNumber<(Arc<Slot>, Held)>,
    /// Those that a thread waits for while another one reads.
    waiting: BTreeMap<u64, Arc<Slot>>,
    /// Somebody reads, or was told to.
    reading: bool,
    /// Callbacks and senders that need somebody to read.
    wanted: usize,
    /// How many wait until they may ask.
    blocked: usize,
    /// Why there is no connection any more.
    dead: Option<Error>,
}

/// Requests that are to leave together.
#[derive(Default)]
struct Gathered {
    holders: usize,
    bytes: Vec<u8>,
}

/// The socket, and who waits for what.
pub struct Link {
    /// Whose connection it is: a forked copy shares the socket, and would garble it.
    pub(super) process: Process,
    stream: Arc<Stream>,
    place: String,
    in_flight_max: usize,
    input: Mutex<Incoming<StreamReader>>,
    pending: Mutex<Pending>,
    /// For those who wait until they may ask.
    fewer: Condvar,
    /// For the connection's own thread.
    wake: Condvar,
    /// Held while a request is written.
    gathered: Mutex<Gathered>,
    has_gathered: AtomicBool,
}

impl Link {
    /// Over a stream on which both sides have greeted with requests up to number `last`.
    pub fn new(stream: Arc<Stream>, place: &str, in_flight_max: usize, last: u64) -> Link {
        let pending = Pending {
            last,
            slots: ByNumber::default(),
            waiting: BTreeMap::new(),
            reading: false,
            wanted: 0,
            blocked: 0,
            dead: None,
        };
        Link {
            process: Process::here(),
            input: Mutex::new(Incoming::new(StreamReader::patient(Arc::clone(&stream)))),
            stream,
            place: place.to_owned(),
            in_flight_max,
            pending: Mutex::new(pending),
            fewer: Condvar::new(),
            wake: Condvar::new(),
            gathered: Mutex::default(),
            has_gathered: AtomicBool::new(false),
        }
    }

    /// Where the server is.
    pub fn place(&self) -> &str {
        &self.place
    }

    /// Sends a request.
    pub fn ask(self: &Arc<Self>, verb: u16, message: &[u8], data: Data<'_>, held: Held) -> Result<Asked> {
        let place;
        let (data, shared) = match data {
            Data::Inline(data) => (data, None),
            Data::Shared(shared) => {
                place = shared.offset.to_le_bytes();
                (&place[..], Some(shared))
            }
        };
        if patience::is_over() && !TELLING.get() {
            return Err(Error::interrupted());
        }
        check_lengths(message.len(), shared.map_or(data.len(), |shared| shared.length as usize))?;
        let slot = self.open(held)?;
        let header = request_header(verb, slot.id, message, data, shared);
        self.send(&[&header, message, data]).inspect_err(|_| {
            self.pending.lock().slots.remove(&slot.id);
        })?;
        Ok(Asked { slot, link: Arc::clone(self) })
    }

    /// A place for one more answer, once there is room.
    fn open(&self, held: Held) -> Result<Arc<Slot>> {
        self.process.check()?;
        let mut pending = self.pending.lock();
        loop {
            if let Some(why) = &pending.dead {
                return Err(why.clone());
            }
            if pending.slots.len() < self.in_flight_max || TELLING.get() {
                break;
            }
            if pending.reading {
                pending.blocked += 1;
                self.fewer.wait_for(&mut pending, patience::next_look());
                pending.blocked -= 1;
                drop(pending);
            } else {
                pending.reading = true;
                drop(pending);
                self.flush();
                // What is wrong with the connection is found above.
                let _interrupted = self.read_some();
                self.step_down();
            }
            if patience::is_over() {
                return Err(Error::interrupted());
            }
            pending = self.pending.lock();
        }
        pending.last += 1;
        let slot = Slot::new(pending.last);
        pending.slots.insert(slot.id, (Arc::clone(&slot), held));
        Ok(slot)
    }

    /// Whether this thread, which waits for a slot, is to read now. If not, it is told when it is.
    fn may_lead(&self, slot: &Arc<Slot>) -> bool {
        let mut pending = self.pending.lock();
        if !pending.reading {
            pending.reading = true;
            return true;
        }
        if pending.slots.contains_key(&slot.id) {
            pending.waiting.insert(slot.id, Arc::clone(slot));
        }
        false
    }

    /// Reads until the slot has its outcome, or it is time to ask whether to go on. `Interrupted` when who called waits no
    /// longer.
    fn lead(&self, slot: &Slot) -> Result<()> {
        let look = Instant::now() + patience::next_look();
        while !slot.is_done() {
            if self.read_some().is_err() || (patience::is_given() && Instant::now() >= look) {
                break;
            }
        }
        self.step_down();
        // Not before another one can read.
        if patience::is_over() { Err(Error::interrupted()) } else { Ok(()) }
    }

    /// Waits until the slot has its outcome, or this thread is to read: whether it is.
    fn rest(&self, slot: &Slot) -> Result<bool> {
        slot.rest().inspect_err(|_| {
            let mut pending = self.pending.lock();
            pending.waiting.remove(&slot.id);
            let mut state = slot.state.lock();
            if matches!(*state, State::Lead) {
                // It was told so meanwhile, and nobody else was.
                *state = State::Waiting;
                drop((state, pending));
                self.step_down();
            }
        })
    }

    /// Reads no more: another one who waits does.
    fn step_down(&self) {
        let mut pending = self.pending.lock();
        while let Some((_, next)) = pending.waiting.pop_first() {
            let mut state = next.state.lock();
            if matches!(*state, State::Waiting) {
                *state = State::Lead;
                next.changed.notify_one();
                return;
            }
        }
        pending.reading = false;
        if pending.blocked > 0 {
            self.fewer.notify_one();
        }
        self.wake_if_wanted(&pending);
    }

    fn wake_if_wanted(&self, pending: &MutexGuard<'_, Pending>) {
        if pending.wanted > 0 && !pending.reading {
            self.wake.notify_one();
        }
    }

    /// What the connection's own thread does, until the end.
    pub fn attend(&self) {
        let mut pending = self.pending.lock();
        let mut is_late = false;
        while pending.dead.is_none() {
            let lies_about = is_late && !pending.slots.is_empty();
            if !pending.reading && (pending.wanted > 0 || lies_about) {
                pending.reading = true;
                drop(pending);
                // This thread waits as long as it takes.
                let _never = self.read_some();
                self.step_down();
                pending = self.pending.lock();
            } else {
                is_late = self.wake.wait_for(&mut pending, LOOK_AFTER).timed_out();
            }
        }
    }

    /// Takes in an answer, and those that came with it. `Interrupted` when it is time to ask whether to go on.
    fn read_some(&self) -> Result<()> {
        let mut input = self.input.lock();
        let why = loop {
            match input.next(Limits::FULL) {
                Ok(Some(frame)) => {
                    if let Err(error) = self.deliver(frame) {
                        break self.strange(error);
                    }
                    if !input.has_next() {
                        return Ok(());
                    }
                }
                Ok(None) => break gone(&self.place),
                Err(error) if error.kind() == ErrorKind::Interrupted => {
                    if !input.is_within() {
                        return Err(error);
                    }
                    break stuck(&self.place);
                }
                Err(error) if error.kind() == ErrorKind::Stopped => break gone(&self.place).with_source(error),
                Err(error) => break self.strange(error),
            }
        };
        drop(input);
        self.fail(why);
        Ok(())
    }

    /// The server does not keep to the protocol: it is left.
    fn strange(&self, error: Error) -> Error {
        let message = format!("the server at {} cannot be understood", self.place);
        Error::new(ErrorKind::Stopped, message).with_source(error).of_connection()
    }

    fn deliver(&self, frame: Frame) -> Result<()> {
        let slot = {
            let mut pending = self.pending.lock();
            let slot = pending.slots.remove(&frame.id);
            if !pending.waiting.is_empty() {
                pending.waiting.remove(&frame.id);
            }
            if pending.blocked > 0 {
                self.fewer.notify_one();
            }
            slot
        };
        let (slot, held) = slot.ok_or_else(|| malformed("an answer to no request"))?;
        let (outcome, end) = match frame.kind {
            Kind::Reply => match received(frame, held) {
                Ok(frame) => (Ok(frame), Ok(())),
                Err(error) => (Err(error.clone()), Err(error)),
            },
            Kind::Failure => (Err(take_error(frame.message)), Ok(())),
            Kind::Request => {
                let error = malformed("a request where an answer is wanted");
                (Err(error.clone()), Err(error))
            }
        };
        if slot.give(outcome) {
            self.unwant();
        }
        end
    }

    fn unwant(&self) {
        let mut pending = self.pending.lock();
        pending.wanted = pending.wanted.saturating_sub(1);
    }

    /// Until [`Link::release`] small requests are kept together.
    pub fn gather(&self) {
        self.gathered.lock().holders += 1;
    }

    /// What was kept leaves.
    pub fn release(&self) {
        let mut gathered = self.gathered.lock();
        gathered.holders -= 1;
        self.write_gathered(&mut gathered);
    }

    /// Who waits for an answer shall not wait for a request that was kept.
    fn flush(&self) {
        if self.has_gathered.load(Ordering::Acquire) {
            self.write_gathered(&mut self.gathered.lock());
        }
    }

    fn write_gathered(&self, gathered: &mut Gathered) {
        if !gathered.bytes.is_empty() {
            self.write(&[&gathered.bytes]);
            gathered.bytes.clear();
        }
        self.has_gathered.store(false, Ordering::Release);
    }

    /// Sends a request, or keeps it. Where the connection fails its slot hears of it.
    fn send(&self, parts: &[&[u8]]) -> Result<()> {
        let length: usize = parts.iter().map(|part| part.len()).sum();
        // Another one may be writing to a server that takes nothing in.
        let mut gathered = loop {
            if let Some(gathered) = self.gathered.try_lock_for(patience::next_look()) {
                break gathered;
            }
            if patience::is_over() {
                return Err(Error::interrupted());
            }
        };
        if gathered.holders > 0 && length <= GATHERED_LEN_MAX {
            parts.iter().for_each(|part| gathered.bytes.extend_from_slice(part));
            copies::copied(length);
            self.has_gathered.store(true, Ordering::Release);
            if gathered.bytes.len() >= GATHERED_ALL_LEN_MAX {
                self.write_gathered(&mut gathered);
            }
            return Ok(());
        }
        self.write_gathered(&mut gathered);
        self.write(parts);
        Ok(())
    }

    fn write(&self, parts: &[&[u8]]) {
        if !self.process.is_here() {
            return;
        }
        let mut slices: Vec<IoSlice<'_>> = parts.iter().map(|part| IoSlice::new(part)).collect();
        let mut rest = &mut slices[..];
        IoSlice::advance_slices(&mut rest, 0);
        let written = self.stream.send_now(rest).and_then(|count| {
            IoSlice::advance_slices(&mut rest, count);
            if rest.is_empty() { Ok(()) } else { self.write_slowly(rest) }
        });
        if let Err(error) = written {
            // A part of it may have gone out: nothing can follow.
            let is_over = patience::is_over();
            self.fail(if is_over { stuck(&self.place) } else { gone(&self.place).with_source(error) });
        }
    }

    /// The server takes no more for now: perhaps because nobody reads what it answers.
    fn write_slowly(&self, mut rest: &mut [IoSlice<'_>]) -> std::io::Result<()> {
        {
            let mut pending = self.pending.lock();
            pending.wanted += 1;
            self.wake_if_wanted(&pending);
        }
        let mut written = Ok(());
        while !rest.is_empty() && written.is_ok() {
            written = match std::io::Write::write_vectored(&mut &*self.stream, rest) {
                Ok(0) => Err(std::io::ErrorKind::WriteZero.into()),
                Ok(count) => {
                    IoSlice::advance_slices(&mut rest, count);
                    Ok(())
                }
                // Where it took something since the last time it is not asked.
                Err(error) if is_tick(&error) && !patience::is_over() => Ok(()),
                Err(error) => Err(error),
            };
        }
        self.unwant();
        written
    }

    /// Ends it: what is under way and all that comes fails; the first reason stays.
    pub fn fail(&self, why: Error) {
        if !self.process.is_here() {
            return;
        }
        self.stream.end();
        let mut pending = self.pending.lock();
        let why = pending.dead.get_or_insert(why).clone();
        let slots = std::mem::take(&mut pending.slots);
        pending.waiting.clear();
        self.fewer.notify_all();
        self.wake.notify_all();
        drop(pending);
        for (slot, _held) in slots.into_values() {
            slot.give(Err(why.clone()));
        }
    }
}

/// Who called waited no longer for the rest of a message, of which a part has come or gone: nothing can follow.
fn stuck(place: &str) -> Error {
    let message = format!("the server at {place} had stopped within a message when a call was ended: connect again");
    Error::new(ErrorKind::Stopped, message).of_connection()
}

fn gone(place: &str) -> Error {
    let message = format!(
        "the server at {place} is gone; whether what was under way has happened is not known: connect again and look"
    );
    Error::new(ErrorKind::Stopped, message).of_connection()
}
