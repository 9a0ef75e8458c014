//! The log as far as it can be proven, read without changing anything.
//!
//! Invariant: a group counts when it verifies and names the checksum of the group before it; the first
//! that is missing ends the log, as nothing behind it can be put in its place.

use std::collections::BTreeMap;

use bytes::Bytes;

use crate::address::BlockRange;
use crate::batch::Version;
use crate::codec::Reader;
use crate::content::Reading;
use crate::device::{BLOCK_LEN, Device, ReadMode};
use crate::error::{Error, Result};
use crate::log::group::{self, GroupHeader};
use crate::log::record::Record;
use crate::superblock::{RING_BLOCKS_MAX, RING_START_BLOCK_MAX, RING_START_BLOCK_MIN};
use crate::tree::StoreId;
use crate::tree::value::Piece;

/// A group that verifies.
#[derive(Clone, Debug)]
pub(super) struct Group {
    pub header: GroupHeader,
    payload: Bytes,
}

impl Group {
    /// The last commit in it (of a mark: the last before it).
    pub fn last(&self) -> Version {
        Version((self.header.first.0 + u64::from(self.header.records)).saturating_sub(1))
    }

    /// Its records.
    pub fn records(&self) -> Result<Vec<Record>> {
        let mut reader = Reader::new(&self.payload);
        let mut records = Vec::new();
        for _ in 0..self.header.records {
            records.push(Record::decode(&mut reader)?);
        }
        reader.end()?;
        let ordered = records.iter().zip(self.header.first.0..).all(|(record, version)| record.version.0 == version);
        if ordered { Ok(records) } else { Err(Error::damaged("the log numbers in a group are out of order")) }
    }

    /// Whether everything that it names on the device is there, whole.
    pub fn holds(&self, reading: &Reading<'_>) -> bool {
        let Ok(records) = self.records() else { return false };
        let mut extents = records.iter().flat_map(Record::extents);
        extents.all(|extent| {
            let mut buffer = vec![0; extent.length as usize];
            reading.read_piece(&Piece::Disk(extent.clone()), 0, &mut buffer).is_ok()
        })
    }
}

/// What the first group of a store names as the checksum of the group before it.
pub(super) const NOTHING_BEFORE: u64 = 0;

/// All groups of one store, by the checksum of the group before each.
#[derive(Default)]
pub(super) struct Log {
    by_previous: BTreeMap<u64, Vec<Group>>,
    groups: usize,
}

impl Log {
    /// Looks at every block of the ring; without a superblock, at every block where a ring can lie.
    pub fn read(device: &dyn Device, ring: Option<BlockRange>, store: StoreId) -> Result<Log> {
        let mut log = Log::default();
        each_group(device, ring, &mut |header, payload| {
            if header.store_id == store.0 {
                let payload = Bytes::copy_from_slice(payload);
                log.by_previous.entry(header.previous).or_default().push(Group { header, payload });
                log.groups += 1;
            }
            true
        })?;
        Ok(log)
    }

    /// The store that was made last on a medium, where its log tells: making a store wipes the place of its ring, so
    /// the first group there is of no store before it.
    pub fn newest_store(device: &dyn Device) -> Result<Option<StoreId>> {
        let mut newest = None;
        let rings = BlockRange { start: RING_START_BLOCK_MAX, count: RING_BLOCKS_MAX as u32 };
        each_group(device, Some(rings), &mut |header, _| {
            newest = Some(StoreId(header.store_id));
            false
        })?;
        Ok(newest)
    }

    /// The store whose log can be read from its first group on; of several the one with the most groups.
    pub fn store_from_the_beginning(device: &dyn Device) -> Result<Option<StoreId>> {
        let mut stores: BTreeMap<u64, (u64, bool)> = BTreeMap::new();
        each_group(device, None, &mut |header, _| {
            let (groups, begins) = stores.entry(header.store_id).or_default();
            *groups += 1;
            *begins |= header.previous == NOTHING_BEFORE;
            true
        })?;
        let whole = stores.into_iter().filter(|(_, (_, begins))| *begins);
        Ok(whole.max_by_key(|(_, (groups, _))| *groups).map(|(store, _)| StoreId(store)))
    }
}

/// Tells every group that verifies where a ring lies, until it is enough; without a ring, where one can lie.
fn each_group(
    device: &dyn Device,
    ring: Option<BlockRange>,
    told: &mut dyn FnMut(GroupHeader, &[u8]) -> bool,
) -> Result<()> {
    let length = device.len().map_err(|e| Error::device("cannot tell the length of the device", e))?;
    let last = length / BLOCK_LEN as u64;
    let (start, end) = match ring {
        Some(ring) => (ring.start, ring.end().min(last)),
        None => (RING_START_BLOCK_MIN, (RING_START_BLOCK_MAX + RING_BLOCKS_MAX).min(last)),
    };
    let mut block = vec![0; BLOCK_LEN];
    for at in start..end {
        let offset = at * BLOCK_LEN as u64;
        if device.read_at(&mut block, offset, ReadMode::Direct).is_err() {
            continue;
        }
        let Some(claimed) = group::claimed_len(&block).filter(|len| *len <= (end - at) * BLOCK_LEN as u64) else {
            continue;
        };
        let mut bytes = vec![0; claimed as usize];
        if device.read_at(&mut bytes, offset, ReadMode::Direct).is_err() {
            continue;
        }
        if let Ok((header, payload)) = group::decode(&bytes)
            && !told(header, payload)
        {
            break;
        }
    }
    Ok(())
}

impl Log {
    fn all(&self) -> impl Iterator<Item = &Group> {
        self.by_previous.values().flatten()
    }

    /// The group that follows commit `last` and the group with this checksum. A store that was opened anew
    /// goes on in a later epoch, with a number further on; what an opening has dropped is of an earlier one.
    fn next(&self, last: Version, chain: u64, epoch: u64) -> Option<&Group> {
        let follows = |group: &&Group| {
            let header = &group.header;
            (header.epoch == epoch && header.first.0 == last.0 + 1) || (header.epoch > epoch && header.first > last)
        };
        self.by_previous.get(&chain)?.iter().filter(follows).max_by_key(|group| group.header.epoch)
    }

    /// Where the log goes on from a root that was found: behind the group that ends with its commit, or at the one
    /// that begins with the next.
    fn begin(&self, cut: Version) -> Option<(u64, u64)> {
        let with_records = || self.all().filter(|group| group.header.records > 0);
        let ends = with_records().filter(|group| group.last() == cut).max_by_key(|group| group.header.epoch);
        let begins = || with_records().filter(|group| group.header.first.0 == cut.0 + 1);
        match ends {
            Some(group) => Some((group.header.checksum, group.header.epoch)),
            None => {
                let group = begins().max_by_key(|group| group.header.epoch)?;
                Some((group.header.previous, group.header.epoch))
            }
        }
    }

    /// The groups after a commit, in order, as far as they follow each other.
    pub fn follow(&self, cut: Version, chain: Option<(u64, u64)>) -> Vec<&Group> {
        let (mut out, mut last) = (Vec::new(), cut);
        let Some((mut previous, mut epoch)) = chain.or_else(|| self.begin(cut)) else { return out };
        while let Some(group) = self.next(last, previous, epoch) {
            out.push(group);
            (previous, epoch) = (group.header.checksum, group.header.epoch);
            last = group.last().max(last);
            if out.len() > self.groups {
                // Checksums that form a circle cannot be; but a damaged medium must not keep us here.
                break;
            }
        }
        out
    }

    /// The highest commit that was known durable when some group was written.
    pub fn flushed(&self) -> Version {
        self.all().map(|group| group.header.flushed).max().unwrap_or_default()
    }
}
