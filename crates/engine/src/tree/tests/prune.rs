//! Taking a tree down: everything is handed out and freed once, in parts of any size.

use super::*;

/// A tree of so many entries of 200 bytes or so, with pending values among them, written as of `birth`.
fn written(disk: &Disk, numbers: std::ops::Range<u32>, birth: Generation) -> Tree {
    let mut tree = Tree::new();
    let mut edit = Edit::new(disk, Version(1));
    for number in numbers {
        tree.insert(&mut edit, key_of(number, false), value_of(number as u8, 200)).unwrap();
    }
    write_dirty(&tree, stamp(birth), &mut Sink(disk)).unwrap();
    tree
}

/// Takes up to `most` leaves down, frees what goes, and gives the keys handed out.
fn prune(disk: &Disk, tree: &mut Tree, most: u32, shared: Generation) -> (bool, Vec<Bytes>, Vec<NodeRef>) {
    let mut edit = Edit::new(disk, Version(1));
    edit.shared = shared;
    let mut keys = Vec::new();
    let mut values = Vec::new();
    let done = tree.prune(&mut edit, most, &mut |key, value| {
        keys.push(key);
        values.push(value);
        Ok(())
    });
    disk.release(edit.replaced);
    values.iter().for_each(|value| disk.release_value(value));
    (done.unwrap(), keys, edit.dead)
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 24, ..ProptestConfig::default() })]

    #[test]
    fn parts_of_any_size_hand_out_all_entries_in_order(
        count in 0u32..3000,
        unwritten in 0u32..200,
        parts in prop::collection::vec(1u32..12, 1..8),
        checkpoint_every in 1usize..6,
    ) {
        let disk = Disk::default();
        let mut tree = written(&disk, 0..count, Generation(1));
        for number in count..count + unwritten {
            // Clones are held by nobody: some paths are in memory only.
            let mut edit = Edit::new(&disk, Version(1));
            tree.insert(&mut edit, key_of(number, false), value_of(number as u8, 200)).unwrap();
            disk.release(edit.replaced);
        }
        let whole: Vec<Bytes> = entries(&disk, &tree).into_iter().map(|entry| entry.0).collect();
        let mut out = Vec::new();
        for (round, most) in parts.iter().cycle().enumerate() {
            let mut next = tree.clone();
            let (done, keys, dead) = prune(&disk, &mut next, *most, Generation(0));
            prop_assert!(dead.is_empty());
            prop_assert!(done || !keys.is_empty(), "each part takes a leaf at least");
            out.extend(keys);
            let left: Vec<Bytes> = entries(&disk, &next).into_iter().map(|entry| entry.0).collect();
            prop_assert_eq!(&left[..], &whole[out.len()..]);
            tree = next;
            if round % checkpoint_every == 0 {
                write_dirty(&tree, stamp(Generation(2 + round as u64)), &mut Sink(&disk)).unwrap();
                prop_assert_eq!(seen(&disk, &tree).blocks, disk.used.lock().clone());
            }
            prop_assert_eq!(done, tree.is_empty());
            if done {
                break;
            }
        }
        prop_assert_eq!(out, whole);
        prop_assert!(disk.used.lock().is_empty());
    }
}

#[test]
fn what_a_branch_point_shares_is_let_go_of_unread() {
    let disk = Disk::default();
    let point = written(&disk, 0..2000, Generation(5));
    let kept = seen(&disk, &point).blocks;
    let mut tree = point.clone();
    let mut edit = Edit::new(&disk, Version(1));
    edit.shared = Generation(5);
    let fresh: Vec<Bytes> = (5000..5040).map(|number| key_of(number, false)).collect();
    for key in &fresh {
        tree.insert(&mut edit, key.clone(), Value::Raw(Bytes::from_static(b"new"))).unwrap();
    }
    assert!(edit.replaced.iter().all(|gone| gone.release(Version(1)).is_none()), "the point has all that was written");
    assert!(!edit.dead.is_empty());
    drop(edit);
    write_dirty(&tree, stamp(Generation(6)), &mut Sink(&disk)).unwrap();
    tree = Tree::at(tree.stored().unwrap(), tree.len());
    let mut keys = Vec::new();
    loop {
        let mut edit = Edit::new(&disk, Version(1));
        edit.shared = Generation(5);
        let done = tree
            .prune(&mut edit, 1, &mut |key, _| {
                keys.push(key);
                Ok(())
            })
            .unwrap();
        assert!(edit.dead.is_empty(), "what is shared is not reported at all");
        disk.release(edit.replaced);
        if done {
            break;
        }
    }
    assert!(fresh.iter().all(|key| keys.contains(key)), "the leaves of its own were handed out");
    assert!(keys.len() < 2000, "shared leaves were not read: {} entries", keys.len());
    assert_eq!(*disk.used.lock(), kept);
    assert_eq!(seen(&disk, &point).entries, 2000);
}

#[test]
fn an_error_of_the_caller_or_the_device_ends_it_and_dropping_it_is_a_rollback() {
    let disk = Disk::default();
    let tree = written(&disk, 0..1500, Generation(1));
    let tree = Tree::at(tree.stored().unwrap(), tree.len());
    let used = disk.used.lock().clone();
    for loads in 0..4 {
        *disk.fail_loads.lock() = Some(loads);
        let mut next = tree.clone();
        next.prune(&mut Edit::new(&disk, Version(1)), 100, &mut |_, _| Ok(())).unwrap_err();
        *disk.fail_loads.lock() = None;
    }
    let mut next = tree.clone();
    let mut left = 30;
    let refused = next.prune(&mut Edit::new(&disk, Version(1)), 100, &mut |_, _| {
        left -= 1;
        if left == 0 { Err(Error::invalid("enough")) } else { Ok(()) }
    });
    assert_eq!(refused.unwrap_err().kind(), ErrorKind::Invalid);
    assert_eq!(*disk.used.lock(), used);
    assert_eq!(seen(&disk, &tree).blocks, used);
    assert_eq!(entries(&disk, &tree).len(), 1500);
}
