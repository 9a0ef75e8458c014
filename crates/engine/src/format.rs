//! Making an empty store.
//!
//! Invariants:
//! - The superblocks of what was there go first: a crash in between leaves no store, never half of two.
//! - The ring lies apart from both superblocks, as far as the store is large enough: one misdirected write never
//!   takes the newest superblock together with the beginning of the log.

use koine_env::Random;

use crate::address::{BlockRange, Generation};
use crate::batch::Version;
use crate::device::{AlignedBuffer, BLOCK_LEN, Device};
use crate::engine::Engine;
use crate::error::{Error, Result};
use crate::superblock::{
    FORMAT, Features, RING_BLOCKS_MAX, RING_BLOCKS_MIN, RING_START_BLOCK_MAX, RING_START_BLOCK_MIN, STORE_BLOCKS_MIN,
    Slot, Superblock, UNIT_BLOCKS_MAX, write_slot,
};

/// What a new store is like.
#[derive(Clone, Copy, Debug, Default)]
pub struct FormatOptions {
    /// The ring's length in bytes; 0: 64 MiB, less on a small store.
    pub ring_len: u64,
    /// The store may not grow past this many bytes; 0: no limit.
    pub size_max: u64,
    /// The store's block size in bytes, for ever: the unit in which space for values is given out; a power of two from
    /// 4 KiB to 1 MiB. 0: 4 KiB.
    pub block_len: u64,
}

impl FormatOptions {
    /// Refuses a block size that no store can have.
    pub fn check_block_len(block_len: u64) -> Result<()> {
        unit_blocks(block_len).map(drop)
    }
}

impl Engine {
    /// Makes an empty store on a device, over whatever is there.
    pub fn format(device: &dyn Device, options: FormatOptions, random: &dyn Random) -> Result<()> {
        let length = device.len().map_err(|e| Error::device("cannot tell the length of the device", e))?;
        let blocks = length / BLOCK_LEN as u64;
        if blocks < STORE_BLOCKS_MIN {
            return Err(Error::invalid(format!("{length} bytes are too few for a store: it needs at least 1 MiB")));
        }
        let blocks_max = options.size_max / BLOCK_LEN as u64;
        let grows = !device.is_fixed() && (blocks_max == 0 || blocks_max >= 2 * blocks);
        let ring = ring(options.ring_len, blocks, grows)?;
        if blocks_max != 0 && blocks_max < blocks {
            return Err(Error::invalid("the store is larger already than it may become"));
        }
        let features = Features::default().with_unit_blocks(unit_blocks(options.block_len)?);
        let superblock = Superblock { features, ..empty_superblock(random.next_u64(), blocks, blocks_max, ring) };
        let zeros = vec![0; BLOCK_LEN];
        let sync = || device.sync().map_err(|e| Error::device("cannot make the new store durable", e));
        for slot in [Slot::First, Slot::Second] {
            let wipe = device.write_at(&zeros, slot.offset());
            wipe.map_err(|e| Error::device(format!("cannot write at byte {}", slot.offset()), e))?;
        }
        sync()?;
        zero_ring(device, superblock.ring)?;
        sync()?;
        write_slot(device, Slot::First, &superblock)?;
        write_slot(device, Slot::Second, &Superblock { sequence: 0, ..superblock })?;
        sync()
    }
}

/// Where the ring of a new store lies: 4 MiB behind the second superblock, or at the end of a store that is too small
/// for that. The blocks between are space as all others.
///
/// Its length is as asked for, else an eighth of the store, or a quarter of one that is going to grow.
fn ring(wanted_len: u64, blocks: u64, grows: bool) -> Result<BlockRange> {
    let wanted = match wanted_len {
        0 => ((64 << 20) / BLOCK_LEN as u64).min(blocks / if grows { 4 } else { 8 }),
        length => length / BLOCK_LEN as u64,
    };
    // What is left behind the second superblock is at least as much as the ring.
    let most = RING_BLOCKS_MAX.min((blocks / 2).saturating_sub(RING_START_BLOCK_MIN)).max(RING_BLOCKS_MIN);
    let count = if wanted_len == 0 { wanted.clamp(RING_BLOCKS_MIN, most) } else { wanted };
    if !(RING_BLOCKS_MIN..=most).contains(&count) {
        return Err(Error::invalid(format!(
            "a ring of {} bytes does not fit: from 64 KiB up to half of the store",
            count * BLOCK_LEN as u64
        )));
    }
    let start = RING_START_BLOCK_MAX.min(blocks - count);
    let count = u32::try_from(count).map_err(|_| Error::invalid("the ring is too long"))?;
    Ok(BlockRange { start, count })
}

/// Blocks of a unit, for a block size as its owner thinks of it.
fn unit_blocks(block_len: u64) -> Result<u64> {
    let least = BLOCK_LEN as u64;
    match block_len {
        0 => Ok(1),
        length if length.is_power_of_two() && (least..=UNIT_BLOCKS_MAX * least).contains(&length) => Ok(length / least),
        length => Err(Error::invalid(format!(
            "a store cannot have blocks of {length} bytes: give a power of two from 4 KiB to 1 MiB (4096, 8192, and so on up to 1048576)"
        ))),
    }
}

fn empty_superblock(store_id: u64, blocks: u64, blocks_max: u64, ring: BlockRange) -> Superblock {
    Superblock {
        format: FORMAT,
        store_id,
        sequence: 1,
        features: Features::default(),
        blocks,
        blocks_max,
        ring,
        epoch: 1,
        cut: Version(0),
        reserve: Version(u64::from(ring.count) * BLOCK_LEN as u64),
        position: 0,
        chain: 0,
        next_blob: 1,
        generation: Generation(1),
        root: None,
        root_entries: 0,
        free: None,
        free_covers: 0,
        clean: true,
    }
}

/// The ring is written beforehand, so that no commit waits for the file system to allot it.
fn zero_ring(device: &dyn Device, ring: BlockRange) -> Result<()> {
    let zeros = AlignedBuffer::zeroed(1 << 20);
    let (mut at, end) = (ring.start * BLOCK_LEN as u64, ring.end() * BLOCK_LEN as u64);
    while at < end {
        let part = (end - at).min(zeros.len() as u64) as usize;
        device
            .write_at(&zeros[..part], at)
            .map_err(|e| Error::device(format!("cannot write the ring at byte {at}"), e))?;
        at += part as u64;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use koine_env::SeededRandom;

    use super::*;
    use crate::device::MemoryDevice;
    use crate::superblock::read_slot;
    use crate::{Background, Batch, Durability, ErrorKind, Operation, Options, SpaceId, StoreSink, salvage};

    const SPACE: SpaceId = SpaceId::FIRST;

    fn open(device: &Arc<MemoryDevice>, read_only: bool) -> Result<Engine> {
        device.reopen();
        let options = Options { background: Background::Manual, read_only, ..Options::default() };
        Engine::open(Arc::clone(device) as Arc<dyn Device>, options)
    }

    fn put(engine: &Engine, key: u8) {
        engine.submit(Batch::new().put(SPACE, vec![key], vec![key; 9000]), Durability::Sync).wait().unwrap();
    }

    /// A store with a key, whose superblocks name these features.
    fn store_with(features: Features) -> Arc<MemoryDevice> {
        let device = Arc::new(MemoryDevice::fixed(1 << 20));
        Engine::format(device.as_ref(), FormatOptions::default(), &SeededRandom::new(3)).unwrap();
        let engine = open(&device, false).unwrap();
        engine.submit(Batch::new().then(Operation::CreateSpace { space: SPACE }), Durability::Sync).wait().unwrap();
        put(&engine, 1);
        engine.close().unwrap();
        device.reopen();
        for slot in [Slot::First, Slot::Second] {
            let superblock = read_slot(device.as_ref(), slot).unwrap();
            write_slot(device.as_ref(), slot, &Superblock { features, ..superblock }).unwrap();
        }
        device
    }

    fn refusal<T>(done: Result<T>) -> String {
        let error = done.err().unwrap();
        assert_eq!(error.kind(), ErrorKind::Unknown);
        error.message().to_owned()
    }

    #[test]
    fn an_unknown_incompatible_feature_is_refused_and_nothing_is_changed() {
        let device = store_with(Features { incompatible: 1 << 40, ..Features::default() });
        let before = device.to_vec();
        assert!(refusal(open(&device, false)).contains("bit 40 of the incompatible ones"));
        assert!(refusal(open(&device, true)).contains("open it with a newer program"));
        refusal(Engine::repair(Arc::clone(&device) as Arc<dyn Device>, Options::default(), &mut |_| ()));
        let to = open(&store_with(Features::default()), false).unwrap();
        let damaged = Arc::clone(&device) as Arc<dyn Device>;
        refusal(salvage(&damaged, &mut StoreSink::new(&to, false), &mut |_| ()));
        assert_eq!(device.to_vec(), before);
    }

    #[test]
    fn an_unknown_feature_for_writing_leaves_reading() {
        let device = store_with(Features { read_only: 5, ..Features::default() });
        let before = device.to_vec();
        let message = refusal(open(&device, false));
        assert!(message.contains("bits 0, 2 of those for writing") && message.contains("`koine check`"), "{message}");
        refusal(Engine::repair(Arc::clone(&device) as Arc<dyn Device>, Options::default(), &mut |_| ()));
        let engine = open(&device, true).unwrap();
        assert_eq!(engine.view().bytes(SPACE, &[1], 0, 9000).unwrap(), vec![1; 9000]);
        assert!(engine.check(&mut |_| ()).unwrap().is_sound());
        let refused = engine.submit(Batch::new().put(SPACE, vec![2], vec![2]), Durability::Sync).wait();
        assert_eq!(refused.unwrap_err().kind(), ErrorKind::Invalid);
        engine.close().unwrap();
        assert_eq!(device.to_vec(), before);
    }

    #[test]
    fn unknown_compatible_features_stay() {
        let features = Features { compatible: 1 << 63 | 6, ..Features::default() };
        let device = store_with(features);
        for key in 2..5 {
            let engine = open(&device, false).unwrap();
            put(&engine, key);
            engine.checkpoint().unwrap();
            put(&engine, key + 10);
            engine.checkpoint().unwrap();
            engine.close().unwrap();
            device.reopen();
            for slot in [Slot::First, Slot::Second] {
                assert_eq!(read_slot(device.as_ref(), slot).unwrap().features, features);
            }
        }
    }

    #[test]
    fn a_block_size_is_a_power_of_two_up_to_1_mib() {
        let device = MemoryDevice::fixed(1 << 20);
        let format = |block_len| {
            Engine::format(&device, FormatOptions { block_len, ..FormatOptions::default() }, &SeededRandom::new(3))
        };
        for (block_len, unit) in [(0, 1), (4096, 1), (8192, 2), (64 << 10, 16), (1 << 20, 256)] {
            format(block_len).unwrap();
            assert_eq!(read_slot(&device, Slot::Second).unwrap().features.unit_blocks(), unit);
        }
        for wrong in [1, 512, 2048, 5000, 12288, 65 << 10, 2 << 20, u64::MAX] {
            let error = format(wrong).unwrap_err();
            assert!(error.kind() == ErrorKind::Invalid && error.message().contains("from 4 KiB to 1 MiB"), "{error}");
        }
        assert_eq!(read_slot(&device, Slot::Second).unwrap().features.unit_blocks(), 256, "nothing was changed");
    }

    #[test]
    fn the_ring_lies_apart_from_the_second_superblock() {
        for blocks in (256..3000).chain([1 << 16, 1 << 20, 1 << 28]) {
            let ring = ring(0, blocks, blocks % 2 == 1).unwrap();
            assert!(ring.end() <= blocks, "{blocks} blocks: {ring:?}");
            // A quarter of the smallest stores, all that one write may reach of others.
            let start = (128 + blocks / 4).min(RING_START_BLOCK_MAX);
            assert!(ring.start >= start, "{blocks} blocks: {ring:?}");
        }
        assert_eq!(ring(0, 1 << 16, false).unwrap(), BlockRange { start: 1152, count: 1 << 13 });
        assert_eq!(ring(0, 1 << 16, true).unwrap(), BlockRange { start: 1152, count: 1 << 14 });
        assert_eq!(ring(64 << 10, 256, false).unwrap(), BlockRange { start: 240, count: 16 });
        assert!(ring(60 << 10, 256, false).is_err() && ring(128 << 10, 256, true).is_err());
    }
}
