//! What is injected: how much of it, when, and what of the call happened.

use std::sync::Arc;
use std::time::Duration;

use koine_env::{Clock, SimulatedClock};
use koine_kv::wrap::{Call, Calls, Fault, Faults, Injected};
use koine_kv::{Batch, Durability, ErrorKind, Kv, MemoryKv, Operation, SpaceId, StageHint, Wait};

const SPACE: SpaceId = SpaceId::FIRST;

fn fault(faults: Faults) -> (Fault, Arc<MemoryKv>) {
    let memory = Arc::new(MemoryKv::default());
    memory.commit(Batch::new().then(Operation::CreateSpace { space: SPACE }), Durability::Memory).expect("a space");
    (Fault::new(memory.clone(), faults, Arc::new(SimulatedClock::default())), memory)
}

fn value(kv: &dyn Kv) -> Option<bytes::Bytes> {
    kv.get(SPACE, b"k").expect("a get")
}

#[test]
fn an_error_is_told_instead_and_a_lost_answer_after() {
    let commits = Calls::of(&[Call::Submit]);
    let (fault, memory) = fault(Faults { calls: commits, errors: 1000, ..Faults::default() });
    let put = |value: &'static str| Batch::new().put(SPACE, "k", value);
    let error = fault.commit(put("a"), Durability::Memory).expect_err("injected");
    assert_eq!((error.kind(), error.message()), (ErrorKind::Busy, "injected: submit was not done"));
    assert!(fault.submit(put("a"), Durability::Memory, Wait::Never).wait().is_err());
    assert_eq!(value(&*memory), None);

    fault.set(Faults { calls: commits, lost: 1000, kind: ErrorKind::Device, ..Faults::default() });
    let error = fault.commit(put("b"), Durability::Memory).expect_err("injected");
    assert_eq!((error.kind(), error.message()), (ErrorKind::Device, "injected: submit was done, and its answer lost"));
    assert_eq!(value(&fault).as_deref(), Some(&b"b"[..]));
    assert!(fault.submit(put("c"), Durability::Memory, Wait::Never).wait().is_err());
    assert_eq!(value(&fault).as_deref(), Some(&b"c"[..]));
    assert_eq!(fault.injected(), Injected { errors: 2, lost: 2, delays: 0 });
}

#[test]
fn every_call_can_fail_and_only_those_asked_for_do() {
    for call in Call::ALL {
        let (fault, _) = fault(Faults { calls: Calls::of(&[call]), errors: 1000, most: 1, ..Faults::default() });
        let mut failed = Vec::new();
        let mut note = |call: Call, failure: Option<koine_kv::Error>| {
            if failure.is_some_and(|error| error.kind() == ErrorKind::Busy) {
                failed.push(call);
            }
        };
        let batch = || Batch::new().put(SPACE, "k", "v");
        note(Call::Submit, fault.commit(batch(), Durability::Memory).err());
        note(Call::Submit, fault.submit(batch(), Durability::Memory, Wait::Never).wait().err());
        note(Call::Lookup, fault.get(SPACE, b"k").err());
        note(Call::Usage, fault.usage().err());
        note(Call::Sync, fault.sync().err());
        let (mut stage, mut second) = (fault.stage(StageHint::default()), fault.stage(StageHint::default()));
        note(Call::Stage, stage.as_ref().err().cloned());
        note(Call::Write, stage.as_mut().ok().and_then(|stage| stage.write(b"piece").err()));
        note(Call::Finish, second.as_mut().ok().map(|_| ()).and(second.ok()).and_then(|stage| stage.finish().err()));
        let mut watch = fault.watch(SPACE, koine_kv::KeyRange::all(), koine_kv::Version(0));
        note(Call::Watch, watch.as_ref().err().cloned());
        note(Call::Event, watch.as_mut().ok().and_then(|watch| watch.next(Duration::ZERO).err()));
        let view = fault.view();
        note(Call::View, view.as_ref().err().cloned());
        if let Ok(view) = view {
            note(Call::Spaces, view.spaces(SPACE, 9).err());
            note(Call::Read, view.read(SPACE, b"k", 0, &mut [0; 4]).err());
            let mut cursor = view.cursor(SPACE, koine_kv::KeyRange::all(), koine_kv::Direction::Forward);
            note(Call::Cursor, cursor.as_ref().err().cloned());
            note(Call::Next, cursor.as_mut().ok().and_then(|cursor| cursor.next().err()));
            note(Call::Seek, cursor.as_mut().ok().and_then(|cursor| cursor.seek(b"k").err()));
        }
        note(Call::Close, fault.close().err());
        assert_eq!(failed, [call], "only {call} should fail");
        assert_eq!(fault.injected().errors, 1, "{call}");
    }
}

#[test]
fn the_same_seed_gives_the_same_faults_in_about_the_asked_number() {
    let run = |seed| {
        let faults = Faults { seed, errors: 200, lost: 100, ..Faults::default() };
        let (fault, _) = fault(faults);
        let outcomes: Vec<_> = (0..2000).map(|_| fault.usage().err().map(|error| error.message().to_owned())).collect();
        (outcomes, fault.injected())
    };
    let (outcomes, injected) = run(3);
    assert_eq!((&outcomes, injected), (&run(3).0, run(3).1));
    assert_ne!(outcomes, run(4).0);
    assert!((300..500).contains(&injected.errors) && (130..270).contains(&injected.lost), "{injected:?}");
}

#[test]
fn delays_pass_on_the_clock_and_faults_end() {
    let clock = Arc::new(SimulatedClock::default());
    let (delays, delay) = (1000, Duration::from_secs(3));
    let fault = Fault::new(Arc::new(MemoryKv::default()), Faults { delays, delay, ..Faults::default() }, clock.clone());
    fault.sync().expect("only late");
    fault.sync().expect("only late");
    assert_eq!((clock.monotonic(), fault.injected().delays), (Duration::from_secs(6), 2));
    fault.set(Faults { errors: 1000, most: 3, ..Faults::default() });
    assert_eq!((0..10).filter(|_| fault.sync().is_err()).count(), 3);
}
