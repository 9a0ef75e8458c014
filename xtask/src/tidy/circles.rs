//! Circles of modules: how long they may be; and their pictures, which must be of today.
//!
//! Invariants:
//! - No circle has more than four modules, and none has two folders.
//! - What is still longer is named here with its length. It may become shorter, and this table with it, never longer.

use super::Finding;
use crate::files::Tree;
use crate::modules::{Level, levels, pictures, programs};

/// The most modules that may import each other in a circle.
const CIRCLE_MAX: usize = 4;

/// A circle that is longer than allowed, or has more than one folder: the folder it is in, its modules and how many of
/// them are folders.
struct Known {
    folder: &'static str,
    modules: usize,
    folders: usize,
}

const fn known(folder: &'static str, modules: usize, folders: usize) -> Known {
    Known { folder, modules, folders }
}

const KNOWN: &[Known] = &[
    known("crates/bench/src", 2, 2),
    known("crates/bench/src/wire", 6, 0),
    known("crates/cli/src", 3, 2),
    known("crates/cli/src/cp", 6, 1),
    known("crates/engine/src", 20, 9),
    known("crates/engine/src", 5, 3),
    known("crates/engine/src", 2, 2),
    known("crates/engine/src/apply", 5, 0),
    known("crates/engine/src/tree", 9, 0),
    known("crates/gateway/src", 7, 2),
];

/// Checks every crate.
pub fn check(tree: &Tree, findings: &mut Vec<Finding>) {
    for program in programs(tree) {
        for level in levels(&program) {
            let path = format!("{}/src/{}", program.folder, level.module.replace("::", "/"));
            judge(path.trim_end_matches('/'), &level, KNOWN, findings);
        }
    }
    for (path, picture) in pictures(tree) {
        if tree.get(&path).and_then(|file| file.text.as_deref()) != Some(&picture) {
            findings.push(Finding::new(&path, 1, "the modules are others by now; draw them: cargo xtask modules"));
        }
    }
}

fn judge(folder: &str, level: &Level, known: &[Known], findings: &mut Vec<Finding>) {
    let mut known: Vec<_> =
        known.iter().filter(|known| known.folder == folder).map(|k| (k.modules, k.folders)).collect();
    for circle in level.circles() {
        let folders = circle.iter().filter(|module| level.folders.contains(**module)).count();
        if circle.len() <= CIRCLE_MAX && folders <= 1 {
            continue;
        }
        if let Some(at) = known.iter().position(|known| *known == (circle.len(), folders)) {
            known.swap_remove(at);
            continue;
        }
        let message = format!(
            "{} modules import each other in a circle, {folders} of them folders: {}; have them import downwards (at most \
             {CIRCLE_MAX} modules and one folder may)",
            circle.len(),
            circle.join(", "),
        );
        findings.push(Finding::new(folder, 1, message));
    }
    for (modules, folders) in known {
        let message = format!(
            "there is no circle of {modules} modules with {folders} folders any more; take it out of xtask/src/tidy/circles.rs"
        );
        findings.push(Finding::new(folder, 1, message));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn long_circles_and_two_folders_are_found_unless_they_are_known() {
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
        let found = |known: &[Known]| {
            let mut findings = Vec::new();
            for level in levels(&programs(&tree)[0]) {
                judge("crates/a/src", &level, known, &mut findings);
            }
            findings.into_iter().map(|finding| finding.message[..9].to_owned()).collect::<Vec<_>>()
        };
        assert_eq!(found(&[]), ["5 modules", "2 modules"]);
        assert_eq!(found(&[known("crates/a/src", 5, 0)]), ["2 modules"]);
        assert_eq!(found(&[known("crates/a/src", 5, 0), known("crates/a/src", 2, 2)]), [""; 0]);
        assert_eq!(found(&[known("crates/a/src", 6, 0)]), ["5 modules", "2 modules", "there is "]);
    }
}
