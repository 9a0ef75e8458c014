//! What a slot says and what damage of it does.

use super::*;
use crate::device::MemoryDevice;

fn sample() -> Superblock {
    Superblock {
        format: FORMAT,
        store_id: 7,
        sequence: 3,
        features: Features::default(),
        blocks: 256,
        blocks_max: 0,
        ring: BlockRange { start: RING_START_BLOCK_MIN, count: 16 },
        epoch: 2,
        cut: Version(9),
        reserve: Version(99),
        position: 8192,
        chain: 5,
        next_blob: 4,
        generation: Generation(9),
        root_entries: 5,
        root: Some(NodeRef { start_block: 200, blocks: 2, checksum: 1, birth: Generation(9) }),
        free: Some(FreeListRef { at: BlockRange { start: 210, count: 1 }, checksum: 3 }),
        free_covers: 256,
        clean: true,
    }
}

#[test]
fn survives_a_round_trip() {
    assert_eq!(Superblock::decode(&sample().encode()).unwrap(), sample());
    let bare = Superblock { root: None, free: None, clean: false, ..sample() };
    assert_eq!(Superblock::decode(&bare.encode()).unwrap(), bare);
}

#[test]
fn every_flipped_bit_is_noticed() {
    let good = sample().encode();
    for at in 0..good.len() {
        let mut bad = good.clone();
        bad[at] ^= 0x10;
        assert!(Superblock::decode(&bad).is_err(), "byte {at}");
    }
}

#[test]
fn unknown_features_are_told_by_their_bits() {
    let with = |incompatible, read_only, compatible| {
        let features = Features { incompatible, read_only, compatible };
        Superblock::decode(&Superblock { features, ..sample() }.encode()).unwrap()
    };
    let refusal = |superblock: Superblock, writing| {
        let error = superblock.check_features(writing).unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Unknown);
        error.message().to_owned()
    };
    assert!(refusal(with(1 << 63 | 2, 0, 0), false).contains("(bits 1, 63 of the incompatible ones)"));
    assert!(refusal(with(0, 8, 0), true).contains("(bit 3 of those for writing)"));
    with(0, 8, 0).check_features(false).unwrap();
    with(0, 0, u64::MAX).check_features(true).unwrap();
}

#[test]
fn the_unit_stands_in_the_compatible_features() {
    let others = Features { incompatible: 1, read_only: 2, compatible: 0xF0 };
    for log2 in 0..=8 {
        let features = others.with_unit_blocks(1 << log2);
        assert_eq!(features, Features { compatible: 0xF0 | log2, ..others });
        assert_eq!(features.unit_blocks(), 1 << log2);
        assert_eq!(features.with_unit_blocks(1), others);
    }
    // A later program may know larger ones.
    assert_eq!(Features { compatible: 15, ..others }.unit_blocks(), UNIT_BLOCKS_MAX);
}

#[test]
fn a_whole_superblock_of_a_newer_format_is_the_last_word() {
    let device = MemoryDevice::fixed(1 << 20);
    write_slot(&device, Slot::First, &Superblock { sequence: 9, ..sample() }).unwrap();
    read_newest(&device).unwrap();
    write_slot(&device, Slot::Second, &Superblock { format: FORMAT + 1, ..sample() }).unwrap();
    let error = read_newest(&device).unwrap_err();
    assert!(error.kind() == ErrorKind::Unknown && error.message().contains("newer program"), "{error}");
    // Damaged it is nothing.
    let mut block = Superblock { format: FORMAT + 1, ..sample() }.encode();
    block[3000] = 1;
    device.write_at(&block, Slot::Second.offset()).unwrap();
    read_newest(&device).unwrap();
}
