//! What the log says of rights, at `info`: what was refused, and what was deleted; who asked for it, and by which rule.
//!
//! Invariants:
//! - Nothing of an object but its name is told: no metadata, no tags, no bytes. No secret, token or access key is.
//! - What users chose (names, keys, statements of policies) is escaped: it cannot pass for another line.
//! - Where nobody listens nothing is put together.

use std::fmt::Display;

use tracing::Level;

use super::who::Who;
use super::{Rights, Rule};
use crate::caller::Caller;

/// Whether anybody listens.
fn enabled() -> bool {
    tracing::enabled!(Level::INFO)
}

/// Who was allowed something, and by what; in words.
#[derive(Clone, Debug, Default)]
pub(crate) struct Allowed {
    by: String,
    rule: String,
}

/// What a commit takes away.
#[derive(Debug)]
pub(crate) struct Removal {
    what: String,
    allowed: Allowed,
}

impl Removal {
    /// What is told of it, once it is committed. The words are put together only where somebody listens.
    pub fn of(allowed: &Allowed, what: impl FnOnce() -> String) -> Option<Self> {
        enabled().then(|| Removal { what: what(), allowed: allowed.clone() })
    }

    /// It was committed.
    pub fn tell(self) {
        let Removal { what, allowed: Allowed { by, rule } } = self;
        tracing::info!(?what, ?by, ?rule, "deleted");
    }
}

impl Allowed {
    /// The store's owner, who is asked nothing.
    pub fn to_owner() -> Self {
        if enabled() { Allowed { by: name_of_owner(), rule: Rule::Root.to_string() } } else { Allowed::default() }
    }
}

fn name_of_owner() -> String {
    "the store's owner".to_owned()
}

impl Rights<'_> {
    /// What allowed the caller what it asked for last.
    pub(super) fn allowed(&mut self) -> Allowed {
        if !enabled() {
            return Allowed::default();
        }
        let rule = self.rule.take().map_or_else(|| "it is allowed to everybody".to_owned(), |rule| rule.to_string());
        Allowed { by: self.name_of_caller(), rule }
    }

    /// Something was refused.
    pub(super) fn tell_refused(&self, action: &str, on: &dyn Display, rule: &dyn Display) {
        if enabled() {
            let (by, on, rule) = (self.name_of_caller(), on.to_string(), rule.to_string());
            tracing::info!(action, ?on, ?by, ?rule, "refused");
        }
    }

    /// Who asks, by name where it was looked up, and from where.
    fn name_of_caller(&self) -> String {
        let name = match (self.caller, &self.who) {
            (Caller::Owner, _) => return name_of_owner(),
            (Caller::Everyone, _) => "nobody".to_owned(),
            (Caller::User(_), Some(Who::User(known))) => format!("{} ({:016x})", known.name, known.id),
            (Caller::User(_), Some(Who::Root)) => "root".to_owned(),
            (Caller::User(identity), _) => format!("the user {:016x}", identity.user()),
        };
        match self.circumstances.address {
            Some(address) => format!("{name} from {}", address.to_canonical()),
            None => name,
        }
    }
}
