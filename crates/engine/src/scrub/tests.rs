//! A scrub finds what is damaged, names whom it concerns, keeps to its rate and goes on where it was.

use koine_env::{SeededRandom, SimulatedClock, Timestamp};

use super::*;
use crate::content::record_key;
use crate::device::MemoryDevice;
use crate::{Background, Batch, Durability, FormatOptions, KeyRange, Operation, Options, Payload, Place, StageHint};

pub(crate) const SPACE: SpaceId = SpaceId(20);

pub(crate) fn store(length: usize) -> (Arc<MemoryDevice>, Engine) {
    let device = Arc::new(MemoryDevice::fixed(length));
    Engine::format(device.as_ref(), FormatOptions::default(), &SeededRandom::new(7)).unwrap();
    let engine =
        Engine::open(device.clone(), Options { background: Background::Manual, ..Options::default() }).unwrap();
    commit(&engine, Operation::CreateSpace { space: SPACE });
    (device, engine)
}

pub(crate) fn commit(engine: &Engine, operation: Operation) {
    engine.submit(Batch::new().then(operation), Durability::Sync).wait().unwrap();
}

pub(crate) fn place(key: &str) -> Place {
    Place { space: SPACE, key: Bytes::copy_from_slice(key.as_bytes()) }
}

pub(crate) fn put(engine: &Engine, key: &str, value: Vec<u8>) {
    commit(engine, Operation::Put { at: place(key), value: Payload::Bytes(value.into()) });
}

pub(crate) fn put_large(engine: &Engine, key: &str, length: usize, fill: u8) {
    let mut stage = engine.stage(StageHint::default()).unwrap();
    vec![fill; length].chunks(1 << 20).for_each(|part| stage.write(part).unwrap());
    let value = Payload::Stage(stage.finish().unwrap());
    commit(engine, Operation::Put { at: place(key), value });
}

fn clock() -> Arc<SimulatedClock> {
    Arc::new(SimulatedClock::new(Timestamp(1_000_000_000)))
}

/// One whole pass.
fn pass(scrub: &mut Scrub) -> (u64, ScrubStep) {
    let (mut steps, mut sum) = (0, ScrubStep::default());
    loop {
        let step = scrub.step().unwrap();
        steps += 1;
        sum.nodes += step.nodes;
        sum.pieces += step.pieces;
        sum.read_len += step.read_len;
        sum.findings.extend(step.findings);
        if step.done {
            return (steps, sum);
        }
    }
}

/// A store with all kinds of values, stored.
fn filled() -> (Arc<MemoryDevice>, Engine) {
    let (device, engine) = store(32 << 20);
    for number in 0..2000 {
        put(&engine, &format!("small-{number:05}"), vec![number as u8; 300]);
    }
    put(&engine, "packed", vec![0xA1; 20_000]);
    put_large(&engine, "large", 3_000_000, 0xB2);
    engine.checkpoint().unwrap();
    (device, engine)
}

/// Changes a byte of a block.
fn damage(device: &MemoryDevice, block: u64) {
    let mut bytes = vec![0; BLOCK_LEN];
    device.read_at(&mut bytes, block * BLOCK_LEN as u64, ReadMode::Direct).unwrap();
    bytes[100] ^= 0x40;
    device.write_at(&bytes, block * BLOCK_LEN as u64).unwrap();
}

/// The first block outside of the log that holds nothing but this byte.
fn data_of(engine: &Engine, device: &MemoryDevice, fill: u8) -> u64 {
    let ring = engine.shared().ring;
    let log = ring.start() / BLOCK_LEN as u64..(ring.start() + ring.length()) / BLOCK_LEN as u64;
    let bytes = device.to_vec();
    let mut blocks = (0..).zip(bytes.chunks(BLOCK_LEN)).filter(|(number, _)| !log.contains(number));
    let found = blocks.find(|(_, block)| block.iter().all(|byte| *byte == fill));
    found.expect("such a block is there").0
}

/// Where the leaf of a key lies.
struct LeafOf(Bytes, Option<NodeRef>, bool);

impl ScanVisitor for LeafOf {
    fn node(&mut self, at: &NodeRef, _: bool) -> Result<Visit> {
        self.1 = Some(*at);
        Ok(Visit::Into)
    }
    fn entry(&mut self, key: &Bytes, _: &Value) -> Result<bool> {
        self.2 = *key == self.0;
        Ok(!self.2)
    }
    fn gap(&mut self, gap: Gap) -> Result<bool> {
        panic!("{gap:?}")
    }
}

fn leaf_of(engine: &Engine, key: &str) -> u64 {
    let core = engine.shared();
    let root = engine.view().state().space(&core.nodes, SPACE).unwrap().unwrap();
    let mut leaf = LeafOf(record_key(key.as_bytes()), None, false);
    let key = leaf.0.clone();
    root.tree.scan(&core.nodes, &key, None, &mut leaf).unwrap();
    assert!(leaf.2);
    leaf.1.unwrap().start_block
}

#[test]
fn a_sound_store_is_read_whole_in_steps() {
    let (_, engine) = filled();
    let options = ScrubOptions { step_len: 200_000, ..ScrubOptions::default() };
    let mut scrub = engine.scrub(options, clock(), ScrubPosition::default());
    let (steps, sum) = pass(&mut scrub);
    assert_eq!(sum.findings, vec![]);
    assert!(steps > 5, "{steps} steps");
    let report = engine.check(&mut |_| {}).unwrap();
    // Nodes on the way to a position are read again by each step.
    assert!(sum.nodes >= report.nodes, "{} of {} nodes", sum.nodes, report.nodes);
    assert!(sum.read_len >= 3_020_000);
    assert_eq!(*scrub.position(), ScrubPosition::default(), "the next step begins another pass");
}

#[test]
fn damage_of_data_names_the_key_and_the_place() {
    let (device, engine) = filled();
    for (fill, key) in [(0xA1, "packed"), (0xB2, "large")] {
        let block = data_of(&engine, &device, fill);
        damage(&device, block);
        let (_, sum) = pass(&mut engine.scrub(ScrubOptions::default(), clock(), ScrubPosition::default()));
        let found: Vec<&Finding> = sum.findings.iter().filter(|finding| {
            matches!(&finding.concern, Concern::Value { key: Some(found), .. } if found == key.as_bytes())
        }).collect();
        assert_eq!(found.len(), 1, "{:?}", sum.findings);
        let place = format!("byte {}", block * BLOCK_LEN as u64);
        assert!(found[0].message.contains(&place), "{} does not name {place}", found[0]);
    }
}

#[test]
fn damage_of_a_leaf_names_its_keys_although_caches_hold_it() {
    let (device, engine) = filled();
    // Everything is in the node cache and in memory now.
    let mut cursor = engine.view().cursor(SPACE, KeyRange::all(), false).unwrap();
    while cursor.next().unwrap().is_some() {}
    let block = leaf_of(&engine, "small-00700");
    damage(&device, block);
    let (_, sum) = pass(&mut engine.scrub(ScrubOptions::default(), clock(), ScrubPosition::default()));
    assert_eq!(sum.findings.len(), 1, "{:?}", sum.findings);
    assert!(sum.findings[0].message.contains(&format!("block {block}")));
    drop(engine);
    device.reopen();
    let engine = Engine::open(device, Options { background: Background::Manual, ..Options::default() }).unwrap();
    let (_, sum) = pass(&mut engine.scrub(ScrubOptions::default(), clock(), ScrubPosition::default()));
    let Concern::Keys(SPACE, from, Some(end)) = &sum.findings[0].concern else { panic!("{:?}", sum.findings) };
    assert!(from.as_ref() <= b"small-00700".as_slice() && end.as_ref() > b"small-00700".as_slice());
}

#[test]
fn a_lost_superblock_and_a_damaged_free_list_are_told() {
    let (device, engine) = filled();
    let newest = engine.shared().checkpointed.lock().slot;
    let mut block = vec![0; BLOCK_LEN];
    device.read_at(&mut block, newest.offset(), ReadMode::Direct).unwrap();
    device.write_at(&vec![0; BLOCK_LEN], newest.offset()).unwrap();
    let page = engine.shared().checkpointed.lock().pages[0].start;
    damage(&device, page);
    let mut scrub = engine.scrub(ScrubOptions::default(), clock(), ScrubPosition::default());
    let (_, sum) = pass(&mut scrub);
    let about: Vec<&str> = sum.findings.iter().map(|finding| finding.message.as_str()).collect();
    assert!(about.iter().any(|message| message.contains("newest superblock")), "{about:?}");
    assert!(about.iter().any(|message| message.contains(&format!("free list at block {page}"))), "{about:?}");
    device.write_at(&block, newest.offset()).unwrap();
    let (_, sum) = pass(&mut scrub);
    assert!(sum.findings.iter().all(|finding| !finding.message.contains("superblock")), "{:?}", sum.findings);
}

#[test]
fn it_keeps_to_its_rate_by_the_clock() {
    let (_, engine) = filled();
    let clock = clock();
    let options = ScrubOptions { rate_per_second: 1 << 20, step_len: 1 << 20 };
    let mut scrub = engine.scrub(options, clock.clone(), ScrubPosition::default());
    let began = clock.monotonic();
    let mut read = 0;
    loop {
        let step = scrub.step().unwrap();
        read += step.read_len;
        let wait = scrub.wait();
        assert_eq!(wait.as_nanos(), u128::from(step.read_len) * 1_000_000_000 / (1 << 20));
        clock.advance(wait);
        assert_eq!(scrub.wait(), Duration::ZERO);
        if step.done {
            break;
        }
    }
    let took = clock.monotonic() - began;
    assert_eq!(took.as_secs(), read >> 20);
    // A pause is not made up for.
    clock.advance(Duration::from_secs(3600));
    let step = scrub.step().unwrap();
    assert_eq!(scrub.wait().as_nanos(), u128::from(step.read_len) * 1_000_000_000 / (1 << 20));
    scrub.set_rate(0);
    clock.advance(Duration::from_secs(60));
    scrub.step().unwrap();
    assert_eq!(scrub.wait(), Duration::ZERO);
}

#[test]
fn a_saved_position_is_gone_on_from() {
    let (device, engine) = filled();
    let block = data_of(&engine, &device, 0xB2);
    damage(&device, block);
    let options = ScrubOptions { step_len: 100_000, ..ScrubOptions::default() };
    let mut saved = ScrubPosition::default().to_bytes();
    let mut findings = Vec::new();
    loop {
        // Every step by another scrub, as after restarts.
        let mut scrub = engine.scrub(options, clock(), ScrubPosition::from_bytes(&saved).unwrap());
        let step = scrub.step().unwrap();
        findings.extend(step.findings);
        saved = scrub.position().to_bytes();
        if step.done {
            break;
        }
    }
    assert_eq!(findings.len(), 1, "each thing is told once: {findings:?} (block {block})");
    assert!(ScrubPosition::from_bytes(&[1, 2, 3]).is_err());
}

#[test]
fn writers_go_on_and_their_changes_are_no_damage() {
    let (_, engine) = filled();
    let options = ScrubOptions { step_len: 50_000, ..ScrubOptions::default() };
    let mut scrub = engine.scrub(options, clock(), ScrubPosition::default());
    for round in 0..400u32 {
        put(&engine, &format!("small-{:05}", round * 7 % 2000), vec![round as u8; 2000]);
        if round % 10 == 0 {
            put_large(&engine, "large", 500_000, round as u8);
        }
        if round % 25 == 0 {
            engine.checkpoint().unwrap();
        }
        let step = scrub.step().unwrap();
        assert_eq!(step.findings, vec![], "round {round}");
        assert_eq!(engine.shared().pins.lock().oldest(), None, "a step leaves no view behind");
    }
}
