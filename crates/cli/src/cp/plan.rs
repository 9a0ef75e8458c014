//! Which copies a command means: every source with its target and size, before the first byte moves.
//!
//! Invariants:
//! - A key never becomes a path outside the target folder; one that would is a failure.

use std::path::{Component, Path, PathBuf};

use crate::client::{Client, Listed};
use crate::failure::{Failure, Outcome};
use crate::location::Location;

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

/// The copies that `cp FROM TO` means.
pub async fn jobs(client: &Client, from: &Location, to: &Location, recursive: bool) -> Outcome<Vec<Job>> {
    match (from, to) {
        (Location::Local(_), Location::Local(_)) => {
            Err(Failure::usage("both sides are local; one must be s3://BUCKET/KEY (the system's cp copies files)"))
        }
        (_, Location::S3 { bucket, .. }) if bucket.is_empty() => {
            Err(Failure::usage("TO names no bucket; write s3://BUCKET/KEY"))
        }
        (Location::S3 { bucket, .. }, _) if bucket.is_empty() => {
            Err(Failure::usage("FROM names no bucket; write s3://BUCKET/KEY"))
        }
        (Location::Local(path), Location::S3 { bucket, key }) => uploads(path, bucket, key, recursive),
        (Location::S3 { bucket, key }, _) if recursive => from_prefix(client, bucket, key, to).await,
        (Location::S3 { bucket, key }, _) => {
            if key.is_empty() {
                return Err(Failure::usage(format!("{from} is a whole bucket; add --recursive, or name a key")));
            }
            let size = client.head(bucket, key).await?.size;
            Ok(vec![Job { from: from.clone(), to: single_target(key, to)?, size }])
        }
    }
}

/// The target of one object: a folder or prefix gets its last name.
fn single_target(key: &str, to: &Location) -> Outcome<Location> {
    let name = key.rsplit('/').next().unwrap_or(key);
    match to {
        Location::S3 { bucket, key: to } => {
            let key = if to.is_empty() || to.ends_with('/') { format!("{to}{name}") } else { to.clone() };
            Ok(Location::S3 { bucket: bucket.clone(), key })
        }
        Location::Local(path) if path.is_dir() || path.as_os_str().as_encoded_bytes().ends_with(b"/") => {
            Ok(Location::Local(below(path, name)?))
        }
        Location::Local(path) => Ok(Location::Local(path.clone())),
    }
}

fn uploads(path: &Path, bucket: &str, key: &str, recursive: bool) -> Outcome<Vec<Job>> {
    let metadata = std::fs::metadata(path).map_err(|error| Failure::io(path.display(), &error))?;
    if metadata.is_dir() && !recursive {
        return Err(Failure::usage(format!("{} is a folder; add --recursive", path.display())));
    }
    let mut jobs = Vec::new();
    if metadata.is_dir() {
        walk(path, &as_folder(key), bucket, &mut jobs)?;
    } else {
        let to = Location::S3 { bucket: bucket.to_owned(), key: key.to_owned() };
        let to = single_target(&file_name(path)?, &to)?;
        jobs.push(Job { from: Location::Local(path.to_owned()), to, size: metadata.len() });
    }
    Ok(jobs)
}

/// Every file below a folder, in order of names; links are followed, what is neither file nor folder is left out.
fn walk(folder: &Path, prefix: &str, bucket: &str, jobs: &mut Vec<Job>) -> Outcome {
    let failed = |error| Failure::io(folder.display(), &error);
    let mut entries = std::fs::read_dir(folder).map_err(failed)?.collect::<Result<Vec<_>, _>>().map_err(failed)?;
    entries.sort_by_key(std::fs::DirEntry::file_name);
    for entry in entries {
        let path = entry.path();
        let metadata = std::fs::metadata(&path).map_err(|error| Failure::io(path.display(), &error))?;
        let key = format!("{prefix}{}", file_name(&path)?);
        if metadata.is_dir() {
            walk(&path, &format!("{key}/"), bucket, jobs)?;
        } else if metadata.is_file() {
            let to = Location::S3 { bucket: bucket.to_owned(), key };
            jobs.push(Job { from: Location::Local(path), to, size: metadata.len() });
        }
    }
    Ok(())
}

async fn from_prefix(client: &Client, bucket: &str, prefix: &str, to: &Location) -> Outcome<Vec<Job>> {
    let prefix = as_folder(prefix);
    let mut jobs = Vec::new();
    let mut from = None;
    loop {
        let page = client.list(bucket, &prefix, "", from.as_deref()).await?;
        for entry in page.entries {
            let Listed::Object { key, size, .. } = entry else { continue };
            let rest = key.strip_prefix(&prefix).unwrap_or(&key);
            let to = match to {
                Location::S3 { bucket, key: target } => {
                    Location::S3 { bucket: bucket.clone(), key: format!("{}{rest}", as_folder(target)) }
                }
                // A key that ends with a slash marks a folder; there is no file to make of it.
                Location::Local(_) if rest.is_empty() || (rest.ends_with('/') && size == 0) => continue,
                Location::Local(path) => Location::Local(below(path, rest)?),
            };
            jobs.push(Job { from: Location::S3 { bucket: bucket.to_owned(), key }, to, size });
        }
        match page.next {
            Some(next) => from = Some(next),
            None if jobs.is_empty() => {
                return Err(Failure::missing(format!("s3://{bucket}/{prefix}: no key begins so")));
            }
            None => return Ok(jobs),
        }
    }
}

/// A prefix as a folder: empty, or with a slash at its end.
fn as_folder(key: &str) -> String {
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
        Location::S3 { bucket: bucket.to_owned(), key: key.to_owned() }
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
        assert!(uploads(folder.path(), "k", "p", false).is_err());
        let jobs = uploads(folder.path(), "k", "p", true).expect("jobs");
        let found: Vec<(Location, u64)> = jobs.into_iter().map(|job| (job.to, job.size)).collect();
        assert_eq!(found, [(s3("k", "p/a"), 1), (s3("k", "p/d/b +"), 2)]);
    }
}
