//! Capabilities: docs/capabilities.md has a row for each id of the project's list, with a state that is one of three.
//!
//! Invariant: what is not begun has a row that says so; a row that names no test is not done.

use super::Finding;
use crate::files::Tree;

/// The document.
const PAGE: &str = "docs/capabilities.md";
/// The letters of the list and how many ids each has.
const IDS: &[(char, u32)] = &[('L', 13), ('H', 19), ('M', 7), ('E', 8), ('A', 9), ('C', 9), ('K', 5)];

/// Checks the page.
pub fn check(tree: &Tree, findings: &mut Vec<Finding>) {
    let Some(text) = tree.get(PAGE).and_then(|file| file.text.as_deref()) else { return };
    let mut there = Vec::new();
    for (index, line) in text.lines().enumerate() {
        let cells: Vec<&str> = line.split(" | ").map(|cell| cell.trim_matches(['|', ' '])).collect();
        let Some(id) = cells.first().filter(|cell| line.starts_with('|') && is_id(cell)) else { continue };
        there.push((*id).to_owned());
        let (state, tests) = (cells.get(1).copied().unwrap_or_default(), cells.get(4).copied().unwrap_or_default());
        let wrong = match state {
            "done" if tests.is_empty() => "is done and names no test; name it, or say `part`",
            "done" | "part" | "not begun" => continue,
            _ => "has another state than done, part or not begun",
        };
        findings.push(Finding::new(PAGE, index + 1, format!("{id} {wrong}")));
    }
    for (letter, count) in IDS {
        for id in (1..=*count).map(|number| format!("{letter}{number}")).filter(|id| !there.contains(id)) {
            findings.push(Finding::new(
                PAGE,
                1,
                format!("{id} has no row; add one, `not begun` where it is not begun"),
            ));
        }
    }
}

fn is_id(cell: &str) -> bool {
    let known =
        |letter: char, number: u32| IDS.iter().any(|(known, count)| *known == letter && (1..=*count).contains(&number));
    let mut letters = cell.chars();
    letters.next().is_some_and(|letter| letters.as_str().parse().is_ok_and(|number| known(letter, number)))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn found(without: &str, row: &str) -> Vec<String> {
        let ids = IDS.iter().flat_map(|(letter, count)| (1..=*count).map(move |number| format!("{letter}{number}")));
        let rows: String = ids
            .filter(|id| id != without)
            .map(|id| format!("| {id} | part | a thing | `there` | `test` |\n"))
            .collect();
        let tree = Tree::from_texts(&[(PAGE, &format!("| id | state | what | where | tests |\n{rows}{row}\n"))]);
        let mut findings = Vec::new();
        check(&tree, &mut findings);
        findings.into_iter().map(|finding| finding.message).collect()
    }

    #[test]
    fn every_id_has_a_row_with_a_state() {
        assert_eq!(found("", ""), Vec::<String>::new());
        assert!(found("A7", "")[0].starts_with("A7 has no row"));
        assert_eq!(found("A7", "| A7 | not begun | a thing | | |"), Vec::<String>::new());
        assert!(found("A7", "| A7 | soon | a thing | | |")[0].contains("another state"));
        assert!(found("A7", "| A7 | done | a thing | `there` | |")[0].contains("names no test"));
        assert_eq!(found("", "| A10 | no id of ours | |"), Vec::<String>::new());
    }
}
