//! What is given out, and where it begins.

use std::collections::BTreeSet;

use proptest::prelude::*;

use super::*;

/// No matter where, from this group on.
fn placement_hint(turn: usize) -> PlacementHint {
    PlacementHint { turn, lifetime: Lifetime::Unknown }
}

/// At the end of the space or at its begin.
fn kept(lifetime: Lifetime) -> PlacementHint {
    PlacementHint { turn: 0, lifetime }
}

#[test]
fn what_goes_soon_comes_from_the_end_and_what_stays_from_the_begin() {
    let space = Allocator::new(1);
    space.release(10, GROUP_BLOCKS * 2).unwrap();
    let end = 10 + GROUP_BLOCKS * 2;
    let allocate = |count, lifetime| space.allocate(count, Class::Data, kept(lifetime)).map(|range| range.start);
    assert_eq!(allocate(20, Lifetime::Long), Some(10));
    assert_eq!(allocate(10, Lifetime::Short), Some(end - 10), "the last group has no more than that");
    assert_eq!(allocate(20, Lifetime::Short), Some(GROUP_BLOCKS * 2 - 20));
    assert_eq!(
        space.allocate_exact(30, Class::Data, kept(Lifetime::Short)).map(|range| range.start),
        Some(GROUP_BLOCKS * 2 - 50)
    );
    // Holes near the end are filled before the rest is begun.
    space.release(GROUP_BLOCKS * 2 - 15, 8).unwrap();
    assert_eq!(allocate(8, Lifetime::Short), Some(GROUP_BLOCKS * 2 - 15));
    assert_eq!(allocate(20, Lifetime::Long), Some(30));
    // All of it goes, also when nothing is left at the wanted end.
    let mut given = 0;
    while let Some(range) = space.allocate(1000, Class::Data, kept(Lifetime::Short)) {
        given += u64::from(range.count);
    }
    assert_eq!((given, space.free_blocks()), (GROUP_BLOCKS * 2 - 100, 0));
}

#[test]
fn gives_each_block_once_and_takes_it_back() {
    let space = Allocator::new(1);
    space.release(100, 50).unwrap();
    space.release(GROUP_BLOCKS - 5, 10).unwrap();
    assert_eq!(space.free_blocks(), 60);
    let mut taken = Vec::new();
    while let Some(range) = space.allocate(7, Class::Data, placement_hint(0)) {
        taken.push(range);
    }
    assert_eq!(taken.iter().map(|r| u64::from(r.count)).sum::<u64>(), 60);
    for range in taken {
        space.release(range.start, u64::from(range.count)).unwrap();
    }
    assert_eq!(space.allocate_exact(50, Class::Data, placement_hint(1)).map(|r| r.start), Some(100));
    assert!(space.release(100, 1).is_ok());
    assert!(space.release(100, 1).is_err());
}

#[test]
fn data_leaves_the_reserve() {
    for unit in [1, 16] {
        let space = Allocator::new(unit);
        space.release(0, 10).unwrap();
        space.set_reserve(4);
        assert_eq!(space.allocate(8, Class::Data, placement_hint(0)).map(|r| r.count), Some(6));
        assert_eq!(space.allocate(1, Class::Data, placement_hint(0)), None);
        assert_eq!(space.allocate(1, Class::Checkpoint, placement_hint(0)).map(|r| r.count), Some(1));
    }
}

fn range(start: u64, count: u32) -> Option<BlockRange> {
    Some(BlockRange { start, count })
}

#[test]
fn data_begins_on_a_boundary_as_long_as_there_is_one() {
    let space = Allocator::new(16);
    space.release(5, 100).unwrap();
    assert_eq!(space.allocate(20, Class::Data, placement_hint(0)), range(16, 20));
    assert_eq!(space.allocate(3, Class::Data, placement_hint(0)), range(48, 3));
    // So much in a row is only behind no boundary: fewer whole units are preferred.
    assert_eq!(space.allocate(45, Class::Data, placement_hint(0)), range(64, 32));
    // No whole unit is left: what has all of it from a boundary on, then the smallest that holds it, then the longest.
    assert_eq!(space.allocate(9, Class::Data, placement_hint(0)), range(96, 9));
    assert_eq!(space.allocate(12, Class::Data, placement_hint(0)), range(36, 12));
    assert_eq!(space.allocate(12, Class::Data, placement_hint(0)), range(51, 12));
    assert_eq!(space.allocate(12, Class::Data, placement_hint(0)), range(5, 11));
    assert_eq!(space.allocate(12, Class::Data, placement_hint(0)), range(63, 1));
    assert_eq!(space.allocate(12, Class::Data, placement_hint(0)), None);
    assert_eq!(space.free_blocks(), 0);
}

#[test]
fn exactly_so_much_begins_on_a_boundary_or_is_not_given() {
    let space = Allocator::new(16);
    space.release(1, 46).unwrap();
    assert_eq!(space.allocate_exact(32, Class::Data, placement_hint(0)), None);
    assert_eq!(space.allocate_exact(31, Class::Data, placement_hint(0)), range(16, 31));
}

#[test]
fn a_checkpoint_goes_on_in_the_unit_that_the_last_one_has_begun() {
    let space = Allocator::new(256);
    space.release(256, 1024).unwrap();
    let first = space.allocate_packed(4, 256).unwrap();
    assert_eq!(Some(first), range(256, 256));
    let rest = BlockRange { start: first.start + 100, count: 156 };
    space.release_packed(rest).unwrap();
    assert_eq!(space.allocate(10, Class::Data, placement_hint(0)), range(512, 10), "data leaves it alone");
    assert_eq!(space.allocate_packed(4, 256), Some(rest));
    // What is left of it is not worth a write of its own.
    space.release_packed(BlockRange { start: 450, count: 62 }).unwrap();
    assert_eq!(space.allocate_packed(4, 256), range(768, 256));
    assert_eq!(space.allocate_packed(4, 256), range(1024, 256));
    // Without whole units everything is used, the smallest first.
    assert_eq!(space.allocate_packed(4, 256), range(450, 4));
}

#[test]
fn runs_are_taken_in_whole_units() {
    let space = Allocator::new(16);
    space.release(5, 100).unwrap();
    assert_eq!(space.take_run(0, 4, 40), Some((5, 27)));
    assert_eq!(space.take_run(32, 4, 40), Some((32, 32)));
    assert_eq!(space.take_run(64, 4, 41), Some((64, 41)));
}

/// Whether the free blocks have a whole unit, or `want` blocks from a boundary on.
fn has_aligned(free: &BTreeSet<u64>, unit: u64, want: u64) -> bool {
    let holds = |start: &u64| (*start..start + want.min(unit)).all(|block| free.contains(&block));
    free.iter().filter(|block| block.is_multiple_of(unit)).any(holds)
}

proptest! {
    #[test]
    fn nothing_is_lost_and_data_is_aligned_while_it_can_be(
        unit_log2 in 0u32..5,
        steps in prop::collection::vec((0u8..5, 0u64..400, 1u32..40, 0usize..3), 1..120),
    ) {
        let unit = 1 << unit_log2;
        let space = Allocator::new(unit);
        let mut free: BTreeSet<u64> = (3..397).collect();
        space.release(3, 394).unwrap();
        let mut taken: Vec<BlockRange> = Vec::new();
        for (what, pick, want, lifetime) in steps {
            let placement_hint = kept([Lifetime::Unknown, Lifetime::Short, Lifetime::Long][lifetime]);
            let given = match what {
                0 | 1 => {
                    let want = want.min(free.len().max(1) as u32);
                    let aligned = has_aligned(&free, unit, u64::from(want));
                    prop_assert_eq!(space.has_aligned(u64::from(want)), aligned);
                    let given = space.allocate(want, Class::Data, placement_hint);
                    prop_assert_eq!(given.is_some(), !free.is_empty(), "a store is full only when nothing is left");
                    if let Some(range) = given {
                        prop_assert!(range.count <= want);
                        prop_assert!(!aligned || range.start.is_multiple_of(unit), "{:?} of {:?}", range, free);
                        let whole = range.count == want || u64::from(range.count).is_multiple_of(unit);
                        prop_assert!(!aligned || whole, "{:?}", range);
                    }
                    given
                }
                2 => {
                    let given = space.allocate_exact(want, Class::Data, placement_hint);
                    prop_assert!(given.is_none_or(|range| range.count == want && range.start.is_multiple_of(unit)));
                    given
                }
                3 => {
                    let given = space.allocate_packed(want.min(4), want.max(16));
                    if let Some(range) = given {
                        prop_assert!(range.count >= want.min(4));
                        let used = (want / 2).min(range.count);
                        let rest = BlockRange { start: range.start + u64::from(used), count: range.count - used };
                        if rest.count > 0 {
                            space.release_packed(rest).unwrap();
                        }
                    }
                    given.map(|range| BlockRange { count: (want / 2).min(range.count), ..range })
                }
                _ if taken.is_empty() => None,
                _ => {
                    // A part of what was taken, as of an extent that was written over.
                    let whole = taken.swap_remove(pick as usize % taken.len());
                    let count = want.min(whole.count);
                    space.release(whole.start, u64::from(count)).unwrap();
                    free.extend(whole.start..whole.start + u64::from(count));
                    if count < whole.count {
                        taken.push(BlockRange { start: whole.start + u64::from(count), count: whole.count - count });
                    }
                    None
                }
            };
            for range in given.into_iter().filter(|range| range.count > 0) {
                prop_assert!((range.start..range.end()).all(|block| free.remove(&block)), "{:?} given twice", range);
                taken.push(range);
            }
            prop_assert_eq!(space.free_blocks(), free.len() as u64);
            let mut listed = BTreeSet::new();
            space.each_run(&mut |start, count| listed.extend(start..start + count));
            prop_assert_eq!(&listed, &free);
        }
    }
}
