//! Who signed a request: SigV4 in the header, in the query, and the start of it in chunks.
//!
//! The library below the doors checks signatures too, but takes signed headers that are missing, headers
//! that ask for something and are not signed, signature version 2 without a constant time comparison, and gathers
//! each chunk of a signed body in memory. So the check is done here, once, before the library sees the
//! request, with everything that belongs to the signature taken away.
//!
//! Invariants:
//! - Nothing but `Verifier::verify` makes a [`Verified`], which tells whose signature it was, or that there was none.
//! - A request without a signature is everybody's, and only where the store's switch for public access is on.
//! - Root is who signs with the key of this start. No key that the store keeps of root is taken beside it, so that
//!   one that was replaced opens nothing.
//! - `host` and every `x-amz-*` header must be signed; a request is signed by one mechanism.
//! - A presigned URL lives at most seven days; the clock of a signed request is at most fifteen minutes off.

pub mod canonical;
pub mod chunks;
pub mod claim;
mod signing;

use std::sync::Arc;

use http::request::Parts;
use koine_env::Clock;
use koine_object::{Caller, ErrorKind, Identities};
use s3s::{S3Error, S3ErrorCode};
use subtle::ConstantTimeEq;

use self::canonical::{PathForm, Signed, canonical_request, forms_differ};
use self::chunks::ChunkSigner;
use self::claim::{Claim, parse_amz_date};
pub use self::signing::{Secret, Sha256Digest};
use self::signing::{Signature, SigningKey, SigningKeys, sha256};
use crate::errors;
use crate::query::Query;

/// The longest life of a presigned URL, in seconds.
pub const PRESIGNED_SECONDS_MAX: i64 = 7 * 24 * 60 * 60;
/// The most that the clock of a signer may be off, in seconds.
pub const CLOCK_SKEW_SECONDS_MAX: i64 = 15 * 60;

/// The id of root among the users of a store.
const ROOT_ID: u64 = 0;

/// The root key of a store.
#[derive(Clone, Debug)]
pub struct Credentials {
    /// The access key.
    pub access: String,
    /// The secret.
    pub secret: Secret,
}

/// How the body of a request is covered by its signature.
#[derive(Debug)]
pub enum Payload {
    /// Not at all.
    Unsigned,
    /// By the hash of the whole.
    Whole(Sha256Digest),
    /// In chunks, signed or not, with trailers or not.
    Chunked {
        /// Checks the chunks' signatures.
        signer: Option<ChunkSigner>,
        /// Whether trailers follow.
        with_trailers: bool,
    },
}

/// A request whose signature is right, or that needs none.
#[derive(Debug)]
pub struct Verified {
    /// How its body is covered.
    pub payload: Payload,
    /// Whether the signature came in the query.
    pub presigned: bool,
    /// Who signed.
    pub caller: Caller,
}

/// Whose key a request names.
enum Signer {
    Root,
    User(Caller, Secret),
}

impl Signer {
    fn into_caller(self) -> Caller {
        match self {
            Signer::Root => Caller::Owner,
            Signer::User(caller, _) => caller,
        }
    }
}

/// Checks signatures against the root key of this start, and the access keys of users.
#[derive(Debug)]
pub struct Verifier {
    credentials: Credentials,
    users: Identities,
    region: Option<String>,
    clock: Arc<dyn Clock>,
    keys: SigningKeys,
}

fn denied(message: &'static str) -> S3Error {
    S3Error::with_message(S3ErrorCode::AccessDenied, message)
}

fn does_not_match() -> S3Error {
    let message = "The request signature we calculated does not match the signature you provided. \
                   Check your key and signing method.";
    S3Error::with_message(S3ErrorCode::SignatureDoesNotMatch, message)
}

/// The value of a header that may be there once, as text.
fn header<'a>(parts: &'a Parts, name: &str) -> Option<&'a str> {
    parts.headers.get(name).and_then(|value| value.to_str().ok())
}

impl Verifier {
    /// A verifier for root's key and those of users. Without a region every region in a signature is taken.
    pub fn new(credentials: Credentials, users: Identities, region: Option<String>, clock: Arc<dyn Clock>) -> Self {
        Verifier { credentials, users, region, clock, keys: SigningKeys::default() }
    }

    /// Checks a request's signature.
    pub fn verify(&self, parts: &Parts, query: &Query<'_>) -> Result<Verified, S3Error> {
        let in_query = query.has("X-Amz-Algorithm") || query.has("X-Amz-Signature") || query.has("X-Amz-Credential");
        let in_header = parts.headers.get("authorization");
        if query.has("Signature") && query.has("AWSAccessKeyId") {
            let message =
                "The authorization mechanism you have provided is not supported. Please use AWS4-HMAC-SHA256.";
            return Err(S3Error::with_message(S3ErrorCode::InvalidRequest, message));
        }
        if parts.headers.contains_key("x-amz-security-token") || query.has("X-Amz-Security-Token") {
            let message = "This store gives no session tokens. Sign with the access key and secret alone.";
            return Err(S3Error::with_message(S3ErrorCode::InvalidToken, message));
        }
        match (in_header, in_query) {
            (Some(_), true) => {
                let message = "Only one auth mechanism allowed; only the X-Amz-Algorithm query parameter or the \
                               Authorization header should be specified";
                Err(S3Error::with_message(S3ErrorCode::InvalidArgument, message))
            }
            (Some(value), false) => {
                let text = value.to_str().map_err(|_| denied("The authorization header is not text."))?;
                self.verify_header(parts, query, &Claim::from_header(text)?)
            }
            (None, true) => self.verify_query(parts, query, &Claim::from_query(query)?),
            (None, false) => self.anonymous(parts),
        }
    }

    /// A request without a signature is nobody's: the store decides what everybody may. Unless its switch for public
    /// access is on that is nothing, and no more is looked at.
    fn anonymous(&self, parts: &Parts) -> Result<Verified, S3Error> {
        if !self.users.public_access().map_err(errors::s3)? {
            return Err(denied("Access Denied. Sign the request: anonymous access is not allowed."));
        }
        let payload = match header(parts, "x-amz-content-sha256") {
            None | Some("UNSIGNED-PAYLOAD") => Payload::Unsigned,
            Some("STREAMING-UNSIGNED-PAYLOAD-TRAILER") => Payload::Chunked { signer: None, with_trailers: true },
            Some(text) => whole(text)?,
        };
        Ok(Verified { payload, presigned: false, caller: Caller::Everyone })
    }

    fn now_seconds(&self) -> i64 {
        i64::try_from(self.clock.now().seconds()).unwrap_or(i64::MAX)
    }

    fn verify_header(&self, parts: &Parts, query: &Query<'_>, claim: &Claim<'_>) -> Result<Verified, S3Error> {
        let by = self.signer(claim)?;
        let date = header(parts, "x-amz-date")
            .ok_or_else(|| denied("AWS authentication requires a valid x-amz-date header"))?;
        let seconds =
            parse_amz_date(date).ok_or_else(|| denied("AWS authentication requires a valid x-amz-date header"))?;
        if self.now_seconds().abs_diff(seconds) > CLOCK_SKEW_SECONDS_MAX as u64 {
            return Err(skewed());
        }
        check_signed_headers(parts, claim, false)?;
        let content = header(parts, "x-amz-content-sha256").ok_or_else(|| {
            S3Error::with_message(
                S3ErrorCode::InvalidRequest,
                "Missing required header for this request: x-amz-content-sha256",
            )
        })?;
        let key = self.check_signature(&by, (parts, query), claim, date, content)?;
        let payload = match content {
            "UNSIGNED-PAYLOAD" => Payload::Unsigned,
            "STREAMING-UNSIGNED-PAYLOAD-TRAILER" => Payload::Chunked { signer: None, with_trailers: true },
            "STREAMING-AWS4-HMAC-SHA256-PAYLOAD" | "STREAMING-AWS4-HMAC-SHA256-PAYLOAD-TRAILER" => {
                let scope = format!("{date}\n{}/{}/s3/aws4_request\n", claim.day, claim.region);
                let signer = ChunkSigner::new(key, scope, &claim.signature);
                Payload::Chunked { signer: Some(signer), with_trailers: content.ends_with("-TRAILER") }
            }
            _ => whole(content)?,
        };
        Ok(Verified { payload, presigned: false, caller: by.into_caller() })
    }

    fn verify_query(&self, parts: &Parts, query: &Query<'_>, claim: &Claim<'_>) -> Result<Verified, S3Error> {
        let by = self.signer(claim)?;
        let parameters = |message| S3Error::with_message(S3ErrorCode::AuthorizationQueryParametersError, message);
        let date = query.get("X-Amz-Date").unwrap_or_default();
        let seconds = parse_amz_date(date)
            .ok_or_else(|| parameters("X-Amz-Date must be in the ISO8601 Long Format \"yyyyMMdd'T'HHmmss'Z'\""))?;
        let life: i64 = query
            .get("X-Amz-Expires")
            .and_then(|text| text.parse().ok())
            .ok_or_else(|| parameters("X-Amz-Expires should be a number"))?;
        if life < 0 {
            return Err(parameters("X-Amz-Expires must be non-negative"));
        }
        if life > PRESIGNED_SECONDS_MAX {
            return Err(parameters(
                "X-Amz-Expires must be less than a week (in seconds); that is, the given X-Amz-Expires must be less than 604800 seconds",
            ));
        }
        let now = self.now_seconds();
        if seconds > now.saturating_add(CLOCK_SKEW_SECONDS_MAX) {
            return Err(skewed());
        }
        if now > seconds.saturating_add(life) {
            return Err(denied("Request has expired"));
        }
        check_signed_headers(parts, claim, true)?;
        // A client may say what the body's hash is; the URL itself was signed without knowing it, unless
        // the header is one of those that are signed.
        let content = header(parts, "x-amz-content-sha256");
        let payload = match content {
            None | Some("UNSIGNED-PAYLOAD") => Payload::Unsigned,
            Some(text) if text.starts_with("STREAMING-") => {
                let message = "A presigned URL takes its body plain, not in chunks.";
                return Err(S3Error::with_message(S3ErrorCode::NotImplemented, message));
            }
            Some(text) => whole(text)?,
        };
        let signed_hash = content.filter(|_| claim.signed_headers.contains(&"x-amz-content-sha256"));
        self.check_signature(&by, (parts, query), claim, date, signed_hash.unwrap_or("UNSIGNED-PAYLOAD"))?;
        Ok(Verified { payload, presigned: true, caller: by.into_caller() })
    }

    /// Finds the key that a request names.
    fn signer(&self, claim: &Claim<'_>) -> Result<Signer, S3Error> {
        let signer = match bool::from(claim.access_key.as_bytes().ct_eq(self.credentials.access.as_bytes())) {
            true => Signer::Root,
            false => self.user(claim.access_key)?,
        };
        match &self.region {
            Some(region) if claim.region != region => {
                let message = format!("The region '{}' is wrong; expecting '{region}'", claim.region);
                Err(S3Error::with_message(S3ErrorCode::AuthorizationHeaderMalformed, message))
            }
            _ => Ok(signer),
        }
    }

    fn user(&self, access_key: &str) -> Result<Signer, S3Error> {
        let unknown = || {
            let message = "The AWS Access Key Id you provided does not exist in our records.";
            S3Error::with_message(S3ErrorCode::InvalidAccessKeyId, message)
        };
        match self.users.by_access_key(access_key) {
            Ok((Caller::User(identity), _)) if identity.user() == ROOT_ID => Err(unknown()),
            Ok((caller, secret)) => Ok(Signer::User(caller, Secret::new(secret.expose()))),
            Err(error) if error.kind() == ErrorKind::NoSuchAccessKey => Err(unknown()),
            // It names files of the server, which are told there.
            Err(error) if error.kind() == ErrorKind::AccessDenied => {
                tracing::error!(access_key, %error, "a secret cannot be opened");
                Err(denied("Access Denied. The secret of this access key cannot be opened; the server's log says why."))
            }
            Err(error) => Err(errors::s3(error)),
        }
    }

    fn check_signature(
        &self,
        by: &Signer,
        (parts, query): (&Parts, &Query<'_>),
        claim: &Claim<'_>,
        date: &str,
        payload: &str,
    ) -> Result<SigningKey, S3Error> {
        if date.get(..8) != Some(claim.day) {
            return Err(does_not_match());
        }
        let key = match by {
            Signer::Root => self.keys.get(&self.credentials.secret, claim.day, claim.region),
            // Nothing is kept of it: the next request may come when the key was taken back.
            Signer::User(_, secret) => SigningKey::derive(secret, claim.day, claim.region),
        };
        let signed = Signed { headers: &claim.signed_headers, payload, skip_signature: true };
        let signature_of = |form| -> Result<Signature, S3Error> {
            let canonical = canonical_request(parts, query, form, &signed).ok_or_else(does_not_match)?;
            let hash = hex::encode(sha256(&canonical));
            let (day, region) = (claim.day, claim.region);
            let string = format!("AWS4-HMAC-SHA256\n{date}\n{day}/{region}/s3/aws4_request\n{hash}");
            Ok(key.sign(string.as_bytes()))
        };
        if signature_of(PathForm::Encoded)?.matches(&claim.signature) {
            return Ok(key);
        }
        if forms_differ(parts.uri.path()) && signature_of(PathForm::AsSent)?.matches(&claim.signature) {
            return Ok(key);
        }
        Err(does_not_match())
    }
}

fn skewed() -> S3Error {
    let message = "The difference between the request time and the current time is too large.";
    S3Error::with_message(S3ErrorCode::RequestTimeTooSkewed, message)
}

fn whole(text: &str) -> Result<Payload, S3Error> {
    let mut digest = Sha256Digest::default();
    hex::decode_to_slice(text, &mut digest).map_err(|_| {
        let message = "x-amz-content-sha256 must be UNSIGNED-PAYLOAD, STREAMING-UNSIGNED-PAYLOAD-TRAILER, \
                       STREAMING-AWS4-HMAC-SHA256-PAYLOAD, STREAMING-AWS4-HMAC-SHA256-PAYLOAD-TRAILER, or a valid sha256 value.";
        S3Error::with_message(S3ErrorCode::InvalidArgument, message)
    })?;
    Ok(Payload::Whole(digest))
}

/// Everything that asks S3 for something is covered by the signature.
fn check_signed_headers(parts: &Parts, claim: &Claim<'_>, presigned: bool) -> Result<(), S3Error> {
    let signed = |name: &str| claim.signed_headers.contains(&name);
    if !signed("host") {
        return Err(denied("There were headers present in the request which were not signed: host"));
    }
    for name in parts.headers.keys() {
        let name = name.as_str();
        // The hash of a presigned request's body is checked against the body itself.
        let exempt = presigned && name == "x-amz-content-sha256";
        if name.starts_with("x-amz-") && !exempt && !signed(name) {
            return Err(denied("There were headers present in the request which were not signed"));
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests;
