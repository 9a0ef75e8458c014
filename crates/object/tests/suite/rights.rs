//! Who may: one table of calls, driven for every kind of caller.

use koine_object::{
    BucketChange, BucketQuery, Caller, CompleteOptions, CompletedPart, CopiedMetadata, CopyOptions, DeleteOptions,
    ErrorKind, Expected, ListQuery, ObjectName, Objects, PartOptions, PutOptions, ReadCondition, Result, UploadId,
    UploadOptions, UploadQuery,
};

use crate::support::{put, store};

/// A call as the table has it: its name, and itself over `bucket`, which holds `old` and an upload of `joined`.
type Call = (&'static str, fn(&Objects, UploadId) -> Result<()>);

const OLD: ObjectName<'_> = ObjectName { bucket: "bucket", key: "old" };
const JOINED: ObjectName<'_> = ObjectName { bucket: "bucket", key: "joined" };

/// Every call.
const CALLS: &[Call] = &[
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
    let before = objects.kv().view().unwrap().version();
    for (name, call) in CALLS {
        assert_eq!(call(&everyone, upload).unwrap_err().kind(), ErrorKind::AccessDenied, "{name}");
    }
    assert_eq!(objects.kv().view().unwrap().version(), before);
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
