//! The objects of a store that another user's process has: its socket for others, or TCP with a log in.
//!
//! Invariants:
//! - Who listens must be of this user, of root, or of the user whose the store is.
//! - Nothing of keys and values is reached this way.

use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use koine_kv::Closed;
use koine_object::{LogIn, RemoteObjects};

use crate::error::{Error, Result};
use crate::place::Place;
use crate::socket::{OBJECTS_SUFFIX, objects_socket_of};
use crate::store::{OpenOptions, Store};

/// Opens the objects of a place as who `log_in` says.
pub(crate) fn open(place: Place, log_in: &LogIn, options: &OpenOptions) -> Result<Store> {
    let remote = connect(&place, options)?;
    if !matches!(log_in, LogIn::Later) {
        let logged_in = remote.log_in(log_in);
        logged_in.inspect_err(|_| remote.close())?;
    }
    Ok(Store::elsewhere(place, Arc::new(Closed::new()), remote))
}

fn connect(place: &Place, options: &OpenOptions) -> Result<RemoteObjects> {
    match place {
        Place::Path(path) | Place::Rocks(path) => {
            let socket = objects_socket_of(path).filter(|socket| socket.exists()).ok_or_else(|| {
                Error::BadPlace(format!(
                    "{place} is not served to other users: start `koine serve {place}`, or name its socket as koine+unix:SOCKET"
                ))
            })?;
            Ok(RemoteObjects::connect_unix(&socket, owner_of(path), &options.client())?)
        }
        Place::Unix(socket) => Ok(RemoteObjects::connect_unix(socket, owner_behind(socket), &options.client())?),
        Place::Tcp(address) => {
            let message = format!("{place} wants a key: see --wire-key of koine serve");
            let key = options.key.as_ref().ok_or(Error::BadPlace(message))?;
            Ok(RemoteObjects::connect_tcp(address, key, &options.client())?)
        }
        Place::Memory => Err(Error::BadPlace("memory: is this process's own; nobody logs in to it".to_owned())),
    }
}

/// Whether a socket is one for other users, by its name.
pub(crate) fn is_for_others(socket: &Path) -> bool {
    socket.as_os_str().to_string_lossy().ends_with(OBJECTS_SUFFIX)
}

/// Whether a file keeps this process out whose own one listens for others.
pub(crate) fn serves_others(path: &Path) -> bool {
    // A device is not opened only to look.
    if !std::fs::metadata(path).is_ok_and(|metadata| metadata.is_file()) {
        return false;
    }
    let is_kept_out = std::fs::File::options().read(true).write(true).open(path);
    is_kept_out.is_err_and(|error| error.kind() == std::io::ErrorKind::PermissionDenied)
        && objects_socket_of(path).is_some_and(|socket| socket.exists())
}

fn owner_of(path: &Path) -> Option<u32> {
    std::fs::metadata(path).ok().map(|metadata| metadata.uid())
}

/// Whose the store beside a socket is; where there is none, whose the folder is, unless others may put things there.
fn owner_behind(socket: &Path) -> Option<u32> {
    let text = socket.to_str()?;
    let store = text.strip_suffix(OBJECTS_SUFFIX).map(PathBuf::from);
    store.as_deref().and_then(owner_of).or_else(|| {
        let folder = std::fs::metadata(socket.parent()?).ok()?;
        (folder.mode() & 0o022 == 0).then(|| folder.uid())
    })
}
