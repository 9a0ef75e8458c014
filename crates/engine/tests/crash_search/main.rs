//! Proof by search that commits survive power cuts, I/O errors and damaged bytes as promised.
//!
//! `KOINE_CRASH_SEED=N` runs one workload of the crash search; `KOINE_CRASH_SCALE=N` N times as many.

mod coverage;
mod dice;
mod faults;
mod flips;
mod model;
mod run;
mod salvage;
mod search;
mod store;
mod workload;

use std::collections::HashSet;
use std::sync::atomic::{AtomicU64, Ordering};

use koine_engine::device::BLOCK_LEN;
use parking_lot::Mutex;

use coverage::Coverage;
use search::{Effort, Failure, Found, search};
use store::Build;

const EFFORT: Effort = Effort { cuts: 14, parts: 3, again_percent: 40 };
const WORKLOADS: u64 = 220;
const IMAGES_MIN: usize = 10_000;

fn number_from_environment(name: &str) -> Option<u64> {
    std::env::var(name).ok().map(|value| value.parse().unwrap_or_else(|_| panic!("{name} must be a number")))
}

/// Searches these workloads on all cores; stops at the first failure.
fn search_all(seeds: std::ops::Range<u64>, build: Build) -> (usize, Coverage, Option<Failure>) {
    let next = AtomicU64::new(seeds.start);
    let all = Mutex::new((HashSet::new(), Coverage::default(), None));
    std::thread::scope(|scope| {
        for _ in 0..std::thread::available_parallelism().map_or(1, usize::from) {
            scope.spawn(|| {
                loop {
                    let seed = next.fetch_add(1, Ordering::Relaxed);
                    if seed >= seeds.end || all.lock().2.is_some() {
                        return;
                    }
                    let Found { images, coverage, failure } = search(seed, build, EFFORT);
                    let mut all = all.lock();
                    all.0.extend(images);
                    all.1.merge(&coverage);
                    all.2 = all.2.take().or(failure);
                }
            });
        }
    });
    let (images, coverage, failure) = all.into_inner();
    (images.len(), coverage, failure)
}

#[test]
fn every_image_of_a_power_cut_holds_an_acknowledged_state() {
    if let Some(seed) = number_from_environment("KOINE_CRASH_SEED") {
        let found = search(seed, Build::Right, EFFORT);
        println!("{}", found.coverage);
        assert!(found.failure.is_none(), "{}", found.failure.unwrap());
        return;
    }
    let scale = number_from_environment("KOINE_CRASH_SCALE").unwrap_or(1);
    let (images, coverage, failure) = search_all(0..WORKLOADS * scale, Build::Right);
    println!("{images} images, distinct by hash, of {} workloads\n{coverage}", WORKLOADS * scale);
    if let Some(failure) = failure {
        panic!("{failure}");
    }
    assert!(images >= IMAGES_MIN, "only {images} images");
    coverage.must_have(store::MUST_BE_REACHED);
}

#[test]
fn a_build_that_reuses_space_too_early_is_found_out() {
    let (images, _, failure) = search_all(0..WORKLOADS, Build::ReusesTooEarly);
    let failure = failure.expect("the search must notice that space is reused before it may be");
    println!("found out after {images} images: {failure}");
    assert!(failure.place.starts_with("cut "), "it must show in what a power cut leaves, not only to readers");
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
