//! What was done to make the image. Times and ids come from a clock and numbers of the scene's own, so that it can be
//! played again.

use std::io::Write as _;
use std::os::unix::fs::OpenOptionsExt as _;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use koine_engine::device::{Device, Image, MemoryDevice};
use koine_engine::{Background, Engine, FormatOptions, Options};
use koine_env::{SeededRandom, SimulatedClock, Timestamp};
use koine_kv::{EngineKv, Kv};
use koine_object::{
    AccessList, AccessTimes, BucketChange, ByteRange, ChecksumAlgorithm, CompleteOptions, CompletedPart,
    ComposeOptions, ContentHeaders, CopyOptions, DeleteOptions, EditOptions, EtagKind, Expected, Grant, Grantee,
    GroupChange, Indexed, KeyOptions, MetadataChange, ObjectName, Objects, PartOptions, PutOptions, RootKey,
    SealingKeys, Secret, Segment, UploadId, UploadOptions, UserChange, Versioning,
};

/// The format that this program makes.
pub const FORMAT: u32 = 1;
/// Ann's.
pub const PASSWORD: &str = "a long password";
/// A key of ann's, which is sealed, and its secret.
pub const KEY: &str = "KEYOFANN";
/// See [`KEY`].
pub const SECRET: &str = "a secret of ann's";
/// A key of cleo's, which is not.
pub const PLAIN_KEY: &str = "KEYOFCLEO";
/// Root's.
pub const ROOT_SECRET: &str = "a secret of root";

const START: Timestamp = Timestamp(1_790_000_000_000_000_000);
/// Beside its record, and staged.
const SMALL: usize = 900;
const LARGE: usize = 90_000;

fn bytes(length: usize, seed: u8) -> Vec<u8> {
    (0..length).map(|at| ((at / 256) as u8).wrapping_add(seed)).collect()
}

/// Copies a file that only its owner may read.
pub fn copy_private(from: &Path, to: &Path) {
    let text = std::fs::read(from).unwrap_or_else(|error| panic!("{}: {error}", from.display()));
    let made = std::fs::OpenOptions::new().write(true).create_new(true).mode(0o600).open(to);
    made.and_then(|mut file| file.write_all(&text)).unwrap_or_else(|error| panic!("{}: {error}", to.display()));
}

/// Plays the scene; its sealing keys go to a file.
pub fn make(sealing: &Path) -> Image {
    let device = Arc::new(MemoryDevice::growable(4 << 20, crate::LENGTH_MAX));
    Engine::format(device.as_ref(), FormatOptions::default(), &SeededRandom::new(1)).unwrap();
    let options = Options { background: Background::Manual, ..Options::default() };
    let kv = Arc::new(EngineKv::open(Arc::clone(&device) as Arc<dyn Device>, options).unwrap());
    let clock = Arc::new(SimulatedClock::new(START));
    let objects = Objects::open(
        Arc::clone(&kv) as Arc<dyn Kv>,
        Arc::clone(&clock) as Arc<dyn koine_env::Clock>,
        Arc::new(SeededRandom::new(2)),
    )
    .unwrap();
    for step in [buckets, plain, edited, uploads, versions, indexed] {
        step(&objects);
        clock.advance(Duration::from_secs(60));
    }
    people(&objects, sealing);
    clock.advance(Duration::from_secs(60));
    copies(&objects);
    // A read, whose time is written apart from the record.
    clock.advance(Duration::from_secs(100_000));
    objects.get("read", "once").unwrap().bytes(0, 1).unwrap();
    objects.write_access_times().unwrap();
    drop(objects);
    kv.engine().close().unwrap();
    device.reopen();
    device.image()
}

fn name(key: &str) -> ObjectName<'_> {
    ObjectName::new("bucket", key)
}

fn put(objects: &Objects, to: ObjectName<'_>, body: &[u8], options: PutOptions) {
    let mut writer = objects.put(to.bucket, to.key, options).unwrap();
    writer.write(body).unwrap();
    writer.finish(&Expected::none()).wait().unwrap();
}

fn pairs(list: &[(&str, &str)]) -> Vec<(String, String)> {
    list.iter().map(|(name, text)| ((*name).to_owned(), (*text).to_owned())).collect()
}

fn buckets(objects: &Objects) {
    for bucket in ["bucket", "versioned", "suspended", "read", "empty"] {
        objects.create_bucket(bucket).wait().unwrap();
    }
    for bucket in ["bucket", "versioned", "suspended", "empty"] {
        let change = BucketChange { access_times: Some(AccessTimes::Off), ..BucketChange::default() };
        objects.set_bucket(bucket, change).wait().unwrap();
    }
    let change = BucketChange {
        quota_bytes: Some(Some(1 << 30)),
        quota_objects: Some(Some(1000)),
        metadata: Some(MetadataChange::Replace(pairs(&[("purpose", "all kinds of objects")]))),
        tags: Some(MetadataChange::Replace(pairs(&[("cost", "12"), ("empty", "")]))),
        ..BucketChange::default()
    };
    objects.set_bucket("bucket", change).wait().unwrap();
}

fn plain(objects: &Objects) {
    for (number, length) in [0, 1, SMALL, LARGE].into_iter().enumerate() {
        let etag = if number % 2 == 0 { EtagKind::Md5 } else { EtagKind::default() };
        let options = PutOptions { etag, ..PutOptions::default() };
        put(objects, name(&format!("plain-{number}")), &bytes(length, number as u8), options);
    }
    put(objects, name("large"), &bytes(1_300_000, 9), PutOptions::default());
    put(objects, name("a/b"), b"below a prefix", PutOptions::default());
    put(objects, name("a\u{0}\u{c0}\u{10ffff}"), b"a name of odd characters", PutOptions::default());
    let headers = ContentHeaders {
        content_type: Some("text/plain".to_owned()),
        cache_control: Some("no-cache".to_owned()),
        content_disposition: Some("inline".to_owned()),
        content_encoding: Some("identity".to_owned()),
        content_language: Some("de".to_owned()),
        expires: Some("Thu, 01 Dec 2033 16:00:00 GMT".to_owned()),
    };
    for algorithm in [
        ChecksumAlgorithm::Crc32,
        ChecksumAlgorithm::Crc32c,
        ChecksumAlgorithm::Crc64Nvme,
        ChecksumAlgorithm::Sha1,
        ChecksumAlgorithm::Sha256,
    ] {
        let options = PutOptions {
            headers: headers.clone(),
            metadata: pairs(&[("colour", "green"), ("name", "Grün")]),
            tags: pairs(&[("kind", "plain")]),
            checksum: Some(algorithm),
            etag: EtagKind::Md5,
            ..PutOptions::default()
        };
        put(objects, name(&format!("checksum-{algorithm:?}")), &bytes(SMALL, 20), options);
    }
}

fn edited(objects: &Objects) {
    put(objects, name("edited"), &bytes(LARGE, 30), PutOptions::default());
    let mut writer = objects.write_at(name("edited"), 50_000, EditOptions::default()).unwrap();
    writer.write(&bytes(30_000, 31)).unwrap();
    writer.finish(&Expected::none()).wait().unwrap();
    let mut writer = objects.append(name("edited"), EditOptions::default()).unwrap();
    writer.write(&bytes(SMALL, 32)).unwrap();
    writer.finish(&Expected::none()).wait().unwrap();
    objects.truncate(name("edited"), 85_000, EditOptions::default()).wait().unwrap();
    let range = Some(ByteRange { offset: 1000, length: 40_000 });
    let segments = [Segment { range, ..Segment::whole(name("edited")) }, Segment::whole(name("plain-3"))];
    objects.compose(&segments, name("composed"), ComposeOptions::default()).wait().unwrap();
}

fn put_part(objects: &Objects, key: &str, upload: UploadId, number: u32, body: &[u8]) {
    let mut writer = objects.put_part(name(key), upload, number, PartOptions::default()).unwrap();
    writer.write(body).unwrap();
    writer.finish(&Expected::none()).wait().unwrap();
}

/// What joins an upload from all its parts.
pub fn all_parts(objects: &Objects, name: ObjectName<'_>, upload: UploadId) -> CompleteOptions {
    let parts = objects.list_parts(name, upload, 0, 1000).unwrap().parts;
    let parts = parts.into_iter().map(|part| CompletedPart {
        number: part.number,
        etag: part.etag.to_string(),
        checksums: part.checksums,
    });
    CompleteOptions { parts: parts.collect(), ..CompleteOptions::default() }
}

fn uploads(objects: &Objects) {
    for (key, etag) in [("joined", EtagKind::Md5), ("joined-drawn", EtagKind::default()), ("under way", EtagKind::Md5)]
    {
        let options = UploadOptions {
            headers: ContentHeaders { content_type: Some("x/y".to_owned()), ..ContentHeaders::default() },
            metadata: pairs(&[("from", "parts")]),
            checksum: Some((ChecksumAlgorithm::Crc32c, None)),
            etag,
        };
        let upload = objects.create_upload("bucket", key, options).wait().unwrap();
        // Only the last may be shorter than 5 MiB.
        put_part(objects, key, upload, 3, &bytes(LARGE, 40));
        if key != "under way" {
            objects.complete_upload(name(key), upload, all_parts(objects, name(key), upload)).wait().unwrap();
        }
    }
}

fn versions(objects: &Objects) {
    for (bucket, last) in [("versioned", Versioning::Enabled), ("suspended", Versioning::Suspended)] {
        let named = |key| ObjectName::new(bucket, key);
        put(objects, named("before"), b"put before versions were kept", PutOptions::default());
        objects.set_versioning(bucket, Versioning::Enabled).wait().unwrap();
        for seed in 0..3 {
            put(objects, named("kept"), &bytes(LARGE + usize::from(seed), seed), PutOptions::default());
        }
        put(objects, named("before"), b"put since", PutOptions::default());
        put(objects, named("deleted"), b"short", PutOptions::default());
        objects.delete(bucket, "deleted", DeleteOptions::default()).wait().unwrap();
        objects.set_versioning(bucket, last).wait().unwrap();
        put(objects, named("kept"), &bytes(SMALL, 50), PutOptions::default());
    }
}

fn indexed(objects: &Objects) {
    objects.add_index("versioned", Indexed::Metadata("colour".to_owned())).unwrap();
    objects.add_index("versioned", Indexed::Tag("kind".to_owned())).unwrap();
    for (key, colour) in [("kept", "red"), ("second", "green"), ("third", "blue")] {
        let metadata = pairs(&[("colour", colour)]);
        let options = PutOptions { metadata, tags: pairs(&[("kind", "indexed")]), ..PutOptions::default() };
        put(objects, ObjectName::new("versioned", key), b"found by its colour", options);
    }
    put(objects, ObjectName::new("read", "once"), &bytes(SMALL, 60), PutOptions::default());
}

fn copies(objects: &Objects) {
    let grant = Grant { to: Grantee::EveryUser, rights: Grant::READ };
    put(objects, name("listed"), b"for every user", PutOptions::default());
    objects.identities().set_public_access(true).wait().unwrap();
    objects.identities().set_object_access(name("listed"), AccessList::new(vec![grant]).unwrap()).wait().unwrap();
    objects.identities().set_public_access(false).wait().unwrap();
    objects.copy(name("large"), name("copied"), CopyOptions::default()).wait().unwrap();
    objects.snapshot_bucket("bucket", "before").wait().unwrap();
    objects.branch_bucket("bucket", "branch").wait().unwrap();
    put(objects, ObjectName::new("branch", "large"), &bytes(LARGE, 70), PutOptions::default());
    objects.delete("bucket", "plain-1", DeleteOptions::default()).wait().unwrap();
}

fn people(objects: &Objects, sealing: &Path) {
    let identities = objects.identities();
    identities.create_group("lab", "where ann works").wait().unwrap();
    identities.create_group("office", "").wait().unwrap();
    identities.create_user("lab", "ann", Some(PASSWORD)).unwrap();
    identities.create_user("lab", "bob", None).unwrap();
    identities.create_user("office", "cleo", None).unwrap();
    // Made before there were sealing keys: its secret stands as it is.
    let given = |key: &str, secret: &str| KeyOptions {
        given: Some((key.to_owned(), Secret::new(secret))),
        description: Some("of a program".to_owned()),
        ..KeyOptions::default()
    };
    identities.create_key("cleo", given(PLAIN_KEY, "a secret of cleo's")).wait().unwrap();
    let sealed = objects.with_sealing_keys(SealingKeys::open(sealing, Some(&SeededRandom::new(3))).unwrap());
    let identities = sealed.identities();
    let policy = r#"{"Version":"2012-10-17","Statement":[{"Effect":"Allow","Action":"s3:GetObject","Resource":"*"}]}"#;
    let narrowed = KeyOptions { policy: Some(policy.to_owned()), ..given("NARROWED", "another secret") };
    let passing = KeyOptions { life: Some(Duration::from_secs(1 << 30)), ..given("PASSING", "a third secret") };
    for options in [given(KEY, SECRET), narrowed, passing] {
        identities.create_key("ann", options).wait().unwrap();
    }
    let root = RootKey { access_key: "ROOTKEY".to_owned(), secret: ROOT_SECRET.to_owned() };
    sealed.set_root_key_if_absent(&root).unwrap();
    identities.log_in("ann", PASSWORD, Duration::from_secs(2_500_000)).unwrap();
    identities.set_policy("readers", Some(policy)).wait().unwrap();
    let change = GroupChange {
        policies: Some(vec!["readers".to_owned()]),
        quota_bytes: Some(Some(1 << 40)),
        ..GroupChange::default()
    };
    identities.set_group("lab", change).wait().unwrap();
    let change = UserChange {
        uid: Some(1000),
        display: Some(Some("Ann".to_owned())),
        quota_objects: Some(Some(50)),
        ..UserChange::default()
    };
    identities.set_user("ann", change).wait().unwrap();
    let change = UserChange { administrator: Some(true), ..UserChange::default() };
    identities.set_user("bob", change).wait().unwrap();
    identities.add_member("office", "ann", true).wait().unwrap();
    let ann = sealed.as_caller(identities.by_access_key(KEY).unwrap().0);
    ann.create_bucket("of-ann").wait().unwrap();
    put(&ann, ObjectName::new("of-ann", "hers"), &bytes(LARGE, 80), PutOptions::default());
    identities.change_owner("empty", "cleo", Some("office")).wait().unwrap();
    let policy = policy
        .replace("\"Action\"", "\"Principal\":{\"AWS\":\"arn:aws:iam:::user/cleo\"},\"Action\"")
        .replace("\"*\"", "\"arn:aws:s3:::of-ann/*\"");
    identities.set_bucket_policy("of-ann", Some(&policy)).wait().unwrap();
    let group = identities.group("office").unwrap().id;
    let grants = [Grant { to: Grantee::Group(group), rights: Grant::READ }];
    identities.set_bucket_access("of-ann", AccessList::new(grants.to_vec()).unwrap()).wait().unwrap();
}
