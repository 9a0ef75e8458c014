//! Metadata and tags of buckets.

use koine_object::{BucketChange, BucketInfo, ErrorKind, MetadataChange, Objects, Result};

use crate::support::{kind, kv_of, put, store};

fn pairs(pairs: &[(&str, &str)]) -> Vec<(String, String)> {
    pairs.iter().map(|(name, value)| ((*name).to_owned(), (*value).to_owned())).collect()
}

fn set(objects: &Objects, change: BucketChange) -> Result<BucketInfo> {
    objects.set_bucket("bucket", change).wait()
}

#[test]
fn metadata_and_tags_of_a_bucket_are_set_shown_and_kept() {
    let objects = store();
    put(&objects, "key", b"body");
    let metadata = MetadataChange::Replace(pairs(&[("purpose", "tests"), ("since", "2026")]));
    let tags = MetadataChange::Replace(pairs(&[("team", "storage")]));
    let told = set(&objects, BucketChange { metadata: Some(metadata), tags: Some(tags), ..BucketChange::default() });
    assert_eq!(objects.head_bucket("bucket").unwrap(), told.unwrap());
    let merge = MetadataChange::Merge { set: pairs(&[("purpose", "more")]), remove: vec!["since".into()] };
    set(&objects, BucketChange { metadata: Some(merge), ..BucketChange::default() }).unwrap();
    objects.purge_bucket("bucket").wait().unwrap();
    let info = objects.head_bucket("bucket").unwrap();
    assert_eq!((info.metadata, info.tags), (pairs(&[("purpose", "more")]), pairs(&[("team", "storage")])));
    // A branch is a bucket of its own, with the settings of a new one.
    let branch = objects.branch_bucket("bucket", "branch").wait().unwrap();
    assert_eq!((branch.metadata, branch.tags), (Vec::new(), Vec::new()));
}

#[test]
fn a_location_is_told_back_and_goes_on_through_other_changes() {
    let objects = store();
    put(&objects, "key", b"body");
    assert_eq!(objects.head_bucket("bucket").unwrap().location, None);
    let located = |location: &str| BucketChange { location: Some(location.to_owned()), ..BucketChange::default() };
    assert_eq!(set(&objects, located("moon-1")).unwrap().location.as_deref(), Some("moon-1"));
    let tags = MetadataChange::Replace(pairs(&[("team", "storage")]));
    set(&objects, BucketChange { tags: Some(tags), ..BucketChange::default() }).unwrap();
    assert_eq!(objects.head_bucket("bucket").unwrap().location.as_deref(), Some("moon-1"));
    for wrong in ["", "two words", "möön", &"x".repeat(65)] {
        assert_eq!(kind(set(&objects, located(wrong))), ErrorKind::InvalidArgument);
    }
}

#[test]
fn metadata_and_tags_of_a_bucket_have_the_limits_of_objects() {
    let objects = store();
    let version = kv_of(&objects).view().unwrap().version();
    let long = MetadataChange::Replace(pairs(&[("name", &"x".repeat(2_045))]));
    let metadata = BucketChange { metadata: Some(long), ..BucketChange::default() };
    assert_eq!(kind(set(&objects, metadata)), ErrorKind::MetadataTooLarge);
    let twice = MetadataChange::Replace(pairs(&[("a", "1"), ("a", "2")]));
    assert_eq!(
        kind(set(&objects, BucketChange { tags: Some(twice), ..BucketChange::default() })),
        ErrorKind::InvalidTag
    );
    let tags = |count: u32| MetadataChange::Replace((0..count).map(|n| (n.to_string(), String::new())).collect());
    let many = BucketChange { tags: Some(tags(51)), ..BucketChange::default() };
    assert_eq!(kind(set(&objects, many)), ErrorKind::InvalidTag);
    assert_eq!(kv_of(&objects).view().unwrap().version(), version);
}
