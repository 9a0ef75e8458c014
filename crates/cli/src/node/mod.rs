//! `koine node`: the parts of a store that spans machines, each a process of its own.

mod data;

use clap::{Args, Subcommand};

use crate::failure::Outcome;
use crate::output::Output;

/// Which part.
#[derive(Args, Debug)]
pub struct NodeArgs {
    #[command(subcommand)]
    command: NodeCommand,
}

#[derive(Subcommand, Debug)]
enum NodeCommand {
    /// Serve the keys and values of a device, by the wire alone.
    Data(Box<data::DataArgs>),
}

/// Runs `koine node`.
pub fn run(args: &NodeArgs, output: Output) -> Outcome {
    match &args.command {
        NodeCommand::Data(args) => data::run(args, output),
    }
}
