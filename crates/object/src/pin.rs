//! One version of the store for many reads.
//!
//! Invariants:
//! - All that is read is of the version at which it was pinned, until that view expires (`Expired`, never a mixture).
//! - Who may read is decided by the rules of the moment of each call, not by those of the pinned version.

use std::fmt;
use std::ops::ControlFlow;
use std::sync::Arc;

use koine_kv::Version;

use crate::error::Result;
use crate::get::ObjectReader;
use crate::info::{BucketInfo, BucketUsage, IndexInfo, ObjectInfo, ObjectSummary, SnapshotInfo, UploadId};
use crate::objects::Objects;
use crate::request::{BucketPage, BucketQuery, ListPage, ListQuery, ObjectName, PartPage, UploadPage, UploadQuery};
use crate::search::{SearchPage, SearchQuery};
use crate::version::{VersionId, VersionPage, VersionQuery};

/// Reads at one version of the store: each call is that of [`Objects`].
///
/// While it is kept, so is what was deleted since, unless the store takes the view back. Of a store that another process
/// has, a connection may keep 64 at once; beyond that it is `Busy`.
#[derive(Clone)]
pub struct Pinned {
    objects: Objects,
    version: Version,
}

impl Objects {
    /// Pins the newest version of the store, for several reads that are to fit together.
    pub fn pin(&self) -> Result<Pinned> {
        if let Some(remote) = self.remote() {
            let (remote, version) = remote.pin()?;
            return Ok(Pinned { version, objects: Objects::elsewhere(Arc::new(remote)) });
        }
        let view = self.kv().view()?;
        view.keep()?;
        Ok(Pinned { version: view.version(), objects: self.at(view) })
    }
}

impl Pinned {
    /// All calls: those that read do so at this version, those that would change something are `ReadOnly`.
    pub fn objects(&self) -> &Objects {
        &self.objects
    }

    /// The last commit that is seen.
    pub fn version(&self) -> Version {
        self.version
    }

    /// Opens an object.
    pub fn get(&self, bucket: &str, key: &str) -> Result<ObjectReader> {
        self.objects.get(bucket, key)
    }

    /// Opens a version of an object.
    pub fn get_version(&self, name: ObjectName<'_>, version: VersionId) -> Result<ObjectReader> {
        self.objects.get_version(name, version)
    }

    /// What is known of a version of an object.
    pub fn head_version(&self, name: ObjectName<'_>, version: VersionId) -> Result<ObjectInfo> {
        self.objects.head_version(name, version)
    }

    /// A page of the versions in a bucket.
    pub fn list_versions(&self, bucket: &str, query: &VersionQuery) -> Result<VersionPage> {
        self.objects.list_versions(bucket, query)
    }

    /// What is known of an object.
    pub fn head(&self, bucket: &str, key: &str) -> Result<ObjectInfo> {
        self.objects.head(bucket, key)
    }

    /// Whether an object has this name.
    pub fn exists(&self, bucket: &str, key: &str) -> Result<bool> {
        self.objects.exists(bucket, key)
    }

    /// A page of the objects of a bucket.
    pub fn list(&self, bucket: &str, query: &ListQuery) -> Result<ListPage> {
        self.objects.list(bucket, query)
    }

    /// Calls `each` for every object of a bucket that begins with `prefix`, in the order of names, until it breaks.
    pub fn for_each(
        &self,
        bucket: &str,
        prefix: &str,
        each: impl FnMut(ObjectSummary) -> ControlFlow<()>,
    ) -> Result<()> {
        self.objects.for_each(bucket, prefix, each)
    }

    /// A page of the objects of a bucket that have an entry of metadata or a tag.
    pub fn search(&self, bucket: &str, query: &SearchQuery) -> Result<SearchPage> {
        self.objects.search(bucket, query)
    }

    /// The indexes of a bucket.
    pub fn indexes(&self, bucket: &str) -> Result<Vec<IndexInfo>> {
        self.objects.indexes(bucket)
    }

    /// What is known of a bucket.
    pub fn head_bucket(&self, bucket: &str) -> Result<BucketInfo> {
        self.objects.head_bucket(bucket)
    }

    /// What a bucket holds.
    pub fn bucket_usage(&self, bucket: &str) -> Result<BucketUsage> {
        self.objects.bucket_usage(bucket)
    }

    /// The snapshots of a bucket.
    pub fn list_snapshots(&self, bucket: &str) -> Result<Vec<SnapshotInfo>> {
        self.objects.list_snapshots(bucket)
    }

    /// A page of the uploads of a bucket.
    pub fn list_uploads(&self, bucket: &str, query: &UploadQuery) -> Result<UploadPage> {
        self.objects.list_uploads(bucket, query)
    }

    /// A page of the parts of an upload.
    pub fn list_parts(&self, name: ObjectName<'_>, upload: UploadId, after: u32, limit: usize) -> Result<PartPage> {
        self.objects.list_parts(name, upload, after, limit)
    }

    /// Calls `each` for every bucket that begins with `prefix`, in the order of names, until it breaks.
    pub fn for_each_bucket(&self, prefix: &str, each: impl FnMut(BucketInfo) -> ControlFlow<()>) -> Result<()> {
        self.objects.for_each_bucket(prefix, each)
    }

    /// Buckets by name.
    pub fn list_buckets(&self, query: &BucketQuery) -> Result<BucketPage> {
        self.objects.list_buckets(query)
    }
}

impl fmt::Debug for Pinned {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Pinned({:?} at {})", self.objects, self.version.0)
    }
}
