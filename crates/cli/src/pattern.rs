//! Patterns over keys, as shells have them: `*` and `?` within a level, `**` over levels, `[a-z]`.
//!
//! Invariants:
//! - A key without `*`, `?` and `[` is no pattern and means itself.
//! - What a pattern begins with, up to the first of those, is a prefix that a listing can use.

use glob::MatchOptions;

use crate::failure::{Failure, Outcome};
use crate::location::Scheme;

/// Which keys are meant.
#[derive(Clone, Debug)]
pub struct Pattern {
    prefix: String,
    pattern: glob::Pattern,
}

impl Pattern {
    /// Reads a key as a pattern; `None` when it is a plain key.
    pub fn parse(key: &str) -> Outcome<Option<Self>> {
        let Some(first) = key.find(['*', '?', '[']) else {
            return Ok(None);
        };
        let pattern = glob::Pattern::new(key).map_err(|error| {
            Failure::usage(format!("{key:?} is not a valid pattern ({error}); --exact takes it literally"))
        })?;
        Ok(Some(Pattern { prefix: key.get(..first).unwrap_or_default().to_owned(), pattern }))
    }

    /// What every key that it takes begins with.
    pub fn prefix(&self) -> &str {
        &self.prefix
    }

    /// Whether a key is meant.
    pub fn takes(&self, key: &str) -> bool {
        let options =
            MatchOptions { case_sensitive: true, require_literal_separator: true, require_literal_leading_dot: false };
        self.pattern.matches_with(key, options)
    }

    /// No key of a bucket is meant.
    pub fn nothing(&self, scheme: &Scheme, bucket: &str) -> Failure {
        Failure::missing(format!("{}{bucket}/{}: no key matches", scheme.prefix(), self.pattern))
    }

    /// What of a key that it takes lies below the last folder that the pattern names plainly.
    pub fn below<'a>(&self, key: &'a str) -> &'a str {
        let folder = self.prefix.rfind('/').map_or(0, |slash| slash + 1);
        key.get(folder..).unwrap_or(key)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn patterns_take_what_shells_would() {
        let check = |pattern: &str, key: &str, takes: bool| {
            let pattern = Pattern::parse(pattern).unwrap().unwrap();
            assert_eq!(pattern.takes(key), takes, "{pattern:?} {key}");
            assert!(!takes || key.starts_with(pattern.prefix()));
        };
        check("a/*.jpg", "a/x.jpg", true);
        check("a/*.jpg", "a/b/x.jpg", false);
        check("a/**/*.jpg", "a/b/c/x.jpg", true);
        check("a/**/*.jpg", "a/x.jpg", true);
        check("a/?", "a/ü", true);
        check("[a-c]x", "bx", true);
        check("[a-c]x", "dx", false);
        check("*", ".hidden", true);
    }

    #[test]
    fn a_plain_key_is_no_pattern() {
        assert!(Pattern::parse("a/b c+%").unwrap().is_none());
        assert!(Pattern::parse("a[").is_err(), "a range without an end");
    }

    #[test]
    fn targets_are_named_below_the_plain_folder() {
        let below = |pattern: &str, key: &'static str| Pattern::parse(pattern).unwrap().unwrap().below(key);
        assert_eq!(below("a/b*/c", "a/bx/c"), "bx/c");
        assert_eq!(below("*.jpg", "x.jpg"), "x.jpg");
    }
}
