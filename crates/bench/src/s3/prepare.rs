//! Requests built and signed before the clock starts.
//!
//! Invariant: all requests of a batch have the same layout, so that one list of segments serves them all. Keys have a
//! fixed width for that reason.

use super::payload::Payload;
use super::sign::{Credentials, SIGNED_CHUNKS, Signer, UNSIGNED_PAYLOAD, Unsigned};
use base64::Engine;
use crc_fast::CrcAlgorithm;
use sha2::{Digest, Sha256};
use std::ops::Range;
use time::OffsetDateTime;

/// Content of one signed chunk, as the larger SDKs send it.
pub const CHUNK_BYTES: usize = 128 * 1024;

/// A piece of a request, in the order of sending.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Segment {
    /// Bytes of the request itself.
    Own(Range<usize>),
    /// Bytes of the payload.
    Payload(Range<usize>),
}

impl Segment {
    /// Where it lies.
    pub fn range(&self) -> Range<usize> {
        match self {
            Segment::Own(range) | Segment::Payload(range) => range.clone(),
        }
    }
}

/// What the right answer looks like.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Expected {
    /// HTTP status.
    pub status: u16,
    /// Length of the body, where it is known beforehand.
    pub length_bytes: Option<u64>,
}

/// Requests of one kind, ready to be sent.
#[derive(Debug)]
pub struct Batch {
    requests: Vec<Vec<u8>>,
    segments: Vec<Segment>,
    expected: Expected,
}

impl Batch {
    fn new(status: u16, length_bytes: Option<u64>) -> Batch {
        Batch { requests: Vec::new(), segments: Vec::new(), expected: Expected { status, length_bytes } }
    }

    fn push(&mut self, own: Vec<u8>, segments: Vec<Segment>) {
        if self.requests.is_empty() {
            self.segments = segments;
        } else {
            assert_eq!(self.segments, segments, "requests of one batch have one layout");
        }
        self.requests.push(own);
    }

    /// How many there are.
    pub fn len(&self) -> usize {
        self.requests.len()
    }

    /// The own bytes of one of them, counted round and round.
    pub fn own(&self, index: usize) -> &[u8] {
        self.requests.get(index % self.requests.len().max(1)).map_or(&[], Vec::as_slice)
    }

    /// The layout of each.
    pub fn segments(&self) -> &[Segment] {
        &self.segments
    }

    /// The right answer to each.
    pub fn expected(&self) -> Expected {
        self.expected
    }
}

/// Objects with numbered names.
#[derive(Debug, Clone)]
pub struct Names {
    /// Canonical path of the bucket and the start of every key: `/bucket/prefix`.
    pub start: String,
}

impl Names {
    /// The canonical path of one.
    pub fn path(&self, number: usize) -> String {
        format!("{}{number:09}", self.start)
    }
}

/// Prepares requests to one server; its signatures are good for some fifteen minutes.
pub struct Preparer {
    signer: Signer,
}

impl Preparer {
    /// For requests to `host` that are sent soon.
    pub fn new(credentials: &Credentials, host: &str) -> Preparer {
        Preparer { signer: Signer::new(credentials, host, OffsetDateTime::now_utc()) }
    }

    fn bare(&self, method: &str, path: &str, query: &str, content_length: u64) -> Vec<u8> {
        let payload = UNSIGNED_PAYLOAD;
        self.signer.sign(&Unsigned { method, path, query, payload, content_length, headers: &[] }).0
    }

    /// PUT of objects of `size_bytes`, payload unsigned. Objects longer than the payload repeat it.
    pub fn put(&self, names: &Names, numbers: Range<usize>, size_bytes: u64, payload: &Payload) -> Batch {
        self.put_paths(numbers.map(|number| (names.path(number), String::new())), size_bytes, payload)
    }

    /// PUT of the numbered parts of one upload.
    pub fn put_parts(
        &self,
        path: &str,
        upload: &str,
        parts: Range<usize>,
        size_bytes: u64,
        payload: &Payload,
    ) -> Batch {
        // Fixed width keeps the layout; a leading zero is a legal part number.
        let targets = parts.map(|part| (path.to_owned(), format!("partNumber={part:05}&uploadId={upload}")));
        self.put_paths(targets, size_bytes, payload)
    }

    fn put_paths(&self, targets: impl Iterator<Item = (String, String)>, size_bytes: u64, payload: &Payload) -> Batch {
        let mut batch = Batch::new(200, Some(0));
        for (path, query) in targets {
            let own = self.bare("PUT", &path, &query, size_bytes);
            let mut segments = vec![Segment::Own(0..own.len())];
            let mut left = size_bytes;
            while left > 0 && !payload.bytes().is_empty() {
                let piece = payload.bytes().len().min(usize::try_from(left).unwrap_or(usize::MAX));
                segments.push(Segment::Payload(0..piece));
                left -= piece as u64;
            }
            batch.push(own, segments);
        }
        batch
    }

    /// PUT in signed chunks with a signed CRC32C trailer. Objects are not longer than the payload.
    pub fn put_chunked(&self, names: &Names, numbers: Range<usize>, size_bytes: usize, payload: &Payload) -> Batch {
        let content = payload.bytes().get(..size_bytes).unwrap_or(payload.bytes());
        let digests: Vec<String> =
            content.chunks(CHUNK_BYTES).map(|chunk| hex::encode(Sha256::digest(chunk))).collect();
        let checksum = crc_fast::checksum(CrcAlgorithm::Crc32Iscsi, content) as u32;
        let checksum = base64::engine::general_purpose::STANDARD.encode(checksum.to_be_bytes());
        let mut batch = Batch::new(200, Some(0));
        for number in numbers {
            let (own, segments) = self.chunked(&names.path(number), content, &digests, &checksum);
            batch.push(own, segments);
        }
        batch
    }

    fn chunked(&self, path: &str, content: &[u8], digests: &[String], checksum: &str) -> (Vec<u8>, Vec<Segment>) {
        const SIGNATURE_CHARS: usize = 64;
        let trailer = format!("x-amz-checksum-crc32c:{checksum}");
        let chunk_head = |length: usize| format!("{length:x};chunk-signature=");
        let framed: usize = content
            .chunks(CHUNK_BYTES)
            .map(|chunk| chunk_head(chunk.len()).len() + SIGNATURE_CHARS + 2 + chunk.len() + 2)
            .sum();
        let end = chunk_head(0).len() + SIGNATURE_CHARS + 2 + trailer.len() + 2;
        let end = end + "x-amz-trailer-signature:".len() + SIGNATURE_CHARS + 4;
        let decoded = content.len().to_string();
        let (mut own, mut signature) = self.signer.sign(&Unsigned {
            method: "PUT",
            path,
            query: "",
            payload: SIGNED_CHUNKS,
            content_length: (framed + end) as u64,
            headers: &[
                ("content-encoding", "aws-chunked"),
                ("x-amz-decoded-content-length", &decoded),
                ("x-amz-trailer", "x-amz-checksum-crc32c"),
            ],
        });
        let (mut segments, mut from, mut content_from) = (Vec::new(), 0, 0);
        for (chunk, digest) in content.chunks(CHUNK_BYTES).zip(digests) {
            signature = self.signer.chunk(&signature, digest);
            own.extend_from_slice(format!("{}{signature}\r\n", chunk_head(chunk.len())).as_bytes());
            segments.push(Segment::Own(from..own.len()));
            segments.push(Segment::Payload(content_from..content_from + chunk.len()));
            from = own.len();
            content_from += chunk.len();
            own.extend_from_slice(b"\r\n");
        }
        signature = self.signer.chunk(&signature, &hex::encode(Sha256::digest(b"")));
        own.extend_from_slice(format!("{}{signature}\r\n{trailer}\r\n", chunk_head(0)).as_bytes());
        signature = self.signer.trailer(&signature, &format!("{trailer}\n"));
        own.extend_from_slice(format!("x-amz-trailer-signature:{signature}\r\n\r\n").as_bytes());
        segments.push(Segment::Own(from..own.len()));
        (own, segments)
    }

    /// GET of objects of `size_bytes`.
    pub fn get(&self, names: &Names, numbers: impl Iterator<Item = usize>, size_bytes: u64) -> Batch {
        self.bodiless("GET", 200, Some(size_bytes), numbers.map(|number| names.path(number)), "")
    }

    /// DELETE of objects.
    pub fn delete(&self, names: &Names, numbers: Range<usize>) -> Batch {
        self.bodiless("DELETE", 204, Some(0), numbers.map(|number| names.path(number)), "")
    }

    /// The same page of a listing, once: a batch is walked round and round.
    pub fn list(&self, bucket: &str, prefix: &str, page: usize) -> Batch {
        let query = format!("list-type=2&max-keys={page}&prefix={prefix}");
        self.bodiless("GET", 200, None, std::iter::once(format!("/{bucket}")), &query)
    }

    fn bodiless(
        &self,
        method: &str,
        status: u16,
        length_bytes: Option<u64>,
        paths: impl Iterator<Item = String>,
        query: &str,
    ) -> Batch {
        let mut batch = Batch::new(status, length_bytes);
        for path in paths {
            let own = self.bare(method, &path, query, 0);
            let segments = vec![Segment::Own(0..own.len())];
            batch.push(own, segments);
        }
        batch
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn preparer() -> Preparer {
        let credentials =
            Credentials { access_key: "user".into(), secret_key: "secret".into(), region: "us-east-1".into() };
        Preparer::new(&credentials, "127.0.0.1:9000")
    }

    fn wire(batch: &Batch, index: usize, payload: &Payload) -> Vec<u8> {
        let mut bytes = Vec::new();
        for segment in batch.segments() {
            let from = match segment {
                Segment::Own(_) => batch.own(index),
                Segment::Payload(_) => payload.bytes(),
            };
            bytes.extend_from_slice(&from[segment.range()]);
        }
        bytes
    }

    /// Head as text, and the bytes after it, whose number must be what the head says.
    fn split(bytes: &[u8]) -> (String, Vec<u8>) {
        let end = bytes.windows(4).position(|window| window == b"\r\n\r\n").unwrap() + 4;
        let head = String::from_utf8(bytes[..end].to_vec()).unwrap();
        let length =
            head.lines().find_map(|line| line.strip_prefix("content-length: ")).map(|text| text.parse().unwrap());
        assert_eq!(bytes.len() - end, length.unwrap_or(0));
        (head, bytes[end..].to_vec())
    }

    #[test]
    fn puts_carry_the_payload_and_repeat_it_when_it_is_short() {
        let payload = Payload::new(1000).unwrap();
        let names = Names { start: "/bucket/prefix/".into() };
        let batch = preparer().put(&names, 0..2, 2500, &payload);
        let (head, body) = split(&wire(&batch, 1, &payload));
        assert!(head.starts_with("PUT /bucket/prefix/000000001 HTTP/1.1\r\n"), "{head}");
        assert_eq!(body, [payload.bytes(), payload.bytes(), &payload.bytes()[..500]].concat());
        assert_eq!(batch.own(0), batch.own(2), "round and round");
    }

    #[test]
    fn chunked_puts_have_the_length_that_their_head_says_and_decode_to_the_payload() {
        let payload = Payload::new(2 * CHUNK_BYTES + 77).unwrap();
        let names = Names { start: "/bucket/prefix/".into() };
        for size in [1, 4096, CHUNK_BYTES, 2 * CHUNK_BYTES + 77] {
            let batch = preparer().put_chunked(&names, 0..3, size, &payload);
            let (head, body) = split(&wire(&batch, 2, &payload));
            assert!(head.contains(&format!("x-amz-decoded-content-length: {size}\r\n")), "{head}");
            // Signatures are chunk extensions and trailers are trailers: an HTTP decoder reads it.
            let mut decoder = crate::s3::response::Body::new(crate::s3::response::Framing::Chunked);
            let mut content = Vec::new();
            assert_eq!(decoder.feed(&body, |bytes| content.extend_from_slice(bytes)), Ok(body.len()));
            assert!(decoder.done());
            assert!(content == payload.bytes()[..size], "content of {size} bytes");
        }
    }

    #[test]
    fn other_requests_have_no_body() {
        let payload = Payload::new(1).unwrap();
        let names = Names { start: "/bucket/prefix/".into() };
        let list = preparer().list("bucket", "prefix%2F", 100);
        assert!(
            wire(&list, 0, &payload).starts_with(b"GET /bucket?list-type=2&max-keys=100&prefix=prefix%2F HTTP/1.1\r\n")
        );
        for batch in [preparer().get(&names, 0..5, 9), preparer().delete(&names, 0..5), list] {
            assert!(split(&wire(&batch, 0, &payload)).1.is_empty());
        }
    }
}
