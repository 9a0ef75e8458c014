//! What a checkpoint writes follows from how many leaves were changed, not from how often.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use koine_env::SeededRandom;

use crate::batch::{Batch, Operation, SpaceId};
use crate::device::{AlignedBuffer, Device, MemoryDevice, Writing, pass_on};
use crate::engine::Engine;
use crate::options::{Background, Options};
use crate::{Durability, FormatOptions};

const SPACE: SpaceId = SpaceId(20);

/// A device that counts the bytes written to it.
struct Counting {
    memory: MemoryDevice,
    written_len: AtomicU64,
    /// Of writes that were begun, the number and the longest.
    begun: AtomicU64,
    begun_len_max: AtomicU64,
}

impl Counting {
    fn new() -> Counting {
        let count = || AtomicU64::new(0);
        Counting { memory: MemoryDevice::fixed(64 << 20), written_len: count(), begun: count(), begun_len_max: count() }
    }
}

impl Device for Counting {
    pass_on!(memory: len, grow, holds, read_at, sync, discard, close, is_fixed);

    fn write_at(&self, data: &[u8], offset: u64) -> std::io::Result<()> {
        self.written_len.fetch_add(data.len() as u64, Ordering::Relaxed);
        self.memory.write_at(data, offset)
    }

    fn begin_data(&self, buffer: AlignedBuffer, offset: u64) -> Writing {
        self.begun.fetch_add(1, Ordering::Relaxed);
        self.begun_len_max.fetch_max(buffer.len() as u64, Ordering::Relaxed);
        let outcome = self.write_at(&buffer, offset);
        Writing::ended(buffer, outcome)
    }
}

#[test]
fn repeated_updates_of_neighbouring_keys_are_written_once() {
    let device = Arc::new(Counting::new());
    Engine::format(device.as_ref(), FormatOptions::default(), &SeededRandom::new(1)).unwrap();
    let options = Options { background: Background::Manual, ..Options::default() };
    let engine = Engine::open(Arc::clone(&device) as _, options).unwrap();
    let commit = |batch| {
        engine.commit(batch, Durability::Memory).unwrap();
    };
    let update = |number: u64, turn: u64| {
        commit(Batch::new().put(SPACE, format!("{number:08}"), turn.to_be_bytes().repeat(12)));
    };
    commit(Batch::new().then(Operation::CreateSpace { space: SPACE }));
    (0..20_000).for_each(|number| update(number, 0));
    engine.checkpoint().unwrap();
    let written_by = |work: &dyn Fn()| {
        work();
        // What the log takes is not the checkpoint's.
        engine.sync().unwrap();
        let before = device.written_len.load(Ordering::Relaxed);
        engine.checkpoint().unwrap();
        device.written_len.load(Ordering::Relaxed) - before
    };
    let once = written_by(&|| (500..600).for_each(|number| update(number, 1)));
    let often = written_by(&|| (0..50).for_each(|turn| (500..600).for_each(|number| update(number, turn))));
    let scattered = written_by(&|| (0..100).for_each(|number| update(number * 200, 1)));
    assert!(often <= once + 16384, "{often} bytes for 5000 updates of 100 neighbours, {once} for 100");
    assert!(scattered > 4 * once, "{scattered} bytes for 100 updates anywhere: the test would show nothing");
    engine.close().unwrap();
}

#[test]
fn a_checkpoint_waits_for_none_of_its_writes_alone() {
    let device = Arc::new(Counting::new());
    Engine::format(device.as_ref(), FormatOptions::default(), &SeededRandom::new(1)).unwrap();
    let options = Options { background: Background::Manual, ..Options::default() };
    let engine = Engine::open(Arc::clone(&device) as _, options).unwrap();
    engine.commit(Batch::new().then(Operation::CreateSpace { space: SPACE }), Durability::Sync).unwrap();
    // Values that lie in leaves, and values beside them.
    for number in 0..2000_u32 {
        let length = if number % 10 == 0 { 5000 } else { 100 };
        engine
            .commit(Batch::new().put(SPACE, number.to_be_bytes().to_vec(), vec![1; length]), Durability::Memory)
            .unwrap();
    }
    engine.sync().unwrap();
    let before = device.written_len.load(Ordering::Relaxed);
    engine.checkpoint().unwrap();
    let written = device.written_len.load(Ordering::Relaxed) - before;
    let (begun, longest) = (device.begun.load(Ordering::Relaxed), device.begun_len_max.load(Ordering::Relaxed));
    assert!(longest <= 256 << 10 && begun * longest >= written - (256 << 10), "{begun} of {longest} for {written}");
    assert!(begun < 3 * written / longest + 3, "they lie one behind the other: {begun} of {longest} for {written}");
    let (view, mut buffer) = (engine.view(), vec![0; 5000]);
    assert_eq!(view.read(SPACE, &1990_u32.to_be_bytes(), 0, &mut buffer).unwrap(), 5000);
    drop(view);
    assert!(engine.check(&mut |_| {}).unwrap().is_sound());
    engine.close().unwrap();
}

#[test]
fn inner_nodes_that_changes_open_are_no_reason_for_a_checkpoint() {
    let device = Arc::new(MemoryDevice::fixed(64 << 20));
    Engine::format(device.as_ref(), FormatOptions::default(), &SeededRandom::new(1)).unwrap();
    let options = Options { background: Background::Manual, memory_len: 4 << 20, ..Options::default() };
    let engine = Engine::open(device, options).unwrap();
    let key = |number: u64| format!("{number:0200}");
    let commit = |batch| {
        engine.commit(batch, Durability::Memory).unwrap();
    };
    commit(Batch::new().then(Operation::CreateSpace { space: SPACE }));
    for from in (0..20_000).step_by(1000) {
        commit((from..from + 1000).fold(Batch::new(), |batch, number| batch.put(SPACE, key(number), "old")));
    }
    engine.checkpoint().unwrap();
    // The first state in memory that takes more than the bound: one change in each leaf, and all inner nodes.
    let weigh = || {
        let head = engine.shared().head.lock();
        (head.dirty, engine.shared().dirty_budget(&head))
    };
    let updated = (0..20_000).step_by(20).find(|number| {
        commit(Batch::new().put(SPACE, key(*number), "new"));
        let (dirty, budget) = weigh();
        dirty.memory_len > budget.memory_len
    });
    let (dirty, budget) = weigh();
    assert!(updated.is_some() && dirty.inner_len > budget.memory_len / 4, "{dirty:?} of {budget:?}");
    assert!(!dirty.exceeds(budget), "{dirty:?} of {budget:?}");
    engine.checkpoint().unwrap();
    let (dirty, _) = weigh();
    assert_eq!((dirty.memory_len, dirty.inner_len), (0, 0));
    engine.close().unwrap();
}
