//! How full nodes are, and how long entries may be.

use super::*;

#[test]
fn ascending_keys_fill_their_nodes() {
    let disk = Disk::default();
    let mut tree = Tree::new();
    let mut edit = Edit::new(&disk, Version(1));
    for number in 0..50_000u64 {
        tree.insert(&mut edit, Bytes::copy_from_slice(&number.to_be_bytes()), Value::Raw(Bytes::from_static(&[0; 51])))
            .unwrap();
    }
    assert!(edit.replaced.is_empty(), "nobody else saw these nodes");
    write_dirty(&tree, stamp(Generation(1)), &mut Sink(&disk)).unwrap();
    let lower_bound = 50_000 * (4 + 8 + 52) / BLOCK_LEN;
    let nodes = disk.nodes.lock().len();
    assert!(nodes <= lower_bound + lower_bound / 20, "{nodes} nodes for what fits into {lower_bound}");
}

#[test]
fn leaves_of_long_entries_hold_several() {
    let disk = Disk::default();
    let mut tree = Tree::new();
    let mut edit = Edit::new(&disk, Version(1));
    for number in 0..4000 {
        tree.insert(&mut edit, key_of(number, false), Value::Raw(vec![1; 1200].into())).unwrap();
    }
    write_dirty(&tree, stamp(Generation(1)), &mut Sink(&disk)).unwrap();
    let (nodes, bytes) = (disk.nodes.lock().len(), disk.used.lock().len() * BLOCK_LEN);
    assert!(nodes < 4000 / 4, "{nodes} nodes");
    assert!(bytes < 4000 * 1200 * 3 / 2, "{bytes} bytes");
}

#[test]
fn nodes_join_when_most_keys_go() {
    let disk = Disk::default();
    let mut tree = Tree::new();
    let mut edit = Edit::new(&disk, Version(1));
    for number in 0..20_000 {
        tree.insert(&mut edit, key_of(number, false), value_of(0, 100)).unwrap();
    }
    for number in (0..20_000u32).filter(|number| !number.is_multiple_of(20)) {
        assert!(tree.remove(&mut edit, &key_of(number, false)).unwrap().is_some());
    }
    write_dirty(&tree, stamp(Generation(1)), &mut Sink(&disk)).unwrap();
    // At least a quarter of each node is in use, but for the last ones of a parent.
    let bytes = 1000 * (4 + 6 + 101);
    let nodes = disk.nodes.lock().len();
    assert!(nodes <= bytes * 4 / BLOCK_LEN + 3, "{nodes} nodes for {bytes} bytes");
}

#[test]
fn longest_entries_fit_and_longer_ones_are_refused() {
    let disk = Disk::default();
    let mut tree = Tree::new();
    let mut edit = Edit::new(&disk, Version(1));
    for number in 0..60u8 {
        let mut key = vec![b'k'; TREE_KEY_LEN_MAX];
        key[TREE_KEY_LEN_MAX - 1 - usize::from(number) % 7 * 100] = number;
        let value = Value::Raw(vec![number; TREE_VALUE_LEN_MAX - 1].into());
        tree.insert(&mut edit, key.into(), value).unwrap();
    }
    assert_eq!(tree.len(), 60);
    let at = write_dirty(&tree, stamp(Generation(1)), &mut Sink(&disk)).unwrap().unwrap();
    assert_eq!(entries(&disk, &Tree::at(at, 60)).len(), 60);
    let long = tree.insert(&mut edit, vec![0; TREE_KEY_LEN_MAX + 1].into(), value_of(0, 1)).unwrap_err();
    assert_eq!(long.kind(), ErrorKind::Invalid);
    let long = tree.insert(&mut edit, Bytes::new(), Value::Raw(vec![0; TREE_VALUE_LEN_MAX].into())).unwrap_err();
    assert_eq!(long.kind(), ErrorKind::Invalid);
}
