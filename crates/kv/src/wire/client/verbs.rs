//! Verbs of a higher floor, asked of a server that has a handler for them.
//!
//! Invariants:
//! - Nothing of keys and values is asked for, and no memory is shared: the server may be of another user.
//! - What is opened on a connection is known by its [`Channel`] alone: nothing of it is asked for on another.
//! - Requests of one thread reach the server in the order in which they were made.

use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use koine_engine::{Error, Result};

use super::ClientOptions;
use super::connection::Connection;
use super::line::{Line, Reach};
use super::link::{Data, Held, SentRequest};
use crate::wire::fields::malformed;
use crate::wire::identity::Key;
use crate::wire::request::VERB_FOREIGN_FIRST;
use crate::wire::server::VERB_MESSAGE_LEN_MAX;

/// What is said on every connection before anything else, as by a log in.
pub type BeginChannel = Box<dyn Fn(&Channel) -> Result<()> + Send + Sync>;

/// A way to a server that answers verbs of a higher floor: a connection, and another one where that is lost. Thread-safe;
/// clones are the same, which ends with the last of them.
#[derive(Clone)]
pub struct WireVerbs {
    line: Arc<Line>,
}

impl WireVerbs {
    /// To a Unix socket on this machine. The server must be of this user, of root, or of `owner`, a user who is known to
    /// have the store. `begin` is called with every connection, the first one and those that are made later.
    pub fn connect_unix(
        path: &Path,
        owner: Option<u32>,
        options: &ClientOptions,
        begin: Option<BeginChannel>,
    ) -> Result<WireVerbs> {
        WireVerbs::over(Reach::Of(path.to_owned(), owner), options, begin)
    }

    /// The same to a server that knows the same key. `address` is a host and a port.
    pub fn connect_tcp(
        address: &str,
        key: &Key,
        options: &ClientOptions,
        begin: Option<BeginChannel>,
    ) -> Result<WireVerbs> {
        WireVerbs::over(Reach::Tcp(address.to_owned(), key.clone()), options, begin)
    }

    fn over(reach: Reach, options: &ClientOptions, begin: Option<BeginChannel>) -> Result<WireVerbs> {
        let options = ClientOptions { shared_len: 0, ..options.clone() };
        let begin = begin.map(|begin| -> super::line::Begin {
            Box::new(move |connection: &Arc<Connection>| begin(&Channel(Arc::clone(connection))))
        });
        let (line, _) = Line::open(reach, options, begin)?;
        Ok(WireVerbs { line: Arc::new(line) })
    }

    /// Asks, and goes on.
    pub fn ask(&self, verb: u16, message: &[u8], data: &[u8]) -> Result<Answer> {
        self.channel()?.ask(verb, message, data)
    }

    /// The connection after a look at it: what is asked for on it was not sent to a server that is gone already.
    pub fn channel(&self) -> Result<Channel> {
        self.line.fresh().map(Channel)
    }

    /// Asks for something that a second time changes nothing of: again, on another connection, where one is lost meanwhile.
    /// The error that `ask` gives must be the wire's own in that case.
    pub fn repeat<T>(&self, mut ask: impl FnMut(&Channel) -> Result<T>) -> Result<T> {
        self.line.repeat(|connection| ask(&Channel(Arc::clone(connection))))
    }

    /// Where the server is.
    pub fn place(&self) -> String {
        self.line.place()
    }

    /// Ends the connection: later calls, and those under way, fail.
    pub fn close(&self) {
        self.line.close();
    }
}

/// One connection. What is opened on it by a verb goes with it.
#[derive(Clone)]
pub struct Channel(Arc<Connection>);

impl Channel {
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
        let asked = self.0.link().ask(verb, message, Data::Inline(data), Held::default())?;
        Ok(Answer { asked, connection: Arc::clone(&self.0) })
    }

    /// Where the server is.
    pub fn place(&self) -> &str {
        self.0.place()
    }

    /// Whether it was lost, with all that was open on it.
    pub fn is_lost(&self) -> bool {
        self.0.link().has_ended()
    }
}

impl std::fmt::Debug for Channel {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "Channel({})", self.place())
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
    asked: SentRequest,
    /// The connection does not end before its answers came.
    connection: Arc<Connection>,
}

impl Answer {
    /// Waits for it.
    pub fn wait(self) -> Result<(Bytes, Bytes)> {
        self.wait_beyond(Duration::ZERO)
    }

    /// The same where the server may take so long for what was asked, beyond the time that a call has.
    pub fn wait_beyond(self, asked: Duration) -> Result<(Bytes, Bytes)> {
        let frame = self.asked.wait_beyond(asked)?;
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
