//! What is kept, for how long, in how much memory; and that nobody reads what was.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::thread;

use koine_env::SimulatedClock;
use koine_kv::wrap::{Cache, CacheOptions, Call, Calls, Fault, Faults, Meter, Writers};
use koine_kv::{Batch, Bytes, Durability, KeyRange, Kv, MemoryKv, Operation, Place, Result, SpaceId, Ticket, pass_on};
use parking_lot::Mutex;

const SPACE: SpaceId = SpaceId::FIRST;

fn memory() -> Arc<MemoryKv> {
    let memory = Arc::new(MemoryKv::default());
    memory.commit(Batch::new().then(Operation::CreateSpace { space: SPACE }), Durability::Memory).expect("a space");
    memory
}

fn over(inner: Arc<dyn Kv>, writers: Writers) -> Arc<Cache> {
    Arc::new(Cache::new(inner, &CacheOptions { writers, ..CacheOptions::default() }))
}

fn put(kv: &dyn Kv, key: &str, value: impl Into<Bytes>) {
    kv.commit(Batch::new().put(SPACE, key.to_owned(), value), Durability::Memory).expect("a put");
}

fn get(kv: &dyn Kv, key: &str) -> Option<Vec<u8>> {
    kv.get(SPACE, key.as_bytes()).expect("a get").map(|value| value.to_vec())
}

#[test]
fn what_was_read_is_not_read_again() {
    let reads = |meter: &Meter| {
        let snapshot = meter.snapshot();
        [Call::View, Call::Stat, Call::Bytes].map(|call| snapshot.of(call).map_or(0, |of| of.count))
    };
    for writers in [Writers::Any, Writers::ThisAlone] {
        let meter = Arc::new(Meter::new(memory()));
        let cache = over(meter.clone(), writers);
        put(&*cache, "k", "value");
        put(&*cache, "long", vec![1; 70_000]);
        for _ in 0..5 {
            assert_eq!(get(&*cache, "k").as_deref(), Some(&b"value"[..]));
            assert_eq!(get(&*cache, "none"), None);
        }
        // Where others may write the version is asked for each time, the key once.
        let views = if writers == Writers::Any { 10 } else { 2 };
        assert_eq!(reads(&meter), [views, 2, 1], "{writers:?}");
        let view = cache.view().expect("a view");
        assert_eq!(view.stat(SPACE, b"k").expect("stat").expect("it is there").size, 5);
        assert_eq!(view.bytes(SPACE, b"k", 1, 2).expect("bytes").as_ref(), b"al");
        let mut buffer = [0; 10];
        assert_eq!(view.read(SPACE, b"k", 3, &mut buffer).expect("read"), 2);
        assert_eq!(&buffer[..2], b"ue");
        assert_eq!(view.read(SPACE, b"k", 9, &mut buffer).expect("read past the end"), 0);
        assert!(view.bytes(SPACE, b"none", 0, 2).is_err() && view.stat(SPACE, b"none").expect("stat").is_none());
        assert_eq!(reads(&meter), [views + 1, 2, 1], "{writers:?}");
        // What a view reads whole is kept too; long values are not.
        put(&*cache, "l", "other");
        let view = cache.view().expect("a view");
        for _ in 0..3 {
            assert_eq!(view.bytes(SPACE, b"l", 0, 100).expect("bytes").as_ref(), b"other");
        }
        assert_eq!(get(&*cache, "l").as_deref(), Some(&b"other"[..]));
        let [_, _, bytes] = reads(&meter);
        assert_eq!(bytes, 2, "{writers:?}");
        (0..3).for_each(|_| assert_eq!(get(&*cache, "long").map(|value| value.len()), Some(70_000)));
        assert_eq!(reads(&meter)[2], bytes + 3, "{writers:?}");
        let counts = cache.counts();
        assert!(counts.hits >= 15 && counts.misses >= 4 && counts.bytes < 2000, "{counts:?}");
    }
}

#[test]
fn memory_is_bounded_and_what_is_used_stays() {
    let memory = memory();
    let options = CacheOptions { bytes_max: 1 << 20, ..CacheOptions::default() };
    let cache = Cache::new(memory.clone(), &options);
    for number in 0..2000u64 {
        put(&*memory, &format!("k{number:04}"), vec![number as u8; 3000]);
    }
    for number in 0..2000u64 {
        assert_eq!(get(&cache, &format!("k{number:04}")), Some(vec![number as u8; 3000]));
        get(&cache, "k0000");
        assert!(cache.counts().bytes <= 1 << 20, "{:?}", cache.counts());
    }
    let counts = cache.counts();
    assert!(counts.bytes > 1 << 19 && counts.hits >= 1990, "{counts:?}");
}

/// A value that somebody else has put past a cache is seen at once, and so is one put through another cache.
#[test]
fn a_get_sees_what_anybody_was_told_of() {
    let memory = memory();
    let caches = [over(memory.clone(), Writers::Any), over(memory.clone(), Writers::Any)];
    put(&*memory, "n", 0u64.to_le_bytes().to_vec());
    let told = AtomicU64::new(0);
    let done = AtomicBool::new(false);
    thread::scope(|scope| {
        for cache in &caches {
            scope.spawn(|| {
                while !done.load(Ordering::Relaxed) {
                    let least = told.load(Ordering::SeqCst);
                    let found = get(&**cache, "n").expect("it is there");
                    let found = u64::from_le_bytes(found.try_into().expect("eight bytes"));
                    assert!(found >= least, "{found} was read after {least} was told");
                }
            });
        }
        for number in 1..=3000u64 {
            let through: [&dyn Kv; 3] = [&*memory, &*caches[0], &*caches[1]];
            put(through[number as usize % 3], "n", number.to_le_bytes().to_vec());
            told.store(number, Ordering::SeqCst);
        }
        done.store(true, Ordering::Relaxed);
    });
    // A space that is another one by now: the key has the same version and another value.
    let at = |space, value: &'static str| Operation::Put {
        at: Place::new(space, "k"),
        value: Bytes::from_static(value.as_bytes()).into(),
    };
    let other = SpaceId(20);
    let both = Batch::new().then(Operation::CreateSpace { space: other });
    memory.commit(both.then(at(SPACE, "a")).then(at(other, "b")), Durability::Memory).expect("a commit");
    assert_eq!(caches[0].get(other, b"k").expect("a get").as_deref(), Some(&b"b"[..]));
    let swapped = Batch::new().then(Operation::DropSpace { space: other });
    let swapped = swapped.then(Operation::CloneSpace { from: SPACE, to: other });
    memory.commit(swapped, Durability::Memory).expect("a commit");
    assert_eq!(caches[0].get(other, b"k").expect("a get").as_deref(), Some(&b"a"[..]));
}

/// Where all writers use the cache: threads write pairs and read them through gets and views, old and new.
#[test]
fn readers_and_writers_of_one_cache_agree() {
    for writers in [Writers::ThisAlone, Writers::Any] {
        let cache = over(memory(), writers);
        let pair = |number: u64| {
            let value = number.to_le_bytes().to_vec();
            Batch::new().put(SPACE, "a", value.clone()).put(SPACE, "b", value)
        };
        cache.commit(pair(0), Durability::Memory).expect("a pair");
        let told = AtomicU64::new(0);
        let done = AtomicBool::new(false);
        let number = |bytes: &[u8]| u64::from_le_bytes(bytes.try_into().expect("eight bytes"));
        thread::scope(|scope| {
            for reader in 0..3 {
                let (cache, told, done) = (&cache, &told, &done);
                scope.spawn(move || {
                    let mut old = cache.view().expect("a view");
                    while !done.load(Ordering::Relaxed) {
                        let least = told.load(Ordering::SeqCst);
                        let view = cache.view().expect("a view");
                        let first = number(&get(&**cache, if reader == 0 { "a" } else { "b" }).expect("it is there"));
                        assert!(first >= least, "{first} was read after {least} was told");
                        for view in [&view, &old] {
                            let [a, b] =
                                ["a", "b"].map(|key| number(&view.bytes(SPACE, key.as_bytes(), 0, 8).expect("bytes")));
                            assert_eq!(a, b, "a view shows half a batch");
                        }
                        old = view;
                    }
                });
            }
            for number in 1..=4000u64 {
                // Ranges and renames too: they name no key, or two.
                if number % 50 == 0 {
                    let range = KeyRange::new("a", "c");
                    let all = Batch::new().then(Operation::DeleteRange { space: SPACE, range });
                    let operations = pair(number).operations;
                    let all = operations.into_iter().fold(all, Batch::then);
                    cache.commit(all, Durability::Memory).expect("a commit");
                } else {
                    cache.commit(pair(number), Durability::Memory).expect("a pair");
                }
                told.store(number, Ordering::SeqCst);
            }
            done.store(true, Ordering::Relaxed);
        });
    }
}

/// Says that it did, and shows it when the test lets it.
struct Slow {
    inner: Arc<MemoryKv>,
    held: Mutex<Vec<(koine_kv::Completer, Batch)>>,
}

impl Kv for Slow {
    pass_on!(Kv, inner: profile, view, get, glance, stage, commit, watch, usage, sync, close);

    fn submit(&self, batch: Batch, _durability: Durability) -> Ticket {
        let (ticket, completer) = Ticket::new();
        self.held.lock().push((completer, batch));
        ticket
    }
}

#[test]
fn nothing_is_kept_while_a_change_is_under_way() {
    let slow = Arc::new(Slow { inner: memory(), held: Mutex::default() });
    let cache = over(slow.clone(), Writers::ThisAlone);
    put(&*cache, "k", "old");
    assert_eq!(get(&*cache, "k").as_deref(), Some(&b"old"[..]));
    let before = cache.view().expect("a view");
    let ticket = cache.submit(Batch::new().put(SPACE, "k", "new"), Durability::Memory);
    assert_eq!(get(&*cache, "k").as_deref(), Some(&b"old"[..]));
    let (completer, batch) = slow.held.lock().remove(0);
    let outcome: Result<_> = slow.inner.commit(batch, Durability::Memory);
    // It is visible and nobody was told: a new view shows it.
    let view = cache.view().expect("a view");
    assert_eq!(view.bytes(SPACE, b"k", 0, 9).expect("bytes").as_ref(), b"new");
    assert_eq!(get(&*cache, "k").as_deref(), Some(&b"new"[..]));
    completer.complete(outcome);
    assert!(ticket.wait().is_ok());
    // What an old view reads is not what is newest.
    assert_eq!(before.bytes(SPACE, b"k", 0, 9).expect("bytes").as_ref(), b"old");
    assert_eq!(get(&*cache, "k").as_deref(), Some(&b"new"[..]));
    assert_eq!(before.bytes(SPACE, b"k", 0, 9).expect("bytes").as_ref(), b"old");
    assert_eq!(view.bytes(SPACE, b"k", 0, 9).expect("bytes").as_ref(), b"new");
}

#[test]
fn a_change_of_which_nobody_knows_is_looked_for() {
    let slow = Arc::new(Slow { inner: memory(), held: Mutex::default() });
    let cache = over(slow.clone(), Writers::ThisAlone);
    put(&*cache, "k", "old");
    let ticket = cache.submit(Batch::new().put(SPACE, "k", "new"), Durability::Memory);
    let (completer, batch) = slow.held.lock().remove(0);
    completer.complete(Err(koine_kv::Error::new(koine_kv::ErrorKind::Stopped, "the connection is lost")));
    assert!(ticket.wait().is_err());
    assert_eq!(get(&*cache, "k").as_deref(), Some(&b"old"[..]));
    // It was on its way all the same.
    slow.inner.commit(batch, Durability::Memory).expect("a commit");
    assert_eq!(get(&*cache, "k").as_deref(), Some(&b"new"[..]));

    let clock = Arc::new(SimulatedClock::default());
    let calls = Calls::of(&[Call::Commit]);
    let lossy = Fault::new(memory(), Faults { calls, lost: 1000, ..Faults::default() }, clock);
    let cache = over(Arc::new(lossy), Writers::ThisAlone);
    for value in ["a", "b", "c"] {
        get(&*cache, "k");
        assert!(cache.commit(Batch::new().put(SPACE, "k", value), Durability::Memory).is_err());
        assert_eq!(get(&*cache, "k").as_deref(), Some(value.as_bytes()));
    }
}
