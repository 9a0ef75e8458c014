//! An object that is open to read, here or elsewhere.

use std::fmt;

use bytes::Bytes;
use koine_kv::Place;

use super::{Objects, Store};
use crate::client::RemoteReader;
use crate::error::Result;
use crate::get::LocalReader;
use crate::info::{ObjectInfo, PartInfo};
use crate::object_name::{Name, ObjectName};
use crate::version_id::VersionId;

impl Objects {
    /// Opens an object as it is now.
    pub fn get(&self, bucket: &str, key: &str) -> Result<ObjectReader> {
        let source = match &self.store {
            Store::Here(local) => Source::Here(local.get(bucket, key)?),
            Store::There(remote) => Source::There(RemoteReader::open(remote, Name::new(ObjectName::new(bucket, key)))?),
        };
        Ok(ObjectReader { source })
    }

    /// Opens a version of an object: `NoSuchVersion` where the name has it not, `InvalidRequest` where it is a delete
    /// marker. What was put while versions were not enabled is the version `null`.
    pub fn get_version(&self, name: ObjectName<'_>, version: VersionId) -> Result<ObjectReader> {
        let source = match &self.store {
            Store::Here(local) => Source::Here(local.get_version(name, version)?),
            Store::There(remote) => Source::There(RemoteReader::open_version(remote, Name::new(name), version)?),
        };
        Ok(ObjectReader { source })
    }
}

/// One version of an object, pinned until it is dropped.
pub struct ObjectReader {
    source: Source,
}

/// Where its bytes are.
#[expect(
    clippy::large_enum_variant,
    reason = "one is held at a time; a box would be one more piece of memory for each get"
)]
enum Source {
    Here(LocalReader),
    There(RemoteReader),
}

impl ObjectReader {
    /// Says that it stays open while other calls are made: `Busy` where as many are open as may be through one session, so
    /// that other calls still find room. One that is read at once and dropped need not say so.
    pub fn keep(&self) -> Result<()> {
        match &self.source {
            Source::Here(reader) => reader.keep(),
            // Its opening was refused there.
            Source::There(_) => Ok(()),
        }
    }

    /// What is known of the object.
    pub fn info(&self) -> &ObjectInfo {
        match &self.source {
            Source::Here(reader) => reader.info(),
            Source::There(reader) => reader.info(),
        }
    }

    /// The key that holds its bytes in the store below, where that is here: for reports about the store.
    pub fn data_place(&self) -> Option<Place> {
        match &self.source {
            Source::Here(reader) => Some(reader.data_place()),
            Source::There(_) => None,
        }
    }

    /// The parts it was joined from; none when it was put whole.
    pub fn parts(&self) -> Result<Vec<PartInfo>> {
        if self.info().part_count.is_none() {
            return Ok(Vec::new());
        }
        match &self.source {
            Source::Here(reader) => reader.parts(),
            Source::There(reader) => reader.parts(),
        }
    }

    /// Reads into `buffer` from `offset`; a short count only at the object's end.
    pub fn read(&self, offset: u64, buffer: &mut [u8]) -> Result<usize> {
        let wanted = self.within(offset, buffer.len());
        let Some(target) = buffer.get_mut(..wanted).filter(|target| !target.is_empty()) else {
            return Ok(0);
        };
        match &self.source {
            Source::Here(reader) => reader.read(offset, target)?,
            Source::There(reader) => reader.read(offset, target)?,
        }
        Ok(wanted)
    }

    /// As `bytes`, but `None` where the device would be read, another process asked, or much be copied.
    pub fn bytes_now(&self, offset: u64, length: usize) -> Result<Option<Bytes>> {
        match (self.within(offset, length), &self.source) {
            (0, _) => Ok(Some(Bytes::new())),
            (wanted, Source::Here(reader)) => reader.bytes_now(offset, wanted),
            (wanted, Source::There(reader)) => Ok(reader.here(offset, wanted)),
        }
    }

    /// Verified bytes of a range, shared where they lie in memory; shorter only at the object's end.
    pub fn bytes(&self, offset: u64, length: usize) -> Result<Bytes> {
        match (self.within(offset, length), &self.source) {
            (0, _) => Ok(Bytes::new()),
            (wanted, Source::Here(reader)) => reader.bytes(offset, wanted),
            (wanted, Source::There(reader)) => reader.bytes(offset, wanted),
        }
    }

    fn within(&self, offset: u64, length: usize) -> usize {
        let left = self.info().size.saturating_sub(offset);
        usize::try_from(left).unwrap_or(usize::MAX).min(length)
    }
}

impl fmt::Debug for ObjectReader {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "ObjectReader({:?}, {} bytes)", self.info().key, self.info().size)
    }
}
