//! Stored nodes, searched where they lie.

use super::*;
use crate::batch::SpaceId;
use crate::tree::chunked_array::{ChunkedArray, Spot};
use crate::tree::node::Entries;

/// A leaf with these keys, as it would be read from the device, and its bytes.
fn leaf(keys: &BTreeSet<Vec<u8>>) -> Node {
    let entries = keys.iter().map(|key| (Bytes::copy_from_slice(key), Value::Raw(Bytes::copy_from_slice(key))));
    let open = Node::new(0, Entries::Leaf(ChunkedArray::from_sorted(entries.collect())), Version(1));
    let bytes = open.encode(stamp(Generation(1)), SpaceId(1), true).unwrap();
    let at = crate::tree::layout::reference(&bytes, 5, Generation(1));
    Node::decode(bytes.into(), &at, STORE).unwrap()
}

/// Keys with few different bytes, so that they share beginnings, end early and contain zeros.
fn tricky_key() -> impl Strategy<Value = Vec<u8>> {
    let byte = prop_oneof![4 => Just(0u8), 4 => Just(b'a'), 1 => Just(0xff), 1 => any::<u8>()];
    prop::collection::vec(byte, 0..9)
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 96, ..ProptestConfig::default() })]

    #[test]
    fn a_search_finds_what_a_sorted_list_says(
        head in prop::collection::vec(any::<u8>(), 0..6),
        tails in prop::collection::btree_set(tricky_key(), 1..120),
        others in prop::collection::vec(tricky_key(), 0..60),
    ) {
        let whole = |tail: &Vec<u8>| [head.as_slice(), tail].concat();
        let keys: BTreeSet<Vec<u8>> = tails.iter().map(whole).collect();
        let node = leaf(&keys);
        let sorted: Vec<&Vec<u8>> = keys.iter().collect();
        let strangers = others.iter().cloned().chain(others.iter().map(whole));
        let shorter = (0..=head.len()).filter_map(|length| head.get(..length)).map(<[u8]>::to_vec);
        for key in keys.iter().cloned().chain(strangers).chain(shorter) {
            let expected = sorted.binary_search(&&key).map(Spot::at).map_err(Spot::at);
            prop_assert_eq!(node.find(&key), expected, "{:?}", key);
            let covering = sorted.partition_point(|held| **held <= key).checked_sub(1).map(Spot::at);
            prop_assert_eq!(node.covering(&key), covering);
            let held = node.find(&key).ok().and_then(|spot| node.held(spot)).map(|held| content(&held.to_value().unwrap()));
            prop_assert_eq!(held, keys.contains(&key).then(|| (0, Bytes::from(key))));
        }
    }
}

#[test]
fn many_keys_with_one_prefix_are_told_apart() {
    let keys: BTreeSet<Vec<u8>> =
        (0..300u16).map(|number| [b"x\0\0\0\0same".as_slice(), &number.to_be_bytes()].concat()).collect();
    let with_first: BTreeSet<Vec<u8>> = keys.iter().cloned().chain([b"a".to_vec()]).collect();
    for keys in [keys, with_first] {
        let node = leaf(&keys);
        for (index, key) in keys.iter().enumerate() {
            assert_eq!(node.find(key), Ok(Spot::at(index)));
            let beyond = [key.as_slice(), b"\0"].concat();
            assert_eq!(node.find(&beyond), Err(Spot::at(index + 1)));
        }
        assert_eq!(node.find(b"x"), Err(Spot::at(keys.len() - 300)));
    }
}

#[test]
fn what_it_takes_in_memory_is_its_bytes_and_little_more() {
    let keys: BTreeSet<Vec<u8>> = (0..100u32).map(|number| number.to_be_bytes().to_vec()).collect();
    let node = leaf(&keys);
    let stored = node.placed().unwrap().len_bytes();
    assert!(node.memory_len() >= stored && node.memory_len() < stored + 100 * 8 + 400, "{}", node.memory_len());
    let open = node.successor(Version(1)).unwrap();
    assert!(open.memory_len() > 100 * size_of::<Value>());
    assert_eq!((open.len(), open.encoded_len()), (node.len(), node.encoded_len()));
}
