//! `koine bench wire`: keys and values through the wire, beside the same store called directly and beside Redis.
//!
//! Every server is a process of its own, on this machine; one thread of this process asks all of them in turn, in one call,
//! and keeps as many requests in flight as the case says. Durability is the same on both sides of a comparison.

mod contestant;
mod contestants;
mod direct;
mod drive;
mod large;
mod redis;
mod serve;
mod served;
mod shared;

use crate::report::{Latency, Report};
use crate::side_by_side::{self, Comparison};
use crate::statistics::{Better, Judgement, median};
use crate::{Error, machine, say};
use contestant::{Durability, StoreSetup, Transport, WireOperation};
use drive::{WireLoad, WireSample, drive};
use std::collections::BTreeMap;
use std::path::PathBuf;

pub use serve::ServerArguments;
pub(crate) use serve::serve;

/// The length of a small value.
const VALUE_LEN: usize = 4 << 10;
/// Keys of a store of small values.
const KEYS: u64 = 10_000;

/// What is measured.
#[derive(Debug, Clone, Copy, PartialEq, Eq, clap::ValueEnum)]
pub enum WireGroup {
    /// Values of 4 KiB over the socket and TCP, beside Redis and the store called directly
    Small,
    /// Values of 1 MiB over the socket, beside one thread's memcpy
    Large,
    /// Values of 4 to 256 KiB over the socket, through shared memory and not; only when it is named
    Shared,
}

/// What is measured and how long.
///
/// Redis is measured where `redis-server` is on PATH. Stores are made below --dir and removed afterwards.
#[derive(Debug, Clone, clap::Args)]
pub struct WireArguments {
    /// What is measured; without one, everything
    #[arg(value_name = "GROUP")]
    pub groups: Vec<WireGroup>,
    /// At most 24 rows of a second in one round, within 50 seconds; no claim can be made from it
    #[arg(long)]
    pub quick: bool,
    /// Measure this other build of the same program as the only reference: both run the benchmark in turn, round by round
    #[arg(long, value_name = "PROGRAM")]
    pub reference_program: Option<PathBuf>,
    /// Write a report in Markdown with plots, and the JSON document, into this folder
    #[arg(long, value_name = "DIR")]
    pub report: Option<PathBuf>,
    /// Folder below which stores are made; it must be on a real disk
    #[arg(long, value_name = "DIR", default_value = "/var/tmp")]
    pub dir: PathBuf,
    /// Requests in flight
    #[arg(long = "in-flight", value_name = "N", value_delimiter = ',', default_values = ["1", "32", "128"])]
    pub depths: Vec<usize>,
    /// Seconds for each cell of each contestant in each round
    #[arg(long, value_name = "SECONDS", default_value_t = 0.5)]
    pub duration: f64,
    /// Rounds; the median of their ratios counts (--quick: 1)
    #[arg(long, value_name = "N", default_value_t = 7)]
    pub rounds: usize,
    /// Only cells whose name contains this text, such as "get 4 KiB x32, memory"
    #[arg(long, value_name = "TEXT")]
    pub only: Option<String>,
}

impl Default for WireArguments {
    fn default() -> WireArguments {
        WireArguments {
            groups: Vec::new(),
            quick: false,
            reference_program: None,
            report: None,
            dir: PathBuf::from("/var/tmp"),
            depths: vec![1, 32, 128],
            duration: 0.5,
            rounds: 7,
            only: None,
        }
    }
}

impl WireArguments {
    fn check(&self) -> Result<(), Error> {
        let wrong = |text: &str| Err(Error::Argument(text.into()));
        if !self.depths.iter().all(|depth| (1..=512).contains(depth)) {
            return wrong("--in-flight takes numbers from 1 to 512");
        }
        if !(0.01..=3600.0).contains(&self.duration) {
            return wrong("--duration takes 0.01 to 3600 seconds");
        }
        if !(1..=1000).contains(&self.rounds) {
            return wrong("--rounds takes numbers from 1 to 1000");
        }
        if machine::is_volatile(&self.dir) {
            let dir = self.dir.display();
            return wrong(&format!("{dir} is in memory, where a sync is free; name a folder on a disk with --dir"));
        }
        Ok(())
    }

    fn wants(&self, group: WireGroup) -> bool {
        self.groups.is_empty() || self.groups.contains(&group)
    }

    fn names(&self, cell: &str) -> bool {
        self.only.as_ref().is_none_or(|text| cell.contains(text.as_str()))
    }

    fn rounds(&self) -> usize {
        if self.quick { 1 } else { self.rounds }
    }

    /// Seconds of a sample.
    fn seconds(&self) -> f64 {
        if self.quick { self.duration.min(0.1) } else { self.duration }
    }

    /// A quick run has room for fewer rows.
    fn depths(&self) -> Vec<usize> {
        if self.quick {
            self.depths.iter().copied().filter(|depth| *depth != 128).collect()
        } else {
            self.depths.clone()
        }
    }
}

/// Runs the benchmark as its arguments say.
pub fn run(arguments: &WireArguments) -> Result<Report, Error> {
    arguments.check()?;
    if let Some(program) = &arguments.reference_program {
        let comparison = Comparison {
            benchmark: "wire",
            program,
            rounds: arguments.rounds(),
            options: &[],
            stretches: stretches(arguments),
        };
        return side_by_side::run(&comparison);
    }
    let mut report = Report::new("wire");
    report.plots_figures = true;
    if arguments.wants(WireGroup::Large) {
        large::measure(arguments, &mut report)?;
    }
    if arguments.wants(WireGroup::Small) {
        for store in StoreSetup::ALL {
            measure(arguments, store, &mut report)?;
        }
    }
    if arguments.groups.contains(&WireGroup::Shared) {
        shared::measure(arguments, &mut report)?;
    }
    if report.rows.is_empty() {
        return Err(Error::Argument("no cell is left to measure; see --only, --in-flight and the groups".into()));
    }
    report.machine = machine::describe(&arguments.dir);
    Ok(report)
}

/// What is done to a store, and how many at once.
#[derive(Debug, Clone, Copy)]
struct WireCell {
    store: StoreSetup,
    work: WireOperation,
    depth: usize,
}

impl WireCell {
    fn name(self) -> String {
        format!("{} 4 KiB x{}, {}", self.work.name(), self.depth, self.store.name())
    }
}

/// What two programs do in turn: a cell each.
fn stretches(arguments: &WireArguments) -> Vec<Vec<String>> {
    if arguments.quick {
        return Vec::new();
    }
    let small = StoreSetup::ALL.into_iter().flat_map(|store| cells(arguments, store)).map(WireCell::name);
    let mut names: Vec<String> = if arguments.wants(WireGroup::Large) { large::names().collect() } else { Vec::new() };
    names.extend(small.filter(|_| arguments.wants(WireGroup::Small)));
    names.extend(shared::names().filter(|_| arguments.groups.contains(&WireGroup::Shared)));
    names.retain(|name| arguments.names(name));
    side_by_side::each_cell(names)
}

/// The cells of one store that were asked for.
fn cells(arguments: &WireArguments, store: StoreSetup) -> Vec<WireCell> {
    [WireOperation::Put, WireOperation::Get]
        .into_iter()
        // What a durability costs is seen in puts alone.
        .filter(|work| *work == WireOperation::Put || store.durability != Durability::Sync)
        .flat_map(|work| arguments.depths().into_iter().map(move |depth| WireCell { store, work, depth }))
        .filter(|cell| arguments.names(&cell.name()))
        .collect()
}

/// One store, all its cells.
fn measure(arguments: &WireArguments, store: StoreSetup, report: &mut Report) -> Result<(), Error> {
    let cells = cells(arguments, store);
    if cells.is_empty() {
        return Ok(());
    }
    let mut contestants = contestants::start(store, &arguments.dir)?;
    for one in &mut contestants {
        drive::fill(one.as_mut(), KEYS, VALUE_LEN).map_err(Error::Worker)?;
    }
    for cell in cells {
        say(&cell.name());
        let mut samples: BTreeMap<Transport, Vec<WireSample>> = BTreeMap::new();
        for round in 0..arguments.rounds() {
            let count = contestants.len();
            for turn in 0..count {
                // Who goes first changes from round to round.
                let Some(one) = contestants.get_mut((turn + round) % count) else { continue };
                let (work, depth, seed) = (cell.work, cell.depth, (round * 1000 + cell.depth) as u64);
                let seconds = arguments.seconds();
                let load = WireLoad { work, depth, keys: KEYS, value_len: VALUE_LEN, seconds, seed };
                let sample = drive(one.as_mut(), load);
                samples.entry(one.way()).or_default().push(sample.map_err(Error::Worker)?);
            }
        }
        for one in &mut contestants {
            one.tidy().map_err(Error::Worker)?;
        }
        // A quick run has room for one figure of each.
        add_rows(cell, &samples, if arguments.quick { 1 } else { FIGURES.len() }, report);
    }
    Ok(())
}

type Figure = fn(&WireSample) -> Option<f64>;
/// What is told of each cell: its unit, which way is good, and how it is had.
const FIGURES: [(&str, Better, Figure); 4] = [
    ("ops/s", Better::Higher, |sample| Some(sample.rate())),
    ("us p50", Better::Lower, |sample| sample.percentile(50.0)),
    ("us p99", Better::Lower, |sample| sample.percentile(99.0)),
    ("us CPU", Better::Lower, WireSample::cpu_us),
];

/// The rows of a cell: each way of ours beside Redis by the same way, the direct call beside them.
fn add_rows(cell: WireCell, samples: &BTreeMap<Transport, Vec<WireSample>>, figures: usize, report: &mut Report) {
    let of = |way: Transport, figure: Figure| -> Vec<Option<f64>> {
        samples.get(&way).map(|samples| samples.iter().map(figure).collect()).unwrap_or_default()
    };
    for (ours, redis, road, heading) in [
        (Transport::Unix, Transport::RedisUnix, "socket", "over the socket"),
        (Transport::Tcp, Transport::RedisTcp, "TCP", "over TCP on loopback"),
    ] {
        let section = format!("{}, {heading}", cell.store.section());
        for (unit, better, figure) in FIGURES.into_iter().take(figures) {
            let redis = BTreeMap::from([("redis".to_owned(), of(redis, figure))]);
            let mut judgement = Judgement::of(&of(ours, figure), &redis, better);
            let direct: Vec<f64> = of(Transport::Direct, figure).into_iter().flatten().collect();
            judgement.references.insert("direct".into(), median(&direct));
            let case = format!("{}, {road}", cell.name());
            report.rows.push(crate::report::Row::new(case, unit, better, 1.0, judgement).in_section(section.clone()));
        }
    }
    for (way, samples) in samples {
        let middle = |figure: Figure| median(&samples.iter().filter_map(figure).collect::<Vec<_>>());
        report.latencies.push(Latency {
            case: cell.name(),
            server: way.name().into(),
            p50_ms: middle(|sample| sample.percentile(50.0)).map(|us| us / 1e3),
            p99_ms: middle(|sample| sample.percentile(99.0)).map(|us| us / 1e3),
            client_us: middle(WireSample::client_us),
        });
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[derive(clap::Parser)]
    struct Program {
        #[command(flatten)]
        arguments: WireArguments,
    }

    #[test]
    fn the_command_line_and_the_defaults_agree() {
        let parsed = <Program as clap::Parser>::try_parse_from(["bench"]).unwrap().arguments;
        assert_eq!(format!("{parsed:?}"), format!("{:?}", WireArguments::default()));
    }

    #[test]
    fn senseless_arguments_are_refused_with_what_to_do() {
        let base = WireArguments::default();
        for (arguments, word) in [
            (WireArguments { depths: vec![0], ..base.clone() }, "--in-flight"),
            (WireArguments { duration: f64::NAN, ..base.clone() }, "--duration"),
            (WireArguments { rounds: 0, ..base.clone() }, "--rounds"),
        ] {
            let message = arguments.check().unwrap_err().to_string();
            assert!(message.contains(word), "{message}");
        }
    }

    #[test]
    fn two_programs_take_turns_at_each_cell() {
        let arguments = WireArguments { only: Some("x32, memory".into()), ..WireArguments::default() };
        let names: Vec<String> = stretches(&arguments).into_iter().map(|stretch| stretch[1].clone()).collect();
        let small = ["put 4 KiB x32, memory", "get 4 KiB x32, memory"];
        assert_eq!(
            names,
            ["put 1 MiB x32, memory", "get 1 MiB x32, memory"].into_iter().chain(small).collect::<Vec<_>>()
        );
        assert!(stretches(&WireArguments { quick: true, ..arguments }).is_empty());
    }

    #[test]
    fn each_way_is_judged_against_redis_by_the_same_way() {
        let sample = |ops: u64| WireSample::of(ops, 1.0, vec![1.0; 4], 0.5, Some(0.5));
        let samples = BTreeMap::from([
            (Transport::Unix, vec![sample(300)]),
            (Transport::Tcp, vec![sample(100)]),
            (Transport::Direct, vec![sample(9000)]),
            (Transport::RedisUnix, vec![sample(150)]),
            (Transport::RedisTcp, vec![sample(200)]),
        ]);
        let mut report = Report::new("wire");
        add_rows(
            WireCell { store: StoreSetup::ALL[0], work: WireOperation::Get, depth: 32 },
            &samples,
            FIGURES.len(),
            &mut report,
        );
        let rates: Vec<_> = report.rows.iter().filter(|row| row.unit == "ops/s").collect();
        assert_eq!(rates.iter().map(|row| row.ratio).collect::<Vec<_>>(), [Some(2.0), Some(0.5)]);
        assert_eq!(rates[0].references["direct"], Some(9000.0));
        assert_eq!((report.rows.len(), report.latencies.len()), (8, 5));
    }
}
