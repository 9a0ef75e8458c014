//! Many at once, and answers that got lost: one winner, and the winner learns it.

use std::sync::mpsc;

use crate::backend::{APPENDS, ROUNDS};
use crate::support::{RACERS, append_with, finish, get, keys_in_bucket, kind, names, put, put_with, race, store};
use koine_kv::RequestId;
use koine_object::{
    CompleteOptions, CompletedPart, DeleteOptions, EditOptions, ErrorKind, EtagMatch, Expected, ObjectInfo, ObjectName,
    Objects, PartOptions, PutCondition, PutOptions, Result, UploadId, UploadOptions,
};

fn one_winner(outcomes: Vec<Result<ObjectInfo>>) -> ObjectInfo {
    let mut winners = Vec::new();
    for outcome in outcomes {
        match outcome {
            Ok(info) => winners.push(info),
            Err(error) => assert_eq!(error.kind(), ErrorKind::PreconditionFailed, "{error}"),
        }
    }
    assert_eq!(winners.len(), 1);
    winners.remove(0)
}

fn absent(request: Option<RequestId>) -> PutOptions {
    PutOptions { condition: PutCondition::absent(), request, ..PutOptions::default() }
}

fn request(round: usize, number: usize) -> RequestId {
    RequestId(((round as u128) << 64 | number as u128 | 1 << 127).to_be_bytes())
}

#[test]
fn of_64_puts_if_absent_one_wins_and_its_repeat_learns_it() {
    let objects = store();
    for round in 0..ROUNDS {
        let key = format!("key-{round}");
        let body = |number: usize| format!("body of {number}").repeat(1 + number * 300);
        let put = |number| put_with(&objects, &key, body(number).as_bytes(), absent(Some(request(round, number))));
        let winner = one_winner(race(put));
        let stored = get(&objects, &key).unwrap();
        let number = (0..RACERS).find(|number| body(*number).as_bytes() == stored).unwrap();
        assert_eq!(put(number).unwrap(), winner);
        assert_eq!(kind(put((number + 1) % RACERS)), ErrorKind::PreconditionFailed);
    }
    assert_eq!(keys_in_bucket(&objects), ROUNDS * 2);
}

fn upload(objects: &Objects, key: &str, body: &[u8]) -> (UploadId, CompletedPart) {
    let id = objects.create_upload("bucket", key, UploadOptions::default()).wait().unwrap();
    let mut writer = objects.put_part(ObjectName::new("bucket", key), id, 1, PartOptions::default()).unwrap();
    writer.write(body).unwrap();
    let part = writer.finish(&Expected::none()).wait().unwrap();
    (id, CompletedPart { number: 1, etag: part.etag.to_string(), checksums: Vec::new() })
}

fn complete(objects: &Objects, key: &str, upload: &(UploadId, CompletedPart)) -> Result<ObjectInfo> {
    let options = CompleteOptions {
        parts: vec![upload.1.clone()],
        condition: PutCondition::absent(),
        ..CompleteOptions::default()
    };
    objects.complete_upload(ObjectName::new("bucket", key), upload.0, options).wait()
}

#[test]
fn of_64_completions_if_absent_one_wins_and_its_repeat_learns_it() {
    let objects = store();
    for round in 0..ROUNDS {
        let key = format!("key-{round}");
        let uploads: Vec<_> =
            (0..RACERS).map(|number| upload(&objects, &key, format!("body of {number}").as_bytes())).collect();
        let winner = one_winner(race(|number| complete(&objects, &key, &uploads[number])));
        let stored = get(&objects, &key).unwrap();
        let number = (0..RACERS).find(|number| format!("body of {number}").as_bytes() == stored).unwrap();
        assert_eq!(complete(&objects, &key, &uploads[number]).unwrap(), winner);
        let other = (number + 1) % RACERS;
        assert_eq!(kind(complete(&objects, &key, &uploads[other])), ErrorKind::PreconditionFailed);
    }
}

#[test]
fn of_puts_and_completions_if_absent_one_wins() {
    let objects = store();
    for round in 0..ROUNDS {
        let key = format!("key-{round}");
        let uploads: Vec<_> = (0..RACERS).map(|_| upload(&objects, &key, b"joined")).collect();
        one_winner(race(|number| match number % 2 {
            0 => put_with(&objects, &key, b"put", absent(None)),
            _ => complete(&objects, &key, &uploads[number]),
        }));
    }
}

#[test]
fn one_upload_completed_64_times_at_once_is_completed_once() {
    let objects = store();
    let upload = upload(&objects, "key", b"body");
    let outcomes = race(|_| complete(&objects, "key", &upload));
    let infos: Vec<_> = outcomes.into_iter().map(Result::unwrap).collect();
    assert!(infos.iter().all(|info| *info == infos[0]));
    assert_eq!(keys_in_bucket(&objects), 3);
}

#[test]
fn of_64_puts_if_match_one_wins() {
    let objects = store();
    for _ in 0..ROUNDS {
        let there = put(&objects, "key", b"there");
        let matching = PutCondition {
            if_absent: false,
            if_match: Some(EtagMatch::parse(&there.etag.to_string())),
            ..PutCondition::default()
        };
        one_winner(race(|number| {
            let options = PutOptions { condition: matching.clone(), ..PutOptions::default() };
            put_with(&objects, "key", number.to_string().as_bytes(), options)
        }));
    }
}

#[test]
fn puts_without_conditions_all_succeed_and_one_stays() {
    let objects = store();
    for _ in 0..ROUNDS {
        for outcome in race(|number| put_with(&objects, "key", &vec![b'x'; number * 3000], PutOptions::default())) {
            outcome.unwrap();
        }
        assert_eq!(keys_in_bucket(&objects), 2);
        assert!(get(&objects, "key").unwrap().len().is_multiple_of(3000));
    }
}

#[test]
fn puts_copies_and_deletes_at_once_leave_no_data_without_a_name() {
    let objects = store();
    for round in 0..ROUNDS {
        race(|number| match (number + round) % 4 {
            0 => drop(put_with(&objects, "a", &vec![b'a'; 100_000], PutOptions::default()).unwrap()),
            1 => drop(objects.delete("bucket", "b", DeleteOptions::default()).wait().unwrap()),
            2 => drop(objects.delete_many("bucket", &["a".into(), "b".into()]).wait().unwrap()),
            _ => match objects
                .copy(ObjectName::new("bucket", "a"), ObjectName::new("bucket", "b"), Default::default())
                .wait()
            {
                Ok(_) => {}
                Err(error) => assert_eq!(error.kind(), ErrorKind::NoSuchKey, "{error}"),
            },
        });
        let names = names(&objects);
        assert_eq!(keys_in_bucket(&objects), names.len() * 2);
        names.iter().for_each(|name| assert_eq!(get(&objects, name).unwrap().len(), 100_000));
    }
}

#[test]
fn of_64_makers_of_a_bucket_one_wins() {
    let objects = store();
    for round in 0..ROUNDS {
        let name = format!("raced-{round}");
        let outcomes = race(|_| objects.create_bucket(&name).wait());
        let (won, lost): (Vec<_>, Vec<_>) = outcomes.into_iter().partition(Result::is_ok);
        assert_eq!(won.len(), 1);
        lost.into_iter().for_each(|lost| assert_eq!(kind(lost), ErrorKind::BucketAlreadyOwnedByYou));
        assert_eq!(objects.head_bucket(&name).unwrap(), won[0].clone().unwrap());
    }
}

#[test]
fn a_bucket_is_not_removed_while_something_lands_in_it() {
    let objects = store();
    for round in 0..ROUNDS {
        let name = format!("raced-{round}");
        objects.create_bucket(&name).wait().unwrap();
        let outcomes = race(|number| {
            if number == 0 {
                return objects.delete_bucket(&name).wait();
            }
            let writer = objects.put(&name, &number.to_string(), PutOptions::default())?;
            writer.finish(&Expected::none()).map(|_| ()).wait()
        });
        let removed = outcomes[0].is_ok();
        assert_eq!(objects.head_bucket(&name).is_err(), removed);
        for put in &outcomes[1..] {
            match put {
                Ok(()) => assert!(!removed, "an object was acknowledged and lost"),
                Err(error) => assert_eq!(error.kind(), ErrorKind::NoSuchBucket),
            }
        }
    }
}

#[test]
fn a_repeat_does_not_undo_what_came_after_its_first() {
    let objects = store();
    let options = || PutOptions { request: Some(request(0, 0)), ..PutOptions::default() };
    let first = put_with(&objects, "key", b"first", options()).unwrap();
    put(&objects, "key", b"second");
    let again = put_with(&objects, "key", b"first", options()).unwrap();
    assert_eq!((again.version, &again.etag), (first.version, &first.etag));
    assert_eq!(get(&objects, "key").unwrap(), b"second");
}

#[test]
fn a_repeat_if_absent_learns_that_it_won_also_after_its_object_was_replaced() {
    let objects = store();
    let first = put_with(&objects, "key", b"first", absent(Some(request(0, 0)))).unwrap();
    put(&objects, "key", b"second");
    let again = put_with(&objects, "key", b"first", absent(Some(request(0, 0)))).unwrap();
    assert_eq!((again.version, &again.etag), (first.version, &first.etag));
    assert_eq!(kind(put_with(&objects, "key", b"first", absent(None))), ErrorKind::PreconditionFailed);
}

#[test]
fn of_64_edits_that_name_one_version_one_wins() {
    let objects = store();
    for _ in 0..ROUNDS {
        let there = put(&objects, "key", b"there");
        let options = || EditOptions { condition: PutCondition::version(there.version), ..EditOptions::default() };
        one_winner(race(|number| match number % 3 {
            0 => append_with(&objects, "key", b"more", options()),
            1 => objects.truncate(ObjectName::new("bucket", "key"), number as u64, options()).wait(),
            _ => finish(objects.write_at(ObjectName::new("bucket", "key"), 2, options()), b"more"),
        }));
    }
    assert_eq!(keys_in_bucket(&objects), 2);
}

#[test]
fn appends_of_64_writers_are_all_there_whole_and_once_also_when_answers_are_lost() {
    let objects = store();
    let piece = |number: usize, turn: usize| format!("{number:02} {turn:02} {:<93}\n", "x".repeat(number));
    race(|number| {
        for turn in 0..APPENDS {
            let options = || EditOptions { request: Some(request(number, turn)), ..EditOptions::default() };
            let send = || {
                let mut writer = objects.append(ObjectName::new("bucket", "key"), options()).unwrap();
                writer.write(piece(number, turn).as_bytes()).unwrap();
                writer.finish(&Expected::none())
            };
            // The answer of every tenth is lost: to some that were carried out, to some that may have been.
            match (turn + number) % 20 {
                0 => drop(send().wait()),
                10 => drop(send()),
                _ => {}
            }
            send().wait().unwrap();
        }
    });
    let stored = get(&objects, "key").unwrap();
    assert_eq!(stored.len(), RACERS * APPENDS * 100);
    let mut seen: Vec<_> = stored.chunks(100).map(|piece| String::from_utf8(piece.to_vec()).unwrap()).collect();
    // Of one writer they are in its order.
    for number in 0..RACERS {
        let own = seen.iter().filter(|piece| piece.starts_with(&format!("{number:02} "))).cloned();
        assert!(own.eq((0..APPENDS).map(|turn| piece(number, turn))));
    }
    seen.sort_unstable();
    let all = (0..RACERS).flat_map(|number| (0..APPENDS).map(move |turn| piece(number, turn)));
    assert!(seen.into_iter().eq(all));
    assert_eq!(keys_in_bucket(&objects), 2);
}

#[test]
fn callbacks_get_the_outcomes_of_racing_puts() {
    let objects = store();
    let (sender, receiver) = mpsc::channel();
    race(|number| {
        let mut writer = objects.put("bucket", "key", absent(None)).unwrap();
        writer.write(number.to_string().as_bytes()).unwrap();
        let sender = sender.clone();
        writer.finish(&Expected::none()).on_done(move |outcome| sender.send(outcome).unwrap());
    });
    drop(sender);
    let outcomes: Vec<_> = receiver.iter().collect();
    assert_eq!(outcomes.len(), RACERS);
    one_winner(outcomes);
}
