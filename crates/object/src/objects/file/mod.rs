//! An object as a file: read, write and seek, by the traits of `std`.
//!
//! Invariants:
//! - What is read is the object as it stood when the file was opened (S-300).
//! - `Create` and `CreateNew` change nothing before `close`, which is one commit; a file that is dropped without it
//!   leaves nothing. `Append` and `ReadWrite` change the object at `flush` and `close`, each in one commit, and what
//!   was not flushed is left with the file (S-182).
//! - What is edited is the object that was opened, not another of its name (S-301).

mod edits;

use std::fmt;
use std::io::{self, Read, Seek, SeekFrom, Write};

use bytes::Bytes;
use koine_kv::BATCH_BYTES_MAX;

use self::edits::Waiting;
use super::Store;
use crate::checksum::Expected;
use crate::conditions::exists;
use crate::error::{Error, ErrorKind, Result, invalid};
use crate::etag::PutCondition;
use crate::ids::ObjectId;
use crate::info::ObjectInfo;
use crate::object_name::ObjectName;
use crate::objects::{EditWriter, ObjectReader, ObjectWriter, Objects};
use crate::request::{EditOptions, OBJECT_LEN_MAX, PutOptions};
use crate::verb::run;
use crate::version_id::VersionId;

/// How much is read ahead for reads that are smaller; larger ones go straight to the caller's buffer.
const READ_AHEAD: usize = 64 << 10;

/// How an object is opened as a file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FileMode {
    /// `r`: read what is there.
    Read,
    /// `r+`: read what is there and write over it.
    ReadWrite,
    /// `w`: put an object anew, in the place of what is there.
    Create,
    /// `x`: put an object where none is.
    CreateNew,
    /// `a`: write behind what is there, wherever that ends by then; an object is made where none is.
    Append,
}

impl FileMode {
    /// Whether a file of this mode takes writes.
    pub fn writes(self) -> bool {
        self != FileMode::Read
    }

    /// Whether a file of this mode gives bytes.
    pub fn reads(self) -> bool {
        matches!(self, FileMode::Read | FileMode::ReadWrite)
    }
}

impl Objects {
    /// Opens an object as a file. What it makes, it makes as `options` say; their condition holds at `close`.
    pub fn open_file(&self, name: ObjectName<'_>, mode: FileMode, mut options: PutOptions) -> Result<ObjectFile> {
        let work = match mode {
            FileMode::ReadWrite => Work::Edit(Box::new(Editing::open(self, name)?)),
            FileMode::Append => Work::Append(Box::new(Appending::open(self, name)?)),
            FileMode::Read => {
                let reader = self.get(name.bucket, name.key)?;
                reader.keep()?;
                Work::Read(Box::new(Reading { reader, ahead: Bytes::new(), from: 0 }))
            }
            FileMode::Create => Work::Put(Box::new(self.put(name.bucket, name.key, options)?)),
            FileMode::CreateNew => {
                // Told at once where it can be; another may be faster yet, which `close` tells.
                match self.head(name.bucket, name.key) {
                    Ok(_) => return Err(exists(name)),
                    Err(error) if error.kind() == ErrorKind::NoSuchKey => {}
                    Err(error) => return Err(error),
                }
                options.condition = PutCondition::absent();
                Work::Put(Box::new(self.put(name.bucket, name.key, options)?))
            }
        };
        let position = match &work {
            Work::Append(appending) => appending.size,
            _ => 0,
        };
        Ok(ObjectFile { key: name.key.to_owned(), mode, work, position })
    }
}

impl Objects {
    /// Opens one of an object's versions as a file that is read.
    pub fn open_file_version(&self, name: ObjectName<'_>, version: VersionId) -> Result<ObjectFile> {
        let reader = self.get_version(name, version)?;
        let work = Work::Read(Box::new(Reading { reader, ahead: Bytes::new(), from: 0 }));
        Ok(ObjectFile { key: name.key.to_owned(), mode: FileMode::Read, work, position: 0 })
    }
}

/// An object that is open as a file. Its reads and writes fail with an [`io::Error`] around an [`Error`].
pub struct ObjectFile {
    key: String,
    mode: FileMode,
    work: Work,
    position: u64,
}

enum Work {
    Read(Box<Reading>),
    Put(Box<ObjectWriter>),
    Edit(Box<Editing>),
    Append(Box<Appending>),
}

impl ObjectFile {
    /// What it was opened for.
    pub fn mode(&self) -> FileMode {
        self.mode
    }

    /// Where the next read or write begins.
    pub fn position(&self) -> u64 {
        self.position
    }

    /// How long the file is: the object, and what was written here.
    pub fn size(&self) -> u64 {
        match &self.work {
            Work::Read(reading) => reading.reader.info().size,
            Work::Put(_) => self.position,
            Work::Edit(editing) => editing.waiting.size(),
            Work::Append(appending) => appending.size,
        }
    }

    /// What is known of the object, as it was opened or last flushed; `None` where it is yet to be made.
    pub fn info(&self) -> Option<&ObjectInfo> {
        match &self.work {
            Work::Read(reading) => Some(reading.reader.info()),
            Work::Put(_) => None,
            Work::Edit(editing) => Some(editing.reader.info()),
            Work::Append(appending) => appending.info.as_ref(),
        }
    }

    /// Makes what was written visible, and gives what is known of it then; of a file that only reads, `None`.
    pub fn close(self) -> Result<Option<ObjectInfo>> {
        match self.work {
            Work::Read(_) => Ok(None),
            Work::Put(writer) => writer.finish(&Expected::none()).wait().map(Some),
            Work::Edit(mut editing) => editing.flush().map(|()| Some(editing.reader.info().clone())),
            Work::Append(mut appending) => {
                // An object that is not there is made, though nothing be written.
                if appending.info.is_none() {
                    appending.write(&[])?;
                }
                appending.flush().map(|()| appending.info)
            }
        }
    }

    /// Gives a file that is edited another length, seen from the next flush on; what is added reads as zeros.
    pub fn truncate(&mut self, size: u64) -> Result<()> {
        match &mut self.work {
            Work::Edit(editing) if size <= OBJECT_LEN_MAX => {
                editing.waiting.truncate(size);
                Ok(())
            }
            Work::Edit(_) => Err(invalid(format!("an object may have {OBJECT_LEN_MAX} bytes"))),
            _ => Err(self.not_open_for("another length")),
        }
    }

    fn not_open_for(&self, what: &str) -> Error {
        invalid(format!("the object {:?} is open as {:?}, not for {what}", self.key, self.mode))
    }

    fn put(&mut self, piece: &[u8]) -> Result<()> {
        match &mut self.work {
            Work::Put(writer) => writer.write(piece)?,
            Work::Edit(editing) => editing.write(self.position, piece)?,
            Work::Append(appending) => {
                // Where others have written behind the object too, this is known at the flush.
                self.position = appending.size;
                appending.write(piece)?;
            }
            Work::Read(_) => return Err(self.not_open_for("writing")),
        }
        self.position += piece.len() as u64;
        Ok(())
    }

    fn get(&mut self, buffer: &mut [u8]) -> Result<usize> {
        let count = match &mut self.work {
            Work::Read(reading) => reading.read(self.position, buffer)?,
            Work::Edit(editing) => editing.waiting.read(&editing.reader, self.position, buffer)?,
            Work::Put(_) | Work::Append(_) => return Err(self.not_open_for("reading")),
        };
        self.position += count as u64;
        Ok(count)
    }

    fn move_to(&mut self, to: SeekFrom) -> Result<u64> {
        let (base, by) = match to {
            SeekFrom::Start(offset) => (offset, 0),
            SeekFrom::Current(by) => (self.position, by),
            SeekFrom::End(by) => (self.size(), by),
        };
        let wanted = base
            .checked_add_signed(by)
            .ok_or_else(|| invalid(format!("{base} {by:+} lies before the beginning of the object {:?}", self.key)))?;
        if wanted != self.position && matches!(self.work, Work::Put(_)) {
            let message =
                format!("an object that is put anew is written from its beginning to its end: {:?}", self.key);
            return Err(Error::new(ErrorKind::Unsupported, message));
        }
        self.position = wanted;
        Ok(wanted)
    }
}

/// A reader, and a little of what follows the last read.
struct Reading {
    reader: ObjectReader,
    ahead: Bytes,
    /// Where `ahead` begins.
    from: u64,
}

impl Reading {
    fn read(&mut self, position: u64, buffer: &mut [u8]) -> Result<usize> {
        if self.ahead_at(position).is_empty() {
            if buffer.len() >= READ_AHEAD {
                return self.reader.read(position, buffer);
            }
            self.ahead = self.reader.bytes(position, READ_AHEAD)?;
            self.from = position;
        }
        let ahead = self.ahead_at(position);
        let count = ahead.len().min(buffer.len());
        if let (Some(target), Some(bytes)) = (buffer.get_mut(..count), ahead.get(..count)) {
            target.copy_from_slice(bytes);
        }
        Ok(count)
    }

    fn ahead_at(&self, position: u64) -> &[u8] {
        let passed = position.checked_sub(self.from).and_then(|passed| usize::try_from(passed).ok());
        passed.and_then(|passed| self.ahead.get(passed..)).unwrap_or_default()
    }
}

/// An object that is read and written over.
struct Editing {
    objects: Objects,
    bucket: String,
    /// Of the object as it was opened or last flushed.
    reader: ObjectReader,
    waiting: Waiting,
}

impl Editing {
    fn open(objects: &Objects, name: ObjectName<'_>) -> Result<Self> {
        let reader = objects.get(name.bucket, name.key)?;
        reader.keep()?;
        let waiting = Waiting::new(reader.info().size);
        Ok(Editing { objects: objects.clone(), bucket: name.bucket.to_owned(), reader, waiting })
    }

    fn write(&mut self, position: u64, piece: &[u8]) -> Result<()> {
        if position.checked_add(piece.len() as u64).is_none_or(|end| end > OBJECT_LEN_MAX) {
            return Err(invalid(format!("an object may have {OBJECT_LEN_MAX} bytes")));
        }
        self.waiting.write(position, piece);
        let inline_len = match &self.objects.store {
            Store::There(_) => BATCH_BYTES_MAX,
            Store::Here(local) => local.kv().profile().batch_bytes_max,
        };
        if self.waiting.is_much(inline_len as u64 / 2) { self.flush() } else { Ok(()) }
    }

    fn flush(&mut self) -> Result<()> {
        if self.waiting.is_empty() {
            return Ok(());
        }
        let was = self.reader.info();
        let (id, key) = (was.id, was.key.clone());
        let name = ObjectName::new(&self.bucket, &key);
        match &self.objects.store {
            Store::There(_) => self.waiting.commit_there(&self.objects, name, &only(Some(id)))?,
            Store::Here(local) => {
                let edits = self.waiting.edits(local, name, &only(Some(id)))?;
                run(local, edits).wait()?;
            }
        }
        let reader = self.objects.get(&self.bucket, &key)?;
        if reader.info().id != id {
            let message = format!("the object {key:?} was replaced after it was flushed");
            return Err(Error::new(ErrorKind::Conflict, message));
        }
        self.waiting = Waiting::new(reader.info().size);
        self.reader = reader;
        // In the place of the one before.
        self.reader.keep()
    }
}

/// An object that is written at its end.
struct Appending {
    objects: Objects,
    bucket: String,
    key: String,
    /// What is known of the object; `None` before it is made.
    info: Option<ObjectInfo>,
    /// With what is yet to be flushed.
    size: u64,
    writer: Option<EditWriter>,
}

impl Appending {
    fn open(objects: &Objects, name: ObjectName<'_>) -> Result<Self> {
        let info = match objects.head(name.bucket, name.key) {
            Ok(info) => Some(info),
            Err(error) if error.kind() == ErrorKind::NoSuchKey => None,
            Err(error) => return Err(error),
        };
        let size = info.as_ref().map_or(0, |info| info.size);
        let (bucket, key) = (name.bucket.to_owned(), name.key.to_owned());
        Ok(Appending { objects: objects.clone(), bucket, key, info, size, writer: None })
    }

    fn write(&mut self, piece: &[u8]) -> Result<()> {
        let writer = match &mut self.writer {
            Some(writer) => writer,
            None => {
                let name = ObjectName::new(&self.bucket, &self.key);
                let options = only(self.info.as_ref().map(|info| info.id));
                self.writer.insert(self.objects.append(name, options)?)
            }
        };
        writer.write(piece)?;
        self.size += piece.len() as u64;
        Ok(())
    }

    fn flush(&mut self) -> Result<()> {
        if let Some(writer) = self.writer.take() {
            let info = writer.finish(&Expected::none()).wait()?;
            self.size = info.size;
            self.info = Some(info);
        }
        Ok(())
    }
}

/// An edit of this object and no other of its name.
fn only(id: Option<ObjectId>) -> EditOptions {
    EditOptions { only: id, create: id.is_none(), ..EditOptions::default() }
}

impl Read for ObjectFile {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        Ok(self.get(buffer)?)
    }
}

impl Write for ObjectFile {
    fn write(&mut self, piece: &[u8]) -> io::Result<usize> {
        self.put(piece)?;
        Ok(piece.len())
    }

    /// Makes what was edited visible. Nothing of an object that is put anew is seen before `close`.
    fn flush(&mut self) -> io::Result<()> {
        match &mut self.work {
            Work::Edit(editing) => editing.flush()?,
            Work::Append(appending) => {
                appending.flush()?;
                self.position = appending.size;
            }
            Work::Read(_) | Work::Put(_) => {}
        }
        Ok(())
    }
}

impl Seek for ObjectFile {
    fn seek(&mut self, to: SeekFrom) -> io::Result<u64> {
        Ok(self.move_to(to)?)
    }
}

impl fmt::Debug for ObjectFile {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "ObjectFile({:?}, {:?}, at {})", self.key, self.mode, self.position)
    }
}
