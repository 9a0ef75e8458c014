//! What is gathered into one commit, and what is remembered of an object.

use super::*;

#[test]
fn creations_and_deletions_are_gathered_in_the_order_of_calls() {
    for background in [Background::Manual, Background::Threads] {
        let device = Arc::new(MemoryDevice::growable(4 << 20, 1 << 30));
        format(&device, 0);
        let engine = engine_on(device.clone(), background);
        let store = over(Arc::clone(&engine), None).unwrap();
        let begin = engine.view().version().0;
        let numbers: Vec<u64> = (0..2000).map(|_| store.create(0).unwrap().number()).collect();
        for number in numbers.iter().step_by(2) {
            store.delete(*number, MEMORY).unwrap();
            assert_eq!(kind(store.open_object(*number)), ErrorKind::NotFound);
        }
        assert_eq!(store.status().unwrap().objects, 1000);
        let left: Vec<u64> = numbers.iter().copied().skip(1).step_by(2).collect();
        assert_eq!(store.list(0, 5000).unwrap(), left);
        if background == Background::Manual {
            let commits = engine.view().version().0 - begin;
            assert!(commits < 20, "{commits} commits for 3000 calls");
        }
        store.sync().unwrap();
        std::mem::forget((store, engine));
        let again = after_kill(&device);
        assert_eq!(again.list(0, 5000).unwrap(), left);
        assert_eq!(again.status().unwrap().objects, 1000);
    }
}

#[test]
fn what_follows_a_gathered_creation_is_never_without_it() {
    let (store, device) = new_store(None);
    let (plain, synced, gone) = (store.create(0).unwrap(), store.create(0).unwrap(), store.create(10).unwrap());
    assert_eq!(plain.size().unwrap(), 0);
    synced.write(0, b"durable", SYNC).unwrap();
    gone.delete(SYNC).unwrap();
    let numbers = (plain.number(), synced.number(), gone.number());
    std::mem::forget((plain, synced, gone, store));
    let again = after_kill(&device);
    assert_eq!(again.list(0, 10).unwrap(), [numbers.0, numbers.1]);
    assert_eq!(content(&again.open_object(numbers.1).unwrap()), b"durable");
    assert_eq!(kind(again.open_object(numbers.2)), ErrorKind::NotFound);
}

#[test]
fn what_is_gathered_is_submitted_without_anybody_asking() {
    let (store, _) = new_store(None);
    let number = store.create(0).unwrap().number();
    let view = || store.inner.engine.view().stat(SPACE, &number.to_be_bytes()).unwrap();
    while view().is_none() {
        std::thread::yield_now();
    }
}

#[test]
fn a_dropped_store_submits_what_it_gathered() {
    let device = Arc::new(MemoryDevice::growable(4 << 20, 1 << 30));
    format(&device, 0);
    let engine = engine_on(device, Background::Manual);
    let number = {
        let store = over(Arc::clone(&engine), None).unwrap();
        store.create(0).unwrap().number()
    };
    let store = over(engine, None).unwrap();
    assert_eq!(store.list(0, 10).unwrap(), [number]);
}

#[test]
fn creations_that_find_no_room_are_told_and_not_counted() {
    let device = Arc::new(MemoryDevice::fixed(1 << 20));
    format(&device, 64 << 10);
    let store = over(engine_on(device, Background::Manual), None).unwrap();
    let mut failed = 0;
    for _ in 0..200_000 {
        // Dropped at once: nobody has them open.
        if let Err(error) = store.create(0) {
            assert_eq!(error.kind(), ErrorKind::Full);
            failed += 1;
            if failed > 3 {
                break;
            }
        }
    }
    assert!(failed > 3);
    let listed = store.list(0, 1 << 20).unwrap();
    assert_eq!(store.status().unwrap().objects, listed.len() as u64);
    for number in &listed {
        store.delete(*number, MEMORY).unwrap();
    }
    store.sync().unwrap();
    assert_eq!(store.list(0, 10).unwrap(), []);
    store.create(0).unwrap().close(SYNC).unwrap();
}

#[test]
fn a_status_is_remembered_until_the_object_changes() {
    let (store, _) = new_store(None);
    let object = store.create(0).unwrap();
    assert_eq!((object.status().unwrap().size, object.status().unwrap().size), (0, 0));
    let known = || object.node().known_status();
    for length in [5u64, 5000, 100_000] {
        assert!(known().is_some());
        object.write(0, &vec![1; length as usize], MEMORY).unwrap();
        assert!(known().is_none());
        let first = object.status().unwrap();
        assert_eq!((first.size, &first), (length, &object.status().unwrap()));
    }
    let mut transaction = object.transaction().unwrap();
    transaction.write(&object, 200_000, b"end").unwrap();
    transaction.execute(MEMORY).unwrap();
    assert_eq!(object.status().unwrap().size, 200_003);
    let other = store.open_object(object.number()).unwrap();
    other.resize(3, MEMORY).unwrap();
    assert_eq!(object.status().unwrap().size, 3);
    other.delete(MEMORY).unwrap();
    assert_eq!(kind(object.status()), ErrorKind::NotFound);
}
