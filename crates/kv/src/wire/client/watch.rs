//! Changes that a server tells of.
//!
//! Invariant: where the connection is lost the watch goes on on another, and says since when events are lost.

use std::sync::Arc;
use std::time::Duration;

use koine_engine::{KeyRange, Result, SpaceId, Version};

use super::connection::Connection;
use super::line::{Line, is_loss};
use crate::seam::{Watch, WatchEvent};
use crate::wire::reply::{take_event, take_number};
use crate::wire::request::Request;

pub(super) struct WireWatch {
    line: Arc<Line>,
    open: OpenedWatch,
    space: SpaceId,
    range: KeyRange,
    /// All changes up to here were told.
    told: Version,
}

/// A watch of the server; its drop ends it.
struct OpenedWatch {
    connection: Arc<Connection>,
    number: u64,
}

impl OpenedWatch {
    fn new(connection: &Arc<Connection>, space: SpaceId, range: KeyRange, from: Version) -> Result<OpenedWatch> {
        let number = connection.next_number();
        connection.call(&Request::OpenWatch { watch: number, space, range, from })?;
        Ok(OpenedWatch { connection: Arc::clone(connection), number })
    }
}

impl WireWatch {
    /// Begins one.
    pub fn open(line: &Arc<Line>, space: SpaceId, range: KeyRange, from: Version) -> Result<WireWatch> {
        let open = line.repeat(|connection| OpenedWatch::new(connection, space, range.clone(), from))?;
        Ok(WireWatch { line: Arc::clone(line), open, space, range, told: from })
    }

    /// Goes on with what is committed from now on.
    fn open_again(&mut self) -> Result<WatchEvent> {
        let (space, range) = (self.space, self.range.clone());
        let (open, newest) = self.line.repeat(|connection| {
            let view = connection.next_number();
            let newest = Version(take_number(connection.call(&Request::OpenView { view })?.message)?);
            connection.call(&Request::CloseView { view })?;
            Ok((OpenedWatch::new(connection, space, range.clone(), newest)?, newest))
        })?;
        self.open = open;
        let since = std::mem::replace(&mut self.told, newest);
        Ok(WatchEvent::LostSince(since))
    }
}

impl Watch for WireWatch {
    fn next(&mut self, timeout: Duration) -> Result<Option<WatchEvent>> {
        let OpenedWatch { connection, number } = &self.open;
        let asked = connection.ask(&Request::NextEvent { watch: *number, timeout });
        let event = match asked.and_then(|asked| asked.wait_beyond(timeout)) {
            Err(error) if is_loss(&error) => return self.open_again().map(Some),
            outcome => take_event(outcome?.message)?,
        };
        match &event {
            // More changes of that commit may follow.
            Some(WatchEvent::Changed(change)) => self.told = Version(change.version.0.saturating_sub(1)),
            Some(WatchEvent::LostSince(_)) | None => {}
        }
        Ok(event)
    }
}

impl Drop for OpenedWatch {
    fn drop(&mut self) {
        let _gone = self.connection.ask(&Request::CloseWatch { watch: self.number });
    }
}
