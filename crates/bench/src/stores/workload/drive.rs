//! The loops that are measured. Every value that is read is verified, and every record that should be there must be.
//!
//! Invariants:
//! - A record is read only after its insert was acknowledged.
//! - An error or a wrong value ends the stretch as a failure: there is no figure for it.

use super::super::data::{KEY_LEN, Key, Numbers, Values, key, mix};
use super::super::kinds::{Item, Level, Outcome, Session, Store};
use super::super::measured::Measured;
use super::distribution::Chooser;
use super::histogram::Histogram;
use super::{Mix, Workload, WorkloadRun};
use std::collections::BTreeSet;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Barrier, Mutex, PoisonError};
use std::time::Instant;

/// The longest scan of workload E.
const SCAN_MAX: u64 = 100;
/// Records of one commit where a load or a delete is brought to its end unmeasured.
const REST_BATCH: u64 = 1000;

/// The records of a store: those with numbers below a count that grows.
#[derive(Debug, Default)]
pub struct Records {
    given: AtomicU64,
    acknowledged: AtomicU64,
    /// Acknowledged before others with lower numbers were.
    early: Mutex<BTreeSet<u64>>,
}

impl Records {
    /// The number of a record to be inserted.
    fn give(&self) -> u64 {
        self.given.fetch_add(1, Ordering::Relaxed)
    }

    fn acknowledge(&self, number: u64) {
        let mut early = self.early.lock().unwrap_or_else(PoisonError::into_inner);
        early.insert(number);
        let mut count = self.acknowledged.load(Ordering::Relaxed);
        while early.remove(&count) {
            count += 1;
        }
        self.acknowledged.store(count, Ordering::Release);
    }

    /// So many are there for certain.
    fn count(&self) -> u64 {
        self.acknowledged.load(Ordering::Acquire)
    }

    fn set(&self, count: u64) {
        self.given.store(count, Ordering::Relaxed);
        self.acknowledged.store(count, Ordering::Release);
    }
}

/// The key of a record: records of neighbouring numbers lie anywhere.
fn key_of(record: u64) -> Key {
    key(mix(record))
}

fn fill(values: &Values, record: u64, generation: u64, item: &mut Item) {
    item.key = key_of(record);
    values.fill(mix(record), generation, &mut item.value);
}

/// Does one stretch of work. `turn` sets its random numbers and the generation of its values.
pub fn drive(
    store: &dyn Store,
    work: &WorkloadRun,
    records: &Records,
    values: &Values,
    turn: u64,
) -> Outcome<Measured> {
    let chooser = work.workload.mix().map(|_| Chooser::new(work.distribution, records.count()));
    let barrier = Barrier::new(work.threads);
    let run = |thread: usize| {
        let job = WorkloadJob { store, work, records, values, turn, thread: thread as u64, chooser: chooser.as_ref() };
        barrier.wait();
        let begun = Instant::now();
        let done = job.run(begun);
        done.map(|tally| (tally, begun, Instant::now()))
    };
    let tallies = std::thread::scope(|scope| {
        let handles: Vec<_> = (1..work.threads).map(|thread| scope.spawn(move || run(thread))).collect();
        let own = run(0);
        let others =
            handles.into_iter().map(|handle| handle.join().unwrap_or_else(|_| Err("a thread panicked".into())));
        std::iter::once(own).chain(others).collect::<Outcome<Vec<_>>>()
    })?;
    let first = tallies.iter().map(|(_, begun, _)| *begun).min();
    let last = tallies.iter().map(|(_, _, ended)| *ended).max();
    let seconds = first.zip(last).map_or(0.0, |(first, last)| (last - first).as_secs_f64());
    let mut measured = Measured { seconds, ..Measured::default() };
    let mut times = Histogram::default();
    for (tally, ..) in &tallies {
        measured.operations += tally.operations;
        measured.puts += tally.puts;
        times.merge(&tally.times);
    }
    measured.p50_ms = times.percentile_ms(50.0);
    measured.p99_ms = times.percentile_ms(99.0);
    Ok(measured)
}

/// Brings a load or a delete to its end that time has cut short.
pub fn finish(store: &dyn Store, work: &WorkloadRun, records: &Records, values: &Values) -> Outcome<()> {
    match work.workload {
        workload if workload.is_load() => {
            let mut next = records.count();
            while next < work.records {
                let count = REST_BATCH.min(work.records - next);
                let mut items = vec![Item { key: [0; KEY_LEN], value: Vec::new() }; count as usize];
                (next..).zip(&mut items).for_each(|(record, item)| fill(values, record, 0, item));
                store.insert(&items, Level::Written)?;
                next += count;
            }
            records.set(work.records);
        }
        Workload::Delete => {
            let count = records.count();
            let keys: Vec<Key> = (0..count).map(key_of).collect();
            keys.chunks(REST_BATCH as usize).try_for_each(|keys| store.remove(keys, Level::Written))?;
            let mut met = 0;
            store.session()?.scan(&[0; KEY_LEN], &mut |_, _| {
                met += 1;
                false
            })?;
            if met > 0 {
                return Err("a store from which all was deleted still has records".into());
            }
            records.set(0);
        }
        _ => {}
    }
    Ok(())
}

#[derive(Default)]
struct WorkloadTally {
    operations: u64,
    puts: u64,
    times: Histogram,
}

/// The work of one thread.
struct WorkloadJob<'a> {
    store: &'a dyn Store,
    work: &'a WorkloadRun,
    records: &'a Records,
    values: &'a Values,
    turn: u64,
    thread: u64,
    chooser: Option<&'a Chooser>,
}

impl WorkloadJob<'_> {
    fn run(&self, begun: Instant) -> Outcome<WorkloadTally> {
        match (self.work.workload.mix(), self.chooser) {
            (Some(mix), Some(chooser)) => self.mixed(begun, mix, chooser),
            _ if self.work.workload == Workload::Delete => self.delete(begun),
            _ => self.load(begun),
        }
    }

    fn is_over(&self, begun: Instant, now: Instant) -> bool {
        (now - begun).as_secs_f64() >= self.work.seconds
    }

    fn generation(&self) -> u64 {
        self.turn << 16 | self.thread
    }

    fn load(&self, begun: Instant) -> Outcome<WorkloadTally> {
        let mut tally = WorkloadTally::default();
        let mut item = Item { key: [0; KEY_LEN], value: Vec::new() };
        let mut now = begun;
        let is_timed = self.work.level == Level::Sync;
        while !(is_timed && self.is_over(begun, now)) {
            let record = self.records.give();
            if record >= self.work.records {
                break;
            }
            self.insert(record, &mut item)?;
            now = note(&mut tally, now);
            tally.puts += 1;
        }
        Ok(tally)
    }

    fn insert(&self, record: u64, item: &mut Item) -> Outcome<()> {
        fill(self.values, record, self.generation(), item);
        self.store.insert(std::slice::from_ref(item), self.work.level)?;
        self.records.acknowledge(record);
        Ok(())
    }

    fn delete(&self, begun: Instant) -> Outcome<WorkloadTally> {
        let mut tally = WorkloadTally::default();
        let mut now = begun;
        let own = (self.thread..self.records.count()).step_by(self.work.threads);
        for record in own {
            if self.is_over(begun, now) {
                break;
            }
            self.store.remove(&[key_of(record)], self.work.level)?;
            now = note(&mut tally, now);
        }
        Ok(tally)
    }

    fn mixed(&self, begun: Instant, mix: Mix, chooser: &Chooser) -> Outcome<WorkloadTally> {
        let mut session = self.store.session()?;
        let mut numbers = Numbers::new(crate::stores::data::mix(self.turn) ^ self.thread);
        let mut item = Item { key: [0; KEY_LEN], value: Vec::new() };
        let mut tally = WorkloadTally::default();
        let mut now = begun;
        while !self.is_over(begun, now) {
            let kind = numbers.below(100);
            let updates = mix.updates;
            let modifies = updates + mix.modifies;
            let inserts = modifies + mix.inserts;
            let scans = inserts + mix.scans;
            if kind >= modifies && kind < inserts {
                self.insert(self.records.give(), &mut item)?;
                tally.puts += 1;
            } else {
                let record = chooser.choose(&mut numbers, self.records.count());
                if kind >= inserts && kind < scans {
                    self.scan(session.as_mut(), record, 1 + numbers.below(SCAN_MAX))?;
                } else {
                    if kind >= updates {
                        self.read(session.as_mut(), record)?;
                    }
                    if kind < modifies {
                        fill(self.values, record, self.generation(), &mut item);
                        self.store.put(std::slice::from_ref(&item), self.work.level)?;
                        tally.puts += 1;
                    }
                }
            }
            now = note(&mut tally, now);
        }
        Ok(tally)
    }

    fn read(&self, session: &mut dyn Session, record: u64) -> Outcome<()> {
        let key = key_of(record);
        let mut right = false;
        let found = session.get(&key, &mut |value| right = self.values.verify(&key, value))?;
        match (found, right) {
            (true, true) => Ok(()),
            (true, false) => Err(format!("record {record} has a value that was never put there")),
            (false, _) => Err(format!("record {record} is not found")),
        }
    }

    fn scan(&self, session: &mut dyn Session, record: u64, length: u64) -> Outcome<()> {
        let from = key_of(record);
        let mut last: Key = [0; KEY_LEN];
        let mut met = 0;
        let mut right = true;
        session.scan(&from, &mut |key, value| {
            let in_order = if met == 0 { key == from } else { key > last.as_slice() };
            right &= in_order && key.len() == KEY_LEN && self.values.verify(key, value);
            if right {
                last.copy_from_slice(key);
            }
            met += 1;
            right && met < length
        })?;
        if right && met > 0 { Ok(()) } else { Err(format!("a scan from record {record} met a wrong entry")) }
    }
}

/// Counts an operation that began when the last one ended.
fn note(tally: &mut WorkloadTally, since: Instant) -> Instant {
    let now = Instant::now();
    tally.times.add(now - since);
    tally.operations += 1;
    now
}

#[cfg(test)]
mod tests {
    use super::super::super::kinds::{Memory, StoreKind, open};
    use super::*;
    use crate::ycsb::{KvArguments, plan};

    fn work(workload: Workload, threads: usize, level: Level) -> WorkloadRun {
        let arguments = KvArguments { records: Some(500), threads: vec![threads], ..KvArguments::default() };
        let sets = plan::sets(&arguments);
        sets.iter().find(|set| set.level == level).unwrap().work(workload, 0.05)
    }

    #[test]
    fn every_workload_is_done_in_order_by_every_store() {
        let kinds = [StoreKind::Koine].into_iter().chain(StoreKind::REFERENCES).chain([StoreKind::Redis]);
        for kind in kinds.filter(|kind| kind.is_built()) {
            for (threads, level) in [(1, Level::Written), (3, Level::Sync)] {
                let folder = tempfile::tempdir().unwrap();
                let memory = Memory { total_len: 16 << 20 };
                let store = open(kind, folder.path(), memory).unwrap();
                let (records, mut turn) = (Records::default(), 0);
                for workload in Workload::ALL {
                    let work = work(workload, threads, level);
                    store.prepare(level).unwrap();
                    turn += 1;
                    let values = Values::new(work.value_len);
                    let done = drive(store.as_ref(), &work, &records, &values, turn)
                        .unwrap_or_else(|error| panic!("{kind:?} {workload:?}: {error}"));
                    finish(store.as_ref(), &work, &records, &values).unwrap();
                    assert!(done.operations > 0 && done.p99_ms.is_some(), "{kind:?} {workload:?}");
                    let count = records.count();
                    match workload {
                        Workload::Delete => assert_eq!(count, 0),
                        Workload::D | Workload::E => assert!(count >= 500),
                        _ if workload.is_load() => assert_eq!(count, 500),
                        _ => {}
                    }
                }
                store.close().unwrap();
            }
        }
    }

    #[test]
    fn a_store_that_loses_a_record_has_no_figure() {
        let folder = tempfile::tempdir().unwrap();
        let memory = Memory { total_len: 16 << 20 };
        let store = open(StoreKind::Koine, folder.path(), memory).unwrap();
        let (records, load) = (Records::default(), work(Workload::Load, 1, Level::Written));
        let values = Values::new(load.value_len);
        drive(store.as_ref(), &load, &records, &values, 1).unwrap();
        let keys: Vec<Key> = (0..500).map(key_of).collect();
        store.remove(&keys, Level::Written).unwrap();
        let error = drive(store.as_ref(), &work(Workload::C, 1, Level::Written), &records, &values, 2).unwrap_err();
        assert!(error.contains("is not found"), "{error}");
        store.close().unwrap();
    }

    #[test]
    fn records_count_without_gaps() {
        let records = Records::default();
        let numbers: Vec<u64> = (0..4).map(|_| records.give()).collect();
        for (number, count) in [(1, 0), (0, 2), (3, 2), (2, 4)] {
            records.acknowledge(numbers[number]);
            assert_eq!(records.count(), count);
        }
    }
}
