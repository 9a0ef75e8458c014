//! Every order in which threads can take their steps at a placement or a ticket.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use koine_models::batch::{Commit, Version};
use koine_models::error::ErrorKind;
use koine_models::placement::Placement;
use koine_models::status_cell::{KnownStatus, StatusCell};
use koine_models::ticket::{Completer, Ticket};
use koine_models::{ask_leader, led};
use loom::sync::Mutex;
use loom::sync::atomic::AtomicBool;
use loom::thread;

const DONE: Commit = Commit { version: Version(7), repeated: false };

#[test]
fn exactly_one_side_of_a_placement_learns_the_place_to_free() {
    loom::model(|| {
        let placement = Arc::new(Placement::new());
        let (checkpoint, reader) = (Arc::clone(&placement), Arc::clone(&placement));
        let checkpoint = thread::spawn(move || checkpoint.place(42).is_some());
        let reader = thread::spawn(move || reader.placed().is_none_or(|place| place == 42));
        let freed = placement.replace(Version(3)).is_some();
        let told = checkpoint.join().unwrap();
        assert!(freed != told, "the place is freed once");
        assert!(reader.join().unwrap() && placement.is_placed());
    });
}

#[test]
fn a_waiter_gets_the_outcome_whenever_it_is_given() {
    loom::model(|| {
        let (ticket, completer) = Ticket::new();
        let writer = thread::spawn(move || completer.complete(Ok(DONE)));
        assert_eq!(ticket.wait().unwrap(), DONE);
        writer.join().unwrap();
    });
}

#[test]
fn a_waiter_is_told_when_the_completer_goes() {
    loom::model(|| {
        let (ticket, completer) = Ticket::new();
        let writer = thread::spawn(move || drop(completer));
        assert_eq!(ticket.wait().unwrap_err().kind(), ErrorKind::Stopped);
        writer.join().unwrap();
    });
}

#[test]
fn a_callback_runs_once_whoever_comes_first() {
    loom::model(|| {
        let calls = Arc::new(AtomicUsize::new(0));
        let (ticket, completer) = Ticket::new();
        let writer = thread::spawn(move || completer.complete(Ok(DONE)));
        let counted = Arc::clone(&calls);
        ticket.on_done(move |outcome| {
            assert_eq!(outcome.unwrap(), DONE);
            counted.fetch_add(1, Ordering::SeqCst);
        });
        writer.join().unwrap();
        assert_eq!(calls.load(Ordering::SeqCst), 1);
    });
}

#[test]
fn a_look_shows_nothing_or_the_outcome() {
    loom::model(|| {
        let (ticket, completer) = Ticket::new();
        let writer = thread::spawn(move || completer.complete(Ok(DONE)));
        assert!(ticket.peek().is_none_or(|outcome| outcome.unwrap() == DONE));
        writer.join().unwrap();
        assert_eq!(ticket.peek().map(|outcome| outcome.unwrap()), Some(DONE));
    });
}

/// What waits for the next group, and whether one is being written.
struct Queue {
    waiting: Option<Completer>,
    in_flight: bool,
}

#[test]
fn what_is_led_is_written_by_who_waits_or_by_who_ends_the_group_before() {
    loom::model(|| {
        let queue = Arc::new(Mutex::new(Queue { waiting: None, in_flight: true }));
        let of_waiter = Arc::clone(&queue);
        let (ticket, completer) = led(move || {
            let mut queue = of_waiter.lock().unwrap();
            let waiting = if queue.in_flight { None } else { queue.waiting.take() };
            drop(queue);
            waiting.into_iter().for_each(|completer| completer.complete(Ok(DONE)));
        });
        queue.lock().unwrap().waiting = Some(completer);
        let of_writer = Arc::clone(&queue);
        let writer = thread::spawn(move || {
            let mut queue = of_writer.lock().unwrap();
            queue.in_flight = false;
            let leader = queue.waiting.as_ref().and_then(ask_leader);
            let left = if leader.is_none() { queue.waiting.take() } else { None };
            drop(queue);
            leader.into_iter().for_each(|ask| ask());
            left.into_iter().for_each(|completer| completer.complete(Ok(DONE)));
        });
        assert_eq!(ticket.wait().unwrap(), DONE);
        writer.join().unwrap();
    });
}

fn status(of: u64) -> KnownStatus {
    KnownStatus { size: of, allocated: of * 2, version: Version(of * 3) }
}

#[test]
fn nobody_reads_half_a_status() {
    loom::model(|| {
        let cell = Arc::new(StatusCell::new());
        cell.store(0, status(1));
        let changed = Arc::clone(&cell);
        let writer = thread::spawn(move || {
            changed.clear();
            changed.store(1, status(2));
        });
        assert!(cell.load().is_none_or(|read| read == status(1) || read == status(2)));
        writer.join().unwrap();
        assert_eq!(cell.load(), Some(status(2)));
    });
}

#[test]
fn who_has_seen_a_change_reads_no_status_from_before() {
    loom::model(|| {
        let (cell, visible) = (Arc::new(StatusCell::new()), Arc::new(AtomicBool::new(false)));
        cell.store(0, status(1));
        let (changed, shown) = (Arc::clone(&cell), Arc::clone(&visible));
        let writer = thread::spawn(move || {
            changed.clear();
            shown.store(true, Ordering::Release);
            changed.store(1, status(2));
        });
        if visible.load(Ordering::Acquire) {
            assert!(cell.load().is_none_or(|read| read == status(2)));
        }
        writer.join().unwrap();
    });
}
