//! Names of objects: as callers give them, and kept.

/// An object's full name.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ObjectName<'a> {
    /// The bucket.
    pub bucket: &'a str,
    /// The name in it.
    pub key: &'a str,
}

impl<'a> ObjectName<'a> {
    /// `key` in `bucket`.
    pub fn new(bucket: &'a str, key: &'a str) -> Self {
        ObjectName { bucket, key }
    }
}

/// An object's full name, kept.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Name {
    pub bucket: String,
    pub key: String,
}

impl Name {
    pub fn new(name: ObjectName<'_>) -> Self {
        Name { bucket: name.bucket.to_owned(), key: name.key.to_owned() }
    }

    /// The same, lent.
    pub fn as_name(&self) -> ObjectName<'_> {
        ObjectName::new(&self.bucket, &self.key)
    }
}
