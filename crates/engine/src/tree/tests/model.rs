//! The tree against a model: histories with held clones, checkpoints, reloads, and accounts of blocks.

use super::*;

#[derive(Clone, Debug)]
enum Step {
    Put(u32, u8, u16),
    Exchange(u32, u8, u16),
    Remove(u32),
    RemoveSome(u16),
    RemoveMany(u16, u16),
    Hold,
    Freeze,
    Finish,
    Reload,
    FailedEdit(u32),
}

fn step() -> impl Strategy<Value = Step> {
    prop_oneof![
        40 => (0u32..2000, any::<u8>(), any::<u16>()).prop_map(|(key, kind, len)| Step::Put(key, kind, len)),
        15 => (0u32..2000, any::<u8>(), any::<u16>()).prop_map(|(key, kind, len)| Step::Exchange(key, kind, len)),
        12 => (0u32..2000).prop_map(Step::Remove),
        3 => any::<u16>().prop_map(Step::RemoveSome),
        5 => (any::<u16>(), any::<u16>()).prop_map(|(at, count)| Step::RemoveMany(at, count)),
        3 => Just(Step::Hold),
        2 => Just(Step::Freeze),
        2 => Just(Step::Finish),
        1 => Just(Step::Reload),
        3 => (0u32..6).prop_map(Step::FailedEdit),
    ]
}

/// One store: a tree, its model, clones held with theirs, and at most one checkpoint under way.
#[derive(Default)]
struct World {
    disk: Disk,
    tree: Tree,
    model: Model,
    held: Vec<(Tree, Model)>,
    frozen: Option<(Tree, Model)>,
    version: u64,
    long: bool,
    /// What nodes without a place weigh, as edits say.
    dirty_size: DirtySize,
}

impl World {
    /// The tree to edit: sometimes the only one, so that it changes in place.
    fn working(&mut self, number: usize) -> Tree {
        if number.is_multiple_of(2) { std::mem::take(&mut self.tree) } else { self.tree.clone() }
    }

    fn put(&mut self, number: u32, value: Value) {
        let key = key_of(number, self.long);
        let mut next = self.working(value.encoded_len());
        let mut edit = Edit::new(&self.disk, Version(1));
        let old = next.insert(&mut edit, key.clone(), value.clone()).unwrap();
        assert_eq!(old.as_ref().map(content), self.model.insert(key, content(&value)));
        let gone = self.disk.release(edit.replaced);
        self.dirty_size = (self.dirty_size + edit.gained).without(edit.lost).without(gone);
        old.iter().for_each(|old| self.disk.release_value(old));
        self.tree = next;
        if self.model.len().is_multiple_of(16) {
            assert_eq!(self.dirty_size, unwritten_weight(&self.disk, &self.tree));
        }
    }

    /// Exchanges the value of a key, or of the one after it that is there, where the two are of the same kind.
    fn exchange(&mut self, number: u32, value: Value) {
        let key = key_of(number, self.long);
        let key = if number.is_multiple_of(5) {
            key
        } else {
            self.model.range(key.clone()..).next().map_or(key, |(there, _)| there.clone())
        };
        let kind = content(&value).0;
        let is_like = |old: &Value| content(old).0 == kind;
        let mut next = self.working(value.encoded_len());
        let mut edit = Edit::new(&self.disk, Version(1));
        let exchanged = next.exchange(&mut edit, &key, value.clone(), &is_like).unwrap();
        let gone = self.disk.release(edit.replaced);
        self.dirty_size = (self.dirty_size + edit.gained).without(edit.lost).without(gone);
        match exchanged {
            Exchanged::Old(old) => {
                assert_eq!(self.model.insert(key, content(&value)), Some(content(&old)));
                assert_eq!(content(&old).0, kind);
                self.disk.release_value(&old);
            }
            Exchanged::Not(given) => {
                assert_eq!(content(&given), content(&value));
                assert_ne!(self.model.get(&key).map(|old| old.0), Some(kind));
            }
        }
        self.tree = next;
        assert_eq!(self.dirty_size, unwritten_weight(&self.disk, &self.tree));
    }

    fn remove(&mut self, key: &[u8]) {
        let mut next = self.working(key.iter().map(|byte| usize::from(*byte)).sum());
        let mut edit = Edit::new(&self.disk, Version(1));
        let old = next.remove(&mut edit, key).unwrap();
        assert_eq!(old.as_ref().map(content), self.model.remove(key));
        let gone = self.disk.release(edit.replaced);
        self.dirty_size = (self.dirty_size + edit.gained).without(edit.lost).without(gone);
        old.iter().for_each(|old| self.disk.release_value(old));
        self.tree = next;
        if self.model.len().is_multiple_of(16) {
            assert_eq!(self.dirty_size, unwritten_weight(&self.disk, &self.tree));
        }
    }

    /// Takes keys away in one go, and asks for some beside them that are not there.
    fn remove_many(&mut self, skip: usize, count: usize) {
        let there = self.model.keys().skip(skip).step_by(skip % 5 + 1).take(count);
        let mut keys: Vec<Bytes> = there.cloned().collect();
        for number in (0..keys.len()).step_by(7) {
            keys.push(Bytes::from([&keys[number][..], b"+"].concat()));
        }
        keys.sort();
        let mut next = self.working(skip);
        let mut edit = Edit::new(&self.disk, Version(1));
        let mut taken = Vec::new();
        let slices: Vec<&[u8]> = keys.iter().map(Bytes::as_ref).collect();
        next.remove_sorted(&mut edit, &slices, &mut |number, value| {
            taken.push((number, value));
            Ok(())
        })
        .unwrap();
        let told: Vec<_> = taken.iter().map(|(number, value)| (*number, content(value))).collect();
        let expected = keys.iter().enumerate().filter_map(|(number, key)| Some((number, self.model.remove(key)?)));
        assert!(expected.eq(told));
        let gone = self.disk.release(edit.replaced);
        self.dirty_size = (self.dirty_size + edit.gained).without(edit.lost).without(gone);
        taken.iter().for_each(|(_, old)| self.disk.release_value(old));
        self.tree = next;
        assert_eq!(self.dirty_size, unwritten_weight(&self.disk, &self.tree));
    }

    /// Changes a clone until a load fails and drops it: nothing may have happened.
    fn failed_edit(&mut self, loads: u32) {
        *self.disk.fail_loads.lock() = Some(loads);
        let mut edit = Edit::new(&self.disk, Version(1));
        let mut next = self.tree.clone();
        let keys: Vec<Bytes> = self.model.keys().step_by(3).cloned().collect();
        for key in keys {
            let done = if key.len() % 2 == 0 {
                next.remove(&mut edit, &key)
            } else {
                next.insert(&mut edit, key, value_of(1, 99))
            };
            if done.is_err() {
                break;
            }
        }
        let keys: Vec<&[u8]> = self.model.keys().skip(1).step_by(2).map(Bytes::as_ref).collect();
        let mut all = self.tree.clone();
        let _ = all.remove_sorted(&mut edit, &keys, &mut |_, _| Ok(()));
        drop((next, all, edit));
        *self.disk.fail_loads.lock() = None;
    }

    fn finish(&mut self) {
        let Some((frozen, model)) = self.frozen.take() else { return };
        self.version += 1;
        let at = write_dirty(&frozen, stamp(Generation(self.version)), &mut Sink(&self.disk)).unwrap();
        assert_eq!(at, frozen.stored());
        // Nodes that left the tree before they were written were counted off; those that were written go now.
        self.dirty_size = unwritten_weight(&self.disk, &self.tree);
        same(&self.disk, &frozen, &model);
        // What was written says the same when nothing of it is in memory.
        if let Some(at) = at {
            same(&self.disk, &Tree::at(at, frozen.len()), &model);
        }
    }

    /// Writes everything and goes on from the device alone; only what is reached may be in use.
    fn reload(&mut self) {
        self.finish();
        self.frozen = Some((self.tree.clone(), self.model.clone()));
        self.finish();
        self.tree = self.tree.stored().map_or_else(Tree::new, |at| Tree::at(at, self.tree.len()));
        let seen = seen(&self.disk, &self.tree);
        assert_eq!(seen.entries, self.tree.len());
        assert_eq!(seen.blocks, *self.disk.used.lock());
    }

    fn run(&mut self, step: &Step) {
        match step {
            Step::Put(number, kind, len) => self.put(*number, value_of(*kind, *len)),
            Step::Exchange(number, kind, len) => self.exchange(*number, value_of(*kind, *len)),
            Step::Remove(number) => self.remove(&key_of(*number, self.long)),
            Step::RemoveSome(at) => {
                let skip = usize::from(*at) % (self.model.len() + 1);
                let keys: Vec<Bytes> = self.model.keys().skip(skip).take(60).cloned().collect();
                keys.iter().for_each(|key| self.remove(key));
            }
            Step::RemoveMany(at, count) => {
                let skip = usize::from(*at) % (self.model.len() + 1);
                self.remove_many(skip, usize::from(*count) % 400);
            }
            Step::Hold => {
                self.held.push((self.tree.clone(), self.model.clone()));
                if self.held.len() > 3 {
                    self.held.remove(0);
                }
            }
            Step::Freeze if self.frozen.is_none() => self.frozen = Some((self.tree.clone(), self.model.clone())),
            Step::Freeze => {}
            Step::Finish => self.finish(),
            Step::Reload => self.reload(),
            Step::FailedEdit(loads) => self.failed_edit(*loads),
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 24, ..ProptestConfig::default() })]

    #[test]
    fn a_tree_is_a_map_whose_clones_stay_and_whose_blocks_are_accounted_for(
        long in any::<bool>(),
        start in 0u32..900,
        steps in prop::collection::vec(step(), 1..900),
    ) {
        let mut world = World { long, ..World::default() };
        (0..start).for_each(|number| world.put(number, value_of(number as u8, number as u16)));
        for step in &steps {
            world.run(step);
        }
        for (tree, model) in &world.held {
            same(&world.disk, tree, model);
        }
        same(&world.disk, &world.tree, &world.model);
        world.reload();
        let keys: Vec<Bytes> = world.model.keys().cloned().collect();
        keys.iter().step_by(2).chain(keys.iter().skip(1).step_by(2)).for_each(|key| world.remove(key));
        prop_assert!(world.tree.is_empty());
        prop_assert!(world.disk.used.lock().is_empty());
    }
}
