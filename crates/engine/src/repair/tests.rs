//! A free list alone that is damaged or wrong is made anew; anything more, and nothing is touched.

use super::*;
use crate::allocator::free_list;
use crate::device::{BLOCK_LEN, MemoryDevice, ReadMode};
use crate::limits::FROZEN_ABOVE;
use crate::scrub::tests::{SPACE, commit, place, put, put_large, store};
use crate::superblock::{SECOND_SLOT_BLOCK, Slot, Superblock, write_slot};
use crate::tree::value::{BlobId, blob_of, block_of};
use crate::{Background, ErrorKind, Operation};

const OPTIONS: Options = Options {
    background: Background::Manual,
    memory_len: 8 << 20,
    cache_len: 0,
    filters: true,
    read_only: false,
    discard: false,
    reuse_at_once: false,
    frozen_above: FROZEN_ABOVE,
};

/// A closed store with free space in pieces.
fn made() -> (Arc<MemoryDevice>, Vec<u8>) {
    let (device, engine) = store(16 << 20);
    for number in 0..60 {
        put(&engine, &format!("{number:02}"), vec![number as u8; 700]);
        put_large(&engine, &format!("large {number:02}"), 60_000, number as u8);
    }
    for number in (0..60).step_by(3) {
        commit(&engine, Operation::Delete { at: place(&format!("large {number:02}")) });
    }
    let (from, to) = (place("large 01"), place("clone"));
    commit(&engine, Operation::CloneRange { from, from_offset: 0, length: 60_000, to, to_offset: 0 });
    // A branch with a life of its own, so that lists of what it has outlived are there too.
    commit(&engine, Operation::CloneSpace { from: SPACE, to: crate::SpaceId(21) });
    commit(&engine, Operation::Delete { at: place("large 02") });
    put_large(&engine, "large 02", 60_000, 2);
    engine.close().unwrap();
    let image = device.to_vec();
    (device, image)
}

fn superblock_of(device: &MemoryDevice) -> (Slot, Superblock) {
    device.reopen();
    read_newest(device).unwrap()
}

fn flip(device: &MemoryDevice, block: u64) {
    let mut bytes = vec![0; BLOCK_LEN];
    device.read_at(&mut bytes, block * BLOCK_LEN as u64, ReadMode::Direct).unwrap();
    bytes[40] ^= 1;
    device.write_at(&bytes, block * BLOCK_LEN as u64).unwrap();
}

fn repair(device: &Arc<MemoryDevice>) -> Result<Repair> {
    device.reopen();
    let repaired = Engine::repair(Arc::clone(device) as Arc<dyn Device>, OPTIONS, &mut |_| ());
    device.reopen();
    repaired
}

/// Opens the store and verifies that it is sound and has everything.
fn must_be_whole(device: &Arc<MemoryDevice>) {
    device.reopen();
    let engine = Engine::open(Arc::clone(device) as Arc<dyn Device>, OPTIONS).unwrap();
    let report = engine.check(&mut |_| ()).unwrap();
    assert!(report.is_sound(), "{:?}", report.findings);
    let view = engine.view();
    for number in 0..60 {
        assert_eq!(view.bytes(SPACE, format!("{number:02}").as_bytes(), 0, 1000).unwrap(), vec![number as u8; 700]);
        let large = view.bytes(SPACE, format!("large {number:02}").as_bytes(), 0, 100_000);
        match large {
            Ok(bytes) => assert!(number % 3 != 0 && bytes == vec![number as u8; 60_000]),
            Err(error) => assert!(number % 3 == 0 && error.kind() == ErrorKind::NotFound),
        }
    }
    // Free space is really free: it can be written to without harm.
    put_large(&engine, "more", 5_000_000, 0xEE);
    engine.checkpoint().unwrap();
    assert!(engine.check(&mut |_| ()).unwrap().is_sound());
}

#[test]
fn a_damaged_free_list_is_made_anew_and_nothing_else_is_written() {
    let (device, _) = made();
    let (slot, superblock) = superblock_of(&device);
    flip(&device, superblock.free.unwrap().at.start);
    let before = device.to_vec();
    assert!(Engine::open(Arc::clone(&device) as Arc<dyn Device>, OPTIONS).is_err());
    let repaired = repair(&device).unwrap();
    assert!(repaired.report.is_sound(), "{:?}", repaired.report.findings);
    assert!(repaired.free_list.unwrap().contains("free list at block"));
    let after = device.to_vec();
    let (_, newest) = superblock_of(&device);
    let pages = newest.free.unwrap().at;
    let changed: Vec<u64> = (0..(after.len() / BLOCK_LEN) as u64)
        .filter(|block| {
            let range = *block as usize * BLOCK_LEN..(*block as usize + 1) * BLOCK_LEN;
            before[range.clone()] != after[range]
        })
        .collect();
    let slots = [0, SECOND_SLOT_BLOCK];
    // The one page of the recovery and the one of the end.
    let others: Vec<&u64> = changed.iter().filter(|block| !slots.contains(block)).collect();
    assert!(others.len() <= 2 && others.contains(&&pages.start), "{changed:?}, pages {pages:?}, slot {slot:?}");
    must_be_whole(&device);
}

#[test]
fn a_free_list_that_names_what_is_in_use_is_made_anew() {
    let (device, _) = made();
    let (slot, superblock) = superblock_of(&device);
    let (free, pages) = free_list::read(device.as_ref(), superblock.free, superblock.blocks).unwrap();
    let used = superblock.root.unwrap().range();
    let mut wrong = free.clone();
    wrong.add(used.start, u64::from(used.count)).unwrap();
    let mut missing = free;
    let (start, _) = missing.iter().next().unwrap();
    missing.remove(start, 1).unwrap();
    for runs in [wrong, missing] {
        let named = free_list::write(device.as_ref(), &runs, &pages).unwrap();
        write_slot(device.as_ref(), slot, &Superblock { free: named, ..superblock.clone() }).unwrap();
        let image = device.to_vec();
        let repaired = repair(&device).unwrap();
        assert!(repaired.report.is_sound() && repaired.free_list.is_some(), "{repaired:?}");
        must_be_whole(&device);
        device.reopen();
        device.write_at(&image, 0).unwrap();
    }
}

#[test]
fn a_sound_store_and_one_with_other_damage_are_left_alone() {
    let (device, image) = made();
    let repaired = repair(&device).unwrap();
    assert!(repaired.report.is_sound() && repaired.free_list.is_none());
    assert!(device.to_vec() == image, "nothing was wrong, nothing was written");
    let (_, superblock) = superblock_of(&device);
    flip(&device, superblock.free.unwrap().at.start);
    let data = image.chunks(BLOCK_LEN).rposition(|block| block.iter().all(|byte| *byte == 59)).unwrap();
    flip(&device, data as u64);
    let before = device.to_vec();
    let repaired = repair(&device).unwrap();
    assert!(!repaired.report.is_sound() && repaired.free_list.is_some());
    assert!(device.to_vec() == before, "more than the free list is wrong");
    flip(&device, superblock.root.unwrap().start_block);
    let before = device.to_vec();
    assert!(!repair(&device).is_ok_and(|repaired| repaired.report.is_sound()));
    assert!(device.to_vec() == before);
}

/// The table of counts of a store that is open, and its nodes.
fn table(engine: &Engine) -> (Vec<Shared>, Vec<BlockRange>) {
    let core = engine.shared();
    let named = check::named(core, &mut |_| ()).unwrap();
    assert!(named.report.is_sound() && named.wrong_counts.is_none(), "{:?}", named.wrong_counts);
    (named.counts, named.table)
}

/// A store whose table of counts says something else than what it should.
fn miscounted(change: impl Fn(&mut Vec<Shared>), close: bool) -> Arc<MemoryDevice> {
    let (device, _) = made();
    device.reopen();
    let engine = Engine::open(Arc::clone(&device) as Arc<dyn Device>, OPTIONS).unwrap();
    engine.checkpoint().unwrap();
    let (mut counts, nodes) = table(&engine);
    assert!(!counts.is_empty());
    change(&mut counts);
    engine.shared().set_references(&counts, &nodes).unwrap();
    // A commit, so that the log goes on behind it.
    put(&engine, "01", vec![1; 700]);
    engine.checkpoint().unwrap();
    if close {
        engine.close().unwrap();
    } else {
        put(&engine, "02", vec![2; 700]);
        let image = device.to_vec();
        let length = image.len() as u64;
        return Arc::new(MemoryDevice::from_bytes(image, length));
    }
    device
}

#[test]
fn wrong_counts_are_made_anew() {
    type Change = fn(&mut Vec<Shared>);
    let changes: [(&str, Change); 4] = [
        ("none", |counts| counts.clear()),
        ("too many", |counts| counts[0].count += 3),
        ("one too short", |counts| counts[0].end -= 1),
        ("one of nothing", |counts| counts.push(Shared { start: 2000, end: 2003, count: 2 })),
    ];
    for (name, change) in changes {
        for close in [true, false] {
            let device = miscounted(change, close);
            let engine = Engine::open(Arc::clone(&device) as Arc<dyn Device>, Options { read_only: true, ..OPTIONS });
            if let Ok(engine) = engine {
                assert!(!engine.check(&mut |_| ()).unwrap().is_sound(), "{name}");
            }
            let repaired = repair(&device).unwrap();
            assert!(repaired.references.is_some() && repaired.has_changed(), "{name}: {repaired:?}");
            must_be_whole(&device);
            let again = repair(&device).unwrap();
            assert!(again.references.is_none() && again.report.is_sound(), "{name}: {again:?}");
            // What was shared is freed when nobody names it any more, and not before.
            let engine = Engine::open(Arc::clone(&device) as Arc<dyn Device>, OPTIONS).unwrap();
            commit(&engine, Operation::Delete { at: place("clone") });
            commit(&engine, Operation::Delete { at: place("large 01") });
            engine.checkpoint().unwrap();
            assert!(engine.check(&mut |_| ()).unwrap().is_sound(), "{name}");
        }
    }
}

#[test]
fn an_unreadable_table_of_counts_is_made_anew() {
    let (device, _) = made();
    device.reopen();
    let engine = Engine::open(Arc::clone(&device) as Arc<dyn Device>, OPTIONS).unwrap();
    let (_, nodes) = table(&engine);
    engine.close().unwrap();
    let at = nodes.first().unwrap().start;
    device.reopen();
    flip(&device, at);
    let before = device.to_vec();
    let repaired = repair(&device).unwrap();
    assert!(repaired.references.as_ref().is_some_and(|wrong| wrong.contains(&format!("block {at}"))), "{repaired:?}");
    must_be_whole(&device);
    // With something else wrong nothing is touched.
    let device = Arc::new(MemoryDevice::from_bytes(before, 16 << 20));
    let (_, superblock) = superblock_of(&device);
    flip(&device, superblock.root.unwrap().start_block);
    let damaged = device.to_vec();
    assert!(repair(&device).is_err() || !repair(&device).unwrap().has_changed());
    assert!(device.to_vec() == damaged);
}

#[test]
fn counts_of_frozen_blobs_are_made_anew() {
    let options = Options { frozen_above: 0, ..OPTIONS };
    type Change = fn(&mut Vec<Shared>);
    let changes: [Change; 3] = [
        |counts| counts.retain(|shared| blob_of(shared.start).is_none()),
        |counts| {
            counts.iter_mut().filter(|shared| blob_of(shared.start).is_some()).for_each(|shared| shared.count += 1)
        },
        |counts| {
            counts.push(Shared { start: block_of(BlobId(5000)).start, end: block_of(BlobId(5001)).end(), count: 2 })
        },
    ];
    for change in changes {
        let (device, engine) = store(16 << 20);
        engine.close().unwrap();
        device.reopen();
        let engine = Engine::open(Arc::clone(&device) as Arc<dyn Device>, options).unwrap();
        let copy = |from: &str, to: &str| {
            let (from, to) = (place(from), place(to));
            let (from_offset, length, to_offset) = (0, u64::MAX, 0);
            commit(&engine, Operation::CloneRange { from, from_offset, length, to, to_offset });
        };
        for key in ["a", "b"] {
            put_large(&engine, key, 1_500_000, 7);
            copy(key, &format!("{key} copy"));
            copy(key, &format!("{key} copied again"));
        }
        commit(&engine, Operation::Truncate { at: place("a copy"), length: 1_000_000 });
        engine.checkpoint().unwrap();
        let (mut counts, nodes) = table(&engine);
        assert!(counts.iter().any(|shared| blob_of(shared.start).is_some()));
        change(&mut counts);
        engine.shared().set_references(&counts, &nodes).unwrap();
        put(&engine, "01", vec![1; 700]);
        engine.checkpoint().unwrap();
        let report = engine.check(&mut |_| ()).unwrap();
        assert!(report.findings.iter().any(|finding| finding.contains("its count of references is")), "{report:?}");
        engine.close().unwrap();
        device.reopen();
        let repaired = repair(&device).unwrap();
        assert!(repaired.references.is_some() && repaired.has_changed(), "{repaired:?}");
        device.reopen();
        let engine = Engine::open(Arc::clone(&device) as Arc<dyn Device>, options).unwrap();
        for key in ["a", "b", "a copy", "b copy", "a copied again", "b copied again"] {
            assert!(engine.view().get(SPACE, key.as_bytes()).unwrap().unwrap().iter().all(|byte| *byte == 7));
            commit(&engine, Operation::Delete { at: place(key) });
            while engine.step().unwrap() {}
            assert!(engine.check(&mut |_| ()).unwrap().is_sound());
        }
        assert_eq!(engine.space_report().unwrap().engine.pieces, 0, "nothing is left of the blobs");
    }
}
