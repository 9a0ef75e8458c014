//! The query of a request, decoded.
//!
//! Invariants:
//! - Names and values are UTF-8 after decoding; `+` means a space, as S3 reads it.
//! - The order of the pairs is the order in the request.

use std::borrow::Cow;
use std::fmt::Write as _;

use percent_encoding::{AsciiSet, NON_ALPHANUMERIC, percent_decode_str, utf8_percent_encode};
use thiserror::Error;

/// Everything but the unreserved characters of RFC 3986 is encoded.
pub const UNRESERVED_ONLY: &AsciiSet = &NON_ALPHANUMERIC.remove(b'-').remove(b'_').remove(b'.').remove(b'~');

/// A query that is not UTF-8 after decoding.
#[derive(Debug, Error)]
#[error("the query is not valid UTF-8 after decoding")]
pub struct QueryError;

/// A decoded query.
#[derive(Debug, Default)]
pub struct Query<'a>(Vec<(Cow<'a, str>, Cow<'a, str>)>);

fn decode(text: &str) -> Result<Cow<'_, str>, QueryError> {
    if !text.bytes().any(|byte| byte == b'%' || byte == b'+') {
        return Ok(Cow::Borrowed(text));
    }
    let spaced = text.replace('+', " ");
    let decoded = percent_decode_str(&spaced).decode_utf8().map_err(|_| QueryError)?;
    Ok(Cow::Owned(decoded.into_owned()))
}

impl<'a> Query<'a> {
    /// Decodes the part of a request's target after `?`.
    pub fn parse(text: Option<&'a str>) -> Result<Self, QueryError> {
        let mut pairs = Vec::new();
        for pair in text.unwrap_or_default().split('&').filter(|pair| !pair.is_empty()) {
            let (name, value) = pair.split_once('=').unwrap_or((pair, ""));
            pairs.push((decode(name)?, decode(value)?));
        }
        Ok(Query(pairs))
    }

    /// The first value of a name.
    pub fn get(&self, name: &str) -> Option<&str> {
        self.0.iter().find(|pair| pair.0 == name).map(|pair| pair.1.as_ref())
    }

    /// Whether a name is there, with or without a value.
    pub fn has(&self, name: &str) -> bool {
        self.get(name).is_some()
    }

    /// Whether there is nothing in it.
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// The pairs in their order.
    pub fn pairs(&self) -> impl Iterator<Item = (&str, &str)> {
        self.0.iter().map(|pair| (pair.0.as_ref(), pair.1.as_ref()))
    }

    /// The query without the pairs whose names do not pass.
    pub fn retain(&mut self, keep: impl Fn(&str) -> bool) {
        self.0.retain(|pair| keep(pair.0.as_ref()));
    }

    /// The pairs whose names pass, encoded again and sorted, as SigV4 wants them.
    pub fn canonical(&self, keep: impl Fn(&str) -> bool) -> String {
        let mut encoded: Vec<_> =
            self.pairs().filter(|pair| keep(pair.0)).map(|(name, value)| (encode(name), encode(value))).collect();
        encoded.sort();
        let mut canonical = String::new();
        for (name, value) in encoded {
            if !canonical.is_empty() {
                canonical.push('&');
            }
            // Writing to a string does not fail.
            let _ = write!(canonical, "{name}={value}");
        }
        canonical
    }
}

fn encode(text: &str) -> String {
    utf8_percent_encode(text, UNRESERVED_ONLY).to_string()
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn names_without_values_and_odd_characters() {
        let query = Query::parse(Some("uploads&prefix=a%2Fb+c&x=1=2&&e=")).unwrap();
        assert!(query.has("uploads"));
        assert_eq!(query.get("prefix"), Some("a/b c"));
        assert_eq!(query.get("x"), Some("1=2"));
        assert_eq!(query.canonical(|name| name != "x"), "e=&prefix=a%2Fb%20c&uploads=");
        assert!(Query::parse(Some("a=%ff")).is_err());
        assert!(Query::parse(None).unwrap().is_empty());
    }

    proptest! {
        #[test]
        fn any_text_is_decoded_or_refused(text in ".{0,200}") {
            if let Ok(query) = Query::parse(Some(&text)) {
                let canonical = query.canonical(|_| true);
                let again = Query::parse(Some(&canonical)).unwrap();
                prop_assert_eq!(again.canonical(|_| true), canonical);
            }
        }
    }
}
