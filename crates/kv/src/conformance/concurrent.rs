//! Many threads at once.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Barrier, mpsc};
use std::thread;

use koine_engine::{Batch, Condition, Durability, ErrorKind, KeyRange, Operation, Payload, StageHint};

use super::Suite;
use super::fixture::{A, Fixture, add, at, check_value, entries, pattern, value};
use crate::seam::{Direction, Wait};

const LEVELS: [Durability; 3] = [Durability::Memory, Durability::Written, Durability::Sync];

pub(super) fn one_of_many_writers_wins_an_absent_key(suite: &Suite) {
    let fixture = Fixture::new(suite);
    let kv = fixture.share();
    for round in 0..5 {
        let key = format!("k{round}");
        let barrier = Barrier::new(64);
        let winners: Vec<u64> = thread::scope(|scope| {
            let writers: Vec<_> = (0..64u64)
                .map(|writer| {
                    let (kv, key, barrier) = (&kv, &key, &barrier);
                    scope.spawn(move || {
                        let mut stage = kv.stage(StageHint::default()).expect("a stage");
                        stage.write(&pattern(writer, 10_000)).expect("a piece");
                        let token = stage.finish().expect("a token");
                        let value = if writer % 2 == 0 {
                            Payload::Stage(token)
                        } else {
                            Payload::Bytes(pattern(writer, 10_000))
                        };
                        let absent = Condition::Absent { space: A, key: key.clone().into() };
                        let batch = Batch::new().when(absent).then(Operation::Put { at: at(key), value });
                        barrier.wait();
                        match kv.commit(batch, LEVELS[writer as usize % 3]) {
                            Ok(_) => Some(writer),
                            Err(error) => {
                                assert_eq!(error.kind(), ErrorKind::Refused, "{error:?}");
                                None
                            }
                        }
                    })
                })
                .collect();
            writers.into_iter().filter_map(|writer| writer.join().expect("a writer")).collect()
        });
        assert_eq!(winners.len(), 1, "exactly one writer wins: {winners:?}");
        fixture.check(&at(&key), &pattern(winners[0], 10_000));
    }
}

pub(super) fn counters_of_many_threads_add_up(suite: &Suite) {
    let fixture = Fixture::new(suite);
    let kv = fixture.share();
    thread::scope(|scope| {
        for worker in 0..8i64 {
            let kv = &kv;
            scope.spawn(move || {
                for step in 0..100 {
                    let batch = Batch::new().then(add(at("sum"), worker)).then(add(at("count"), 1));
                    kv.commit(batch, LEVELS[(step % 20 == 0) as usize * 2]).expect("the batch is applied");
                }
            });
        }
    });
    fixture.check(&at("sum"), &2800i64.to_le_bytes());
    fixture.check(&at("count"), &800i64.to_le_bytes());
}

pub(super) fn many_threads_write_many_keys(suite: &Suite) {
    let fixture = Fixture::new(suite);
    let kv = fixture.share();
    thread::scope(|scope| {
        for worker in 0..8u64 {
            let kv = &kv;
            scope.spawn(move || {
                for step in 0..60u64 {
                    let seed = worker * 1000 + step;
                    let size = [10, 2000, 40_000, 150_000][step as usize % 4] + seed as usize;
                    let key = format!("{worker}/{}", step % 30);
                    kv.commit(Batch::new().put(A, key, pattern(seed, size)), LEVELS[step as usize % 3])
                        .expect("a commit");
                    if step % 7 == 0 {
                        kv.commit(Batch::new().delete(A, format!("{worker}/{}", (step + 11) % 30)), Durability::Memory)
                            .expect("a commit");
                    }
                }
            });
        }
    });
    for worker in 0..8u64 {
        // What each left, worked out alone.
        let mut model = std::collections::BTreeMap::new();
        for step in 0..60u64 {
            model.insert(step % 30, worker * 1000 + step);
            if step % 7 == 0 {
                model.remove(&((step + 11) % 30));
            }
        }
        for slot in 0..30 {
            let place = at(&format!("{worker}/{slot}"));
            match model.get(&slot) {
                Some(seed) => {
                    let size = [10, 2000, 40_000, 150_000][(seed % 1000) as usize % 4] + *seed as usize;
                    fixture.check(&place, &pattern(*seed, size));
                }
                None => assert_eq!(value(&*fixture.view(), &place), None),
            }
        }
    }
}

pub(super) fn views_never_show_half_a_batch(suite: &Suite) {
    let fixture = Fixture::new(suite);
    let kv = fixture.share();
    // In all less than what a view may hold back of a small store before it is expired.
    let whole = |seed: u64| {
        let batch = Batch::new().put(A, "a", pattern(seed, 300)).put(A, "m", pattern(seed, 5000));
        batch.put(A, "z", pattern(seed, 40_000)).put(A, "seed", seed.to_le_bytes().to_vec())
    };
    fixture.commit(whole(0));
    let done = AtomicBool::new(false);
    thread::scope(|scope| {
        for writer in 0..2u64 {
            let (kv, done, whole) = (&kv, &done, &whole);
            scope.spawn(move || {
                for step in 0..50u64 {
                    kv.commit(whole(writer * 1000 + step), LEVELS[step as usize % 3]).expect("a commit");
                }
                done.store(true, Ordering::Relaxed);
            });
        }
        for _ in 0..3 {
            let (kv, done) = (&kv, &done);
            scope.spawn(move || {
                let mut last = koine_engine::Version(0);
                while !done.load(Ordering::Relaxed) {
                    let view = kv.view().expect("a view");
                    assert!(view.version() >= last, "views must not go back");
                    last = view.version();
                    let seed = value(&*view, &at("seed")).expect("the seed");
                    let seed = u64::from_le_bytes(seed.as_ref().try_into().expect("eight bytes"));
                    check_value(&*view, &at("a"), &pattern(seed, 300));
                    check_value(&*view, &at("m"), &pattern(seed, 5000));
                    check_value(&*view, &at("z"), &pattern(seed, 40_000));
                    let cursor = view.cursor(A, KeyRange::all(), Direction::Backward).expect("a cursor");
                    let versions: Vec<_> = entries(cursor).into_iter().map(|entry| entry.stat.version).collect();
                    assert!(versions.len() == 4 && versions.iter().all(|version| *version == versions[0]));
                }
            });
        }
    });
}

pub(super) fn batches_of_one_thread_keep_their_order(suite: &Suite) {
    let fixture = Fixture::new(suite);
    let kv = fixture.share();
    thread::scope(|scope| {
        for worker in 0..4u64 {
            let kv = &kv;
            scope.spawn(move || {
                let key = format!("k{worker}");
                let submit = |step: u64| {
                    let batch = Batch::new().put(A, key.clone(), step.to_le_bytes().to_vec());
                    kv.submit(batch, LEVELS[(step % 3) as usize], Wait::Never)
                };
                let tickets: Vec<_> = (0..200).map(submit).collect();
                let versions: Vec<_> =
                    tickets.into_iter().map(|ticket| ticket.wait().expect("a commit").version).collect();
                assert!(versions.is_sorted_by(|a, b| a < b), "batches of one thread were reordered");
            });
        }
    });
    for worker in 0..4 {
        fixture.check(&at(&format!("k{worker}")), &199u64.to_le_bytes());
    }
}

pub(super) fn tickets_call_back(suite: &Suite) {
    let fixture = Fixture::new(suite);
    let (sender, receiver) = mpsc::channel();
    for number in 0..30u64 {
        let sender = sender.clone();
        let batch = Batch::new().put(A, format!("k{number}"), pattern(number, 3000));
        let ticket = fixture.kv().submit(batch, LEVELS[number as usize % 3], Wait::Never);
        ticket.on_done(move |outcome| sender.send((number, outcome)).expect("the receiver waits"));
    }
    let refused = Batch::new().when(Condition::Present { space: A, key: "none".into() });
    fixture
        .kv()
        .submit(refused, Durability::Sync, Wait::Never)
        .on_done(move |outcome| sender.send((99, outcome)).expect("the receiver waits"));
    let mut outcomes: Vec<_> = receiver.iter().collect();
    outcomes.sort_by_key(|(number, _)| *number);
    assert_eq!(outcomes.len(), 31);
    for (number, outcome) in outcomes {
        match outcome {
            Ok(commit) => assert_eq!(fixture.version_of(&format!("k{number}")), commit.version),
            Err(error) => assert_eq!((number, error.kind()), (99, ErrorKind::Refused)),
        }
    }
}

pub(super) fn version_conditions_serialize_increments(suite: &Suite) {
    let fixture = Fixture::new(suite);
    fixture.put("n", 0u64.to_le_bytes().to_vec());
    let kv = fixture.share();
    let refusals: u64 = thread::scope(|scope| {
        let workers: Vec<_> = (0..6)
            .map(|_| {
                let kv = &kv;
                scope.spawn(move || {
                    let (mut done, mut refused) = (0, 0u64);
                    while done < 30 {
                        let view = kv.view().expect("a view");
                        let stat = view.stat(A, b"n").expect("stat").expect("the counter");
                        let bytes = view.bytes(A, b"n", 0, 8).expect("bytes");
                        let number = u64::from_le_bytes(bytes.as_ref().try_into().expect("eight bytes"));
                        let unmoved = Condition::VersionIs { space: A, key: "n".into(), version: stat.version };
                        let batch = Batch::new().when(unmoved).put(A, "n", (number + 1).to_le_bytes().to_vec());
                        match kv.commit(batch, Durability::Memory) {
                            Ok(_) => done += 1,
                            Err(error) => {
                                assert_eq!(error.kind(), ErrorKind::Refused, "{error:?}");
                                refused += 1;
                            }
                        }
                    }
                    refused
                })
            })
            .collect();
        workers.into_iter().map(|worker| worker.join().expect("a worker")).sum()
    });
    fixture.check(&at("n"), &180u64.to_le_bytes());
    eprintln!("{refusals} refusals on the way");
}
