//! AWS Signature Version 4 for requests with a known body.
//!
//! Invariants:
//! - Every header given is signed, `host`, the date and the body's hash among them.
//! - A secret appears in no message and in no `Debug` output.

use std::fmt;

use hmac::{Hmac, Mac};
use percent_encoding::{AsciiSet, NON_ALPHANUMERIC, percent_encode};
use sha2::{Digest, Sha256};

/// Everything but the unreserved characters of RFC 3986.
const RESERVED: &AsciiSet = &NON_ALPHANUMERIC.remove(b'-').remove(b'.').remove(b'_').remove(b'~');
/// As [`RESERVED`], slashes kept: the path of a key.
const RESERVED_IN_PATH: &AsciiSet = &RESERVED.remove(b'/');

/// What stands for the hash of a body that is not signed.
pub const UNSIGNED: &str = "UNSIGNED-PAYLOAD";

/// An access key and its secret.
#[derive(Clone)]
pub struct Keys {
    /// What requests name.
    pub access_key: String,
    /// What they are signed with.
    pub secret: String,
    /// Goes with temporary keys.
    pub session_token: Option<String>,
}

impl fmt::Debug for Keys {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Keys({:?})", self.access_key)
    }
}

/// What of a request is signed.
pub struct Signable<'a> {
    /// `GET`, `PUT`, ….
    pub method: &'a str,
    /// The path, percent-encoded as sent.
    pub path: &'a str,
    /// Names and values, not encoded.
    pub query: &'a [(String, String)],
    /// Lower-case names and values as sent.
    pub headers: &'a [(String, String)],
    /// SHA-256 of the body in hexadecimal.
    pub body_hash: &'a str,
    /// `20130524T000000Z`.
    pub date: &'a str,
    /// `us-east-1`.
    pub region: &'a str,
}

/// The value of the `authorization` header.
pub fn authorization(keys: &Keys, request: &Signable<'_>) -> String {
    let (names, scope, signature) = (signed_names(request), scope(request), signature(keys, request));
    format!("AWS4-HMAC-SHA256 Credential={}/{scope},SignedHeaders={names},Signature={signature}", keys.access_key)
}

/// The query of an address that needs no headers but those signed here; it works for this many seconds.
pub fn presigned_query(keys: &Keys, request: &Signable<'_>, seconds: u64) -> String {
    let mut query = request.query.to_vec();
    let mut add = |name: &str, value: String| query.push((name.to_owned(), value));
    add("X-Amz-Algorithm", "AWS4-HMAC-SHA256".to_owned());
    add("X-Amz-Credential", format!("{}/{}", keys.access_key, scope(request)));
    add("X-Amz-Date", request.date.to_owned());
    add("X-Amz-Expires", seconds.to_string());
    add("X-Amz-SignedHeaders", signed_names(request));
    if let Some(token) = &keys.session_token {
        add("X-Amz-Security-Token", token.clone());
    }
    let signature = signature(keys, &Signable { query: &query, ..*request });
    format!("{}&X-Amz-Signature={signature}", query_text(&query))
}

fn sorted_headers<'a>(request: &Signable<'a>) -> Vec<(&'a str, &'a str)> {
    let mut headers: Vec<(&str, &str)> = request.headers.iter().map(|(n, v)| (n.as_str(), v.trim())).collect();
    headers.sort_unstable();
    headers
}

fn signed_names(request: &Signable<'_>) -> String {
    sorted_headers(request).iter().map(|(name, _)| *name).collect::<Vec<_>>().join(";")
}

fn day<'a>(request: &Signable<'a>) -> &'a str {
    request.date.get(..8).unwrap_or(request.date)
}

fn scope(request: &Signable<'_>) -> String {
    format!("{}/{}/s3/aws4_request", day(request), request.region)
}

fn signature(keys: &Keys, request: &Signable<'_>) -> String {
    let lines: String = sorted_headers(request).iter().map(|(name, value)| format!("{name}:{value}\n")).collect();
    let canonical = format!(
        "{}\n{}\n{}\n{lines}\n{}\n{}",
        request.method,
        request.path,
        query_text(request.query),
        signed_names(request),
        request.body_hash
    );
    let hash = hex::encode(Sha256::digest(canonical.as_bytes()));
    let to_sign = format!("AWS4-HMAC-SHA256\n{}\n{}\n{hash}", request.date, scope(request));
    let mut key = hmac(format!("AWS4{}", keys.secret).as_bytes(), day(request).as_bytes());
    for part in [request.region, "s3", "aws4_request"] {
        key = hmac(&key, part.as_bytes());
    }
    hex::encode(hmac(&key, to_sign.as_bytes()))
}

/// The query in canonical order and encoding, which is also how it is sent.
pub fn query_text(query: &[(String, String)]) -> String {
    let mut pairs: Vec<(String, String)> =
        query.iter().map(|(name, value)| (encode(name.as_bytes()), encode(value.as_bytes()))).collect();
    pairs.sort_unstable();
    pairs.iter().map(|(name, value)| format!("{name}={value}")).collect::<Vec<_>>().join("&")
}

/// Percent-encodes everything but unreserved characters.
pub fn encode(text: &[u8]) -> String {
    percent_encode(text, RESERVED).to_string()
}

/// Percent-encodes a key for the path of a request, byte for byte.
pub fn encode_path(key: &str) -> String {
    percent_encode(key.as_bytes(), RESERVED_IN_PATH).to_string()
}

fn hmac(key: &[u8], data: &[u8]) -> Vec<u8> {
    // A key of any length is taken, so this cannot fail.
    Hmac::<Sha256>::new_from_slice(key)
        .map(|mac| mac.chain_update(data).finalize().into_bytes().to_vec())
        .unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn pairs(list: &[(&str, &str)]) -> Vec<(String, String)> {
        list.iter().map(|(name, value)| ((*name).to_owned(), (*value).to_owned())).collect()
    }

    /// The examples of the S3 manual, "Authenticating Requests: Using the Authorization Header".
    #[test]
    fn signatures_are_those_of_the_manual() {
        const EMPTY: &str = "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855";
        let keys = Keys {
            access_key: "AKIAIOSFODNN7EXAMPLE".to_owned(),
            secret: "wJalrXUtnFEMI/K7MDENG/bPxRfiCYEXAMPLEKEY".to_owned(),
            session_token: None,
        };
        let check = |method, path, query: &[(&str, &str)], extra: &[(&str, &str)], body_hash, signature: &str| {
            let mut headers = pairs(&[("host", "examplebucket.s3.amazonaws.com"), ("x-amz-content-sha256", body_hash)]);
            headers.extend(pairs(extra));
            let request = Signable {
                method,
                path,
                query: &pairs(query),
                headers: &headers,
                body_hash,
                date: "20130524T000000Z",
                region: "us-east-1",
            };
            let value = authorization(&keys, &request);
            assert!(value.ends_with(&format!("Signature={signature}")), "{value}");
        };
        let date = ("x-amz-date", "20130524T000000Z");
        check(
            "GET",
            "/test.txt",
            &[],
            &[("range", "bytes=0-9"), date],
            EMPTY,
            "f0e8bdb87c964420e857bd35b5d6ed310bd44f0170aba48dd91039c6036bdb41",
        );
        check(
            "PUT",
            "/test%24file.text",
            &[],
            &[("date", "Fri, 24 May 2013 00:00:00 GMT"), date, ("x-amz-storage-class", "REDUCED_REDUNDANCY")],
            "44ce7dd67c959e0d3524ffac1771dfbba87d2b6b4b4e99e42034a8b803f8b072",
            "98ad721746da40c64f1a55b78f14c238d841ea1380cd77a1b5971af0ece108bd",
        );
        check(
            "GET",
            "/",
            &[("lifecycle", "")],
            &[date],
            EMPTY,
            "fea454ca298b7da1c68078a5d1bdbfbbe0d65c699e0f91ac7a200a0136783543",
        );
        check(
            "GET",
            "/",
            &[("prefix", "J"), ("max-keys", "2")],
            &[date],
            EMPTY,
            "34b48302e7b5fa45bde8084f4b7868a86f0a534bc59db6670ed5711ef69dc6f7",
        );
    }

    /// The example of the S3 manual, "Authenticating Requests: Using Query Parameters".
    #[test]
    fn addresses_are_those_of_the_manual() {
        let keys = Keys {
            access_key: "AKIAIOSFODNN7EXAMPLE".to_owned(),
            secret: "wJalrXUtnFEMI/K7MDENG/bPxRfiCYEXAMPLEKEY".to_owned(),
            session_token: None,
        };
        let request = Signable {
            method: "GET",
            path: "/test.txt",
            query: &[],
            headers: &pairs(&[("host", "examplebucket.s3.amazonaws.com")]),
            body_hash: UNSIGNED,
            date: "20130524T000000Z",
            region: "us-east-1",
        };
        assert_eq!(
            presigned_query(&keys, &request, 86400),
            "X-Amz-Algorithm=AWS4-HMAC-SHA256&X-Amz-Credential=AKIAIOSFODNN7EXAMPLE%2F20130524%2Fus-east-1%2Fs3%2Faws4_request\
             &X-Amz-Date=20130524T000000Z&X-Amz-Expires=86400&X-Amz-SignedHeaders=host\
             &X-Amz-Signature=aeeed9bbccd4d02ee5c0109b86d86835f995330da4c265957d157751f604d404"
        );
    }

    #[test]
    fn keys_are_encoded_byte_for_byte() {
        let check = |key: &str, path: &str| assert_eq!(encode_path(key), path);
        check("a b+c%2F", "a%20b%2Bc%252F");
        check("//é/..", "//%C3%A9/..");
        assert_eq!(query_text(&pairs(&[("prefix", "a/b c"), ("delimiter", "/")])), "delimiter=%2F&prefix=a%2Fb%20c");
    }

    #[test]
    fn secrets_are_not_printed() {
        let keys = Keys { access_key: "who".into(), secret: "hidden".into(), session_token: Some("token".into()) };
        assert_eq!(format!("{keys:?}"), "Keys(\"who\")");
    }
}
