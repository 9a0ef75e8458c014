//! A store as programs of format 0 left it, upgraded.

use koine_env::{SeededRandom, SystemClock};
use koine_kv::{Batch, MemoryKv, Operation, Place};

use super::*;
use crate::accounts::keys as identity_keys;
use crate::error::ErrorKind;
use crate::{BucketQuery, CollectOptions, PutOptions, RootKey, UploadOptions, UploadQuery};

fn upgrade(kv: &Arc<dyn Kv>, dry_run: bool) -> Result<Option<CatalogueUpgrade>> {
    super::upgrade(Arc::clone(kv), Arc::new(SystemClock::new()), Arc::new(SeededRandom::new(7)), dry_run)
}

fn open(kv: &Arc<dyn Kv>) -> Result<Local> {
    Local::open(Arc::clone(kv), Arc::new(SystemClock::new()), Arc::new(SeededRandom::new(9)))
}

fn root() -> RootKey {
    RootKey { access_key: "ROOTKEY".into(), secret: "rootsecret".into() }
}

/// All keys of a range.
fn keys_in(kv: &Arc<dyn Kv>, space: koine_kv::SpaceId, prefix: Bytes) -> Vec<Bytes> {
    let view = kv.view().unwrap();
    let mut cursor = view.cursor(space, KeyRange::prefix(prefix), Direction::Forward).unwrap();
    std::iter::from_fn(|| cursor.next().unwrap()).map(|entry| entry.key).collect()
}

/// Three objects and an upload in one of two buckets, with what format 0 had of them.
fn old_store() -> Arc<dyn Kv> {
    let kv: Arc<dyn Kv> = Arc::new(MemoryKv::default());
    let objects = open(&kv).unwrap();
    for bucket in ["empty", "bucket"] {
        objects.create_bucket(bucket).wait().unwrap();
    }
    for key in ["a", "b", "c"] {
        let mut writer = objects.put("bucket", key, PutOptions::default()).unwrap();
        writer.write(&[1; 1000]).unwrap();
        writer.finish(&crate::Expected::none()).wait().unwrap();
    }
    let upload = objects.create_upload("bucket", "d", UploadOptions::default()).wait().unwrap();
    let mut part =
        objects.put_part(crate::ObjectName::new("bucket", "d"), upload, 1, crate::PartOptions::default()).unwrap();
    part.write(&[2; 500]).unwrap();
    part.finish(&crate::Expected::none()).wait().unwrap();
    let space = crate::lookup::find_space(&mut kv.view().unwrap(), "bucket").unwrap();
    let mut batch = Batch::new();
    for key in keys_in(&kv, space, Bytes::from_static(b"c")) {
        batch = batch.then(Operation::Delete { at: Place::new(space, key) });
    }
    for prefix in [identity_keys::bucket_of_owner(0, ""), identity_keys::bucket_of_group(0, "")] {
        for key in keys_in(&kv, CATALOGUE, prefix) {
            batch = batch.then(Operation::Delete { at: Place::new(CATALOGUE, key) });
        }
    }
    let key = RootKeyRecord { access_key: root().access_key, secret: root().secret };
    let head = HeadRecord { format: 0, ..objects.read_head().unwrap().unwrap() };
    batch = batch.put(CATALOGUE, keys::root_key(), key.encode()).put(CATALOGUE, keys::catalogue_head(), head.encode());
    kv.commit(batch, Durability::Sync).unwrap();
    kv
}

#[test]
fn a_store_of_format_0_is_refused_until_it_is_upgraded_and_then_has_all_it_had() {
    let kv = old_store();
    let error = open(&kv).err().unwrap();
    assert!(error.kind() == ErrorKind::Unsupported && error.message().contains("koine upgrade"), "{error}");
    // It can be looked at all the same.
    assert_eq!(Local::inspect(Arc::clone(&kv)).head("bucket", "a").unwrap().size, 1000);
    let would = CatalogueUpgrade { from: 0, to: 1, buckets: 2, counters: 3 };
    let before = kv.view().unwrap().version();
    assert_eq!(upgrade(&kv, true).unwrap(), Some(would));
    assert_eq!(kv.view().unwrap().version(), before, "a dry run writes nothing");
    assert_eq!(upgrade(&kv, false).unwrap(), Some(would));
    let objects = open(&kv).unwrap();
    let usage = objects.bucket_usage("bucket").unwrap();
    assert_eq!((usage.objects, usage.bytes, usage.upload_bytes), (3, 3000, 500));
    assert_eq!(objects.bucket_usage("empty").unwrap().objects, 0);
    assert_eq!(objects.root_key().unwrap(), Some(root()));
    assert_eq!(objects.identities().by_access_key("ROOTKEY").unwrap().1.expose(), "rootsecret");
    assert_eq!(keys_in(&kv, CATALOGUE, keys::root_key()), Vec::<Bytes>::new());
    let of_root = BucketQuery { group: Some("root".into()), ..BucketQuery::default() };
    assert_eq!(objects.list_buckets(&of_root).unwrap().buckets.len(), 2);
    let query = UploadQuery { limit: 9, ..UploadQuery::default() };
    assert_eq!(objects.list_uploads("bucket", &query).unwrap().uploads.len(), 1);
    assert_eq!(objects.collect(&CollectOptions::default(), &mut |_| {}).unwrap().found(), 0);
    // Once is enough.
    let done = CatalogueUpgrade { from: 1, to: 1, buckets: 0, counters: 0 };
    assert_eq!(upgrade(&kv, false).unwrap(), Some(done));
}

#[test]
fn an_upgrade_that_was_interrupted_is_done_again() {
    let kv = old_store();
    let objects = Local::inspect(Arc::clone(&kv));
    recount_all(&objects, true).unwrap();
    list_buckets(&objects).unwrap();
    assert_eq!(open(&kv).err().unwrap().kind(), ErrorKind::Unsupported);
    let done = CatalogueUpgrade { from: 0, to: 1, buckets: 2, counters: 0 };
    assert_eq!(upgrade(&kv, false).unwrap(), Some(done));
    assert_eq!(open(&kv).unwrap().bucket_usage("bucket").unwrap().bytes, 3000);
}

#[test]
fn a_store_without_a_catalogue_has_nothing_to_upgrade_and_a_newer_one_is_refused() {
    let kv: Arc<dyn Kv> = Arc::new(MemoryKv::default());
    assert_eq!(upgrade(&kv, false).unwrap(), None);
    let objects = open(&kv).unwrap();
    let newer = HeadRecord { format: CATALOGUE_FORMAT + 1, ..objects.read_head().unwrap().unwrap() };
    kv.commit(Batch::new().put(CATALOGUE, keys::catalogue_head(), newer.encode()), Durability::Sync).unwrap();
    let refused = [open(&kv).err().unwrap(), upgrade(&kv, false).unwrap_err()];
    for error in refused {
        assert!(error.kind() == ErrorKind::Unsupported && error.message().contains("newer"), "{error}");
    }
}
