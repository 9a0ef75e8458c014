//! One window of a value: finding one that is worth it, and writing it anew.

use std::sync::Arc;

use bytes::Bytes;

use crate::address::BlockRange;
use crate::allocator::Class;
use crate::apply::reference;
use crate::batch::{Condition, Durability, KeyRange, Payload, Place, SpaceId, Version};
use crate::content::{Pieces, Reading, find_record};
use crate::core::Core;
use crate::defrag::PIECES_MIN;
use crate::device::{BLOCK_LEN, ReadMode};
use crate::error::{Error, ErrorKind, Result};
use crate::log::record::Step;
use crate::stage::{Access, StageHint};
use crate::staged::Staged;
use crate::staging::Stage;
use crate::state::REFERENCES;
use crate::state::State;
use crate::tree::value::{BlobId, Piece, SpaceRoot};
use crate::view::View;

/// The most bytes of a window: one run.
const WINDOW_LEN_MAX: u64 = 1 << 20;
/// Checksum chunks of small pieces.
const CHUNK_LOG2_SMALL: u8 = 12;

/// A part of a value in several pieces that follow on each other.
#[derive(Clone, Debug, Default)]
pub struct Window {
    pub space: SpaceId,
    pub key: Bytes,
    /// The commit that changed the value last.
    pub version: Version,
    pub start: u64,
    pub end: u64,
    pub pieces: usize,
    blocks: Vec<BlockRange>,
    /// Its bytes have small checksum chunks: they are read in small pieces.
    small_chunks: bool,
    /// It cannot be moved now, or not without taking space twice.
    stays: bool,
}

impl Window {
    /// Its bytes.
    pub fn length(&self) -> u64 {
        self.end - self.start
    }

    /// Whether this much is gained by writing it anew.
    fn is_worth_it(&self) -> bool {
        let needed = self.length().div_ceil(BLOCK_LEN as u64);
        let held: u64 = self.blocks.iter().map(|range| u64::from(range.count)).sum();
        self.pieces >= PIECES_MIN || (self.pieces > 0 && held >= 2 * needed && held >= needed + 8)
    }
}

/// What became of a window.
pub enum Outcome {
    Rewritten {
        pieces: u64,
    },
    /// It was changed meanwhile, or there is no better room for it.
    Left,
}

/// Looks for windows in the values of a space.
pub struct Finder<'a> {
    core: &'a Core,
    state: &'a State,
    root: &'a SpaceRoot,
    /// Windows that would be worth it and stay.
    pub left: u64,
}

impl<'a> Finder<'a> {
    pub fn new(core: &'a Core, state: &'a State, root: &'a SpaceRoot) -> Finder<'a> {
        Finder { core, state, root, left: 0 }
    }

    /// The next window of a value from an offset on.
    pub fn next(&mut self, blob: BlobId, from: u64, size: u64) -> Result<Option<Window>> {
        if from >= size {
            return Ok(None);
        }
        let source = &self.core.nodes;
        let mut pieces = Pieces::new(&self.root.tree, source, blob, from, size)?;
        let mut window = Window { start: from, end: from, ..Window::default() };
        loop {
            let next = pieces.next(source)?;
            let fits = next
                .as_ref()
                .is_some_and(|(start, piece)| *start == window.end && window.length() + piece.len() <= WINDOW_LEN_MAX);
            // Around a part of a frozen blob there are other windows.
            let fits = fits && !matches!(&next, Some((_, Piece::Frozen(_))));
            if !fits {
                if window.is_worth_it() {
                    if !window.stays && !self.is_shared(&window)? {
                        return Ok(Some(window));
                    }
                    self.left += 1;
                }
                let Some((start, _)) = &next else { return Ok(None) };
                // The first piece may begin before the place that was asked for: it was looked at.
                let start = (*start).max(from);
                window = Window { start, end: start, ..Window::default() };
            }
            match next {
                Some((start, Piece::Frozen(part))) => {
                    let end = start.saturating_add(part.length);
                    window = Window { start: end, end, ..Window::default() };
                }
                Some((start, piece)) => self.add(&mut window, start, piece),
                None => {}
            }
        }
    }

    fn add(&self, window: &mut Window, start: u64, mut piece: Piece) {
        piece.settle();
        let end = start.saturating_add(piece.len());
        // One that began before the window belongs to the one before.
        window.stays |= start < window.start;
        match &piece {
            Piece::Inline(_) => {}
            // The next checkpoint places it, perhaps beside others.
            Piece::Pending(_) => window.stays = true,
            // No window has one.
            Piece::Frozen(_) => {}
            Piece::Disk(extent) => {
                window.stays |= extent.birth <= self.root.lineage().shared;
                window.small_chunks |= extent.chunk_log2 <= CHUNK_LOG2_SMALL;
                window.blocks.push(extent.blocks());
            }
        }
        window.pieces += 1;
        window.end = end.max(window.end);
    }

    /// Whether pieces outside of the window name some of its blocks.
    fn is_shared(&self, window: &Window) -> Result<bool> {
        let source = &self.core.nodes;
        let Some(table) = self.state.space(source, REFERENCES)? else { return Ok(false) };
        for range in &window.blocks {
            let key = |block: u64| Bytes::copy_from_slice(&block.to_be_bytes());
            let mut found = Vec::new();
            if let Some((key, value)) = table.tree.last_before(source, &key(range.start))? {
                found.push(reference::decode(&key, &value)?);
            }
            let mut cursor = table.tree.cursor(KeyRange { start: key(range.start), end: Some(key(range.end())) });
            while let Some((key, value)) = cursor.next(source)? {
                found.push(reference::decode(&key, &value)?);
            }
            for shared in found.iter().filter(|shared| shared.end > range.start) {
                let (start, end) = (shared.start.max(range.start), shared.end.min(range.end()));
                let own = window.blocks.iter().filter(|own| own.start <= start && end <= own.end()).count();
                if shared.count as usize > own {
                    return Ok(true);
                }
            }
        }
        Ok(false)
    }
}

/// Writes a window anew and exchanges its pieces.
pub fn rewrite(core: &Arc<Core>, view: &View, window: &Window) -> Result<Outcome> {
    let length = window.length();
    let blocks = length.div_ceil(BLOCK_LEN as u64);
    if !core.allocator.admits(4 * blocks, Class::Data) {
        return Ok(Outcome::Left);
    }
    let Some(root) = view.state().space(&core.nodes, window.space)? else { return Ok(Outcome::Left) };
    let Some(record) = find_record(&root.tree, &core.nodes, &window.key)? else { return Ok(Outcome::Left) };
    let mut bytes = vec![0; length as usize];
    let reading = Reading::new(&core.nodes, core.device.as_ref(), ReadMode::Cached).within(view.state());
    match reading.read(&root.tree, &record, window.start, &mut bytes) {
        // A scrub or a check tells of it; it is not given a good checksum here.
        Err(error) if error.kind() == ErrorKind::Damaged => return Ok(Outcome::Left),
        done => done?,
    }
    if !view.still_holds() {
        return Ok(Outcome::Left);
    }
    let access = if window.small_chunks { Access::Random } else { Access::Sequential };
    let mut stage = Stage::new(Arc::clone(core), StageHint { length: Some(length), access, ..StageHint::default() });
    stage.write(&bytes)?;
    let token = stage.finish()?;
    let staged = token.content::<Staged>().ok_or_else(|| Error::invalid("a stage of another store"))?;
    let pieces = staged.extents().len() as u64 + u64::from(staged.spilled() > 0);
    if pieces > 1 && pieces * 2 > window.pieces as u64 {
        // Free space is in pieces too: it would not be better off.
        return Ok(Outcome::Left);
    }
    drop(staged);
    let Window { space, key, version, start, .. } = window.clone();
    let unchanged = Condition::VersionIs { space, key: key.clone(), version };
    let step = Step::Relocate { at: Place { space, key }, offset: start, data: Payload::Stage(token) };
    let (ticket, completer) = core.new_ticket();
    core.sequence(&[unchanged], vec![step], None, Durability::Written, completer);
    match ticket.wait() {
        Ok(_) => Ok(Outcome::Rewritten { pieces }),
        Err(error) if error.kind() == ErrorKind::Refused => Ok(Outcome::Left),
        Err(error) => Err(error),
    }
}
