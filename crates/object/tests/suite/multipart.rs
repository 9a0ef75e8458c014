//! Uploads in parts: what docs/semantics.md says of them.

use crate::support::{bytes, get, keys_in_bucket, kind, names, put, store};
use koine_object::{
    ByteRange, Checksum, ChecksumAlgorithm, ChecksumKind, CompleteOptions, CompletedPart, ContentHeaders, ErrorKind,
    EtagKind, EtagMatch, Expected, ObjectInfo, ObjectName, Objects, PartInfo, PartOptions, PutCondition, ReadCondition,
    Result, UploadId, UploadOptions, UploadQuery,
};

const PART: usize = 5 << 20;

fn name(key: &str) -> ObjectName<'_> {
    ObjectName::new("bucket", key)
}

fn begin(objects: &Objects, key: &str) -> UploadId {
    objects.create_upload("bucket", key, UploadOptions::default()).wait().unwrap()
}

fn put_part(objects: &Objects, key: &str, id: UploadId, number: u32, body: &[u8]) -> Result<PartInfo> {
    let mut writer = objects.put_part(name(key), id, number, PartOptions::default())?;
    writer.write(body)?;
    writer.finish(&Expected::none()).wait()
}

fn named(part: &PartInfo) -> CompletedPart {
    CompletedPart { number: part.number, etag: part.etag.to_string(), checksums: Vec::new() }
}

fn complete(objects: &Objects, key: &str, id: UploadId, parts: &[PartInfo]) -> Result<ObjectInfo> {
    let parts = parts.iter().map(named).collect();
    objects.complete_upload(name(key), id, CompleteOptions { parts, ..CompleteOptions::default() }).wait()
}

#[test]
fn parts_become_the_object_and_nothing_else_is_left() {
    let objects = store();
    let headers = ContentHeaders { content_type: Some("text/x".into()), ..ContentHeaders::default() };
    let options = UploadOptions {
        headers: headers.clone(),
        metadata: vec![("a".into(), "b".into())],
        ..UploadOptions::default()
    };
    let id = objects.create_upload("bucket", "joined", options).wait().unwrap();
    let bodies = [bytes(PART, 1), bytes(PART + 3, 2), bytes(10, 3)];
    let mut parts = Vec::new();
    for (number, body) in [(2, &bodies[0]), (5, &bodies[1]), (9000, &bodies[2])] {
        parts.push(put_part(&objects, "joined", id, number, body).unwrap());
    }
    put_part(&objects, "joined", id, 7, b"never named").unwrap();
    assert!(names(&objects).is_empty());
    let info = complete(&objects, "joined", id, &parts).unwrap();
    assert_eq!(get(&objects, "joined").unwrap(), bodies.concat());
    assert_eq!(info.size, bodies.concat().len() as u64);
    assert_eq!((info.headers, info.metadata.len(), info.part_count), (headers, 1, Some(3)));
    let mut md5s = Vec::new();
    for part in &parts {
        md5s.extend(hex::decode(part.etag.to_string()).unwrap());
    }
    use md5::Digest;
    assert_eq!(info.etag.to_string(), format!("{}-3", hex::encode(md5::Md5::digest(md5s))));
    assert_eq!(objects.get("bucket", "joined").unwrap().parts().unwrap(), parts);
    // Its name, its data and the table of its parts.
    assert_eq!(keys_in_bucket(&objects), 3);
    put(&objects, "joined", b"replaced");
    assert_eq!(keys_in_bucket(&objects), 2);
}

#[test]
fn etags_of_parts_are_md5s_where_the_upload_asked_for_them() {
    use md5::Digest;
    let objects = store();
    let source = put(&objects, "source", &bytes(PART, 1));
    for (etag, is_md5) in [(EtagKind::Md5, true), (EtagKind::Drawn, false)] {
        let options = UploadOptions { etag, ..UploadOptions::default() };
        let id = objects.create_upload("bucket", "joined", options).wait().unwrap();
        let copied = objects.copy_part(name("source"), None, &ReadCondition::default(), name("joined"), id, 1);
        let parts = [copied.wait().unwrap(), put_part(&objects, "joined", id, 2, b"end").unwrap()];
        for (part, body) in parts.iter().zip([bytes(PART, 1), b"end".to_vec()]) {
            assert_eq!(part.etag.to_string() == hex::encode(md5::Md5::digest(body)), is_md5);
        }
        assert_eq!(parts[0].checksums, source.checksums);
        assert_eq!(put_part(&objects, "joined", id, 3, b"end").unwrap().etag == parts[1].etag, is_md5);
        let info = complete(&objects, "joined", id, &parts).unwrap();
        assert!(info.etag.to_string().ends_with("-2"));
        assert_eq!(objects.get("bucket", "joined").unwrap().parts().unwrap(), parts);
    }
}

#[test]
fn full_object_checksums_of_parts_are_those_of_the_whole() {
    let objects = store();
    let bodies = [bytes(PART, 1), bytes(PART + 3, 2), Vec::new()];
    for algorithm in [ChecksumAlgorithm::Crc32, ChecksumAlgorithm::Crc32c, ChecksumAlgorithm::Crc64Nvme] {
        let options =
            UploadOptions { checksum: Some((algorithm, Some(ChecksumKind::FullObject))), ..UploadOptions::default() };
        let id = objects.create_upload("bucket", "key", options).wait().unwrap();
        let parts: Vec<_> =
            (1..).zip(&bodies).map(|(number, body)| put_part(&objects, "key", id, number, body).unwrap()).collect();
        let joined = complete(&objects, "key", id, &parts).unwrap();
        let mut whole = crate::support::options(algorithm);
        whole.length = Some(joined.size);
        let whole = crate::support::put_with(&objects, "whole", &bodies.concat(), whole).unwrap();
        assert_eq!(joined.checksums, whole.checksums, "{}", algorithm.name());
    }
}

#[test]
fn composite_checksums_are_of_the_parts_checksums() {
    let objects = store();
    let composed = |algorithm: &ChecksumAlgorithm| algorithm.allows(ChecksumKind::Composite);
    for algorithm in ChecksumAlgorithm::ALL.into_iter().filter(composed) {
        let options = UploadOptions { checksum: Some((algorithm, None)), ..UploadOptions::default() };
        let id = objects.create_upload("bucket", "key", options).wait().unwrap();
        let bodies = [bytes(PART, 1), bytes(7, 2)];
        let parts: Vec<_> =
            (1..).zip(&bodies).map(|(number, body)| put_part(&objects, "key", id, number, body).unwrap()).collect();
        let joined = complete(&objects, "key", id, &parts).unwrap();
        let values: Vec<u8> = parts.iter().flat_map(|part| part.checksums[0].value.clone()).collect();
        let of_values =
            crate::support::put_with(&objects, "values", &values, crate::support::options(algorithm)).unwrap();
        assert_eq!(joined.checksums[0].to_text(), format!("{}-2", of_values.checksums[0].to_text()));
    }
    for (algorithm, kind_) in [
        (ChecksumAlgorithm::Xxhash128, ChecksumKind::FullObject),
        (ChecksumAlgorithm::Crc64Nvme, ChecksumKind::Composite),
    ] {
        let options = UploadOptions { checksum: Some((algorithm, Some(kind_))), ..UploadOptions::default() };
        let refused = objects.create_upload("bucket", "key", options).wait();
        assert_eq!(kind(refused), ErrorKind::InvalidRequest);
    }
}

#[test]
fn a_completion_names_its_parts_rightly_or_is_refused_and_changes_nothing() {
    let objects = store();
    let id = begin(&objects, "key");
    let big = put_part(&objects, "key", id, 1, &bytes(PART, 1)).unwrap();
    let small = put_part(&objects, "key", id, 2, b"small").unwrap();
    let last = put_part(&objects, "key", id, 3, b"last").unwrap();
    let refused = |parts: &[PartInfo]| kind(complete(&objects, "key", id, parts));
    assert_eq!(refused(&[big.clone(), small.clone(), last.clone()]), ErrorKind::EntityTooSmall);
    assert_eq!(refused(&[last.clone(), big.clone()]), ErrorKind::InvalidPartOrder);
    assert_eq!(refused(&[big.clone(), big.clone()]), ErrorKind::InvalidPartOrder);
    assert_eq!(refused(&[]), ErrorKind::InvalidArgument);
    assert_eq!(refused(&[PartInfo { number: 4, ..last.clone() }]), ErrorKind::InvalidPart);
    assert_eq!(refused(&[PartInfo { etag: small.etag.clone(), ..last.clone() }]), ErrorKind::InvalidPart);
    let with = |change: &dyn Fn(&mut CompleteOptions)| {
        let mut options = CompleteOptions { parts: vec![named(&big), named(&last)], ..CompleteOptions::default() };
        change(&mut options);
        objects.complete_upload(name("key"), id, options).wait()
    };
    let wrong = Checksum::full(ChecksumAlgorithm::Crc64Nvme, [1; 8]);
    assert_eq!(kind(with(&|options| options.expected = vec![wrong.clone()])), ErrorKind::BadDigest);
    assert_eq!(kind(with(&|options| options.parts[0].checksums = vec![wrong.clone()])), ErrorKind::InvalidPart);
    assert_eq!(kind(with(&|options| options.size = Some(1))), ErrorKind::InvalidRequest);
    assert!(names(&objects).is_empty());
    assert_eq!(with(&|options| options.size = Some(PART as u64 + 4)).unwrap().size, PART as u64 + 4);
}

#[test]
fn a_completion_may_be_repeated_and_learns_that_it_won() {
    let objects = store();
    let id = begin(&objects, "key");
    let parts = [put_part(&objects, "key", id, 1, b"body").unwrap()];
    let options = CompleteOptions {
        parts: vec![named(&parts[0])],
        condition: PutCondition::absent(),
        ..CompleteOptions::default()
    };
    let first = objects.complete_upload(name("key"), id, options.clone()).wait().unwrap();
    let again = objects.complete_upload(name("key"), id, options.clone()).wait().unwrap();
    assert_eq!(first, again);
    // Also when somebody replaced the object since.
    put(&objects, "key", b"newer");
    let late = objects.complete_upload(name("key"), id, options).wait().unwrap();
    assert_eq!((late.etag, late.version), (first.etag, first.version));
    assert_eq!(get(&objects, "key").unwrap(), b"newer");
    assert_eq!(kind(put_part(&objects, "key", id, 2, b"late")), ErrorKind::NoSuchUpload);
    let never = UploadId([9; 16]);
    assert_eq!(kind(complete(&objects, "key", never, &parts)), ErrorKind::NoSuchUpload);
}

#[test]
fn conditions_hold_at_completion() {
    let objects = store();
    let there = put(&objects, "key", b"there");
    let id = begin(&objects, "key");
    let part = put_part(&objects, "key", id, 1, b"body").unwrap();
    let with = |condition: PutCondition| {
        let options = CompleteOptions { parts: vec![named(&part)], condition, ..CompleteOptions::default() };
        objects.complete_upload(name("key"), id, options).wait()
    };
    assert_eq!(kind(with(PutCondition::absent())), ErrorKind::PreconditionFailed);
    let other = EtagMatch::OneOf(vec!["other".into()]);
    assert_eq!(
        kind(with(PutCondition { if_absent: false, if_match: Some(other), ..PutCondition::default() })),
        ErrorKind::PreconditionFailed
    );
    let same = EtagMatch::OneOf(vec![there.etag.to_string()]);
    with(PutCondition { if_absent: false, if_match: Some(same), ..PutCondition::default() }).unwrap();
    assert_eq!(get(&objects, "key").unwrap(), b"body");
}

#[test]
fn a_refused_completion_may_be_tried_again_when_its_condition_holds() {
    let objects = store();
    put(&objects, "key", b"there");
    let id = begin(&objects, "key");
    let part = put_part(&objects, "key", id, 1, b"body").unwrap();
    let options =
        CompleteOptions { parts: vec![named(&part)], condition: PutCondition::absent(), ..CompleteOptions::default() };
    assert_eq!(kind(objects.complete_upload(name("key"), id, options.clone()).wait()), ErrorKind::PreconditionFailed);
    assert!(objects.delete("bucket", "key", Default::default()).wait().unwrap().existed);
    assert_eq!(objects.complete_upload(name("key"), id, options).wait().unwrap().size, 4);
}

#[test]
fn an_abort_leaves_nothing() {
    let objects = store();
    let before = keys_in_bucket(&objects);
    let id = begin(&objects, "key");
    put_part(&objects, "key", id, 1, &bytes(PART, 1)).unwrap();
    put_part(&objects, "key", id, 2, b"x").unwrap();
    objects.abort_upload(name("key"), id).wait().unwrap();
    assert_eq!(keys_in_bucket(&objects), before);
    assert_eq!(kind(objects.abort_upload(name("key"), id).wait()), ErrorKind::NoSuchUpload);
    assert_eq!(kind(objects.list_parts(name("key"), id, 0, 10)), ErrorKind::NoSuchUpload);
    assert_eq!(kind(put_part(&objects, "key", id, 3, b"late")), ErrorKind::NoSuchUpload);
}

#[test]
fn a_part_begun_before_an_abort_is_refused_after_it() {
    let objects = store();
    let id = begin(&objects, "key");
    let mut writer = objects.put_part(name("key"), id, 1, PartOptions::default()).unwrap();
    writer.write(&bytes(200_000, 1)).unwrap();
    objects.abort_upload(name("key"), id).wait().unwrap();
    assert_eq!(kind(writer.finish(&Expected::none()).wait()), ErrorKind::NoSuchUpload);
    assert_eq!(keys_in_bucket(&objects), 0);
}

#[test]
fn part_numbers_and_checksums_are_checked_before_a_part_counts() {
    let objects = store();
    let id = begin(&objects, "key");
    for number in [0, 10_001, u32::MAX] {
        assert_eq!(kind(put_part(&objects, "key", id, number, b"x")), ErrorKind::InvalidArgument);
    }
    assert_eq!(kind(put_part(&objects, "other", id, 1, b"x")), ErrorKind::NoSuchUpload);
    let wrong = Expected { md5: None, checksums: vec![Checksum::full(ChecksumAlgorithm::Crc32, [0; 4])] };
    let options = PartOptions { expected: wrong, ..PartOptions::default() };
    let mut writer = objects.put_part(name("key"), id, 1, options.clone()).unwrap();
    writer.write(b"body").unwrap();
    assert_eq!(kind(writer.finish(&Expected::none()).wait()), ErrorKind::BadDigest);
    let sha = UploadOptions { checksum: Some((ChecksumAlgorithm::Sha256, None)), ..UploadOptions::default() };
    let sha = objects.create_upload("bucket", "key", sha).wait().unwrap();
    assert_eq!(kind(objects.put_part(name("key"), sha, 1, options)), ErrorKind::InvalidRequest);
    assert!(objects.list_parts(name("key"), id, 0, 10).unwrap().parts.is_empty());
}

#[test]
fn a_part_put_again_replaces_the_first() {
    let objects = store();
    let id = begin(&objects, "key");
    let first = put_part(&objects, "key", id, 1, &bytes(300_000, 1)).unwrap();
    let second = put_part(&objects, "key", id, 1, b"second").unwrap();
    assert_eq!(kind(complete(&objects, "key", id, &[first])), ErrorKind::InvalidPart);
    complete(&objects, "key", id, &[second]).unwrap();
    assert_eq!(get(&objects, "key").unwrap(), b"second");
}

#[test]
fn parts_are_made_from_ranges_of_objects() {
    let objects = store();
    let body = bytes(PART + 1000, 1);
    put(&objects, "source", &body);
    let options = UploadOptions { etag: EtagKind::Md5, ..UploadOptions::default() };
    let id = objects.create_upload("bucket", "key", options).wait().unwrap();
    let none = ReadCondition::default();
    let copy = |range, number| objects.copy_part(name("source"), range, &none, name("key"), id, number).wait();
    let whole = copy(None, 1).unwrap();
    let middle = copy(Some(ByteRange { offset: 990, length: 33 }), 2).unwrap();
    assert_eq!(kind(copy(Some(ByteRange { offset: 1, length: body.len() as u64 }), 3)), ErrorKind::InvalidRange);
    let given = put_part(&objects, "key", id, 4, &body[990..1023]).unwrap();
    assert_eq!((&given.etag, &given.checksums), (&middle.etag, &middle.checksums));
    put(&objects, "source", b"gone");
    complete(&objects, "key", id, &[whole, middle]).unwrap();
    assert_eq!(get(&objects, "key").unwrap(), [&body[..], &body[990..1023]].concat());
}

#[test]
fn parts_and_uploads_are_listed_in_pages() {
    let objects = store();
    let mut begun = Vec::new();
    for key in ["a", "a", "b/1", "b/2", "b/2", "c"] {
        begun.push((key.to_owned(), begin(&objects, key)));
    }
    begun.sort();
    for limit in 1..8 {
        let mut seen = Vec::new();
        let mut query = UploadQuery { limit, ..UploadQuery::default() };
        loop {
            let page = objects.list_uploads("bucket", &query).unwrap();
            assert!(page.uploads.len() <= limit);
            seen.extend(page.uploads.into_iter().map(|upload| (upload.key, upload.id)));
            let Some((key, id)) = page.next else { break };
            (query.key_after, query.upload_after) = (Some(key), id);
        }
        assert_eq!(seen, begun);
        let mut rolled = Vec::new();
        let mut query = UploadQuery { delimiter: "/".into(), limit, ..UploadQuery::default() };
        loop {
            let page = objects.list_uploads("bucket", &query).unwrap();
            rolled.extend(page.uploads.into_iter().map(|upload| upload.key));
            rolled.extend(page.common_prefixes);
            let Some((key, id)) = page.next else { break };
            (query.key_after, query.upload_after) = (Some(key), id);
        }
        rolled.sort();
        assert_eq!(rolled, ["a", "a", "b/", "c"]);
    }
    let (key, id) = &begun[0];
    let numbers = [1, 2, 255, 256, 10_000];
    for number in numbers {
        put_part(&objects, key, *id, number, b"x").unwrap();
    }
    for limit in 1..7 {
        let (mut seen, mut after) = (Vec::new(), 0);
        loop {
            let page = objects.list_parts(name(key), *id, after, limit).unwrap();
            seen.extend(page.parts.into_iter().map(|part| part.number));
            let Some(next) = page.next else { break };
            after = next;
        }
        assert_eq!(seen, numbers);
    }
}
