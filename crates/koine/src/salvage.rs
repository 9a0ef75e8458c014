//! Copying what can be proven out of a damaged store into a new one.
//!
//! Invariants: the damaged store is opened for reading only, and the new one is never the same file or device, nor
//! anything with content.

use std::os::unix::fs::{FileTypeExt, MetadataExt};
use std::path::Path;
use std::sync::Arc;

use koine_engine::device::{Device, FileDevice, OpenOptions};
use koine_engine::{Engine, Options, SalvageProgress, SalvageReport, StoreSink};

use crate::error::{Error, Result};
use crate::format::{FormatOptions, format};
use crate::probe::{Found, probe};

/// How to salvage.
#[derive(Clone, Copy, Debug, Default)]
pub struct SalvageOptions {
    /// Also keep values of which bytes are lost, with zeros in their place.
    pub keep_partial: bool,
    /// Up to how many bytes the new store may grow; `None` is as far as the medium goes.
    pub size_max: Option<u64>,
}

/// Copies what can be proven from the store at `from` into a new store at `to`, which is made.
pub fn salvage(
    from: &Path,
    to: &Path,
    options: &SalvageOptions,
    progress: &mut dyn FnMut(SalvageProgress),
) -> Result<SalvageReport> {
    if probe(from)? == Found::Missing {
        return Err(Error::Missing(from.to_owned()));
    }
    if is_same(from, to) {
        return Err(Error::BadPlace(format!("{} is the damaged store itself; name another place", to.display())));
    }
    let damaged = FileDevice::open(from, OpenOptions { read_only: true, create: false }).map_err(Error::at(from))?;
    let damaged: Arc<dyn Device> = Arc::new(damaged);
    let made = probe(to)? == Found::Missing;
    format(to, &FormatOptions { size_max: options.size_max, force: false })?;
    let done = fill(&damaged, from, to, options, progress);
    if done.is_err() && made {
        // A file that was only made for this: half of a salvaged store would pass for the whole.
        let _ = std::fs::remove_file(to);
    }
    done
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
        format(&store, &FormatOptions { size_max: Some(4 << 20), force: false }).unwrap();
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
