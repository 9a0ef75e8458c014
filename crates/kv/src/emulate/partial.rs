//! Changes within a value over a store that can only put whole ones.
//!
//! Invariants:
//! - A record is a byte that tells its form, then the value: whole, or, where holes would fill most of it, its length and
//!   its pieces.
//! - Every change of a value is one put of its record; several in a batch are put together.
//! - Stages are in memory: what the store below takes in one put must fit there anyway. Long values are for `Split`.

use std::sync::Arc;

use bytes::{BufMut, Bytes, BytesMut};
use koine_engine::{
    Condition, Error, ErrorKind, KeyRange, Operation, Payload, Place, Result, SpaceId, StageHint, StageToken,
};

use super::SOLE;
use super::cursor::{Translate, Translated};
use super::draft::{Beneath, Draft};
use super::emulated::{Core, Emulated, Emulation, token};
use super::plan::{Writer, one_space, plan};
use super::token::{Staged, check_piece};
use crate::pass_on;
use crate::seam::{Cursor, Direction, ENTRY_VALUE_LEN_MAX, Entry, Glance, Kv, Profile, ReadNow, Stage, Stat, View};
use crate::sparse::{Piece, Value};

/// The value follows.
const WHOLE: u8 = 0;
/// Length, number of pieces, offset and length of each, then their bytes.
const SPARSE: u8 = 1;
const SPARSE_HEADER_LEN: usize = 13;
const PIECE_HEADER_LEN: usize = 16;
/// A value up to this length is kept whole, whatever holes it has.
const HOLES_LEN_MIN: u64 = 4096;

/// Changes within values: see the module.
pub type Partial = Emulated<PartialEmulation>;

impl Partial {
    /// Over a store of one space that puts whole values and nothing else.
    pub fn open(below: Arc<dyn Kv>) -> Result<Partial> {
        let profile = below.profile();
        let Some(key_len_max) = profile.key_len_max.checked_sub(1) else {
            return Err(Error::invalid("a store without keys"));
        };
        let profile = Profile { key_len_max, ..profile.clone() };
        Ok(Emulated::over(below, PartialEmulation { profile }))
    }
}

/// How [`Partial`] does it.
pub struct PartialEmulation {
    profile: Profile,
}

/// What a token holds.
pub struct StagedWhole(Value);

fn encode(value: &Value) -> Bytes {
    let (length, stored) = (value.length(), value.stored());
    let mut record = BytesMut::new();
    if length <= HOLES_LEN_MIN || stored >= length / 2 {
        // It fits: most of it is in memory already.
        let whole = value.bytes(0, length as usize);
        record.reserve(1 + whole.len());
        record.put_u8(WHOLE);
        record.put(whole);
        return record.freeze();
    }
    let mut pieces = Vec::new();
    value.each_within(0, length, |at, piece| pieces.push((at, piece)));
    record.reserve(SPARSE_HEADER_LEN + pieces.len() * PIECE_HEADER_LEN + stored as usize);
    record.put_u8(SPARSE);
    record.put_u64_le(length);
    record.put_u32_le(pieces.len() as u32);
    for (at, piece) in &pieces {
        record.put_u64_le(*at);
        record.put_u64_le(piece.length());
    }
    pieces.into_iter().for_each(|(_, piece)| record.put(piece));
    record.freeze()
}

fn damaged() -> Error {
    Error::damaged("a value below is not of the form that `Partial` writes")
}

fn number(bytes: &[u8], at: usize) -> Result<u64> {
    let bytes = bytes.get(at..at + 8).and_then(|bytes| bytes.try_into().ok());
    Ok(u64::from_le_bytes(bytes.ok_or_else(damaged)?))
}

fn decode(record: &Bytes) -> Result<Value> {
    match record.first() {
        Some(&WHOLE) => Ok(Value::from_piece(record.slice(1..))),
        Some(&SPARSE) => {
            let length = number(record, 1)?;
            let count = record.get(9..SPARSE_HEADER_LEN).and_then(|bytes| bytes.try_into().ok());
            let count = u32::from_le_bytes(count.ok_or_else(damaged)?) as usize;
            let mut data = SPARSE_HEADER_LEN + count * PIECE_HEADER_LEN;
            let mut value = Value::default();
            value.truncate(length);
            for index in 0..count {
                let header = SPARSE_HEADER_LEN + index * PIECE_HEADER_LEN;
                let (at, piece) = (number(record, header)?, number(record, header + 8)?);
                let end = usize::try_from(piece).ok().and_then(|piece| data.checked_add(piece)).ok_or_else(damaged)?;
                if end > record.len() || at.checked_add(piece).is_none_or(|end| end > length) {
                    return Err(damaged());
                }
                value.write(at, record.slice(data..end));
                data = end;
            }
            Ok(value)
        }
        _ => Err(damaged()),
    }
}

impl Emulation for PartialEmulation {
    type Staged = StagedWhole;

    fn profile(&self) -> &Profile {
        &self.profile
    }

    fn never(&self) -> Bytes {
        // Longer by one than any key of ours.
        Bytes::from(vec![0; self.profile.key_len_max + 1])
    }

    fn show(&self, below: Arc<dyn View>) -> Arc<dyn View> {
        Arc::new(PartialView { below })
    }

    fn condition(&self, _below: &Arc<dyn View>, condition: &Condition) -> Result<Condition> {
        Ok(condition.clone())
    }

    fn operations(&self, below: &Arc<dyn View>, operations: &[Operation]) -> Result<Vec<Operation>> {
        let beneath = Whole { view: Arc::clone(below) };
        plan(Draft::new(beneath, self.profile.key_len_max), Puts, operations)
    }

    fn stage(&self, core: &Arc<Core<Self>>, hint: StageHint) -> Result<Box<dyn Stage>> {
        Ok(Box::new(MemoryStage { core: Arc::clone(core), hint, value: Value::default() }))
    }

    fn taken(&self, _staged: &StagedWhole) {}

    fn range(&self, _space: SpaceId, range: &KeyRange) -> Result<KeyRange> {
        Ok(range.clone())
    }

    fn told(&self, _space: SpaceId, range: &KeyRange) -> KeyRange {
        range.clone()
    }
}

/// Values as the store below has them.
struct Whole {
    view: Arc<dyn View>,
}

impl Beneath for Whole {
    type Piece = Bytes;

    fn space(&self, space: SpaceId) -> Result<Option<bool>> {
        if space == SOLE { Ok(Some(false)) } else { Err(one_space()) }
    }

    fn has(&self, space: SpaceId, key: &[u8]) -> Result<bool> {
        Ok(self.view.stat(space, key)?.is_some())
    }

    fn load(&self, _space: SpaceId, key: &[u8]) -> Result<Option<Value>> {
        record(&*self.view, key)?.as_ref().map(decode).transpose()
    }

    fn keys(&self, space: SpaceId, range: &KeyRange) -> Result<Vec<Bytes>> {
        keys(&*self.view, space, range)
    }

    fn payload(&self, payload: &Payload) -> Result<Value> {
        match payload {
            Payload::Bytes(bytes) => Ok(Value::from_piece(bytes.clone())),
            Payload::Stage(token) => {
                let staged = token.content_ref::<Staged<StagedWhole>>();
                Ok(staged.ok_or_else(|| Error::invalid("a stage of another store"))?.content().0.clone())
            }
        }
    }

    fn read(&self, value: &Value, buffer: &mut [u8]) -> Result<()> {
        value.read(0, buffer);
        Ok(())
    }
}

/// All keys of a range, in order.
pub(super) fn keys(view: &dyn View, space: SpaceId, range: &KeyRange) -> Result<Vec<Bytes>> {
    let mut cursor = view.cursor(space, range.clone(), Direction::Forward)?;
    let mut keys = Vec::new();
    while let Some(entry) = cursor.next()? {
        keys.push(entry.key);
    }
    Ok(keys)
}

/// The record of a key.
fn record(view: &dyn View, key: &[u8]) -> Result<Option<Bytes>> {
    let Some(stat) = view.stat(SOLE, key)? else {
        return Ok(None);
    };
    view.bytes(SOLE, key, 0, usize::try_from(stat.size).map_err(|_| damaged())?).map(Some)
}

/// Every value is put whole.
struct Puts;

impl Writer for Puts {
    type Beneath = Whole;

    fn key(&self, key: &[u8]) -> Bytes {
        Bytes::copy_from_slice(key)
    }

    fn shares(&mut self, _draft: &mut Draft<Whole>, _source: &Place) -> Result<()> {
        Ok(())
    }

    fn put(&mut self, draft: &mut Draft<Whole>, key: &Bytes, out: &mut Vec<Operation>) -> Result<()> {
        let at = Place { space: SOLE, key: key.clone() };
        if let Some(value) = draft.value(&at)? {
            out.push(Operation::Put { at, value: Payload::Bytes(encode(&value)) });
        }
        Ok(())
    }

    fn gone(&mut self, _key: &Bytes) -> Result<()> {
        Ok(())
    }

    fn cleared(&mut self, _range: &KeyRange) -> Result<()> {
        Ok(())
    }

    fn moved(&mut self, _keys: &[(Bytes, Bytes)]) -> Result<()> {
        Ok(())
    }

    fn placeholder(&self) -> Bytes {
        Bytes::from_static(&[WHOLE])
    }

    fn finish(&mut self, _out: &mut Vec<Operation>) -> Result<()> {
        Ok(())
    }
}

/// A value on its way in, in memory.
struct MemoryStage {
    core: Arc<Core<PartialEmulation>>,
    hint: StageHint,
    value: Value,
}

impl Stage for MemoryStage {
    fn write(&mut self, piece: &[u8]) -> Result<()> {
        self.core.check_open()?;
        check_piece(&self.hint, self.value.length(), piece)?;
        self.value.write(self.value.length(), Bytes::copy_from_slice(piece));
        Ok(())
    }

    fn length(&self) -> u64 {
        self.value.length()
    }

    fn finish(self: Box<Self>) -> Result<StageToken> {
        Ok(token(&self.core, self.value.length(), StagedWhole(self.value)))
    }
}

/// Records read as values.
struct PartialView {
    below: Arc<dyn View>,
}

fn not_found() -> Error {
    Error::new(ErrorKind::NotFound, "the key is not there")
}

impl PartialView {
    /// The form and the length of a value.
    fn header(&self, space: SpaceId, key: &[u8]) -> Result<Option<(u8, Stat)>> {
        let Some(stat) = self.below.stat(space, key)? else {
            return Ok(None);
        };
        let mut header = [0; 9];
        let count = self.below.read(space, key, 0, &mut header)?;
        match header.first() {
            Some(&WHOLE) if count > 0 => Ok(Some((WHOLE, Stat { size: stat.size - 1, ..stat }))),
            Some(&SPARSE) if count == header.len() => Ok(Some((SPARSE, Stat { size: number(&header, 1)?, ..stat }))),
            _ => Err(damaged()),
        }
    }
}

impl View for PartialView {
    pass_on!(View, below: version, keep, has_space, spaces);

    fn stat(&self, space: SpaceId, key: &[u8]) -> Result<Option<Stat>> {
        Ok(self.header(space, key)?.map(|(_, stat)| stat))
    }

    fn read(&self, space: SpaceId, key: &[u8], offset: u64, buffer: &mut [u8]) -> Result<usize> {
        match self.header(space, key)?.ok_or_else(not_found)? {
            (WHOLE, _) => self.below.read(space, key, offset.saturating_add(1), buffer),
            _ => Ok(decode(&record(&*self.below, key)?.ok_or_else(not_found)?)?.read(offset, buffer)),
        }
    }

    fn read_now(&self, _space: SpaceId, _key: &[u8], _offset: u64, _buffer: &mut [u8]) -> Result<ReadNow> {
        Ok(ReadNow::WouldBlock)
    }

    fn glance(&self, _space: SpaceId, _key: &[u8], _offset: u64, _length: usize) -> Result<Glance> {
        Ok(Glance::Unknown)
    }

    fn bytes(&self, space: SpaceId, key: &[u8], offset: u64, length: usize) -> Result<Bytes> {
        match self.header(space, key)?.ok_or_else(not_found)? {
            (WHOLE, _) => self.below.bytes(space, key, offset.saturating_add(1), length),
            _ => Ok(decode(&record(&*self.below, key)?.ok_or_else(not_found)?)?.bytes(offset, length)),
        }
    }

    fn cursor(&self, space: SpaceId, range: KeyRange, direction: Direction) -> Result<Box<dyn Cursor>> {
        let below = self.below.cursor(space, range, direction)?;
        let view = PartialView { below: Arc::clone(&self.below) };
        Ok(Box::new(Translated::new(below, Entries { view, space })))
    }
}

struct Entries {
    view: PartialView,
    space: SpaceId,
}

impl Translate for Entries {
    fn key_below(&self, key: &[u8]) -> Bytes {
        Bytes::copy_from_slice(key)
    }

    fn entry(&self, below: Entry) -> Result<Entry> {
        let Entry { key, stat, value } = below;
        if let Some(record) = value {
            let value = decode(&record)?;
            let stat = Stat { size: value.length(), ..stat };
            let value = (stat.size <= ENTRY_VALUE_LEN_MAX).then(|| value.bytes(0, stat.size as usize));
            return Ok(Entry { key, stat, value });
        }
        let stat = self.view.stat(self.space, &key)?.ok_or_else(damaged)?;
        let value = match stat.size {
            size @ ..=ENTRY_VALUE_LEN_MAX => Some(self.view.bytes(self.space, &key, 0, size as usize)?),
            _ => None,
        };
        Ok(Entry { key, stat, value })
    }
}
