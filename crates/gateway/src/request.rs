//! What travels beside a request from the HTTP service to the call that answers it.
//!
//! Invariants:
//! - The body of an object can be taken once.
//! - Nothing here is made before the signature of the request was found right.

use std::net::SocketAddr;
use std::sync::{Arc, Mutex, PoisonError};

use http::{HeaderMap, HeaderValue};
use koine_object::{Caller, Circumstances, ExpectedOwner, Objects};

use crate::admission::Tenant;
use crate::body::IncomingBody;

/// What a call needs of a request beside what the library `s3s` decodes.
#[derive(Clone, Debug)]
pub struct RawRequest(Arc<Contents>);

#[derive(Debug)]
struct Contents {
    headers: HeaderMap,
    body: Mutex<Option<IncomingBody>>,
    document: bytes::Bytes,
    expires: Option<String>,
}

impl RawRequest {
    /// A request with these headers, and either the body of an object or a document.
    pub fn new(
        headers: HeaderMap,
        body: Option<IncomingBody>,
        document: bytes::Bytes,
        expires: Option<String>,
    ) -> Self {
        RawRequest(Arc::new(Contents { headers, body: Mutex::new(body), document, expires }))
    }

    /// The document that came in place of a body.
    pub fn document(&self) -> &[u8] {
        &self.0.document
    }

    /// What `Expires` is to be told as: any text, which the library would read as a date.
    pub fn expires(&self) -> Option<&str> {
        self.0.expires.as_deref()
    }

    /// The headers as they were sent.
    pub fn headers(&self) -> &HeaderMap {
        &self.0.headers
    }

    /// The body of an object or a part; there once.
    pub fn take_body(&self) -> Option<IncomingBody> {
        self.0.body.lock().unwrap_or_else(PoisonError::into_inner).take()
    }
}

/// Who sent a request, and from where.
#[derive(Clone, Debug)]
pub struct Requester {
    caller: Caller,
    tenant: Tenant,
    circumstances: Circumstances,
}

impl Requester {
    /// The sender of a request whose signature was found right.
    pub fn new(caller: Caller, peer: SocketAddr, headers: &HeaderMap, presigned: bool) -> Self {
        let tenant = Tenant::of(&caller, presigned, peer.ip());
        let text = |name| headers.get(name).and_then(|value: &HeaderValue| value.to_str().ok()).map(str::to_owned);
        let signed = matches!(caller, Caller::User(_));
        let circumstances = match caller {
            // No policy binds root: nothing is gathered for one.
            Caller::Owner => Circumstances::default(),
            _ => Circumstances {
                address: Some(peer.ip()),
                encrypted: Some(false),
                user_agent: text(http::header::USER_AGENT),
                referer: text(http::header::REFERER),
                auth_type: signed.then_some(if presigned { "REST-QUERY-STRING" } else { "REST-HEADER" }),
                signature_version: signed.then_some("AWS4-HMAC-SHA256"),
                ..Circumstances::default()
            },
        };
        Requester { caller, tenant, circumstances }
    }

    /// Whose share of the server's resources the request takes.
    pub fn tenant(&self) -> Tenant {
        self.tenant
    }

    /// Adds the owners that the request expects its buckets to have.
    pub fn expect_owners(&mut self, owners: Vec<ExpectedOwner>) {
        self.circumstances.expected_owners = owners;
    }

    /// The store, as the requester may see and change it; `None` where that is the store's owner, who expects nothing of it.
    pub fn of(&self, objects: &Objects) -> Option<Objects> {
        match &self.caller {
            Caller::Owner if self.circumstances.expected_owners.is_empty() => None,
            caller => Some(objects.as_caller(caller.clone()).under(self.circumstances.clone())),
        }
    }
}
