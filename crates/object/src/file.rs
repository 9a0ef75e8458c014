//! An object as a file: read, write and seek, by the traits of `std`.
//!
//! Invariants:
//! - What is read is the object as it stood when the file was opened (S-300).
//! - `Create` and `CreateNew` change nothing before `close`, which is one commit; a file that is dropped without it
//!   leaves nothing (S-182).

use std::fmt;
use std::io::{self, Read, Seek, SeekFrom, Write};

use bytes::Bytes;

use crate::checksum::Expected;
use crate::error::{Error, ErrorKind, Result};
use crate::etag::{PutCondition, exists};
use crate::get::ObjectReader;
use crate::info::ObjectInfo;
use crate::objects::Objects;
use crate::put::{ObjectWriter, invalid};
use crate::request::{ObjectName, PutOptions};

/// How much is read ahead for reads that are smaller; larger ones go straight to the caller's buffer.
const READ_AHEAD: usize = 64 << 10;

/// How an object is opened as a file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FileMode {
    /// `r`: read what is there.
    Read,
    /// `w`: put an object anew, in the place of what is there.
    Create,
    /// `x`: put an object where none is.
    CreateNew,
}

impl FileMode {
    /// Whether a file of this mode takes writes.
    pub fn writes(self) -> bool {
        self != FileMode::Read
    }

    /// Whether a file of this mode gives bytes.
    pub fn reads(self) -> bool {
        self == FileMode::Read
    }
}

impl Objects {
    /// Opens an object as a file. What it makes, it makes as `options` say; their condition holds at `close`.
    pub fn open_file(&self, name: ObjectName<'_>, mode: FileMode, mut options: PutOptions) -> Result<ObjectFile> {
        let work = match mode {
            FileMode::Read => {
                Work::Read(Box::new(Reading { reader: self.get(name.bucket, name.key)?, ahead: Bytes::new(), from: 0 }))
            }
            FileMode::Create => Work::Put(Box::new(self.put(name.bucket, name.key, options)?)),
            FileMode::CreateNew => {
                // Told at once where it can be; another may be faster yet, which `close` tells.
                match self.head(name.bucket, name.key) {
                    Ok(_) => return Err(exists(name.key)),
                    Err(error) if error.kind() == ErrorKind::NoSuchKey => {}
                    Err(error) => return Err(error),
                }
                options.condition = PutCondition::absent();
                Work::Put(Box::new(self.put(name.bucket, name.key, options)?))
            }
        };
        Ok(ObjectFile { key: name.key.to_owned(), mode, work, position: 0 })
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
        }
    }

    /// What is known of the object that is read; `None` where it is yet to be made.
    pub fn info(&self) -> Option<&ObjectInfo> {
        match &self.work {
            Work::Read(reading) => Some(reading.reader.info()),
            Work::Put(_) => None,
        }
    }

    /// Makes what was written visible, and gives what is known of it then; `None` where nothing was to be written.
    pub fn close(self) -> Result<Option<ObjectInfo>> {
        match self.work {
            Work::Read(_) => Ok(None),
            Work::Put(writer) => writer.finish(&Expected::none()).wait().map(Some),
        }
    }

    fn not_open_for(&self, what: &str) -> Error {
        invalid(format!("the object {:?} is open as {:?}, not for {what}", self.key, self.mode))
    }

    fn put(&mut self, piece: &[u8]) -> Result<()> {
        match &mut self.work {
            Work::Put(writer) => writer.write(piece)?,
            Work::Read(_) => return Err(self.not_open_for("writing")),
        }
        self.position += piece.len() as u64;
        Ok(())
    }

    fn get(&mut self, buffer: &mut [u8]) -> Result<usize> {
        let count = match &mut self.work {
            Work::Read(reading) => reading.read(self.position, buffer)?,
            Work::Put(_) => return Err(self.not_open_for("reading")),
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

    /// Nothing of an object that is put anew is seen before `close`.
    fn flush(&mut self) -> io::Result<()> {
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
