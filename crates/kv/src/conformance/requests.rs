//! Request ids: a repeat after a lost answer gets the first outcome and changes nothing.

use koine_engine::{Batch, Commit, Condition, Durability, ErrorKind, Operation, Payload, Refusal, RequestId};

use super::Suite;
use super::fixture::{A, Fixture, add, at, delete, pattern, rename};
use crate::seam::Wait;

/// How many outcomes are remembered at least.
const OUTCOMES: u64 = 65_536;

fn request(number: u64) -> RequestId {
    let mut id = [0xC0; 16];
    id[..8].copy_from_slice(&number.to_be_bytes());
    RequestId(id)
}

pub(super) fn a_repeated_commit_gets_its_first_outcome(suite: &Suite) {
    let fixture = Fixture::new(suite);
    let batch = Batch::new().then(add(at("n"), 1)).with_request(request(1));
    let first = fixture.commit(batch.clone());
    assert!(!first.repeated);
    fixture.put("other", "");
    for _ in 0..3 {
        assert_eq!(fixture.commit(batch.clone()), Commit { repeated: true, ..first });
    }
    // The id decides, not the content, and not whether it would still hold.
    let other = Batch::new().delete(A, "n").when(Condition::Present { space: A, key: "none".into() });
    assert_eq!(fixture.commit(other.with_request(request(1))), Commit { repeated: true, ..first });
    fixture.check(&at("n"), &1i64.to_le_bytes());
    // Another id is another request; so is none.
    assert!(!fixture.commit(batch.with_request(request(2))).repeated);
    fixture.done(add(at("n"), 1));
    fixture.done(add(at("n"), 1));
    fixture.check(&at("n"), &4i64.to_le_bytes());
}

pub(super) fn a_repeated_refusal_gets_its_first_outcome(suite: &Suite) {
    let fixture = Fixture::new(suite);
    let absent = Condition::Absent { space: A, key: "k".into() };
    let by_condition = Batch::new().put(A, "k", "mine").when(absent).with_request(request(1));
    let by_operation = Batch::new().put(A, "x", "").then(rename(at("from"), at("to"))).with_request(request(2));
    fixture.put("k", "theirs");
    fixture.refused(by_condition.clone(), Refusal::Condition(0));
    fixture.refused(by_operation.clone(), Refusal::Operation(1));
    // Now both would hold; what was answered stays the answer.
    fixture.done(delete(at("k")));
    fixture.put("from", "");
    fixture.refused(by_condition.clone(), Refusal::Condition(0));
    fixture.refused(by_operation, Refusal::Operation(1));
    assert!(!fixture.commit(by_condition.with_request(request(3))).repeated);
}

pub(super) fn a_repeat_with_a_taken_stage_gets_its_first_outcome(suite: &Suite) {
    let fixture = Fixture::new(suite);
    let value = pattern(1, 300_000);
    let token = fixture.stage(&value, 65_536);
    let batch =
        Batch::new().then(Operation::Put { at: at("k"), value: Payload::Stage(token) }).with_request(request(1));
    let first = fixture.commit(batch.clone());
    assert_eq!(fixture.commit(batch), Commit { repeated: true, ..first });
    // The retry of a client that staged its bytes once more.
    let again = Operation::Put { at: at("k"), value: Payload::Stage(fixture.stage(&value, 65_536)) };
    assert_eq!(fixture.commit(Batch::new().then(again).with_request(request(1))), Commit { repeated: true, ..first });
    fixture.check(&at("k"), &value);
    assert_eq!(fixture.version_of("k"), first.version);
}

pub(super) fn wrong_batches_are_not_outcomes(suite: &Suite) {
    let fixture = Fixture::new(suite);
    let wrong = Batch::new().put(A, vec![b'x'; 5000], "");
    let error = fixture.fails(wrong.clone().with_request(request(1)), ErrorKind::Invalid);
    assert_eq!(error.refusal(), None);
    let first = fixture.commit(Batch::new().put(A, "k", "").with_request(request(1)));
    assert!(!first.repeated);
    // Wrong stays wrong, also under an id that is known.
    fixture.invalid(wrong.with_request(request(1)));
    assert!(fixture.commit(Batch::new().with_request(request(1))).repeated);
}

pub(super) fn the_last_outcomes_are_remembered(suite: &Suite) {
    outcomes_are_remembered(suite, OUTCOMES);
}

/// The case `the_last_outcomes_are_remembered` for a store over another that names batches by itself: those that the
/// case does not name, about a hundred, take places too. At least so many of the last 65,536 are remembered.
pub fn outcomes_are_remembered(suite: &Suite, least: u64) {
    let fixture = Fixture::new(suite);
    let submit = |number: u64| {
        let key = format!("k{}", number % 100);
        fixture.kv().submit(Batch::new().put(A, key, "").with_request(request(number)), Durability::Memory, Wait::Never)
    };
    let mut firsts = Vec::new();
    for window in (0..OUTCOMES).collect::<Vec<_>>().chunks(256) {
        let tickets: Vec<_> = window.iter().map(|number| submit(*number)).collect();
        firsts.extend(tickets.into_iter().map(|ticket| ticket.wait().expect("the batch is applied")));
    }
    // Batches without an id push nothing out.
    for _ in 0..100 {
        fixture.put("noise", "");
    }
    let first = OUTCOMES - least;
    for number in [first, first + 1, first + 77, OUTCOMES / 2, OUTCOMES - 1] {
        let again = submit(number).wait().expect("the first outcome");
        assert_eq!(again, Commit { repeated: true, ..firsts[number as usize] }, "request {number}");
    }
}

pub(super) fn outcomes_survive_a_reopen(suite: &Suite) {
    let mut fixture = Fixture::new(suite);
    let success = Batch::new().then(add(at("n"), 1)).with_request(request(1));
    let present = Condition::Present { space: A, key: "none".into() };
    let refusal = Batch::new().put(A, "x", "").when(present).with_request(request(2));
    let first = fixture.kv().commit(success.clone(), Durability::Sync).expect("the batch is applied");
    let error = fixture.kv().commit(refusal.clone(), Durability::Sync).expect_err("the batch is refused");
    assert_eq!(error.refusal(), Some(Refusal::Condition(0)));
    for round in 0..3 {
        for number in 0..500 {
            fixture.commit(
                Batch::new()
                    .put(A, format!("k{number}"), pattern(round, 300))
                    .with_request(request(1000 * (round + 1) + number)),
            );
        }
        if !fixture.reopen() {
            return;
        }
        fixture.put("none", "");
        assert_eq!(fixture.commit(success.clone()), Commit { repeated: true, ..first });
        fixture.refused(refusal.clone(), Refusal::Condition(0));
        assert!(fixture.commit(Batch::new().with_request(request(1000 * (round + 1) + 499))).repeated);
    }
    fixture.check(&at("n"), &1i64.to_le_bytes());
}
