//! Which copies a command means: every source with its target and size, before the first byte moves.
//!
//! Invariants:
//! - A key never becomes a path outside the target folder; one that would is a failure.

use std::ops::ControlFlow;
use std::path::{Component, Path, PathBuf};

use super::folder::{FileFound, Walk};
use crate::client::Listed;
use crate::failure::{Exit, Failure, Outcome};
use crate::location::{Location, Scheme};
use crate::pattern::Pattern;
use crate::target::Target;
use crate::targets::Targets;

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

/// Something that was meant and cannot be copied.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LeftOut {
    /// What it is called.
    pub name: String,
    /// Why not.
    pub reason: String,
}

/// What a command means.
#[derive(Debug, Default)]
pub struct Plan {
    /// The copies.
    pub jobs: Vec<Job>,
    /// What is not copied, though it was meant.
    pub left_out: Vec<LeftOut>,
}

/// Which names below a folder or prefix are copied: those that fit an `include`, where there is one, and no `exclude`.
#[derive(Clone, Debug, Default)]
pub struct Filter {
    include: Vec<glob::Pattern>,
    exclude: Vec<glob::Pattern>,
}

impl Filter {
    /// Reads patterns: `*` stands for any text, `/` included.
    pub fn new(include: &[String], exclude: &[String]) -> Outcome<Self> {
        let parse = |text: &String| {
            glob::Pattern::new(text)
                .map_err(|error| Failure::usage(format!("{text:?} is not a valid pattern: {error}")))
        };
        let all = |texts: &[String]| texts.iter().map(parse).collect::<Outcome<Vec<_>>>();
        Ok(Filter { include: all(include)?, exclude: all(exclude)? })
    }

    /// Whether nothing is asked of names.
    pub fn takes_all(&self) -> bool {
        self.include.is_empty() && self.exclude.is_empty()
    }

    /// Whether a name, below what is copied, is.
    pub fn takes(&self, name: &str) -> bool {
        let fits = |patterns: &[glob::Pattern]| patterns.iter().any(|pattern| pattern.matches(name));
        (self.include.is_empty() || fits(&self.include)) && !fits(&self.exclude)
    }
}

/// How names are read.
#[derive(Clone, Debug, Default)]
pub struct ReadOptions {
    /// Everything below a name.
    pub recursive: bool,
    /// No key is a pattern.
    pub exact: bool,
    /// Links in folders are followed.
    pub follow: bool,
    /// Which of the names below.
    pub filter: Filter,
}

/// The copies that `cp FROM… TO` means.
pub fn plan(targets: &Targets, from: &[Location], to: &Location, reading: &ReadOptions) -> Outcome<Plan> {
    if let Location::Object { scheme, bucket, .. } = to
        && bucket.is_empty()
    {
        return Err(Failure::usage(format!("TO does not name a bucket; write {}BUCKET/KEY", scheme.prefix())));
    }
    // More than one thing goes into a folder, so that none of them writes over another.
    let folder = from.len() > 1;
    let mut plan = Plan::default();
    for from in from {
        let to = if folder { into_folder(to) } else { to.clone() };
        match plan_of(targets, from, &to, reading) {
            Ok(more) => {
                plan.jobs.extend(more.jobs);
                plan.left_out.extend(more.left_out);
            }
            Err(failure) if folder && failure.exit == Exit::Missing => {
                plan.left_out.push(LeftOut { name: from.to_string(), reason: failure.message });
            }
            Err(failure) => return Err(failure),
        }
    }
    Ok(plan)
}

/// A target that is a folder whatever is there.
fn into_folder(to: &Location) -> Location {
    match to {
        Location::Local(path) => Location::Local(path.join("")),
        Location::Object { scheme, bucket, key } => {
            Location::Object { scheme: scheme.clone(), bucket: bucket.clone(), key: as_folder(key) }
        }
    }
}

fn plan_of(targets: &Targets, from: &Location, to: &Location, reading: &ReadOptions) -> Outcome<Plan> {
    match (from, to) {
        (Location::Local(_), Location::Local(_)) => Err(Failure::usage(
            "both sides are local; one must be koine://BUCKET/KEY, s3://BUCKET/KEY or ALIAS://BUCKET/KEY (the system's cp copies files)",
        )),
        (Location::Object { scheme, bucket, .. }, _) if bucket.is_empty() => {
            Err(Failure::usage(format!("FROM does not name a bucket; write {}BUCKET/KEY", scheme.prefix())))
        }
        (Location::Local(path), to) => uploads(path, to, reading),
        (Location::Object { scheme, bucket, key }, _) => {
            let target = targets.of(scheme)?;
            let source = PlanSource { target, scheme: scheme.clone(), bucket, filter: &reading.filter };
            let pattern = if reading.exact { None } else { Pattern::parse(key)? };
            match pattern {
                Some(pattern) => source.matches(&pattern, to),
                None if reading.recursive => source.below(key, to),
                None if key.is_empty() => {
                    Err(Failure::usage(format!("{from} is a whole bucket; add --recursive, or name a key")))
                }
                None => {
                    let size = target.size(bucket, key)?;
                    let job = Job { from: from.clone(), to: single_target(key, to)?, size };
                    Ok(Plan { jobs: vec![job], left_out: Vec::new() })
                }
            }
        }
    }
}

/// The target of one object: a folder or prefix gets its last name.
fn single_target(key: &str, to: &Location) -> Outcome<Location> {
    let name = key.rsplit('/').next().unwrap_or(key);
    match to {
        Location::Object { scheme, bucket, key: to } => {
            let key = if to.is_empty() || to.ends_with('/') { format!("{to}{name}") } else { to.clone() };
            Ok(Location::Object { scheme: scheme.clone(), bucket: bucket.clone(), key })
        }
        Location::Local(path) if path.is_dir() || path.as_os_str().as_encoded_bytes().ends_with(b"/") => {
            Ok(Location::Local(below(path, name)?))
        }
        Location::Local(path) => Ok(Location::Local(path.clone())),
    }
}

/// A bucket that objects come from.
struct PlanSource<'a> {
    target: &'a Target,
    scheme: Scheme,
    bucket: &'a str,
    filter: &'a Filter,
}

impl PlanSource<'_> {
    /// Everything below a prefix.
    fn below(&self, prefix: &str, to: &Location) -> Outcome<Plan> {
        let prefix = as_folder(prefix);
        let plan = self.listed(&prefix, to, |key| key.strip_prefix(prefix.as_str()))?;
        if plan.jobs.is_empty() && plan.left_out.is_empty() && self.filter.takes_all() {
            let name = format!("{}{}/{prefix}", self.scheme.prefix(), self.bucket);
            return Err(Failure::missing(format!("{name}: no key has this prefix")));
        }
        Ok(plan)
    }

    /// Everything that a pattern takes.
    fn matches(&self, pattern: &Pattern, to: &Location) -> Outcome<Plan> {
        let plan = self.listed(pattern.prefix(), to, |key| pattern.takes(key).then(|| pattern.below(key)))?;
        let nothing = plan.jobs.is_empty() && plan.left_out.is_empty() && self.filter.takes_all();
        if nothing { Err(pattern.nothing(&self.scheme, self.bucket)) } else { Ok(plan) }
    }

    /// Every key under a prefix of which `rest` gives what it is called below the target.
    fn listed(&self, prefix: &str, to: &Location, rest: impl for<'k> Fn(&'k str) -> Option<&'k str>) -> Outcome<Plan> {
        let mut plan = Plan::default();
        self.target.each(self.bucket, prefix, |entry| {
            let Listed::Object { key, size, .. } = entry else { return Ok(()) };
            let Some(rest) = rest(&key).filter(|rest| self.filter.takes(rest)) else { return Ok(()) };
            let to = match to {
                Location::Object { scheme, bucket, key: target } => Location::Object {
                    scheme: scheme.clone(),
                    bucket: bucket.clone(),
                    key: format!("{}{rest}", as_folder(target)),
                },
                // A key that ends with a slash marks a folder; there is no file to make of it.
                Location::Local(_) if rest.is_empty() || (rest.ends_with('/') && size == 0) => return Ok(()),
                Location::Local(path) => match below(path, rest) {
                    Ok(path) => Location::Local(path),
                    Err(failure) => {
                        let name = format!("{}{}/{key}", self.scheme.prefix(), self.bucket);
                        plan.left_out.push(LeftOut { name, reason: failure.message });
                        return Ok(());
                    }
                },
            };
            let from =
                Location::Object { scheme: self.scheme.clone(), bucket: self.bucket.to_owned(), key: key.clone() };
            plan.jobs.push(Job { from, to, size });
            Ok(())
        })?;
        Ok(plan)
    }
}

fn uploads(path: &Path, to: &Location, reading: &ReadOptions) -> Outcome<Plan> {
    let metadata = std::fs::metadata(path).map_err(|error| Failure::io(path.display(), &error))?;
    if metadata.is_dir() && !reading.recursive {
        return Err(Failure::usage(format!("{} is a folder; add --recursive", path.display())));
    }
    let (mut jobs, mut left_out) = (Vec::new(), Vec::new());
    match to {
        Location::Object { scheme, bucket, key } if metadata.is_dir() => {
            let prefix = as_folder(key);
            let mut found = |found: FileFound| {
                if reading.filter.takes(&found.name) {
                    let key = format!("{prefix}{}", found.name);
                    let to = Location::Object { scheme: scheme.clone(), bucket: bucket.clone(), key };
                    jobs.push(Job { from: Location::Local(found.path), to, size: found.size });
                }
                ControlFlow::Continue(())
            };
            let mut leave_out = |left| left_out.push(left);
            Walk { follow: reading.follow, found: &mut found, left_out: &mut leave_out }.run(path);
        }
        _ => {
            let to = single_target(&file_name(path)?, to)?;
            jobs.push(Job { from: Location::Local(path.to_owned()), to, size: metadata.len() });
        }
    }
    Ok(Plan { jobs, left_out })
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
    let name = name.to_str().ok_or_else(|| {
        Failure::failed(format!("{} is not valid UTF-8, which keys must be; rename it", path.display()))
    })?;
    Ok(name.to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn s3(bucket: &str, key: &str) -> Location {
        Location::Object { scheme: Scheme::S3, bucket: bucket.to_owned(), key: key.to_owned() }
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
        assert!(uploads(folder.path(), &s3("k", "p"), &ReadOptions::default()).is_err());
        let reading = ReadOptions { recursive: true, follow: true, ..ReadOptions::default() };
        let plan = uploads(folder.path(), &s3("k", "p"), &reading).expect("a plan");
        let found: Vec<(Location, u64)> = plan.jobs.into_iter().map(|job| (job.to, job.size)).collect();
        assert_eq!(found, [(s3("k", "p/a"), 1), (s3("k", "p/d/b +"), 2)]);
    }

    #[test]
    fn names_are_taken_that_fit_an_include_and_no_exclude() {
        let check = |include: &[&str], exclude: &[&str], taken: &[&str]| {
            let texts = |all: &[&str]| all.iter().map(|text| (*text).to_owned()).collect::<Vec<_>>();
            let filter = Filter::new(&texts(include), &texts(exclude)).expect("patterns");
            let names = ["a.jpg", "d/b.jpg", "d/c.txt", "e"];
            assert_eq!(names.into_iter().filter(|name| filter.takes(name)).collect::<Vec<_>>(), taken);
        };
        check(&[], &[], &["a.jpg", "d/b.jpg", "d/c.txt", "e"]);
        check(&["*.jpg"], &[], &["a.jpg", "d/b.jpg"]);
        check(&[], &["d/*"], &["a.jpg", "e"]);
        check(&["*.jpg", "e"], &["d/*"], &["a.jpg", "e"]);
        assert!(Filter::new(&["[".to_owned()], &[]).is_err());
    }
}
