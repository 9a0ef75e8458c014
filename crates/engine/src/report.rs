//! The report of space: what is used, by whom, what is shared, and how free space and values are cut up.
//!
//! Invariants:
//! - Only the index is read, never data; what a report says is of one view.
//! - Blocks that several pieces name (of the device or of a frozen blob) count once in `data_len` of the whole, and for each space that names them.
//! - Nodes and blocks that several branches of a space reach are shared by them; branch points, which the engine keeps, share nothing.

use std::collections::BTreeMap;

use bytes::Bytes;

use crate::address::NodeRef;
use crate::batch::SpaceId;
use crate::content::split_piece_key;
use crate::core::Core;
use crate::device::BLOCK_LEN;
use crate::engine::Engine;
use crate::error::{Error, ErrorKind, Result};
use crate::tree::value::{BlobId, Content, Piece, SpaceRoot, Value};
use crate::tree::{Gap, ScanVisitor, Visit};
use crate::usage::Usage;

/// Where the space of a store goes.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct SpaceReport {
    /// As `Engine::usage` says.
    pub usage: Usage,
    /// Bytes kept back for checkpoints and deletions.
    pub reserve_len: u64,
    /// Bytes of superblocks, of the log's ring and of the free list's pages.
    pub fixed_len: u64,
    /// Bytes of index nodes, each counted once.
    pub node_len: u64,
    /// Bytes of whole blocks of data, each counted once.
    pub data_len: u64,
    /// Of those, bytes of blocks that several pieces name, or one of several branches of a space.
    pub shared_len: u64,
    /// What the same data would take more if nothing was shared, in bytes.
    pub saved_len: u64,
    /// Bytes of index nodes that several spaces have, each counted once.
    pub shared_node_len: u64,
    /// What the same indexes would take more if nothing was shared, in bytes.
    pub saved_node_len: u64,
    /// Free runs by size.
    pub free_runs: Vec<RunClass>,
    /// Free bytes in whole blocks of the store's block size: new data lies aligned as long as there are some.
    pub free_whole_len: u64,
    /// Values by the number of their pieces: so many values have at most so many pieces (1, 2, 4, 8 and so on).
    pub pieces: BTreeMap<u64, u64>,
    /// Every space that users made, by id.
    pub spaces: Vec<SpaceUse>,
    /// What the engine keeps for itself (the tree of spaces, counts, requests, stages), taken together.
    pub engine: SpaceUse,
    /// Parts of the index that could not be read: the report lacks what is below them.
    pub unreadable: Vec<String>,
}

/// Free runs of about the same size.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct RunClass {
    /// From so many bytes on, and below twice as many.
    pub from_len: u64,
    /// How many runs.
    pub runs: u64,
    /// Their bytes together.
    pub length: u64,
}

/// What one space has.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct SpaceUse {
    /// The space; 0 for what the engine keeps.
    pub space: SpaceId,
    /// Keys.
    pub keys: u64,
    /// Bytes of keys.
    pub key_len: u64,
    /// Bytes of values, as their readers see them (holes too).
    pub value_len: u64,
    /// Index nodes.
    pub nodes: u64,
    /// Bytes of those on the device.
    pub node_len: u64,
    /// Pieces of values on the device.
    pub pieces: u64,
    /// Bytes of the blocks that they name.
    pub data_len: u64,
    /// Bytes of values that lie in the index itself.
    pub inline_len: u64,
}

impl Engine {
    /// Where the space goes: reads the whole index, no data. The store may be in use.
    pub fn space_report(&self) -> Result<SpaceReport> {
        let core = self.shared();
        let view = self.view();
        let mut survey = Survey::new(core);
        let master = SpaceRoot { tree: view.state().master.clone(), ..SpaceRoot::new(view.version()) };
        survey.space(SpaceId(0), &master)?;
        while let Some((space, root)) = survey.roots.pop() {
            survey.space(space, &root)?;
        }
        if !view.still_holds() {
            let message = "the report took longer than a view may last; try again when less is written";
            return Err(Error::new(ErrorKind::Expired, message));
        }
        drop(view);
        Ok(survey.finish(self.usage()))
    }
}

const BLOCK: u64 = BLOCK_LEN as u64;

/// How often something is named.
#[derive(Clone, Copy, Debug, Default)]
struct Names {
    /// By spaces of users: each branch of a space counts.
    by_users: i64,
    /// By what the engine keeps: branch points, frozen blobs, what is being taken down.
    by_engine: i64,
}

impl Names {
    fn add(&mut self, other: Names, sign: i64) {
        self.by_users += sign * other.by_users;
        self.by_engine += sign * other.by_engine;
    }

    /// How often, were nothing shared. What the engine names is there once with what users name.
    fn copies(self) -> u64 {
        u64::try_from(self.by_users).unwrap_or(0)
    }

    fn any(self) -> bool {
        self.by_users > 0 || self.by_engine > 0
    }
}

struct Survey<'a> {
    core: &'a Core,
    report: SpaceReport,
    roots: Vec<(SpaceId, SpaceRoot)>,
    /// Nodes that were counted, their length, and how many spaces of users have each: branches of a space share theirs.
    seen: BTreeMap<u64, (u64, u64)>,
    /// Blocks that pieces name: more where a range begins, less behind its end.
    edges: BTreeMap<u64, Names>,
    /// The same of blocks of frozen blobs, whose own extents are among the blocks above.
    frozen: BTreeMap<(BlobId, u64), Names>,
}

impl<'a> Survey<'a> {
    fn new(core: &'a Core) -> Survey<'a> {
        Survey {
            core,
            report: SpaceReport::default(),
            roots: Vec::new(),
            seen: BTreeMap::new(),
            edges: BTreeMap::new(),
            frozen: BTreeMap::new(),
        }
    }

    fn space(&mut self, space: SpaceId, root: &SpaceRoot) -> Result<()> {
        let core = self.core;
        let used = SpaceUse { space, ..SpaceUse::default() };
        let mut walk = SpaceWalk { survey: self, space, used, blob: None };
        root.tree.scan(&core.nodes, &[], None, &mut walk)?;
        walk.end_blob();
        let used = walk.used;
        if space >= SpaceId::FIRST {
            self.report.spaces.push(used);
            return Ok(());
        }
        let all = &mut self.report.engine;
        all.nodes += used.nodes;
        all.node_len += used.node_len;
        all.keys += used.keys;
        all.pieces += used.pieces;
        all.data_len += used.data_len;
        Ok(())
    }

    fn finish(mut self, usage: Usage) -> SpaceReport {
        let core = self.core;
        let pages: u64 = core.checkpointed.lock().pages.iter().map(|page| u64::from(page.count)).sum();
        let report = &mut self.report;
        report.usage = usage;
        report.reserve_len = core.allocator.reserve_blocks() * BLOCK;
        report.fixed_len = (2 + pages) * BLOCK + core.ring.length();
        let (mut names, mut at) = (Names::default(), 0);
        for (bound, change) in std::mem::take(&mut self.edges) {
            let length = (bound - at) * BLOCK;
            report.data_len += if names.any() { length } else { 0 };
            report.shared_len += if names.copies() > 1 { length } else { 0 };
            report.saved_len += length * names.copies().saturating_sub(1);
            names.add(change, 1);
            at = bound;
        }
        let (mut names, mut at) = (Names::default(), 0);
        for ((_, bound), change) in std::mem::take(&mut self.frozen) {
            if names.copies() > 1 {
                report.shared_len += (bound - at) * BLOCK;
                report.saved_len += (bound - at) * BLOCK * (names.copies() - 1);
            }
            names.add(change, 1);
            at = bound;
        }
        for (length, spaces) in self.seen.values() {
            report.node_len += length;
            report.shared_node_len += if *spaces > 1 { *length } else { 0 };
            report.saved_node_len += length * spaces.saturating_sub(1);
        }
        let mut classes: BTreeMap<u64, RunClass> = BTreeMap::new();
        let unit = core.allocator.unit_blocks();
        core.allocator.each_run(&mut |start, count| {
            let whole = ((start + count) / unit).saturating_sub(start.div_ceil(unit));
            report.free_whole_len += whole * unit * BLOCK;
            let from_len = (1u64 << count.max(1).ilog2()) * BLOCK;
            let class = classes.entry(from_len).or_insert(RunClass { from_len, ..RunClass::default() });
            class.runs += 1;
            class.length += count * BLOCK;
        });
        report.free_runs = classes.into_values().collect();
        report.spaces.sort_by_key(|used| used.space);
        self.report
    }
}

struct SpaceWalk<'s, 'a> {
    survey: &'s mut Survey<'a>,
    space: SpaceId,
    used: SpaceUse,
    /// The value whose pieces pass by, and how many did.
    blob: Option<(BlobId, u64)>,
}

impl SpaceWalk<'_, '_> {
    fn end_blob(&mut self) {
        if let Some((_, count)) = self.blob.take() {
            self.count_pieces(count);
        }
    }

    fn count_pieces(&mut self, count: u64) {
        if self.space >= SpaceId::FIRST {
            *self.survey.report.pieces.entry(count.next_power_of_two()).or_default() += 1;
        }
    }

    /// Names what is walked gives to what it reaches.
    fn names(&self) -> Names {
        if self.space >= SpaceId::FIRST {
            Names { by_users: 1, by_engine: 0 }
        } else {
            Names { by_users: 0, by_engine: 1 }
        }
    }

    fn piece(&mut self, piece: &Piece) {
        let names = self.names();
        if let Piece::Frozen(frozen) = piece {
            let (first, end) = frozen.blocks();
            self.used.pieces += 1;
            self.used.data_len += (end - first) * BLOCK;
            self.survey.frozen.entry((frozen.blob, first)).or_default().add(names, 1);
            self.survey.frozen.entry((frozen.blob, end)).or_default().add(names, -1);
            return;
        }
        match piece.placed() {
            Some((_, range)) => {
                self.used.pieces += 1;
                self.used.data_len += u64::from(range.count) * BLOCK;
                self.survey.edges.entry(range.start).or_default().add(names, 1);
                self.survey.edges.entry(range.end()).or_default().add(names, -1);
            }
            None => self.used.inline_len += piece.len(),
        }
    }
}

impl ScanVisitor for SpaceWalk<'_, '_> {
    fn node(&mut self, at: &NodeRef, _: bool) -> Result<Visit> {
        self.used.nodes += 1;
        self.used.node_len += at.len_bytes() as u64;
        let seen = self.survey.seen.entry(at.start_block).or_insert((at.len_bytes() as u64, 0));
        seen.1 += u64::from(self.space >= SpaceId::FIRST);
        Ok(Visit::Into)
    }

    fn entry(&mut self, key: &Bytes, value: &Value) -> Result<bool> {
        match value {
            Value::Root(root) => {
                // Branch points and what was dropped count for the engine.
                let id = <[u8; 8]>::try_from(key.as_ref()).map_or(0, u64::from_be_bytes);
                let space = if self.space == SpaceId(0) { SpaceId(id) } else { self.space };
                self.survey.roots.push((space, root.clone()));
            }
            Value::Record(record) => {
                self.used.keys += 1;
                // The byte in front is the engine's.
                self.used.key_len += key.len().saturating_sub(1) as u64;
                self.used.value_len += record.size;
                if let Content::Single(piece) = &record.content {
                    self.piece(piece);
                    self.count_pieces(1);
                }
            }
            Value::Piece(piece) => {
                self.piece(piece);
                let (blob, _) = split_piece_key(key)?;
                match &mut self.blob {
                    Some((same, count)) if *same == blob => *count += 1,
                    _ => {
                        self.end_blob();
                        self.blob = Some((blob, 1));
                    }
                }
            }
            Value::Raw(_) => self.used.keys += 1,
        }
        Ok(true)
    }

    fn gap(&mut self, gap: Gap) -> Result<bool> {
        self.survey.report.unreadable.push(gap.error.to_string());
        Ok(true)
    }
}

#[cfg(test)]
mod tests;
