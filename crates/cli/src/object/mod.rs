//! Commands on buckets and objects, a file each; `ls` and `cp` have files of their own beside this room.
//!
//! Invariants:
//! - What a command names is looked for before anything is changed; what is not there is exit code 4.
//! - A command of many objects does each whole or not at all, and says which it could not do.

pub mod bucket;
pub mod cat;
pub mod edit;
pub mod explain;
pub mod groups;
pub mod identity;
pub mod info;
pub mod multipart;
pub mod mv;
pub mod rm;
pub mod sealing;
pub mod search;
pub mod set;
pub mod settings;
pub mod snapshot;
pub mod users;
pub mod versions;

use koine::Store;
use koine::object::ObjectName;

use crate::failure::{Failure, Outcome};
use crate::location::{Location, Scheme};
use crate::target::TargetArgs;

/// A bucket's or an object's name as the command line has it.
pub(crate) struct ObjectUrl {
    pub scheme: Scheme,
    pub bucket: String,
    pub key: String,
}

impl ObjectUrl {
    /// Reads a name; a local path is a failure.
    pub fn parse(text: &str) -> Outcome<Self> {
        match Location::parse(text)? {
            Location::Object { bucket, .. } if bucket.is_empty() => {
                Err(Failure::usage(format!("{text}: the bucket is missing; write koine://BUCKET/KEY")))
            }
            Location::Object { scheme, bucket, key } => Ok(ObjectUrl { scheme, bucket, key }),
            Location::Local(_) => {
                Err(Failure::usage(format!("{text} is a local path; write koine://BUCKET/KEY or s3://BUCKET/KEY")))
            }
        }
    }

    /// A bucket alone.
    pub fn bucket(text: &str) -> Outcome<Self> {
        let named = ObjectUrl::parse(text)?;
        if !named.key.is_empty() {
            return Err(Failure::usage(format!("{text} names an object; write {}BUCKET", named.scheme.prefix())));
        }
        Ok(named)
    }

    /// The name as the library has it.
    pub fn name(&self) -> ObjectName<'_> {
        ObjectName::new(&self.bucket, &self.key)
    }

    /// An object.
    pub fn object(text: &str) -> Outcome<Self> {
        let named = ObjectUrl::parse(text)?;
        if named.key.is_empty() {
            return Err(Failure::usage(format!("{text} is a whole bucket; name a key in it")));
        }
        Ok(named)
    }
}

/// What is said of versions of an S3 server, which this program has no call for.
pub(crate) fn no_versions(named: &ObjectUrl) -> Failure {
    Failure::usage(format!("{named}: versions are only available in a store; name it koine://BUCKET/KEY, with --store"))
}

/// Opens the store, does something in it and closes it; for what S3 has no call, or this program none for it.
pub(crate) fn in_store<T>(
    reach: &TargetArgs,
    named: &[&ObjectUrl],
    act: impl FnOnce(&Store) -> Outcome<T>,
) -> Outcome<T> {
    check_schemes(named)?;
    close_after(reach.store()?, act)
}

/// The same to look only.
pub(crate) fn look_in_store<T>(
    reach: &TargetArgs,
    named: &[&ObjectUrl],
    act: impl FnOnce(&Store) -> Outcome<T>,
) -> Outcome<T> {
    check_schemes(named)?;
    close_after(reach.look_at_store()?, act)
}

fn close_after<T>(store: Store, act: impl FnOnce(&Store) -> Outcome<T>) -> Outcome<T> {
    let done = act(&store);
    store.close()?;
    done
}

fn check_schemes(named: &[&ObjectUrl]) -> Outcome {
    match named.iter().find(|named| named.scheme != Scheme::Store) {
        None => Ok(()),
        Some(named) => Err(Failure::usage(format!(
            "{named}: this works only in a store; name it koine://BUCKET/KEY, with --store"
        ))),
    }
}

impl std::fmt::Display for ObjectUrl {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{}{}/{}", self.scheme.prefix(), self.bucket, self.key)
    }
}
