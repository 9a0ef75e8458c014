//! The table of calls.
//!
//! A row is a call: its number on the wire (the three `Finish…` rows share one: they differ by what the body was begun for), its name, its kind ([`Kind`](super::verbs::Kind)), and its method, with what
//! is sent of each argument and, behind `as`, how the method takes it. `named` tells the request id, by which a change is
//! asked for again where the connection is lost. The lists are those of buckets and objects, of groups, users and rights,
//! and of what has a form of its own on either side: readers, bodies, transactions, pins, log in.
//!
//! `calls!(LIST, MACRO FIRST)` gives the rows of a list to a macro, behind what is first.
//!
//! Invariant: a number never comes to mean something else; what is added has a new one.

macro_rules! calls {
    (objects, $with:ident $($first:tt)*) => { $with! { $($first)*
        /// Buckets by name: all, or those that a user owns or is a member of the group of; or those of one group.
        0x8010 ListBuckets (Page): pub fn list_buckets(query: BucketQuery as &BucketQuery) -> BucketPage;
        /// What is known of a bucket, or of a snapshot of one.
        0x8011 HeadBucket (Read): pub fn head_bucket(bucket: String as &str) -> BucketInfo;
        /// What a bucket, or a snapshot of one, holds: a look at a few counters, however many objects there are.
        0x8012 BucketUsage (Read): pub fn bucket_usage(bucket: String as &str) -> crate::info::BucketUsage;
        /// Makes a bucket.
        0x8013 CreateBucket (Change): pub fn create_bucket(bucket: String as &str) -> BucketInfo;
        /// Removes a bucket that holds no objects, with its snapshots or only where it has none.
        0x8014 DeleteBucket (Change): pub(crate) fn delete_bucket_with(bucket: String as &str, snapshots: bool) -> ();
        /// Changes settings of a bucket.
        0x8015 SetBucket (Change): pub fn set_bucket(bucket: String as &str, change: BucketChange) -> BucketInfo;
        /// Empties a bucket of objects and uploads, whatever it holds, in one commit. Its snapshots stay.
        0x8016 PurgeBucket (Change): pub fn purge_bucket(bucket: String as &str) -> ();
        /// Keeps a bucket as it is now: its names, bytes and uploads under way, in one commit and without copying.
        0x8017 SnapshotBucket (Change): pub fn snapshot_bucket(
            bucket: String as &str, snapshot: String as &str
        ) -> SnapshotInfo;
        /// The snapshots of a bucket, by name.
        0x8018 ListSnapshots (Read): pub fn list_snapshots(bucket: String as &str) -> Vec<SnapshotInfo>;
        /// Removes a snapshot. What the bucket, its branches and other snapshots share with it stays.
        0x8019 DeleteSnapshot (Change): pub fn delete_snapshot(bucket: String as &str, snapshot: String as &str) -> ();
        /// Gives a bucket the content of a snapshot of it, in one commit; what it holds now is gone. The snapshot
        /// stays.
        0x801a RestoreBucket (Change): pub fn restore_bucket(bucket: String as &str, snapshot: String as &str) -> ();
        /// Makes a bucket that holds what another, or a snapshot of one, holds now; from then on neither sees the
        /// other's changes. One commit, and nothing is copied. It keeps versions as its source does; settings such
        /// as quotas are those of a new bucket.
        0x801b BranchBucket (Change): pub fn branch_bucket(from: String as &str, to: String as &str) -> BucketInfo;
        /// Sets whether a bucket keeps versions. Once it does it never goes back to [`Versioning::Never`], which is
        /// `InvalidRequest`: older versions would be forgotten.
        0x801c SetVersioning (Change): pub fn set_versioning(bucket: String as &str, versioning: Versioning) -> ();
        /// The indexes of a bucket, or of a snapshot of one.
        0x801d Indexes (Read): pub fn indexes(bucket: String as &str) -> Vec<IndexInfo>;
        /// Adds an index over an entry of metadata or a tag to a bucket, and builds it: searching for it costs as
        /// much as is found from then on. Others may write meanwhile. One that is there is `AlreadyExists`; one
        /// whose building was interrupted is built to its end.
        0x801e AddIndex (LongWork): pub fn add_index(bucket: String as &str, of: Indexed) -> IndexInfo;
        /// Takes an index away; searching for what it was over costs as much as the bucket holds from then on.
        0x801f DropIndex (Change): pub fn drop_index(bucket: String as &str, of: Indexed) -> ();

        /// What is known of an object.
        0x8020 Head (Read): pub fn head(bucket: String as &str, key: String as &str) -> ObjectInfo;
        /// A page of the objects of a bucket.
        0x8021 List (Page): pub fn list(bucket: String as &str, query: ListQuery as &ListQuery) -> ListPage;
        /// A page of the versions in a bucket, or in a snapshot of one, delete markers among them.
        0x8022 ListVersions (Page): pub fn list_versions(
            bucket: String as &str, query: VersionQuery as &VersionQuery
        ) -> VersionPage;
        /// A page of the objects of a bucket, or of a snapshot of one, that have an entry of metadata or a tag.
        0x8023 Search (Page): pub fn search(bucket: String as &str, query: SearchQuery as &SearchQuery) -> SearchPage;
        /// What is known of a version of an object; errors as those of [`Objects::get_version`].
        0x8029 HeadVersion (Read): pub fn head_version(name: Name as ObjectName<'_>, version: VersionId) -> ObjectInfo;

        /// Gives an object another length, in bytes; what is added reads as zeros.
        0x8040 Truncate (Change named options.request): pub fn truncate(
            name: Name as ObjectName<'_>, length: u64, options: EditOptions
        ) -> ObjectInfo;
        /// Writes a range of one object into another at an offset without copying data. Both may be one object
        /// where the two ranges do not overlap.
        0x8041 WriteCopy (Change named options.request): pub fn write_copy(
            from: Name as ObjectName<'_>, range: ByteRange, to: Name as ObjectName<'_>, offset: u64, options: EditOptions
        ) -> ObjectInfo;
        /// Copies an object without copying its data; onto itself only with a change.
        0x8043 Copy (Change named options.request): pub fn copy(
            from: Name as ObjectName<'_>, to: Name as ObjectName<'_>, options: CopyOptions
        ) -> ObjectInfo;
        /// Moves an object to another name, within a bucket or between two, and replaces what has that name.
        0x8044 Rename (Change named options.request): pub fn rename(
            from: Name as ObjectName<'_>, to: Name as ObjectName<'_>, options: RenameOptions
        ) -> ObjectInfo;
        /// Swaps what two names stand for, within a bucket or between two; both must be there. Told are the objects
        /// that the first and the second name have afterwards.
        0x8045 Exchange (Change named options.request): pub fn exchange(
            one: Name as ObjectName<'_>, other: Name as ObjectName<'_>, options: ExchangeOptions
        ) -> (ObjectInfo, ObjectInfo);
        /// Deletes an object; one that is absent is deleted already. A bucket that keeps versions keeps it as an
        /// older one, behind a delete marker.
        0x8046 Delete (Change): pub fn delete(
            bucket: String as &str, key: String as &str, options: DeleteOptions
        ) -> Deleted;
        /// Deletes up to [`DELETE_MANY_MAX`] objects in one commit; outcomes are in the order of the names.
        0x8047 DeleteMany (Change): pub fn delete_many(
            bucket: String as &str, keys: Vec<String> as &[String]
        ) -> Vec<Result<Deleted>>;
        /// Changes metadata, tags, headers, mode, numeric owner, times of modification and access of an object. Of
        /// the options, condition, id and request count.
        0x8048 SetAttributes (Change named options.request): pub fn set_attributes(
            name: Name as ObjectName<'_>, change: AttributeChange, options: EditOptions
        ) -> ObjectInfo;
        /// Moves every object whose name begins with `from` to begin with `to`, in one commit. Nothing may have a
        /// name there (`AlreadyExists`), and neither prefix may begin with the other. Where nothing is under
        /// `from`, nothing happens.
        0x8049 RenamePrefix (Change): pub fn rename_prefix(
            bucket: String as &str, from: String as &str, to: String as &str
        ) -> ();
        /// Copies objects whose names begin with `from.key` to names that begin with `to.key` instead, up to
        /// [`COPY_PREFIX_BATCH`] of them in one commit, without copying data. Where more are left, `next` of the
        /// answer is `after` of the next call.
        0x804a CopyPrefix (LongWork): pub fn copy_prefix(
            from: Name as ObjectName<'_>, to: Name as ObjectName<'_>, options: CopyPrefixOptions
        ) -> CopiedPrefix;
        /// Deletes a version of an object, or a delete marker, for good; `NoSuchVersion` where the name has it not.
        /// Where it was the newest, the one before it is: an object whose delete marker is deleted is there again.
        0x804b DeleteVersion (Change): pub fn delete_version(name: Name as ObjectName<'_>, version: VersionId) -> Deleted;

        /// Begins an upload in parts.
        0x8050 CreateUpload (Change): pub fn create_upload(
            bucket: String as &str, key: String as &str, options: UploadOptions
        ) -> UploadId;
        /// Uploads of a bucket that are neither completed nor aborted.
        0x8051 ListUploads (Page): pub fn list_uploads(
            bucket: String as &str, query: UploadQuery as &UploadQuery
        ) -> UploadPage;
        /// Parts of an upload with numbers above `after`, at most `limit`.
        0x8052 ListParts (Page): pub fn list_parts(
            name: Name as ObjectName<'_>, upload: UploadId, after: u32, limit: usize
        ) -> PartPage;
        /// Makes a part from an object, or from a range of its bytes, without copying its data. The bytes are read
        /// for their MD5 and checksum, unless the whole object is taken and both are stored with it.
        0x8053 CopyPart (Change): pub fn copy_part(
            from: Name as ObjectName<'_>,
            range: Option<ByteRange>,
            source_condition: ReadCondition as &ReadCondition,
            to: Name as ObjectName<'_>,
            upload: UploadId,
            number: u32
        ) -> PartInfo;
        /// Joins parts to the object, in one commit and without copying data. A repeat gets the first outcome.
        0x8054 CompleteUpload (Change named Some(RequestId(upload.0))): pub fn complete_upload(
            name: Name as ObjectName<'_>, upload: UploadId, options: CompleteOptions
        ) -> ObjectInfo;
        /// Drops an upload and its parts.
        0x8055 AbortUpload (Change): pub fn abort_upload(name: Name as ObjectName<'_>, upload: UploadId) -> ();
        /// The same from a version of an object, which need not be its newest.
        0x8056 CopyPartOfVersion (Change): pub fn copy_part_of_version(
            from: (Name, VersionId) as (ObjectName<'_>, VersionId),
            range: Option<ByteRange>,
            source_condition: ReadCondition as &ReadCondition,
            to: Name as ObjectName<'_>,
            upload: UploadId,
            number: u32
        ) -> PartInfo;

        /// Deletes the buckets of a group with all that they hold and their snapshots; the group stays. How many
        /// went. A batch for each bucket: interrupted, the rest is there, and the same call goes on. For who
        /// administers the group.
        0x808c DeleteBucketsOf (LongWork): pub fn delete_buckets_of(group: String as &str) -> u64;
    } };

    (identities, $with:ident $($first:tt)*) => { $with! { $($first)*
        /// Makes a group.
        0x8070 CreateGroup (Change): pub fn create_group(name: String as &str, description: String as &str) -> GroupInfo;
        /// Changes a group.
        0x8071 SetGroup (Change): pub fn set_group(name: String as &str, wanted: GroupChange) -> GroupInfo;
        /// What is known of a group: for administrators and its members.
        0x8072 OneGroup (Read): pub fn group(name: String as &str) -> GroupInfo;
        /// Groups by name.
        0x8073 Groups (Bounded): pub fn groups(query: NameQuery as &NameQuery) -> GroupPage;
        /// Deletes a group: its buckets with all that they hold, and the users who are at home in it. What those
        /// own in other groups becomes root's. Several batches: when one is interrupted, the group lets nobody in
        /// and the same call goes on.
        0x8074 DeleteGroup (LongWork): pub fn delete_group(name: String as &str) -> DeletedGroup;
        /// Makes a user in its home group; without a password it logs in by keys alone.
        0x8075 CreateUser (Work): pub fn create_user(
            group: String as &str, name: String as &str, password: Option<String> as Option<&str>
        ) -> UserInfo;
        /// Changes a user: administrators of its home group change its state and what people call it, those of the
        /// store the rest, and root who is an administrator.
        0x8076 SetUser (Change): pub fn set_user(name: String as &str, wanted: UserChange) -> UserInfo;
        /// Sets a password, and takes back the tokens of its user: by administrators, and by the user itself while
        /// it has none ([`change_password`](Identities::change_password) else).
        0x8077 SetPassword (Work): pub fn set_password(name: String as &str, password: String as &str) -> ();
        /// What is known of a user: for administrators and itself.
        0x8078 OneUser (Read): pub fn user(name: String as &str) -> UserInfo;
        /// Users: by name, or the members of a group.
        0x8079 Users (Bounded): pub fn users(query: UserQuery as &UserQuery) -> UserPage;
        /// Deletes a user, its keys and its tokens. One that owns buckets is `NotEmpty`: they are given away first.
        0x807a DeleteUser (Work): pub fn delete_user(name: String as &str) -> ();
        /// Makes a user a member of another group, or sets whether it is an administrator of a group of its own: by
        /// who administers both, because a member gets what the group's policies deny.
        0x807b AddMember (Change): pub fn add_member(
            group: String as &str, user: String as &str, administrator: bool
        ) -> ();
        /// Ends a membership: by the group's administrators, and by the user itself. A user stays a member of its
        /// home group.
        0x807c RemoveMember (Change): pub fn remove_member(group: String as &str, user: String as &str) -> ();
        /// Makes an access key: for oneself, or for a user of a group that one administers, who has no rights that
        /// one has not. The secret is told now and never again.
        0x807d CreateKey (Change): pub fn create_key(user: String as &str, options: KeyOptions) -> (String, Secret);
        /// The access keys of a user.
        0x807e KeysOf (Read): pub fn keys_of(user: String as &str) -> Vec<KeyInfo>;
        /// Takes an access key back. It signs nothing from here on.
        0x807f DeleteKey (Change): pub fn delete_key(user: String as &str, access_key: String as &str) -> ();

        /// Sets a policy that users and groups may name, or takes it away; one that is named stays.
        0x8080 SetPolicy (Change): pub fn set_policy(name: String as &str, document: Option<String> as Option<&str>) -> ();
        /// The text of a policy.
        0x8081 OnePolicy (Read): pub fn policy(name: String as &str) -> String;
        /// Whether policies and access lists may let those in who have no identity. Off in a new store; root's
        /// alone.
        0x8082 SetPublicAccess (Change): pub fn set_public_access(public: bool) -> ();
        /// Gives a bucket to another owner; to that one's home group too, unless another group is named. `root` is
        /// root, as a user and as a group. It takes rights on both sides: over the bucket, and over who gets it
        /// (itself, or a user that one administers; a group that one is in, or administers). Its policy and access
        /// list stay.
        0x8083 ChangeOwner (Change): pub fn change_owner(
            bucket: String as &str, owner: String as &str, group: Option<String> as Option<&str>
        ) -> ();
        /// The names of a bucket's owner and group.
        0x8084 Owner (Read): pub fn owner(bucket: String as &str) -> (String, String);
        /// Sets the policy of a bucket, or takes it away. Whom it names has to be there, and is kept by id.
        0x8085 SetBucketPolicy (Change): pub fn set_bucket_policy(
            bucket: String as &str, document: Option<String> as Option<&str>
        ) -> ();
        /// The text of a bucket's policy.
        0x8086 BucketPolicy (Read): pub fn bucket_policy(bucket: String as &str) -> String;
        /// Sets the access list of a bucket.
        0x8087 SetBucketAccess (Change): pub fn set_bucket_access(bucket: String as &str, list: AccessList) -> ();
        /// The access list of a bucket.
        0x8088 BucketAccess (Read): pub fn bucket_access(bucket: String as &str) -> AccessList;
        /// Sets the access list of an object. Its bytes and ETag stay.
        0x8089 SetObjectAccess (Change): pub fn set_object_access(name: Name as ObjectName<'_>, list: AccessList) -> ();
        /// The access list of an object.
        0x808a ObjectAccess (Read): pub fn object_access(name: Name as ObjectName<'_>) -> AccessList;
        /// How much the buckets of a user or a group hold together, at this moment: a look at each of the buckets.
        /// Of a user for administrators and itself, of a group for its members too.
        0x808b UsageOf (LongRead): pub fn usage(whose: (bool, String) as Whose<'_>) -> crate::info::BucketUsage;
        /// Whether somebody may do something to a bucket or an object in it, and what decides: by the rules of this
        /// moment, under the circumstances of this call (where policies ask for an address it is this caller's).
        /// For administrators. `NoSuchUser` and `NoSuchAccessKey` where there is no such asker.
        0x808d Explain (Read): pub fn explain(
            asker: Asker as &Asker, action: Action, bucket: String as &str, key: Option<String> as Option<&str>
        ) -> Decision;

        /// Changes a password by who knows the old one, and takes back all tokens of the user but the caller's own.
        /// Wrong old passwords count as log-ins that failed (`LogInFailed`).
        0x80a0 ChangePassword (Work): pub fn change_password(
            name: String as &str, old: String as &str, new: String as &str
        ) -> ();
        /// The tokens of a user that are good: for itself and administrators.
        0x80a1 TokensOf (Read): pub fn tokens_of(name: String as &str) -> Vec<TokenInfo>;
        /// Takes a token back by its id: for itself and administrators.
        0x80a2 DeleteToken (Change): pub fn delete_token(name: String as &str, id: String as &str) -> ();
    } };

    (streams, $with:ident $($first:tt)*) => { $with! { $($first)*
        /// Which protocol; who the peer is already.
        0x8000 Greet (Work): u32 => (u32, Option<String>);
        /// Who has logged in.
        0x8001 WhoAmI (Work): () => Option<String>;
        /// By password or token.
        0x8002 LogInBy (Work): Proof => LoggedIn;
        /// Takes a token back; that of the log in where none is named.
        0x8003 LogOut (Work): Option<String> => ();

        /// Opens an object under a number, and reads so many of its first bytes; whether it is open still.
        0x8024 OpenReader (Read): (u64, Name, u32) => (ObjectInfo, bool);
        /// Reads from an offset on so many bytes.
        0x8025 Read (Read): (u64, u64, u32) => ();
        /// Reads no more.
        0x8026 CloseReader (Read): u64 => ();
        /// The parts that the object was joined from.
        0x8027 ReaderParts (Read): u64 => Vec<PartInfo>;
        /// As `OpenReader`, a version of an object.
        0x8028 OpenVersion (Read): (u64, Name, VersionId, u32) => (ObjectInfo, bool);

        /// Begins a body under a number.
        0x8030 OpenWriter (Work): (u64, Writing) => ();
        /// A piece of it: the data.
        0x8031 WritePiece (Work): u64 => ();
        /// The last piece, and what the whole is compared with; of an object or an edit.
        0x8032 FinishObject (Work): (u64, Expected) => ObjectInfo;
        /// The same of a part.
        0x8032 FinishPart (Work): (u64, Expected) => PartInfo;
        /// The same of a body for a transaction: its length.
        0x8032 FinishBody (Work): (u64, Expected) => u64;
        /// Drops it, or a body that was finished and not used.
        0x8033 DropWriter (Work): u64 => ();

        /// Joins objects.
        0x8042 Compose (Work): (Vec<Source>, Name, ComposeOptions) => ObjectInfo;

        /// Begins a transaction under a number.
        0x8060 BeginTransaction (Work): (u64, Option<RequestId>) => ();
        /// A call in it.
        0x8061 StepInTransaction (Work): (u64, InTransaction) => TransactionTold;
        /// Commits it, begins it anew, or drops it.
        0x8062 EndTransaction (Work): (u64, End) => Ended;

        /// Pins the newest version of the store under a number.
        0x8090 Pin (Work): u64 => Version;
        /// Pins it no more.
        0x8091 Unpin (Work): u64 => ();
        /// Reads at one: the number of a verb that reads, and its message. Told is what that verb tells.
        0x8092 AtPin (Work): (u64, u16, Rest) => Rest;
    } };
}

pub(crate) use calls;
