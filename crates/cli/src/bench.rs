//! `koine bench`: ours and the references side by side; what is measured and how stands in the crate below.

use std::io;

use koine_bench::{Benchmark, Error};

use crate::failure::{Failure, Outcome};

const EXAMPLES: &str = "Examples:
  koine bench s3 --quick            a first look: less than a minute
  koine bench s3                    Koine and every reference server on PATH, seven rounds
  koine bench s3 --json | jq .rows
  koine bench s3 --help             sizes, connections, endpoints, reports
  koine bench engine --quick        the engine beside embedded stores and fio
  koine bench engine kv --report R  keys and values alone, with plots in the folder R
  koine bench wire --report R       the wire beside Redis, and 1 MiB beside memcpy
  koine bench object --report R     the object library beside MinIO, memcpy and fio
  koine bench kv --quick            YCSB over the engine, embedded stores and Redis";

/// What to measure.
#[derive(clap::Args, Debug)]
#[command(after_help = EXAMPLES)]
pub struct BenchArgs {
    #[command(subcommand)]
    benchmark: Benchmark,
}

/// Runs a benchmark. Failed requests fail the command; goals that are missed are told by the report alone.
pub fn run(args: &BenchArgs, json: bool) -> Outcome {
    let report = args.benchmark.run(json, &mut io::stdout().lock()).map_err(|error| match error {
        Error::Argument(message) => Failure::usage(message),
        other => Failure::failed(other.to_string()),
    })?;
    match report.errors.first() {
        None => Ok(()),
        Some(first) => Err(Failure::failed(format!("requests failed, so no figure counts; {first}"))),
    }
}
