//! Cursors have what lies around their nodes fetched; point reads have not.

use std::collections::BTreeSet;
use std::io;
use std::sync::Arc;

use koine_env::SeededRandom;
use parking_lot::Mutex;

use super::NEIGHBOURHOOD_LEN;
use crate::device::{Device, MemoryDevice, ReadMode, pass_on};
use crate::{Background, Batch, Durability, Engine, FormatOptions, KeyRange, Operation, Options, SpaceId};

const SPACE: SpaceId = SpaceId(20);

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Call {
    Read(u64),
    Fetch(u64, u64),
}

/// Notes reads through the page cache, and what is to be fetched.
struct Noting {
    memory: MemoryDevice,
    calls: Mutex<Vec<Call>>,
}

impl Device for Noting {
    pass_on!(memory: len, grow, holds, write_at, sync, discard, close, is_fixed);

    fn read_at(&self, buffer: &mut [u8], offset: u64, mode: ReadMode) -> io::Result<()> {
        if mode == ReadMode::Cached {
            self.calls.lock().push(Call::Read(offset));
        }
        self.memory.read_at(buffer, offset, mode)
    }
    fn prefetch(&self, offset: u64, length: u64) {
        self.calls.lock().push(Call::Fetch(offset, length));
    }
}

#[test]
fn the_second_node_of_a_neighbourhood_brings_what_is_around_it_to_a_cursor_alone() {
    let device = MemoryDevice::fixed(64 << 20);
    let format = FormatOptions { ring_len: 4 << 20, ..FormatOptions::default() };
    Engine::format(&device, format, &SeededRandom::new(7)).unwrap();
    let device = Arc::new(Noting { memory: device, calls: Mutex::default() });
    let options = || Options { background: Background::Manual, ..Options::default() };
    let engine = Engine::open(device.clone(), options()).unwrap();
    let key = |number: u32| number.to_be_bytes().to_vec();
    engine.commit(Batch::new().then(Operation::CreateSpace { space: SPACE }), Durability::Sync).unwrap();
    for start in (0..8000).step_by(500) {
        let put = |batch: Batch, number: u32| batch.put(SPACE, key(number), vec![number as u8; 100]);
        engine.commit((start..start + 500).fold(Batch::new(), put), Durability::Memory).unwrap();
    }
    engine.close().unwrap();
    device.memory.reopen();
    let engine = Engine::open(device.clone(), options()).unwrap();
    device.calls.lock().clear();
    let view = engine.view();
    let mut cursor = view.cursor(SPACE, KeyRange::all(), false).unwrap();
    let mut walked = 0;
    while cursor.next().unwrap().is_some() {
        walked += 1;
    }
    assert_eq!(walked, 8000);
    let calls = std::mem::take(&mut *device.calls.lock());
    let fetched = check_fetches(calls);
    assert!(fetched > 20, "{fetched} nodes");
    drop((cursor, view));
    engine.close().unwrap();
    device.memory.reopen();
    let engine = Engine::open(device.clone(), options()).unwrap();
    device.calls.lock().clear();
    let view = engine.view();
    for number in (0..8000).map(|turn| turn * 3001 % 8000) {
        let mut value = [0; 100];
        assert_eq!(view.read(SPACE, &key(number), 0, &mut value).unwrap(), 100);
        assert_eq!(value, [number as u8; 100]);
    }
    let calls = std::mem::take(&mut *device.calls.lock());
    assert!(
        calls.len() > 100 && calls.iter().all(|call| matches!(call, Call::Read(_))),
        "a point read costs its nodes"
    );
}

/// Each node is read once; all but the first of a neighbourhood have it fetched. How many have.
fn check_fetches(calls: Vec<Call>) -> usize {
    let (mut seen, mut read, mut calls) = (BTreeSet::new(), BTreeSet::new(), calls.into_iter());
    let mut fetched = 0;
    while let Some(call) = calls.next() {
        let at = match call {
            Call::Read(at) => {
                assert!(seen.insert(at / NEIGHBOURHOOD_LEN), "only the first one comes alone");
                at
            }
            Call::Fetch(start, length) => {
                assert_eq!((start % NEIGHBOURHOOD_LEN, length), (0, NEIGHBOURHOOD_LEN));
                let Some(Call::Read(at)) = calls.next() else { panic!("it is fetched for a read") };
                assert_eq!(at / NEIGHBOURHOOD_LEN, start / NEIGHBOURHOOD_LEN);
                fetched += 1;
                at
            }
        };
        assert!(read.insert(at), "each node is read once");
    }
    fetched
}
