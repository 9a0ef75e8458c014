//! Where the keys are that seal the secrets of access keys.
//!
//! Invariant: the file is never in the store, and it is one store's alone: a rotation forgets the keys that it left.

use std::ffi::OsString;
use std::os::unix::fs::FileTypeExt;
use std::path::{Path, PathBuf};
use std::str::FromStr;

use koine_object::SealingKeys;

use crate::place::Place;

/// What the name of the file beside a store ends with.
const SUFFIX: &str = ".sealing";
/// Names the file, or is `none`.
const VARIABLE: &str = "KOINE_SEALING_KEY";
/// Its name among those that systemd gives a service.
const CREDENTIAL: &str = "koine-sealing-key";

/// Where the sealing keys of a store are.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub enum SealingKey {
    /// Where `KOINE_SEALING_KEY` says; else `koine-sealing-key` in `$CREDENTIALS_DIRECTORY`, where that is there; else
    /// `STORE.sealing` beside a store in a file or folder. A device has none beside it.
    #[default]
    Found,
    /// In this file. Where it is not there it is made with the first secret.
    File(PathBuf),
    /// Nowhere: secrets are kept as they are.
    None,
}

impl FromStr for SealingKey {
    type Err = String;

    /// The path of a file, or `none`.
    fn from_str(text: &str) -> Result<Self, String> {
        match text {
            "" => Err("it names no file; `none` keeps secrets as they are".to_owned()),
            "none" => Ok(SealingKey::None),
            path => Ok(SealingKey::File(path.into())),
        }
    }
}

/// The keys of a store; none are read before a secret needs them.
pub(crate) fn keys_of(place: &Place, named: &SealingKey) -> SealingKeys {
    match file_of(place, named, |name| std::env::var_os(name)) {
        Some(file) => SealingKeys::at(&file),
        None => SealingKeys::none(),
    }
}

fn file_of(place: &Place, named: &SealingKey, variable: impl Fn(&str) -> Option<OsString>) -> Option<PathBuf> {
    match named {
        SealingKey::None => return None,
        SealingKey::File(file) => return Some(file.clone()),
        SealingKey::Found => {}
    }
    if let Some(named) = variable(VARIABLE).filter(|named| !named.is_empty()) {
        return (named != "none").then(|| PathBuf::from(named));
    }
    let given = variable("CREDENTIALS_DIRECTORY").map(|folder| Path::new(&folder).join(CREDENTIAL));
    given.filter(|file| file.exists()).or_else(|| beside(place.path()?))
}

/// The file beside a store.
fn beside(store: &Path) -> Option<PathBuf> {
    let store = std::fs::canonicalize(store).ok()?;
    if std::fs::metadata(&store).is_ok_and(|metadata| metadata.file_type().is_block_device()) {
        return None;
    }
    let mut name = store.into_os_string();
    name.push(SUFFIX);
    Some(PathBuf::from(name))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_file_is_the_one_named_or_stands_beside_the_store() {
        let folder = tempfile::tempdir().unwrap();
        let folder = std::fs::canonicalize(folder.path()).unwrap();
        let store = folder.join("store.koine");
        std::fs::write(&store, "").unwrap();
        let (credential, credentials) = (folder.join("koine-sealing-key"), folder.as_os_str().to_owned());
        let check = |place: &Place, named: &str, variables: &[(&str, &str)], expected: Option<PathBuf>| {
            let named = if named.is_empty() { SealingKey::Found } else { named.parse().unwrap() };
            let variable = |name: &str| match name {
                "CREDENTIALS_DIRECTORY" => Some(credentials.clone()),
                _ => variables.iter().find(|pair| pair.0 == name).map(|pair| OsString::from(pair.1)),
            };
            assert_eq!(file_of(place, &named, variable), expected, "{place} {named:?} {variables:?}");
        };
        let file = Place::Path(store.clone());
        check(&file, "", &[], Some(folder.join("store.koine.sealing")));
        check(&file, "key", &[(VARIABLE, "other")], Some("key".into()));
        check(&file, "", &[(VARIABLE, "other")], Some("other".into()));
        check(&file, "", &[(VARIABLE, "none")], None);
        check(&file, "none", &[], None);
        check(&Place::Memory, "", &[], None);
        check(&Place::Tcp("host:1".into()), "", &[], None);
        std::fs::write(&credential, "").unwrap();
        check(&file, "", &[], Some(credential));
        assert!("".parse::<SealingKey>().is_err());
    }
}
