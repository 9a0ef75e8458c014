//! Floors: which crate may import which, read from each `Cargo.toml`.
//!
//! Invariants:
//! - A lower floor never imports a higher one; rooms on one floor never import each other.
//! - Tests (`[dev-dependencies]`) may use any lower floor, never a higher one; and features of their own crate.
//! - A crate of ours that this table does not know is a finding: the plan comes before the room.

use super::Finding;

/// A crate's place in the building.
struct Room {
    name: &'static str,
    floor: u8,
    imports: &'static [&'static str],
}

const fn room(name: &'static str, floor: u8, imports: &'static [&'static str]) -> Room {
    Room { name, floor, imports }
}

/// Everything below the doors, as the facade and the benchmarks may see it.
const BELOW: &[&str] = &["env", "engine", "kv", "object", "document", "cluster", "file"];
const BELOW_AND_DOORS: &[&str] =
    &["env", "engine", "kv", "object", "document", "cluster", "file", "gateway", "fuse", "facade"];

/// The plan of the building (docs/architecture.md).
const ROOMS: &[Room] = &[
    room("env", 0, &[]),
    room("engine", 1, &["env"]),
    room("kv", 2, &["engine", "env"]),
    room("object", 3, &["kv", "env"]),
    room("document", 3, &["kv", "env"]),
    room("cluster", 3, &["kv", "env"]),
    room("file", 4, &["object", "env"]),
    room("gateway", 5, &["object", "document", "env"]),
    room("fuse", 5, &["file"]),
    room("facade", 5, BELOW),
    room("sim", 6, BELOW_AND_DOORS),
    room("bench", 6, BELOW_AND_DOORS),
    room("cli", 7, &["facade", "gateway", "fuse", "bench"]),
    room("binding", 7, &["facade"]),
    room("plugin", 7, &["facade"]),
    room("xtask", 7, &[]),
];

/// Checks one `Cargo.toml`.
pub fn check(path: &str, text: &str, findings: &mut Vec<Finding>) {
    let Some(own) = own_room(path) else { return };
    let Some(room) = find(own) else {
        let message = format!("crate `{own}` has no place in the building; add it to xtask/src/tidy/floors.rs");
        findings.push(Finding::new(path, 1, message));
        return;
    };
    let mut section = Section::Other;
    for (index, line) in text.lines().enumerate() {
        let line = line.trim();
        if let Some(header) = line.strip_prefix('[') {
            section = Section::of(header.trim_end_matches(']'));
            // `[dependencies.koine-kv]` names the crate in the header.
            if let Some((_, name)) = header.trim_end_matches(']').split_once("dependencies.") {
                judge(path, index + 1, room, section, name, findings);
            }
        } else if section != Section::Other {
            let end = line.find(|c: char| !(c.is_ascii_alphanumeric() || c == '-' || c == '_')).unwrap_or(line.len());
            judge(path, index + 1, room, section, &line[..end], findings);
        }
    }
}

/// Which list of dependencies a line stands in.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Section {
    Normal,
    Tests,
    Other,
}

impl Section {
    fn of(header: &str) -> Section {
        let list = header.rsplit_once("'.").map_or(header, |(_, list)| list);
        match list.split('.').next().unwrap_or(list) {
            "dependencies" | "build-dependencies" => Section::Normal,
            "dev-dependencies" => Section::Tests,
            _ => Section::Other,
        }
    }
}

/// Adds a finding when `room` may not import the crate of this name.
fn judge(path: &str, line: usize, room: &Room, section: Section, dependency: &str, findings: &mut Vec<Finding>) {
    let Some(name) = room_of_package(dependency) else { return };
    let allowed = match section {
        Section::Other => true,
        Section::Normal => room.imports.contains(&name),
        // A crate's tests may ask for a feature of itself.
        Section::Tests => {
            let is_below = find(name).is_some_and(|other| other.floor < room.floor);
            room.name == name || room.imports.contains(&name) || is_below
        }
    };
    if !allowed {
        let may = if room.imports.is_empty() { "nothing of ours".to_owned() } else { room.imports.join(", ") };
        let message =
            format!("`{}` may not import `{name}`: it may import {may}; move the code to its floor", room.name);
        findings.push(Finding::new(path, line, message));
    }
}

fn find(name: &str) -> Option<&'static Room> {
    ROOMS.iter().find(|room| room.name == name)
}

/// The room of the crate whose `Cargo.toml` this is; `None` for the workspace's own.
fn own_room(path: &str) -> Option<&str> {
    let folder = path.strip_suffix("/Cargo.toml")?;
    if folder.starts_with("bindings/") {
        return Some("binding");
    }
    if folder.starts_with("plugins/") {
        return Some("plugin");
    }
    // Workspaces of their own; examples stand outside the building, as those who write like them do.
    if folder == "fuzz" || folder.starts_with("fuzz/") || folder.starts_with("examples/") {
        return None;
    }
    Some(match folder.strip_prefix("crates/").unwrap_or(folder) {
        "koine" => "facade",
        other => other,
    })
}

/// The room of one of our packages, by the name that dependencies use.
fn room_of_package(package: &str) -> Option<&str> {
    match package {
        "koine" => Some("facade"),
        other => other.strip_prefix("koine-"),
    }
}

#[cfg(test)]
mod tests {
    #[test]
    fn imports_point_downwards() {
        let check = |path: &str, text: &str, lines: &[usize]| {
            let mut findings = Vec::new();
            super::check(path, text, &mut findings);
            let found: Vec<usize> = findings.iter().map(|finding| finding.line).collect();
            assert_eq!(found, lines, "{path}\n{text}\n{findings:?}");
        };
        check(
            "crates/kv/Cargo.toml",
            "[dependencies]\nkoine-engine.workspace = true\nkoine-env = {}\nbytes = \"1\"\n",
            &[],
        );
        check("crates/engine/Cargo.toml", "[dependencies]\nkoine-kv.workspace = true\n", &[2]);
        check("crates/gateway/Cargo.toml", "[dependencies]\nkoine = { path = \"../koine\" }\n", &[2]);
        check(
            "crates/gateway/Cargo.toml",
            "[dev-dependencies]\nkoine-kv.workspace = true\nkoine.workspace = true\n",
            &[3],
        );
        check("crates/object/Cargo.toml", "[dependencies.koine-document]\nversion = \"1\"\n", &[1]);
        check("crates/env/Cargo.toml", "[target.'cfg(unix)'.dependencies]\nkoine-kv = \"1\"\n", &[2]);
        check(
            "crates/cli/Cargo.toml",
            "[package]\nname = \"koine-cli\"\n[dependencies]\nkoine.workspace = true\n",
            &[],
        );
        check("crates/cli/Cargo.toml", "[dependencies]\nkoine-object.workspace = true\n", &[2]);
        check("crates/attic/Cargo.toml", "[package]\n", &[1]);
        check("plugins/preload/Cargo.toml", "[dependencies]\nkoine-kv.workspace = true\n", &[2]);
        check("examples/store/Cargo.toml", "[dependencies]\nkoine-kv = {}\n", &[]);
        check("Cargo.toml", "[workspace.dependencies]\nkoine-kv = {}\n", &[]);
    }
}
