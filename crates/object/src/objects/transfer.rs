//! Bodies out of what a program has open to read, and objects into what it has open to write: the calls on files of the
//! paper's library (CreateObjectFromFile, WriteObjectFromFile, ReadObjectToFile), for anything of the kind.
//!
//! Invariants:
//! - A source that fails leaves the object as it was.
//! - Memory is one piece, whatever the length.

use std::io::{self, Read, Write};

use crate::checksum::Expected;
use crate::error::Result;
use crate::info::ObjectInfo;
use crate::object_name::ObjectName;
use crate::objects::{ObjectReader, Objects};
use crate::request::{ByteRange, EditOptions, PutOptions};

/// Read and written at once: 1 MiB.
const PIECE_LEN: usize = 1 << 20;

impl Objects {
    /// Puts all that a source has left under a name. An error of the source comes back as it is, one of the store with an
    /// [`Error`](crate::Error) in it.
    pub fn put_from(
        &self,
        name: ObjectName<'_>,
        source: &mut (impl Read + ?Sized),
        options: PutOptions,
    ) -> io::Result<ObjectInfo> {
        let mut writer = self.put(name.bucket, name.key, options)?;
        pour(source, |piece| writer.write(piece))?;
        Ok(writer.finish(&Expected::none()).wait()?)
    }

    /// Writes all that a source has left into an object, from `offset` bytes on. Errors as those of
    /// [`put_from`](Objects::put_from).
    pub fn write_from(
        &self,
        name: ObjectName<'_>,
        offset: u64,
        source: &mut (impl Read + ?Sized),
        options: EditOptions,
    ) -> io::Result<ObjectInfo> {
        let mut writer = self.write_at(name, offset, options)?;
        pour(source, |piece| writer.write(piece))?;
        Ok(writer.finish(&Expected::none()).wait()?)
    }
}

impl ObjectReader {
    /// Writes a range to a target, as far as the object goes; gives how many bytes. An error of the target comes back as it
    /// is, one of the store with an [`Error`](crate::Error) in it.
    pub fn read_to(&self, range: ByteRange, target: &mut (impl Write + ?Sized)) -> io::Result<u64> {
        let wanted = self.info().size.saturating_sub(range.offset).min(range.length);
        let mut piece = vec![0; usize::try_from(wanted).unwrap_or(PIECE_LEN).min(PIECE_LEN)];
        let mut done = 0;
        while done < wanted {
            let next = usize::try_from(wanted - done).unwrap_or(PIECE_LEN).min(piece.len());
            let count = self.read(range.offset + done, piece.get_mut(..next).unwrap_or_default())?;
            target.write_all(piece.get(..count).unwrap_or_default())?;
            done += count as u64;
        }
        Ok(done)
    }
}

/// Gives all that a source has left to `write`.
fn pour(source: &mut (impl Read + ?Sized), mut write: impl FnMut(&[u8]) -> Result<()>) -> io::Result<()> {
    let mut piece = vec![0; PIECE_LEN];
    loop {
        match source.read(&mut piece) {
            Ok(0) => return Ok(()),
            Ok(count) => write(piece.get(..count).unwrap_or_default())?,
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            Err(error) => return Err(error),
        }
    }
}
