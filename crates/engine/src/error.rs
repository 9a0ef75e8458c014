//! What can go wrong, by what the caller does next.
//!
//! Invariants:
//! - [`ErrorKind`] decides the caller's next step; the message is for people.
//! - [`Error::retryable`] is the only thing a retry wrapper may ask.

use std::fmt;

/// The result of every call of the engine and of `Kv`.
pub type Result<T, E = Error> = std::result::Result<T, E>;

/// What the caller should do about an error.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum ErrorKind {
    /// A condition or an operation of a batch did not hold; nothing was changed. Read again, decide again.
    Refused,
    /// The argument is wrong and will stay wrong (a key too long, a batch too large, an unknown space).
    Invalid,
    /// The key, space or stage is not there.
    NotFound,
    /// No space is left for new data. Delete something or grow the store; deleting still works.
    Full,
    /// The view was pinned too long and was expired by the owner. Take a new view.
    Expired,
    /// The store belongs to another process at the moment.
    Owned,
    /// Bytes read from the device do not match their checksum or are out of place. The message names the place.
    Damaged,
    /// The device is not a store of ours, or is of another format (an older one: `koine upgrade`).
    Unknown,
    /// The device failed to read, write or sync.
    Device,
    /// The store refuses writes since a write or sync failed; reopen it.
    Stopped,
    /// Not offered by this back end (or not yet).
    Unsupported,
    /// A passing condition: the same call may succeed later.
    Busy,
    /// Who called waits no longer ([`patience`](koine_env::patience)); what had not been asked for is not done.
    Interrupted,
    /// The server that has the store is not reached, or went away; the message says whether what was asked may have
    /// happened. Later calls connect again.
    Disconnected,
    /// No answer came in time. Whether what was asked happens is not known.
    TimedOut,
}

/// An error with its kind, a message that says what to do, and its cause.
#[derive(Clone)]
pub struct Error {
    kind: ErrorKind,
    message: String,
    refusal: Option<Refusal>,
    source: Option<std::sync::Arc<dyn std::error::Error + Send + Sync>>,
}

/// Which part of a batch was refused. Indices count from 0 in the order of the batch.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Refusal {
    /// The condition at this index did not hold.
    Condition(u32),
    /// The operation at this index could not be applied (its source is absent, the space exists already, …).
    Operation(u32),
}

impl Error {
    /// An error of `kind` with a message for people.
    pub fn new(kind: ErrorKind, message: impl Into<String>) -> Self {
        Error { kind, message: message.into(), refusal: None, source: None }
    }

    /// The batch was refused at `refusal`.
    pub fn refused(refusal: Refusal, message: impl Into<String>) -> Self {
        Error { refusal: Some(refusal), ..Error::new(ErrorKind::Refused, message) }
    }

    /// A wrong argument.
    pub fn invalid(message: impl Into<String>) -> Self {
        Error::new(ErrorKind::Invalid, message)
    }

    /// Bytes on the device are not what they should be; `message` names the place.
    pub fn damaged(message: impl Into<String>) -> Self {
        Error::new(ErrorKind::Damaged, message)
    }

    /// Wraps a failure of the operating system while doing `what`.
    pub fn device(what: impl Into<String>, source: std::io::Error) -> Self {
        Error::new(ErrorKind::Device, what).with_source(source)
    }

    /// What a failed read of the device at a byte means to the caller.
    pub(crate) fn read_failed(at: u64, error: std::io::Error) -> Self {
        if error.kind() == std::io::ErrorKind::WouldBlock {
            return Error::would_block();
        }
        Error::device(format!("cannot read at byte {at} of the store"), error)
    }

    /// A read that must not wait would have to.
    pub(crate) fn would_block() -> Self {
        Error::new(ErrorKind::Busy, "the device would have to be read")
    }

    /// Who called waits no longer.
    pub fn interrupted() -> Self {
        Error::new(ErrorKind::Interrupted, "the call was ended by its caller before it was done")
    }

    /// Adds the cause.
    #[must_use]
    pub fn with_source(mut self, source: impl std::error::Error + Send + Sync + 'static) -> Self {
        self.source = Some(std::sync::Arc::new(source));
        self
    }

    /// What the caller should do.
    pub fn kind(&self) -> ErrorKind {
        self.kind
    }

    /// Which part of the batch was refused, where a batch was.
    pub fn refusal(&self) -> Option<Refusal> {
        self.refusal
    }

    /// The message without its cause.
    pub fn message(&self) -> &str {
        &self.message
    }

    /// Whether the very same call may succeed later.
    pub fn retryable(&self) -> bool {
        matches!(self.kind, ErrorKind::Busy)
    }
}

impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.message)?;
        if let Some(source) = &self.source {
            write!(f, ": {source}")?;
        }
        Ok(())
    }
}

impl fmt::Debug for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:?}: {self}", self.kind)
    }
}

impl std::error::Error for Error {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        self.source.as_ref().map(|s| s.as_ref() as &(dyn std::error::Error + 'static))
    }
}
