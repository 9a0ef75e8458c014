//! Answers of a connection on their way, and how many are still to come.
//!
//! Invariant: who waits for fewer requests in flight says so before it looks at the number, and who makes it smaller looks
//! for it afterwards, so that nobody is left waiting.

use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, OnceLock};
use std::time::Instant;

use parking_lot::{Condvar, Mutex};

use crate::wire::frame::Frame;
use crate::wire::outgoing::{Here, Leave, Outgoing};
use crate::wire::stream::Stream;

/// Answers on their way, and how many are still to come.
pub struct Flow {
    pub outgoing: Outgoing,
    in_flight: AtomicUsize,
    /// Somebody waits for fewer.
    held_up: AtomicBool,
    waiting: Mutex<()>,
    fewer: Condvar,
    /// The thread that reads requests.
    reader: OnceLock<Here>,
}

impl Flow {
    /// Of a socket.
    pub fn new(stream: &Arc<Stream>) -> Flow {
        Flow {
            outgoing: Outgoing::new(Arc::clone(stream)),
            in_flight: AtomicUsize::new(0),
            held_up: AtomicBool::new(false),
            waiting: Mutex::default(),
            fewer: Condvar::new(),
            reader: OnceLock::new(),
        }
    }

    /// This is the thread that reads requests.
    pub fn read_here(&self) {
        let _first = self.reader.set(Here::now());
    }

    /// Waits until one more request may be begun. Only the thread that reads requests calls it.
    pub fn enter(&self, in_flight_max: usize, waiting_len_max: usize) {
        self.outgoing.wait_below(waiting_len_max);
        if self.in_flight.load(Ordering::SeqCst) >= in_flight_max {
            self.outgoing.flush();
            self.wait_below(in_flight_max, None);
        }
        self.in_flight.fetch_add(1, Ordering::SeqCst);
    }

    /// Whether `enter` might wait.
    pub fn would_wait(&self, in_flight_max: usize, waiting_len_max: usize) -> bool {
        self.in_flight.load(Ordering::SeqCst) >= in_flight_max || self.outgoing.waiting() >= waiting_len_max
    }

    /// Whether all that was asked has its answer.
    pub fn is_done(&self) -> bool {
        self.in_flight.load(Ordering::SeqCst) == 0
    }

    /// Waits until fewer than this are in flight, up to a moment.
    fn wait_below(&self, count: usize, until: Option<Instant>) {
        let mut waiting = self.waiting.lock();
        self.held_up.store(true, Ordering::SeqCst);
        while self.in_flight.load(Ordering::SeqCst) >= count {
            match until {
                None => self.fewer.wait(&mut waiting),
                Some(until) if self.fewer.wait_until(&mut waiting, until).timed_out() => break,
                Some(_) => {}
            }
        }
        self.held_up.store(false, Ordering::SeqCst);
    }

    /// Some thread is to answer with so many bytes: they count as waiting from now on.
    pub fn promise(&self, length: usize) {
        self.outgoing.promise(length);
    }

    /// A request has its answer, for which so many bytes were promised.
    pub fn leave(&self, frame: &Frame, promised: usize) {
        // Where more are to come, as when many commits share a flush, they are not sent one by one; the thread that reads
        // requests knows itself which answers leave together.
        let is_last = self.in_flight.load(Ordering::SeqCst) <= 1;
        let is_reader = self.reader.get() == Some(&Here::now());
        self.outgoing.send(frame, if is_last || is_reader { Leave::Now } else { Leave::WithOthers });
        if promised > 0 {
            self.outgoing.fulfil(promised);
        }
        self.in_flight.fetch_sub(1, Ordering::SeqCst);
        if self.held_up.load(Ordering::SeqCst) {
            let _waiting = self.waiting.lock();
            self.fewer.notify_all();
        }
    }

    /// Waits until all requests have their answers and those have left, up to a moment.
    pub fn finish(&self, until: Instant) {
        self.wait_below(1, Some(until));
        self.outgoing.finish(until);
    }
}
