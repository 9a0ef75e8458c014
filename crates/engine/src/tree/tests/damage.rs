//! Nodes that were changed on the device, or never were nodes.

use super::*;

proptest! {
    #![proptest_config(ProptestConfig { cases: 24, ..ProptestConfig::default() })]

    #[test]
    fn damage_of_a_node_is_found(flips in prop::collection::vec((any::<prop::sample::Index>(), 1u8..), 1..4), fixed in any::<bool>()) {
        let disk = Disk::default();
        let mut tree = Tree::new();
        for number in 0..400 {
            tree.insert(&mut Edit::new(&disk, Version(1)), key_of(number, true), value_of(number as u8, 40)).unwrap();
        }
        let at = write_dirty(&tree, stamp(Generation(3)), &mut Sink(&disk)).unwrap().unwrap();
        for (start, bytes) in disk.nodes.lock().iter() {
            let whole = crate::tree::layout::reference(bytes, *start, Generation(3));
            let mut wrong = bytes.to_vec();
            for (index, flip) in &flips {
                // Half of the time only where something is written, to reach the checks behind the checksum.
                let reach = if fixed { wrong.len().min(300) } else { wrong.len() };
                wrong[index.index(reach)] ^= flip;
            }
            if wrong == *bytes {
                continue;
            }
            let named = if fixed { seal(&mut wrong, *start, Generation(3)) } else { whole };
            match Node::decode(wrong.into(), &named, STORE) {
                Ok(_) => prop_assert!(fixed),
                Err(error) => {
                    prop_assert_eq!(error.kind(), ErrorKind::Damaged);
                    let place = format!("block {start}");
                    prop_assert!(error.message().contains(&place));
                }
            }
        }
        let bytes = disk.nodes.lock()[&at.start_block].clone();
        for (other, store) in [
            (NodeRef { birth: Generation(4), ..at }, STORE),
            (NodeRef { checksum: 0, ..at }, STORE),
            (NodeRef { blocks: at.blocks + 1, ..at }, STORE),
            (at, StoreId(1)),
        ] {
            prop_assert!(Node::decode(bytes.clone(), &other, store).is_err());
        }
    }

    #[test]
    fn noise_is_no_node(bytes in prop::collection::vec(any::<u8>(), 0..200)) {
        let mut block = vec![0; BLOCK_LEN];
        block[..8].copy_from_slice(&[b'N', b'O', b'D', b'E', 0, 1 + (bytes.len() % 2) as u8, (bytes.len() % 2) as u8, 0]);
        block[8] = 2;
        block[12..14].copy_from_slice(&(bytes.len() as u16).to_le_bytes());
        block[16..24].copy_from_slice(&5u64.to_le_bytes());
        block[24..32].copy_from_slice(&STORE.0.to_le_bytes());
        block[NODE_HEADER_LEN..NODE_HEADER_LEN + bytes.len()].copy_from_slice(&bytes);
        let at = seal(&mut block, 9, Generation(5));
        if let Err(error) = Node::decode(block.into(), &at, STORE) {
            prop_assert_eq!(error.kind(), ErrorKind::Damaged);
        }
    }
}
