//! Checksums of bodies: computed in one pass, compared, combined, and their text form.
//!
//! Invariants:
//! - A value is big-endian, as S3 sends it; its length is that of its algorithm.
//! - Only what was asked for is computed.

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD as BASE64;
use crc_fast::CrcAlgorithm;
use md5::Md5;
use sha1::Sha1;
use sha2::{Digest as _, Sha256, Sha512};
use xxhash_rust::xxh3::Xxh3Default;
use xxhash_rust::xxh64::Xxh64;

use crate::error::{Error, ErrorKind, Result};

/// The checksums that S3 knows.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum ChecksumAlgorithm {
    /// CRC-32 of ISO-HDLC (zip, Ethernet).
    Crc32,
    /// CRC-32 of Castagnoli (iSCSI).
    Crc32c,
    /// CRC-64 of NVMe; what is computed when nothing is asked for.
    Crc64Nvme,
    /// SHA-1.
    Sha1,
    /// SHA-256.
    Sha256,
    /// SHA-512.
    Sha512,
    /// MD5.
    Md5,
    /// xxHash of 64 bits, seed 0.
    Xxhash64,
    /// XXH3 of 64 bits, seed 0.
    Xxhash3,
    /// XXH3 of 128 bits, seed 0.
    Xxhash128,
}

impl ChecksumAlgorithm {
    /// All of them.
    pub const ALL: [ChecksumAlgorithm; 10] = [
        ChecksumAlgorithm::Crc32,
        ChecksumAlgorithm::Crc32c,
        ChecksumAlgorithm::Crc64Nvme,
        ChecksumAlgorithm::Sha1,
        ChecksumAlgorithm::Sha256,
        ChecksumAlgorithm::Sha512,
        ChecksumAlgorithm::Md5,
        ChecksumAlgorithm::Xxhash64,
        ChecksumAlgorithm::Xxhash3,
        ChecksumAlgorithm::Xxhash128,
    ];

    /// The length of its value in bytes.
    pub fn value_len(self) -> usize {
        match self {
            ChecksumAlgorithm::Crc32 | ChecksumAlgorithm::Crc32c => 4,
            ChecksumAlgorithm::Crc64Nvme | ChecksumAlgorithm::Xxhash64 | ChecksumAlgorithm::Xxhash3 => 8,
            ChecksumAlgorithm::Md5 | ChecksumAlgorithm::Xxhash128 => 16,
            ChecksumAlgorithm::Sha1 => 20,
            ChecksumAlgorithm::Sha256 => 32,
            ChecksumAlgorithm::Sha512 => 64,
        }
    }

    /// Its name in S3: `CRC32`, `CRC64NVME`, `SHA256`, `XXHASH3`, …
    pub fn name(self) -> &'static str {
        match self {
            ChecksumAlgorithm::Crc32 => "CRC32",
            ChecksumAlgorithm::Crc32c => "CRC32C",
            ChecksumAlgorithm::Crc64Nvme => "CRC64NVME",
            ChecksumAlgorithm::Sha1 => "SHA1",
            ChecksumAlgorithm::Sha256 => "SHA256",
            ChecksumAlgorithm::Sha512 => "SHA512",
            ChecksumAlgorithm::Md5 => "MD5",
            ChecksumAlgorithm::Xxhash64 => "XXHASH64",
            ChecksumAlgorithm::Xxhash3 => "XXHASH3",
            ChecksumAlgorithm::Xxhash128 => "XXHASH128",
        }
    }

    /// By its name in S3, in any case.
    pub fn from_name(name: &str) -> Option<Self> {
        ChecksumAlgorithm::ALL.into_iter().find(|algorithm| algorithm.name().eq_ignore_ascii_case(name))
    }

    /// The kind that a multipart upload gets which names only the algorithm.
    pub fn default_kind(self) -> ChecksumKind {
        match self {
            ChecksumAlgorithm::Crc64Nvme => ChecksumKind::FullObject,
            _ => ChecksumKind::Composite,
        }
    }

    /// Whether a multipart upload may have this algorithm and kind.
    pub fn allows(self, kind: ChecksumKind) -> bool {
        match self {
            ChecksumAlgorithm::Crc32 | ChecksumAlgorithm::Crc32c => true,
            ChecksumAlgorithm::Crc64Nvme => kind == ChecksumKind::FullObject,
            _ => kind == ChecksumKind::Composite,
        }
    }

    fn crc(self) -> Option<CrcAlgorithm> {
        match self {
            ChecksumAlgorithm::Crc32 => Some(CrcAlgorithm::Crc32IsoHdlc),
            ChecksumAlgorithm::Crc32c => Some(CrcAlgorithm::Crc32Iscsi),
            ChecksumAlgorithm::Crc64Nvme => Some(CrcAlgorithm::Crc64Nvme),
            _ => None,
        }
    }
}

/// What a checksum is of.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum ChecksumKind {
    /// All bytes of the object.
    FullObject,
    /// The checksums of its parts, one after the other.
    Composite,
}

/// A checksum's value.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Checksum {
    /// How it was computed.
    pub algorithm: ChecksumAlgorithm,
    /// Big-endian, of the algorithm's length.
    pub value: Vec<u8>,
    /// How many parts a composite one is of; `None` when it is of all bytes.
    pub composite_parts: Option<u32>,
}

impl Checksum {
    /// A checksum of all bytes.
    pub fn full(algorithm: ChecksumAlgorithm, value: impl Into<Vec<u8>>) -> Self {
        Checksum { algorithm, value: value.into(), composite_parts: None }
    }

    /// What it is of.
    pub fn kind(&self) -> ChecksumKind {
        if self.composite_parts.is_some() { ChecksumKind::Composite } else { ChecksumKind::FullObject }
    }

    /// From the text of a header or trailer: base64, and `-N` after a composite one.
    pub fn parse(algorithm: ChecksumAlgorithm, text: &str) -> Result<Self> {
        let wrong = || {
            let message = format!("{text:?} is not the base64 of a {} value", algorithm.name());
            Error::new(ErrorKind::InvalidDigest, message)
        };
        let (base, parts) = match text.split_once('-') {
            None => (text, None),
            Some((base, parts)) => (base, Some(parts.parse().map_err(|_| wrong())?)),
        };
        let value = BASE64.decode(base).map_err(|_| wrong())?;
        if value.len() != algorithm.value_len() {
            return Err(wrong());
        }
        Ok(Checksum { algorithm, value, composite_parts: parts })
    }

    /// As S3 sends it: base64, and `-N` after a composite one.
    pub fn to_text(&self) -> String {
        let base = BASE64.encode(&self.value);
        match self.composite_parts {
            None => base,
            Some(parts) => format!("{base}-{parts}"),
        }
    }
}

/// What a caller says a body's digests are.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Expected {
    /// `Content-MD5`.
    pub md5: Option<[u8; 16]>,
    /// `x-amz-checksum-*`, as header or trailer.
    pub checksums: Vec<Checksum>,
}

impl Expected {
    /// Nothing is expected.
    pub fn none() -> Self {
        Expected::default()
    }

    /// Checks bytes that are all there: `BadDigest` when they have other digests.
    pub fn verify(&self, bytes: &[u8]) -> Result<()> {
        let mut hasher = Hasher::new(self.md5.is_some(), self.checksums.iter().map(|checksum| checksum.algorithm));
        hasher.update(bytes);
        hasher.finish().verify(self)
    }

    /// The value of a `Content-MD5` header.
    pub fn parse_md5(text: &str) -> Result<[u8; 16]> {
        let bytes = BASE64.decode(text).ok().and_then(|bytes| <[u8; 16]>::try_from(bytes).ok());
        bytes.ok_or_else(|| Error::new(ErrorKind::InvalidDigest, format!("{text:?} is not the base64 of an MD5")))
    }
}

/// The digests of a body.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Digests {
    pub md5: Option<[u8; 16]>,
    pub checksums: Vec<Checksum>,
}

impl Digests {
    /// What tells one body from another: the MD5, or else the first checksum.
    pub fn fingerprint(&self) -> &[u8] {
        let checksum = self.checksums.first().map_or(&[][..], |checksum| &checksum.value);
        self.md5.as_ref().map_or(checksum, |md5| md5)
    }

    /// `BadDigest` when a promise was not kept.
    pub fn verify(&self, expected: &Expected) -> Result<()> {
        if expected.md5.is_some() && self.md5.is_none() {
            let message = "an MD5 came that was not announced before the body";
            return Err(Error::new(ErrorKind::InvalidRequest, message));
        }
        if expected.md5.is_some() && expected.md5 != self.md5 {
            let message = "The Content-MD5 you specified did not match what we received.";
            return Err(Error::new(ErrorKind::BadDigest, message));
        }
        for wanted in &expected.checksums {
            let name = wanted.algorithm.name();
            let Some(had) = self.checksums.iter().find(|had| had.algorithm == wanted.algorithm) else {
                let message = format!("a {name} checksum came that was not announced before the body");
                return Err(Error::new(ErrorKind::InvalidRequest, message));
            };
            if had.value != wanted.value {
                let message = format!("The {name} you specified did not match the calculated checksum.");
                return Err(Error::new(ErrorKind::BadDigest, message));
            }
        }
        Ok(())
    }
}

/// What adds up one checksum. The state of XXH3 is large, so it is boxed.
enum Running {
    Crc(ChecksumAlgorithm, crc_fast::Digest),
    Sha1(Sha1),
    Sha256(Sha256),
    Sha512(Sha512),
    Md5(Md5),
    Xxh64(Xxh64),
    /// Of 64 bits or of 128, which differ only in how they end.
    Xxh3(ChecksumAlgorithm, Box<Xxh3Default>),
}

impl Running {
    fn new(algorithm: ChecksumAlgorithm) -> Self {
        if let Some(crc) = algorithm.crc() {
            return Running::Crc(algorithm, crc_fast::Digest::new(crc));
        }
        match algorithm {
            ChecksumAlgorithm::Sha1 => Running::Sha1(Sha1::new()),
            ChecksumAlgorithm::Sha512 => Running::Sha512(Sha512::new()),
            ChecksumAlgorithm::Md5 => Running::Md5(Md5::new()),
            ChecksumAlgorithm::Xxhash64 => Running::Xxh64(Xxh64::new(0)),
            ChecksumAlgorithm::Xxhash3 | ChecksumAlgorithm::Xxhash128 => {
                Running::Xxh3(algorithm, Box::new(Xxh3Default::new()))
            }
            _ => Running::Sha256(Sha256::new()),
        }
    }

    fn update(&mut self, bytes: &[u8]) {
        match self {
            Running::Crc(_, digest) => digest.update(bytes),
            Running::Sha1(digest) => digest.update(bytes),
            Running::Sha256(digest) => digest.update(bytes),
            Running::Sha512(digest) => digest.update(bytes),
            Running::Md5(digest) => digest.update(bytes),
            Running::Xxh64(digest) => digest.update(bytes),
            Running::Xxh3(_, digest) => digest.update(bytes),
        }
    }

    fn finish(self) -> Checksum {
        match self {
            Running::Crc(algorithm, digest) => Checksum::full(algorithm, crc_bytes(algorithm, digest.finalize())),
            Running::Sha1(digest) => Checksum::full(ChecksumAlgorithm::Sha1, digest.finalize().to_vec()),
            Running::Sha256(digest) => Checksum::full(ChecksumAlgorithm::Sha256, digest.finalize().to_vec()),
            Running::Sha512(digest) => Checksum::full(ChecksumAlgorithm::Sha512, digest.finalize().to_vec()),
            Running::Md5(digest) => Checksum::full(ChecksumAlgorithm::Md5, digest.finalize().to_vec()),
            Running::Xxh64(digest) => Checksum::full(ChecksumAlgorithm::Xxhash64, digest.digest().to_be_bytes()),
            Running::Xxh3(ChecksumAlgorithm::Xxhash128, digest) => {
                Checksum::full(ChecksumAlgorithm::Xxhash128, digest.digest128().to_be_bytes())
            }
            Running::Xxh3(algorithm, digest) => Checksum::full(algorithm, digest.digest().to_be_bytes()),
        }
    }

    /// Whether it takes longer than copying, many times over.
    fn is_slow(&self) -> bool {
        matches!(self, Running::Sha1(_) | Running::Sha256(_) | Running::Sha512(_) | Running::Md5(_))
    }
}

fn crc_bytes(algorithm: ChecksumAlgorithm, value: u64) -> Vec<u8> {
    let bytes = value.to_be_bytes();
    bytes.get(8 - algorithm.value_len()..).unwrap_or_default().to_vec()
}

fn crc_value(bytes: &[u8]) -> u64 {
    bytes.iter().fold(0, |value, byte| value << 8 | u64::from(*byte))
}

/// Computes MD5, where it is wanted, and some checksums in one pass.
pub(crate) struct Hasher {
    md5: Option<Md5>,
    running: Vec<Running>,
}

impl Hasher {
    /// These, each once, and MD5 where it is wanted.
    pub fn new(md5: bool, algorithms: impl IntoIterator<Item = ChecksumAlgorithm>) -> Self {
        let mut wanted: Vec<_> = algorithms.into_iter().collect();
        wanted.sort_unstable();
        wanted.dedup();
        Hasher { md5: md5.then(Md5::new), running: wanted.into_iter().map(Running::new).collect() }
    }

    /// Whether it has a digest that takes longer than copying, many times over.
    pub fn is_slow(&self) -> bool {
        self.md5.is_some() || self.running.iter().any(Running::is_slow)
    }

    /// Adds bytes.
    pub fn update(&mut self, bytes: &[u8]) {
        // In steps that stay in the cache while every digest passes over them.
        for step in bytes.chunks(32 << 10) {
            if let Some(md5) = &mut self.md5 {
                md5.update(step);
            }
            self.running.iter_mut().for_each(|digest| digest.update(step));
        }
    }

    /// The digests of all bytes added.
    pub fn finish(self) -> Digests {
        let md5 = self.md5.map(|digest| digest.finalize().into());
        Digests { md5, checksums: self.running.into_iter().map(Running::finish).collect() }
    }
}

/// The checksum of parts one after the other, from theirs and their lengths; `None` for all but CRCs, which cannot.
pub(crate) fn combine(algorithm: ChecksumAlgorithm, parts: &[(Vec<u8>, u64)]) -> Option<Checksum> {
    let crc = algorithm.crc()?;
    let empty = crc_fast::checksum(crc, b"");
    let value = parts.iter().fold(empty, |value, (part, length)| {
        if *length == 0 { value } else { crc_fast::checksum_combine(crc, value, crc_value(part), *length) }
    });
    Some(Checksum::full(algorithm, crc_bytes(algorithm, value)))
}

/// The checksum of the parts' checksums.
pub(crate) fn composite(algorithm: ChecksumAlgorithm, parts: &[&[u8]]) -> Checksum {
    let mut running = Running::new(algorithm);
    parts.iter().for_each(|part| running.update(part));
    let count = u32::try_from(parts.len()).unwrap_or(u32::MAX);
    Checksum { composite_parts: Some(count), ..running.finish() }
}

/// The MD5 of the parts' MD5s, for the ETag of a multipart object.
pub(crate) fn md5_of_md5s<'a>(parts: impl IntoIterator<Item = &'a [u8; 16]>) -> [u8; 16] {
    let mut digest = Md5::new();
    parts.into_iter().for_each(|part| digest.update(part));
    digest.finalize().into()
}
