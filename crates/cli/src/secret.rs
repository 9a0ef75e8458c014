//! Secrets that commands are given: in files, never as an argument, which all users of a machine can see.
//!
//! Invariant: a file that others may read or write is refused, whatever it is for.

use std::io::{self, Read};
use std::path::Path;

use koine::kv::wire::Key;
use koine::object::read_private_file;

use crate::failure::{Failure, Outcome};

/// The longest file with a secret, in bytes.
const FILE_LEN_MAX: u64 = 64 << 10;

fn read(file: &Path) -> Outcome<Vec<u8>> {
    read_private_file(file, FILE_LEN_MAX)
        .map_err(|error| Failure::io(format!("cannot read {}", file.display()), &error))
}

/// The key of the wire in a file; spaces and the end of the line around it do not count.
pub fn read_key(file: &Path) -> Outcome<Key> {
    let text = read(file)?;
    Key::new(text.trim_ascii()).map_err(|error| Failure::usage(format!("{}: {error}", file.display())))
}

/// The first line of a file, or of the standard input for `-`: a password, a secret, a token.
pub fn read_secret(file: &Path) -> Outcome<String> {
    let bytes = if file == Path::new("-") {
        let mut bytes = Vec::new();
        let read = io::stdin().lock().take(FILE_LEN_MAX).read_to_end(&mut bytes);
        read.map_err(|error| Failure::io("cannot read the standard input", &error))?;
        bytes
    } else {
        read(file)?
    };
    let text = String::from_utf8(bytes).map_err(|_| Failure::usage(format!("{} is not UTF-8", file.display())))?;
    Ok(text.lines().next().unwrap_or_default().to_owned())
}

#[cfg(test)]
mod tests {
    use std::fs::{self, Permissions};
    use std::os::unix::fs::PermissionsExt;

    use super::*;

    #[test]
    fn a_secret_that_others_may_read_is_refused_and_what_to_do_is_told() {
        let folder = tempfile::tempdir().expect("a folder");
        let file = folder.path().join("wire.key");
        fs::write(&file, " a key that is long enough\nand no more\n").expect("written");
        fs::set_permissions(&file, Permissions::from_mode(0o644)).expect("mode");
        let refused = [read_key(&file).map(drop), read_secret(&file).map(drop)];
        for refused in refused.into_iter().map(|outcome| outcome.expect_err("others may read it")) {
            assert!(refused.message.contains(&format!("chmod 600 {}", file.display())), "{}", refused.message);
        }
        fs::set_permissions(&file, Permissions::from_mode(0o600)).expect("mode");
        assert!(read_key(&file).is_ok());
        assert_eq!(read_secret(&file).expect("it is one's own"), " a key that is long enough");
        assert!(read_secret(&folder.path().join("absent")).is_err());
    }
}
