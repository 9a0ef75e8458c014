//! Upgrading: what is written, what is refused, power cuts and failures at every event of it.

use koine_env::SeededRandom;

use super::*;
use crate::device::{BLOCK_LEN, Call, Fault, FaultyDevice, Image, MemoryDevice, RecordingDevice, Times, Trouble};
use crate::superblock::Features;
use crate::{Background, Batch, Durability, ErrorKind, FormatOptions, KeyRange, Operation, SpaceId};

const SPACE: SpaceId = SpaceId::FIRST;
const KEYS: u8 = 12;

fn open(image: Image) -> Result<Engine> {
    let options = Options { background: Background::Manual, ..Options::default() };
    Engine::open(Arc::new(MemoryDevice::from_image(image, 1 << 20)), options)
}

/// A store of format 0 with keys, closed in order or with what the log says since.
fn old_store(closed: bool) -> Image {
    let device = Arc::new(MemoryDevice::fixed(1 << 20));
    Engine::format(device.as_ref(), FormatOptions::default(), &SeededRandom::new(5)).unwrap();
    let options = Options { background: Background::Manual, ..Options::default() };
    let engine = Engine::open(Arc::clone(&device) as Arc<dyn Device>, options).unwrap();
    let commit = |batch: Batch| assert!(engine.submit(batch, Durability::Sync).wait().is_ok());
    commit(Batch::new().then(Operation::CreateSpace { space: SPACE }));
    for key in 0..KEYS {
        commit(Batch::new().put(SPACE, vec![key], vec![key; 5000]));
        if key == KEYS / 2 {
            engine.checkpoint().unwrap();
        }
    }
    let image = device.image();
    if closed {
        engine.close().unwrap();
    }
    with_superblocks(if closed { device.image() } else { image }, |superblock| superblock.format = 0)
}

/// An image with both superblocks changed.
fn with_superblocks(image: Image, change: impl Fn(&mut Superblock)) -> Image {
    let device = MemoryDevice::fixed_from(image);
    for slot in [Slot::First, Slot::Second] {
        let mut superblock = read_slot(&device, slot).unwrap();
        change(&mut superblock);
        write_slot(&device, slot, &superblock).unwrap();
    }
    device.image()
}

fn upgraded(image: Image, dry_run: bool) -> (Result<Upgrade>, Image) {
    let device = Arc::new(MemoryDevice::fixed_from(image));
    (Engine::upgrade(Arc::clone(&device) as Arc<dyn Device>, dry_run), device.image())
}

/// All of a store is there.
fn must_be_whole(engine: &Engine) {
    let report = engine.check(&mut |_| ()).unwrap();
    assert!(report.is_sound(), "{:?}", report.findings);
    let view = engine.view();
    let mut cursor = view.cursor(SPACE, KeyRange::all(), false).unwrap();
    for key in 0..KEYS {
        assert_eq!(cursor.next().unwrap().unwrap().key, vec![key]);
        assert_eq!(view.bytes(SPACE, &[key], 0, 6000).unwrap(), vec![key; 5000]);
    }
    assert!(cursor.next().unwrap().is_none());
}

#[test]
fn only_the_superblocks_are_written_and_only_once() {
    for closed in [false, true] {
        let old = old_store(closed);
        let (told, same) = upgraded(old.clone(), true);
        assert_eq!(told.unwrap(), Upgrade { from: 0, to: FORMAT, superblocks: 2 });
        assert_eq!(same.to_vec(), old.to_vec(), "a dry run changes nothing");
        let (told, new) = upgraded(old.clone(), false);
        assert_eq!(told.unwrap(), Upgrade { from: 0, to: FORMAT, superblocks: 2 });
        let blocks =
            old.to_vec().chunks(BLOCK_LEN).zip(new.to_vec().chunks(BLOCK_LEN)).map(|(a, b)| a != b).collect::<Vec<_>>();
        let changed: Vec<usize> = (0..blocks.len()).filter(|block| blocks[*block]).collect();
        assert_eq!(changed, [0, 128]);
        let (told, again) = upgraded(new.clone(), false);
        assert_eq!(told.unwrap(), Upgrade { from: FORMAT, to: FORMAT, superblocks: 0 });
        assert_eq!(again.to_vec(), new.to_vec());
        let engine = open(new).unwrap();
        assert_eq!(engine.info().recovered.clean, closed);
        must_be_whole(&engine);
    }
}

#[test]
fn opening_says_what_to_do_and_changes_nothing() {
    for read_only in [false, true] {
        let device = Arc::new(MemoryDevice::fixed_from(old_store(false)));
        let before = device.to_vec();
        let options = Options { read_only, ..Options::default() };
        let error = Engine::open(Arc::clone(&device) as Arc<dyn Device>, options).err().unwrap();
        assert!(error.kind() == ErrorKind::Unknown && error.message().contains("`koine upgrade"), "{error}");
        assert_eq!(device.to_vec(), before);
    }
}

#[test]
fn what_cannot_be_opened_is_not_upgraded() {
    let check = |image: Image, wanted: &str| {
        let (told, after) = upgraded(image.clone(), false);
        let error = told.unwrap_err();
        assert!(error.message().contains(wanted), "{error}");
        assert_eq!(after.to_vec(), image.to_vec());
    };
    let writing = Features { read_only: 1, ..Features::default() };
    check(with_superblocks(old_store(true), |superblock| superblock.features = writing), "bit 0 of those for writing");
    check(with_superblocks(old_store(true), |superblock| superblock.format = FORMAT + 1), "newer program");
    let mut damaged = old_store(false);
    let device = MemoryDevice::fixed_from(damaged.clone());
    let (_, newest) = read_newest(&device).unwrap();
    // The first group that counts: what comes behind it says that it was durable.
    let at =
        newest.ring.start as usize * BLOCK_LEN + newest.position as usize % (newest.ring.count as usize * BLOCK_LEN);
    damaged.write(at + 100, &[0xFF; 20]);
    check(damaged, "the log is damaged");
    check(Image::zeros(1 << 20), "not a store");
}

#[test]
fn a_power_cut_at_any_moment_leaves_a_store_of_either_format_with_all_it_had() {
    for closed in [false, true] {
        let memory = MemoryDevice::fixed_from(old_store(closed));
        let device = Arc::new(RecordingDevice::new(memory).unwrap());
        Engine::upgrade(Arc::clone(&device) as Arc<dyn Device>, false).unwrap();
        let recording = device.recording();
        let mut walker = recording.images(3);
        let (mut old, mut new) = (0, 0);
        for cut in 0..=recording.len() {
            walker.advance(cut);
            for part in 0..8 {
                let image = if part == 0 { walker.durable() } else { walker.partial(part) };
                match open(image.clone()) {
                    Ok(engine) => {
                        new += 1;
                        must_be_whole(&engine);
                    }
                    Err(error) => {
                        old += 1;
                        assert!(error.message().contains("`koine upgrade"), "cut {cut}, part {part}: {error}");
                    }
                }
                let (told, image) = upgraded(image, false);
                told.unwrap_or_else(|error| panic!("cut {cut}, part {part}: {error}"));
                let (told, image) = upgraded(image, false);
                assert_eq!(told.unwrap().superblocks, 0);
                must_be_whole(&open(image).unwrap());
            }
        }
        assert!(old > 0 && new > 0, "{old}, {new}");
    }
}

#[test]
fn a_write_or_sync_that_fails_is_told_and_upgrading_again_goes_on() {
    for (call, count) in [(Call::Write, 2), (Call::Sync, 3)] {
        for nth in 1..=count {
            for trouble in [Trouble::Error, Trouble::Torn] {
                if call == Call::Sync && trouble == Trouble::Torn {
                    continue;
                }
                let fault = Fault { call, nth, times: Times::Once, trouble };
                let device = Arc::new(FaultyDevice::new(MemoryDevice::fixed_from(old_store(false)), vec![fault], 1));
                let told = Engine::upgrade(Arc::clone(&device) as Arc<dyn Device>, false);
                assert_eq!(told.unwrap_err().kind(), ErrorKind::Device, "{fault:?}");
                let (told, image) = upgraded(device.inner().image(), false);
                told.unwrap();
                must_be_whole(&open(image).unwrap());
            }
        }
    }
}

#[test]
fn a_free_list_is_mended_in_the_old_format_and_then_upgraded() {
    let mut image = old_store(true);
    let (_, newest) = read_newest(&MemoryDevice::fixed_from(image.clone())).unwrap();
    image.write(newest.free.unwrap().at.start as usize * BLOCK_LEN + 40, &[0xFF; 8]);
    assert_eq!(upgraded(image.clone(), false).0.unwrap_err().kind(), ErrorKind::Damaged);
    let device = Arc::new(MemoryDevice::fixed_from(image));
    let repaired = Engine::repair(Arc::clone(&device) as Arc<dyn Device>, Options::default(), &mut |_| ()).unwrap();
    assert!(repaired.has_changed());
    let (told, image) = upgraded(device.image(), false);
    assert_eq!(told.unwrap().from, 0, "mending leaves the format");
    must_be_whole(&open(image).unwrap());
}
