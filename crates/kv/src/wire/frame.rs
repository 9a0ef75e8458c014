//! Frames: a header of 32 bytes, a message of fields, and plain data behind it.
//!
//! Invariants:
//! - A header is believed only when its own checksum is right, and a length only when it is within the limits that hold on
//!   the connection at the time: garbage costs 32 bytes and no memory.
//! - Message and data are handed on only when their checksums are right.

use std::io::{self, IoSlice, Read, Write};

use bytes::Bytes;
use crc_fast::{CrcAlgorithm, checksum};
use koine_engine::{Error, ErrorKind, Result};
use koine_env::patience;

use super::fields::malformed;
use super::message::Message;
use crate::copies;

/// The length of a header in bytes.
pub const HEADER_LEN: usize = 32;
/// The longest data of a frame, in bytes: a piece of a stage.
pub const DATA_LEN_MAX: usize = crate::STAGE_PIECE_LEN_MAX;
/// The longest message in bytes: a batch as large as there may be, with what stands around its parts.
pub const MESSAGE_LEN_MAX: usize = crate::BATCH_BYTES_MAX + (8 << 20);

/// What a frame is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// Something is asked for.
    Request,
    /// The answer to a request.
    Reply,
    /// The request failed; the message is an error.
    Failure,
}

/// How long frames may be.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Limits {
    /// The longest message, in bytes.
    pub message_len: usize,
    /// The longest data, in bytes.
    pub data_len: usize,
}

impl Limits {
    /// For those that have shown who they are.
    pub const FULL: Limits = Limits { message_len: MESSAGE_LEN_MAX, data_len: DATA_LEN_MAX };
    /// For strangers.
    pub const GREETING: Limits = Limits { message_len: 512, data_len: 0 };
}

/// Data that does not go with its frame: it lies in memory that both sides have.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Shared {
    /// Where it begins.
    pub offset: u64,
    /// Its length, which is never zero.
    pub length: u32,
}

/// The length of what stands in the place of shared data.
const PLACE_LEN: usize = 8;

/// A message with its verb, the number of its request, and data.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Frame {
    /// What is asked for, or what is answered.
    pub verb: u16,
    /// Which of the two.
    pub kind: Kind,
    /// Chosen by who asks; the answer carries it.
    pub id: u64,
    /// The fields.
    pub message: Message,
    /// Plain bytes of values; of shared data what stands in its place.
    pub data: Bytes,
    /// Where data lies that does not go with the frame.
    pub shared: Option<Shared>,
}

/// What a header says.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Header {
    verb: u16,
    kind: Kind,
    id: u64,
    message_len: u32,
    data_len: u32,
    message_sum: u32,
    data_sum: u32,
    is_shared: bool,
}

/// The checksum of a part of a frame, for who makes frames that are wrong.
#[cfg(any(test, feature = "fuzzing"))]
pub fn frame_sum(bytes: &[u8]) -> u32 {
    sum(bytes)
}

fn sum(bytes: &[u8]) -> u32 {
    copies::hashed(bytes.len());
    checksum(CrcAlgorithm::Crc32Iscsi, bytes) as u32
}

impl Header {
    /// | offset | bytes | |
    /// |---|---|---|
    /// | 0 | 4 | CRC-32C of bytes 4 to 31 |
    /// | 4 | 2 | verb |
    /// | 6 | 1 | 0 request, 1 reply, 2 failure |
    /// | 7 | 1 | 1: the data lies in shared memory |
    /// | 8 | 8 | number of the request |
    /// | 16 | 4 | length of the message |
    /// | 20 | 4 | length of the data |
    /// | 24 | 4 | CRC-32C of the message |
    /// | 28 | 4 | CRC-32C of the data; 0 where there is none |
    fn encode(&self) -> [u8; HEADER_LEN] {
        let kind = match self.kind {
            Kind::Request => 0,
            Kind::Reply => 1,
            Kind::Failure => 2,
        };
        let mut bytes = [0; HEADER_LEN];
        bytes[4..6].copy_from_slice(&self.verb.to_le_bytes());
        bytes[6] = kind;
        bytes[7] = u8::from(self.is_shared);
        bytes[8..16].copy_from_slice(&self.id.to_le_bytes());
        bytes[16..20].copy_from_slice(&self.message_len.to_le_bytes());
        bytes[20..24].copy_from_slice(&self.data_len.to_le_bytes());
        bytes[24..28].copy_from_slice(&self.message_sum.to_le_bytes());
        bytes[28..].copy_from_slice(&self.data_sum.to_le_bytes());
        let own = sum(&bytes[4..]);
        bytes[..4].copy_from_slice(&own.to_le_bytes());
        bytes
    }

    /// Of bytes; an error where their checksum is wrong, or what they say is not allowed.
    pub fn decode(bytes: &[u8; HEADER_LEN], limits: Limits) -> Result<Header> {
        let number = |at: usize| u32::from_le_bytes([bytes[at], bytes[at + 1], bytes[at + 2], bytes[at + 3]]);
        if number(0) != sum(&bytes[4..]) {
            return Err(malformed("a header with a wrong checksum"));
        }
        let verb = u16::from_le_bytes([bytes[4], bytes[5]]);
        let (kind, is_shared) = match (bytes[6], bytes[7]) {
            (0, flag @ (0 | 1)) => (Kind::Request, flag == 1),
            (1, flag @ (0 | 1)) => (Kind::Reply, flag == 1),
            (2, 0) => (Kind::Failure, false),
            (kind, flags) => return Err(malformed(format!("a frame of kind {kind} with flags {flags}"))),
        };
        let id = u64::from(number(8)) | u64::from(number(12)) << 32;
        let (message_len, data_len) = (number(16), number(20));
        if message_len as usize > limits.message_len || data_len as usize > limits.data_len {
            return Err(Error::invalid(format!(
                "a frame of {message_len} and {data_len} bytes, where at most {} and {} are taken",
                limits.message_len, limits.data_len
            )));
        }
        if is_shared && data_len == 0 {
            return Err(malformed("shared data of no bytes"));
        }
        Ok(Header { verb, kind, id, message_len, data_len, message_sum: number(24), data_sum: number(28), is_shared })
    }

    /// Fails where these are not the message and the data that it was made for.
    pub fn check(&self, message: &[u8], data: &[u8]) -> Result<()> {
        if sum(message) != self.message_sum || (!data.is_empty() && sum(data) != self.data_sum) {
            return Err(malformed("a frame with a wrong checksum"));
        }
        Ok(())
    }

    /// The length of the message.
    pub fn message_len(&self) -> usize {
        self.message_len as usize
    }

    /// The length of what comes behind the message: the data, or what stands in its place.
    pub fn data_len(&self) -> usize {
        if self.is_shared { PLACE_LEN } else { self.data_len as usize }
    }
}

impl Frame {
    /// A message without data.
    pub fn new(verb: u16, kind: Kind, id: u64, message: impl Into<Message>) -> Frame {
        Frame { verb, kind, id, message: message.into(), data: Bytes::new(), shared: None }
    }

    /// The same with data.
    #[must_use]
    pub fn with_data(self, data: Bytes) -> Frame {
        Frame { data, ..self }
    }

    /// The same with data that lies in shared memory.
    #[must_use]
    pub fn with_shared(self, shared: Shared) -> Frame {
        Frame { data: Bytes::copy_from_slice(&shared.offset.to_le_bytes()), shared: Some(shared), ..self }
    }

    /// Bytes that it takes in memory.
    pub fn weight(&self) -> usize {
        HEADER_LEN + self.message.len() + self.data.len()
    }

    /// Its header.
    pub fn header(&self) -> [u8; HEADER_LEN] {
        header(self.verb, self.kind, self.id, &self.message, &self.data, self.shared)
    }

    /// Reads the next one; `None` at the end of the stream. `Stopped` when the stream fails or ends within one.
    pub fn read(from: &mut impl Read, limits: Limits) -> Result<Option<Frame>> {
        let mut bytes = [0; HEADER_LEN];
        match read_some(from, &mut bytes)? {
            0 => return Ok(None),
            HEADER_LEN => {}
            _ => return Err(cut()),
        }
        let header = Header::decode(&bytes, limits)?;
        let mut message = vec![0; header.message_len()];
        let mut data = vec![0; header.data_len()];
        if read_some(from, &mut message)? < message.len() || read_some(from, &mut data)? < data.len() {
            return Err(cut());
        }
        header.check(&message, &data)?;
        Ok(Some(Frame::assemble(&header, message.into(), data.into())))
    }

    /// Of its parts, which were compared with its header.
    pub fn assemble(header: &Header, message: Message, data: Bytes) -> Frame {
        copies::crossed(message.len() + data.len());
        let place = data.first_chunk::<PLACE_LEN>().filter(|_| header.is_shared);
        let shared = place.map(|place| Shared { offset: u64::from_le_bytes(*place), length: header.data_len });
        Frame { verb: header.verb, kind: header.kind, id: header.id, message, data, shared }
    }
}

/// The header of a frame of these parts.
fn header(verb: u16, kind: Kind, id: u64, message: &[u8], data: &[u8], shared: Option<Shared>) -> [u8; HEADER_LEN] {
    copies::crossed(message.len() + data.len());
    let data_len = shared.map_or_else(|| u32::try_from(data.len()).unwrap_or(u32::MAX), |shared| shared.length);
    let header = Header {
        verb,
        kind,
        id,
        message_len: u32::try_from(message.len()).unwrap_or(u32::MAX),
        data_len,
        message_sum: sum(message),
        data_sum: if data.is_empty() { 0 } else { sum(data) },
        is_shared: shared.is_some(),
    };
    header.encode()
}

/// The header of a request.
pub fn request_header(verb: u16, id: u64, message: &[u8], data: &[u8], shared: Option<Shared>) -> [u8; HEADER_LEN] {
    header(verb, Kind::Request, id, message, data, shared)
}

/// Refuses a request that the other side would end the connection for.
pub fn check_lengths(message_len: usize, data_len: usize) -> Result<()> {
    if message_len > MESSAGE_LEN_MAX || data_len > DATA_LEN_MAX {
        return Err(Error::invalid(format!(
            "a request of {message_len} and {data_len} bytes; at most {MESSAGE_LEN_MAX} and {DATA_LEN_MAX} are taken"
        )));
    }
    Ok(())
}

/// Whether bytes that were read ahead hold a whole frame, so that the next one can be read without waiting.
pub fn is_whole(ahead: &[u8]) -> bool {
    let number = |at: usize| ahead.get(at..at + 4).and_then(|field| Some(u32::from_le_bytes(*field.first_chunk()?)));
    let (Some(message_len), Some(mut data_len)) = (number(16), number(20)) else { return false };
    if ahead.get(7) == Some(&1) {
        data_len = PLACE_LEN as u32;
    }
    // Lengths that are not allowed are found by who reads the header.
    ahead.len() >= HEADER_LEN && ahead.len() - HEADER_LEN >= message_len as usize + data_len as usize
}

/// Writes a request, without a copy of its data.
pub fn write_request(to: &mut impl Write, verb: u16, id: u64, message: &[u8], data: &[u8]) -> io::Result<()> {
    let header = request_header(verb, id, message, data, None);
    let mut slices = [IoSlice::new(&header), IoSlice::new(message), IoSlice::new(data)];
    let mut rest = &mut slices[..];
    while !rest.is_empty() {
        match to.write_vectored(rest) {
            Ok(0) => return Err(io::ErrorKind::WriteZero.into()),
            Ok(count) => IoSlice::advance_slices(&mut rest, count),
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            Err(error) => return Err(error),
        }
    }
    Ok(())
}

/// Reads until the buffer is full or the stream ends.
fn read_some(from: &mut impl Read, buffer: &mut [u8]) -> Result<usize> {
    let mut done = 0;
    while done < buffer.len() {
        match from.read(&mut buffer[done..]) {
            Ok(0) => break,
            Ok(count) => done += count,
            Err(_) if patience::is_over() => return Err(Error::interrupted()),
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            Err(error) => return Err(Error::new(ErrorKind::Stopped, "the connection failed").with_source(error)),
        }
    }
    Ok(done)
}

/// The end came within a frame.
pub fn cut() -> Error {
    Error::new(ErrorKind::Stopped, "the connection ended within a message")
}
