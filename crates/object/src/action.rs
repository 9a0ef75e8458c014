//! What callers may be allowed: the actions of S3, and those that S3 has not.

use crate::error::{Error, ErrorKind};

/// What kind of thing an action does: who belongs to a bucket's group may do what reads, writes and lists.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Class {
    /// Reads an object.
    Read,
    /// Changes an object, or puts or takes one.
    Write,
    /// Tells what a bucket holds.
    List,
    /// Looks at or changes what belongs to a bucket or an object itself: who may, how much, how many versions.
    Settings,
    /// Concerns no bucket that is there.
    Store,
}

macro_rules! actions {
    ($($(#[$doc:meta])* $name:ident = $text:literal, $class:ident;)*) => {
        /// An action of a policy, and of a call.
        #[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
        #[non_exhaustive]
        pub enum Action { $($(#[$doc])* $name,)* }

        impl Action {
            /// Every action there is.
            pub const ALL: &[Action] = &[$(Action::$name,)*];

            /// As policies write it.
            pub fn name(self) -> &'static str {
                match self { $(Action::$name => $text,)* }
            }

            pub(crate) fn class(self) -> Class {
                match self { $(Action::$name => Class::$class,)* }
            }
        }
    };
}

impl std::str::FromStr for Action {
    type Err = Error;

    /// As policies write it.
    fn from_str(text: &str) -> Result<Self, Error> {
        let found = Action::ALL.iter().find(|action| action.name() == text);
        found.copied().ok_or_else(|| {
            let message = format!("{text:?} is no action: one is written as in policies, as s3:GetObject");
            Error::new(ErrorKind::InvalidArgument, message)
        })
    }
}

actions! {
    /// Reading an object and what is known of it.
    GetObject = "s3:GetObject", Read;
    /// Reading an older version of an object.
    GetObjectVersion = "s3:GetObjectVersion", Read;
    /// Reading the tags of an object.
    GetObjectTagging = "s3:GetObjectTagging", Read;
    /// Reading the tags of a version of an object.
    GetObjectVersionTagging = "s3:GetObjectVersionTagging", Read;
    /// Reading what is known of an object, and of its parts.
    GetObjectAttributes = "s3:GetObjectAttributes", Read;
    /// Reading what is known of a version of an object, and of its parts.
    GetObjectVersionAttributes = "s3:GetObjectVersionAttributes", Read;
    /// Reading until when an object is retained.
    GetObjectRetention = "s3:GetObjectRetention", Read;
    /// Reading whether an object is under a legal hold.
    GetObjectLegalHold = "s3:GetObjectLegalHold", Read;
    /// Putting, editing, and all that makes or changes an object's bytes.
    PutObject = "s3:PutObject", Write;
    /// Changing the tags of an object.
    PutObjectTagging = "s3:PutObjectTagging", Write;
    /// Changing the tags of a version of an object.
    PutObjectVersionTagging = "s3:PutObjectVersionTagging", Write;
    /// Taking the tags of an object away.
    DeleteObjectTagging = "s3:DeleteObjectTagging", Write;
    /// Taking the tags of a version of an object away.
    DeleteObjectVersionTagging = "s3:DeleteObjectVersionTagging", Write;
    /// Deleting an object.
    DeleteObject = "s3:DeleteObject", Write;
    /// Deleting one version of an object.
    DeleteObjectVersion = "s3:DeleteObjectVersion", Write;
    /// Dropping an upload.
    AbortMultipartUpload = "s3:AbortMultipartUpload", Write;
    /// Telling the parts of an upload.
    ListMultipartUploadParts = "s3:ListMultipartUploadParts", List;
    /// Telling the uploads of a bucket.
    ListBucketMultipartUploads = "s3:ListBucketMultipartUploads", List;
    /// Telling the objects of a bucket, and that it is there.
    ListBucket = "s3:ListBucket", List;
    /// Telling the older versions in a bucket.
    ListBucketVersions = "s3:ListBucketVersions", List;
    /// Telling where a bucket is.
    GetBucketLocation = "s3:GetBucketLocation", List;
    /// Telling whether a bucket keeps versions.
    GetBucketVersioning = "s3:GetBucketVersioning", List;
    /// Telling how transfers of a bucket are accelerated.
    GetAccelerateConfiguration = "s3:GetAccelerateConfiguration", List;
    /// Telling which origins of web pages may ask for a bucket.
    GetBucketCors = "s3:GetBucketCORS", List;
    /// Telling how a bucket is encrypted.
    GetEncryptionConfiguration = "s3:GetEncryptionConfiguration", List;
    /// Telling when objects of a bucket expire.
    GetLifecycleConfiguration = "s3:GetLifecycleConfiguration", List;
    /// Telling where a bucket's log goes.
    GetBucketLogging = "s3:GetBucketLogging", List;
    /// Telling who is notified of a bucket's changes.
    GetBucketNotification = "s3:GetBucketNotification", List;
    /// Telling how long a bucket locks its objects.
    GetBucketObjectLockConfiguration = "s3:GetBucketObjectLockConfiguration", List;
    /// Telling whether access lists are in force.
    GetBucketOwnershipControls = "s3:GetBucketOwnershipControls", List;
    /// Telling whether a bucket's policy is public.
    GetBucketPolicyStatus = "s3:GetBucketPolicyStatus", List;
    /// Telling whether public access to a bucket is blocked.
    GetBucketPublicAccessBlock = "s3:GetBucketPublicAccessBlock", List;
    /// Telling where a bucket is replicated to.
    GetReplicationConfiguration = "s3:GetReplicationConfiguration", List;
    /// Telling who pays for requests.
    GetBucketRequestPayment = "s3:GetBucketRequestPayment", List;
    /// Telling how a bucket is shown as a website.
    GetBucketWebsite = "s3:GetBucketWebsite", List;
    /// Blocking public access to a bucket, or not.
    PutBucketPublicAccessBlock = "s3:PutBucketPublicAccessBlock", Settings;
    /// Setting whether access lists are in force.
    PutBucketOwnershipControls = "s3:PutBucketOwnershipControls", Settings;
    /// Whether a bucket keeps versions.
    PutBucketVersioning = "s3:PutBucketVersioning", Settings;
    /// Reading an object's access list.
    GetObjectAcl = "s3:GetObjectAcl", Settings;
    /// Setting an object's access list.
    PutObjectAcl = "s3:PutObjectAcl", Settings;
    /// Reading the access list of a version of an object.
    GetObjectVersionAcl = "s3:GetObjectVersionAcl", Settings;
    /// Setting the access list of a version of an object.
    PutObjectVersionAcl = "s3:PutObjectVersionAcl", Settings;
    /// Reading a bucket's access list.
    GetBucketAcl = "s3:GetBucketAcl", Settings;
    /// Setting a bucket's access list.
    PutBucketAcl = "s3:PutBucketAcl", Settings;
    /// Reading a bucket's policy.
    GetBucketPolicy = "s3:GetBucketPolicy", Settings;
    /// Setting a bucket's policy.
    PutBucketPolicy = "s3:PutBucketPolicy", Settings;
    /// Taking a bucket's policy away.
    DeleteBucketPolicy = "s3:DeleteBucketPolicy", Settings;
    /// Reading a bucket's tags.
    GetBucketTagging = "s3:GetBucketTagging", List;
    /// Changing a bucket's tags.
    PutBucketTagging = "s3:PutBucketTagging", Settings;
    /// Removing a bucket.
    DeleteBucket = "s3:DeleteBucket", Settings;
    /// Making a bucket.
    CreateBucket = "s3:CreateBucket", Store;
    /// Telling one's buckets.
    ListAllMyBuckets = "s3:ListAllMyBuckets", Store;
    /// Attributes, quotas and indexes of a bucket.
    SetBucket = "koine:SetBucket", Settings;
    /// Giving a bucket to another owner or group.
    ChangeOwner = "koine:ChangeOwner", Settings;
    /// Telling how much a bucket holds.
    BucketUsage = "koine:BucketUsage", List;
    /// Making, reading by name, and removing snapshots of a bucket.
    Snapshot = "koine:Snapshot", Settings;
    /// Setting a bucket back to a snapshot.
    Restore = "koine:Restore", Settings;
    /// Branching a bucket.
    Branch = "koine:Branch", Settings;
    /// Removing all that a bucket holds.
    Purge = "koine:Purge", Settings;
    /// Looking for what no name leads to, and removing it.
    Collect = "koine:Collect", Store;
    /// Looking at users, groups, keys and policies, and changing them.
    Identities = "koine:Identities", Store;
}

/// Actions that a call of the library asks for, and what a door's call that is made of it asks for instead: as telling
/// the tags of an object is reading what is known of it, and needs another right.
pub type StandIns = &'static [(Action, &'static [Action])];
