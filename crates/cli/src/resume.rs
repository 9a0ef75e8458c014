//! The file in which a long run keeps where it is, so that the next one goes on there.
//!
//! Invariant: the file holds a whole position at any moment, the old one or the new one.

use std::path::Path;

use crate::failure::{Failure, Outcome};

/// What the run before has left; `None` when there is nothing.
pub fn read(file: &Path) -> Outcome<Option<Vec<u8>>> {
    match std::fs::read(file) {
        Ok(bytes) => Ok(Some(bytes)),
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => Ok(None),
        Err(error) => Err(Failure::io(format!("cannot read {}", file.display()), &error)),
    }
}

/// Keeps a position.
pub fn write(file: &Path, position: &[u8]) -> Outcome {
    let failed = |error| Failure::io(format!("cannot write {}", file.display()), &error);
    // Beside it first: a run that is stopped in the middle leaves the position before.
    let mut fresh = file.as_os_str().to_owned();
    fresh.push(".new");
    std::fs::write(&fresh, position).map_err(failed)?;
    std::fs::rename(&fresh, file).map_err(failed)
}

/// The run is over.
pub fn remove(file: &Path) -> Outcome {
    match std::fs::remove_file(file) {
        Err(error) if error.kind() != std::io::ErrorKind::NotFound => {
            Err(Failure::io(format!("cannot remove {}", file.display()), &error))
        }
        _ => Ok(()),
    }
}
