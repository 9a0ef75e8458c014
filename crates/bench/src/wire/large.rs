//! Values of 1 MiB: puts against a store in memory and gets of what it holds, beside one thread's memcpy.
//!
//! The memcpy goes from 1 GiB of buffers to another 1 GiB of them, all distinct and all touched before, so that neither
//! side lives in the processor's cache; the store holds 1 GiB of values as well.

use super::contestant::{StoreSetup, Transport, WireOperation};
use super::drive::{WireLoad, WireSample, own_cpu};
use super::served::Served;
use super::{WireArguments, drive};
use crate::report::{Report, Row};
use crate::statistics::{Better, Judgement, median};
use crate::{Error, say};
use std::collections::BTreeMap;
use std::time::{Duration, Instant};

/// The length of a value and of a buffer.
const LEN: usize = 1 << 20;
/// So many of them are 1 GiB.
const COUNT: u64 = 1 << 10;
/// What of memcpy's rate is wanted.
const GOAL: f64 = 0.6;
/// Requests in flight.
const DEPTHS: [usize; 2] = [1, 32];

const SECTION: &str = "Values of 1 MiB over the socket, a store in memory (reference: memcpy by one thread)";

/// Copies from one set of buffers to another.
struct BufferCopier {
    from: Vec<Vec<u8>>,
    to: Vec<Vec<u8>>,
}

impl BufferCopier {
    fn new(count: u64) -> BufferCopier {
        let buffers = |first: u8| (0..count).map(|number| vec![first.wrapping_add(number as u8) | 1; LEN]).collect();
        BufferCopier { from: buffers(1), to: buffers(101) }
    }

    /// Copies for so long; a sample as if each buffer were a request.
    fn run(&mut self, seconds: f64) -> WireSample {
        let (cpu, start, limit) = (own_cpu(), Instant::now(), Duration::from_secs_f64(seconds));
        let mut latencies = Vec::new();
        while start.elapsed() < limit {
            for (from, to) in self.from.iter().zip(&mut self.to) {
                let begun = Instant::now();
                to.copy_from_slice(from);
                std::hint::black_box(&to);
                latencies.push(begun.elapsed().as_secs_f32() * 1e6);
            }
        }
        let seconds = start.elapsed().as_secs_f64();
        WireSample::of(latencies.len() as u64, seconds, latencies, own_cpu() - cpu, None)
    }
}

/// Measures and adds the rows.
pub fn measure(arguments: &WireArguments, report: &mut Report) -> Result<(), Error> {
    let cells: Vec<(WireOperation, usize)> = [WireOperation::Put, WireOperation::Get]
        .into_iter()
        .flat_map(|work| DEPTHS.map(|depth| (work, depth)))
        .filter(|(work, depth)| arguments.names(&name(*work, *depth)))
        .collect();
    if cells.is_empty() {
        return Ok(());
    }
    let served = Served::start(StoreSetup::ALL[0], &arguments.dir)?;
    let mut wire = served.connect(Transport::Unix).map_err(Error::Worker)?;
    // Twice, so that the server's memory for them has been touched.
    for _ in 0..2 {
        drive::fill(&mut wire, COUNT, LEN).map_err(Error::Worker)?;
    }
    let mut copier = BufferCopier::new(COUNT);
    copier.run(0.0);
    for (work, depth) in cells {
        say(&name(work, depth));
        let (mut ours, mut copies) = (Vec::new(), Vec::new());
        for round in 0..arguments.rounds() {
            copies.push(copier.run(arguments.seconds()));
            let (seconds, seed) = (arguments.seconds(), round as u64);
            let load = WireLoad { work, depth, keys: COUNT, value_len: LEN, seconds, seed };
            let sample = drive::drive(&mut wire, load);
            ours.push(sample.map_err(Error::Worker)?);
        }
        add_rows((work, depth), &ours, &copies, arguments.quick, report);
    }
    Ok(())
}

/// The names of all cells.
pub fn names() -> impl Iterator<Item = String> {
    [WireOperation::Put, WireOperation::Get].into_iter().flat_map(|work| DEPTHS.map(|depth| name(work, depth)))
}

fn name(work: WireOperation, depth: usize) -> String {
    format!("{} 1 MiB x{depth}, memory", work.name())
}

fn add_rows(
    (work, depth): (WireOperation, usize),
    ours: &[WireSample],
    copies: &[WireSample],
    is_quick: bool,
    report: &mut Report,
) {
    let gib = |sample: &WireSample| Some(sample.rate() * LEN as f64 / f64::from(1 << 30));
    let of = |samples: &[WireSample], figure: &dyn Fn(&WireSample) -> Option<f64>| -> Vec<Option<f64>> {
        samples.iter().map(figure).collect()
    };
    let case = name(work, depth);
    let mut add = |unit: &str, better, goal, judgement| {
        report.rows.push(Row::new(case.clone(), unit, better, goal, judgement).in_section(SECTION));
    };
    let references = BTreeMap::from([("memcpy".to_owned(), of(copies, &gib))]);
    add("GiB/s", Better::Higher, GOAL, Judgement::of(&of(ours, &gib), &references, Better::Higher));
    if is_quick {
        return;
    }
    for (unit, figure) in REST {
        let mut judgement = Judgement::of(&of(ours, &figure), &BTreeMap::new(), Better::Lower);
        let copied: Vec<f64> = copies.iter().filter_map(figure).collect();
        judgement.references.insert("memcpy".into(), median(&copied));
        add(unit, Better::Lower, 1.0, judgement);
    }
}

type Figure = fn(&WireSample) -> Option<f64>;
/// What is told beside the rate.
const REST: [(&str, Figure); 3] = [
    ("us p50", |sample| sample.percentile(50.0)),
    ("us p99", |sample| sample.percentile(99.0)),
    ("us CPU", WireSample::cpu_us),
];

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_reference_copies_every_buffer() {
        let mut copier = BufferCopier::new(3);
        let sample = copier.run(0.001);
        assert!(sample.rate() > 0.0 && copier.from == copier.to);
    }
}
