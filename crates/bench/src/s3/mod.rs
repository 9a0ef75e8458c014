//! `koine bench s3`: S3 requests against Koine and the reference servers, in turn, on one disk.
//!
//! On few cores a client takes more than half of the machine, so requests are prepared beforehand and two figures are
//! reported: throughput, and operations (or bytes) for each second of CPU time that the server used.

mod attacked;
pub(crate) mod client;
mod connection;
pub(crate) mod load;
mod memory;
pub(crate) mod payload;
mod plan;
pub(crate) mod prepare;
pub(crate) mod reference;
mod response;
pub(crate) mod server;
mod sign;
mod trial;

pub use plan::Operation;
pub(crate) use plan::{parse_size, show_size};

use crate::report::{OURS, Report};
use crate::side_by_side::{self, Comparison};
use crate::{Error, machine, say};
use server::Server;
use sign::Credentials;
use std::path::PathBuf;
use std::time::Duration;

/// What is measured, against which servers, and how long.
///
/// Without --endpoint this program starts itself and every reference that is on PATH (minio, garage, versitygw), each on
/// a fresh store below --dir, and removes the stores afterwards.
#[derive(Debug, Clone, clap::Args)]
pub struct S3Arguments {
    /// At most 24 rows of one second in one round, within 50 seconds; no claim can be made from it
    #[arg(long)]
    pub quick: bool,
    /// Measure the highest anonymous and shared memory of the servers instead of their speed
    #[arg(long)]
    pub memory: bool,
    /// Measure root's slowest request while strangers hold the servers' connections, instead of their speed
    #[arg(long, conflicts_with = "memory")]
    pub attacked: bool,
    /// Measure this other build of the same program as the only reference: both run the benchmark in turn, round by round
    #[arg(long, value_name = "PROGRAM")]
    pub reference_program: Option<PathBuf>,
    /// Write a report in Markdown with plots, and the JSON document, into this folder
    #[arg(long, value_name = "DIR")]
    pub report: Option<PathBuf>,
    /// Folder below which the servers keep their stores; it must be on a real disk
    #[arg(long, value_name = "DIR", default_value = "/var/tmp")]
    pub dir: PathBuf,
    /// Measure a server that runs already; the one called koine (else the first) is ours, the others are references
    #[arg(long = "endpoint", value_name = "NAME=URL,PID")]
    pub endpoints: Vec<String>,
    /// Access key for the servers given by --endpoint
    #[arg(long, value_name = "KEY", env = "KOINE_ROOT_USER", default_value = "")]
    pub access_key: String,
    /// Secret key for the servers given by --endpoint
    #[arg(long, value_name = "KEY", env = "KOINE_ROOT_PASSWORD", default_value = "", hide_env_values = true)]
    pub secret_key: String,
    /// What is asked of the servers
    #[arg(long = "operation", value_name = "OPERATION", value_delimiter = ',', default_values = ["put", "get-fresh", "get", "get-cold", "delete", "list"])]
    pub operations: Vec<Operation>,
    /// Sizes of objects
    #[arg(long = "size", value_name = "SIZE", value_delimiter = ',', value_parser = plan::parse_size,
          default_values = ["4KiB", "1MiB", "64MiB"])]
    pub sizes: Vec<u64>,
    /// Numbers of connections
    #[arg(long = "connections", alias = "concurrency", value_name = "N", value_delimiter = ',', default_values = ["1", "16"])]
    pub connections: Vec<usize>,
    /// Seconds for each cell of each server in each round
    #[arg(long, value_name = "SECONDS", default_value_t = 3.0)]
    pub duration: f64,
    /// Rounds; the median of their ratios counts (--quick: 1)
    #[arg(long, value_name = "N", default_value_t = 7)]
    pub rounds: usize,
    /// Only cells whose name contains this text, such as "GET 4 KiB"
    #[arg(long, value_name = "TEXT")]
    pub only: Option<String>,
    /// With --memory: the size of the object that each of 16 clients moves
    #[arg(long, value_name = "SIZE", value_parser = plan::parse_size, default_value = "1GiB")]
    pub memory_object: u64,
    /// With --memory: the size of the object that one more client moves in parts
    #[arg(long, value_name = "SIZE", value_parser = plan::parse_size, default_value = "5GiB")]
    pub memory_large: u64,
}

impl Default for S3Arguments {
    fn default() -> S3Arguments {
        S3Arguments {
            quick: false,
            memory: false,
            attacked: false,
            reference_program: None,
            report: None,
            dir: PathBuf::from("/var/tmp"),
            endpoints: Vec::new(),
            access_key: String::new(),
            secret_key: String::new(),
            operations: vec![
                Operation::Put,
                Operation::GetFresh,
                Operation::Get,
                Operation::GetCold,
                Operation::Delete,
                Operation::List,
            ],
            sizes: vec![4 << 10, 1 << 20, 64 << 20],
            connections: vec![1, 16],
            duration: 3.0,
            rounds: 7,
            only: None,
            memory_object: 1 << 30,
            memory_large: 5 << 30,
        }
    }
}

impl S3Arguments {
    fn check(&self) -> Result<(), Error> {
        let wrong = |text: &str| Err(Error::Argument(text.into()));
        if self.reference_program.is_some() && !self.endpoints.is_empty() {
            return wrong("--reference-program starts both programs; --endpoint names servers that run already");
        }
        if self.connections.iter().any(|count| !(1..=1024).contains(count)) {
            return wrong("--connections takes numbers from 1 to 1024");
        }
        if self.sizes.iter().any(|size| *size > 1 << 30) {
            return wrong("--size takes sizes up to 1GiB");
        }
        if !(0.05..=3600.0).contains(&self.duration) {
            return wrong("--duration takes 0.05 to 3600 seconds");
        }
        if !(1..=1000).contains(&self.rounds) {
            return wrong("--rounds takes numbers from 1 to 1000");
        }
        if !self.endpoints.is_empty() && (self.access_key.is_empty() || self.secret_key.is_empty()) {
            return wrong("--endpoint needs --access-key and --secret-key, or KOINE_ROOT_USER and KOINE_ROOT_PASSWORD");
        }
        if self.endpoints.is_empty() && machine::is_volatile(&self.dir) {
            let dir = self.dir.display();
            return wrong(&format!("{dir} is in memory, where a sync is free; name a folder on a disk with --dir"));
        }
        Ok(())
    }
}

/// Servers in the order of reports, ours first, and the references that are not here.
struct Servers {
    servers: Vec<Server>,
    missing: Vec<String>,
    notes: Vec<String>,
}

/// Runs the benchmark as its arguments say.
pub fn run(arguments: &S3Arguments) -> Result<Report, Error> {
    arguments.check()?;
    if let Some(program) = &arguments.reference_program {
        let whole = arguments.memory || arguments.attacked || arguments.quick;
        let stretches = if whole { Vec::new() } else { plan::stretches(arguments) };
        let rounds = if arguments.quick { 1 } else { arguments.rounds };
        let comparison = Comparison { benchmark: "s3", program, rounds, options: &[], stretches };
        return side_by_side::run(&comparison);
    }
    let field = gather(arguments)?;
    let mut report = if arguments.memory {
        memory::measure(arguments, field)?
    } else if arguments.attacked {
        attacked::measure(arguments, field)?
    } else {
        let groups = if arguments.quick { plan::quick(arguments) } else { plan::full(arguments) };
        trial::measure(arguments, groups, field)?
    };
    report.machine = machine::describe(&arguments.dir);
    Ok(report)
}

fn gather(arguments: &S3Arguments) -> Result<Servers, Error> {
    if !arguments.endpoints.is_empty() {
        return gather_endpoints(arguments);
    }
    say(&format!("starting {OURS}"));
    // The cache of data takes what it is given; the question is what there is beside it.
    let ours: &[&str] = if arguments.memory { &["--cache", "0"] } else { &[] };
    let mut field =
        Servers { servers: vec![Server::start_ours(&arguments.dir, ours)?], missing: Vec::new(), notes: Vec::new() };
    for name in reference::NAMES {
        let Some(program) = reference::find(name) else {
            field.missing.push(name.to_owned());
            field.notes.push(format!("{name} is not on PATH and was not measured."));
            continue;
        };
        say(&format!("starting {name}"));
        field.servers.push(reference::start(name, &program, &arguments.dir)?);
    }
    Ok(field)
}

fn gather_endpoints(arguments: &S3Arguments) -> Result<Servers, Error> {
    let credentials = Credentials {
        access_key: arguments.access_key.clone(),
        secret_key: arguments.secret_key.clone(),
        region: "us-east-1".into(),
    };
    let mut servers = Vec::new();
    for text in &arguments.endpoints {
        servers.push(Server::parse(text, &credentials)?);
    }
    // A stable sort: ours comes first, the others keep their order.
    servers.sort_by_key(|server| server.name != OURS);
    let missing = reference::NAMES
        .iter()
        .filter(|name| servers.iter().all(|server| server.name != **name))
        .map(|name| (*name).to_owned())
        .collect();
    let mut notes = Vec::new();
    for server in servers.iter().filter(|server| server.process.is_none()) {
        notes.push(format!("{} was given without a process id: its CPU time is not known.", server.name));
    }
    Ok(Servers { servers, missing, notes })
}

fn seconds(value: f64) -> Duration {
    Duration::try_from_secs_f64(value).unwrap_or(Duration::from_secs(1))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[derive(clap::Parser)]
    struct Program {
        #[command(flatten)]
        arguments: S3Arguments,
    }

    #[test]
    fn the_command_line_and_the_defaults_agree() {
        let parsed = <Program as clap::Parser>::try_parse_from(["bench"]).unwrap().arguments;
        let plain = S3Arguments {
            access_key: parsed.access_key.clone(),
            secret_key: parsed.secret_key.clone(),
            ..S3Arguments::default()
        };
        assert_eq!(format!("{parsed:?}"), format!("{plain:?}"));
    }

    #[test]
    fn lists_and_sizes_are_parsed() {
        let line =
            ["bench", "--size", "1KiB,2MiB", "--concurrency", "4", "--operation", "put,get", "--duration", "0.5"];
        let parsed = <Program as clap::Parser>::try_parse_from(line).unwrap().arguments;
        assert_eq!((parsed.sizes, parsed.connections), (vec![1024, 2 << 20], vec![4]));
        assert_eq!(parsed.operations, [Operation::Put, Operation::Get]);
    }

    #[test]
    fn senseless_arguments_are_refused_with_what_to_do() {
        let base = S3Arguments { dir: "/var/tmp".into(), ..S3Arguments::default() };
        for (arguments, word) in [
            (S3Arguments { connections: vec![0], ..base.clone() }, "--connections"),
            (S3Arguments { duration: f64::NAN, ..base.clone() }, "--duration"),
            (S3Arguments { rounds: 0, ..base.clone() }, "--rounds"),
            (S3Arguments { endpoints: vec!["a=http://b".into()], ..base.clone() }, "--access-key"),
        ] {
            let message = arguments.check().unwrap_err().to_string();
            assert!(message.contains(word), "{message}");
        }
    }
}
