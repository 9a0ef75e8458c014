//! Bodies on their way in: of objects, edits and parts, to the store here or to one elsewhere.

use std::fmt;

use super::{Objects, Store};
use crate::access_list::AccessList;
use crate::calls::verbs::{self, FinishObject, FinishPart};
use crate::calls::{Source, Writing};
use crate::checksum::Expected;
use crate::client::RemoteWriter;
use crate::edit::{EditPlace, LocalEditWriter, check_offset};
use crate::error::{Error, ErrorKind, Result};
use crate::ids::UploadId;
use crate::info::{ObjectInfo, PartInfo};
use crate::multipart::LocalPartWriter;
use crate::object_name::{Name, ObjectName};
use crate::pending::Pending;
use crate::put::LocalWriter;
use crate::request::{ComposeOptions, EditOptions, PartOptions, PutOptions, Segment};

impl Objects {
    /// Begins to put an object.
    pub fn put(&self, bucket: &str, key: &str, options: PutOptions) -> Result<ObjectWriter> {
        let name = Name::new(ObjectName::new(bucket, key));
        let work = match &self.store {
            Store::Here(local) => PutWork::Here(Box::new(local.put(bucket, key, options)?)),
            Store::There(remote) => {
                let writing = Writing::Put(name.clone(), Box::new(options));
                PutWork::There(Box::new(RemoteWriter::open(remote, writing)?))
            }
        };
        Ok(ObjectWriter { name, work })
    }

    /// Begins to write into an object at an offset, in bytes; past its end it is extended, and a gap reads as zeros.
    pub fn write_at(&self, name: ObjectName<'_>, offset: u64, options: EditOptions) -> Result<EditWriter> {
        check_offset(offset)?;
        self.edit(name, EditPlace::At(offset), options)
    }

    /// Begins to write at the end of an object, wherever that is when it is committed.
    pub fn append(&self, name: ObjectName<'_>, options: EditOptions) -> Result<EditWriter> {
        self.edit(name, EditPlace::End, options)
    }

    fn edit(&self, name: ObjectName<'_>, place: EditPlace, options: EditOptions) -> Result<EditWriter> {
        let work = match &self.store {
            Store::Here(local) => EditWork::Here(Box::new(local.edit(name, place, options)?)),
            Store::There(remote) => {
                let (name, options) = (Name::new(name), Box::new(options));
                let writing = match place {
                    EditPlace::At(offset) => Writing::At(name, offset, options),
                    EditPlace::End => Writing::End(name, options),
                };
                EditWork::There(Box::new(RemoteWriter::open(remote, writing)?))
            }
        };
        Ok(EditWriter { name: Name::new(name), place, work })
    }

    /// Begins to put a part; one of the same number is replaced.
    pub fn put_part(
        &self,
        name: ObjectName<'_>,
        upload: UploadId,
        number: u32,
        options: PartOptions,
    ) -> Result<PartWriter> {
        let work = match &self.store {
            Store::Here(local) => PartWork::Here(Box::new(local.put_part(name, upload, number, options)?)),
            Store::There(remote) => {
                let writing = Writing::Part(Name::new(name), upload, number, Box::new(options));
                PartWork::There(Box::new(RemoteWriter::open(remote, writing)?))
            }
        };
        Ok(PartWriter { upload, number, work })
    }

    /// Makes a new object of others, or of ranges of them, one after the other, without copying data; it replaces what
    /// has the name. What is expected of its length and checksums is compared where it can be told without reading.
    pub fn compose(&self, sources: &[Segment<'_>], to: ObjectName<'_>, options: ComposeOptions) -> Pending<ObjectInfo> {
        match &self.store {
            Store::Here(local) => local.compose(sources, to, options),
            Store::There(remote) => {
                let sources = sources.iter().map(Source::new).collect();
                let named = options.put.request;
                remote.begin_named::<verbs::Compose>((sources, Name::new(to), options), named)
            }
        }
    }
}

/// An object on its way in. Dropped before `finish`, it leaves nothing.
pub struct ObjectWriter {
    name: Name,
    work: PutWork,
}

enum PutWork {
    Here(Box<LocalWriter>),
    There(Box<RemoteWriter>),
}

impl ObjectWriter {
    /// Adds a piece of any length. May wait for the device's writes, never for a flush. After an error nothing
    /// but dropping makes sense.
    pub fn write(&mut self, piece: &[u8]) -> Result<()> {
        match &mut self.work {
            PutWork::Here(writer) => writer.write(piece),
            PutWork::There(writer) => writer.write(piece),
        }
    }

    /// The access list that the object gets in the same commit, which whoever puts it must be allowed to set then.
    /// `Unsupported` where the store is elsewhere.
    pub fn set_access(&mut self, list: AccessList) -> Result<()> {
        match &mut self.work {
            PutWork::Here(writer) => {
                writer.set_access(list);
                Ok(())
            }
            PutWork::There(_) => {
                let message = "an access list is set after the object is put, where its store is elsewhere";
                Err(Error::new(ErrorKind::Unsupported, message))
            }
        }
    }

    /// No more pieces: verifies what was promised by headers and by these trailers, and commits.
    pub fn finish(self, trailers: &Expected) -> Pending<ObjectInfo> {
        match self.work {
            PutWork::Here(writer) => writer.finish(trailers),
            PutWork::There(writer) => writer.finish::<FinishObject>(trailers),
        }
    }
}

impl fmt::Debug for ObjectWriter {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "ObjectWriter({:?} in {:?})", self.name.key, self.name.bucket)
    }
}

/// Bytes on their way into an object. Dropped before `finish`, they leave nothing.
pub struct EditWriter {
    name: Name,
    place: EditPlace,
    work: EditWork,
}

enum EditWork {
    Here(Box<LocalEditWriter>),
    There(Box<RemoteWriter>),
}

impl EditWriter {
    /// Adds a piece of any length. May wait for the device's writes, never for a flush. After an error nothing
    /// but dropping makes sense.
    pub fn write(&mut self, piece: &[u8]) -> Result<()> {
        match &mut self.work {
            EditWork::Here(writer) => writer.write(piece),
            EditWork::There(writer) => writer.write(piece),
        }
    }

    /// No more pieces: verifies what was promised by the options and by these trailers, and commits.
    pub fn finish(self, trailers: &Expected) -> Pending<ObjectInfo> {
        match self.work {
            EditWork::Here(writer) => writer.finish(trailers),
            EditWork::There(writer) => writer.finish::<FinishObject>(trailers),
        }
    }
}

impl fmt::Debug for EditWriter {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "EditWriter({:?} in {:?}, {:?})", self.name.key, self.name.bucket, self.place)
    }
}

/// A part on its way in. Dropped before `finish`, it leaves nothing.
pub struct PartWriter {
    upload: UploadId,
    number: u32,
    work: PartWork,
}

enum PartWork {
    Here(Box<LocalPartWriter>),
    There(Box<RemoteWriter>),
}

impl PartWriter {
    /// Adds a piece of any length. May wait for the device's writes, never for a flush. After an error nothing
    /// but dropping makes sense.
    pub fn write(&mut self, piece: &[u8]) -> Result<()> {
        match &mut self.work {
            PartWork::Here(writer) => writer.write(piece),
            PartWork::There(writer) => writer.write(piece),
        }
    }

    /// No more pieces: verifies what was promised by headers and by these trailers, and commits.
    pub fn finish(self, trailers: &Expected) -> Pending<PartInfo> {
        match self.work {
            PartWork::Here(writer) => writer.finish(trailers),
            PartWork::There(writer) => writer.finish::<FinishPart>(trailers),
        }
    }
}

impl fmt::Debug for PartWriter {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "PartWriter({} of {})", self.number, self.upload)
    }
}
