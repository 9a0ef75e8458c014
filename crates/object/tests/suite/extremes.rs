//! Numbers at their limits in every call that takes some: each is answered, and what is there stays.

use std::io::{Read, Seek, SeekFrom, Write};

use koine_env::Timestamp;
use koine_object::{
    AttributeChange, BucketChange, ByteRange, CompleteOptions, CompletedPart, ComposeOptions, EditOptions, Expected,
    FileMode, ListQuery, ObjectName, Objects, PartOptions, PutOptions, ReadCondition, Segment, UploadOptions,
    UploadQuery, VersionId, VersionQuery,
};

use crate::support::{get, put, store};

/// What overflows when something is added, doubled, or taken as signed, and what just does not.
const LARGE: [u64; 7] =
    [u64::MAX, u64::MAX - 1, u64::MAX - 4, i64::MAX as u64, i64::MAX as u64 + 1, u32::MAX as u64, (1 << 48) + 1];

fn key(key: &str) -> ObjectName<'_> {
    ObjectName::new("bucket", key)
}

/// Whatever it says: `key` is as it was, and calls are answered.
fn stands(objects: &Objects, what: &str) {
    assert_eq!(get(objects, "key").unwrap(), b"body", "{what}");
}

#[test]
fn numbers_of_edits_and_reads_go_to_their_limits() {
    let objects = store();
    put(&objects, "key", b"body");
    let reader = objects.get("bucket", "key").unwrap();
    for large in LARGE {
        let mut buffer = [0; 10];
        assert_eq!(reader.read(large, &mut buffer).unwrap(), 0);
        assert!(reader.bytes_now(large, usize::MAX).unwrap().is_none_or(|bytes| bytes.is_empty()));
        assert!(reader.bytes(large, usize::MAX).unwrap().is_empty());
        let write = |length: Option<u64>| {
            let options = EditOptions { length, ..EditOptions::default() };
            let mut writer = objects.write_at(key("key"), large, options)?;
            writer.write(b"12345")?;
            writer.finish(&Expected::none()).wait()
        };
        if large > 1 << 53 {
            assert!(write(None).is_err(), "{large}");
            assert!(objects.truncate(key("key"), large, EditOptions::default()).wait().is_err(), "{large}");
        }
        assert!(write(Some(large)).is_err());
        for range in LARGE.map(|length| ByteRange { offset: large, length }) {
            for range in [range, ByteRange { offset: 0, ..range }, ByteRange { offset: 3, ..range }] {
                let copied = objects.write_copy(key("key"), range, key("other"), large, EditOptions::default()).wait();
                assert!(copied.is_err(), "{range:?} to {large}");
                let segment = Segment { range: Some(range), ..Segment::whole(key("key")) };
                let joined = [Segment::whole(key("key")), segment.clone(), segment];
                assert!(objects.compose(&joined, key("other"), ComposeOptions::default()).wait().is_err(), "{range:?}");
            }
        }
        stands(&objects, "edits");
    }
}

#[test]
fn numbers_of_uploads_and_listings_go_to_their_limits() {
    let objects = store();
    put(&objects, "key", b"body");
    let upload = objects.create_upload("bucket", "parts", UploadOptions::default()).wait().unwrap();
    for large in LARGE {
        let number = u32::try_from(large).unwrap_or(u32::MAX);
        let limit = usize::try_from(large).unwrap_or(usize::MAX);
        assert!(objects.put_part(key("parts"), upload, number, PartOptions::default()).is_err());
        let length = Some(large);
        let part = objects.put_part(key("parts"), upload, 1, PartOptions { length, ..PartOptions::default() });
        assert!(part.and_then(|part| part.finish(&Expected::none()).wait()).is_err());
        let whole = objects.put("bucket", "key", PutOptions { length, ..PutOptions::default() });
        assert!(whole.and_then(|writer| writer.finish(&Expected::none()).wait()).is_err());
        for range in [ByteRange { offset: large, length: large }, ByteRange { offset: 1, length: large }] {
            let condition = ReadCondition::default();
            let copied = objects.copy_part(key("key"), Some(range), &condition, key("parts"), upload, 1).wait();
            assert!(copied.is_err(), "{range:?}");
        }
        let listed = objects.list_parts(key("parts"), upload, number, limit).unwrap();
        assert!(listed.parts.is_empty());
        let part = CompletedPart { number, etag: "0".repeat(32), checksums: Vec::new() };
        let options = CompleteOptions { parts: vec![part], size: Some(large), ..CompleteOptions::default() };
        assert!(objects.complete_upload(key("parts"), upload, options).wait().is_err());
        assert_eq!(objects.list("bucket", &ListQuery { limit, ..ListQuery::default() }).unwrap().objects.len(), 1);
        assert_eq!(
            objects.list_uploads("bucket", &UploadQuery { limit, ..UploadQuery::default() }).unwrap().uploads.len(),
            1
        );
        let version = VersionId::Number(large);
        let versions = VersionQuery {
            key_after: Some("key".to_owned()),
            version_after: Some(version),
            limit,
            ..VersionQuery::default()
        };
        let _page = objects.list_versions("bucket", &versions);
        assert!(objects.get_version(key("key"), version).is_err());
        let _gone = objects.delete_version(key("key"), version).wait();
        stands(&objects, "uploads and listings");
    }
}

#[test]
fn times_quotas_and_files_go_to_their_limits() {
    let objects = store();
    put(&objects, "key", b"body");
    for large in LARGE {
        let change = AttributeChange {
            modified: Some(Timestamp(large)),
            accessed: Some(Timestamp(large)),
            ..AttributeChange::default()
        };
        let _told = objects.set_attributes(key("key"), change, EditOptions::default()).wait();
        let (quota_bytes, quota_objects) = (Some(Some(large)), Some(Some(large)));
        objects
            .set_bucket("bucket", BucketChange { quota_bytes, quota_objects, ..BucketChange::default() })
            .wait()
            .unwrap();
        put(&objects, "another", b"within the quota");
        for mode in [FileMode::Read, FileMode::ReadWrite] {
            let mut file = objects.open_file(key("key"), mode, PutOptions::default()).unwrap();
            for to in [
                SeekFrom::Start(large),
                SeekFrom::Current(i64::MAX),
                SeekFrom::End(i64::MAX),
                SeekFrom::Current(i64::MIN),
            ] {
                let _there = file.seek(to);
                if mode == FileMode::Read {
                    let mut buffer = [0; 8];
                    let _none = file.read(&mut buffer);
                } else if file.stream_position().unwrap() > 1 << 53 {
                    assert!(file.write(b"12345").is_err());
                }
            }
        }
        stands(&objects, "times and quotas");
    }
}
