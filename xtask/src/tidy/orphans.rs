//! Orphans: Rust files that no `mod` declaration reaches, so that nobody compiles them.
//!
//! Invariants:
//! - The search starts at what cargo builds by itself: lib, main, bin, tests, benches, examples, build script.
//! - `#[path]` and inline modules are followed.

use std::collections::BTreeSet;

use super::Finding;
use crate::code;
use crate::files::Tree;

/// Adds every Rust file that cannot be reached.
pub fn check(tree: &Tree, findings: &mut Vec<Finding>) {
    let mut reached = BTreeSet::new();
    let mut open: Vec<String> = tree.files.iter().map(|file| file.path.clone()).filter(|path| is_root(path)).collect();
    while let Some(path) = open.pop() {
        if let Some(text) = tree.get(&path).and_then(|file| file.text.as_deref())
            && reached.insert(path.clone())
        {
            open.extend(modules(&path, text));
        }
    }
    for file in &tree.files {
        if file.path.ends_with(".rs") && !reached.contains(&file.path) {
            findings.push(Finding::new(&file.path, 1, "no `mod` reaches this file; declare it or delete it"));
        }
    }
}

/// Whether cargo builds this file without being told.
fn is_root(path: &str) -> bool {
    let Some((folder, name)) = path.rsplit_once('/') else { return false };
    if !name.ends_with(".rs") {
        return false;
    }
    let last = folder.rsplit('/').next().unwrap_or(folder);
    match last {
        "src" => name == "lib.rs" || name == "main.rs",
        // Fuzz targets are named in their Cargo.toml.
        "bin" | "fuzz_targets" => true,
        "tests" | "benches" | "examples" => !folder.contains("/src"),
        _ => name == "build.rs" || (name == "main.rs" && is_target_folder(folder)),
    }
}

/// `tests/NAME`, `benches/NAME`, `examples/NAME`, `src/bin/NAME` hold a `main.rs` each.
fn is_target_folder(folder: &str) -> bool {
    let Some((parent, _)) = folder.rsplit_once('/') else { return false };
    ["/tests", "/benches", "/examples", "/src/bin"].iter().any(|end| parent.ends_with(end))
}

/// The files that the `mod` declarations of a file may mean (both spellings of each).
fn modules(path: &str, text: &str) -> Vec<String> {
    let code = code::blank(text);
    let (folder, name) = path.rsplit_once('/').unwrap_or(("", path));
    let stem = name.trim_end_matches(".rs");
    // A module's children lie beside it when it is a root or a `mod.rs`, else in a folder of its name.
    let own = if name == "mod.rs" || is_root(path) { folder.to_owned() } else { format!("{folder}/{stem}") };
    let mut inline: Vec<(String, usize)> = Vec::new();
    let mut depth = 0_usize;
    let mut given_path: Option<String> = None;
    let mut found = Vec::new();
    for (line, original) in code.lines().zip(text.lines()) {
        if line.trim_start().starts_with("#[path") {
            given_path = original.split('"').nth(1).map(str::to_owned);
        }
        if let Some(name) = declared(line) {
            let inner: String = inline.iter().map(|(name, _)| format!("/{name}")).collect();
            if line.contains(';') {
                match given_path.take() {
                    Some(given) => found.push(format!("{folder}{inner}/{given}")),
                    None => found.extend([format!("{own}{inner}/{name}.rs"), format!("{own}{inner}/{name}/mod.rs")]),
                }
            } else if line.contains('{') {
                inline.push((name.to_owned(), depth));
            }
        }
        for byte in line.bytes() {
            match byte {
                b'{' => depth += 1,
                b'}' => {
                    depth = depth.saturating_sub(1);
                    inline.retain(|(_, at)| *at < depth);
                }
                _ => {}
            }
        }
    }
    found
}

/// The name after `mod` when the line declares a module.
fn declared(line: &str) -> Option<&str> {
    let mut words = code::words(line);
    let (column, name) = loop {
        let (_, word) = words.next()?;
        match word {
            "mod" => break words.next()?,
            "pub" | "crate" | "super" | "in" | "self" => {}
            _ => return None,
        }
    };
    line[column + name.len()..].trim_start().starts_with([';', '{']).then_some(name)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn files_that_no_mod_reaches_are_found() {
        let tree = Tree::from_texts(&[
            (
                "a/src/lib.rs",
                "mod b;\npub(crate) mod c;\n// mod lost;\nmod x {\n  mod y;\n}\n#[path = \"odd/z.rs\"]\nmod z;\n",
            ),
            ("a/src/b.rs", "mod deep;\n"),
            ("a/src/b/deep.rs", ""),
            ("a/src/c/mod.rs", "#[cfg(test)]\nmod tests;\n"),
            ("a/src/c/tests.rs", ""),
            ("a/src/x/y.rs", ""),
            ("a/src/odd/z.rs", ""),
            ("a/src/lost.rs", ""),
            ("a/src/c/lost.rs", ""),
            ("a/src/bin/tool.rs", ""),
            ("a/tests/one.rs", "mod shared;\n"),
            ("a/tests/shared/mod.rs", ""),
            ("a/tests/shared/lost.rs", ""),
            ("a/tests/two/main.rs", "mod part;\n"),
            ("a/tests/two/part.rs", ""),
            ("a/build.rs", ""),
        ]);
        let mut findings = Vec::new();
        check(&tree, &mut findings);
        let found: Vec<&str> = findings.iter().map(|finding| finding.file.as_str()).collect();
        assert_eq!(found, ["a/src/c/lost.rs", "a/src/lost.rs", "a/tests/shared/lost.rs"]);
    }
}
