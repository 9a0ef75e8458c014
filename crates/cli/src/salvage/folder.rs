//! Salvaged objects as files: one folder a bucket.
//!
//! Invariants:
//! - Nothing is written outside of the folder, and nothing in it is overwritten: it is new or empty.
//! - A file is there under its name only when all its bytes are.

use std::fs::File;
use std::io::{self, Write};
use std::path::{Path, PathBuf};

use koine::Salvaged;
use koine::object::ObjectReader;

use crate::cp::file_below;
use crate::failure::{Failure, Outcome};

/// The store in between, below the folder.
const BETWEEN: &str = ".salvaged.koine";
/// How much of an object is held in memory.
const PART_LEN: usize = 1 << 20;

/// Whether the target is meant as a folder.
pub fn is_folder(to: &Path) -> bool {
    to.is_dir() || to.as_os_str().as_encoded_bytes().ends_with(b"/")
}

/// Makes the folder, or takes it when it is empty; gives the place of the store in between.
pub fn begin(folder: &Path) -> Outcome<PathBuf> {
    let failed = |what: &str, error: io::Error| Failure::io(format!("cannot {what} {}", folder.display()), &error);
    std::fs::create_dir_all(folder).map_err(|error| failed("make", error))?;
    let mut entries = std::fs::read_dir(folder).map_err(|error| failed("read", error))?;
    if entries.next().is_some() {
        return Err(Failure::failed(format!("{} is not empty; name a new folder", folder.display())));
    }
    Ok(folder.join(BETWEEN))
}

/// Writes every object that was salvaged, and removes the store in between. Gives what could not be written, and why.
pub fn finish(folder: &Path, salvaged: &Salvaged, partial: bool) -> Outcome<Vec<String>> {
    let between = folder.join(BETWEEN);
    let store = koine::inspect(&between)?;
    let mut problems = Vec::new();
    let kept = |error: koine::Error| {
        // What names the buckets may be lost: everything that was salvaged is in that store all the same.
        Failure::failed(format!(
            "{error}; the objects cannot all be listed, what was salvaged is kept in {}",
            between.display()
        ))
    };
    let lost = |bucket: &str, key: &str| {
        let found = salvaged.objects_lost.iter().find(|lost| lost.bucket == bucket && lost.key == key);
        found.is_some_and(|lost| !partial || lost.lost.is_empty())
    };
    let listed = store.read_objects(&mut |bucket, reader| {
        let key = &reader.info().key;
        if !lost(bucket, key)
            && let Err(failure) = write(&folder.join(bucket), key, reader)
        {
            problems.push(format!("{bucket}/{key}: {failure}"));
        }
    });
    listed.map_err(kept)?;
    drop(store);
    std::fs::remove_file(&between)
        .map_err(|error| Failure::io(format!("cannot remove {}", between.display()), &error))?;
    Ok(problems)
}

fn write(folder: &Path, key: &str, reader: &ObjectReader) -> Outcome {
    let path = file_below(folder, key)?;
    let failed = |error: io::Error| Failure::io(format!("cannot write {}", path.display()), &error);
    if let Some(parent) = path.parent() {
        std::fs::create_dir_all(parent).map_err(failed)?;
    }
    let mut file = File::create_new(&path).map_err(failed)?;
    let copied = copy(reader, &mut file, &failed);
    if copied.is_err() {
        // Half of a file would pass for the whole.
        let _ = std::fs::remove_file(&path);
    }
    copied
}

fn copy(reader: &ObjectReader, file: &mut File, failed: &dyn Fn(io::Error) -> Failure) -> Outcome {
    let mut at = 0;
    while at < reader.info().size {
        let bytes = reader.bytes(at, PART_LEN).map_err(|error| Failure::failed(error.to_string()))?;
        file.write_all(&bytes).map_err(failed)?;
        at += bytes.len() as u64;
    }
    Ok(())
}
