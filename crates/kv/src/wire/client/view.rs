//! A version of a store that its server keeps pinned.
//!
//! Invariant: the server pins it before it works on anything that was asked for later, so that nobody waits for the pinning.

use std::collections::VecDeque;
use std::sync::{Arc, OnceLock};

use bytes::{Bytes, BytesMut};
use koine_engine::{KeyRange, Place, Result, SpaceId, Version};
use parking_lot::Mutex;

use super::connection::Connection;
use super::cursor::WireCursor;
use super::link::Asked;
use super::slot::letting_go;
use crate::copies;
use crate::seam::{Cursor, Direction, Glance, ReadNow, SpaceEntry, Stat, View};
use crate::wire::fields::malformed;
use crate::wire::frame::DATA_LEN_MAX;
use crate::wire::reply::{take_number, take_spaces, take_stat};
use crate::wire::request::Request;

/// So many pieces of a long read are asked for before the first is waited for.
const AHEAD_MAX: usize = 8;

/// What is pinned under a number; its drop lets go of it.
pub(super) struct Pin {
    pub connection: Arc<Connection>,
    pub number: u64,
}

impl Drop for Pin {
    fn drop(&mut self) {
        // Without a connection the server has let go already.
        let _gone = letting_go(|| self.connection.ask(&Request::CloseView { view: self.number }));
    }
}

/// A view behind a connection.
pub(super) struct WireView {
    pin: Arc<Pin>,
    opening: Mutex<Option<Asked>>,
    version: OnceLock<Version>,
}

impl WireView {
    /// Asks for the newest version to be pinned.
    pub fn open(connection: &Arc<Connection>) -> Result<WireView> {
        let number = connection.next_number();
        let opening = connection.ask(&Request::OpenView { view: number })?;
        let pin = Arc::new(Pin { connection: Arc::clone(connection), number });
        Ok(WireView { pin, opening: Mutex::new(Some(opening)), version: OnceLock::new() })
    }

    fn ask(&self, request: &Request) -> Result<Asked> {
        self.pin.connection.ask(request)
    }

    fn retrieve(&self, at: &Place, offset: u64, length: usize) -> Result<Asked> {
        self.pin.connection.retrieve(self.pin.number, at, offset, length)
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

impl View for WireView {
    fn version(&self) -> Version {
        *self.version.get_or_init(|| {
            let opening = self.opening.lock().take();
            let told = opening.and_then(|asked| asked.wait().ok()).and_then(|frame| take_number(frame.message).ok());
            // Where it could not be pinned every read says why.
            Version(told.unwrap_or_default())
        })
    }

    fn has_space(&self, space: SpaceId) -> Result<bool> {
        let frame = self.ask(&Request::HasSpace { view: self.pin.number, space })?.wait()?;
        match frame.message.as_ref() {
            [0] => Ok(false),
            [1] => Ok(true),
            _ => Err(malformed("neither yes nor no")),
        }
    }

    fn spaces(&self, from: SpaceId, most: usize) -> Result<Vec<SpaceEntry>> {
        let (mut found, mut next) = (Vec::new(), Some(from));
        while let Some(from) = next
            && found.len() < most
        {
            let left = u32::try_from(most - found.len()).unwrap_or(u32::MAX);
            let request = Request::Spaces { view: self.pin.number, from, most: left };
            let page = take_spaces(self.ask(&request)?.wait()?.message)?;
            next = page.last().and_then(|last| last.space.0.checked_add(1)).map(SpaceId);
            found.extend(page);
        }
        Ok(found)
    }

    fn stat(&self, space: SpaceId, key: &[u8]) -> Result<Option<Stat>> {
        let at = Place { space, key: Bytes::copy_from_slice(key) };
        take_stat(self.ask(&Request::Exist { view: self.pin.number, at })?.wait()?.message)
    }

    fn read(&self, space: SpaceId, key: &[u8], offset: u64, buffer: &mut [u8]) -> Result<usize> {
        let at = Place { space, key: Bytes::copy_from_slice(key) };
        let mut done = 0;
        let length = buffer.len();
        self.read_pieces(&at, offset, length, |_, data| {
            if let Some(target) = buffer.get_mut(done..done + data.len()) {
                target.copy_from_slice(&data);
                copies::copied(data.len());
                done += data.len();
            }
        })?;
        Ok(done)
    }

    fn read_now(&self, _space: SpaceId, _key: &[u8], _offset: u64, _buffer: &mut [u8]) -> Result<ReadNow> {
        Ok(ReadNow::WouldBlock)
    }

    fn glance(&self, _space: SpaceId, _key: &[u8], _offset: u64, _length: usize) -> Result<Glance> {
        Ok(Glance::Unknown)
    }

    fn bytes(&self, space: SpaceId, key: &[u8], offset: u64, length: usize) -> Result<Bytes> {
        let at = Place { space, key: Bytes::copy_from_slice(key) };
        let (mut first, mut more) = (None, BytesMut::new());
        self.read_pieces(&at, offset, length, |stat, data| match first.take() {
            None if more.is_empty() => first = Some(data),
            Some(begin) => {
                let begin: Bytes = begin;
                let left = usize::try_from(stat.size.saturating_sub(offset)).unwrap_or(usize::MAX);
                more.reserve(left.min(length));
                more.extend_from_slice(&begin);
                more.extend_from_slice(&data);
            }
            None => more.extend_from_slice(&data),
        })?;
        Ok(first.unwrap_or_else(|| more.freeze()))
    }

    fn cursor(&self, space: SpaceId, range: KeyRange, direction: Direction) -> Result<Box<dyn Cursor>> {
        Ok(Box::new(WireCursor::new(Arc::clone(&self.pin), space, range, direction)))
    }
}
