//! Arguments of calls: what is sent of one that a call takes by reference, and how much a listing may ask for.

use super::ENTRIES_MAX;
use super::vocabulary::{
    Asker, BucketQuery, ListQuery, Name, NameQuery, ObjectName, ReadCondition, SearchQuery, UploadId, UploadQuery,
    UserQuery, VersionId, VersionQuery, Whose,
};

/// An argument that borrows what is sent of it.
pub(crate) trait Lent<'a>: Sized {
    /// What is sent.
    type Sent;

    /// What is sent of this one.
    fn to_sent(self) -> Self::Sent;

    /// The argument that was sent.
    fn of(sent: &'a Self::Sent) -> Self;
}

impl<'a> Lent<'a> for &'a str {
    type Sent = String;

    fn to_sent(self) -> String {
        self.to_owned()
    }

    fn of(sent: &'a String) -> Self {
        sent
    }
}

impl<'a> Lent<'a> for Option<&'a str> {
    type Sent = Option<String>;

    fn to_sent(self) -> Option<String> {
        self.map(str::to_owned)
    }

    fn of(sent: &'a Option<String>) -> Self {
        sent.as_deref()
    }
}

impl<'a> Lent<'a> for &'a [String] {
    type Sent = Vec<String>;

    fn to_sent(self) -> Vec<String> {
        self.to_vec()
    }

    fn of(sent: &'a Vec<String>) -> Self {
        sent
    }
}

impl<'a> Lent<'a> for ObjectName<'a> {
    type Sent = Name;

    fn to_sent(self) -> Name {
        Name::new(self)
    }

    fn of(sent: &'a Name) -> Self {
        sent.as_name()
    }
}

impl<'a> Lent<'a> for (ObjectName<'a>, VersionId) {
    type Sent = (Name, VersionId);

    fn to_sent(self) -> (Name, VersionId) {
        (Name::new(self.0), self.1)
    }

    fn of((name, version): &'a (Name, VersionId)) -> Self {
        (name.as_name(), *version)
    }
}

/// Whether it is a group, and the name.
impl<'a> Lent<'a> for Whose<'a> {
    type Sent = (bool, String);

    fn to_sent(self) -> (bool, String) {
        match self {
            Whose::User(name) => (false, name.to_owned()),
            Whose::Group(name) => (true, name.to_owned()),
        }
    }

    fn of((is_group, name): &'a (bool, String)) -> Self {
        if *is_group { Whose::Group(name) } else { Whose::User(name) }
    }
}

macro_rules! lent_whole {
    ($($type:ty),*) => {$(
        impl<'a> Lent<'a> for &'a $type {
            type Sent = $type;

            fn to_sent(self) -> $type {
                self.clone()
            }

            fn of(sent: &'a $type) -> Self {
                sent
            }
        }
    )*};
}

lent_whole!(Asker, BucketQuery, ListQuery, NameQuery, ReadCondition, SearchQuery, UploadQuery, UserQuery, VersionQuery);

/// An argument of a listing: the server makes those that ask for more than [`ENTRIES_MAX`] entries ask for so many.
pub(crate) trait Bounded {
    /// Asks for no more.
    fn bound(&mut self) {}
}

impl Bounded for String {}
impl Bounded for Name {}
impl Bounded for UploadId {}
impl Bounded for u32 {}

impl Bounded for usize {
    fn bound(&mut self) {
        *self = ENTRIES_MAX.min(*self);
    }
}

/// None asks for all.
impl Bounded for BucketQuery {
    fn bound(&mut self) {
        self.limit = if self.limit == 0 { ENTRIES_MAX } else { self.limit.min(ENTRIES_MAX) };
    }
}

impl Bounded for UserQuery {
    fn bound(&mut self) {
        self.names.bound();
    }
}

macro_rules! bounded {
    ($($query:ty),*) => {$(
        impl Bounded for $query {
            fn bound(&mut self) {
                self.limit.bound();
            }
        }
    )*};
}

bounded!(ListQuery, NameQuery, SearchQuery, UploadQuery, VersionQuery);
