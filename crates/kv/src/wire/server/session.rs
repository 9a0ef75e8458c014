//! One connection: greets, reads requests, begins them in order.
//!
//! Invariants:
//! - Before the greeting is over nothing of the store is reached, and a frame has at most a few hundred bytes.
//! - A request that is wrong gets an error and the connection goes on; bytes that are no frame end it.
//! - When the connection ends its views, stages and watches go.

mod greeting;

use std::io::BufReader;
use std::os::fd::OwnedFd;
use std::sync::atomic::Ordering;
use std::sync::{Arc, OnceLock};
use std::thread::ThreadId;
use std::time::Instant;

use bytes::{Bytes, BytesMut};
use koine_engine::{
    Batch, Condition, Durability, Error, ErrorKind, Operation, Payload, Place, RequestId, Result, StageHint, StageToken,
};
use parking_lot::{Condvar, Mutex};

use self::greeting::Standing;
use super::answers::Responder;
use super::handles::Handles;
use super::listing::{PAGE_ENTRIES_MAX, PAGE_LEN_MAX, page};
use super::staged::{Load, Staged};
use super::watches::Watches;
use super::{STOP_TIME_MAX, Shared, spawn};
use crate::seam::{ReadNow, View};
use crate::wire::batch::Found;
use crate::wire::fields::{Fields, malformed};
use crate::wire::frame::{DATA_LEN_MAX, Frame, Kind, Limits, Shared as SharedData, is_whole};
use crate::wire::identity::{Key, Peer};
use crate::wire::outgoing::{Leave, Outgoing};
use crate::wire::reply::{put_commit, put_number, put_spaces, put_stat, put_usage};
use crate::wire::request::{NEWEST, Request, Rule, VERB_FOREIGN_FIRST, VERB_SHARE};
use crate::wire::shared::offer::{ServerSide, accept};
use crate::wire::stream::{FILES_MAX, Stream, StreamReader};
use crate::{BATCH_BYTES_MAX, copies};

/// Up to here a read that needs no device is done by the thread that reads requests.
const SHORT_LEN_MAX: usize = 64 << 10;
/// Memory for frames that came together.
const READ_LEN: usize = 64 << 10;

type Reader = BufReader<StreamReader>;

/// Answers on their way, and how many are still to come.
pub(super) struct Flow {
    outgoing: Outgoing,
    in_flight: Mutex<usize>,
    fewer: Condvar,
    /// The thread that reads requests.
    reader: OnceLock<ThreadId>,
}

impl Flow {
    /// Waits until one more request may be begun.
    fn enter(&self, in_flight_max: usize, waiting_len_max: usize) {
        self.outgoing.wait_below(waiting_len_max);
        let mut in_flight = self.in_flight.lock();
        while *in_flight >= in_flight_max {
            self.outgoing.flush();
            self.fewer.wait(&mut in_flight);
        }
        *in_flight += 1;
    }

    /// Some thread is to answer with so many bytes: they count as waiting from now on.
    pub fn promise(&self, length: usize) {
        self.outgoing.promise(length);
    }

    /// A request has its answer, for which so many bytes were promised.
    pub fn leave(&self, frame: &Frame, promised: usize) {
        // Where more are to come, as when many commits share a flush, they are not sent one by one; the thread that reads
        // requests knows itself which answers leave together.
        let is_last = *self.in_flight.lock() <= 1;
        let is_reader = self.reader.get() == Some(&std::thread::current().id());
        self.outgoing.send(frame, if is_last || is_reader { Leave::Now } else { Leave::WithOthers });
        if promised > 0 {
            self.outgoing.fulfil(promised);
        }
        *self.in_flight.lock() -= 1;
        self.fewer.notify_one();
    }

    /// Waits until all requests have their answers and those have left, up to a moment.
    fn finish(&self, until: Instant) {
        let mut in_flight = self.in_flight.lock();
        while *in_flight > 0 && !self.fewer.wait_until(&mut in_flight, until).timed_out() {}
        drop(in_flight);
        self.outgoing.finish(until);
    }
}

/// One connection.
pub(in crate::wire) struct Session {
    /// No other connection of the server has it.
    number: u64,
    shared: Arc<Shared>,
    stream: Arc<Stream>,
    peer: Peer,
    flow: Arc<Flow>,
    views: Handles<Arc<dyn View>>,
    stages: Handles<Arc<Mutex<Staged>>>,
    /// What the stages take.
    load: Arc<Load>,
    watches: Watches,
    /// Memory that its client shares.
    memory: OnceLock<Arc<ServerSide>>,
    /// Whether it has said who it is.
    standing: Standing,
}

impl Session {
    /// Of a socket.
    pub fn new(number: u64, shared: Arc<Shared>, stream: Stream, peer: Peer) -> Arc<Session> {
        let stream = Arc::new(stream);
        let outgoing = Outgoing::new(Arc::clone(&stream));
        let flow = Flow { outgoing, in_flight: Mutex::default(), fewer: Condvar::new(), reader: OnceLock::new() };
        let most = shared.options.handles_max;
        let session = Session {
            number,
            stream,
            peer,
            flow: Arc::new(flow),
            views: Handles::new("view", most),
            stages: Handles::new("stage", most),
            load: Arc::new(Load::below(&shared.load, shared.options.staging_len_max)),
            watches: Watches::default(),
            memory: OnceLock::new(),
            standing: Standing::default(),
            shared,
        };
        Arc::new(session)
    }

    /// Takes no more requests: what was asked is answered, then the connection ends.
    pub fn stop(&self) {
        self.stream.end_reading();
    }

    /// Ends the connection.
    pub fn end(&self) {
        self.flow.outgoing.end();
    }

    /// Works until the connection ends.
    pub fn run(&self, key: Option<&Key>) {
        let flow = Arc::clone(&self.flow);
        let _first = flow.reader.set(std::thread::current().id());
        let writer = spawn("koine-answers", move || flow.outgoing.work());
        if writer.is_ok() && self.stream.prepare().is_ok() {
            let mut reader = BufReader::with_capacity(READ_LEN, StreamReader::new(Arc::clone(&self.stream)));
            // Whoever breaks the protocol, or the connection, is not there to be told.
            let _ended = self.greet(&mut reader, key).and_then(|()| self.serve(&mut reader));
        }
        self.watches.end();
        if self.shared.closing.load(Ordering::Acquire) {
            self.flow.finish(Instant::now() + STOP_TIME_MAX);
        }
        self.end();
        self.views.clear();
        self.stages.clear();
        if let Ok(writer) = writer {
            let _panicked = writer.join();
        }
    }

    fn read(&self, reader: &mut Reader, limits: Limits) -> Result<Option<Frame>> {
        let Some(frame) = Frame::read(reader, limits)? else { return Ok(None) };
        if frame.kind != Kind::Request {
            return Err(malformed("an answer where a request is wanted"));
        }
        let options = &self.shared.options;
        self.flow.enter(options.in_flight_max, options.waiting_len_max);
        Ok(Some(frame))
    }

    fn responder(&self, frame: &Frame) -> Responder {
        Responder::new(frame.verb, frame.id, Arc::clone(&self.flow))
    }

    /// Requests that came together are worked on before their answers leave, together too.
    fn serve(&self, reader: &mut Reader) -> Result<()> {
        let mut gathers = false;
        while let Some(frame) = self.read(reader, Limits::FULL)? {
            let more = is_whole(reader.buffer());
            if more && !gathers {
                self.flow.outgoing.gather();
            }
            if frame.verb == VERB_SHARE {
                self.share(frame, reader.get_mut().take_files());
            } else {
                self.answer(frame);
            }
            if gathers && !more {
                self.flow.outgoing.flush();
            }
            gathers = more;
        }
        Ok(())
    }

    /// Takes memory that the client passes, once; all that is not taken is closed.
    fn share(&self, frame: Frame, files: Vec<OwnedFd>) {
        let responder = self.responder(&frame);
        let request = Request::decode(frame.verb, Fields::new(frame.message), &mut no_stage);
        let shared = match (request, <[OwnedFd; FILES_MAX]>::try_from(files)) {
            (Ok(Some(Request::Share { to_server, to_client })), Ok(files)) => accept(files, [to_server, to_client]),
            _ => Err(malformed("memory that is not there, or a second time")),
        };
        responder.tell(shared.map(|shared| {
            let _first = self.memory.set(Arc::new(shared));
            Vec::new()
        }));
    }

    /// A copy of what lies in the client's memory, which it cannot change any more.
    fn copy_out(&self, offset: u64, length: u32) -> Result<Bytes> {
        let memory = self.memory.get().ok_or_else(|| malformed("shared memory where there is none"))?;
        memory.to_server.copy_out(offset, length as usize)
    }

    fn answer(&self, mut frame: Frame) {
        let responder = self.responder(&frame);
        if let Some(shared) = frame.shared {
            match self.copy_out(shared.offset, shared.length) {
                Ok(data) => frame.data = data,
                Err(error) => return responder.tell(Err(error)),
            }
        }
        if frame.verb >= VERB_FOREIGN_FIRST {
            return match &self.shared.options.handler {
                Some(handler) => handler.handle(&self.peer, frame.verb, frame.message, frame.data, responder),
                None => responder.tell(Err(unsupported(frame.verb))),
            };
        }
        let mut named = Named { session: self, left: BATCH_BYTES_MAX };
        match Request::decode(frame.verb, Fields::new(frame.message), &mut named) {
            Ok(Some(request)) => self.begin(request, frame.data, responder),
            Ok(None) => responder.tell(Err(unsupported(frame.verb))),
            Err(error) => responder.tell(Err(error)),
        }
    }

    /// The token of a stage that was finished.
    fn token(&self, number: u64) -> Result<StageToken> {
        self.stages.find(number)?.lock().token(number)
    }

    /// A pinned view, or the newest one.
    fn view(&self, number: u64) -> Result<Arc<dyn View>> {
        if number == NEWEST { self.shared.kv.view() } else { self.views.find(number) }
    }

    fn begin(&self, request: Request, data: Bytes, responder: Responder) {
        let done = match request {
            Request::Hello { .. } | Request::Prove { .. } | Request::Share { .. } => {
                Err(malformed("a second greeting"))
            }
            Request::Store { at, rule, durability, request } => {
                let value = Payload::Bytes(data);
                return self.change(Operation::Put { at: at.clone(), value }, at, rule, durability, request, responder);
            }
            Request::Delete { at, rule, durability, request } => {
                return self.change(Operation::Delete { at: at.clone() }, at, rule, durability, request, responder);
            }
            Request::Submit { batch, durability } => return self.submit(batch, durability, responder),
            Request::Retrieve { view, at, offset, length, into } => {
                let into = into.zip(self.memory.get().map(Arc::clone));
                return self.retrieve(view, at, Range { offset, length, into }, responder);
            }
            Request::Exist { view, at } => self.view(view).and_then(|view| view.stat(at.space, &at.key)).map(put_stat),
            Request::List { view, space, range, direction, entries, bytes } => self.view(view).and_then(|view| {
                let mut cursor = view.cursor(space, range, direction)?;
                page(cursor.as_mut(), entries.clamp(1, PAGE_ENTRIES_MAX), bytes.min(PAGE_LEN_MAX))
            }),
            Request::HasSpace { view, space } => {
                self.view(view).and_then(|view| view.has_space(space)).map(|is_there| vec![u8::from(is_there)])
            }
            Request::Spaces { view, from, most } => {
                let spaces = self.view(view).and_then(|view| view.spaces(from, most.min(PAGE_ENTRIES_MAX) as usize));
                spaces.map(|spaces| put_spaces(&spaces))
            }
            Request::OpenView { view: NEWEST } => Err(Error::invalid("view 0 is the newest version and never opened")),
            Request::OpenView { view } => {
                self.views.open(view, || self.shared.kv.view()).map(|view| put_number(view.version().0))
            }
            Request::CloseView { view } => self.views.close(view).map(|()| Vec::new()),
            Request::OpenStage { stage, hint } => self.open_stage(stage, hint),
            Request::WriteStage { stage } => self.write_stage(stage, &data),
            Request::FinishStage { stage } => self.finish_stage(stage),
            Request::DropStage { stage } => self.stages.close(stage).map(|()| Vec::new()),
            Request::OpenWatch { watch, space, range, from } => {
                let opened = self.shared.kv.watch(space, range, from);
                opened.and_then(|opened| self.watches.open(watch, opened)).map(|()| Vec::new())
            }
            Request::NextEvent { watch, timeout } => return self.watches.next(watch, timeout, responder),
            Request::CloseWatch { watch } => self.watches.close(watch).map(|()| Vec::new()),
            Request::Usage => self.shared.kv.usage().map(|usage| put_usage(&usage)),
            Request::Sync => {
                let kv = Arc::clone(&self.shared.kv);
                return self.work(move || responder.tell(kv.sync().map(|()| Vec::new())));
            }
        };
        responder.tell(done);
    }

    fn change(
        &self,
        operation: Operation,
        at: Place,
        rule: Rule,
        durability: Durability,
        request: Option<RequestId>,
        responder: Responder,
    ) {
        let Place { space, key } = at;
        let mut batch = Batch::new().then(operation);
        batch.request = request;
        batch.conditions.extend(match rule {
            Rule::Any => None,
            Rule::MustExist => Some(Condition::Present { space, key }),
            Rule::MustNotExist => Some(Condition::Absent { space, key }),
        });
        self.submit(batch, durability, responder);
    }

    fn submit(&self, batch: Batch, durability: Durability, responder: Responder) {
        let ticket = self.shared.kv.submit(batch, durability);
        ticket.on_done(move |outcome| responder.tell(outcome.map(put_commit)));
    }

    /// Answers short reads from memory at once; long ones, and those for which the device has to be waited for, are a
    /// worker's.
    fn retrieve(&self, view: u64, at: Place, range: Range, responder: Responder) {
        let prepared = (|| {
            if range.length as usize > DATA_LEN_MAX {
                return Err(Error::invalid(format!(
                    "{} bytes at once; at most {DATA_LEN_MAX} are given: read on",
                    range.length
                )));
            }
            let view = self.view(view)?;
            let stat =
                view.stat(at.space, &at.key)?.ok_or_else(|| Error::new(ErrorKind::NotFound, "the key is not there"))?;
            let count = stat.size.saturating_sub(range.offset).min(u64::from(range.length)) as usize;
            if count > SHORT_LEN_MAX {
                return Ok((view, stat, count, None));
            }
            let mut buffer = BytesMut::zeroed(count);
            Ok(match view.read_now(at.space, &at.key, range.offset, &mut buffer)? {
                ReadNow::Read(read) => {
                    buffer.truncate(read);
                    copies::copied(read);
                    (view, stat, count, Some(buffer.freeze()))
                }
                ReadNow::WouldBlock => (view, stat, count, None),
            })
        })();
        let (view, stat, count, data) = match prepared {
            Ok(prepared) => prepared,
            Err(error) => return responder.tell(Err(error)),
        };
        let message = put_stat(Some(stat));
        let shared_from = self.shared.options.shared_from;
        match data {
            Some(data) => give(&range, message, data, shared_from, responder),
            None => {
                // What goes through shared memory takes none while it waits.
                let responder = if range.into.is_none() { responder.promising(count) } else { responder };
                self.work(move || match view.bytes(at.space, &at.key, range.offset, count) {
                    Ok(data) => give(&range, message, data, shared_from, responder),
                    Err(error) => responder.tell(Err(error)),
                });
            }
        }
    }

    /// Has something done by a worker, in turn with what other connections want.
    fn work(&self, job: impl FnOnce() + Send + 'static) {
        self.shared.workers.run(self.number, job);
    }

    fn open_stage(&self, number: u64, hint: StageHint) -> Result<Vec<u8>> {
        let open = || self.shared.kv.stage(hint).map(|stage| Arc::new(Mutex::new(Staged::new(stage, &self.load))));
        self.stages.open(number, open).map(|_| Vec::new())
    }

    fn write_stage(&self, number: u64, data: &[u8]) -> Result<Vec<u8>> {
        let written = self.stages.find(number)?.lock().write(number, data);
        self.keep_stage(number, written)
    }

    fn finish_stage(&self, number: u64) -> Result<Vec<u8>> {
        let held = self.stages.find(number)?;
        let mut held = held.lock();
        if held.is_finished() {
            return Err(Error::invalid(format!("stage {number} is finished already")));
        }
        let finished = held.finish();
        drop(held);
        self.keep_stage(number, finished)
    }

    /// After an error a stage is gone: pieces that are on their way already would leave a gap.
    fn keep_stage(&self, number: u64, done: Result<u64>) -> Result<Vec<u8>> {
        if let Err(error) = &done {
            self.stages.replace(number, Err(error.clone()));
        }
        done.map(put_number)
    }
}

/// What of a value is wanted, and where there is room for it in shared memory.
struct Range {
    offset: u64,
    length: u32,
    into: Option<(u64, Arc<ServerSide>)>,
}

/// Answers with data, through shared memory where there is room and it is worth it.
fn give(range: &Range, message: Vec<u8>, data: Bytes, shared_from: usize, responder: Responder) {
    if let Some((offset, memory)) = range.into.as_ref().filter(|_| data.len() >= shared_from.max(1)) {
        // Room outside of the memory is an error that the client hears.
        let shared = memory.to_client.copy_in(*offset, &data);
        let shared = shared.map(|()| (message, SharedData { offset: *offset, length: data.len() as u32 }));
        return responder.answer_shared(shared);
    }
    responder.answer(Ok((message, data)));
}

/// What a batch of a session names.
struct Named<'s> {
    session: &'s Session,
    /// So many bytes of shared memory it may still have.
    left: usize,
}

impl Found for Named<'_> {
    fn stage(&mut self, number: u64) -> Result<StageToken> {
        self.session.token(number)
    }

    fn shared(&mut self, offset: u64, length: u32) -> Result<Bytes> {
        let left = self.left.checked_sub(length as usize);
        self.left = left.ok_or_else(|| Error::invalid(format!("a batch has at most {BATCH_BYTES_MAX} bytes")))?;
        self.session.copy_out(offset, length)
    }
}

fn no_stage(_number: u64) -> Result<StageToken> {
    Err(malformed("a stage"))
}

fn unsupported(verb: u16) -> Error {
    Error::new(ErrorKind::Unsupported, format!("this server does not know verb {verb:#06x}"))
}
