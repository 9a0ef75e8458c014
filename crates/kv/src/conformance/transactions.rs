//! Transactions over the back end: own writes, retries, ranges, and repeats.

use std::thread;

use bytes::Bytes;
use koine_engine::{Durability, KeyRange, Operation, Payload, RequestId, Sources};

use super::Suite;
use super::fixture::{A, Fixture, at, pattern};
use crate::seam::{Direction, KvExt};
use crate::transaction::Transaction;

fn number(bytes: Option<Bytes>) -> u64 {
    bytes.map_or(0, |bytes| u64::from_le_bytes(bytes.as_ref().try_into().expect("eight bytes")))
}

fn inline(number: u64) -> Bytes {
    Bytes::copy_from_slice(&number.to_le_bytes())
}

pub(super) fn transactions_read_what_they_will_have_written(suite: &Suite) {
    let fixture = Fixture::new(suite);
    fixture.put("large", pattern(1, 200_000));
    fixture.put("small", "small");
    let (shown, _) = fixture
        .kv()
        .transact(Durability::Memory, |txn| {
            txn.then(Operation::WriteAt { at: at("large"), offset: 100_000, data: Payload::Bytes(pattern(2, 10)) });
            txn.then(Operation::Concatenate {
                sources: vec![at("small"), at("large")],
                target: at("joined"),
                fate: Sources::Delete,
            });
            txn.then(Operation::Append { at: at("joined"), data: Payload::Bytes("tail".into()) });
            txn.put(A, "other", Payload::Stage(fixture.stage(&pattern(3, 50_000), 20_000)));
            assert_eq!(txn.stat(A, b"large")?, None);
            assert_eq!(txn.stat(A, b"other")?.map(|seen| seen.size), Some(50_000));
            txn.get(A, b"joined")
        })
        .expect("the transaction commits");
    let shown = shown.expect("the joined value");
    let mut expected = [b"small", &pattern(1, 200_000)[..], b"tail"].concat();
    expected[100_005..100_015].copy_from_slice(&pattern(2, 10));
    assert!(shown == expected);
    fixture.check(&at("joined"), &expected);
    fixture.check(&at("other"), &pattern(3, 50_000));
    assert_eq!(fixture.keys(A), ["joined", "other"]);
}

pub(super) fn transactions_of_many_threads_lose_nothing(suite: &Suite) {
    const ACCOUNTS: u64 = 5;
    let fixture = Fixture::new(suite);
    let account = |index: u64| format!("account{}", index % ACCOUNTS);
    for index in 0..ACCOUNTS {
        fixture.put(&account(index), inline(1000));
    }
    let kv = fixture.share();
    thread::scope(|scope| {
        for worker in 0..6u64 {
            let (kv, account) = (&kv, &account);
            scope.spawn(move || {
                for step in 0..40u64 {
                    let (from, to, amount) = (account(worker + step), account(worker * 3 + step * 7 + 1), step % 9);
                    let transfer = |txn: &mut Transaction| {
                        if from == to {
                            return Ok(());
                        }
                        let (have, had) = (number(txn.get(A, from.as_bytes())?), number(txn.get(A, to.as_bytes())?));
                        txn.put(A, from.clone(), inline(have - amount));
                        txn.put(A, to.clone(), inline(had + amount));
                        // Read back what was written: it is the transaction's own.
                        assert_eq!(number(txn.get(A, to.as_bytes())?), had + amount);
                        Ok(())
                    };
                    let durability = if step % 10 == 0 { Durability::Sync } else { Durability::Memory };
                    while let Err(error) = kv.transact(durability, transfer) {
                        assert!(error.retryable(), "{error:?}");
                    }
                }
            });
        }
        // A reader never sees money on its way.
        for _ in 0..50 {
            let (sum, _) = kv
                .transact(Durability::Memory, |txn| {
                    (0..ACCOUNTS).try_fold(0, |sum, index| Ok(sum + number(txn.get(A, account(index).as_bytes())?)))
                })
                .expect("reads commit");
            assert_eq!(sum, ACCOUNTS * 1000);
        }
    });
    let view = fixture.view();
    let balances = (0..ACCOUNTS).map(|index| number(view.bytes(A, account(index).as_bytes(), 0, 8).ok()));
    assert_eq!(balances.sum::<u64>(), ACCOUNTS * 1000);
}

pub(super) fn transactions_number_their_entries_without_gaps(suite: &Suite) {
    let fixture = Fixture::new(suite);
    let kv = fixture.share();
    // Each takes the number after the last entry: two that saw the same end must not both commit.
    thread::scope(|scope| {
        for worker in 0..4 {
            let kv = &kv;
            scope.spawn(move || {
                for step in 0..15 {
                    let enter = |txn: &mut Transaction| {
                        let mut cursor = txn.cursor(A, KeyRange::prefix("entry"), Direction::Backward)?;
                        let last = cursor.next()?;
                        drop(cursor);
                        let next = last.map_or(0, |entry| {
                            let digits = String::from_utf8_lossy(&entry.key[5..]).into_owned();
                            digits.parse::<u64>().expect("a number") + 1
                        });
                        txn.put(A, format!("entry{next:05}"), Bytes::from(format!("{worker}/{step}")));
                        Ok(())
                    };
                    while let Err(error) = kv.transact(Durability::Memory, enter) {
                        assert!(error.retryable(), "{error:?}");
                    }
                }
            });
        }
    });
    let expected: Vec<_> = (0..60).map(|number| format!("entry{number:05}")).collect();
    assert_eq!(fixture.keys(A), expected);
    let mut entered: Vec<_> = fixture.dump().into_values().map(|(_, _, bytes)| bytes).collect();
    entered.sort();
    entered.dedup();
    assert_eq!(entered.len(), 60);
}

pub(super) fn transactions_repeated_take_effect_once(suite: &Suite) {
    let fixture = Fixture::new(suite);
    for round in 0..10u8 {
        for repeat in 0..3 {
            let (_, commit) = fixture
                .kv()
                .transact(Durability::Memory, |txn| {
                    txn.set_request(RequestId([round; 16]));
                    let sum = number(txn.get(A, b"n")?);
                    txn.put(A, "n", inline(sum + 1));
                    Ok(())
                })
                .expect("the transaction commits");
            assert_eq!(commit.repeated, repeat > 0, "round {round}, repeat {repeat}");
        }
        fixture.check(&at("n"), &(u64::from(round) + 1).to_le_bytes());
    }
}
