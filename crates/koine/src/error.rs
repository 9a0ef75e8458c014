//! What can go wrong while opening, and what to do about it.

use std::io;
use std::path::{Path, PathBuf};

use crate::place::Place;

/// The result of the facade's calls.
pub type Result<T, E = Error> = std::result::Result<T, E>;

/// An error of the facade: its own, or one of the floors below.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// The place is not one that this program can open.
    #[error("{0}")]
    BadPlace(String),
    /// A size that a store cannot have.
    #[error("{0}")]
    BadSize(String),
    /// There is no store at the path.
    #[error("{path} is not there; `koine serve {path}` or `koine format {path}` makes it", path = .0.display())]
    Missing(PathBuf),
    /// There is no store at the place, which is not a path alone.
    #[error("{0} is not there; `koine serve {0}` or `koine format {0}` makes it")]
    MissingAt(Place),
    /// Something that is not a store is there, and it was not touched.
    #[error("{path} holds {found}, not a Koine store; nothing was changed. Choose another path; what is there is lost only where that is insisted on (koine format has --force)", path = .path.display())]
    Occupied {
        /// Where.
        path: PathBuf,
        /// What it looks like.
        found: String,
    },
    /// What was to be opened is no store. Nothing is proposed that would lose what is there: the path may be a mistake.
    #[error("{path} holds {found}, not a Koine store; nothing was changed: name the path of a store, or one where nothing is yet", path = .path.display())]
    NotAStore {
        /// Where.
        path: PathBuf,
        /// What it looks like.
        found: String,
    },
    /// What was to be opened holds nothing.
    #[error("{path} holds {found}, not a Koine store; `koine format {path}` makes one of it", path = .path.display())]
    Blank {
        /// Where.
        path: PathBuf,
        /// Which kind of nothing.
        found: &'static str,
    },
    /// The operating system refused.
    #[error("cannot {what} {path}: {source}", path = .path.display())]
    Io {
        /// A verb: `read`, `make`, ….
        what: &'static str,
        /// Of what.
        path: PathBuf,
        /// Why.
        source: io::Error,
    },
    /// The store at a path refused.
    #[error("{path}: {source}", path = .path.display())]
    At {
        /// Where.
        path: PathBuf,
        /// Why.
        source: koine_kv::Error,
    },
    /// The store refused.
    #[error(transparent)]
    Store(#[from] koine_kv::Error),
    /// The objects in it refused.
    #[error(transparent)]
    Objects(#[from] koine_object::Error),
}

impl Error {
    /// Whether another process holds the store.
    pub fn is_held(&self) -> bool {
        matches!(self, Error::Store(error) if error.kind() == koine_kv::ErrorKind::Owned)
    }

    /// The kind of the store's error, where it is one.
    pub fn store_kind(&self) -> Option<koine_kv::ErrorKind> {
        match self {
            Error::At { source, .. } | Error::Store(source) => Some(source.kind()),
            _ => None,
        }
    }

    /// An error of the store at `path`, which is named unless the message does.
    pub(crate) fn at(path: &Path) -> impl Fn(koine_kv::Error) -> Error + '_ {
        move |source| {
            if source.kind() == koine_kv::ErrorKind::Owned || source.message().contains(&*path.to_string_lossy()) {
                Error::Store(source)
            } else {
                Error::At { path: path.to_owned(), source }
            }
        }
    }
}
