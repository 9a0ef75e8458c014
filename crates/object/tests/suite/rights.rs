//! Who may: one table of calls, driven for every kind of caller.

use koine_object::{
    AccessList, Action, Asker, AttributeChange, BucketChange, BucketQuery, Caller, Circumstances, CompleteOptions,
    CompletedPart, CopiedMetadata, CopyOptions, DeleteOptions, EditOptions, ErrorKind, Expected, Grant, Grantee,
    Indexed, ListQuery, MetadataChange, ObjectName, Objects, PartOptions, PutOptions, ReadCondition, Result, Rule,
    SearchQuery, UploadId, UploadOptions, UploadQuery, UserChange, Versioning,
};

use crate::support::{group_of, kind, put, put_into, store, user_of};

/// A call as the table has it: its name, and itself over `bucket`, which holds `old` and an upload of `joined`.
pub type Call = (&'static str, fn(&Objects, UploadId) -> Result<()>);

const OLD: ObjectName<'_> = ObjectName { bucket: "bucket", key: "old" };
const JOINED: ObjectName<'_> = ObjectName { bucket: "bucket", key: "joined" };

/// Every call.
pub const CALLS: &[Call] = &[
    ("create bucket", |objects, _| objects.create_bucket("another").wait().map(drop)),
    ("list buckets", |objects, _| objects.list_buckets(&BucketQuery::default()).map(drop)),
    ("head bucket", |objects, _| objects.head_bucket("bucket").map(drop)),
    ("delete bucket", |objects, _| objects.delete_bucket("bucket").wait()),
    ("snapshot bucket", |objects, _| objects.snapshot_bucket("bucket", "new").wait().map(drop)),
    ("list snapshots", |objects, _| objects.list_snapshots("bucket").map(drop)),
    ("get from a snapshot", |objects, _| objects.get("bucket@taken", "old").map(drop)),
    ("delete snapshot", |objects, _| objects.delete_snapshot("bucket", "taken").wait()),
    ("bucket usage", |objects, _| objects.bucket_usage("bucket").map(drop)),
    ("set bucket", |objects, _| objects.set_bucket("bucket", BucketChange::default()).wait().map(drop)),
    ("restore bucket", |objects, _| objects.restore_bucket("bucket", "taken").wait()),
    ("branch bucket", |objects, _| objects.branch_bucket("bucket@taken", "branch").wait().map(drop)),
    ("purge bucket", |objects, _| objects.purge_bucket("bucket").wait()),
    ("indexes", |objects, _| objects.indexes("bucket").map(drop)),
    ("add index", |objects, _| objects.add_index("bucket", Indexed::Tag("new".into())).map(drop)),
    ("drop index", |objects, _| objects.drop_index("bucket", Indexed::Tag("old".into())).wait()),
    ("search", |objects, _| objects.search("bucket", &SearchQuery::new(Indexed::Tag("old".into()))).map(drop)),
    ("list", |objects, _| objects.list("bucket", &ListQuery::default()).map(drop)),
    ("get", |objects, _| objects.get("bucket", "old").map(drop)),
    ("head", |objects, _| objects.head("bucket", "old").map(drop)),
    ("put", |objects, _| {
        let mut writer = objects.put("bucket", "new", PutOptions::default())?;
        writer.write(b"body")?;
        writer.finish(&Expected::none()).wait().map(drop)
    }),
    ("copy", |objects, _| {
        let options = CopyOptions { metadata: CopiedMetadata::Copy, ..CopyOptions::default() };
        objects.copy(OLD, ObjectName::new("bucket", "copy"), options).wait().map(drop)
    }),
    ("delete", |objects, _| objects.delete("bucket", "old", DeleteOptions::default()).wait().map(drop)),
    ("delete many", |objects, _| {
        let mut outcomes = objects.delete_many("bucket", &["old".to_owned()]).wait()?;
        outcomes.remove(0).map(drop)
    }),
    ("create upload", |objects, _| objects.create_upload("bucket", "begun", UploadOptions::default()).wait().map(drop)),
    ("list uploads", |objects, _| objects.list_uploads("bucket", &UploadQuery::default()).map(drop)),
    ("list parts", |objects, upload| objects.list_parts(JOINED, upload, 0, 10).map(drop)),
    ("put part", |objects, upload| {
        let mut writer = objects.put_part(JOINED, upload, 1, PartOptions::default())?;
        writer.write(b"part")?;
        writer.finish(&Expected::none()).wait().map(drop)
    }),
    ("copy part", |objects, upload| {
        objects.copy_part(OLD, None, &ReadCondition::default(), JOINED, upload, 2).wait().map(drop)
    }),
    ("complete upload", |objects, upload| {
        let info = objects.as_caller(Caller::Owner).list_parts(JOINED, upload, 0, 10)?;
        let named = |part: &koine_object::PartInfo| CompletedPart {
            number: part.number,
            etag: part.etag.to_string().trim_matches('"').to_owned(),
            checksums: Vec::new(),
        };
        let parts = info.parts.iter().map(named).collect();
        let options = CompleteOptions { parts, ..CompleteOptions::default() };
        objects.complete_upload(JOINED, upload, options).wait().map(drop)
    }),
    ("abort upload", |objects, upload| objects.abort_upload(JOINED, upload).wait()),
];

/// A store with what the calls are made on.
fn ready() -> (Objects, UploadId) {
    let objects = store();
    put(&objects, "old", b"old");
    objects.add_index("bucket", Indexed::Tag("old".into())).unwrap();
    objects.snapshot_bucket("bucket", "taken").wait().unwrap();
    let upload = objects.create_upload("bucket", "joined", UploadOptions::default()).wait().unwrap();
    let mut writer = objects.put_part(JOINED, upload, 1, PartOptions::default()).unwrap();
    writer.write(b"part").unwrap();
    writer.finish(&Expected::none()).wait().unwrap();
    (objects, upload)
}

#[test]
fn without_an_identity_every_call_is_refused_and_changes_nothing() {
    let (objects, upload) = ready();
    let everyone = objects.as_caller(Caller::Everyone);
    let before = objects.kv().unwrap().view().unwrap().version();
    for (name, call) in CALLS {
        assert_eq!(call(&everyone, upload).unwrap_err().kind(), ErrorKind::AccessDenied, "{name}");
    }
    assert_eq!(objects.kv().unwrap().view().unwrap().version(), before);
}

#[test]
fn the_owner_is_refused_nothing() {
    for (name, call) in CALLS {
        let (objects, upload) = ready();
        match call(&objects, upload) {
            Err(error) if *name == "delete bucket" => assert_eq!(error.kind(), ErrorKind::BucketNotEmpty),
            outcome => outcome.unwrap_or_else(|error| panic!("{name}: {error}")),
        }
    }
}

/// The kinds of callers, in the order of the table's columns.
const CALLERS: [&str; 7] = ["owner", "member", "stranger", "lister", "writer", "reader", "held"];

/// Whether a caller may make a call, a column each: the bucket's owner; a member of its group; a stranger; who may
/// read by the bucket's access list; who may write by it; who may read objects by the bucket's policy; an owner whom a
/// policy denies putting and deleting.
const TABLE: &[(&str, &str)] = &[
    ("create bucket", "yyyyyyy"),
    ("list buckets", "yyyyyyy"),
    ("head bucket", "yynynny"),
    ("delete bucket", "ynnnnny"),
    ("snapshot bucket", "ynnnnny"),
    ("list snapshots", "yynynny"),
    ("get from a snapshot", "yynnnyy"),
    ("delete snapshot", "ynnnnny"),
    ("bucket usage", "yynynny"),
    ("set bucket", "ynnnnny"),
    ("restore bucket", "ynnnnny"),
    ("branch bucket", "ynnnnny"),
    ("purge bucket", "ynnnnny"),
    ("indexes", "yynynny"),
    ("add index", "ynnnnny"),
    ("drop index", "ynnnnny"),
    ("search", "yynnnny"),
    ("list", "yynynny"),
    ("get", "yynnnyy"),
    ("head", "yynnnyy"),
    ("put", "yynnynn"),
    ("copy", "yynnnnn"),
    ("delete", "yynnynn"),
    ("delete many", "yynnynn"),
    ("create upload", "yynnynn"),
    ("list uploads", "yynynny"),
    ("list parts", "yynnnny"),
    ("put part", "yynnynn"),
    ("copy part", "yynnnnn"),
    ("complete upload", "yynnynn"),
    ("abort upload", "yynnnny"),
];

const HELD: &str = r#"{"Version": "2012-10-17", "Statement": {"Sid": "hold", "Effect": "Deny",
    "Action": ["s3:Put*", "s3:DeleteObject"], "Resource": "*"}}"#;
const READER: &str = r#"{"Version": "2012-10-17", "Statement": {"Effect": "Allow", "Action": "s3:GetObject",
    "Principal": {"AWS": "arn:aws:iam:::user/reader"}, "Resource": "arn:aws:s3:::bucket/*"}}"#;

/// The store of the table, with everybody in it.
pub fn peopled() -> (Objects, UploadId) {
    let (objects, upload) = ready();
    let identities = objects.identities();
    group_of(&objects, "lab", &["owner", "held", "member"]);
    group_of(&objects, "others", &["stranger", "lister", "writer", "reader"]);
    identities.set_policy("hold", Some(HELD)).wait().unwrap();
    let hold = UserChange { policies: Some(vec!["hold".into()]), ..UserChange::default() };
    identities.set_user("held", hold).wait().unwrap();
    let id = |name: &str| identities.user(name).unwrap().id;
    let list = vec![
        Grant { to: Grantee::User(id("lister")), rights: Grant::READ },
        Grant { to: Grantee::User(id("writer")), rights: Grant::WRITE },
    ];
    identities.set_bucket_access("bucket", AccessList::new(list).unwrap()).wait().unwrap();
    identities.set_bucket_policy("bucket", Some(READER)).wait().unwrap();
    (objects, upload)
}

/// The example of S-320.
#[test]
fn every_call_is_allowed_or_refused_by_the_same_rules() {
    assert_eq!(TABLE.len(), CALLS.len());
    for (column, caller) in CALLERS.into_iter().enumerate() {
        let (mut objects, mut upload) = peopled();
        for ((name, call), (row, allowed)) in CALLS.iter().zip(TABLE) {
            assert_eq!(name, row);
            let owner = if caller == "held" { "held" } else { "owner" };
            objects.identities().change_owner("bucket", owner, None).wait().unwrap();
            let outcome = call(&user_of(&objects, caller), upload);
            let refused = outcome.as_ref().is_err_and(|error| error.kind() == ErrorKind::AccessDenied);
            assert_eq!(!refused, allowed.as_bytes()[column] == b'y', "{caller}: {name}: {outcome:?}");
            if !refused && *name != "delete bucket" {
                outcome.unwrap_or_else(|error| panic!("{caller}: {name}: {error}"));
                // What was changed is as it was before the next call.
                (objects, upload) = peopled();
            }
        }
    }
}

/// The example of S-323.
#[test]
fn that_a_name_is_absent_is_told_to_who_may_list() {
    let (objects, _) = peopled();
    objects.identities().change_owner("bucket", "owner", None).wait().unwrap();
    let [member, reader] = ["member", "reader"].map(|user| user_of(&objects, user));
    assert_eq!(kind(member.get("bucket", "absent")), ErrorKind::NoSuchKey);
    assert_eq!(kind(reader.get("bucket", "absent")), ErrorKind::AccessDenied);
    assert_eq!(kind(reader.head("bucket", "absent")), ErrorKind::AccessDenied);
    let copy = |objects: &Objects| {
        let (from, to) = (ObjectName::new("bucket", "absent"), ObjectName::new("copies", "x"));
        kind(objects.copy(from, to, CopyOptions::default()).wait())
    };
    member.create_bucket("copies").wait().unwrap();
    assert_eq!(copy(&member), ErrorKind::NoSuchKey);
    objects.identities().change_owner("copies", "reader", None).wait().unwrap();
    assert_eq!(copy(&reader), ErrorKind::AccessDenied);
}

/// The example of S-324.
#[test]
fn who_began_an_upload_may_look_at_it_and_drop_it() {
    let (objects, _) = peopled();
    objects.identities().change_owner("bucket", "owner", None).wait().unwrap();
    let [owner, writer, stranger] = ["owner", "writer", "stranger"].map(|user| user_of(&objects, user));
    let begin = |by: &Objects| by.create_upload("bucket", "joined", UploadOptions::default()).wait().unwrap();
    let (theirs, of_owner) = (begin(&writer), begin(&owner));
    assert!(writer.list_parts(JOINED, theirs, 0, 1).is_ok());
    assert_eq!(kind(writer.list_parts(JOINED, of_owner, 0, 1)), ErrorKind::AccessDenied);
    assert_eq!(kind(stranger.abort_upload(JOINED, theirs).wait()), ErrorKind::AccessDenied);
    // Even when it may not write any more.
    objects.identities().set_bucket_access("bucket", AccessList::default()).wait().unwrap();
    assert_eq!(kind(put_into(&writer, "bucket", "new", b"x")), ErrorKind::AccessDenied);
    writer.abort_upload(JOINED, theirs).wait().unwrap();
    assert_eq!(kind(writer.abort_upload(JOINED, of_owner).wait()), ErrorKind::AccessDenied);
}

#[test]
fn an_access_list_of_an_object_lets_it_be_read_and_edited() {
    let (objects, _) = peopled();
    objects.identities().change_owner("bucket", "owner", None).wait().unwrap();
    let [owner, stranger] = ["owner", "stranger"].map(|user| user_of(&objects, user));
    let before = objects.head("bucket", "old").unwrap();
    let group = objects.identities().group("others").unwrap().id;
    let grant = |rights| AccessList::new(vec![Grant { to: Grantee::Group(group), rights }]).unwrap();
    assert_eq!(kind(stranger.identities().set_object_access(OLD, grant(1)).wait()), ErrorKind::AccessDenied);
    owner.identities().set_object_access(OLD, grant(Grant::READ)).wait().unwrap();
    assert!(stranger.get("bucket", "old").is_ok());
    assert_eq!(kind(put_into(&stranger, "bucket", "old", b"x")), ErrorKind::AccessDenied);
    assert_eq!(kind(stranger.identities().object_access(OLD)), ErrorKind::AccessDenied);
    let after = objects.head("bucket", "old").unwrap();
    assert_eq!((after.id, after.etag, after.size), (before.id, before.etag, before.size));
    owner.identities().set_object_access(OLD, grant(Grant::WRITE | Grant::READ_LIST)).wait().unwrap();
    assert_eq!(kind(stranger.get("bucket", "old")), ErrorKind::AccessDenied);
    assert_eq!(stranger.identities().object_access(OLD).unwrap().grants().len(), 1);
    put_into(&stranger, "bucket", "old", b"x").unwrap();
    // A put makes a new object, which has no list.
    assert_eq!(kind(put_into(&stranger, "bucket", "old", b"x")), ErrorKind::AccessDenied);
    let absent = AccessList::new(vec![Grant { to: Grantee::User(4711), rights: 1 }]).unwrap();
    assert_eq!(kind(owner.identities().set_object_access(OLD, absent).wait()), ErrorKind::InvalidArgument);
}

#[test]
fn a_list_that_lets_write_leaves_what_is_the_owners_to_the_owner() {
    let (objects, upload) = peopled();
    objects.identities().change_owner("bucket", "owner", None).wait().unwrap();
    objects.set_versioning("bucket", Versioning::Enabled).wait().unwrap();
    let first = put(&objects, "kept", b"first").version_id;
    let name = ObjectName::new("bucket", "kept");
    let tags = AttributeChange {
        tags: Some(MetadataChange::Replace(vec![("a".into(), "b".into())])),
        ..AttributeChange::default()
    };
    let writer = user_of(&objects, "writer");
    put_into(&writer, "bucket", "kept", b"second").unwrap();
    writer.delete("bucket", "kept", DeleteOptions::default()).wait().unwrap();
    put_into(&writer, "bucket", "kept", b"third").unwrap();
    assert_eq!(kind(writer.delete_version(name, first).wait()), ErrorKind::AccessDenied);
    assert_eq!(kind(writer.set_attributes(name, tags.clone(), EditOptions::default()).wait()), ErrorKind::AccessDenied);
    let tagged = PutOptions { tags: vec![("a".into(), "b".into())], ..PutOptions::default() };
    let mut tagging = writer.put("bucket", "kept", tagged).unwrap();
    tagging.write(b"x").unwrap();
    assert_eq!(kind(tagging.finish(&Expected::none()).wait()), ErrorKind::AccessDenied);
    assert_eq!(kind(writer.abort_upload(JOINED, upload).wait()), ErrorKind::AccessDenied);
    let owner = user_of(&objects, "owner");
    owner.set_attributes(name, tags, EditOptions::default()).wait().unwrap();
    owner.delete_version(name, first).wait().unwrap();
    owner.abort_upload(JOINED, upload).wait().unwrap();
}

#[test]
fn an_object_is_put_with_its_list_by_who_may_set_one() {
    let (objects, _) = peopled();
    objects.identities().change_owner("bucket", "owner", None).wait().unwrap();
    let group = objects.identities().group("others").unwrap().id;
    let [owner, stranger] = ["owner", "stranger"].map(|user| user_of(&objects, user));
    let list = |to| AccessList::new(vec![Grant { to, rights: Grant::READ }]).unwrap();
    let put = |objects: &Objects, list: AccessList| {
        let mut writer = objects.put("bucket", "listed", PutOptions::default())?;
        writer.write(b"x")?;
        writer.set_access(list)?;
        writer.finish(&Expected::default()).wait().map(drop)
    };
    put(&owner, list(Grantee::Group(group))).unwrap();
    assert!(stranger.get("bucket", "listed").is_ok());
    let listed = ObjectName::new("bucket", "listed");
    assert_eq!(owner.identities().object_access(listed).unwrap(), list(Grantee::Group(group)));
    // Who may put may not open what it puts to others, unless it may set lists.
    let writes = AccessList::new(vec![Grant { to: Grantee::Group(group), rights: Grant::WRITE }]).unwrap();
    owner.identities().set_bucket_access("bucket", writes).wait().unwrap();
    assert_eq!(kind(put(&stranger, list(Grantee::EveryUser))), ErrorKind::AccessDenied);
    assert!(stranger.get("bucket", "listed").is_ok(), "what was there stays");
    put(&stranger, AccessList::default()).unwrap();
    assert_eq!(kind(put(&owner, list(Grantee::User(4711)))), ErrorKind::InvalidArgument);
    for open in [Grantee::Everyone, Grantee::EveryUser] {
        assert_eq!(kind(put(&owner, list(open))), ErrorKind::InvalidRequest);
    }
}

#[test]
fn nothing_is_open_to_everybody_before_root_says_so() {
    let (objects, _) = peopled();
    let (identities, everyone) = (objects.identities(), objects.as_caller(Caller::Everyone));
    let open = READER.replace(r#"{"AWS": "arn:aws:iam:::user/reader"}"#, r#""*""#);
    let list = AccessList::new(vec![Grant { to: Grantee::Everyone, rights: Grant::READ }]).unwrap();
    assert_eq!(kind(identities.set_bucket_policy("bucket", Some(&open)).wait()), ErrorKind::InvalidRequest);
    assert_eq!(kind(identities.set_bucket_access("bucket", list.clone()).wait()), ErrorKind::InvalidRequest);
    assert!(!everyone.identities().public_access().unwrap());
    identities.set_public_access(true).wait().unwrap();
    assert!(everyone.identities().public_access().unwrap());
    identities.set_bucket_policy("bucket", Some(READER)).wait().unwrap();
    assert!(!identities.bucket_policy_is_public("bucket").unwrap());
    identities.set_bucket_policy("bucket", Some(&open)).wait().unwrap();
    assert!(identities.bucket_policy_is_public("bucket").unwrap());
    assert_eq!(everyone.identities().owner_id("bucket").unwrap(), 0);
    assert!(everyone.get("bucket", "old").is_ok());
    assert_eq!(kind(everyone.list("bucket", &ListQuery::default())), ErrorKind::AccessDenied);
    identities.set_bucket_access("bucket", list).wait().unwrap();
    assert!(everyone.list("bucket", &ListQuery::default()).is_ok());
    assert_eq!(kind(put_into(&everyone, "bucket", "new", b"x")), ErrorKind::AccessDenied);
    identities.set_public_access(false).wait().unwrap();
    assert_eq!(kind(everyone.get("bucket", "old")), ErrorKind::AccessDenied);
    assert_eq!(kind(everyone.list("bucket", &ListQuery::default())), ErrorKind::AccessDenied);
}

/// The example of S-336: what is open to everybody or to every user is open to no user either while public access is off.
#[test]
fn what_is_open_to_everybody_is_open_to_no_user_while_public_access_is_off() {
    let (objects, _) = peopled();
    let identities = objects.identities();
    identities.change_owner("bucket", "owner", None).wait().unwrap();
    identities.set_public_access(true).wait().unwrap();
    let list = |to| AccessList::new(vec![Grant { to, rights: Grant::READ }]).unwrap();
    put(&objects, "listed", b"listed");
    let listed = ObjectName::new("bucket", "listed");
    let [owner, member, stranger, reader] =
        ["owner", "member", "stranger", "reader"].map(|user| user_of(&objects, user));
    let everyone = objects.as_caller(Caller::Everyone);
    for to in [Grantee::Everyone, Grantee::EveryUser] {
        identities.set_public_access(true).wait().unwrap();
        identities.set_object_access(listed, list(to)).wait().unwrap();
        identities.set_bucket_access("bucket", list(to)).wait().unwrap();
        assert!(stranger.get("bucket", "listed").is_ok() && stranger.list("bucket", &ListQuery::default()).is_ok());
        assert_eq!(everyone.get("bucket", "listed").is_ok(), to == Grantee::Everyone);
        identities.set_public_access(false).wait().unwrap();
        for other in [&stranger, &everyone] {
            assert_eq!(kind(other.get("bucket", "listed")), ErrorKind::AccessDenied);
            assert_eq!(kind(other.list("bucket", &ListQuery::default())), ErrorKind::AccessDenied);
        }
        assert!(owner.get("bucket", "listed").is_ok() && member.list("bucket", &ListQuery::default()).is_ok());
        // Nor can it be opened so.
        assert_eq!(kind(owner.identities().set_object_access(listed, list(to)).wait()), ErrorKind::InvalidRequest);
        assert_eq!(kind(owner.identities().set_bucket_access("bucket", list(to)).wait()), ErrorKind::InvalidRequest);
    }
    // By the bucket's policy, which goes on to let in whom it names, and to keep out.
    let who = r#"{"AWS": "arn:aws:iam:::user/reader"}"#;
    let open = READER.replace(who, r#"{"AWS": ["*", "arn:aws:iam:::user/reader"]}"#);
    identities.set_object_access(listed, AccessList::default()).wait().unwrap();
    identities.set_public_access(true).wait().unwrap();
    identities.set_bucket_policy("bucket", Some(&open)).wait().unwrap();
    assert!([&stranger, &reader, &everyone].iter().all(|user| user.get("bucket", "listed").is_ok()));
    identities.set_public_access(false).wait().unwrap();
    assert!(reader.get("bucket", "listed").is_ok());
    assert_eq!(kind(stranger.get("bucket", "listed")), ErrorKind::AccessDenied);
    assert_eq!(kind(everyone.get("bucket", "listed")), ErrorKind::AccessDenied);
    let closed = open.replace("Allow", "Deny");
    identities.set_bucket_policy("bucket", Some(&closed)).wait().unwrap();
    assert_eq!(kind(owner.get("bucket", "listed")), ErrorKind::AccessDenied);
}

#[test]
fn policies_know_who_asks_for_what_and_from_where() {
    let (objects, _) = peopled();
    let identities = objects.identities();
    let policy = r#"{"Version": "2012-10-17", "Statement": [
        {"Effect": "Allow", "Action": "s3:*", "Resource": "arn:aws:s3:::bucket/home/${aws:username}/*"},
        {"Effect": "Allow", "Action": "s3:ListBucket", "Resource": "arn:aws:s3:::bucket",
         "Condition": {"StringLike": {"s3:prefix": "home/${aws:username}/*"}}},
        {"Sid": "away", "Effect": "Deny", "Action": "*", "Resource": "*",
         "Condition": {"NotIpAddressIfExists": {"aws:SourceIp": "10.0.0.0/8"}}}]}"#;
    // `IfExists` over what is not known holds, also negated: from no address all is denied.
    identities.set_policy("homes", Some(policy)).wait().unwrap();
    let homes = UserChange { policies: Some(vec!["homes".into()]), ..UserChange::default() };
    identities.set_user("stranger", homes).wait().unwrap();
    let from = |address: &str| {
        let address = Some(address.parse().unwrap());
        user_of(&objects, "stranger").under(Circumstances { address, ..Circumstances::default() })
    };
    let near = from("10.1.2.3");
    put_into(&near, "bucket", "home/stranger/a", b"x").unwrap();
    assert_eq!(kind(put_into(&near, "bucket", "home/other/a", b"x")), ErrorKind::AccessDenied);
    let query = |prefix: &str| ListQuery { prefix: prefix.into(), limit: 9, ..ListQuery::default() };
    assert_eq!(near.list("bucket", &query("home/stranger/")).unwrap().objects.len(), 1);
    assert_eq!(kind(near.list("bucket", &query("home/"))), ErrorKind::AccessDenied);
    assert_eq!(kind(from("11.1.2.3").get("bucket", "home/stranger/a")), ErrorKind::AccessDenied);
    assert_eq!(kind(user_of(&objects, "stranger").get("bucket", "home/stranger/a")), ErrorKind::AccessDenied);
    let decision = identities.explain(&Asker::User("stranger".into()), Action::GetObject, "bucket", Some("x")).unwrap();
    assert_eq!(
        (decision.allowed, decision.rule),
        (false, Rule::Policy { policy: "homes".into(), statement: Some("away".into()) })
    );
    assert_eq!(kind(identities.set_policy("homes", None).wait()), ErrorKind::NotEmpty);
    // Nobody else is let into a bucket by a policy of its own that names others' buckets or nobody.
    for wrong in [READER.replace(":::bucket/", ":::another/"), READER.replace("user/reader", "user/nobody")] {
        assert_eq!(kind(identities.set_bucket_policy("bucket", Some(&wrong)).wait()), ErrorKind::MalformedPolicy);
    }
}
