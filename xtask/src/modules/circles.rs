//! Circles: modules of one folder that import each other.
//!
//! Invariant: the circles of a folder are its strongly connected parts; each module stands in exactly one row.

use std::collections::{BTreeMap, BTreeSet};

use super::program::{Program, is_within, join, parent};

/// The modules of one folder.
pub struct Level {
    /// The module whose folder it is.
    pub module: String,
    /// Each module and those of the same folder that it imports, with the names.
    pub imports: BTreeMap<String, BTreeMap<String, BTreeSet<String>>>,
    /// Those that others lie below.
    pub folders: BTreeSet<String>,
}

/// Every folder of a crate that has two modules or more.
pub fn levels(program: &Program) -> Vec<Level> {
    let mut levels: BTreeMap<String, Level> = BTreeMap::new();
    for module in program.modules().filter(|module| !module.is_empty()) {
        let around = parent(module);
        let level = levels.entry(around.to_owned()).or_insert_with(|| Level {
            module: around.to_owned(),
            imports: BTreeMap::new(),
            folders: BTreeSet::new(),
        });
        level.imports.entry(module.to_owned()).or_default();
        if program.is_folder(module) {
            level.folders.insert(module.to_owned());
        }
    }
    for import in program.imports() {
        let around = common(import.from, import.to);
        let (Some(from), Some(to)) = (child(import.from, around), child(import.to, around)) else { continue };
        if let Some(imports) = levels.get_mut(around).and_then(|level| level.imports.get_mut(&from)) {
            imports.entry(to).or_default().insert(import.name.to_owned());
        }
    }
    levels.into_values().filter(|level| level.imports.len() > 1).collect()
}

/// The innermost module that both lie in.
fn common<'a>(from: &'a str, to: &str) -> &'a str {
    let mut around = from;
    while !is_within(to, around) {
        around = parent(around);
    }
    around
}

/// The child of `around` that holds `module`; `None` for `around` itself.
fn child(module: &str, around: &str) -> Option<String> {
    let rest = if around.is_empty() { module } else { module.strip_prefix(around)?.strip_prefix("::")? };
    rest.split("::").next().filter(|name| !name.is_empty()).map(|name| join(around, name))
}

impl Level {
    /// Those that each module reaches over any number of imports.
    fn reached(&self) -> BTreeMap<&str, BTreeSet<&str>> {
        let mut all = BTreeMap::new();
        for start in self.imports.keys() {
            let (mut reached, mut open) = (BTreeSet::new(), vec![start.as_str()]);
            while let Some(at) = open.pop() {
                for next in self.imports.get(at).into_iter().flat_map(BTreeMap::keys) {
                    if reached.insert(next.as_str()) {
                        open.push(next);
                    }
                }
            }
            all.insert(start.as_str(), reached);
        }
        all
    }

    /// The modules in rows from the highest down. What stands together imports each other; one alone is in no circle.
    pub fn rows(&self) -> Vec<Vec<Vec<&str>>> {
        let reached = self.reached();
        let mut parts: Vec<Vec<&str>> = Vec::new();
        for module in self.imports.keys().map(String::as_str) {
            let part =
                parts.iter_mut().find(|part| reached[part[0]].contains(module) && reached[module].contains(part[0]));
            match part {
                Some(part) => part.push(module),
                None => parts.push(vec![module]),
            }
        }
        // A part stands one row above the highest one below it.
        let mut heights: BTreeMap<&str, usize> = BTreeMap::new();
        parts.sort_by_key(|part| reached[part[0]].iter().filter(|to| !part.contains(to)).count());
        for part in &parts {
            let below =
                part.iter().flat_map(|module| self.imports[*module].keys()).filter_map(|to| heights.get(to.as_str()));
            let height = below.max().map_or(0, |height| height + 1);
            heights.extend(part.iter().map(|module| (*module, height)));
        }
        let mut rows = vec![Vec::new(); heights.values().max().map_or(0, |height| height + 1)];
        let top = rows.len();
        parts.sort();
        for part in parts {
            rows[top - 1 - heights[part[0]]].push(part);
        }
        rows
    }

    /// The circles, the longest first.
    pub fn circles(&self) -> Vec<Vec<&str>> {
        let mut circles: Vec<_> = self.rows().into_iter().flatten().filter(|part| part.len() > 1).collect();
        circles.sort_by_key(|circle| (std::cmp::Reverse(circle.len()), circle[0]));
        circles
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn level(imports: &[(&str, &[&str])]) -> Level {
        let to = |names: &[&str]| names.iter().map(|name| ((*name).to_owned(), BTreeSet::new())).collect();
        let imports = imports.iter().map(|(from, names)| ((*from).to_owned(), to(names))).collect();
        Level { module: String::new(), imports, folders: BTreeSet::new() }
    }

    #[test]
    fn circles_are_found_and_rows_point_downwards() {
        let level = level(&[
            ("top", &["left", "right"]),
            ("left", &["ring_a"]),
            ("right", &["base"]),
            ("ring_a", &["ring_b"]),
            ("ring_b", &["ring_c", "base"]),
            ("ring_c", &["ring_a"]),
            ("base", &[]),
            ("alone", &[]),
        ]);
        assert_eq!(level.circles(), [["ring_a", "ring_b", "ring_c"]]);
        let expected = [
            vec![vec!["top"]],
            vec![vec!["left"]],
            vec![vec!["right"], vec!["ring_a", "ring_b", "ring_c"]],
            vec![vec!["alone"], vec!["base"]],
        ];
        assert_eq!(level.rows(), expected);
    }

    #[test]
    fn modules_are_compared_within_their_folder() {
        assert_eq!(common("a::b::c", "a::d"), "a");
        assert_eq!(common("a", "b"), "");
        assert_eq!(common("a::b", "a"), "a");
        assert_eq!(child("a::b::c", "a").as_deref(), Some("a::b"));
        assert_eq!(child("a", "a"), None);
        assert_eq!(child("", ""), None);
    }
}
