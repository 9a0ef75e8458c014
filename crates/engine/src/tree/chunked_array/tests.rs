//! Runs beside a sorted map, with keys that begin alike and others.

use std::collections::BTreeMap;

use proptest::prelude::*;

use super::*;

/// Keys that sort as their numbers and begin alike: with nothing, or with few or many bytes; the first is empty.
fn key(style: u8, number: u16) -> Bytes {
    match (style, number) {
        (_, 0) => Bytes::new(),
        (0, _) => Bytes::copy_from_slice(&number.to_be_bytes()),
        (1, _) => Bytes::from(format!("a/path/that/all/keys/begin/with/{number:05}")),
        // Each is the one before and a zero more: prefixes are equal.
        (2, _) => Bytes::from(vec![0; usize::from(number)]),
        _ => Bytes::from(format!("{number:011}")),
    }
}

fn content(run: &ChunkedArray<u32>) -> Vec<(Bytes, u32)> {
    for head in &run.heads {
        let chunk = &head.chunk;
        assert!(!chunk.slots.is_empty() && chunk.len() <= CHUNK_MAX);
        assert_eq!(head.prefix, run.common.prefix(chunk.first_key()));
        let prefix = |slot: &chunk::Slot<u32>| slot.prefix == chunk.common.prefix(&slot.entry.0);
        assert!(chunk.slots.iter().all(prefix));
    }
    run.iter().cloned().collect()
}

proptest! {
    #[test]
    fn many_entries_are_taken_as_one_by_one(
        count in 0u16..300,
        keys in prop::collection::vec(0u16..300, 0..200),
        style in 0u8..4,
    ) {
        let key = |number| key(style, number);
        let all: Vec<_> = (0..count).map(|number| (key(number), u32::from(number))).collect();
        let mut keys: Vec<Bytes> = keys.into_iter().map(key).collect();
        keys.sort();
        keys.dedup();
        let slices: Vec<&[u8]> = keys.iter().map(Bytes::as_ref).collect();
        for shared in [false, true] {
            let mut run = ChunkedArray::from_sorted(all.clone());
            let held = shared.then(|| run.clone());
            let mut told = Vec::new();
            run.remove_sorted(&slices, &mut |number, entry| {
                told.push((number, entry.clone()));
                Ok(())
            }).unwrap();
            let is_gone = |entry: &&(Bytes, u32)| keys.binary_search(&entry.0).is_ok();
            prop_assert!(all.iter().filter(is_gone).eq(told.iter().map(|(_, entry)| entry)));
            prop_assert!(told.iter().all(|(number, entry)| keys[*number] == entry.0));
            prop_assert!(all.iter().filter(|entry| !is_gone(entry)).eq(content(&run).iter()));
            prop_assert!(held.is_none_or(|held| content(&held) == all));
            let small = run.heads.windows(2).filter(|pair| pair.iter().all(|head| head.chunk.len() < CHUNK_MIN));
            prop_assert_eq!(small.count(), 0);
        }
    }

    #[test]
    fn a_run_is_a_sorted_map(
        steps in prop::collection::vec((0u8..5, 0u16..300), 1..600),
        cut in 0u16..300,
        style in 0u8..4,
    ) {
        let key = |number| key(style, number);
        let mut run = ChunkedArray::new();
        let mut model = BTreeMap::new();
        for (number, (what, at)) in steps.iter().enumerate() {
            let held = run.clone();
            let before = content(&held);
            let found = run.find(&key(*at));
            prop_assert_eq!(found.is_ok(), model.contains_key(&key(*at)));
            match (what, found) {
                (0..2, Ok(spot)) => run.get_mut(spot).unwrap().1 = number as u32,
                (0..2, Err(spot)) => run.insert(spot, key(*at), number as u32),
                (4, _) if number % 8 == 0 => run.rename_first(Bytes::new()),
                (_, Ok(spot)) => prop_assert_eq!(run.remove(spot).unwrap().0, key(*at)),
                (_, Err(_)) => {}
            }
            match what {
                0..2 => drop(model.insert(key(*at), number as u32)),
                4 if number % 8 == 0 => {
                    model.pop_first().map(|(_, value)| model.insert(Bytes::new(), value));
                }
                _ => drop(model.remove(&key(*at))),
            }
            prop_assert_eq!(content(&held), before);
        }
        let whole: Vec<_> = model.clone().into_iter().collect();
        prop_assert_eq!(content(&run), whole.clone());
        prop_assert_eq!(content(&ChunkedArray::from_sorted(whole.clone())), whole.clone());
        prop_assert_eq!(run.len(), whole.len());
        for number in 0..300 {
            let below = model.range(..=key(number)).next_back().map(|(key, _)| key.clone());
            let found = run.find_covering(&key(number)).and_then(|spot| run.get(spot));
            prop_assert_eq!(found.map(|entry| entry.0.clone()), below);
        }
        let mut spot = run.start();
        for entry in &whole {
            prop_assert_eq!(run.get(spot).unwrap(), entry);
            spot = run.after(spot).unwrap();
        }
        prop_assert!(run.after(spot).is_none() && run.is_end(spot));
        let mut spot = run.end();
        for entry in whole.iter().rev() {
            spot = run.before(spot).unwrap();
            prop_assert_eq!(run.get(spot).unwrap(), entry);
        }
        prop_assert!(run.before(spot).is_none());
        let at = run.find(&key(cut)).unwrap_or_else(|spot| spot);
        let upper = run.split_off(at);
        prop_assert!(run.iter().all(|entry| entry.0 < key(cut)) && upper.iter().all(|entry| entry.0 >= key(cut)));
        run.append(upper);
        prop_assert_eq!(content(&run), whole);
    }
}
