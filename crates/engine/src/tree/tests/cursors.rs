//! Cursors: from anywhere, both ways, over errors.

use super::*;

proptest! {
    #![proptest_config(ProptestConfig { cases: 24, ..ProptestConfig::default() })]

    #[test]
    fn cursors_go_both_ways_from_anywhere(
        keys in prop::collection::btree_set(0u32..5000, 0..1500),
        moves in prop::collection::vec((0u8..8, 0u32..5000), 1..120),
        bounds in (0u32..5000, prop::option::of(0u32..5000)),
        stored in any::<bool>(),
    ) {
        let disk = Disk::default();
        let name = |number: u32| Bytes::from(format!("{number:04}{}", "k".repeat(number as usize % 90)));
        let mut tree = Tree::new();
        let mut edit = Edit::new(&disk, Version(1));
        for number in &keys {
            tree.insert(&mut edit, name(*number), value_of(0, 64)).unwrap();
        }
        if stored && let Some(at) = write_dirty(&tree, stamp(Generation(1)), &mut Sink(&disk)).unwrap() {
            tree = Tree::at(at, tree.len());
        }
        let range = KeyRange { start: name(bounds.0), end: bounds.1.map(name) };
        let inside: Vec<Bytes> = keys.iter().map(|n| name(*n)).filter(|key| range.contains(key)).collect();
        let mut cursor = tree.cursor(range);
        let mut gap = 0;
        for (what, number) in moves {
            match what {
                0 => {
                    cursor.seek(&name(number));
                    gap = inside.partition_point(|key| *key < name(number));
                }
                1 => { cursor.seek_end(); gap = inside.len(); }
                2..=4 => {
                    *disk.fail_loads.lock() = if number % 4 == 0 { Some(0) } else { None };
                    let mut step = cursor.next(&disk);
                    *disk.fail_loads.lock() = None;
                    if step.is_err() { step = cursor.next(&disk); }
                    prop_assert_eq!(step.unwrap().map(|e| e.0), inside.get(gap).cloned());
                    gap = (gap + 1).min(inside.len());
                }
                _ => {
                    *disk.fail_loads.lock() = if number % 4 == 0 { Some(0) } else { None };
                    let mut step = cursor.previous(&disk);
                    *disk.fail_loads.lock() = None;
                    if step.is_err() { step = cursor.previous(&disk); }
                    prop_assert_eq!(step.unwrap().map(|e| e.0), gap.checked_sub(1).and_then(|at| inside.get(at)).cloned());
                    gap = gap.saturating_sub(1);
                }
            }
        }
        for number in [0, 17, 2500, 4999] {
            let at = tree.first_at_or_after(&disk, &name(number)).unwrap().map(|e| e.0);
            prop_assert_eq!(at, keys.iter().map(|n| name(*n)).find(|key| *key >= name(number)));
            let before = tree.last_before(&disk, &name(number)).unwrap().map(|e| e.0);
            prop_assert_eq!(before, keys.iter().rev().map(|n| name(*n)).find(|key| *key < name(number)));
        }
    }
}
