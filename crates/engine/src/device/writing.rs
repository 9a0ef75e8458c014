//! A write that was begun and may be under way.
//!
//! Invariants:
//! - It owns its memory until it is waited for; to drop it is to wait for it.
//! - It counts as returned, for a later sync, when it was waited for.

use std::fs::File;
use std::io;
use std::sync::Arc;

use super::aio::Request;
use super::positional::write_full;
use super::{AlignedBuffer, BLOCK_LEN};

/// A write that was begun (see [`Device::begin_write`](super::Device::begin_write)).
#[must_use = "a write that is dropped is waited for, and nobody learns whether it was done"]
pub struct Writing {
    /// `None` once it was waited for.
    state: Option<State>,
    told: Option<Box<dyn FnOnce(bool) + Send>>,
}

enum State {
    Ended(AlignedBuffer, io::Result<()>),
    UnderWay { request: Request, file: Arc<File>, offset: u64 },
}

impl Writing {
    /// One that has ended already.
    pub fn ended(buffer: AlignedBuffer, outcome: io::Result<()>) -> Writing {
        Writing { state: Some(State::Ended(buffer, outcome)), told: None }
    }

    /// One that the kernel has; what it leaves is written to the same file.
    pub(super) fn under_way(request: Request, file: Arc<File>, offset: u64) -> Writing {
        Writing { state: Some(State::UnderWay { request, file, offset }), told: None }
    }

    /// The same, with somebody who hears whether it was done when it is waited for.
    pub(super) fn completing(mut self, told: impl FnOnce(bool) + Send + 'static) -> Writing {
        self.told = Some(Box::new(told));
        self
    }

    /// Waits until it has ended: the memory, and what became of the write.
    pub fn wait(mut self) -> (AlignedBuffer, io::Result<()>) {
        self.finish().unwrap_or_else(|| (AlignedBuffer::zeroed(0), Ok(())))
    }

    fn finish(&mut self) -> Option<(AlignedBuffer, io::Result<()>)> {
        let (buffer, outcome) = match self.state.take()? {
            State::Ended(buffer, outcome) => (buffer, outcome),
            State::UnderWay { request, file, offset } => {
                let (buffer, written) = request.wait();
                let outcome = written.and_then(|count| {
                    let whole = count.min(buffer.len()) / BLOCK_LEN * BLOCK_LEN;
                    write_full(&file, buffer.get(whole..).unwrap_or_default(), offset + whole as u64)
                });
                (buffer, outcome)
            }
        };
        if let Some(told) = self.told.take() {
            told(outcome.is_ok());
        }
        Some((buffer, outcome))
    }
}

impl Drop for Writing {
    fn drop(&mut self) {
        let _nobody_asks = self.finish();
    }
}
