//! The program `koine`.

mod bench;
mod client;
mod cp;
mod failure;
mod location;
mod ls;
mod output;
mod remote;
mod size;

use std::process::ExitCode;

use clap::{Parser, Subcommand};

use failure::{EXIT_CODES, Failure, Outcome};
use output::Output;

/// One store that speaks S3, in one file or on one device.
#[derive(Parser, Debug)]
#[command(name = "koine", version, arg_required_else_help = true, after_help = EXIT_CODES)]
struct Program {
    /// Results as JSON, one value a line.
    #[arg(long, global = true)]
    json: bool,
    #[command(subcommand)]
    command: Command,
}

#[derive(Subcommand, Debug)]
enum Command {
    /// List buckets, objects, or a local folder.
    Ls(ls::LsArgs),
    /// Copy between local files and objects.
    Cp(cp::CpArgs),
    /// Measure Koine beside other servers.
    Bench(bench::BenchArgs),
}

fn main() -> ExitCode {
    let program = Program::parse();
    let output = Output::new(program.json);
    match run(&program.command, output) {
        Ok(()) => ExitCode::SUCCESS,
        Err(failure) => {
            output.failure(&failure);
            failure.exit.into()
        }
    }
}

fn run(command: &Command, output: Output) -> Outcome {
    match command {
        Command::Ls(args) => client_runtime()?.block_on(ls::run(args, output)),
        Command::Cp(args) => client_runtime()?.block_on(cp::run(args, output)),
        Command::Bench(args) => bench::run(args, output.is_json()),
    }
}

/// Threads for the commands that speak to a server.
fn client_runtime() -> Outcome<tokio::runtime::Runtime> {
    tokio::runtime::Builder::new_multi_thread()
        .worker_threads(2)
        .enable_all()
        .build()
        .map_err(|error| Failure::io("cannot start threads", &error))
}
