//! The socket of a client, and the answers on their way to who waits for them.
//!
//! Invariants:
//! - Every request has exactly one outcome: its answer, or why the connection ended.
//! - One thread reads at a time. Who waits while nobody reads does it itself, so that an answer is taken in by the thread that
//!   wants it; who has its answer hands over to another who waits. Callbacks, senders that are held up, and answers that
//!   nobody fetches are served by the connection's own thread.
//! - At most as many requests are under way as the server allows; who asks for one more waits. A callback never waits so: it
//!   may ask again.

mod patience;
mod sending;

use std::cell::Cell;
use std::collections::{BTreeMap, HashMap};
use std::hash::{BuildHasherDefault, Hasher};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use bytes::Bytes;
use koine_engine::device::Process;
use koine_engine::{Error, ErrorKind, Result};
use koine_env::patience as caller;
use parking_lot::{Condvar, Mutex, MutexGuard};

use self::patience::{is_past, next_look, tick};
use self::sending::Gathered;
use super::slot::{Outcome, Slot, SlotState, TELLING, Woken};
use crate::wire::fields::malformed;
use crate::wire::frame::{Frame, Kind, Limits, Shared, check_lengths, request_header};
use crate::wire::incoming::Incoming;
use crate::wire::reply::take_error;
use crate::wire::shared::slots::Part;
use crate::wire::stream::{Stream, StreamReader};

/// So often the connection's own thread looks whether answers lie about that nobody fetches: a server does not wait for ever.
const LOOK_AFTER: Duration = Duration::from_secs(5);

thread_local! {
    /// The link whose own thread this is.
    static ATTENDED: Cell<usize> = const { Cell::new(0) };
}

/// A request that was sent. Dropped, its answer is not looked at.
pub struct SentRequest {
    slot: Arc<Slot>,
    link: Arc<Link>,
}

impl SentRequest {
    /// Waits for the answer, as long as a call may take.
    pub fn wait(self) -> Outcome {
        self.wait_beyond(Duration::ZERO)
    }

    /// The same where the server was asked to take so long for it.
    pub fn wait_beyond(self, asked: Duration) -> Outcome {
        self.link.process.check()?;
        self.link.flush();
        let until = self.link.until(asked);
        let mut leads = false;
        loop {
            // No longer than until the caller is to be asked whether it waits still.
            let look = next_look(until);
            if leads {
                self.link.lead(&self.slot, look);
            }
            if let Some(outcome) = self.slot.take() {
                return outcome;
            }
            if is_past(until) {
                return self.link.give_up(&self.slot, self.link.late());
            }
            if caller::is_over() {
                return self.link.give_up(&self.slot, Error::interrupted());
            }
            leads = self.link.may_lead(&self.slot) || self.slot.rest(next_look(until)) == Woken::Leads;
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
        match std::mem::replace(&mut *state, SlotState::Taken) {
            SlotState::Done(outcome) => {
                drop((state, pending));
                callback(outcome);
            }
            _ => {
                *state = SlotState::Called(Box::new(callback), self.link.until(Duration::ZERO));
                drop(state);
                pending.wanted += 1;
                self.link.wake_if_wanted(&pending);
            }
        }
    }
}

/// What a request has until its answer comes.
#[derive(Default)]
pub struct Held {
    /// Room for the answer's data in shared memory.
    pub room: Option<Part>,
    /// Shared memory that holds what it sends.
    #[allow(dead_code, reason = "held, not read")]
    pub sent: Vec<Sent>,
}

/// Shared memory that holds data of a request, so that it is used for nothing else meanwhile.
pub enum Sent {
    /// Bytes of the caller that lie there.
    Bytes(#[allow(dead_code, reason = "held, not read")] Bytes),
    /// A copy that was made for the request.
    Part(#[allow(dead_code, reason = "held, not read")] Part),
}

/// Data that goes with a request.
#[derive(Clone, Copy)]
pub enum Data<'d> {
    /// Behind its message.
    Inline(&'d [u8]),
    /// In shared memory.
    Shared(Shared),
}

/// Numbers of requests are their own hash.
#[derive(Default)]
struct NumberHasher(u64);

impl Hasher for NumberHasher {
    fn finish(&self) -> u64 {
        self.0
    }

    fn write(&mut self, bytes: &[u8]) {
        bytes.iter().for_each(|byte| self.write_u64(u64::from(*byte)));
    }

    fn write_u64(&mut self, number: u64) {
        // The table looks at the highest bits too.
        self.0 = (self.0 ^ number).wrapping_mul(0x9E37_79B9_7F4A_7C15);
    }
}

/// Who waits for which answer.
struct Pending {
    /// The number of the last request.
    last: u64,
    /// When it was asked for.
    asked: Instant,
    slots: HashMap<u64, (Arc<Slot>, Held), BuildHasherDefault<NumberHasher>>,
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

/// The socket, and who waits for what.
pub struct Link {
    /// Whose connection it is: a forked copy shares the socket, and would garble it.
    pub(super) process: Process,
    stream: Arc<Stream>,
    place: String,
    in_flight_max: usize,
    /// So long a call waits for its answer; `None`: for ever.
    call_max: Option<Duration>,
    /// It has ended.
    has_ended: AtomicBool,
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
    pub fn new(
        stream: Arc<Stream>,
        place: &str,
        in_flight_max: usize,
        last: u64,
        call_max: Option<Duration>,
    ) -> Result<Link> {
        let tick = Some(call_max.map_or(caller::TICK, tick));
        let prepared = stream.set_read_timeout(tick).and_then(|()| stream.set_write_timeout(tick));
        prepared.map_err(|error| gone(place).with_source(error))?;
        let pending = Pending {
            last,
            asked: Instant::now(),
            slots: HashMap::default(),
            waiting: BTreeMap::new(),
            reading: false,
            wanted: 0,
            blocked: 0,
            dead: None,
        };
        Ok(Link {
            process: Process::here(),
            input: Mutex::new(Incoming::new(StreamReader::patient(Arc::clone(&stream), call_max))),
            stream,
            place: place.to_owned(),
            in_flight_max,
            call_max,
            has_ended: AtomicBool::new(false),
            pending: Mutex::new(pending),
            fewer: Condvar::new(),
            wake: Condvar::new(),
            gathered: Mutex::default(),
            has_gathered: AtomicBool::new(false),
        })
    }

    /// Whether it has ended: nothing can be asked any more.
    pub fn has_ended(&self) -> bool {
        self.has_ended.load(Ordering::Acquire)
    }

    /// Where the server is.
    pub fn place(&self) -> &str {
        &self.place
    }

    /// Sends a request.
    pub fn ask(self: &Arc<Self>, verb: u16, message: &[u8], data: Data<'_>, held: Held) -> Result<SentRequest> {
        let place;
        let (data, shared) = match data {
            Data::Inline(data) => (data, None),
            Data::Shared(shared) => {
                place = shared.offset.to_le_bytes();
                (&place[..], Some(shared))
            }
        };
        check_lengths(message.len(), shared.map_or(data.len(), |shared| shared.length as usize))?;
        let slot = self.open(held)?;
        let header = request_header(verb, slot.id, message, data, shared);
        self.send(&[&header, message, data]);
        Ok(SentRequest { slot, link: Arc::clone(self) })
    }

    /// A place for one more answer, once there is room.
    fn open(&self, held: Held) -> Result<Arc<Slot>> {
        self.process.check()?;
        let mut until = None;
        let mut pending = self.pending.lock();
        loop {
            if let Some(why) = &pending.dead {
                return Err(why.clone());
            }
            if pending.slots.len() < self.in_flight_max || TELLING.get() {
                break;
            }
            let until = *until.get_or_insert_with(|| self.until(Duration::ZERO));
            if is_past(until) {
                return Err(self.late());
            }
            if pending.reading {
                pending.blocked += 1;
                match until {
                    Some(until) => {
                        let _woken = self.fewer.wait_until(&mut pending, until);
                    }
                    None => self.fewer.wait(&mut pending),
                }
                pending.blocked -= 1;
            } else {
                pending.reading = true;
                drop(pending);
                self.flush();
                self.read_some();
                self.step_down();
                pending = self.pending.lock();
            }
        }
        pending.last += 1;
        pending.asked = Instant::now();
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

    /// Reads until the slot has its outcome, or for as long as that is waited for.
    fn lead(&self, slot: &Slot, until: Option<Instant>) {
        while !slot.is_done() && !is_past(until) {
            self.read_some();
        }
        self.step_down();
    }

    /// Reads no more: another one who waits does.
    fn step_down(&self) {
        let mut pending = self.pending.lock();
        while let Some((_, next)) = pending.waiting.pop_first() {
            let mut state = next.state.lock();
            if matches!(*state, SlotState::Waiting) {
                *state = SlotState::Lead;
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

    /// Whether this is the connection's own thread.
    pub fn is_attended_here(&self) -> bool {
        ATTENDED.get() == std::ptr::from_ref(self).addr()
    }

    /// What the connection's own thread does, until the end.
    pub fn attend(&self) {
        ATTENDED.set(std::ptr::from_ref(self).addr());
        let look_after = self.call_max.map_or(LOOK_AFTER, |most| tick(most).min(LOOK_AFTER));
        let mut looked = Instant::now();
        let mut pending = self.pending.lock();
        let mut is_late = false;
        while pending.dead.is_none() {
            if self.call_max.is_some() && pending.wanted > 0 && looked.elapsed() >= look_after {
                drop(pending);
                self.give_up_late();
                looked = Instant::now();
                pending = self.pending.lock();
            }
            let lies_about = is_late && !pending.slots.is_empty();
            if !pending.reading && (pending.wanted > 0 || lies_about) {
                pending.reading = true;
                drop(pending);
                self.read_some();
                self.step_down();
                pending = self.pending.lock();
            } else {
                is_late = self.wake.wait_for(&mut pending, look_after).timed_out();
            }
        }
    }

    /// Takes in an answer, and those that came with it; or nothing, where nothing came for a while.
    fn read_some(&self) {
        let mut input = self.input.lock();
        let why = loop {
            let next = match input.poll() {
                Ok(false) => return,
                Ok(true) => input.next(Limits::FULL),
                Err(error) => Err(error),
            };
            match next {
                Ok(Some(frame)) => {
                    if let Err(error) = self.deliver(frame) {
                        break self.strange(error);
                    }
                    if !input.has_next() {
                        return;
                    }
                }
                Ok(None) => break gone(&self.place),
                Err(error) if error.kind() == ErrorKind::Stopped => break gone(&self.place).with_source(error),
                Err(error) => break self.strange(error),
            }
        };
        drop(input);
        self.fail(why);
    }

    /// The server does not keep to the protocol: it is left.
    fn strange(&self, error: Error) -> Error {
        let message = format!("the server at {} cannot be understood", self.place);
        Error::new(ErrorKind::Stopped, message).with_source(error)
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

    /// Ends it: what is under way and all that comes fails; the first reason stays.
    pub fn fail(&self, why: Error) {
        if !self.process.is_here() {
            return;
        }
        let mut pending = self.pending.lock();
        let why = pending.dead.get_or_insert(why).clone();
        self.has_ended.store(true, Ordering::Release);
        // After its reason is known: who reads finds the end, and has another one.
        self.stream.end();
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

/// An answer with its data, wherever that lies.
fn received(mut frame: Frame, held: Held) -> Result<Frame> {
    if let Some(shared) = frame.shared {
        let length = shared.length as usize;
        let room = held.room.filter(|room| room.offset() == shared.offset && length <= room.len());
        let room = room.ok_or_else(|| malformed("data in memory that was not lent for it"))?;
        frame.data = room.received(length);
    }
    Ok(frame)
}

pub(super) fn gone(place: &str) -> Error {
    let message = format!(
        "the server at {place} has gone; whether what was under way has happened is not known: look, and ask again"
    );
    Error::new(ErrorKind::Disconnected, message)
}
