//! `koine man`: writes the manual pages, made from what `--help` is made from, so that the two never differ.

use std::path::PathBuf;

use clap::Args;
use serde_json::json;

use crate::failure::{Failure, Outcome};
use crate::output::Output;

/// The options of `koine man`.
#[derive(Args, Debug)]
pub struct ManArgs {
    /// The folder for the pages, as `/usr/local/share/man/man1`; made when missing.
    #[arg(value_name = "FOLDER")]
    folder: PathBuf,
}

/// Runs `koine man` for the whole program.
pub fn run(args: &ManArgs, program: clap::Command, output: Output) -> Outcome {
    let folder = args.folder.display();
    std::fs::create_dir_all(&args.folder).map_err(|error| Failure::io(format!("cannot make {folder}"), &error))?;
    clap_mangen::generate_to(program, &args.folder)
        .map_err(|error| Failure::io(format!("cannot write to {folder}"), &error))?;
    output.people(format!("the pages are in {folder}; try  man -l {folder}/koine.1"))?;
    output.json(&json!({ "type": "manual", "folder": folder.to_string() }))
}
