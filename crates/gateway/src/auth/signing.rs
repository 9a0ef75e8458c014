//! Signing keys and signatures of SigV4.
//!
//! Invariants:
//! - A secret is never printed: neither [`Secret`] nor a key derived from it shows its bytes.
//! - Signatures are compared in constant time, whatever mode they come in.
//! - The key of the last credential scope is kept, so that a request costs one keyed hash, not five.

use std::fmt;
use std::sync::Mutex;

use hmac::{Hmac, Mac};
use sha2::{Digest, Sha256};
use subtle::ConstantTimeEq;

type HmacSha256 = Hmac<Sha256>;

/// A secret access key.
#[derive(Clone)]
pub struct Secret(Box<str>);

impl Secret {
    /// Wraps a secret.
    pub fn new(secret: impl Into<Box<str>>) -> Self {
        Secret(secret.into())
    }
}

impl fmt::Debug for Secret {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Secret(..)")
    }
}

/// A SHA-256 digest.
pub type Sha256Digest = [u8; 32];

/// The SHA-256 of some bytes.
pub fn sha256(bytes: &[u8]) -> Sha256Digest {
    Sha256::digest(bytes).into()
}

/// The signature of one string: 64 hexadecimal digits, lower case.
#[derive(Clone, Copy)]
pub struct Signature([u8; 64]);

impl Signature {
    /// Reads what a client sent; `None` unless it is 64 lower case hexadecimal digits.
    pub fn parse(text: &[u8]) -> Option<Self> {
        let digits: [u8; 64] = text.try_into().ok()?;
        digits.iter().all(|digit| matches!(digit, b'0'..=b'9' | b'a'..=b'f')).then_some(Signature(digits))
    }

    /// Whether two signatures are the same, in time that does not depend on where they differ.
    pub fn matches(&self, other: &Signature) -> bool {
        self.0.ct_eq(&other.0).into()
    }

    /// The digits.
    pub fn as_bytes(&self) -> &[u8] {
        &self.0
    }
}

/// The key of one credential scope (day, region, service), ready to sign.
#[derive(Clone)]
pub struct SigningKey(HmacSha256);

impl fmt::Debug for SigningKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("SigningKey(..)")
    }
}

fn keyed(key: &[u8]) -> HmacSha256 {
    // HMAC takes keys of every length; the error type is there for other constructions.
    HmacSha256::new_from_slice(key).unwrap_or_else(|_| HmacSha256::new(&Default::default()))
}

fn hmac(key: &[u8], message: &[u8]) -> [u8; 32] {
    keyed(key).chain_update(message).finalize().into_bytes().into()
}

impl SigningKey {
    /// Derives the key of a scope.
    pub fn derive(secret: &Secret, day: &str, region: &str) -> Self {
        let start = [b"AWS4", secret.0.as_bytes()].concat();
        let key = hmac(&hmac(&hmac(&start, day.as_bytes()), region.as_bytes()), b"s3");
        SigningKey(keyed(&hmac(&key, b"aws4_request")))
    }

    /// Signs a string.
    pub fn sign(&self, string_to_sign: &[u8]) -> Signature {
        let digest = self.0.clone().chain_update(string_to_sign).finalize().into_bytes();
        let mut digits = [0; 64];
        // 32 bytes always fit 64 digits.
        let _ = hex::encode_to_slice(digest, &mut digits);
        Signature(digits)
    }
}

#[derive(Debug)]
struct CachedKey {
    day: String,
    region: String,
    key: SigningKey,
}

/// The last key that was derived: clients sign a whole day with the same one.
#[derive(Debug, Default)]
pub struct SigningKeys {
    last: Mutex<Option<CachedKey>>,
}

impl SigningKeys {
    /// The key of a scope, derived only when the scope is another one than last time.
    pub fn get(&self, secret: &Secret, day: &str, region: &str) -> SigningKey {
        let mut last = self.last.lock().unwrap_or_else(|poisoned| poisoned.into_inner());
        if let Some(kept) = last.as_ref()
            && kept.day == day
            && kept.region == region
        {
            return kept.key.clone();
        }
        let key = SigningKey::derive(secret, day, region);
        *last = Some(CachedKey { day: day.to_owned(), region: region.to_owned(), key: key.clone() });
        key
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn signs_the_published_example() {
        // "Example: GET Object" of the S3 reference on signature calculations in the Authorization header.
        let secret = Secret::new("wJalrXUtnFEMI/K7MDENG/bPxRfiCYEXAMPLEKEY");
        let string = "AWS4-HMAC-SHA256\n20130524T000000Z\n20130524/us-east-1/s3/aws4_request\n\
                      7344ae5b7ee6c3e7e6b0fe0640412a37625d1fbfff95c48bbb2dc43964946972";
        let key = SigningKeys::default().get(&secret, "20130524", "us-east-1");
        let expected = b"f0e8bdb87c964420e857bd35b5d6ed310bd44f0170aba48dd91039c6036bdb41";
        assert_eq!(key.sign(string.as_bytes()).as_bytes(), expected);
    }

    #[test]
    fn another_scope_gets_another_key() {
        let keys = SigningKeys::default();
        let secret = Secret::new("secret");
        let one = keys.get(&secret, "20260101", "us-east-1").sign(b"x");
        assert!(one.matches(&keys.get(&secret, "20260101", "us-east-1").sign(b"x")));
        assert!(!one.matches(&keys.get(&secret, "20260102", "us-east-1").sign(b"x")));
        assert!(!one.matches(&keys.get(&secret, "20260102", "eu-west-1").sign(b"x")));
        assert!(!keys.get(&secret, "20260101", "eu-west-1").sign(b"x").matches(&one));
    }

    #[test]
    fn secrets_are_not_printed() {
        let secret = Secret::new("hidden-value");
        let key = SigningKey::derive(&secret, "20260101", "us-east-1");
        assert!(!format!("{secret:?} {key:?}").contains("hidden"));
    }

    #[test]
    fn signatures_are_64_hexadecimal_digits() {
        assert!(Signature::parse(&[b'a'; 64]).is_some());
        assert!(Signature::parse(&[b'a'; 63]).is_none());
        assert!(Signature::parse(&[b'G'; 64]).is_none());
        assert!(Signature::parse(b"").is_none());
    }
}
