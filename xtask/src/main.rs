//! Repository checks: `cargo xtask tidy`, and pictures of the modules: `cargo xtask modules`.

mod code;
mod files;
mod modules;
mod tidy;

use std::path::PathBuf;
use std::process::ExitCode;

const USAGE: &str = "\
usage: cargo xtask tidy [FOLDER]
       cargo xtask modules [FOLDER]

  tidy      checks floors, lengths, headers, orphans, circles and names of the repository
  modules   draws the modules of each crate into docs/modules, and lists what imports in a circle";

fn main() -> ExitCode {
    let mut arguments = std::env::args().skip(1);
    let command = arguments.next();
    let root = arguments.next().map_or_else(repository_root, PathBuf::from);
    match command.as_deref() {
        Some("tidy") => tidy::run(&root),
        Some("modules") => modules::run(&root),
        _ => {
            eprintln!("{USAGE}");
            ExitCode::from(2)
        }
    }
}

/// The folder above this crate: the repository that cargo runs this program for.
fn repository_root() -> PathBuf {
    let own = std::env::var_os("CARGO_MANIFEST_DIR").map_or_else(|| env!("CARGO_MANIFEST_DIR").into(), PathBuf::from);
    own.parent().map_or(own.clone(), PathBuf::from)
}
