//! A read over pieces that lie apart asks for all of them before it waits for one.

use std::collections::BTreeSet;
use std::io;
use std::sync::Arc;

use koine_env::SeededRandom;
use parking_lot::Mutex;

use crate::device::{BLOCK_LEN, Device, MemoryDevice, ReadMode, pass_on};
use crate::{
    Background, Batch, Durability, Engine, ErrorKind, FormatOptions, Operation, Options, Payload, Place, SpaceId,
};

const SPACE: SpaceId = SpaceId(20);
const KEY: &str = "k";
/// In pieces of a block.
const LENGTH: usize = 48 * BLOCK_LEN;

/// What a page cache would have.
#[derive(Default)]
struct Pages {
    there: BTreeSet<u64>,
    /// What was asked for without waiting, piece by piece, and several at once.
    asked: Vec<u64>,
    fetched: Vec<(u64, u64)>,
    /// Reads that waited, each with how much was asked for before.
    waited: Vec<(u64, usize)>,
}

/// Memory with a page cache before it.
struct Paged {
    memory: MemoryDevice,
    pages: Mutex<Pages>,
    bad: Mutex<Option<u64>>,
}

impl Device for Paged {
    pass_on!(memory: len, grow, write_at, sync, discard, close, is_fixed);

    fn holds(&self, offset: u64, _length: usize) -> bool {
        self.pages.lock().there.contains(&offset)
    }
    fn read_at(&self, buffer: &mut [u8], offset: u64, mode: ReadMode) -> io::Result<()> {
        let mut pages = self.pages.lock();
        match mode {
            ReadMode::Now if !pages.there.contains(&offset) => {
                pages.asked.push(offset);
                return Err(io::ErrorKind::WouldBlock.into());
            }
            ReadMode::Cached if pages.there.insert(offset) => {
                let asked = pages.asked.len() + pages.fetched.len();
                pages.waited.push((offset, asked));
            }
            _ => {}
        }
        self.memory.read_at(buffer, offset, mode)?;
        let bad = bad_byte(*self.bad.lock(), offset, buffer.len());
        if let Some(byte) = bad.and_then(|at| buffer.get_mut(at)) {
            *byte ^= 1;
        }
        Ok(())
    }
    fn prefetch(&self, offset: u64, length: u64) {
        self.pages.lock().fetched.push((offset, length));
    }
}

fn bad_byte(place: Option<u64>, offset: u64, length: usize) -> Option<usize> {
    let at = usize::try_from(place?.checked_sub(offset)?).ok()?;
    (at < length).then_some(at)
}

/// A store with a value whose blocks lie apart, and what the value is.
fn scattered() -> (Arc<Paged>, Engine, Vec<u8>) {
    let device =
        Arc::new(Paged { memory: MemoryDevice::fixed(32 << 20), pages: Mutex::default(), bad: Mutex::new(None) });
    let format = FormatOptions { ring_len: 4 << 20, ..FormatOptions::default() };
    Engine::format(device.as_ref(), format, &SeededRandom::new(7)).unwrap();
    let options = Options { background: Background::Manual, ..Options::default() };
    let engine = Engine::open(device.clone(), options).unwrap();
    let made = Batch::new().then(Operation::CreateSpace { space: SPACE });
    engine.commit(made, Durability::Sync).unwrap();
    let value: Vec<u8> = (0..LENGTH).map(|index| (index * 7 + index / 251 + index / 65_521) as u8).collect();
    // Each block comes to lie where the checkpoint that it goes into finds room, half of them far from the others.
    for turn in 0..48 {
        if turn % 4 < 2 {
            let far = Batch::new().put(SPACE, format!("{turn}"), vec![turn as u8; 30_000]);
            engine.commit(far, Durability::Memory).unwrap();
        }
        let offset = turn * 29 % 48 * BLOCK_LEN;
        let data = Payload::Bytes(value[offset..offset + BLOCK_LEN].to_vec().into());
        let write = Operation::WriteAt { at: Place::new(SPACE, KEY), offset: offset as u64, data };
        engine.commit(Batch::new().then(write), Durability::Memory).unwrap();
        engine.checkpoint().unwrap();
    }
    *device.pages.lock() = Pages::default();
    (device, engine, value)
}

fn read(engine: &Engine, offset: usize, length: usize) -> crate::Result<Vec<u8>> {
    let mut buffer = vec![0; length];
    let count = engine.view().read(SPACE, KEY.as_bytes(), offset as u64, &mut buffer)?;
    buffer.truncate(count);
    Ok(buffer)
}

#[test]
fn all_is_asked_for_before_anything_is_waited_for() {
    let (device, engine, value) = scattered();
    assert!(read(&engine, 0, LENGTH).unwrap() == value);
    let pages = std::mem::take(&mut *device.pages.lock());
    let (asked, fetched) = (&pages.asked, &pages.fetched);
    assert!(asked.len() > 4 && asked[1..].is_sorted(), "in the order of the device, after the first: {asked:?}");
    assert!(fetched.len() > 2 && fetched.is_sorted(), "what lies close at once: {fetched:?}");
    let is_fetched = |place: &u64| fetched.iter().any(|(start, length)| (*start..start + length).contains(place));
    for (place, before) in &pages.waited {
        assert!(asked.contains(place) || is_fetched(place), "{place} was not asked for");
        assert_eq!(*before, asked.len() + fetched.len(), "{place} was waited for too early");
    }
    assert!(pages.waited.len() > 40 && asked.len() + fetched.len() < 40, "{} waits", pages.waited.len());
    let most = fetched.iter().map(|(_, length)| *length).max();
    assert!(most > Some(2 * BLOCK_LEN as u64), "{fetched:?}");
}

#[test]
fn what_is_there_is_read_at_once() {
    let (device, engine, value) = scattered();
    read(&engine, 0, LENGTH).unwrap();
    let there = std::mem::take(&mut *device.pages.lock()).there;
    device.pages.lock().there = there;
    // From the middle of one piece to the middle of another too.
    for (offset, length) in [(0, LENGTH), (100, LENGTH - 200), (5 * BLOCK_LEN - 1, 2)] {
        assert!(read(&engine, offset, length).unwrap() == value[offset..offset + length]);
    }
    let pages = device.pages.lock();
    assert_eq!((pages.asked.len(), pages.fetched.len(), pages.waited.len()), (0, 0, 0));
}

#[test]
fn parts_of_pieces_and_one_piece_alone() {
    let (device, engine, value) = scattered();
    for (offset, length) in [(100, 3 * BLOCK_LEN), (20 * BLOCK_LEN + 5, 100), (30 * BLOCK_LEN - 7, 9 * BLOCK_LEN)] {
        assert!(read(&engine, offset, length).unwrap() == value[offset..offset + length]);
    }
    let pages = device.pages.lock();
    assert!(!pages.waited.is_empty());
}

#[test]
fn damage_is_told_by_the_read_of_its_piece() {
    let (device, engine, value) = scattered();
    let image = device.memory.to_vec();
    let piece = &value[17 * BLOCK_LEN..18 * BLOCK_LEN];
    let at = image.chunks(BLOCK_LEN).position(|block| block == piece).unwrap() * BLOCK_LEN;
    *device.bad.lock() = Some(at as u64 + 5);
    for round in ["cold", "warm"] {
        let error = read(&engine, 0, LENGTH).unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Damaged, "{round}");
        assert!(error.to_string().contains(&format!("byte {at} ")), "{round}: {error}");
    }
    assert!(read(&engine, 0, 17 * BLOCK_LEN).unwrap() == value[..17 * BLOCK_LEN]);
    assert!(read(&engine, 18 * BLOCK_LEN, LENGTH).unwrap() == value[18 * BLOCK_LEN..]);
}
