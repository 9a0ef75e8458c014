//! Links: what a document points to inside the repository is there.
//!
//! Invariant: only relative links are judged; the network is never asked.

use super::Finding;
use crate::files::Tree;

/// Checks the links of every document.
pub fn check(tree: &Tree, findings: &mut Vec<Finding>) {
    for file in tree.files.iter().filter(|file| file.path.ends_with(".md")) {
        let folder = file.path.rsplit_once('/').map_or("", |(folder, _)| folder);
        for (index, line) in file.text.as_deref().unwrap_or_default().lines().enumerate() {
            for link in links(line).filter(|link| !leads_to_something(tree, folder, link)) {
                let message = format!("nothing is at `{link}`; mend the link or write what it promises");
                findings.push(Finding::new(&file.path, index + 1, message));
            }
        }
    }
}

/// The targets of a line's links that lie inside the repository, without anchors.
fn links(line: &str) -> impl Iterator<Item = &str> {
    line.split("](").skip(1).filter_map(|rest| {
        let target = rest.split([')', '#', ' ']).next()?;
        (!target.is_empty() && !target.contains("://") && !target.starts_with("mailto:")).then_some(target)
    })
}

fn leads_to_something(tree: &Tree, folder: &str, link: &str) -> bool {
    let mut parts: Vec<&str> = if link.starts_with('/') { vec![] } else { folder.split('/').collect() };
    for part in link.split('/') {
        match part {
            "" | "." => {}
            ".." => drop(parts.pop()),
            name => parts.push(name),
        }
    }
    parts.retain(|part| !part.is_empty());
    let path = parts.join("/");
    let inside = format!("{path}/");
    path.is_empty() || tree.get(&path).is_some() || tree.files.iter().any(|file| file.path.starts_with(&inside))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn links_lead_to_files_and_folders() {
        let text =
            "[a](b.md#x) [c](../x) [d](https://e/f) [g](#h)\n[i](missing.md), [j](sub/) [k](../docs)\n[l](../..)\n";
        let tree = Tree::from_texts(&[("docs/a.md", text), ("docs/b.md", ""), ("docs/sub/c.md", ""), ("x", "")]);
        let mut findings = Vec::new();
        check(&tree, &mut findings);
        let found: Vec<(&str, usize)> =
            findings.iter().map(|f| (f.message.split('`').nth(1).unwrap_or(""), f.line)).collect();
        assert_eq!(found, [("missing.md", 2)]);
    }
}
