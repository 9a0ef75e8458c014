//! A sink that fills a new store.
//!
//! Invariants:
//! - A value is committed whole, in one batch (or, with more holes than a batch has operations, in several).
//! - A value of which bytes are lost is left out, unless the caller wants it with zeros in their place.

use crate::batch::{BATCH_OPERATIONS_MAX, Batch, Durability, Operation, Payload, Place, SpaceId};
use crate::engine::Engine;
use crate::error::Result;
use crate::salvage::SalvageSink;
use crate::stage::StageHint;
use crate::staging::Stage;

/// A run of bytes up to this length travels in the batch.
const INLINE_LEN: usize = 16 << 10;
/// A batch is submitted when it carries so many bytes, or so many operations.
const BATCH_LEN: usize = 256 << 10;
const BATCH_OPERATIONS: usize = 1000;

/// Fills a store with what salvage gives out.
pub struct StoreSink<'a> {
    engine: &'a Engine,
    keep_partial: bool,
    batch: Vec<Operation>,
    batch_len: usize,
    value: Option<Filling>,
}

/// The value that is coming in.
struct Filling {
    at: Place,
    size: u64,
    /// Where the next byte belongs.
    offset: u64,
    /// Bytes without a hole between them, up to `offset`.
    run: Run,
    /// Writes of the runs before.
    operations: Vec<Operation>,
    lost: bool,
}

enum Run {
    Bytes(Vec<u8>),
    Stage(Box<Stage>),
}

impl Run {
    fn length(&self) -> u64 {
        match self {
            Run::Bytes(bytes) => bytes.len() as u64,
            Run::Stage(stage) => stage.length(),
        }
    }
}

impl<'a> StoreSink<'a> {
    /// Into an open store, which should be empty. `keep_partial` also keeps values of which bytes are lost,
    /// with zeros in their place.
    pub fn new(engine: &'a Engine, keep_partial: bool) -> StoreSink<'a> {
        StoreSink { engine, keep_partial, batch: Vec::new(), batch_len: 0, value: None }
    }

    fn push(&mut self, operation: Operation, length: usize) -> Result<()> {
        self.batch.push(operation);
        self.batch_len += length;
        let most = BATCH_LEN.min(self.engine.limits().batch_bytes_max / 2);
        if self.batch_len >= most || self.batch.len() >= BATCH_OPERATIONS { self.flush() } else { Ok(()) }
    }

    fn flush(&mut self) -> Result<()> {
        self.batch_len = 0;
        let operations = std::mem::take(&mut self.batch);
        if operations.is_empty() {
            return Ok(());
        }
        let batch = Batch { operations, ..Batch::default() };
        self.engine.submit(batch, Durability::Written).wait().map(|_| ())
    }

    fn value(&mut self) -> Result<&mut Filling> {
        self.value.as_mut().ok_or_else(|| crate::Error::invalid("bytes of no value"))
    }

    /// A hole of the value: the run before it is closed.
    fn skip(&mut self, length: u64, lost: bool) -> Result<()> {
        let value = self.value()?;
        value.lost |= lost;
        value.close_run()?;
        value.offset += length;
        Ok(())
    }
}

impl Filling {
    fn close_run(&mut self) -> Result<()> {
        let run = std::mem::replace(&mut self.run, Run::Bytes(Vec::new()));
        let length = run.length();
        if length == 0 {
            return Ok(());
        }
        let offset = self.offset - length;
        let data = payload(run)?;
        self.operations.push(Operation::WriteAt { at: self.at.clone(), offset, data });
        Ok(())
    }

    /// The operations that make the value, with about how many bytes they carry.
    fn operations(mut self) -> Result<(Vec<Operation>, usize)> {
        let at = self.at.clone();
        if self.run.length() == self.size {
            let inline = if let Run::Bytes(bytes) = &self.run { bytes.len() } else { 0 };
            let value = payload(self.run)?;
            return Ok((vec![Operation::Put { at, value }], inline + self.at.key.len() + 64));
        }
        self.close_run()?;
        let writes = std::mem::take(&mut self.operations);
        let inline = |operation: &Operation| match operation {
            Operation::WriteAt { data: Payload::Bytes(bytes), .. } => bytes.len(),
            _ => 0,
        };
        let carried = writes.iter().map(inline).sum();
        // The length first: what nothing is written to reads as zeros.
        let first = Operation::Truncate { at, length: self.size };
        Ok((std::iter::once(first).chain(writes).collect(), carried))
    }
}

fn payload(run: Run) -> Result<Payload> {
    Ok(match run {
        Run::Bytes(bytes) => Payload::Bytes(bytes.into()),
        Run::Stage(stage) => Payload::Stage(stage.finish()?),
    })
}

impl SalvageSink for StoreSink<'_> {
    fn space(&mut self, space: SpaceId) -> Result<()> {
        self.push(Operation::CreateSpace { space }, 0)
    }

    fn begin(&mut self, at: &Place, size: u64) -> Result<()> {
        let run = Run::Bytes(Vec::new());
        self.value = Some(Filling { at: at.clone(), size, offset: 0, run, operations: Vec::new(), lost: false });
        Ok(())
    }

    fn bytes(&mut self, bytes: &[u8]) -> Result<()> {
        let engine = self.engine;
        let value = self.value()?;
        if let Run::Bytes(before) = &mut value.run {
            if before.len() + bytes.len() <= INLINE_LEN {
                before.extend_from_slice(bytes);
                value.offset += bytes.len() as u64;
                return Ok(());
            }
            let mut stage = engine.stage(StageHint::default())?;
            stage.write(before)?;
            value.run = Run::Stage(Box::new(stage));
        }
        if let Run::Stage(stage) = &mut value.run {
            stage.write(bytes)?;
        }
        value.offset += bytes.len() as u64;
        Ok(())
    }

    fn zeros(&mut self, length: u64) -> Result<()> {
        self.skip(length, false)
    }

    fn lost(&mut self, length: u64) -> Result<()> {
        self.skip(length, true)
    }

    fn end(&mut self) -> Result<()> {
        let Some(value) = self.value.take().filter(|value| self.keep_partial || !value.lost) else { return Ok(()) };
        let (operations, length) = value.operations()?;
        // So that a value stays in one batch where it can.
        if self.batch.len() + operations.len() > BATCH_OPERATIONS_MAX {
            self.flush()?;
        }
        let count = operations.len();
        for (number, operation) in operations.into_iter().enumerate() {
            if self.batch.len() + 1 == BATCH_OPERATIONS_MAX {
                self.flush()?;
            }
            self.batch.push(operation);
            self.batch_len += if number + 1 == count { length } else { 0 };
        }
        let most = BATCH_LEN.min(self.engine.limits().batch_bytes_max / 2);
        if self.batch_len >= most || self.batch.len() >= BATCH_OPERATIONS { self.flush() } else { Ok(()) }
    }

    fn finish(&mut self) -> Result<()> {
        self.flush()?;
        self.engine.sync()
    }
}
