//! Reading an object: one view from its first byte to its last.
//!
//! Invariants:
//! - What a reader gives is the object as it stood when it was opened, whole, or an error; never fewer bytes than the
//!   record says.
//! - It gives them to who may read them at the time of the call, not only to who might when it was opened.

use std::fmt;
use std::sync::{Arc, Mutex, PoisonError};

use bytes::Bytes;
use koine_kv::{Lookup, Place, SpaceId, Version, View, Wait};

use crate::copy::Name;
use crate::error::{Error, Result};
use crate::info::{ObjectInfo, PartInfo};
use crate::keys;
use crate::lookup::{Standing, find_bucket_to_read, find_object, read_value};
use crate::objects::Objects;
use crate::record::{BucketRecord, decode_part_table};
use crate::remote::{self, RemoteReader};
use crate::request::ObjectName;
use crate::rights::{Action, Rights};
use crate::version::VersionId;

impl Objects {
    /// Opens an object as it is now.
    pub fn get(&self, name: &str, key: &str) -> Result<ObjectReader> {
        if let Some(remote) = self.remote() {
            return RemoteReader::open(remote, Name::new(ObjectName::new(name, key))).map(ObjectReader::there);
        }
        self.find(name, key, |view, bucket, standing| {
            self.was_read(bucket, &standing.record);
            Ok(ObjectReader::new(Arc::clone(view), bucket.space, key, standing))
        })
        .map(|reader| reader.asked_as(self, Action::GetObject, ObjectName::new(name, key), None))
    }

    /// What is known of an object.
    pub fn head(&self, bucket: &str, key: &str) -> Result<ObjectInfo> {
        if let Some(remote) = self.remote() {
            return remote.call::<remote::Head>(Name::new(ObjectName::new(bucket, key)));
        }
        self.find(bucket, key, |view, bucket, standing| {
            let accessed = self.last_read(view, bucket, &standing.record)?;
            Ok(ObjectInfo { accessed, ..standing.record.into_info(key.to_owned(), standing.version) })
        })
    }

    fn find<T>(
        &self,
        bucket: &str,
        key: &str,
        tell: impl Fn(&Arc<dyn View>, &BucketRecord, Standing) -> Result<T>,
    ) -> Result<T> {
        self.read(
            |rights| rights.object(Action::GetObject, bucket, key),
            |view| {
                let record = find_bucket_to_read(view, bucket)?;
                let standing = find_object(view, record.space, key_or_absent(key)?)?;
                tell(view, &record, standing.ok_or_else(|| Error::no_such_key(bucket, key))?)
            },
        )
    }
}

/// A name too long or empty is told as such, as for a put.
fn key_or_absent(key: &str) -> Result<&str> {
    keys::check_object_key(key).map(|()| key)
}

/// One version of an object, pinned until it is dropped.
pub struct ObjectReader {
    source: Source,
    info: ObjectInfo,
    asking: Option<Asking>,
}

/// Who reads, asked again at each call once there are newer rules: a right that was taken away ends a reader that is
/// open. The store's owner is not asked.
struct Asking {
    objects: Objects,
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
        self.objects.ask_again(view, &mut judged, |rights| self.needs(rights))
    }

    /// Whether the rules asked last are the newest.
    fn is_current(&self) -> Result<bool> {
        let judged = *self.judged.lock().unwrap_or_else(PoisonError::into_inner);
        Ok(self.objects.kv().view()?.version() == judged)
    }
}

/// Where its bytes are.
enum Source {
    Here { view: Arc<dyn View>, space: SpaceId, data: Bytes },
    There(RemoteReader),
}

impl ObjectReader {
    /// Of what was found in a view.
    pub(crate) fn new(view: Arc<dyn View>, space: SpaceId, key: &str, standing: Standing) -> Self {
        let data = keys::data(standing.record.id);
        let info = standing.record.into_info(key.to_owned(), standing.version);
        ObjectReader { source: Source::Here { view, space, data }, info, asking: None }
    }

    /// Of what another process has.
    pub(crate) fn there((reader, info): (RemoteReader, ObjectInfo)) -> Self {
        ObjectReader { source: Source::There(reader), info, asking: None }
    }

    /// The same, whose reads ask again for what its opening asked for.
    pub(crate) fn asked_as(
        self,
        objects: &Objects,
        action: Action,
        name: ObjectName<'_>,
        version: Option<VersionId>,
    ) -> Self {
        let Source::Here { view, .. } = &self.source else {
            return self;
        };
        if objects.caller().is_owner() {
            return self;
        }
        // Through a pin the opening asked the newest rules, whose version is not known here: the first read asks again.
        let judged = Mutex::new(view.version());
        let asking = Asking { objects: objects.clone(), action, name: Name::new(name), version, judged };
        ObjectReader { asking: Some(asking), ..self }
    }

    fn ask_again(&self) -> Result<()> {
        match (&self.source, &self.asking) {
            (Source::Here { view, .. }, Some(asking)) => asking.again(view),
            _ => Ok(()),
        }
    }

    /// Says that it stays open while other calls are made: `Busy` where as many are open as may be through one session, so
    /// that other calls still find room. One that is read at once and dropped need not say so.
    pub fn keep(&self) -> Result<()> {
        match &self.source {
            Source::Here { view, .. } => Ok(view.keep()?),
            // Its opening was refused there.
            Source::There(_) => Ok(()),
        }
    }

    /// What is known of the object.
    pub fn info(&self) -> &ObjectInfo {
        &self.info
    }

    /// The key that holds its bytes in the store below, where that is here: for reports about the store.
    pub fn data_place(&self) -> Option<Place> {
        match &self.source {
            Source::Here { space, data, .. } => Some(Place { space: *space, key: data.clone() }),
            Source::There(_) => None,
        }
    }

    /// The parts it was joined from; none when it was put whole.
    pub fn parts(&self) -> Result<Vec<PartInfo>> {
        if self.info.part_count.is_none() {
            return Ok(Vec::new());
        }
        self.ask_again()?;
        let table = match &self.source {
            Source::Here { view, space, .. } => read_value(view.as_ref(), *space, &keys::part_table(self.info.id))?,
            Source::There(reader) => return reader.parts(),
        };
        let (_, bytes) = table.ok_or_else(|| self.damaged("its table of parts is not there"))?;
        decode_part_table(&bytes)
    }

    /// Reads into `buffer` from `offset`; a short count only at the object's end.
    pub fn read(&self, offset: u64, buffer: &mut [u8]) -> Result<usize> {
        let wanted = self.within(offset, buffer.len());
        let Some(target) = buffer.get_mut(..wanted).filter(|target| !target.is_empty()) else {
            return Ok(0);
        };
        self.ask_again()?;
        let count = match &self.source {
            Source::Here { view, space, data } => view.read(*space, data, offset, target)?,
            Source::There(reader) => reader.read(offset, target).map(|()| wanted)?,
        };
        self.whole(count, wanted).map(|()| count)
    }

    /// As `bytes`, but `None` where the device would be read, another process asked, or much be copied.
    pub fn bytes_now(&self, offset: u64, length: usize) -> Result<Option<Bytes>> {
        let wanted = self.within(offset, length);
        if wanted == 0 {
            return Ok(Some(Bytes::new()));
        }
        // Rules may have to be read from the device.
        if self.asking.as_ref().is_some_and(|asking| !asking.is_current().unwrap_or(false)) {
            return Ok(None);
        }
        let bytes = match &self.source {
            Source::Here { view, space, data } => match view.lookup(*space, data, offset, wanted, Wait::Never)? {
                Lookup::Found(_, bytes) => Some(bytes),
                Lookup::Absent => Some(Bytes::new()),
                Lookup::WouldWait => None,
            },
            Source::There(reader) => reader.here(offset, wanted),
        };
        bytes.map(|bytes| self.whole(bytes.len(), wanted).map(|()| bytes)).transpose()
    }

    /// Verified bytes of a range, shared where they lie in memory; shorter only at the object's end.
    pub fn bytes(&self, offset: u64, length: usize) -> Result<Bytes> {
        let wanted = self.within(offset, length);
        if wanted == 0 {
            return Ok(Bytes::new());
        }
        self.ask_again()?;
        let bytes = match &self.source {
            Source::Here { view, space, data } => view.bytes(*space, data, offset, wanted)?,
            Source::There(reader) => reader.bytes(offset, wanted)?,
        };
        self.whole(bytes.len(), wanted).map(|()| bytes)
    }

    fn within(&self, offset: u64, length: usize) -> usize {
        let left = self.info.size.saturating_sub(offset);
        usize::try_from(left).unwrap_or(usize::MAX).min(length)
    }

    fn whole(&self, count: usize, wanted: usize) -> Result<()> {
        if count == wanted { Ok(()) } else { Err(self.damaged("its data is shorter than its record says")) }
    }

    fn damaged(&self, what: &str) -> Error {
        Error::damaged(format!("the object {:?} (id {}) is damaged: {what}", self.info.key, self.info.id))
    }
}

impl fmt::Debug for ObjectReader {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "ObjectReader({:?}, {} bytes)", self.info.key, self.info.size)
    }
}
