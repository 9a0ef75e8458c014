//! Objects after power cuts: every image that a cut may leave holds one of the states that were, no older than what
//! was acknowledged as durable, and no number is given out twice.

use std::collections::BTreeMap;
use std::sync::Arc;

use koine_env::{Random, SeededRandom};

use super::{Store, StoreOptions, TransactionOptions};
use crate::device::{Image, MemoryDevice, RecordingDevice};
use crate::{Background, Durability, Engine, FormatOptions, Options};

/// Numbers and contents.
type State = BTreeMap<u64, Vec<u8>>;

struct Dice(SeededRandom);

impl Dice {
    fn below(&self, end: u64) -> u64 {
        self.0.next_u64() % end
    }

    fn bytes(&self, length_max: u64) -> Vec<u8> {
        let byte = self.below(255) as u8 + 1;
        vec![byte; 1 + self.below(length_max) as usize]
    }

    fn pick(&self, state: &State) -> Option<u64> {
        let at = self.below(state.len().max(1) as u64);
        state.keys().nth(at as usize).copied()
    }
}

/// A workload, with what was true when.
struct Run {
    store: Store,
    engine: Arc<Engine>,
    device: Arc<RecordingDevice<MemoryDevice>>,
    dice: Dice,
    /// The state after each call.
    states: Vec<State>,
    /// What was known at positions of the recording: the state that is durable, and the highest number given out.
    known: Vec<(usize, usize, u64)>,
    highest: u64,
}

fn write(content: &mut Vec<u8>, offset: u64, data: &[u8]) {
    let end = offset as usize + data.len();
    content.resize(content.len().max(end), 0);
    content[offset as usize..end].copy_from_slice(data);
}

fn open(device: Arc<dyn crate::device::Device>) -> (Arc<Engine>, Store) {
    let options = Options { background: Background::Manual, frozen_above: 0, ..Options::default() };
    let engine = Arc::new(Engine::open(device, options).unwrap());
    let store = Store::over(Arc::clone(&engine), StoreOptions::default()).unwrap();
    (engine, store)
}

impl Run {
    fn begin(seed: u64) -> Run {
        let device = MemoryDevice::fixed(8 << 20);
        let ring_len = if seed.is_multiple_of(2) { 64 << 10 } else { 512 << 10 };
        Engine::format(&device, FormatOptions { ring_len, ..FormatOptions::default() }, &SeededRandom::new(seed))
            .unwrap();
        let device = Arc::new(RecordingDevice::new(device).unwrap());
        let (engine, store) = open(device.clone());
        let known = vec![(device.position(), 0, 0)];
        let dice = Dice(SeededRandom::new(seed));
        Run { store, engine, device, dice, states: vec![State::new()], known, highest: 0 }
    }

    fn step(&mut self) {
        let mut state = self.states.last().cloned().unwrap_or_default();
        let durability = [Durability::Memory, Durability::Memory, Durability::Sync][self.dice.below(3) as usize];
        match (self.dice.below(12), self.dice.pick(&state)) {
            (10, _) => {
                let object = self.store.create(0).unwrap();
                self.highest = self.highest.max(object.number());
                let data = self.dice.bytes(10_000);
                object.write(0, &data, Durability::Memory).unwrap();
                state.insert(object.number(), Vec::new());
                self.states.push(state.clone());
                state.insert(object.number(), data);
                object.close(durability).unwrap();
            }
            (0..2, _) | (_, None) => {
                let many = 1 + self.dice.below(4);
                let numbers = self.store.create_many(many as usize, 0, durability).unwrap();
                self.highest = self.highest.max(numbers.end - 1);
                state.extend(numbers.map(|number| (number, Vec::new())));
            }
            (2, Some(number)) => {
                self.store.delete(number, durability).unwrap();
                state.remove(&number);
            }
            (3, Some(number)) => {
                let size = self.dice.below(30_000);
                self.store.open_object(number).unwrap().resize(size, durability).unwrap();
                state.entry(number).or_default().resize(size as usize, 0);
            }
            (4..7, Some(_)) => self.transaction(&mut state, durability),
            (7, Some(_)) => return self.engine.checkpoint().unwrap(),
            (_, Some(number)) => {
                let (offset, data) = (self.dice.below(20_000), self.dice.bytes(20_000));
                self.store.open_object(number).unwrap().write(offset, &data, durability).unwrap();
                write(state.entry(number).or_default(), offset, &data);
            }
        }
        self.states.push(state);
        let durable = match durability {
            Durability::Sync => self.states.len() - 1,
            _ => self.known.last().map_or(0, |known| known.1),
        };
        self.known.push((self.device.position(), durable, self.highest));
    }

    /// Writes to several objects, more than the queue holds.
    fn transaction(&self, state: &mut State, durability: Durability) {
        let mut transaction = self.store.transaction(TransactionOptions { queue_len_max: 3000 }).unwrap();
        for _ in 0..self.dice.below(12) {
            let Some(number) = self.dice.pick(state) else { return };
            let (offset, data) = (self.dice.below(20_000), self.dice.bytes(5_000));
            transaction.write(&self.store.open_object(number).unwrap(), offset, &data).unwrap();
            write(state.entry(number).or_default(), offset, &data);
        }
        transaction.execute(durability).unwrap();
    }

    /// Opens an image of a cut, and looks.
    fn check(&self, cut: usize, image: Image) {
        let (_, durable, highest) = *self.known.iter().rev().find(|known| known.0 <= cut).unwrap_or(&(0, 0, 0));
        let (_, store) = open(Arc::new(MemoryDevice::from_image(image, 8 << 20)));
        let mut found = State::new();
        for number in store.list(0, usize::MAX).unwrap() {
            let object = store.open_object(number).unwrap();
            let mut content = vec![0; object.size().unwrap() as usize];
            assert_eq!(object.read(0, &mut content).unwrap(), content.len());
            found.insert(number, content);
        }
        assert!(self.states[durable..].contains(&found), "cut {cut}: not a state since the durable one ({durable})");
        assert_eq!(store.status().unwrap().objects, found.len() as u64, "cut {cut}: the count");
        let new = store.create(0).unwrap().number();
        assert!(new > highest, "cut {cut}: number {new} given out again, {highest} was");
    }
}

#[test]
fn a_power_cut_leaves_a_state_that_was() {
    let mut images = 0;
    for seed in 0..8 {
        let mut run = Run::begin(seed);
        let opened = run.device.position();
        (0..60).for_each(|_| run.step());
        let recording = run.device.recording();
        let mut cuts: Vec<usize> = recording.syncs().into_iter().flat_map(|sync| [sync - 1, sync]).collect();
        cuts.extend((0..20).map(|_| run.dice.below(recording.len() as u64 + 1) as usize));
        cuts.retain(|cut| *cut >= opened);
        cuts.sort_unstable();
        cuts.dedup();
        let mut walker = recording.images(seed);
        for cut in cuts {
            walker.advance(cut);
            run.check(cut, walker.durable());
            images += 1;
            for part in 0..walker.in_doubt().min(2) {
                run.check(cut, walker.partial(part as u64));
                images += 1;
            }
        }
    }
    assert!(images > 500, "{images} images");
}
