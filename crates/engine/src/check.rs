//! `check`: reads and verifies everything a store holds.
//!
//! What is compared: every node and every chunk of data with its checksum; keys with their order; pieces
//! with their records; parts of frozen blobs with the blobs; the count of references of every block with the pieces that name it; free space
//! with what nothing names.
//!
//! Invariant: a finding names the place and what was expected there; the scan goes on after it.

mod blobs;
mod named;

use std::collections::{BTreeMap, BTreeSet};

use bytes::Bytes;

pub(crate) use named::{Named, named};

use crate::address::{BlockRange, Generation, NodeRef};
use crate::allocator::Runs;
use crate::apply::branch::{Branch, JOINED, decode_dead, number_of, split_branch_key};
use crate::apply::frozen::decode_buried;
use crate::apply::reference;
use crate::apply::write_transaction::Dead;
use crate::batch::SpaceId;
use crate::commit_state::Delta;
use crate::content::{Reading, split_piece_key};
use crate::core::Core;
use crate::device::ReadMode;
use crate::error::Result;
use crate::state::{BRANCHES, DEAD, DROPPED, FROZEN, POINTS, REFERENCES, REQUESTS, STAGES, State};
use crate::superblock::SECOND_SLOT_BLOCK;
use crate::tree::value::{BlobId, Content, Lineage, Piece, SpaceRoot, Value, blob_of};
use crate::tree::{Gap, ScanVisitor, Visit};
use blobs::Blobs;

/// How far a check is.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Progress {
    /// Blocks verified.
    pub blocks_done: u64,
    /// Blocks in use, as far as is known.
    pub blocks_total: u64,
}

/// What a check found.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Report {
    /// Spaces, the engine's own left out.
    pub spaces: u64,
    /// Keys.
    pub keys: u64,
    /// Index nodes read.
    pub nodes: u64,
    /// Pieces of values, in leaves and on the device.
    pub pieces: u64,
    /// Bytes of data read and verified.
    pub data_len: u64,
    /// Blocks that more than one piece names. Those of a frozen blob are named once, by the blob.
    pub blocks_shared: u64,
    /// Blocks that are free.
    pub blocks_free: u64,
    /// What is wrong, each with its place; empty: the store is sound.
    pub findings: Vec<String>,
}

impl Report {
    /// Whether nothing is wrong.
    pub fn is_sound(&self) -> bool {
        self.findings.is_empty()
    }
}

/// The tree of all spaces.
const MASTER: SpaceId = SpaceId(0);

/// How many findings are told; more say no more.
const FINDINGS_MAX: usize = 1000;

struct Check<'a> {
    core: &'a Core,
    report: Report,
    progress: &'a mut dyn FnMut(Progress),
    done: Progress,
    /// Blocks named by nodes and by pieces, with +1 where a range begins and -1 after its end.
    edges: BTreeMap<u64, i64>,
    /// The same, of index nodes alone.
    nodes: BTreeMap<u64, i64>,
    shared: Vec<reference::Shared>,
    table: Table,
    branches: Branches,
    blobs: Blobs,
    blocks: u64,
}

/// What is known of the table of counts of references.
#[derive(Default)]
struct Table {
    nodes: Vec<BlockRange>,
    wrong: Vec<String>,
}

/// What is known of branches of spaces.
#[derive(Default)]
struct Branches {
    /// As the table of branches says.
    listed: BTreeSet<(u64, Branch)>,
    /// As the roots themselves say.
    found: BTreeSet<(u64, Branch)>,
    /// Where the trees of branch points begin, and those of snapshots.
    points: BTreeMap<u64, Option<NodeRef>>,
    snapshots: Vec<(SpaceId, u64, Option<NodeRef>)>,
    /// Up to which generation a branch point has what its branch's dead list holds.
    lists: BTreeMap<u64, Generation>,
    /// Points that were joined with their branch, in the order in which that happened.
    joined: Vec<Lineage>,
    dead: Vec<Dead>,
}

/// The walk over one space.
struct SpaceWalk<'c, 'a> {
    check: &'c mut Check<'a>,
    space: SpaceId,
    /// What was born up to here belongs to a branch point, which accounts for it.
    of_point: Generation,
    /// Whether that is read all the same, to compare keys with their values.
    whole: bool,
    /// Blobs that records name, with the sizes of their values.
    named: BTreeMap<BlobId, u64>,
    /// Blobs that have pieces, with the end of the last.
    pieced: BTreeMap<BlobId, u64>,
    roots: Vec<(u64, SpaceRoot)>,
    entries: u64,
}

impl<'a> Check<'a> {
    fn new(core: &'a Core, progress: &'a mut dyn FnMut(Progress), blocks: u64, blocks_total: u64) -> Check<'a> {
        Check {
            core,
            report: Report::default(),
            progress,
            done: Progress { blocks_done: 0, blocks_total },
            edges: BTreeMap::new(),
            nodes: BTreeMap::new(),
            shared: Vec::new(),
            table: Table::default(),
            branches: Branches::default(),
            blobs: Blobs::default(),
            blocks,
        }
    }
}

impl Check<'_> {
    fn find(&mut self, what: String) {
        if self.report.findings.len() < FINDINGS_MAX {
            self.report.findings.push(what);
        }
    }

    fn name(&mut self, range: BlockRange) {
        *self.edges.entry(range.start).or_default() += 1;
        *self.edges.entry(range.end()).or_default() -= 1;
        self.done.blocks_done += u64::from(range.count);
        (self.progress)(self.done);
    }

    /// Names the blocks of an index node, which nothing else may name.
    fn name_node(&mut self, range: BlockRange) {
        *self.nodes.entry(range.start).or_default() += 1;
        *self.nodes.entry(range.end()).or_default() -= 1;
        self.name(range);
    }

    fn piece(&mut self, piece: &Piece, of_point: Generation, place: &str) {
        self.report.pieces += 1;
        let placed = match piece {
            Piece::Disk(extent) => Some(extent.clone()),
            Piece::Pending(pending) => pending.placement.placed(),
            Piece::Frozen(frozen) if frozen.birth > of_point => {
                self.blobs.name(frozen, place);
                None
            }
            Piece::Frozen(_) | Piece::Inline(_) => None,
        };
        let Some(extent) = placed.filter(|extent| extent.birth > of_point) else { return };
        self.name(extent.blocks());
        let reading = Reading::new(&self.core.nodes, self.core.device.as_ref(), ReadMode::Direct);
        let mut buffer = vec![0; extent.length as usize];
        self.report.data_len += u64::from(extent.length);
        if let Err(error) = reading.read_piece(&Piece::Disk(extent), 0, &mut buffer) {
            self.find(format!("{place}: {error}"));
        }
    }

    /// Walks over a space, or over what a branch point or something dropped has for itself. Gives the roots in it.
    fn space(&mut self, space: SpaceId, root: &SpaceRoot, whole: bool) -> Result<Vec<(u64, SpaceRoot)>> {
        let core = self.core;
        let mut step = SpaceWalk {
            check: self,
            space,
            of_point: root.lineage().shared,
            whole,
            named: BTreeMap::new(),
            pieced: BTreeMap::new(),
            roots: Vec::new(),
            entries: 0,
        };
        root.tree.scan(&core.nodes, &[], None, &mut step)?;
        let SpaceWalk { named, pieced, roots, entries, .. } = step;
        if !whole {
            return Ok(roots);
        }
        if entries != root.tree.len() {
            let wrong = format!("space {}: {entries} entries, its root says {}", space.0, root.tree.len());
            if space == REFERENCES { self.table.wrong.push(wrong) } else { self.find(wrong) }
        }
        self.compare_blobs(space, &named, &pieced);
        Ok(roots)
    }

    fn compare_blobs(&mut self, space: SpaceId, named: &BTreeMap<BlobId, u64>, pieced: &BTreeMap<BlobId, u64>) {
        if space == STAGES || space == FROZEN {
            return;
        }
        for (blob, end) in pieced {
            match named.get(blob) {
                None => self.find(format!("space {}: pieces of value {} that no key names", space.0, blob.0)),
                Some(size) if end > size => {
                    self.find(format!("space {}: value {} has pieces past its end", space.0, blob.0));
                }
                Some(_) => {}
            }
        }
    }

    /// Compares what is named with the counts of references and with free space.
    fn compare_blocks(&mut self, free: &Runs, pages: &[BlockRange]) {
        let ring = self.core.ring;
        let block = crate::device::BLOCK_LEN as u64;
        let fixed = [(0, 1), (SECOND_SLOT_BLOCK, 1), (ring.start() / block, ring.length() / block)];
        let own = pages.iter().map(|page| (page.start, u64::from(page.count)));
        for (start, count) in fixed.into_iter().chain(own) {
            *self.edges.entry(start).or_default() += 1;
            *self.edges.entry(start + count).or_default() -= 1;
        }
        for (start, count) in free.iter() {
            // Free blocks count as one use, so that every block has one: more is a block used and free.
            *self.edges.entry(start).or_default() += 1;
            *self.edges.entry(start + count).or_default() -= 1;
        }
        let mut shared: BTreeMap<u64, i64> = BTreeMap::new();
        for part in std::mem::take(&mut self.shared) {
            *shared.entry(part.start).or_default() += i64::from(part.count) - 1;
            *shared.entry(part.end).or_default() -= i64::from(part.count) - 1;
        }
        let edges = std::mem::take(&mut self.edges);
        let bounds: BTreeSet<u64> = edges.keys().chain(shared.keys()).copied().collect();
        let blocks = self.blocks;
        let (mut uses, mut expected, mut at) = (0i64, 1i64, 0u64);
        for bound in bounds.into_iter().chain([blocks]) {
            if bound > at && uses != expected {
                self.find(mismatch(at, bound.min(blocks), uses, expected, free));
            }
            if bound > at && expected > 1 {
                self.report.blocks_shared += bound - at;
            }
            uses += edges.get(&bound).copied().unwrap_or(0);
            expected += shared.get(&bound).copied().unwrap_or(0);
            at = at.max(bound);
            if bound >= blocks {
                break;
            }
        }
        self.report.blocks_free = free.blocks();
    }
}

fn mismatch(start: u64, end: u64, uses: i64, expected: i64, free: &Runs) -> String {
    let count = u32::try_from(end - start).unwrap_or(u32::MAX);
    if uses == 0 {
        return format!("blocks {start}..{end} are neither free nor named by anything");
    }
    if free.contains(BlockRange { start, count }) {
        return format!("blocks {start}..{end} are free and in use");
    }
    format!("blocks {start}..{end} are named {uses} times, their count of references is {expected}")
}

impl ScanVisitor for SpaceWalk<'_, '_> {
    fn node(&mut self, at: &NodeRef, _: bool) -> Result<Visit> {
        if at.birth <= self.of_point {
            return Ok(if self.whole { Visit::Into } else { Visit::Skip });
        }
        self.check.report.nodes += 1;
        self.check.name_node(at.range());
        if self.space == REFERENCES {
            self.check.table.nodes.push(at.range());
        }
        Ok(Visit::Into)
    }

    fn entry(&mut self, key: &Bytes, value: &Value) -> Result<bool> {
        self.entries += 1;
        let space = self.space;
        match value {
            Value::Root(root) => {
                if ![MASTER, POINTS, DROPPED].contains(&space) {
                    self.check.find(format!("space {} has the root of another", space.0));
                    return Ok(true);
                }
                match number_of(key) {
                    Ok(number) => self.roots.push((number, root.clone())),
                    Err(error) => self.check.find(format!("space {}: {error}", space.0)),
                }
            }
            Value::Record(record) => {
                self.check.report.keys += u64::from(self.whole);
                match &record.content {
                    Content::Empty => {}
                    Content::Single(piece) => {
                        self.check.piece(piece, self.of_point, &format!("space {}, key {key:?}", space.0));
                    }
                    Content::Pieces(blob) => {
                        if self.named.insert(*blob, record.size).is_some() {
                            self.check.find(format!("space {}: value {} has two keys", space.0, blob.0));
                        }
                    }
                }
            }
            Value::Piece(piece) => self.piece_entry(key, piece)?,
            Value::Raw(_) if space == REFERENCES => match reference::decode(key, value) {
                Ok(shared) if blob_of(shared.start).is_some() => self.check.blobs.count(shared),
                Ok(shared) => self.check.shared.push(shared),
                Err(error) => self.check.table.wrong.push(error.to_string()),
            },
            Value::Raw(_) if space == REQUESTS => {}
            Value::Raw(_) if space == BRANCHES => match split_branch_key(key) {
                Ok(branch) => drop(self.check.branches.listed.insert(branch)),
                Err(error) => self.check.find(error.to_string()),
            },
            Value::Raw(_) if space == DEAD => match decode_dead(key, value) {
                Ok(dead) => self.check.branches.dead.push(dead),
                Err(error) => self.check.find(error.to_string()),
            },
            Value::Raw(_) if space == DROPPED => match decode_buried(value) {
                Ok(blob) => self.check.blobs.bury(blob),
                Err(error) => self.check.find(error.to_string()),
            },
            Value::Raw(_) => self.check.find(format!("space {} has an entry of the engine's own", space.0)),
        }
        Ok(true)
    }

    fn gap(&mut self, gap: Gap) -> Result<bool> {
        if self.space == REFERENCES {
            self.check.table.wrong.push(format!("space {}: {}", self.space.0, gap.error));
            return Ok(true);
        }
        self.check.find(format!("space {}: {}", self.space.0, gap.error));
        Ok(true)
    }
}

impl SpaceWalk<'_, '_> {
    fn piece_entry(&mut self, key: &Bytes, piece: &Piece) -> Result<()> {
        let space = self.space.0;
        let (blob, offset) = match split_piece_key(key) {
            Ok(parts) => parts,
            Err(error) => {
                self.check.find(format!("space {space}: {error}"));
                return Ok(());
            }
        };
        let end = offset.saturating_add(piece.len());
        if self.pieced.get(&blob).is_some_and(|before| *before > offset) {
            self.check.find(format!("space {space}: pieces of value {} overlap at byte {offset}", blob.0));
        }
        self.pieced.insert(blob, end);
        if self.space == FROZEN {
            self.check.blobs.extent(blob, offset, piece);
        }
        let place = format!("space {space}, value {}, byte {offset}", blob.0);
        self.check.piece(piece, self.of_point, &place);
        Ok(())
    }
}

/// Verifies the newest state of a store that nothing else uses meanwhile.
pub(crate) fn check(core: &Core, progress: &mut dyn FnMut(Progress)) -> Result<Report> {
    let checkpointed = core.checkpointed.lock();
    let (state, free) = {
        let head = core.head.lock();
        let mut free = checkpointed.free.clone();
        let mut deltas: Vec<_> = head.deltas.iter().chain(&head.late_deltas).collect();
        deltas.sort_by_key(|(version, _)| *version);
        for (_, delta) in deltas {
            match delta {
                Delta::Use(range) => free.remove(range.start, u64::from(range.count))?,
                Delta::Free(range) => free.add(range.start, u64::from(range.count))?,
            };
        }
        (head.state.clone(), free)
    };
    let blocks = checkpointed.newest.blocks;
    let mut check = Check::new(core, progress, blocks, blocks.saturating_sub(free.blocks()));
    check.spaces(&state)?;
    check.compare_branches();
    std::mem::take(&mut check.table.wrong).into_iter().for_each(|wrong| check.find(wrong));
    check.blobs.compare().into_iter().chain(check.blobs.wrong_counts()).for_each(|wrong| check.find(wrong));
    check.compare_blocks(&free, &checkpointed.pages);
    Ok(check.report)
}

impl Check<'_> {
    fn spaces(&mut self, state: &State) -> Result<()> {
        let master = SpaceRoot { tree: state.master.clone(), created: state.version, ..SpaceRoot::default() };
        for (number, root) in self.space(MASTER, &master, true)? {
            let space = SpaceId(number);
            self.report.spaces += u64::from(space >= SpaceId::FIRST);
            let lineage = root.lineage();
            if root.is_read_only() {
                self.branches.found.insert((lineage.origin, Branch::Name(space)));
                self.branches.snapshots.push((space, lineage.origin, root.tree.stored()));
                continue;
            }
            self.branch(lineage, Branch::Space(space));
            for (number, inner) in self.space(space, &root, true)? {
                self.inner(space, number, &inner)?;
            }
        }
        Ok(())
    }

    fn branch(&mut self, lineage: Lineage, branch: Branch) {
        if lineage.origin != 0 {
            self.branches.found.insert((lineage.origin, branch));
        }
        self.branches.lists.insert(lineage.dead, lineage.shared);
    }

    /// A branch point, or something dropped.
    fn inner(&mut self, space: SpaceId, number: u64, root: &SpaceRoot) -> Result<()> {
        let lineage = root.lineage();
        if space == POINTS {
            self.branch(lineage, Branch::Point(number));
            self.branches.points.insert(number, root.tree.stored());
        } else if root.flags & JOINED == 0 {
            self.branches.lists.insert(lineage.dead, lineage.shared);
        } else {
            self.branches.joined.push(lineage);
        }
        self.space(space, root, false).map(|_| ())
    }

    /// Compares branches with the table of them, and names what is in dead lists and nobody's.
    fn compare_branches(&mut self) {
        let branches = std::mem::take(&mut self.branches);
        for (point, branch) in branches.listed.symmetric_difference(&branches.found) {
            self.find(format!("{branch:?} and the table of branches disagree whether it comes from point {point}"));
        }
        for (point, branch) in &branches.listed {
            if !branches.points.contains_key(point) {
                self.find(format!("{branch:?} comes from point {point}, which is not there"));
            }
        }
        for (space, point, tree) in &branches.snapshots {
            if branches.points.get(point) != Some(tree) {
                self.find(format!("snapshot {} is not what point {point} is", space.0));
            }
        }
        let mut lists = branches.lists;
        for lineage in branches.joined.iter().rev() {
            // Its list goes to another, which may have lost its point as well meanwhile.
            let target = lists.get(&lineage.origin).copied().unwrap_or(lineage.frozen);
            lists.insert(lineage.dead, target.min(lineage.frozen));
        }
        for dead in &branches.dead {
            if lists.get(&dead.list).is_some_and(|shared| dead.birth > *shared) {
                match blob_of(dead.blocks.start) {
                    Some(blob) => self.blobs.name_dead(blob),
                    None if dead.is_node => self.name_node(dead.blocks),
                    None => self.name(dead.blocks),
                }
            }
        }
    }
}
