//! `scrub`: reads a store in use from the medium, a little at a time, and tells what is damaged.
//!
//! A [`Scrub`] does nothing by itself: each [`Scrub::step`] reads a few MiB, and [`Scrub::wait`] says how long to
//! leave the device alone before the next. To pause it is not to call; to go on later, after a restart too, is
//! to begin at a saved [`ScrubPosition`].
//!
//! Invariants:
//! - Every node and every chunk that a step vouches for was read past the page cache and the node cache.
//! - A step has a view of its own, taken at its begin and dropped at its end, so that little is pinned; what it
//!   read is told only when the view still held then: reused space is never taken for damage.
//! - What changes behind the position while a pass goes on is not looked at before the next pass.

mod names;

use std::cell::Cell;
use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use koine_env::Clock;

use crate::address::NodeRef;
use crate::allocator::free_list;
use crate::batch::SpaceId;
use crate::codec::{Reader, Writer};
use crate::content::{Reading, piece_bound, split_piece_key, user_key};
use crate::core::Core;
use crate::device::{BLOCK_LEN, Device, ReadMode};
use crate::engine::Engine;
use crate::error::{Error, ErrorKind, Result};
use crate::state::FROZEN;
use crate::state::State;
use crate::superblock::read_newest;
use crate::tree::value::{BlobId, Piece, SpaceRoot, Value};
use crate::tree::{Gap, Node, NodeSource, ScanVisitor, StoreId, Visit};
use crate::view::View;
use names::FrozenDamage;

/// How a scrub goes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ScrubOptions {
    /// The most bytes to read in a second, on average; 0: as fast as the device gives them.
    pub rate_per_second: u64,
    /// About how many bytes a step reads, all with one view.
    pub step_len: u64,
}

impl Default for ScrubOptions {
    fn default() -> Self {
        ScrubOptions { rate_per_second: 0, step_len: 4 << 20 }
    }
}

/// How far a pass is: everything below was verified.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ScrubPosition {
    space: SpaceId,
    from: Bytes,
}

impl ScrubPosition {
    /// As bytes, to be kept somewhere.
    pub fn to_bytes(&self) -> Vec<u8> {
        let mut out = Vec::with_capacity(8 + self.from.len());
        out.put_u64(self.space.0);
        out.extend_from_slice(&self.from);
        out
    }

    /// What `to_bytes` gave.
    pub fn from_bytes(bytes: &[u8]) -> Result<ScrubPosition> {
        let mut reader = Reader::new(bytes);
        let wrong = |_| Error::invalid("no position of a scrub: it has at least 8 bytes");
        let space = SpaceId(reader.u64().map_err(wrong)?);
        let rest = reader.take(reader.remaining())?;
        Ok(ScrubPosition { space, from: Bytes::copy_from_slice(rest) })
    }
}

/// Whom a finding concerns.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Concern {
    /// The store as a whole: a superblock or the free list.
    Store,
    /// All spaces from one id on, below another (if there is an end).
    Spaces(SpaceId, Option<SpaceId>),
    /// The keys of a space from one on, below another (if there is an end).
    Keys(SpaceId, Bytes, Option<Bytes>),
    /// Bytes of one value.
    Value {
        /// Its space.
        space: SpaceId,
        /// Its key, where one could be found.
        key: Option<Bytes>,
        /// From this byte on.
        offset: u64,
        /// So many bytes; `None`: as many as there are up to the value's end.
        length: Option<u64>,
    },
    /// Bytes of many values of a space: their keys cannot be told from what was damaged.
    Values(SpaceId),
    /// What the engine keeps for itself.
    Engine(SpaceId),
}

/// Something wrong on the medium.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Finding {
    /// Whom it concerns.
    pub concern: Concern,
    /// The place on the device, and what is wrong there.
    pub message: String,
}

impl fmt::Display for Concern {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Concern::Store => write!(f, "the store"),
            Concern::Spaces(from, None) => write!(f, "spaces from {} on", from.0),
            Concern::Spaces(from, Some(end)) => write!(f, "spaces {} to {}", from.0, end.0.saturating_sub(1)),
            Concern::Keys(space, from, None) => write!(f, "space {}, keys from {from:?} on", space.0),
            Concern::Keys(space, from, Some(end)) => {
                write!(f, "space {}, keys from {from:?} to below {end:?}", space.0)
            }
            Concern::Value { space, key, offset, length } => {
                match key {
                    Some(key) => write!(f, "space {}, key {key:?}, ", space.0)?,
                    None => write!(f, "space {}, a value whose key was not found, ", space.0)?,
                }
                match length {
                    Some(length) => write!(f, "bytes {offset} to {}", offset + length),
                    None => write!(f, "from byte {offset} on"),
                }
            }
            Concern::Values(space) => write!(f, "space {}, bytes of several values", space.0),
            Concern::Engine(space) => write!(f, "the engine's own space {}", space.0),
        }
    }
}

impl fmt::Display for Finding {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {}", self.concern, self.message)
    }
}

/// What one step did.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ScrubStep {
    /// Index nodes verified.
    pub nodes: u64,
    /// Pieces of values on the device verified.
    pub pieces: u64,
    /// Bytes read, nodes and data.
    pub read_len: u64,
    /// What is wrong.
    pub findings: Vec<Finding>,
    /// The pass is through; the next step begins another.
    pub done: bool,
}

/// A scrub of an open store.
pub struct Scrub {
    core: Arc<Core>,
    clock: Arc<dyn Clock>,
    options: ScrubOptions,
    position: ScrubPosition,
    /// Not before this time by the clock is the next step due.
    due: Duration,
}

/// A step tries so often when its view was taken back meanwhile.
const TRIES: u32 = 3;

impl Engine {
    /// Begins (or goes on) to read and verify the store from the medium while it is in use.
    pub fn scrub(&self, options: ScrubOptions, clock: Arc<dyn Clock>, from: ScrubPosition) -> Scrub {
        let due = clock.monotonic();
        Scrub { core: Arc::clone(self.shared()), clock, options, position: from, due }
    }
}

impl Scrub {
    /// How long to leave the device alone before the next step.
    pub fn wait(&self) -> Duration {
        self.due.saturating_sub(self.clock.monotonic())
    }

    /// Where to go on.
    pub fn position(&self) -> &ScrubPosition {
        &self.position
    }

    /// Another rate from now on, in bytes a second; 0: none.
    pub fn set_rate(&mut self, rate_per_second: u64) {
        self.options.rate_per_second = rate_per_second;
    }

    /// Reads and verifies the next few MiB, without waiting. Damage is what it finds, not an error.
    pub fn step(&mut self) -> Result<ScrubStep> {
        let began = self.clock.monotonic();
        for _ in 0..TRIES {
            let view = View::new(&self.core);
            let (step, position) = self.read(&view)?;
            // Time that nobody used is not saved up: a long pause does not end in a burst.
            self.due = self.due.max(began) + time_for(step.read_len, self.options.rate_per_second);
            if view.still_holds() {
                self.position = position;
                return Ok(step);
            }
        }
        Err(Error::new(ErrorKind::Expired, "views are taken back faster than a step of the scrub can read; try later"))
    }

    fn read(&self, view: &View) -> Result<(ScrubStep, ScrubPosition)> {
        let core = self.core.as_ref();
        let medium = Medium::new(core.device.as_ref(), core.store);
        let mut pass = Pass {
            core,
            state: view.state(),
            medium: &medium,
            from: &self.position,
            budget_len: self.options.step_len.max(1),
            step: ScrubStep::default(),
            data_len: 0,
            stopped: None,
        };
        if self.position == ScrubPosition::default() {
            pass.head();
        }
        let begin = self.position.space.0.to_be_bytes();
        view.state().master.scan(&medium, &begin, None, &mut pass)?;
        let position = pass.stopped.take();
        let mut step = pass.step;
        step.read_len = medium.read_len.get() + pass.data_len;
        step.done = position.is_none();
        Ok((step, position.unwrap_or_default()))
    }
}

fn time_for(length: u64, rate_per_second: u64) -> Duration {
    if rate_per_second == 0 {
        return Duration::ZERO;
    }
    let nanoseconds = u128::from(length) * 1_000_000_000 / u128::from(rate_per_second);
    Duration::from_nanos(u64::try_from(nanoseconds).unwrap_or(u64::MAX))
}

/// Nodes from the medium, past every cache.
pub(crate) struct Medium<'a> {
    device: &'a dyn Device,
    store: StoreId,
    read_len: Cell<u64>,
}

impl<'a> Medium<'a> {
    pub(crate) fn new(device: &'a dyn Device, store: StoreId) -> Medium<'a> {
        Medium { device, store, read_len: Cell::new(0) }
    }
}

impl NodeSource for Medium<'_> {
    fn load(&self, at: &NodeRef) -> Result<Arc<Node>> {
        let offset = at.start_block * BLOCK_LEN as u64;
        let mut bytes = vec![0; at.len_bytes()];
        self.read_len.set(self.read_len.get() + bytes.len() as u64);
        self.device.read_at(&mut bytes, offset, ReadMode::Direct).map_err(|e| Error::read_failed(offset, e))?;
        Node::decode(Bytes::from(bytes), at, self.store).map(Arc::new)
    }
}

/// One step's way through the master tree.
struct Pass<'a> {
    core: &'a Core,
    state: &'a State,
    medium: &'a Medium<'a>,
    from: &'a ScrubPosition,
    budget_len: u64,
    step: ScrubStep,
    data_len: u64,
    stopped: Option<ScrubPosition>,
}

impl Pass<'_> {
    /// The superblocks and the free list.
    fn head(&mut self) {
        let find = |error: Error| Finding { concern: Concern::Store, message: error.to_string() };
        // The lock of the checkpoint state keeps checkpoints from writing either meanwhile.
        let checkpointed = self.core.checkpointed.lock();
        let device = self.core.device.as_ref();
        match read_newest(device) {
            Ok((_, found)) if found.sequence != checkpointed.newest.sequence => {
                let message = format!(
                    "the newest superblock that can be read is number {}, number {} was written",
                    found.sequence, checkpointed.newest.sequence
                );
                self.step.findings.push(find(Error::damaged(message)));
            }
            Ok(_) => {}
            Err(error) => self.step.findings.push(find(error)),
        }
        if let Err(error) = free_list::read(device, checkpointed.newest.free, checkpointed.newest.blocks) {
            self.step.findings.push(find(error));
        }
        self.data_len += checkpointed.pages.iter().map(|page| u64::from(page.count) * BLOCK_LEN as u64).sum::<u64>();
    }

    fn spent(&self) -> bool {
        self.medium.read_len.get() + self.data_len >= self.budget_len
    }

    /// A node that memory holds too: its stored form is verified here, the scan goes on in memory.
    fn node(&mut self, at: &NodeRef, in_memory: bool) -> Option<Error> {
        self.step.nodes += 1;
        if in_memory { self.medium.load(at).err() } else { None }
    }

    /// Everything of one space, from the position on.
    fn space(&mut self, space: SpaceId, root: &SpaceRoot) -> Result<bool> {
        let from = if space == self.from.space { self.from.from.clone() } else { Bytes::new() };
        let medium = self.medium;
        let mut walk = SpacePass { pass: self, space, unnamed: Vec::new(), frozen: Vec::new() };
        let through = root.tree.scan(medium, &from, None, &mut walk)?;
        let SpacePass { unnamed, frozen, .. } = walk;
        self.name(space, &root.tree, unnamed);
        self.name_owners(frozen)?;
        Ok(through)
    }
}

impl ScanVisitor for Pass<'_> {
    fn node(&mut self, at: &NodeRef, in_memory: bool) -> Result<Visit> {
        if let Some(error) = Pass::node(self, at, in_memory) {
            let message = error.to_string();
            self.step.findings.push(Finding { concern: Concern::Spaces(SpaceId(0), None), message });
        }
        Ok(Visit::Into)
    }

    fn entry(&mut self, key: &Bytes, value: &Value) -> Result<bool> {
        let (Ok(id), Value::Root(root)) = (<[u8; 8]>::try_from(key.as_ref()), value) else {
            let message = "the master tree has an entry that is no space's".to_owned();
            self.step.findings.push(Finding { concern: Concern::Store, message });
            return Ok(true);
        };
        self.space(SpaceId(u64::from_be_bytes(id)), root)
    }

    fn gap(&mut self, gap: Gap) -> Result<bool> {
        let id = |key: &[u8]| key.first_chunk::<8>().map(|id| SpaceId(u64::from_be_bytes(*id)));
        let concern = Concern::Spaces(id(&gap.start).unwrap_or_default(), gap.end.as_deref().and_then(id));
        self.step.findings.push(Finding { concern, message: gap.error.to_string() });
        Ok(true)
    }
}

/// One step's way through a space.
struct SpacePass<'p, 'a> {
    pass: &'p mut Pass<'a>,
    space: SpaceId,
    /// Damage in pieces, whose keys are looked for at the end: blob, offset, length, message.
    unnamed: Vec<(BlobId, u64, Option<u64>, String)>,
    /// Damage in frozen blobs: the values that they are part of are looked for at the end.
    frozen: Vec<FrozenDamage>,
}

impl SpacePass<'_, '_> {
    fn piece(&mut self, piece: &Piece) -> Option<Error> {
        let extent = match piece {
            Piece::Disk(extent) => extent.clone(),
            Piece::Pending(pending) => pending.placement.placed()?,
            // Its extents are met in the space of frozen blobs.
            Piece::Frozen(_) | Piece::Inline(_) => return None,
        };
        self.pass.step.pieces += 1;
        let core = self.pass.core;
        let reading = Reading::new(&core.nodes, core.device.as_ref(), ReadMode::Direct);
        let mut buffer = vec![0; extent.length as usize];
        self.pass.data_len += u64::from(extent.length);
        reading.read_piece(&Piece::Disk(extent), 0, &mut buffer).err()
    }

    fn verify(&mut self, key: &Bytes, value: &Value) {
        let space = self.space;
        let Some(error) = value.piece().and_then(|piece| self.piece(piece)) else { return };
        let message = error.to_string();
        let length = value.piece().map(Piece::len);
        match value {
            Value::Record(_) => {
                let concern = Concern::Value { space, key: Some(user_key(key)), offset: 0, length };
                self.pass.step.findings.push(Finding { concern, message });
            }
            _ => match split_piece_key(key) {
                Ok((blob, offset)) if space == FROZEN => {
                    let end = (blob, offset.saturating_add(length.unwrap_or_default()));
                    self.frozen.push(FrozenDamage { from: (blob, offset), end, message });
                }
                Ok((blob, offset)) if space >= SpaceId::FIRST => self.unnamed.push((blob, offset, length, message)),
                _ => self.pass.step.findings.push(Finding { concern: Concern::Engine(space), message }),
            },
        }
    }
}

/// Whom a part of a space's tree concerns.
fn concern_of(space: SpaceId, start: &Bytes, end: Option<&Bytes>) -> Concern {
    if space < SpaceId::FIRST {
        return Concern::Engine(space);
    }
    let pieces: &[u8] = &[2];
    if start.as_ref() >= pieces {
        let (blob, offset) = piece_bound(start);
        return match end.map(|end| piece_bound(end)) {
            // Both bounds lie in one value; the key is looked up by the caller.
            Some((other, end)) if blob == other => {
                Concern::Value { space, key: None, offset, length: Some(end.saturating_sub(offset)) }
            }
            _ => Concern::Values(space),
        };
    }
    let end = end.filter(|end| end.as_ref() < pieces);
    Concern::Keys(space, user_key(start), end.map(user_key))
}

impl ScanVisitor for SpacePass<'_, '_> {
    fn node(&mut self, at: &NodeRef, in_memory: bool) -> Result<Visit> {
        if let Some(error) = self.pass.node(at, in_memory) {
            // Memory still has it; nothing is lost before the store is closed.
            let concern = Concern::Keys(self.space, Bytes::new(), None);
            self.pass.step.findings.push(Finding { concern, message: error.to_string() });
        }
        Ok(Visit::Into)
    }

    fn entry(&mut self, key: &Bytes, value: &Value) -> Result<bool> {
        self.verify(key, value);
        if !self.pass.spent() {
            return Ok(true);
        }
        let mut from = Vec::with_capacity(key.len() + 1);
        from.extend_from_slice(key);
        from.push(0);
        self.pass.stopped = Some(ScrubPosition { space: self.space, from: from.into() });
        Ok(false)
    }

    fn gap(&mut self, gap: Gap) -> Result<bool> {
        let message = gap.error.to_string();
        if self.space == FROZEN {
            let end = gap.end.as_ref().map_or((BlobId(u64::MAX), 0), |end| piece_bound(end));
            self.frozen.push(FrozenDamage { from: piece_bound(&gap.start), end, message });
            return Ok(true);
        }
        match concern_of(self.space, &gap.start, gap.end.as_ref()) {
            Concern::Value { offset, length, .. } => {
                self.unnamed.push((piece_bound(&gap.start).0, offset, length, message));
            }
            concern => self.pass.step.findings.push(Finding { concern, message }),
        }
        Ok(true)
    }
}

#[cfg(test)]
pub(crate) mod tests;
