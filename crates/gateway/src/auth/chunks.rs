//! The aws-chunked encoding: a body in chunks, each with its size and perhaps its signature, and trailers.
//!
//! Invariants:
//! - Data is handed on as it comes; a chunk is never gathered in memory, however long it says it is. Its
//!   signature is checked at its end, so nothing that was handed on may be kept before `finish` said so.
//! - `finish` succeeds only when the last chunk (of no bytes) came, as many bytes as announced were in the
//!   chunks, every signature that the mode asks for was there and right, and nothing followed.
//! - A trailer that the head did not announce, and a trailer or a signature that comes twice, is refused: what is signed
//!   and what is looked at are the same. Whether all that were announced came is for who knows what they are.
//! - A line is at most [`LINE_LEN_MAX`] bytes, the trailers at most [`TRAILERS_LEN_MAX`].

use bytes::{Buf, Bytes};
use sha2::{Digest, Sha256};
use thiserror::Error;

use super::signing::{Signature, SigningKey, sha256};

/// The longest line before a chunk, in bytes.
pub const LINE_LEN_MAX: usize = 256;
/// The most bytes of trailers.
pub const TRAILERS_LEN_MAX: usize = 4096;
/// SHA-256 of nothing, in hexadecimal digits.
const EMPTY_SHA256: &str = "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855";

/// Why a chunked body was refused.
#[derive(Debug, Error, Clone, Copy, PartialEq, Eq)]
pub enum ChunkError {
    /// Not the encoding at all.
    #[error("the aws-chunked encoding of the body is malformed")]
    Malformed,
    /// A chunk's or the trailers' signature is wrong or missing.
    #[error("the signature of a chunk or of the trailers does not match")]
    Signature,
    /// The body ended before its last chunk, or it held fewer or more bytes than announced.
    #[error("the body does not have the length that x-amz-decoded-content-length announced")]
    Length,
    /// A trailer that was not announced, or one that comes twice.
    #[error("the trailers are not those that x-amz-trailer announced, each once")]
    Trailers,
    /// Trailers that are too long.
    #[error("the trailers are too long")]
    TrailersTooLong,
}

/// Signs the chunks of one request, each over the signature of the one before.
#[derive(Debug)]
pub struct ChunkSigner {
    key: SigningKey,
    /// `<date>\n<scope>\n`, the same for every chunk.
    scope: String,
    previous: String,
}

impl ChunkSigner {
    /// Goes on from the signature of the request's head. `scope` is `<date>\n<scope>\n`.
    pub fn new(key: SigningKey, scope: String, seed: &Signature) -> Self {
        ChunkSigner { key, scope, previous: String::from_utf8_lossy(seed.as_bytes()).into_owned() }
    }

    fn accept(&mut self, expected: &Signature, string_to_sign: &str) -> Result<(), ChunkError> {
        let signature = self.key.sign(string_to_sign.as_bytes());
        if !signature.matches(expected) {
            return Err(ChunkError::Signature);
        }
        self.previous = String::from_utf8_lossy(signature.as_bytes()).into_owned();
        Ok(())
    }

    fn accept_chunk(&mut self, expected: &Signature, data_sha256: [u8; 32]) -> Result<(), ChunkError> {
        let hash = hex::encode(data_sha256);
        let string = format!("AWS4-HMAC-SHA256-PAYLOAD\n{}{}\n{EMPTY_SHA256}\n{hash}", self.scope, self.previous);
        self.accept(expected, &string)
    }

    fn accept_trailers(&mut self, expected: &Signature, canonical: &[u8]) -> Result<(), ChunkError> {
        let hash = hex::encode(sha256(canonical));
        let string = format!("AWS4-HMAC-SHA256-TRAILER\n{}{}\n{hash}", self.scope, self.previous);
        self.accept(expected, &string)
    }
}

#[derive(Debug)]
enum DecoderState {
    /// In the line before a chunk.
    Line,
    /// In a chunk's data; so many bytes to come.
    Data(u64),
    /// Before the line end that follows data; so many of its bytes were seen.
    DataEnd(usize),
    /// After the last chunk.
    Trailers,
}

/// Takes the encoding off a body.
#[derive(Debug)]
pub struct ChunkDecoder {
    state: DecoderState,
    signer: Option<ChunkSigner>,
    /// The names of the trailers that may follow, in lower case; `None` where the mode has no trailers.
    announced: Option<Vec<String>>,
    length_announced: u64,
    length: u64,
    /// The line under way, then the trailers.
    text: Vec<u8>,
    chunk_hash: Sha256,
    chunk_signature: Option<Signature>,
    trailers: Vec<(String, String)>,
}

impl ChunkDecoder {
    /// A decoder for a body of `length_announced` bytes; signatures are checked when there is a signer. `announced` has
    /// the names of the trailers that may follow, in lower case, where the mode has trailers at all.
    pub fn new(signer: Option<ChunkSigner>, announced: Option<Vec<String>>, length_announced: u64) -> Self {
        ChunkDecoder {
            state: DecoderState::Line,
            signer,
            announced,
            length_announced,
            length: 0,
            text: Vec::new(),
            chunk_hash: Sha256::new(),
            chunk_signature: None,
            trailers: Vec::new(),
        }
    }

    /// The trailers; complete after `finish`.
    pub fn trailers(&self) -> &[(String, String)] {
        &self.trailers
    }

    /// Takes the next bytes off `frame` until there is data to hand on or the frame is used up.
    pub fn next_data(&mut self, frame: &mut Bytes) -> Result<Option<Bytes>, ChunkError> {
        while !frame.is_empty() {
            match self.state {
                DecoderState::Line => self.take_line(frame)?,
                DecoderState::Data(left) => return self.take_data(frame, left).map(Some),
                DecoderState::DataEnd(seen) => self.take_line_end(frame, seen)?,
                DecoderState::Trailers => {
                    if self.text.len() + frame.len() > TRAILERS_LEN_MAX {
                        return Err(ChunkError::TrailersTooLong);
                    }
                    self.text.extend_from_slice(frame);
                    frame.clear();
                }
            }
        }
        Ok(None)
    }

    /// The body has ended: checks that it was whole.
    pub fn finish(&mut self) -> Result<(), ChunkError> {
        if !matches!(self.state, DecoderState::Trailers) || self.length != self.length_announced {
            return Err(ChunkError::Length);
        }
        let text = std::mem::take(&mut self.text);
        let (signature, canonical) = self.take_trailers(&text)?;
        match (&mut self.signer, &self.announced, signature) {
            (_, None, Some(_)) => Err(ChunkError::Malformed),
            (_, None, None) if !self.trailers.is_empty() => Err(ChunkError::Malformed),
            (Some(signer), Some(_), signature) => {
                signer.accept_trailers(&signature.ok_or(ChunkError::Signature)?, &canonical)
            }
            // Nobody would look at it.
            (None, Some(_), Some(_)) => Err(ChunkError::Trailers),
            (_, _, None) => Ok(()),
        }
    }

    /// Reads the trailers; gives their signature and what it is over.
    fn take_trailers(&mut self, text: &[u8]) -> Result<(Option<Signature>, Vec<u8>), ChunkError> {
        let (mut signature, mut canonical) = (None, Vec::new());
        for line in text.split(|byte| *byte == b'\n') {
            let line = line.strip_suffix(b"\r").unwrap_or(line);
            if line.is_empty() {
                continue;
            }
            let (name, value) = parse_trailer(line)?;
            if name == "x-amz-trailer-signature" {
                let parsed = Signature::parse(value.as_bytes()).ok_or(ChunkError::Signature)?;
                if signature.replace(parsed).is_some() {
                    return Err(ChunkError::Trailers);
                }
                continue;
            }
            let announced = self.announced.as_ref().is_none_or(|names| names.contains(&name));
            if !announced || self.trailers.iter().any(|(other, _)| *other == name) {
                return Err(ChunkError::Trailers);
            }
            canonical.extend_from_slice(format!("{name}:{value}\n").as_bytes());
            self.trailers.push((name, value));
        }
        Ok((signature, canonical))
    }

    fn take_line(&mut self, frame: &mut Bytes) -> Result<(), ChunkError> {
        let end = frame.iter().position(|byte| *byte == b'\n');
        let taken = frame.split_to(end.map_or(frame.len(), |at| at + 1));
        if self.text.len() + taken.len() > LINE_LEN_MAX {
            return Err(ChunkError::Malformed);
        }
        self.text.extend_from_slice(&taken);
        if end.is_none() {
            return Ok(());
        }
        let line = std::mem::take(&mut self.text);
        let line = line.strip_suffix(b"\r\n").ok_or(ChunkError::Malformed)?;
        let (size, signature) = parse_chunk_line(line)?;
        self.chunk_signature = signature;
        if self.signer.is_some() && self.chunk_signature.is_none() {
            return Err(ChunkError::Signature);
        }
        self.length = self.length.checked_add(size).ok_or(ChunkError::Malformed)?;
        if self.length > self.length_announced {
            return Err(ChunkError::Length);
        }
        if size == 0 {
            self.end_chunk()?;
            self.state = DecoderState::Trailers;
        } else {
            self.state = DecoderState::Data(size);
        }
        Ok(())
    }

    fn take_data(&mut self, frame: &mut Bytes, left: u64) -> Result<Bytes, ChunkError> {
        let taken = usize::try_from(left).map_or(frame.len(), |left| left.min(frame.len()));
        let data = frame.split_to(taken);
        if self.signer.is_some() {
            self.chunk_hash.update(&data);
        }
        let left = left - taken as u64;
        self.state = DecoderState::Data(left);
        if left == 0 {
            self.end_chunk()?;
            self.state = DecoderState::DataEnd(0);
        }
        Ok(data)
    }

    fn end_chunk(&mut self) -> Result<(), ChunkError> {
        if let Some(signer) = &mut self.signer {
            let hash = self.chunk_hash.finalize_reset().into();
            signer.accept_chunk(&self.chunk_signature.take().ok_or(ChunkError::Signature)?, hash)?;
        }
        Ok(())
    }

    fn take_line_end(&mut self, frame: &mut Bytes, seen: usize) -> Result<(), ChunkError> {
        let expected = if seen == 0 { b'\r' } else { b'\n' };
        if frame.get_u8() != expected {
            return Err(ChunkError::Malformed);
        }
        self.state = if seen == 0 { DecoderState::DataEnd(1) } else { DecoderState::Line };
        Ok(())
    }
}

/// `<hexadecimal size>[;chunk-signature=<64 digits>]`
fn parse_chunk_line(line: &[u8]) -> Result<(u64, Option<Signature>), ChunkError> {
    let (size, extension) = match line.iter().position(|byte| *byte == b';') {
        Some(at) => (line.get(..at), line.get(at + 1..)),
        None => (Some(line), None),
    };
    let size = size.filter(|digits| !digits.is_empty() && digits.iter().all(u8::is_ascii_hexdigit));
    let size = size.and_then(|digits| std::str::from_utf8(digits).ok()).ok_or(ChunkError::Malformed)?;
    let size = u64::from_str_radix(size, 16).map_err(|_| ChunkError::Malformed)?;
    let Some(extension) = extension else { return Ok((size, None)) };
    let signature = extension.strip_prefix(b"chunk-signature=").ok_or(ChunkError::Malformed)?;
    Ok((size, Some(Signature::parse(signature).ok_or(ChunkError::Signature)?)))
}

fn parse_trailer(line: &[u8]) -> Result<(String, String), ChunkError> {
    let line = std::str::from_utf8(line).map_err(|_| ChunkError::Malformed)?;
    let (name, value) = line.split_once(':').ok_or(ChunkError::Malformed)?;
    let name = name.trim();
    if name.is_empty() || !name.bytes().all(|byte| byte.is_ascii_alphanumeric() || byte == b'-') {
        return Err(ChunkError::Malformed);
    }
    Ok((name.to_ascii_lowercase(), value.trim().to_owned()))
}

#[cfg(test)]
mod tests;
