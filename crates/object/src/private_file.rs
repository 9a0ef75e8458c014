//! Files that hold a secret: a key, a token, a password.
//!
//! Invariant: nothing is read of a file that others may read or write: its owner alone may, or root and the group that root
//! gave it. What is no file of a disk (a pipe, a terminal) has no others.

use std::fs::File;
use std::io::{Error, ErrorKind, Read, Result};
use std::os::unix::fs::MetadataExt;
use std::path::Path;

/// What a file holds that only who it is for may read: at most `length_max` bytes. One that others may read or write is
/// `InvalidInput`, and the message says what to do; one that is longer is `InvalidData`.
pub fn read_private_file(path: &Path, length_max: u64) -> Result<Vec<u8>> {
    let file = File::open(path)?;
    let metadata = file.metadata()?;
    let of_others = if metadata.uid() == 0 { 0o037 } else { 0o077 };
    if metadata.is_file() && metadata.mode() & of_others != 0 {
        let message = format!("it holds a secret and can be read or written by others: chmod 600 {}", path.display());
        return Err(Error::new(ErrorKind::InvalidInput, message));
    }
    let mut bytes = Vec::new();
    if file.take(length_max.saturating_add(1)).read_to_end(&mut bytes)? as u64 > length_max {
        let message = format!("it has more than {length_max} bytes, which is too long");
        return Err(Error::new(ErrorKind::InvalidData, message));
    }
    Ok(bytes)
}

#[cfg(test)]
mod tests {
    use std::fs::{self, Permissions};
    use std::os::unix::fs::PermissionsExt;

    use super::*;

    #[test]
    fn what_others_may_read_or_write_is_not_read() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("secret");
        fs::write(&path, "hidden").unwrap();
        for mode in [0o644, 0o604, 0o660, 0o620, 0o602, 0o666, 0o601] {
            fs::set_permissions(&path, Permissions::from_mode(mode)).unwrap();
            let refused = read_private_file(&path, 100).unwrap_err();
            assert_eq!(refused.kind(), ErrorKind::InvalidInput, "{mode:o}");
            assert!(refused.to_string().contains(&format!("chmod 600 {}", path.display())), "{refused}");
        }
        for mode in [0o600, 0o400] {
            fs::set_permissions(&path, Permissions::from_mode(mode)).unwrap();
            assert_eq!(read_private_file(&path, 6).unwrap(), b"hidden");
        }
        assert_eq!(read_private_file(&path, 5).unwrap_err().kind(), ErrorKind::InvalidData);
        assert_eq!(read_private_file(&folder.path().join("absent"), 5).unwrap_err().kind(), ErrorKind::NotFound);
        assert_eq!(read_private_file(Path::new("/dev/null"), 5).unwrap(), b"");
    }
}
