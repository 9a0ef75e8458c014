//! What a checkpoint writes follows from how many leaves were changed, not from how often.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use koine_env::SeededRandom;

use crate::batch::{Batch, Operation, SpaceId};
use crate::device::{Device, MemoryDevice, pass_on};
use crate::engine::{Background, Engine, Options};
use crate::{Durability, FormatOptions};

const SPACE: SpaceId = SpaceId(20);

/// A device that counts the bytes written to it.
struct Counting {
    memory: MemoryDevice,
    written_len: AtomicU64,
}

impl Device for Counting {
    pass_on!(memory: len, grow, holds, read_at, sync, discard, close, is_fixed);

    fn write_at(&self, data: &[u8], offset: u64) -> std::io::Result<()> {
        self.written_len.fetch_add(data.len() as u64, Ordering::Relaxed);
        self.memory.write_at(data, offset)
    }
}

#[test]
fn repeated_updates_of_neighbouring_keys_are_written_once() {
    let device = Arc::new(Counting { memory: MemoryDevice::fixed(64 << 20), written_len: AtomicU64::new(0) });
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
