//! The files of the repository, read once.
//!
//! Invariants:
//! - Paths are relative to the root and use `/`.
//! - A file is text when it is UTF-8 without NUL bytes.

use std::io;
use std::path::Path;
use std::process::Command;

/// A file of the repository.
pub struct File {
    /// Path from the root.
    pub path: String,
    /// Length in bytes.
    pub size: u64,
    /// Its content, when it is text.
    pub text: Option<String>,
}

/// All files that git tracks or would track.
pub struct Tree {
    /// Sorted by path.
    pub files: Vec<File>,
}

impl Tree {
    /// Reads every file that git lists under `root`, ignored ones left out.
    pub fn read(root: &Path) -> io::Result<Self> {
        let output = Command::new("git")
            .args(["ls-files", "-z", "--cached", "--others", "--exclude-standard", "--deduplicate"])
            .current_dir(root)
            .output()
            .map_err(|error| io::Error::other(format!("git is needed to list the files: {error}")))?;
        if !output.status.success() {
            return Err(io::Error::other(format!(
                "git ls-files failed: {}",
                String::from_utf8_lossy(&output.stderr).trim()
            )));
        }
        let mut files = Vec::new();
        for name in output.stdout.split(|byte| *byte == 0).filter(|name| !name.is_empty()) {
            let path = String::from_utf8_lossy(name).into_owned();
            let full = root.join(&path);
            // Listed but deleted in the working tree, or a link: nothing to check.
            let Ok(metadata) = full.symlink_metadata() else { continue };
            if !metadata.is_file() {
                continue;
            }
            let bytes = std::fs::read(&full)?;
            let size = bytes.len() as u64;
            let text = if bytes.contains(&0) { None } else { String::from_utf8(bytes).ok() };
            files.push(File { path, size, text });
        }
        files.sort_by(|a, b| a.path.cmp(&b.path));
        Ok(Tree { files })
    }

    /// The file at a path.
    pub fn get(&self, path: &str) -> Option<&File> {
        let at = self.files.binary_search_by(|file| file.path.as_str().cmp(path)).ok()?;
        self.files.get(at)
    }

    /// A tree of given texts, for tests.
    #[cfg(test)]
    pub fn from_texts(texts: &[(&str, &str)]) -> Self {
        let mut files: Vec<File> = texts
            .iter()
            .map(|(path, text)| File {
                path: (*path).to_owned(),
                size: text.len() as u64,
                text: Some((*text).to_owned()),
            })
            .collect();
        files.sort_by(|a, b| a.path.cmp(&b.path));
        Tree { files }
    }
}
