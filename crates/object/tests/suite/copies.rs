//! Copies: what docs/semantics.md says of them.

use crate::support::{bytes, get, keys_in_bucket, kind, put, put_with, store};
use koine_object::{
    ChecksumAlgorithm, CompleteOptions, CompletedPart, ContentHeaders, CopiedMetadata, CopyOptions, ErrorKind,
    EtagMatch, Expected, ObjectInfo, ObjectName, Objects, PartOptions, PutCondition, ReadCondition, Result,
    UploadOptions,
};

fn copy(objects: &Objects, from: &str, to: &str, options: CopyOptions) -> Result<ObjectInfo> {
    objects.copy(ObjectName::new("bucket", from), ObjectName::new("bucket", to), options).wait()
}

fn replaced() -> CopiedMetadata {
    CopiedMetadata::Replace {
        headers: ContentHeaders { content_type: Some("new/type".into()), ..ContentHeaders::default() },
        metadata: vec![("new".into(), "value".into())],
    }
}

#[test]
fn a_copy_shares_bytes_and_nothing_else() {
    let objects = store();
    for length in [0, 10, 300_000] {
        let body = bytes(length, 1);
        let source = put(&objects, "source", &body);
        put(&objects, "target", b"replaced");
        let target = copy(&objects, "source", "target", CopyOptions::default()).unwrap();
        assert_ne!(source.id, target.id);
        assert_eq!((&source.etag, &source.checksums), (&target.etag, &target.checksums));
        put(&objects, "source", b"changed");
        assert_eq!(get(&objects, "target").unwrap(), body);
        assert_eq!(keys_in_bucket(&objects), 4);
    }
}

#[test]
fn a_copy_goes_between_buckets() {
    let objects = store();
    objects.create_bucket("other").wait().unwrap();
    put(&objects, "key", &bytes(100_000, 1));
    let (from, to) = (ObjectName::new("bucket", "key"), ObjectName::new("other", "key"));
    objects.copy(from, to, CopyOptions::default()).wait().unwrap();
    let reader = objects.get("other", "key").unwrap();
    assert_eq!(reader.bytes(0, usize::MAX).unwrap(), bytes(100_000, 1));
    let missing = ObjectName::new("missing", "key");
    assert_eq!(kind(objects.copy(from, missing, CopyOptions::default()).wait()), ErrorKind::NoSuchBucket);
    assert_eq!(kind(objects.copy(missing, from, CopyOptions::default()).wait()), ErrorKind::NoSuchBucket);
    assert_eq!(kind(copy(&objects, "missing", "x", CopyOptions::default())), ErrorKind::NoSuchKey);
}

#[test]
fn a_copy_onto_itself_needs_a_change() {
    let objects = store();
    let body = bytes(200_000, 1);
    put(&objects, "key", &body);
    assert_eq!(kind(copy(&objects, "key", "key", CopyOptions::default())), ErrorKind::InvalidRequest);
    let info = copy(&objects, "key", "key", CopyOptions { metadata: replaced(), ..CopyOptions::default() }).unwrap();
    assert_eq!(info.headers.content_type.as_deref(), Some("new/type"));
    assert_eq!(info.metadata, [("new".to_owned(), "value".to_owned())]);
    assert_eq!(get(&objects, "key").unwrap(), body);
    assert_eq!(keys_in_bucket(&objects), 2);
}

#[test]
fn a_copy_keeps_or_gets_the_checksum_asked_for() {
    let objects = store();
    let body = bytes(2_500_000, 1);
    put(&objects, "source", &body);
    for algorithm in ChecksumAlgorithm::ALL {
        let options = CopyOptions { checksum: Some(algorithm), ..CopyOptions::default() };
        let copied = copy(&objects, "source", "target", options).unwrap();
        let whole = put_with(&objects, "whole", &body, crate::support::options(algorithm)).unwrap();
        assert_eq!(copied.checksums, whole.checksums);
    }
}

#[test]
fn conditions_hold_on_source_and_target() {
    let objects = store();
    let info = put(&objects, "source", b"x");
    put(&objects, "target", b"y");
    let source = |source_condition| CopyOptions { source_condition, ..CopyOptions::default() };
    let same = Some(EtagMatch::parse(&info.etag.to_string()));
    let failing = source(ReadCondition { if_none_match: same.clone(), ..ReadCondition::default() });
    assert_eq!(kind(copy(&objects, "source", "target", failing)), ErrorKind::PreconditionFailed);
    let target = CopyOptions { condition: PutCondition::absent(), ..CopyOptions::default() };
    assert_eq!(kind(copy(&objects, "source", "target", target.clone())), ErrorKind::PreconditionFailed);
    copy(&objects, "source", "fresh", target).unwrap();
    let holding = source(ReadCondition { if_match: same, ..ReadCondition::default() });
    copy(&objects, "source", "target", holding).unwrap();
    assert_eq!(get(&objects, "target").unwrap(), b"x");
}

#[test]
fn a_copy_of_a_joined_object_has_its_etag_and_no_parts() {
    let objects = store();
    let name = ObjectName::new("bucket", "source");
    let id = objects.create_upload("bucket", "source", UploadOptions::default()).wait().unwrap();
    let mut writer = objects.put_part(name, id, 1, PartOptions::default()).unwrap();
    writer.write(b"body").unwrap();
    let part = writer.finish(&Expected::none()).wait().unwrap();
    let parts = vec![CompletedPart { number: 1, etag: part.etag.to_string(), checksums: Vec::new() }];
    let options = CompleteOptions { parts, ..CompleteOptions::default() };
    let source = objects.complete_upload(name, id, options).wait().unwrap();
    let copied = copy(&objects, "source", "target", CopyOptions::default()).unwrap();
    assert_eq!((&copied.etag, copied.part_count), (&source.etag, None));
    assert!(copied.etag.to_string().ends_with("-1"));
    assert!(objects.get("bucket", "target").unwrap().parts().unwrap().is_empty());
    // Five keys: two names, two values, and the table of the source's parts.
    assert_eq!(keys_in_bucket(&objects), 5);
}
