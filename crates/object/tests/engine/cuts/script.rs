//! The script: every call that changes something, once at least, each with what makes it do all that it can.

use std::io::{Seek as _, SeekFrom, Write as _};
use std::time::Duration;

use koine_env::SeededRandom;
use koine_object::{
    AccessList, AttributeChange, BucketChange, ByteRange, CompleteOptions, CompletedPart, ComposeOptions, CopyOptions,
    CopyPrefixOptions, DeleteOptions, EditOptions, ExchangeOptions, Expected, FileMode, GroupChange, Indexed,
    KeyOptions, MetadataChange, ObjectName, Objects, PartOptions, PutOptions, ReadCondition, RenameOptions, RootKey,
    SealingKeys, Segment, StageOptions, UploadId, UploadOptions, UserChange, VersionQuery, VersionSummary, Versioning,
};

use super::Noting;
use crate::support::{append, bytes, put, put_into, write_at};

fn name(key: &str) -> ObjectName<'_> {
    ObjectName::new("bucket", key)
}

fn other(key: &str) -> ObjectName<'_> {
    ObjectName::new("other", key)
}

/// A body that lies beside its record, and one that is staged.
const SMALL: usize = 900;
const LARGE: usize = 90_000;

pub fn every_call(objects: &Objects, noting: &Noting) {
    let steps =
        [puts_and_edits, names, uploads, versions, searched, read, spaces, many, identities, sealing, deletions];
    for step in steps {
        step(objects, noting);
        // So that what was committed also lies in the tree, and what was freed is used again.
        noting.store.engine().checkpoint().unwrap();
    }
}

fn puts_and_edits(objects: &Objects, noting: &Noting) {
    noting.begin("create_bucket");
    objects.create_bucket("bucket").wait().unwrap();
    objects.create_bucket("other").wait().unwrap();
    noting.begin("put");
    for (number, length) in [0, 1, SMALL, LARGE].into_iter().enumerate() {
        put(objects, &format!("key-{number}"), &bytes(length, number as u64));
    }
    noting.begin("put over another");
    put(objects, "key-1", &bytes(LARGE, 9));
    put(objects, "key-3", &bytes(SMALL, 10));
    put(objects, "key-0", b"");
    noting.begin("append");
    append(objects, "key-1", &bytes(LARGE, 11));
    append(objects, "new", b"made by an append");
    noting.begin("write_at");
    write_at(objects, "key-1", 50_000, &bytes(30_000, 12)).unwrap();
    write_at(objects, "key-2", 200_000, b"past the end").unwrap();
    noting.begin("truncate");
    objects.truncate(name("key-1"), 60_001, EditOptions::default()).wait().unwrap();
    objects.truncate(name("key-0"), 9_000, EditOptions::default()).wait().unwrap();
    noting.begin("write_copy");
    let range = ByteRange { offset: 1_000, length: 20_000 };
    objects.write_copy(name("key-1"), range, name("key-3"), 500, EditOptions::default()).wait().unwrap();
    noting.begin("compose");
    let part = Segment { range: Some(range), ..Segment::whole(name("key-1")) };
    let segments = [part, Segment::whole(name("key-3")), Segment::whole(name("new"))];
    objects.compose(&segments, name("composed"), ComposeOptions::default()).wait().unwrap();
    objects.compose(&segments[1..], name("composed"), ComposeOptions::default()).wait().unwrap();
    noting.begin("set_attributes");
    let set = vec![("colour".to_owned(), "green".to_owned())];
    let tags = Some(MetadataChange::Merge { set, remove: Vec::new() });
    let change = AttributeChange { metadata: tags.clone(), tags, mode: Some(0o640), ..AttributeChange::default() };
    objects.set_attributes(name("composed"), change, EditOptions::default()).wait().unwrap();
    noting.begin("open_file");
    let mut file = objects.open_file(name("key-2"), FileMode::ReadWrite, PutOptions::default()).unwrap();
    file.seek(SeekFrom::Start(10)).unwrap();
    file.write_all(b"in the middle").unwrap();
    file.close().unwrap();
    let mut file = objects.open_file(name("file"), FileMode::Create, PutOptions::default()).unwrap();
    file.write_all(&bytes(LARGE, 13)).unwrap();
    file.close().unwrap();
}

fn names(objects: &Objects, noting: &Noting) {
    noting.begin("copy");
    objects.copy(name("key-1"), name("copy"), CopyOptions::default()).wait().unwrap();
    objects.copy(name("key-1"), other("copy"), CopyOptions::default()).wait().unwrap();
    objects.copy(name("key-2"), other("copy"), CopyOptions::default()).wait().unwrap();
    noting.begin("rename");
    objects.rename(name("copy"), name("renamed"), RenameOptions::default()).wait().unwrap();
    objects.rename(name("renamed"), name("file"), RenameOptions::default()).wait().unwrap();
    objects.rename(name("file"), other("moved"), RenameOptions::default()).wait().unwrap();
    objects.rename(name("composed"), other("moved"), RenameOptions::default()).wait().unwrap();
    noting.begin("exchange");
    objects.exchange(name("key-1"), name("key-2"), ExchangeOptions::default()).wait().unwrap();
    objects.exchange(name("key-1"), other("moved"), ExchangeOptions::default()).wait().unwrap();
    noting.begin("rename_prefix");
    objects.rename_prefix("bucket", "key-", "longer/key-").wait().unwrap();
    noting.begin("copy_prefix");
    objects.copy_prefix(name("longer/"), other("copied/"), CopyPrefixOptions::default()).unwrap();
    noting.begin("delete");
    objects.delete("bucket", "new", DeleteOptions::default()).wait().unwrap();
    objects.delete("bucket", "not there", DeleteOptions::default()).wait().unwrap();
    noting.begin("delete_many");
    let keys = ["copied/key-0", "copied/key-2", "not there"].map(str::to_owned);
    objects.delete_many("other", &keys).wait().unwrap();
}

fn put_part(objects: &Objects, key: &str, upload: UploadId, number: u32, length: usize) -> CompletedPart {
    let mut writer = objects.put_part(name(key), upload, number, PartOptions::default()).unwrap();
    writer.write(&bytes(length, u64::from(number))).unwrap();
    let part = writer.finish(&Expected::none()).wait().unwrap();
    CompletedPart { number, etag: part.etag.to_string(), checksums: Vec::new() }
}

fn begin_upload(objects: &Objects, noting: &Noting, key: &str) -> UploadId {
    noting.begin("create_upload");
    objects.create_upload("bucket", key, UploadOptions::default()).wait().unwrap()
}

fn uploads(objects: &Objects, noting: &Noting) {
    for round in 0..2 {
        let upload = begin_upload(objects, noting, "joined");
        noting.begin("put_part");
        put_part(objects, "joined", upload, 1, LARGE);
        let part = put_part(objects, "joined", upload, 1, LARGE + round);
        put_part(objects, "joined", upload, 7, SMALL);
        noting.begin("copy_part");
        let range = Some(ByteRange { offset: 3, length: 20_000 });
        let copied =
            objects.copy_part(name("longer/key-2"), range, &ReadCondition::default(), name("joined"), upload, 7);
        copied.wait().unwrap();
        // The second joins over the first. What is not named goes.
        noting.begin("complete_upload");
        let options = CompleteOptions { parts: vec![part], ..CompleteOptions::default() };
        objects.complete_upload(name("joined"), upload, options).wait().unwrap();
    }
    noting.begin("move of a joined object");
    objects.rename(name("joined"), other("joined"), RenameOptions::default()).wait().unwrap();
    objects.copy(other("joined"), name("joined"), CopyOptions::default()).wait().unwrap();
    objects.exchange(name("longer/key-3"), other("joined"), ExchangeOptions::default()).wait().unwrap();
    noting.begin("edit of a joined object");
    objects.truncate(name("longer/key-3"), 70_000, EditOptions::default()).wait().unwrap();
    let upload = begin_upload(objects, noting, "given up");
    noting.begin("put_part");
    (1..4).for_each(|number| drop(put_part(objects, "given up", upload, number, SMALL)));
    noting.begin("abort_upload");
    objects.abort_upload(name("given up"), upload).wait().unwrap();
    let upload = begin_upload(objects, noting, "under way");
    noting.begin("put_part");
    put_part(objects, "under way", upload, 1, LARGE);
}

fn versions(objects: &Objects, noting: &Noting) {
    let named = |key| ObjectName::new("versioned", key);
    let put = |key: &str, length| drop(put_into(objects, "versioned", key, &bytes(length, length as u64)));
    objects.create_bucket("versioned").wait().unwrap();
    put("first", SMALL);
    noting.begin("set_versioning");
    objects.set_versioning("versioned", Versioning::Enabled).wait().unwrap();
    noting.begin("put over a version");
    [LARGE, SMALL, LARGE].into_iter().for_each(|length| put("first", length));
    put("second", LARGE);
    noting.begin("edit of a version");
    let mut writer = objects.append(named("second"), EditOptions::default()).unwrap();
    writer.write(&bytes(SMALL, 3)).unwrap();
    writer.finish(&Expected::none()).wait().unwrap();
    noting.begin("delete under a marker");
    objects.delete("versioned", "first", DeleteOptions::default()).wait().unwrap();
    let all = VersionQuery { limit: 100, ..VersionQuery::default() };
    let first = |wanted: fn(&VersionSummary) -> bool| {
        let listed = objects.list_versions("versioned", &all).unwrap().versions;
        listed.into_iter().find(|version| version.key == "first" && wanted(version)).unwrap().id
    };
    noting.begin("copy of an older version");
    let source_version = Some(first(|version| version.object.is_some()));
    let options = CopyOptions { source_version, ..CopyOptions::default() };
    objects.copy(named("first"), named("third"), options).wait().unwrap();
    noting.begin("delete_version");
    objects.delete_version(named("first"), first(|version| version.object.is_some())).wait().unwrap();
    objects.delete_version(named("first"), first(|version| version.object.is_none())).wait().unwrap();
    objects.delete_version(named("first"), first(|version| version.newest)).wait().unwrap();
    noting.begin("move of versions");
    objects.rename(named("second"), named("first"), RenameOptions::default()).wait().unwrap();
    objects.rename_prefix("versioned", "f", "moved/f").wait().unwrap();
    noting.begin("suspended");
    objects.set_versioning("versioned", Versioning::Suspended).wait().unwrap();
    [LARGE, SMALL].into_iter().for_each(|length| put("third", length));
    objects.delete("versioned", "third", DeleteOptions::default()).wait().unwrap();
}

fn searched(objects: &Objects, noting: &Noting) {
    let put = |key: &str, colour: &str| {
        let pairs = vec![("colour".to_owned(), colour.to_owned())];
        let options = PutOptions { metadata: pairs.clone(), tags: pairs, ..PutOptions::default() };
        let mut writer = objects.put("versioned", key, options).unwrap();
        writer.write(&bytes(SMALL, 5)).unwrap();
        writer.finish(&Expected::none()).wait().unwrap();
    };
    noting.begin("put");
    [("a", "red"), ("b", "green")].into_iter().for_each(|(key, colour)| put(key, colour));
    let over = [Indexed::Metadata("colour".to_owned()), Indexed::Tag("colour".to_owned())];
    for of in &over {
        noting.begin("add_index");
        objects.add_index("versioned", of.clone()).unwrap();
    }
    noting.begin("changes of what is indexed");
    [("b", "red"), ("c", "blue")].into_iter().for_each(|(key, colour)| put(key, colour));
    objects.rename_prefix("versioned", "b", "d").wait().unwrap();
    objects.delete("versioned", "a", DeleteOptions::default()).wait().unwrap();
    noting.begin("drop_index");
    objects.drop_index("versioned", over[1].clone()).wait().unwrap();
}

fn read(objects: &Objects, noting: &Noting) {
    noting.begin("set_bucket");
    let pairs = vec![("purpose".to_owned(), "to be read".to_owned())];
    let (metadata, tags) = (Some(MetadataChange::Replace(pairs.clone())), Some(MetadataChange::Replace(pairs)));
    objects.set_bucket("versioned", BucketChange { metadata, tags, ..BucketChange::default() }).wait().unwrap();
    noting.begin("write_access_times");
    ["c", "d"].into_iter().for_each(|key| drop(objects.get("versioned", key).unwrap().bytes(0, 1).unwrap()));
    objects.write_access_times().unwrap();
    noting.begin("delete of what was read");
    objects.delete("versioned", "c", DeleteOptions::default()).wait().unwrap();
}

fn spaces(objects: &Objects, noting: &Noting) {
    noting.begin("set_bucket");
    let change = BucketChange { quota_bytes: Some(Some(1 << 40)), ..BucketChange::default() };
    objects.set_bucket("bucket", change).wait().unwrap();
    noting.begin("snapshot_bucket");
    objects.snapshot_bucket("bucket", "before").wait().unwrap();
    objects.snapshot_bucket("bucket", "short").wait().unwrap();
    noting.begin("branch_bucket");
    objects.branch_bucket("bucket", "branch").wait().unwrap();
    objects.branch_bucket("bucket@before", "branch-of-snapshot").wait().unwrap();
    noting.begin("put into a branch");
    put_into(objects, "branch", "longer/key-1", &bytes(LARGE, 20)).unwrap();
    noting.begin("put");
    put(objects, "longer/key-1", &bytes(LARGE, 21));
    noting.begin("restore_bucket");
    objects.restore_bucket("bucket", "before").wait().unwrap();
    noting.begin("delete_snapshot");
    objects.delete_snapshot("bucket", "short").wait().unwrap();
    noting.begin("purge_bucket");
    objects.purge_bucket("branch").wait().unwrap();
    noting.begin("delete_bucket");
    objects.delete_bucket("branch").wait().unwrap();
    noting.begin("delete_bucket_and_snapshots");
    objects.snapshot_bucket("branch-of-snapshot", "kept").wait().unwrap();
    objects.purge_bucket("branch-of-snapshot").wait().unwrap();
    objects.delete_bucket_and_snapshots("branch-of-snapshot").wait().unwrap();
}

fn many(objects: &Objects, noting: &Noting) {
    noting.begin("transact");
    let body = |length| {
        let mut writer = objects.stage(StageOptions::default()).unwrap();
        writer.write(&bytes(length, 30)).unwrap();
        writer.finish(&Expected::none()).unwrap()
    };
    let (small, large) = (body(SMALL), body(LARGE));
    let edit = EditOptions::default();
    let changes = |txn: &mut koine_object::Transaction<'_>| {
        txn.put(name("together"), &large, &PutOptions::default())?;
        txn.append(name("longer/key-0"), &small, &edit)?;
        txn.truncate(name("longer/key-1"), 7, &edit)?;
        txn.rename(name("longer/key-2"), other("from a transaction"), &RenameOptions::default())?;
        txn.copy(name("together"), name("together too"), &CopyOptions::default())?;
        txn.exchange(name("together"), name("longer/key-0"))?;
        txn.compose(&[Segment::whole(name("together"))], name("joined"), &ComposeOptions::default())?;
        txn.delete(other("copy"), &DeleteOptions::default())?;
        Ok(())
    };
    objects.transact(None, changes).unwrap();
}

fn identities(objects: &Objects, noting: &Noting) {
    let identities = objects.identities();
    noting.begin("create_group");
    ["lab", "office"].into_iter().for_each(|group| drop(identities.create_group(group, "people").wait().unwrap()));
    noting.begin("create_user");
    identities.create_user("lab", "ann", Some("a long password")).unwrap();
    identities.create_user("lab", "bob", None).unwrap();
    identities.create_user("office", "cleo", None).unwrap();
    noting.begin("set_password");
    identities.set_password("bob", "another password").unwrap();
    noting.begin("log_in");
    let life = Duration::from_secs(3600);
    let [_, login] = [0, 1].map(|_| identities.log_in("ann", "a long password", life).unwrap());
    noting.begin("log_out");
    identities.log_out(&login.token).wait().unwrap();
    noting.begin("create_key");
    let [(key, _), (gone, _)] =
        ["ann", "cleo"].map(|user| identities.create_key(user, KeyOptions::default()).wait().unwrap());
    noting.begin("delete_key");
    identities.delete_key("cleo", &gone).wait().unwrap();
    noting.begin("set_policy");
    let policy = r#"{"Version":"2012-10-17","Statement":[{"Effect":"Allow","Action":"s3:GetObject","Resource":"*"}]}"#;
    identities.set_policy("readers", Some(policy)).wait().unwrap();
    noting.begin("set_user");
    let policies = Some(vec!["readers".to_owned()]);
    let change = UserChange { uid: Some(1000), policies: policies.clone(), ..UserChange::default() };
    identities.set_user("ann", change).wait().unwrap();
    let renamed = UserChange { name: Some("robert".to_owned()), ..UserChange::default() };
    identities.set_user("bob", renamed).wait().unwrap();
    noting.begin("set_group");
    let change = GroupChange { policies, name: Some("offices".to_owned()), ..GroupChange::default() };
    identities.set_group("office", change).wait().unwrap();
    noting.begin("add_member");
    for user in ["robert", "ann"] {
        identities.add_member("offices", user, user == "ann").wait().unwrap();
    }
    noting.begin("remove_member");
    identities.remove_member("offices", "robert").wait().unwrap();
    noting.begin("change_owner");
    let ann = objects.as_caller(identities.by_access_key(&key).unwrap().0);
    ["of-ann", "given"].into_iter().for_each(|bucket| drop(ann.create_bucket(bucket).wait().unwrap()));
    identities.change_owner("given", "ann", Some("offices")).wait().unwrap();
    put_into(&ann, "of-ann", "hers", &bytes(LARGE, 40)).unwrap();
    objects.snapshot_bucket("of-ann", "kept").wait().unwrap();
    noting.begin("set_bucket_policy");
    let policy = policy
        .replace("\"Action\"", "\"Principal\":{\"AWS\":\"arn:aws:iam:::user/cleo\"},\"Action\"")
        .replace("\"*\"", "\"arn:aws:s3:::of-ann/*\"");
    identities.set_bucket_policy("of-ann", Some(&policy)).wait().unwrap();
    noting.begin("set_bucket_access");
    identities.set_bucket_access("of-ann", AccessList::default()).wait().unwrap();
    noting.begin("set_object_access");
    identities.set_object_access(ObjectName::new("of-ann", "hers"), AccessList::default()).wait().unwrap();
    noting.begin("set_public_access");
    identities.set_public_access(true).wait().unwrap();
    noting.begin("set_root_key_if_absent");
    let root = RootKey { access_key: "root".to_owned(), secret: "a secret of root".to_owned() };
    objects.set_root_key_if_absent(&root).unwrap();
    noting.begin("reset_root");
    identities.reset_root().unwrap();
}

fn sealing(objects: &Objects, noting: &Noting) {
    let folder = tempfile::tempdir().unwrap();
    let open = |name: &str| SealingKeys::open(&folder.path().join(name), Some(&SeededRandom::new(5))).unwrap();
    let sealed = objects.with_sealing_keys(open("kept")).identities();
    noting.begin("create_key");
    sealed.create_key("cleo", KeyOptions::default()).wait().unwrap();
    for _ in 0..2 {
        noting.begin("rotate_sealing_key");
        sealed.rotate_sealing_key().unwrap();
    }
    noting.begin("forget_lost_secrets");
    assert!(objects.with_sealing_keys(open("another")).identities().forget_lost_secrets().unwrap() > 0);
    noting.begin("delete_buckets_of");
    objects.delete_buckets_of("lab").unwrap();
}

fn deletions(objects: &Objects, noting: &Noting) {
    let identities = objects.identities();
    noting.begin("delete_user");
    identities.delete_user("robert").unwrap();
    noting.begin("delete_group");
    identities.delete_group("lab").unwrap();
    noting.begin("delete_group of one user");
    let change = UserChange { policies: Some(Vec::new()), ..UserChange::default() };
    identities.set_user("cleo", change).wait().unwrap();
    noting.begin("purge_bucket");
    objects.purge_bucket("bucket").wait().unwrap();
}
