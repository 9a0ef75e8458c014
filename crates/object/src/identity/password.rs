//! Passwords: hashed and compared.
//!
//! Invariants:
//! - At most two hashes are computed at a time in a process, whatever asks; who waits longer than five seconds is
//!   told `Busy`.
//! - A name that is not there costs the same hash.

use std::sync::{Condvar, Mutex, PoisonError};
use std::time::Duration;

use argon2::Argon2;
use argon2::password_hash::phc::PasswordHash;
use argon2::password_hash::{PasswordHasher, PasswordVerifier};
use koine_env::Random;

use crate::error::{Error, ErrorKind, Result};

const PASSWORD_LEN_MIN: usize = 8;
const PASSWORD_LEN_MAX: usize = 1024;
const HASHES_AT_ONCE: usize = 2;
const WAIT_MAX: Duration = Duration::from_secs(5);

static HASHES: Mutex<usize> = Mutex::new(0);
static HASH_ENDED: Condvar = Condvar::new();

/// A place for computing a hash.
struct Turn;

impl Turn {
    fn take() -> Result<Self> {
        let running = HASHES.lock().unwrap_or_else(PoisonError::into_inner);
        let full = |running: &mut usize| *running >= HASHES_AT_ONCE;
        let (mut running, waited) =
            HASH_ENDED.wait_timeout_while(running, WAIT_MAX, full).unwrap_or_else(PoisonError::into_inner);
        if waited.timed_out() {
            return Err(Error::new(ErrorKind::Busy, "too many passwords are being looked at; try again"));
        }
        *running += 1;
        Ok(Turn)
    }
}

impl Drop for Turn {
    fn drop(&mut self) {
        *HASHES.lock().unwrap_or_else(PoisonError::into_inner) -= 1;
        HASH_ENDED.notify_one();
    }
}

/// Whether a password may be one.
pub(super) fn check(password: &str) -> Result<()> {
    if (PASSWORD_LEN_MIN..=PASSWORD_LEN_MAX).contains(&password.len()) {
        return Ok(());
    }
    let message = format!("a password has to have {PASSWORD_LEN_MIN} to {PASSWORD_LEN_MAX} bytes");
    Err(Error::new(ErrorKind::InvalidArgument, message))
}

/// The hash of a password, as a PHC text.
pub(super) fn hash(password: &str, random: &dyn Random) -> Result<String> {
    check(password)?;
    let mut salt = [0; 16];
    random.fill(&mut salt);
    let _turn = Turn::take()?;
    let hashed: PasswordHash = Argon2::default()
        .hash_password_with_salt(password.as_bytes(), &salt)
        .map_err(|error| Error::new(ErrorKind::Busy, format!("the password cannot be hashed: {error}")))?;
    Ok(hashed.to_string())
}

/// Whether a password is the one of a hash; without one, no, after as much work.
pub(super) fn verify(password: &str, kept: Option<&str>) -> Result<bool> {
    if password.len() > PASSWORD_LEN_MAX {
        return Ok(false);
    }
    let _turn = Turn::take()?;
    let argon = Argon2::default();
    let Some(kept) = kept else {
        let made: argon2::password_hash::Result<PasswordHash> =
            argon.hash_password_with_salt(password.as_bytes(), &[0; 16]);
        drop(made);
        return Ok(false);
    };
    let hash =
        PasswordHash::new(kept).map_err(|error| Error::damaged(format!("a password's hash is damaged: {error}")))?;
    Ok(argon.verify_password(password.as_bytes(), &hash).is_ok())
}

#[cfg(test)]
mod tests {
    use koine_env::SeededRandom;

    use super::*;

    #[test]
    fn a_password_is_kept_as_argon2id_and_no_other_is_taken() {
        let kept = hash("correct horse", &SeededRandom::new(1)).unwrap();
        assert!(kept.starts_with("$argon2id$v=19$m=19456,t=2,p=1$"), "{kept}");
        assert!(verify("correct horse", Some(&kept)).unwrap());
        assert!(!verify("correct horsf", Some(&kept)).unwrap());
        assert!(!verify("correct horse", None).unwrap());
        assert_ne!(hash("correct horse", &SeededRandom::new(2)).unwrap(), kept);
        assert_eq!(verify("x", Some("nonsense")).unwrap_err().kind(), ErrorKind::Damaged);
        for wrong in ["", "seven77", &"x".repeat(1025)] {
            assert_eq!(hash(wrong, &SeededRandom::new(1)).unwrap_err().kind(), ErrorKind::InvalidArgument);
        }
    }
}
