//! What is searched for, and what is found.

use std::fmt;

use crate::info::ObjectSummary;

/// The most indexes of a bucket.
pub const INDEXES_MAX: usize = 16;

/// What an index is over, and what is searched for.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Indexed {
    /// An entry of user metadata: its name, in lower case.
    Metadata(String),
    /// A tag: its name.
    Tag(String),
}

impl Indexed {
    /// The name of the entry or tag.
    pub fn name(&self) -> &str {
        match self {
            Indexed::Metadata(name) | Indexed::Tag(name) => name,
        }
    }
}

impl fmt::Display for Indexed {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Indexed::Metadata(name) => write!(f, "metadata {name:?}"),
            Indexed::Tag(name) => write!(f, "tag {name:?}"),
        }
    }
}

/// What the text of an entry or tag has to be. Texts compare by their bytes.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub enum Wanted {
    /// Anything, as long as there is one.
    #[default]
    Any,
    /// This.
    Equal(String),
    /// Something that begins so.
    BeginsWith(String),
    /// One of these two, or something between them.
    Between(String, String),
}

impl Wanted {
    /// Whether a text is wanted.
    pub(crate) fn matches(&self, value: &str) -> bool {
        match self {
            Wanted::Any => true,
            Wanted::Equal(wanted) => value == wanted,
            Wanted::BeginsWith(prefix) => value.starts_with(prefix.as_str()),
            Wanted::Between(first, last) => (first.as_str()..=last.as_str()).contains(&value),
        }
    }
}

/// Which objects are searched for.
#[derive(Clone, Debug)]
pub struct SearchQuery {
    /// What they have; of entries of one name the first counts.
    pub of: Indexed,
    /// What its text has to be.
    pub wanted: Wanted,
    /// Names that begin so.
    pub prefix: String,
    /// What comes after this text and name: `next` of the last page.
    pub after: Option<(String, String)>,
    /// At most so many objects; 0 gives an empty page.
    pub limit: usize,
}

impl SearchQuery {
    /// Everything that has one.
    pub fn new(of: Indexed) -> Self {
        SearchQuery { of, wanted: Wanted::Any, prefix: String::new(), after: None, limit: usize::MAX }
    }
}

/// A page of objects that were searched for, in the order of the first 256 bytes of their texts, then of their names.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct SearchPage {
    /// The text that each has, and the object.
    pub found: Vec<(String, ObjectSummary)>,
    /// `after` of the next page; `None` on the last.
    pub next: Option<(String, String)>,
}

/// What is known of an index of a bucket.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct IndexInfo {
    /// What it is over.
    pub of: Indexed,
    /// Whether it is whole. Until then it is kept and not searched; building it was interrupted or goes on.
    pub whole: bool,
}
