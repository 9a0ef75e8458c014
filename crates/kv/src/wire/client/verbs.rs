//! Verbs of a higher floor, asked of a server that has a handler for them.
//!
//! Invariants:
//! - Nothing of keys and values is asked for, and no memory is shared: the server may be of another user.
//! - Requests of one thread reach the server in the order in which they were made.

use std::path::Path;
use std::sync::Arc;

use bytes::Bytes;
use koine_engine::{Error, Result};

use super::connection::Connection;
use super::held::{Data, Held};
use super::link::Asked;
use super::{ClientOptions, connect};
use crate::wire::fields::malformed;
use crate::wire::identity::{Key, check_server};
use crate::wire::request::VERB_FOREIGN_FIRST;
use crate::wire::server::VERB_MESSAGE_LEN_MAX;
use crate::wire::stream::Stream;

/// A connection that asks for verbs of a higher floor. Thread-safe; clones are the same connection, which ends with the
/// last of them.
#[derive(Clone)]
pub struct WireVerbs {
    connection: Arc<Connection>,
}

impl WireVerbs {
    /// To a Unix socket on this machine. The server must be of this user, of root, or of `owner`, a user who is known to
    /// have the store.
    pub fn connect_unix(path: &Path, owner: Option<u32>, options: &ClientOptions) -> Result<WireVerbs> {
        let place = path.display().to_string();
        let stream = connect::unix(path, options)?;
        check_server(&stream, &place, owner)?;
        WireVerbs::over(Stream::Unix(stream), &place, None, options)
    }

    /// To a server that knows the same key. `address` is a host and a port.
    pub fn connect_tcp(address: &str, key: &Key, options: &ClientOptions) -> Result<WireVerbs> {
        WireVerbs::over(Stream::Tcp(connect::tcp(address, options)?), address, Some(key), options)
    }

    fn over(stream: Stream, place: &str, key: Option<&Key>, options: &ClientOptions) -> Result<WireVerbs> {
        let options = ClientOptions { shared_len: 0, ..options.clone() };
        let (connection, _) = Connection::begin(stream, place, key, &options)?;
        Ok(WireVerbs { connection })
    }

    /// Asks, and goes on.
    pub fn ask(&self, verb: u16, message: &[u8], data: &[u8]) -> Result<Answer> {
        if verb < VERB_FOREIGN_FIRST {
            return Err(malformed("a verb that is no higher floor's"));
        }
        if message.len() > VERB_MESSAGE_LEN_MAX {
            return Err(Error::invalid(format!(
                "a request of {} bytes; at most {VERB_MESSAGE_LEN_MAX} are taken: ask for less at once",
                message.len()
            )));
        }
        let asked = self.connection.link().ask(verb, message, Data::Inline(data), Held::default())?;
        Ok(Answer { asked, connection: Arc::clone(&self.connection) })
    }

    /// Where the server is.
    pub fn place(&self) -> &str {
        self.connection.place()
    }

    /// Ends the connection: later calls, and those under way, fail.
    pub fn close(&self) {
        self.connection.close();
    }
}

impl std::fmt::Debug for WireVerbs {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "WireVerbs({})", self.place())
    }
}

/// An answer that may not be there yet: its message and its data. Dropped, it is not looked at.
#[must_use = "a request that is dropped tells nobody what came of it"]
pub struct Answer {
    asked: Asked,
    /// The connection does not end before its answers came.
    connection: Arc<Connection>,
}

impl Answer {
    /// Waits for it.
    pub fn wait(self) -> Result<(Bytes, Bytes)> {
        let frame = self.asked.wait()?;
        Ok((frame.message.into_bytes(), frame.data))
    }

    /// Whether waiting would not wait.
    pub fn is_ready(&self) -> bool {
        self.asked.is_done()
    }

    /// Calls back with it, on the thread that reads it, or at once. The callback must not wait for another answer.
    pub fn then(self, callback: impl FnOnce(Result<(Bytes, Bytes)>) + Send + 'static) {
        let connection = self.connection;
        self.asked.then(move |outcome| {
            callback(outcome.map(|frame| (frame.message.into_bytes(), frame.data)));
            drop(connection);
        });
    }
}

impl std::fmt::Debug for Answer {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(if self.is_ready() { "Answer(ready)" } else { "Answer" })
    }
}
