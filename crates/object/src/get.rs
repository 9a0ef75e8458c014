//! Reading an object: one view from its first byte to its last.
//!
//! Invariants:
//! - What a reader gives is the object as it stood when it was opened, whole, or an error; never fewer bytes than the
//!   record says.
//! - It gives them to who may read them at the time of the call, not only to who might when it was opened.

use std::sync::{Arc, Mutex, PoisonError};

use bytes::Bytes;
use koine_kv::{Lookup, Place, SpaceId, Version, View, Wait};

use crate::action::Action;
use crate::error::{Error, Result};
use crate::info::{ObjectInfo, PartInfo};
use crate::keys;
use crate::layout;
use crate::local::Local;
use crate::lookup::{CurrentObject, find_bucket_to_read, find_object, read_value};
use crate::object_name::{Name, ObjectName};
use crate::record::{BucketRecord, decode_part_table};
use crate::rights::Rights;
use crate::version_id::VersionId;

impl Local {
    pub fn get(&self, bucket: &str, key: &str) -> Result<LocalReader> {
        let name = ObjectName::new(bucket, key);
        let reader = self.find(bucket, key, |view, bucket, current| {
            self.was_read(bucket, &current.record);
            Ok(LocalReader::new(Arc::clone(view), bucket.space, key, current))
        })?;
        Ok(reader.asked_as(self, Action::GetObject, name, None))
    }

    pub fn head(&self, bucket: &str, key: &str) -> Result<ObjectInfo> {
        self.find(bucket, key, |view, bucket, current| {
            let accessed = self.last_read(view, bucket, &current.record)?;
            Ok(ObjectInfo { accessed, ..current.record.into_info(key.to_owned(), current.version) })
        })
    }

    fn find<T>(
        &self,
        bucket: &str,
        key: &str,
        tell: impl Fn(&Arc<dyn View>, &BucketRecord, CurrentObject) -> Result<T>,
    ) -> Result<T> {
        self.read(
            |rights| rights.object(Action::GetObject, bucket, key),
            |view| {
                let record = find_bucket_to_read(view, bucket)?;
                let current = find_object(view, record.space, key_or_absent(key)?)?;
                tell(view, &record, current.ok_or_else(|| Error::no_such_key(bucket, key))?)
            },
        )
    }
}

/// A name too long or empty is told as such, as for a put.
fn key_or_absent(key: &str) -> Result<&str> {
    keys::check_object_key(key).map(|()| key)
}

/// One version of an object, pinned until it is dropped.
pub(crate) struct LocalReader {
    view: Arc<dyn View>,
    space: SpaceId,
    data: Bytes,
    info: ObjectInfo,
    asking: Option<Asking>,
}

/// Who reads, asked again at each call once there are newer rules: a right that was taken away ends a reader that is
/// open. The store's owner is not asked.
struct Asking {
    local: Local,
    action: Action,
    name: Name,
    version: Option<VersionId>,
    /// The version whose rules were asked last.
    judged: Mutex<Version>,
}

impl Asking {
    fn needs(&self, rights: &mut Rights<'_>) -> Result<()> {
        match self.version {
            Some(version) => rights.version(self.action, &self.name.bucket, &self.name.key, version),
            None => rights.object(self.action, &self.name.bucket, &self.name.key),
        }
    }

    fn again(&self, view: &Arc<dyn View>) -> Result<()> {
        let mut judged = self.judged.lock().unwrap_or_else(PoisonError::into_inner);
        self.local.ask_again(view, &mut judged, |rights| self.needs(rights))
    }

    /// Whether the rules asked last are the newest.
    fn is_current(&self) -> Result<bool> {
        let judged = *self.judged.lock().unwrap_or_else(PoisonError::into_inner);
        Ok(self.local.kv().view()?.version() == judged)
    }
}

impl LocalReader {
    /// Of what was found in a view.
    pub fn new(view: Arc<dyn View>, space: SpaceId, key: &str, current: CurrentObject) -> Self {
        let data = layout::place(space, current.record.id).key;
        let info = current.record.into_info(key.to_owned(), current.version);
        LocalReader { view, space, data, info, asking: None }
    }

    /// The same, whose reads ask again for what its opening asked for.
    pub fn asked_as(self, local: &Local, action: Action, name: ObjectName<'_>, version: Option<VersionId>) -> Self {
        if local.caller().is_owner() {
            return self;
        }
        // Through a pin the opening asked the newest rules, whose version is not known here: the first read asks again.
        let judged = Mutex::new(self.view.version());
        let asking = Asking { local: local.clone(), action, name: Name::new(name), version, judged };
        LocalReader { asking: Some(asking), ..self }
    }

    fn ask_again(&self) -> Result<()> {
        self.asking.as_ref().map_or(Ok(()), |asking| asking.again(&self.view))
    }

    /// Says that it stays open while other calls are made.
    pub fn keep(&self) -> Result<()> {
        Ok(self.view.keep()?)
    }

    /// What is known of the object.
    pub fn info(&self) -> &ObjectInfo {
        &self.info
    }

    /// The key that holds its bytes in the store below.
    pub fn data_place(&self) -> Place {
        Place { space: self.space, key: self.data.clone() }
    }

    /// The parts it was joined from.
    pub fn parts(&self) -> Result<Vec<PartInfo>> {
        self.ask_again()?;
        let table = read_value(self.view.as_ref(), self.space, &keys::part_table(self.info.id))?;
        let (_, bytes) = table.ok_or_else(|| self.damaged("its table of parts is not there"))?;
        decode_part_table(&bytes)
    }

    /// Reads a range that lies within the object.
    pub fn read(&self, offset: u64, buffer: &mut [u8]) -> Result<()> {
        self.ask_again()?;
        let count = self.view.read(self.space, &self.data, offset, buffer)?;
        self.check_whole(count, buffer.len())
    }

    /// As `bytes`, but `None` where the device would be read, or much be copied.
    pub fn bytes_now(&self, offset: u64, length: usize) -> Result<Option<Bytes>> {
        // Rules may have to be read from the device.
        if self.asking.as_ref().is_some_and(|asking| !asking.is_current().unwrap_or(false)) {
            return Ok(None);
        }
        let bytes = match self.view.lookup(self.space, &self.data, offset, length, Wait::Never)? {
            Lookup::Found(_, bytes) => bytes,
            Lookup::Absent => Bytes::new(),
            Lookup::WouldWait => return Ok(None),
        };
        self.check_whole(bytes.len(), length).map(|()| Some(bytes))
    }

    /// Verified bytes of a range that lies within the object, shared where they lie in memory.
    pub fn bytes(&self, offset: u64, length: usize) -> Result<Bytes> {
        self.ask_again()?;
        let bytes = self.view.bytes(self.space, &self.data, offset, length)?;
        self.check_whole(bytes.len(), length).map(|()| bytes)
    }

    fn check_whole(&self, count: usize, wanted: usize) -> Result<()> {
        if count == wanted { Ok(()) } else { Err(self.damaged("its data is shorter than its record says")) }
    }

    fn damaged(&self, what: &str) -> Error {
        Error::damaged(format!("the object {:?} (id {}) is damaged: {what}", self.info.key, self.info.id))
    }
}
