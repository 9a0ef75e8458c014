//! The load generator: one thread, one poller, as many connections as asked, one request in flight on each.
//!
//! The clock runs from the first request to the last answer. Requests begun before the end of the time are waited for and
//! counted. Nothing is signed, hashed or allocated for a request while the clock runs, latencies apart.

use super::connection::{Connection, SCRATCH_BYTES, Waits};
use super::payload::Payload;
use super::prepare::Batch;
use crate::Error;
use rustix::event::epoll::{self, CreateFlags, Event, EventData, EventFlags};
use rustix::fd::OwnedFd;
use rustix::time::{ClockId, Timespec, clock_gettime};
use std::io;
use std::net::SocketAddr;
use std::time::{Duration, Instant};

/// So many failed requests end a run early.
const FAILURES_LIMIT: u64 = 50;
/// A server that answers nothing for so long has failed.
const STALL: Duration = Duration::from_secs(120);

/// When a run ends.
#[derive(Debug, Clone, Copy)]
pub struct Until {
    /// After so long; `None`: not by time.
    pub time: Option<Duration>,
    /// After each request was sent once; else they are sent round and round.
    pub once: bool,
}

/// What to send where.
pub struct S3Load<'a> {
    /// The server.
    pub address: SocketAddr,
    /// The requests.
    pub batch: &'a Batch,
    /// Their payload.
    pub payload: &'a Payload,
    /// Connections, each with one request in flight.
    pub connections: usize,
    /// The end.
    pub until: Until,
}

/// What was measured.
#[derive(Debug, Default)]
pub struct LoadFigures {
    /// Time of each right answer, in order of arrival.
    pub latencies: Vec<Duration>,
    /// From the first request to the last answer.
    pub elapsed: Duration,
    /// CPU time of the generator.
    pub client_cpu: Duration,
    /// Requests begun.
    pub begun: usize,
    /// Requests that failed.
    pub failures: u64,
    /// The first failure.
    pub first_failure: Option<String>,
}

impl LoadFigures {
    fn fail(&mut self, reason: impl ToString) {
        self.failures += 1;
        self.first_failure.get_or_insert_with(|| reason.to_string());
    }
}

/// Sends the load and measures it.
pub fn drive(load: &S3Load<'_>) -> Result<LoadFigures, Error> {
    if load.batch.len() == 0 {
        return Ok(LoadFigures::default());
    }
    let poller = epoll::create(CreateFlags::CLOEXEC).map_err(Error::io("cannot make a poller"))?;
    let connect = || format!("cannot connect to {}", load.address);
    let mut connections = Vec::new();
    for number in 0..load.connections.max(1) {
        connections.push(register(&poller, load.address, number).map_err(Error::io(connect()))?);
    }
    let begin = Instant::now();
    let cpu_before = thread_cpu();
    let mut run = Run {
        load,
        poller,
        scratch: vec![0; SCRATCH_BYTES],
        measured: LoadFigures { latencies: Vec::with_capacity(1 << 16), ..LoadFigures::default() },
        in_flight: 0,
        deadline: load.until.time.map(|time| begin + time),
    };
    for (number, connection) in connections.iter_mut().enumerate() {
        run.begin_next(number, connection, begin);
    }
    let mut last = run.poll(&mut connections);
    if last.is_err() && run.measured.failures == 0 {
        // Without a right answer and without a failure there is nothing to report but this.
        run.measured.fail(last.as_ref().err().map_or_else(String::new, ToString::to_string));
        last = Ok(Instant::now());
    }
    run.measured.elapsed = last.unwrap_or_else(|_| Instant::now()) - begin;
    run.measured.client_cpu = thread_cpu().saturating_sub(cpu_before);
    Ok(run.measured)
}

struct Run<'a> {
    load: &'a S3Load<'a>,
    poller: OwnedFd,
    scratch: Vec<u8>,
    measured: LoadFigures,
    in_flight: usize,
    deadline: Option<Instant>,
}

impl Run<'_> {
    /// Serves events until nothing is in flight; gives the moment of the last answer.
    fn poll(&mut self, connections: &mut [Connection]) -> io::Result<Instant> {
        let mut events = [Event { flags: EventFlags::empty(), data: EventData::new_u64(0) }; 32];
        let timeout = Timespec { tv_sec: STALL.as_secs() as i64, tv_nsec: 0 };
        let mut last = Instant::now();
        while self.in_flight > 0 {
            let ready = match epoll::wait(&self.poller, &mut events[..], Some(&timeout)) {
                Ok(ready) => ready,
                Err(rustix::io::Errno::INTR) => continue,
                Err(error) => return Err(error.into()),
            };
            if ready == 0 {
                self.measured.fail(format!("no answer for {} seconds", STALL.as_secs()));
                break;
            }
            for event in events.iter().take(ready) {
                let number = event.data.u64() as usize;
                if let Some(connection) = connections.get_mut(number) {
                    last = self.serve(number, connection, event.flags).unwrap_or(last);
                }
            }
        }
        Ok(last)
    }

    /// One connection is ready: goes on with it, and with the next request when its answer is whole.
    fn serve(&mut self, number: usize, connection: &mut Connection, flags: EventFlags) -> Option<Instant> {
        let gone = EventFlags::ERR | EventFlags::HUP;
        let waits = if flags.intersects(EventFlags::IN | gone) {
            connection.receive(self.load.batch, &mut self.scratch)
        } else {
            connection.send(self.load.batch, self.load.payload)
        };
        match waits {
            Ok(Waits::ToSend) => None,
            Ok(Waits::ToReceive) => {
                if flags.contains(EventFlags::OUT) && !flags.contains(EventFlags::IN) {
                    self.watch(number, connection, EventFlags::IN);
                }
                None
            }
            Ok(Waits::Complete) => {
                let now = Instant::now();
                self.measured.latencies.push(now - connection.begun);
                self.in_flight -= 1;
                if connection.closes() {
                    self.reconnect(number, connection);
                }
                self.begin_next(number, connection, now);
                Some(now)
            }
            Err(error) => {
                self.measured.fail(error);
                self.in_flight -= 1;
                self.reconnect(number, connection);
                self.begin_next(number, connection, Instant::now());
                None
            }
        }
    }

    /// Begins the next request, unless the run is over.
    fn begin_next(&mut self, number: usize, connection: &mut Connection, now: Instant) {
        while !self.over(now) {
            let request = self.measured.begun;
            self.measured.begun += 1;
            match connection.begin(request, self.load.batch, self.load.payload, now) {
                Ok(waits) => {
                    if waits == Waits::ToSend {
                        self.watch(number, connection, EventFlags::IN | EventFlags::OUT);
                    }
                    self.in_flight += 1;
                    return;
                }
                Err(error) => {
                    self.measured.fail(error);
                    self.reconnect(number, connection);
                }
            }
        }
    }

    fn over(&self, now: Instant) -> bool {
        self.deadline.is_some_and(|deadline| now >= deadline)
            || (self.load.until.once && self.measured.begun >= self.load.batch.len())
            || self.measured.failures >= FAILURES_LIMIT
    }

    fn watch(&mut self, number: usize, connection: &Connection, flags: EventFlags) {
        let data = EventData::new_u64(number as u64);
        if let Err(error) = epoll::modify(&self.poller, connection.socket(), data, flags) {
            self.measured.fail(error);
        }
    }

    fn reconnect(&mut self, number: usize, connection: &mut Connection) {
        match register(&self.poller, self.load.address, number) {
            // The old socket leaves the poller when it is closed here.
            Ok(fresh) => *connection = fresh,
            Err(error) => self.measured.fail(error),
        }
    }
}

fn register(poller: &OwnedFd, address: SocketAddr, number: usize) -> io::Result<Connection> {
    let connection = Connection::open(address)?;
    epoll::add(poller, connection.socket(), EventData::new_u64(number as u64), EventFlags::IN)?;
    Ok(connection)
}

fn thread_cpu() -> Duration {
    let time = clock_gettime(ClockId::ThreadCPUTime);
    Duration::new(time.tv_sec.unsigned_abs(), u32::try_from(time.tv_nsec).unwrap_or(0))
}

#[cfg(test)]
mod tests;
