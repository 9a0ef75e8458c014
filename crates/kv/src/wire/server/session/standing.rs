//! For whom a connection is taken: a stranger, somebody known, or one that has to make room.
//!
//! Invariants:
//! - A stranger is known or sent away, never both: who is known is not ended to make room, unless it is idle.
//! - At a door of verbs alone everybody may greet: there the handler says who is known, and a stranger has `log_in` and
//!   no more, however slowly it speaks.

use std::sync::atomic::{AtomicU8, Ordering};
use std::time::Instant;

use koine_engine::Result;

use super::greeting::lost;
use super::{Reader, Session, unsupported};
use crate::wire::fields::malformed;
use crate::wire::frame::Frame;

/// Who it is was not said yet.
pub(super) const STRANGER: u8 = 0;
/// The greeting is over.
pub(super) const KNOWN: u8 = 1;
/// A stranger for whom there is no room any more.
const SENT_AWAY: u8 = 2;

/// Whether a connection has said who it is. Invariant: who is sent away stays so.
#[derive(Default)]
pub(super) struct Standing(AtomicU8);

impl Standing {
    /// One becomes something else; false where it is another one.
    pub(super) fn becomes(&self, one: u8, other: u8) -> bool {
        self.0.compare_exchange(one, other, Ordering::AcqRel, Ordering::Acquire).is_ok()
    }
}

impl Session {
    /// Ends the connection of one who has not said who it is; false where it has or is about to, or was ended so already.
    pub fn send_away(&self) -> bool {
        // A handler that is at work may have told its client already that it is known.
        let Some(conversation) = self.conversation.try_lock() else { return false };
        if !self.shared.is_raw && conversation.as_ref().is_some_and(|conversation| conversation.is_known()) {
            return false;
        }
        let is_stranger = self.standing.becomes(STRANGER, SENT_AWAY);
        if is_stranger {
            self.end();
        }
        is_stranger
    }

    /// Whether it could end without a loss: it is known, asks for nothing and has nothing open.
    pub fn is_idle(&self) -> bool {
        let has_nothing = || {
            // Who holds it works on a request.
            let conversation = self.conversation.try_lock();
            conversation.is_some_and(|held| held.as_ref().is_some_and(|conversation| conversation.is_idle()))
        };
        !self.shared.is_raw && self.standing.0.load(Ordering::Acquire) == KNOWN && self.flow.is_done() && has_nothing()
    }

    /// Ends an idle connection: what it has asked for meanwhile is answered. False where it is sent away already.
    pub fn make_way(&self) -> bool {
        let was_known = self.standing.becomes(KNOWN, SENT_AWAY);
        if was_known {
            self.stop();
        }
        was_known
    }

    /// What the handler knows of who asks decides, at a door of verbs alone, how long it is listened to.
    pub(super) fn stand(&self, reader: &mut Reader, is_known: bool) -> Result<()> {
        if self.shared.is_raw {
            return Ok(());
        }
        if is_known && self.standing.becomes(STRANGER, KNOWN) {
            return reader.get_mut().read_until(None).map_err(lost);
        }
        if !is_known && self.standing.becomes(KNOWN, STRANGER) {
            return self.listen_to_a_stranger(reader);
        }
        Ok(())
    }

    pub(super) fn listen_to_a_stranger(&self, reader: &mut Reader) -> Result<()> {
        reader.get_mut().read_until(Some(Instant::now() + self.shared.options.log_in)).map_err(lost)
    }

    /// Has the handler work on a verb of its own; whether it knows then who asks.
    pub(super) fn converse(&self, frame: Frame) -> bool {
        let responder = self.responder(&frame);
        let mut conversation = self.conversation.lock();
        let Some(handler) = &self.shared.options.handler else {
            responder.tell(Err(unsupported(frame.verb)));
            return false;
        };
        if frame.shared.is_some() {
            responder.tell(Err(malformed("shared memory with a verb that takes none")));
            return conversation.as_ref().is_some_and(|conversation| conversation.is_known());
        }
        let conversation = conversation.get_or_insert_with(|| handler.begin(&self.peer));
        conversation.handle(frame.verb, frame.message.into_bytes(), frame.data, responder);
        conversation.is_known()
    }
}
