//! Every call that is asked of a server, and the bytes that it is asked by: they stand in `messages.txt`.
//!
//! Invariant: what stands there is what other programs send and understand (docs/wire.md); a line that changes is another
//! protocol.

use std::collections::BTreeSet;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use koine_env::Timestamp;
use koine_kv::wire::{Handler, HandlerConnection, Peer, Responder, Server, Timeouts};
use koine_kv::{Bytes, RequestId};
use koine_object::{
    AccessList, Action, Asker, AttributeChange, BucketChange, BucketQuery, ByteRange, CALL_NAMES, CompleteOptions,
    CompletedPart, ComposeOptions, CopyOptions, CopyPrefixOptions, DeleteOptions, EditOptions, ExchangeOptions, Grant,
    Grantee, GroupChange, Identities, Indexed, KeyOptions, ListQuery, LogIn, MetadataChange, NameQuery, ObjectName,
    ObjectVerbs, Objects, PartOptions, PutOptions, ReadCondition, RemoteObjects, RenameOptions, SearchQuery, Secret,
    Segment, StageOptions, UploadOptions, UploadQuery, UserChange, UserQuery, VersionId, VersionQuery, Versioning,
    Wanted, Whose,
};

use crate::backend::kv;
use crate::support::{finish, here, put};

/// What was asked, line by line.
type Lines = Arc<Mutex<Vec<String>>>;

/// The verbs of objects, with what they are asked by written down.
struct Noted {
    below: ObjectVerbs,
    lines: Lines,
}

struct NotedConnection {
    below: Box<dyn HandlerConnection>,
    lines: Lines,
}

impl Handler for Noted {
    fn begin(&self, peer: &Peer) -> Box<dyn HandlerConnection> {
        Box::new(NotedConnection { below: self.below.begin(peer), lines: Arc::clone(&self.lines) })
    }
}

impl HandlerConnection for NotedConnection {
    fn handle(&mut self, verb: u16, message: Bytes, data: Bytes, answer: Responder) {
        let hex: String = message.iter().map(|byte| format!("{byte:02x}")).collect();
        self.lines.lock().unwrap().push(format!("{verb:04x} {hex} {}", data.len()));
        self.below.handle(verb, message, data, answer);
    }

    fn is_known(&self) -> bool {
        self.below.is_known()
    }

    fn is_idle(&self) -> bool {
        self.below.is_idle()
    }
}

#[test]
fn each_call_is_asked_by_the_bytes_that_it_always_was() {
    let lines = Lines::default();
    let folder = tempfile::tempdir().unwrap();
    let socket = folder.path().join("store.objects.sock");
    let objects = here(kv());
    let handler = Noted { below: ObjectVerbs::new(objects.clone()), lines: Arc::clone(&lines) };
    let server = Server::of_verbs(Arc::new(handler), ObjectVerbs::server_options());
    server.listen_unix(&socket).unwrap();
    let password = objects.identities().reset_root().unwrap().2;
    let remote = RemoteObjects::connect_unix(&socket, None, Timeouts::default()).unwrap();
    remote.log_in(&LogIn::Password("root".to_owned(), password, Duration::from_secs(60))).unwrap();
    assert_eq!(remote.who().unwrap().unwrap(), "root");
    {
        let there = remote.objects();
        let outcomes = |outcomes: Vec<String>| lines.lock().unwrap().extend(outcomes);
        outcomes(buckets(&there));
        outcomes(objects_and_edits(&there));
        outcomes(versions_and_searches(&there));
        outcomes(uploads(&there));
        outcomes(bodies_in_a_transaction(&there));
        outcomes(people(&there.identities()));
        outcomes(rights(&there));
    }
    remote.log_out().unwrap();
    drop(server);
    let lines = lines.lock().unwrap().join("\n") + "\n";
    if std::env::var_os("KOINE_WRITE_MESSAGES").is_some() {
        std::fs::write(concat!(env!("CARGO_MANIFEST_DIR"), "/tests/remote/messages.txt"), &lines).unwrap();
    }
    let verbs: BTreeSet<&str> =
        lines.lines().filter(|line| line.starts_with('8')).filter_map(|line| line.get(..4)).collect();
    // One number is the end of three kinds of body.
    assert_eq!(verbs.len(), CALL_NAMES.len() - 2, "{verbs:?}");
    for (number, (line, wanted)) in lines.lines().zip(include_str!("messages.txt").lines()).enumerate() {
        assert_eq!(line, wanted, "line {}", number + 1);
    }
    assert_eq!(lines.lines().count(), include_str!("messages.txt").lines().count());
}

/// What came of a call.
fn told<T>(name: &str, outcome: koine_object::Result<T>) -> String {
    match outcome {
        Ok(_) => format!("{name}: done"),
        Err(error) => format!("{name}: {:?}", error.kind()),
    }
}

fn name(key: &str) -> ObjectName<'_> {
    ObjectName::new("bucket", key)
}

fn pair(name: &str, value: &str) -> Vec<(String, String)> {
    vec![(name.to_owned(), value.to_owned())]
}

fn request(number: u8) -> Option<RequestId> {
    Some(RequestId([number; 16]))
}

fn buckets(there: &Objects) -> Vec<String> {
    let query = BucketQuery { prefix: "b".to_owned(), limit: 5, ..BucketQuery::default() };
    let change = BucketChange {
        quota_bytes: Some(Some(1 << 40)),
        tags: Some(MetadataChange::Replace(pair("a", "b"))),
        location: Some("here".to_owned()),
        ..BucketChange::default()
    };
    let snapshots = there.snapshot_bucket("bucket", "first").wait();
    vec![
        told("create", there.create_bucket("another").wait()),
        told("create", there.create_bucket("another").wait()),
        told("list", there.list_buckets(&query)),
        told("list", there.list_buckets(&BucketQuery::default())),
        told("head", there.head_bucket("bucket")),
        told("head", there.head_bucket("absent")),
        told("usage", there.bucket_usage("bucket")),
        told("set", there.set_bucket("bucket", change).wait()),
        told("snapshot", snapshots),
        told("snapshots", there.list_snapshots("bucket")),
        told("branch", there.branch_bucket("bucket@first", "branch").wait()),
        told("restore", there.restore_bucket("bucket", "first").wait()),
        told("purge", there.purge_bucket("branch").wait()),
        told("delete", there.delete_bucket("bucket").wait()),
        told("delete snapshot", there.delete_snapshot("bucket", "first").wait()),
        told("delete", there.delete_bucket("another").wait()),
        told("delete with snapshots", there.delete_bucket_and_snapshots("branch").wait()),
        told("index", there.add_index("bucket", Indexed::Metadata("colour".to_owned()))),
        told("index", there.add_index("bucket", Indexed::Tag("kind".to_owned()))),
        told("indexes", there.indexes("bucket")),
        told("drop index", there.drop_index("bucket", Indexed::Tag("kind".to_owned())).wait()),
    ]
}

fn objects_and_edits(there: &Objects) -> Vec<String> {
    let options = PutOptions { metadata: pair("colour", "red"), request: request(1), ..PutOptions::default() };
    let mut writer = there.put("bucket", "one", options).unwrap();
    writer.write(b"some bytes").unwrap();
    let one = writer.finish(&koine_object::Expected::none()).wait();
    put(there, "two", &vec![7; 3 << 20]);
    drop(there.put("bucket", "dropped", PutOptions::default()).unwrap());
    let edit = EditOptions { request: request(2), ..EditOptions::default() };
    let range = ByteRange { offset: 1, length: 3 };
    let reader = there.get("bucket", "two").unwrap();
    let bytes = reader.bytes(90_000, 5);
    drop(reader);
    let compose = ComposeOptions {
        put: PutOptions { request: request(3), ..PutOptions::default() },
        ..ComposeOptions::default()
    };
    let change = AttributeChange { mode: Some(0o640), modified: Some(Timestamp(5)), ..AttributeChange::default() };
    let copy = CopyOptions { request: request(4), ..CopyOptions::default() };
    let rename = RenameOptions { request: request(5), ..RenameOptions::default() };
    let list = ListQuery { prefix: "t".to_owned(), delimiter: "/".to_owned(), limit: 10, ..ListQuery::default() };
    vec![
        told("put", one),
        told("head", there.head("bucket", "one")),
        told("head", there.head("bucket", "absent")),
        told("exists", there.exists("bucket", "absent")),
        told("list", there.list("bucket", &list)),
        told("read", bytes),
        told("write at", finish(there.write_at(name("one"), 3, edit.clone()), b"XY")),
        told("append", finish(there.append(name("one"), EditOptions::default()), b"Z")),
        told("truncate", there.truncate(name("one"), 8, edit.clone()).wait()),
        told("write copy", there.write_copy(name("two"), range, name("one"), 2, edit.clone()).wait()),
        told(
            "compose",
            there
                .compose(&[Segment::whole(name("one")), Segment::range(name("two"), 1, 2)], name("three"), compose)
                .wait(),
        ),
        told("copy", there.copy(name("one"), name("four"), copy).wait()),
        told("rename", there.rename(name("four"), name("five"), rename).wait()),
        told("exchange", there.exchange(name("one"), name("five"), ExchangeOptions { request: request(6) }).wait()),
        told("set", there.set_attributes(name("one"), change, edit).wait()),
        told("rename prefix", there.rename_prefix("bucket", "t", "u").wait()),
        told("copy prefix", there.copy_prefix(name("u"), name("v"), CopyPrefixOptions::default())),
        told("delete", there.delete("bucket", "five", DeleteOptions::default()).wait()),
        told("delete many", there.delete_many("bucket", &["uwo".to_owned(), "absent".to_owned()]).wait()),
    ]
}

fn versions_and_searches(there: &Objects) -> Vec<String> {
    let mut lines = vec![told("versioning", there.set_versioning("bucket", Versioning::Enabled).wait())];
    put(there, "kept", b"first");
    put(there, "kept", b"second");
    let query = VersionQuery { prefix: "k".to_owned(), limit: 10, ..VersionQuery::default() };
    let versions = there.list_versions("bucket", &query).unwrap();
    let version = versions.versions.last().unwrap().id;
    let search = SearchQuery {
        of: Indexed::Metadata("colour".to_owned()),
        wanted: Wanted::BeginsWith("r".to_owned()),
        prefix: String::new(),
        after: None,
        limit: 10,
    };
    lines.extend([
        told("search", there.search("bucket", &search)),
        told("get version", there.get_version(name("kept"), version).and_then(|reader| reader.bytes(0, 5))),
        told("head version", there.head_version(name("kept"), version)),
        told("head version", there.head_version(name("kept"), VersionId::Null)),
        told("delete version", there.delete_version(name("kept"), version).wait()),
    ]);
    let pinned = there.pin().unwrap();
    lines.extend([
        told("pinned head", pinned.head("bucket", "kept")),
        told("pinned list", pinned.list("bucket", &ListQuery { limit: 3, ..ListQuery::default() })),
        told("pinned change", pinned.objects().create_bucket("never").wait()),
    ]);
    lines
}

fn uploads(there: &Objects) -> Vec<String> {
    let upload = there.create_upload("bucket", "joined", UploadOptions::default()).wait().unwrap();
    let mut writer = there.put_part(name("joined"), upload, 1, PartOptions::default()).unwrap();
    writer.write(b"a part").unwrap();
    let part = writer.finish(&koine_object::Expected::none()).wait().unwrap();
    let range = Some(ByteRange { offset: 0, length: 4 });
    let none = ReadCondition::default();
    let query = UploadQuery { limit: 4, ..UploadQuery::default() };
    let source = there.list_versions("bucket", &VersionQuery { limit: 10, ..VersionQuery::default() }).unwrap();
    let source = (name("kept"), source.versions.iter().find(|version| version.key == "kept").unwrap().id);
    let mut lines = vec![
        told("copy part", there.copy_part(name("kept"), range, &none, name("joined"), upload, 2).wait()),
        told(
            "copy part of version",
            there.copy_part_of_version(source, range, &none, name("joined"), upload, 3).wait(),
        ),
        told("uploads", there.list_uploads("bucket", &query)),
        told("parts", there.list_parts(name("joined"), upload, 0, 10)),
    ];
    let parts = vec![CompletedPart { number: 1, etag: part.etag.to_string(), checksums: Vec::new() }];
    let options = CompleteOptions { parts, ..CompleteOptions::default() };
    lines.push(told("complete", there.complete_upload(name("joined"), upload, options).wait()));
    let reader = there.get("bucket", "joined").unwrap();
    lines.push(told("parts of it", reader.parts()));
    let other = there.create_upload("bucket", "other", UploadOptions::default()).wait().unwrap();
    lines.push(told("abort", there.abort_upload(name("other"), other).wait()));
    lines
}

fn bodies_in_a_transaction(there: &Objects) -> Vec<String> {
    let staged = || {
        let mut writer = there.stage(StageOptions::default()).unwrap();
        writer.write(b"a body").unwrap();
        writer.finish(&koine_object::Expected::none()).unwrap()
    };
    let bodies = [staged(), staged(), staged()];
    let edit = EditOptions::default();
    let version = there.head("bucket", "kept").unwrap().version_id;
    let outcome = there.transact(request(7), |txn| {
        txn.put(name("in"), &bodies[0], &PutOptions::default())?;
        txn.write_at(name("in"), 1, &bodies[1], &edit)?;
        txn.append(name("in"), &bodies[2], &edit)?;
        txn.truncate(name("in"), 9, &edit)?;
        txn.write_copy(name("kept"), ByteRange { offset: 0, length: 1 }, name("in"), 0, &edit)?;
        txn.compose(&[Segment::whole(name("kept"))], name("in/c"), &ComposeOptions::default())?;
        txn.copy(name("kept"), name("in/d"), &CopyOptions::default())?;
        txn.rename(name("in/d"), name("in/e"), &RenameOptions::default())?;
        txn.exchange(name("in/c"), name("in/e"))?;
        txn.delete(name("in/e"), &DeleteOptions::default())?;
        txn.set_attributes(name("in"), AttributeChange { mode: Some(0o600), ..AttributeChange::default() }, &edit)?;
        let _there = txn.head(name("in"))?;
        let _bytes = txn.read(name("kept"), ByteRange { offset: 0, length: 3 })?;
        let _page = txn.list("bucket", &ListQuery { limit: 2, ..ListQuery::default() })?;
        txn.delete_version(name("kept"), version)?;
        Ok(())
    });
    let refused = there.transact(None, |txn| txn.delete(name(""), &DeleteOptions::default()).map(drop));
    vec![told("transaction", outcome), told("transaction", refused)]
}

fn people(there: &Identities) -> Vec<String> {
    let names = NameQuery { limit: 5, ..NameQuery::default() };
    let users = UserQuery { group: Some("lab".to_owned()), names: names.clone() };
    let change = GroupChange { description: Some("a room".to_owned()), ..GroupChange::default() };
    let user_change = UserChange { display: Some(Some("Ann".to_owned())), ..UserChange::default() };
    let given = Some(("KEY".to_owned(), Secret::new("a secret of forty letters, more or less!")));
    let options = KeyOptions { given, life: Some(Duration::from_secs(9)), ..KeyOptions::default() };
    let policy = r#"{"Version":"2012-10-17","Statement":[{"Effect":"Allow","Action":"s3:*","Resource":"*"}]}"#;
    let mut lines = vec![
        told("create group", there.create_group("lab", "").wait()),
        told("set group", there.set_group("lab", change).wait()),
        told("group", there.group("lab")),
        told("groups", there.groups(&names)),
        told("create user", there.create_user("lab", "ann", Some("a good password"))),
        told("create user", there.create_user("lab", "bob", None)),
        told("set user", there.set_user("ann", user_change).wait()),
        told("set password", there.set_password("ann", "another good password")),
        told("change password", there.change_password("ann", "a good password", "a third good password")),
        told("user", there.user("ann")),
        told("users", there.users(&users)),
        told("create group", there.create_group("office", "").wait()),
        told("add member", there.add_member("office", "ann", true).wait()),
        told("remove member", there.remove_member("office", "ann").wait()),
        told("create key", there.create_key("ann", options).wait()),
        told("keys", there.keys_of("ann")),
        told("delete key", there.delete_key("ann", "KEY").wait()),
        told("tokens", there.tokens_of("root")),
        told("delete token", there.delete_token("root", "0123456789abcdef").wait()),
        told("set policy", there.set_policy("all", Some(policy)).wait()),
        told("policy", there.policy("all")),
        told("set policy", there.set_policy("all", None).wait()),
        told("public access", there.set_public_access(true).wait()),
        told("usage", there.usage(Whose::User("ann"))),
        told("usage", there.usage(Whose::Group("lab"))),
        told("delete user", there.delete_user("bob")),
    ];
    lines.push(told("log out", there.log_out(&koine_object::Token::new("kt1_none")).wait()));
    lines
}

fn rights(objects: &Objects) -> Vec<String> {
    let there = objects.identities();
    let list = AccessList::new(vec![Grant { to: Grantee::Everyone, rights: Grant::READ }]).unwrap();
    let policy = r#"{"Version":"2012-10-17","Statement":[{"Effect":"Allow","Principal":"*","Action":"s3:GetObject","Resource":"arn:aws:s3:::bucket/*"}]}"#;
    let asker = Asker::User("ann".to_owned());
    vec![
        told("change owner", there.change_owner("bucket", "ann", Some("lab")).wait()),
        told("change owner", there.change_owner("bucket", "ann", None).wait()),
        told("owner", there.owner("bucket")),
        told("set policy", there.set_bucket_policy("bucket", Some(policy)).wait()),
        told("policy", there.bucket_policy("bucket")),
        told("set policy", there.set_bucket_policy("bucket", None).wait()),
        told("set access", there.set_bucket_access("bucket", list.clone()).wait()),
        told("access", there.bucket_access("bucket")),
        told("set access", there.set_object_access(name("joined"), list).wait()),
        told("access", there.object_access(name("joined"))),
        told("explain", there.explain(&asker, Action::GetObject, "bucket", Some("joined"))),
        told("explain", there.explain(&Asker::Everyone, Action::ListBucket, "bucket", None)),
        told("delete group", there.delete_group("office")),
        told("delete buckets", objects.delete_buckets_of("lab")),
        told("delete group", there.delete_group("lab")),
    ]
}
