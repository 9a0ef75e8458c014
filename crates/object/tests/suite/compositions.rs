//! Compositions, large copies and replacement: what docs/semantics.md says of them.

use crate::support::{append, bytes, get, join, keys_in_bucket, kind, options, put, put_with, store, write_at};
use koine_kv::RequestId;
use koine_object::{
    ByteRange, COMPOSE_SEGMENTS_MAX, Checksum, ChecksumAlgorithm, ChecksumKind, CompleteOptions, ComposeOptions,
    ContentHeaders, EditOptions, ErrorKind, EtagMatch, Expected, ObjectInfo, ObjectName, Objects, PartOptions,
    PutCondition, PutOptions, ReadCondition, Result, Segment, UploadOptions,
};

fn name(key: &str) -> ObjectName<'_> {
    ObjectName::new("bucket", key)
}

fn compose(objects: &Objects, sources: &[Segment<'_>], to: &str, put: PutOptions) -> Result<ObjectInfo> {
    objects.compose(sources, name(to), ComposeOptions { put, source_metadata: false }).wait()
}

fn whole<'a>(keys: &[&'a str]) -> Vec<Segment<'a>> {
    keys.iter().map(|key| Segment::whole(name(key))).collect()
}

#[test]
fn a_composition_is_its_sources_one_after_the_other() {
    let objects = store();
    let (a, b) = (bytes(100_000, 1), bytes(70, 2));
    put(&objects, "a", &a);
    put(&objects, "b", &b);
    put(&objects, "empty", b"");
    let info = compose(&objects, &whole(&["a", "empty", "b", "a"]), "to", PutOptions::default()).unwrap();
    let all = [a.as_slice(), &b, &a].concat();
    assert_eq!((info.size, info.part_count), (all.len() as u64, None));
    assert_eq!(get(&objects, "to").unwrap(), all);
    assert_eq!(objects.head("bucket", "to").unwrap(), info);
    assert!(info.etag.to_string().starts_with(&format!("{}-", info.id)));
    // Ranges, also of the object that it replaces.
    let ranges =
        [Segment::range(name("to"), 99_990, 100), Segment::range(name("b"), 3, 0), Segment::range(name("a"), 0, 5)];
    let info = compose(&objects, &ranges, "to", PutOptions::default()).unwrap();
    assert_eq!(get(&objects, "to").unwrap(), [&all[99_990..100_090], &a[..5]].concat());
    assert!(info.checksums.is_empty());
    assert_eq!(compose(&objects, &whole(&["to"]), "to", PutOptions::default()).unwrap().size, 105);
    assert_eq!(compose(&objects, &whole(&["empty"]), "to", PutOptions::default()).unwrap().size, 0);
    assert_eq!(get(&objects, "a").unwrap(), a);
    assert_eq!(keys_in_bucket(&objects), 8);
}

#[test]
fn checksums_of_whole_sources_are_combined() {
    let objects = store();
    let bodies = [bytes(80_000, 1), bytes(9, 2), Vec::new()];
    for algorithm in ChecksumAlgorithm::ALL {
        for (key, body) in ["a", "b", "c"].iter().zip(&bodies) {
            put_with(&objects, key, body, options(algorithm)).unwrap();
        }
        let told = compose(&objects, &whole(&["a", "b", "c"]), "to", PutOptions::default()).unwrap().checksums;
        let combined = algorithm.allows(ChecksumKind::FullObject);
        let all = put_with(&objects, "all", &bodies.concat(), options(algorithm)).unwrap().checksums;
        assert_eq!(told, if combined { all.clone() } else { Vec::new() });
        let expect = |checksums: Vec<Checksum>| PutOptions {
            expected: Expected { md5: None, checksums },
            length: Some(80_009),
            ..PutOptions::default()
        };
        let outcome = compose(&objects, &whole(&["a", "b", "c"]), "to", expect(all));
        assert_eq!(outcome.is_ok(), combined);
        let wrong = expect(vec![Checksum::full(algorithm, vec![0; algorithm.value_len()])]);
        let refused = if combined { ErrorKind::BadDigest } else { ErrorKind::InvalidRequest };
        assert_eq!(kind(compose(&objects, &whole(&["a", "b", "c"]), "to", wrong)), refused);
    }
    // Where one source has another algorithm nothing can be told.
    put_with(&objects, "a", b"x", options(ChecksumAlgorithm::Crc32)).unwrap();
    put_with(&objects, "b", b"y", options(ChecksumAlgorithm::Crc32c)).unwrap();
    assert!(compose(&objects, &whole(&["a", "b"]), "to", PutOptions::default()).unwrap().checksums.is_empty());
}

#[test]
fn a_composition_has_what_was_given_or_what_its_first_source_has() {
    let objects = store();
    let given = |text: &str| PutOptions {
        headers: ContentHeaders { content_type: Some(text.into()), ..ContentHeaders::default() },
        metadata: vec![("name".into(), text.into())],
        tags: vec![("tag".into(), text.into())],
        ..PutOptions::default()
    };
    put_with(&objects, "a", b"a", given("of a")).unwrap();
    put_with(&objects, "b", b"b", given("of b")).unwrap();
    let info = compose(&objects, &whole(&["a", "b"]), "to", given("given")).unwrap();
    assert_eq!((info.metadata[0].1.as_str(), info.tags[0].1.as_str()), ("given", "given"));
    let sources = whole(&["a", "b"]);
    let options = ComposeOptions { put: given("given"), source_metadata: true };
    let info = objects.compose(&sources, name("to"), options).wait().unwrap();
    assert_eq!((info.metadata[0].1.as_str(), info.tags[0].1.as_str()), ("of a", "of a"));
    assert_eq!(info.headers.content_type.as_deref(), Some("of a"));
}

#[test]
fn a_composition_is_refused_or_made_once() {
    let objects = store();
    let info = put(&objects, "a", b"source");
    let try_with = |sources: &[Segment<'_>], put| compose(&objects, sources, "to", put);
    let none = PutOptions::default;
    assert_eq!(kind(try_with(&[], none())), ErrorKind::InvalidArgument);
    let many = vec![Segment::whole(name("a")); COMPOSE_SEGMENTS_MAX + 1];
    assert_eq!(kind(try_with(&many, none())), ErrorKind::InvalidArgument);
    assert_eq!(kind(try_with(&whole(&["a", "missing"]), none())), ErrorKind::NoSuchKey);
    assert_eq!(kind(try_with(&[Segment::range(name("a"), 3, 4)], none())), ErrorKind::InvalidRange);
    let length = PutOptions { length: Some(7), ..none() };
    assert_eq!(kind(try_with(&whole(&["a"]), length)), ErrorKind::IncompleteBody);
    let condition = ReadCondition { if_match: Some(EtagMatch::parse("other")), ..ReadCondition::default() };
    let segment = Segment { condition, ..Segment::whole(name("a")) };
    assert_eq!(kind(try_with(&[segment], none())), ErrorKind::PreconditionFailed);
    assert_eq!(keys_in_bucket(&objects), 2);
    let fresh =
        || PutOptions { condition: PutCondition::absent(), request: Some(RequestId([4; 16])), ..PutOptions::default() };
    let first = try_with(&whole(&["a", "a"]), fresh()).unwrap();
    assert_ne!(first.id, info.id);
    assert_eq!(try_with(&whole(&["a", "a"]), fresh()).unwrap(), first);
    append(&objects, "to", b"more");
    assert_eq!(try_with(&whole(&["a", "a"]), fresh()).unwrap(), objects.head("bucket", "to").unwrap());
    let absent = PutOptions { condition: PutCondition::absent(), ..none() };
    assert_eq!(kind(try_with(&whole(&["a"]), absent)), ErrorKind::PreconditionFailed);
    assert_eq!(get(&objects, "to").unwrap(), b"sourcesourcemore");
}

#[test]
fn ten_thousand_segments_are_one_commit() {
    let objects = store();
    put(&objects, "a", b"0123456789");
    let ranges: Vec<_> = (0..COMPOSE_SEGMENTS_MAX).map(|n| Segment::range(name("a"), n as u64 % 10, 1)).collect();
    compose(&objects, &ranges, "to", PutOptions::default()).unwrap();
    assert_eq!(get(&objects, "to").unwrap(), b"0123456789".repeat(1_000));
}

#[test]
fn a_copy_has_no_limit_of_its_own() {
    let objects = store();
    // 6 GiB that take little room: shared ranges of one object that is mostly a gap.
    const GIB: u64 = 1 << 30;
    write_at(&objects, "gib", GIB - 1, b"x").unwrap();
    let whole = ByteRange { offset: 0, length: GIB };
    for part in 0..6 {
        objects.write_copy(name("gib"), whole, name("large"), part * GIB, EditOptions::default()).wait().unwrap();
    }
    let marks = bytes(1 << 20, 3);
    write_at(&objects, "large", 4 * GIB - (1 << 19), &marks).unwrap();
    let copied = objects.copy(name("large"), name("copy"), Default::default()).wait().unwrap();
    assert_eq!(copied.size, 6 * GIB);
    let reader = objects.get("bucket", "copy").unwrap();
    assert_eq!(reader.bytes(4 * GIB - (1 << 19), 1 << 20).unwrap(), marks);
    for part in 1..6 {
        let border = if part == 4 { vec![marks[(1 << 19) - 1], marks[1 << 19]] } else { vec![b'x', 0] };
        assert_eq!(reader.bytes(part * GIB - 1, 2).unwrap(), border, "{part}");
    }
    assert_eq!(reader.bytes(6 * GIB - 1, 2).unwrap(), &b"x"[..]);
    let range = Segment::range(name("copy"), 4 * GIB - 10, 20);
    compose(&objects, &[range], "range", PutOptions::default()).unwrap();
    assert_eq!(get(&objects, "range").unwrap(), marks[(1 << 19) - 10..(1 << 19) + 10]);
}

#[test]
fn what_takes_the_place_of_an_object_leaves_nothing_of_it() {
    let objects = store();
    let large = || drop(join(&objects, "target", &[&bytes(5 << 20, 1), b"tail"]));
    let small = || drop(put(&objects, "source", b"abc"));
    let replace: [&dyn Fn() -> Result<ObjectInfo>; 3] = [
        &|| objects.copy(name("source"), name("target"), Default::default()).wait(),
        &|| objects.rename(name("source"), name("target"), Default::default()).wait(),
        &|| compose(&objects, &whole(&["source"]), "target", PutOptions::default()),
    ];
    for replace in replace {
        large();
        small();
        let info = replace().unwrap();
        assert_eq!((info.size, info.part_count), (3, None));
        assert_eq!(get(&objects, "target").unwrap(), b"abc");
        assert!(objects.get("bucket", "target").unwrap().parts().unwrap().is_empty());
        objects.delete("bucket", "source", Default::default()).wait().unwrap();
        assert_eq!(keys_in_bucket(&objects), 2);
    }
    // Also where source and target are one.
    large();
    let to_itself = [Segment::range(name("target"), 5 << 20, 4)];
    assert_eq!(compose(&objects, &to_itself, "target", PutOptions::default()).unwrap().size, 4);
    assert_eq!(get(&objects, "target").unwrap(), b"tail");
    assert_eq!(keys_in_bucket(&objects), 2);
}

#[test]
fn all_parts_are_joined_without_being_named() {
    let objects = store();
    let id = objects.create_upload("bucket", "key", UploadOptions::default()).wait().unwrap();
    let complete = || {
        let options = CompleteOptions { all_parts: true, ..CompleteOptions::default() };
        objects.complete_upload(name("key"), id, options).wait()
    };
    assert_eq!(kind(complete()), ErrorKind::InvalidRequest);
    let put_part = |number, body: &[u8]| {
        let mut writer = objects.put_part(name("key"), id, number, PartOptions::default()).unwrap();
        writer.write(body).unwrap();
        writer.finish(&Expected::none()).wait().unwrap();
    };
    put_part(7, b"tail");
    put_part(2, b"short");
    assert_eq!(kind(complete()), ErrorKind::EntityTooSmall);
    put_part(2, &bytes(5 << 20, 1));
    let info = complete().unwrap();
    assert_eq!((info.size, info.part_count), ((5 << 20) + 4, Some(2)));
    assert_eq!(complete().unwrap(), info);
    assert_eq!(get(&objects, "key").unwrap(), [bytes(5 << 20, 1), b"tail".to_vec()].concat());
    put(&objects, "key", b"replaced");
    assert_eq!(complete().unwrap(), objects.head("bucket", "key").unwrap());
    assert_eq!(keys_in_bucket(&objects), 2);
}
