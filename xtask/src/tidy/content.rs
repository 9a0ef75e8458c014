//! What may not stand in a file: places of somebody's machine, big blobs, names that say nothing, `unsafe` upstairs.
//!
//! Invariants:
//! - The words looked for are written here in pieces, so that this file passes its own check.

use super::Finding;
use crate::code;
use crate::files::File;

/// The most bytes of a file.
const FILE_BYTES_MAX: u64 = 512 << 10;

/// Names of modules that say nothing about what is in them.
const NAMES_FORBIDDEN: &[&str] = &["common", "util", "utils", "helper", "helpers", "manager", "misc"];

/// Where `unsafe` may stand.
const UNSAFE_ROOMS: &[&str] = &[
    "crates/engine/src/device/",
    "crates/kv/src/wire/shared/",
    "crates/fuse/",
    "bindings/",
    "plugins/",
    // Two numbers of the allocator.
    "crates/cli/src/allocator.rs",
    // A reference of the benchmarks, whose own interface is unsafe.
    "crates/bench/src/stores/kinds/lmdb.rs",
];

/// Folders that exist on one machine only.
const PLACES_FORBIDDEN: &[&str] = &[concat!("/wo", "rk/"), concat!("/ro", "ot/"), concat!("/ho", "me/")];

/// Ways to name a package registry other than the default one of each tool.
const REGISTRIES_FORBIDDEN: &[&str] = &[
    concat!("index", "-url"),
    concat!("GO", "PROXY="),
    concat!("arti", "factory"),
    concat!("nex", "us/repository"),
    concat!("registry", " = \"http"),
    concat!("registry", "=http"),
    concat!("replace", "-with"),
];

/// The one source that a lock file may name.
const LOCK_SOURCE: &str = "registry+https://github.com/rust-lang/crates.io-index";

/// Rules for every file.
pub fn check(file: &File, findings: &mut Vec<Finding>) {
    if file.size > FILE_BYTES_MAX {
        let message = format!("{} bytes, {FILE_BYTES_MAX} is the most; make it when it is needed instead", file.size);
        findings.push(Finding::new(&file.path, 1, message));
    }
    let Some(text) = file.text.as_deref() else { return };
    let lock = file.path.ends_with("Cargo.lock");
    for (index, line) in text.lines().enumerate() {
        if let Some(place) = PLACES_FORBIDDEN.iter().find(|place| names_place(line, place)) {
            let message = format!("`{place}…` exists on one machine only; use a relative path or a variable");
            findings.push(Finding::new(&file.path, index + 1, message));
        }
        if let Some(word) = REGISTRIES_FORBIDDEN.iter().find(|word| line.contains(*word)) {
            let message = format!("`{word}` names a package registry; leave that to the user's configuration");
            findings.push(Finding::new(&file.path, index + 1, message));
        }
        if lock && line.starts_with("source = ") && !line.contains(LOCK_SOURCE) {
            findings.push(Finding::new(&file.path, index + 1, "a package from outside crates.io; use a released one"));
        }
    }
}

/// Whether a line names a folder by its absolute path (and not as the tail of a longer one).
fn names_place(line: &str, place: &str) -> bool {
    line.match_indices(place).any(|(at, _)| {
        let before = line[..at].chars().next_back();
        !before.is_some_and(|c| c.is_alphanumeric() || matches!(c, '_' | '-' | '.' | '}' | ')' | '/' | '~' | '*' | '$'))
    })
}

/// Rules for Rust files, given also the code without comments and literals.
pub fn check_rust(path: &str, text: &str, code: &str, findings: &mut Vec<Finding>) {
    if !text.starts_with("//!") {
        findings.push(Finding::new(
            path,
            1,
            "begin the file with `//!`: what it is, its invariants, what it does not do",
        ));
    }
    let mut parts = path.trim_end_matches(".rs").split('/').filter(|part| *part != "mod");
    if let Some(name) = parts.find(|part| NAMES_FORBIDDEN.contains(part)) {
        findings.push(Finding::new(path, 1, format!("`{name}` says nothing; name it after the concept inside")));
    }
    if UNSAFE_ROOMS.iter().any(|room| path.starts_with(room)) {
        return;
    }
    for (index, line) in code.lines().enumerate() {
        if code::words(line).any(|(_, word)| word == "unsafe") {
            let rooms = UNSAFE_ROOMS.join(", ");
            findings.push(Finding::new(path, index + 1, format!("`unsafe` stands only in {rooms}; ask one of them")));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn findings_of(path: &str, text: &str) -> Vec<usize> {
        let file = File { path: path.to_owned(), size: text.len() as u64, text: Some(text.to_owned()) };
        let mut findings = Vec::new();
        check(&file, &mut findings);
        if path.ends_with(".rs") {
            check_rust(path, text, &code::blank(text), &mut findings);
        }
        findings.iter().map(|finding| finding.line).collect()
    }

    #[test]
    fn places_and_registries_are_found() {
        let check = |path: &str, text: &str, lines: &[usize]| assert_eq!(findings_of(path, text), lines, "{text}");
        check("a.md", concat!("fine\ncd /wo", "rk/x\n"), &[2]);
        check("a.md", "a/work/b ./root/x ${DIR}/home/x\n", &[]);
        check("a.sh", concat!("pip install --index", "-url https://x\n"), &[1]);
        check("Cargo.lock", "source = \"registry+https://github.com/rust-lang/crates.io-index\"\n", &[]);
        check("Cargo.lock", "source = \"git+https://example.com/x\"\n", &[1]);
    }

    #[test]
    fn headers_names_and_unsafe_are_judged() {
        let check =
            |path: &str, text: &str, lines: &[usize]| assert_eq!(findings_of(path, text), lines, "{path} {text}");
        check("crates/kv/src/seam.rs", "//! Seam.\n// unsafe in a comment\nlet a = \"unsafe\";\n", &[]);
        check("crates/kv/src/seam.rs", "//! Seam.\nunsafe { x() }\n", &[2]);
        check("crates/engine/src/device/direct.rs", "//! Direct.\nunsafe { x() }\n", &[]);
        check("crates/kv/src/util.rs", "//! Things.\n", &[1]);
        check("crates/kv/src/helper/mod.rs", "//! Things.\n", &[1]);
        check("crates/kv/src/seam.rs", "use x;\n", &[1]);
    }

    #[test]
    fn big_files_are_found() {
        let file = File { path: "a.bin".to_owned(), size: FILE_BYTES_MAX + 1, text: None };
        let mut findings = Vec::new();
        check(&file, &mut findings);
        assert_eq!(findings.len(), 1);
    }
}
