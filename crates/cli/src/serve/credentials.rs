//! The root key: from the environment, from the store, or made at the first start.
//!
//! Invariants:
//! - KOINE_ROOT_USER and KOINE_ROOT_PASSWORD win at each start and are never stored.
//! - A made key is shown (or written) before the store keeps it: no crash leaves a key that nobody knows.
//! - A file with a key is readable by its owner only, from its first byte on.

use std::fs::OpenOptions;
use std::io::Write;
use std::os::unix::fs::{FileTypeExt, OpenOptionsExt};
use std::path::{Path, PathBuf};

use koine::env::{OsRandom, Random};
use koine::object::ErrorKind;
use koine::{Place, RootKey, Store};

use crate::failure::{Failure, Outcome};
use crate::output::Output;

/// The shortest password taken from the environment.
const PASSWORD_LEN_MIN: usize = 8;
const ACCESS_KEY_LEN: usize = 20;
const SECRET_LEN: usize = 40;

/// Where the root key comes from.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Origin {
    /// KOINE_ROOT_USER and KOINE_ROOT_PASSWORD.
    Environment,
    /// An earlier start.
    Store,
    /// This start, the first.
    Made,
}

/// The root key of this start.
#[derive(Debug)]
pub struct Root {
    key: RootKey,
    origin: Origin,
}

/// Where a made key was put.
#[derive(Debug, PartialEq, Eq)]
pub enum Shown {
    /// Nowhere: it was known before.
    No,
    /// It is to be shown on the terminal.
    Terminal,
    /// It was written to this file.
    File(PathBuf),
}

impl Root {
    /// Finds the root key, or makes one that is not kept yet.
    pub fn find(store: &Store, variable: impl Fn(&str) -> Option<String>) -> Outcome<Self> {
        if let Some(key) = from_environment(variable)? {
            return Ok(Root { key, origin: Origin::Environment });
        }
        match store.objects().root_key() {
            Ok(Some(key)) => Ok(Root { key, origin: Origin::Store }),
            Ok(None) => Ok(Root { key: make(&OsRandom), origin: Origin::Made }),
            Err(error) if error.kind() == ErrorKind::AccessDenied => Err(Failure::failed(format!(
                "root's key cannot be opened: {error}. Root gets in without it by KOINE_ROOT_USER and \
                 KOINE_ROOT_PASSWORD, or by a new key: koine identity root reset"
            ))),
            Err(error) => Err(koine::Error::from(error).into()),
        }
    }

    /// The key.
    pub fn key(&self) -> &RootKey {
        &self.key
    }

    /// Where it comes from.
    pub fn origin(&self) -> Origin {
        self.origin
    }

    /// Writes a made key to a file, or leaves it to the terminal; then the store keeps it.
    pub fn keep(&self, store: &Store, file: Option<&Path>, output: Output) -> Outcome<Shown> {
        if self.origin != Origin::Made {
            return Ok(Shown::No);
        }
        let shown = match file {
            Some(file) => Shown::File(file.to_owned()),
            None if output.is_terminal() => Shown::Terminal,
            None => Shown::File(beside(store.place())?),
        };
        if let Shown::File(file) = &shown {
            write(file, &self.key, store.place())?;
        }
        store.objects().set_root_key_if_absent(&self.key).map_err(koine::Error::from)?;
        Ok(shown)
    }
}

fn from_environment(variable: impl Fn(&str) -> Option<String>) -> Outcome<Option<RootKey>> {
    match (variable("KOINE_ROOT_USER"), variable("KOINE_ROOT_PASSWORD")) {
        (None, None) => Ok(None),
        (Some(access_key), Some(secret)) => {
            let plain = |byte: u8| byte.is_ascii_alphanumeric() || b"-_.@+=".contains(&byte);
            if !(3..=128).contains(&access_key.len()) || !access_key.bytes().all(plain) {
                return Err(Failure::usage("KOINE_ROOT_USER: 3 to 128 letters, digits or any of - _ . @ + ="));
            }
            if secret.len() < PASSWORD_LEN_MIN {
                return Err(Failure::usage(format!("KOINE_ROOT_PASSWORD: at least {PASSWORD_LEN_MIN} characters")));
            }
            Ok(Some(RootKey { access_key, secret }))
        }
        (Some(_), None) => {
            Err(Failure::usage("KOINE_ROOT_USER is set and KOINE_ROOT_PASSWORD is not; set both or neither"))
        }
        (None, Some(_)) => {
            Err(Failure::usage("KOINE_ROOT_PASSWORD is set and KOINE_ROOT_USER is not; set both or neither"))
        }
    }
}

/// A random key: 100 bits of name, 238 bits of secret.
fn make(random: &dyn Random) -> RootKey {
    RootKey {
        access_key: letters(random, b"ABCDEFGHIJKLMNOPQRSTUVWXYZ234567", ACCESS_KEY_LEN),
        secret: letters(random, b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789", SECRET_LEN),
    }
}

/// Letters of an alphabet, each with the same chance.
fn letters(random: &dyn Random, alphabet: &[u8], length: usize) -> String {
    let fair = 256 / alphabet.len() * alphabet.len();
    let mut text = String::with_capacity(length);
    let mut bytes = [0; 64];
    while text.len() < length {
        random.fill(&mut bytes);
        let picked = bytes.iter().map(|byte| usize::from(*byte)).filter(|value| *value < fair);
        let picked = picked.filter_map(|value| alphabet.get(value % alphabet.len()));
        text.extend(picked.map(|letter| char::from(*letter)).take(length - text.len()));
    }
    text
}

/// STORE.credentials, where a file may stand beside the store.
fn beside(place: &Place) -> Outcome<PathBuf> {
    let nowhere = |what: &str| {
        Failure::usage(format!(
            "the root credentials of this first start have nowhere to go: {what}; \
             give --credentials FILE, or set KOINE_ROOT_USER and KOINE_ROOT_PASSWORD"
        ))
    };
    let path = place.path().ok_or_else(|| nowhere("the store is in memory and there is no terminal"))?;
    if std::fs::metadata(path).is_ok_and(|metadata| metadata.file_type().is_block_device()) {
        return Err(nowhere("the store is a device and there is no terminal"));
    }
    let mut name = path.as_os_str().to_owned();
    name.push(".credentials");
    Ok(PathBuf::from(name))
}

/// Writes a key as lines that a shell can read, replacing what an earlier store left there.
fn write(file: &Path, key: &RootKey, place: &Place) -> Outcome {
    let failed =
        |error: std::io::Error| Failure::io(format!("cannot write the credentials to {}", file.display()), &error);
    let mut draft = file.as_os_str().to_owned();
    draft.push(format!(".{}", std::process::id()));
    let text = format!(
        "# Root credentials of {place}, made at its first start.\nKOINE_ROOT_USER={}\nKOINE_ROOT_PASSWORD={}\n",
        key.access_key, key.secret
    );
    let written = OpenOptions::new()
        .write(true)
        .create_new(true)
        .mode(0o600)
        .open(&draft)
        .and_then(|mut out| out.write_all(text.as_bytes()).and_then(|()| out.sync_all()))
        .and_then(|()| std::fs::rename(&draft, file));
    written.map_err(|error| {
        // Half a file helps nobody; that it may not be there is no second failure.
        let _ = std::fs::remove_file(&draft);
        failed(error)
    })
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::PermissionsExt;

    use koine::env::SeededRandom;

    use super::*;

    #[test]
    fn the_environment_is_all_or_nothing() {
        let check = |user: Option<&str>, password: Option<&str>, expected: Result<bool, ()>| {
            let lookup = |name: &str| match name {
                "KOINE_ROOT_USER" => user.map(str::to_owned),
                _ => password.map(str::to_owned),
            };
            let found = from_environment(lookup).map(|key| key.is_some()).map_err(|_| ());
            assert_eq!(found, expected, "{user:?} {password:?}");
        };
        check(None, None, Ok(false));
        check(Some("root"), Some("password"), Ok(true));
        check(Some("root"), None, Err(()));
        check(None, Some("password"), Err(()));
        check(Some("root"), Some("short"), Err(()));
        check(Some("ro"), Some("password"), Err(()));
        check(Some("a/b"), Some("password"), Err(()));
    }

    #[test]
    fn keys_are_long_and_differ() {
        let first = make(&SeededRandom::new(1));
        assert_eq!((first.access_key.len(), first.secret.len()), (ACCESS_KEY_LEN, SECRET_LEN));
        assert!(first.secret.bytes().all(|byte| byte.is_ascii_alphanumeric()));
        assert_ne!(first.secret, make(&SeededRandom::new(2)).secret);
    }

    #[test]
    fn the_file_is_its_owners_and_holds_both_lines() {
        let folder = tempfile::tempdir().expect("a folder");
        let file = folder.path().join("store.koine.credentials");
        std::fs::write(&file, "old").expect("an old file");
        let key = RootKey { access_key: "who".into(), secret: "hidden".into() };
        write(&file, &key, &Place::Memory).expect("written");
        let text = std::fs::read_to_string(&file).expect("read");
        assert!(text.contains("\nKOINE_ROOT_USER=who\nKOINE_ROOT_PASSWORD=hidden\n"), "{text}");
        assert_eq!(std::fs::metadata(&file).expect("metadata").permissions().mode() & 0o777, 0o600);
        assert_eq!(std::fs::read_dir(folder.path()).expect("folder").count(), 1);
    }
}
