//! The body of a request on its way in: decoded, checked, and bounded in time.
//!
//! Invariants:
//! - `next` gives `None` only when the body was whole: of its announced length, with the hash, the chunk
//!   signatures and the trailers that its head promised. What was handed on before may be kept only then.
//! - Waiting for a client takes no thread, and ends: nothing for `idle_time_max`, or fewer bytes per second of waiting
//!   than `body_rate_min`, and the body fails.

use std::pin::Pin;
use std::task::Poll;

use bytes::Bytes;
use http_body::Body as _;
use hyper::body::Incoming;
use s3s::{S3Error, S3ErrorCode};
use sha2::{Digest, Sha256};
use thiserror::Error;

use crate::auth::Sha256Digest;
use crate::auth::chunks::{ChunkDecoder, ChunkError};
use crate::limits::Limits;
use crate::slow_client::{SlowClientTimer, TooSlow};

/// Why a body was refused.
#[derive(Debug, Error)]
pub enum BodyError {
    /// The encoding, or a signature in it.
    #[error(transparent)]
    Chunks(#[from] ChunkError),
    /// The body has another hash than x-amz-content-sha256 says.
    #[error("the body does not have the SHA-256 that x-amz-content-sha256 gives")]
    Sha256,
    /// Fewer or more bytes than announced.
    #[error("the body does not have the announced length")]
    Length,
    /// The client sent too slowly.
    #[error("the client sent nothing, or too little, for too long")]
    Slow,
    /// More bytes than allowed.
    #[error("the body is longer than {0} bytes")]
    TooLong(usize),
    /// The connection failed.
    #[error("the connection failed: {0}")]
    Connection(hyper::Error),
}

impl From<BodyError> for S3Error {
    fn from(error: BodyError) -> Self {
        let (code, message) = match &error {
            BodyError::Chunks(ChunkError::Signature) => (
                S3ErrorCode::SignatureDoesNotMatch,
                "The request signature we calculated does not match the signature you provided: \
                 the signature of a chunk or of the trailers is wrong or missing.",
            ),
            BodyError::Chunks(ChunkError::Trailers) => (
                S3ErrorCode::Custom("MalformedTrailerError".into()),
                "The trailers of the request must be those that x-amz-trailer announces, each once.",
            ),
            BodyError::Chunks(ChunkError::TrailersTooLong) => {
                (S3ErrorCode::Custom("MalformedTrailerError".into()), "The trailers of the request are too long.")
            }
            BodyError::Chunks(_) | BodyError::Length | BodyError::Connection(_) => (
                S3ErrorCode::IncompleteBody,
                "You did not provide the number of bytes specified by the Content-Length or \
                 x-amz-decoded-content-length header, or the aws-chunked encoding is malformed.",
            ),
            BodyError::Sha256 => (
                S3ErrorCode::Custom("XAmzContentSHA256Mismatch".into()),
                "The provided 'x-amz-content-sha256' header does not match what was computed.",
            ),
            BodyError::Slow => (
                S3ErrorCode::RequestTimeout,
                "Your socket connection to the server was not read from or written to within the timeout period.",
            ),
            BodyError::TooLong(_) => (S3ErrorCode::MaxMessageLengthExceeded, "Your request was too big."),
        };
        let mut mapped = S3Error::with_message(code, message);
        if mapped.status_code().is_none() {
            mapped.set_status_code(http::StatusCode::BAD_REQUEST);
        }
        mapped.set_source(Box::new(error));
        mapped
    }
}

/// A request's body.
#[derive(Debug)]
pub struct IncomingBody {
    frames: Incoming,
    decoder: Option<ChunkDecoder>,
    hash: Option<(Sha256, Sha256Digest)>,
    length: Option<u64>,
    received: u64,
    /// What is left of a frame under the encoding.
    rest: Bytes,
    pace: SlowClientTimer,
    failed: bool,
}

/// What the head of a request says of its body.
#[derive(Debug, Default)]
pub struct BodyExpectation {
    /// Takes the encoding off.
    pub decoder: Option<ChunkDecoder>,
    /// The hash of the whole.
    pub sha256: Option<Sha256Digest>,
    /// The length without encoding.
    pub length: Option<u64>,
}

impl IncomingBody {
    /// A body with what its head promised.
    pub fn new(frames: Incoming, expectation: BodyExpectation, limits: &Limits) -> Self {
        IncomingBody {
            frames,
            decoder: expectation.decoder,
            hash: expectation.sha256.map(|digest| (Sha256::new(), digest)),
            length: expectation.length,
            received: 0,
            rest: Bytes::new(),
            pace: SlowClientTimer::new(limits),
            failed: false,
        }
    }

    /// The length without encoding, where it was announced.
    pub fn length(&self) -> Option<u64> {
        self.length
    }

    /// The trailers, names in lower case; complete when `next` has given `None`.
    pub fn trailers(&self) -> &[(String, String)] {
        self.decoder.as_ref().map_or(&[], ChunkDecoder::trailers)
    }

    /// The next bytes; `None` when the body is whole.
    pub async fn next(&mut self) -> Result<Option<Bytes>, BodyError> {
        if self.failed {
            return Err(BodyError::Length);
        }
        let outcome = self.advance().await;
        self.failed = outcome.is_err();
        outcome
    }

    /// The whole body, if it is at most `length_max` bytes.
    pub async fn collect(&mut self, length_max: usize) -> Result<Bytes, BodyError> {
        if self.length.is_some_and(|length| length > length_max as u64) {
            return Err(BodyError::TooLong(length_max));
        }
        let mut whole = Vec::new();
        let mut first: Option<Bytes> = None;
        while let Some(data) = self.next().await? {
            if whole.len() + data.len() + first.as_ref().map_or(0, Bytes::len) > length_max {
                return Err(BodyError::TooLong(length_max));
            }
            match first.take() {
                None if whole.is_empty() => first = Some(data),
                None => whole.extend_from_slice(&data),
                Some(before) => {
                    whole.extend_from_slice(&before);
                    whole.extend_from_slice(&data);
                }
            }
        }
        Ok(first.unwrap_or_else(|| whole.into()))
    }

    async fn advance(&mut self) -> Result<Option<Bytes>, BodyError> {
        loop {
            if let Some(decoder) = &mut self.decoder
                && let Some(data) = decoder.next_data(&mut self.rest)?
            {
                return self.hand_on(data).map(Some);
            }
            match self.next_frame().await? {
                Some(frame) if self.decoder.is_some() => self.rest = frame,
                Some(frame) if frame.is_empty() => {}
                Some(frame) => return self.hand_on(frame).map(Some),
                None => {
                    self.check_whole()?;
                    return Ok(None);
                }
            }
        }
    }

    fn hand_on(&mut self, data: Bytes) -> Result<Bytes, BodyError> {
        self.received += data.len() as u64;
        if self.length.is_some_and(|length| self.received > length) {
            return Err(BodyError::Length);
        }
        if let Some((hash, _)) = &mut self.hash {
            hash.update(&data);
        }
        Ok(data)
    }

    fn check_whole(&mut self) -> Result<(), BodyError> {
        if let Some(decoder) = &mut self.decoder {
            decoder.finish()?;
        }
        if self.length.is_some_and(|length| self.received != length) {
            return Err(BodyError::Length);
        }
        let Some((hash, expected)) = self.hash.take() else { return Ok(()) };
        if Sha256Digest::from(hash.finalize()) == expected { Ok(()) } else { Err(BodyError::Sha256) }
    }

    async fn next_frame(&mut self) -> Result<Option<Bytes>, BodyError> {
        loop {
            let polled = std::future::poll_fn(|cx| match Pin::new(&mut self.frames).poll_frame(cx) {
                Poll::Ready(frame) => Poll::Ready(Ok(frame)),
                Poll::Pending => self.pace.poll_idle(cx).map(|TooSlow| Err(BodyError::Slow)),
            });
            let Some(frame) = polled.await? else { return Ok(None) };
            let frame = frame.map_err(BodyError::Connection)?;
            // Trailers of HTTP itself carry nothing that S3 knows.
            let Ok(data) = frame.into_data() else { continue };
            self.pace.moved(data.len()).map_err(|TooSlow| BodyError::Slow)?;
            return Ok(Some(data));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_refusal_has_its_code() {
        let code = |error: BodyError| S3Error::from(error).code().as_str().to_owned();
        assert_eq!(code(BodyError::Chunks(ChunkError::Signature)), "SignatureDoesNotMatch");
        assert_eq!(code(BodyError::Chunks(ChunkError::Trailers)), "MalformedTrailerError");
        assert_eq!(code(BodyError::Sha256), "XAmzContentSHA256Mismatch");
        assert_eq!(code(BodyError::Slow), "RequestTimeout");
        assert_eq!(code(BodyError::TooLong(1)), "MaxMessageLengthExceeded");
        assert_eq!(code(BodyError::Length), "IncompleteBody");
        assert_eq!(S3Error::from(BodyError::Sha256).status_code().unwrap(), 400);
    }
}
