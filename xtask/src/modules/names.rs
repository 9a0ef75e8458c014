//! The names that one file imports, gives on and defines, read from its code.
//!
//! Invariant: the code was blanked before; an import that this cannot read is left out, never invented.

use std::collections::{BTreeMap, BTreeSet};

use crate::code::{is_word, words};

/// A path such as `crate::tree::Node`, in its parts.
pub type Path = Vec<String>;

/// What one file says about names.
#[derive(Default)]
pub struct Names {
    /// The paths that stand in the code, outside of `use`.
    pub paths: Vec<Path>,
    /// What each name stands for that a `use` brings in.
    pub imports: BTreeMap<String, Path>,
    /// Modules of which all names are brought in.
    pub globs: Vec<Path>,
    /// Names of items that are defined here.
    pub items: BTreeSet<String>,
    /// Child modules that are for tests only.
    pub test_modules: BTreeSet<String>,
}

/// Reads blanked code.
pub fn read(code: &str) -> Names {
    let mut names = Names::default();
    let code = without_tests(code, &mut names.test_modules);
    let (uses, rest) = take_uses(&code);
    for tree in uses {
        add_use(&tree, &mut names);
    }
    for line in rest.lines() {
        let all: Vec<_> = words(line).collect();
        for pair in all.windows(2) {
            let kinds = ["struct", "enum", "union", "trait", "type", "const", "static", "fn", "macro_rules"];
            if kinds.contains(&pair[0].1) {
                names.items.insert(pair[1].1.to_owned());
            }
        }
    }
    names.paths = paths(&rest);
    names
}

/// The code without items that only tests have; names of whole modules among them are noted.
fn without_tests(code: &str, test_modules: &mut BTreeSet<String>) -> String {
    let mut code = code.to_owned();
    let mut from = 0;
    while let Some(found) = code[from..].find("#[cfg(") {
        let start = from + found;
        let Some(end) = code[start..].find(']').map(|end| start + end + 1) else { break };
        let condition = &code[start..end];
        from = end;
        if !words(condition).any(|(_, word)| word == "test") || condition.contains("not(") {
            continue;
        }
        let item_end = end_of_item(&code, end);
        test_modules.extend(declared_module(&code[end..item_end]));
        let blank: String = code[start..item_end].chars().map(|c| if c == '\n' { '\n' } else { ' ' }).collect();
        code.replace_range(start..item_end, &blank);
    }
    code
}

/// The name in `mod name;`.
fn declared_module(item: &str) -> Option<String> {
    let mut after = words(item).map(|(_, word)| word).skip_while(|word| *word != "mod").skip(1);
    after.next().filter(|_| item.trim_end().ends_with(';')).map(str::to_owned)
}

/// Where the item that begins at `from` ends: behind its `;`, its `,` or its last brace.
fn end_of_item(code: &str, from: usize) -> usize {
    let mut depth = 0_usize;
    for (at, byte) in code.bytes().enumerate().skip(from) {
        match byte {
            b'{' | b'(' | b'[' => depth += 1,
            b'}' | b')' | b']' => {
                if depth == 0 {
                    return at;
                }
                depth -= 1;
                if depth == 0 && byte == b'}' {
                    return at + 1;
                }
            }
            b';' | b',' if depth == 0 => return at + 1,
            _ => {}
        }
    }
    code.len()
}

/// The trees behind each `use`, and the code without them.
fn take_uses(code: &str) -> (Vec<String>, String) {
    let (mut uses, mut rest) = (Vec::new(), String::with_capacity(code.len()));
    let mut from = 0;
    while let Some(found) = code[from..].find("use ") {
        let start = from + found;
        let stands_alone = start == 0 || !is_word(code.as_bytes()[start - 1]);
        let tree_start = start + "use ".len();
        match code[tree_start..].find(';').filter(|_| stands_alone) {
            Some(length) => {
                rest.push_str(&code[from..start]);
                uses.push(code[tree_start..tree_start + length].split_whitespace().collect::<Vec<_>>().join(" "));
                from = tree_start + length + 1;
            }
            None => {
                rest.push_str(&code[from..tree_start]);
                from = tree_start;
            }
        }
    }
    rest.push_str(&code[from..]);
    (uses, rest)
}

/// Takes one tree apart: `a::{b, c as d, e::*}`.
fn add_use(tree: &str, names: &mut Names) {
    let mut stack = vec![(Vec::new(), tree.to_owned())];
    while let Some((prefix, tree)) = stack.pop() {
        let (head, group) = match tree.find('{') {
            Some(at) => (&tree[..at], tree[at + 1..].rfind('}').map(|end| &tree[at + 1..at + 1 + end])),
            None => (tree.as_str(), None),
        };
        let mut path: Path = prefix;
        let (head, alias) = head.split_once(" as ").map_or((head, None), |(head, alias)| (head, Some(alias.trim())));
        path.extend(head.split("::").map(|part| part.trim().to_owned()).filter(|part| !part.is_empty()));
        if let Some(group) = group {
            stack.extend(split_at_commas(group).into_iter().map(|part| (path.clone(), part)));
            continue;
        }
        match path.last().map(String::as_str) {
            Some("*") => {
                path.pop();
                names.globs.push(path);
            }
            Some("self") if path.len() > 1 => {
                path.pop();
                let name = alias.map_or_else(|| path[path.len() - 1].clone(), str::to_owned);
                names.imports.insert(name, path);
            }
            Some(last) => {
                let name = alias.unwrap_or(last).to_owned();
                // `use a as _` brings in no name but still imports.
                let name = if name == "_" { format!("_ {}", path.join("::")) } else { name };
                names.imports.insert(name, path);
            }
            None => {}
        }
    }
}

/// The parts between commas that stand outside of braces.
fn split_at_commas(text: &str) -> Vec<String> {
    let (mut parts, mut depth) = (vec![String::new()], 0_usize);
    for c in text.chars() {
        match c {
            ',' if depth == 0 => {
                parts.push(String::new());
                continue;
            }
            '{' => depth += 1,
            '}' => depth = depth.saturating_sub(1),
            _ => {}
        }
        if let Some(part) = parts.last_mut() {
            part.push(c);
        }
    }
    parts.into_iter().map(|part| part.trim().to_owned()).filter(|part| !part.is_empty()).collect()
}

/// Every path of two parts and more.
fn paths(code: &str) -> Vec<Path> {
    let mut found = Vec::new();
    for line in code.lines() {
        let mut path: Path = Vec::new();
        let mut end = 0;
        for (at, word) in words(line) {
            let joined = !path.is_empty() && &line[end..at] == "::";
            if !joined {
                keep(&mut path, &mut found);
                // `pub(in crate::tree)` says who may see, and `.method::<…>` is of a value.
                let before = line[..at].trim_end();
                if before.ends_with("(in") || before.ends_with('.') || before.ends_with("::") {
                    end = at + word.len();
                    continue;
                }
            }
            path.push(word.to_owned());
            end = at + word.len();
        }
        keep(&mut path, &mut found);
    }
    found
}

fn keep(path: &mut Path, found: &mut Vec<Path>) {
    let path = std::mem::take(path);
    if path.len() > 1 {
        found.push(path);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn path(text: &str) -> Path {
        text.split("::").map(str::to_owned).collect()
    }

    #[test]
    fn what_a_file_imports_is_read() {
        let names = read(
            "use a::{b, c as d,\n  e::{self, *}, f as _};\npub(crate) use crate::g;\nfn h() { i::j::<K>(); l.m::<n::o>(); }",
        );
        let import = |name: &str| names.imports.get(name).map(|path| path.join("::"));
        assert_eq!(import("b").as_deref(), Some("a::b"));
        assert_eq!(import("d").as_deref(), Some("a::c"));
        assert_eq!(import("e").as_deref(), Some("a::e"));
        assert_eq!(import("g").as_deref(), Some("crate::g"));
        assert!(names.imports.values().any(|found| *found == path("a::f")));
        assert_eq!(names.globs, [path("a::e")]);
        assert!(names.items.contains("h"));
        assert_eq!(names.paths, [path("i::j"), path("n::o")]);
    }

    #[test]
    fn what_tests_import_does_not_count() {
        let names = read(
            "#[cfg(test)]\nmod tests;\n#[cfg(all(test, unix))]\nmod more { use a::b; }\n#[cfg(not(test))]\nuse c::d;\n\
             struct S { #[cfg(test)] e: f::G, h: i::J }\npub(in crate::k) fn l() {}",
        );
        assert_eq!(names.test_modules.iter().collect::<Vec<_>>(), ["tests"]);
        assert_eq!(names.imports.keys().collect::<Vec<_>>(), ["d"]);
        assert_eq!(names.paths, [path("i::J")]);
    }
}
