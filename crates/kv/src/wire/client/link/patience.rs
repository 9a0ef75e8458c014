//! How long a call waits for its answer.
//!
//! Invariant: who waits no more is told so once; an answer that comes all the same goes to nobody, and the connection goes on.

use std::time::{Duration, Instant};

use koine_engine::{Error, ErrorKind};
use koine_env::patience;

use super::Link;
use crate::wire::client::slot::{Outcome, Slot, SlotState};

/// Requests that follow the one before after so long do not follow it closely.
const QUIET: Duration = Duration::from_millis(1);

impl Link {
    /// Until when a call waits that begins now, and that the server was asked to take so long for.
    pub(super) fn until(&self, asked: Duration) -> Option<Instant> {
        self.call_max.and_then(|most| Instant::now().checked_add(most.saturating_add(asked)))
    }

    /// Whether it has ended, after a look at the socket: what is asked then was not sent to a server that is gone already.
    /// While requests follow each other closely nobody looks.
    pub fn is_found_ended(&self) -> bool {
        let looks = {
            let pending = self.pending.lock();
            pending.slots.is_empty() || pending.asked.elapsed() >= QUIET
        };
        if looks && !self.has_ended() && self.process.is_here() && self.stream.has_ended() {
            self.read_to_the_end();
        }
        self.has_ended()
    }

    /// The server says no more: what it has said already is taken in.
    fn read_to_the_end(&self) {
        while !self.has_ended() {
            let mut pending = self.pending.lock();
            if pending.reading {
                // Whoever reads comes to the end.
                drop(pending);
                std::thread::sleep(Duration::from_millis(1));
                continue;
            }
            pending.reading = true;
            drop(pending);
            self.read_some();
            self.step_down();
        }
    }

    /// Waits for an answer no more, and says why: where it comes all the same nobody looks at it.
    pub(super) fn give_up(&self, slot: &Slot, why: Error) -> Outcome {
        let mut pending = self.pending.lock();
        pending.waiting.remove(&slot.id);
        let before = std::mem::replace(&mut *slot.state.lock(), SlotState::Taken);
        drop(pending);
        match before {
            SlotState::Done(outcome) => return outcome,
            SlotState::Lead => self.step_down(),
            _ => {}
        }
        Err(why)
    }

    /// Tells those who are called back and have waited too long.
    pub(super) fn give_up_late(&self) {
        let late: Vec<_> = {
            let pending = self.pending.lock();
            pending.slots.values().filter_map(|(slot, _)| slot.take_late_callback()).collect()
        };
        for callback in late {
            self.unwant();
            callback.tell(Err(self.late()));
        }
    }

    pub(super) fn late(&self) -> Error {
        let waited = self.call_max.unwrap_or_default();
        let message = format!(
            "the server at {} has not answered for {waited:?}; whether what was asked happens is not known",
            self.place
        );
        Error::new(ErrorKind::TimedOut, message)
    }
}

/// Whether a moment has come.
pub(super) fn is_past(until: Option<Instant>) -> bool {
    until.is_some_and(|until| Instant::now() >= until)
}

/// The moment, or that at which the caller is to be asked whether it waits still, if that is sooner.
pub(super) fn next_look(until: Option<Instant>) -> Option<Instant> {
    if !patience::is_given() {
        return until;
    }
    let look = Instant::now() + patience::next_look();
    Some(until.map_or(look, |until| until.min(look)))
}

/// So often who waits at the socket looks whether it has waited long enough, and whether its caller waits still.
pub(super) fn tick(call_max: Duration) -> Duration {
    (call_max / 4).clamp(Duration::from_millis(5), patience::TICK)
}
