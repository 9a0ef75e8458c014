//! The files below a folder, for copying: everything that can be read, and a name and a reason for everything else.
//!
//! Invariants:
//! - One thing that cannot be copied keeps nothing else from it.
//! - A link that leads back to a folder it lies in is not followed: the walk ends.

use std::fs::{self, Metadata};
use std::os::unix::fs::{FileTypeExt, MetadataExt};
use std::path::{Path, PathBuf};

use super::plan::LeftOut;

/// A file below a folder.
pub struct Found {
    /// Where it is.
    pub path: PathBuf,
    /// Its name below the folder, with `/` between.
    pub name: String,
    /// How many bytes it has now.
    pub size: u64,
}

/// A walk over a folder.
pub struct Walk<'a> {
    /// Whether links are followed; else they are passed over.
    pub follow: bool,
    /// Takes each file.
    pub found: &'a mut dyn FnMut(Found),
    /// Takes what cannot be copied.
    pub left_out: &'a mut Vec<LeftOut>,
}

impl Walk<'_> {
    /// Every file below a folder, in order of names.
    pub fn run(&mut self, folder: &Path) {
        match fs::metadata(folder) {
            Ok(metadata) => self.below(folder, "", &mut vec![(metadata.dev(), metadata.ino())]),
            Err(error) => self.leave_out(folder, error),
        }
    }

    fn leave_out(&mut self, path: &Path, reason: impl ToString) {
        self.left_out.push(LeftOut { name: path.display().to_string(), reason: reason.to_string() });
    }

    fn below(&mut self, folder: &Path, prefix: &str, above: &mut Vec<(u64, u64)>) {
        let entries = fs::read_dir(folder).and_then(Iterator::collect::<Result<Vec<_>, _>>);
        let mut entries = match entries {
            Ok(entries) => entries,
            Err(error) => return self.leave_out(folder, error),
        };
        entries.sort_by_key(fs::DirEntry::file_name);
        for entry in entries {
            let path = entry.path();
            let is_link = entry.file_type().is_ok_and(|kind| kind.is_symlink());
            if is_link && !self.follow {
                continue;
            }
            let file_name = entry.file_name();
            let Some(name) = file_name.to_str().map(|name| format!("{prefix}{name}")) else {
                self.leave_out(&path, "its name is not UTF-8, and keys are; rename it");
                continue;
            };
            match fs::metadata(&path) {
                Ok(metadata) => self.take(path, name, &metadata, above),
                Err(_) if is_link => self.leave_out(&path, "a link to nothing that is there"),
                Err(error) => self.leave_out(&path, error),
            }
        }
    }

    fn take(&mut self, path: PathBuf, name: String, metadata: &Metadata, above: &mut Vec<(u64, u64)>) {
        let (kind, place) = (metadata.file_type(), (metadata.dev(), metadata.ino()));
        if kind.is_file() {
            (self.found)(Found { path, name, size: metadata.len() });
        } else if kind.is_dir() && above.contains(&place) {
            self.leave_out(&path, "a link back to a folder that it lies in");
        } else if kind.is_dir() {
            above.push(place);
            self.below(&path, &format!("{name}/"), above);
            above.pop();
        } else {
            let what = match () {
                () if kind.is_fifo() => "a pipe",
                () if kind.is_socket() => "a socket",
                () => "a device",
            };
            self.leave_out(&path, format!("{what}, which is no file"));
        }
    }
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::symlink;
    use std::os::unix::net::UnixListener;

    use super::*;

    fn walked(folder: &Path, follow: bool) -> (Vec<String>, Vec<String>) {
        let (mut names, mut left_out) = (Vec::new(), Vec::new());
        Walk { follow, found: &mut |found| names.push(found.name), left_out: &mut left_out }.run(folder);
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
        assert_eq!(left, ["up", "dangling", "up", "socket"]);
        let (names, left) = walked(folder.path(), false);
        assert_eq!(names, ["d/file", "z"]);
        assert_eq!(left, ["socket"]);
        assert_eq!(walked(&at("none"), true).1, ["none"]);
    }
}
