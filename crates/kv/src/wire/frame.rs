//! Frames: a header of 32 bytes, a message of fields, and plain data behind it.
//!
//! Invariants:
//! - A header is believed only when its own checksum is right, and a length only when it is within the limits that hold on
//!   the connection at the time: garbage costs 32 bytes and no memory.
//! - Message and data are handed on only when their checksums are right.

use std::io::{self, IoSlice, Read, Write};

use bytes::{Bytes, BytesMut};
use crc_fast::{CrcAlgorithm, checksum};
use koine_engine::{Error, ErrorKind, Result};

use super::fields::malformed;

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
    pub message: Bytes,
    /// Plain bytes of values.
    pub data: Bytes,
}

/// What a header says.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Header {
    verb: u16,
    kind: Kind,
    id: u64,
    message_len: u32,
    data_len: u32,
    message_sum: u32,
    data_sum: u32,
}

fn sum(bytes: &[u8]) -> u32 {
    checksum(CrcAlgorithm::Crc32Iscsi, bytes) as u32
}

impl Header {
    /// | offset | bytes | |
    /// |---|---|---|
    /// | 0 | 4 | CRC-32C of bytes 4 to 31 |
    /// | 4 | 2 | verb |
    /// | 6 | 1 | 0 request, 1 reply, 2 failure |
    /// | 7 | 1 | zero |
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
        bytes[8..16].copy_from_slice(&self.id.to_le_bytes());
        bytes[16..20].copy_from_slice(&self.message_len.to_le_bytes());
        bytes[20..24].copy_from_slice(&self.data_len.to_le_bytes());
        bytes[24..28].copy_from_slice(&self.message_sum.to_le_bytes());
        bytes[28..].copy_from_slice(&self.data_sum.to_le_bytes());
        let own = sum(&bytes[4..]);
        bytes[..4].copy_from_slice(&own.to_le_bytes());
        bytes
    }

    fn decode(bytes: &[u8; HEADER_LEN], limits: Limits) -> Result<Header> {
        let mut fields = super::fields::Fields::new(Bytes::copy_from_slice(bytes));
        if fields.u32()? != sum(&bytes[4..]) {
            return Err(malformed("a header with a wrong checksum"));
        }
        let verb = fields.u16()?;
        let kind = match (fields.u8()?, fields.u8()?) {
            (0, 0) => Kind::Request,
            (1, 0) => Kind::Reply,
            (2, 0) => Kind::Failure,
            (kind, flags) => return Err(malformed(format!("a frame of kind {kind} with flags {flags}"))),
        };
        let (id, message_len, data_len) = (fields.u64()?, fields.u32()?, fields.u32()?);
        if message_len as usize > limits.message_len || data_len as usize > limits.data_len {
            return Err(Error::invalid(format!(
                "a frame of {message_len} and {data_len} bytes, where at most {} and {} are taken",
                limits.message_len, limits.data_len
            )));
        }
        let (message_sum, data_sum) = (fields.u32()?, fields.u32()?);
        Ok(Header { verb, kind, id, message_len, data_len, message_sum, data_sum })
    }
}

impl Frame {
    /// A message without data.
    pub fn new(verb: u16, kind: Kind, id: u64, message: Vec<u8>) -> Frame {
        Frame { verb, kind, id, message: message.into(), data: Bytes::new() }
    }

    /// The same with data.
    #[must_use]
    pub fn with_data(self, data: Bytes) -> Frame {
        Frame { data, ..self }
    }

    /// Bytes that it takes in memory.
    pub fn weight(&self) -> usize {
        HEADER_LEN + self.message.len() + self.data.len()
    }

    /// Its header.
    pub fn header(&self) -> [u8; HEADER_LEN] {
        header(self.verb, self.kind, self.id, &self.message, &self.data)
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
        let message = read_checked(from, header.message_len, header.message_sum)?;
        let data =
            if header.data_len == 0 { Bytes::new() } else { read_checked(from, header.data_len, header.data_sum)? };
        Ok(Some(Frame { verb: header.verb, kind: header.kind, id: header.id, message, data }))
    }
}

/// The header of a frame of these parts.
fn header(verb: u16, kind: Kind, id: u64, message: &[u8], data: &[u8]) -> [u8; HEADER_LEN] {
    let header = Header {
        verb,
        kind,
        id,
        message_len: u32::try_from(message.len()).unwrap_or(u32::MAX),
        data_len: u32::try_from(data.len()).unwrap_or(u32::MAX),
        message_sum: sum(message),
        data_sum: if data.is_empty() { 0 } else { sum(data) },
    };
    header.encode()
}

/// Writes a request, without a copy of its data. One that the other side would refuse is `InvalidInput`, and nothing of it is
/// written.
pub fn write_request(to: &mut impl Write, verb: u16, id: u64, message: &[u8], data: &[u8]) -> io::Result<()> {
    if message.len() > MESSAGE_LEN_MAX || data.len() > DATA_LEN_MAX {
        let text = format!(
            "a request of {} and {} bytes; at most {MESSAGE_LEN_MAX} and {DATA_LEN_MAX} are taken",
            message.len(),
            data.len()
        );
        return Err(io::Error::new(io::ErrorKind::InvalidInput, text));
    }
    let header = header(verb, Kind::Request, id, message, data);
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

fn read_checked(from: &mut impl Read, length: u32, expected: u32) -> Result<Bytes> {
    let mut bytes = BytesMut::zeroed(length as usize);
    if read_some(from, &mut bytes)? < bytes.len() {
        return Err(cut());
    }
    if sum(&bytes) != expected {
        return Err(malformed("a frame with a wrong checksum"));
    }
    Ok(bytes.freeze())
}

/// Reads until the buffer is full or the stream ends.
fn read_some(from: &mut impl Read, buffer: &mut [u8]) -> Result<usize> {
    let mut done = 0;
    while done < buffer.len() {
        match from.read(&mut buffer[done..]) {
            Ok(0) => break,
            Ok(count) => done += count,
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            Err(error) => return Err(Error::new(ErrorKind::Stopped, "the connection failed").with_source(error)),
        }
    }
    Ok(done)
}

fn cut() -> Error {
    Error::new(ErrorKind::Stopped, "the connection ended within a message")
}
