//! Records survive a round trip; arbitrary and mutated bytes never panic.

use proptest::prelude::*;

use super::*;

fn place(space: u64, key: &'static str) -> Place {
    Place::new(SpaceId(space), key)
}

fn extent(start_block: u64) -> Extent {
    Extent {
        birth: crate::address::Generation(3),
        start_block,
        run_length: 5000,
        skip: 10,
        length: 4000,
        chunk_log2: 12,
        checksums: Arc::from([1u32, 2]),
    }
}

fn every_step() -> Vec<Step> {
    let bytes = || Payload::Bytes(Bytes::from_static(b"payload"));
    let staged = Staged::logged(9, 4096, vec![extent(300), extent(400)]);
    let stage = Payload::Stage(StageToken::new(12_096, Arc::new(staged)));
    let operations = vec![
        Operation::Put { at: place(20, "a"), value: bytes() },
        Operation::Put { at: place(20, "b"), value: stage },
        Operation::WriteAt { at: place(21, ""), offset: 1 << 40, data: bytes() },
        Operation::Append { at: place(20, "a"), data: bytes() },
        Operation::Truncate { at: place(20, "a"), length: 3 },
        Operation::Delete { at: place(20, "a") },
        Operation::DeleteRange { space: SpaceId(20), range: KeyRange::all() },
        Operation::DeleteRange { space: SpaceId(20), range: KeyRange::new("a", "b") },
        Operation::Rename { from: place(20, "a"), to: place(21, "b") },
        Operation::CloneRange { from: place(20, "a"), from_offset: 1, length: 2, to: place(20, "b"), to_offset: 3 },
        Operation::Concatenate {
            sources: vec![place(20, "a"), place(21, "b")],
            target: place(20, "c"),
            fate: Sources::Delete,
        },
        Operation::AddCounter { at: place(20, "n"), delta: -7 },
        Operation::CreateSpace { space: SpaceId(30) },
        Operation::DropSpace { space: SpaceId(30) },
    ];
    let mut steps: Vec<Step> = operations.into_iter().map(Step::Operation).collect();
    steps.push(Step::StageSlab { stage: 4, offset: 1 << 20, extents: vec![extent(500)] });
    steps.push(Step::StageDrop { stage: 4 });
    steps.push(Step::Relocate { at: place(20, "a"), offset: 4096, data: bytes() });
    steps
}

fn encoded(record: &Record) -> Vec<u8> {
    let mut out = Vec::new();
    record.encode(&mut out);
    out
}

fn samples() -> Vec<Record> {
    let request = Some(RequestId([5; 16]));
    vec![
        Record { version: Version(7), request: None, outcome: Outcome::Applied(every_step()) },
        Record { version: Version(8), request, outcome: Outcome::Applied(Vec::new()) },
        Record { version: Version(9), request, outcome: Outcome::Refused(Refusal::Condition(3)) },
        Record { version: Version(10), request, outcome: Outcome::Refused(Refusal::Operation(1)) },
    ]
}

#[test]
fn every_step_survives_a_round_trip() {
    for record in samples() {
        let bytes = encoded(&record);
        let mut reader = Reader::new(&bytes);
        let again = Record::decode(&mut reader).unwrap();
        reader.end().unwrap();
        assert_eq!(encoded(&again), bytes);
        assert_eq!(format!("{again:?}"), format!("{record:?}"));
        assert_eq!(again.extents().count(), record.extents().count());
    }
    assert_eq!(samples()[0].extents().count(), 3);
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(512))]

    #[test]
    fn arbitrary_bytes_never_panic(bytes in prop::collection::vec(any::<u8>(), 0..300)) {
        let _ = Record::decode(&mut Reader::new(&bytes));
        let _ = crate::log::group::decode(&bytes);
        let _ = crate::superblock::Superblock::decode(&bytes);
        let _ = crate::requests::decode(&bytes);
    }

    #[test]
    fn damaged_records_never_panic(at in any::<prop::sample::Index>(), flip in 1u8..=255, cut in any::<prop::sample::Index>()) {
        let mut bytes = encoded(&samples()[0]);
        let at = at.index(bytes.len());
        bytes[at] ^= flip;
        let _ = Record::decode(&mut Reader::new(&bytes));
        bytes.truncate(cut.index(bytes.len()));
        prop_assert!(Record::decode(&mut Reader::new(&bytes)).is_err() || bytes.len() > at);
    }
}
