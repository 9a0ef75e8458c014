//! Who is on the other side: the same user of this machine, or somebody who knows the key.
//!
//! Invariants:
//! - Proofs are compared in constant time, and say nothing about the key.
//! - Each side proves that it knows the key, over numbers of both: a proof is worth nothing on another connection.

use std::fmt;
use std::os::unix::net::UnixStream;

use hmac::{Hmac, Mac};
use koine_engine::{Error, ErrorKind, Result};
use sha2::Sha256;

/// The shortest key, in bytes.
pub const KEY_LEN_MIN: usize = 16;

/// A secret that client and server share. It never shows in messages for people.
#[derive(Clone)]
pub struct Key(Vec<u8>);

impl Key {
    /// Of bytes; at least [`KEY_LEN_MIN`] of them, from a generator of random numbers.
    pub fn new(secret: impl Into<Vec<u8>>) -> Result<Key> {
        let secret = secret.into();
        if secret.len() < KEY_LEN_MIN {
            let message =
                format!("a key of {} bytes; it must have at least {KEY_LEN_MIN}, from a random source", secret.len());
            return Err(Error::invalid(message));
        }
        Ok(Key(secret))
    }

    fn sum(&self, side: Side, server: &[u8; 32], client: &[u8; 32]) -> Result<Hmac<Sha256>> {
        let mut sum = Hmac::<Sha256>::new_from_slice(&self.0).map_err(|_| Error::invalid("a key of no use"))?;
        sum.update(match side {
            Side::Client => b"koine wire 1 client",
            Side::Server => b"koine wire 1 server",
        });
        sum.update(server);
        sum.update(client);
        Ok(sum)
    }

    /// What shows that a side knows the key, over the numbers that both have named.
    pub fn proof(&self, side: Side, server: &[u8; 32], client: &[u8; 32]) -> Result<[u8; 32]> {
        Ok(self.sum(side, server, client)?.finalize().into_bytes().into())
    }

    /// Whether a side has shown it.
    pub fn verify(&self, side: Side, server: &[u8; 32], client: &[u8; 32], proof: &[u8; 32]) -> bool {
        self.sum(side, server, client).is_ok_and(|sum| sum.verify_slice(proof).is_ok())
    }
}

impl fmt::Debug for Key {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Key")
    }
}

/// Whose proof.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Side {
    /// Who has connected.
    Client,
    /// Who has the store.
    Server,
}

/// Who is at the other end of a connection.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Peer {
    /// A process of this machine.
    Local {
        /// Its user.
        uid: u32,
        /// Its number.
        pid: u32,
    },
    /// Somebody on the network who knows the key.
    Remote {
        /// Its address.
        address: String,
    },
}

impl Peer {
    /// Whether it is the user of the machine that runs this process, or root.
    pub fn owns_this_process(&self) -> bool {
        matches!(self, Peer::Local { uid, .. } if may_reach(*uid, rustix::process::geteuid().as_raw()))
    }

    /// Whether it is the same user of this machine, or the same address.
    pub fn is_like(&self, other: &Peer) -> bool {
        let host = |address: &str| address.rsplit_once(':').map_or(address, |(host, _)| host).to_owned();
        match (self, other) {
            (Peer::Local { uid, .. }, Peer::Local { uid: other, .. }) => uid == other,
            (Peer::Remote { address }, Peer::Remote { address: other }) => host(address) == host(other),
            _ => false,
        }
    }
}

/// User and number of the process at the other end of a Unix socket.
fn credentials(stream: &UnixStream) -> Result<(u32, u32)> {
    let failed = |error: rustix::io::Errno| {
        Error::new(ErrorKind::Stopped, "cannot tell who is at the other end").with_source(std::io::Error::from(error))
    };
    let found = rustix::net::sockopt::socket_peercred(stream).map_err(failed)?;
    Ok((found.uid.as_raw(), found.pid.as_raw_nonzero().get().unsigned_abs()))
}

/// The process that has connected to our socket, if it is one of ours: of the same user, or of root.
pub fn local_peer(stream: &UnixStream) -> Result<Peer> {
    let ((uid, pid), own) = (credentials(stream)?, rustix::process::geteuid().as_raw());
    if !may_reach(uid, own) {
        let message = format!("the store belongs to user {own}; user {uid} has no raw access to it");
        return Err(Error::invalid(message));
    }
    Ok(Peer::Local { uid, pid })
}

/// The process that has connected to our socket, of whatever user.
pub fn any_local_peer(stream: &UnixStream) -> Result<Peer> {
    credentials(stream).map(|(uid, pid)| Peer::Local { uid, pid })
}

/// Refuses a server that is of none of: this user, root, and one who is known to have the store.
pub fn check_server(stream: &UnixStream, place: &str, known: Option<u32>) -> Result<()> {
    let (uid, _) = credentials(stream)?;
    if known == Some(uid) { Ok(()) } else { check_owner(stream, place) }
}

/// Refuses a server that somebody else has put in the place of ours: whoever listens must be of the same user or of root,
/// unless we are root.
pub fn check_owner(stream: &UnixStream, place: &str) -> Result<()> {
    let ((uid, _), own) = (credentials(stream)?, rustix::process::geteuid().as_raw());
    if own != 0 && !may_reach(uid, own) {
        return Err(Error::invalid(format!(
            "the server at {place} is run by user {uid}: it is not asked for anything"
        )));
    }
    Ok(())
}

/// Whether memory may be shared with a server, so that what it writes is read where it lies: it runs as the same user or as
/// root, and could as well write any other memory of this process.
pub fn shares_memory(stream: &UnixStream) -> bool {
    credentials(stream).is_ok_and(|(uid, _)| may_reach(uid, rustix::process::geteuid().as_raw()))
}

/// Whether a user gets at what another one has.
fn may_reach(uid: u32, owner: u32) -> bool {
    uid == owner || uid == 0
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_same_user_and_root_get_in() {
        assert!(may_reach(7, 7) && may_reach(0, 7) && !may_reach(8, 7) && !may_reach(7, 0));
        let (one, other) = UnixStream::pair().unwrap();
        assert!(matches!(local_peer(&one).unwrap(), Peer::Local { pid, .. } if pid == std::process::id()));
        check_owner(&other, "here").unwrap();
        assert!(shares_memory(&one));
    }

    #[test]
    fn a_proof_holds_for_its_side_its_key_and_its_numbers_alone() {
        let (key, other) = (Key::new([1; 32]).unwrap(), Key::new([2; 32]).unwrap());
        let proof = key.proof(Side::Client, &[3; 32], &[4; 32]).unwrap();
        assert!(key.verify(Side::Client, &[3; 32], &[4; 32], &proof));
        assert!(!key.verify(Side::Server, &[3; 32], &[4; 32], &proof));
        assert!(!key.verify(Side::Client, &[4; 32], &[3; 32], &proof));
        assert!(!other.verify(Side::Client, &[3; 32], &[4; 32], &proof));
        assert_eq!(format!("{key:?}"), "Key");
        assert!(Key::new([1; 15]).is_err());
    }
}
