//! Where objects lie: our store and file systems, each on a loop device of its own, behind one interface.

mod files;
mod loopback;
mod objects;

use crate::Error;
use crate::report::OURS;
use crate::s3::show_size;
use files::Files;
use loopback::{FileSystem, LoopDevice};
use objects::Objects;
use std::fmt::Display;
use std::path::{Path, PathBuf};
use tempfile::TempDir;

/// What went wrong, for people.
pub type Outcome<T> = Result<T, String>;

/// A store of numbered objects or a folder of files.
pub trait Place: Send + Sync {
    /// Its name in reports.
    fn name(&self) -> &str;

    /// Creates an empty object and closes it; gives its number.
    fn create(&self) -> Outcome<u64>;

    /// Opens an object.
    fn open(&self, number: u64) -> Outcome<Box<dyn Handle>>;

    /// Deletes an object.
    fn delete(&self, number: u64) -> Outcome<()>;

    /// Makes everything durable, so that nothing of it is left to do while others are measured.
    fn settle(&self) -> Outcome<()>;

    /// Drops all caches. No handle may be open.
    fn forget(&mut self) -> Outcome<()>;
}

/// An open object. Closed when it is dropped.
pub trait Handle: Send + Sync {
    /// Writes, and makes it durable where that is asked for.
    fn write(&self, offset: u64, data: &[u8], synced: bool) -> Outcome<()>;

    /// Writes all or nothing, durably; false where there are no transactions.
    fn transact(&self, writes: &[(u64, &[u8])]) -> Outcome<bool>;

    /// Reads; gives how many bytes there were.
    fn read(&self, offset: u64, buffer: &mut [u8]) -> Outcome<usize>;

    /// The status of an open object; gives its size.
    fn status(&self) -> Outcome<u64>;
}

/// Ours first, then the file systems that could be made. Dropped, all of it is gone.
pub struct Places {
    /// The contestants.
    pub places: Vec<Box<dyn Place>>,
    /// Why others are not here.
    pub notes: Vec<String>,
    /// One more loop device, for fio.
    spare: Option<LoopDevice>,
    folder: TempDir,
}

impl Places {
    /// Makes them, each with `length` bytes and room for so many files.
    pub fn make(dir: &Path, length: u64, files: u64, with_spare: bool) -> Result<Places, Error> {
        let folder = tempfile::Builder::new()
            .prefix("koine-bench-")
            .tempdir_in(dir)
            .map_err(Error::io("cannot make a folder"))?;
        let mut field = Places { places: Vec::new(), notes: Vec::new(), spare: None, folder };
        let below = field.folder.path().to_path_buf();
        match EnginePlace::make(&below.join(OURS), length, 0) {
            Ok(ours) => field.places.push(Box::new(ours)),
            Err(error) => {
                field.notes.push(format!("No loop device: {error}. {OURS} was measured in a file, file systems not."));
                field.places.push(Box::new(EnginePlace::in_file(&below.join(OURS), length, 0)?));
                return Ok(field);
            }
        }
        for kind in FileSystem::ALL {
            match Files::make(kind, &below, length, files) {
                Ok(files) => field.places.push(Box::new(files)),
                Err(error) => field.notes.push(format!("{} was not measured: {error}.", kind.name())),
            }
        }
        if with_spare {
            field.spare = LoopDevice::make(&below.join("spare"), length).ok();
        }
        Ok(field)
    }

    /// Adds a store of ours with blocks of this length.
    pub fn add_ours(&mut self, length: u64, block_len: u64) -> Result<(), Error> {
        let file = self.folder.path().join(format!("{OURS}-{block_len}"));
        let ours =
            EnginePlace::make(&file, length, block_len).or_else(|_| EnginePlace::in_file(&file, length, block_len))?;
        self.places.push(Box::new(ours));
        Ok(())
    }

    /// A device like those of the others that nobody uses; else, without root, a file that is to be made.
    pub fn spare(&self) -> PathBuf {
        self.spare.as_ref().map_or_else(|| self.folder.path().join("spare"), |device| device.path().to_path_buf())
    }

    /// Names of the references of every row, whether they are here or not.
    pub fn references() -> Vec<String> {
        FileSystem::ALL.map(|kind| kind.name().to_owned()).to_vec()
    }
}

/// Our store with the device under it.
struct EnginePlace {
    objects: Objects,
    _device: Option<LoopDevice>,
}

impl EnginePlace {
    fn make(file: &Path, length: u64, block_len: u64) -> Result<EnginePlace, Error> {
        let device = LoopDevice::make(file, length)?;
        let objects = Objects::make(device.path(), block_len).map_err(Error::Worker)?;
        Ok(EnginePlace { objects, _device: Some(device) })
    }

    fn in_file(file: &Path, length: u64, block_len: u64) -> Result<EnginePlace, Error> {
        let made = std::fs::File::create(file).and_then(|file| file.set_len(length));
        made.map_err(Error::io("cannot make the store's file"))?;
        Ok(EnginePlace { objects: Objects::make(file, block_len).map_err(Error::Worker)?, _device: None })
    }
}

impl Place for EnginePlace {
    fn name(&self) -> &str {
        self.objects.name()
    }
    fn create(&self) -> Outcome<u64> {
        self.objects.create()
    }
    fn open(&self, number: u64) -> Outcome<Box<dyn Handle>> {
        self.objects.open(number)
    }
    fn delete(&self, number: u64) -> Outcome<()> {
        self.objects.delete(number)
    }
    fn settle(&self) -> Outcome<()> {
        self.objects.settle()
    }
    fn forget(&mut self) -> Outcome<()> {
        self.objects.forget()
    }
}

/// The name in reports of a store of ours with blocks of this length; 0: those that it has by itself.
pub fn name_of_ours(block_len: u64) -> String {
    match block_len {
        0 => OURS.to_owned(),
        length => format!("{OURS} in blocks of {}", show_size(length)),
    }
}

/// For `map_err`: puts what was being done before what was said.
fn failed<E: Display>(doing: &str) -> impl Fn(E) -> String {
    move |error| format!("cannot {doing}: {error}")
}

#[cfg(test)]
mod tests {
    use super::*;

    const LEN: u64 = 256 << 20;

    #[test]
    fn every_place_keeps_what_it_is_given() {
        // As root these are loop devices with file systems, else our store in a file alone.
        let dir = tempfile::tempdir_in("/var/tmp").unwrap();
        let mut field = Places::make(dir.path(), LEN, 100, true).unwrap();
        assert_eq!(field.places.first().map(|place| place.name()), Some(OURS));
        for place in &mut field.places {
            let numbers = [place.create().unwrap(), place.create().unwrap()];
            let handle = place.open(numbers[1]).unwrap();
            handle.write(8192, b"later", false).unwrap();
            handle.write(0, b"first", true).unwrap();
            let has_transactions = handle.transact(&[(4096, b"both"), (0, b"FIRST")]).unwrap();
            assert_eq!(has_transactions, place.name() == OURS);
            assert_eq!(handle.status().unwrap(), 8197, "{}", place.name());
            drop(handle);
            place.delete(numbers[0]).unwrap();
            place.forget().unwrap();
            assert!(place.open(numbers[0]).is_err());
            let handle = place.open(numbers[1]).unwrap();
            let mut buffer = [0; 16];
            assert_eq!(handle.read(8192, &mut buffer).unwrap(), 5, "short at the end");
            assert_eq!(&buffer[..5], b"later");
            handle.read(0, &mut buffer).unwrap();
            assert_eq!(&buffer[..5], if has_transactions { b"FIRST" } else { b"first" });
            drop(handle);
            place.settle().unwrap();
        }
        drop(field);
        assert_eq!(std::fs::read_dir(dir.path()).unwrap().count(), 0, "nothing is left");
    }
}
