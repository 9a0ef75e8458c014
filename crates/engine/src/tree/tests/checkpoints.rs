//! Checkpoints beside edits and readers.

use super::node::Entries;
use super::*;

#[test]
fn a_tree_of_trees_is_written_with_its_leaves_and_accounted_for() {
    let disk = Disk::default();
    let mut master = Tree::new();
    for round in 1..40u64 {
        let mut edit = Edit::new(&disk, Version(1));
        let mut next = master.clone();
        for space in [round % 3, 7] {
            let id = Bytes::copy_from_slice(&space.to_be_bytes());
            let mut root = match next.get(&disk, &id).unwrap() {
                Some(Value::Root(root)) => root,
                _ => SpaceRoot::new(Version(round)),
            };
            for number in 0..30 {
                let old =
                    root.tree.insert(&mut edit, key_of(number * round as u32 % 600, false), value_of(1, 9000)).unwrap();
                old.iter().for_each(|old| disk.release_value(old));
            }
            next.insert(&mut edit, id, Value::Root(root)).unwrap();
        }
        disk.release(edit.replaced);
        master = next;
        if round % 4 == 0 {
            let at = write_dirty(&master, stamp(Generation(round)), &mut Sink(&disk)).unwrap().unwrap();
            assert_eq!(
                write_dirty(&master, stamp(Generation(99)), &mut Sink(&disk)).unwrap(),
                Some(at),
                "nothing is written twice"
            );
            let reached = seen(&disk, &Tree::at(at, master.len()));
            assert_eq!(reached.blocks, *disk.used.lock());
            assert_eq!(seen(&disk, &master).blocks, reached.blocks);
        }
    }
}

#[test]
fn what_was_written_leaves_memory_while_edits_go_on() {
    fn in_memory(tree: &Tree) -> usize {
        fn count(child: &Child) -> usize {
            match child {
                Child::Memory(node) if node.level() > 0 => match node.opened().unwrap().as_ref() {
                    Entries::Leaf(_) => 0,
                    Entries::Inner(run) => 1 + run.iter().map(|entry| count(&entry.1)).sum::<usize>(),
                },
                Child::Memory(_) => 1,
                Child::Disk(_) => 0,
            }
        }
        tree.root.as_ref().map_or(0, count)
    }
    let disk = Disk::default();
    let mut tree = Tree::new();
    let mut most = 0;
    for round in 0..60u64 {
        // The immutable root is edited before it is written, so no edit ever meets a root that has its place.
        let frozen = tree.clone();
        for number in 0..200u64 {
            let mut next = tree.clone();
            let mut edit = Edit::new(&disk, Version(1));
            let key = Bytes::copy_from_slice(&(round * 200 + number).to_be_bytes());
            next.insert(&mut edit, key, Value::Raw(Bytes::from(vec![1; 900]))).unwrap();
            disk.release(edit.replaced);
            tree = next;
            if number == 20 {
                write_dirty(&frozen, stamp(Generation(round)), &mut Sink(&disk)).unwrap();
            }
        }
        most = most.max(in_memory(&tree));
    }
    let all = tree.len() as usize * 900 / NODE_LEN_MAX;
    assert!(most < 60, "{most} nodes in memory of {all}");
    assert_eq!(seen(&disk, &tree).entries, 12_000);
}

#[test]
fn readers_and_a_checkpoint_run_beside_edits() {
    let disk = Disk::default();
    let mut tree = Tree::new();
    for round in 1..30u64 {
        let frozen = tree.clone();
        std::thread::scope(|scope| {
            let writer = scope.spawn(|| write_dirty(&frozen, stamp(Generation(round)), &mut Sink(&disk)).unwrap());
            for number in 0..100u32 {
                let mut edit = Edit::new(&disk, Version(1));
                let mut next = tree.clone();
                let old = next
                    .insert(&mut edit, key_of(number * 31 % 977 + round as u32, false), value_of(number as u8, 3000))
                    .unwrap();
                disk.release(edit.replaced);
                old.iter().for_each(|old| disk.release_value(old));
                tree = next;
            }
            assert_eq!(writer.join().unwrap(), frozen.stored());
        });
    }
    write_dirty(&tree, stamp(Generation(99)), &mut Sink(&disk)).unwrap();
    assert_eq!(seen(&disk, &tree).blocks, *disk.used.lock());
}
