//! Benchmarks: ours and the references side by side, in one call, interleaved, several rounds, medians reported.
//!
//! Numbers are ratios: a figure of ours means something only beside the figure that a reference got in the same minute
//! on the same disk. A benchmark therefore starts both itself, measures them in turn, and judges the median of the
//! paired ratios. Errors in a measured request fail the run; they are never left out of it.

mod budget;
pub mod engine;
mod error;
mod figures;
mod fio;
mod machine;
pub mod object;
mod process;
pub mod report;
mod resp;
pub mod s3;
mod side_by_side;
mod statistics;
mod stores;
pub mod wire;
mod ycsb;

pub use error::Error;
pub use report::Report;

use std::io::Write;

/// The benchmarks that `koine bench` runs, with their arguments.
#[derive(Debug, Clone, clap::Subcommand)]
pub enum Benchmark {
    /// S3 requests against Koine and every reference server that is on PATH
    S3(Box<s3::S3Arguments>),
    /// The engine beside embedded stores (LMDB, redb, fjall, RocksDB), file systems and fio
    Engine(Box<engine::EngineArguments>),
    /// Keys and values through the wire, beside the same store called directly and Redis
    Wire(Box<wire::WireArguments>),
    /// The object library beside MinIO over S3, memcpy and fio
    Object(Box<object::ObjectArguments>),
    /// YCSB's workloads over the engine, embedded stores (LMDB, redb, fjall, RocksDB) and Redis over loopback
    Kv(Box<ycsb::KvArguments>),
    /// A process that holds one store for `engine`
    #[command(hide = true)]
    EngineWorker,
    /// A process that serves one store for `wire`
    #[command(hide = true)]
    WireServer(Box<wire::ServerArguments>),
}

impl Benchmark {
    /// Runs it: tables, or with `json` one document, go to `output`; progress goes to standard error.
    ///
    /// The report is returned also when requests failed; [`Report::passed`] says whether it may be believed.
    pub fn run(&self, json: bool, output: &mut dyn Write) -> Result<Report, Error> {
        let (report, folder) = match self {
            Benchmark::S3(arguments) => (s3::run(arguments)?, &arguments.report),
            Benchmark::Engine(arguments) => (engine::run(arguments)?, &arguments.report),
            Benchmark::Wire(arguments) => (wire::run(arguments)?, &arguments.report),
            Benchmark::WireServer(arguments) => {
                wire::serve(arguments)?;
                return Ok(Report::new("wire"));
            }
            Benchmark::Object(arguments) => (object::run(arguments)?, &arguments.report),
            Benchmark::Kv(arguments) => (ycsb::run(arguments)?, &arguments.report),
            Benchmark::EngineWorker => {
                engine::work()?;
                return Ok(Report::new("engine"));
            }
        };
        if json {
            report.write_json(output)?;
        } else {
            report.write_tables(output)?;
        }
        if let Some(folder) = folder {
            report.write_folder(folder)?;
        }
        Ok(report)
    }
}

/// Progress for people, on standard error.
pub(crate) fn say(text: &str) {
    eprintln!("bench: {text}");
}
