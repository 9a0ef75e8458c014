//! Where a store is: a path, or a URL.

use std::fmt;
use std::path::{Path, PathBuf};

use crate::error::{Error, Result};

/// Where a store is.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Place {
    /// A file or a block device.
    Path(PathBuf),
    /// This process's memory; it ends with it.
    Memory,
}

impl Place {
    /// Reads a path, `file:PATH` or `memory:`.
    pub fn parse(text: &str) -> Result<Self> {
        if let Some(path) = text.strip_prefix("file:") {
            let path = path.strip_prefix("//").unwrap_or(path);
            return Place::at(path, text);
        }
        if text == "memory:" {
            return Ok(Place::Memory);
        }
        // `name:` in front is a URL of a kind that is not known; a path with a colon later on is a path.
        let scheme = text.split_once(':').map(|(scheme, _)| scheme);
        let is_scheme =
            |name: &str| name.len() > 1 && name.bytes().all(|byte| byte.is_ascii_alphanumeric() || byte == b'+');
        match scheme {
            Some(name) if is_scheme(name) && !Path::new(text).exists() => Err(Error::BadPlace(format!(
                "{text}: `{name}:` is no kind of store; give the path of a file or device, or `memory:` (a file with such a name: ./{text})"
            ))),
            _ => Place::at(text, text),
        }
    }

    fn at(path: &str, given: &str) -> Result<Self> {
        if path.is_empty() {
            return Err(Error::BadPlace(format!("{given:?} names no file; give the path of a file or device")));
        }
        Ok(Place::Path(PathBuf::from(path)))
    }

    /// The path, when it is one.
    pub fn path(&self) -> Option<&Path> {
        match self {
            Place::Path(path) => Some(path),
            Place::Memory => None,
        }
    }
}

impl fmt::Display for Place {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Place::Path(path) => path.display().fmt(f),
            Place::Memory => f.write_str("memory:"),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn paths_and_urls_are_told_apart() {
        let check = |text: &str, place: Option<Place>| assert_eq!(Place::parse(text).ok(), place, "{text}");
        let path = |text: &str| Some(Place::Path(PathBuf::from(text)));
        check("memory:", Some(Place::Memory));
        check("a/b.koine", path("a/b.koine"));
        check("/dev/sdx", path("/dev/sdx"));
        check("file:/a", path("/a"));
        check("file:///a", path("/a"));
        check("./redis:1", path("./redis:1"));
        check("redis://host", None);
        check("file:", None);
        check("", None);
    }
}
