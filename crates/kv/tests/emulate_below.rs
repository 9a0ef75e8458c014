//! What the wrappers leave in the store below: nothing that no value shows, and nothing more than one batch at a time.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use bytes::Bytes;
use koine_env::{Random, SeededRandom};
use koine_kv::emulate::{SOLE, Spaces, Split, SplitOptions};
use koine_kv::{
    Batch, Direction, Durability, ErrorKind, KeyRange, Kv, MemoryKv, MemoryOptions, Operation, Payload, Place, Result,
    Sources, SpaceId, StageHint, Ticket, Wait, pass_on,
};

const A: SpaceId = SpaceId(20);
const B: SpaceId = SpaceId(21);

/// A store below that others look into, and that is not closed with what stands over it.
struct Shared {
    memory: Arc<MemoryKv>,
    commits: Arc<AtomicUsize>,
}

impl Kv for Shared {
    fn submit(&self, batch: Batch, durability: Durability, wait: Wait) -> Ticket {
        self.commits.fetch_add(1, Ordering::Relaxed);
        self.memory.submit(batch, durability, wait)
    }

    fn close(&self) -> Result<()> {
        Ok(())
    }

    pass_on!(Kv, memory: profile, view, lookup, stage, watch, usage, sync);
}

fn memory() -> Arc<MemoryKv> {
    let options = MemoryOptions {
        key_len_max: 2112,
        batch_operations_max: 1 << 20,
        batch_bytes_max: 1 << 30,
        ..MemoryOptions::default()
    };
    let memory = MemoryKv::new(options);
    memory.commit(Batch::new().then(Operation::CreateSpace { space: SOLE }), Durability::Memory).expect("the space");
    Arc::new(memory)
}

fn open(memory: &Arc<MemoryKv>, commits: &Arc<AtomicUsize>) -> Spaces {
    let shared = Shared { memory: Arc::clone(memory), commits: Arc::clone(commits) };
    let options = SplitOptions { piece_len: 4096, inline_len: 1024, ..SplitOptions::default() };
    let split = Split::open(Arc::new(shared), options).expect("pieces");
    Spaces::open(Arc::new(split)).expect("spaces")
}

/// The keys below and the lengths of their values.
fn below(memory: &MemoryKv) -> Vec<(Bytes, u64)> {
    let view = memory.view().expect("a view");
    let mut cursor = view.cursor(SOLE, KeyRange::all(), Direction::Forward).expect("a cursor");
    let mut found = Vec::new();
    while let Some(entry) = cursor.next().expect("an entry") {
        found.push((entry.key, entry.stat.size));
    }
    found
}

/// How many keys below begin so.
fn count(memory: &MemoryKv, prefix: u8) -> usize {
    below(memory).iter().filter(|(key, _)| key.first() == Some(&prefix)).count()
}

fn pattern(seed: u64, length: usize) -> Bytes {
    let mut bytes = vec![0; length];
    SeededRandom::new(seed).fill(&mut bytes);
    Bytes::from(bytes)
}

fn create(kv: &dyn Kv, space: SpaceId) {
    kv.commit(Batch::new().then(Operation::CreateSpace { space }), Durability::Memory).expect("a space");
}

fn done(kv: &dyn Kv, operation: Operation) {
    kv.commit(Batch::new().then(operation), Durability::Memory).expect("the batch is applied");
}

fn at(key: &str) -> Place {
    Place::new(A, key.to_owned())
}

fn put(key: &str, bytes: Bytes) -> Operation {
    Operation::Put { at: at(key), value: Payload::Bytes(bytes) }
}

#[test]
fn nothing_is_left_when_everything_was_deleted() {
    for seed in 0..12 {
        let (memory, commits) = (memory(), Arc::default());
        let kv = open(&memory, &commits);
        create(&kv, A);
        let random = SeededRandom::new(seed);
        let below_of = |limit: u64| random.next_u64() % limit;
        let key = || format!("k{}", below_of(6));
        for _ in 0..80 {
            let data = || pattern(random.next_u64(), below_of(30_000) as usize);
            let operation = match below_of(9) {
                0 => put(&key(), data()),
                1 => Operation::WriteAt { at: at(&key()), offset: below_of(60_000), data: Payload::Bytes(data()) },
                2 => Operation::Append { at: at(&key()), data: Payload::Bytes(data()) },
                3 => Operation::Truncate { at: at(&key()), length: below_of(60_000) },
                4 => Operation::Rename { from: at(&key()), to: at(&key()) },
                5 => {
                    let (from_offset, length, to_offset) = (0, u64::MAX, below_of(50_000));
                    Operation::CloneRange { from: at(&key()), from_offset, length, to: at(&key()), to_offset }
                }
                6 => {
                    let fate = if below_of(2) == 0 { Sources::Keep } else { Sources::Delete };
                    Operation::Concatenate { sources: vec![at("k1"), at("k2")], target: at("k3"), fate }
                }
                7 => {
                    let mut stage = kv.stage(StageHint::default()).expect("a stage");
                    stage.write(&data()).expect("a piece");
                    let value = Payload::Stage(stage.finish().expect("a token"));
                    Operation::Put { at: at(&key()), value }
                }
                _ => Operation::DeleteRange { space: A, range: KeyRange::new("k1", "k3") },
            };
            // Several at once, so that what one makes the next one changes; some are refused.
            let batch = Batch::new().then(operation).then(put("k0", data())).delete(A, key());
            match kv.commit(batch, Durability::Memory) {
                Ok(_) => {}
                Err(error) => assert_eq!(error.kind(), ErrorKind::Refused, "{error:?}"),
            }
            if below_of(20) == 0 {
                done(&kv, Operation::CloneSpace { from: A, to: B });
                done(&kv, Operation::DropSpace { space: B });
            }
        }
        done(&kv, Operation::DropSpace { space: A });
        assert_eq!(below(&memory), [], "seed {seed}");
    }
}

#[test]
fn what_stages_leave_behind_is_removed_at_the_next_open() {
    let (memory, commits) = (memory(), Arc::default());
    let kv = open(&memory, &commits);
    create(&kv, A);
    let long = pattern(1, 100_000);
    let mut unfinished = kv.stage(StageHint::default()).expect("a stage");
    unfinished.write(&long).expect("a piece");
    let mut finished = kv.stage(StageHint::default()).expect("a stage");
    finished.write(&long).expect("a piece");
    let token = finished.finish().expect("a token");
    let mut taken = kv.stage(StageHint::default()).expect("a stage");
    taken.write(&long).expect("a piece");
    done(&kv, Operation::Put { at: at("k"), value: Payload::Stage(taken.finish().expect("a token")) });
    assert_eq!((count(&memory, b'o'), count(&memory, b'p')), (2, 24 + 25 + 25));
    // As a crash does it.
    std::mem::forget((unfinished, token));
    kv.close().expect("close");
    let kv = open(&memory, &commits);
    assert_eq!((count(&memory, b'o'), count(&memory, b'p')), (0, 25));
    assert_eq!(kv.get(A, b"k").expect("get"), Some(long));
}

#[test]
fn a_change_writes_its_pieces_and_a_rename_its_head() {
    let (memory, commits) = (memory(), Arc::default());
    let kv = open(&memory, &commits);
    create(&kv, A);
    let long = pattern(1, 400_000);
    done(&kv, put("k", long.clone()));
    let versions = || {
        let view = memory.view().expect("a view");
        let pieces = below(&memory).into_iter().filter(|(key, _)| key.first() == Some(&b'p'));
        pieces.map(|(key, _)| view.stat(SOLE, &key).expect("stat").expect("a piece").version).collect::<Vec<_>>()
    };
    let before = versions();
    assert_eq!(before.len(), 98);
    done(&kv, Operation::WriteAt { at: at("k"), offset: 4000, data: Payload::Bytes(pattern(2, 200)) });
    let after = versions();
    assert_eq!(after.len(), 98);
    assert_eq!(before.iter().zip(&after).filter(|(a, b)| a != b).count(), 2, "the bytes lie in two pieces");
    done(&kv, Operation::Rename { from: at("k"), to: at("l") });
    done(&kv, Operation::CloneRange { from: at("l"), from_offset: 0, length: u64::MAX, to: at("m"), to_offset: 0 });
    let sources = vec![at("l"), at("m")];
    done(&kv, Operation::Concatenate { sources, target: at("n"), fate: Sources::Delete });
    assert_eq!(versions(), after, "moving, cloning and joining write no piece");
    // A shared blob is not changed in place.
    done(&kv, Operation::WriteAt { at: at("n"), offset: 0, data: Payload::Bytes(pattern(3, 200)) });
    let mut expected = long.to_vec();
    expected[4000..4200].copy_from_slice(&pattern(2, 200));
    let value = kv.get(A, b"n").expect("get").expect("the value");
    assert!(value[400_000..] == expected && value[..200] == pattern(3, 200) && value[200..400_000] == expected[200..]);
    // What is cut off goes, piece by piece.
    done(&kv, put("k", long));
    done(&kv, Operation::DeleteRange { space: A, range: KeyRange::single("n") });
    done(&kv, Operation::Truncate { at: at("k"), length: 40_000 });
    assert_eq!(versions().len(), 10);
}

#[test]
fn a_batch_is_one_batch_below_and_what_does_not_fit_is_refused() {
    let (memory, commits) = (memory(), Arc::default());
    let kv = open(&memory, &commits);
    create(&kv, A);
    let batch = (0..100u64).fold(Batch::new(), |batch, seed| batch.put(A, format!("k{seed}"), pattern(seed, 9000)));
    let before = commits.load(Ordering::Relaxed);
    kv.commit(batch, Durability::Memory).expect("the batch is applied");
    assert_eq!(commits.load(Ordering::Relaxed), before + 1);
    // A store below that takes few operations at once: a space of many keys cannot be copied in one batch.
    let options = MemoryOptions { batch_operations_max: 200, key_len_max: 2112, ..MemoryOptions::default() };
    let kv = Spaces::open(Arc::new(MemoryKv::new(options))).expect("spaces");
    create(&kv, A);
    let keys = (0..100).fold(Batch::new(), |batch, number| batch.put(A, format!("k{number}"), "v"));
    kv.commit(keys, Durability::Memory).expect("the batch is applied");
    let clone = Batch::new().then(Operation::CloneSpace { from: A, to: B });
    let error = kv.commit(clone, Durability::Memory).expect_err("a space of too many keys");
    assert_eq!(error.kind(), ErrorKind::Unsupported);
    assert!(error.message().contains("at most 200"), "{error}");
    assert!(!kv.view().expect("a view").has_space(B).expect("has_space"));
}
