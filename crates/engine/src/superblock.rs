//! The two superblocks: where everything starts.
//!
//! A superblock fills one block. Slot 0 is block 0, slot 1 is block [`SECOND_SLOT_BLOCK`]: far
//! apart, so that one torn or misdirected write cannot take both. Layout in docs/format.md.
//!
//! Invariants:
//! - A new superblock is written over the older slot, after everything it names is durable, and is
//!   itself followed by a sync: at every moment one slot is whole.
//! - The newest valid slot (highest `sequence`) wins.
//! - Space that either slot's root needs is not reused.

use crate::address::{BlockRange, Generation, NodeRef};
use crate::batch::Version;
use crate::checksum::crc64_with_hole;
use crate::codec::{Reader, Writer};
use crate::device::{BLOCK_LEN, Device, ReadMode};
use crate::error::{Error, ErrorKind, Result};

/// The first eight bytes of a store.
pub const MAGIC: [u8; 8] = *b"KOINE\0S\n";
/// The version of the format that this program writes.
pub const FORMAT: u32 = 1;
/// The oldest format that this program can read.
pub const FORMAT_MIN: u32 = 0;
/// Where the second superblock lies.
pub const SECOND_SLOT_BLOCK: u64 = 128;
/// Where a ring may begin at the earliest: stores of before have it there.
pub const RING_START_BLOCK_MIN: u64 = SECOND_SLOT_BLOCK + 1;
/// Where a ring begins at the latest, and where it does unless the store is too small: 4 MiB behind the second
/// superblock, further than one write of a device reaches.
pub const RING_START_BLOCK_MAX: u64 = SECOND_SLOT_BLOCK + 1024;
/// The smallest store: 1 MiB.
pub const STORE_BLOCKS_MIN: u64 = 256;
/// The smallest ring: 64 KiB.
pub const RING_BLOCKS_MIN: u64 = 16;
/// The largest ring: 1 GiB.
pub const RING_BLOCKS_MAX: u64 = 1 << 18;

/// The most blocks of a unit: 1 MiB, the longest run of data.
pub const UNIT_BLOCKS_MAX: u64 = 1 << 8;

const CHECKSUM_AT: usize = 16;

/// Which features a store uses. A bit that this program does not know: in `incompatible` it refuses
/// the store, in `read_only` it refuses to write, in `compatible` it does not care.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Features {
    /// Must be known to open the store.
    pub incompatible: u64,
    /// Must be known to write to it.
    pub read_only: u64,
    /// Need not be known.
    pub compatible: u64,
}

impl Features {
    /// Space for data is given out in units of so many blocks.
    pub fn unit_blocks(&self) -> u64 {
        // Units may become larger one day: half of one is no wrong place to begin at either.
        (1 << (self.compatible & UNIT_LOG2)).min(UNIT_BLOCKS_MAX)
    }

    /// The same features, with frozen blobs in the store.
    pub fn with_frozen_blobs(self) -> Features {
        Features { incompatible: self.incompatible | FROZEN_BLOBS, ..self }
    }

    /// The same features, with units of so many blocks: a power of two.
    pub fn with_unit_blocks(self, blocks: u64) -> Features {
        let log2 = u64::from(blocks.max(1).ilog2());
        Features { compatible: self.compatible & !UNIT_LOG2 | log2 & UNIT_LOG2, ..self }
    }
}

/// The first page of the free list.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct FreeListRef {
    /// Where the page lies.
    pub at: BlockRange,
    /// CRC-64 of the page.
    pub checksum: u64,
}

/// Compatible features, as a number: to which power of two blocks make a unit. It stands in these bits, and not in a
/// field, because programs that do not know it keep the bits.
const UNIT_LOG2: u64 = 0xF;
/// An incompatible feature: pieces of values may be parts of frozen blobs.
const FROZEN_BLOBS: u64 = 1;
/// The features that this program knows.
const KNOWN: Features = Features { incompatible: FROZEN_BLOBS, read_only: 0, compatible: UNIT_LOG2 };

/// One moment of the store: a checkpoint, and where the log goes on from it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Superblock {
    /// The version of the format that the store has.
    pub format: u32,
    /// Drawn at format; every structure carries it.
    pub store_id: u64,
    /// Grows by one with every superblock written.
    pub sequence: u64,
    /// What the store uses.
    pub features: Features,
    /// The blocks that the store owns.
    pub blocks: u64,
    /// May not grow past this many blocks; 0: no limit.
    pub blocks_max: u64,
    /// The ring.
    pub ring: BlockRange,
    /// Groups of another epoch are not part of the log.
    pub epoch: u64,
    /// The last commit that the root holds.
    pub cut: Version,
    /// Log numbers up to here may have been seen by somebody.
    pub reserve: Version,
    /// Where the log goes on: bytes ever passed in the ring, skips included.
    pub position: u64,
    /// The checksum that the next group names as its predecessor's.
    pub chain: u64,
    /// The next blob number to give out.
    pub next_blob: u64,
    /// The generation of the checkpoint: nothing that the root reaches is younger.
    pub generation: Generation,
    /// The root of the master tree; none: empty.
    pub root: Option<NodeRef>,
    /// How many entries the master tree has.
    pub root_entries: u64,
    /// Free space at the cut; none: everything but the ring and the slots is free.
    pub free: Option<FreeListRef>,
    /// The free list tells of blocks below this one; those above are free (the store has grown since).
    pub free_covers: u64,
    /// Nothing was logged since the cut: the store was closed in order.
    pub clean: bool,
}

impl Superblock {
    /// The block as it is stored.
    pub fn encode(&self) -> Vec<u8> {
        let mut out = Vec::with_capacity(BLOCK_LEN);
        out.extend_from_slice(&MAGIC);
        out.put_u32(self.format);
        out.put_u32(BLOCK_LEN as u32);
        out.put_u64(0); // the checksum's place
        for word in [
            self.features.incompatible,
            self.features.read_only,
            self.features.compatible,
            self.store_id,
            self.sequence,
            self.blocks,
            self.blocks_max,
            self.ring.start,
            u64::from(self.ring.count),
            self.epoch,
            self.cut.0,
            self.reserve.0,
            self.position,
            self.chain,
            self.next_blob,
            self.free_covers,
            u64::from(self.clean),
            self.root_entries,
            self.generation.0,
        ] {
            out.put_u64(word);
        }
        let root = self.root.as_ref();
        out.put_u64(root.map_or(0, |r| r.start_block));
        out.put_u64(root.map_or(0, |r| u64::from(r.blocks)));
        out.put_u64(root.map_or(0, |r| r.checksum));
        out.put_u64(root.map_or(0, |r| r.birth.0));
        let free = self.free.as_ref();
        out.put_u64(free.map_or(0, |f| f.at.start));
        out.put_u64(free.map_or(0, |f| u64::from(f.at.count)));
        out.put_u64(free.map_or(0, |f| f.checksum));
        out.resize(BLOCK_LEN, 0);
        let checksum = crc64_with_hole(&out, CHECKSUM_AT);
        out.splice(CHECKSUM_AT..CHECKSUM_AT + 8, checksum.to_le_bytes());
        out
    }

    /// Reads a stored block. The kind of the error tells whether it is not ours or of a format that is not known
    /// (`Unknown`), or ours and damaged (`Damaged`).
    pub fn decode(block: &[u8]) -> Result<Superblock> {
        let mut reader = Reader::new(block);
        if reader.array::<8>()? != MAGIC {
            return Err(Error::new(ErrorKind::Unknown, "no superblock of ours"));
        }
        let format = reader.u32()?;
        let block_len = reader.u32()?;
        let checksum = reader.u64()?;
        if crc64_with_hole(block, CHECKSUM_AT) != checksum {
            return Err(Error::damaged("the superblock does not match its checksum"));
        }
        if !is_known(format, block_len) {
            return Err(unknown_format(format, block_len));
        }
        let mut next = || reader.u64();
        let features = Features { incompatible: next()?, read_only: next()?, compatible: next()? };
        let superblock = Superblock {
            format,
            features,
            store_id: next()?,
            sequence: next()?,
            blocks: next()?,
            blocks_max: next()?,
            ring: BlockRange { start: next()?, count: narrow(next()?)? },
            epoch: next()?,
            cut: Version(next()?),
            reserve: Version(next()?),
            position: next()?,
            chain: next()?,
            next_blob: next()?,
            free_covers: next()?,
            clean: next()? == 1,
            root_entries: next()?,
            generation: Generation(next()?),
            root: decode_root([next()?, next()?, next()?, next()?])?,
            free: decode_free([next()?, next()?, next()?])?,
        };
        superblock.validate()?;
        Ok(superblock)
    }

    /// Refuses a store of an older format: only `koine upgrade` gives it another.
    pub fn check_format(&self) -> Result<()> {
        if self.format == FORMAT {
            return Ok(());
        }
        let message = format!(
            "the store has format {}, this program works with format {FORMAT}: `koine upgrade` turns it into that (no store is upgraded by opening it); nothing was changed",
            self.format
        );
        Err(Error::new(ErrorKind::Unknown, message))
    }

    /// Refuses a store that uses what this program does not know; `writing` says what it is opened for.
    pub fn check_features(&self, writing: bool) -> Result<()> {
        let incompatible = self.features.incompatible & !KNOWN.incompatible;
        let read_only = self.features.read_only & !KNOWN.read_only;
        let message = if incompatible != 0 {
            format!(
                "the store uses features that this program does not know ({} of the incompatible ones): open it with a newer program; nothing was changed",
                bits(incompatible)
            )
        } else if writing && read_only != 0 {
            format!(
                "the store uses features that this program does not know ({} of those for writing), so it may only read it: `koine check`, `koine scrub`, `koine stat`, `koine export` and `koine send` do; write to it with a newer program; nothing was changed",
                bits(read_only)
            )
        } else {
            return Ok(());
        };
        Err(Error::new(ErrorKind::Unknown, message))
    }

    fn validate(&self) -> Result<()> {
        let ring_end = self.ring.start.saturating_add(u64::from(self.ring.count));
        let sound = (RING_START_BLOCK_MIN..=RING_START_BLOCK_MAX).contains(&self.ring.start)
            && (RING_BLOCKS_MIN..=RING_BLOCKS_MAX).contains(&u64::from(self.ring.count))
            && ring_end <= self.blocks
            && self.free_covers <= self.blocks
            && self.cut <= self.reserve
            && self.blocks >= STORE_BLOCKS_MIN
            && self.blocks <= u64::MAX / BLOCK_LEN as u64;
        if sound { Ok(()) } else { Err(Error::damaged("the superblock's numbers contradict each other")) }
    }
}

fn is_known(format: u32, block_len: u32) -> bool {
    (FORMAT_MIN..=FORMAT).contains(&format) && block_len as usize == BLOCK_LEN
}

fn unknown_format(format: u32, block_len: u32) -> Error {
    let message = format!(
        "the store has format {format} with blocks of {block_len} bytes; this program knows formats up to {FORMAT} with {BLOCK_LEN}: open it with a newer program; nothing was changed"
    );
    Error::new(ErrorKind::Unknown, message)
}

/// The bits of a word by their numbers, for people.
fn bits(word: u64) -> String {
    let set: Vec<String> = (0..u64::BITS).filter(|bit| word >> bit & 1 == 1).map(|bit| bit.to_string()).collect();
    format!("bit{} {}", if set.len() == 1 { "" } else { "s" }, set.join(", "))
}

fn narrow(value: u64) -> Result<u32> {
    u32::try_from(value).map_err(|_| Error::damaged("a count in the superblock is too large"))
}

fn decode_root(words: [u64; 4]) -> Result<Option<NodeRef>> {
    let [start_block, blocks, checksum, birth] = words;
    if blocks == 0 {
        return Ok(None);
    }
    let blocks = u16::try_from(blocks).map_err(|_| Error::damaged("the root's length is too large"))?;
    Ok(Some(NodeRef { start_block, blocks, checksum, birth: Generation(birth) }))
}

fn decode_free(words: [u64; 3]) -> Result<Option<FreeListRef>> {
    let [start, count, checksum] = words;
    if count == 0 {
        return Ok(None);
    }
    Ok(Some(FreeListRef { at: BlockRange { start, count: narrow(count)? }, checksum }))
}

/// One of the two places of a superblock.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Slot {
    /// Block 0.
    First,
    /// Block [`SECOND_SLOT_BLOCK`].
    Second,
}

impl Slot {
    /// The other one.
    pub fn other(self) -> Slot {
        match self {
            Slot::First => Slot::Second,
            Slot::Second => Slot::First,
        }
    }

    /// Where it lies, in bytes.
    pub fn offset(self) -> u64 {
        match self {
            Slot::First => 0,
            Slot::Second => SECOND_SLOT_BLOCK * BLOCK_LEN as u64,
        }
    }
}

/// Reads both slots and gives the newest with its place.
pub fn read_newest(device: &dyn Device) -> Result<(Slot, Superblock)> {
    let length = device.len().map_err(|e| Error::device("cannot tell the length of the device", e))?;
    if length < STORE_BLOCKS_MIN * BLOCK_LEN as u64 {
        let message =
            format!("not a store: it is {length} bytes long, a store has at least 1 MiB; make one with `koine format`");
        return Err(Error::new(ErrorKind::Unknown, message));
    }
    let (slot, superblock) = match read_slots(device)? {
        [Ok(a), Ok(b)] if a.store_id != b.store_id => return Err(two_stores(&a, &b)),
        [Ok(a), Ok(b)] if b.sequence > a.sequence => (Slot::Second, b),
        [Ok(a), _] => (Slot::First, a),
        [Err(_), Ok(b)] => (Slot::Second, b),
        [Err(a), Err(b)] => return Err(no_superblock(a, b)),
    };
    if superblock.blocks * BLOCK_LEN as u64 > length {
        let message = format!(
            "the device has {length} bytes, the store on it {}: it was cut or is a partial copy",
            superblock.blocks * BLOCK_LEN as u64
        );
        return Err(Error::damaged(message));
    }
    Ok((slot, superblock))
}

/// Reads both slots. A whole superblock of a format that this program does not know is the last word of a newer
/// program, whatever the other slot says: refused.
pub fn read_slots(device: &dyn Device) -> Result<[Result<Superblock>; 2]> {
    let blocks = [Slot::First, Slot::Second].map(|slot| read_block(device, slot));
    for block in blocks.iter().flatten() {
        unknown_format_of(block)?;
    }
    Ok(blocks.map(|block| decode_slot(&block?)))
}

/// Reads one slot.
pub fn read_slot(device: &dyn Device, slot: Slot) -> Result<Superblock> {
    decode_slot(&read_block(device, slot)?)
}

fn read_block(device: &dyn Device, slot: Slot) -> Result<Vec<u8>> {
    let mut block = vec![0; BLOCK_LEN];
    device
        .read_at(&mut block, slot.offset(), ReadMode::Direct)
        .map_err(|e| Error::device(format!("cannot read the superblock at byte {}", slot.offset()), e))?;
    Ok(block)
}

/// Where magic, format and checksum stand is the same in every format.
fn unknown_format_of(block: &[u8]) -> Result<()> {
    let mut reader = Reader::new(block);
    let (magic, format, block_len, checksum) = (reader.array()?, reader.u32()?, reader.u32()?, reader.u64()?);
    let is_whole = magic == MAGIC && crc64_with_hole(block, CHECKSUM_AT) == checksum;
    if is_whole && !is_known(format, block_len) { Err(unknown_format(format, block_len)) } else { Ok(()) }
}

fn decode_slot(block: &[u8]) -> Result<Superblock> {
    Superblock::decode(block).map_err(|e| {
        if e.kind() == ErrorKind::Unknown && block.iter().all(|byte| *byte == 0) {
            Error::new(ErrorKind::Unknown, "zeros")
        } else {
            e
        }
    })
}

fn two_stores(first: &Superblock, second: &Superblock) -> Error {
    let message = format!(
        "the superblock at byte 0 is of store {:016x}, the one at byte {} of store {:016x}: one of them was written over; copy what can be proven with `koine salvage`",
        first.store_id,
        Slot::Second.offset(),
        second.store_id
    );
    Error::damaged(message)
}

fn no_superblock(first: Error, second: Error) -> Error {
    let at = Slot::Second.offset();
    let kinds = [first.kind(), second.kind()];
    if kinds == [ErrorKind::Unknown; 2] {
        let message = format!(
            "not a store: byte 0 holds {first}, byte {at} holds {second}; if nothing on it is needed, make a store with `koine format`"
        );
        return Error::new(ErrorKind::Unknown, message);
    }
    let kind = if kinds.contains(&ErrorKind::Damaged) { ErrorKind::Damaged } else { ErrorKind::Device };
    Error::new(kind, format!("no superblock can be used: at byte 0: {first}; at byte {at}: {second}"))
}

/// Writes a superblock to a slot; the caller syncs before and after.
pub fn write_slot(device: &dyn Device, slot: Slot, superblock: &Superblock) -> Result<()> {
    device
        .write_at(&superblock.encode(), slot.offset())
        .map_err(|e| Error::device(format!("cannot write the superblock at byte {}", slot.offset()), e))
}

#[cfg(test)]
mod tests;
