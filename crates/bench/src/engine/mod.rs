//! `koine bench engine`: our engine beside embedded stores, file systems and fio, in turn, on one disk.
//!
//! Every store runs in a process of its own: this program again, as a worker. In each round every contestant does the
//! same stretch of work before the next stretch begins, while the others are stopped.

mod hints;
mod kv;
mod large;
mod metadata;
mod open;
mod place;
mod small;

use crate::budget::Budget;
use crate::report::Report;
use crate::s3::parse_size;
use crate::side_by_side::{self, Comparison};
use crate::stores::kinds::StoreKind;
use crate::stores::{data, worker};
use crate::{Error, machine};
use std::path::PathBuf;

/// No store works with less.
const MEMORY_LEN_MIN: u64 = 32 << 20;

/// A part of the benchmark.
#[derive(Debug, Clone, Copy, PartialEq, Eq, clap::ValueEnum)]
pub enum EngineGroup {
    /// Keys and values, beside LMDB, redb, fjall and RocksDB
    Kv,
    /// Blocks of objects written and read, beside ext4, XFS and btrfs on loop devices (as root) and fio
    Small,
    /// Objects created, opened, asked for their status and deleted, beside the same file systems
    Metadata,
    /// One large value written and read, beside fio
    Large,
    /// Opening a store clean and after a kill; the evenness of a long load
    Open,
    /// The same work with a hint and without it
    Hints,
}

/// What is measured and how long.
///
/// The full run takes hours; --only, --value-size and the names of groups choose parts of it. Stores and file systems
/// are made below --dir and removed afterwards. Ours is reached as the environment variable KOINE_BENCH_IO says: direct
/// (the default), buffered or uring.
#[derive(Debug, Clone, clap::Args)]
pub struct EngineArguments {
    /// What is measured; without one, everything
    #[arg(value_name = "GROUP")]
    pub groups: Vec<EngineGroup>,
    /// At most 24 rows of one second in one round, within 50 seconds; no claim can be made from it
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
    /// Only these stores beside ours
    #[arg(long = "reference", value_name = "STORE", value_delimiter = ',')]
    pub references: Vec<StoreKind>,
    /// Lengths of values
    #[arg(long = "value-size", value_name = "SIZE", value_delimiter = ',', value_parser = parse_size,
          default_values = ["100", "400", "1KiB"])]
    pub value_lens: Vec<u64>,
    /// Items in each store, in place of those that fit the memory or are four times as large
    #[arg(long, value_name = "N")]
    pub items: Option<u64>,
    /// Memory of each store where data is to be larger than it (a memory control group)
    #[arg(long, value_name = "SIZE", value_parser = parse_size, default_value = "128MiB")]
    pub memory: u64,
    /// Numbers of objects whose metadata is measured; from two million on in one round, with 8 threads
    #[arg(long = "objects", value_name = "N", value_delimiter = ',', default_values = ["500000", "10000000"])]
    pub objects: Vec<u64>,
    /// Small access also in stores of ours with these block sizes, beside the default of 4KiB; such as 64KiB,1MiB
    #[arg(long = "store-block-size", value_name = "SIZE", value_delimiter = ',', value_parser = parse_size)]
    pub store_block_lens: Vec<u64>,
    /// Size of the large value
    #[arg(long = "large-size", value_name = "SIZE", value_parser = parse_size, default_value = "4GiB")]
    pub large: u64,
    /// Size of the store that is opened
    #[arg(long = "open-size", value_name = "SIZE", value_parser = parse_size, default_value = "10GiB")]
    pub open: u64,
    /// Length of the load whose worst second is looked for
    #[arg(long, value_name = "SECONDS", default_value_t = 600)]
    pub stall_seconds: u64,
    /// Seconds for each cell of each contestant in each round
    #[arg(long, value_name = "SECONDS", default_value_t = 1.0)]
    pub duration: f64,
    /// Rounds; the median of their ratios counts (--quick: 1)
    #[arg(long, value_name = "N", default_value_t = 7)]
    pub rounds: usize,
    /// Only cells whose name contains this text, such as "400 B: point read"
    #[arg(long, value_name = "TEXT")]
    pub only: Option<String>,
}

impl Default for EngineArguments {
    fn default() -> EngineArguments {
        EngineArguments {
            groups: Vec::new(),
            quick: false,
            reference_program: None,
            report: None,
            dir: PathBuf::from("/var/tmp"),
            references: Vec::new(),
            value_lens: vec![100, 400, 1024],
            items: None,
            memory: 128 << 20,
            objects: vec![500_000, 10_000_000],
            store_block_lens: Vec::new(),
            large: 4 << 30,
            open: 10 << 30,
            stall_seconds: 600,
            duration: 1.0,
            rounds: 7,
            only: None,
        }
    }
}

impl EngineArguments {
    fn check(&self) -> Result<(), Error> {
        let wrong = |text: &str| Err(Error::Argument(text.into()));
        if self.reference_program.is_some() && !self.references.is_empty() {
            return wrong("--reference and --reference-program exclude each other");
        }
        if self.value_lens.iter().any(|length| !(data::VALUE_LEN_MIN as u64..=64 << 10).contains(length)) {
            return wrong("--value-size takes lengths from 32 to 64KiB");
        }
        if self.references.contains(&StoreKind::Redis) {
            return wrong("redis is measured by `koine bench kv`");
        }
        if self.items.is_some_and(|items| !(1..=1 << 40).contains(&items)) {
            return wrong("--items takes numbers from 1");
        }
        if self.memory < MEMORY_LEN_MIN {
            return wrong("--memory takes sizes from 32MiB");
        }
        let has_block = |length: &u64| (4096..=1 << 20).contains(length) && length.is_power_of_two();
        if !self.store_block_lens.iter().all(has_block) {
            return wrong("--store-block-size takes powers of two from 4KiB to 1MiB");
        }
        if self.large < 1 << 20 || self.open < 16 << 20 {
            return wrong("--large-size takes sizes from 1MiB, --open-size from 16MiB");
        }
        if self.objects.iter().any(|count| !(1..=1 << 32).contains(count)) {
            return wrong("--objects takes numbers from 1");
        }
        if self.stall_seconds < 3 {
            return wrong("--stall-seconds takes numbers from 3");
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

    fn wants(&self, group: EngineGroup) -> bool {
        self.groups.is_empty() || self.groups.contains(&group)
    }

    /// Whether a cell of this name was asked for.
    fn names(&self, cell: &str) -> bool {
        self.only.as_ref().is_none_or(|text| cell.contains(text.as_str()))
    }

    fn rounds(&self) -> usize {
        if self.quick { 1 } else { self.rounds }
    }
}

/// Runs the benchmark as its arguments say.
pub fn run(arguments: &EngineArguments) -> Result<Report, Error> {
    arguments.check()?;
    if let Some(program) = &arguments.reference_program {
        let comparison = Comparison {
            benchmark: "engine",
            program,
            rounds: arguments.rounds(),
            options: &["--reference", "koine"],
            stretches: stretches(arguments),
        };
        return side_by_side::run(&comparison);
    }
    let mut report = Report::new("engine");
    report.plots_figures = true;
    let mut budget = Budget::new(arguments.duration, arguments.quick);
    if arguments.wants(EngineGroup::Large) {
        large::measure(arguments, &mut budget, &mut report)?;
    }
    if arguments.wants(EngineGroup::Open) {
        open::measure(arguments, &mut budget, &mut report)?;
        open::measure_stall(arguments, &mut report)?;
    }
    if arguments.wants(EngineGroup::Hints) {
        hints::measure(arguments, &mut budget, &mut report)?;
    }
    if arguments.wants(EngineGroup::Small) {
        small::measure(arguments, &mut budget, &mut report)?;
    }
    if arguments.wants(EngineGroup::Metadata) {
        metadata::measure(arguments, &mut budget, &mut report)?;
    }
    // What takes longest comes last: where the time of a quick run is over, it is left out.
    if arguments.wants(EngineGroup::Kv) {
        kv::measure(arguments, &mut budget, &mut report)?;
    }
    if report.rows.is_empty() {
        return Err(Error::Argument("no cell is left to measure; see --only, --value-size and the groups".into()));
    }
    if budget.skipped() {
        report.notes.push("The time of a quick run was over before the last cells; they have no figure.".into());
    }
    report.machine = machine::describe(&arguments.dir);
    Ok(report)
}

/// What two programs do in turn: a cell each, where cells do not build on one another.
fn stretches(arguments: &EngineArguments) -> Vec<Vec<String>> {
    let apart = |group: &EngineGroup| matches!(group, EngineGroup::Kv | EngineGroup::Small);
    if arguments.quick || arguments.groups.is_empty() || !arguments.groups.iter().all(apart) {
        return Vec::new();
    }
    let mut names = if arguments.wants(EngineGroup::Small) { small::names(arguments) } else { Vec::new() };
    if arguments.wants(EngineGroup::Kv) {
        names.extend(kv::cell_names(arguments));
    }
    side_by_side::each_cell(names)
}

/// The work of a worker process.
pub fn work() -> Result<(), Error> {
    worker::run()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[derive(clap::Parser)]
    struct Program {
        #[command(flatten)]
        arguments: EngineArguments,
    }

    fn parse(line: &[&str]) -> EngineArguments {
        <Program as clap::Parser>::try_parse_from(line).unwrap().arguments
    }

    #[test]
    fn the_command_line_and_the_defaults_agree() {
        assert_eq!(format!("{:?}", parse(&["bench"])), format!("{:?}", EngineArguments::default()));
    }

    #[test]
    fn groups_and_references_are_chosen() {
        let parsed = parse(&["bench", "kv", "--reference", "lmdb,redb", "--value-size", "64,2KiB"]);
        assert!(parsed.wants(EngineGroup::Kv));
        assert_eq!(parsed.references, [StoreKind::Lmdb, StoreKind::Redb]);
        assert_eq!(parsed.value_lens, [64, 2048]);
    }

    #[test]
    fn two_programs_take_turns_at_cells_that_stand_alone() {
        let first = |line: &[&str]| stretches(&parse(line)).first().map(|stretch| stretch.join(" "));
        assert_eq!(first(&["bench", "kv", "--only", "x8"]).as_deref(), Some("--only 100 B: point read x8"));
        let small = ["bench", "small", "--only", "cold x2"];
        assert_eq!(first(&small).as_deref(), Some("--only 4 KiB sequential private read cold x2"));
        assert_eq!((first(&["bench", "large", "kv"]), first(&["bench"])), (None, None));
    }

    #[test]
    fn senseless_arguments_are_refused_with_what_to_do() {
        let base = EngineArguments::default();
        for (arguments, word) in [
            (EngineArguments { value_lens: vec![8], ..base.clone() }, "--value-size"),
            (EngineArguments { items: Some(0), ..base.clone() }, "--items"),
            (EngineArguments { memory: 1 << 20, ..base.clone() }, "--memory"),
            (EngineArguments { objects: vec![0], ..base.clone() }, "--objects"),
            (EngineArguments { stall_seconds: 0, ..base.clone() }, "--stall-seconds"),
            (EngineArguments { duration: f64::NAN, ..base.clone() }, "--duration"),
            (EngineArguments { rounds: 0, ..base.clone() }, "--rounds"),
        ] {
            let message = arguments.check().unwrap_err().to_string();
            assert!(message.contains(word), "{message}");
        }
    }
}
