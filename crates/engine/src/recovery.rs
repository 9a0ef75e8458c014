//! Opening a store: from the newest superblock, through the log, to a state that may be written to.
//!
//! Invariants:
//! - The device is synced before anything is believed: after a kill, what is read may not be durable yet.
//! - F is the highest `flushed` in any group of this store and epoch, wherever it lies in the ring. A log that
//!   ends at or below F is damaged and reported, never cut.
//! - Above F every extent that a record names is read and verified; the first failure ends the log.
//! - Before a write is accepted a superblock with a new epoch is durable, so that dropped groups never chain
//!   again; log numbers go on at the reserve, so that none is used twice.

use crate::allocator::{Runs, free_list};
use crate::batch::{KeyRange, Version};
use crate::checkpoint_state::CheckpointState;
use crate::commit_state::CheckpointPosition;
use crate::content::{Reading, split_piece_key};
use crate::core::Core;
use crate::device::{BLOCK_LEN, Device, ReadMode};
use crate::error::{Error, ErrorKind, Result};
use crate::log::group::{self, GroupHeader};
use crate::log::record::{Outcome, Record, Step};
use crate::log::ring::{Position, Ring};
use crate::state::STAGES;
use crate::state::State;
use crate::superblock::{Slot, Superblock, read_slot};
use crate::tree::Tree;
use crate::tree::value::Piece;

/// What recovery found and did.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Recovered {
    /// The store had been closed in order.
    pub clean: bool,
    /// Commits applied from the log.
    pub commits: u64,
    /// Groups that were not applied: written but never acknowledged, and not whole.
    pub groups_dropped: u64,
}

/// The state that a superblock names.
pub(crate) fn stored_state(superblock: &Superblock) -> State {
    let master = superblock.root.map_or_else(Tree::new, |root| Tree::at(root, superblock.root_entries));
    State { master, version: superblock.cut }
}

/// The free space that a superblock names.
pub(crate) fn stored_book(device: &dyn Device, slot: Slot, superblock: &Superblock) -> Result<CheckpointState> {
    let (mut free, pages) = match superblock.free {
        Some(_) => free_list::read(device, superblock.free, superblock.free_covers)?,
        None => (Runs::new(), Vec::new()),
    };
    if superblock.blocks > superblock.free_covers {
        free.add(superblock.free_covers, superblock.blocks - superblock.free_covers)?;
    }
    Ok(CheckpointState {
        newest: superblock.clone(),
        slot,
        older_cut: superblock.cut,
        free,
        pages,
        written: Vec::new(),
    })
}

/// The ring in memory.
struct Log {
    bytes: Vec<u8>,
    ring: Ring,
    store_id: u64,
    epoch: u64,
    /// The highest `flushed` of any group.
    flushed: Version,
    groups: u64,
}

impl Log {
    fn read(device: &dyn Device, superblock: &Superblock) -> Result<Log> {
        let ring = Ring::new(superblock.ring);
        let mut bytes = vec![0; ring.length() as usize];
        for (index, part) in bytes.chunks_mut(1 << 20).enumerate() {
            let at = ring.start() + ((index as u64) << 20);
            device
                .read_at(part, at, ReadMode::Direct)
                .map_err(|e| Error::device(format!("cannot read the log at byte {at} of the store"), e))?;
        }
        let mut log =
            Log { bytes, ring, store_id: superblock.store_id, epoch: superblock.epoch, flushed: Version(0), groups: 0 };
        log.scan(superblock)?;
        Ok(log)
    }

    /// Looks at every block for a group of this store.
    fn scan(&mut self, superblock: &Superblock) -> Result<()> {
        let mut found = Vec::new();
        for at in (0..self.bytes.len()).step_by(BLOCK_LEN) {
            let group = self.bytes.get(at..).and_then(|bytes| group::decode(bytes).ok());
            let ours = group.filter(|(header, _)| header.store_id == self.store_id);
            found.extend(ours.map(|(header, _)| header));
        }
        found.iter().try_for_each(|header| not_newer(header, superblock))?;
        let of_epoch = || found.iter().filter(|header| header.epoch == self.epoch);
        self.flushed = of_epoch().map(|header| header.flushed).max().unwrap_or_default();
        self.groups = of_epoch().filter(|header| header.records > 0 && header.first > superblock.cut).count() as u64;
        Ok(())
    }

    /// The group that follows a place in the log, if it is part of it.
    fn next(&self, at: Position, chain: u64, first: Version) -> Option<(Position, GroupHeader, &[u8])> {
        let candidates = [at, self.ring.next_turn(at)];
        candidates.into_iter().find_map(|position| {
            let offset = (self.ring.offset(position) - self.ring.start()) as usize;
            let (header, payload) = group::decode(self.bytes.get(offset..)?).ok()?;
            let ours = header.store_id == self.store_id && header.epoch == self.epoch;
            (ours && header.previous == chain && header.first == first).then_some((position, header, payload))
        })
    }
}

/// A group of a later epoch than the superblock's was written after a superblock that is gone.
fn not_newer(header: &GroupHeader, superblock: &Superblock) -> Result<()> {
    if header.epoch <= superblock.epoch {
        return Ok(());
    }
    let message = format!(
        "the log holds groups of epoch {}, the newest superblock that can be read is of epoch {}: a newer superblock is lost; copy what can be proven with `koine salvage`",
        header.epoch, superblock.epoch
    );
    Err(Error::damaged(message))
}

/// A store that was closed in order has nothing in its log, unless that is an old superblock: the next life's first
/// group would lie where the log goes on, or at the ring's start.
fn nothing_after(device: &dyn Device, superblock: &Superblock) -> Result<()> {
    let ring = Ring::new(superblock.ring);
    let at = Position(superblock.position);
    for place in [at, ring.next_turn(at)].map(|position| ring.offset(position)) {
        let read = |bytes: &mut [u8]| {
            let read = device.read_at(bytes, place, ReadMode::Direct);
            read.map_err(|e| Error::device(format!("cannot read the log at byte {place} of the store"), e))
        };
        let mut block = vec![0; BLOCK_LEN];
        read(&mut block)?;
        let room = ring.start() + ring.length() - place;
        let Some(length) = group::claimed_len(&block).filter(|length| *length <= room) else { continue };
        let mut bytes = vec![0; length as usize];
        read(&mut bytes)?;
        match group::decode(&bytes) {
            Ok((header, _)) if header.store_id == superblock.store_id => not_newer(&header, superblock)?,
            _ => {}
        }
    }
    Ok(())
}

fn records_of(payload: &[u8], header: &GroupHeader) -> Result<Vec<Record>> {
    let mut reader = crate::codec::Reader::new(payload);
    let mut records = Vec::new();
    for _ in 0..header.records {
        records.push(Record::decode(&mut reader)?);
    }
    reader.end()?;
    let ordered = records.iter().zip(header.first.0..).all(|(record, version)| record.version.0 == version);
    if ordered { Ok(records) } else { Err(Error::damaged("the log numbers in a group are out of order")) }
}

impl Core {
    /// Applies the log to the stored state. Returns what happened and what of the free space is in use since.
    pub(crate) fn replay(&self, superblock: &Superblock) -> Result<(Recovered, Runs)> {
        let mut free = self.checkpointed.lock().free.clone();
        if superblock.clean {
            let other = self.checkpointed.lock().slot.other();
            if read_slot(self.device.as_ref(), other).is_err() {
                // It may have been the newer one: all of the log has to be silent about it.
                Log::read(self.device.as_ref(), superblock)?;
            } else {
                nothing_after(self.device.as_ref(), superblock)?;
            }
            return Ok((Recovered { clean: true, ..Recovered::default() }, free));
        }
        let log = Log::read(self.device.as_ref(), superblock)?;
        let mut recovered = Recovered::default();
        let mut groups = 0;
        let (mut at, mut chain) = (Position(superblock.position), superblock.chain);
        let mut last = superblock.cut;
        while let Some((position, header, payload)) = log.next(at, chain, Version(last.0 + 1)) {
            let records = records_of(payload, &header)?;
            let end = Version(last.0 + records.len() as u64);
            if end > log.flushed && !self.extents_hold(&records)? {
                break;
            }
            for record in &records {
                self.reapply(record, &mut free)?;
            }
            recovered.commits += records.len() as u64;
            groups += u64::from(header.records > 0);
            at = Position(position.0 + u64::from(header.length));
            chain = header.checksum;
            last = end;
        }
        if last < log.flushed {
            let message = format!(
                "the log is damaged at byte {} of the store: it ends at commit {}, but commits up to {} were acknowledged; nothing was changed",
                self.ring.offset(at),
                last.0,
                log.flushed.0
            );
            return Err(Error::damaged(message));
        }
        recovered.groups_dropped = log.groups.saturating_sub(groups);
        let mut head = self.head.lock();
        let state = State { version: last, ..head.state.clone() };
        let (counters, dirty) = (head.counters, head.dirty);
        head.state = state.clone();
        head.sealed = CheckpointPosition { state, position: at, chain, counters, dirty };
        Ok((recovered, free))
    }

    /// Whether everything that these records name on the device is there, whole.
    fn extents_hold(&self, records: &[Record]) -> Result<bool> {
        let reading = Reading::new(&self.nodes, self.device.as_ref(), ReadMode::Direct);
        let mut buffer = Vec::new();
        for extent in records.iter().flat_map(Record::extents) {
            buffer.resize(extent.length as usize, 0);
            match reading.read_piece(&Piece::Disk(extent.clone()), 0, &mut buffer) {
                Ok(()) => {}
                Err(error) if error.kind() == ErrorKind::Damaged => return Ok(false),
                Err(error) => return Err(error),
            }
        }
        Ok(true)
    }

    fn reapply(&self, record: &Record, free: &mut Runs) -> Result<()> {
        let mut head = self.head.lock();
        let mut write_transaction = self.write_transaction(&head, record.version);
        let refusal = match &record.outcome {
            Outcome::Applied(steps) => {
                write_transaction.apply(steps).map_err(|e| unsound(record.version, e))?;
                None
            }
            Outcome::Refused(refusal) => Some(*refusal),
        };
        if let Some(request) = record.request {
            write_transaction.remember(request, refusal, head.requests.to_forget())?;
        }
        let applied = write_transaction.finish()?;
        for range in &applied.allocated {
            free.remove(range.start, u64::from(range.count)).map_err(|e| unsound(record.version, e))?;
        }
        self.install(&mut head, applied);
        if let Some(request) = record.request {
            head.requests.push(record.version, request, refusal);
        }
        Ok(())
    }

    /// Ends recovery: nothing of stages is left, and a superblock with a new epoch is durable.
    pub(crate) fn finish_recovery(&self, reserve: Version) -> Result<()> {
        {
            let mut head = self.head.lock();
            let state = self.without_stages(&mut head, reserve)?;
            head.state = state.clone();
            head.sealed.state = state;
            head.sealed.counters = head.counters;
            head.sealed.dirty = head.dirty;
        }
        let mut checkpointed = self.checkpointed.lock();
        let cut = self.head.lock().sealed.clone();
        self.store(&mut checkpointed, cut, false)?;
        *self.visible.write() = self.head.lock().state.clone();
        Ok(())
    }

    /// Frees what stages of before have logged; the state goes on at the reserved log number.
    fn without_stages(&self, head: &mut crate::commit_state::CommitState, reserve: Version) -> Result<State> {
        let mut stages = Vec::new();
        if let Some(space) = head.state.space(&self.nodes, STAGES)? {
            let mut cursor = space.tree.cursor(KeyRange::all());
            while let Some((key, _)) = cursor.next(&self.nodes)? {
                stages.push(split_piece_key(&key)?.0.0);
            }
            stages.dedup();
        }
        if !stages.is_empty() {
            let steps: Vec<Step> = stages.into_iter().map(|stage| Step::StageDrop { stage }).collect();
            let mut write_transaction = self.write_transaction(head, reserve);
            write_transaction.apply(&steps)?;
            let applied = write_transaction.finish()?;
            self.install(head, applied);
        }
        Ok(State { version: reserve, ..head.state.clone() })
    }
}

fn unsound(version: Version, error: Error) -> Error {
    if error.kind() == ErrorKind::Device {
        return error;
    }
    Error::damaged(format!("commit {} of the log cannot be applied: {error}", version.0))
}
