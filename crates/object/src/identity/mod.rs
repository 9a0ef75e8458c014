//! Groups, users, and what they prove themselves with.
//!
//! [`LocalIdentities`] has the calls. Its changes are verbs like those of objects: each asks first whether its caller may,
//! in its own transaction.
//!
//! Invariants:
//! - Ids are never used again; names are, and nothing is given to a name.
//! - What shows a secret shows it once; the store keeps the hash of a password and of a token.
//! - What takes several batches begins with one that shuts those out whom it is about, and goes on when it is called
//!   again, wherever it was interrupted.

mod access;
pub(crate) mod change;
mod groups;
mod password;
mod policies;
mod root;
mod rotate;
mod secret;
mod sessions;
mod tokens;
mod users;

use std::sync::Arc;

use crate::attempts::Attempts;
use crate::local::Local;

pub use access::{KeyInfo, KeyOptions};
pub use groups::{GroupChange, GroupInfo, GroupPage, NameQuery};
pub use rotate::Sealing;
pub use secret::{Password, Secret, Token};
pub use sessions::TokenInfo;
pub use tokens::Login;
pub use users::{UserChange, UserInfo, UserPage, UserQuery, UserState};

/// Groups and users of the local store, as its caller may see and change them.
#[derive(Clone, Debug)]
pub(crate) struct LocalIdentities {
    pub(crate) local: Local,
}

impl Local {
    /// Groups and users of this store.
    pub fn identities(&self) -> LocalIdentities {
        LocalIdentities { local: self.clone() }
    }
}

impl LocalIdentities {
    fn attempts(&self) -> &Arc<Attempts> {
        self.local.attempts()
    }
}
