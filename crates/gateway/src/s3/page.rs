//! What all listings share: how many, where to go on, and names as they are written in XML.

use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use percent_encoding::{AsciiSet, utf8_percent_encode};
use s3s::S3Error;
use s3s::dto::EncodingType;

use crate::errors::invalid_argument;
use crate::limits::PAGE_LEN_MAX;
use crate::query::UNRESERVED_ONLY;

/// A name keeps its slashes.
const NAME: &AsciiSet = &UNRESERVED_ONLY.remove(b'/');

/// How many entries a page has: as asked for, at most [`PAGE_LEN_MAX`].
pub fn limit(asked: Option<i32>, parameter: &str) -> Result<usize, S3Error> {
    let asked = asked.unwrap_or(PAGE_LEN_MAX as i32);
    let limit = usize::try_from(asked).map_err(|_| out_of_range(parameter))?;
    Ok(limit.min(PAGE_LEN_MAX))
}

/// The number of the part after which a page begins.
pub fn part_after(marker: Option<i32>) -> Result<u32, S3Error> {
    u32::try_from(marker.unwrap_or(0)).map_err(|_| out_of_range("part-number-marker"))
}

fn out_of_range(parameter: &str) -> S3Error {
    invalid_argument(format!("Argument {parameter} must be an integer between 0 and 2147483647"))
}

/// A number that a header gives.
pub fn number(headers: &http::HeaderMap, name: &str) -> Result<Option<i32>, S3Error> {
    let parse = |value: &http::HeaderValue| {
        let number = value.to_str().ok().and_then(|text| text.trim().parse().ok());
        number.filter(|number| *number >= 0).ok_or_else(|| out_of_range(name))
    };
    headers.get(name).map(parse).transpose()
}

/// A token that names where the next page begins.
pub fn token(after: &str) -> String {
    URL_SAFE_NO_PAD.encode(after)
}

/// Where a page begins, by its token.
pub fn open_token(token: &str) -> Result<String, S3Error> {
    let bytes = URL_SAFE_NO_PAD.decode(token).ok();
    let text = bytes.and_then(|bytes| String::from_utf8(bytes).ok());
    text.ok_or_else(|| invalid_argument("The continuation token provided is incorrect"))
}

/// How names are written in a listing.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Names {
    /// As they are.
    Plain,
    /// Percent-encoded: XML cannot hold every name.
    Encoded,
}

impl Names {
    /// As a request asks.
    pub fn of(asked: Option<&EncodingType>) -> Result<Self, S3Error> {
        match asked.map(EncodingType::as_str) {
            None | Some("") => Ok(Names::Plain),
            Some("url") => Ok(Names::Encoded),
            Some(_) => Err(invalid_argument("Invalid Encoding Method specified in Request")),
        }
    }

    /// A name as it is written.
    pub fn write(self, name: impl Into<String>) -> String {
        let name = name.into();
        match self {
            Names::Plain => name,
            Names::Encoded => utf8_percent_encode(&name, NAME).to_string(),
        }
    }

    /// As `write`, for what may be left out.
    pub fn write_some(self, name: Option<String>) -> Option<String> {
        name.filter(|name| !name.is_empty()).map(|name| self.write(name))
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn limits() {
        assert_eq!(limit(None, "max-keys").unwrap(), 1000);
        assert_eq!(limit(Some(0), "max-keys").unwrap(), 0);
        assert_eq!(limit(Some(5000), "max-keys").unwrap(), 1000);
        assert!(limit(Some(-1), "max-keys").is_err());
    }

    #[test]
    fn names_are_encoded_as_asked() {
        assert_eq!(Names::Encoded.write("a b+c/%ü"), "a%20b%2Bc/%25%C3%BC");
        assert_eq!(Names::Plain.write("a b"), "a b");
    }

    proptest! {
        #[test]
        fn tokens_open_to_what_they_were_made_of(name in ".{0,100}") {
            prop_assert_eq!(open_token(&token(&name)).unwrap(), name);
        }

        #[test]
        fn any_token_is_opened_or_refused(text in ".{0,100}") {
            let _ = open_token(&text);
        }
    }
}
