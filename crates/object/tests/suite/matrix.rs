//! Every call that can be asked for, by every kind of caller: who may make it.
//!
//! Each call of the table of the wire has a row here or in the table of `rights`, or is told below to ask for nothing. A
//! call that is added without one fails a test.

use std::collections::BTreeSet;

use koine_object::{
    AccessList, Action, Asker, AttributeChange, ByteRange, CALL_NAMES, Caller, ComposeOptions, CopyPrefixOptions,
    EditOptions, ErrorKind, ExchangeOptions, Expected, GroupChange, Indexed, KeyOptions, NameQuery, ObjectName,
    Objects, PutOptions, ReadCondition, RenameOptions, Result, RootKey, Segment, StageOptions, UploadId, UserChange,
    UserQuery, UserState, VersionId, VersionQuery, Versioning, Whose,
};

use crate::rights::{CALLS, peopled};
use crate::support::user_of;

const OLD: ObjectName<'_> = ObjectName { bucket: "bucket", key: "old" };
const OTHER: ObjectName<'_> = ObjectName { bucket: "bucket", key: "other" };
const JOINED: ObjectName<'_> = ObjectName { bucket: "bucket", key: "joined" };

/// Who calls: a letter of each row says whether it may. `head` administers the group of the bucket, `boss` the store;
/// `narrowed` is the bucket's owner with a key that may read one object; `disabled` is a member who was shut out.
const CALLERS: [&str; 9] = ["root", "boss", "owner", "member", "head", "stranger", "everyone", "narrowed", "disabled"];

/// What everybody may ask for, because it tells and changes nothing of the store, proves who asks, or belongs to
/// something whose opening was asked for.
const OPEN: [&str; 20] = [
    "Greet",
    "WhoAmI",
    "LogInBy",
    "LogOut",
    "ChangePassword",
    "Read",
    "CloseReader",
    "ReaderParts",
    "WritePiece",
    "FinishObject",
    "FinishPart",
    "FinishBody",
    "DropWriter",
    "BeginTransaction",
    "EndTransaction",
    "Pin",
    "Unpin",
    "AtPin",
    // In the table of `rights` as finish and open of a put and a get.
    "OpenWriter",
    "OpenReader",
];

/// The calls of the wire that the rows of `rights` make.
const OF_RIGHTS: [&str; 25] = [
    "CreateBucket",
    "ListBuckets",
    "HeadBucket",
    "DeleteBucket",
    "SnapshotBucket",
    "ListSnapshots",
    "DeleteSnapshot",
    "BucketUsage",
    "SetBucket",
    "RestoreBucket",
    "BranchBucket",
    "PurgeBucket",
    "Indexes",
    "AddIndex",
    "DropIndex",
    "Search",
    "List",
    "Head",
    "Copy",
    "Delete",
    "DeleteMany",
    "CreateUpload",
    "ListUploads",
    "ListParts",
    "CopyPart",
];
const OF_UPLOADS: [&str; 2] = ["CompleteUpload", "AbortUpload"];

/// What a row is made with.
struct Scene {
    objects: Objects,
    upload: UploadId,
    version: VersionId,
    key: String,
}

/// The calls of the wire that it covers, who may make it, and itself.
type Row = (&'static [&'static str], &'static str, fn(&Objects, &Scene) -> Result<()>);

fn staged(objects: &Objects) -> Result<koine_object::StagedBody> {
    let mut body = objects.stage(StageOptions::default())?;
    body.write(b"body")?;
    body.finish(&Expected::none())
}

fn display() -> UserChange {
    UserChange { display: Some(Some("Somebody".into())), ..UserChange::default() }
}

const ROWS: &[Row] = &[
    (&["SetVersioning"], "yyynynnnn", |objects, _| objects.set_versioning("bucket", Versioning::Suspended).wait()),
    (&["ListVersions"], "yyyyynnnn", |objects, _| {
        objects.list_versions("bucket", &VersionQuery { limit: 5, ..VersionQuery::default() }).map(drop)
    }),
    (&["HeadVersion"], "yyyyynnnn", |objects, scene| objects.head_version(OTHER, scene.version).map(drop)),
    (&["OpenVersion"], "yyyyynnnn", |objects, scene| objects.get_version(OTHER, scene.version).map(drop)),
    (&["DeleteVersion"], "yyyyynnnn", |objects, scene| objects.delete_version(OTHER, scene.version).wait().map(drop)),
    (&["Truncate"], "yyyyynnnn", |objects, _| objects.truncate(OLD, 1, EditOptions::default()).wait().map(drop)),
    (&[], "yyyyynnnn", |objects, _| {
        let mut writer = objects.write_at(OLD, 0, EditOptions::default())?;
        writer.write(b"x")?;
        writer.finish(&Expected::none()).wait().map(drop)
    }),
    (&[], "yyyyynnnn", |objects, _| {
        let mut writer = objects.append(OLD, EditOptions::default())?;
        writer.write(b"x")?;
        writer.finish(&Expected::none()).wait().map(drop)
    }),
    (&["WriteCopy"], "yyyyynnnn", |objects, _| {
        let range = ByteRange { offset: 0, length: 2 };
        objects.write_copy(OLD, range, OTHER, 0, EditOptions::default()).wait().map(drop)
    }),
    (&["Compose"], "yyyyynnnn", |objects, _| {
        objects.compose(&[Segment::whole(OLD)], OTHER, ComposeOptions::default()).wait().map(drop)
    }),
    (&["Rename"], "yyyyynnnn", |objects, _| objects.rename(OLD, OTHER, RenameOptions::default()).wait().map(drop)),
    (&["Exchange"], "yyyyynnnn", |objects, _| {
        objects.exchange(OLD, OTHER, ExchangeOptions::default()).wait().map(drop)
    }),
    (&["SetAttributes"], "yyyyynnnn", |objects, _| {
        let change = AttributeChange { mode: Some(0o600), ..AttributeChange::default() };
        objects.set_attributes(OLD, change, EditOptions::default()).wait().map(drop)
    }),
    (&["RenamePrefix"], "yyyyynnnn", |objects, _| objects.rename_prefix("bucket", "ol", "new/").wait()),
    (&["CopyPrefix"], "yyyyynnnn", |objects, _| {
        let to = ObjectName::new("bucket", "new/");
        objects.copy_prefix(ObjectName::new("bucket", "ol"), to, CopyPrefixOptions::default()).map(drop)
    }),
    (&["CopyPartOfVersion"], "yyyyynnnn", |objects, scene| {
        let from = (OTHER, scene.version);
        objects.copy_part_of_version(from, None, &ReadCondition::default(), JOINED, scene.upload, 2).wait().map(drop)
    }),
    (&["StepInTransaction"], "yyyyynnyn", |objects, _| objects.transact(None, |txn| txn.head(OLD)).map(drop)),
    (&["StepInTransaction"], "yyyyynnnn", |objects, _| {
        objects
            .transact(None, |txn| {
                let body = staged(objects)?;
                txn.put(OTHER, &body, &PutOptions::default())
            })
            .map(drop)
    }),
    (&[], "yyyyynnyn", |objects, _| objects.pin()?.get("bucket", "old").map(drop)),
    (&[], "yyyyynnnn", |objects, _| {
        objects.pin()?.search("bucket", &koine_object::SearchQuery::new(Indexed::Tag("old".into()))).map(drop)
    }),
    (&["CreateGroup"], "yynnnnnnn", |objects, _| objects.identities().create_group("made", "").wait().map(drop)),
    (&["SetGroup"], "yynnnnnnn", |objects, _| {
        let change = GroupChange { description: Some("x".into()), ..GroupChange::default() };
        objects.identities().set_group("lab", change).wait().map(drop)
    }),
    (&["OneGroup"], "yyyyynnnn", |objects, _| objects.identities().group("lab").map(drop)),
    (&["Groups"], "yynnnnnnn", |objects, _| objects.identities().groups(&NameQuery::default()).map(drop)),
    (&["DeleteGroup"], "yynnnnnnn", |objects, _| objects.identities().delete_group("empty").map(drop)),
    (&["CreateUser"], "yynnynnnn", |objects, _| objects.identities().create_user("lab", "made", None).map(drop)),
    (&["SetUser"], "yynnynnnn", |objects, _| objects.identities().set_user("member", display()).wait().map(drop)),
    (&["SetUser"], "yynnnnnnn", |objects, _| {
        let change = UserChange { policies: Some(vec!["hold".into()]), ..UserChange::default() };
        objects.identities().set_user("member", change).wait().map(drop)
    }),
    (&["SetUser"], "ynnnnnnnn", |objects, _| {
        let change = UserChange { administrator: Some(true), ..UserChange::default() };
        objects.identities().set_user("member", change).wait().map(drop)
    }),
    // The member has no password yet, so that it may set its first.
    (&["SetPassword"], "yynyynnnn", |objects, _| objects.identities().set_password("member", "a long password")),
    (&["OneUser"], "yynyynnnn", |objects, _| objects.identities().user("member").map(drop)),
    (&["Users"], "yynnnnnnn", |objects, _| objects.identities().users(&UserQuery::default()).map(drop)),
    (&["Users"], "yynnynnnn", |objects, _| {
        objects.identities().users(&UserQuery { group: Some("lab".into()), ..UserQuery::default() }).map(drop)
    }),
    (&["DeleteUser"], "yynnynnnn", |objects, _| objects.identities().delete_user("held")),
    (&["AddMember"], "yynnynnnn", |objects, _| objects.identities().add_member("lab", "member", true).wait()),
    (&["AddMember"], "yynnnnnnn", |objects, _| objects.identities().add_member("lab", "stranger", false).wait()),
    (&["RemoveMember"], "yynnynnnn", |objects, _| objects.identities().remove_member("lab", "guest").wait()),
    (&["CreateKey"], "yynyynnnn", |objects, _| {
        objects.identities().create_key("member", KeyOptions::default()).wait().map(drop)
    }),
    (&["CreateKey"], "yynnnnnnn", |objects, _| {
        objects.identities().create_key("held", KeyOptions::default()).wait().map(drop)
    }),
    (&["CreateKey"], "ynnnnnnnn", |objects, _| {
        objects.identities().create_key("root", KeyOptions::default()).wait().map(drop)
    }),
    (&["KeysOf"], "yynyynnnn", |objects, _| objects.identities().keys_of("member").map(drop)),
    (&["DeleteKey"], "yynyynnnn", |objects, scene| objects.identities().delete_key("member", &scene.key).wait()),
    (&["TokensOf"], "yynyynnnn", |objects, _| objects.identities().tokens_of("member").map(drop)),
    (&["DeleteToken"], "yynyynnnn", |objects, scene| {
        let id = scene.objects.identities().tokens_of("member")?.remove(0).id;
        objects.identities().delete_token("member", &id).wait()
    }),
    (&["SetPolicy"], "yynnnnnnn", |objects, _| objects.identities().set_policy("made", Some(POLICY)).wait()),
    (&["OnePolicy"], "yynnnnnnn", |objects, _| objects.identities().policy("hold").map(drop)),
    (&["SetPublicAccess"], "ynnnnnnnn", |objects, _| objects.identities().set_public_access(true).wait()),
    (&["ChangeOwner"], "yyynynnnn", |objects, _| {
        objects.identities().change_owner("bucket", "owner", Some("lab")).wait()
    }),
    (&["ChangeOwner"], "yynnnnnnn", |objects, _| objects.identities().change_owner("bucket", "stranger", None).wait()),
    (&["Owner"], "yyyyynnnn", |objects, _| objects.identities().owner("bucket").map(drop)),
    (&["SetBucketPolicy"], "yyynynnnn", |objects, _| objects.identities().set_bucket_policy("bucket", None).wait()),
    (&["BucketPolicy"], "yyynynnnn", |objects, _| objects.identities().bucket_policy("bucket").map(drop)),
    (&["SetBucketAccess"], "yyynynnnn", |objects, _| {
        objects.identities().set_bucket_access("bucket", AccessList::default()).wait()
    }),
    (&["BucketAccess"], "yyynynnnn", |objects, _| objects.identities().bucket_access("bucket").map(drop)),
    (&["SetObjectAccess"], "yyynynnnn", |objects, _| {
        objects.identities().set_object_access(OLD, AccessList::default()).wait()
    }),
    (&["ObjectAccess"], "yyynynnnn", |objects, _| objects.identities().object_access(OLD).map(drop)),
    (&["UsageOf"], "yynyynnnn", |objects, _| objects.identities().usage(Whose::User("member")).map(drop)),
    (&["UsageOf"], "yyyyynnnn", |objects, _| objects.identities().usage(Whose::Group("lab")).map(drop)),
    (&["DeleteBucketsOf"], "yynnynnnn", |objects, _| objects.delete_buckets_of("lab").map(drop)),
    (&["Explain"], "yynnnnnnn", |objects, _| {
        objects.identities().explain(&Asker::Everyone, Action::GetObject, "bucket", Some("old")).map(drop)
    }),
];

const POLICY: &str =
    r#"{"Version": "2012-10-17", "Statement": {"Effect": "Allow", "Action": "s3:GetObject", "Resource": "*"}}"#;
const NARROW: &str = r#"{"Version": "2012-10-17", "Statement": {"Effect": "Allow", "Action": "s3:GetObject",
    "Resource": "arn:aws:s3:::bucket/old"}}"#;

fn scene() -> Scene {
    let (objects, upload) = peopled();
    let identities = objects.identities();
    identities.change_owner("bucket", "owner", None).wait().unwrap();
    identities.create_group("empty", "").wait().unwrap();
    for user in ["head", "disabled"] {
        identities.create_user("lab", user, None).unwrap();
    }
    identities.add_member("lab", "head", true).wait().unwrap();
    for user in ["boss", "guest"] {
        identities.create_user("others", user, None).unwrap();
    }
    identities.add_member("lab", "guest", false).wait().unwrap();
    let boss = UserChange { administrator: Some(true), ..UserChange::default() };
    identities.set_user("boss", boss).wait().unwrap();
    let version = crate::support::put(&objects, "other", b"other").version_id;
    let (key, _) = identities.create_key("member", KeyOptions::default()).wait().unwrap();
    Scene { objects, upload, version, key }
}

fn caller(scene: &Scene, name: &str) -> Objects {
    let (objects, identities) = (&scene.objects, scene.objects.identities());
    let of_key = |key: &str| objects.as_caller(identities.by_access_key(key).unwrap().0);
    match name {
        "root" => {
            let key = RootKey { access_key: "ROOTKEY".into(), secret: "rootsecret".into() };
            objects.set_root_key_if_absent(&key).unwrap();
            of_key("ROOTKEY")
        }
        "everyone" => objects.as_caller(Caller::Everyone),
        "narrowed" => {
            let options = KeyOptions { policy: Some(NARROW.into()), ..KeyOptions::default() };
            of_key(&identities.create_key("owner", options).wait().unwrap().0)
        }
        "disabled" => {
            let disabled = user_of(objects, "disabled");
            let change = UserChange { state: Some(UserState::Disabled), ..UserChange::default() };
            identities.set_user("disabled", change).wait().unwrap();
            disabled
        }
        user => user_of(objects, user),
    }
}

/// Whether a call that `rights` has a row for may be made by each caller: the owner's and the member's columns stand there.
fn of_rights(call: &str, name: &str) -> Option<bool> {
    match name {
        "root" | "boss" | "head" => Some(true),
        "everyone" | "disabled" => Some(false),
        "narrowed" => Some(["get", "head", "get from a snapshot"].contains(&call)),
        _ => None,
    }
}

#[test]
fn every_call_is_allowed_to_each_kind_of_caller_or_refused() {
    let mut unexpected = Vec::new();
    for (index, (covered, letters, call)) in ROWS.iter().enumerate() {
        for (name, letter) in CALLERS.into_iter().zip(letters.bytes()) {
            let scene = scene();
            if covered.contains(&"DeleteToken") {
                scene.objects.identities().set_password("member", "a long password").unwrap();
                let life = std::time::Duration::from_secs(60);
                scene.objects.identities().log_in("member", "a long password", life).unwrap();
            }
            let outcome = call(&caller(&scene, name), &scene);
            let refused = outcome.as_ref().is_err_and(|error| error.kind() == ErrorKind::AccessDenied);
            if refused == (letter == b'y') || (outcome.is_err() && !refused) {
                unexpected.push(format!("row {index} {covered:?} by {name}: {outcome:?}"));
            }
        }
    }
    for (call, make) in CALLS {
        for (name, allowed) in CALLERS.iter().filter_map(|name| Some((name, of_rights(call, name)?))) {
            let scene = scene();
            let outcome = make(&caller(&scene, name), scene.upload);
            let refused = outcome.as_ref().is_err_and(|error| error.kind() == ErrorKind::AccessDenied);
            if refused == allowed {
                unexpected.push(format!("{call} by {name}: {outcome:?}"));
            }
        }
    }
    assert!(unexpected.is_empty(), "{}", unexpected.join("\n"));
}

#[test]
fn every_call_has_a_row() {
    let covered = ROWS.iter().flat_map(|(covered, ..)| covered.iter());
    let told: BTreeSet<&str> = covered.chain(&OPEN).chain(&OF_RIGHTS).chain(&OF_UPLOADS).copied().collect();
    assert_eq!(told, CALL_NAMES.iter().copied().collect());
}
