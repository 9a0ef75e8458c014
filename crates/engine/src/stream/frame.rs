//! The stream's bytes: a header, then frames, each bound to the one before by its checksum.
//!
//! Invariants:
//! - A frame is handed out only after its checksum held, which covers the checksum before it: nothing can be
//!   changed, left out, repeated or moved unnoticed.
//! - Reading takes memory for one frame, whatever the bytes say.
//!
//! Layout in docs/format-stream.md.

use std::io::{ErrorKind as IoKind, Read};

use bytes::Bytes;

use crate::batch::{KEY_LEN_MAX, SpaceId, VALUE_LEN_MAX, Version};
use crate::checksum::crc64;
use crate::codec::{Reader, Writer};
use crate::error::{Error, ErrorKind, Result};

/// The first eight bytes of a stream.
pub const MAGIC: [u8; 8] = *b"KOINE\0T\n";
/// The version of the stream's format.
pub const FORMAT: u32 = 0;
/// The most bytes of a value in one frame.
pub const DATA_LEN_MAX: usize = 1 << 20;

const HEADER_LEN: usize = 32;
const FRAME_HEAD_LEN: usize = 16;
const PAYLOAD_LEN_MAX: usize = DATA_LEN_MAX + KEY_LEN_MAX + 32;

const SNAPSHOT: u32 = 1;
const INCREMENTAL: u32 = 2;
const WITHIN: u32 = 4;

/// What a snapshot is known by, everywhere: a space of a store, and the commit that made it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Origin {
    /// The store's id.
    pub store: u64,
    /// The space in it.
    pub space: SpaceId,
    /// The commit that made the snapshot.
    pub created: Version,
}

/// One thing that a stream says.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Frame {
    /// What follows is the content of a space, up to its end.
    Space {
        /** Its id where it comes from. */
        space: SpaceId,
        /** The commit that made it. */
        created: Version,
        /** A snapshot, which stays one; else it may be changed. */
        is_snapshot: bool,
        /** Only what differs from this space of the same store follows. */
        base: Option<(SpaceId, Version)>,
        /** That space was told before in this stream; else it is a snapshot that the other side has. */
        within: bool,
    },
    /// A key and the whole of its value: its size, and the first bytes. What no later frame gives reads as zeros.
    Put {
        /** The key. */
        key: Bytes,
        /** The size of its value. */
        size: u64,
        /** Bytes from the value's start. */
        data: Bytes,
    },
    /// A key whose value is that of the base, at this size, but for what the next frames say.
    Change {
        /** The key. */
        key: Bytes,
        /** The size of its value. */
        size: u64,
    },
    /// Bytes of the value that was named last.
    Data {
        /** Where they lie in it. */
        offset: u64,
        /** The bytes. */
        data: Bytes,
    },
    /// Zeros in the value that was named last.
    Hole {
        /** From here on. */
        offset: u64,
        /** So many. */
        length: u64,
    },
    /// A key of the base that is not there any more.
    Delete {
        /** The key. */
        key: Bytes,
    },
    /// The space is told.
    SpaceEnd {
        /** How many keys were put, changed or deleted. */
        keys: u64,
    },
    /// What those who made the stream say of it; the engine does not look into it.
    Note {
        /** Their bytes. */
        bytes: Bytes,
    },
    /// Everything is told.
    End {
        /** How many spaces. */
        spaces: u64,
    },
}

impl Frame {
    /// The number of its kind.
    pub(crate) fn kind(&self) -> u8 {
        match self {
            Frame::Space { .. } => 1,
            Frame::Put { .. } => 2,
            Frame::Change { .. } => 3,
            Frame::Data { .. } => 4,
            Frame::Hole { .. } => 5,
            Frame::Delete { .. } => 6,
            Frame::SpaceEnd { .. } => 7,
            Frame::End { .. } => 8,
            Frame::Note { .. } => 9,
        }
    }

    /// The bytes behind the frame's head.
    pub(crate) fn payload(&self) -> Vec<u8> {
        let mut out = Vec::new();
        match self {
            Frame::Space { space, created, is_snapshot, base, within } => {
                let flag = |set: bool, flag: u32| if set { flag } else { 0 };
                let flags = flag(*is_snapshot, SNAPSHOT) | flag(base.is_some(), INCREMENTAL) | flag(*within, WITHIN);
                let (base, base_created) = base.unwrap_or_default();
                out.put_u32(flags);
                [space.0, created.0, base.0, base_created.0].into_iter().for_each(|word| out.put_u64(word));
            }
            Frame::Put { key, size, data } => {
                out.put_u64(*size);
                out.put_bytes(key);
                out.extend_from_slice(data);
            }
            Frame::Change { key, size } => {
                out.put_u64(*size);
                out.put_bytes(key);
            }
            Frame::Data { offset, data } => {
                out.put_u64(*offset);
                out.extend_from_slice(data);
            }
            Frame::Hole { offset, length } => {
                out.put_u64(*offset);
                out.put_u64(*length);
            }
            Frame::Delete { key } => out.put_bytes(key),
            Frame::SpaceEnd { keys } => out.put_u64(*keys),
            Frame::End { spaces } => out.put_u64(*spaces),
            Frame::Note { bytes } => out.extend_from_slice(bytes),
        }
        out
    }

    /// Reads the payload of a frame of this kind.
    pub(crate) fn parse(kind: u8, payload: &Bytes) -> Result<Frame> {
        let mut reader = Reader::new(payload);
        let frame = match kind {
            1 => parse_space(&mut reader)?,
            2 => {
                let (size, key) = (reader.u64()?, parse_key(&mut reader)?);
                let data = parse_data(&mut reader, payload)?;
                check_inside(size, 0, data.len() as u64)?;
                Frame::Put { key, size, data }
            }
            3 => {
                let (size, key) = (reader.u64()?, parse_key(&mut reader)?);
                check_inside(size, 0, 0)?;
                Frame::Change { key, size }
            }
            4 => Frame::Data { offset: reader.u64()?, data: parse_data(&mut reader, payload)? },
            5 => Frame::Hole { offset: reader.u64()?, length: reader.u64()? },
            6 => Frame::Delete { key: parse_key(&mut reader)? },
            7 => Frame::SpaceEnd { keys: reader.u64()? },
            8 => Frame::End { spaces: reader.u64()? },
            9 => Frame::Note { bytes: parse_data(&mut reader, payload)? },
            _ => return Err(Error::damaged(format!("a frame of the unknown kind {kind}"))),
        };
        reader.end()?;
        Ok(frame)
    }
}

/// Fails unless a part lies within a value that may be so long.
pub fn check_inside(size: u64, offset: u64, length: u64) -> Result<()> {
    if size <= VALUE_LEN_MAX && offset.checked_add(length).is_some_and(|end| end <= size) {
        return Ok(());
    }
    Err(Error::damaged(format!("{length} bytes at {offset} of a value of {size} bytes")))
}

fn parse_space(reader: &mut Reader<'_>) -> Result<Frame> {
    let flags = reader.u32()?;
    let (space, created) = (SpaceId(reader.u64()?), Version(reader.u64()?));
    let base = (SpaceId(reader.u64()?), Version(reader.u64()?));
    let (is_incremental, within) = (flags & INCREMENTAL != 0, flags & WITHIN != 0);
    if flags & !(SNAPSHOT | INCREMENTAL | WITHIN) != 0 || (!is_incremental && (within || base != Default::default())) {
        return Err(Error::damaged(format!("a space with the unknown flags {flags:#x}")));
    }
    let base = is_incremental.then_some(base);
    Ok(Frame::Space { space, created, is_snapshot: flags & SNAPSHOT != 0, base, within })
}

fn parse_key(reader: &mut Reader<'_>) -> Result<Bytes> {
    let key = reader.bytes()?;
    if key.len() > KEY_LEN_MAX {
        return Err(Error::damaged(format!("a key of {} bytes", key.len())));
    }
    Ok(key)
}

fn parse_data(reader: &mut Reader<'_>, payload: &Bytes) -> Result<Bytes> {
    let length = reader.remaining();
    if length > DATA_LEN_MAX {
        return Err(Error::damaged(format!("{length} bytes of data in one frame")));
    }
    reader.take(length)?;
    Ok(payload.slice(payload.len() - length..))
}

/// Seals frames.
pub struct FrameWriter {
    chain: u64,
}

impl FrameWriter {
    /// Begins a stream of a store: appends its header.
    pub fn begin(store: u64, out: &mut Vec<u8>) -> FrameWriter {
        let before = out.len();
        out.extend_from_slice(&MAGIC);
        out.put_u32(FORMAT);
        out.put_u32(0);
        out.put_u64(store);
        let chain = crc64(out.get(before..).unwrap_or_default());
        out.put_u64(chain);
        FrameWriter { chain }
    }

    /// Appends a frame.
    pub fn write(&mut self, frame: &Frame, out: &mut Vec<u8>) {
        let payload = frame.payload();
        let head = head_of(frame.kind(), payload.len() as u32);
        self.chain = seal(self.chain, &head, &payload);
        out.extend_from_slice(&head);
        out.put_u64(self.chain);
        out.extend_from_slice(&payload);
    }
}

fn head_of(kind: u8, length: u32) -> [u8; 8] {
    let [a, b, c, d] = length.to_le_bytes();
    [kind, 0, 0, 0, a, b, c, d]
}

fn seal(chain: u64, head: &[u8; 8], payload: &[u8]) -> u64 {
    let mut digest = crc_fast::Digest::new(crc_fast::CrcAlgorithm::Crc64Nvme);
    digest.update(&chain.to_le_bytes());
    digest.update(head);
    digest.update(payload);
    digest.finalize()
}

/// Takes frames from a stream.
pub struct FrameReader<'r> {
    input: &'r mut dyn Read,
    chain: u64,
    /// Bytes read, for messages.
    at: u64,
    /// The store that it comes from.
    pub store: u64,
}

impl<'r> FrameReader<'r> {
    /// Reads the header.
    pub fn begin(input: &'r mut dyn Read) -> Result<FrameReader<'r>> {
        let mut frames = FrameReader { input, chain: 0, at: 0, store: 0 };
        let mut header = [0; HEADER_LEN];
        frames.fill(&mut header)?;
        let mut reader = Reader::new(&header);
        if reader.array::<8>()? != MAGIC {
            return Err(Error::new(ErrorKind::Unknown, "this is no stream of a store: it does not begin as one"));
        }
        let (format, flags) = (reader.u32()?, reader.u32()?);
        frames.store = reader.u64()?;
        frames.chain = reader.u64()?;
        if crc64(header.get(..HEADER_LEN - 8).unwrap_or_default()) != frames.chain {
            return Err(frames.damaged("its header does not match its checksum"));
        }
        if format != FORMAT || flags != 0 {
            let message = format!("the stream has format {format} ({flags:#x}); this program knows format {FORMAT}");
            return Err(Error::new(ErrorKind::Unknown, message));
        }
        Ok(frames)
    }

    /// The next frame.
    pub fn next(&mut self) -> Result<Frame> {
        let (mut head, mut checksum) = ([0; 8], [0; FRAME_HEAD_LEN - 8]);
        self.fill(&mut head)?;
        self.fill(&mut checksum)?;
        let mut reader = Reader::new(&head);
        let (kind, zeros, length) = (reader.u8()?, reader.array::<3>()?, reader.u32()? as usize);
        if length > PAYLOAD_LEN_MAX || zeros != [0; 3] {
            return Err(self.damaged(&format!("a frame of {length} bytes")));
        }
        let mut payload = vec![0; length];
        self.fill(&mut payload)?;
        let chain = seal(self.chain, &head, &payload);
        if chain != u64::from_le_bytes(checksum) {
            return Err(self.damaged("a frame does not match its checksum"));
        }
        self.chain = chain;
        Frame::parse(kind, &Bytes::from(payload)).map_err(|error| self.damaged(error.message()))
    }

    /// Bytes read so far.
    pub fn position(&self) -> u64 {
        self.at
    }

    /// An error about the bytes just read.
    pub fn damaged(&self, what: &str) -> Error {
        Error::damaged(format!("the stream is damaged before byte {}: {what}; nothing of it was kept", self.at))
    }

    fn fill(&mut self, buffer: &mut [u8]) -> Result<()> {
        self.input.read_exact(buffer).map_err(|error| {
            if error.kind() == IoKind::UnexpectedEof {
                return Error::damaged(format!(
                    "the stream ends too early, soon after byte {}; nothing of it was kept",
                    self.at
                ));
            }
            Error::device("cannot read the stream", error)
        })?;
        self.at += buffer.len() as u64;
        Ok(())
    }
}
