//! The tidy check: style that a program can judge is judged by a program.
//!
//! Invariants:
//! - Every finding names a file, a line and what to do.
//! - Only what git tracks (or would track) is read; nothing is changed.
//! - Each rule is a plain function over text, tested beside its code.

mod capabilities;
mod circles;
mod content;
mod floors;
mod length;
mod links;
mod orphans;

use std::fmt;
use std::path::Path;
use std::process::ExitCode;

use crate::code;
use crate::files::Tree;

/// One thing that is wrong, where, and what to do.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Finding {
    /// Path from the root of the repository.
    pub file: String,
    /// Counted from one.
    pub line: usize,
    /// What is wrong and what to do.
    pub message: String,
}

impl Finding {
    /// A finding at a line (counted from one).
    pub fn new(file: &str, line: usize, message: impl Into<String>) -> Self {
        Finding { file: file.to_owned(), line, message: message.into() }
    }
}

impl fmt::Display for Finding {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}:{}: {}", self.file, self.line, self.message)
    }
}

/// Checks the repository under `root` and prints what is wrong.
pub fn run(root: &Path) -> ExitCode {
    let tree = match Tree::read(root) {
        Ok(tree) => tree,
        Err(error) => {
            eprintln!("tidy: {}: {error}", root.display());
            return ExitCode::from(2);
        }
    };
    let findings = check(&tree);
    for finding in &findings {
        println!("{finding}");
    }
    println!("tidy: {} files read, {} findings", tree.files.len(), findings.len());
    if findings.is_empty() { ExitCode::SUCCESS } else { ExitCode::FAILURE }
}

/// Every rule over every file.
fn check(tree: &Tree) -> Vec<Finding> {
    let mut findings = Vec::new();
    for file in &tree.files {
        content::check(file, &mut findings);
        let Some(text) = file.text.as_deref() else { continue };
        if file.path.ends_with(".rs") {
            let code = code::blank(text);
            content::check_rust(&file.path, text, &code, &mut findings);
            length::check(&file.path, &code, &mut findings);
        }
        if file.path.ends_with("Cargo.toml") {
            floors::check(&file.path, text, &mut findings);
        }
    }
    orphans::check(tree, &mut findings);
    links::check(tree, &mut findings);
    capabilities::check(tree, &mut findings);
    circles::check(tree, &mut findings);
    findings.sort();
    findings
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_clean_tree_has_no_findings_and_a_dirty_one_has_each() {
        let clean = Tree::from_texts(&[
            ("crates/env/Cargo.toml", "[package]\nname = \"koine-env\"\n"),
            ("crates/env/src/lib.rs", "//! Head.\nmod clock;\n"),
            ("crates/env/src/clock.rs", "//! Clock.\nfn now() {}\n"),
        ]);
        assert_eq!(check(&clean), []);

        let dirty = Tree::from_texts(&[
            ("crates/env/Cargo.toml", "[package]\nname = \"koine-env\"\n[dependencies]\nkoine-kv.workspace = true\n"),
            ("crates/env/src/lib.rs", "mod clock;\n"),
            ("crates/env/src/clock.rs", "//! Clock.\n"),
            ("crates/env/src/lost.rs", "//! Lost.\n"),
        ]);
        let found: Vec<(String, usize)> = check(&dirty).into_iter().map(|f| (f.file, f.line)).collect();
        let expected = [("crates/env/Cargo.toml", 4), ("crates/env/src/lib.rs", 1), ("crates/env/src/lost.rs", 1)];
        assert_eq!(found, expected.map(|(file, line)| (file.to_owned(), line)));
    }

    #[test]
    fn this_repository_is_tidy_about_itself() {
        let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("..");
        let tree = Tree::read(&root).expect("repository");
        let own: Vec<Finding> = check(&tree).into_iter().filter(|f| f.file.starts_with("xtask/")).collect();
        assert_eq!(own, []);
    }
}
