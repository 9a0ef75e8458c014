//! Branching: the same entries twice, nothing shared that has no place, nothing copied that has one and is old enough.

use super::*;
use crate::tree::value::{Content, Record};

/// A tree with a written part of 3,000 entries and a part that is in memory only.
fn half_written(disk: &Disk) -> Tree {
    let mut tree = Tree::new();
    let mut edit = Edit::new(disk, Version(1));
    for number in 0..3000 {
        tree.insert(&mut edit, key_of(number, false), value_of(number as u8, 300)).unwrap();
    }
    write_dirty(&tree, stamp(Generation(1)), &mut Sink(disk)).unwrap();
    tree = Tree::at(tree.stored().unwrap(), tree.len());
    // A few neighbours: most leaves stay as they are.
    for number in 0..12u8 {
        let mut edit = Edit::new(disk, Version(1));
        let key = Bytes::from(vec![b'0', b'0', number]);
        tree.insert(&mut edit, key, value_of(1, 100 + u16::from(number))).unwrap();
        disk.release(edit.replaced);
    }
    tree
}

#[test]
fn both_have_the_same_entries_and_share_what_was_written() {
    let disk = Disk::default();
    let tree = half_written(&disk);
    let unwritten = tree.unwritten(usize::MAX);
    assert!(unwritten >= 2 && tree.unwritten(1) == 1, "{unwritten} nodes");
    let before = entries(&disk, &tree);
    let shared = seen(&disk, &tree).blocks;
    let mut copied = Copied::default();
    let mut branch = tree.branch(&disk, Generation(1), Generation(2), &mut copied).unwrap();
    assert_eq!(copied.nodes as usize, unwritten);
    assert!(copied.named_again.is_empty(), "what was born up to the branch point is shared silently");
    // The copies of values that wait: 12 of 101 bytes and more, and those of the leaves around them that were placed are not.
    assert_eq!(copied.bytes, (0..12u64).map(|number| 101 + number).sum::<u64>());
    assert_eq!(entries(&disk, &branch), before);
    assert_eq!(branch.len(), tree.len());
    assert_eq!(seen(&disk, &branch).blocks, shared);

    // A change of one is none of the other, and each places its own.
    let mut edit = Edit::new(&disk, Version(1));
    edit.shared = Generation(1);
    branch.insert(&mut edit, Bytes::from_static(b"00\x03"), Value::Raw(Bytes::from_static(b"other"))).unwrap();
    for at in &edit.dead {
        assert!(shared.contains(&at.start_block));
    }
    disk.release(edit.replaced);
    assert_eq!(entries(&disk, &tree), before);
    write_dirty(&tree, stamp(Generation(2)), &mut Sink(&disk)).unwrap();
    write_dirty(&branch, stamp(Generation(2)), &mut Sink(&disk)).unwrap();
    let (of_tree, of_branch) = (seen(&disk, &tree).blocks, seen(&disk, &branch).blocks);
    assert!(of_tree.intersection(&of_branch).all(|block| shared.contains(block)), "what is new has one owner");
    assert!(of_tree.intersection(&of_branch).count() * 10 > of_tree.len() * 8, "most is shared");
    assert_eq!(entries(&disk, &Tree::at(tree.stored().unwrap(), tree.len())), before);
}

#[test]
fn what_is_younger_than_the_point_is_copied_and_named_again() {
    let disk = Disk::default();
    let mut tree = Tree::new();
    let mut edit = Edit::new(&disk, Version(1));
    for number in 0..20 {
        let piece = Piece::Pending(Arc::new(Pending::new(Bytes::from(vec![7; 5000]))));
        let record = Record { version: Version(3), size: 5000, content: Content::Single(piece) };
        let value = if number % 2 == 0 { Value::Record(record) } else { value_of(1, 5000) };
        tree.insert(&mut edit, key_of(number, false), value).unwrap();
    }
    write_dirty(&tree, stamp(Generation(4)), &mut Sink(&disk)).unwrap();
    let stored = Tree::at(tree.stored().unwrap(), tree.len());
    // The sink of these tests gives extents birth 1, nodes that of the stamp.
    for (upto, nodes, again) in [(Generation(4), 0, 0), (Generation(3), 1, 0), (Generation(0), 1, 20)] {
        let mut copied = Copied::default();
        let branch = stored.branch(&disk, upto, Generation(9), &mut copied).unwrap();
        assert_eq!((copied.nodes, copied.named_again.len(), copied.bytes), (nodes, again, 0), "up to {upto:?}");
        assert_eq!(entries(&disk, &branch), entries(&disk, &stored));
        let mut births = Vec::new();
        let mut cursor = branch.cursor(KeyRange::all());
        while let Some((_, value)) = cursor.next(&disk).unwrap() {
            if let Some(Piece::Disk(extent)) = value.piece() {
                births.push(extent.birth);
            }
        }
        let birth = if again > 0 { Generation(9) } else { Generation(1) };
        assert!(births.len() == 20 && births.iter().all(|found| *found == birth));
    }
    // The same of a tree whose nodes and pieces are still held in memory.
    let mut copied = Copied::default();
    tree.branch(&disk, Generation(0), Generation(9), &mut copied).unwrap();
    assert_eq!((copied.nodes, copied.named_again.len(), copied.bytes), (1, 20, 0));
}

#[test]
fn an_empty_tree_and_a_failing_device() {
    let disk = Disk::default();
    let mut copied = Copied::default();
    let empty = Tree::new().branch(&disk, Generation(9), Generation(9), &mut copied).unwrap();
    assert!(empty.is_empty() && empty.unwritten(5) == 0);
    assert_eq!((copied.nodes, copied.bytes), (0, 0));
    let tree = half_written(&disk);
    *disk.fail_loads.lock() = Some(0);
    // Nodes too young to be shared are loaded.
    tree.branch(&disk, Generation(0), Generation(2), &mut copied).unwrap_err();
    *disk.fail_loads.lock() = None;
    assert_eq!(entries(&disk, &tree).len(), 3012);
}
