//! Salvage from stores damaged at every block, with and without superblocks: what it gives out is right, and what is
//! not damaged is given out.

use std::collections::BTreeMap;
use std::sync::Arc;

use koine_engine::device::{BLOCK_LEN, Device, MemoryDevice};
use koine_engine::{
    Batch, Durability, Engine, FormatOptions, KeyRange, Origin, Place, Result, SalvageReport, SalvageSink, SpaceId,
    StoreSink, salvage,
};
use koine_env::SeededRandom;

use crate::dice::Dice;
use crate::flips::Damage;
use crate::model::Content;
use crate::run::{Run, State, Verdict, stop};
use crate::store::{self, Build};
use crate::workload::Generator;

/// The blocks of the two superblocks.
pub const SUPERBLOCKS: [usize; 2] = [0, 128];

/// A store after a life, and every state that it went through.
pub struct Image {
    pub bytes: Vec<u8>,
    states: Vec<State>,
}

/// How a life ends.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum End {
    /// Power cut: the log has the newest commits.
    Cut,
    /// Closed in order.
    Closed,
}

impl Image {
    /// A store of 1.5 MiB after a workload, opened twice.
    pub fn make(seed: u64, end: End) -> Verdict<Image> {
        let mut generator = Generator::new(seed);
        generator.shape.length = 3 << 19;
        generator.shape.length_max = 3 << 19;
        generator.shape.fixed = true;
        generator.shape.live_max = 350_000;
        generator.shape.actions = 80;
        let device = Arc::new(store::formatted(&generator.shape, seed)?);
        let engine = store::open(device.clone(), Build::Right).map_err(stop("opening failed"))?;
        let mut run = Run::new(device.clone(), engine)?;
        run.live(&mut generator)?;
        // Values of every kind that the workload may not have left.
        let space = SpaceId::FIRST;
        let made = |length: usize, fill: u8| vec![fill; length];
        for (key, value) in [("k/small", made(100, 1)), ("k/packed", made(9000, 2)), ("k/large", made(90_000, 3))] {
            run.submit(Batch::new().put(space, key.as_bytes().to_vec(), value), Durability::Sync)?;
        }
        run.settle()?;
        if end == End::Closed {
            run.engine.close().map_err(stop("closing failed"))?;
        } else {
            // Its group says that all before it is durable; it may get lost itself.
            run.submit(Batch::new().put(space, &b"mark"[..], &b"x"[..]), Durability::Written)?;
            run.settle()?;
        }
        Ok(Image { bytes: device.to_vec(), states: run.states.clone() })
    }

    /// The bytes of a medium that held a store of many nodes and was formatted again: the new store has keys of its own and
    /// lost power, after a checkpoint or before its first. Gives the new store's id too.
    pub fn make_anew(checkpointed: bool) -> Result<(Vec<u8>, u64)> {
        let space = SpaceId::FIRST;
        let live = |device: &Arc<MemoryDevice>, seed: u64, keys: u64| -> Result<Engine> {
            Engine::format(device.as_ref(), FormatOptions::default(), &SeededRandom::new(seed))?;
            let engine = store::open(device.clone(), Build::Right)?;
            engine.commit(Batch::new().then(koine_engine::Operation::CreateSpace { space }), Durability::Sync)?;
            for number in 0..keys {
                let key = format!("{seed}/{number:04}").into_bytes();
                engine.commit(Batch::new().put(space, key, vec![seed as u8; 300]), Durability::Written)?;
            }
            engine.sync()?;
            Ok(engine)
        };
        let device = Arc::new(MemoryDevice::fixed(12 << 20));
        let older = live(&device, 1, 4000)?;
        older.checkpoint()?;
        older.close()?;
        let device = Arc::new(MemoryDevice::from_bytes(device.to_vec(), 12 << 20));
        let newer = live(&device, 2, 20)?;
        if checkpointed {
            newer.checkpoint()?;
        }
        let mut bytes = device.to_vec();
        SUPERBLOCKS.iter().for_each(|block| bytes[block * BLOCK_LEN..][..BLOCK_LEN].fill(0));
        Ok((bytes, newer.info().store_id))
    }

    /// A store that was opened once and lost power before its first checkpoint.
    pub fn make_young(seed: u64) -> Verdict<Image> {
        let mut generator = Generator::new(seed);
        generator.shape.length = 3 << 19;
        generator.shape.length_max = 3 << 19;
        generator.shape.fixed = true;
        let device = Arc::new(store::formatted(&generator.shape, seed)?);
        let engine = store::open(device.clone(), Build::Right).map_err(stop("opening failed"))?;
        let mut run = Run::new(device.clone(), engine)?;
        let space = SpaceId::FIRST;
        run.submit(Batch::new().then(koine_engine::Operation::CreateSpace { space }), Durability::Sync)?;
        for (number, length) in [10, 900, 3000, 7000].into_iter().enumerate() {
            let key = format!("key {number}").into_bytes();
            run.submit(Batch::new().put(space, key, vec![number as u8 + 1; length]), Durability::Sync)?;
        }
        run.submit(Batch::new().put(space, &b"mark"[..], &b"x"[..]), Durability::Written)?;
        run.settle()?;
        Ok(Image { bytes: device.to_vec(), states: run.states.clone() })
    }

    fn newest(&self) -> &State {
        self.states.last().expect("there is a first state")
    }

    /// The state that a commit left.
    fn state(&self, version: u64) -> Option<&Content> {
        self.states.iter().rev().find(|state| state.version <= version).map(|state| &state.content)
    }

    /// A copy with some blocks damaged.
    pub fn damaged(&self, blocks: &[usize], damage: Damage) -> Vec<u8> {
        let mut bytes = self.bytes.clone();
        for block in blocks {
            let dice = Dice::new(*block as u64);
            let bytes = &mut bytes[block * BLOCK_LEN..][..BLOCK_LEN];
            match damage {
                Damage::OneBit => bytes[dice.below(BLOCK_LEN)] ^= 1 << dice.below(8),
                Damage::Zeros => bytes.fill(0),
                Damage::Noise => bytes.iter_mut().for_each(|byte| *byte = dice.number() as u8),
            }
        }
        bytes
    }
}

/// Keeps all that is given out, byte by byte: `None` is lost.
#[derive(Default)]
pub struct Kept {
    pub spaces: Vec<SpaceId>,
    pub values: BTreeMap<Place, Vec<Option<u8>>>,
    current: Option<(Place, u64, Vec<Option<u8>>)>,
}

impl Kept {
    fn push(&mut self, part: impl Iterator<Item = Option<u8>>) -> Result<()> {
        self.current.as_mut().expect("a value was begun").2.extend(part);
        Ok(())
    }
}

impl SalvageSink for Kept {
    fn space(&mut self, space: SpaceId) -> Result<()> {
        assert!(self.spaces.last().is_none_or(|last| *last < space), "spaces come in order");
        self.spaces.push(space);
        Ok(())
    }
    fn begin(&mut self, at: &Place, size: u64) -> Result<()> {
        assert_eq!(self.spaces.last(), Some(&at.space));
        assert!(self.values.last_key_value().is_none_or(|(last, _)| last < at), "keys come in order");
        assert!(self.current.replace((at.clone(), size, Vec::new())).is_none());
        Ok(())
    }
    fn bytes(&mut self, bytes: &[u8]) -> Result<()> {
        self.push(bytes.iter().map(|byte| Some(*byte)))
    }
    fn zeros(&mut self, length: u64) -> Result<()> {
        self.push((0..length).map(|_| Some(0)))
    }
    fn lost(&mut self, length: u64) -> Result<()> {
        self.push((0..length).map(|_| None))
    }
    fn end(&mut self) -> Result<()> {
        let (at, size, bytes) = self.current.take().expect("a value was begun");
        assert_eq!(bytes.len() as u64, size, "{at:?}");
        self.values.insert(at, bytes);
        Ok(())
    }
    fn finish(&mut self) -> Result<()> {
        assert!(self.current.is_none());
        Ok(())
    }
}

/// Salvages an image.
pub fn run(bytes: Vec<u8>) -> Result<(SalvageReport, Kept)> {
    let length = bytes.len() as u64;
    let device: Arc<dyn Device> = Arc::new(MemoryDevice::from_bytes(bytes, length));
    let mut kept = Kept::default();
    let report = salvage(&device, &mut kept, &mut |_| ())?;
    Ok((report, kept))
}

/// Compares what was given out with the state that the report names.
pub fn compare(image: &Image, report: &SalvageReport, kept: &Kept) -> std::result::Result<(), String> {
    if report.origin == Origin::SpacesFound {
        return compare_with_any(image, kept);
    }
    let state = image.state(report.version.0).ok_or("a version before the first state")?;
    let partial: BTreeMap<&Place, &Vec<(u64, u64)>> = report.partial.iter().map(|p| (&p.at, &p.lost)).collect();
    for (at, found) in &kept.values {
        let Some(value) = state.get(at.space, &at.key) else { return Err(format!("{at:?} was not there")) };
        if value.data.len() != found.len() {
            return Err(format!("{at:?} has {} bytes, not {}", found.len(), value.data.len()));
        }
        let wrong = value.data.iter().zip(found).position(|(right, found)| found.is_some_and(|found| found != *right));
        if let Some(at_byte) = wrong {
            return Err(format!("{at:?} is wrong at byte {at_byte}"));
        }
        let lost: Vec<usize> = (0..found.len()).filter(|byte| found[*byte].is_none()).collect();
        let told: Vec<usize> =
            partial.get(at).into_iter().flat_map(|l| l.iter()).flat_map(|(a, b)| *a as usize..*b as usize).collect();
        if lost != told {
            return Err(format!("{at:?}: {} bytes are lost, {} are told", lost.len(), told.len()));
        }
    }
    let hidden = |space: SpaceId| {
        report.spaces_lost.iter().any(|(from, end)| *from <= space && end.is_none_or(|end| space < end))
    };
    let lost = |at: &Place| {
        let range = |lost: &koine_engine::LostKeys| KeyRange { start: lost.from.clone(), end: lost.end.clone() };
        report.keys_unknown.contains(at)
            || report.keys_lost.iter().any(|l| l.space == at.space && range(l).contains(&at.key))
    };
    for (space, keys) in &state.0 {
        if !kept.spaces.contains(space) && !hidden(*space) {
            return Err(format!("space {} is missing and not told of", space.0));
        }
        for key in keys.keys() {
            let at = Place::new(*space, key.clone());
            if !kept.values.contains_key(&at) && !lost(&at) && !hidden(*space) {
                return Err(format!("{at:?} is missing and not told of"));
            }
        }
    }
    if let Some(space) = kept.spaces.iter().find(|space| !state.0.contains_key(space) && !hidden(**space)) {
        return Err(format!("space {} was not there", space.0));
    }
    let whole = kept.values.values().filter(|value| value.iter().all(Option::is_some)).count() as u64;
    if report.keys_whole != whole || report.partial.len() as u64 + whole != kept.values.len() as u64 {
        return Err(format!("{} keys are whole, {} told", whole, report.keys_whole));
    }
    Ok(())
}

/// Every space is as it was at some time.
fn compare_with_any(image: &Image, kept: &Kept) -> std::result::Result<(), String> {
    for space in &kept.spaces {
        let found: Vec<(&Place, &Vec<Option<u8>>)> = kept.values.iter().filter(|(at, _)| at.space == *space).collect();
        let fits = |state: &State| {
            found.iter().all(|(at, found)| {
                state.content.get(at.space, &at.key).is_some_and(|value| {
                    value.data.len() == found.len()
                        && value.data.iter().zip(found.iter()).all(|(right, byte)| byte.is_none_or(|b| b == *right))
                })
            })
        };
        if !image.states.iter().any(fits) {
            return Err(format!("space {} was never so", space.0));
        }
    }
    Ok(())
}

/// One damaged image: right, and complete where nothing that is needed was hit.
pub fn look(image: &Image, blocks: &[usize], damage: Damage) -> std::result::Result<SalvageReport, String> {
    let bytes = image.damaged(blocks, damage);
    let device = Arc::new(MemoryDevice::from_bytes(bytes.clone(), bytes.len() as u64));
    let told = |error: String| format!("blocks {blocks:?} {damage:?}: {error}");
    let (report, kept) = run(bytes).map_err(|error| told(error.to_string()))?;
    compare(image, &report, &kept).map_err(told)?;
    // Whatever the engine itself can still read, salvage gives out too.
    if let Ok(engine) = store::open(device, Build::Right) {
        let (readable, _) = store::read_what_can_be(&engine);
        for (space, keys) in &readable.0 {
            for (key, value) in keys {
                let at = Place::new(*space, key.clone());
                let given = kept
                    .values
                    .get(&at)
                    .is_some_and(|found| found.iter().copied().eq(value.data.iter().map(|byte| Some(*byte))));
                if !given {
                    return Err(told(format!("{at:?} can be read, and was not given out")));
                }
            }
        }
    }
    Ok(report)
}

/// What a new store holds that was filled from an image.
pub fn refill(bytes: Vec<u8>, keep_partial: bool) -> Verdict<(SalvageReport, Content)> {
    let length = bytes.len() as u64;
    let from: Arc<dyn Device> = Arc::new(MemoryDevice::from_bytes(bytes, length));
    let to = Arc::new(MemoryDevice::fixed(4 << 20));
    store::Engine::format(to.as_ref(), FormatOptions::default(), &SeededRandom::new(5)).map_err(stop("formatting"))?;
    let engine = store::open(to, Build::Right).map_err(stop("opening"))?;
    let mut sink = StoreSink::new(&engine, keep_partial);
    let report = salvage(&from, &mut sink, &mut |_| ()).map_err(stop("salvage"))?;
    store::must_be_sound(&engine)?;
    Ok((report, store::read_all(&engine).map_err(stop("reading"))?))
}

/// The newest state, for comparing.
pub fn newest(image: &Image) -> (&Content, u64) {
    (&image.newest().content, image.newest().version)
}

/// Whether a report says that nothing is missing, however the trees were found.
pub fn nothing_lost(report: &SalvageReport) -> bool {
    report.is_whole()
}
