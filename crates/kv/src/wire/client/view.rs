//! A version of a store that its server keeps pinned.
//!
//! Invariants:
//! - The server pins it before it works on anything that was asked for later, so that nobody waits for the pinning.
//! - All that is read is of one version. Where the connection is lost before anything was read, the newest version of the
//!   moment is pinned on another; afterwards the view has expired.

use std::collections::VecDeque;
use std::sync::{Arc, OnceLock};

use bytes::{Bytes, BytesMut};
use koine_engine::{ErrorKind, KeyRange, Place, Result, SpaceId, Version};
use parking_lot::Mutex;

use super::connection::Connection;
use super::cursor::WireCursor;
use super::line::{Line, is_loss};
use super::link::SentRequest;
use crate::copies;
use crate::seam::{Cursor, Direction, Entry, Lookup, SpaceEntry, Stat, View, Wait};
use crate::wire::fields::malformed;
use crate::wire::frame::DATA_LEN_MAX;
use crate::wire::message::Message;
use crate::wire::reply::{take_number, take_page, take_spaces, take_stat};
use crate::wire::request::Request;

/// So many pieces of a long read are asked for before the first is waited for.
const AHEAD_MAX: usize = 8;

/// What is pinned under a number; its drop lets go of it.
struct Pin {
    connection: Arc<Connection>,
    number: u64,
    opening: Mutex<Option<SentRequest>>,
    version: OnceLock<Version>,
}

impl Pin {
    /// Asks for the newest version to be pinned.
    fn open(connection: &Arc<Connection>) -> Result<Arc<Pin>> {
        let number = connection.next_number();
        let opening = connection.ask(&Request::OpenView { view: number })?;
        let connection = Arc::clone(connection);
        Ok(Arc::new(Pin { connection, number, opening: Mutex::new(Some(opening)), version: OnceLock::new() }))
    }

    fn version(&self) -> Result<Version> {
        if let Some(version) = self.version.get() {
            return Ok(*version);
        }
        // Others wait for who waits for the answer.
        let mut opening = self.opening.lock();
        let told = match opening.take() {
            Some(asked) => Version(take_number(asked.wait()?.message)?),
            // Where it could not be pinned every read says why.
            None => self.version.get().copied().unwrap_or_default(),
        };
        Ok(*self.version.get_or_init(|| told))
    }

    fn retrieve(&self, at: &Place, offset: u64, length: usize) -> Result<SentRequest> {
        self.connection.retrieve(self.number, at, offset, length)
    }

    /// Reads pieces of a range in order until `length` bytes or the value's end; `take` gets each.
    fn read_pieces(&self, at: &Place, offset: u64, length: usize, mut take: impl FnMut(Stat, Bytes)) -> Result<()> {
        let (mut asked, mut is_known) = (VecDeque::new(), false);
        let (mut next, mut end) = (0, length);
        loop {
            // The first piece tells how long the value is: nothing is asked for past its end.
            let ahead = if is_known { AHEAD_MAX } else { 1 };
            while (next < end || !is_known) && asked.len() < ahead {
                let wanted = (end - next).min(DATA_LEN_MAX);
                asked.push_back((wanted, self.retrieve(at, offset.saturating_add(next as u64), wanted)?));
                next += wanted;
            }
            let Some((wanted, answer)) = asked.pop_front() else { return Ok(()) };
            is_known = true;
            let frame = answer.wait()?;
            let stat = take_stat(frame.message)?.ok_or_else(|| malformed("bytes of a key that is not there"))?;
            if frame.data.len() > wanted {
                return Err(malformed("more bytes than were asked for"));
            }
            end = end.min(usize::try_from(stat.size.saturating_sub(offset)).unwrap_or(usize::MAX));
            take(stat, frame.data);
        }
    }
}

impl Drop for Pin {
    fn drop(&mut self) {
        // Without a connection the server has let go already.
        let _gone = self.connection.ask(&Request::CloseView { view: self.number });
    }
}

/// A version that several may read.
pub(super) struct Pinned {
    line: Arc<Line>,
    state: Mutex<PinState>,
}

struct PinState {
    pin: Arc<Pin>,
    /// Something of it was told.
    was_read: bool,
    /// It counts among those that are kept.
    is_kept: bool,
}

impl Pinned {
    fn open(line: &Arc<Line>) -> Result<Arc<Pinned>> {
        let pin = line.repeat(Pin::open)?;
        let state = Mutex::new(PinState { pin, was_read: false, is_kept: false });
        Ok(Arc::new(Pinned { line: Arc::clone(line), state }))
    }

    /// Reads, and once more where the connection is lost before anything of the version was told.
    fn read<T>(&self, mut read: impl FnMut(&Pin) -> Result<T>) -> Result<T> {
        self.line.check()?;
        loop {
            let pin = Arc::clone(&self.state.lock().pin);
            let done = read(&pin);
            let lost = done.as_ref().is_err_and(is_loss);
            let mut state = self.state.lock();
            if !Arc::ptr_eq(&state.pin, &pin) {
                // Another thread has pinned another version meanwhile.
                continue;
            }
            if !lost {
                state.was_read = true;
                return done;
            }
            if state.was_read || state.is_kept {
                let message = "the version that was being read went with it: open it again";
                return Err(pin.connection.lost_with_it(ErrorKind::Expired, message));
            }
            drop(state);
            let again = self.line.repeat(Pin::open)?;
            let mut state = self.state.lock();
            if Arc::ptr_eq(&state.pin, &pin) {
                state.pin = again;
            }
        }
    }

    /// It is going to be kept: others still get views for a moment.
    fn keep(&self) -> Result<()> {
        self.line.check()?;
        let mut state = self.state.lock();
        if !state.is_kept {
            state.pin.connection.keep_view()?;
            state.is_kept = true;
        }
        Ok(())
    }

    /// The next page of a cursor, and whether it is the last.
    pub fn page(&self, asked: impl Fn(u64) -> Request) -> Result<(Vec<Entry>, bool)> {
        self.read(|pin| take_page(pin.connection.call(&asked(pin.number))?.message))
    }
}

impl Drop for Pinned {
    fn drop(&mut self) {
        let state = self.state.get_mut();
        if state.is_kept {
            state.pin.connection.leave_view();
        }
    }
}

/// A view behind a connection.
pub(super) struct WireView {
    pinned: Arc<Pinned>,
}

impl WireView {
    /// Asks for the newest version to be pinned.
    pub fn open(line: &Arc<Line>) -> Result<WireView> {
        Ok(WireView { pinned: Pinned::open(line)? })
    }

    fn ask<T>(&self, request: impl Fn(u64) -> Request, take: impl Fn(Message) -> Result<T>) -> Result<T> {
        self.pinned.read(|pin| take(pin.connection.call(&request(pin.number))?.message))
    }
}

impl View for WireView {
    fn version(&self) -> Version {
        self.pinned.read(Pin::version).unwrap_or_default()
    }

    fn keep(&self) -> Result<()> {
        self.pinned.keep()
    }

    fn spaces(&self, from: SpaceId, most: usize) -> Result<Vec<SpaceEntry>> {
        let (mut found, mut next) = (Vec::new(), Some(from));
        while let Some(from) = next
            && found.len() < most
        {
            let left = u32::try_from(most - found.len()).unwrap_or(u32::MAX);
            let page = self.ask(|view| Request::Spaces { view, from, most: left }, take_spaces)?;
            next = page.last().and_then(|last| last.space.0.checked_add(1)).map(SpaceId);
            found.extend(page);
        }
        Ok(found)
    }

    fn lookup(&self, space: SpaceId, key: &[u8], offset: u64, length: usize, wait: Wait) -> Result<Lookup> {
        if wait == Wait::Never {
            return Ok(Lookup::WouldWait);
        }
        let at = Place { space, key: Bytes::copy_from_slice(key) };
        if length == 0 {
            let stat = self.ask(|view| Request::Exist { view, at: at.clone() }, take_stat)?;
            return Ok(stat.map_or(Lookup::Absent, |stat| Lookup::Found(stat, Bytes::new())));
        }
        let found = self.pinned.read(|pin| {
            let (mut found, mut more) = (None, BytesMut::new());
            pin.read_pieces(&at, offset, length, |stat, data| match &found {
                None => found = Some((stat, data)),
                Some((_, first)) => {
                    if more.is_empty() {
                        let left = usize::try_from(stat.size.saturating_sub(offset)).unwrap_or(usize::MAX);
                        more.reserve(left.min(length));
                        more.extend_from_slice(first);
                    }
                    more.extend_from_slice(&data);
                }
            })?;
            let (stat, first) = found.ok_or_else(|| malformed("no answer to a read"))?;
            Ok(Lookup::Found(stat, if more.is_empty() { first } else { more.freeze() }))
        });
        found.or_else(|error| if error.kind() == ErrorKind::NotFound { Ok(Lookup::Absent) } else { Err(error) })
    }

    fn read_into(
        &self,
        space: SpaceId,
        key: &[u8],
        offset: u64,
        buffer: &mut [u8],
        wait: Wait,
    ) -> Result<Option<usize>> {
        if wait == Wait::Never {
            return Ok(None);
        }
        let at = Place { space, key: Bytes::copy_from_slice(key) };
        let length = buffer.len();
        self.pinned.read(|pin| {
            let mut done = 0;
            pin.read_pieces(&at, offset, length, |_, data| {
                if let Some(target) = buffer.get_mut(done..done + data.len()) {
                    target.copy_from_slice(&data);
                    copies::copied(data.len());
                    done += data.len();
                }
            })?;
            Ok(Some(done))
        })
    }

    fn cursor(&self, space: SpaceId, range: KeyRange, direction: Direction) -> Result<Box<dyn Cursor>> {
        Ok(Box::new(WireCursor::new(Arc::clone(&self.pinned), space, range, direction)))
    }
}
