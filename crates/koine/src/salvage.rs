//! Copying what can be proven out of a damaged store into a new one.
//!
//! Invariants: the damaged store is opened for reading only, and the new one is never the same file or device, nor
//! anything with content.

use std::collections::HashMap;
use std::os::unix::fs::{FileTypeExt, MetadataExt};
use std::path::Path;
use std::sync::Arc;

use koine_engine::device::{Device, FileDevice, OpenOptions};
use koine_engine::{Engine, Options, PartialValue, Place, SalvageProgress, SalvageReport, StoreSink};

use crate::error::{Error, Result};
use crate::format::{FormatOptions, format};
use crate::inspect::inspect;
use crate::probe::{Found, probe};

/// How to salvage.
#[derive(Clone, Copy, Debug, Default)]
pub struct SalvageOptions {
    /// Also keep values of which bytes are lost, with zeros in their place.
    pub keep_partial: bool,
    /// Up to how many bytes the new store may grow; `None` is as far as the medium goes.
    pub size_max: Option<u64>,
    /// The block size of the new store; `None` is 4 KiB.
    pub block_size: Option<u64>,
}

/// An object whose name was salvaged, and whose bytes were not, or not all.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LostObject {
    /// Its bucket.
    pub bucket: String,
    /// Its name.
    pub key: String,
    /// Its length in bytes.
    pub size: u64,
    /// What is lost of it: where each range begins and ends, in bytes; none: all of it.
    pub lost: Vec<(u64, u64)>,
}

/// What came of it.
#[derive(Clone, Debug)]
pub struct Salvaged {
    /// Keys and values.
    pub report: SalvageReport,
    /// Objects that are in the new store with all their bytes.
    pub objects_whole: u64,
    /// Objects that are in the new store by name only, or with zeros where bytes are lost.
    pub objects_lost: Vec<LostObject>,
}

/// Copies what can be proven from the store at `from` into a new store at `to`, which is made.
pub fn salvage(
    from: &Path,
    to: &Path,
    options: &SalvageOptions,
    progress: &mut dyn FnMut(SalvageProgress),
) -> Result<Salvaged> {
    if probe(from)? == Found::Missing {
        return Err(Error::Missing(from.to_owned()));
    }
    if is_same(from, to) {
        return Err(Error::BadPlace(format!("{} is the damaged store itself; name another place", to.display())));
    }
    let damaged = FileDevice::open(from, OpenOptions { read_only: true, create: false }).map_err(Error::at(from))?;
    let damaged: Arc<dyn Device> = Arc::new(damaged);
    let made = probe(to)? == Found::Missing;
    format(to, &FormatOptions { size_max: options.size_max, block_size: options.block_size, force: false })?;
    let done = fill(&damaged, from, to, options, progress);
    if done.is_err() && made {
        // A file that was only made for this: half of a salvaged store would pass for the whole.
        let _ = std::fs::remove_file(to);
    }
    name_objects(to, done?)
}

/// Looks which objects the new store can give.
fn name_objects(to: &Path, mut report: SalvageReport) -> Result<Salvaged> {
    let partial: HashMap<&Place, &PartialValue> = report.partial.iter().map(|value| (&value.at, value)).collect();
    let (mut objects_whole, mut objects_lost) = (0, Vec::new());
    let listed = inspect(to)?.each_object(&mut |objects, bucket, page| {
        for object in page {
            let reader = objects.get(&bucket.name, &object.key)?;
            let known = reader.data_place().and_then(|place| partial.get(&place));
            // The last byte is there only when all are: nothing shorter was put into the new store.
            let there = object.size == 0 || reader.bytes(object.size - 1, 1).is_ok();
            if known.is_none() && there {
                objects_whole += 1;
                continue;
            }
            let lost = known.map_or_else(Vec::new, |value| value.lost.clone());
            let (bucket, key) = (bucket.name.clone(), object.key.clone());
            objects_lost.push(LostObject { bucket, key, size: object.size, lost });
        }
        Ok(())
    });
    drop(partial);
    if let Err(error) = listed {
        // What names the buckets may be among what is lost; the keys are salvaged all the same.
        report.complaints.push(format!("the objects in the new store could not all be listed: {error}"));
    }
    Ok(Salvaged { report, objects_whole, objects_lost })
}

fn fill(
    damaged: &Arc<dyn Device>,
    from: &Path,
    to: &Path,
    options: &SalvageOptions,
    progress: &mut dyn FnMut(SalvageProgress),
) -> Result<SalvageReport> {
    let device = FileDevice::open(to, OpenOptions::default()).map_err(Error::at(to))?;
    let engine = Engine::open(Arc::new(device), Options::default()).map_err(Error::at(to))?;
    let mut sink = StoreSink::new(&engine, options.keep_partial);
    let report = koine_engine::salvage(damaged, &mut sink, progress).map_err(Error::at(from))?;
    engine.close().map_err(Error::at(to))?;
    Ok(report)
}

/// Whether two paths lead to one file or device.
fn is_same(one: &Path, other: &Path) -> bool {
    let (Ok(one), Ok(other)) = (std::fs::metadata(one), std::fs::metadata(other)) else { return false };
    let device = |metadata: &std::fs::Metadata| metadata.file_type().is_block_device().then(|| metadata.rdev());
    (one.dev(), one.ino()) == (other.dev(), other.ino()) || (device(&one).is_some() && device(&one) == device(&other))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_damaged_store_is_no_target() {
        let folder = tempfile::tempdir().unwrap();
        let store = folder.path().join("s");
        format(&store, &FormatOptions { size_max: Some(4 << 20), ..FormatOptions::default() }).unwrap();
        let link = folder.path().join("link");
        std::os::unix::fs::symlink(&store, &link).unwrap();
        // Nothing of it would stop a format: both ends are zeros.
        let bytes = vec![0; 4 << 20];
        std::fs::write(&store, &bytes).unwrap();
        for to in [&store, &link] {
            let refused = salvage(&store, to, &SalvageOptions::default(), &mut |_| ());
            assert!(matches!(refused, Err(Error::BadPlace(_))), "{refused:?}");
        }
        assert_eq!(std::fs::read(&store).unwrap(), bytes);
        let other = folder.path().join("other");
        assert!(salvage(&store, &other, &SalvageOptions::default(), &mut |_| ()).is_err(), "there is nothing in it");
        assert!(!other.exists());
    }
}
