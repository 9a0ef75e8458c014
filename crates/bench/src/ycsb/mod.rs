//! `koine bench kv`: the workloads of the Yahoo Cloud Serving Benchmark (Cooper et al., SoCC 2010), in the order that its
//! authors recommend, over our engine and embedded stores, and over Redis on loopback.
//!
//! Every store runs in a process of its own (Redis: with its server). All do one workload in turn, the others stopped,
//! before the next one begins. Every value that is read is verified.

mod parts;
pub(crate) mod plan;
mod trial;

use crate::budget::Budget;
use crate::report::{OURS, Report};
use crate::s3::parse_size;
use crate::side_by_side::{self, Comparison};
use crate::stores::kinds::StoreKind;
use crate::{Error, machine};
use std::path::PathBuf;

/// The shortest record: its value names its key.
const RECORD_LEN_MIN: u64 = 32;

/// What is measured and how long.
#[derive(Debug, Clone, clap::Args)]
pub struct KvArguments {
    /// Few records, one thread, one second for each workload; no claim can be made from it
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
    /// Lengths of values; a key has 16 bytes
    #[arg(long = "record-size", value_name = "SIZE", value_delimiter = ',', value_parser = parse_size,
          default_values = ["1KiB", "100"])]
    pub record_lens: Vec<u64>,
    /// Records, in place of those that fit the memory or are four times as large
    #[arg(long, value_name = "N")]
    pub records: Option<u64>,
    /// Memory of each store where data is to be larger than it (a memory control group)
    #[arg(long, value_name = "SIZE", value_parser = parse_size, default_value = "128MiB")]
    pub memory: u64,
    /// Numbers of threads
    #[arg(long, value_name = "N", value_delimiter = ',', default_values = ["1", "2", "4", "8"])]
    pub threads: Vec<usize>,
    /// How records are chosen where the workload does not say: also uniformly, beside Zipfian
    #[arg(long)]
    pub uniform: bool,
    /// Instead: what absorption, seek, upper bound and filter give, each with it and without
    #[arg(long)]
    pub parts: bool,
    /// Seconds for each workload of each store in each round; a load goes on until all is loaded
    #[arg(long, value_name = "SECONDS", default_value_t = 3.0)]
    pub duration: f64,
    /// Rounds; the median of their ratios counts (--quick: 1)
    #[arg(long, value_name = "N", default_value_t = 3)]
    pub rounds: usize,
    /// Only sets whose name contains this text, such as "1 KiB synced x8"
    #[arg(long, value_name = "TEXT")]
    pub only: Option<String>,
}

impl Default for KvArguments {
    fn default() -> KvArguments {
        KvArguments {
            quick: false,
            reference_program: None,
            report: None,
            dir: PathBuf::from("/var/tmp"),
            references: Vec::new(),
            record_lens: vec![1024, 100],
            records: None,
            memory: 128 << 20,
            threads: vec![1, 2, 4, 8],
            uniform: false,
            parts: false,
            duration: 3.0,
            rounds: 3,
            only: None,
        }
    }
}

impl KvArguments {
    fn check(&self) -> Result<(), Error> {
        let wrong = |text: &str| Err(Error::Argument(text.into()));
        if self.reference_program.is_some() && !self.references.is_empty() {
            return wrong("--reference and --reference-program exclude each other");
        }
        if self.record_lens.iter().any(|length| !(RECORD_LEN_MIN..=64 << 10).contains(length)) {
            return wrong("--record-size takes lengths from 32 to 64KiB");
        }
        if self.records.is_some_and(|records| !(100..=1 << 40).contains(&records)) {
            return wrong("--records takes numbers from 100");
        }
        if self.memory < 32 << 20 {
            return wrong("--memory takes sizes from 32MiB");
        }
        if self.threads.iter().any(|threads| !(1..=256).contains(threads)) {
            return wrong("--threads takes numbers from 1 to 256");
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

    fn rounds(&self) -> usize {
        if self.quick { 1 } else { self.rounds }
    }

    fn field(&self, report: &mut Report) -> Vec<StoreKind> {
        let mut field = vec![StoreKind::Koine];
        for kind in StoreKind::REFERENCES.into_iter().chain([StoreKind::Redis]) {
            if !self.references.is_empty() && !self.references.contains(&kind) {
                continue;
            }
            if kind.is_built() {
                field.push(kind);
            } else {
                report.notes.push(format!("{} is not here and was not measured.", kind.name()));
            }
        }
        field
    }
}

/// Runs the benchmark as its arguments say.
pub fn run(arguments: &KvArguments) -> Result<Report, Error> {
    arguments.check()?;
    if let Some(program) = &arguments.reference_program {
        let stretches = match (arguments.quick, arguments.parts) {
            (true, _) => Vec::new(),
            (false, true) => side_by_side::each_cell(parts::names(arguments)),
            (false, false) => plan::stretches(arguments),
        };
        let comparison = Comparison {
            benchmark: "kv",
            program,
            rounds: arguments.rounds(),
            options: &["--reference", "koine"],
            stretches,
        };
        return side_by_side::run(&comparison);
    }
    let mut report = Report::new("kv");
    report.plots_figures = true;
    report.cpu_label = "us CPU";
    if arguments.parts {
        parts::measure(arguments, &mut report)?;
        report.machine = machine::describe(&arguments.dir);
        return Ok(report);
    }
    let field = arguments.field(&mut report);
    let sets = plan::sets(arguments);
    if sets.is_empty() {
        return Err(Error::Argument("no set is left to measure; see --only, --record-size and --threads".into()));
    }
    let mut budget = Budget::new(arguments.duration, arguments.quick);
    trial::measure(arguments, &field, &sets, &mut budget, &mut report)?;
    report.notes.push(format!(
        "{OURS} is the engine itself; redis is a server over loopback, whose CPU time and memory are counted with those \
         of its client. Unsynced commits survive the end of the process, in redis for the most part a second after they \
         were made, in redb not at all. Memory is the most that a store had of its own, without the page cache."
    ));
    report.machine = machine::describe(&arguments.dir);
    Ok(report)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[derive(clap::Parser)]
    struct Program {
        #[command(flatten)]
        arguments: KvArguments,
    }

    #[test]
    fn the_command_line_and_the_defaults_agree() {
        let parsed = <Program as clap::Parser>::try_parse_from(["bench"]).unwrap().arguments;
        assert_eq!(format!("{parsed:?}"), format!("{:?}", KvArguments::default()));
    }

    #[test]
    fn senseless_arguments_are_refused_with_what_to_do() {
        let base = KvArguments::default();
        for (arguments, word) in [
            (KvArguments { record_lens: vec![8], ..base.clone() }, "--record-size"),
            (KvArguments { records: Some(0), ..base.clone() }, "--records"),
            (KvArguments { memory: 1 << 20, ..base.clone() }, "--memory"),
            (KvArguments { threads: vec![0], ..base.clone() }, "--threads"),
            (KvArguments { duration: f64::NAN, ..base.clone() }, "--duration"),
            (KvArguments { rounds: 0, ..base.clone() }, "--rounds"),
        ] {
            let message = arguments.check().unwrap_err().to_string();
            assert!(message.contains(word), "{message}");
        }
    }
}
