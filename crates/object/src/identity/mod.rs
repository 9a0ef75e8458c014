//! Groups, users, and what they prove themselves with.

#[expect(dead_code, reason = "used by `Identities`, which comes next")]
pub(crate) mod keys;
