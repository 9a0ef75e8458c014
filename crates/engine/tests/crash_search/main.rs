//! Proof by search that commits survive power cuts, I/O errors and damaged bytes as promised.
//!
//! `KOINE_CRASH_SEED=N` runs one workload of the crash search, `KOINE_CRASH_SEQUENCE=Growing,Small,Delete` one
//! sequence of operations: a failure tells which. `KOINE_CRASH_SCALE=N` searches N times as many workloads.

mod coverage;
mod dice;
mod faults;
mod flips;
mod media;
mod model;
mod reuse;
mod run;
mod salvage;
mod search;
mod sequences;
mod store;
mod workload;

use std::collections::HashSet;
use std::sync::atomic::{AtomicU64, Ordering};

use koine_engine::device::BLOCK_LEN;
use parking_lot::Mutex;

use coverage::Coverage;
use search::{Effort, Failure, Found, search};
use sequences::{Base, Sequence};
use store::Build;

const EFFORT: Effort = Effort { cuts: 14, parts: 3, again_percent: 40 };
const WORKLOADS: u64 = 220;
const IMAGES_MIN: u64 = 10_000;
const SEQUENCE_IMAGES_MIN: u64 = 20_000;
const SEQUENCE_IMAGES_MIN_FULL: u64 = 40_000;

fn number_from_environment(name: &str) -> Option<u64> {
    std::env::var(name).ok().map(|value| value.parse().unwrap_or_else(|_| panic!("{name} must be a number")))
}

/// What a search over many lives gave.
struct All {
    /// Distinct by content.
    images: usize,
    coverage: Coverage,
    failure: Option<Failure>,
}

/// Searches `count` lives on all cores; stops at the first failure.
fn search_all(count: u64, one: impl Fn(u64) -> Found + Sync) -> All {
    let next = AtomicU64::new(0);
    let all = Mutex::new((HashSet::new(), Coverage::default(), None));
    std::thread::scope(|scope| {
        for _ in 0..std::thread::available_parallelism().map_or(1, usize::from) {
            scope.spawn(|| {
                loop {
                    let number = next.fetch_add(1, Ordering::Relaxed);
                    if number >= count || all.lock().2.is_some() {
                        return;
                    }
                    let Found { images, coverage, failure } = one(number);
                    let mut all = all.lock();
                    all.0.extend(images);
                    all.1.merge(&coverage);
                    all.2 = all.2.take().or(failure);
                }
            });
        }
    });
    let (images, coverage, failure) = all.into_inner();
    All { images: images.len(), coverage, failure }
}

fn must_hold(found: Option<Failure>) {
    if let Some(failure) = found {
        panic!("{failure}");
    }
}

fn scale() -> u64 {
    number_from_environment("KOINE_CRASH_SCALE").unwrap_or(1)
}

/// Whether only one life is asked for, of either kind.
fn is_replay() -> bool {
    ["KOINE_CRASH_SEED", "KOINE_CRASH_SEQUENCE"].iter().any(|name| std::env::var_os(name).is_some())
}

#[test]
fn every_image_of_a_power_cut_holds_an_acknowledged_state() {
    if let Some(seed) = number_from_environment("KOINE_CRASH_SEED") {
        let found = search(seed, Build::Right, EFFORT);
        println!("{}", found.coverage);
        return must_hold(found.failure);
    }
    if is_replay() {
        return;
    }
    let workloads = WORKLOADS * scale();
    let All { images, coverage, failure } = search_all(workloads, |seed| search(seed, Build::Right, EFFORT));
    println!("{images} images, distinct by content, of {workloads} workloads\n{coverage}");
    must_hold(failure);
    assert!(images as u64 >= IMAGES_MIN * scale(), "only {images} images");
    coverage.must_have(store::MUST_BE_REACHED);
}

#[test]
fn every_sequence_of_three_operations_survives_power_cuts() {
    let bases = sequences::Bases::make().unwrap_or_else(|stop| panic!("{stop}"));
    if let Ok(text) = std::env::var("KOINE_CRASH_SEQUENCE") {
        let sequence = Sequence::parse(&text).unwrap_or_else(|| panic!("{text} is no sequence"));
        let found = sequences::search(&bases, &sequence, sequences::EFFORT);
        println!("{}", found.coverage);
        return must_hold(found.failure);
    }
    if is_replay() {
        return;
    }
    let mut all = Sequence::all(Base::Growing, 3);
    all.extend(Sequence::all(Base::Crowded, 3));
    let effort = if scale() > 1 { sequences::EFFORT_FULL } else { sequences::EFFORT };
    let All { images, coverage, failure } = search_all(all.len() as u64, |number| {
        let sequence = all.get(number as usize).expect("one of them");
        sequences::search(&bases, sequence, effort)
    });
    println!("{images} images, distinct by content, of {} sequences\n{coverage}", all.len());
    must_hold(failure);
    assert!(
        images as u64 >= if scale() > 1 { SEQUENCE_IMAGES_MIN_FULL } else { SEQUENCE_IMAGES_MIN },
        "only {images} images"
    );
    coverage.must_have(sequences::MUST_BE_REACHED);
}

#[test]
fn a_build_that_reuses_space_too_early_is_found_out() {
    if is_replay() {
        return;
    }
    let All { images, failure, .. } = search_all(WORKLOADS, |seed| search(seed, Build::ReusesTooEarly, EFFORT));
    let failure = failure.expect("the search must notice that space is reused before it may be");
    println!("found out after {images} images: {failure}");
    assert!(failure.place.starts_with("cut "), "it must show in what a power cut leaves, not only to readers");
}

#[test]
fn freed_space_waits_until_a_durable_group_says_that_its_commit_is_durable() {
    if is_replay() {
        return;
    }
    let found = reuse::search(Build::Right);
    println!("{}", found.coverage);
    must_hold(found.failure);
    found.coverage.must_have(&["stages until the store was full", "block reused", "checkpoint", "images"]);
    reuse::must_lose_commits(&reuse::search(Build::ReusesTooEarly)).unwrap_or_else(|stop| panic!("{stop}"));
}

#[test]
fn an_io_error_at_any_call_gives_right_answers_or_a_clean_stop() {
    let mut coverage = Coverage::default();
    for seed in [3, 8, 21] {
        let calls = faults::calls(seed).unwrap_or_else(|stop| panic!("workload {seed}: {stop}"));
        println!("workload {seed}: {calls:?}");
        for fault in faults::every_fault(calls) {
            if let Err(stop) = faults::with_fault(seed, fault, &mut coverage) {
                panic!("workload {seed} with {fault:?}: {stop}");
            }
        }
    }
    println!("{coverage}");
    coverage.must_have(&["a fault that was told", "a fault while opening", "refused after a failure"]);
}

#[test]
fn damage_in_any_block_is_detected_or_harmless() {
    let mut coverage = Coverage::default();
    for seed in [1, 2] {
        let (image, content) = flips::store_after(seed).unwrap_or_else(|stop| panic!("workload {seed}: {stop}"));
        assert_eq!(image.len(), 1 << 20);
        for block in 0..image.len() / BLOCK_LEN {
            for damage in flips::DAMAGES {
                if let Err(stop) = flips::damaged(&image, &content, block, damage, &mut coverage) {
                    panic!("workload {seed}, block {block}, {damage:?}: {stop}");
                }
            }
        }
    }
    println!("{coverage}");
    coverage.must_have(&["found by reading", "harmless"]);
}

#[test]
fn a_flip_in_any_block_of_a_full_store_is_detected_or_harmless() {
    if is_replay() {
        return;
    }
    let length = if scale() > 1 { 64 << 20 } else { 4 << 20 };
    let (image, content) = flips::full_store(length).unwrap_or_else(|stop| panic!("{stop}"));
    let blocks = (image.len() / BLOCK_LEN) as u64;
    let All { coverage, failure, .. } = search_all(blocks, |block| {
        let mut found = Found::default();
        let dice = dice::Dice::new(block);
        let mut bytes = vec![0; BLOCK_LEN];
        image.read(block as usize * BLOCK_LEN, &mut bytes);
        bytes[dice.below(BLOCK_LEN)] ^= 1 << dice.below(8);
        // The check reads everything once more: in a long store it looks at one flip of eight.
        let checks = scale() == 1 || block % 8 == 0;
        let verdict = flips::replaced(&image, &content, block as usize, &bytes, checks, &mut found.coverage);
        let again = "RUST_BACKTRACE=1".to_owned();
        found.failure =
            verdict.err().map(|stop| Failure { again, place: format!("block {block}"), message: stop.to_string() });
        found
    });
    println!("{coverage}");
    must_hold(failure);
    coverage.must_have(&["found by reading", "harmless", "refused to open"]);
    assert!(coverage.of("found by reading") > blocks / 2, "most of the store must hold something");
}

#[test]
fn a_block_of_another_store_or_of_before_is_detected_or_harmless() {
    let mut coverage = Coverage::default();
    for (seed, other) in [(1, 2), (2, 5), (5, 1)] {
        let (image, content) = flips::store_after(seed).unwrap_or_else(|stop| panic!("workload {seed}: {stop}"));
        let (foreign, _) = flips::store_after(other).unwrap_or_else(|stop| panic!("workload {other}: {stop}"));
        let empty = flips::empty_store(other).unwrap_or_else(|stop| panic!("{stop}"));
        let before = flips::store_before(seed).unwrap_or_else(|stop| panic!("workload {seed}: {stop}"));
        for (what, source) in [("foreign", foreign), ("of an empty store", empty), ("of before", before)] {
            for block in 0..image.len() / BLOCK_LEN {
                let mut bytes = vec![0; BLOCK_LEN];
                source.read(block * BLOCK_LEN, &mut bytes);
                if let Err(stop) = flips::replaced(&image, &content, block, &bytes, true, &mut coverage) {
                    panic!("workload {seed}, block {block} is {what}: {stop}");
                }
            }
        }
    }
    println!("{coverage}");
    coverage.must_have(&["found by reading", "harmless", "refused to open"]);
}

#[test]
fn a_lost_or_misdirected_write_is_detected_or_harmless() {
    let mut coverage = Coverage::default();
    for (seed, actions) in [(1, 0), (3, 3), (4, 12), (8, 40), (21, 70)] {
        media::every_write_goes_astray(seed, actions, &mut coverage).unwrap_or_else(|stop| panic!("{stop}"));
    }
    println!("{coverage}");
    coverage.must_have(&["noticed while running", "found by reading", "harmless", "refused to open"]);
}

#[test]
fn a_write_over_the_second_superblock_and_its_neighbours_takes_no_commit_silently() {
    let mut coverage = Coverage::default();
    media::every_write_near_the_second_superblock(&mut coverage).unwrap_or_else(|stop| panic!("{stop}"));
    println!("{coverage}");
    coverage.must_have(&["refused to open"]);
}

#[test]
fn a_stale_read_is_detected_or_harmless() {
    let mut coverage = Coverage::default();
    for seed in [2, 8, 21] {
        media::every_block_is_stale(seed, &mut coverage).unwrap_or_else(|stop| panic!("{stop}"));
    }
    println!("{coverage}");
    coverage.must_have(&["found by reading", "harmless"]);
}

#[test]
fn a_device_that_was_cut_short_is_refused() {
    media::every_shorter_device_is_refused(4).unwrap_or_else(|stop| panic!("{stop}"));
}

#[test]
fn an_old_superblock_is_noticed_or_harmless() {
    let mut coverage = Coverage::default();
    for seed in [1, 4] {
        media::old_superblocks_are_noticed(seed, &mut coverage).unwrap_or_else(|stop| panic!("{stop}"));
    }
    println!("{coverage}");
    coverage.must_have(&["harmless", "refused to open"]);
}

/// Images of several lives and ends.
fn images() -> Vec<salvage::Image> {
    let ends = [salvage::End::Cut, salvage::End::Closed];
    let made = (0..3).flat_map(|seed| ends.map(|end| (seed, end)));
    made.map(|(seed, end)| salvage::Image::make(seed + 40, end).unwrap_or_else(|stop| panic!("{seed}: {stop}")))
        .collect()
}

#[test]
fn salvage_gives_out_all_of_a_sound_store() {
    for image in images() {
        let (report, kept) = salvage::run(image.bytes.clone()).unwrap();
        salvage::compare(&image, &report, &kept).unwrap();
        let (content, version) = salvage::newest(&image);
        assert!(report.version.0 >= version && salvage::nothing_lost(&report), "{report:?}");
        assert_eq!(report.complaints, Vec::<String>::new());
        let (_, refilled) = salvage::refill(image.bytes.clone(), false).unwrap();
        assert_eq!(unversioned(content).difference(&refilled), None);
    }
}

#[test]
fn salvage_makes_a_store_from_its_log_where_nothing_else_was_ever_written() {
    for seed in 0..3 {
        let image = salvage::Image::make_young(seed).unwrap_or_else(|stop| panic!("{seed}: {stop}"));
        let report = salvage::look(&image, &salvage::SUPERBLOCKS, flips::Damage::Zeros).unwrap();
        assert_eq!(report.origin, koine_engine::Origin::LogAlone);
        assert!(salvage::nothing_lost(&report) && report.version.0 >= salvage::newest(&image).1, "{report:?}");
        for block in 0..image.bytes.len() / BLOCK_LEN {
            // Without its first groups a log says nothing of what it is built on.
            let [first, second] = salvage::SUPERBLOCKS;
            let bytes = image.damaged(&[first, second, block], flips::Damage::OneBit);
            if let Ok((report, kept)) = salvage::run(bytes) {
                salvage::compare(&image, &report, &kept).unwrap_or_else(|wrong| panic!("{block}: {wrong}"));
            }
        }
    }
}

#[test]
fn salvage_of_a_medium_that_was_formatted_again_gives_out_the_store_made_last() {
    for (checkpointed, origin) in [(true, koine_engine::Origin::RootFound), (false, koine_engine::Origin::LogAlone)] {
        let (bytes, store) = salvage::Image::make_anew(checkpointed).unwrap();
        let (report, _) = salvage::run(bytes).unwrap();
        assert_eq!((report.store_id, report.origin, report.keys_whole), (store, origin, 20), "{report:?}");
        assert!(salvage::nothing_lost(&report) || checkpointed, "{report:?}");
    }
}

fn unversioned(content: &model::Content) -> model::Content {
    let mut content = content.clone();
    content.0.values_mut().flat_map(|space| space.values_mut()).for_each(|value| value.version = None);
    content
}

#[test]
fn salvage_is_right_and_complete_whatever_block_is_damaged() {
    let images = images();
    let lost = AtomicU64::new(0);
    for damage in flips::DAMAGES {
        for image in &images {
            (0..image.bytes.len() / BLOCK_LEN).for_each(|block| {
                let report = salvage::look(image, &[block], damage).unwrap_or_else(|wrong| panic!("{wrong}"));
                if salvage::SUPERBLOCKS.contains(&block) {
                    assert!(salvage::nothing_lost(&report), "superblock {block}: {report:?}");
                    assert!(report.version.0 >= salvage::newest(image).1, "superblock {block}: {report:?}");
                }
                lost.fetch_add(u64::from(!report.is_whole()), Ordering::Relaxed);
            });
        }
    }
    assert!(lost.into_inner() > 50, "hardly any block was needed by anything");
}

#[test]
fn salvage_finds_the_trees_without_a_superblock_and_with_more_damage() {
    let [first, second] = salvage::SUPERBLOCKS;
    for image in images() {
        let report = salvage::look(&image, &[first, second], flips::Damage::Zeros).unwrap();
        assert!(salvage::nothing_lost(&report), "{report:?}");
        assert!(report.version.0 >= salvage::newest(&image).1, "the log leads on from the root: {report:?}");
        for block in 0..image.bytes.len() / BLOCK_LEN {
            salvage::look(&image, &[first, second, block], flips::Damage::Noise).unwrap_or_else(|w| panic!("{w}"));
        }
        let dice = dice::Dice::new(99);
        for _ in 0..200 {
            let blocks: Vec<usize> =
                (0..dice.between(2, 40)).map(|_| dice.below(image.bytes.len() / BLOCK_LEN)).collect();
            // So much may be gone that nothing is left to begin with; what is given out is right.
            let bytes = image.damaged(&blocks, flips::Damage::OneBit);
            if let Ok((report, kept)) = salvage::run(bytes) {
                salvage::compare(&image, &report, &kept).unwrap_or_else(|wrong| panic!("{blocks:?}: {wrong}"));
            }
        }
    }
}
