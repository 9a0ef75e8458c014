//! Circles of modules: how long they may be; and their pictures, which must be of today.
//!
//! Invariants:
//! - No circle has more than four modules, and none has two folders.
//! - The picture of each crate's modules is of today.

use super::Finding;
use crate::files::Tree;
use crate::modules::{Level, levels, pictures, programs};

/// The most modules that may import each other in a circle.
const CIRCLE_MAX: usize = 4;

/// Checks every crate.
pub fn check(tree: &Tree, findings: &mut Vec<Finding>) {
    for program in programs(tree) {
        for level in levels(&program) {
            let path = format!("{}/src/{}", program.folder, level.module.replace("::", "/"));
            judge(path.trim_end_matches('/'), &level, findings);
        }
    }
    for (path, picture) in pictures(tree) {
        if tree.get(&path).and_then(|file| file.text.as_deref()) != Some(&picture) {
            findings.push(Finding::new(&path, 1, "the modules are others by now; draw them: cargo xtask modules"));
        }
    }
}

fn judge(folder: &str, level: &Level, findings: &mut Vec<Finding>) {
    for circle in level.circles() {
        let folders = circle.iter().filter(|module| level.folders.contains(**module)).count();
        if circle.len() <= CIRCLE_MAX && folders <= 1 {
            continue;
        }
        let message = format!(
            "{} modules import each other in a circle, {folders} of them folders: {}; have them import downwards (at most \
             {CIRCLE_MAX} modules and one folder may; cargo xtask modules lists what they import)",
            circle.len(),
            circle.join(", "),
        );
        findings.push(Finding::new(folder, 1, message));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn long_circles_and_two_folders_are_found() {
        let text = |next: &str| format!("//! A module.\nuse crate::{next};\n");
        let mut texts = vec![("crates/a/src/lib.rs".to_owned(), "//! All.\n".to_owned())];
        let ring = ["a", "b", "c", "d", "e"];
        for (at, name) in ring.iter().enumerate() {
            texts.push((format!("crates/a/src/{name}.rs"), text(ring[(at + 1) % 5])));
        }
        for (name, next) in [("x", "y"), ("y", "x")] {
            texts.push((format!("crates/a/src/{name}.rs"), text(next)));
            texts.push((format!("crates/a/src/{name}/below.rs"), "//! Below.\n".to_owned()));
        }
        let texts: Vec<(&str, &str)> = texts.iter().map(|(path, text)| (path.as_str(), text.as_str())).collect();
        let tree = Tree::from_texts(&texts);
        let mut findings = Vec::new();
        for level in levels(&programs(&tree)[0]) {
            judge("crates/a/src", &level, &mut findings);
        }
        let found: Vec<&str> = findings.iter().map(|finding| &finding.message[..9]).collect();
        assert_eq!(found, ["5 modules", "2 modules"]);
    }
}
