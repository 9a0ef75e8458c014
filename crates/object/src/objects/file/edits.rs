//! What a file that is edited in place has yet to commit.
//!
//! Invariants:
//! - Pieces do not overlap, touch or reach past the file's size, and none is empty.
//! - All of it becomes visible in one commit, on the object that was opened (S-182, S-301).

use std::collections::BTreeMap;

use koine_kv::{Commit, Transaction};

use crate::edit::{Edit, EditPlace};
use crate::error::{Result, invalid};
use crate::info::ObjectInfo;
use crate::local::Local;
use crate::object_name::ObjectName;
use crate::objects::{ObjectReader, Objects};
use crate::request::{EditOptions, StageOptions};
use crate::rights::Rights;
use crate::verb::{Applied, CommandContext, Verb};

/// So many bytes wait for a flush at most; what goes past it is flushed by itself.
const WAITING_LEN_MAX: u64 = 64 << 20;
/// So many pieces do.
const PIECES_MAX: usize = 64;

/// The bytes of a file: those of the object, and over them what was written.
pub(super) struct Waiting {
    /// By where they begin.
    pieces: BTreeMap<u64, Vec<u8>>,
    length: u64,
    /// How many bytes of the object are still seen.
    seen: u64,
    size: u64,
    /// How many the object has.
    before: u64,
}

impl Waiting {
    /// Nothing, over an object of `size` bytes.
    pub fn new(size: u64) -> Self {
        Waiting { pieces: BTreeMap::new(), length: 0, seen: size, size, before: size }
    }

    pub fn size(&self) -> u64 {
        self.size
    }

    pub fn is_empty(&self) -> bool {
        self.pieces.is_empty() && self.size == self.before && self.seen == self.before
    }

    /// Whether it is time to flush without being asked; `inline_len` bytes fit into one commit.
    pub fn is_much(&self, inline_len: u64) -> bool {
        self.length > WAITING_LEN_MAX || self.pieces.len() > PIECES_MAX || {
            // What is small goes into the commit itself.
            self.pieces.len() > 1 && self.length.min(32 << 10) * self.pieces.len() as u64 > inline_len
        }
    }

    /// Writes over what is there. Pieces that it touches become one with it.
    pub fn write(&mut self, offset: u64, bytes: &[u8]) {
        if bytes.is_empty() {
            return;
        }
        let end = offset + bytes.len() as u64;
        self.size = self.size.max(end);
        // What goes on where the last write ended, which most writes do, is not copied again and again.
        let nothing_follows = self.pieces.range(offset..=end).next().is_none();
        let before = self.pieces.range_mut(..offset).next_back();
        if let Some((_, piece)) = before.filter(|(at, piece)| nothing_follows && *at + piece.len() as u64 == offset) {
            piece.extend_from_slice(bytes);
            self.length += bytes.len() as u64;
            return;
        }
        let touched = |(at, piece): (&u64, &Vec<u8>)| (*at + piece.len() as u64 >= offset).then_some(*at);
        let starts: Vec<u64> = self.pieces.range(..=end).rev().map_while(touched).collect();
        let mut whole = (offset, bytes.to_vec());
        for at in starts {
            let Some(old) = self.pieces.remove(&at) else { continue };
            self.length -= old.len() as u64;
            whole = joined(at, old, whole);
        }
        self.length += whole.1.len() as u64;
        self.pieces.insert(whole.0, whole.1);
    }

    /// Cuts, or extends by zeros.
    pub fn truncate(&mut self, size: u64) {
        (self.size, self.seen) = (size, self.seen.min(size));
        let beyond = self.pieces.split_off(&size);
        self.length -= beyond.values().map(|piece| piece.len() as u64).sum::<u64>();
        if let Some((at, piece)) = self.pieces.range_mut(..size).next_back() {
            let kept = usize::try_from(size - at).unwrap_or(usize::MAX).min(piece.len());
            self.length -= (piece.len() - kept) as u64;
            piece.truncate(kept);
        }
    }

    /// Reads what stands at `offset` now: at most up to where something else begins.
    pub fn read(&self, reader: &ObjectReader, offset: u64, buffer: &mut [u8]) -> Result<usize> {
        let left = usize::try_from(self.size.saturating_sub(offset)).unwrap_or(usize::MAX);
        let mut wanted = left.min(buffer.len());
        if let Some((at, piece)) = self.pieces.range(..=offset).next_back() {
            let passed = usize::try_from(offset - at).unwrap_or(usize::MAX);
            if let Some(bytes) = piece.get(passed..).filter(|bytes| !bytes.is_empty()) {
                let count = bytes.len().min(wanted);
                if let (Some(target), Some(bytes)) = (buffer.get_mut(..count), bytes.get(..count)) {
                    target.copy_from_slice(bytes);
                }
                return Ok(count);
            }
        }
        let mut until = |next: u64| wanted = wanted.min(usize::try_from(next - offset).unwrap_or(usize::MAX));
        if let Some((next, _)) = self.pieces.range(offset..).next() {
            until(*next);
        }
        let of_object = offset < self.seen;
        if of_object {
            until(self.seen);
        }
        let target = buffer.get_mut(..wanted).unwrap_or_default();
        if of_object {
            return reader.read(offset, target);
        }
        target.fill(0);
        Ok(wanted)
    }

    /// Makes it so in a store that is elsewhere: the same edits in one transaction.
    pub fn commit_there(&self, objects: &Objects, name: ObjectName<'_>, options: &EditOptions) -> Result<()> {
        let mut bodies = Vec::new();
        let mut end = self.seen;
        for (at, piece) in &self.pieces {
            let mut writer =
                objects.stage(StageOptions { length: Some(piece.len() as u64), ..StageOptions::default() })?;
            writer.write(piece)?;
            bodies.push((*at, writer.finish(&crate::checksum::Expected::none())?));
            end = end.max(*at + piece.len() as u64);
        }
        let committed = objects.transact(None, |transaction| {
            if self.seen < self.before {
                transaction.truncate(name, self.seen, options)?;
            }
            for (at, body) in &bodies {
                transaction.write_at(name, *at, body, options)?;
            }
            if end < self.size {
                transaction.truncate(name, self.size, options)?;
            }
            Ok(())
        });
        committed.map(drop)
    }

    /// The edits that make it so.
    pub fn edits(&self, local: &Local, name: ObjectName<'_>, options: &EditOptions) -> Result<Edits> {
        let mut edits = Vec::new();
        if self.seen < self.before {
            edits.push(Edit::truncate(name, self.seen, options.clone())?);
        }
        let mut end = self.seen;
        for (at, piece) in &self.pieces {
            let options = EditOptions { length: Some(piece.len() as u64), ..options.clone() };
            let mut writer = local.edit(name, EditPlace::At(*at), options)?;
            writer.write(piece)?;
            edits.push(writer.into_verb(&crate::checksum::Expected::none())?);
            end = end.max(*at + piece.len() as u64);
        }
        if end < self.size {
            edits.push(Edit::truncate(name, self.size, options.clone())?);
        }
        Ok(Edits(edits))
    }
}

/// An older piece and a newer one that touches it.
fn joined(at: u64, old: Vec<u8>, (offset, new): (u64, Vec<u8>)) -> (u64, Vec<u8>) {
    let distance = |from: u64, to: u64| usize::try_from(to.saturating_sub(from)).unwrap_or(usize::MAX);
    let new_end = offset + new.len() as u64;
    let mut whole = old.get(..distance(at, offset).min(old.len())).unwrap_or_default().to_vec();
    whole.extend_from_slice(&new);
    whole.extend_from_slice(old.get(distance(at, new_end)..).unwrap_or_default());
    (at.min(offset), whole)
}

/// Several edits of one object in one commit: the verb.
pub(super) struct Edits(Vec<Edit>);

impl Verb for Edits {
    type Outcome = ObjectInfo;

    fn needs(&self, rights: &mut Rights<'_>) -> Result<()> {
        self.0.iter().try_for_each(|edit| edit.needs(rights))
    }

    fn apply(&mut self, txn: &mut Transaction, context: &CommandContext<'_>) -> Result<Applied<ObjectInfo>> {
        let mut outcome = None;
        for edit in &mut self.0 {
            match edit.apply(txn, context)? {
                Applied::Changed => outcome = Some(Applied::Changed),
                Applied::Done(info) => {
                    outcome.get_or_insert(Applied::Done(info));
                }
                maybe_replayed => return Ok(maybe_replayed),
            }
        }
        outcome.ok_or_else(nothing)
    }

    fn committed(mut self, local: &Local, commit: Commit) -> Result<ObjectInfo> {
        self.0.pop().ok_or_else(nothing)?.committed(local, commit)
    }
}

fn nothing() -> crate::error::Error {
    invalid("a file without changes was flushed")
}

#[cfg(test)]
mod tests {
    use super::*;

    /// What a file over an object of zeros holds.
    fn laid_out(waiting: &Waiting) -> Vec<u8> {
        let mut bytes = vec![0; usize::try_from(waiting.size).unwrap()];
        let mut last = None;
        for (at, piece) in &waiting.pieces {
            assert!(!piece.is_empty() && last.is_none_or(|last| last < *at), "{last:?} {at}");
            let at = usize::try_from(*at).unwrap();
            bytes[at..at + piece.len()].copy_from_slice(piece);
            last = Some((at + piece.len()) as u64);
        }
        assert_eq!(waiting.length, waiting.pieces.values().map(|piece| piece.len() as u64).sum::<u64>());
        bytes
    }

    #[test]
    fn pieces_lie_over_each_other_as_they_were_written() {
        use koine_env::Random;
        let random = koine_env::SeededRandom::new(3);
        for _ in 0..300 {
            let (mut waiting, mut wanted) = (Waiting::new(40), vec![0; 40]);
            for byte in 1..40 {
                let (offset, length) = (random.next_u64() % 60, random.next_u64() % 12);
                let at = usize::try_from(offset).unwrap();
                if random.next_u64().is_multiple_of(6) {
                    waiting.truncate(offset);
                    wanted.resize(at, 0);
                } else {
                    let bytes = vec![byte; usize::try_from(length).unwrap()];
                    waiting.write(offset, &bytes);
                    if !bytes.is_empty() {
                        wanted.resize(wanted.len().max(at + bytes.len()), 0);
                        wanted[at..at + bytes.len()].copy_from_slice(&bytes);
                    }
                }
                assert_eq!(laid_out(&waiting), wanted);
            }
        }
    }
}
