//! Repository checks: `cargo xtask tidy`.

mod tidy;

use std::path::PathBuf;
use std::process::ExitCode;

const USAGE: &str =
    "usage: cargo xtask tidy [FOLDER]\n\n  tidy   checks floors, lengths, headers, orphans and names of the repository";

fn main() -> ExitCode {
    let mut arguments = std::env::args().skip(1);
    match arguments.next().as_deref() {
        Some("tidy") => {
            let root = arguments.next().map_or_else(repository_root, PathBuf::from);
            tidy::run(&root)
        }
        _ => {
            eprintln!("{USAGE}");
            ExitCode::from(2)
        }
    }
}

/// The folder above this crate: the repository that this program was built from.
fn repository_root() -> PathBuf {
    let own = PathBuf::from(env!("CARGO_MANIFEST_DIR"));
    own.parent().map_or(own.clone(), PathBuf::from)
}
