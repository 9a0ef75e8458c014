//! Putting, reading, deleting: what docs/semantics.md says of keys, bodies and conditions.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use crate::support::{bytes, get, here, keys_in_bucket, kind, kv_of, names, put, put_with, store};
use koine_env::patience::Patience;
use koine_env::{Random, SeededRandom, SystemClock, Timestamp};
use koine_kv::{MemoryKv, MemoryOptions};
use koine_object::{
    BucketQuery, Checksum, ChecksumAlgorithm, ContentHeaders, DeleteOptions, ErrorKind, EtagMatch, Expected, ListQuery,
    Objects, PutCondition, PutOptions, ReadCondition, RootKey, UploadOptions, UploadQuery,
};

#[test]
fn bodies_of_every_size_come_back() {
    let objects = store();
    for length in [0, 1, 4096, 65_535, 65_536, 65_537, 1 << 20, (1 << 20) + 1, 3_500_000] {
        let body = bytes(length, length as u64);
        let info = put(&objects, "key", &body);
        assert_eq!(info.size, length as u64);
        assert_eq!(get(&objects, "key").unwrap(), body);
        assert_eq!(objects.head("bucket", "key").unwrap(), info);
    }
}

#[test]
fn odd_names_are_stored_byte_for_byte() {
    let objects = store();
    let long = "x".repeat(1024);
    let zeros = "\0".repeat(1024);
    let mut odd = vec![
        "\0",
        "a",
        "a\0",
        "a\0b",
        "a b",
        "a%20b",
        "a+b",
        "a//b",
        "/",
        "//",
        "../x",
        "a/../b",
        ".",
        "ÿ",
        "日本語",
        "\u{10FFFF}",
        "\u{1}",
        "\u{7f}",
        "\u{80}",
        &long,
        &zeros,
    ];
    for name in &odd {
        put(&objects, name, name.as_bytes());
    }
    odd.sort_unstable();
    assert_eq!(names(&objects), odd);
    for name in &odd {
        assert_eq!(get(&objects, name).unwrap(), name.as_bytes());
        assert!(objects.delete("bucket", name, DeleteOptions::default()).wait().unwrap().existed);
        assert_eq!(kind(objects.head("bucket", name)), ErrorKind::NoSuchKey);
    }
    assert_eq!(kind(put_with(&objects, &"x".repeat(1025), b"", PutOptions::default())), ErrorKind::KeyTooLong);
    assert_eq!(kind(put_with(&objects, "", b"", PutOptions::default())), ErrorKind::InvalidArgument);
}

#[test]
fn a_reader_keeps_its_version_while_the_name_changes() {
    let objects = store();
    let old = bytes(300_000, 1);
    put(&objects, "key", &old);
    let reader = objects.get("bucket", "key").unwrap();
    put(&objects, "key", b"new");
    objects.delete("bucket", "key", DeleteOptions::default()).wait().unwrap();
    assert_eq!(reader.bytes(0, usize::MAX).unwrap(), old);
    let mut buffer = [0; 100];
    assert_eq!(reader.read(299_950, &mut buffer).unwrap(), 50);
    assert_eq!(buffer[..50], old[299_950..]);
    assert_eq!(reader.read(300_000, &mut buffer).unwrap(), 0);
    assert_eq!(reader.read(u64::MAX, &mut buffer).unwrap(), 0);
    match reader.bytes_now(10, 100).unwrap() {
        Some(bytes) => assert_eq!(bytes, old[10..110]),
        None if crate::backend::READS_NOW => panic!("it is in memory"),
        None => {}
    }
    assert_eq!(reader.bytes_now(300_000, 10).unwrap().unwrap(), "");
    assert_eq!(kind(objects.get("bucket", "key")), ErrorKind::NoSuchKey);
}

#[test]
fn headers_and_metadata_come_back_as_given() {
    let objects = store();
    let headers = ContentHeaders {
        content_type: Some("text/plain".into()),
        cache_control: Some("no-cache".into()),
        content_disposition: Some("attachment; filename=\"ü\"".into()),
        content_encoding: Some("gzip".into()),
        content_language: Some("de, en".into()),
        expires: Some("Thu, 01 Dec 1994 16:00:00 GMT".into()),
    };
    let metadata = vec![("name".to_owned(), "välue".to_owned()), ("empty".to_owned(), String::new())];
    let options = PutOptions { headers: headers.clone(), metadata: metadata.clone(), ..PutOptions::default() };
    put_with(&objects, "key", b"x", options).unwrap();
    let info = objects.head("bucket", "key").unwrap();
    assert_eq!((info.headers, info.metadata), (headers, metadata));
    let large = PutOptions { metadata: vec![("x".into(), "y".repeat(2048))], ..PutOptions::default() };
    assert_eq!(kind(put_with(&objects, "key", b"x", large)), ErrorKind::MetadataTooLarge);
}

#[test]
fn a_put_has_a_new_identity_and_leaves_nothing_of_the_old_object() {
    let objects = store();
    let first = put(&objects, "key", &bytes(200_000, 1));
    let second = put(&objects, "key", &bytes(100_000, 2));
    assert_ne!(first.id, second.id);
    assert!(second.version > first.version);
    assert_eq!(keys_in_bucket(&objects), 2);
    objects.delete("bucket", "key", DeleteOptions::default()).wait().unwrap();
    assert_eq!(keys_in_bucket(&objects), 0);
}

#[test]
fn what_no_header_can_have_is_refused_when_it_is_set() {
    let objects = store();
    let with = |names: &[(&str, &str)]| PutOptions {
        metadata: names.iter().map(|(name, value)| ((*name).to_owned(), (*value).to_owned())).collect(),
        ..PutOptions::default()
    };
    let typed = |content_type: &str| PutOptions {
        headers: ContentHeaders { content_type: Some(content_type.to_owned()), ..ContentHeaders::default() },
        ..PutOptions::default()
    };
    for wrong in [
        with(&[("a name", "x")]),
        with(&[("", "x")]),
        with(&[("a:b", "x")]),
        with(&[("name", "1"), ("Name", "2")]),
        with(&[("name", "two\r\nlines")]),
        typed("text/plain\r\nSet-Cookie: x"),
    ] {
        assert_eq!(kind(put_with(&objects, "key", b"body", wrong)), ErrorKind::InvalidArgument);
    }
    put_with(&objects, "key", b"body", with(&[("name", "größer"), ("näme", "")])).unwrap();
    put_with(&objects, "key", b"body", typed("text/plain; charset=utf-8")).unwrap();
}

#[test]
fn who_waits_no_longer_changes_nothing() {
    let objects = store();
    put(&objects, "there", b"bytes");
    let over = Patience { until: Some(std::time::Instant::now()), ask: None };
    let mut writer = objects.put("bucket", "key", PutOptions::default()).unwrap();
    writer.write(&bytes(200_000, 1)).unwrap();
    let more = bytes(3 << 20, 2);
    assert_eq!(kind(over.lasting(|| writer.write(&more))), ErrorKind::Interrupted);
    // What was taken in part is not put as if it were whole.
    assert_eq!(kind(writer.write(&more)), ErrorKind::IncompleteBody);
    assert_eq!(kind(writer.finish(&Expected::none()).wait()), ErrorKind::IncompleteBody);
    let delete = || objects.delete("bucket", "there", DeleteOptions::default()).wait();
    assert_eq!(kind(over.lasting(delete)), ErrorKind::Interrupted);
    assert_eq!(kind(objects.head("bucket", "key")), ErrorKind::NoSuchKey);
    assert!(delete().unwrap().existed);
}

#[test]
fn a_body_that_breaks_a_promise_leaves_nothing() {
    let objects = store();
    let body = bytes(200_000, 1);
    let put = |options: PutOptions| kind(put_with(&objects, "key", &body, options));
    let length = |length| PutOptions { length: Some(length), ..PutOptions::default() };
    assert_eq!(put(length(199_999)), ErrorKind::IncompleteBody);
    assert_eq!(put(length(200_001)), ErrorKind::IncompleteBody);
    // No length is too much but by what there is room for: this one is begun, and ends too early.
    assert_eq!(put(length((5 << 30) + 1)), ErrorKind::IncompleteBody);
    let expected = |expected| PutOptions { expected, ..PutOptions::default() };
    assert_eq!(put(expected(Expected { md5: Some([0; 16]), checksums: Vec::new() })), ErrorKind::BadDigest);
    for algorithm in ChecksumAlgorithm::ALL {
        let wrong = Checksum::full(algorithm, vec![0; algorithm.value_len()]);
        let wrong = Expected { md5: None, checksums: vec![wrong] };
        assert_eq!(put(expected(wrong.clone())), ErrorKind::BadDigest);
        // As a trailer, announced and not.
        for (announced, outcome) in [(Some(algorithm), ErrorKind::BadDigest), (None, ErrorKind::InvalidRequest)] {
            let options = PutOptions { checksum: announced, ..PutOptions::default() };
            let mut writer = objects.put("bucket", "key", options).unwrap();
            writer.write(&body).unwrap();
            let told = kind(writer.finish(&wrong).wait());
            assert!(told == outcome || algorithm == ChecksumAlgorithm::Crc64Nvme && told == ErrorKind::BadDigest);
        }
    }
    drop(objects.put("bucket", "key", PutOptions::default()).map(|mut writer| writer.write(&body)));
    assert_eq!(keys_in_bucket(&objects), 0);
    if crate::backend::FREES_AT_ONCE {
        assert_eq!(kv_of(&objects).usage().unwrap().used, kv_of(&store()).usage().unwrap().used);
    }
}

#[test]
fn conditions_of_puts_and_deletes() {
    let objects = store();
    let absent = || PutOptions { condition: PutCondition::absent(), ..PutOptions::default() };
    let matches = |tag: &str| PutOptions {
        condition: PutCondition { if_absent: false, if_match: Some(EtagMatch::parse(tag)), ..PutCondition::default() },
        ..PutOptions::default()
    };
    assert_eq!(kind(put_with(&objects, "key", b"x", matches("*"))), ErrorKind::NoSuchKey);
    let first = put_with(&objects, "key", b"first", absent()).unwrap();
    assert_eq!(kind(put_with(&objects, "key", b"x", absent())), ErrorKind::PreconditionFailed);
    assert_eq!(kind(put_with(&objects, "key", b"x", matches("\"0-1\""))), ErrorKind::PreconditionFailed);
    let second = put_with(&objects, "key", b"second", matches(&format!("\"{}\"", first.etag))).unwrap();
    assert_eq!(get(&objects, "key").unwrap(), b"second");
    let delete =
        |options: PutOptions| objects.delete("bucket", "key", DeleteOptions { condition: options.condition }).wait();
    assert_eq!(kind(delete(matches(&first.etag.to_string()))), ErrorKind::PreconditionFailed);
    assert!(delete(matches(&second.etag.to_string())).unwrap().existed);
    assert_eq!(kind(delete(matches("*"))), ErrorKind::NoSuchKey);
    assert!(!delete(PutOptions::default()).unwrap().existed);
}

#[test]
fn conditions_of_reads_follow_the_precedence_of_http() {
    let objects = store();
    let info = put(&objects, "key", b"x");
    let at = |seconds: i64| Some(Timestamp(info.modified.0.checked_add_signed(seconds * 1_000_000_000).unwrap()));
    let same = || Some(EtagMatch::parse(&info.etag.to_string()));
    let other = || Some(EtagMatch::parse("\"other\", W/\"more\""));
    let none = ReadCondition::default;
    let check = |condition: ReadCondition| condition.check(&info).err().map(|error| error.kind());
    let (failed, unchanged) = (Some(ErrorKind::PreconditionFailed), Some(ErrorKind::NotModified));
    assert_eq!(check(none()), None);
    assert_eq!(check(ReadCondition { if_match: other(), ..none() }), failed);
    assert_eq!(check(ReadCondition { if_match: same(), if_unmodified_since: at(-5), ..none() }), None);
    assert_eq!(check(ReadCondition { if_unmodified_since: at(-5), ..none() }), failed);
    assert_eq!(check(ReadCondition { if_unmodified_since: at(0), ..none() }), None);
    assert_eq!(check(ReadCondition { if_none_match: same(), ..none() }), unchanged);
    assert_eq!(check(ReadCondition { if_none_match: other(), if_modified_since: at(0), ..none() }), None);
    assert_eq!(check(ReadCondition { if_modified_since: at(0), ..none() }), unchanged);
    assert_eq!(check(ReadCondition { if_modified_since: at(-1), ..none() }), None);
    assert_eq!(check(ReadCondition { if_match: other(), if_none_match: same(), ..none() }), failed);
}

#[test]
fn many_are_deleted_in_one_commit_with_an_outcome_each() {
    let objects = store();
    for key in ["a", "b", "c"] {
        put(&objects, key, &bytes(100_000, 1));
    }
    let before = kv_of(&objects).view().unwrap().version();
    let long = "x".repeat(1025);
    let wanted: Vec<String> = ["a", "absent", "c", "a", &long].map(String::from).to_vec();
    let outcomes = objects.delete_many("bucket", &wanted).wait().unwrap();
    let told: Vec<_> = outcomes.into_iter().map(|outcome| outcome.map(|deleted| deleted.existed)).collect();
    assert!(matches!(told[..4], [Ok(true), Ok(false), Ok(true), Ok(true)]));
    assert_eq!(kind(told[4].clone()), ErrorKind::KeyTooLong);
    assert_eq!(kv_of(&objects).view().unwrap().version().0, before.0 + 1);
    assert_eq!(names(&objects), ["b"]);
    assert_eq!(kind(objects.delete_many("bucket", &vec!["k".into(); 1001]).wait()), ErrorKind::InvalidArgument);
}

#[test]
fn buckets_come_and_go() {
    let objects = store();
    assert_eq!(kind(objects.create_bucket("bucket").wait()), ErrorKind::BucketAlreadyOwnedByYou);
    assert_eq!(kind(objects.create_bucket("Not-Good").wait()), ErrorKind::InvalidBucketName);
    for name in ["bucket-2", "another", "zoo"] {
        let made = objects.create_bucket(name).wait().unwrap();
        assert_eq!(objects.head_bucket(name).unwrap(), made);
    }
    let list = |prefix: &str, after: Option<&str>, limit| {
        let query =
            BucketQuery { prefix: prefix.into(), after: after.map(String::from), limit, ..BucketQuery::default() };
        let page = objects.list_buckets(&query).unwrap();
        (page.buckets.into_iter().map(|bucket| bucket.name).collect::<Vec<_>>(), page.next)
    };
    assert_eq!(list("", None, 0), (["another", "bucket", "bucket-2", "zoo"].map(String::from).to_vec(), None));
    assert_eq!(list("buck", None, 1), (vec!["bucket".into()], Some("bucket".into())));
    assert_eq!(list("buck", Some("bucket"), 1), (vec!["bucket-2".into()], None));
    assert_eq!(list("c", Some("a"), 1), (vec![], None));
    put(&objects, "key", b"x");
    objects.create_upload("bucket", "unfinished", UploadOptions::default()).wait().unwrap();
    assert_eq!(kind(objects.delete_bucket("bucket").wait()), ErrorKind::BucketNotEmpty);
    let mut writer = objects.put("bucket", "late", PutOptions::default()).unwrap();
    writer.write(&bytes(100_000, 1)).unwrap();
    objects.delete("bucket", "key", DeleteOptions::default()).wait().unwrap();
    objects.delete_bucket("bucket").wait().unwrap();
    // Uploads went with it, and nothing that was on its way into the old bucket lands in a new one's place.
    assert_eq!(kind(writer.finish(&Expected::none()).wait()), ErrorKind::NoSuchBucket);
    assert_eq!(kind(objects.head_bucket("bucket")), ErrorKind::NoSuchBucket);
    assert_eq!(kind(objects.delete_bucket("bucket").wait()), ErrorKind::NoSuchBucket);
    let query = ListQuery { limit: 1, ..ListQuery::default() };
    assert_eq!(kind(objects.list("bucket", &query)), ErrorKind::NoSuchBucket);
    objects.create_bucket("bucket").wait().unwrap();
    assert!(
        objects.list_uploads("bucket", &UploadQuery { limit: 9, ..Default::default() }).unwrap().uploads.is_empty()
    );
}

#[test]
fn a_store_keeps_its_root_key_and_its_buckets() {
    let objects = here(crate::backend::kv());
    assert_eq!(objects.root_key().unwrap(), None);
    let key = |name: &str| RootKey { access_key: name.into(), secret: format!("{name}'s secret") };
    assert_eq!(objects.set_root_key_if_absent(&key("first")).unwrap(), key("first"));
    assert_eq!(objects.set_root_key_if_absent(&key("second")).unwrap(), key("first"));
    assert!(!format!("{:?}", key("first")).contains("secret"));
    let again = Objects::open(kv_of(&objects), Arc::new(SystemClock::new()), Arc::new(SeededRandom::new(1))).unwrap();
    assert_eq!(again.root_key().unwrap(), Some(key("first")));
    assert!(again.head_bucket("bucket").is_ok());
}

#[test]
fn an_id_that_is_taken_is_drawn_again() {
    /// Gives every number twice.
    #[derive(Debug, Default)]
    struct Stutter(AtomicU64);
    impl Random for Stutter {
        fn fill(&self, buffer: &mut [u8]) {
            let number = self.0.fetch_add(1, Ordering::SeqCst) / 2;
            buffer.copy_from_slice(&number.to_le_bytes()[..buffer.len()]);
        }
    }
    let kv = Arc::new(MemoryKv::new(MemoryOptions::default()));
    let objects = Objects::open(kv, Arc::new(SystemClock::new()), Arc::new(Stutter::default())).unwrap();
    let one = objects.create_bucket("bucket").wait().unwrap();
    let two = objects.create_bucket("bucket-2").wait().unwrap();
    assert_ne!(one.space, two.space);
    for key in ["a", "b", "c", "d"] {
        put(&objects, key, key.as_bytes());
    }
    for key in ["a", "b", "c", "d"] {
        assert_eq!(get(&objects, key).unwrap(), key.as_bytes());
    }
}

#[test]
fn a_full_store_says_so_and_still_deletes() {
    let options = MemoryOptions { capacity: Some(1 << 20), ..MemoryOptions::default() };
    let objects = crate::support::over(Arc::new(MemoryKv::new(options)));
    put(&objects, "key", &bytes(600_000, 1));
    let full = put_with(&objects, "more", &bytes(600_000, 2), PutOptions::default());
    assert_eq!(kind(full), ErrorKind::Full);
    objects.delete("bucket", "key", DeleteOptions::default()).wait().unwrap();
    put(&objects, "more", &bytes(600_000, 2));
}
