//! The modules of each crate: what they import, where they import in a circle, and a picture of both.
//!
//! Invariants:
//! - Only `use` and paths in code count; what tests import does not.
//! - Modules are compared within one folder: what lies below a module counts as part of it, and the file of the folder
//!   itself belongs to neither side.

mod circles;
mod names;
mod picture;
mod program;

pub use circles::{Level, levels};
pub use program::programs;

use std::collections::BTreeMap;
use std::io;
use std::path::Path;
use std::process::ExitCode;

use crate::files::Tree;

/// The fewest modules that make a picture.
const DRAWN_MIN: usize = 5;
/// So many names of an import are listed.
const NAMES_MAX: usize = 6;

/// Draws the modules of the repository under `root` and lists its circles.
pub fn run(root: &Path) -> ExitCode {
    let tree = Tree::read(root);
    let written = tree.and_then(|tree| {
        list(&tree);
        write(root, &pictures(&tree))
    });
    match written {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("modules: {}: {error}", root.display());
            ExitCode::from(2)
        }
    }
}

fn write(root: &Path, pictures: &BTreeMap<String, String>) -> io::Result<()> {
    std::fs::create_dir_all(root.join("docs/modules"))?;
    for (path, picture) in pictures {
        std::fs::write(root.join(path), picture)?;
        println!("modules: {path}");
    }
    Ok(())
}

/// The picture of each crate's modules, by the path of its file.
pub fn pictures(tree: &Tree) -> BTreeMap<String, String> {
    let mut pictures = BTreeMap::new();
    for program in programs(tree) {
        let top = levels(&program).into_iter().find(|level| level.module.is_empty());
        if let Some(level) = top.filter(|level| level.imports.len() >= DRAWN_MIN) {
            let name = program.folder.rsplit('/').next().unwrap_or(&program.folder);
            pictures.insert(format!("docs/modules/{name}.svg"), picture::draw(&program.folder, &level));
        }
    }
    pictures
}

/// Prints every circle with the imports that make it.
fn list(tree: &Tree) {
    for program in programs(tree) {
        for level in levels(&program) {
            for circle in level.circles() {
                println!("{}/src {}: {} modules in a circle", program.folder, level.module, circle.len());
                for from in &circle {
                    for (to, names) in level.imports[*from].iter().filter(|(to, _)| circle.contains(&to.as_str())) {
                        let some: Vec<&str> = names.iter().take(NAMES_MAX).map(String::as_str).collect();
                        let more = if names.len() > NAMES_MAX { ", ..." } else { "" };
                        println!("  {from} -> {to}: {}{more}", some.join(", "));
                    }
                }
            }
        }
    }
}
