//! The door: opening, the root key, and what every call shares.

use std::fmt;
use std::sync::Arc;

use bytes::Bytes;
use koine_env::{Clock, Random, Timestamp};
use koine_kv::{Batch, Condition, Durability, ErrorKind as KvErrorKind, Kv, Operation, Place, SpaceId, Version, View};

use crate::error::{Error, ErrorKind, Result};
use crate::info::ObjectId;
use crate::keys;
use crate::record::{BucketRecord, HeadRecord, ObjectRecord, RootKeyRecord};

/// A record is never longer than this; a longer one is damage.
const RECORD_LEN_MAX: u64 = 4 << 20;

/// The key that may do everything.
#[derive(Clone, PartialEq, Eq)]
pub struct RootKey {
    /// What requests name.
    pub access_key: String,
    /// What they are signed with.
    pub secret: String,
}

impl fmt::Debug for RootKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "RootKey({:?})", self.access_key)
    }
}

/// Buckets and objects over a store. Cheap to clone; holds nothing that correctness needs.
#[derive(Clone)]
pub struct Objects {
    kv: Arc<dyn Kv>,
    clock: Arc<dyn Clock>,
    random: Arc<dyn Random>,
}

impl fmt::Debug for Objects {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Objects({})", self.kv.profile().name)
    }
}

/// What stands under a name.
pub(crate) struct Standing {
    pub version: Version,
    pub record: ObjectRecord,
}

impl Objects {
    /// Opens the objects of a store; makes the catalogue when the store is new.
    pub fn open(kv: Arc<dyn Kv>, clock: Arc<dyn Clock>, random: Arc<dyn Random>) -> Result<Self> {
        let objects = Objects { kv, clock, random };
        if objects.read_head()?.is_none() {
            objects.make_catalogue()?;
        }
        Ok(objects)
    }

    fn read_head(&self) -> Result<Option<HeadRecord>> {
        let view = self.kv.view()?;
        let head = read_value(view.as_ref(), keys::CATALOGUE, &keys::catalogue_head())?;
        head.map(|(_, bytes)| HeadRecord::decode(&bytes)).transpose()
    }

    fn make_catalogue(&self) -> Result<()> {
        let head = HeadRecord { created: self.now() }.encode();
        let mut batch = Batch::new().when(Condition::Absent { space: keys::CATALOGUE, key: keys::catalogue_head() });
        if !self.kv.view()?.has_space(keys::CATALOGUE)? {
            batch = batch.then(Operation::CreateSpace { space: keys::CATALOGUE });
        }
        match self.kv.commit(batch.put(keys::CATALOGUE, keys::catalogue_head(), head), Durability::Sync) {
            Ok(_) => Ok(()),
            // Another process opened the same new store at the same time.
            Err(error) if error.kind() == KvErrorKind::Refused && self.read_head()?.is_some() => Ok(()),
            Err(error) => Err(error.into()),
        }
    }

    /// The keys that belong to a store itself and not to its buckets: a store without buckets has no others.
    pub fn founding_keys() -> Vec<Place> {
        let of_catalogue = |key| Place { space: keys::CATALOGUE, key };
        vec![of_catalogue(keys::catalogue_head()), of_catalogue(keys::root_key())]
    }

    /// The store below.
    pub fn kv(&self) -> &Arc<dyn Kv> {
        &self.kv
    }

    /// The root key, when one was set. It stands in the catalogue as it is: who reads the device reads it.
    pub fn root_key(&self) -> Result<Option<RootKey>> {
        let view = self.kv.view()?;
        let Some((_, bytes)) = read_value(view.as_ref(), keys::CATALOGUE, &keys::root_key())? else {
            return Ok(None);
        };
        let RootKeyRecord { access_key, secret } = RootKeyRecord::decode(&bytes)?;
        Ok(Some(RootKey { access_key, secret }))
    }

    /// Sets the root key unless there is one; gives the one that stands.
    pub fn set_root_key_if_absent(&self, key: &RootKey) -> Result<RootKey> {
        let record = RootKeyRecord { access_key: key.access_key.clone(), secret: key.secret.clone() };
        let batch = Batch::new().when(Condition::Absent { space: keys::CATALOGUE, key: keys::root_key() }).put(
            keys::CATALOGUE,
            keys::root_key(),
            record.encode(),
        );
        match self.kv.commit(batch, Durability::Sync) {
            Ok(_) => Ok(key.clone()),
            Err(error) if error.kind() == KvErrorKind::Refused => {
                self.root_key()?.ok_or_else(|| Error::new(ErrorKind::Conflict, "the root key was removed meanwhile"))
            }
            Err(error) => Err(error.into()),
        }
    }

    pub(crate) fn now(&self) -> Timestamp {
        self.clock.now()
    }

    pub(crate) fn draw_u64(&self) -> u64 {
        self.random.next_u64()
    }

    pub(crate) fn draw_id(&self) -> ObjectId {
        ObjectId(self.random.next_u64())
    }
}

/// The whole value of a key and its version; for records.
pub(crate) fn read_value(view: &dyn View, space: SpaceId, key: &[u8]) -> Result<Option<(Version, Bytes)>> {
    let Some(stat) = view.stat(space, key)? else {
        return Ok(None);
    };
    let length = usize::try_from(stat.size.min(RECORD_LEN_MAX + 1)).unwrap_or(usize::MAX);
    if stat.size > RECORD_LEN_MAX {
        return Err(Error::damaged(format!("the record at {} has {} bytes", hex::encode(key), stat.size)));
    }
    Ok(Some((stat.version, view.bytes(space, key, 0, length)?)))
}

/// The record of a bucket, and its version.
pub(crate) fn find_bucket(view: &dyn View, bucket: &str) -> Result<(Version, BucketRecord)> {
    let found = if bucket.len() > 63 { None } else { read_value(view, keys::CATALOGUE, &keys::bucket(bucket))? };
    let (version, bytes) = found.ok_or_else(|| Error::no_such_bucket(bucket))?;
    Ok((version, BucketRecord::decode(&bytes)?))
}

/// The space of a bucket.
pub(crate) fn find_space(view: &dyn View, bucket: &str) -> Result<SpaceId> {
    find_bucket(view, bucket).map(|(_, record)| record.space)
}

/// What stands under a name in a bucket's space.
pub(crate) fn find_object(view: &dyn View, space: SpaceId, key: &str) -> Result<Option<Standing>> {
    let Some((version, bytes)) = read_value(view, space, &keys::name(key))? else {
        return Ok(None);
    };
    Ok(Some(Standing { version, record: ObjectRecord::decode(&bytes)? }))
}

/// Adds to a batch that `standing` is still what the name has, and that its data goes. The name itself is put or
/// deleted by the caller.
pub(crate) fn replace(batch: Batch, space: SpaceId, key: &str, standing: Option<&Standing>) -> Batch {
    let name = keys::name(key);
    let Some(standing) = standing else {
        return batch.when(Condition::Absent { space, key: name });
    };
    let mut batch = batch
        .when(Condition::VersionIs { space, key: name, version: standing.version })
        .delete(space, keys::data(standing.record.id));
    if standing.record.part_count.is_some() {
        batch = batch.delete(space, keys::part_table(standing.record.id));
    }
    batch
}

/// A batch that is never applied: only an earlier one of the same request id can make it a commit.
pub(crate) fn never(space: SpaceId, key: &str) -> Batch {
    Batch::new().when(Condition::VersionIs { space, key: keys::name(key), version: Version(0) })
}
