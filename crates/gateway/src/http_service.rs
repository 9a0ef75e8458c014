//! One request from its head to its answer: who signed it, what it is, what its body is, and then the library.
//!
//! Invariants:
//! - The library below is reached through `HttpService::answer` only, after the signature was found right; what belongs
//!   to the signature has been taken off the request, so the library neither checks nor logs it.
//! - The library never sees the body of an object: the call takes it from [`RawRequest`]. Every other body is gathered and
//!   checked before.
//! - What is logged of a refusal is its code, the peer, the method and the path: no signature, no query, no header.

use std::borrow::Cow;
use std::collections::hash_map::RandomState;
use std::hash::BuildHasher;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use http::request::Parts;
use http::{HeaderMap, HeaderName, HeaderValue, Method, Request, Response, StatusCode, Uri};
use http_body::Body as _;
use hyper::body::Incoming;
use koine_object::Objects;
use s3s::service::S3Service;
use s3s::{Body, S3Error, S3ErrorCode};

use crate::admission::{FairLimiter, Tenant};
use crate::amz_headers;
use crate::auth::chunks::ChunkDecoder;
use crate::auth::{Payload, Verified, Verifier};
use crate::body::{BodyExpectation, IncomingBody};
use crate::connections::Connection;
use crate::errors::{self, MALFORMED_XML};
use crate::limits::{BODY_LEN_MAX, Limits, SMALL_BODY_LEN_MAX};
use crate::preauthorize;
use crate::query::Query;
use crate::request::{RawRequest, Requester};
use crate::route::{self, BodyKind};
use crate::s3::checksums;
use crate::s3::document::{NO_PARTS, ResponseOverride};

/// Headers that belong to the signature. The library does not see them.
const OF_SIGNATURE: [&str; 4] = ["authorization", "x-amz-content-sha256", "x-amz-date", "x-amz-decoded-content-length"];

/// The headers that the library needs of a request for an object: they pick the call, or are part of its name.
const NEEDED_BELOW: [HeaderName; 2] =
    [HeaderName::from_static("x-amz-copy-source"), HeaderName::from_static("x-amz-object-attributes")];

/// The parameter that says what `Expires` is told as.
const EXPIRES: &str = "response-expires";

/// The HTTP service: it authenticates a request and checks its head and body before the S3 service answers it.
pub struct HttpService {
    objects: Objects,
    verifier: Verifier,
    s3: S3Service,
    limits: Limits,
    documents: Arc<FairLimiter>,
    /// Request ids differ between starts by this, and within one by a counter.
    id_start: u64,
    id_next: AtomicU64,
}

impl std::fmt::Debug for HttpService {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("HttpService").field("limits", &self.limits).finish_non_exhaustive()
    }
}

impl HttpService {
    /// A service over these objects; `s3` answers what it lets through.
    pub fn new(objects: Objects, verifier: Verifier, s3: S3Service, limits: Limits) -> Self {
        let id_start = RandomState::new().hash_one("request ids");
        let documents = FairLimiter::new(limits.documents_in_flight_max);
        HttpService { objects, verifier, s3, limits, documents, id_start, id_next: AtomicU64::new(0) }
    }

    /// The limits in force.
    pub fn limits(&self) -> &Limits {
        &self.limits
    }

    /// Answers one request. An error ends the connection.
    pub async fn answer(
        &self,
        request: Request<Incoming>,
        connection: &Connection,
    ) -> Result<Response<Body>, s3s::HttpError> {
        let peer = connection.peer();
        let id = self.id_start.wrapping_add(self.id_next.fetch_add(1, Ordering::Relaxed).rotate_right(20));
        let (parts, frames) = request.into_parts();
        let (method, path) = (parts.method.clone(), parts.uri.clone());
        let mut response = match self.admit(parts, frames, connection).await {
            Ok(request) => finish(self.s3.call(request).await?),
            Err(error) => {
                let status = error.status_code().unwrap_or(StatusCode::BAD_REQUEST);
                let code = error.code().as_str();
                tracing::warn!(%peer, %method, path = path.path(), code, status = status.as_u16(), "request refused");
                refusal(error, id)?
            }
        };
        let headers = response.headers_mut();
        if let Ok(value) = HeaderValue::from_str(&format!("{id:016X}")) {
            headers.insert(HeaderName::from_static("x-amz-request-id"), value);
        }
        headers.insert(http::header::SERVER, HeaderValue::from_static("Koine"));
        Ok(response)
    }

    /// Everything that is checked before the library sees a request.
    async fn admit(
        &self,
        mut parts: Parts,
        frames: Incoming,
        connection: &Connection,
    ) -> Result<Request<Body>, S3Error> {
        if head_len(&parts) > self.limits.head_len_max {
            let message = "Your request header and query parameters exceed the maximum allowed size.";
            return Err(S3Error::with_message(S3ErrorCode::RequestHeaderSectionTooLarge, message));
        }
        let target = parts.uri.clone();
        let mut query = Query::parse(target.query())
            .map_err(|error| S3Error::with_message(S3ErrorCode::InvalidURI, error.to_string()))?;
        let Verified { payload, presigned, caller } = self.verifier.verify(&parts, &query)?;
        let mut requester = Requester::new(caller, connection.peer(), &parts.headers, presigned);
        if connection.is_reserved() && requester.tenant() != Tenant::Root {
            return Err(busy());
        }
        if !matches!(requester.tenant(), Tenant::Anonymous(_)) {
            connection.prove();
        }
        if presigned {
            take_headers_from_query(&query, &mut parts.headers)?;
            query.retain(|name| !belongs_to_signature(name));
            parts.uri = without(&target, belongs_to_signature)?;
        }
        let expires = query.get(EXPIRES).map(str::to_owned);
        if expires.is_some() {
            parts.uri = without(&parts.uri, |pair| pair.split('=').next() == Some(EXPIRES))?;
        }
        let route = route::resolve(&parts.method, target.path(), &query, &parts.headers)?;
        amz_headers::check(&parts.headers, route.supported)?;
        requester.expect_owners(amz_headers::expected_owners(&parts.headers, target.path()));
        let (tenant, narrowed) = (requester.tenant(), requester.of(&self.objects));
        parts.extensions.insert(requester);
        refuse_form(&parts)?;
        let expectation = expectation(&parts, payload, frames.size_hint().exact())?;
        let body = IncomingBody::new(frames, expectation, &self.limits);
        // With an upload's id the checksum headers tell of the object that its parts make, not of this body.
        let completes = parts.method == Method::POST && query.has("uploadId");
        let (mut document, data) = match route.body {
            BodyKind::Data => (bytes::Bytes::new(), Some(body)),
            BodyKind::Document => {
                if let (Some(objects), true) = (&narrowed, body.length() != Some(0)) {
                    preauthorize::check(objects, &parts.method, target.path(), &query)?;
                }
                (self.gather(&parts.headers, query.has("uploadId"), tenant, body).await?, None)
            }
        };
        if route.names_object {
            let mut below = HeaderMap::new();
            for name in NEEDED_BELOW {
                for value in parts.headers.get_all(&name) {
                    below.append(&name, value.clone());
                }
            }
            let sent = std::mem::replace(&mut parts.headers, below);
            parts.extensions.insert(RawRequest::new(sent, data, document.clone(), expires));
            if completes {
                document = bytes::Bytes::from_static(NO_PARTS);
            }
        } else {
            parts.extensions.insert(RawRequest::new(parts.headers.clone(), None, document.clone(), None));
            OF_SIGNATURE.iter().for_each(|name| drop(parts.headers.remove(*name)));
        }
        // The library compares the length of a document with this header.
        parts.headers.insert(http::header::CONTENT_LENGTH, HeaderValue::from(document.len()));
        Ok(Request::from_parts(parts, Body::from(document)))
    }

    /// A body that is not an object's, whole and with the digests that its headers promise.
    async fn gather(
        &self,
        headers: &HeaderMap,
        of_object: bool,
        tenant: Tenant,
        mut body: IncomingBody,
    ) -> Result<bytes::Bytes, S3Error> {
        if body.length() == Some(0) {
            // Nothing to wait for, but what was promised of nothing must hold too.
            body.next().await?;
            return Ok(bytes::Bytes::new());
        }
        let small = body.length().is_some_and(|length| length <= SMALL_BODY_LEN_MAX);
        let _place = if small { None } else { Some(self.documents.try_acquire(tenant).ok_or_else(busy)?) };
        let document = body.collect(self.limits.xml_len_max).await?;
        let expected = if of_object { checksums::md5_expected(headers) } else { checksums::expected(headers) };
        let mut expected = expected?;
        // Trailers are of the body that they follow.
        expected.checksums.extend(checksums::in_trailers(headers, body.trailers())?.checksums);
        expected.verify(&document).map_err(errors::s3)?;
        Ok(document)
    }
}

/// The answer of the library, with what a call made in place of it.
fn finish(mut response: Response<Body>) -> Response<Body> {
    let instead = response.extensions_mut().remove::<ResponseOverride>().unwrap_or_default();
    if let Some(status) = instead.status {
        *response.status_mut() = status;
    }
    if let Some(document) = instead.body {
        *response.body_mut() = Body::from(document);
    }
    if response.status() == StatusCode::BAD_REQUEST
        && let Some(explained) = response.body().bytes().and_then(|body| explain(&body))
    {
        response.headers_mut().remove(http::header::CONTENT_LENGTH);
        *response.body_mut() = Body::from(explained);
    }
    response
}

/// A refusal of a document or a name by the library says no more than its code.
fn explain(body: &[u8]) -> Option<bytes::Bytes> {
    let text = std::str::from_utf8(body).ok().filter(|text| !text.contains("<Message>"))?;
    let words = [("MalformedXML", MALFORMED_XML), ("InvalidBucketName", "The specified bucket is not valid.")];
    words.into_iter().find_map(|(code, words)| {
        let code = format!("<Code>{code}</Code>");
        text.contains(&code).then(|| text.replacen(&code, &format!("{code}<Message>{words}</Message>"), 1).into())
    })
}

fn busy() -> S3Error {
    S3Error::with_message(S3ErrorCode::SlowDown, "Please reduce your request rate.")
}

fn head_len(parts: &Parts) -> usize {
    let target = parts.uri.path().len() + parts.uri.query().map_or(0, str::len);
    let headers = parts.headers.iter().map(|(name, value)| name.as_str().len() + value.len() + 4);
    target + headers.sum::<usize>()
}

fn refusal(mut error: S3Error, id: u64) -> Result<Response<Body>, s3s::HttpError> {
    error.set_request_id(format!("{id:016X}"));
    error.to_http_response().map_err(|error| s3s::HttpError::new(Box::new(error)))
}

/// Whether a parameter of a presigned URL says who signed it, or stands for a header.
fn belongs_to_signature(name: &str) -> bool {
    name.get(..6).is_some_and(|start| start.eq_ignore_ascii_case("x-amz-"))
}

/// Presigning moves headers into the query; they ask for the same there.
fn take_headers_from_query(query: &Query<'_>, headers: &mut HeaderMap) -> Result<(), S3Error> {
    const SIGNATURE: &[&str] =
        &["algorithm", "credential", "date", "expires", "signedheaders", "signature", "content-sha256"];
    let invalid = |_| S3Error::with_message(S3ErrorCode::InvalidArgument, "A header in the query is malformed.");
    for (name, value) in query.pairs().filter(|pair| belongs_to_signature(pair.0)) {
        let name = name.to_ascii_lowercase();
        if name.strip_prefix("x-amz-").is_some_and(|rest| SIGNATURE.contains(&rest)) {
            continue;
        }
        let name = HeaderName::try_from(name).map_err(|error| invalid(error.to_string()))?;
        let value = HeaderValue::try_from(value).map_err(|error| invalid(error.to_string()))?;
        headers.entry(name).or_insert(value);
    }
    Ok(())
}

/// A target without some pairs of its query.
fn without(target: &Uri, goes: impl Fn(&str) -> bool) -> Result<Uri, S3Error> {
    let kept: Vec<&str> = target.query().unwrap_or_default().split('&').filter(|pair| !goes(pair)).collect();
    let text: Cow<'_, str> =
        if kept.is_empty() { target.path().into() } else { format!("{}?{}", target.path(), kept.join("&")).into() };
    text.parse().map_err(|_| S3Error::with_message(S3ErrorCode::InvalidURI, "The specified URI couldn't be parsed."))
}

/// Uploads by HTML form are another protocol; the library would gather them in memory.
fn refuse_form(parts: &Parts) -> Result<(), S3Error> {
    let form =
        parts.headers.get(http::header::CONTENT_TYPE).and_then(|value| value.to_str().ok()).is_some_and(|kind| {
            kind.trim_start().get(..19).is_some_and(|start| start.eq_ignore_ascii_case("multipart/form-data"))
        });
    if form && parts.method == Method::POST {
        return Err(S3Error::with_message(S3ErrorCode::NotImplemented, "Uploads by HTML form are not implemented."));
    }
    Ok(())
}

/// What the head says of the body.
fn expectation(parts: &Parts, payload: Payload, content_len: Option<u64>) -> Result<BodyExpectation, S3Error> {
    let missing =
        || S3Error::with_message(S3ErrorCode::MissingContentLength, "You must provide the Content-Length HTTP header.");
    let expectation = match payload {
        Payload::Chunked { signer, with_trailers } => {
            let text = parts.headers.get("x-amz-decoded-content-length").ok_or_else(missing)?;
            let length: u64 = text.to_str().ok().and_then(|text| text.parse().ok()).ok_or_else(|| {
                S3Error::with_message(S3ErrorCode::InvalidArgument, "x-amz-decoded-content-length is not a number.")
            })?;
            let announced = if with_trailers { Some(announced_trailers(&parts.headers)?) } else { None };
            let decoder = ChunkDecoder::new(signer, announced, length);
            BodyExpectation { decoder: Some(decoder), sha256: None, length: Some(length) }
        }
        Payload::Whole(digest) => BodyExpectation { decoder: None, sha256: Some(digest), length: content_len },
        Payload::Unsigned => BodyExpectation { decoder: None, sha256: None, length: content_len },
    };
    match expectation.length {
        None if matches!(parts.method, Method::PUT | Method::POST) => Err(missing()),
        Some(length) if length > BODY_LEN_MAX => {
            let message = "Your proposed upload exceeds the maximum allowed object size.";
            Err(S3Error::with_message(S3ErrorCode::EntityTooLarge, message))
        }
        _ => Ok(expectation),
    }
}

/// The names of the trailers that a head announces, in lower case.
fn announced_trailers(headers: &HeaderMap) -> Result<Vec<String>, S3Error> {
    let mut values = headers.get_all("x-amz-trailer").iter();
    let (Some(names), None) = (values.next().and_then(|names| names.to_str().ok()), values.next()) else {
        let message = "x-amz-trailer is missing or given twice: it must name the trailers that follow the body.";
        return Err(S3Error::with_message(S3ErrorCode::InvalidRequest, message));
    };
    Ok(names.split(',').map(|name| name.trim().to_ascii_lowercase()).collect())
}
