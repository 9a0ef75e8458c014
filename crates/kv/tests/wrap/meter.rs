//! What is counted: every call, its bytes, its error and its time.

use std::sync::Arc;
use std::time::Duration;

use koine_env::SimulatedClock;
use koine_kv::wrap::{Call, Calls, Fault, Faults, Meter};
use koine_kv::{
    Batch, Condition, Direction, Durability, ErrorKind, KeyRange, Kv, MemoryKv, Operation, Payload, Place, SpaceId,
    StageHint, Version,
};

const SPACE: SpaceId = SpaceId::FIRST;

/// A meter over calls that each take three milliseconds.
fn meter() -> Meter {
    let clock = Arc::new(SimulatedClock::default());
    let delay = Duration::from_millis(3);
    let late = Faults { calls: Calls::all_but(&[Call::Submit]), delays: 1000, delay, ..Faults::default() };
    let slow = Fault::new(Arc::new(MemoryKv::default()), late, clock.clone());
    Meter::with(Arc::new(slow), clock)
}

#[test]
fn every_call_is_counted_with_its_bytes_and_its_time() {
    let meter = meter();
    let commit = |batch: Batch| meter.commit(batch, Durability::Memory);
    commit(Batch::new().then(Operation::CreateSpace { space: SPACE })).expect("a space");
    commit(Batch::new().put(SPACE, "k", "12345")).expect("a put");
    meter.submit(Batch::new().put(SPACE, "l", "1234567"), Durability::Memory).wait().expect("a put");
    assert_eq!(meter.get(SPACE, b"k").expect("a get").as_deref(), Some(&b"12345"[..]));
    let mut stage = meter.stage(StageHint::default()).expect("a stage");
    stage.write(&[7; 1000]).expect("a piece");
    stage.write(&[7; 11]).expect("a piece");
    let value = Payload::Stage(stage.finish().expect("a token"));
    commit(Batch::new().then(Operation::Put { at: Place::new(SPACE, "m"), value })).expect("a put");
    let view = meter.view().expect("a view");
    assert!(view.has_space(SPACE).expect("has_space") && view.spaces(SPACE, 9).expect("spaces").len() == 1);
    assert!(view.stat(SPACE, b"k").expect("stat").is_some());
    assert_eq!(view.read(SPACE, b"m", 1, &mut [0; 100]).expect("read"), 100);
    view.read_now(SPACE, b"m", 1, &mut [0; 10]).expect("read_now");
    assert_eq!(view.bytes(SPACE, b"m", 1000, 100).expect("bytes").len(), 11);
    let mut cursor = view.cursor(SPACE, KeyRange::all(), Direction::Forward).expect("a cursor");
    cursor.seek(b"k").expect("seek");
    while cursor.next().expect("the next entry").is_some() {}
    let mut watch = meter.watch(SPACE, KeyRange::all(), Version(0)).expect("a watch");
    assert!(watch.next(Duration::ZERO).expect("an event").is_some());
    meter.usage().expect("usage");
    meter.sync().expect("sync");
    meter.close().expect("close");
    let snapshot = meter.snapshot();
    let counted: Vec<_> = snapshot.calls.iter().map(|of| (of.call, of.count, of.bytes)).collect();
    let expected = [
        (Call::View, 1, 0),
        (Call::Get, 1, 5),
        (Call::Stage, 1, 0),
        (Call::Submit, 1, 7),
        (Call::Commit, 3, 5),
        (Call::Watch, 1, 0),
        (Call::Usage, 1, 0),
        (Call::Sync, 1, 0),
        (Call::Close, 1, 0),
        (Call::HasSpace, 1, 0),
        (Call::Spaces, 1, 0),
        (Call::Stat, 1, 0),
        (Call::Read, 1, 100),
        (Call::ReadNow, 1, 10),
        (Call::Bytes, 1, 11),
        (Call::Cursor, 1, 0),
        (Call::Next, 4, 3 + 5 + 7 + 1011),
        (Call::Seek, 1, 0),
        (Call::Write, 2, 1011),
        (Call::Finish, 1, 0),
        (Call::Event, 1, 0),
    ];
    assert_eq!(counted, expected);
    for of in &snapshot.calls {
        assert_eq!(of.errors, [], "{}", of.call);
        // One step of a cursor in 16 is timed, a batch that is not waited for has no delay here.
        let timed = if of.call == Call::Next { 1 } else { of.count };
        let each = if of.call == Call::Submit { Duration::ZERO } else { Duration::from_millis(3) };
        assert_eq!((of.latency.count(), of.latency.mean(), of.latency.longest()), (timed, each, each), "{}", of.call);
        assert_eq!(of.latency.quantile(0.99), each);
    }
    let table = snapshot.to_string();
    assert!(table.lines().count() == 22 && table.contains("cursor.next"), "{table}");
}

#[test]
fn errors_are_counted_by_kind_and_snapshots_can_be_subtracted() {
    let meter = meter();
    let refused = || Batch::new().when(Condition::Present { space: SPACE, key: "k".into() });
    assert!(meter.commit(refused(), Durability::Memory).is_err());
    let first = meter.snapshot();
    let tickets: Vec<_> = (0..3).map(|_| meter.submit(refused(), Durability::Memory)).collect();
    assert!(tickets.into_iter().all(|ticket| ticket.wait().is_err()));
    assert!(meter.commit(refused(), Durability::Memory).is_err());
    assert!(meter.commit(Batch::new().put(SPACE, vec![b'x'; 5000], ""), Durability::Memory).is_err());
    let errors = |snapshot: &koine_kv::wrap::Snapshot, call| snapshot.of(call).map(|of| of.errors.clone());
    let (now, since) = (meter.snapshot(), meter.snapshot().since(&first));
    assert_eq!(errors(&now, Call::Submit), Some(vec![(ErrorKind::Refused, 3)]));
    assert_eq!(errors(&now, Call::Commit), Some(vec![(ErrorKind::Refused, 2), (ErrorKind::Invalid, 1)]));
    assert_eq!(errors(&since, Call::Commit), Some(vec![(ErrorKind::Refused, 1), (ErrorKind::Invalid, 1)]));
    let commits = since.of(Call::Commit).expect("two");
    assert_eq!((commits.count, commits.latency.count(), commits.latency.mean()), (2, 2, Duration::from_millis(3)));
    assert!(now.since(&now).calls.is_empty());
}

#[test]
fn threads_lose_no_count() {
    let meter = Meter::new(Arc::new(MemoryKv::default()));
    std::thread::scope(|scope| {
        for _ in 0..20 {
            scope.spawn(|| (0..500).for_each(|_| assert!(meter.get(SPACE, b"k").expect("a get").is_none())));
        }
    });
    let snapshot = meter.snapshot();
    let gets = snapshot.of(Call::Get).expect("gets");
    assert_eq!((gets.count, gets.latency.count(), gets.bytes), (10_000, 10_000, 0));
}
