//! The table of verbs: their numbers, what is asked and what is told (docs/objects.md).
//!
//! Invariant: a number never comes to mean something else; what is added has a new one.

use std::time::Duration;

use koine_env::Timestamp;
use koine_kv::{Commit, RequestId, Version};

use super::field::{Field, Rest, choices, structures};
use crate::checksum::Expected;
use crate::copy::Name;
use crate::error::{Error, Result};
use crate::etag::ReadCondition;
use crate::identity::{
    DeletedGroup, GroupChange, GroupInfo, GroupPage, KeyInfo, KeyOptions, NameQuery, Secret, TokenInfo, UserChange,
    UserInfo, UserPage, UserQuery,
};
use crate::info::{BucketInfo, BucketUsage as Usage, IndexInfo, ObjectInfo, PartInfo, SnapshotInfo, UploadId};
use crate::remote::field::{Taken, malformed};
use crate::request::{
    AttributeChange, BucketChange, BucketPage, BucketQuery, ByteRange, CompleteOptions, ComposeOptions, CopiedPrefix,
    CopyOptions, CopyPrefixOptions, DeleteOptions, Deleted, EditOptions, ExchangeOptions, ListPage, ListQuery,
    ObjectName, PartOptions, PartPage, PutOptions, RenameOptions, Segment, UploadOptions, UploadPage, UploadQuery,
};
use crate::rights::{AccessList, Action, Asker, Decision};
use crate::search::{Indexed, SearchPage, SearchQuery};
use crate::transaction::StageOptions;
use crate::version::{VersionId, VersionPage, VersionQuery, Versioning};

/// A verb.
pub(crate) trait Call {
    /// Its number.
    const VERB: u16;
    /// What is asked.
    type Asked: Field;
    /// What is told.
    type Told: Field + Send + 'static;
}

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
        let name = ObjectName::new(&self.name.bucket, &self.name.key);
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

macro_rules! calls {
    ($($(#[$doc:meta])* $number:literal $name:ident($asked:ty) -> $told:ty;)*) => {
        $(
            $(#[$doc])*
            pub(crate) struct $name;

            impl Call for $name {
                const VERB: u16 = $number;
                type Asked = $asked;
                type Told = $told;
            }
        )*

        /// The names of all calls that are asked of a store elsewhere: what may be asked at all.
        pub const CALL_NAMES: &[&str] = &[$(stringify!($name)),*];

        /// Takes a message as what the verb asks for and tells; what is taken is put as it was.
        #[cfg(any(test, feature = "fuzzing"))]
        pub(crate) fn any_message(verb: u16, bytes: &[u8]) {
            use super::field::{message, whole};
            $(if verb == $number {
                if let Ok(asked) = whole::<$asked>(bytes) {
                    assert_eq!(message(&asked), bytes);
                }
                if let Ok(told) = whole::<$told>(bytes) {
                    assert_eq!(message(&told), bytes);
                }
            })*
        }
    };
}

calls! {
    /// Which protocol; who the peer is already.
    0x8000 Greet(u32) -> (u32, Option<String>);
    /// Who has logged in.
    0x8001 WhoAmI(()) -> Option<String>;
    /// By password or token.
    0x8002 LogInBy(Proof) -> LoggedIn;
    /// Takes a token back; that of the log in where none is named.
    0x8003 LogOut(Option<String>) -> ();

    /// A page of buckets.
    0x8010 ListBuckets(BucketQuery) -> BucketPage;
    /// What is known of one.
    0x8011 HeadBucket(String) -> BucketInfo;
    /// What it holds.
    0x8012 BucketUsage(String) -> Usage;
    /// Makes one.
    0x8013 CreateBucket(String) -> BucketInfo;
    /// Removes one; with its snapshots, or only where it has none.
    0x8014 DeleteBucket((String, bool)) -> ();
    /// Changes settings.
    0x8015 SetBucket((String, BucketChange)) -> BucketInfo;
    /// Empties one.
    0x8016 PurgeBucket(String) -> ();
    /// Keeps one as it is.
    0x8017 SnapshotBucket((String, String)) -> SnapshotInfo;
    /// What is kept of it.
    0x8018 ListSnapshots(String) -> Vec<SnapshotInfo>;
    /// Keeps it no more.
    0x8019 DeleteSnapshot((String, String)) -> ();
    /// Makes a bucket as it was.
    0x801a RestoreBucket((String, String)) -> ();
    /// Makes another one of it.
    0x801b BranchBucket((String, String)) -> BucketInfo;
    /// Sets whether it keeps versions.
    0x801c SetVersioning((String, Versioning)) -> ();
    /// Its indexes.
    0x801d Indexes(String) -> Vec<IndexInfo>;
    /// Adds one and builds it.
    0x801e AddIndex((String, Indexed)) -> IndexInfo;
    /// Drops one.
    0x801f DropIndex((String, Indexed)) -> ();

    /// What is known of an object.
    0x8020 Head(Name) -> ObjectInfo;
    /// A page of objects.
    0x8021 List((String, ListQuery)) -> ListPage;
    /// A page of versions.
    0x8022 ListVersions((String, VersionQuery)) -> VersionPage;
    /// A page of what is searched for.
    0x8023 Search((String, SearchQuery)) -> SearchPage;
    /// Opens one under a number, and reads so many of its first bytes; whether it is open still.
    0x8024 OpenReader((u64, Name, u32)) -> (ObjectInfo, bool);
    /// Reads from an offset on so many bytes.
    0x8025 Read((u64, u64, u32)) -> ();
    /// Reads no more.
    0x8026 CloseReader(u64) -> ();
    /// The parts that it was joined from.
    0x8027 ReaderParts(u64) -> Vec<PartInfo>;
    /// As `OpenReader`, a version of an object.
    0x8028 OpenVersion((u64, Name, VersionId, u32)) -> (ObjectInfo, bool);
    /// What is known of a version.
    0x8029 HeadVersion((Name, VersionId)) -> ObjectInfo;

    /// Begins a body under a number.
    0x8030 OpenWriter((u64, Writing)) -> ();
    /// A piece of it: the data.
    0x8031 WritePiece(u64) -> ();
    /// The last piece, and what the whole is compared with; of an object or an edit.
    0x8032 FinishObject((u64, Expected)) -> ObjectInfo;
    /// The same of a part.
    0x8032 FinishPart((u64, Expected)) -> PartInfo;
    /// The same of a body for a transaction: its length.
    0x8032 FinishBody((u64, Expected)) -> u64;
    /// Drops it, or a body that was finished and not used.
    0x8033 DropWriter(u64) -> ();

    /// Gives an object another length.
    0x8040 Truncate((Name, u64, EditOptions)) -> ObjectInfo;
    /// Writes bytes of another object.
    0x8041 WriteCopy((Name, ByteRange, Name, u64, EditOptions)) -> ObjectInfo;
    /// Joins objects.
    0x8042 Compose((Vec<Source>, Name, ComposeOptions)) -> ObjectInfo;
    /// Copies one.
    0x8043 Copy((Name, Name, CopyOptions)) -> ObjectInfo;
    /// Moves one.
    0x8044 Rename((Name, Name, RenameOptions)) -> ObjectInfo;
    /// Exchanges two.
    0x8045 Exchange((Name, Name, ExchangeOptions)) -> (ObjectInfo, ObjectInfo);
    /// Deletes one.
    0x8046 Delete((Name, DeleteOptions)) -> Deleted;
    /// Deletes several.
    0x8047 DeleteMany((String, Vec<String>)) -> Vec<Result<Deleted, Error>>;
    /// Changes what is known of one.
    0x8048 SetAttributes((Name, AttributeChange, EditOptions)) -> ObjectInfo;
    /// Moves what begins so.
    0x8049 RenamePrefix((String, String, String)) -> ();
    /// Copies some of what begins so.
    0x804a CopyPrefix((Name, Name, CopyPrefixOptions)) -> CopiedPrefix;
    /// Deletes a version of one.
    0x804b DeleteVersion((Name, VersionId)) -> Deleted;

    /// Begins an upload.
    0x8050 CreateUpload((Name, UploadOptions)) -> UploadId;
    /// A page of uploads.
    0x8051 ListUploads((String, UploadQuery)) -> UploadPage;
    /// A page of the parts of one.
    0x8052 ListParts((Name, UploadId, u32, usize)) -> PartPage;
    /// A part that is bytes of an object.
    0x8053 CopyPart((Name, Option<ByteRange>, ReadCondition, Name, UploadId, u32)) -> PartInfo;
    /// Joins the parts.
    0x8054 CompleteUpload((Name, UploadId, CompleteOptions)) -> ObjectInfo;
    /// Drops one.
    0x8055 AbortUpload((Name, UploadId)) -> ();
    /// As `CopyPart`, bytes of a version of an object.
    0x8056 CopyPartOfVersion(((Name, VersionId), Option<ByteRange>, ReadCondition, Name, UploadId, u32)) -> PartInfo;

    /// Begins a transaction under a number.
    0x8060 BeginTransaction((u64, Option<RequestId>)) -> ();
    /// A call in it.
    0x8061 StepInTransaction((u64, InTransaction)) -> TransactionTold;
    /// Commits it, begins it anew, or drops it.
    0x8062 EndTransaction((u64, End)) -> Ended;

    /// Makes a group.
    0x8070 CreateGroup((String, String)) -> GroupInfo;
    /// Changes one.
    0x8071 SetGroup((String, GroupChange)) -> GroupInfo;
    /// What is known of one.
    0x8072 OneGroup(String) -> GroupInfo;
    /// A page of groups.
    0x8073 Groups(NameQuery) -> GroupPage;
    /// Deletes one with its users and buckets.
    0x8074 DeleteGroup(String) -> DeletedGroup;
    /// Makes a user.
    0x8075 CreateUser((String, String, Option<String>)) -> UserInfo;
    /// Changes one.
    0x8076 SetUser((String, UserChange)) -> UserInfo;
    /// Sets a password.
    0x8077 SetPassword((String, String)) -> ();
    /// What is known of one.
    0x8078 OneUser(String) -> UserInfo;
    /// A page of users.
    0x8079 Users(UserQuery) -> UserPage;
    /// Deletes one with its keys and tokens.
    0x807a DeleteUser(String) -> ();
    /// Makes a user a member of a group.
    0x807b AddMember((String, String, bool)) -> ();
    /// Makes it none.
    0x807c RemoveMember((String, String)) -> ();
    /// Makes an access key.
    0x807d CreateKey((String, KeyOptions)) -> (String, Secret);
    /// The keys of a user.
    0x807e KeysOf(String) -> Vec<KeyInfo>;
    /// Deletes one.
    0x807f DeleteKey((String, String)) -> ();
    /// Sets a policy, or takes it away.
    0x8080 SetPolicy((String, Option<String>)) -> ();
    /// What it says.
    0x8081 OnePolicy(String) -> String;
    /// Whether callers without an identity may be let in.
    0x8082 SetPublicAccess(bool) -> ();
    /// Gives a bucket to another.
    0x8083 ChangeOwner((String, String, Option<String>)) -> ();
    /// Whose it is.
    0x8084 Owner(String) -> (String, String);
    /// Sets its policy, or takes it away.
    0x8085 SetBucketPolicy((String, Option<String>)) -> ();
    /// What that says.
    0x8086 BucketPolicy(String) -> String;
    /// Sets its access list.
    0x8087 SetBucketAccess((String, AccessList)) -> ();
    /// Its access list.
    0x8088 BucketAccess(String) -> AccessList;
    /// Sets an object's.
    0x8089 SetObjectAccess((Name, AccessList)) -> ();
    /// An object's.
    0x808a ObjectAccess(Name) -> AccessList;
    /// What the buckets of a user hold, or those of a group.
    0x808b UsageOf((bool, String)) -> Usage;
    /// Deletes the buckets of a group; how many.
    0x808c DeleteBucketsOf(String) -> u64;
    /// Whether somebody may do something, and what decides.
    0x808d Explain((Asker, Action, String, Option<String>)) -> Decision;

    /// Changes a password by who knows the old one.
    0x80a0 ChangePassword((String, String, String)) -> ();
    /// The tokens of a user.
    0x80a1 TokensOf(String) -> Vec<TokenInfo>;
    /// Takes one back by its id.
    0x80a2 DeleteToken((String, String)) -> ();

    /// Pins the newest version of the store under a number.
    0x8090 Pin(u64) -> Version;
    /// Pins it no more.
    0x8091 Unpin(u64) -> ();
    /// Reads at one: the number of a verb that reads, and its message. Told is what that verb tells.
    0x8092 AtPin((u64, u16, Rest)) -> Rest;
}

/// Whether a verb changes nothing: it may be asked for at a pinned version, and twice. What belongs to a reader is among
/// them; a client asks for that on the reader's connection alone.
pub(crate) fn reads(verb: u16) -> bool {
    let of_buckets = [HeadBucket::VERB, BucketUsage::VERB, ListBuckets::VERB, ListSnapshots::VERB, Indexes::VERB];
    let of_uploads = [ListUploads::VERB, ListParts::VERB];
    let of_objects = Head::VERB..=HeadVersion::VERB;
    let of_people =
        [OneGroup::VERB, Groups::VERB, OneUser::VERB, Users::VERB, KeysOf::VERB, UsageOf::VERB, TokensOf::VERB];
    let of_rights = [OnePolicy::VERB, Owner::VERB, BucketPolicy::VERB, BucketAccess::VERB, ObjectAccess::VERB];
    of_objects.contains(&verb)
        || [&of_buckets[..], &of_uploads, &of_people, &of_rights, &[Explain::VERB]].concat().contains(&verb)
}

/// How long a server may work on a verb whose work grows with the store, beyond the time that a call has.
pub(crate) fn time_beyond(verb: u16) -> Duration {
    let grows = [AddIndex::VERB, CopyPrefix::VERB, DeleteBucketsOf::VERB, DeleteGroup::VERB, UsageOf::VERB];
    if grows.contains(&verb) { Duration::from_secs(3600) } else { Duration::ZERO }
}
