//! The S3 server: HTTP requests in, calls on [`koine_object::Objects`] out.
//!
//! A request goes through `server` (listening, connections), `http_service` (signature, target, body), the library `s3s`
//! (decoding and encoding of what S3 says) and `s3` (one file per verb: decode, call one function, reply).
//!
//! Invariants:
//! - Nothing is reached without a right signature of the root key.
//! - No thread waits for a client or for a flush; bodies take bounded memory in both directions.
//! - What is not done is refused with `NotImplemented`, never passed over.

mod admission;
mod amz_headers;
mod auth;
mod body;
mod canonical_id;
mod connections;
mod errors;
#[cfg(any(test, feature = "fuzzing"))]
#[doc(hidden)]
pub mod fuzzing;
mod http_service;
pub mod limits;
mod preauthorize;
mod query;
mod request;
mod route;
mod s3;
mod server;
mod slow_client;
mod transport;

pub use auth::{Credentials, Secret};
pub use limits::Limits;
pub use s3::CALLS;
pub use server::{Gateway, GatewayOptions};
