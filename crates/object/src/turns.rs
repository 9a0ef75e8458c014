//! Who goes first where many changes of one name meet in this process: those that were refused stand in line.
//!
//! Invariants:
//! - Nothing is right or wrong by it, and other processes know nothing of it: it keeps changes that each rest on the
//!   last one from being refused again and again while others are made.
//! - Only a change whose outcome somebody waits for (or is called back with) stands in line or has a turn, so a turn
//!   always ends. One that is dropped passes it on.

use std::collections::{HashMap, VecDeque};
use std::hash::{DefaultHasher, Hash as _, Hasher as _};
use std::sync::{Arc, Mutex, PoisonError};

use koine_kv::{Commit, Completer, Ticket, Version};

/// The lines of one `Objects` and its clones. Two names may share a line: that only costs time.
#[derive(Default)]
pub(crate) struct Turns {
    lines: Mutex<HashMap<u64, VecDeque<Waiting>>>,
}

struct Waiting {
    place: Arc<Place>,
    completer: Completer,
}

/// Where a turn is put for who waits for it.
#[derive(Default)]
pub(crate) struct Place(Mutex<Option<Turn>>);

impl Place {
    /// The turn, once its ticket is done.
    pub fn take(&self) -> Option<Turn> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).take()
    }
}

/// The right to go next; dropped, it is the next one's.
pub(crate) struct Turn {
    turns: Arc<Turns>,
    line: u64,
}

pub(crate) enum Asked {
    /// Nobody is before.
    Mine(Turn),
    /// The ticket is done when the turn lies in its place.
    Wait(Ticket, Arc<Place>),
}

impl Turns {
    /// Asks for a turn at a name.
    pub fn ask(self: &Arc<Self>, bucket: &str, key: &str) -> Asked {
        let mut hasher = DefaultHasher::new();
        (bucket, key).hash(&mut hasher);
        let line = hasher.finish();
        let mut lines = self.lines.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(waiting) = lines.get_mut(&line) {
            let (ticket, completer) = Ticket::new();
            let place = Arc::new(Place::default());
            waiting.push_back(Waiting { place: Arc::clone(&place), completer });
            return Asked::Wait(ticket, place);
        }
        lines.insert(line, VecDeque::new());
        Asked::Mine(Turn { turns: Arc::clone(self), line })
    }
}

impl Drop for Turn {
    fn drop(&mut self) {
        let mut lines = self.turns.lines.lock().unwrap_or_else(PoisonError::into_inner);
        let Some(next) = lines.get_mut(&self.line).and_then(VecDeque::pop_front) else {
            lines.remove(&self.line);
            return;
        };
        drop(lines);
        let turn = Turn { turns: Arc::clone(&self.turns), line: self.line };
        *next.place.0.lock().unwrap_or_else(PoisonError::into_inner) = Some(turn);
        next.completer.complete(Ok(Commit { version: Version(0), repeated: false }));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn mine(asked: Asked) -> Turn {
        match asked {
            Asked::Mine(turn) => turn,
            Asked::Wait(..) => panic!("somebody is before"),
        }
    }

    fn wait(asked: Asked) -> (Ticket, Arc<Place>) {
        match asked {
            Asked::Mine(_) => panic!("nobody is before"),
            Asked::Wait(ticket, place) => (ticket, place),
        }
    }

    #[test]
    fn turns_are_taken_in_the_order_in_which_they_were_asked_for() {
        let turns = Arc::new(Turns::default());
        let first = mine(turns.ask("bucket", "key"));
        let other = mine(turns.ask("bucket", "other"));
        let (second, second_place) = wait(turns.ask("bucket", "key"));
        let (third, third_place) = wait(turns.ask("bucket", "key"));
        assert!(second.peek().is_none());
        drop(first);
        assert!(second.peek().is_some() && third.peek().is_none());
        let turn = second_place.take().unwrap();
        drop(other);
        assert!(third.peek().is_none());
        drop(turn);
        assert!(third.peek().is_some());
        drop(third_place.take().unwrap());
        assert!(turns.lines.lock().unwrap().is_empty());
    }

    #[test]
    fn a_turn_that_nobody_takes_is_passed_on() {
        let turns = Arc::new(Turns::default());
        let first = mine(turns.ask("bucket", "key"));
        drop(wait(turns.ask("bucket", "key")));
        let (third, place) = wait(turns.ask("bucket", "key"));
        drop(first);
        assert!(third.peek().is_some());
        drop(place.take());
        drop(mine(turns.ask("bucket", "key")));
    }
}
