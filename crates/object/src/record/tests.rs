//! Records as bytes: both ways, from anywhere, and for ever.

use koine_env::Timestamp;
use koine_kv::{RequestId, SpaceId, Version};
use proptest::collection::vec;
use proptest::prelude::*;

use super::*;
use crate::access_list::{AccessList, Grant, Grantee};
use crate::checksum::{Checksum, ChecksumAlgorithm, ChecksumKind};
use crate::error::ErrorKind;
use crate::etag::{ETag, EtagKind};
use crate::fields::{FieldWriter, Reader, TAG_FREE_MIN, put_varint};
use crate::ids::{ObjectId, UploadId};
use crate::info::{AccessTimes, ContentHeaders, Quota};
use crate::search_query::Indexed;
use crate::version_id::Versioning;

#[test]
fn algorithms_have_the_codes_that_they_always_had() {
    let codes = ChecksumAlgorithm::ALL.map(super::object::algorithm_code);
    assert_eq!(codes, [1, 2, 3, 4, 5, 6, 7, 8, 9, 10]);
    for code in 0..=u8::MAX {
        assert_eq!(super::object::algorithm_of(code).is_ok(), codes.contains(&code));
    }
}

fn checksum() -> impl Strategy<Value = Checksum> {
    let algorithm = proptest::sample::select(ChecksumAlgorithm::ALL.to_vec());
    (algorithm, proptest::collection::vec(any::<u8>(), 64), proptest::option::of(1u32..)).prop_map(
        |(algorithm, value, composite_parts)| Checksum {
            algorithm,
            value: value[..algorithm.value_len()].to_vec(),
            composite_parts,
        },
    )
}

fn etag() -> impl Strategy<Value = ETag> {
    prop_oneof![
        any::<[u8; 16]>().prop_map(ETag::Md5),
        any::<([u8; 16], u32)>().prop_map(|(digest, parts)| ETag::Multipart(digest, parts)),
        any::<(u64, u64)>().prop_map(|(id, edit)| ETag::Drawn(ObjectId(id), edit)),
        "\\PC{0,20}".prop_map(ETag::Other),
    ]
}

fn headers() -> impl Strategy<Value = ContentHeaders> {
    let text = || proptest::option::of("\\PC{0,12}");
    (text(), text(), text(), text(), text(), text()).prop_map(|(a, b, c, d, e, f)| ContentHeaders {
        content_type: a,
        cache_control: b,
        content_disposition: c,
        content_encoding: d,
        content_language: e,
        expires: f,
    })
}

fn kept() -> impl Strategy<Value = Vec<(u64, Vec<u8>)>> {
    vec((TAG_FREE_MIN + 10..1 << 40, vec(any::<u8>(), 0..20)), 0..3)
}

fn metadata() -> impl Strategy<Value = Vec<(String, String)>> {
    vec(("\\PC{1,9}", "\\PC{0,30}"), 0..4)
}

fn object() -> impl Strategy<Value = ObjectRecord> {
    let numbers = any::<(u64, u64, u64, u64, u64, u32)>();
    let owner = (metadata(), proptest::option::of(any::<(u32, u32)>()), access());
    let numbers = (numbers, proptest::option::of(any::<u64>()));
    let rest = (proptest::option::of(any::<u32>()), proptest::option::of(any::<[u8; 16]>()), any::<bool>(), owner);
    (numbers, etag(), vec(checksum(), 0..3), headers(), metadata(), rest, kept()).prop_map(
        |(
            ((id, size, created, modified, changed, mode), version_id),
            etag,
            checksums,
            headers,
            metadata,
            rest,
            kept,
        )| ObjectRecord {
            id: ObjectId(id),
            version_id,
            size,
            created: Timestamp(created),
            modified: Timestamp(modified),
            changed: Timestamp(changed),
            mode,
            etag,
            checksums,
            headers,
            metadata,
            tags: rest.3.0,
            posix_owner: rest.3.1,
            access: rest.3.2,
            part_count: rest.0,
            upload: rest.1.map(UploadId),
            request: rest.2.then_some(RequestId([3; 16])),
            kept,
        },
    )
}

fn access() -> impl Strategy<Value = ObjectAccess> {
    let to = prop_oneof![
        any::<u64>().prop_map(Grantee::User),
        any::<u64>().prop_map(Grantee::Group),
        Just(Grantee::EveryUser),
        Just(Grantee::Everyone),
    ];
    let grant = (to, 0..16u32).prop_map(|(to, rights)| Grant { to, rights });
    (any::<u64>(), vec(grant, 0..4))
        .prop_map(|(owner, grants)| ObjectAccess { owner, list: AccessList::new(grants).unwrap() })
}

fn indexes() -> impl Strategy<Value = Vec<IndexRecord>> {
    let of = prop_oneof!["\\PC{0,9}".prop_map(Indexed::Metadata), "\\PC{0,9}".prop_map(Indexed::Tag)];
    vec((any::<u32>(), any::<bool>(), of).prop_map(|(number, whole, of)| IndexRecord { number, whole, of }), 0..3)
}

fn decode_all(bytes: &[u8]) {
    let _ = ObjectRecord::decode(bytes);
    let _ = summary("key".into(), Version(1), bytes);
    let _ = indexed_value(&Indexed::Tag("a".into()), bytes);
    let _ = UploadRecord::decode(bytes);
    let _ = PartRecord::decode(bytes);
    let _ = (BucketRecord::decode(bytes), OlderRecord::decode(bytes), MarkerRecord::decode(bytes));
    let _ = SnapshotRecord::decode(bytes);
    let _ = HeadRecord::decode(bytes);
    let _ = RootKeyRecord::decode(bytes).is_ok();
    let _ = decode_part_table(bytes);
    let _ = (GroupRecord::decode(bytes).is_ok(), UserRecord::decode(bytes).is_ok(), MembershipRecord::decode(bytes));
    let _ = (AccessKeyRecord::decode(bytes).is_ok(), TokenRecord::decode(bytes), PolicyRecord::decode(bytes));
    let _ = (DocumentRecord::decode(bytes), SealingKeyRecord::decode(bytes), AccessList::decode(bytes));
}

proptest! {
    #[test]
    fn object_records_come_back(record in object()) {
        let bytes = record.encode();
        prop_assert_eq!(&ObjectRecord::decode(&bytes).unwrap(), &record);
        let summary = summary("key".into(), Version(1), &bytes).unwrap();
        prop_assert_eq!((summary.size, summary.modified, summary.etag), (record.size, record.modified, record.etag));
    }

    #[test]
    fn older_records_come_back(record in object(), time: u64, owner: u64, version_id: Option<u64>, kept in kept()) {
        let marker = MarkerRecord { created: Timestamp(time), owner, version_id, kept };
        for older in [OlderRecord::Marker(marker.clone()), OlderRecord::Object(record.clone())] {
            let bytes = match &older {
                OlderRecord::Marker(marker) => marker.encode(),
                OlderRecord::Object(record) => record.encode(),
            };
            prop_assert_eq!(&OlderRecord::decode(&bytes).unwrap(), &older);
        }
        let summary = summary("key".into(), Version(1), &record.encode()).unwrap();
        prop_assert_eq!(record.clone().into_summary("key".into(), Version(1)), summary);
        prop_assert!(ObjectRecord::decode(&marker.encode()).is_err());
    }

    #[test]
    fn upload_and_part_records_come_back(
        headers in headers(), metadata in metadata(), kept in kept(), asked: bool, time: u64, md5: [u8; 16],
        checksums in vec(checksum().prop_map(|sum| Checksum { composite_parts: None, ..sum }), 0..3),
    ) {
        for (algorithm, kind, etag) in [
            (ChecksumAlgorithm::Sha256, ChecksumKind::Composite, EtagKind::Md5),
            (ChecksumAlgorithm::Crc32, ChecksumKind::FullObject, EtagKind::Drawn),
        ] {
            let (created, headers, metadata, kept) = (Timestamp(time), headers.clone(), metadata.clone(), kept.clone());
            let upload = UploadRecord { created, algorithm, kind, asked, etag, owner: time, headers, metadata, kept };
            prop_assert_eq!(UploadRecord::decode(&upload.encode()).unwrap(), upload);
        }
        let part = PartRecord { size: time, etag: md5, modified: Timestamp(time), checksums, kept };
        prop_assert_eq!(&PartRecord::decode(&part.encode()).unwrap(), &part);
        let table = [(1, part.clone()), (10_000, part)];
        let told: Vec<_> = table.iter().map(|(number, part)| part.info(*number)).collect();
        prop_assert_eq!(decode_part_table(&encode_part_table(&table)).unwrap(), told);
    }

    #[test]
    fn bucket_and_snapshot_records_come_back(
        space: u64, time: u64, id: Option<u64>, group: u64, origin: Option<(u64, u64)>,
        quota: (Option<u64>, Option<u64>), access in access(), indexes in indexes(), kept in kept(), off: bool,
        keeps in 0..3usize,
        metadata in metadata(), tags in metadata(), location in proptest::option::of("[a-z0-9-]{1,12}"),
    ) {
        let (space, created) = (SpaceId(space), Timestamp(time));
        let snapshot = SnapshotRecord { space, created, indexes: indexes.clone(), kept: kept.clone() };
        prop_assert_eq!(SnapshotRecord::decode(&snapshot.encode()).unwrap(), snapshot);
        let (ObjectAccess { owner, list }, origin) = (access, origin.map(|(bucket, space)| (bucket, SpaceId(space))));
        let quota = Quota { bytes: quota.0, objects: quota.1 };
        let versioning = [Versioning::Never, Versioning::Enabled, Versioning::Suspended][keeps];
        let record = BucketRecord { owner, group, id, list, versioning, indexes, origin, kept, ..BucketRecord::new(space, created) };
        let access_times = if off { AccessTimes::Off } else { AccessTimes::Relative };
        let record = BucketRecord { quota, access_times, metadata, tags, location, ..record };
        prop_assert_eq!(BucketRecord::decode(&record.encode()).unwrap(), record);
    }

    #[test]
    fn arbitrary_bytes_never_panic(bytes in vec(any::<u8>(), 0..200)) {
        decode_all(&bytes);
        decode_all(&[&[1], bytes.as_slice()].concat());
    }

    #[test]
    fn damaged_records_never_panic(record in object(), at: proptest::sample::Index, byte: u8, cut: proptest::sample::Index) {
        let mut bytes = record.encode();
        let index = at.index(bytes.len());
        bytes[index] = byte;
        decode_all(&bytes);
        decode_all(&bytes[..cut.index(bytes.len())]);
    }

    #[test]
    fn numbers_come_back(value: u64) {
        let mut bytes = Vec::new();
        put_varint(&mut bytes, value);
        prop_assert_eq!(Reader::new(&bytes).varint().unwrap(), value);
    }
}

#[test]
fn what_is_newer_and_matters_is_refused_and_the_rest_is_kept() {
    let mut fields = FieldWriter::new();
    fields.put_u64(1, 77);
    fields.put_u64(2, 88);
    fields.put(TAG_FREE_MIN + 5, b"later");
    let record = BucketRecord::decode(&fields.finish()).unwrap();
    assert_eq!(record.kept, [(TAG_FREE_MIN + 5, b"later".to_vec())]);
    let mut fields = FieldWriter::new();
    fields.put_u64(1, 77);
    fields.put_u64(2, 88);
    fields.put(TAG_FREE_MIN - 1, b"must be understood");
    assert_eq!(BucketRecord::decode(&fields.finish()).unwrap_err().kind(), ErrorKind::Damaged);
    assert_eq!(BucketRecord::decode(&[2]).unwrap_err().kind(), ErrorKind::Damaged);
}

/// Written once and never changed: what stands on devices is read for ever.
#[test]
fn the_bytes_of_a_record_stay_what_they_are() {
    let record = ObjectRecord {
        id: ObjectId(0x0102_0304_0506_0708),
        size: 300,
        created: Timestamp(1),
        modified: Timestamp(2),
        changed: Timestamp(3),
        mode: 0o644,
        etag: ETag::Multipart([0xAA; 16], 2),
        checksums: vec![Checksum::full(ChecksumAlgorithm::Crc32, [1, 2, 3, 4])],
        headers: ContentHeaders { content_type: Some("a/b".into()), ..ContentHeaders::default() },
        metadata: vec![("k".into(), "v".into())],
        access: ObjectAccess::default(),
        part_count: Some(2),
        upload: Some(UploadId([5; 16])),
        ..ObjectRecord::new(0, ETag::Md5([0; 16]), Timestamp(0))
    };
    let golden = concat!(
        "01",
        "010101",
        "03080807060504030201",
        "04082c01000000000000",
        "05080100000000000000",
        "06080200000000000000",
        "07080300000000000000",
        "0804a4010000",
        "0b1502aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa02000000",
        "0c09010000000001020304",
        "0d0401612f62",
        "0e03016b76",
        "0f0402000000",
        "401005050505050505050505050505050505",
    );
    assert_eq!(hex::encode(record.encode()), golden);
    assert_eq!(ObjectRecord::decode(&hex::decode(golden).unwrap()).unwrap(), record);
}

fn text() -> impl Strategy<Value = Option<String>> {
    proptest::option::of("\\PC{0,12}")
}

fn user() -> impl Strategy<Value = UserRecord> {
    let state = proptest::sample::select(vec![State::Live, State::Disabled, State::BeingDeleted]);
    let limits = any::<(Option<u64>, Option<u64>)>();
    (
        "\\PC{1,12}",
        state,
        any::<(u64, u64, bool, Option<u64>)>(),
        (text(), text()),
        limits,
        vec(any::<u64>(), 0..4),
        kept(),
    )
        .prop_map(
            |(name, state, (created, home, administrator, changed), (password, display), limits, groups, kept)| {
                UserRecord {
                    name: name.clone(),
                    created: Timestamp(created),
                    state,
                    home,
                    password,
                    policies: vec![name],
                    groups,
                    limits: Limits { bytes: limits.0, objects: limits.1 },
                    administrator,
                    display,
                    password_changed: changed.map(Timestamp),
                    kept,
                }
            },
        )
}

fn secret() -> impl Strategy<Value = KeptSecret> {
    prop_oneof![
        vec(any::<u8>(), 0..40).prop_map(KeptSecret::Plain),
        (any::<(u32, [u8; 24])>(), vec(any::<u8>(), 0..60)).prop_map(|((key, nonce), ciphertext)| KeptSecret::Sealed {
            key,
            nonce,
            ciphertext
        }),
    ]
}

proptest! {
    #[test]
    fn records_of_users_and_groups_come_back(user in user(), flags: (bool, bool), kept in kept()) {
        prop_assert!(UserRecord::decode(&user.encode()).unwrap() == user);
        let group = GroupRecord {
            name: user.name.clone(),
            description: user.display.clone().unwrap_or_default(),
            created: user.created,
            being_deleted: flags.0,
            policies: user.policies.clone(),
            limits: user.limits,
            kept: kept.clone(),
        };
        prop_assert_eq!(GroupRecord::decode(&group.encode()).unwrap(), group);
        let member = MembershipRecord { administrator: flags.1, since: user.created, kept };
        prop_assert_eq!(MembershipRecord::decode(&member.encode()).unwrap(), member);
    }

    #[test]
    fn records_of_keys_and_policies_come_back(
        user in user(), secret in secret(), disabled: bool, check: [u8; 32], id: u64, kept in kept(),
    ) {
        let (created, expires) = (user.created, user.password_changed);
        let (policy, description) = (user.display, user.password);
        let token = TokenRecord {
            user: id, created, expires: created, policy: policy.clone(), description: description.clone(),
            kept: kept.clone(),
        };
        prop_assert_eq!(&TokenRecord::decode(&token.encode()).unwrap(), &token);
        let key = AccessKeyRecord { user: id, created, disabled, secret, expires, policy, description, kept: kept.clone() };
        prop_assert!(AccessKeyRecord::decode(&key.encode()).unwrap() == key);
        let policy = PolicyRecord { document: user.name.clone(), created, changed: created, kept: kept.clone() };
        prop_assert_eq!(PolicyRecord::decode(&policy.encode()).unwrap(), policy);
        let principals = vec![NamedPrincipal { group: disabled, id, written: user.name.clone() }];
        let document = DocumentRecord { text: user.name, changed: created, principals, kept: kept.clone() };
        prop_assert_eq!(DocumentRecord::decode(&document.encode()).unwrap(), document);
        let sealing = SealingKeyRecord { created, being_left: disabled, check, kept };
        prop_assert_eq!(SealingKeyRecord::decode(&sealing.encode()).unwrap(), sealing);
    }
}

/// As docs/decisions/0026-identities.md has it.
#[test]
fn the_group_lab_has_the_bytes_of_the_document() {
    let bytes = hex::decode("0101036c61620308 0000faed51728618 040101".replace(' ', "")).unwrap();
    let group = GroupRecord::decode(&bytes).unwrap();
    assert_eq!(
        (group.name.as_str(), group.created, group.being_deleted),
        ("lab", Timestamp(1_767_225_600_000_000_000), false)
    );
    assert_eq!(group.encode(), bytes);
}

/// What edits and attributes add to it: likewise for ever.
#[test]
fn the_bytes_of_an_edited_and_tagged_record_stay_what_they_are() {
    let etag = ETag::Drawn(ObjectId(0x0102_0304_0506_0708), 0xA1A2_A3A4_A5A6_A7A8);
    assert_eq!(etag.to_string(), "0102030405060708-a1a2a3a4a5a6a7a8");
    let record = ObjectRecord {
        id: ObjectId(9),
        tags: vec![("key".into(), "v".into())],
        posix_owner: Some((1000, 100)),
        ..ObjectRecord::new(300, etag, Timestamp(2))
    };
    let golden = concat!(
        "01",
        "010101",
        "03080900000000000000",
        "04082c01000000000000",
        "05080200000000000000",
        "06080200000000000000",
        "07080200000000000000",
        "080400000000",
        "0b11040807060504030201a8a7a6a5a4a3a2a1",
        "1005036b657976",
        "4208e803000064000000",
    );
    assert_eq!(hex::encode(record.encode()), golden);
    assert_eq!(ObjectRecord::decode(&hex::decode(golden).unwrap()).unwrap(), record);
}

/// What versions add: likewise for ever.
#[test]
fn the_bytes_of_versions_stay_what_they_are() {
    let record = ObjectRecord {
        id: ObjectId(9),
        version_id: Some(0x0102_0304_0506_0708),
        ..ObjectRecord::new(300, ETag::Md5([0xAA; 16]), Timestamp(2))
    };
    let golden = concat!(
        "01",
        "010101",
        "03080900000000000000",
        "04082c01000000000000",
        "05080200000000000000",
        "06080200000000000000",
        "07080200000000000000",
        "080400000000",
        "0a080807060504030201",
        "0b1101aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa",
    );
    assert_eq!(hex::encode(record.encode()), golden);
    assert_eq!(ObjectRecord::decode(&hex::decode(golden).unwrap()).unwrap(), record);
    let marker = MarkerRecord { created: Timestamp(2), owner: 5, version_id: Some(3), kept: Vec::new() };
    let golden = concat!(
        "01",
        "010100",
        "05080200000000000000",
        "06080200000000000000",
        "09080500000000000000",
        "0a080300000000000000"
    );
    assert_eq!(hex::encode(marker.encode()), golden);
    assert_eq!(OlderRecord::decode(&hex::decode(golden).unwrap()).unwrap(), OlderRecord::Marker(marker));
    let bucket = BucketRecord { versioning: Versioning::Suspended, ..BucketRecord::new(SpaceId(1), Timestamp(2)) };
    assert_eq!(hex::encode(bucket.encode()), concat!("01", "01080100000000000000", "02080200000000000000", "070102"));
}
