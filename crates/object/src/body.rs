//! Bytes on their way in: counted, hashed, and staged when there are many.
//!
//! Invariants:
//! - At most one small body is held here; what is larger is held by its stage alone.
//! - Dropped at any time, a body leaves nothing behind.
//! - Nothing is handed on before every promise about length and checksums was kept.

use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, LazyLock};
use std::thread;

use bytes::Bytes;
use koine_kv::{Access, Kv, Payload, STAGE_PIECE_LEN_MAX, Stage, StageHint};

use crate::checksum::{ChecksumAlgorithm, Digests, Expected, Hasher};
use crate::error::{Error, ErrorKind, Result};
use crate::etag::EtagKind;

/// A body that takes pieces.
pub(crate) struct Body {
    kv: Arc<dyn Kv>,
    hasher: Hasher,
    length: u64,
    length_wanted: Option<u64>,
    expected: Expected,
    inline_len_max: usize,
    /// A body that may still be small.
    buffer: Vec<u8>,
    stage: Option<Box<dyn Stage>>,
    /// A piece was not taken whole: nothing can follow.
    is_cut: bool,
}

/// A body that came whole and as promised.
#[derive(Clone)]
pub(crate) struct Finished {
    pub payload: Payload,
    pub size: u64,
    pub digests: Digests,
}

impl Body {
    /// A body of `length_wanted` bytes, where known, whose digests are `expected`; `algorithms` are computed too, and
    /// MD5 where the ETag is to be one.
    pub fn new(
        kv: &Arc<dyn Kv>,
        length_wanted: Option<u64>,
        expected: Expected,
        etag: EtagKind,
        algorithms: impl IntoIterator<Item = ChecksumAlgorithm>,
    ) -> Result<Self> {
        let mut wanted: Vec<_> = algorithms.into_iter().collect();
        wanted.extend(expected.checksums.iter().map(|checksum| checksum.algorithm));
        if wanted.is_empty() {
            wanted.push(ChecksumAlgorithm::Crc64Nvme);
        }
        let md5 = etag == EtagKind::Md5 || expected.md5.is_some();
        let (kv, hasher) = (Arc::clone(kv), Hasher::new(md5, wanted));
        let inline_len_max = kv.profile().inline_len_best;
        let buffer = Vec::new();
        Ok(Body { kv, hasher, length: 0, length_wanted, expected, inline_len_max, buffer, stage: None, is_cut: false })
    }

    /// Adds a piece of any length. After an error nothing follows.
    pub fn write(&mut self, piece: &[u8]) -> Result<()> {
        check_uncut(self.is_cut)?;
        self.is_cut = true;
        self.take(piece)?;
        self.is_cut = false;
        Ok(())
    }

    fn take(&mut self, piece: &[u8]) -> Result<()> {
        let length = self.length.saturating_add(piece.len() as u64);
        check_length(length, self.length_wanted)?;
        self.length = length;
        if let Some(stage) = &mut self.stage {
            return take(&mut self.hasher, stage.as_mut(), piece);
        }
        if length <= self.inline_len_max as u64 {
            if self.buffer.is_empty() {
                let whole = self.length_wanted.and_then(|wanted| usize::try_from(wanted).ok()).unwrap_or(0);
                self.buffer.reserve_exact(whole.min(self.inline_len_max));
            }
            self.hasher.update(piece);
            self.buffer.extend_from_slice(piece);
            return Ok(());
        }
        let hint = StageHint { length: self.length_wanted, access: Access::Sequential, ..StageHint::default() };
        let stage = self.stage.insert(self.kv.stage(hint)?);
        let begun = std::mem::take(&mut self.buffer);
        for part in begun.chunks(STAGE_PIECE_LEN_MAX) {
            stage.write(part)?;
        }
        take(&mut self.hasher, stage.as_mut(), piece)
    }

    /// No more pieces.
    pub fn finish(mut self, trailers: &Expected) -> Result<Finished> {
        check_uncut(self.is_cut)?;
        if let Some(wanted) = self.length_wanted
            && wanted != self.length
        {
            let message = format!("the body ended after {} of {wanted} bytes", self.length);
            return Err(Error::new(ErrorKind::IncompleteBody, message));
        }
        let digests = self.hasher.finish();
        digests.verify(&self.expected)?;
        digests.verify(trailers)?;
        let payload = match self.stage.take() {
            None => Payload::Bytes(Bytes::from(self.buffer)),
            Some(stage) => Payload::Stage(stage.finish()?),
        };
        Ok(Finished { payload, size: self.length, digests })
    }
}

/// Whether all pieces of a body were taken.
pub(crate) fn check_uncut(is_cut: bool) -> Result<()> {
    match is_cut {
        true => {
            Err(Error::new(ErrorKind::IncompleteBody, "an earlier piece of the body was not taken; begin it again"))
        }
        false => Ok(()),
    }
}

/// Whether a body may have so many bytes, of which so many were promised. A door that has a limit of its own keeps it.
pub(crate) fn check_length(length: u64, wanted: Option<u64>) -> Result<()> {
    if wanted.is_some_and(|wanted| length > wanted) {
        return Err(Error::new(ErrorKind::IncompleteBody, "the body goes on past its promised length"));
    }
    Ok(())
}

/// Hashes a piece and hands it to the stage: at the same time where a core is free for it, since MD5 and SHA of one body
/// cannot be split and take about as long as the device. CRCs take less than starting a thread. Where many bodies come at once, each stays on its
/// caller's thread: nothing would be won.
fn take(hasher: &mut Hasher, stage: &mut dyn Stage, piece: &[u8]) -> Result<()> {
    let bodies = Busy::enter();
    for part in piece.chunks(STAGE_PIECE_LEN_MAX) {
        Error::check_patience()?;
        if part.len() < OVERLAP_LEN_MIN || !hasher.is_slow() || !bodies.leave_a_core() {
            hasher.update(part);
            stage.write(part)?;
            continue;
        }
        let (mut hashing, mut written) = (false, Ok(()));
        thread::scope(|scope| {
            hashing = thread::Builder::new().spawn_scoped(scope, || hasher.update(part)).is_ok();
            written = stage.write(part);
        });
        if !hashing {
            hasher.update(part);
        }
        written?;
    }
    Ok(())
}

/// Below this length, in bytes, starting a thread costs more than hashing.
const OVERLAP_LEN_MIN: usize = 256 << 10;

/// How many threads are taking pieces of bodies. A hint for speed; nothing else rests on it.
static BUSY: AtomicUsize = AtomicUsize::new(0);

struct Busy;

impl Busy {
    fn enter() -> Self {
        BUSY.fetch_add(1, Ordering::Relaxed);
        Busy
    }

    fn leave_a_core(&self) -> bool {
        static CORES: LazyLock<usize> = LazyLock::new(|| thread::available_parallelism().map_or(1, usize::from));
        BUSY.load(Ordering::Relaxed).saturating_mul(2) <= *CORES
    }
}

impl Drop for Busy {
    fn drop(&mut self) {
        BUSY.fetch_sub(1, Ordering::Relaxed);
    }
}
