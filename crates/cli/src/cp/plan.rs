//! Which copies a command means: every source with its target and size, before the first byte moves.
//!
//! Invariants:
//! - A key never becomes a path outside the target folder; one that would is a failure.

use std::path::{Component, Path, PathBuf};

use crate::client::Listed;
use crate::failure::{Failure, Outcome};
use crate::holder::Holder;
use crate::location::{Door, Location};
use crate::pattern::Pattern;

/// One copy.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Job {
    /// Where from.
    pub from: Location,
    /// Where to.
    pub to: Location,
    /// How many bytes, as far as is known before.
    pub size: u64,
}

/// How names are read.
#[derive(Clone, Copy, Debug, Default)]
pub struct Reading {
    /// Everything below a name.
    pub recursive: bool,
    /// No key is a pattern.
    pub exact: bool,
}

/// The copies that `cp FROM… TO` means.
pub fn jobs(holder: &Holder, from: &[Location], to: &Location, reading: Reading) -> Outcome<Vec<Job>> {
    if let Location::Object { door, bucket, .. } = to
        && bucket.is_empty()
    {
        return Err(Failure::usage(format!("TO names no bucket; write {}BUCKET/KEY", door.scheme())));
    }
    // More than one thing goes into a folder, so that none of them writes over another.
    let folder = from.len() > 1;
    let mut jobs = Vec::new();
    for from in from {
        jobs.extend(jobs_of(holder, from, &if folder { into_folder(to) } else { to.clone() }, reading)?);
    }
    Ok(jobs)
}

/// A target that is a folder whatever is there.
fn into_folder(to: &Location) -> Location {
    match to {
        Location::Local(path) => Location::Local(path.join("")),
        Location::Object { door, bucket, key } => {
            Location::Object { door: *door, bucket: bucket.clone(), key: as_folder(key) }
        }
    }
}

fn jobs_of(holder: &Holder, from: &Location, to: &Location, reading: Reading) -> Outcome<Vec<Job>> {
    match (from, to) {
        (Location::Local(_), Location::Local(_)) => Err(Failure::usage(
            "both sides are local; one must be koine://BUCKET/KEY or s3://BUCKET/KEY (the system's cp copies files)",
        )),
        (Location::Object { door, bucket, .. }, _) if bucket.is_empty() => {
            Err(Failure::usage(format!("FROM names no bucket; write {}BUCKET/KEY", door.scheme())))
        }
        (Location::Object { door, .. }, Location::Object { door: other, .. }) if door != other => {
            Err(Failure::usage("between a store and an S3 server objects go by way of files: copy them down, then up"))
        }
        (Location::Local(path), to) => uploads(path, to, reading.recursive),
        (Location::Object { door, bucket, key }, _) => {
            let source = Source { holder, door: *door, bucket };
            let pattern = if reading.exact { None } else { Pattern::parse(key)? };
            match pattern {
                Some(pattern) => source.matches(&pattern, to),
                None if reading.recursive => source.below(key, to),
                None if key.is_empty() => {
                    Err(Failure::usage(format!("{from} is a whole bucket; add --recursive, or name a key")))
                }
                None => {
                    let size = holder.size(bucket, key)?;
                    Ok(vec![Job { from: from.clone(), to: single_target(key, to)?, size }])
                }
            }
        }
    }
}

/// The target of one object: a folder or prefix gets its last name.
fn single_target(key: &str, to: &Location) -> Outcome<Location> {
    let name = key.rsplit('/').next().unwrap_or(key);
    match to {
        Location::Object { door, bucket, key: to } => {
            let key = if to.is_empty() || to.ends_with('/') { format!("{to}{name}") } else { to.clone() };
            Ok(Location::Object { door: *door, bucket: bucket.clone(), key })
        }
        Location::Local(path) if path.is_dir() || path.as_os_str().as_encoded_bytes().ends_with(b"/") => {
            Ok(Location::Local(below(path, name)?))
        }
        Location::Local(path) => Ok(Location::Local(path.clone())),
    }
}

/// A bucket that objects come from.
struct Source<'a> {
    holder: &'a Holder,
    door: Door,
    bucket: &'a str,
}

impl Source<'_> {
    /// Everything below a prefix.
    fn below(&self, prefix: &str, to: &Location) -> Outcome<Vec<Job>> {
        let prefix = as_folder(prefix);
        let jobs = self.listed(&prefix, to, |key| key.strip_prefix(prefix.as_str()))?;
        if jobs.is_empty() {
            let name = format!("{}{}/{prefix}", self.door.scheme(), self.bucket);
            return Err(Failure::missing(format!("{name}: no key begins so")));
        }
        Ok(jobs)
    }

    /// Everything that a pattern takes.
    fn matches(&self, pattern: &Pattern, to: &Location) -> Outcome<Vec<Job>> {
        let jobs = self.listed(pattern.prefix(), to, |key| pattern.takes(key).then(|| pattern.below(key)))?;
        if jobs.is_empty() { Err(pattern.nothing(self.door, self.bucket)) } else { Ok(jobs) }
    }

    /// Every key under a prefix of which `rest` gives what it is called below the target.
    fn listed(
        &self,
        prefix: &str,
        to: &Location,
        rest: impl for<'k> Fn(&'k str) -> Option<&'k str>,
    ) -> Outcome<Vec<Job>> {
        let mut jobs = Vec::new();
        self.holder.each(self.bucket, prefix, |entry| {
            let Listed::Object { key, size, .. } = entry else { return Ok(()) };
            let Some(rest) = rest(&key) else { return Ok(()) };
            let to = match to {
                Location::Object { door, bucket, key: target } => Location::Object {
                    door: *door,
                    bucket: bucket.clone(),
                    key: format!("{}{rest}", as_folder(target)),
                },
                // A key that ends with a slash marks a folder; there is no file to make of it.
                Location::Local(_) if rest.is_empty() || (rest.ends_with('/') && size == 0) => return Ok(()),
                Location::Local(path) => Location::Local(below(path, rest)?),
            };
            let from = Location::Object { door: self.door, bucket: self.bucket.to_owned(), key: key.clone() };
            jobs.push(Job { from, to, size });
            Ok(())
        })?;
        Ok(jobs)
    }
}

fn uploads(path: &Path, to: &Location, recursive: bool) -> Outcome<Vec<Job>> {
    let metadata = std::fs::metadata(path).map_err(|error| Failure::io(path.display(), &error))?;
    if metadata.is_dir() && !recursive {
        return Err(Failure::usage(format!("{} is a folder; add --recursive", path.display())));
    }
    let mut jobs = Vec::new();
    match to {
        Location::Object { door, bucket, key } if metadata.is_dir() => {
            walk(path, &as_folder(key), (*door, bucket), &mut jobs)?;
        }
        _ => {
            let to = single_target(&file_name(path)?, to)?;
            jobs.push(Job { from: Location::Local(path.to_owned()), to, size: metadata.len() });
        }
    }
    Ok(jobs)
}

/// Every file below a folder, in order of names; links are followed, what is neither file nor folder is left out.
fn walk(folder: &Path, prefix: &str, (door, bucket): (Door, &str), jobs: &mut Vec<Job>) -> Outcome {
    let failed = |error| Failure::io(folder.display(), &error);
    let mut entries = std::fs::read_dir(folder).map_err(failed)?.collect::<Result<Vec<_>, _>>().map_err(failed)?;
    entries.sort_by_key(std::fs::DirEntry::file_name);
    for entry in entries {
        let path = entry.path();
        let metadata = std::fs::metadata(&path).map_err(|error| Failure::io(path.display(), &error))?;
        let key = format!("{prefix}{}", file_name(&path)?);
        if metadata.is_dir() {
            walk(&path, &format!("{key}/"), (door, bucket), jobs)?;
        } else if metadata.is_file() {
            let to = Location::Object { door, bucket: bucket.to_owned(), key };
            jobs.push(Job { from: Location::Local(path), to, size: metadata.len() });
        }
    }
    Ok(())
}

/// A prefix as a folder: empty, or with a slash at its end.
pub fn as_folder(key: &str) -> String {
    if key.is_empty() || key.ends_with('/') { key.to_owned() } else { format!("{key}/") }
}

/// The file below a folder that a key means.
pub fn below(folder: &Path, key: &str) -> Outcome<PathBuf> {
    let plain = Path::new(key).components().all(|part| matches!(part, Component::Normal(_)));
    let doubled = key.contains("//") || key.contains("/./") || key.ends_with('/') || key.ends_with("/.");
    if key.is_empty() || !plain || doubled || key.contains('\0') {
        return Err(Failure::failed(format!(
            "the key {key:?} cannot be a file below {}; copy it alone and name the file",
            folder.display()
        )));
    }
    Ok(folder.join(key))
}

fn file_name(path: &Path) -> Outcome<String> {
    let name = path.file_name().ok_or_else(|| Failure::usage(format!("{} has no file name", path.display())))?;
    let name = name
        .to_str()
        .ok_or_else(|| Failure::failed(format!("{} is not UTF-8, and keys are; rename it", path.display())))?;
    Ok(name.to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn s3(bucket: &str, key: &str) -> Location {
        Location::Object { door: Door::S3, bucket: bucket.to_owned(), key: key.to_owned() }
    }

    #[test]
    fn keys_never_climb_out_of_the_folder() {
        let check = |key: &str, path: Option<&str>| {
            let found = below(Path::new("/t"), key).ok();
            assert_eq!(found.as_deref(), path.map(Path::new), "{key}");
        };
        check("a/b c", Some("/t/a/b c"));
        check("a", Some("/t/a"));
        check("../a", None);
        check("a/../../b", None);
        check("/etc/passwd", None);
        check("a//b", None);
        check("./a", None);
        check("a/./b", None);
        check("a/", None);
        check("", None);
        check("a\0b", None);
    }

    #[test]
    fn folders_get_the_last_name() {
        let check = |key: &str, to: Location, target: Location| assert_eq!(single_target(key, &to).ok(), Some(target));
        check("x/y.txt", s3("b", ""), s3("b", "y.txt"));
        check("x/y.txt", s3("b", "p/"), s3("b", "p/y.txt"));
        check("x/y.txt", s3("b", "p"), s3("b", "p"));
        check("x/y.txt", Location::Local("/no/such".into()), Location::Local("/no/such".into()));
        check("x/y.txt", Location::Local("/no/such/".into()), Location::Local("/no/such/y.txt".into()));
    }

    #[test]
    fn a_folder_goes_in_with_its_names() {
        let folder = tempfile::tempdir().expect("a folder");
        std::fs::create_dir(folder.path().join("d")).expect("a folder inside");
        std::fs::write(folder.path().join("d/b +"), b"12").expect("a file");
        std::fs::write(folder.path().join("a"), b"1").expect("a file");
        assert!(uploads(folder.path(), &s3("k", "p"), false).is_err());
        let jobs = uploads(folder.path(), &s3("k", "p"), true).expect("jobs");
        let found: Vec<(Location, u64)> = jobs.into_iter().map(|job| (job.to, job.size)).collect();
        assert_eq!(found, [(s3("k", "p/a"), 1), (s3("k", "p/d/b +"), 2)]);
    }
}
