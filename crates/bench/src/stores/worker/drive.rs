//! The loops that are measured. Every value that is read is verified.
//!
//! Invariants:
//! - Threads begin together, and the time runs from there to the end of the last one.
//! - An error or a wrong value ends the stretch as a failure: there is no figure for it.

use super::super::data::{KEY_LEN, Key, Numbers, SPREAD, Values, key, mix, shuffled};
use super::super::kinds::{Item, Level, Outcome, Pending, Session, Store};
use super::super::measured::Measured;
use super::protocol::{Kind, Order, Phase};
use crate::statistics::percentile;
use std::collections::VecDeque;
use std::sync::Barrier;
use std::time::{Duration, Instant};

/// Items of one commit of a load.
const LOAD_BATCH: u64 = 1000;
/// Reads between two looks at the clock.
const LOOK_AFTER: u64 = 64;
/// Seed of the order in which items are loaded at random.
const LOAD_SEED: u64 = 1;

/// Does one stretch of work. `turn` sets its random numbers and the generation of its values.
pub fn drive(store: &dyn Store, phase: &Phase, values: &Values, turn: u64) -> Outcome<Measured> {
    if let Kind::Load(order) = phase.kind {
        return load(store, phase, values, order, turn);
    }
    let by_tickets = phase.in_flight > 1 && can_submit(store, phase, values, turn)?;
    let threads = if by_tickets { phase.threads } else { phase.threads.max(phase.in_flight) }.max(1);
    let share = phase.operations.map(|operations| operations.div_ceil(threads as u64));
    let barrier = Barrier::new(threads);
    let work = |thread: usize| {
        barrier.wait();
        let begun = Instant::now();
        let job = PhaseJob { store, phase, values, turn, thread: thread as u64, share, begun };
        let done = if by_tickets { job.in_flight() } else { job.run() };
        done.map(|tally| (tally, begun, Instant::now()))
    };
    let tallies = std::thread::scope(|scope| {
        let handles: Vec<_> = (1..threads).map(|thread| scope.spawn(move || work(thread))).collect();
        let own = work(0);
        let others =
            handles.into_iter().map(|handle| handle.join().unwrap_or_else(|_| Err("a thread panicked".into())));
        std::iter::once(own).chain(others).collect::<Outcome<Vec<_>>>()
    })?;
    let first = tallies.iter().map(|(_, begun, _)| *begun).min();
    let last = tallies.iter().map(|(_, _, ended)| *ended).max();
    let elapsed = first.zip(last).map_or(Duration::ZERO, |(first, last)| last - first);
    Ok(sum(tallies.into_iter().map(|(tally, ..)| tally), elapsed))
}

/// Whether commits can be asked for without waiting; asks for one to find out.
fn can_submit(store: &dyn Store, phase: &Phase, values: &Values, turn: u64) -> Outcome<bool> {
    let mut item = Item { key: key(0), value: Vec::new() };
    values.fill(0, turn, &mut item.value);
    match store.submit(&item, phase.level) {
        Some(pending) => pending.wait().map(|()| true),
        None => Ok(false),
    }
}

fn load(store: &dyn Store, phase: &Phase, values: &Values, order: Order, turn: u64) -> Outcome<Measured> {
    let mut items: Vec<Item> = Vec::new();
    let mut each_second = Vec::new();
    let begun = Instant::now();
    let mut next = 0;
    while next < phase.items {
        let count = LOAD_BATCH.min(phase.items - next);
        items.resize(count as usize, Item { key: [0; KEY_LEN], value: Vec::new() });
        for (index, item) in (next..).zip(&mut items) {
            let place = match order {
                Order::Ascending => index,
                Order::Random => shuffled(index, phase.items, LOAD_SEED),
            };
            item.key = key(place * SPREAD);
            values.fill(place * SPREAD, turn, &mut item.value);
        }
        store.put(&items, phase.level)?;
        next += count;
        count_second(&mut each_second, begun, count);
    }
    store.sync()?;
    let seconds = begun.elapsed().as_secs_f64();
    Ok(Measured { operations: phase.items, seconds, each_second, ..Measured::default() })
}

/// Adds to the second that runs.
fn count_second(each_second: &mut Vec<u64>, begun: Instant, count: u64) {
    let second = begun.elapsed().as_secs() as usize;
    if each_second.len() <= second {
        each_second.resize(second + 1, 0);
    }
    if let Some(entry) = each_second.get_mut(second) {
        *entry += count;
    }
}

#[derive(Default)]
struct PhaseTally {
    operations: u64,
    latencies: Vec<Duration>,
    each_second: Vec<u64>,
}

fn sum(tallies: impl Iterator<Item = PhaseTally>, elapsed: Duration) -> Measured {
    let mut measured = Measured { seconds: elapsed.as_secs_f64(), ..Measured::default() };
    let mut latencies = Vec::new();
    for tally in tallies {
        measured.operations += tally.operations;
        latencies.extend(tally.latencies);
        measured.each_second.resize(measured.each_second.len().max(tally.each_second.len()), 0);
        for (sum, own) in measured.each_second.iter_mut().zip(&tally.each_second) {
            *sum += own;
        }
    }
    // The last second is not whole.
    measured.each_second.pop();
    latencies.sort_unstable();
    let milliseconds = |percent| percentile(&latencies, percent).map(|time: Duration| time.as_secs_f64() * 1e3);
    measured.p50_ms = milliseconds(50.0);
    measured.p99_ms = milliseconds(99.0);
    measured
}

/// The work of one thread.
struct PhaseJob<'a> {
    store: &'a dyn Store,
    phase: &'a Phase,
    values: &'a Values,
    turn: u64,
    thread: u64,
    /// How many operations, where they are counted and not timed.
    share: Option<u64>,
    begun: Instant,
}

impl PhaseJob<'_> {
    fn is_over(&self, done: u64) -> bool {
        match self.share {
            Some(share) => done >= share,
            None => self.begun.elapsed().as_secs_f64() >= self.phase.seconds,
        }
    }

    fn numbers(&self) -> Numbers {
        Numbers::new(mix(self.turn) ^ self.thread)
    }

    fn generation(&self) -> u64 {
        self.turn << 16 | self.thread
    }

    fn run(&self) -> Outcome<PhaseTally> {
        match self.phase.kind {
            Kind::Read { pinned } => self.read(pinned),
            Kind::Scan => self.scan(),
            Kind::Overwrite | Kind::Insert => self.write(),
            Kind::Mixed => self.mix(),
            Kind::Load(_) => Err("a load is no job of a thread".into()),
        }
    }

    fn read(&self, pinned: bool) -> Outcome<PhaseTally> {
        let mut session = self.store.session()?;
        if pinned {
            session.pin()?;
        }
        let mut numbers = self.numbers();
        let mut tally = PhaseTally::default();
        while !self.is_over(tally.operations) {
            for _ in 0..LOOK_AFTER {
                self.read_one(session.as_mut(), &mut numbers)?;
            }
            tally.operations += LOOK_AFTER;
        }
        Ok(tally)
    }

    fn read_one(&self, session: &mut dyn Session, numbers: &mut Numbers) -> Outcome<()> {
        let key = key(numbers.below(self.phase.items) * SPREAD);
        let mut right = false;
        let found = session.get(&key, &mut |value| right = self.values.verify(&key, value))?;
        check(&key, found, right)
    }

    fn scan(&self) -> Outcome<PhaseTally> {
        let mut session = self.store.session()?;
        session.pin()?;
        let mut tally = PhaseTally::default();
        // Threads start at different places; the next walks are from the first item.
        let mut from = key(self.thread * self.phase.items / self.phase.threads.max(1) as u64 * SPREAD);
        while !self.is_over(tally.operations) {
            let mut last: Key = [0; KEY_LEN];
            let mut wrong: Option<Key> = None;
            let mut count = 0;
            session.scan(&from, &mut |found, value| {
                let ascends = count == 0 || found > last.as_slice();
                if found.len() != KEY_LEN || !ascends || !self.values.verify(found, value) {
                    wrong = Some(last);
                    return false;
                }
                last.copy_from_slice(found);
                count += 1;
                count % LOOK_AFTER != 0 || !self.is_over(tally.operations + count)
            })?;
            if let Some(last) = wrong {
                return Err(format!("a scan met a wrong entry after key {}", hex::encode(last)));
            }
            if from == key(0) && count < self.phase.items && !self.is_over(tally.operations + count) {
                return Err(format!("a scan met {count} items of {}", self.phase.items));
            }
            tally.operations += count;
            from = key(0);
        }
        Ok(tally)
    }

    fn next_number(&self, numbers: &mut Numbers) -> u64 {
        let loaded = numbers.below(self.phase.items) * SPREAD;
        match self.phase.kind {
            Kind::Insert => loaded + 1 + numbers.below(SPREAD - 1),
            _ => loaded,
        }
    }

    fn next_item(&self, numbers: &mut Numbers, generation: u64, item: &mut Item) {
        let number = self.next_number(numbers);
        item.key = key(number);
        self.values.fill(number, generation, &mut item.value);
    }

    fn write(&self) -> Outcome<PhaseTally> {
        let mut numbers = self.numbers();
        let mut tally = PhaseTally::default();
        let mut item = Item { key: [0; KEY_LEN], value: Vec::new() };
        while !self.is_over(tally.operations) {
            self.next_item(&mut numbers, self.generation(), &mut item);
            let begun = Instant::now();
            self.store.put(std::slice::from_ref(&item), self.phase.level)?;
            self.note(&mut tally, begun);
        }
        Ok(tally)
    }

    fn note(&self, tally: &mut PhaseTally, begun: Instant) {
        tally.operations += 1;
        if self.phase.level == Level::Sync {
            tally.latencies.push(begun.elapsed());
        }
        count_second(&mut tally.each_second, self.begun, 1);
    }

    /// Keeps many commits under way from one thread.
    fn in_flight(&self) -> Outcome<PhaseTally> {
        let mut numbers = self.numbers();
        let mut tally = PhaseTally::default();
        let mut item = Item { key: [0; KEY_LEN], value: Vec::new() };
        let mut under_way: VecDeque<(Box<dyn Pending>, Instant)> = VecDeque::new();
        let mut asked = 0;
        loop {
            while under_way.len() < self.phase.in_flight && !self.is_over(asked) {
                self.next_item(&mut numbers, self.generation(), &mut item);
                let begun = Instant::now();
                let pending = self.store.submit(&item, self.phase.level).ok_or("the store stopped taking commits")?;
                under_way.push_back((pending, begun));
                asked += 1;
            }
            let Some((oldest, begun)) = under_way.pop_front() else { return Ok(tally) };
            oldest.wait()?;
            self.note(&mut tally, begun);
        }
    }

    fn mix(&self) -> Outcome<PhaseTally> {
        let mut session = self.store.session()?;
        let mut numbers = self.numbers();
        let mut tally = PhaseTally::default();
        let mut item = Item { key: [0; KEY_LEN], value: Vec::new() };
        while !self.is_over(tally.operations) {
            self.read_one(session.as_mut(), &mut numbers)?;
            self.next_item(&mut numbers, self.generation(), &mut item);
            self.store.put(std::slice::from_ref(&item), self.phase.level)?;
            tally.operations += 2;
        }
        Ok(tally)
    }
}

fn check(key: &Key, found: bool, right: bool) -> Outcome<()> {
    match (found, right) {
        (true, true) => Ok(()),
        (true, false) => Err(format!("key {} has a value that was never put there", hex::encode(key))),
        (false, _) => Err(format!("key {} is not found", hex::encode(key))),
    }
}
