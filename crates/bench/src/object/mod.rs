//! `koine bench object`: the object library in process beside MinIO over S3, by size and by threads, as in the two
//! experiments of *H3 and MongoKreon*; large objects beside memcpy and fio; listings of many keys; Python beside Rust.
//!
//! Ours and MinIO keep their stores on one file system and sync every PUT. What is compared is what a program gets: calls
//! of a library against requests to a server on the same machine.

mod cells;
mod large;
mod listing;
mod ours;
mod peer;
mod python;

use crate::report::Report;
use crate::s3::{parse_size, show_size};
use crate::side_by_side::{self, Comparison};
use crate::{Error, machine};
use std::path::PathBuf;

/// What is measured and how long.
///
/// MinIO is measured where `minio` is on PATH, fio where `fio` is. Stores are made below --dir and removed afterwards.
#[derive(Debug, Clone, clap::Args)]
pub struct ObjectArguments {
    /// What is measured; without one, everything
    #[arg(value_name = "GROUP")]
    pub groups: Vec<ObjectGroup>,
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
    /// Sizes of objects, for one thread
    #[arg(long = "size", value_name = "SIZE", value_delimiter = ',', value_parser = parse_size,
          default_values = ["4KiB", "16KiB", "64KiB", "256KiB", "1MiB", "16MiB", "100MiB", "1GiB"])]
    pub sizes: Vec<u64>,
    /// Numbers of threads (of connections, for MinIO)
    #[arg(long = "threads", value_name = "N", value_delimiter = ',', default_values = ["1", "2", "4", "8"])]
    pub threads: Vec<usize>,
    /// Size of the objects that many threads move
    #[arg(long, value_name = "SIZE", value_parser = parse_size, default_value = "100MiB")]
    pub thread_size: u64,
    /// Keys of the bucket that is listed
    #[arg(long, value_name = "N", default_value_t = 1_000_000)]
    pub keys: u64,
    /// Seconds for each cell of each contestant in each round; a cell takes at least one object
    #[arg(long, value_name = "SECONDS", default_value_t = 2.0)]
    pub duration: f64,
    /// Rounds; the median of their ratios counts (--quick: 1)
    #[arg(long, value_name = "N", default_value_t = 7)]
    pub rounds: usize,
    /// Only cells whose name contains this text, such as "GET 4 KiB"
    #[arg(long, value_name = "TEXT")]
    pub only: Option<String>,
}

/// What is measured.
#[derive(Debug, Clone, Copy, PartialEq, Eq, clap::ValueEnum)]
pub enum ObjectGroup {
    /// PUT and GET by size, one thread, beside MinIO over S3
    Size,
    /// PUT and GET by threads, beside MinIO over S3
    Threads,
    /// Large objects beside one thread's memcpy and beside fio
    Large,
    /// Pages of a listing at the beginning and at the end of a large bucket
    Listing,
    /// PUT and GET from Python beside Rust, where python3 finds the package
    Python,
}

impl Default for ObjectArguments {
    fn default() -> ObjectArguments {
        const KIB: u64 = 1 << 10;
        const MIB: u64 = 1 << 20;
        ObjectArguments {
            groups: Vec::new(),
            quick: false,
            reference_program: None,
            report: None,
            dir: PathBuf::from("/var/tmp"),
            sizes: vec![4 * KIB, 16 * KIB, 64 * KIB, 256 * KIB, MIB, 16 * MIB, 100 * MIB, 1 << 30],
            threads: vec![1, 2, 4, 8],
            thread_size: 100 * MIB,
            keys: 1_000_000,
            duration: 2.0,
            rounds: 7,
            only: None,
        }
    }
}

impl ObjectArguments {
    fn check(&self) -> Result<(), Error> {
        let wrong = |text: &str| Err(Error::Argument(text.into()));
        if !self.threads.iter().all(|threads| (1..=256).contains(threads)) {
            return wrong("--threads takes numbers from 1 to 256");
        }
        if self.sizes.iter().chain([&self.thread_size]).any(|size| *size > 1 << 30) {
            return wrong("--size and --thread-size take sizes up to 1GiB");
        }
        if !(0.01..=3600.0).contains(&self.duration) {
            return wrong("--duration takes 0.01 to 3600 seconds");
        }
        if !(1..=1000).contains(&self.rounds) {
            return wrong("--rounds takes numbers from 1 to 1000");
        }
        if !(20_000..=100_000_000).contains(&self.keys) {
            return wrong("--keys takes numbers from 20,000 to 100,000,000");
        }
        if machine::is_volatile(&self.dir) {
            let dir = self.dir.display();
            return wrong(&format!("{dir} is in memory, where a sync is free; name a folder on a disk with --dir"));
        }
        Ok(())
    }

    fn wants(&self, group: ObjectGroup) -> bool {
        self.groups.is_empty() || self.groups.contains(&group)
    }

    fn names(&self, cell: &str) -> bool {
        self.only.as_ref().is_none_or(|text| cell.contains(text.as_str()))
    }

    fn rounds(&self) -> usize {
        if self.quick { 1 } else { self.rounds }
    }

    /// The same, as small as a quick run has to be.
    fn within_quick(&self) -> ObjectArguments {
        if !self.quick {
            return self.clone();
        }
        ObjectArguments {
            sizes: self.sizes.iter().copied().filter(|size| [4 << 10, 64 << 10, 1 << 20].contains(size)).collect(),
            threads: self.threads.iter().copied().filter(|threads| [1, 4].contains(threads)).collect(),
            thread_size: self.thread_size.min(16 << 20),
            keys: self.keys.min(20_000),
            duration: self.duration.min(0.5),
            ..self.clone()
        }
    }
}

/// Runs the benchmark as its arguments say.
pub fn run(arguments: &ObjectArguments) -> Result<Report, Error> {
    arguments.check()?;
    if let Some(program) = &arguments.reference_program {
        let comparison = Comparison {
            benchmark: "object",
            program,
            rounds: arguments.rounds(),
            options: &[],
            stretches: Vec::new(),
        };
        return side_by_side::run(&comparison);
    }
    let arguments = &arguments.within_quick();
    let mut report = Report::new("object");
    report.plots_figures = true;
    if arguments.wants(ObjectGroup::Size) || arguments.wants(ObjectGroup::Threads) {
        cells::measure(arguments, &mut report)?;
    }
    if arguments.wants(ObjectGroup::Large) {
        large::measure(arguments, &mut report)?;
    }
    if arguments.wants(ObjectGroup::Listing) {
        listing::measure(arguments, &mut report)?;
    }
    if arguments.wants(ObjectGroup::Python) {
        python::measure(arguments, &mut report)?;
    }
    if report.rows.is_empty() {
        return Err(Error::Argument("no cell is left to measure; see the groups, --size and --only".into()));
    }
    report.machine = machine::describe(&arguments.dir);
    Ok(report)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[derive(clap::Parser)]
    struct Program {
        #[command(flatten)]
        arguments: ObjectArguments,
    }

    #[test]
    fn the_command_line_and_the_defaults_agree() {
        let parsed = <Program as clap::Parser>::try_parse_from(["bench"]).unwrap().arguments;
        assert_eq!(format!("{parsed:?}"), format!("{:?}", ObjectArguments::default()));
    }

    #[test]
    fn senseless_arguments_are_refused_with_what_to_do() {
        for (arguments, word) in [
            (ObjectArguments { threads: vec![0], ..ObjectArguments::default() }, "--threads"),
            (ObjectArguments { sizes: vec![2 << 30], ..ObjectArguments::default() }, "--size"),
            (ObjectArguments { duration: f64::NAN, ..ObjectArguments::default() }, "--duration"),
            (ObjectArguments { keys: 5, ..ObjectArguments::default() }, "--keys"),
        ] {
            let message = arguments.check().unwrap_err().to_string();
            assert!(message.contains(word), "{message}");
        }
    }

    #[test]
    fn a_quick_run_is_small() {
        let quick = ObjectArguments { quick: true, ..ObjectArguments::default() }.within_quick();
        let rows =
            2 * (quick.sizes.len() + quick.threads.len()) + large::ROWS_QUICK + listing::ROWS + python::ROWS_QUICK;
        assert!(rows <= 24 && !quick.sizes.is_empty(), "{rows}");
    }
}
