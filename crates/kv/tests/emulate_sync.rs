//! How the wrappers sync: together, and before anybody sees what is not durable yet.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use koine_kv::emulate::Spaces;
use koine_kv::{
    Batch, Condition, Durability, Error, ErrorKind, KeyRange, Kv, MemoryKv, Operation, Refusal, Result, SpaceId, View,
    Wait, WatchEvent, pass_on,
};
use parking_lot::{Condvar, Mutex};

const A: SpaceId = SpaceId(20);

/// A store whose syncs wait until they are let through.
struct Gated {
    memory: MemoryKv,
    gate: Arc<Gate>,
}

#[derive(Default)]
struct Gate {
    begun: AtomicUsize,
    open: Mutex<Option<Result<()>>>,
    changed: Condvar,
}

impl Gate {
    fn let_through(&self, outcome: Result<()>) {
        *self.open.lock() = Some(outcome);
        self.changed.notify_all();
    }

    fn hold(&self) {
        *self.open.lock() = None;
    }

    /// Waits until a sync began.
    fn wait_begun(&self, count: usize) {
        let mut open = self.open.lock();
        while self.begun.load(Ordering::Relaxed) < count {
            self.changed.wait(&mut open);
        }
    }
}

impl Kv for Gated {
    fn sync(&self) -> Result<()> {
        let mut open = self.gate.open.lock();
        self.gate.begun.fetch_add(1, Ordering::Relaxed);
        self.gate.changed.notify_all();
        while open.is_none() {
            self.gate.changed.wait(&mut open);
        }
        open.clone().unwrap_or(Ok(()))
    }

    pass_on!(Kv, memory: profile, view, lookup, stage, submit, watch, usage, close);
}

fn open() -> (Spaces, Arc<Gate>) {
    let gate = Arc::<Gate>::default();
    let kv = Spaces::open(Arc::new(Gated { memory: MemoryKv::default(), gate: Arc::clone(&gate) })).expect("spaces");
    kv.commit(Batch::new().then(Operation::CreateSpace { space: A }), Durability::Memory).expect("a space");
    (kv, gate)
}

fn keys(view: &dyn View) -> usize {
    let mut cursor = view.cursor(A, KeyRange::all(), koine_kv::Direction::Forward).expect("a cursor");
    let mut keys = 0;
    while cursor.next().expect("an entry").is_some() {
        keys += 1;
    }
    keys
}

#[test]
fn batches_that_wait_share_one_sync_and_are_seen_after_it() {
    let (kv, gate) = open();
    let mut watch = kv.watch(A, KeyRange::all(), kv.view().expect("a view").version()).expect("a watch");
    let first = kv.submit(Batch::new().put(A, "first", ""), Durability::Sync, Wait::Never);
    gate.wait_begun(1);
    // Each is decided against all before it, and nobody sees any of them.
    let absent = |key: &'static str| Condition::Absent { space: A, key: key.into() };
    let refused = kv.submit(Batch::new().when(absent("first")), Durability::Memory, Wait::Never);
    let others: Vec<_> = (0..20)
        .map(|number| {
            let level = [Durability::Sync, Durability::Memory, Durability::Written][number % 3];
            kv.submit(Batch::new().put(A, format!("k{number}"), ""), level, Wait::Never)
        })
        .collect();
    assert_eq!(keys(&*kv.view().expect("a view")), 0);
    assert_eq!(watch.next(Duration::from_millis(1)).expect("no event"), None);
    assert!(first.peek().is_none() && refused.peek().is_none() && others.iter().all(|ticket| ticket.peek().is_none()));
    gate.let_through(Ok(()));
    let version = first.wait().expect("a commit").version;
    let event = watch.next(Duration::from_secs(60)).expect("an event");
    assert!(matches!(event, Some(WatchEvent::Changed(change)) if change.version == version));
    assert_eq!(refused.wait().expect_err("it is there").refusal(), Some(Refusal::Condition(0)));
    for ticket in others {
        ticket.wait().expect("a commit");
    }
    assert_eq!(keys(&*kv.view().expect("a view")), 21);
    assert_eq!(gate.begun.load(Ordering::Relaxed), 2, "one sync for the first, one for all others");
    // Without a sync to wait for, nothing waits.
    gate.hold();
    kv.commit(Batch::new().put(A, "at once", ""), Durability::Written).expect("a commit");
    assert_eq!(keys(&*kv.view().expect("a view")), 22);
    gate.let_through(Ok(()));
}

#[test]
fn after_a_sync_that_failed_nothing_more_is_taken() {
    let (kv, gate) = open();
    let ticket = kv.submit(Batch::new().put(A, "k", ""), Durability::Sync, Wait::Never);
    gate.wait_begun(1);
    gate.let_through(Err(Error::new(ErrorKind::Device, "the device is gone")));
    assert_eq!(ticket.wait().expect_err("the sync failed").kind(), ErrorKind::Device);
    let error = kv.commit(Batch::new().put(A, "l", ""), Durability::Memory).expect_err("nothing more is taken");
    assert_eq!(error.kind(), ErrorKind::Stopped);
    assert_eq!(keys(&*kv.view().expect("a view")), 0, "what was not acknowledged is not shown");
    gate.let_through(Ok(()));
}

#[test]
fn closing_finishes_what_waits() {
    let (kv, gate) = open();
    let tickets: Vec<_> = (0..5)
        .map(|number| kv.submit(Batch::new().put(A, format!("k{number}"), ""), Durability::Sync, Wait::Never))
        .collect();
    gate.let_through(Ok(()));
    kv.close().expect("close");
    for ticket in tickets {
        ticket.wait().expect("a commit");
    }
    assert_eq!(kv.view().map(|_| ()).expect_err("it is closed").kind(), ErrorKind::Stopped);
}
