//! What only the target has, deleted.
//!
//! Invariants:
//! - Nothing is deleted behind a link: what it leads to is not part of the folder.
//! - A folder goes with the last file that was deleted in it; one that was empty before stays.

use std::fs;
use std::path::Path;

use serde_json::json;

use super::tree::child;
use crate::cp::plan::as_folder;
use crate::cp::summary::Summary;
use crate::failure::{Failure, Outcome};
use crate::location::Location;
use crate::output::{Output, printable};
use crate::targets::Targets;

/// How many objects are deleted in one commit.
const DELETE_LEN: usize = 1000;

/// Deletes names of a place, a commit's worth at a time.
pub struct Deleting<'a> {
    pub targets: &'a Targets,
    pub place: &'a Location,
    pub dry_run: bool,
    pub output: Output,
    pub summary: &'a mut Summary,
    pub names: Vec<String>,
}

impl Deleting<'_> {
    /// Deletes it, now or with the next.
    pub fn add(&mut self, name: String) -> Outcome {
        self.names.push(name);
        if self.names.len() >= DELETE_LEN { self.flush() } else { Ok(()) }
    }

    /// Deletes what waits.
    pub fn flush(&mut self) -> Outcome {
        let names = std::mem::take(&mut self.names);
        if names.is_empty() {
            return Ok(());
        }
        match self.place {
            Location::Local(folder) => {
                for name in &names {
                    let gone = if self.dry_run { Ok(()) } else { delete_file(folder, name) };
                    self.note(name, gone)?;
                }
                Ok(())
            }
            Location::Object { scheme, bucket, key } => {
                let prefix = as_folder(key);
                let keys: Vec<String> = names.iter().map(|name| format!("{prefix}{name}")).collect();
                if !self.dry_run {
                    self.targets.of(scheme)?.delete(bucket, &keys)?;
                }
                names.iter().try_for_each(|name| self.note(name, Ok(())))
            }
        }
    }

    fn note(&mut self, name: &str, gone: Outcome) -> Outcome {
        let told = child(self.place, name).map_or_else(|_| name.to_owned(), |name| name.to_string());
        if let Err(failure) = gone {
            self.summary.failed += 1;
            eprintln!("koine: {}: {failure}", printable(&told));
            return Ok(());
        }
        self.summary.deleted += 1;
        let (word, kind) = if self.dry_run { ("would delete", "would_delete") } else { ("deleted", "deleted") };
        if self.dry_run {
            self.output.people(format!("{word} {}", printable(&told)))?;
        }
        self.output.json(&json!({ "type": kind, "name": told }))
    }
}

fn delete_file(folder: &Path, name: &str) -> Outcome {
    let path = crate::cp::file_below(folder, name)?;
    let inside = path.ancestors().skip(1).take_while(|above| *above != folder);
    for above in inside {
        if fs::symlink_metadata(above).is_ok_and(|metadata| metadata.is_symlink()) {
            return Err(Failure::failed(format!("{} is a link: nothing behind it is deleted", above.display())));
        }
    }
    fs::remove_file(&path).map_err(|error| Failure::io("cannot delete it", &error))?;
    // Those that hold something else stay, and so do those above them.
    for above in path.ancestors().skip(1).take_while(|above| *above != folder) {
        if fs::remove_dir(above).is_err() {
            break;
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nothing_is_deleted_behind_a_link_and_empty_folders_go() {
        let folder = tempfile::tempdir().unwrap();
        let at = |name: &str| folder.path().join(name);
        fs::create_dir_all(at("in/a/b")).unwrap();
        fs::create_dir_all(at("out")).unwrap();
        for file in ["in/a/b/c", "in/k", "out/kept"] {
            fs::write(at(file), b"x").unwrap();
        }
        std::os::unix::fs::symlink(at("out"), at("in/link")).unwrap();
        assert!(delete_file(&at("in"), "link/kept").unwrap_err().message.contains("is a link"));
        assert!(at("out/kept").exists());
        delete_file(&at("in"), "a/b/c").unwrap();
        assert!(!at("in/a").exists() && at("in").exists());
        assert!(delete_file(&at("in"), "../out/kept").is_err());
        delete_file(&at("in"), "k").unwrap();
        assert!(at("in").exists());
    }
}
