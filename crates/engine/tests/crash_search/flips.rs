//! Every block of a small store damaged in turn: detected or harmless, never wrong data, never a panic.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;

use bytes::Bytes;
use koine_engine::device::{BLOCK_LEN, Image, MemoryDevice};
use koine_engine::{Batch, Durability, Operation, Payload, Place, RequestId, SpaceId};

use crate::coverage::Coverage;
use crate::dice::Dice;
use crate::model::Content;
use crate::run::{Positioned, Run, Stop, Verdict, stop};
use crate::store::{self, Build};
use crate::workload::{Generator, Shape};

impl Positioned for MemoryDevice {
    fn position(&self) -> usize {
        0
    }
}

/// How a block is damaged.
#[derive(Clone, Copy, Debug)]
pub enum Damage {
    OneBit,
    Zeros,
    Noise,
}

/// The key of the last commit.
pub const MARK: &[u8] = b"mark";

pub const DAMAGES: [Damage; 3] = [Damage::OneBit, Damage::Zeros, Damage::Noise];

/// A store of 1 MiB after a workload, with what it holds. It was not closed in good order, so that its
/// log still says something.
pub fn store_after(seed: u64) -> Verdict<(Image, Content)> {
    let mut generator = Generator::new(seed);
    small(&mut generator);
    generator.shape.actions = 60;
    let device = Arc::new(store::formatted(&generator.shape, seed)?);
    let engine = store::open(device.clone(), Build::Right).map_err(stop("opening failed"))?;
    let mut run = Run::new(device.clone(), engine)?;
    run.live(&mut generator)?;
    // Also what comes before this, of any level, is durable with it.
    let last = Batch::new().put(koine_engine::SpaceId::FIRST, &b"last"[..], &b"x"[..]);
    run.submit(last, Durability::Sync)?;
    run.settle()?;
    let content = run.content().clone();
    // Its group says that all before it is durable, as the mark of an idle store does; it may get lost itself.
    run.submit(Batch::new().put(koine_engine::SpaceId::FIRST, MARK, &b"x"[..]), Durability::Written)?;
    run.settle()?;
    Ok((device.image(), content))
}

/// The store of that workload in the middle of its life.
pub fn store_before(seed: u64) -> Verdict<Image> {
    let mut generator = Generator::new(seed);
    small(&mut generator);
    generator.shape.actions = 30;
    let device = Arc::new(store::formatted(&generator.shape, seed)?);
    let engine = store::open(device.clone(), Build::Right).map_err(stop("opening failed"))?;
    Run::new(device.clone(), engine)?.live(&mut generator)?;
    Ok(device.image())
}

/// A store of that size that was opened and closed again.
pub fn empty_store(seed: u64) -> Verdict<Image> {
    let mut generator = Generator::new(seed);
    small(&mut generator);
    let device = Arc::new(store::formatted(&generator.shape, seed)?);
    for _ in 0..8 {
        device.reopen();
        let engine = store::open(device.clone(), Build::Right).map_err(stop("opening failed"))?;
        engine.close().map_err(stop("closing failed"))?;
    }
    Ok(device.image())
}

fn small(generator: &mut Generator) {
    generator.shape.length = 1 << 20;
    generator.shape.length_max = 1 << 20;
    generator.shape.fixed = true;
    generator.shape.live_max = 250_000;
}

/// Damages one block and looks at the store.
pub fn damaged(sound: &Image, content: &Content, block: usize, damage: Damage, coverage: &mut Coverage) -> Verdict {
    let dice = Dice::new(block as u64);
    let mut bytes = vec![0; BLOCK_LEN];
    sound.read(block * BLOCK_LEN, &mut bytes);
    match damage {
        Damage::OneBit => bytes[dice.below(BLOCK_LEN)] ^= 1 << dice.below(8),
        Damage::Zeros => bytes.fill(0),
        Damage::Noise => bytes.iter_mut().for_each(|byte| *byte = dice.number() as u8),
    }
    replaced(sound, content, block, &bytes, true, coverage)
}

/// Puts other bytes in the place of a block and looks at the store.
pub fn replaced(
    sound: &Image,
    content: &Content,
    block: usize,
    bytes: &[u8],
    checks: bool,
    coverage: &mut Coverage,
) -> Verdict {
    let mut image = sound.clone();
    image.write(block * BLOCK_LEN, bytes);
    let look = AssertUnwindSafe(|| look(image, content, checks, coverage));
    catch_unwind(look).unwrap_or_else(|_| Err(Stop::Wrong("panic".to_owned())))
}

/// Whether what was read of a damaged store is right.
pub fn is_part(found: &Content, content: &Content) -> bool {
    found.0.iter().all(|(space, keys)| {
        keys.iter().all(|(key, value)| {
            let right = content.get(*space, key);
            right.is_some_and(|right| {
                right.data == value.data && (right.version.is_none() || right.version == value.version)
            })
        })
    })
}

fn look(image: Image, content: &Content, checks: bool, coverage: &mut Coverage) -> Verdict {
    let length = image.len() as u64;
    let device = Arc::new(MemoryDevice::from_image(image, length));
    let Some((engine, found, errors)) = store::open_damaged(device, coverage)? else { return Ok(()) };
    if !is_part(&found, content) {
        return Err(Stop::Wrong(format!("reads wrong: {}", content.difference(&found).unwrap_or_default())));
    }
    if errors.is_empty() {
        if let Some(difference) = content.difference(&found) {
            return Err(Stop::Wrong(format!("without an error: {difference}")));
        }
        coverage.count(if !checks || store::is_sound(&engine)? { "harmless" } else { "found by check" });
    } else {
        coverage.count("found by reading");
        if checks && store::is_sound(&engine)? {
            return Err(Stop::Wrong(format!("check finds nothing where reading says {:?}", errors[0])));
        }
    }
    // More may work or not; it must only not panic.
    let more = Batch::new().put(koine_engine::SpaceId::FIRST, &b"more"[..], &b"x"[..]);
    coverage.count(match engine.submit(more, Durability::Sync).wait() {
        Ok(_) => "commit after damage",
        Err(_) => "no commit after damage",
    });
    Ok(())
}

/// A store of this length that is nearly full of values of all sizes, with clones, snapshots, shared blocks and
/// request ids, and with what it holds. Power was cut, so that its log says something.
pub fn full_store(length: usize) -> Verdict<(Image, Content)> {
    let shape = Shape { length, length_max: length as u64, fixed: true, ..Shape::from(0) };
    let device = Arc::new(store::formatted(&shape, 9)?);
    let engine = store::open(device.clone(), Build::Right).map_err(stop("opening failed"))?;
    let mut content = Content::default();
    let mut done = |batch: Batch, durability: Durability| -> Verdict {
        let staged = crate::run::stage_large(&engine, &batch, &mut Coverage::default()).map_err(stop("staging"))?;
        let commit = engine.submit(staged, durability).wait().map_err(stop("no commit"))?;
        content = content.after(&batch, Some(commit.version.0)).map_err(|no| format!("{no:?}"))?;
        engine.step().map(drop).map_err(stop("a step failed"))
    };
    let (space, clone, snapshot) = (SpaceId::FIRST, SpaceId(17), SpaceId(18));
    let dice = Dice::new(length as u64);
    let data = |length: usize| Bytes::from((0..length).map(|_| dice.number() as u8).collect::<Vec<u8>>());
    done(Batch::new().then(Operation::CreateSpace { space }), Durability::Sync)?;
    for number in 0..400 {
        let length = [60, 200, 900, 2_000, 3_900][number % 5];
        let request = RequestId((number as u128).to_be_bytes());
        done(
            Batch::new().put(space, format!("small/{number}"), data(length)).with_request(request),
            Durability::Written,
        )?;
    }
    let mut number = 0;
    while engine.usage().free > length as u64 / 5 {
        number += 1;
        done(
            Batch::new().put(space, format!("large/{number}"), data(dice.between(20_000, 400_000))),
            Durability::Written,
        )?;
    }
    let (from, to) = (Place::new(space, "large/1"), Place::new(space, "part"));
    let part = Operation::CloneRange { from, from_offset: 4_096, length: 9_000, to, to_offset: 100 };
    done(Batch::new().then(part), Durability::Written)?;
    done(Batch::new().then(Operation::CloneSpace { from: space, to: clone }), Durability::Sync)?;
    done(Batch::new().then(Operation::SnapshotSpace { from: space, to: snapshot }), Durability::Sync)?;
    for number in (0..400).step_by(37) {
        done(Batch::new().put(clone, format!("small/{number}"), data(700)), Durability::Written)?;
        done(
            Batch::new().then(Operation::Delete { at: Place::new(space, format!("small/{number}")) }),
            Durability::Sync,
        )?;
    }
    let patch = Payload::Bytes(data(5_000));
    let at = Place::new(clone, "large/2");
    done(Batch::new().then(Operation::WriteAt { at, offset: 7_000, data: patch }), Durability::Sync)?;
    // Says that all before it is durable.
    engine.submit(Batch::new().put(space, MARK, &b"x"[..]), Durability::Written).wait().map_err(stop("no commit"))?;
    let found = store::read_all(&engine).map_err(stop("cannot read"))?;
    match content.difference(&without_mark(found)) {
        None => Ok((device.image(), content)),
        Some(difference) => Err(Stop::Wrong(difference)),
    }
}

fn without_mark(mut content: Content) -> Content {
    content.0.get_mut(&SpaceId::FIRST).and_then(|space| space.remove(MARK));
    content
}
