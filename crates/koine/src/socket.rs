//! Where the owner of a store listens for other processes of its user.

use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::FileTypeExt;
use std::path::{Path, PathBuf};

/// What the kernel takes as the path of a socket, with room for the end of a string.
const SOCKET_LEN_MAX: usize = 107;

/// What the name of the owner's socket ends with.
const OWNERS_SUFFIX: &str = ".sock";
/// What that of the one for others ends with.
pub(crate) const OBJECTS_SUFFIX: &str = ".objects.sock";

/// The socket of the store at a path: beside a file, `STORE.sock`; for a device, and where that would be too long a name
/// for a socket, in the user's folder for such things. `None` where there is no such folder.
pub fn socket_of(store: &Path) -> Option<PathBuf> {
    found(store, OWNERS_SUFFIX)
}

/// The socket for those who are not its owner: `STORE.objects.sock`, in the same places.
pub fn objects_socket_of(store: &Path) -> Option<PathBuf> {
    found(store, OBJECTS_SUFFIX)
}

fn found(store: &Path, suffix: &str) -> Option<PathBuf> {
    let store = std::fs::canonicalize(store).ok()?;
    let is_device = std::fs::metadata(&store).is_ok_and(|metadata| metadata.file_type().is_block_device());
    let mut beside = store.clone().into_os_string();
    beside.push(suffix);
    if !is_device && beside.len() <= SOCKET_LEN_MAX {
        return Some(PathBuf::from(beside));
    }
    let folder = runtime_folder()?;
    let name = folder.join(format!("koine-{:016x}{suffix}", fingerprint(store.as_os_str().as_bytes())));
    (name.as_os_str().len() <= SOCKET_LEN_MAX).then_some(name)
}

/// A folder that is the user's alone.
fn runtime_folder() -> Option<PathBuf> {
    let named = std::env::var_os("XDG_RUNTIME_DIR").map(PathBuf::from).filter(|folder| folder.is_dir());
    named.or_else(|| Some(PathBuf::from("/run")).filter(|folder| std::fs::metadata(folder).is_ok_and(|m| is_mine(&m))))
}

/// Whether nobody else may put things there.
fn is_mine(metadata: &std::fs::Metadata) -> bool {
    use std::os::unix::fs::MetadataExt;
    let own = std::fs::metadata("/proc/self").map(|process| process.uid());
    own.is_ok_and(|own| own == metadata.uid()) && metadata.mode() & 0o022 == 0
}

/// FNV-1a, for a name: the same path gives the same one in every process.
fn fingerprint(bytes: &[u8]) -> u64 {
    bytes.iter().fold(0xcbf2_9ce4_8422_2325, |sum, byte| (sum ^ u64::from(*byte)).wrapping_mul(0x100_0000_01b3))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_socket_lies_beside_its_file_unless_its_name_is_too_long() {
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("store.koine");
        assert_eq!(socket_of(&file), None, "not there");
        std::fs::write(&file, "").unwrap();
        let canonical = std::fs::canonicalize(&file).unwrap();
        assert_eq!(socket_of(&file), Some(PathBuf::from(format!("{}.sock", canonical.display()))));
        assert_eq!(objects_socket_of(&file), Some(PathBuf::from(format!("{}.objects.sock", canonical.display()))));
        let long = folder.path().join("x".repeat(150));
        std::fs::write(&long, "").unwrap();
        let elsewhere = socket_of(&long);
        assert!(
            elsewhere
                .is_none_or(|socket| !socket.starts_with(folder.path()) && socket.as_os_str().len() <= SOCKET_LEN_MAX)
        );
    }
}
