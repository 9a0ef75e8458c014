//! What can stop a benchmark. Failed requests inside a measurement do not: they are counted and fail the report.

use std::io;

/// Why a benchmark could not be run.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// A file, a socket or a process of ours failed.
    #[error("{doing}: {source}")]
    Io {
        /// What was being done.
        doing: String,
        /// What the system said.
        source: io::Error,
    },
    /// An argument makes no sense.
    #[error("{0}")]
    Argument(String),
    /// A server did not start or stopped early.
    #[error("{name} did not start: {reason}\n{log}")]
    Start {
        /// The server.
        name: String,
        /// What was seen.
        reason: String,
        /// The last lines it wrote.
        log: String,
    },
    /// A request that prepares or checks a measurement was refused.
    #[error("{request} was answered with {status}: {body}")]
    Refused {
        /// Method and target.
        request: String,
        /// The HTTP status.
        status: u16,
        /// The start of the answer.
        body: String,
    },
    /// A server's answer is not HTTP as this client reads it, or holds other bytes than were stored.
    #[error("wrong answer: {0}")]
    Answer(String),
    /// A process that holds a store failed, or could not be given what it needs.
    #[error("{0}")]
    Worker(String),
}

impl Error {
    /// For `map_err`: puts what was being done before what the system said.
    pub(crate) fn io<E: Into<io::Error>>(doing: impl Into<String>) -> impl FnOnce(E) -> Error {
        let doing = doing.into();
        move |source| Error::Io { doing, source: source.into() }
    }
}
