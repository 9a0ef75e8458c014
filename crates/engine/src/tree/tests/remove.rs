//! Many keys taken away at once, beside the same keys taken away one by one.

use super::*;

fn filled(disk: &Disk, count: u32, long: bool) -> (Tree, Model) {
    let (mut tree, mut model) = (Tree::new(), Model::new());
    for number in 0..count {
        let (key, value) = (key_of(number, long), value_of(number as u8, number as u16 % 300));
        model.insert(key.clone(), content(&value));
        let mut edit = Edit::new(disk, Version(1));
        tree.insert(&mut edit, key, value).unwrap();
        disk.release(edit.replaced);
    }
    (tree, model)
}

/// The same tree without a node in memory.
fn stored(disk: &Disk, tree: &Tree) -> Tree {
    let at = write_dirty(tree, stamp(Generation(1)), &mut Sink(disk)).unwrap();
    at.map_or_else(Tree::new, |at| Tree::at(at, tree.len()))
}

/// Takes the keys away in one go; gives what was told.
fn remove_sorted(tree: &mut Tree, edit: &mut Edit<'_>, keys: &[Bytes]) -> Result<Vec<(usize, (u8, Bytes))>> {
    let slices: Vec<&[u8]> = keys.iter().map(Bytes::as_ref).collect();
    let mut told = Vec::new();
    tree.remove_sorted(edit, &slices, &mut |number, value| {
        told.push((number, content(&value)));
        Ok(())
    })?;
    Ok(told)
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 48, ..ProptestConfig::default() })]

    #[test]
    fn many_at_once_are_the_same_as_one_by_one(
        count in 0u32..1500,
        long in any::<bool>(),
        is_stored in any::<bool>(),
        rounds in prop::collection::vec((0u32..1700, 1usize..40, 0usize..900), 1..6),
        fails in 0u32..40,
    ) {
        let disk = Disk::default();
        let (mut tree, mut model) = filled(&disk, count, long);
        if is_stored {
            tree = stored(&disk, &tree);
        }
        for (from, step, most) in rounds {
            let mut keys: Vec<Bytes> = (from..1700).step_by(step).take(most).map(|number| key_of(number, long)).collect();
            keys.sort();
            keys.dedup();
            // A failure on the way leaves the tree that it began with.
            *disk.fail_loads.lock() = Some(fails);
            let mut failing = tree.clone();
            let failed = remove_sorted(&mut failing, &mut Edit::new(&disk, Version(1)), &keys);
            *disk.fail_loads.lock() = None;
            same(&disk, &tree, &model);
            drop((failed, failing));

            let mut one_by_one = tree.clone();
            let mut edit = Edit::new(&disk, Version(1));
            let mut expected = Vec::new();
            for (number, key) in keys.iter().enumerate() {
                let old = one_by_one.remove(&mut edit, key).unwrap();
                expected.extend(old.map(|old| (number, content(&old))));
            }
            drop(edit);
            let mut edit = Edit::new(&disk, Version(1));
            let told = remove_sorted(&mut tree, &mut edit, &keys).unwrap();
            prop_assert_eq!(&told, &expected);
            keys.iter().for_each(|key| drop(model.remove(key)));
            same(&disk, &one_by_one, &model);
            same(&disk, &tree, &model);
            prop_assert_eq!(tree.is_empty(), model.is_empty());
        }
    }
}

#[test]
fn keys_that_are_not_there_copy_nothing() {
    let disk = Disk::default();
    let (tree, _) = filled(&disk, 900, false);
    let mut tree = stored(&disk, &tree);
    let before = tree.clone();
    let keys: Vec<Bytes> = (0..900).map(|number| Bytes::from(format!("{number:06}x"))).collect();
    let mut edit = Edit::new(&disk, Version(2));
    assert!(remove_sorted(&mut tree, &mut edit, &keys).unwrap().is_empty());
    assert!(tree.same(&before) && edit.replaced.is_empty() && edit.gained == DirtySize::default());
    assert!(remove_sorted(&mut Tree::new(), &mut edit, &keys).unwrap().is_empty());
    assert!(remove_sorted(&mut tree, &mut edit, &[]).unwrap().is_empty());
}

#[test]
fn what_hears_of_a_key_may_refuse_it() {
    let disk = Disk::default();
    let (tree, model) = filled(&disk, 50, false);
    let mut edit = Edit::new(&disk, Version(2));
    let keys: Vec<&[u8]> = model.keys().map(Bytes::as_ref).collect();
    let mut refused = tree.clone();
    let refuse = refused.remove_sorted(&mut edit, &keys, &mut |number, _| match number {
        30 => Err(Error::invalid("not this one")),
        _ => Ok(()),
    });
    assert_eq!(refuse.unwrap_err().kind(), ErrorKind::Invalid);
    same(&disk, &tree, &model);
}

#[test]
fn a_key_that_was_taken_from_a_stored_leaf_can_be_put_and_taken_again() {
    let disk = Disk::default();
    let (tree, mut model) = filled(&disk, 40, false);
    let mut tree = stored(&disk, &tree);
    let key = key_of(7, false);
    for round in 0..3u8 {
        let mut edit = Edit::new(&disk, Version(2));
        let keys = [key.clone()];
        let told = remove_sorted(&mut tree, &mut edit, &keys).unwrap();
        assert_eq!(told.into_iter().next().map(|(_, value)| value), model.remove(&key));
        assert_eq!(tree.get(&disk, &key).unwrap().map(|value| content(&value)), None);
        assert!(tree.remove(&mut edit, &key).unwrap().is_none());
        same(&disk, &tree, &model);
        let value = value_of(0, round.into());
        assert!(tree.insert(&mut edit, key.clone(), value.clone()).unwrap().is_none());
        model.insert(key.clone(), content(&value));
        same(&disk, &tree, &model);
    }
}
