//! Repeating: what is repeated, how often, after which pauses, and that nothing happens twice.

use std::sync::Arc;
use std::sync::mpsc;
use std::time::Duration;

use koine_env::{Clock, SeededRandom, SimulatedClock};
use koine_kv::wrap::{Call, Calls, Fault, Faults, Retry, RetryOptions};
use koine_kv::{
    Batch, Direction, Durability, ErrorKind, KeyRange, Kv, Lookup, MemoryKv, Operation, Payload, Place, RequestId,
    SpaceId, StageHint, Wait,
};

const SPACE: SpaceId = SpaceId::FIRST;

struct Stand {
    memory: Arc<MemoryKv>,
    fault: Arc<Fault>,
    clock: Arc<SimulatedClock>,
    retry: Arc<Retry>,
}

/// A retry over faults that are yet to be set.
fn stand() -> Stand {
    let memory = Arc::new(MemoryKv::default());
    memory.commit(Batch::new().then(Operation::CreateSpace { space: SPACE }), Durability::Memory).expect("a space");
    let clock = Arc::new(SimulatedClock::default());
    let fault = Arc::new(Fault::new(memory.clone(), Faults::default(), clock.clone()));
    let options =
        RetryOptions { attempts_max: 5, pause_min: Duration::from_millis(8), pause_max: Duration::from_millis(50) };
    let random = Arc::new(SeededRandom::new(1));
    let retry = Arc::new(Retry::with(fault.clone(), options, clock.clone(), random));
    Stand { memory, fault, clock, retry }
}

impl Stand {
    /// The next so many of these calls fail, or lose their answers.
    fn next(&self, calls: &[Call], errors: u64, lost: u64) {
        let most = errors + lost;
        let (errors, lost) = (if errors > 0 { 1000 } else { 0 }, if lost > 0 { 1000 } else { 0 });
        self.fault.set(Faults { calls: Calls::of(calls), errors, lost, most, ..Faults::default() });
    }

    fn counter(&self) -> i64 {
        let value = self.memory.get(SPACE, b"n").expect("a get");
        value.map_or(0, |value| i64::from_le_bytes(value.as_ref().try_into().expect("eight bytes")))
    }
}

fn add() -> Batch {
    Batch::new().then(Operation::AddCounter { at: Place::new(SPACE, "n"), delta: 1 })
}

#[test]
fn a_lost_answer_is_asked_for_again_and_nothing_happens_twice() {
    let stand = stand();
    stand.next(&[Call::Submit], 0, 3);
    let commit = stand.retry.commit(add(), Durability::Sync).expect("the fourth answer arrives");
    assert!(!commit.repeated, "the caller asked once");
    assert_eq!(stand.counter(), 1);
    stand.next(&[Call::Submit], 0, 3);
    let second = stand.retry.submit(add(), Durability::Sync, Wait::Never).wait().expect("the fourth answer arrives");
    assert!(!second.repeated && second.version > commit.version);
    assert_eq!(stand.counter(), 2);
    // With an id of the caller's it is told from a repeat of the caller's, however many answers are lost.
    let named = add().with_request(RequestId([9; 16]));
    for expected in [false, true, true] {
        stand.next(&[Call::Submit], 0, 2);
        assert_eq!(stand.retry.commit(named.clone(), Durability::Sync).expect("an answer").repeated, expected);
        assert_eq!(stand.counter(), 3);
    }
    stand.next(&[Call::Submit], 0, 2);
    assert!(stand.retry.submit(named, Durability::Sync, Wait::Never).wait().expect("an answer").repeated);
}

#[test]
fn the_attempts_are_bounded_and_their_pauses_grow() {
    let stand = stand();
    let before = stand.clock.monotonic();
    stand.next(&[Call::Usage], u64::MAX, 0);
    let error = stand.retry.usage().expect_err("it never helps");
    assert_eq!((error.kind(), error.message()), (ErrorKind::Busy, "tried 5 times: injected: usage was not done"));
    assert_eq!(stand.fault.injected().errors, 5);
    // 8, 16, 32 and 50 ms, each at least a half of it.
    let paused = stand.clock.monotonic() - before;
    let (least, most) = (Duration::from_millis(53), Duration::from_millis(106));
    assert!((least..=most).contains(&paused), "{paused:?}");
    // A batch that was never done may be asked for anew.
    stand.next(&[Call::Submit], 5, 0);
    stand.retry.commit(add(), Durability::Sync).expect_err("five errors");
    stand.retry.commit(add(), Durability::Sync).expect("no error is left");
    assert_eq!(stand.counter(), 1);
}

#[test]
fn what_does_not_pass_is_not_repeated() {
    let stand = stand();
    for kind in [ErrorKind::Full, ErrorKind::Expired, ErrorKind::Stopped, ErrorKind::Damaged, ErrorKind::Device] {
        stand.fault.set(Faults { errors: 1000, kind, ..Faults::default() });
        let before = stand.fault.injected().errors;
        assert_eq!(stand.retry.commit(add(), Durability::Memory).expect_err("an error").kind(), kind);
        assert_eq!(
            stand.retry.submit(add(), Durability::Memory, Wait::Never).wait().expect_err("an error").kind(),
            kind
        );
        assert_eq!(stand.fault.injected().errors - before, 2, "{kind:?}");
    }
    assert_eq!(stand.counter(), 0);
}

#[test]
fn batches_of_a_thread_wait_for_those_before_them() {
    let stand = stand();
    stand.next(&[Call::Submit], 3, 0);
    let (sender, receiver) = mpsc::channel();
    for number in 0..2000 {
        let sender = sender.clone();
        let told = move |outcome| sender.send((number, outcome)).expect("the receiver waits");
        stand.retry.submit(add(), Durability::Memory, Wait::Never).on_done(told);
    }
    // A commit of the same thread comes after them.
    let last = stand.retry.commit(add(), Durability::Memory).expect("a commit");
    stand.retry.close().expect("close");
    drop(sender);
    let versions: Vec<_> = receiver
        .iter()
        .map(|(number, outcome): (u32, koine_kv::Result<koine_kv::Commit>)| {
            (number, outcome.expect("a commit").version)
        })
        .collect();
    assert_eq!(versions.len(), 2000);
    assert!(versions.is_sorted_by(|a, b| a.0 < b.0 && a.1 < b.1) && versions[1999].1 < last.version);
    assert_eq!(stand.fault.injected().errors, 3);
}

#[test]
fn a_view_stays_its_version_while_its_reads_are_repeated() {
    let stand = stand();
    for number in 0..20 {
        stand
            .memory
            .commit(Batch::new().put(SPACE, format!("k{number:02}"), "old"), Durability::Memory)
            .expect("a put");
    }
    let view = stand.retry.view().expect("a view");
    stand
        .memory
        .commit(Batch::new().put(SPACE, "k00", "newer").delete(SPACE, "k07"), Durability::Memory)
        .expect("a commit");
    for direction in [Direction::Forward, Direction::Backward] {
        let mut cursor = view.cursor(SPACE, KeyRange::new("k05", "k15"), direction).expect("a cursor");
        let mut keys = Vec::new();
        loop {
            // The answer to every step is lost once: the entry that it took is met all the same.
            stand.next(&[Call::Next, Call::Seek], 0, 1);
            let Some(entry) = cursor.next().expect("the next entry") else { break };
            keys.push(String::from_utf8(entry.key.to_vec()).expect("text"));
        }
        let mut expected: Vec<_> = (5..15).map(|number| format!("k{number:02}")).collect();
        if direction == Direction::Backward {
            expected.reverse();
        }
        assert_eq!(keys, expected);
        stand.next(&[Call::Next, Call::Seek], 1, 0);
        cursor.seek(b"k09").expect("seek");
        stand.next(&[Call::Next], 1, 0);
        assert_eq!(cursor.next().expect("the next entry").expect("k09").key.as_ref(), b"k09");
    }
    stand.next(&[Call::Lookup], 2, 0);
    assert_eq!(view.bytes(SPACE, b"k00", 0, 9).expect("bytes").as_ref(), b"old");
    stand.next(&[Call::Read], 1, 0);
    let paused = stand.clock.monotonic();
    assert_eq!(view.read_into(SPACE, b"k00", 0, &mut [0; 9], Wait::Never).expect("no error"), None);
    stand.next(&[Call::Lookup], 1, 0);
    assert_eq!(view.lookup(SPACE, b"k00", 0, 9, Wait::Never).expect("no error"), Lookup::WouldWait);
    assert_eq!(stand.clock.monotonic(), paused, "it must not wait");
    // Where the owner took it back nothing newer is shown instead.
    stand.fault.set(Faults { errors: 1000, kind: ErrorKind::Expired, ..Faults::default() });
    assert_eq!(view.stat(SPACE, b"k00").expect_err("expired").kind(), ErrorKind::Expired);
}

#[test]
fn pieces_of_a_stage_are_taken_once_and_its_end_is_not_repeated() {
    let stand = stand();
    let mut stage = stand.retry.stage(StageHint::default()).expect("a stage");
    for (errors, lost) in [(0, 1), (2, 0), (0, 1), (1, 0)] {
        stand.next(&[Call::Write], errors, lost);
        stage.write(b"piece").expect("taken once");
    }
    let at = Place::new(SPACE, "k");
    let token = stage.finish().expect("a token");
    let put = Batch::new().then(Operation::Put { at, value: Payload::Stage(token) });
    stand.next(&[Call::Submit], 0, 1);
    stand.retry.commit(put, Durability::Memory).expect("the repeat of a taken stage gets its outcome");
    assert_eq!(stand.memory.get(SPACE, b"k").expect("a get").as_deref(), Some(&b"piecepiecepiecepiece"[..]));
    let stage = stand.retry.stage(StageHint::default()).expect("a stage");
    stand.next(&[Call::Finish], 1, 0);
    assert_eq!(stage.finish().expect_err("told as it is").kind(), ErrorKind::Busy);
}
