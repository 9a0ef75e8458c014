//! Watches of a session: each has a thread that waits for events while somebody asks for them.
//!
//! Invariant: a thread ends within a second of its watch, or its session.

use std::collections::HashMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{Receiver, Sender, channel};
use std::time::Duration;

use koine_engine::{Error, ErrorKind, Result};
use parking_lot::Mutex;

use super::answers::Responder;
use super::spawn;
use crate::seam::{Watch, WatchEvent};
use crate::wire::reply::put_event;

/// The most of a session: each takes a thread.
pub(in crate::wire) const WATCHES_MAX: usize = 32;
/// So often a thread looks whether it is still wanted.
const SLICE: Duration = Duration::from_millis(500);

type EventRequest = (Duration, Responder);

/// The watches of a session.
#[derive(Default)]
pub(super) struct Watches {
    open: Mutex<HashMap<u64, ServedWatch>>,
}

struct ServedWatch {
    asked: Sender<EventRequest>,
    ended: Arc<AtomicBool>,
}

impl Drop for ServedWatch {
    fn drop(&mut self) {
        self.ended.store(true, Ordering::Release);
    }
}

impl Watches {
    /// Takes a watch in under a number.
    pub fn open(&self, number: u64, mut watch: Box<dyn Watch>) -> Result<()> {
        let mut open = self.open.lock();
        if open.contains_key(&number) {
            return Err(Error::invalid(format!("watch {number} is open already")));
        }
        if open.len() >= WATCHES_MAX {
            return Err(Error::new(ErrorKind::Busy, format!("{WATCHES_MAX} watches are open: close some")));
        }
        let (sender, asked) = channel();
        let ended = Arc::new(AtomicBool::new(false));
        let seen = Arc::clone(&ended);
        spawn("koine-watch", move || serve(watch.as_mut(), &asked, &seen))?;
        open.insert(number, ServedWatch { asked: sender, ended });
        Ok(())
    }

    /// Answers with the next event of a watch, or, after so long, that none came.
    pub fn next(&self, number: u64, timeout: Duration, responder: Responder) {
        let unknown = || Error::invalid(format!("there is no watch {number} on this connection"));
        match self.open.lock().get(&number) {
            // Where its thread has ended the responder says so.
            Some(watch) => drop(watch.asked.send((timeout, responder))),
            None => responder.tell(Err(unknown())),
        }
    }

    /// Ends a watch.
    pub fn close(&self, number: u64) -> Result<()> {
        let gone = self.open.lock().remove(&number);
        gone.map(drop).ok_or_else(|| Error::invalid(format!("there is no watch {number} on this connection")))
    }

    /// Ends all.
    pub fn end(&self) {
        self.open.lock().clear();
    }
}

fn serve(watch: &mut dyn Watch, asked: &Receiver<EventRequest>, ended: &AtomicBool) {
    while let Ok((timeout, responder)) = asked.recv() {
        let event = wait(watch, timeout, ended);
        if matches!(event, Ok(None)) && ended.load(Ordering::Acquire) {
            // Without an answer the responder says that the server is stopping.
            continue;
        }
        responder.tell(event.map(|event| put_event(event.as_ref())));
    }
}

fn wait(watch: &mut dyn Watch, timeout: Duration, ended: &AtomicBool) -> Result<Option<WatchEvent>> {
    let mut left = timeout;
    loop {
        let slice = left.min(SLICE);
        let event = watch.next(slice)?;
        left -= slice;
        if event.is_some() || left.is_zero() || ended.load(Ordering::Acquire) {
            return Ok(event);
        }
    }
}
