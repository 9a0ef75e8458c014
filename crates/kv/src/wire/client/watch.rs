//! Changes that a server tells of.

use std::sync::Arc;
use std::time::Duration;

use koine_engine::{KeyRange, Result, SpaceId, Version};

use super::connection::Connection;
use super::slot::letting_go;
use crate::seam::{Watch, WatchEvent};
use crate::wire::reply::take_event;
use crate::wire::request::Request;

pub(super) struct WireWatch {
    connection: Arc<Connection>,
    number: u64,
}

impl WireWatch {
    /// Begins one.
    pub fn open(connection: &Arc<Connection>, space: SpaceId, range: KeyRange, from: Version) -> Result<WireWatch> {
        let number = connection.next_number();
        connection.call(&Request::OpenWatch { watch: number, space, range, from })?;
        Ok(WireWatch { connection: Arc::clone(connection), number })
    }
}

impl Watch for WireWatch {
    fn next(&mut self, timeout: Duration) -> Result<Option<WatchEvent>> {
        take_event(self.connection.call(&Request::NextEvent { watch: self.number, timeout })?.message)
    }
}

impl Drop for WireWatch {
    fn drop(&mut self) {
        let _gone = letting_go(|| self.connection.ask(&Request::CloseWatch { watch: self.number }));
    }
}
