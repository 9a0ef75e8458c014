//! Groups, users, and what they prove themselves with: of the store here, or of one elsewhere.

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use super::{Objects, Store, owner_alone};
use crate::attempts::LogInPeer;
use crate::caller::Caller;
use crate::calls::IdentityCalls;
use crate::client::Remote;
use crate::error::Result;
use crate::identity::{LocalIdentities, Login, Password, Sealing, Secret, Token};
use crate::pending::Pending;

/// Groups, users, and what they prove themselves with. Cheap to clone.
#[derive(Clone)]
pub struct Identities {
    store: IdentityStore,
}

/// Where they are.
#[derive(Clone)]
enum IdentityStore {
    Here(LocalIdentities),
    There(Arc<Remote>),
}

impl Objects {
    /// Groups and users of this store, as the caller may see and change them.
    pub fn identities(&self) -> Identities {
        let store = match &self.store {
            Store::Here(local) => IdentityStore::Here(local.identities()),
            Store::There(remote) => IdentityStore::There(Arc::clone(remote)),
        };
        Identities { store }
    }
}

impl Identities {
    /// Where the calls of the table are made.
    pub(crate) fn calls(&self) -> &dyn IdentityCalls {
        match &self.store {
            IdentityStore::Here(local) => local,
            IdentityStore::There(remote) => remote.as_ref(),
        }
    }

    fn local(&self) -> Result<&LocalIdentities> {
        match &self.store {
            IdentityStore::Here(local) => Ok(local),
            IdentityStore::There(_) => Err(owner_alone()),
        }
    }

    /// Gives a token for a name and a password. Takes about 20 ms of a core. Where the store is elsewhere the calls of its
    /// objects are made as this user from then on.
    pub fn log_in(&self, name: &str, password: &str, life: Duration) -> Result<Login> {
        match &self.store {
            IdentityStore::Here(local) => local.log_in(name, password, life),
            IdentityStore::There(remote) => remote.log_in(name, password, life),
        }
    }

    /// The same for a peer of a door. Wrong passwords delay that peer, not others who try the same name.
    pub(crate) fn log_in_of(&self, peer: LogInPeer, name: &str, password: &str, life: Duration) -> Result<Login> {
        self.local()?.log_in_of(peer, name, password, life)
    }

    /// The name of the user who asks.
    pub(crate) fn own_name(&self) -> Result<String> {
        self.local()?.own_name()
    }

    /// Takes a token back. One that is not there is taken back already.
    pub fn log_out(&self, token: &Token) -> Pending<()> {
        match &self.store {
            IdentityStore::Here(local) => local.log_out(token),
            IdentityStore::There(remote) => remote.log_out(token),
        }
    }

    /// Who comes with a token. For doors. Where the store is elsewhere this logs in: the calls of its objects are made as
    /// that user from then on, whatever caller is named here.
    pub fn by_token(&self, token: &Token) -> Result<Caller> {
        match &self.store {
            IdentityStore::Here(local) => local.by_token(token),
            IdentityStore::There(remote) => remote.log_in_by(token).map(|()| Caller::Everyone),
        }
    }

    /// Who a user of this machine is; `None` where it is nobody of the store. For doors.
    pub fn by_uid(&self, uid: u32) -> Result<Option<Caller>> {
        self.local()?.by_uid(uid)
    }

    /// Who signs with an access key, and the secret to verify the signature with. For doors.
    pub fn by_access_key(&self, access_key: &str) -> Result<(Caller, Secret)> {
        self.local()?.by_access_key(access_key)
    }

    /// Whether the policy of a bucket allows something to everybody, were public access on.
    pub fn bucket_policy_is_public(&self, bucket: &str) -> Result<bool> {
        self.local()?.bucket_policy_is_public(bucket)
    }

    /// The id of a bucket's owner; 0 is root. It is told to everybody: an id opens nothing.
    pub fn owner_id(&self, bucket: &str) -> Result<u64> {
        self.local()?.owner_id(bucket)
    }

    /// Whether those may be let in who have no identity: see [`set_public_access`](Identities::set_public_access). It is
    /// told to everybody.
    pub fn public_access(&self) -> Result<bool> {
        self.local()?.public_access()
    }

    /// Gives root a new access key and a new password, and takes all its other keys and tokens back, in one commit.
    /// Only who owns the store may: owning the device is the proof. Where the sealing key is lost root's new secret is
    /// kept as it is, until secrets are sealed anew.
    pub fn reset_root(&self) -> Result<(String, Secret, Password)> {
        self.local()?.reset_root()
    }

    /// How secrets are kept, by the file of keys as it is now. An error tells of a file that cannot be read or is not
    /// this store's. For who owns the device.
    pub fn sealing(&self) -> Result<Sealing> {
        self.local()?.sealing()
    }

    /// Begins to seal: the number of the key that seals from now on, which is made, with its file, where there is none.
    /// Secrets that are there are sealed by [`rotate_sealing_key`](Identities::rotate_sealing_key).
    pub fn make_sealing_key(&self) -> Result<u32> {
        self.local()?.make_sealing_key()
    }

    /// Seals all secrets anew with a new key, which is added to the file first; the old one leaves it last. What was
    /// kept as it is gets sealed too. Tells how many were. Interrupted anywhere, the same call goes on.
    pub fn rotate_sealing_key(&self) -> Result<u64> {
        self.local()?.rotate_sealing_key()
    }

    /// Removes the access keys whose secrets are lost, because their sealing key is, and what is known of that key.
    /// Tells how many went.
    pub fn forget_lost_secrets(&self) -> Result<u64> {
        self.local()?.forget_lost_secrets()
    }
}

impl fmt::Debug for Identities {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.store {
            IdentityStore::Here(local) => write!(f, "Identities({local:?})"),
            IdentityStore::There(remote) => write!(f, "Identities({})", remote.place()),
        }
    }
}
