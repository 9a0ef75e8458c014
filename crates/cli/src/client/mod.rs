//! A small S3 client over HTTP: what the commands on objects need, and no more.
//!
//! Invariants:
//! - Every body is signed (SHA-256) and in memory; large objects travel in parts, so memory is bounded.
//! - A call that may have been lost on the way is sent again, at most three times; nothing else is.
//! - No TLS yet: an `https` endpoint is refused, never silently spoken to in the clear.

mod carried;
mod presigned;
mod sign;
mod verbs;
mod xml;

use std::time::Duration;

use bytes::Bytes;
use http::{HeaderMap, Request, StatusCode};
use http_body_util::{BodyExt, Full};
use hyper_util::client::legacy::Client as Pool;
use hyper_util::client::legacy::connect::HttpConnector;
use hyper_util::rt::TokioExecutor;
use sha2::{Digest, Sha256};
use time::OffsetDateTime;
use time::macros::format_description;

use crate::failure::{Failure, Outcome};
pub use carried::Carried;
pub use sign::Keys;
use sign::{Signable, authorization, encode_path, query_text};
pub use verbs::{Listed, Listing, Part, Properties};
use xml::Element;

const ATTEMPTS_MAX: u32 = 4;
const CONNECT_TIMEOUT: Duration = Duration::from_secs(10);
const ANSWER_TIMEOUT: Duration = Duration::from_secs(300);

/// Where a server is and how to speak to it.
#[derive(Clone, Debug)]
pub struct Endpoint {
    /// `host:port`, as the `host` header has it.
    authority: String,
    /// What signatures name.
    region: String,
    /// What names of its objects begin with, for messages.
    scheme: String,
}

impl Endpoint {
    /// Reads `http://HOST[:PORT]`.
    pub fn parse(text: &str, region: &str) -> Outcome<Self> {
        let url = url::Url::parse(text).map_err(|error| {
            Failure::usage(format!(
                "--endpoint {text}: {error}; give it as http://HOST:PORT, for example http://127.0.0.1:9000"
            ))
        })?;
        match url.scheme() {
            "http" => {}
            "https" => {
                return Err(Failure::usage(format!(
                    "--endpoint {text}: this program does not speak TLS yet; use http:// on a network you trust, or another S3 client"
                )));
            }
            other => {
                return Err(Failure::usage(format!(
                    "--endpoint {text}: {other}:// is no S3 endpoint; give http://HOST:PORT"
                )));
            }
        }
        if url.path() != "/" || url.query().is_some() {
            return Err(Failure::usage(format!(
                "--endpoint {text}: give scheme, host and port only; the bucket goes into s3://BUCKET/KEY"
            )));
        }
        let host = url.host_str().unwrap_or_default();
        let authority = url.port().map_or_else(|| host.to_owned(), |port| format!("{host}:{port}"));
        Ok(Endpoint { authority, region: region.to_owned(), scheme: "s3://".to_owned() })
    }
}

impl Endpoint {
    /// The same, told by its alias.
    pub fn named(self, scheme: String) -> Self {
        Endpoint { scheme, ..self }
    }
}

/// A client of one endpoint with one pair of keys.
#[derive(Clone)]
pub struct Client {
    pool: Pool<HttpConnector, Full<Bytes>>,
    endpoint: Endpoint,
    keys: Keys,
}

/// One request.
#[derive(Clone, Debug, Default)]
struct Call {
    method: &'static str,
    bucket: String,
    key: String,
    query: Vec<(String, String)>,
    headers: Vec<(String, String)>,
    body: Bytes,
}

impl Call {
    fn new(method: &'static str, bucket: &str, key: &str) -> Self {
        Call { method, bucket: bucket.to_owned(), key: key.to_owned(), ..Call::default() }
    }

    fn query(mut self, name: &str, value: impl Into<String>) -> Self {
        self.query.push((name.to_owned(), value.into()));
        self
    }

    fn header(mut self, name: &str, value: impl Into<String>) -> Self {
        self.headers.push((name.to_owned(), value.into()));
        self
    }

    fn body(mut self, body: impl Into<Bytes>) -> Self {
        self.body = body.into();
        self
    }

    fn path(&self) -> String {
        match (self.bucket.as_str(), self.key.as_str()) {
            ("", _) => "/".to_owned(),
            (bucket, "") => format!("/{bucket}"),
            (bucket, key) => format!("/{bucket}/{}", encode_path(key)),
        }
    }

    /// For messages, before it is known who is asked: `PUT bucket/key`.
    fn name(&self) -> String {
        format!("{} {}/{}", self.method, self.bucket, self.key)
    }

    /// For messages: `PUT s3://bucket/key`.
    fn name_at(&self, endpoint: &Endpoint) -> String {
        format!("{} {}{}/{}", self.method, endpoint.scheme, self.bucket, self.key)
    }
}

/// An answer with its whole body.
struct Answer {
    headers: HeaderMap,
    body: Bytes,
}

impl Answer {
    fn header(&self, name: &str) -> Option<String> {
        self.headers.get(name).map(|value| String::from_utf8_lossy(value.as_bytes()).into_owned())
    }

    fn xml(&self, call: &str) -> Outcome<Element> {
        Element::parse(&self.body).map_err(|error| Failure::failed(format!("{call}: the answer is no XML: {error}")))
    }
}

/// How one attempt ended.
enum Attempt {
    Done(Answer),
    Again(Failure),
    Never(Failure),
}

impl Client {
    /// A client; connections are made when they are needed.
    pub fn new(endpoint: Endpoint, keys: Keys) -> Self {
        let mut connector = HttpConnector::new();
        connector.set_nodelay(true);
        connector.set_connect_timeout(Some(CONNECT_TIMEOUT));
        let pool = Pool::builder(TokioExecutor::new()).build(connector);
        Client { pool, endpoint, keys }
    }

    /// Sends a call and gives its answer when it succeeded.
    async fn send(&self, call: Call) -> Outcome<Answer> {
        let mut attempt = 1;
        loop {
            match self.attempt(&call).await {
                Attempt::Done(answer) => return Ok(answer),
                Attempt::Never(failure) => return Err(failure),
                Attempt::Again(failure) if attempt == ATTEMPTS_MAX => return Err(failure),
                Attempt::Again(_) => tokio::time::sleep(Duration::from_millis(100 << attempt)).await,
            }
            attempt += 1;
        }
    }

    async fn attempt(&self, call: &Call) -> Attempt {
        let request = match self.request(call) {
            Ok(request) => request,
            Err(failure) => return Attempt::Never(failure),
        };
        let exchange = async {
            let answer = self.pool.request(request).await.map_err(|error| chain(&error))?;
            let (head, body) = answer.into_parts();
            let body = body.collect().await.map_err(|error| chain(&error))?.to_bytes();
            Ok::<_, String>((head, body))
        };
        let lost = |why: String| {
            Attempt::Again(Failure::failed(format!(
                "{}: no answer from http://{}: {why}; is the server running, and is its address right?",
                call.name_at(&self.endpoint),
                self.endpoint.authority
            )))
        };
        match tokio::time::timeout(ANSWER_TIMEOUT, exchange).await {
            Err(_) => lost(format!("none within {} s", ANSWER_TIMEOUT.as_secs())),
            Ok(Err(error)) => lost(error),
            Ok(Ok((head, body))) if head.status.is_success() => Attempt::Done(Answer { headers: head.headers, body }),
            Ok(Ok((head, body))) => {
                let failure = refused(&call.name_at(&self.endpoint), head.status, &body);
                if matches!(head.status.as_u16(), 500 | 502 | 503 | 504) {
                    Attempt::Again(failure)
                } else {
                    Attempt::Never(failure)
                }
            }
        }
    }

    /// The signed request of a call.
    fn request(&self, call: &Call) -> Outcome<Request<Full<Bytes>>> {
        let path = call.path();
        let body_hash = hex::encode(Sha256::digest(&call.body));
        let date = date_of(OffsetDateTime::now_utc())?;
        let mut headers = call.headers.clone();
        headers.push(("host".to_owned(), self.endpoint.authority.clone()));
        headers.push(("x-amz-content-sha256".to_owned(), body_hash.clone()));
        headers.push(("x-amz-date".to_owned(), date.clone()));
        if let Some(token) = &self.keys.session_token {
            headers.push(("x-amz-security-token".to_owned(), token.clone()));
        }
        let signable = Signable {
            method: call.method,
            path: &path,
            query: &call.query,
            headers: &headers,
            body_hash: &body_hash,
            date: &date,
            region: &self.endpoint.region,
        };
        let signature = authorization(&self.keys, &signable);
        let query = query_text(&call.query);
        let mark = if query.is_empty() { "" } else { "?" };
        let mut request = Request::builder()
            .method(call.method)
            .uri(format!("http://{}{path}{mark}{query}", self.endpoint.authority))
            .header("authorization", signature);
        for (name, value) in &headers {
            request = request.header(name.as_str(), value.as_bytes());
        }
        request
            .body(Full::new(call.body.clone()))
            .map_err(|error| Failure::usage(format!("{}: cannot be sent: {error}", call.name())))
    }
}

/// A time as signatures name it.
fn date_of(time: OffsetDateTime) -> Outcome<String> {
    time.format(format_description!("[year][month][day]T[hour][minute][second]Z"))
        .map_err(|error| Failure::failed(format!("the clock has no date: {error}")))
}

/// The name of an object as the source of a copy.
pub fn source_name(bucket: &str, key: &str) -> String {
    format!("/{bucket}/{}", encode_path(key))
}

/// The failure that a refusing answer tells.
fn refused(call: &str, status: StatusCode, body: &[u8]) -> Failure {
    let told = Element::parse(body).ok();
    let code = told.as_ref().map_or("", |error| error.text_of("Code"));
    let message = told.as_ref().map_or("", |error| error.text_of("Message"));
    let advice = match (status.as_u16(), code) {
        (_, "NoSuchBucket") => "; make the bucket first, or check its name",
        (_, "SignatureDoesNotMatch" | "InvalidAccessKeyId") | (403, _) => {
            "; check the keys (KOINE_ROOT_USER and KOINE_ROOT_PASSWORD, or AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY)"
        }
        _ => "",
    };
    let what = if code.is_empty() { status.to_string() } else { format!("{} {code}", status.as_u16()) };
    let message = message.trim_end_matches('.');
    let text = format!("{call}: {what}{}{message}{advice}", if message.is_empty() { "" } else { ": " });
    match status {
        StatusCode::NOT_FOUND => Failure::missing(text),
        StatusCode::FORBIDDEN => Failure::refused(text),
        _ => Failure::failed(text),
    }
}

/// An error with its causes.
fn chain(error: &dyn std::error::Error) -> String {
    let mut text = error.to_string();
    let mut cause = error.source();
    while let Some(inner) = cause {
        text = format!("{text}: {inner}");
        cause = inner.source();
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn endpoints_are_http_with_host_and_port() {
        let check = |text: &str, authority: Option<&str>| {
            let endpoint = Endpoint::parse(text, "us-east-1").ok().map(|endpoint| endpoint.authority);
            assert_eq!(endpoint.as_deref(), authority, "{text}");
        };
        check("http://127.0.0.1:9000", Some("127.0.0.1:9000"));
        check("http://[::1]:9000/", Some("[::1]:9000"));
        check("http://koine.test", Some("koine.test"));
        check("https://127.0.0.1:9000", None);
        check("127.0.0.1:9000", None);
        check("http://127.0.0.1:9000/bucket", None);
    }

    #[test]
    fn refusals_name_code_and_remedy() {
        let call = Call::new("GET", "b", "k");
        let endpoint = Endpoint::parse("http://lab:9000", "us-east-1").unwrap();
        assert_eq!(call.name_at(&endpoint.clone().named("lab://".to_owned())), "GET lab://b/k");
        let call = call.name_at(&endpoint);
        let body = b"<Error><Code>NoSuchKey</Code><Message>Not there.</Message></Error>";
        let failure = refused(&call, StatusCode::NOT_FOUND, body);
        assert_eq!(failure.message, "GET s3://b/k: 404 NoSuchKey: Not there");
        assert_eq!(failure.exit, crate::failure::Exit::Missing);
        let failure = refused(&call, StatusCode::FORBIDDEN, b"");
        assert!(failure.message.contains("check the keys"), "{failure}");
    }
}
