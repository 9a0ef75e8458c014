//! The stores that are kept as images: what is done to make each.
//!
//! Everything here is decided by nothing but this text, so that what an image should hold can be read here. The
//! images are made once, by the program whose format they have, and never again.

use std::sync::Arc;

use koine_engine::device::{Image, MemoryDevice};
use koine_engine::objects::{CreateOptions, Store, StoreOptions};
use koine_engine::stage::Access;
use koine_engine::{
    Background, Batch, Condition, Durability, Engine, FormatOptions, KeyRange, Operation, Options, Payload, Place,
    RequestId, Sources, SpaceId, Stage, StageHint,
};
use koine_env::SeededRandom;

const SPACE: SpaceId = SpaceId(20);
const OTHER: SpaceId = SpaceId(21);
const CLONE: SpaceId = SpaceId(30);
const SNAPSHOT: SpaceId = SpaceId(31);
const DROPPED: SpaceId = SpaceId(32);
/// A space that every scene has and that nothing but the test writes to.
pub const FOR_TESTS: SpaceId = SpaceId(40);

/// How a scene ends.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum End {
    Closed,
    PowerCut,
}

/// The scenes that each format has, by name.
pub fn names(format: u32) -> &'static [&'static str] {
    match format {
        0 => &["closed", "cut"],
        _ => &["closed", "log", "branches", "objects", "blocks", "frozen"],
    }
}

/// Makes the store of a scene.
pub fn make(name: &str) -> Image {
    match name {
        "closed" => play(1 << 20, &[values, branches, objects], End::Closed),
        // With a ring that holds the whole log.
        "cut" => play(4 << 20, &[values, branches, objects, log], End::PowerCut),
        "log" => play(4 << 20, &[values, log], End::PowerCut),
        "branches" => play(1 << 20, &[values, branches], End::PowerCut),
        "objects" => play(1 << 20, &[objects, stored], End::PowerCut),
        "blocks" => play_in(64 << 10, 2 << 20, options(), &[values, whole_blocks, objects], End::PowerCut),
        "frozen" => {
            // Every staged value is a frozen blob.
            let options = Options { frozen_above: 0, ..options() };
            play_in(4 << 10, 4 << 20, options, &[values, frozen, branches, frozen_in_the_log], End::PowerCut)
        }
        other => panic!("there is no scene {other}"),
    }
}

/// What lives until the power is cut, so that it is under way then.
#[derive(Default)]
struct Held(Vec<Stage>);

type Act = fn(&Arc<Engine>, &mut Held);

/// Plays acts in a store of this length with a ring of an eighth of it (a sixteenth of 1 MiB).
fn play(length: usize, acts: &[Act], end: End) -> Image {
    play_in(4 << 10, length, options(), acts, end)
}

fn options() -> Options {
    Options { background: Background::Manual, memory_len: 4 << 20, ..Options::default() }
}

/// The same in a store of this block size, opened so.
fn play_in(block_len: u64, length: usize, options: Options, acts: &[Act], end: End) -> Image {
    let device = Arc::new(MemoryDevice::growable(length, 4 << 20));
    let format = FormatOptions { ring_len: 0, size_max: 4 << 20, block_len };
    Engine::format(device.as_ref(), format, &SeededRandom::new(acts.len() as u64)).expect("it can be formatted");
    let engine = Arc::new(Engine::open(device.clone(), options).expect("it opens"));
    done(&engine, Operation::CreateSpace { space: FOR_TESTS });
    let mut held = Held::default();
    acts.iter().for_each(|act| act(&engine, &mut held));
    if end == End::Closed {
        held.0.clear();
        engine.close().expect("it closes");
    } else {
        // Says that all before it is durable.
        commit(&engine, Batch::new().put(FOR_TESTS, &b"last"[..], &b"x"[..]), Durability::Written);
    }
    device.image()
}

fn commit(engine: &Engine, batch: Batch, durability: Durability) {
    engine.submit(batch, durability).wait().expect("it commits");
}

fn done(engine: &Engine, operation: Operation) {
    commit(engine, Batch::new().then(operation), Durability::Sync);
}

fn pattern(length: usize, seed: usize) -> Vec<u8> {
    (0..length).map(|at| (at as u8).wrapping_mul(31).wrapping_add((at >> 8) as u8).wrapping_add(seed as u8)).collect()
}

fn put(engine: &Engine, space: SpaceId, key: &str, length: usize) {
    let batch = Batch::new().put(space, key.to_owned(), pattern(length, key.len() + length));
    commit(engine, batch, Durability::Sync);
}

fn staged(engine: &Engine, key: &str, length: usize, access: Access) {
    let mut stage = engine.stage(StageHint { access, ..StageHint::default() }).expect("a stage");
    for piece in pattern(length, key.len()).chunks(50_000) {
        stage.write(piece).expect("a piece is taken");
    }
    let value = Payload::Stage(stage.finish().expect("the stage ends"));
    done(engine, Operation::Put { at: Place::new(SPACE, key.to_owned()), value });
}

/// Values of every kind: inline, packed, in extents of both kinds of chunks, in many pieces, with holes, shared.
fn values(engine: &Arc<Engine>, _: &mut Held) {
    done(engine, Operation::CreateSpace { space: SPACE });
    for first in (0..300).step_by(50) {
        let small = |batch: Batch, number: usize| {
            batch.put(SPACE, format!("small/{number:04}"), pattern(20 + number % 90, number))
        };
        commit(engine, (first..first + 50).fold(Batch::new(), small), Durability::Written);
    }
    for length in [0, 1, 1024, 1025, 3000, 4096, 4097] {
        put(engine, SPACE, &format!("size/{length:06}"), length);
    }
    engine.checkpoint().expect("a checkpoint");
    for length in [9_000, 40_000, 90_000] {
        put(engine, SPACE, &format!("size/{length:06}"), length);
    }
    staged(engine, "staged/sequential", 120_000, Access::Sequential);
    staged(engine, "staged/random", 70_000, Access::Random);
    let at = || Place::new(SPACE, "staged/sequential");
    let data = Payload::Bytes(pattern(5_000, 3).into());
    done(engine, Operation::WriteAt { at: at(), offset: 33_333, data });
    let data = Payload::Bytes(pattern(700, 4).into());
    done(engine, Operation::WriteAt { at: Place::new(SPACE, "hole"), offset: 3 << 20, data });
    done(engine, Operation::Append { at: at(), data: Payload::Bytes(pattern(2_000, 5).into()) });
    done(engine, Operation::Truncate { at: Place::new(SPACE, "size/040000"), length: 39_000 });
    let to = Place::new(SPACE, "shared/part");
    done(engine, Operation::CloneRange { from: at(), from_offset: 8_192, length: 50_000, to, to_offset: 100 });
    let sources = vec![Place::new(SPACE, "size/090000"), Place::new(SPACE, "size/009000")];
    let target = Place::new(SPACE, "shared/joined");
    done(engine, Operation::Concatenate { sources, target, fate: Sources::Keep });
    done(engine, Operation::AddCounter { at: Place::new(SPACE, "counter"), delta: -42 });
    let request = RequestId([7; 16]);
    commit(engine, Batch::new().put(SPACE, "requested", pattern(30, 1)).with_request(request), Durability::Sync);
    let refused =
        Batch::new().when(Condition::Absent { space: SPACE, key: "requested".into() }).with_request(RequestId([8; 16]));
    assert!(engine.submit(refused, Durability::Sync).wait().is_err(), "it is refused");
    engine.checkpoint().expect("a checkpoint");
}

/// Values of one whole block, of a little more, and of many, one of them written over in whole blocks and in parts.
fn whole_blocks(engine: &Arc<Engine>, _: &mut Held) {
    for (key, length) in [("blocks/1", 65_536), ("blocks/1+", 66_000), ("blocks/5", 5 * 65_536)] {
        staged(engine, key, length, Access::Random);
    }
    engine.checkpoint().expect("a checkpoint");
    for (offset, length) in [(65_536, 2 * 65_536), (250_000, 40_000), (10_000, 3_000)] {
        let data = Payload::Stage({
            let mut stage =
                engine.stage(StageHint { access: Access::Random, ..StageHint::default() }).expect("a stage");
            stage.write(&pattern(length, 9)).expect("a piece is taken");
            stage.finish().expect("the stage ends")
        });
        done(engine, Operation::WriteAt { at: Place::new(SPACE, "blocks/5"), offset, data });
    }
    done(engine, Operation::Delete { at: Place::new(SPACE, "staged/sequential") });
}

/// Frozen blobs: named once, by a copy, in parts after edits, joined, by a copy alone, and by nobody any more.
fn frozen(engine: &Arc<Engine>, _: &mut Held) {
    for (key, length) in
        [("frozen/one", 60_000), ("frozen/long", 300_000), ("frozen/left", 80_000), ("frozen/gone", 70_000)]
    {
        staged(engine, key, length, Access::Random);
    }
    engine.checkpoint().expect("a checkpoint");
    let at = |key: &str| Place::new(SPACE, key.to_owned());
    for (from, to) in [("frozen/long", "frozen/copy"), ("frozen/left", "frozen/heir")] {
        done(
            engine,
            Operation::CloneRange { from: at(from), from_offset: 0, length: u64::MAX, to: at(to), to_offset: 0 },
        );
    }
    let data = Payload::Bytes(pattern(9_000, 6).into());
    done(engine, Operation::WriteAt { at: at("frozen/copy"), offset: 111_111, data });
    done(engine, Operation::Truncate { at: at("frozen/copy"), length: 250_001 });
    let sources = vec![at("frozen/one"), at("frozen/long")];
    done(engine, Operation::Concatenate { sources, target: at("frozen/joined"), fate: Sources::Keep });
    done(engine, Operation::Delete { at: at("frozen/left") });
    engine.checkpoint().expect("a checkpoint");
    done(engine, Operation::Delete { at: at("frozen/gone") });
    engine.checkpoint().expect("a checkpoint");
}

/// What is frozen, copied and let go of in the log alone.
fn frozen_in_the_log(engine: &Arc<Engine>, _: &mut Held) {
    staged(engine, "frozen/logged", 90_000, Access::Random);
    let at = |key: &str| Place::new(SPACE, key.to_owned());
    let to = at("frozen/logged-copy");
    done(
        engine,
        Operation::CloneRange { from: at("frozen/logged"), from_offset: 5_000, length: 50_000, to, to_offset: 0 },
    );
    done(engine, Operation::Delete { at: at("frozen/one") });
}

/// A clone and a snapshot that have gone their own ways, and one that is being taken down.
fn branches(engine: &Arc<Engine>, held: &mut Held) {
    done(engine, Operation::SnapshotSpace { from: SPACE, to: SNAPSHOT });
    done(engine, Operation::CloneSpace { from: SPACE, to: CLONE });
    done(engine, Operation::CloneSpace { from: CLONE, to: DROPPED });
    for number in (0..300).step_by(7) {
        put(engine, CLONE, &format!("small/{number:04}"), 33);
    }
    put(engine, CLONE, "clone/large", 45_000);
    put(engine, DROPPED, "dropped/large", 35_000);
    engine.checkpoint().expect("a checkpoint");
    done(engine, Operation::Delete { at: Place::new(SPACE, "size/090000") });
    done(engine, Operation::DeleteRange { space: SPACE, range: KeyRange::new(&b"small/0100"[..], &b"small/0150"[..]) });
    put(engine, SPACE, "after the branch", 2_000);
    engine.checkpoint().expect("a checkpoint");
    done(engine, Operation::DropSpace { space: DROPPED });
    under_way(engine, held);
    engine.checkpoint().expect("a checkpoint");
}

/// A stage that has logged what it placed.
fn under_way(engine: &Engine, held: &mut Held) {
    let mut stage = engine.stage(StageHint { access: Access::Random, ..StageHint::default() }).expect("a stage");
    for number in 0..8 {
        stage.write(&pattern(100_000, number)).expect("a piece is taken");
    }
    held.0.push(stage);
}

/// Numbered objects: small, preallocated, changed by a transaction, deleted.
fn objects(engine: &Arc<Engine>, _: &mut Held) {
    let options = StoreOptions { name: "golden".to_owned(), object_limit: Some(1000) };
    let store = Store::over(Arc::clone(engine), options).expect("the objects open");
    let create =
        |size| store.create_with(CreateOptions { size, durability: Durability::Sync, ..CreateOptions::default() });
    let small = create(0).expect("an object");
    small.write(0, &pattern(500, 1), Durability::Sync).expect("it is written");
    let large = create(200_000).expect("an object");
    large.write(4_096, &pattern(60_000, 2), Durability::Sync).expect("it is written");
    let gone = create(10_000).expect("an object");
    let mut transaction = store.transaction(Default::default()).expect("a transaction");
    transaction.write(&small, 100, &pattern(50, 3)).expect("a write");
    transaction.write(&large, 150_000, &pattern(9_000, 4)).expect("a write");
    transaction.execute(Durability::Sync).expect("it is executed");
    gone.delete(Durability::Sync).expect("it is deleted");
    store.create_many(20, 300, Durability::Sync).expect("objects");
    store.delete_many(&[5, 6, 7], Durability::Sync).expect("they are deleted");
    small.close(Durability::Sync).expect("it closes");
    large.close(Durability::Sync).expect("it closes");
    store.close().expect("the objects close");
}

/// What was done is stored; the log begins anew.
fn stored(engine: &Arc<Engine>, _: &mut Held) {
    engine.checkpoint().expect("a checkpoint");
}

/// Commits of every kind that only the log has.
fn log(engine: &Arc<Engine>, held: &mut Held) {
    stored(engine, held);
    done(engine, Operation::CreateSpace { space: OTHER });
    put(engine, OTHER, "logged/small", 100);
    put(engine, OTHER, "logged/large", 8_000);
    staged(engine, "logged/staged", 40_000, Access::Random);
    let at = |key: &str| Place::new(SPACE, key.to_owned());
    done(
        engine,
        Operation::WriteAt { at: at("size/009000"), offset: 5_000, data: Payload::Bytes(pattern(900, 9).into()) },
    );
    done(engine, Operation::Append { at: at("size/000001"), data: Payload::Bytes(pattern(10, 9).into()) });
    done(engine, Operation::Truncate { at: at("size/003000"), length: 3_100 });
    done(engine, Operation::Delete { at: at("small/0007") });
    done(engine, Operation::DeleteRange { space: SPACE, range: KeyRange::prefix(&b"small/001"[..]) });
    done(engine, Operation::Rename { from: at("small/0020"), to: at("renamed") });
    done(engine, Operation::RenamePrefix { space: SPACE, from: "small/003".into(), to: "moved/".into() });
    let to = Place::new(OTHER, "logged/part");
    done(
        engine,
        Operation::CloneRange { from: at("size/040000"), from_offset: 4_096, length: 20_000, to, to_offset: 0 },
    );
    let sources = vec![at("small/0041"), at("small/0042")];
    done(engine, Operation::Concatenate { sources, target: at("shared/moved"), fate: Sources::Delete });
    done(engine, Operation::AddCounter { at: at("counter"), delta: 50 });
    done(engine, Operation::SnapshotSpace { from: OTHER, to: SpaceId(50) });
    done(engine, Operation::CloneSpace { from: OTHER, to: SpaceId(51) });
    done(engine, Operation::DropSpace { space: SpaceId(51) });
    let request = RequestId([9; 16]);
    commit(engine, Batch::new().put(OTHER, "requested", pattern(20, 2)).with_request(request), Durability::Sync);
    let refused =
        Batch::new().when(Condition::Absent { space: SPACE, key: "renamed".into() }).with_request(RequestId([10; 16]));
    assert!(engine.submit(refused, Durability::Sync).wait().is_err(), "it is refused");
}
