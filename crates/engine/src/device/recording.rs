//! A device that keeps what was done to it, so that every state a power cut could have left can be built.
//!
//! Invariants:
//! - Events stand in the order in which they began and ended; the position of an event in the log is the
//!   only clock.
//! - A write, growth or discard is durable at a sync exactly if it had returned before that sync was
//!   called; one in flight beside the sync counts as after it. A sync that failed is no sync.
//! - Of what is not durable anything may be there: each write kept, dropped or torn at 512 bytes, and in
//!   any order, so that an earlier write may lie over a later one.

mod image;

use std::io;
use std::sync::Arc;

use bytes::Bytes;
use parking_lot::Mutex;

use super::{AlignedBuffer, Device, Image, ReadMode, Writing};

pub use image::ImageWalker;

/// One thing that happened. `Done(n)` ends the change that began at position `n` of the log.
#[derive(Clone, Debug)]
enum Event {
    Write {
        offset: u64,
        data: Bytes,
    },
    Grow {
        length: u64,
    },
    Discard {
        offset: u64,
        length: u64,
    },
    Done(usize),
    SyncBegin,
    /// Ends the sync that began at this position.
    SyncDone(usize),
    Mark(u64),
}

/// A recorder over any device, mostly memory.
pub struct RecordingDevice<D> {
    inner: D,
    initial: Image,
    events: Arc<Mutex<Vec<Event>>>,
}

impl<D: Device> RecordingDevice<D> {
    /// Records what happens to `inner` from now on. What it holds now counts as durable.
    pub fn new(inner: D) -> io::Result<Self> {
        let length = usize::try_from(inner.len()?).map_err(|_| io::Error::from(io::ErrorKind::OutOfMemory))?;
        let mut initial = vec![0; length];
        inner.read_at(&mut initial, 0, ReadMode::Direct)?;
        Ok(RecordingDevice::holding(inner, Image::from(&initial[..])))
    }

    /// As `new`, where it is known already what `inner` holds.
    pub fn holding(inner: D, initial: Image) -> Self {
        RecordingDevice { inner, initial, events: Arc::default() }
    }

    /// The device beneath.
    pub fn inner(&self) -> &D {
        &self.inner
    }

    /// Puts a mark of the application into the log.
    pub fn mark(&self, mark: u64) {
        self.begin(Event::Mark(mark));
    }

    /// How many events there were.
    pub fn position(&self) -> usize {
        self.events.lock().len()
    }

    /// The log so far.
    pub fn recording(&self) -> Recording {
        Recording { initial: self.initial.clone(), events: self.events.lock().clone() }
    }

    fn begin(&self, event: Event) -> usize {
        let mut events = self.events.lock();
        events.push(event);
        events.len() - 1
    }

    /// Logs a change around the call that makes it. One that failed may have happened in part, so it
    /// never ends: it stays in doubt for ever.
    fn change(&self, event: Event, call: impl FnOnce(&D) -> io::Result<()>) -> io::Result<()> {
        let position = self.begin(event);
        call(&self.inner)?;
        self.begin(Event::Done(position));
        Ok(())
    }
}

impl<D: Device> Device for RecordingDevice<D> {
    fn len(&self) -> io::Result<u64> {
        self.inner.len()
    }

    fn grow(&self, length: u64) -> io::Result<()> {
        self.change(Event::Grow { length }, |inner| inner.grow(length))
    }

    fn holds(&self, offset: u64, length: usize) -> bool {
        self.inner.holds(offset, length)
    }

    fn read_at(&self, buffer: &mut [u8], offset: u64, mode: ReadMode) -> io::Result<()> {
        self.inner.read_at(buffer, offset, mode)
    }

    fn prefetch(&self, offset: u64, length: u64) {
        self.inner.prefetch(offset, length);
    }

    fn write_at(&self, data: &[u8], offset: u64) -> io::Result<()> {
        let event = Event::Write { offset, data: Bytes::copy_from_slice(data) };
        self.change(event, |inner| inner.write_at(data, offset))
    }

    // Returned, as far as a sync is concerned, when it was waited for.
    fn begin_write(&self, buffer: AlignedBuffer, offset: u64) -> Writing {
        let position = self.begin(Event::Write { offset, data: Bytes::copy_from_slice(&buffer) });
        let events = Arc::clone(&self.events);
        self.inner.begin_write(buffer, offset).completing(move |is_done| {
            if is_done {
                events.lock().push(Event::Done(position));
            }
        })
    }

    fn begin_data(&self, buffer: AlignedBuffer, offset: u64) -> Writing {
        self.begin_write(buffer, offset)
    }

    // What a power cut leaves of it is the same.
    fn write_cached(&self, data: &[u8], offset: u64) -> io::Result<()> {
        let event = Event::Write { offset, data: Bytes::copy_from_slice(data) };
        self.change(event, |inner| inner.write_cached(data, offset))
    }

    fn sync(&self) -> io::Result<()> {
        let position = self.begin(Event::SyncBegin);
        self.inner.sync()?;
        self.begin(Event::SyncDone(position));
        Ok(())
    }

    fn discard(&self, offset: u64, length: u64) -> io::Result<()> {
        self.change(Event::Discard { offset, length }, |inner| inner.discard(offset, length))
    }

    fn close(&self) -> io::Result<()> {
        self.inner.close()
    }

    fn is_fixed(&self) -> bool {
        self.inner.is_fixed()
    }

    /// What somebody else made longer is there from when it is noticed, and durable with the next sync.
    fn refresh(&self) -> io::Result<u64> {
        let length = self.inner.refresh()?;
        self.change(Event::Grow { length }, |_| Ok(()))?;
        Ok(length)
    }
}

/// What a [`RecordingDevice`] saw, and the source of images.
#[derive(Clone, Debug)]
pub struct Recording {
    initial: Image,
    events: Vec<Event>,
}

impl Recording {
    /// How many events it has: cuts are from 0 (before the first) to this (after the last).
    pub fn len(&self) -> usize {
        self.events.len()
    }

    /// Whether nothing happened.
    pub fn is_empty(&self) -> bool {
        self.events.is_empty()
    }

    /// The cuts right after each sync that succeeded.
    pub fn syncs(&self) -> Vec<usize> {
        let is_sync = |(position, event): (usize, &Event)| matches!(event, Event::SyncDone(_)).then_some(position + 1);
        self.events.iter().enumerate().filter_map(is_sync).collect()
    }

    /// The cuts right after each write, growth or discard began.
    pub fn changes(&self) -> Vec<usize> {
        let changes = |event: &Event| matches!(event, Event::Write { .. } | Event::Grow { .. } | Event::Discard { .. });
        let begun = self.events.iter().enumerate().filter(|(_, event)| changes(event));
        begun.map(|(position, _)| position + 1).collect()
    }

    /// The marks that were set before a cut, in order.
    pub fn marks_before(&self, cut: usize) -> impl Iterator<Item = u64> + '_ {
        self.events.iter().take(cut).filter_map(|event| match event {
            Event::Mark(mark) => Some(*mark),
            _ => None,
        })
    }

    /// The places and lengths of all writes, in order, as (offset, bytes).
    pub fn writes(&self) -> impl Iterator<Item = (u64, usize)> + '_ {
        self.events.iter().filter_map(|event| match event {
            Event::Write { offset, data } => Some((*offset, data.len())),
            _ => None,
        })
    }

    /// How often the device was made longer.
    pub fn grows(&self) -> usize {
        self.events.iter().filter(|event| matches!(event, Event::Grow { .. })).count()
    }

    /// How often a part of the device was discarded.
    pub fn discards(&self) -> usize {
        self.events.iter().filter(|event| matches!(event, Event::Discard { .. })).count()
    }

    /// Builds images, cut after cut. `seed` decides whether durable discards made zeros.
    pub fn images(&self, seed: u64) -> ImageWalker<'_> {
        ImageWalker::new(self, seed)
    }
}

#[cfg(test)]
mod tests;
