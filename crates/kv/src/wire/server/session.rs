//! One connection: greets, reads requests, begins them in order.
//!
//! Invariants:
//! - Before the greeting is over nothing of the store is reached, and a frame has at most a few hundred bytes.
//! - A request that is wrong gets an error and the connection goes on; bytes that are no frame end it.
//! - When the connection ends its views, stages and watches go.

mod greeting;
mod standing;

use std::os::fd::OwnedFd;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, OnceLock};
use std::time::Instant;

use bytes::Bytes;
use koine_engine::{
    Batch, Condition, Durability, Error, ErrorKind, Operation, Payload, Place, RequestId, Result, StageHint,
    StageToken, Together,
};
use parking_lot::Mutex;

use self::standing::Standing;
use super::answers::{HandlerConnection, Responder};
use super::flow::Flow;
use super::handles::Handles;
use super::listing::{PAGE_ENTRIES_MAX, PAGE_LEN_MAX, page};
use super::staged::{StageQuota, Staged};
use super::watches::Watches;
use super::{STOP_TIME_MAX, Shared, spawn};
use crate::BATCH_BYTES_MAX;
use crate::seam::{Lookup, View, Wait, absent};
use crate::wire::batch::References;
use crate::wire::fields::{Fields, malformed};
use crate::wire::frame::{DATA_LEN_MAX, Frame, Kind, Limits, Shared as SharedData};
use crate::wire::identity::{Key, Peer};
use crate::wire::incoming::Incoming;
use crate::wire::message::Message;
use crate::wire::reply::{put_commit, put_number, put_spaces, put_stat, put_usage};
use crate::wire::request::{NEWEST, Request, Rule, VERB_FOREIGN_FIRST, VERB_SHARE};
use crate::wire::shared::offer::{ServerSide, accept};
use crate::wire::stream::{FILES_MAX, Stream, StreamReader};

/// Up to here what was read without waiting is given by the thread that reads requests.
const SHORT_LEN_MAX: usize = 64 << 10;

type Reader = Incoming<StreamReader>;

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
    quota: Arc<StageQuota>,
    watches: Watches,
    /// Memory that its client shares.
    memory: OnceLock<Arc<ServerSide>>,
    /// Whether it has said who it is.
    standing: Standing,
    /// How many requests the server had when this one asked last.
    last_asked: AtomicU64,
    /// What the handler has of the connection, from its first verb on.
    conversation: Mutex<Option<Box<dyn HandlerConnection>>>,
}

impl Session {
    /// Of a socket.
    pub fn new(number: u64, shared: Arc<Shared>, stream: Stream, peer: Peer) -> Arc<Session> {
        let stream = Arc::new(stream);
        let most = shared.options.handles_max;
        let session = Session {
            number,
            flow: Arc::new(Flow::new(&stream)),
            stream,
            peer,
            views: Handles::new("view", most),
            stages: Handles::new("stage", most),
            quota: Arc::new(StageQuota::below(&shared.quota, shared.options.staging_len_max)),
            watches: Watches::default(),
            memory: OnceLock::new(),
            standing: Standing::default(),
            last_asked: AtomicU64::new(shared.asked.fetch_add(1, Ordering::Relaxed)),
            conversation: Mutex::default(),
            shared,
        };
        Arc::new(session)
    }

    /// Who it is.
    pub fn peer(&self) -> &Peer {
        &self.peer
    }

    /// The larger, the later it has asked for something.
    pub fn last_asked(&self) -> u64 {
        self.last_asked.load(Ordering::Relaxed)
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
        flow.read_here();
        let writer = spawn("koine-answers", move || flow.outgoing.work());
        if writer.is_ok() && self.stream.prepare().is_ok() {
            let mut reader = Incoming::new(StreamReader::new(Arc::clone(&self.stream)));
            // Whoever breaks the protocol, or the connection, is not there to be told.
            let _ended = self.greet(&mut reader, key).and_then(|()| self.serve(&mut reader));
        }
        self.watches.end();
        drop(self.conversation.lock().take());
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
        let Some(frame) = reader.next(limits)? else { return Ok(None) };
        if frame.kind != Kind::Request {
            return Err(malformed("an answer where a request is wanted"));
        }
        let options = &self.shared.options;
        self.flow.enter(options.in_flight_max, options.waiting_len_max);
        self.last_asked.store(self.shared.asked.fetch_add(1, Ordering::Relaxed), Ordering::Relaxed);
        Ok(Some(frame))
    }

    fn responder(&self, frame: &Frame) -> Responder {
        Responder::new(frame.verb, frame.id, Arc::clone(&self.flow))
    }

    /// Requests that came together are worked on before their answers leave, together too; what of their batches is only to
    /// be written is written in one group, by this thread.
    fn serve(&self, reader: &mut Reader) -> Result<()> {
        let options = &self.shared.options;
        let (mut together, mut gathers) = (None, false);
        loop {
            // Nothing is waited for while writes are held back that others, or the client, may wait for.
            if !reader.has_next() || self.flow.would_wait(options.in_flight_max, options.waiting_len_max) {
                together.take().into_iter().for_each(Together::end);
                if std::mem::take(&mut gathers) {
                    self.flow.outgoing.flush();
                }
            }
            let Some(frame) = self.read(reader, self.shared.limits())? else { return Ok(()) };
            if frame.verb >= VERB_FOREIGN_FIRST {
                // It may wait for what it writes itself, and for others.
                together.take().into_iter().for_each(Together::end);
                if std::mem::take(&mut gathers) {
                    self.flow.outgoing.flush();
                }
                let is_known = self.converse(frame);
                self.stand(reader, is_known)?;
                continue;
            }
            if !self.shared.is_raw {
                self.responder(&frame).tell(Err(unsupported(frame.verb)));
                continue;
            }
            if together.is_none() {
                together = Some(Together::begin());
                gathers = reader.has_next();
                if gathers {
                    self.flow.outgoing.gather();
                }
            }
            if frame.verb == VERB_SHARE {
                self.share(frame, reader.get_mut().take_files());
            } else {
                self.answer(frame);
            }
        }
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
            Request::Exist { view, at } => return self.exist(view, at, responder),
            Request::List { view, space, range, direction, entries, bytes } => {
                let responder = responder.promising(bytes.min(PAGE_LEN_MAX) as usize);
                return self.ask_worker(view, responder, move |view| {
                    let mut cursor = view.cursor(space, range, direction)?;
                    page(cursor.as_mut(), entries.clamp(1, PAGE_ENTRIES_MAX), bytes.min(PAGE_LEN_MAX))
                });
            }
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
        let ticket = self.shared.kv.submit(batch, durability, Wait::Never);
        ticket.on_done(move |outcome| responder.say(outcome.map(put_commit)));
    }

    /// What is known of a key without waiting.
    fn lookup_now(&self, view: u64, at: &Place, offset: u64, length: usize) -> Result<Lookup> {
        match view {
            NEWEST => self.shared.kv.lookup(at.space, &at.key, offset, length, Wait::Never),
            number => self.views.find(number)?.lookup(at.space, &at.key, offset, length, Wait::Never),
        }
    }

    /// Has a worker do what may wait for the device, with the version that is the view's now.
    fn ask_worker<M: Into<Message>>(
        &self,
        view: u64,
        responder: Responder,
        work: impl FnOnce(&dyn View) -> Result<M> + Send + 'static,
    ) {
        match self.view(view) {
            Ok(view) => self.work(move || responder.say(work(view.as_ref()))),
            Err(error) => responder.tell(Err(error)),
        }
    }

    fn exist(&self, view: u64, at: Place, responder: Responder) {
        match self.lookup_now(view, &at, 0, 0) {
            Ok(Lookup::Absent) => responder.say(Ok(put_stat(None))),
            Ok(Lookup::Found(stat, _)) => responder.say(Ok(put_stat(Some(stat)))),
            Ok(Lookup::WouldWait) => {
                self.ask_worker(view, responder, move |view| view.stat(at.space, &at.key).map(put_stat))
            }
            Err(error) => responder.tell(Err(error)),
        }
    }

    /// Answers at once where one look-up without waiting has the bytes and they are few; else a worker does.
    fn retrieve(&self, view: u64, at: Place, range: Range, responder: Responder) {
        let length = range.length as usize;
        if length > DATA_LEN_MAX {
            let message = format!("{length} bytes at once; at most {DATA_LEN_MAX} are given: read on");
            return responder.tell(Err(Error::invalid(message)));
        }
        let shared_from = self.shared.options.shared_from;
        let view = match self.lookup_now(view, &at, range.offset, length) {
            Ok(Lookup::Absent) => return responder.tell(Err(absent())),
            Ok(Lookup::Found(stat, data)) if data.len() <= SHORT_LEN_MAX => {
                return give(&range, put_stat(Some(stat)), data, shared_from, responder);
            }
            Ok(Lookup::Found(stat, data)) => {
                let responder = range.promised(responder, data.len());
                let give = move || give(&range, put_stat(Some(stat)), data, shared_from, responder);
                return self.work(give);
            }
            Ok(Lookup::WouldWait) => self.view(view),
            Err(error) => Err(error),
        };
        let view = match view {
            Ok(view) => view,
            Err(error) => return responder.tell(Err(error)),
        };
        // How much is known where the key is in memory, though not the value.
        let most = match view.lookup(at.space, &at.key, 0, 0, Wait::Never) {
            Ok(Lookup::Found(stat, _)) => stat.size.saturating_sub(range.offset).min(u64::from(range.length)) as usize,
            _ => length,
        };
        let responder = range.promised(responder, most);
        self.work(move || {
            let read = || match view.lookup(at.space, &at.key, range.offset, length, Wait::Allowed)? {
                Lookup::Found(stat, data) => Ok((put_stat(Some(stat)), data)),
                Lookup::Absent | Lookup::WouldWait => Err(absent()),
            };
            match read() {
                Ok((message, data)) => give(&range, message, data, shared_from, responder),
                Err(error) => responder.tell(Err(error)),
            }
        });
    }

    /// Has something done by a worker, in turn with what other connections want.
    fn work(&self, job: impl FnOnce() + Send + 'static) {
        self.shared.workers.run(self.number, job);
    }

    fn open_stage(&self, number: u64, hint: StageHint) -> Result<Vec<u8>> {
        let open = || self.shared.kv.stage(hint).map(|stage| Arc::new(Mutex::new(Staged::new(stage, &self.quota))));
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

impl Range {
    /// What goes through shared memory takes none while it waits.
    fn promised(&self, responder: Responder, length: usize) -> Responder {
        if self.into.is_none() { responder.promising(length) } else { responder }
    }
}

/// Answers with data, through shared memory where there is room and it is worth it.
fn give(range: &Range, message: Message, data: Bytes, shared_from: usize, responder: Responder) {
    if let Some((offset, memory)) = range.into.as_ref().filter(|_| data.len() >= shared_from.max(1)) {
        // Room outside of the memory is an error that the client hears.
        let shared = memory.to_client.copy_in(*offset, &data);
        let shared = shared.map(|()| (message, SharedData { offset: *offset, length: data.len() as u32 }));
        return responder.answer_shared(shared);
    }
    responder.reply(Ok((message, data)));
}

/// What a batch of a session names.
struct Named<'s> {
    session: &'s Session,
    /// So many bytes of shared memory it may still have.
    left: usize,
}

impl References for Named<'_> {
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
