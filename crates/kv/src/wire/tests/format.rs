//! Bytes as docs/wire.md tells them: what goes in comes out, and nothing is too strange to be refused.

use std::time::Duration;

use bytes::Bytes;
use koine_engine::{
    Batch, Condition, Durability, KeyRange, Operation, Payload, Place, RequestId, Result, Sources, SpaceId, StageHint,
    StageToken, Version,
};
use koine_env::{Random, SeededRandom};
use proptest::prelude::*;

use crate::seam::Direction;
use crate::wire::fields::Fields;
use crate::wire::frame::{Shared, request_header};
use crate::wire::fuzzing;
use crate::wire::request::{Request, Rule, without_stages};

/// The examples of docs/wire.md.
#[test]
fn frames_are_as_documented() {
    let document = include_str!("../../../../../docs/wire.md");
    let request = Request::Store {
        at: Place::new(SpaceId(16), "k"),
        rule: Rule::MustNotExist,
        durability: Durability::Sync,
        request: Some(RequestId([0xAB; 16])),
    };
    let retrieve =
        Request::Retrieve { view: 0, at: Place::new(SpaceId(16), "k"), offset: 4096, length: 65_536, into: None };
    let batch = Batch::new()
        .when(Condition::VersionIs { space: SpaceId(16), key: "k".into(), version: Version(7) })
        .put(SpaceId(16), "k", "value")
        .then(Operation::AddCounter { at: Place::new(SpaceId(17), "n"), delta: -1 });
    let submit = Request::Submit { batch, durability: Durability::Written };
    let share = Request::Share { to_server: 67_108_864, to_client: 67_108_864 };
    let shared = Some(Shared { offset: 8192, length: 65_536 });
    let into =
        Request::Retrieve { view: 0, at: Place::new(SpaceId(16), "k"), offset: 0, length: 65_536, into: Some(4096) };
    let mut missing = Vec::new();
    for (id, request, data, shared) in [
        (1, request.clone(), &b"value"[..], None),
        (2, retrieve, b"", None),
        (3, submit, b"", None),
        (3, share, b"", None),
        (4, request, &8192_u64.to_le_bytes(), shared),
        (5, into, b"", None),
    ] {
        let message = request.encode(&without_stages).unwrap();
        let bytes = [&request_header(request.verb(), id, &message, data, shared)[..], &message, data].concat();
        let hex: Vec<String> = bytes.iter().map(|byte| format!("{byte:02x}")).collect();
        let lines: Vec<String> = hex.chunks(32).map(|line| line.join(" ")).collect();
        if !document.contains(&lines.join("\n")) {
            missing.push(lines.join("\n"));
        }
    }
    assert!(missing.is_empty(), "docs/wire.md lacks\n{}", missing.join("\n\n"));
}

fn no_stage(_number: u64) -> Result<StageToken> {
    unreachable!()
}

fn any_bytes(most: usize) -> impl Strategy<Value = Bytes> {
    prop::collection::vec(any::<u8>(), 0..most).prop_map(Bytes::from)
}

fn any_place() -> impl Strategy<Value = Place> {
    (any::<u64>(), any_bytes(40)).prop_map(|(space, key)| Place { space: SpaceId(space), key })
}

fn any_range() -> impl Strategy<Value = KeyRange> {
    (any_bytes(20), prop::option::of(any_bytes(20))).prop_map(|(start, end)| KeyRange { start, end })
}

fn any_condition() -> impl Strategy<Value = Condition> {
    (0..5, any_place(), any_range(), any::<u64>()).prop_map(|(which, Place { space, key }, range, version)| {
        let version = Version(version);
        match which {
            0 => Condition::Absent { space, key },
            1 => Condition::Present { space, key },
            2 => Condition::VersionIs { space, key, version },
            3 => Condition::RangeEmpty { space, range },
            _ => Condition::RangeUnchanged { space, range, since: version },
        }
    })
}

fn any_operation() -> impl Strategy<Value = Operation> {
    let numbers = (any::<u64>(), any::<u64>(), any::<u64>(), any::<i64>());
    (0..15, any_place(), any_place(), any_range(), any_bytes(300), numbers).prop_map(
        |(which, at, to, range, data, (offset, length, other, delta))| match which {
            0 => Operation::Put { at, value: Payload::Bytes(data) },
            1 => Operation::WriteAt { at, offset, data: Payload::Bytes(data) },
            2 => Operation::Append { at, data: Payload::Bytes(data) },
            3 => Operation::Truncate { at, length },
            4 => Operation::Delete { at },
            5 => Operation::DeleteRange { space: at.space, range },
            6 => Operation::Rename { from: at, to },
            7 => Operation::RenamePrefix { space: at.space, from: at.key, to: to.key },
            8 => Operation::CloneRange { from: at, from_offset: offset, length, to, to_offset: other },
            9 => {
                let fate = if delta < 0 { Sources::Delete } else { Sources::Keep };
                Operation::Concatenate { sources: vec![at.clone(), to, at.clone()], target: at, fate }
            }
            10 => Operation::AddCounter { at, delta },
            11 => Operation::CreateSpace { space: at.space },
            12 => Operation::DropSpace { space: at.space },
            13 => Operation::CloneSpace { from: at.space, to: to.space },
            _ => Operation::SnapshotSpace { from: at.space, to: to.space },
        },
    )
}

proptest! {
    #[test]
    fn batches_come_out_as_they_went_in(
        conditions in prop::collection::vec(any_condition(), 0..10),
        operations in prop::collection::vec(any_operation(), 0..20),
        request in prop::option::of(any::<[u8; 16]>()),
    ) {
        let batch = Batch { conditions, operations, request: request.map(RequestId) };
        let sent = Request::Submit { batch, durability: Durability::Written };
        let message = Bytes::from(sent.encode(&without_stages).unwrap());
        let got = Request::decode(sent.verb(), Fields::new(message.clone()), &mut no_stage).unwrap().unwrap();
        prop_assert_eq!(format!("{sent:?}"), format!("{got:?}"));
        // A part of it is no message.
        for end in [message.len() / 2, message.len() - 1] {
            let part = Fields::new(message.slice(..end));
            prop_assert!(Request::decode(sent.verb(), part, &mut no_stage).is_err());
        }
    }

    #[test]
    fn other_requests_come_out_as_they_went_in(
        at in any_place(), range in any_range(), numbers in any::<[u64; 3]>(), small in any::<[u32; 2]>(),
        seed in any::<[u8; 32]>(), backward in any::<bool>(),
    ) {
        let [view, offset, other] = numbers;
        let direction = if backward { Direction::Backward } else { Direction::Forward };
        let hint = StageHint { length: backward.then_some(offset), reserved: backward, ..StageHint::default() };
        let timeout = Duration::from_millis(u64::from(small[0]));
        for sent in [
            Request::Hello { protocol: small[0], nonce: seed },
            Request::Prove { proof: seed },
            Request::Retrieve { view, at: at.clone(), offset, length: small[0], into: None },
            Request::Retrieve { view, at: at.clone(), offset, length: small[0], into: Some(other) },
            Request::Share { to_server: offset, to_client: other },
            Request::Delete { at: at.clone(), rule: Rule::MustExist, durability: Durability::Memory, request: None },
            Request::Exist { view, at: at.clone() },
            Request::List { view, space: at.space, range: range.clone(), direction, entries: small[0], bytes: small[1] },
            Request::OpenView { view },
            Request::CloseView { view },
            Request::HasSpace { view, space: at.space },
            Request::Spaces { view, from: at.space, most: small[1] },
            Request::OpenStage { stage: view, hint },
            Request::WriteStage { stage: view },
            Request::FinishStage { stage: view },
            Request::DropStage { stage: view },
            Request::OpenWatch { watch: view, space: at.space, range, from: Version(other) },
            Request::NextEvent { watch: view, timeout },
            Request::CloseWatch { watch: view },
            Request::Usage,
            Request::Sync,
        ] {
            let message = Bytes::from(sent.encode(&without_stages).unwrap());
            let got = Request::decode(sent.verb(), Fields::new(message), &mut no_stage).unwrap().unwrap();
            prop_assert_eq!(format!("{sent:?}"), format!("{got:?}"));
        }
    }
}

/// What both sides read, given anything at all.
#[test]
fn no_bytes_are_too_strange_to_be_refused() {
    let random = SeededRandom::new(11);
    let verbs = [
        1, 2, 3, 6, 0x10, 0x14, 0x40, 0x41, 0x44, 0x50, 0x51, 0x52, 0x53, 0x60, 0x61, 0x68, 0x70, 0x71, 0x72, 9, 0x8000,
    ];
    for turn in 0..20_000usize {
        let mut bytes = vec![0; turn % 97];
        random.fill(&mut bytes);
        // Lengths that could be right now and then.
        bytes.iter_mut().skip(turn % 5).step_by(3).for_each(|byte| *byte %= 4);
        fuzzing::request(verbs[turn % verbs.len()], &bytes);
        fuzzing::reply(&bytes);
        fuzzing::stream(&bytes);
    }
}
