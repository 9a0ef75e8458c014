//! What a request claims about who signed it: the `Authorization` header, or the query of a presigned URL.
//!
//! Invariants:
//! - A claim is only text that was read; nothing of it is trusted before `verify`.

use s3s::{S3Error, S3ErrorCode};

use super::signing::Signature;
use crate::query::Query;

/// A signature, and what it was made with.
#[derive(Debug)]
pub struct Claim<'a> {
    /// The access key.
    pub access_key: &'a str,
    /// The day of the scope, `YYYYMMDD`.
    pub day: &'a str,
    /// The region of the scope.
    pub region: &'a str,
    /// The names of the signed headers, in their order.
    pub signed_headers: Vec<&'a str>,
    /// The signature.
    pub signature: Signature,
}

impl std::fmt::Debug for Signature {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        // The signature of a presigned URL is as good as a key until it expires.
        f.write_str("Signature(..)")
    }
}

fn malformed(message: &'static str) -> S3Error {
    S3Error::with_message(S3ErrorCode::AuthorizationHeaderMalformed, message)
}

fn parameters(message: &'static str) -> S3Error {
    S3Error::with_message(S3ErrorCode::AuthorizationQueryParametersError, message)
}

type Scope<'a> = (&'a str, &'a str, &'a str);

/// `<access key>/<day>/<region>/s3/aws4_request`; an access key may hold slashes.
fn parse_scope(text: &str) -> Option<Scope<'_>> {
    let mut fields = text.rsplitn(5, '/');
    let (terminal, service) = (fields.next()?, fields.next()?);
    let (region, day, access_key) = (fields.next()?, fields.next()?, fields.next()?);
    let sound = terminal == "aws4_request" && service == "s3" && day.len() == 8 && !region.is_empty();
    (sound && day.bytes().all(|byte| byte.is_ascii_digit()) && !access_key.is_empty())
        .then_some((access_key, day, region))
}

fn parse_signed_headers(text: &str) -> Option<Vec<&str>> {
    let names: Vec<_> = text.split(';').collect();
    let sound = |name: &&str| {
        !name.is_empty()
            && name.bytes().all(|byte| byte.is_ascii_graphic() && !byte.is_ascii_uppercase() && byte != b':')
    };
    names.iter().all(sound).then_some(names)
}

impl<'a> Claim<'a> {
    /// Reads an `Authorization` header.
    pub fn from_header(text: &'a str) -> Result<Self, S3Error> {
        let Some(fields) = text.strip_prefix("AWS4-HMAC-SHA256") else {
            let message =
                "The authorization mechanism you have provided is not supported. Please use AWS4-HMAC-SHA256.";
            return Err(S3Error::with_message(S3ErrorCode::InvalidRequest, message));
        };
        let (mut scope, mut signed_headers, mut signature) = (None, None, None);
        for field in fields.split(',') {
            match field.trim().split_once('=') {
                Some(("Credential", value)) => scope = Some(value),
                Some(("SignedHeaders", value)) => signed_headers = Some(value),
                Some(("Signature", value)) => signature = Some(value),
                _ => return Err(malformed("The authorization header is malformed.")),
            }
        }
        let scope = scope.and_then(parse_scope).ok_or_else(|| {
            malformed("The Credential of the authorization header is malformed; expected KEY/YYYYMMDD/REGION/s3/aws4_request.")
        })?;
        let signed_headers = signed_headers
            .and_then(parse_signed_headers)
            .ok_or_else(|| malformed("The SignedHeaders of the authorization header are missing or malformed."))?;
        let signature = signature.ok_or_else(|| malformed("The authorization header has no Signature."))?;
        Claim::new(scope, signed_headers, signature)
    }

    /// Reads the query of a presigned URL.
    pub fn from_query(query: &'a Query<'_>) -> Result<Self, S3Error> {
        if query.get("X-Amz-Algorithm") != Some("AWS4-HMAC-SHA256") {
            return Err(parameters("X-Amz-Algorithm only supports \"AWS4-HMAC-SHA256\""));
        }
        let scope = query.get("X-Amz-Credential").and_then(parse_scope).ok_or_else(|| {
            parameters("Error parsing the X-Amz-Credential parameter; expected KEY/YYYYMMDD/REGION/s3/aws4_request.")
        })?;
        let signed_headers = query
            .get("X-Amz-SignedHeaders")
            .and_then(parse_signed_headers)
            .ok_or_else(|| parameters("X-Amz-SignedHeaders is missing or malformed."))?;
        let signature = query
            .get("X-Amz-Signature")
            .ok_or_else(|| S3Error::with_message(S3ErrorCode::AccessDenied, "X-Amz-Signature is missing."))?;
        Claim::new(scope, signed_headers, signature)
    }

    fn new(scope: Scope<'a>, signed_headers: Vec<&'a str>, signature: &str) -> Result<Self, S3Error> {
        let (access_key, day, region) = scope;
        // A signature of another form is a wrong one.
        let signature = Signature::parse(signature.as_bytes()).ok_or_else(super::does_not_match)?;
        Ok(Claim { access_key, day, region, signed_headers, signature })
    }
}

/// Seconds since 1970 of `YYYYMMDDTHHMMSSZ`.
pub fn parse_amz_date(text: &str) -> Option<i64> {
    let format = time::macros::format_description!("[year][month][day]T[hour][minute][second]Z");
    let date = time::PrimitiveDateTime::parse(text, format).ok()?;
    Some(date.assume_utc().unix_timestamp())
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn a_header() {
        let signature = "a".repeat(64);
        let text = format!(
            "AWS4-HMAC-SHA256 Credential=my/key/20260102/eu-west-1/s3/aws4_request,SignedHeaders=host;x-amz-date, Signature={signature}"
        );
        let claim = Claim::from_header(&text).unwrap();
        assert_eq!((claim.access_key, claim.day, claim.region), ("my/key", "20260102", "eu-west-1"));
        assert_eq!(claim.signed_headers, ["host", "x-amz-date"]);
    }

    #[test]
    fn another_service_or_algorithm_is_refused() {
        let text = format!(
            "AWS4-HMAC-SHA256 Credential=k/20260102/r/sts/aws4_request, SignedHeaders=host, Signature={}",
            "a".repeat(64)
        );
        assert_eq!(Claim::from_header(&text).unwrap_err().code(), &S3ErrorCode::AuthorizationHeaderMalformed);
        assert_eq!(Claim::from_header("AWS key:signature").unwrap_err().code(), &S3ErrorCode::InvalidRequest);
    }

    #[test]
    fn dates() {
        assert_eq!(parse_amz_date("20130524T000000Z"), Some(1_369_353_600));
        for bad in ["", "20130524", "20131324T000000Z", "20130524T000000", "2013-05-24T00:00:00Z"] {
            assert_eq!(parse_amz_date(bad), None, "{bad}");
        }
    }

    proptest! {
        #[test]
        fn any_text_is_read_or_refused(text in ".{0,300}") {
            let _ = Claim::from_header(&text);
            let _ = Claim::from_header(&format!("AWS4-HMAC-SHA256 {text}"));
            let _ = Claim::from_query(&Query::parse(Some(&text)).unwrap_or_default());
            let _ = parse_amz_date(&text);
        }
    }
}
