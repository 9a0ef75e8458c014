//! Signature Version 4 in headers and in chunks, made beforehand so that a measured request costs no hashing here.
//!
//! Paths and queries are given in canonical form (encoded, sorted); every header that is sent but the length is signed.

use hmac::{Hmac, Mac};
use sha2::{Digest, Sha256};
use time::OffsetDateTime;
use time::macros::format_description;

/// The payload is not part of the signature.
pub const UNSIGNED_PAYLOAD: &str = "UNSIGNED-PAYLOAD";
/// The payload comes in signed chunks and ends in signed trailers.
pub const SIGNED_CHUNKS: &str = "STREAMING-AWS4-HMAC-SHA256-PAYLOAD-TRAILER";

/// Who signs, and for which region.
#[derive(Clone)]
pub struct Credentials {
    /// Access key.
    pub access_key: String,
    /// Secret key.
    pub secret_key: String,
    /// Region of the scope.
    pub region: String,
}

/// A secret never reaches a log by accident.
impl std::fmt::Debug for Credentials {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        formatter.debug_struct("Credentials").field("access_key", &self.access_key).finish_non_exhaustive()
    }
}

/// Signs requests to one host at one moment.
pub struct Signer {
    access_key: String,
    host: String,
    stamp: String,
    scope: String,
    /// Keyed once with the key of day, region and service; cloned for each signature.
    keyed: Hmac<Sha256>,
}

/// What is to be signed and sent.
pub struct Unsigned<'a> {
    /// HTTP method.
    pub method: &'a str,
    /// Canonical path.
    pub path: &'a str,
    /// Canonical query, empty without one.
    pub query: &'a str,
    /// Value of x-amz-content-sha256.
    pub payload: &'a str,
    /// Bytes that follow the head.
    pub content_length: u64,
    /// More headers to sign: names in lower case.
    pub headers: &'a [(&'a str, &'a str)],
}

impl Signer {
    /// A signer whose requests carry the time `now`.
    pub fn new(credentials: &Credentials, host: &str, now: OffsetDateTime) -> Signer {
        let stamp = now
            .format(format_description!("[year][month][day]T[hour][minute][second]Z"))
            .unwrap_or_else(|_| String::from("19700101T000000Z"));
        let day = stamp.split('T').next().unwrap_or_default();
        let mut key = format!("AWS4{}", credentials.secret_key).into_bytes();
        for part in [day, credentials.region.as_str(), "s3", "aws4_request"] {
            key = keyed(&key).chain_update(part).finalize().into_bytes().to_vec();
        }
        Signer {
            access_key: credentials.access_key.clone(),
            host: host.to_owned(),
            scope: format!("{day}/{}/s3/aws4_request", credentials.region),
            keyed: keyed(&key),
            stamp,
        }
    }

    /// The head of a request with its signature header, and the signature as hexadecimal text.
    pub fn sign(&self, request: &Unsigned<'_>) -> (Vec<u8>, String) {
        let mut headers: Vec<(&str, &str)> =
            vec![("host", &self.host), ("x-amz-content-sha256", request.payload), ("x-amz-date", &self.stamp)];
        headers.extend_from_slice(request.headers);
        headers.sort_unstable();
        let names = headers.iter().map(|(name, _)| *name).collect::<Vec<_>>().join(";");
        let lines: String = headers.iter().map(|(name, value)| format!("{name}:{value}\n")).collect();
        let Unsigned { method, path, query, payload, content_length, .. } = request;
        let canonical = format!("{method}\n{path}\n{query}\n{lines}\n{names}\n{payload}");
        let signature = self.signature(&format!(
            "AWS4-HMAC-SHA256\n{}\n{}\n{}",
            self.stamp,
            self.scope,
            hex::encode(Sha256::digest(canonical))
        ));
        let mark = if query.is_empty() { "" } else { "?" };
        let mut head = format!("{method} {path}{mark}{query} HTTP/1.1\r\n");
        for (name, value) in &headers {
            head.push_str(&format!("{name}: {value}\r\n"));
        }
        if *content_length > 0 || matches!(*method, "PUT" | "POST") {
            head.push_str(&format!("content-length: {content_length}\r\n"));
        }
        head.push_str(&format!(
            "authorization: AWS4-HMAC-SHA256 Credential={}/{}, SignedHeaders={names}, Signature={signature}\r\n\r\n",
            self.access_key, self.scope
        ));
        (head.into_bytes(), signature)
    }

    /// The signature of one chunk, given the one before and the hexadecimal SHA-256 of its bytes.
    pub fn chunk(&self, before: &str, digest: &str) -> String {
        self.signature(&format!(
            "AWS4-HMAC-SHA256-PAYLOAD\n{}\n{}\n{before}\n{}\n{digest}",
            self.stamp,
            self.scope,
            hex::encode(Sha256::digest(b""))
        ))
    }

    /// The signature of the trailers: `lines` are `name:value\n` each.
    pub fn trailer(&self, before: &str, lines: &str) -> String {
        self.signature(&format!(
            "AWS4-HMAC-SHA256-TRAILER\n{}\n{}\n{before}\n{}",
            self.stamp,
            self.scope,
            hex::encode(Sha256::digest(lines))
        ))
    }

    fn signature(&self, text: &str) -> String {
        hex::encode(self.keyed.clone().chain_update(text).finalize().into_bytes())
    }
}

fn keyed(key: &[u8]) -> Hmac<Sha256> {
    Hmac::new_from_slice(key).unwrap_or_else(|_| unreachable!("HMAC takes keys of any length"))
}

#[cfg(test)]
mod tests {
    use super::*;
    use time::macros::datetime;

    fn example() -> Signer {
        let credentials = Credentials {
            access_key: "AKIAIOSFODNN7EXAMPLE".into(),
            secret_key: "wJalrXUtnFEMI/K7MDENG/bPxRfiCYEXAMPLEKEY".into(),
            region: "us-east-1".into(),
        };
        Signer::new(&credentials, "examplebucket.s3.amazonaws.com", datetime!(2013-05-24 00:00:00 UTC))
    }

    const EMPTY: &str = "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855";

    /// The examples of the S3 reference ("Signature Calculations for the Authorization Header").
    #[test]
    fn header_signatures_are_those_of_the_reference() {
        let get = Unsigned {
            method: "GET",
            path: "/test.txt",
            query: "",
            payload: EMPTY,
            content_length: 0,
            headers: &[("range", "bytes=0-9")],
        };
        let (head, signature) = example().sign(&get);
        assert_eq!(signature, "f0e8bdb87c964420e857bd35b5d6ed310bd44f0170aba48dd91039c6036bdb41");
        let head = String::from_utf8(head).unwrap();
        assert!(head.starts_with("GET /test.txt HTTP/1.1\r\n") && head.ends_with("\r\n\r\n"), "{head}");
        assert!(!head.contains("content-length"));
        let list = Unsigned { path: "/", query: "max-keys=2&prefix=J", headers: &[], ..get };
        assert_eq!(example().sign(&list).1, "34b48302e7b5fa45bde8084f4b7868a86f0a534bc59db6670ed5711ef69dc6f7");
    }

    /// The example of the S3 reference for several chunks.
    #[test]
    fn chunk_signatures_are_those_of_the_reference() {
        let credentials = example();
        let seed = "4f232c4386841ef735655705268965c44a0e4690baa4adea153f7db9fa80a0a9";
        let full = hex::encode(Sha256::digest(vec![b'a'; 65536]));
        let first = credentials.chunk(seed, &full);
        assert_eq!(first, "ad80c730a21e5b8d04586a2213dd63b9a0e99e0e2307b0ade35a65485a288648");
        let second = credentials.chunk(&first, &hex::encode(Sha256::digest(vec![b'a'; 1024])));
        assert_eq!(second, "0055627c9e194cb4542bae2aa5492e3c1575bbb81b612b7d234b86a503ef5497");
        assert_eq!(
            credentials.chunk(&second, EMPTY),
            "b6c6ea8a5354eaf15b3cb7646744f4275b71ea724fed81ceb9323e279d449df9"
        );
    }

    #[test]
    fn secrets_are_not_printed() {
        let shown = format!(
            "{:?}",
            Credentials { access_key: "user".into(), secret_key: "hidden".into(), region: "us-east-1".into() }
        );
        assert!(shown.contains("user") && !shown.contains("hidden"), "{shown}");
    }
}
