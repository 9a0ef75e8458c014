//! Transactions: reads and writes that are queued, merged, and take effect in one commit.
//!
//! Invariants:
//! - Nothing of a transaction is visible before it is executed; then all of it is, at once, or nothing of it when
//!   executing fails. A transaction that is dropped leaves nothing behind, also after a crash.
//! - Its reads see the objects as they are when they are answered, with its own writes queued before them on top:
//!   direct ones are answered at once, queued ones at the latest when the transaction is executed, and before a
//!   later write to their object is queued.
//! - Memory for what is queued is bounded by [`TransactionOptions::queue_len_max`] (a write longer than that goes
//!   to the device at once), beside a small entry for each separate range. Nothing is executed early for that:
//!   what does not fit is staged on the device, under a key that no object has.

mod execute;
mod reads;
mod spool;
#[cfg(test)]
mod tests;
mod writes;

use std::collections::BTreeMap;
use std::sync::Arc;

use self::reads::{QueuedRead, READS_MAX, Target};
use self::spool::Spool;
use self::writes::{Part, Writes};
use super::inner::Inner;
use super::node::Node;
use super::object::{Object, check_range, read_visible};
use crate::error::{Error, Result};
use crate::stage::Lifetime;
use crate::view::View;

/// What a separate range takes in memory beside its bytes; as much for all of them as for the bytes, and they go to the
/// device.
const RANGE_COST: usize = 64;

/// How a transaction gathers.
#[derive(Clone, Copy, Debug)]
pub struct TransactionOptions {
    /// How many bytes of queued writes it keeps in memory.
    pub queue_len_max: usize,
}

impl Default for TransactionOptions {
    fn default() -> Self {
        TransactionOptions { queue_len_max: 1 << 20 }
    }
}

/// What an executed transaction did.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Executed {
    /// Bytes written: as they were given, overwritten ones included.
    pub written: u64,
    /// The count of each queued read, in the order of queueing; short only at an object's end.
    pub reads: Vec<usize>,
}

impl Executed {
    /// Bytes written and read by queued requests.
    pub fn bytes(&self) -> u64 {
        self.written + self.reads.iter().map(|count| *count as u64).sum::<u64>()
    }
}

/// An object's part of a transaction.
struct Queue {
    node: Arc<Node>,
    /// How long its data will be kept, as the handle said that queued first.
    lifetime: Lifetime,
    writes: Writes,
}

/// Reads and writes of any objects of one store that belong together. Dropping it forgets them.
pub struct Transaction<'b> {
    inner: Arc<Inner>,
    options: TransactionOptions,
    objects: BTreeMap<u64, Queue>,
    /// Bytes of queued writes that are in memory.
    memory_len: usize,
    /// About how many ranges of them there are.
    ranges: usize,
    reads: Vec<QueuedRead<'b>>,
    spool: Spool,
    done: Executed,
}

impl<'b> Transaction<'b> {
    /// Begins one in a store; `Invalid` when the store was closed.
    pub(super) fn begin(inner: &Arc<Inner>, options: TransactionOptions) -> Result<Transaction<'b>> {
        inner.table.enter_store()?;
        Ok(Transaction {
            spool: Spool::new(inner.next_scratch()),
            inner: Arc::clone(inner),
            options,
            objects: BTreeMap::new(),
            memory_len: 0,
            ranges: 0,
            reads: Vec::new(),
            done: Executed::default(),
        })
    }

    /// The object's queue. The transaction keeps the object in use, so that it may be closed meanwhile.
    fn queue(&mut self, object: &Object) -> Result<&mut Queue> {
        object.check_open()?;
        if !Arc::ptr_eq(object.inner(), &self.inner) {
            let message = format!("object {} belongs to another store than the transaction", object.number());
            return Err(Error::invalid(message));
        }
        let inner = &self.inner;
        let begin = || Queue {
            node: inner.table.enter(object.number(), || Arc::clone(object.node())),
            lifetime: object.hint().lifetime,
            writes: Writes::default(),
        };
        Ok(self.objects.entry(object.number()).or_insert_with(begin))
    }

    /// Queues a write.
    pub fn write(&mut self, object: &Object, offset: u64, data: &[u8]) -> Result<()> {
        check_range(offset, data.len() as u64)?;
        let number = object.number();
        self.queue(object)?.node.check()?;
        // What was queued to be read must not see this write.
        if self.reads.iter().any(|queued| queued.number == number) {
            self.answer_reads()?;
        }
        if data.is_empty() {
            return Ok(());
        }
        let room = self.options.queue_len_max;
        if data.len() >= room {
            self.spool_run(number, offset, data)?;
        } else {
            if self.memory_len + data.len() > room || self.ranges * RANGE_COST > room {
                self.spool_memory()?;
            }
            let mut more = (0, 0);
            self.edit(number, |writes| {
                let before = writes.len();
                writes.write(offset, data);
                more = (writes.len(), before);
            });
            self.ranges = (self.ranges + more.0).saturating_sub(more.1);
        }
        self.done.written += data.len() as u64;
        Ok(())
    }

    /// Changes an object's queued writes.
    fn edit(&mut self, number: u64, change: impl FnOnce(&mut Writes)) {
        let Some(queue) = self.objects.get_mut(&number) else { return };
        let before = queue.writes.memory_len();
        change(&mut queue.writes);
        self.memory_len = self.memory_len + queue.writes.memory_len() - before;
    }

    /// Reads at once, this transaction's writes so far included; a short count only at the object's end.
    pub fn read(&mut self, object: &Object, offset: u64, buffer: &mut [u8]) -> Result<usize> {
        let number = object.number();
        self.queue(object)?;
        self.read_own(number, offset, buffer)
    }

    /// Queues a read into `buffer`, which is filled at the latest when the transaction is executed. Its count is in
    /// [`Executed::reads`].
    pub fn read_later(&mut self, object: &Object, offset: u64, buffer: &'b mut [u8]) -> Result<()> {
        self.queue_read(object, offset, Target::Slice(buffer))
    }

    /// As [`Transaction::read_later`], for `length` bytes that are given to a function, in one call or several: the
    /// offset from the read's start, and the bytes there.
    pub fn read_later_with(
        &mut self,
        object: &Object,
        offset: u64,
        length: usize,
        fill: impl FnMut(usize, &[u8]) + Send + 'b,
    ) -> Result<()> {
        self.queue_read(object, offset, Target::Call { length, fill: Box::new(fill) })
    }

    fn queue_read(&mut self, object: &Object, offset: u64, target: Target<'b>) -> Result<()> {
        self.queue(object)?.node.check()?;
        if self.reads.len() >= READS_MAX {
            self.answer_reads()?;
        }
        let index = self.done.reads.len();
        self.done.reads.push(0);
        self.reads.push(QueuedRead { index, number: object.number(), offset, target });
        Ok(())
    }

    /// Answers all reads that wait.
    fn answer_reads(&mut self) -> Result<()> {
        while let Some(number) = self.reads.last().map(|queued| queued.number) {
            let (mut own, rest): (Vec<_>, Vec<_>) =
                std::mem::take(&mut self.reads).into_iter().partition(|queued| queued.number == number);
            let mut counts = Vec::new();
            let done = self.visible(number).and_then(|view| {
                let read = |offset: u64, buffer: &mut [u8]| self.read_through(&view, number, offset, buffer);
                reads::answer(&mut own, read, |index, count| counts.push((index, count)))
            });
            for (index, count) in counts {
                self.done.reads[index] = count;
            }
            self.reads = rest;
            self.reads.append(&mut own);
            done?;
        }
        Ok(())
    }

    fn read_own(&self, number: u64, offset: u64, buffer: &mut [u8]) -> Result<usize> {
        let view = self.visible(number)?;
        self.read_through(&view, number, offset, buffer)
    }

    /// A view that sees every change of the object, and what was spooled.
    fn visible(&self, number: u64) -> Result<View> {
        if let Some(queue) = self.objects.get(&number) {
            queue.node.settle()?;
        }
        self.spool.settle()?;
        Ok(self.inner.engine.view())
    }

    /// The object as a view sees it, with this transaction's writes on top.
    fn read_through(&self, view: &View, number: u64, offset: u64, buffer: &mut [u8]) -> Result<usize> {
        let below = read_visible(view, number, offset, buffer)?;
        let Some(queue) = self.objects.get(&number).filter(|queue| queue.writes.len() > 0) else { return Ok(below) };
        let reach = queue.writes.end().saturating_sub(offset).min(buffer.len() as u64) as usize;
        let count = below.max(reach);
        buffer[below..count].fill(0);
        let end = offset.saturating_add(count as u64);
        for (start, part) in queue.writes.overlapping(offset, end) {
            let (from, to) = (start.max(offset), end.min(start + part.len()));
            let target = &mut buffer[(from - offset) as usize..(to - offset) as usize];
            match part {
                Part::Memory(bytes) => target.copy_from_slice(&bytes[(from - start) as usize..(to - start) as usize]),
                Part::Spooled { at, .. } => self.spool.read(view, at + (from - start), target)?,
            }
        }
        Ok(count)
    }

    /// How many bytes of memory its queued writes take at present.
    pub fn queued_len(&self) -> usize {
        self.memory_len
    }
}

impl Drop for Transaction<'_> {
    fn drop(&mut self) {
        self.spool.clear(&self.inner);
        self.objects.keys().for_each(|number| self.inner.table.exit(*number));
        self.inner.table.leave_store();
    }
}
