//! Writes whose group is begun before they are applied: after power cuts, on media that fail, and by many threads.

use std::sync::Arc;

use koine_env::SeededRandom;

use crate::device::{Call, Device, Fault, FaultyDevice, FileDevice, MemoryDevice, OpenOptions, RecordingDevice};
use crate::device::{Times, Trouble};
use crate::objects::{Object, Store, StoreOptions};
use crate::{Background, Durability, Engine, ErrorKind, FormatOptions, Options};

/// Through the ring, beside it, and in more than one chunk beside it.
const LENGTHS: [usize; 3] = [4 << 10, 40 << 10, 300 << 10];
pub(super) const STORE_LEN: u64 = 16 << 20;

pub(crate) fn formatted() -> MemoryDevice {
    let device = MemoryDevice::fixed(STORE_LEN as usize);
    Engine::format(&device, FormatOptions::default(), &SeededRandom::new(1)).unwrap();
    device
}

fn open(device: Arc<dyn Device>, background: Background) -> Store {
    let engine = Engine::open(device, Options { background, ..Options::default() }).unwrap();
    Store::own(engine, StoreOptions::default()).unwrap()
}

fn content(object: &Object) -> Vec<u8> {
    let mut bytes = vec![0; object.size().unwrap() as usize];
    assert_eq!(object.read(0, &mut bytes).unwrap(), bytes.len());
    bytes
}

/// Shows every medium that a power cut may leave once the first of the `known` numbers is there, each with the position
/// from which on it is. `number_in` tells which it holds: the last that was known, or the next. Gives the count of media;
/// some of them hold more than was known.
pub(crate) fn each_power_cut(
    device: &RecordingDevice<MemoryDevice>,
    known: &[(usize, u8)],
    number_in: &dyn Fn(MemoryDevice) -> u8,
) -> usize {
    let recording = device.recording();
    let mut walker = recording.images(1);
    let (mut images, mut early) = (0, 0);
    for cut in known[0].0..=recording.len() {
        walker.advance(cut);
        let least = known.iter().rev().find(|known| known.0 <= cut).unwrap().1;
        let mut seen = vec![walker.durable()];
        seen.extend((0..4 * walker.in_doubt()).map(|seed| walker.partial(seed as u64)));
        for image in seen {
            let found = number_in(MemoryDevice::from_image(image, STORE_LEN));
            assert!([least, least + 1].contains(&found), "cut {cut}: {found} where {least} was known");
            early += usize::from(found > least);
            images += 1;
        }
    }
    assert!(early > 0, "of {images} images none holds more than was known");
    images
}

/// What a medium holds, as a store that is opened on it shows the first object.
fn content_after(device: MemoryDevice) -> Vec<u8> {
    let store = open(Arc::new(device), Background::Manual);
    content(&store.open_object(store.list(0, 1).unwrap()[0]).unwrap())
}

#[test]
fn a_power_cut_at_any_moment_leaves_the_write_before_or_after() {
    for length in LENGTHS {
        let device = Arc::new(RecordingDevice::new(formatted()).unwrap());
        let store = open(device.clone(), Background::Manual);
        let object = store.create(0).unwrap();
        object.write(0, &vec![1; length], Durability::Sync).unwrap();
        // What was known when: from here on this number is there.
        let mut known = vec![(device.position(), 1)];
        for number in 2..6 {
            object.write(0, &vec![number; length], Durability::Sync).unwrap();
            known.push((device.position(), number));
        }
        let images = each_power_cut(&device, &known, &|image| {
            let found = content_after(image);
            assert!(found.len() == length && found.iter().all(|byte| *byte == found[0]));
            found[0]
        });
        assert!(images > 40, "{images} images");
    }
}

#[test]
fn the_data_is_written_while_the_group_is() {
    let device = Arc::new(RecordingDevice::new(formatted()).unwrap());
    let store = open(device.clone(), Background::Manual);
    let object = store.create(0).unwrap();
    object.write(0, &vec![1; 64 << 10], Durability::Sync).unwrap();
    let before = device.position();
    object.write(0, &vec![2; 64 << 10], Durability::Sync).unwrap();
    // Group begun, data begun and done, group done, sync begun and done.
    let recording = device.recording();
    assert_eq!(recording.len() - before, 6);
    let writes: Vec<_> = recording.writes().collect();
    assert_eq!(writes[writes.len() - 2..].iter().map(|write| write.1).collect::<Vec<_>>(), [4096, 64 << 10]);
    let begun: Vec<usize> = recording.changes().into_iter().filter(|at| *at > before).collect();
    assert_eq!(begun, [before + 1, before + 2]);
}

#[test]
fn a_write_or_sync_that_fails_stops_the_store_and_shows_nothing() {
    for length in LENGTHS {
        let calls = if length > 32 << 10 { 2 } else { 1 };
        let faults = (1..=calls).map(|nth| (Call::Write, nth)).chain([(Call::Sync, 1)]);
        for (background, (call, nth)) in
            faults.flat_map(|fault| [Background::Manual, Background::Threads].map(|background| (background, fault)))
        {
            let device = Arc::new(FaultyDevice::new(formatted(), Vec::new(), 1));
            let store = open(device.clone(), background);
            let object = store.create(0).unwrap();
            object.write(0, &vec![1; length], Durability::Sync).unwrap();
            let so_far = device.calls();
            let nth = nth + if call == Call::Write { so_far.writes } else { so_far.syncs };
            device.set_plan(vec![Fault { call, nth, times: Times::Once, trouble: Trouble::Error }]);
            let error = object.write(0, &vec![2; length], Durability::Sync).unwrap_err();
            assert_eq!(error.kind(), ErrorKind::Stopped, "{call:?} {nth}");
            device.set_plan(Vec::new());
            assert_eq!(object.write(0, &[3], Durability::Sync).unwrap_err().kind(), ErrorKind::Stopped);
            let after = device.calls();
            assert_eq!(
                after.syncs - so_far.syncs,
                u64::from(call == Call::Sync),
                "nothing is synced after a failed write"
            );
            drop(object);
            drop(store);
            let found = content_after(MemoryDevice::from_bytes(device.inner().to_vec(), STORE_LEN));
            // Where only the sync failed the bytes may be there.
            assert!(found == vec![1; length] || (call == Call::Sync && found == vec![2; length]));
        }
    }
}

#[test]
fn what_cannot_be_applied_after_all_is_taken_back() {
    // Pieces in leaves of their own, so that a write reads nodes that its condition did not.
    let device = Arc::new(formatted());
    let store = open(device.clone(), Background::Manual);
    let object = store.create(0).unwrap();
    (0..600).for_each(|piece| object.write(piece * 8192, &[1; 4096], Durability::Memory).unwrap());
    drop(object);
    store.close().unwrap();
    let bytes = device.to_vec();
    let (mut taken_back, mut nth) = (0, 0);
    loop {
        let device = Arc::new(FaultyDevice::new(MemoryDevice::from_bytes(bytes.clone(), STORE_LEN), Vec::new(), 1));
        let store = open(device.clone(), Background::Manual);
        let object = store.open_object(store.list(0, 1).unwrap()[0]).unwrap();
        let before = device.calls();
        let fault = Fault { call: Call::Read, nth: before.reads + nth, times: Times::Once, trouble: Trouble::Error };
        device.set_plan(vec![fault]);
        let written = object.write(300 * 8192, &[2; 4096], Durability::Sync);
        let after = device.calls();
        device.set_plan(Vec::new());
        if written.is_ok() && after.reads < before.reads + nth {
            break;
        }
        if let Err(error) = &written {
            assert_eq!(error.kind(), ErrorKind::Device);
            let read = |store: &Store| {
                let mut byte = [0];
                let object = store.open_object(store.list(0, 1).unwrap()[0]).unwrap();
                object.read(300 * 8192, &mut byte).unwrap();
                byte[0]
            };
            let cut = || Arc::new(MemoryDevice::from_bytes(device.inner().to_vec(), STORE_LEN));
            assert_eq!((read(&store), read(&open(cut(), Background::Manual))), (1, 1), "not visible, nor in the log");
            if after.writes > before.writes {
                assert_eq!((after.writes - before.writes, after.syncs - before.syncs), (2, 1));
                taken_back += 1;
            }
            // The store goes on, in the same place of the ring.
            object.write(300 * 8192, &[3; 4096], Durability::Sync).unwrap();
            assert_eq!((read(&store), read(&open(cut(), Background::Manual))), (3, 3));
        }
        nth += 1;
    }
    assert!(taken_back > 0, "of {nth} reads");
}

#[test]
fn a_checkpoint_beside_it_names_no_data_that_is_not_there() {
    let device = Arc::new(RecordingDevice::new(formatted()).unwrap());
    let store = open(device.clone(), Background::Threads);
    let object = store.create(0).unwrap();
    object.write(0, &vec![1; 64 << 10], Durability::Sync).unwrap();
    let begin = device.position();
    std::thread::scope(|scope| {
        scope.spawn(|| (2..40).for_each(|byte| object.write(0, &vec![byte; 64 << 10], Durability::Sync).unwrap()));
        scope.spawn(|| (0..20).for_each(|_| store.engine().checkpoint().unwrap()));
    });
    let recording = device.recording();
    let mut walker = recording.images(7);
    for cut in begin..=recording.len() {
        walker.advance(cut);
        let found = content_after(MemoryDevice::from_image(walker.partial(cut as u64), STORE_LEN));
        assert!(found.len() == 64 << 10 && found.iter().all(|byte| *byte == found[0]), "cut {cut}");
    }
}

#[test]
fn many_threads_write_and_each_finds_what_it_wrote() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("store");
    let device = FileDevice::open(&path, OpenOptions { create: true, read_only: false }).unwrap();
    device.grow(64 << 20).unwrap();
    Engine::format(&device, FormatOptions::default(), &SeededRandom::new(1)).unwrap();
    let store = open(Arc::new(device), Background::Threads);
    let shared = store.create(0).unwrap();
    std::thread::scope(|scope| {
        for thread in 0..6u8 {
            let (store, shared) = (&store, &shared);
            scope.spawn(move || {
                let own = store.create(0).unwrap();
                for round in 0..30u8 {
                    let length = LENGTHS[usize::from(round + thread) % 2];
                    let data = vec![thread * 40 + round + 1; length];
                    own.write(0, &data, Durability::Sync).unwrap();
                    assert!(content(&own).starts_with(&data));
                    shared.write(u64::from(thread) << 20, &data, Durability::Sync).unwrap();
                    let mut found = vec![0; length];
                    shared.read(u64::from(thread) << 20, &mut found).unwrap();
                    assert!(found == data);
                }
            });
        }
    });
    drop(shared);
    store.close().unwrap();
}
