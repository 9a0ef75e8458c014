//! Policies, in the form of S3's: what they say of a request.
//!
//! Invariants:
//! - What is not understood is refused when a policy is set; nothing is passed over.
//! - A statement matches a request as a whole or not at all. Where all names under a prefix are meant, an allowing
//!   statement must match every one of them, and a denying one any.

mod condition;
mod known;
mod parse;
mod pattern;
#[cfg(test)]
mod tests;

use super::action::Action;
use crate::error::{Error, ErrorKind, Result};
use condition::Condition;
use pattern::Pattern;

/// The longest policy, in bytes, as on AWS.
pub const POLICY_LEN_MAX: usize = 20_480;

/// The most texts between two `*` in the patterns of a policy that is set: each is looked for in every name that is asked
/// about, and a request may ask about a thousand.
pub const POLICY_SEARCHES_MAX: usize = 256;

/// A policy that was understood.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Policy {
    statements: Vec<Statement>,
}

#[derive(Clone, Debug, PartialEq)]
struct Statement {
    id: Option<String>,
    allow: bool,
    principals: Option<Vec<Principal>>,
    actions: Vec<Pattern>,
    /// `NotAction`: all but those.
    actions_inverted: bool,
    resources: Vec<Pattern>,
    /// `NotResource`: all but those.
    resources_inverted: bool,
    conditions: Vec<Condition>,
}

/// Whom a statement is about.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Principal {
    Everyone,
    /// As it was written; who it is was looked up when the policy was set.
    Named(String),
}

/// What a policy is asked.
pub(crate) struct Request<'a> {
    pub action: Action,
    /// `bucket/key`, `bucket`, or nothing for the store.
    pub resource: &'a str,
    /// Whether all names that begin with the resource are meant.
    pub prefix: bool,
    /// What is known of the request, by the names of the keys of conditions.
    pub known: &'a [(&'static str, String)],
    /// Whether a principal of a bucket's policy is the caller.
    pub is_principal: &'a dyn Fn(&str) -> bool,
    /// Whether what is allowed to everybody counts; what is denied to everybody always does.
    pub open: bool,
}

/// What a policy says.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Says {
    Nothing,
    Allow,
    Deny,
}

impl Policy {
    /// What the statements say together, and the name of the one that decided, where it has one.
    pub fn says(&self, request: &Request<'_>) -> (Says, Option<&str>) {
        let mut allowed = None;
        for statement in &self.statements {
            if !statement.matches(request) {
                continue;
            }
            if !statement.allow {
                return (Says::Deny, statement.id.as_deref());
            }
            allowed = allowed.or(Some(statement));
        }
        allowed.map_or((Says::Nothing, None), |statement| (Says::Allow, statement.id.as_deref()))
    }

    /// Whom it names.
    pub fn principals(&self) -> impl Iterator<Item = &str> {
        self.statements.iter().flat_map(|statement| statement.principals.iter().flatten()).filter_map(|principal| {
            match principal {
                Principal::Everyone => None,
                Principal::Named(name) => Some(name.as_str()),
            }
        })
    }

    /// `MalformedPolicy` where it names an action that nobody has: asked when a policy is set. A typing error must not be
    /// taken for a rule; what is set already goes on being read.
    fn check_actions(&self) -> Result<()> {
        let ours = Action::ALL.iter().map(|action| action.name().to_owned());
        let names: Vec<String> =
            known::ACTIONS_OF_S3.split_whitespace().map(|name| format!("s3:{name}")).chain(ours).collect();
        let is_known = |pattern: &Pattern| names.iter().any(|name| pattern.matches_ignoring_case(name));
        match self.statements.iter().flat_map(|statement| &statement.actions).find(|pattern| !is_known(pattern)) {
            None => Ok(()),
            Some(unknown) => Err(Error::new(
                ErrorKind::MalformedPolicy,
                format!("the policy names the action {unknown}, which is none of S3 or of this store, nor fits any"),
            )),
        }
    }

    /// A resource that does not lie in this bucket, where there is one.
    pub fn names_other_bucket(&self, bucket: &str) -> Option<String> {
        let resources = self.statements.iter().filter(|statement| !statement.resources_inverted);
        let mut resources = resources.flat_map(|statement| &statement.resources);
        resources.find(|resource| !resource.lies_in(bucket)).map(|resource| format!("{resource:?}"))
    }

    /// Whether it allows something to everybody.
    pub fn is_public(&self) -> bool {
        let public =
            |statement: &Statement| statement.principals.iter().flatten().any(|who| *who == Principal::Everyone);
        self.statements.iter().any(|statement| statement.allow && public(statement))
    }
}

impl Statement {
    fn matches(&self, request: &Request<'_>) -> bool {
        let about = self.principals.as_ref().is_none_or(|principals| {
            principals.iter().any(|principal| match principal {
                Principal::Everyone => request.open || !self.allow,
                Principal::Named(name) => (request.is_principal)(name),
            })
        });
        let action = request.action.name();
        about
            && self.actions.iter().any(|pattern| pattern.matches_ignoring_case(action)) != self.actions_inverted
            && self.matches_resource(request)
            && self.conditions.iter().all(|condition| condition.holds(request.known))
    }

    fn matches_resource(&self, request: &Request<'_>) -> bool {
        let (resource, known) = (request.resource, request.known);
        let mut patterns = self.resources.iter();
        if !request.prefix {
            return patterns.any(|pattern| pattern.matches(resource, known)) != self.resources_inverted;
        }
        // Of all names under a prefix: whether every one matches, or any.
        let every = self.allow != self.resources_inverted;
        let found = if every {
            patterns.any(|pattern| pattern.matches_all_under(resource, known))
        } else {
            patterns.any(|pattern| pattern.may_match_under(resource, known))
        };
        found != self.resources_inverted
    }
}
