//! The files below a folder, for copying: everything that can be read, and a name and a reason for everything else.
//!
//! Invariants:
//! - One thing that cannot be copied keeps nothing else from it.
//! - Files come in the order of their names as keys have it, so that a walk can be laid beside a listing.
//! - A link that leads back to a folder it lies in is not followed: the walk ends.

use std::fs::{self, Metadata};
use std::ops::ControlFlow;
use std::os::unix::fs::{FileTypeExt, MetadataExt};
use std::path::{Path, PathBuf};
use std::time::SystemTime;

use super::plan::LeftOut;

/// A file below a folder.
pub struct FileFound {
    /// Where it is.
    pub path: PathBuf,
    /// Its name below the folder, with `/` between.
    pub name: String,
    /// How many bytes it has now.
    pub size: u64,
    /// When they were last changed, where the file system tells.
    pub modified: Option<SystemTime>,
}

/// A walk over a folder.
pub struct Walk<'a> {
    /// Whether links are followed; else they are passed over.
    pub follow: bool,
    /// Takes each file, and says whether to go on.
    pub found: &'a mut dyn FnMut(FileFound) -> ControlFlow<()>,
    /// Takes what cannot be copied.
    pub left_out: &'a mut dyn FnMut(LeftOut),
}

/// A thing in a folder.
struct FolderEntry {
    path: PathBuf,
    /// With `/` behind a folder: what is in it is sorted so.
    name: String,
    metadata: Metadata,
}

impl Walk<'_> {
    /// Every file below a folder.
    pub fn run(&mut self, folder: &Path) {
        match fs::metadata(folder) {
            Ok(metadata) => {
                // The end of the walk is all that a break says.
                let _ = self.below(folder, "", &mut vec![(metadata.dev(), metadata.ino())]);
            }
            Err(error) => self.leave_out(folder, error),
        }
    }

    fn leave_out(&mut self, path: &Path, reason: impl ToString) {
        (self.left_out)(LeftOut { name: path.display().to_string(), reason: reason.to_string() });
    }

    fn below(&mut self, folder: &Path, prefix: &str, above: &mut Vec<(u64, u64)>) -> ControlFlow<()> {
        let entries = fs::read_dir(folder).and_then(Iterator::collect::<Result<Vec<_>, _>>);
        let entries = match entries {
            Ok(entries) => entries,
            Err(error) => {
                self.leave_out(folder, error);
                return ControlFlow::Continue(());
            }
        };
        let mut inside: Vec<FolderEntry> = entries.iter().filter_map(|entry| self.look(entry, prefix)).collect();
        inside.sort_unstable_by(|one, other| one.name.cmp(&other.name));
        inside.into_iter().try_for_each(|inside| self.take(inside, above))
    }

    fn look(&mut self, entry: &fs::DirEntry, prefix: &str) -> Option<FolderEntry> {
        let path = entry.path();
        let is_link = entry.file_type().is_ok_and(|kind| kind.is_symlink());
        if is_link && !self.follow {
            return None;
        }
        let Some(name) = entry.file_name().to_str().map(|name| format!("{prefix}{name}")) else {
            self.leave_out(&path, "its name is not valid UTF-8, which keys must be; rename it");
            return None;
        };
        match fs::metadata(&path) {
            Ok(metadata) => {
                let name = if metadata.is_dir() { format!("{name}/") } else { name };
                return Some(FolderEntry { path, name, metadata });
            }
            Err(_) if is_link => self.leave_out(&path, "a link to nothing"),
            Err(error) => self.leave_out(&path, error),
        }
        None
    }

    fn take(&mut self, inside: FolderEntry, above: &mut Vec<(u64, u64)>) -> ControlFlow<()> {
        let FolderEntry { path, name, metadata } = inside;
        let (kind, place) = (metadata.file_type(), (metadata.dev(), metadata.ino()));
        if kind.is_file() {
            return (self.found)(FileFound { path, name, size: metadata.len(), modified: metadata.modified().ok() });
        }
        if kind.is_dir() && !above.contains(&place) {
            above.push(place);
            let done = self.below(&path, &name, above);
            above.pop();
            return done;
        }
        let what = match () {
            () if kind.is_dir() => "a link back to a folder that it lies in",
            () if kind.is_fifo() => "a pipe, which is no file",
            () if kind.is_socket() => "a socket, which is no file",
            () => "a device, which is no file",
        };
        self.leave_out(&path, what);
        ControlFlow::Continue(())
    }
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::symlink;
    use std::os::unix::net::UnixListener;

    use super::*;

    fn walked(folder: &Path, follow: bool) -> (Vec<String>, Vec<String>) {
        let (mut names, mut left_out) = (Vec::new(), Vec::new());
        let mut found = |found: FileFound| {
            names.push(found.name);
            ControlFlow::Continue(())
        };
        Walk { follow, found: &mut found, left_out: &mut |left| left_out.push(left) }.run(folder);
        (names, left_out.into_iter().map(|left| left.name.rsplit('/').next().unwrap().to_owned()).collect())
    }

    #[test]
    fn what_cannot_be_copied_is_named_and_keeps_nothing_from_it() {
        let folder = tempfile::tempdir().unwrap();
        let at = |name: &str| folder.path().join(name);
        fs::create_dir(at("d")).unwrap();
        fs::write(at("d/file"), b"12").unwrap();
        fs::write(at("z"), b"1").unwrap();
        symlink("nowhere", at("dangling")).unwrap();
        symlink("..", at("d/up")).unwrap();
        symlink("d", at("other")).unwrap();
        symlink("z", at("link")).unwrap();
        let _socket = UnixListener::bind(at("socket")).unwrap();
        let (names, left) = walked(folder.path(), true);
        assert_eq!(names, ["d/file", "link", "other/file", "z"]);
        assert_eq!(left, ["dangling", "up", "up", "socket"]);
        let (names, left) = walked(folder.path(), false);
        assert_eq!(names, ["d/file", "z"]);
        assert_eq!(left, ["socket"]);
        assert_eq!(walked(&at("none"), true).1, ["none"]);
    }

    #[test]
    fn files_come_in_the_order_of_keys() {
        let folder = tempfile::tempdir().unwrap();
        for name in ["a/x", "a/y", "a-b", "a.c", "a0", "ab/c"] {
            fs::create_dir_all(folder.path().join(name).parent().unwrap()).unwrap();
            fs::write(folder.path().join(name), b"").unwrap();
        }
        let names = walked(folder.path(), true).0;
        assert_eq!(names, ["a-b", "a.c", "a/x", "a/y", "a0", "ab/c"]);
        assert!(names.is_sorted());
    }
}
