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
    /// A folder of RocksDB.
    Rocks(PathBuf),
    /// The socket of a server on this machine.
    Unix(PathBuf),
    /// A server elsewhere: host and port. It wants a key.
    Tcp(String),
}

impl Place {
    /// Reads a path, `engine:PATH` or `file:PATH`, `memory:`, `rocksdb:PATH`, `koine+unix:SOCKET` or
    /// `koine+tcp:HOST:PORT`.
    pub fn parse(text: &str) -> Result<Self> {
        let after = |scheme: &str| {
            let rest = text.strip_prefix(scheme)?.strip_prefix(':')?;
            Some(rest.strip_prefix("//").unwrap_or(rest))
        };
        if let Some(path) = after("engine").or_else(|| after("file")) {
            return Place::at(path, text);
        }
        if let Some(path) = after("rocksdb") {
            Place::at(path, text)?;
            return Ok(Place::Rocks(PathBuf::from(path)));
        }
        if let Some(path) = after("koine+unix") {
            Place::at(path, text)?;
            return Ok(Place::Unix(PathBuf::from(path)));
        }
        if let Some(address) = after("koine+tcp") {
            let has_port =
                address.rsplit_once(':').is_some_and(|(host, port)| !host.is_empty() && port.parse::<u16>().is_ok());
            if !has_port {
                return Err(Error::BadPlace(format!("{text}: write koine+tcp:HOST:PORT")));
            }
            return Ok(Place::Tcp(address.to_owned()));
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
                "{text}: `{name}:` is no kind of store; give the path of a file or device, `memory:`, rocksdb:PATH, koine+unix:SOCKET or koine+tcp:HOST:PORT (a file with such a name: ./{text})"
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

    /// The path of the store itself, when it has one.
    pub fn path(&self) -> Option<&Path> {
        match self {
            Place::Path(path) | Place::Rocks(path) => Some(path),
            Place::Memory | Place::Unix(_) | Place::Tcp(_) => None,
        }
    }
}

impl fmt::Display for Place {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Place::Path(path) => path.display().fmt(f),
            Place::Memory => f.write_str("memory:"),
            Place::Rocks(path) => write!(f, "rocksdb:{}", path.display()),
            Place::Unix(path) => write!(f, "koine+unix:{}", path.display()),
            Place::Tcp(address) => write!(f, "koine+tcp:{address}"),
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
        check("engine:a", path("a"));
        check("rocksdb:a/b", Some(Place::Rocks(PathBuf::from("a/b"))));
        check("rocksdb:///a", Some(Place::Rocks(PathBuf::from("/a"))));
        check("rocksdb:", None);
        check("koine+unix:/run/a.sock", Some(Place::Unix(PathBuf::from("/run/a.sock"))));
        check("koine+tcp://host:1", Some(Place::Tcp("host:1".into())));
        check("koine+tcp:[::1]:70", Some(Place::Tcp("[::1]:70".into())));
        check("koine+tcp:host", None);
        check("koine+tcp::1", None);
        check("koine+unix:", None);
        check("redis://host", None);
        check("file:", None);
        check("", None);
    }
}
