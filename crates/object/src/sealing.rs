//! The keys that seal secrets: a file beside the store, never in it.
//!
//! Invariants:
//! - A file of keys is readable by its owner alone, and appears whole or not at all: it is written under another name,
//!   synced, and renamed. One that others can read is refused.
//! - Who changes the file holds a lock on its folder and has read it anew: no key that another process added is lost.
//! - It is read when a secret needs it and not before: who has no use for secrets needs no file.
//! - What is sealed is bound to the number of the key, the user and the access key: a record that is moved to another
//!   of them does not open.
//! - A key goes from the file when no record names it any more.

use std::collections::BTreeMap;
use std::fmt;
use std::fs::{self, File, OpenOptions};
use std::io::Write;
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};

use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use chacha20poly1305::aead::{Aead, KeyInit, Payload};
use chacha20poly1305::{XChaCha20Poly1305, XNonce};
use hmac::{Hmac, Mac};
use koine_env::Random;
use sha2::Sha256;

use crate::error::{Error, ErrorKind, Result};
use crate::private_file::read_private_file;
use crate::record::KeptSecret;

/// Begins a line of the file; a number and the key follow.
const LINE: &str = "koine-sealing-key 1 ";
/// The longest file of keys, in bytes: far more than two lines.
const FILE_LEN_MAX: u64 = 64 * 1024;
const CHECKED: &[u8] = b"koine sealing check 1";
const SEALED: &[u8] = b"koine secret 1";

/// The keys that seal the secrets of access keys.
#[derive(Clone, Default)]
pub struct SealingKeys {
    keys: BTreeMap<u32, [u8; 32]>,
    file: Option<PathBuf>,
    /// Whether the file was looked at.
    read: bool,
}

impl fmt::Debug for SealingKeys {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "SealingKeys({:?} of {:?})", self.keys.keys(), self.file)
    }
}

fn failed(path: &Path, what: &str, error: &std::io::Error) -> Error {
    Error::new(ErrorKind::Device, format!("the file of sealing keys {} cannot be {what}: {error}", path.display()))
}

/// What a file holds, where nobody reads it who should not; nothing where there is none.
fn read_file(path: &Path) -> Result<Option<String>> {
    use std::io::ErrorKind as Io;
    let invalid = |why: &dyn fmt::Display| {
        let message = format!("the file of sealing keys {} cannot be used: {why}", path.display());
        Error::new(ErrorKind::InvalidArgument, message)
    };
    match read_private_file(path, FILE_LEN_MAX) {
        Ok(bytes) => String::from_utf8(bytes).map(Some).map_err(|error| invalid(&error)),
        Err(error) if error.kind() == Io::NotFound => Ok(None),
        Err(error) if matches!(error.kind(), Io::InvalidInput | Io::InvalidData) => Err(invalid(&error)),
        Err(error) => Err(failed(path, "read", &error)),
    }
}

impl SealingKeys {
    /// No keys: secrets are kept as they are.
    pub fn none() -> Self {
        SealingKeys { read: true, ..SealingKeys::default() }
    }

    /// Those of a file, which is read when a secret needs it. Where it is not there it is made with the first secret
    /// that is to be sealed.
    pub fn at(path: &Path) -> Self {
        SealingKeys { file: Some(path.to_owned()), ..SealingKeys::default() }
    }

    /// Reads a file of keys; makes one with a first key where there is none and `make` says so.
    pub fn open(path: &Path, make: Option<&dyn Random>) -> Result<Self> {
        let mut keys = SealingKeys::at(path);
        keys.read_anew()?;
        match make.filter(|_| keys.is_empty()) {
            Some(random) => keys.add(1, random)?,
            None if keys.is_empty() => return Err(failed(path, "read", &std::io::ErrorKind::NotFound.into())),
            None => {}
        }
        Ok(keys)
    }

    /// The file they are in.
    pub fn file(&self) -> Option<&Path> {
        self.file.as_deref()
    }

    /// Reads the file, as it is now. One that is not there has no keys.
    pub(crate) fn read_anew(&mut self) -> Result<()> {
        if let Some(path) = &self.file {
            self.keys = read_file(path)?.map_or_else(|| Ok(BTreeMap::new()), |text| parse(&text, path))?;
        }
        self.read = true;
        Ok(())
    }

    /// Reads the file where that was not done yet.
    pub(crate) fn read_once(&mut self) -> Result<()> {
        if self.read { Ok(()) } else { self.read_anew() }
    }

    /// Whether the file has other keys by now, which are taken. One that is gone meanwhile changes nothing.
    pub(crate) fn have_changed(&mut self) -> Result<bool> {
        let mut now = self.clone();
        now.read_anew()?;
        if now.is_empty() || now.keys == self.keys {
            return Ok(false);
        }
        *self = now;
        Ok(true)
    }

    /// Changes the keys and the file, as it is when nobody else changes it.
    fn change(&mut self, change: impl FnOnce(&mut BTreeMap<u32, [u8; 32]>)) -> Result<()> {
        let _held = match &self.file {
            None => None,
            Some(path) => {
                let folder = File::open(folder_of(path)).and_then(|folder| folder.lock().map(|()| folder));
                let held = folder.map_err(|error| failed(path, "locked", &error))?;
                // One that is gone is written again.
                self.have_changed()?;
                Some(held)
            }
        };
        let mut with = self.clone();
        change(&mut with.keys);
        with.save()?;
        *self = SealingKeys { read: true, ..with };
        Ok(())
    }

    /// Writes the file anew: whole, synced, then under its name.
    fn save(&self) -> Result<()> {
        let Some(path) = &self.file else {
            return Ok(());
        };
        let mut beside = path.as_os_str().to_owned();
        beside.push(".new");
        let beside = PathBuf::from(beside);
        let write = || -> std::io::Result<()> {
            // One that an interrupted attempt left: its mode is not known.
            match fs::remove_file(&beside) {
                Err(error) if error.kind() != std::io::ErrorKind::NotFound => return Err(error),
                _ => {}
            }
            let mut file = OpenOptions::new().write(true).create_new(true).mode(0o600).open(&beside)?;
            for (number, key) in &self.keys {
                writeln!(file, "{LINE}{number} {}", URL_SAFE_NO_PAD.encode(key))?;
            }
            file.sync_all()?;
            fs::rename(&beside, path)?;
            File::open(folder_of(path))?.sync_all()
        };
        write().map_err(|error| failed(path, "written", &error))
    }

    /// Whether secrets are kept as they are.
    pub fn is_empty(&self) -> bool {
        self.keys.is_empty()
    }

    pub(crate) fn newest(&self) -> Option<u32> {
        self.keys.keys().next_back().copied()
    }

    pub(crate) fn has(&self, number: u32) -> bool {
        self.keys.contains_key(&number)
    }

    /// Adds a key, unless there is one of this number; it is in the file before it is used.
    pub(crate) fn add(&mut self, number: u32, random: &dyn Random) -> Result<()> {
        let mut key = [0; 32];
        random.fill(&mut key);
        self.change(|keys| {
            keys.entry(number).or_insert(key);
        })
    }

    /// Forgets all keys but one.
    pub(crate) fn keep(&mut self, number: u32) -> Result<()> {
        self.change(|keys| keys.retain(|known, _| *known == number))
    }

    fn key(&self, number: u32) -> Result<&[u8; 32]> {
        self.keys.get(&number).ok_or_else(|| {
            let whose = match &self.file {
                Some(path) => format!("which is not in {}: put its file back", path.display()),
                None => "which this program was not given: name its file by KOINE_SEALING_KEY".to_owned(),
            };
            let message = format!(
                "secrets of this store are sealed with sealing key {number}, {whose}; where it is lost, see koine \
                 identity sealing-key forget"
            );
            Error::new(ErrorKind::AccessDenied, message)
        })
    }

    /// What tells a wrong file from a damaged record.
    pub(crate) fn check(&self, number: u32) -> Result<[u8; 32]> {
        let mac = <Hmac<Sha256> as Mac>::new_from_slice(self.key(number)?);
        let mut mac = mac.map_err(|_| Error::damaged("a sealing key is not 32 bytes long"))?;
        mac.update(CHECKED);
        Ok(mac.finalize().into_bytes().into())
    }

    pub(crate) fn seal(&self, number: u32, of: (u64, &str), secret: &[u8], random: &dyn Random) -> Result<KeptSecret> {
        let mut nonce = [0; 24];
        random.fill(&mut nonce);
        let payload = Payload { msg: secret, aad: &bound_to(number, of) };
        let sealed = cipher(self.key(number)?)?.encrypt(&XNonce::from(nonce), payload);
        let ciphertext = sealed.map_err(|_| Error::new(ErrorKind::InvalidArgument, "the secret cannot be sealed"))?;
        Ok(KeptSecret::Sealed { key: number, nonce, ciphertext })
    }

    pub(crate) fn open_secret(&self, of: (u64, &str), kept: &KeptSecret) -> Result<Vec<u8>> {
        match kept {
            KeptSecret::Plain(secret) => Ok(secret.clone()),
            KeptSecret::Sealed { key, nonce, ciphertext } => {
                let payload = Payload { msg: ciphertext.as_slice(), aad: &bound_to(*key, of) };
                let opened = cipher(self.key(*key)?)?.decrypt(&XNonce::from(*nonce), payload);
                opened.map_err(|_| {
                    let message = "the secret of an access key does not open: the record is damaged or was moved";
                    Error::damaged(message)
                })
            }
        }
    }
}

fn parse(text: &str, path: &Path) -> Result<BTreeMap<u32, [u8; 32]>> {
    let mut keys = BTreeMap::new();
    for line in text.lines().filter(|line| !line.trim().is_empty()) {
        let parsed = line.strip_prefix(LINE).and_then(|rest| rest.split_once(' ')).and_then(|(number, key)| {
            let key: [u8; 32] = URL_SAFE_NO_PAD.decode(key.trim()).ok()?.try_into().ok()?;
            Some((number.parse::<u32>().ok()?, key))
        });
        let Some((number, key)) = parsed else {
            let message = format!("{} is no file of sealing keys: a line is not understood", path.display());
            return Err(Error::new(ErrorKind::InvalidArgument, message));
        };
        keys.insert(number, key);
    }
    if keys.is_empty() {
        let message = format!("the file of sealing keys {} has no key", path.display());
        return Err(Error::new(ErrorKind::InvalidArgument, message));
    }
    Ok(keys)
}

/// The folder of a file.
fn folder_of(path: &Path) -> &Path {
    path.parent().filter(|folder| !folder.as_os_str().is_empty()).unwrap_or(Path::new("."))
}

fn cipher(key: &[u8; 32]) -> Result<XChaCha20Poly1305> {
    XChaCha20Poly1305::new_from_slice(key).map_err(|_| Error::damaged("a sealing key is not 32 bytes long"))
}

fn bound_to(number: u32, (user, access_key): (u64, &str)) -> Vec<u8> {
    [SEALED, &number.to_le_bytes(), &user.to_le_bytes(), access_key.as_bytes()].concat()
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::PermissionsExt;

    use koine_env::SeededRandom;

    use super::*;

    #[test]
    fn a_file_of_keys_is_made_once_and_read_by_its_owner_alone() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("store.sealing");
        assert_eq!(SealingKeys::open(&path, None).unwrap_err().kind(), ErrorKind::Device);
        let random = SeededRandom::new(1);
        let made = SealingKeys::open(&path, Some(&random)).unwrap();
        let again = SealingKeys::open(&path, Some(&random)).unwrap();
        assert_eq!((made.newest(), made.keys.clone()), (Some(1), again.keys));
        assert_eq!(fs::metadata(&path).unwrap().permissions().mode() & 0o777, 0o600);
        assert!(!format!("{made:?}").contains(&URL_SAFE_NO_PAD.encode(made.keys[&1])));
        fs::set_permissions(&path, fs::Permissions::from_mode(0o644)).unwrap();
        let refused = SealingKeys::open(&path, None).unwrap_err();
        assert!(refused.kind() == ErrorKind::InvalidArgument && refused.message().contains("chmod 600"), "{refused}");
        fs::set_permissions(&path, fs::Permissions::from_mode(0o600)).unwrap();
        for wrong in ["", "nonsense", "koine-sealing-key 1 1 AAAA", "koine-sealing-key 2 1 AAAA"] {
            fs::write(&path, wrong).unwrap();
            assert_eq!(SealingKeys::open(&path, Some(&random)).unwrap_err().kind(), ErrorKind::InvalidArgument);
        }
    }

    #[test]
    fn a_file_is_read_when_it_is_needed_and_keeps_what_others_added() {
        let folder = tempfile::tempdir().unwrap();
        let (path, random) = (folder.path().join("keys"), SeededRandom::new(1));
        let mut first = SealingKeys::at(&path);
        first.read_once().unwrap();
        assert!(first.is_empty() && !path.exists());
        let mut other = SealingKeys::at(&path);
        other.add(1, &random).unwrap();
        first.add(1, &random).unwrap();
        assert_eq!(first.keys, other.keys, "the key that was there already stays");
        other.add(2, &random).unwrap();
        assert!(first.have_changed().unwrap() && !first.have_changed().unwrap());
        assert_eq!(first.newest(), Some(2));
        fs::remove_file(&path).unwrap();
        assert!(!first.have_changed().unwrap());
        assert_eq!(first.newest(), Some(2), "what was read goes on being good");
        first.keep(2).unwrap();
        assert_eq!(SealingKeys::open(&path, None).unwrap().newest(), Some(2));
    }

    #[test]
    fn a_secret_opens_with_its_key_user_and_access_key_alone() {
        let random = SeededRandom::new(1);
        let mut keys = SealingKeys::none();
        keys.add(1, &random).unwrap();
        keys.add(2, &random).unwrap();
        let sealed = keys.seal(1, (7, "KEY"), b"secret", &random).unwrap();
        assert_eq!(keys.open_secret((7, "KEY"), &sealed).unwrap(), b"secret");
        assert_eq!(keys.open_secret((8, "KEY"), &sealed).unwrap_err().kind(), ErrorKind::Damaged);
        assert_eq!(keys.open_secret((7, "KEZ"), &sealed).unwrap_err().kind(), ErrorKind::Damaged);
        let KeptSecret::Sealed { nonce, ciphertext, .. } = sealed.clone() else { panic!("it is not sealed") };
        let moved = KeptSecret::Sealed { key: 2, nonce, ciphertext };
        assert_eq!(keys.open_secret((7, "KEY"), &moved).unwrap_err().kind(), ErrorKind::Damaged);
        keys.keep(2).unwrap();
        assert_eq!(keys.open_secret((7, "KEY"), &sealed).unwrap_err().kind(), ErrorKind::AccessDenied);
        assert_ne!(
            keys.seal(2, (7, "KEY"), b"secret", &random).unwrap(),
            keys.seal(2, (7, "KEY"), b"secret", &random).unwrap()
        );
    }
}
