//! The canonical form of a request, over which SigV4 signs.
//!
//! Invariants:
//! - Built from the bytes that came, header values included; nothing is normalised that a later floor
//!   would see in another form.
//! - A header that is named as signed and is not there makes the request invalid.

use http::HeaderMap;
use http::request::Parts;
use percent_encoding::{percent_decode_str, percent_encode};

use crate::query::{Query, UNRESERVED_ONLY};

/// How the path goes into the canonical request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PathForm {
    /// Decoded and encoded again: what the specification asks for.
    Encoded,
    /// As it was sent: what some clients sign when they leave reserved characters as they are.
    AsSent,
}

/// What goes into a canonical request beside the head itself.
#[derive(Debug)]
pub struct Signed<'a> {
    /// The names of the signed headers, lower case, in their order.
    pub headers: &'a [&'a str],
    /// The last line: a hash, or the name of a mode.
    pub payload: &'a str,
    /// Whether a query parameter is left out.
    pub skip_signature: bool,
}

/// The canonical request; `None` when a signed header is missing.
pub fn canonical_request(parts: &Parts, query: &Query<'_>, form: PathForm, signed: &Signed<'_>) -> Option<Vec<u8>> {
    let mut text = Vec::with_capacity(512);
    text.extend_from_slice(parts.method.as_str().as_bytes());
    text.push(b'\n');
    push_path(&mut text, parts.uri.path(), form);
    text.push(b'\n');
    if !query.is_empty() {
        let canonical = query.canonical(|name| !(signed.skip_signature && name == "X-Amz-Signature"));
        text.extend_from_slice(canonical.as_bytes());
    }
    text.push(b'\n');
    for name in signed.headers {
        text.extend_from_slice(name.as_bytes());
        text.push(b':');
        push_header_values(&mut text, &parts.headers, name)?;
        text.push(b'\n');
    }
    text.push(b'\n');
    for (index, name) in signed.headers.iter().enumerate() {
        if index > 0 {
            text.push(b';');
        }
        text.extend_from_slice(name.as_bytes());
    }
    text.push(b'\n');
    text.extend_from_slice(signed.payload.as_bytes());
    Some(text)
}

/// Whether a path has characters that `Encoded` and `AsSent` treat differently.
pub fn forms_differ(path: &str) -> bool {
    let mut encoded = Vec::with_capacity(path.len());
    push_path(&mut encoded, path, PathForm::Encoded);
    encoded != path.as_bytes()
}

fn push_path(text: &mut Vec<u8>, path: &str, form: PathForm) {
    let plain = path.bytes().all(|byte| byte.is_ascii_alphanumeric() || b"-_.~/".contains(&byte));
    if plain || form == PathForm::AsSent {
        text.extend_from_slice(path.as_bytes());
        return;
    }
    // A `%2F` is a slash to S3, in the key as in the signature.
    let decoded: Vec<u8> = percent_decode_str(path).collect();
    for (index, segment) in decoded.split(|byte| *byte == b'/').enumerate() {
        if index > 0 {
            text.push(b'/');
        }
        for piece in percent_encode(segment, UNRESERVED_ONLY) {
            text.extend_from_slice(piece.as_bytes());
        }
    }
}

fn push_header_values(text: &mut Vec<u8>, headers: &HeaderMap, name: &str) -> Option<()> {
    let mut values = headers.get_all(name).iter().peekable();
    values.peek()?;
    let mut first = true;
    for value in values {
        if !first {
            text.push(b',');
        }
        first = false;
        let mut words = value.as_bytes().split(u8::is_ascii_whitespace).filter(|word| !word.is_empty());
        if let Some(word) = words.next() {
            text.extend_from_slice(word);
        }
        for word in words {
            text.push(b' ');
            text.extend_from_slice(word);
        }
    }
    Some(())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parts(target: &str) -> Parts {
        let request = http::Request::builder()
            .uri(target)
            .header("host", "examplebucket.s3.amazonaws.com")
            .header("x-amz-date", "  20130524T000000Z ")
            .header("x-amz-meta-a", "one   two")
            .header("x-amz-meta-a", "three")
            .body(())
            .unwrap();
        request.into_parts().0
    }

    fn canonical(target: &str, form: PathForm) -> String {
        let parts = parts(target);
        let query = Query::parse(parts.uri.query()).unwrap();
        let signed = Signed {
            headers: &["host", "x-amz-date", "x-amz-meta-a"],
            payload: "UNSIGNED-PAYLOAD",
            skip_signature: true,
        };
        String::from_utf8(canonical_request(&parts, &query, form, &signed).unwrap()).unwrap()
    }

    #[test]
    fn a_whole_request() {
        assert_eq!(
            canonical("/test.txt?lifecycle&X-Amz-Signature=00&a=%2F", PathForm::Encoded),
            "GET\n/test.txt\na=%2F&lifecycle=\nhost:examplebucket.s3.amazonaws.com\nx-amz-date:20130524T000000Z\n\
             x-amz-meta-a:one two,three\n\nhost;x-amz-date;x-amz-meta-a\nUNSIGNED-PAYLOAD"
        );
    }

    #[test]
    fn odd_paths() {
        let second_line = |target, form| canonical(target, form).lines().nth(1).unwrap().to_owned();
        assert_eq!(second_line("/b/a%2Fb%20c+d//e", PathForm::Encoded), "/b/a/b%20c%2Bd//e");
        assert_eq!(second_line("/b/a+b", PathForm::AsSent), "/b/a+b");
        assert!(forms_differ("/b/a+b"));
        assert!(!forms_differ("/b/a%2Bb~c"));
    }

    #[test]
    fn a_signed_header_that_is_missing() {
        let parts = parts("/");
        let signed = Signed { headers: &["host", "x-amz-other"], payload: "", skip_signature: false };
        assert!(canonical_request(&parts, &Query::default(), PathForm::Encoded, &signed).is_none());
    }
}
