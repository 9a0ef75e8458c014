//! The way out: every space, key by key, into a sink.
//!
//! Invariants:
//! - A byte goes to the sink as known only after the chunk that holds it matched its checksum.
//! - Every key that is met is told once: whole, in part, or unknown.

use std::collections::{BTreeSet, btree_map};

use bytes::Bytes;

use super::recovered::{RecoveredValue, Source};
use super::salvage_state::{Known, Layer, SalvageState, Space};
use super::{LostKeys, PartialValue, SalvageProgress, SalvageReport, SalvageSink};
use crate::batch::{KeyRange, Place, SpaceId};
use crate::content::{Reading, record_range, split_piece_key, user_key};
use crate::error::Result;
use crate::extent::Extent;
use crate::tree::value::{BlobId, Content, Piece, Value};
use crate::tree::{Gap, ScanVisitor, Tree};

/// Zeros, inline bytes and extents go to the sink in parts of at most this many bytes.
const PART_LEN: usize = 1 << 20;

/// Gives every space to the sink.
pub(super) fn copy(
    salvage_state: &mut SalvageState<'_>,
    sink: &mut dyn SalvageSink,
    report: &mut SalvageReport,
    progress: &mut dyn FnMut(SalvageProgress),
) -> Result<()> {
    let spaces = std::mem::take(&mut salvage_state.spaces);
    for (id, space) in spaces {
        sink.space(id)?;
        report.spaces += 1;
        let touched = space.touched.iter().peekable();
        let (reading, frozen) = (salvage_state.reading, &salvage_state.frozen);
        let mut way = Way { id, space: &space, touched, reading, frozen, sink, report, progress };
        let all = record_range(&KeyRange::all());
        space.base.scan(salvage_state.reading.source, &all.start, all.end.as_deref(), &mut way)?;
        way.touched_below(None)?;
        way.unknown();
        way.nameless()?;
    }
    sink.finish()
}

/// The way out of one space.
struct Way<'a> {
    id: SpaceId,
    space: &'a Space,
    /// What the log says of single keys, not told yet.
    touched: std::iter::Peekable<btree_map::Iter<'a, Bytes, Known>>,
    reading: Reading<'a>,
    frozen: &'a Tree,
    sink: &'a mut dyn SalvageSink,
    report: &'a mut SalvageReport,
    progress: &'a mut dyn FnMut(SalvageProgress),
}

impl Way<'_> {
    fn place(&self, key: &Bytes) -> Place {
        Place { space: self.id, key: key.clone() }
    }

    /// Tells the keys that the log names, up to (not with) a key.
    fn touched_below(&mut self, end: Option<&Bytes>) -> Result<()> {
        while let Some((key, known)) = self.touched.next_if(|(key, _)| end.is_none_or(|end| *key < end)) {
            match known {
                Known::Absent => {}
                Known::Unknown => self.report.keys_unknown.push(self.place(key)),
                Known::Value(recovered) => self.value(key, recovered)?,
            }
        }
        Ok(())
    }

    /// Tells one value.
    fn value(&mut self, key: &Bytes, recovered: &RecoveredValue) -> Result<()> {
        let at = self.place(key);
        self.sink.begin(&at, recovered.size)?;
        let mut out = Out { reading: self.reading, sink: self.sink, at: 0, known_len: 0, lost: Vec::new() };
        for (start, part) in &recovered.parts {
            out.zeros(start - out.at)?;
            match &part.source {
                Source::Lost => out.lost(part.length)?,
                Source::Piece(piece) => out.piece(piece)?,
            }
        }
        out.zeros(recovered.size.saturating_sub(out.at))?;
        let Out { known_len, lost, .. } = out;
        self.sink.end()?;
        self.report.data_len += known_len;
        if lost.is_empty() {
            self.report.keys_whole += 1;
        } else {
            self.report.partial.push(PartialValue { at, size: recovered.size, lost });
        }
        let keys = self.report.keys_whole + self.report.partial.len() as u64;
        (self.progress)(SalvageProgress::Copying(keys, self.report.data_len));
        Ok(())
    }

    /// Ranges of which the log made something unknown.
    fn unknown(&mut self) {
        for (range, layer) in &self.space.layers {
            if *layer == Layer::Unknown {
                self.report.keys_lost.push(LostKeys {
                    space: self.id,
                    from: range.start.clone(),
                    end: range.end.clone(),
                    reason: "a commit of the log moved keys here that cannot be read".into(),
                });
            }
        }
    }

    /// Counts the values whose keys are lost: they have pieces, but no record names them.
    fn nameless(&mut self) -> Result<()> {
        if !self.report.keys_lost.iter().any(|lost| lost.space == self.id) {
            return Ok(());
        }
        let mut names = Names::default();
        self.space.base.scan(self.reading.source, &[], None, &mut names)?;
        // A value that the log has deleted or moved is no loss; those were found by their records.
        self.report.values_without_key += names.pieced.difference(&names.named).count() as u64;
        Ok(())
    }
}

impl ScanVisitor for Way<'_> {
    fn entry(&mut self, key: &Bytes, value: &Value) -> Result<bool> {
        let key = user_key(key);
        self.touched_below(Some(&key))?;
        if self.touched.peek().is_some_and(|(touched, _)| **touched == key) {
            // The log knows better.
            return Ok(true);
        }
        match (self.space.layer(&key), value) {
            (Some(Layer::Gone), _) => {}
            (Some(Layer::Unknown), _) => self.report.keys_unknown.push(self.place(&key)),
            (None, Value::Record(record)) => {
                let recovered = RecoveredValue::of_record(record, &self.space.base, self.frozen, self.reading.source)?;
                self.value(&key, &recovered)?;
            }
            (None, _) => {
                let message = format!("space {}: the entry of key {key:?} is no value", self.id.0);
                self.report.complaints.push(message);
                self.report.keys_unknown.push(self.place(&key));
            }
        }
        Ok(true)
    }

    fn gap(&mut self, gap: Gap) -> Result<bool> {
        let pieces: &[u8] = &[2];
        let from = if gap.start.is_empty() { Bytes::new() } else { user_key(&gap.start) };
        let end = gap.end.filter(|end| end.as_ref() < pieces).map(|end| user_key(&end));
        let gone = |(range, layer): &(KeyRange, Layer)| {
            let ends = match (&range.end, &end) {
                (None, _) => true,
                (Some(_), None) => false,
                (Some(range), Some(end)) => range >= end,
            };
            *layer == Layer::Gone && range.start <= from && ends
        };
        // What was deleted as a whole later on is no loss.
        if !self.space.layers.iter().any(gone) {
            self.report.keys_lost.push(LostKeys { space: self.id, from, end, reason: gap.error.to_string() });
        }
        Ok(true)
    }
}

/// The bytes of one value on their way.
struct Out<'a> {
    reading: Reading<'a>,
    sink: &'a mut dyn SalvageSink,
    at: u64,
    known_len: u64,
    lost: Vec<(u64, u64)>,
}

impl Out<'_> {
    fn zeros(&mut self, length: u64) -> Result<()> {
        if length > 0 {
            self.sink.zeros(length)?;
            self.at += length;
        }
        Ok(())
    }

    fn lost(&mut self, length: u64) -> Result<()> {
        let end = self.at + length;
        match self.lost.last_mut() {
            Some(last) if last.1 == self.at => last.1 = end,
            _ => self.lost.push((self.at, end)),
        }
        self.at = end;
        self.sink.lost(length)
    }

    fn bytes(&mut self, bytes: &[u8]) -> Result<()> {
        bytes.chunks(PART_LEN).try_for_each(|part| self.sink.bytes(part))?;
        self.at += bytes.len() as u64;
        self.known_len += bytes.len() as u64;
        Ok(())
    }

    fn piece(&mut self, piece: &Piece) -> Result<()> {
        match piece {
            Piece::Inline(bytes) => self.bytes(bytes),
            Piece::Pending(pending) => self.bytes(&pending.bytes),
            Piece::Disk(extent) => self.extent(extent),
            // A recovered value has its extents instead.
            Piece::Frozen(frozen) => self.lost(frozen.length),
        }
    }

    /// Chunk by chunk where the whole cannot be read: what is damaged beside a byte does not take it along.
    fn extent(&mut self, extent: &Extent) -> Result<()> {
        let piece = Piece::Disk(extent.clone());
        let mut buffer = vec![0; extent.length as usize];
        if self.reading.read_piece(&piece, 0, &mut buffer).is_ok() {
            return self.bytes(&buffer);
        }
        let chunk = 1u64 << extent.chunk_log2;
        let (mut at, end) = (0, u64::from(extent.length));
        while at < end {
            let to = (((u64::from(extent.skip) + at) / chunk + 1) * chunk - u64::from(extent.skip)).min(end);
            let part = buffer.get_mut(at as usize..to as usize).unwrap_or_default();
            match self.reading.read_piece(&piece, at, part) {
                Ok(()) => {
                    let part = part.to_vec();
                    self.bytes(&part)?;
                }
                Err(error) => {
                    super::salvage_state::unreadable(error)?;
                    self.lost(to - at)?;
                }
            }
            at = to;
        }
        Ok(())
    }
}

/// Which blobs have pieces, and which have names.
#[derive(Default)]
struct Names {
    named: BTreeSet<BlobId>,
    pieced: BTreeSet<BlobId>,
}

impl ScanVisitor for Names {
    fn entry(&mut self, key: &Bytes, value: &Value) -> Result<bool> {
        match value {
            Value::Record(record) => {
                if let Content::Pieces(blob) = record.content {
                    self.named.insert(blob);
                }
            }
            Value::Piece(_) => {
                self.pieced.insert(split_piece_key(key)?.0);
            }
            _ => {}
        }
        Ok(true)
    }

    fn gap(&mut self, _: Gap) -> Result<bool> {
        Ok(true)
    }
}
