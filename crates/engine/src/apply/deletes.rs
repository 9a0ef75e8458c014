//! Deletions that stand one after the other in the order of keys: the index is gone through once for all of them.
//!
//! Invariant: they do what they do one by one. No deletion here changes whether a later one finds its record.

use crate::apply::write_transaction::WriteTransaction;
use crate::batch::{Operation, Place};
use crate::changes::Changed;
use crate::content::{RecordKeys, as_record};
use crate::error::Result;
use crate::log::record::Step;
use crate::tree::value::Content;

fn deleted(step: &Step) -> Option<&Place> {
    match step {
        Step::Operation(Operation::Delete { at }) => Some(at),
        _ => None,
    }
}

/// How many steps from the first on are deletions in one space with ascending keys.
pub(super) fn deletes_in_order(steps: &[Step]) -> usize {
    let mut count = steps.first().and_then(deleted).map_or(0, |_| 1);
    for pair in steps.windows(2) {
        match pair {
            [before, at] => match (deleted(before), deleted(at)) {
                (Some(before), Some(at)) if at.space == before.space && at.key > before.key => count += 1,
                _ => break,
            },
            _ => break,
        }
    }
    count
}

impl WriteTransaction<'_> {
    /// Applies deletions as [`deletes_in_order`] counts them.
    pub(super) fn delete_all(&mut self, steps: &[Step]) -> Result<()> {
        let places: Vec<&Place> = steps.iter().filter_map(deleted).collect();
        let Some(space) = places.first().map(|at| at.space) else { return Ok(()) };
        self.must_be_writable(space)?;
        self.tree(space)?;
        let keys = RecordKeys::of(places.iter().map(|at| &at.key));
        let mut changes = Vec::with_capacity(places.len());
        let mut contents = Vec::new();
        self.remove_sorted(space, &keys.as_slices(), &mut |number, value| {
            if let Some(at) = places.get(number) {
                changes.push((space, Changed::Key(at.key.clone())));
            }
            match as_record(value)?.content {
                Content::Empty => {}
                content => contents.push(content),
            }
            Ok(())
        })?;
        self.changes.append(&mut changes);
        contents.into_iter().try_for_each(|content| self.release_content(space, content))
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use bytes::Bytes;
    use proptest::prelude::*;

    use super::*;
    use crate::batch::{Batch, Durability, KeyRange, SpaceId, Version};
    use crate::changes::Event;
    use crate::content::record_key;
    use crate::engine::Engine;
    use crate::error::Refusal;
    use crate::scrub::tests::{SPACE, commit, place, put, put_large, store};

    fn delete(key: &str) -> Step {
        Step::Operation(Operation::Delete { at: place(key) })
    }

    #[test]
    fn only_ascending_keys_of_one_space_are_taken_together() {
        let elsewhere = Step::Operation(Operation::Delete { at: Place::new(SpaceId(99), "d") });
        let other = Step::Operation(Operation::Truncate { at: place("d"), length: 1 });
        assert_eq!(deletes_in_order(&[]), 0);
        assert_eq!(deletes_in_order(&[other.clone(), delete("a")]), 0);
        assert_eq!(deletes_in_order(&[delete("a"), delete("b"), delete("c")]), 3);
        assert_eq!(deletes_in_order(&[delete("b"), delete("b")]), 1);
        assert_eq!(deletes_in_order(&[delete("a"), delete("b"), delete("a"), delete("c")]), 2);
        assert_eq!(deletes_in_order(&[delete("a"), delete("b"), elsewhere, delete("e")]), 2);
        assert_eq!(deletes_in_order(&[delete("a"), delete("b"), other, delete("e")]), 2);
    }

    #[test]
    fn keys_of_many_records_are_those_of_each() {
        let keys = ["", "a", "long enough for two"].map(Bytes::from);
        let expected = keys.clone().map(|key| record_key(&key));
        assert!(RecordKeys::of(keys.iter()).as_slices().into_iter().eq(expected.iter().map(Bytes::as_ref)));
        assert!(RecordKeys::of([].iter()).as_slices().is_empty());
    }

    /// Values of all kinds.
    fn fill(engine: &Engine) {
        for number in 0..60usize {
            put(engine, &format!("{number:03}"), vec![1; [0, 20, 900, 5000][number % 4]]);
        }
        put_large(engine, "015", 300_000, 1);
        commit(engine, Operation::WriteAt { at: place("021"), offset: 9000, data: Bytes::from(vec![2; 7000]).into() });
        let (from, to) = (place("015"), place("033"));
        commit(engine, Operation::CloneRange { from, from_offset: 0, length: 200_000, to, to_offset: 0 });
    }

    fn left(engine: &Engine) -> Vec<String> {
        let view = engine.view();
        (0..70)
            .map(|number| format!("{number:03}"))
            .filter(|key| view.stat(SPACE, key.as_bytes()).unwrap().is_some())
            .collect()
    }

    /// Blocks in use once nothing waits any more.
    fn used(engine: &Engine) -> u64 {
        (0..4).for_each(|round| {
            put(engine, "~", vec![round; 10]);
            engine.checkpoint().unwrap();
        });
        let check = engine.check(&mut |_| {}).unwrap();
        assert!(check.is_sound(), "{check:?}");
        check.pieces
    }

    proptest! {
        #![proptest_config(ProptestConfig { cases: 12, ..ProptestConfig::default() })]

        #[test]
        fn a_batch_of_deletions_does_what_each_does_alone(
            mut numbers in prop::collection::vec(0u32..70, 1..60),
            sorted in any::<bool>(),
            stored in any::<bool>(),
        ) {
            if sorted {
                numbers.sort_unstable();
            }
            let keys: Vec<String> = numbers.iter().map(|number| format!("{number:03}")).collect();
            let ((_, together), (_, alone)) = (store(32 << 20), store(32 << 20));
            for engine in [&together, &alone] {
                fill(engine);
                if stored {
                    engine.checkpoint().unwrap();
                }
            }
            let from = together.view().version();
            let mut watch = together.watch(SPACE, KeyRange::all(), from).unwrap();
            let there = left(&together);
            let batch = keys.iter().fold(Batch::new(), |batch, key| batch.delete(SPACE, key.clone()));
            together.commit(batch, Durability::Sync).unwrap();
            for key in &keys {
                commit(&alone, Operation::Delete { at: place(key) });
            }
            prop_assert_eq!(left(&together), left(&alone));
            // Whoever watches is told of each key that was there, once.
            let mut told = Vec::new();
            while let Some(Event::Changed { version, keys }) = watch.next(Duration::ZERO).unwrap() {
                prop_assert_eq!(version, Version(from.0 + 1));
                told.push(String::from_utf8(keys.as_single().unwrap().to_vec()).unwrap());
            }
            told.sort();
            let gone = there.into_iter().filter(|key| keys.contains(key));
            prop_assert!(gone.eq(told));
            prop_assert_eq!(used(&together), used(&alone));
        }
    }

    #[test]
    fn a_snapshot_refuses_the_first_of_them() {
        let (_, engine) = store(16 << 20);
        fill(&engine);
        let snapshot = SpaceId(77);
        commit(&engine, Operation::SnapshotSpace { from: SPACE, to: snapshot });
        let batch =
            Batch::new().delete(SPACE, "003").delete(SPACE, "004").delete(snapshot, "005").delete(snapshot, "006");
        let refused = engine.commit(batch, Durability::Sync).unwrap_err();
        assert_eq!(refused.refusal(), Some(Refusal::Operation(2)));
        assert_eq!(left(&engine).len(), 60);
        let batch = Batch::new().delete(SPACE, "003").delete(SpaceId(78), "004").delete(SpaceId(78), "005");
        assert_eq!(engine.commit(batch, Durability::Sync).unwrap_err().refusal(), Some(Refusal::Operation(1)));
        // The snapshot keeps what goes from the space.
        let batch = (0..60).fold(Batch::new(), |batch, number| batch.delete(SPACE, format!("{number:03}")));
        engine.commit(batch, Durability::Sync).unwrap();
        assert!(left(&engine).is_empty() && engine.view().stat(snapshot, b"015").unwrap().is_some());
        assert!(used(&engine) > 0);
    }
}
