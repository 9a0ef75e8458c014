//! Everything below a folder, or a prefix of a store or a server, in the order of the bytes of names.
//!
//! Invariants:
//! - A name is what comes behind the place, with `/` between levels.
//! - A listing is told as it is read: a page of it, or one folder with those above it, is in memory.

use std::ops::ControlFlow;
use std::sync::mpsc::{Receiver, SyncSender, sync_channel};
use std::thread::Scope;
use std::time::{SystemTime, UNIX_EPOCH};

use crate::client::Listed;
use crate::cp::folder::{FileFound, Walk};
use crate::cp::plan::{Filter, LeftOut, as_folder};
use crate::failure::{Exit, Failure, Outcome};
use crate::location::Location;
use crate::moment::milliseconds;
use crate::targets::Targets;

/// How many entries of a listing are read ahead of who looks at them.
const AHEAD: usize = 1000;

/// A file or an object.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Entry {
    /// Below the place.
    pub name: String,
    /// Its length in bytes.
    pub size: u64,
    /// When its bytes were last changed, in milliseconds since 1970; `None` where nobody tells.
    pub modified: Option<i64>,
    /// The ETag of an object.
    pub etag: Option<String>,
}

/// What a listing tells.
#[derive(Debug)]
pub enum TreeItem {
    /// A file or an object.
    Entry(Entry),
    /// What cannot be read.
    LeftOut(LeftOut),
    /// The listing ends here, not at its end.
    Failed(Failure),
}

/// How a place is read.
#[derive(Clone, Debug)]
pub struct TreeOptions {
    /// Which names.
    pub filter: Filter,
    /// Links in folders are followed.
    pub follow: bool,
    /// Objects that mark a folder (a name with `/` at its end, no bytes) are passed over: a folder has none.
    pub files_only: bool,
    /// A folder that is not there has nothing in it.
    pub may_be_absent: bool,
}

/// Checks that a place is one: a folder, or a bucket and a prefix of it.
pub fn check(place: &Location) -> Outcome {
    match place {
        Location::Object { scheme, bucket, .. } if bucket.is_empty() => {
            Err(Failure::usage(format!("{place} does not name a bucket; write {}BUCKET/PREFIX", scheme.prefix())))
        }
        Location::Local(path) if path.exists() && !path.is_dir() => {
            Err(Failure::usage(format!("{} is not a folder; koine cp copies single files", path.display())))
        }
        _ => Ok(()),
    }
}

/// The location of a name below a place; a failure where it can be no file.
pub fn child(place: &Location, name: &str) -> Outcome<Location> {
    match place {
        Location::Local(path) => Ok(Location::Local(crate::cp::file_below(path, name)?)),
        Location::Object { scheme, bucket, key } => {
            let key = format!("{}{name}", as_folder(key));
            Ok(Location::Object { scheme: scheme.clone(), bucket: bucket.clone(), key })
        }
    }
}

/// Lists a place on a thread of its own.
pub fn stream<'scope, 'a: 'scope>(
    scope: &'scope Scope<'scope, '_>,
    targets: &'a Targets,
    place: &'a Location,
    reading: TreeOptions,
) -> Receiver<TreeItem> {
    let (tell, told) = sync_channel(AHEAD);
    scope.spawn(move || list(targets, place, &reading, &tell));
    told
}

fn list(targets: &Targets, place: &Location, reading: &TreeOptions, tell: &SyncSender<TreeItem>) {
    let result = each(targets, place, reading, |told| match tell.send(told) {
        Ok(()) => ControlFlow::Continue(()),
        Err(_) => ControlFlow::Break(()),
    });
    if let Err(failure) = result {
        // Whoever does not listen any more has an end of its own to tell.
        let _ = tell.send(TreeItem::Failed(failure));
    }
}

/// Tells everything below a place, until it is told to stop.
pub fn each(
    targets: &Targets,
    place: &Location,
    reading: &TreeOptions,
    mut tell: impl FnMut(TreeItem) -> ControlFlow<()>,
) -> Outcome {
    let (scheme, bucket, prefix) = match place {
        Location::Local(path) if reading.may_be_absent && !path.exists() => return Ok(()),
        Location::Local(path) => {
            std::fs::metadata(path).map_err(|error| Failure::io(path.display(), &error))?;
            folder(path, reading, &mut tell);
            return Ok(());
        }
        Location::Object { scheme, bucket, key } => (scheme, bucket, as_folder(key)),
    };
    let mut stopped = false;
    let listed = targets.of(scheme)?.each(bucket, &prefix, |listed| {
        let Listed::Object { key, size, modified, etag } = listed else { return Ok(()) };
        let Some(name) = key.strip_prefix(prefix.as_str()) else { return Ok(()) };
        let marks_folder = name.is_empty() || (name.ends_with('/') && size == 0);
        if !reading.filter.takes(name) || (reading.files_only && marks_folder) {
            return Ok(());
        }
        let etag = Some(etag).filter(|etag| !etag.is_empty());
        let entry = Entry { name: name.to_owned(), size, modified: milliseconds(&modified), etag };
        match tell(TreeItem::Entry(entry)) {
            ControlFlow::Continue(()) => Ok(()),
            ControlFlow::Break(()) => {
                stopped = true;
                Err(Failure { exit: Exit::Failed, message: "stopped".to_owned() })
            }
        }
    });
    if stopped { Ok(()) } else { listed }
}

fn folder(path: &std::path::Path, reading: &TreeOptions, tell: &mut impl FnMut(TreeItem) -> ControlFlow<()>) {
    let tell = std::cell::RefCell::new(tell);
    let mut found = |found: FileFound| {
        if !reading.filter.takes(&found.name) {
            return ControlFlow::Continue(());
        }
        let modified = found.modified.and_then(since_1970);
        let entry = Entry { name: found.name, size: found.size, modified, etag: None };
        (tell.borrow_mut())(TreeItem::Entry(entry))
    };
    // A break is told again with the next file.
    let mut leave_out = |left| {
        let _ = (tell.borrow_mut())(TreeItem::LeftOut(left));
    };
    Walk { follow: reading.follow, found: &mut found, left_out: &mut leave_out }.run(path);
}

fn since_1970(time: SystemTime) -> Option<i64> {
    match time.duration_since(UNIX_EPOCH) {
        Ok(after) => i64::try_from(after.as_millis()).ok(),
        Err(before) => i64::try_from(before.duration().as_millis()).ok().map(|before| -before),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_are_milliseconds() {
        assert_eq!(since_1970(UNIX_EPOCH - std::time::Duration::from_millis(5)), Some(-5));
        assert_eq!(since_1970(UNIX_EPOCH + std::time::Duration::from_micros(1_999)), Some(1));
    }
}
