//! Values come back from their stored form; wrong bytes never panic.

use proptest::prelude::*;

use super::*;

fn extent() -> impl Strategy<Value = Extent> {
    (0u64..1 << 40, 1u32..1 << 20, 12u8..18).prop_map(|(start_block, run_length, chunk_log2)| {
        let count = run_length.div_ceil(1 << chunk_log2);
        let skip = run_length / 3;
        let checksums = (0..count).map(|number| number.wrapping_mul(2_654_435_761)).collect();
        let birth = Generation(u64::from(skip));
        Extent { birth, start_block, run_length, skip, length: run_length - skip, chunk_log2, checksums }
    })
}

fn piece() -> impl Strategy<Value = Piece> {
    prop_oneof![
        prop::collection::vec(any::<u8>(), 0..=INLINE_LEN_MAX).prop_map(|bytes| Piece::Inline(bytes.into())),
        extent().prop_map(Piece::Disk),
        (any::<u64>(), 0u64..1 << 62, 0u64..1 << 62, 1u64..1 << 62).prop_map(|(birth, blob, first, length)| {
            Piece::Frozen(Frozen { birth: Generation(birth), blob: BlobId(blob), first, length })
        }),
    ]
}

fn lineage() -> impl Strategy<Value = Lineage> {
    prop_oneof![
        Just(Lineage::default()),
        (any::<u64>(), any::<u64>(), any::<u64>(), any::<u64>()).prop_map(|(origin, shared, dead, frozen)| Lineage {
            origin,
            shared: Generation(shared),
            dead,
            frozen: Generation(frozen)
        }),
    ]
}

fn value() -> impl Strategy<Value = Value> {
    let content = prop_oneof![
        Just(Content::Empty),
        piece().prop_map(Content::Single),
        any::<u64>().prop_map(|id| Content::Pieces(BlobId(id))),
    ];
    let node = (0u64..1 << 40, 1u16..=4, any::<u64>(), any::<u64>());
    prop_oneof![
        prop::collection::vec(any::<u8>(), 0..100).prop_map(|bytes| Value::Raw(bytes.into())),
        piece().prop_map(Value::Piece),
        (any::<u64>(), any::<u64>(), content).prop_map(|(version, size, content)| Value::Record(Record {
            version: Version(version),
            size,
            content
        })),
        (prop::option::of(node), 1u64.., any::<u64>(), any::<u32>(), lineage()).prop_map(
            |(node, len, created, flags, lineage)| {
                let tree = node.map_or_else(Tree::new, |(start_block, blocks, checksum, birth)| {
                    Tree::at(NodeRef { start_block, blocks, checksum, birth: Generation(birth) }, len)
                });
                let mut root = SpaceRoot { tree, created: Version(created), flags, lineage: None };
                root.set_lineage(lineage);
                Value::Root(root)
            }
        ),
    ]
}

proptest! {
    #[test]
    fn a_value_comes_back(value in value()) {
        let mut stored = Vec::new();
        value.encode(&mut stored).unwrap();
        prop_assert_eq!(stored.len(), value.encoded_len());
        let back = Value::decode(stored.clone().into()).unwrap();
        prop_assert_eq!(format!("{back:?}"), format!("{value:?}"));
        let mut longer = stored.clone();
        longer.push(0);
        let open_ended = matches!(&value, Value::Raw(_)) || matches!(value.piece(), Some(Piece::Inline(_)));
        prop_assert!(open_ended || Value::decode(longer.into()).is_err());
    }

    #[test]
    fn wrong_bytes_are_damage_or_another_value(value in value(), at in any::<prop::sample::Index>(), byte in any::<u8>(), cut in any::<prop::sample::Index>()) {
        let mut stored = Vec::new();
        value.encode(&mut stored).unwrap();
        let at = at.index(stored.len());
        stored[at] = byte;
        stored.truncate(cut.index(stored.len()) + 1);
        match Value::decode(stored.clone().into()) {
            Ok(other) => {
                let mut again = Vec::new();
                other.encode(&mut again).unwrap();
                prop_assert_eq!(again, stored);
            }
            Err(error) => prop_assert_eq!(error.kind(), crate::ErrorKind::Damaged),
        }
    }

    #[test]
    fn noise_is_damage_or_a_value(bytes in prop::collection::vec(any::<u8>(), 0..80)) {
        if let Err(error) = Value::decode(bytes.into()) {
            prop_assert_eq!(error.kind(), crate::ErrorKind::Damaged);
        }
    }
}

#[test]
fn a_pending_piece_needs_its_place_and_keeps_its_room() {
    let pending = Arc::new(Pending::new(Bytes::from(vec![7; 10_000])));
    let mut value = Value::Piece(Piece::Pending(Arc::clone(&pending)));
    let room = value.encoded_len();
    assert!(value.encode(&mut Vec::new()).is_err());
    let checksums = Arc::from([1, 2, 3]);
    let birth = Generation(4);
    let extent =
        Extent { birth, start_block: 9, run_length: 10_000, skip: 0, length: 10_000, chunk_log2: 12, checksums };
    assert_eq!(pending.placement.place(extent.clone()), None);
    assert_eq!(value.encoded_len(), room);
    let mut stored = Vec::new();
    value.encode(&mut stored).unwrap();
    assert!(stored.len() <= room);
    assert!(value.settles());
    value.settle();
    assert!(matches!(&value, Value::Piece(Piece::Disk(at)) if *at == extent));
    assert_eq!(extent.blocks(), BlockRange { start: 9, count: 3 });
}

proptest! {
    #[test]
    fn a_record_where_it_lies_says_what_it_says_when_taken_out(value in value(), cut in any::<prop::sample::Index>(), shared in 0usize..9) {
        use crate::tree::{Held, Stored};

        let mut encoded = vec![0xEE; shared];
        value.encode(&mut encoded).unwrap();
        let node = Bytes::from(encoded);
        let whole = Stored::of(&node).tail(shared);
        prop_assert!(Value::check(&whole).is_ok());
        let part = whole.head(cut.index(whole.as_slice().len()));
        prop_assert_eq!(Value::check(&part).is_ok(), Value::decode(part.to_bytes()).is_ok());
        let heads = [RecordHead::of(&Held::Stored(whole)), RecordHead::of(&Held::Value(&value))];
        let Value::Record(record) = &value else {
            prop_assert!(heads.iter().all(Result::is_err));
            return Ok(());
        };
        for head in heads {
            let head = head.unwrap();
            prop_assert_eq!((head.version, head.size), (record.version, record.size));
            let inline = match &record.content {
                Content::Single(Piece::Inline(bytes)) if bytes.len() as u64 == record.size => Some(bytes.clone()),
                _ => None,
            };
            prop_assert_eq!(head.bytes.as_ref().map(|bytes| Bytes::copy_from_slice(bytes.as_slice())), inline.clone());
            if let (Some(bytes), Some(inline)) = (head.bytes, inline) {
                let from = cut.index(inline.len() + 1);
                prop_assert_eq!(bytes.share(from as u64, 5), inline.slice(from..inline.len().min(from + 5)));
                prop_assert!(bytes.share(u64::MAX, usize::MAX).is_empty());
            }
        }
    }
}
