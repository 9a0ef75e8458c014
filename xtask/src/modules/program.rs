//! The modules of a crate and where a name in one of them comes from.
//!
//! Invariants:
//! - A module is known by its path in the crate, `""` being the crate's root.
//! - A name that another module gives on is followed to where it is defined.

use std::collections::BTreeMap;

use super::names::{self, Names, Path};
use crate::code;
use crate::files::Tree;

/// So many times a name is followed from module to module.
const FOLLOWED_MAX: usize = 16;

/// A crate's modules.
pub struct Program {
    /// The folder of the crate, `crates/engine`.
    pub folder: String,
    /// Each module without those of tests.
    modules: BTreeMap<String, Names>,
}

/// A module that imports a name which another one defines.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Import<'a> {
    /// Who imports.
    pub from: &'a str,
    /// Where it is defined.
    pub to: &'a str,
    /// What.
    pub name: &'a str,
}

/// Every crate that has sources of its own.
pub fn programs(tree: &Tree) -> Vec<Program> {
    let mut crates: BTreeMap<String, BTreeMap<String, Names>> = BTreeMap::new();
    for file in &tree.files {
        let Some((folder, rest)) = file.path.split_once("/src/") else { continue };
        let Some(module) = rest.strip_suffix(".rs").filter(|_| !folder.starts_with("examples/")) else { continue };
        let Some(text) = file.text.as_deref() else { continue };
        let module = match module {
            "lib" | "main" => "",
            other => other.strip_suffix("/mod").unwrap_or(other),
        };
        crates.entry(folder.to_owned()).or_default().insert(module.replace('/', "::"), names::read(&code::blank(text)));
    }
    let program = |(folder, modules)| Program { folder, modules: without_tests(modules) };
    crates.into_iter().map(program).collect()
}

/// Leaves out modules that their parents have for tests.
fn without_tests(mut modules: BTreeMap<String, Names>) -> BTreeMap<String, Names> {
    let tests: Vec<String> =
        modules.iter().flat_map(|(module, names)| names.test_modules.iter().map(|child| join(module, child))).collect();
    modules.retain(|module, _| !tests.iter().any(|test| is_within(module, test)));
    modules
}

/// A child's path.
pub fn join(module: &str, child: &str) -> String {
    if module.is_empty() { child.to_owned() } else { format!("{module}::{child}") }
}

/// Whether a module is `ancestor` or lies below it.
pub fn is_within(module: &str, ancestor: &str) -> bool {
    module.strip_prefix(ancestor).is_some_and(|rest| ancestor.is_empty() || rest.is_empty() || rest.starts_with("::"))
}

/// The module around one.
pub fn parent(module: &str) -> &str {
    module.rsplit_once("::").map_or("", |(parent, _)| parent)
}

impl Program {
    /// The paths of the modules.
    pub fn modules(&self) -> impl Iterator<Item = &str> {
        self.modules.keys().map(String::as_str)
    }

    /// Whether others lie below a module.
    pub fn is_folder(&self, module: &str) -> bool {
        let below = join(module, "");
        self.modules.range(below.clone()..).next().is_some_and(|(other, _)| other.starts_with(&below))
    }

    /// Every import within the crate.
    pub fn imports(&self) -> Vec<Import<'_>> {
        let mut found = Vec::new();
        for (module, names) in &self.modules {
            let paths = names.imports.values().chain(&names.globs).chain(&names.paths);
            for path in paths {
                if let Some(to) = self.defined_in(module, path, 0).filter(|to| to != module) {
                    found.push(Import { from: module, to, name: path.last().map_or("", String::as_str) });
                }
            }
        }
        found.sort_unstable();
        found.dedup();
        found
    }

    /// The module in which what `path` says, read in `module`, is defined.
    fn defined_in(&self, module: &str, path: &Path, followed: usize) -> Option<&str> {
        if followed > FOLLOWED_MAX {
            return None;
        }
        let mut parts = path.iter().map(String::as_str).peekable();
        let mut at = module.to_owned();
        match *parts.peek()? {
            "crate" => {
                at.clear();
                parts.next();
            }
            "self" => {
                parts.next();
            }
            "super" => {}
            first => {
                // A child, or a name that is brought in here.
                if !self.modules.contains_key(&join(module, first)) {
                    let target = self.modules.get(module)?.imports.get(first)?;
                    if target == path || target.first().is_some_and(|target| target == first) {
                        return None;
                    }
                    let whole: Path = target.iter().cloned().chain(path[1..].iter().cloned()).collect();
                    return self.defined_in(module, &whole, followed + 1);
                }
            }
        }
        while parts.next_if_eq(&"super").is_some() {
            at = parent(&at).to_owned();
        }
        while let Some(child) = parts.peek().map(|part| join(&at, part)) {
            if !self.modules.contains_key(&child) {
                break;
            }
            at = child;
            parts.next();
        }
        let rest: Path = parts.map(str::to_owned).collect();
        self.follow(&at, &rest, followed)
    }

    /// Goes on where `module` only gives the name on.
    fn follow(&self, module: &str, rest: &Path, followed: usize) -> Option<&str> {
        let (key, names) = self.modules.get_key_value(module)?;
        let Some(name) = rest.first() else { return Some(key) };
        if names.items.contains(name) {
            return Some(key);
        }
        if let Some(target) = names.imports.get(name) {
            let whole: Path = target.iter().cloned().chain(rest[1..].iter().cloned()).collect();
            let own_name = whole.first() == Some(name) && !self.modules.contains_key(&join(module, name));
            // What comes from another crate is given on by this one: nothing of ours.
            return if own_name { None } else { self.defined_in(module, &whole, followed + 1) };
        }
        let through = |glob: &Path| {
            let target = self.defined_in(module, glob, followed + 1)?;
            let whole: Path = std::iter::once("crate".to_owned())
                .chain(target.split("::").filter(|part| !part.is_empty()).map(str::to_owned))
                .chain(rest.iter().cloned())
                .collect();
            let found = self.defined_in("", &whole, followed + 1)?;
            self.modules.get(found)?.items.contains(name).then_some(found)
        };
        Some(names.globs.iter().find_map(through).unwrap_or(key))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_followed_to_where_they_are_defined() {
        let tree = Tree::from_texts(&[
            (
                "crates/a/src/lib.rs",
                "mod b;\nmod c;\nmod d;\npub use c::Thing;\npub use d::*;\n#[cfg(test)]\nmod tests;",
            ),
            (
                "crates/a/src/b.rs",
                "use crate::{Thing, Other};\nuse std::fmt;\nfn f() { super::c::inner::g(); fmt::h(); }",
            ),
            ("crates/a/src/c/mod.rs", "pub mod inner;\npub struct Thing;"),
            ("crates/a/src/c/inner.rs", "use super::Thing;\npub fn g() {}"),
            ("crates/a/src/d.rs", "pub struct Other;"),
            ("crates/a/src/tests.rs", "use crate::b;"),
        ]);
        let programs = programs(&tree);
        assert_eq!(programs.len(), 1);
        let mut imports: Vec<_> = programs[0].imports().into_iter().map(|import| (import.from, import.to)).collect();
        imports.dedup();
        assert_eq!(imports, [("", "c"), ("", "d"), ("b", "c"), ("b", "c::inner"), ("b", "d"), ("c::inner", "c")]);
        assert!(programs[0].is_folder("c") && !programs[0].is_folder("b"));
    }
}
