//! Each operation of a batch.
//!
//! Invariant: an operation either applies whole or returns an error, and then the write transaction is dropped.

use bytes::{Bytes, BytesMut};

use crate::apply::pieces::{blocks_of, slice};
use crate::apply::write_transaction::WriteTransaction;
use crate::batch::{KEY_LEN_MAX, KeyRange, Operation, Payload, Place, Sources, SpaceId, VALUE_LEN_MAX};
use crate::changes::Changed;
use crate::content::{Blobs, Reading, as_record, find_record, record_key, record_range, user_key};
use crate::error::{Error, Result};
use crate::tree::value::{Content, Piece, Record, SpaceRoot, Value};

/// A range of a value that is cloned into another.
struct CloneStep<'p> {
    from: &'p Place,
    from_offset: u64,
    length: u64,
    to: &'p Place,
    to_offset: u64,
}

/// Visits the spaces whose keys an operation changes.
fn each_changed_space(operation: &Operation, visit: &mut dyn FnMut(SpaceId) -> Result<()>) -> Result<()> {
    match operation {
        Operation::Put { at, .. }
        | Operation::WriteAt { at, .. }
        | Operation::Append { at, .. }
        | Operation::Truncate { at, .. }
        | Operation::Delete { at }
        | Operation::AddCounter { at, .. } => visit(at.space),
        Operation::DeleteRange { space, .. } | Operation::RenamePrefix { space, .. } => visit(*space),
        Operation::Rename { from, to } => visit(from.space).and_then(|()| visit(to.space)),
        Operation::CloneRange { to, .. } => visit(to.space),
        Operation::Concatenate { target, fate: Sources::Keep, .. } => visit(target.space),
        Operation::Concatenate { sources, target, fate: Sources::Delete } => {
            sources.iter().chain([target]).try_for_each(|place| visit(place.space))
        }
        Operation::CreateSpace { .. }
        | Operation::CloneSpace { .. }
        | Operation::SnapshotSpace { .. }
        | Operation::DropSpace { .. } => Ok(()),
    }
}

impl WriteTransaction<'_> {
    /// Applies one operation.
    pub(super) fn operation(&mut self, operation: &Operation) -> Result<()> {
        each_changed_space(operation, &mut |space| self.must_be_writable(space))?;
        match operation {
            Operation::Put { at, value } => self.put(at, value),
            Operation::WriteAt { at, offset, data } => self.write_at(at, *offset, data),
            Operation::Append { at, data } => {
                let size = self.record(at)?.map_or(0, |record| record.size);
                self.write_at(at, size, data)
            }
            Operation::Truncate { at, length } => self.truncate(at, *length),
            Operation::Delete { at } => self.delete(at),
            Operation::DeleteRange { space, range } => self.delete_range(*space, range),
            Operation::Rename { from, to } => self.rename(from, to),
            Operation::CloneRange { from, from_offset, length, to, to_offset } => self.clone_range(&CloneStep {
                from,
                from_offset: *from_offset,
                length: *length,
                to,
                to_offset: *to_offset,
            }),
            Operation::Concatenate { sources, target, fate } => self.concatenate(sources, target, *fate),
            Operation::AddCounter { at, delta } => self.add_counter(at, *delta),
            Operation::CreateSpace { space } => self.create_space(*space),
            Operation::DropSpace { space } => self.drop_space(*space),
            Operation::RenamePrefix { space, from, to } => self.rename_prefix(*space, from, to),
            Operation::CloneSpace { from, to } => self.copy_space(*from, *to, false),
            Operation::SnapshotSpace { from, to } => self.copy_space(*from, *to, true),
        }
    }

    /// The record at a place; refused when its space is absent.
    pub(super) fn record(&mut self, at: &Place) -> Result<Option<Record>> {
        let tree = self.tree(at.space)?;
        find_record(&tree, self.source(), &at.key)
    }

    /// Where a write ends; refused where the value would be too long.
    pub(super) fn end_of(&self, offset: u64, length: u64) -> Result<u64> {
        let end = offset.checked_add(length).filter(|end| *end <= VALUE_LEN_MAX);
        end.ok_or_else(|| self.refuse(format!("the value would be longer than {VALUE_LEN_MAX} bytes")))
    }

    fn changed(&mut self, at: &Place) {
        self.changes.push((at.space, Changed::Key(at.key.clone())));
    }

    /// Sets a record; gives the one before.
    pub(super) fn set(&mut self, at: &Place, size: u64, content: Content) -> Result<Option<Record>> {
        self.changed(at);
        let record = Record { version: self.version(), size, content };
        let old = self.insert(at.space, record_key(&at.key), Value::Record(record))?;
        old.map(as_record).transpose()
    }

    /// Sets a record and lets go of what was there before.
    fn replace(&mut self, at: &Place, size: u64, content: Content) -> Result<()> {
        match self.set(at, size, content)? {
            Some(old) => self.release_content(at.space, old.content),
            None => Ok(()),
        }
    }

    fn put(&mut self, at: &Place, value: &Payload) -> Result<()> {
        // The space is looked at first, so that a refusal takes no stage.
        self.tree(at.space)?;
        let pieces = self.payload_pieces(value)?;
        let content = self.content_of(at.space, pieces)?;
        self.replace(at, value.len(), content)
    }

    /// Exchanges the pieces of a part of a value for others with the same bytes. The record stays as it is.
    pub(super) fn relocate(&mut self, at: &Place, offset: u64, data: &Payload) -> Result<()> {
        let record = self.record(at)?;
        let end = self.end_of(offset, data.len())?;
        let Some(Record { size, content: Content::Pieces(blob), .. }) = record else {
            return Err(self.refuse("the value that was to be moved has no pieces now"));
        };
        if end > size {
            return Err(self.refuse("the value that was to be moved is shorter now"));
        }
        let pieces = self.payload_pieces(data)?;
        self.exchange(at.space, blob, offset, end, pieces)
    }

    fn truncate(&mut self, at: &Place, length: u64) -> Result<()> {
        let Some(record) = self.record(at)? else {
            self.set(at, length, Content::Empty)?;
            return Ok(());
        };
        match record.content {
            Content::Single(piece) if length < piece.len() => {
                let kept = if length == 0 { Vec::new() } else { vec![(0, slice(&piece, 0, length, self.generation))] };
                for (_, part) in &kept {
                    if let Some(blocks) = blocks_of(part) {
                        self.share(blocks)?;
                    }
                }
                let content = self.content_of(at.space, kept)?;
                self.replace(at, length, content)
            }
            Content::Pieces(blob) if length < record.size => {
                self.carve(at.space, blob, length, u64::MAX, false)?;
                self.set(at, length, Content::Pieces(blob))?;
                Ok(())
            }
            content => {
                self.set(at, length, content)?;
                Ok(())
            }
        }
    }

    fn delete(&mut self, at: &Place) -> Result<()> {
        self.tree(at.space)?;
        let Some(old) = self.remove(at.space, &record_key(&at.key))? else { return Ok(()) };
        self.changed(at);
        self.release_content(at.space, as_record(old)?.content)
    }

    fn delete_range(&mut self, space: SpaceId, range: &KeyRange) -> Result<()> {
        let tree = self.tree(space)?;
        if range.is_empty() {
            return Ok(());
        }
        let source = self.source();
        let mut cursor = tree.cursor(record_range(range));
        let mut found = false;
        while let Some((key, value)) = cursor.next(source)? {
            found = true;
            self.remove(space, &key)?;
            self.release_content(space, as_record(value)?.content)?;
        }
        if found {
            self.changes.push((space, Changed::Range(range.clone())));
        }
        Ok(())
    }

    fn rename(&mut self, from: &Place, to: &Place) -> Result<()> {
        let Some(record) = self.record(from)? else {
            return Err(self.refuse("the source of a rename is not there"));
        };
        self.tree(to.space)?;
        if from == to {
            self.set(to, record.size, record.content)?;
            return Ok(());
        }
        self.remove(from.space, &record_key(&from.key))?;
        self.changed(from);
        let content = if from.space == to.space {
            record.content
        } else {
            let pieces = self.moved_pieces(from.space, record.content)?;
            self.content_of(to.space, pieces)?
        };
        self.replace(to, record.size, content)
    }

    fn rename_prefix(&mut self, space: SpaceId, from: &Bytes, to: &Bytes) -> Result<()> {
        let tree = self.tree(space)?;
        let source = self.source();
        let mut cursor = tree.cursor(record_range(&KeyRange::prefix(from.clone())));
        let mut moved = Vec::new();
        while let Some((key, value)) = cursor.next(source)? {
            let mut renamed = BytesMut::from(to.as_ref());
            renamed.extend_from_slice(user_key(&key).get(from.len()..).unwrap_or_default());
            if renamed.len() > KEY_LEN_MAX {
                return Err(self.refuse(format!("a renamed key would be longer than {KEY_LEN_MAX} bytes")));
            }
            moved.push((key, renamed.freeze(), as_record(value)?));
        }
        if moved.is_empty() {
            return Ok(());
        }
        for (key, ..) in &moved {
            self.remove(space, key)?;
        }
        for (_, renamed, record) in moved {
            let record = Record { version: self.version(), ..record };
            let before = self.insert(space, record_key(&renamed), Value::Record(record))?;
            if let Some(before) = before {
                self.release_content(space, as_record(before)?.content)?;
            }
        }
        self.changes.push((space, Changed::Range(KeyRange::prefix(from.clone()))));
        self.changes.push((space, Changed::Range(KeyRange::prefix(to.clone()))));
        Ok(())
    }

    fn clone_range(&mut self, step: &CloneStep<'_>) -> Result<()> {
        let Some(source) = self.record(step.from)? else {
            return Err(self.refuse("the source of a clone is not there"));
        };
        let target = self.record(step.to)?;
        let from = step.from_offset;
        let length = if step.length == u64::MAX { source.size.saturating_sub(from) } else { step.length };
        if from.checked_add(length).is_none_or(|end| end > source.size) {
            return Err(self.refuse("the source of a clone is shorter than the range"));
        }
        let to = step.to_offset;
        let end = self.end_of(to, length)?;
        if step.from == step.to && from < end && to < from + length {
            return Err(self.refuse("the ranges of a clone within one value overlap"));
        }
        let pieces = self.shared_pieces(step.from.space, &source, from, from + length)?;
        let old_size = target.as_ref().map_or(0, |record| record.size);
        if to == 0 && length >= old_size {
            // The whole target is written over (or was not there).
            let content = self.content_of(step.to.space, pieces)?;
            return self.replace(step.to, length, content);
        }
        let content = target.map_or(Content::Empty, |record| record.content);
        let blob = self.as_blob(step.to.space, content)?;
        self.exchange(step.to.space, blob, to, end, pieces)?;
        let size = if length == 0 { old_size } else { old_size.max(end) };
        self.set(step.to, size, Content::Pieces(blob))?;
        Ok(())
    }

    fn concatenate(&mut self, sources: &[Place], target: &Place, fate: Sources) -> Result<()> {
        if sources.contains(target) {
            return Err(Error::invalid("the target of a concatenation is one of its sources"));
        }
        self.tree(target.space)?;
        let mut pieces = Vec::new();
        let mut size = 0u64;
        for source in sources {
            let Some(record) = self.record(source)? else {
                return Err(self.refuse("a source of a concatenation is not there"));
            };
            let length = record.size;
            let parts = match fate {
                Sources::Keep => self.shared_pieces(source.space, &record, 0, length)?,
                Sources::Delete => {
                    self.remove(source.space, &record_key(&source.key))?;
                    self.changed(source);
                    self.moved_pieces(source.space, record.content)?
                }
            };
            pieces.extend(parts.into_iter().map(|(offset, piece)| (size + offset, piece)));
            size = self.end_of(size, length)?;
        }
        let content = self.content_of(target.space, pieces)?;
        self.replace(target, size, content)
    }

    fn add_counter(&mut self, at: &Place, delta: i64) -> Result<()> {
        let before = match self.record(at)? {
            None => 0,
            Some(record) if record.size == 8 => {
                let mut bytes = [0; 8];
                let tree = self.tree(at.space)?;
                let frozen = self.frozen_tree()?;
                let reading = Reading { blobs: Blobs::In(&frozen), ..self.reading() };
                reading.read(&tree, &record, 0, &mut bytes)?;
                i64::from_le_bytes(bytes)
            }
            Some(_) => return Err(self.refuse("the value to add to is not a number of 8 bytes")),
        };
        let Some(after) = before.checked_add(delta) else {
            return Err(self.refuse("the sum does not fit into 64 bits"));
        };
        let bytes = Bytes::copy_from_slice(&after.to_le_bytes());
        self.replace(at, 8, Content::Single(Piece::Inline(bytes)))
    }

    fn create_space(&mut self, space: SpaceId) -> Result<()> {
        if self.find_space(space)?.is_some() {
            return Err(self.refuse(format!("space {} exists already", space.0)));
        }
        let created = self.version();
        self.set_space(space, Some(SpaceRoot::new(created)))
    }
}
