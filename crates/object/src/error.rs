//! What can go wrong with objects, by what the caller does next.
//!
//! Invariants:
//! - A door maps [`ErrorKind`] to its own codes in one place; the message is for people.
//! - Errors of the store below keep their cause; none of them is turned into "not found".

use std::fmt;

use koine_env::patience;

/// The result of every call of this crate.
pub type Result<T, E = Error> = std::result::Result<T, E>;

/// What went wrong. Where S3 has a code for it, the variant has its name.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum ErrorKind {
    /// No bucket has this name.
    NoSuchBucket,
    /// No object has this name in the bucket.
    NoSuchKey,
    /// No upload has this id, or it was completed or aborted.
    NoSuchUpload,
    /// The object has no part of this number.
    NoSuchPart,
    /// The name has no version of this id.
    NoSuchVersion,
    /// The bucket has no snapshot of this name.
    NoSuchSnapshot,
    /// The bucket has no index over this.
    NoSuchIndex,
    /// No group has this name.
    NoSuchGroup,
    /// No user has this name.
    NoSuchUser,
    /// No access key has this id.
    NoSuchAccessKey,
    /// No policy has this name, or the bucket has none.
    NoSuchPolicy,
    /// The caller's own condition (`If-Match`, `If-None-Match`, …) does not hold.
    PreconditionFailed,
    /// A read's condition says that the caller's copy is still good.
    NotModified,
    /// A bucket of this name exists already and is the caller's.
    BucketAlreadyOwnedByYou,
    /// A bucket of this name exists already and is somebody else's.
    BucketAlreadyExists,
    /// The bucket still holds objects.
    BucketNotEmpty,
    /// Something else of this name exists already (a group, a user, a snapshot, an index, a key under a prefix).
    AlreadyExists,
    /// It still holds or owns something that has to go first.
    NotEmpty,
    /// The caller may not do this.
    AccessDenied,
    /// Name and password, or token, let nobody in. Says no more, so that nobody learns which names there are.
    LogInFailed,
    /// The policy is not understood; the message says where.
    MalformedPolicy,
    /// What is named can be read only (a snapshot).
    ReadOnly,
    /// It would go past a quota of the bucket, its owner or its group. Deleting still works.
    QuotaExceeded,
    /// The bucket's name breaks the rules of S3.
    InvalidBucketName,
    /// An argument is wrong; the message says which and why.
    InvalidArgument,
    /// The request is not possible as a whole, though each argument is (a copy onto itself without a change,
    /// a checksum of another algorithm than the upload's).
    InvalidRequest,
    /// A range lies outside the object.
    InvalidRange,
    /// What arrived has another checksum than was promised.
    BadDigest,
    /// A checksum given by the caller is not of its algorithm's form.
    InvalidDigest,
    /// A part other than the last is smaller than 5 MiB.
    EntityTooSmall,
    /// The body is larger than allowed.
    EntityTooLarge,
    /// The body ended early, or went on past its promised length.
    IncompleteBody,
    /// A part named by a completion is not there or has another ETag or checksum.
    InvalidPart,
    /// The parts named by a completion do not ascend.
    InvalidPartOrder,
    /// The object's name is longer than 1,024 bytes.
    KeyTooLong,
    /// The user's metadata is larger than 2 KiB.
    MetadataTooLarge,
    /// A tag's name or value, or their number, breaks the rules of S3.
    InvalidTag,
    /// More changes or conditions than one transaction may have.
    TransactionTooLarge,
    /// Somebody else changed the same thing at the same time again and again; the same call may succeed later.
    Conflict,
    /// No space is left. Deleting still works.
    Full,
    /// The snapshot that a reader holds was taken back; the read cannot go on.
    Expired,
    /// Stored bytes are wrong; the message names the place.
    Damaged,
    /// The store refuses work since a write failed or it was closed; reopen it.
    Stopped,
    /// A passing condition: the same call may succeed later.
    Busy,
    /// Not offered by this back end.
    Unsupported,
    /// The device failed.
    Device,
    /// The server that has the store is not reached, or went away; the message says whether what was asked may have
    /// happened. Later calls connect again.
    Disconnected,
    /// The server did not answer in time. Whether what was asked happens is not known.
    TimedOut,
    /// Who called waits no longer ([`patience`](koine_env::patience)): nothing was changed, unless the change was under way
    /// to a server already.
    Interrupted,
}

/// An error with its kind and a message that says what to do.
#[derive(Clone)]
pub struct Error {
    kind: ErrorKind,
    message: String,
    source: Option<koine_kv::Error>,
}

impl Error {
    /// An error of `kind` with a message for people.
    pub fn new(kind: ErrorKind, message: impl Into<String>) -> Self {
        Error { kind, message: message.into(), source: None }
    }

    pub(crate) fn no_such_bucket(bucket: &str) -> Self {
        Error::new(ErrorKind::NoSuchBucket, format!("there is no bucket {bucket:?}"))
    }

    pub(crate) fn no_such_key(bucket: &str, key: &str) -> Self {
        Error::new(ErrorKind::NoSuchKey, format!("there is no object {key:?} in the bucket {bucket:?}"))
    }

    pub(crate) fn no_such_upload(upload: &impl fmt::Display) -> Self {
        let message = format!("there is no upload {upload} of this object; it may have been completed or aborted");
        Error::new(ErrorKind::NoSuchUpload, message)
    }

    pub(crate) fn damaged(message: impl Into<String>) -> Self {
        Error::new(ErrorKind::Damaged, message)
    }

    /// What the caller should do.
    pub fn kind(&self) -> ErrorKind {
        self.kind
    }

    /// The message without its cause.
    pub fn message(&self) -> &str {
        &self.message
    }

    /// `Interrupted` where who called waits no longer.
    pub(crate) fn check_patience() -> Result<()> {
        if patience::is_over() { Err(Error::interrupted()) } else { Ok(()) }
    }

    /// Who called waits no longer.
    pub(crate) fn interrupted() -> Self {
        koine_kv::Error::interrupted().into()
    }
}

impl From<koine_kv::Error> for Error {
    fn from(source: koine_kv::Error) -> Self {
        use koine_kv::ErrorKind as Kv;
        let kind = match source.kind() {
            Kv::Refused => ErrorKind::Conflict,
            Kv::Invalid => ErrorKind::InvalidArgument,
            Kv::Full => ErrorKind::Full,
            Kv::Expired => ErrorKind::Expired,
            Kv::Damaged | Kv::Unknown | Kv::NotFound => ErrorKind::Damaged,
            Kv::Stopped | Kv::Owned => ErrorKind::Stopped,
            Kv::Busy => ErrorKind::Busy,
            Kv::Unsupported => ErrorKind::Unsupported,
            Kv::Disconnected => ErrorKind::Disconnected,
            Kv::TimedOut => ErrorKind::TimedOut,
            Kv::Interrupted => ErrorKind::Interrupted,
            _ => ErrorKind::Device,
        };
        Error { kind, message: source.message().to_owned(), source: Some(source) }
    }
}

/// For the traits of `std`; the error itself is found again by `get_ref`.
impl From<Error> for std::io::Error {
    fn from(error: Error) -> Self {
        use std::io::ErrorKind as Io;
        let kind = match error.kind() {
            ErrorKind::NoSuchBucket | ErrorKind::NoSuchKey => Io::NotFound,
            ErrorKind::PreconditionFailed => Io::AlreadyExists,
            ErrorKind::InvalidArgument => Io::InvalidInput,
            ErrorKind::Unsupported => Io::Unsupported,
            ErrorKind::Full => Io::StorageFull,
            ErrorKind::Damaged => Io::InvalidData,
            _ => Io::Other,
        };
        std::io::Error::new(kind, error)
    }
}

impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.message)
    }
}

impl fmt::Debug for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:?}: {}", self.kind, self.message)
    }
}

impl std::error::Error for Error {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        self.source.as_ref().map(|source| source as &(dyn std::error::Error + 'static))
    }
}

/// Refuses what no writer could have meant.
pub(crate) fn invalid(message: impl Into<String>) -> Error {
    Error::new(ErrorKind::InvalidArgument, message)
}

/// So often a call reads anew whose version was taken back.
pub(crate) const READ_ATTEMPTS_MAX: u32 = 8;

/// Whether the version that was read is no longer there: the newest one does as well.
pub(crate) fn is_taken_back(error: &Error) -> bool {
    error.kind() == ErrorKind::Expired
}
