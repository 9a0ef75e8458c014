//! What is done to a store: chosen by a seed and by what the store should hold.
//!
//! Every value has bytes of its own, so that a stale, torn or foreign one is always noticed.

use bytes::Bytes;
use koine_engine::{
    Batch, Condition, Durability, KeyRange, Operation, Payload, Place, RequestId, Sources, SpaceId, Version,
};

use crate::dice::Dice;
use crate::model::Content;

/// No value is made longer than this, in bytes.
const VALUE_LEN_MAX: usize = 300_000;
const SPACES: u64 = 4;

/// One thing to do next.
pub enum Action {
    Submit {
        batch: Batch,
        durability: Durability,
    },
    /// Submit an earlier batch again under its request id.
    Repeat,
    /// Let the background work go on by so many steps.
    Step(usize),
    /// Wait for all outcomes.
    Settle,
    /// Take a view and keep it.
    HoldView,
    /// Look whether the views kept still show the same, and let some go.
    CheckViews,
    /// Stage a value and forget it, finished or not.
    LoseStage {
        data: Bytes,
        finish: bool,
    },
}

/// What kind of life the store has.
#[derive(Clone, Debug)]
pub struct Shape {
    pub length: usize,
    pub length_max: u64,
    pub fixed: bool,
    pub actions: usize,
    /// Above this many bytes of values, deleting is preferred.
    pub live_max: usize,
    pub large_percent: usize,
    pub sync_percent: usize,
    pub settle_percent: usize,
    pub conditions_percent: usize,
    /// The store's block size.
    pub block_len: u64,
}

impl Shape {
    pub fn from(seed: u64) -> Shape {
        let dice = Dice::new(seed ^ 0x0053_4841_5045);
        let fixed = dice.percent(30);
        let length = if fixed { dice.between(4, 12) << 18 } else { 1 << 20 };
        let length_max = if fixed { length as u64 } else { (dice.between(5, 16) as u64) << 18 };
        // Some stores are driven until they are full.
        let crowded = dice.percent(15);
        Shape {
            length,
            length_max,
            fixed,
            actions: dice.between(40, 160),
            live_max: length_max as usize * if crowded { 95 } else { dice.between(15, 40) } / 100,
            large_percent: dice.between(0, 25),
            sync_percent: dice.between(10, 80),
            settle_percent: dice.between(0, 12),
            conditions_percent: dice.between(0, 30),
            block_len: if dice.percent(30) { 4096 << dice.between(1, 8) } else { 4096 },
        }
    }
}

/// Makes actions.
pub struct Generator {
    dice: Dice,
    pub shape: Shape,
    /// How many values were made.
    values: u64,
    requests: u64,
    seed: u64,
}

impl Generator {
    pub fn new(seed: u64) -> Generator {
        Generator { dice: Dice::new(seed), shape: Shape::from(seed), values: 0, requests: 0, seed }
    }

    /// The next thing to do, given what the store holds. `newest` is its version when nothing is pending.
    pub fn next(&mut self, content: &Content, newest: Option<Version>) -> Action {
        let roll = self.dice.below(100);
        match roll {
            0..12 => Action::Step(self.dice.between(1, 4)),
            12..15 => Action::HoldView,
            15..19 => Action::CheckViews,
            19..21 => {
                let finish = self.dice.percent(50);
                let length = if self.has_room_for_long() && self.dice.percent(30) { 1 << 20 } else { 40_000 };
                Action::LoseStage { data: self.data(length + self.dice.below(1_000)), finish }
            }
            21..24 => Action::Repeat,
            _ if self.dice.percent(self.shape.settle_percent) => Action::Settle,
            _ => {
                let durability = match self.dice.below(100) {
                    roll if roll < self.shape.sync_percent => Durability::Sync,
                    roll if roll % 2 == 0 => Durability::Written,
                    _ => Durability::Memory,
                };
                Action::Submit { batch: self.batch(content, newest), durability }
            }
        }
    }

    /// Whether the store takes values whose extents are logged before the commit that names them.
    fn has_room_for_long(&self) -> bool {
        self.shape.length_max >= 3 << 20
    }

    fn batch(&mut self, content: &Content, newest: Option<Version>) -> Batch {
        let mut batch = Batch::new();
        if self.dice.percent(self.shape.conditions_percent)
            && let Some(condition) = self.condition(content, newest)
        {
            batch = batch.when(condition);
        }
        let crowded = content.live_bytes() > self.shape.live_max;
        if crowded && self.dice.percent(70) {
            batch = batch.then(self.removal(content));
        } else if self.dice.percent(8) {
            batch = self.burst(batch, content);
        } else {
            for _ in 0..[1, 1, 1, 1, 2, 2, 3, 5][self.dice.below(8)] {
                batch = batch.then(self.operation(content));
            }
        }
        if self.dice.percent(35) {
            self.requests += 1;
            let id = (u128::from(self.seed) << 64) | u128::from(self.requests);
            batch = batch.with_request(RequestId(id.to_be_bytes()));
        }
        batch
    }

    /// Many small keys at once, so that the tree has more than one leaf.
    fn burst(&mut self, mut batch: Batch, content: &Content) -> Batch {
        let space = self.space(content);
        let first = self.dice.below(200);
        for number in first..first + self.dice.between(10, 60) {
            let length = self.dice.between(0, 150);
            batch = batch.put(space, format!("n/{number:04}"), self.data(length));
        }
        batch
    }

    fn condition(&mut self, content: &Content, newest: Option<Version>) -> Option<Condition> {
        let space = self.space(content);
        let key = self.place(content).key;
        let present = content.get(space, &key);
        // Mostly such as hold.
        let honest = self.dice.percent(85);
        Some(match (self.dice.below(4), present) {
            (0, Some(value)) => {
                Condition::VersionIs { space, key, version: Version(value.version? + u64::from(!honest)) }
            }
            (1, _) => {
                let range = KeyRange::prefix(if honest { "zz" } else { "a" });
                Condition::RangeEmpty { space, range }
            }
            (2, _) => Condition::RangeUnchanged { space, range: KeyRange::prefix("a"), since: newest? },
            (_, Some(_)) if honest => Condition::Present { space, key },
            (_, None) if !honest => Condition::Present { space, key },
            _ => Condition::Absent { space, key },
        })
    }

    fn operation(&mut self, content: &Content) -> Operation {
        let at = self.place(content);
        let length = content.get(at.space, &at.key).map_or(0, |value| value.data.len());
        match self.dice.below(100) {
            0..34 => Operation::Put { at, value: self.value() },
            34..44 => {
                let offset = self.dice.below((length + 20_000).min(VALUE_LEN_MAX)) as u64;
                Operation::WriteAt { at, offset, data: self.value() }
            }
            44..52 if length < VALUE_LEN_MAX / 2 => Operation::Append { at, data: self.value() },
            52..57 => Operation::Truncate { at, length: self.dice.below((length * 2).min(VALUE_LEN_MAX) + 10) as u64 },
            57..63 => self.removal(content),
            63..71 => Operation::Rename { from: self.existing(content).unwrap_or(at), to: self.place(content) },
            71..80 => self.clone_range(content).unwrap_or(Operation::Delete { at }),
            80..88 => self.concatenate(content).unwrap_or(Operation::Delete { at }),
            88..93 => Operation::AddCounter {
                at: Place::new(at.space, &b"counter"[..]),
                delta: self.dice.between(0, 2_000) as i64 - 1_000,
            },
            93..98 => self.space_operation(content),
            98 => {
                let prefixes = ["a", "b", "a/", "n/0", "n/00", ""];
                let prefix = || Bytes::from_static(prefixes[self.dice.below(prefixes.len())].as_bytes());
                Operation::RenamePrefix { space: at.space, from: prefix(), to: prefix() }
            }
            _ => Operation::Put { at, value: self.value() },
        }
    }

    fn space_operation(&mut self, content: &Content) -> Operation {
        let space = SpaceId(SpaceId::FIRST.0 + self.dice.below(SPACES as usize) as u64);
        if content.0.contains_key(&space) && self.dice.percent(60) && space != SpaceId::FIRST {
            return Operation::DropSpace { space };
        }
        let from = self.space(content);
        match self.dice.below(3) {
            0 => Operation::CreateSpace { space },
            1 => Operation::CloneSpace { from, to: space },
            _ => Operation::SnapshotSpace { from, to: space },
        }
    }

    fn removal(&mut self, content: &Content) -> Operation {
        let at = self.existing(content).unwrap_or_else(|| self.place(content));
        if self.dice.percent(25) {
            let start = ["a", "b", "n/00", "n/01", "c"][self.dice.below(5)];
            return Operation::DeleteRange { space: at.space, range: KeyRange::prefix(start) };
        }
        Operation::Delete { at }
    }

    fn clone_range(&mut self, content: &Content) -> Option<Operation> {
        let from = self.existing(content)?;
        let length = content.get(from.space, &from.key)?.data.len();
        let from_offset = self.dice.below(length + 1);
        let length = self.dice.between(0, length - from_offset);
        let to = self.place(content);
        let there = content.get(to.space, &to.key).map_or(0, |value| value.data.len());
        let to_offset = self.dice.below((there + 10_000).min(VALUE_LEN_MAX)) as u64;
        let length = if self.dice.percent(20) { u64::MAX } else { length as u64 };
        Some(Operation::CloneRange { from, from_offset: from_offset as u64, length, to, to_offset })
    }

    fn concatenate(&mut self, content: &Content) -> Option<Operation> {
        let target = self.place(content);
        let (mut sources, mut length) = (Vec::new(), 0);
        for _ in 0..self.dice.between(1, 4) {
            let source = self.existing(content)?;
            length += content.get(source.space, &source.key)?.data.len();
            if source != target && length <= VALUE_LEN_MAX && !sources.contains(&source) {
                sources.push(source);
            }
        }
        let fate = if self.dice.percent(60) { Sources::Delete } else { Sources::Keep };
        (!sources.is_empty()).then_some(Operation::Concatenate { sources, target, fate })
    }

    fn space(&mut self, content: &Content) -> SpaceId {
        let spaces: Vec<SpaceId> = content.0.keys().copied().collect();
        match self.dice.pick(&spaces) {
            Some(space) if self.dice.percent(98) => *space,
            _ => SpaceId::FIRST,
        }
    }

    fn place(&mut self, content: &Content) -> Place {
        let space = self.space(content);
        let key = match self.dice.below(40) {
            0 => Vec::new(),
            1 => vec![b'L'; self.dice.between(1_000, 2_048)],
            2..10 => format!("n/{:04}", self.dice.below(260)).into_bytes(),
            _ => format!("{}/{}", ["a", "b", "c"][self.dice.below(3)], self.dice.below(7)).into_bytes(),
        };
        Place::new(space, key)
    }

    /// Some key that is there.
    fn existing(&mut self, content: &Content) -> Option<Place> {
        let space = self.space(content);
        let keys: Vec<&Bytes> = content.0.get(&space)?.keys().collect();
        let key = self.dice.pick(&keys)?;
        Some(Place::new(space, Bytes::clone(key)))
    }

    fn value(&mut self) -> Payload {
        let length = match self.dice.below(100) {
            0 if self.has_room_for_long() => self.dice.between(1 << 19, (1 << 19) + 10_000) * 2,
            roll if roll < self.shape.large_percent => self.dice.between(32_769, 140_000),
            roll if roll % 3 == 0 => self.dice.between(1_025, 32_768),
            roll if roll % 17 == 1 => [1, 4_095, 4_096, 4_097, 1_024, 1_025, 32_768][self.dice.below(7)],
            _ => self.dice.between(1, 1_024),
        };
        Payload::Bytes(self.data(length))
    }

    /// Bytes that no other value has.
    fn data(&mut self, length: usize) -> Bytes {
        self.values += 1;
        let start = self.values.wrapping_mul(0x9E37_79B9_7F4A_7C15) ^ self.seed;
        let words =
            (0..length.div_ceil(8) as u64).map(|index| start.wrapping_add(index.wrapping_mul(0x1_0000_0001_0003)));
        let mut data: Vec<u8> = words.flat_map(u64::to_le_bytes).collect();
        data.truncate(length);
        data.into()
    }
}
