//! Each bound: what it lets through, what waits, what is told beyond it, and that places come back.

use std::sync::Arc;
use std::time::Duration;

use koine_env::{Clock, SimulatedClock};
use koine_kv::wrap::{Limit, Limits, Rate};
use koine_kv::{
    Batch, Completer, Direction, Durability, Error, ErrorKind, KeyRange, Kv, Lookup, MemoryKv, Operation, Result,
    SpaceId, StageHint, Ticket, Version, Wait, pass_on,
};
use parking_lot::Mutex;

const SPACE: SpaceId = SpaceId::FIRST;
const AT_ONCE: Limits = Limits {
    requests_max: None,
    bytes_max: None,
    views_max: None,
    stages_max: None,
    watches_max: None,
    requests_rate: None,
    bytes_rate: None,
    usage_max: None,
    wait: Duration::ZERO,
};
const LONG: Duration = Duration::from_secs(600);

/// Outcomes come when the test lets them.
struct Held {
    inner: MemoryKv,
    waiting: Mutex<Vec<(Completer, Result<koine_kv::Commit>)>>,
}

impl Held {
    fn new() -> Arc<Held> {
        let inner = MemoryKv::default();
        inner.commit(Batch::new().then(Operation::CreateSpace { space: SPACE }), Durability::Memory).expect("a space");
        Arc::new(Held { inner, waiting: Mutex::default() })
    }

    /// Tells the oldest outcome.
    fn tell(&self) {
        let (completer, outcome) = self.waiting.lock().remove(0);
        completer.complete(outcome);
    }
}

impl Kv for Held {
    pass_on!(Kv, inner: profile, view, lookup, stage, watch, usage, sync, close);

    fn submit(&self, batch: Batch, durability: Durability, wait: Wait) -> Ticket {
        if wait == Wait::Allowed {
            return self.inner.submit(batch, durability, wait);
        }
        let (ticket, completer) = Ticket::new();
        self.waiting.lock().push((completer, self.inner.commit(batch, durability)));
        ticket
    }
}

fn busy<T>(outcome: Result<T>, message: &str) {
    let error = outcome.err().expect("beyond the bound");
    assert_eq!((error.kind(), error.message()), (ErrorKind::Busy, message));
    assert!(error.retryable());
}

fn put(length: usize) -> Batch {
    Batch::new().put(SPACE, "k", vec![1; length])
}

#[test]
fn batches_under_way_are_bounded_in_number_and_in_bytes() {
    let held = Held::new();
    let limit = Limit::new(held.clone(), &Limits { requests_max: Some(2), bytes_max: Some(10_000), ..AT_ONCE });
    let first = limit.submit(put(10), Durability::Memory, Wait::Never);
    let second = limit.submit(put(10), Durability::Memory, Wait::Never);
    let message = "2 of 2 requests under way are taken, and 1 more were wanted; try again later";
    busy(limit.submit(put(10), Durability::Memory, Wait::Never).wait(), message);
    busy(limit.commit(put(10), Durability::Memory), message);
    busy(limit.get(SPACE, b"k"), message);
    busy(limit.view().map(drop), message);
    held.tell();
    assert!(first.wait().is_ok());
    assert_eq!(limit.get(SPACE, b"k").expect("a place is free").map(|value| value.len()), Some(10));
    held.tell();
    assert!(second.wait().is_ok());
    let first = limit.submit(put(6000), Durability::Memory, Wait::Never);
    let message = "6000 of 10000 bytes under way are taken, and 4001 more were wanted; try again later";
    busy(limit.commit(put(4001), Durability::Memory), message);
    limit.commit(put(4000), Durability::Memory).expect("it fits");
    held.tell();
    assert!(first.wait().is_ok());
    // What could never pass is wrong, not early; a piece that is longer than all passes alone.
    assert_eq!(limit.profile().batch_bytes_max, 10_000);
    assert_eq!(limit.commit(put(10_001), Durability::Memory).expect_err("too long").kind(), ErrorKind::Invalid);
    limit.stage(StageHint::default()).expect("a stage").write(&[0; 50_000]).expect("a piece");
}

#[test]
fn who_may_wait_is_let_in_when_a_place_is_left() {
    let held = Held::new();
    let limit = Limit::new(held.clone(), &Limits { requests_max: Some(1), wait: LONG, ..AT_ONCE });
    let first = limit.submit(put(10), Durability::Memory, Wait::Never);
    std::thread::scope(|scope| {
        let waiter = scope.spawn(|| limit.get(SPACE, b"k"));
        // Whether it waits already or comes later, it comes in.
        held.tell();
        assert_eq!(waiter.join().expect("the waiter").expect("a get").map(|value| value.len()), Some(10));
    });
    assert!(first.wait().is_ok());
    // In a callback the place is free already.
    let limit = Arc::new(limit);
    let (again, (sender, receiver)) = (Arc::clone(&limit), std::sync::mpsc::channel());
    limit
        .submit(put(10), Durability::Memory, Wait::Never)
        .on_done(move |_| sender.send(again.get(SPACE, b"k")).expect("it waits"));
    held.tell();
    assert!(receiver.recv().expect("the callback ran").is_ok());
}

#[test]
fn views_stages_and_watches_are_bounded_and_give_their_places_back() {
    let bounds = Limits { views_max: Some(2), stages_max: Some(1), watches_max: Some(1), ..AT_ONCE };
    let limit = Limit::new(Held::new(), &bounds);
    let view = limit.view().expect("a view");
    let cursor = limit.view().expect("a view").cursor(SPACE, KeyRange::all(), Direction::Forward).expect("a cursor");
    let message = "2 of 2 views are taken, and 1 more were wanted; try again later";
    busy(limit.view().map(drop), message);
    drop(view);
    drop(limit.view().expect("a place was left"));
    let last = limit.view().expect("the cursor has the other one");
    busy(limit.view().map(drop), message);
    drop((cursor, last));
    assert!(limit.view().is_ok());

    let stage = limit.stage(StageHint::default()).expect("a stage");
    busy(
        limit.stage(StageHint::default()).map(drop),
        "1 of 1 stages are taken, and 1 more were wanted; try again later",
    );
    let token = stage.finish().expect("a token");
    drop(limit.stage(StageHint::default()).expect("a finished one takes no place"));
    drop(token);
    let watch = || limit.watch(SPACE, KeyRange::all(), Version(0));
    let first = watch().expect("a watch");
    busy(watch().map(drop), "1 of 1 watches are taken, and 1 more were wanted; try again later");
    drop(first);
    assert!(watch().is_ok());
}

#[test]
fn rates_are_kept_on_the_clock() {
    let clock = Arc::new(SimulatedClock::default());
    let rate = |per_second, burst| Some(Rate { per_second, burst });
    let bounds = Limits { requests_rate: rate(10, 5), wait: LONG, ..AT_ONCE };
    let limit = Limit::with(Held::new(), &bounds, clock.clone());
    (0..5).for_each(|_| drop(limit.get(SPACE, b"k").expect("the burst")));
    assert_eq!(clock.monotonic(), Duration::ZERO);
    (0..20).for_each(|_| drop(limit.get(SPACE, b"k").expect("after a pause")));
    assert_eq!(clock.monotonic(), Duration::from_secs(2));

    // Who does not wait hears for how long; reads that must not wait say that they would.
    let clock = Arc::new(SimulatedClock::default());
    let limit = Limit::with(Held::new(), &Limits { requests_rate: rate(10, 3), ..AT_ONCE }, clock.clone());
    limit.commit(put(10), Durability::Memory).expect("the burst");
    let view = limit.view().expect("the burst");
    assert_eq!(view.read_into(SPACE, b"k", 0, &mut [0; 10], Wait::Never).expect("the burst"), Some(10));
    assert_eq!(view.read_into(SPACE, b"k", 0, &mut [0; 10], Wait::Never).expect("later"), None);
    assert_eq!(view.lookup(SPACE, b"k", 0, 10, Wait::Never).expect("later"), Lookup::WouldWait);
    busy(view.stat(SPACE, b"k"), "more than 10 requests a second were wanted; try again in 100ms");
    clock.advance(Duration::from_millis(100));
    assert!(view.stat(SPACE, b"k").is_ok());

    // Bytes: those of a batch before it, those of a read after it.
    let clock = Arc::new(SimulatedClock::default());
    let bounds = Limits { bytes_rate: rate(1000, 1000), wait: LONG, ..AT_ONCE };
    let limit = Limit::with(Held::new(), &bounds, clock.clone());
    let seconds = |expected: f64| assert_eq!(clock.monotonic(), Duration::from_secs_f64(expected));
    limit.commit(put(1000), Durability::Memory).expect("the burst");
    seconds(0.0);
    limit.commit(put(500), Durability::Memory).expect("after a pause");
    seconds(0.5);
    limit.get(SPACE, b"k").expect("the burst is in use, nothing more is owed");
    limit.get(SPACE, b"k").expect("the first get is paid for");
    seconds(1.0);
    let view = limit.view().expect("a view");
    let mut cursor = view.cursor(SPACE, KeyRange::all(), Direction::Forward).expect("a cursor");
    let before = clock.monotonic();
    cursor.next().expect("an entry of 501 bytes");
    cursor.next().expect("the end");
    assert!(clock.monotonic() > before);
}

#[test]
fn a_quota_refuses_what_would_be_too_much_and_lets_deletions_pass() {
    let held = Held::new();
    let limit = Limit::new(held.clone(), &Limits { usage_max: Some(3 << 20), ..AT_ONCE });
    let put = |key: &'static str| limit.commit(Batch::new().put(SPACE, key, vec![1; 1 << 20]), Durability::Memory);
    assert_eq!(limit.usage().expect("usage").total, 3 << 20);
    put("a").expect("room");
    put("b").expect("room");
    let error = put("c").expect_err("the keys take a few bytes beside");
    assert_eq!(error.kind(), ErrorKind::Full);
    let expected =
        "2097154 of 3145728 bytes that may be used here are in use, and 1048576 more were wanted; delete something";
    assert_eq!(error.message(), expected);
    let usage = limit.usage().expect("usage");
    assert_eq!((usage.used, usage.free, usage.limit), (2_097_154, 1_048_574, Some(3 << 20)));
    let mut stage = limit.stage(StageHint::default()).expect("a stage");
    let full = |outcome: Result<()>| assert_eq!(outcome.map_err(|error: Error| error.kind()), Err(ErrorKind::Full));
    full(stage.write(&[0; 1 << 20]));
    assert_eq!((stage.length(), held.inner.usage().expect("usage").used), (0, 2_097_154));
    stage.write(&[0; 1 << 19]).expect("room for a half");
    drop(stage);
    limit.commit(Batch::new().delete(SPACE, "a"), Durability::Memory).expect("deleting works");
    put("c").expect("room again");
}
