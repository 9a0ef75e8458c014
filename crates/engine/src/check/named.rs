//! What names which block, found without believing the free list and the counts of references: what a repair needs.
//!
//! Invariant: a node that is named twice, or by something else too, is told as damage and never counted as shared.

use std::collections::{BTreeMap, BTreeSet};

use super::{Check, Progress, Report};
use crate::address::BlockRange;
use crate::allocator::Runs;
use crate::apply::reference::Shared;
use crate::core::Core;
use crate::error::Result;
use crate::superblock::SECOND_SLOT_BLOCK;

/// What the trees say of blocks, whatever the free list and the table of counts say.
pub(crate) struct Named {
    /// What is wrong beside those two.
    pub report: Report,
    /// The blocks that nothing names.
    pub free: Runs,
    /// The counts that there should be, in order.
    pub counts: Vec<Shared>,
    /// What is wrong with the table of counts.
    pub wrong_counts: Option<String>,
    /// The nodes of that table, as far as they are known.
    pub table: Vec<BlockRange>,
}

/// Verifies the sequenced state without believing the free list and the counts of references.
pub(crate) fn named(core: &Core, progress: &mut dyn FnMut(Progress)) -> Result<Named> {
    let blocks = core.checkpointed.lock().newest.blocks;
    let state = core.head.lock().state.clone();
    let mut check = Check::new(core, progress, blocks, blocks);
    check.spaces(&state)?;
    check.compare_branches();
    let (mut counts, clash) = count_names(&check.edges, &check.nodes);
    clash.into_iter().for_each(|place| check.find(place));
    check.blobs.compare().into_iter().for_each(|wrong| check.find(wrong));
    counts.extend(check.blobs.names());
    let counts = joined(&counts);
    check.shared.extend(check.blobs.counted());
    let block = crate::device::BLOCK_LEN as u64;
    let ring = (core.ring.start() / block, core.ring.length() / block);
    for (start, count) in [(0, 1), (SECOND_SLOT_BLOCK, 1), ring] {
        *check.edges.entry(start).or_default() += 1;
        *check.edges.entry(start + count).or_default() -= 1;
    }
    let (mut free, mut names, mut at) = (Runs::new(), 0i64, 0u64);
    for (bound, change) in std::mem::take(&mut check.edges) {
        if names == 0 && at < bound.min(blocks) {
            free.add(at, bound.min(blocks) - at)?;
        }
        (names, at) = (names + change, bound);
    }
    if at > blocks {
        check.find(format!("blocks up to {at} are named, the store has {blocks}"));
    } else {
        free.add(at, blocks - at)?;
    }
    let table = std::mem::take(&mut check.table);
    let wrong_counts = match table.wrong.into_iter().next() {
        Some(wrong) => Some(wrong),
        None if joined(&check.shared) != counts => Some("it has other counts than what names the blocks".to_owned()),
        None => None,
    };
    Ok(Named { report: check.report, free, counts, wrong_counts, table: table.nodes })
}

/// Blocks that are named more than once, and what is wrong where an index node is among what names them.
fn count_names(edges: &BTreeMap<u64, i64>, nodes: &BTreeMap<u64, i64>) -> (Vec<Shared>, Vec<String>) {
    let bounds: BTreeSet<u64> = edges.keys().chain(nodes.keys()).copied().collect();
    let (mut counts, mut clash) = (Vec::new(), Vec::new());
    let (mut names, mut of_nodes, mut at) = (0i64, 0i64, 0u64);
    for bound in bounds {
        if let (Ok(count @ 2..), true) = (u32::try_from(names), at < bound) {
            counts.push(Shared { start: at, end: bound, count });
            if of_nodes > 0 {
                clash.push(format!("blocks {at}..{bound} are an index node and something else too"));
            }
        }
        names += edges.get(&bound).copied().unwrap_or(0);
        of_nodes += nodes.get(&bound).copied().unwrap_or(0);
        at = bound;
    }
    (joined(&counts), clash)
}

/// Neighbours of the same count as one.
fn joined(counts: &[Shared]) -> Vec<Shared> {
    let mut out: Vec<Shared> = Vec::with_capacity(counts.len());
    for next in counts {
        match out.last_mut() {
            Some(last) if last.end == next.start && last.count == next.count => last.end = next.end,
            _ => out.push(*next),
        }
    }
    out
}
