//! The loops over a real store, and over ones that lie.

use super::super::data::{Key, Values, key};
use super::super::kinds::{Item, Level, Memory, Outcome, Session, Store, StoreKind};
use super::drive::drive;
use super::protocol::io_field;
use super::*;

const ITEMS: u64 = 2500;

fn phase(kind: Kind, level: Level) -> Phase {
    Phase { kind, level, threads: 1, in_flight: 1, items: ITEMS, value_len: 100, seconds: 0.02, operations: None }
}

fn memory() -> Memory {
    Memory { total_len: 8 << 20 }
}

#[test]
fn every_kind_of_work_counts_what_it_did() {
    let folder = tempfile::tempdir().unwrap();
    let mut worker = Worker::default();
    let command = Command::Open { kind: StoreKind::Koine, folder: folder.path().into(), memory: memory() };
    worker.obey(command).unwrap();
    let load = worker.run(&phase(Kind::Load(Order::Random), Level::Written)).unwrap();
    assert_eq!((load.operations, load.each_second.iter().sum()), (ITEMS, ITEMS));
    let kinds = [Kind::Read { pinned: true }, Kind::Read { pinned: false }, Kind::Scan, Kind::Mixed, Kind::Overwrite];
    for kind in kinds {
        for threads in [1, 3] {
            let measured = worker.run(&Phase { threads, ..phase(kind, Level::Written) }).unwrap();
            assert!(measured.operations > 0 && measured.seconds > 0.0, "{kind:?}");
        }
    }
    let synced = Phase { operations: Some(40), ..phase(Kind::Insert, Level::Sync) };
    let single = worker.run(&synced).unwrap();
    assert_eq!(single.operations, 40);
    assert!(single.flushes.is_some_and(|flushes| flushes >= 40) && single.p50_ms <= single.p99_ms);
    let together = worker.run(&Phase { in_flight: 20, ..synced }).unwrap();
    assert_eq!(together.operations, 40);
    // New items are there beside the loaded ones, unless two had one number.
    let Ok(Answer::Closed(settled)) = worker.obey(Command::Settle) else { panic!("no counts") };
    assert!(settled.used_len.is_some_and(|used| used > ITEMS * 116));
    let Ok(Answer::Closed(closed)) = worker.obey(Command::Close) else { panic!("no counts") };
    assert!(closed.own_memory_len.is_some_and(|peak| peak > 0));
    assert!(worker.obey(Command::Settle).is_err(), "nothing is open");
}

/// Says that everything is there, with one value for all.
struct Liar(Vec<u8>);

impl Store for Liar {
    fn session(&self) -> Outcome<Box<dyn Session + '_>> {
        Ok(Box::new(Lies(&self.0)))
    }
    fn put(&self, _items: &[Item], _level: Level) -> Outcome<()> {
        Ok(())
    }
    fn remove(&self, _keys: &[Key], _level: Level) -> Outcome<()> {
        Ok(())
    }
    fn sync(&self) -> Outcome<()> {
        Ok(())
    }
    fn settle(&self) -> Outcome<()> {
        Ok(())
    }
    fn used_len(&self) -> Outcome<Option<u64>> {
        Ok(None)
    }
    fn close(self: Box<Self>) -> Outcome<()> {
        Ok(())
    }
}

struct Lies<'a>(&'a [u8]);

impl Session for Lies<'_> {
    fn pin(&mut self) -> Outcome<()> {
        Ok(())
    }
    fn get(&mut self, _key: &[u8], found: &mut dyn FnMut(&[u8])) -> Outcome<bool> {
        found(self.0);
        Ok(true)
    }
    fn scan(&mut self, _from: &[u8], each: &mut dyn FnMut(&[u8], &[u8]) -> bool) -> Outcome<()> {
        each(&key(0), self.0);
        Ok(())
    }
}

#[test]
fn a_store_that_answers_wrongly_gets_no_figure() {
    let values = Values::new(100);
    let mut right = Vec::new();
    values.fill(0, 1, &mut right);
    for (value, word) in [(vec![0; 100], "wrong entry"), (right, "met 1 items")] {
        let liar = Liar(value);
        let read = drive(&liar, &phase(Kind::Read { pinned: false }, Level::Written), &values, 1);
        assert!(read.unwrap_err().contains("never put there"));
        let scan = drive(&liar, &phase(Kind::Scan, Level::Written), &values, 1);
        assert!(scan.as_ref().is_err_and(|error| error.contains(word)), "{scan:?}");
    }
}

#[test]
fn counters_of_the_system_are_read() {
    let text = "rchar: 1\nwrite_bytes: 4096\ncancelled_write_bytes: 7\n";
    assert_eq!(io_field(text, "write_bytes"), Some(4096));
    assert_eq!(io_field(text, "read_bytes"), None);
}

#[test]
fn commands_survive_the_wire() {
    let command = Command::Run(phase(Kind::Load(Order::Ascending), Level::Sync));
    let text = serde_json::to_string(&command).unwrap();
    assert!(!text.contains('\n'));
    assert_eq!(format!("{:?}", serde_json::from_str::<Command>(&text).unwrap()), format!("{command:?}"));
}
