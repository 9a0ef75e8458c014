//! What a store holds as its callers see it, as text: one line a thing. The lines stand beside the image that they are
//! of.

use std::fmt::Write as _;

use koine_object::{
    BucketInfo, BucketQuery, Checksum, ContentHeaders, ListQuery, NameQuery, ObjectInfo, ObjectName, ObjectReader,
    Objects, UploadQuery, UserQuery, VersionQuery, Whose,
};

fn crc64(bytes: &[u8]) -> u64 {
    crc_fast::checksum(crc_fast::CrcAlgorithm::Crc64Nvme, bytes)
}

/// Everything, in the order of names.
pub fn of(objects: &Objects) -> String {
    let mut out = String::new();
    for bucket in objects.list_buckets(&BucketQuery::default()).expect("buckets are listed").buckets {
        self::bucket(&mut out, objects, &bucket);
    }
    identities(&mut out, objects);
    out
}

fn bucket(out: &mut String, objects: &Objects, bucket: &BucketInfo) {
    let (identities, name) = (objects.identities(), bucket.name.as_str());
    let _ = writeln!(
        out,
        "bucket {name} created={} quota={:?}/{:?} versioning={} access-times={:?} metadata={:?} tags={:?}",
        bucket.created.0,
        bucket.quota.bytes,
        bucket.quota.objects,
        bucket.versioning.name(),
        bucket.access_times,
        bucket.metadata,
        bucket.tags
    );
    let owner = identities.owner(name).expect("its owner is told");
    let access = identities.bucket_access(name).expect("its access list is told");
    let _ = writeln!(out, "  owner={owner:?} access={:?}", access.grants());
    if let Ok(policy) = identities.bucket_policy(name) {
        let _ = writeln!(out, "  policy {policy:?}");
    }
    let usage = objects.bucket_usage(name).expect("its usage is told");
    let _ = writeln!(
        out,
        "  usage objects={} bytes={} older={} older-bytes={} uploads={}",
        usage.objects, usage.bytes, usage.older, usage.older_bytes, usage.upload_bytes
    );
    for index in objects.indexes(name).expect("its indexes are listed") {
        let _ = writeln!(out, "  index {} whole={}", index.of, index.whole);
    }
    versions(out, objects, name);
    uploads(out, objects, name);
    for snapshot in objects.list_snapshots(name).expect("its snapshots are listed") {
        let _ = writeln!(out, "  snapshot {} created={}", snapshot.name, snapshot.created.0);
        let name = format!("{name}@{}", snapshot.name);
        for object in objects.list(&name, &ListQuery::default()).expect("it is listed").objects {
            self::object(out, &objects.get(&name, &object.key).expect("it can be read"));
        }
    }
}

fn versions(out: &mut String, objects: &Objects, bucket: &str) {
    let all = VersionQuery { limit: 10_000, ..VersionQuery::default() };
    for version in objects.list_versions(bucket, &all).expect("versions are listed").versions {
        let name = ObjectName::new(bucket, &version.key);
        if version.object.is_none() {
            let _ = writeln!(out, "  marker {} {} newest={}", version.key, version.id, version.newest);
            continue;
        }
        object(out, &objects.get_version(name, version.id).expect("it can be read"));
        if version.newest {
            let access = objects.identities().object_access(name).expect("its access list is told");
            if !access.is_empty() {
                let _ = writeln!(out, "    access={:?}", access.grants());
            }
        }
    }
}

fn object(out: &mut String, reader: &ObjectReader) {
    let info: &ObjectInfo = reader.info();
    let data = reader.bytes(0, usize::try_from(info.size).expect("it fits")).expect("its bytes can be read");
    let _ = writeln!(
        out,
        "  object {} id={} version={} size={} created={} modified={} changed={} accessed={:?} mode={:o} etag={} \
         parts={:?} posix={:?} crc64={:016x}",
        info.key,
        info.id.0,
        info.version_id,
        info.size,
        info.created.0,
        info.modified.0,
        info.changed.0,
        info.accessed.map(|time| time.0),
        info.mode,
        info.etag,
        info.part_count,
        info.posix_owner,
        crc64(&data)
    );
    let _ = writeln!(
        out,
        "    headers=[{}] metadata={:?} tags={:?} checksums=[{}]",
        headers(&info.headers),
        info.metadata,
        info.tags,
        checksums(&info.checksums)
    );
}

fn headers(headers: &ContentHeaders) -> String {
    let all = [
        &headers.content_type,
        &headers.cache_control,
        &headers.content_disposition,
        &headers.content_encoding,
        &headers.content_language,
        &headers.expires,
    ];
    if all.iter().all(|text| text.is_none()) {
        return String::new();
    }
    all.map(|text| text.as_deref().unwrap_or("-")).join("; ")
}

fn checksums(sums: &[Checksum]) -> String {
    let text = |sum: &Checksum| format!("{:?} {} of {:?}", sum.algorithm, hex::encode(&sum.value), sum.composite_parts);
    sums.iter().map(text).collect::<Vec<_>>().join(", ")
}

/// Asks for every upload.
pub fn all_uploads() -> UploadQuery {
    UploadQuery { limit: 1000, ..UploadQuery::default() }
}

fn uploads(out: &mut String, objects: &Objects, bucket: &str) {
    for upload in objects.list_uploads(bucket, &all_uploads()).expect("uploads are listed").uploads {
        let _ = writeln!(out, "  upload {} {} created={}", upload.key, upload.id, upload.created.0);
        let name = ObjectName::new(bucket, &upload.key);
        for part in objects.list_parts(name, upload.id, 0, 1000).expect("parts are listed").parts {
            let _ = writeln!(
                out,
                "    part {} size={} etag={} modified={} checksums=[{}]",
                part.number,
                part.size,
                part.etag,
                part.modified.0,
                checksums(&part.checksums)
            );
        }
    }
}

fn identities(out: &mut String, objects: &Objects) {
    let identities = objects.identities();
    for group in identities.groups(&NameQuery::default()).expect("groups are listed").groups {
        let usage = identities.usage(Whose::Group(&group.name)).expect("its usage is told");
        let _ = writeln!(
            out,
            "group {} {} {:?} created={} policies={:?} quota={:?}/{:?} bytes={}",
            group.id,
            group.name,
            group.description,
            group.created.0,
            group.policies,
            group.quota_bytes,
            group.quota_objects,
            usage.bytes
        );
    }
    for user in identities.users(&UserQuery::default()).expect("users are listed").users {
        let _ = writeln!(
            out,
            "user {} {} {:?} created={} {:?} group={} groups={:?} policies={:?} administrator={} password={} \
             quota={:?}/{:?}",
            user.id,
            user.name,
            user.display,
            user.created.0,
            user.state,
            user.group,
            user.groups,
            user.policies,
            user.administrator,
            user.has_password,
            user.quota_bytes,
            user.quota_objects
        );
        for key in identities.keys_of(&user.name).expect("its keys are listed") {
            let (_, secret) = identities.by_access_key(&key.access_key).expect("its secret opens");
            let _ = writeln!(
                out,
                "  key {} {} created={} expires={:?} disabled={} narrowed={} {:?}",
                key.access_key,
                secret.expose(),
                key.created.0,
                key.expires.map(|time| time.0),
                key.disabled,
                key.narrowed,
                key.description
            );
        }
    }
    let _ = writeln!(out, "policy readers {:?}", identities.policy("readers").expect("it is there"));
}
