//! The file beside a target in which what arrives is gathered, before it is renamed into place.
//!
//! Invariant: it is gone when a copy ends, whole or not, unless it is kept for the next run to go on with.

use std::path::{Path, PathBuf};

use super::checksum;

/// A file beside the target.
pub struct PartFile {
    /// Where it is.
    pub path: PathBuf,
    kept: bool,
}

impl PartFile {
    /// One that is deleted unless it is renamed.
    pub fn of(target: &Path) -> Self {
        // The pid tells runs apart.
        PartFile { path: named(target, &std::process::id().to_string()), kept: false }
    }

    /// One that the next run finds, for the same version of the same object.
    pub fn kept(target: &Path, version: &str) -> Self {
        PartFile { path: named(target, version), kept: true }
    }
}

fn named(target: &Path, mark: &str) -> PathBuf {
    let name = target.file_name().unwrap_or_default().to_string_lossy().into_owned();
    // Long names leave no room for more.
    let name: String = name.chars().take(40).collect();
    let sum = checksum::of(target.as_os_str().as_encoded_bytes());
    target.with_file_name(format!(".{name}.{sum:016x}.{mark}.part"))
}

impl Drop for PartFile {
    fn drop(&mut self) {
        // Renamed away when all went well: then nothing is there.
        if !self.kept {
            let _ = std::fs::remove_file(&self.path);
        }
    }
}
