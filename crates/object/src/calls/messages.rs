//! What is asked and told of calls that have a form of their own: log in, bodies, compositions, transactions.
//!
//! Invariant: a number never comes to mean something else; what is added has a new one.

use koine_env::Timestamp;
use koine_kv::Commit;

use super::field::{Field, Taken, choices, malformed, structures};
use crate::error::Result;
use crate::etag::ReadCondition;
use crate::ids::UploadId;
use crate::info::ObjectInfo;
use crate::object_name::Name;
use crate::request::{
    AttributeChange, ByteRange, ComposeOptions, CopyOptions, DeleteOptions, Deleted, EditOptions, ListPage, ListQuery,
    PartOptions, PutOptions, RenameOptions, Segment, StageOptions,
};
use crate::version_id::VersionId;

/// How somebody logs in.
pub(crate) enum Proof {
    /// By name, password, and how many seconds the token is to last that comes of it.
    Password(String, String, u64),
    /// By a token.
    Token(String),
}

/// Who has logged in, and the token that was made for it.
pub(crate) struct LoggedIn {
    pub user: String,
    pub token: Option<(String, Timestamp)>,
}

/// What a writer is for.
pub(crate) enum Writing {
    /// Putting an object.
    Put(Name, Box<PutOptions>),
    /// Writing into one at an offset.
    At(Name, u64, Box<EditOptions>),
    /// Writing at its end.
    End(Name, Box<EditOptions>),
    /// Putting a part of an upload.
    Part(Name, UploadId, u32, Box<PartOptions>),
    /// A body for a transaction.
    Body(StageOptions),
}

/// A source of a composition.
pub(crate) struct Source {
    pub name: Name,
    pub range: Option<ByteRange>,
    pub version: Option<VersionId>,
    pub condition: ReadCondition,
}

impl Source {
    /// As a caller names it.
    pub fn new(segment: &Segment<'_>) -> Self {
        Source {
            name: Name::new(segment.name),
            range: segment.range,
            version: segment.version,
            condition: segment.condition.clone(),
        }
    }

    /// As the library takes it.
    pub fn segment(&self) -> Segment<'_> {
        let name = self.name.as_name();
        Segment { name, range: self.range, version: self.version, condition: self.condition.clone() }
    }
}

/// A call within a transaction; bodies are told by their numbers.
pub(crate) enum InTransaction {
    Head(Name),
    Read(Name, ByteRange),
    List(String, ListQuery),
    Put(Name, u64, Box<PutOptions>),
    WriteAt(Name, u64, u64, Box<EditOptions>),
    Append(Name, u64, Box<EditOptions>),
    Truncate(Name, u64, Box<EditOptions>),
    WriteCopy(Name, ByteRange, Name, u64, Box<EditOptions>),
    Compose(Vec<Source>, Name, Box<ComposeOptions>),
    Copy(Name, Name, Box<CopyOptions>),
    Rename(Name, Name, Box<RenameOptions>),
    Exchange(Name, Name),
    Delete(Name, DeleteOptions),
    DeleteVersion(Name, VersionId),
    SetAttributes(Name, Box<AttributeChange>, Box<EditOptions>),
}

impl InTransaction {
    /// The number of its body.
    pub fn body(&self) -> Option<u64> {
        match self {
            InTransaction::Put(_, body, _)
            | InTransaction::WriteAt(_, _, body, _)
            | InTransaction::Append(_, body, _) => Some(*body),
            _ => None,
        }
    }
}

/// What such a call tells; bytes that were read are the data.
pub(crate) enum TransactionTold {
    Done,
    Info(Option<Box<ObjectInfo>>),
    Page(ListPage),
    Deleted(Deleted),
}

/// How a transaction ends.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum End {
    Commit,
    /// Not at all: it is done again from the beginning, with what is there now.
    Again,
    Drop,
}

/// What came of that.
pub(crate) enum Ended {
    Committed(Commit),
    /// Others changed what was read: it is to be done again.
    Again,
}

choices! {
    InTransaction {
        0 Head(name), 1 Read(name, range), 2 List(bucket, query), 3 Put(name, body, options),
        4 WriteAt(name, offset, body, options), 5 Append(name, body, options), 6 Truncate(name, length, options),
        7 WriteCopy(from, range, to, offset, options), 8 Compose(sources, to, options), 9 Copy(from, to, options),
        10 Rename(from, to, options), 11 Exchange(one, other), 12 Delete(name, options),
        13 SetAttributes(name, change, options), 14 DeleteVersion(name, version),
    }
    TransactionTold { 0 Done, 1 Info(info), 2 Page(page), 3 Deleted(deleted) }
    End { 0 Commit, 1 Again, 2 Drop }
    Ended { 0 Committed(commit), 1 Again }
    Proof { 0 Password(name, password, seconds), 1 Token(token) }
    Writing {
        0 Put(name, options), 1 At(name, offset, options), 2 End(name, options), 3 Part(name, upload, number, options),
        4 Body(options),
    }
}

structures! {
    LoggedIn { user, token }
    Source { name, range, version, condition }
}
