//! Who a call is made by.

use std::fmt;
use std::net::IpAddr;
use std::sync::Arc;

/// The id of root, as a user and as a group.
pub(crate) const ROOT: u64 = 0;

/// Who makes the calls of an [`Objects`](crate::Objects). A door finds it out; what it may is looked at in each
/// call.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub enum Caller {
    /// Who owns the device: may do everything, and no policy binds it.
    #[default]
    Owner,
    /// Somebody without an identity.
    Everyone,
    /// A user of the store.
    User(Identity),
}

impl Caller {
    /// Whose what it makes is: root's where it is no user.
    pub(crate) fn user(&self) -> u64 {
        match self {
            Caller::User(identity) => identity.user(),
            Caller::Owner | Caller::Everyone => ROOT,
        }
    }

    pub(crate) fn is_owner(&self) -> bool {
        matches!(self, Caller::Owner)
    }
}

/// Whose calls [`Identities::explain`](crate::Identities::explain) tells of.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Asker {
    /// Those of somebody without an identity.
    Everyone,
    /// Those of this user, whatever it proves itself with.
    User(String),
    /// Those that are signed with this access key; what it is narrowed to counts too.
    AccessKey(String),
}

/// A user, and what it proved that with. What the user may is not kept here: it is read by each call.
#[derive(Clone, PartialEq, Eq)]
pub struct Identity {
    proof: Arc<Proof>,
}

#[derive(PartialEq, Eq)]
struct Proof {
    user: u64,
    credential: Credential,
}

/// What a user proved itself with: it must still hold when a call is made.
#[derive(Clone, PartialEq, Eq)]
pub(crate) enum Credential {
    AccessKey(String),
    /// The SHA-256 of a token.
    Token([u8; 32]),
    Uid(u32),
}

impl Identity {
    pub(crate) fn new(user: u64, credential: Credential) -> Self {
        Identity { proof: Arc::new(Proof { user, credential }) }
    }

    /// The user's id.
    pub fn user(&self) -> u64 {
        self.proof.user
    }

    pub(crate) fn credential(&self) -> &Credential {
        &self.proof.credential
    }
}

impl fmt::Debug for Identity {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Identity({:016x})", self.proof.user)
    }
}

/// What a door knows of a request beside who makes it: for conditions of policies.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Circumstances {
    /// The address that it comes from.
    pub address: Option<IpAddr>,
    /// Whether it came encrypted.
    pub encrypted: Option<bool>,
    /// `User-Agent`.
    pub user_agent: Option<String>,
    /// `Referer`.
    pub referer: Option<String>,
    /// How it was signed, in the words of S3: `REST-HEADER` or `REST-QUERY-STRING`; none where it was not.
    pub auth_type: Option<&'static str>,
    /// The algorithm of its signature, in the words of S3.
    pub signature_version: Option<&'static str>,
    /// Whom buckets must belong to, or every call is refused, whoever makes it.
    pub expected_owners: Vec<ExpectedOwner>,
}

/// Whom a bucket must belong to, where there is one of that name.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ExpectedOwner {
    /// The bucket.
    pub bucket: String,
    /// The id of the user, 0 for root; `None` for nobody of this store.
    pub owner: Option<u64>,
}

impl Circumstances {
    /// By the names of the keys of conditions.
    pub(crate) fn known(&self) -> Vec<(&'static str, String)> {
        let mut known = Vec::new();
        // An IPv4 address is one address, however it came.
        known.extend(self.address.map(|address| ("aws:sourceip", address.to_canonical().to_string())));
        known.extend(self.encrypted.map(|encrypted| ("aws:securetransport", encrypted.to_string())));
        known.extend(self.user_agent.clone().map(|agent| ("aws:useragent", agent)));
        known.extend(self.referer.clone().map(|referer| ("aws:referer", referer)));
        known.extend(self.auth_type.map(|kind| ("s3:authtype", kind.to_owned())));
        known.extend(self.signature_version.map(|version| ("s3:signatureversion", version.to_owned())));
        known
    }
}
