//! Every block of a small store damaged in turn: detected or harmless, never wrong data, never a panic.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;

use koine_engine::device::{BLOCK_LEN, MemoryDevice};
use koine_engine::{Batch, Durability, ErrorKind};

use crate::coverage::Coverage;
use crate::dice::Dice;
use crate::model::Content;
use crate::run::{Positioned, Run, Stop, Verdict, stop};
use crate::store::{self, Build};
use crate::workload::Generator;

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
const MARK: &[u8] = b"mark";

pub const DAMAGES: [Damage; 3] = [Damage::OneBit, Damage::Zeros, Damage::Noise];

/// A store of 1 MiB after a workload, with what it holds. It was not closed in good order, so that its
/// log still says something.
pub fn store_after(seed: u64) -> Verdict<(Vec<u8>, Content)> {
    let mut generator = Generator::new(seed);
    generator.shape.length = 1 << 20;
    generator.shape.length_max = 1 << 20;
    generator.shape.fixed = true;
    generator.shape.live_max = 250_000;
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
    Ok((device.to_vec(), content))
}

/// Damages one block and looks at the store.
pub fn damaged(image: &[u8], content: &Content, block: usize, damage: Damage, coverage: &mut Coverage) -> Verdict {
    let mut image = image.to_vec();
    let dice = Dice::new(block as u64);
    let bytes = &mut image[block * BLOCK_LEN..][..BLOCK_LEN];
    match damage {
        Damage::OneBit => bytes[dice.below(BLOCK_LEN)] ^= 1 << dice.below(8),
        Damage::Zeros => bytes.fill(0),
        Damage::Noise => bytes.iter_mut().for_each(|byte| *byte = dice.number() as u8),
    }
    let look = AssertUnwindSafe(|| look(image, content, coverage));
    catch_unwind(look).unwrap_or_else(|_| Err(Stop::Wrong("panic".to_owned())))
}

fn look(image: Vec<u8>, content: &Content, coverage: &mut Coverage) -> Verdict {
    let length = image.len() as u64;
    let device = Arc::new(MemoryDevice::from_bytes(image, length));
    let engine = match store::open(device, Build::Right) {
        Ok(engine) => engine,
        Err(error) if matches!(error.kind(), ErrorKind::Damaged | ErrorKind::Unknown) => {
            coverage.count("refused to open");
            return Ok(());
        }
        Err(error) => return Err(Stop::Wrong(format!("opening says {error:?}"))),
    };
    let (mut found, errors) = store::read_what_can_be(&engine);
    if let Some(space) = found.0.get_mut(&koine_engine::SpaceId::FIRST) {
        space.remove(MARK);
    }
    if let Some(error) = errors.iter().find(|error| error.kind() != ErrorKind::Damaged) {
        return Err(Stop::Wrong(format!("reading says {error:?}")));
    }
    for (space, keys) in &found.0 {
        for (key, value) in keys {
            let right = content.get(*space, key);
            if right.is_none_or(|right| right.data != value.data || right.version != value.version) {
                return Err(Stop::Wrong(format!("{}/{} reads wrong", space.0, key.escape_ascii())));
            }
        }
    }
    if errors.is_empty() {
        if let Some(difference) = content.difference(&found) {
            return Err(Stop::Wrong(format!("without an error: {difference}")));
        }
        coverage.count(if store::is_sound(&engine)? { "harmless" } else { "found by check" });
    } else {
        coverage.count("found by reading");
        if store::is_sound(&engine)? {
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
