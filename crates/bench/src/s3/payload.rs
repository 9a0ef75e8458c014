//! The bytes that are stored: random, made once, held in memory and in a memory file.
//!
//! Large pieces go from the memory file to the socket without a copy on this side, so that the cores are the server's.

use crate::Error;
use rustix::fs::MemfdFlags;
use std::fs::File;
use std::io::Write;

/// One run of random bytes; objects are its prefixes, or repetitions when they are longer.
#[derive(Debug)]
pub struct Payload {
    bytes: Vec<u8>,
    file: File,
}

impl Payload {
    /// Makes `length` bytes from a fixed seed.
    pub fn new(length: usize) -> Result<Payload, Error> {
        let mut bytes = Vec::with_capacity(length + 8);
        let mut state = 0x9E37_79B9_7F4A_7C15_u64;
        while bytes.len() < length {
            // xorshift64*: incompressible is all that is asked of it.
            state ^= state >> 12;
            state ^= state << 25;
            state ^= state >> 27;
            bytes.extend_from_slice(&state.wrapping_mul(0x2545_F491_4F6C_DD1D).to_le_bytes());
        }
        bytes.truncate(length);
        let descriptor = rustix::fs::memfd_create("koine-bench-payload", MemfdFlags::CLOEXEC)
            .map_err(Error::io("cannot make a memory file for the payload"))?;
        let mut file = File::from(descriptor);
        file.write_all(&bytes).map_err(Error::io("cannot fill the memory file for the payload"))?;
        Ok(Payload { bytes, file })
    }

    /// All of it.
    pub fn bytes(&self) -> &[u8] {
        &self.bytes
    }

    /// The same bytes as a file.
    pub fn file(&self) -> &File {
        &self.file
    }
}
