//! A picture of one folder's modules: rows, each of which imports from those below only.
//!
//! Invariant: the same modules give the same bytes.

use std::fmt::Write as _;

use super::circles::Level;

const WIDTH: usize = 960;
const MARGIN: usize = 16;
const BOX_HEIGHT: usize = 24;
const GAP: usize = 8;
const ROW_GAP: usize = 18;
const LETTER_WIDTH: usize = 7;

/// Draws a folder as SVG.
pub fn draw(title: &str, level: &Level) -> String {
    let mut body = String::new();
    let mut y = 44;
    for (index, row) in level.rows().iter().enumerate() {
        let mut x = MARGIN;
        for part in row {
            let names: Vec<String> = part.iter().map(|module| label(level, module)).collect();
            let inner: usize = names.iter().map(|name| box_width(name) + GAP).sum::<usize>() - GAP;
            let framed = part.len() > 1;
            if x > MARGIN && x + inner + GAP > WIDTH - MARGIN {
                (x, y) = (MARGIN, y + BOX_HEIGHT + GAP);
            }
            let frame = (x, y);
            let mut right = x;
            for name in &names {
                if x > MARGIN && x + box_width(name) > WIDTH - MARGIN {
                    (x, y) = (MARGIN, y + BOX_HEIGHT + GAP);
                }
                draw_box(&mut body, x, y, name);
                x += box_width(name) + GAP;
                right = right.max(x);
            }
            if framed {
                let (left, top) = if y > frame.1 { (MARGIN, frame.1) } else { frame };
                let (width, height) = (right - GAP - left + 8, y + BOX_HEIGHT - top + 8);
                let _ = writeln!(
                    body,
                    r##"<rect x="{}" y="{}" width="{width}" height="{height}" rx="6" fill="none" stroke="#c2410c" stroke-width="1.5"/>"##,
                    left - 4,
                    top - 4,
                );
                x += GAP;
            }
        }
        y += BOX_HEIGHT + ROW_GAP;
        if index + 1 < level.rows().len() {
            let line = y - ROW_GAP / 2;
            let _ = writeln!(
                body,
                r##"<line x1="{MARGIN}" y1="{line}" x2="{}" y2="{line}" stroke="#e2e8f0"/>"##,
                WIDTH - MARGIN
            );
        }
    }
    format!(
        r##"<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {y}" font-family="ui-monospace, monospace" font-size="12">
<rect width="{WIDTH}" height="{y}" fill="#ffffff"/>
<text x="{MARGIN}" y="24" font-size="14" font-weight="bold" fill="#0f172a">{title}</text>
{body}</svg>
"##
    )
}

/// The module's own name; a folder ends with `/`.
fn label(level: &Level, module: &str) -> String {
    let name = module.rsplit("::").next().unwrap_or(module);
    if level.folders.contains(module) { format!("{name}/") } else { name.to_owned() }
}

fn box_width(name: &str) -> usize {
    name.len() * LETTER_WIDTH + 2 * GAP + 2
}

fn draw_box(body: &mut String, x: usize, y: usize, name: &str) {
    let width = box_width(name);
    let fill = if name.ends_with('/') { "#dbeafe" } else { "#f1f5f9" };
    let _ = writeln!(
        body,
        r##"<rect x="{x}" y="{y}" width="{width}" height="{BOX_HEIGHT}" rx="4" fill="{fill}" stroke="#94a3b8"/><text x="{}" y="{}" text-anchor="middle" fill="#0f172a">{name}</text>"##,
        x + width / 2,
        y + BOX_HEIGHT / 2 + 4,
    );
}

#[cfg(test)]
mod tests {
    use crate::files::Tree;
    use crate::modules::pictures;

    #[test]
    fn every_module_is_drawn_and_those_of_tests_are_not() {
        let mut texts = vec![("crates/a/src/lib.rs".to_owned(), "mod a;\n#[cfg(test)]\nmod tests;\n")];
        texts.extend(["a", "b", "c", "d"].map(|name| (format!("crates/a/src/{name}.rs"), "fn f() {}\n")));
        texts.push(("crates/a/src/e/f.rs".to_owned(), "fn f() {}\n"));
        texts.push(("crates/a/src/e.rs".to_owned(), "use crate::a;\n"));
        texts.push(("crates/a/src/tests.rs".to_owned(), "fn f() {}\n"));
        let texts: Vec<(&str, &str)> = texts.iter().map(|(path, text)| (path.as_str(), *text)).collect();
        let pictures = pictures(&Tree::from_texts(&texts));
        let picture = &pictures["docs/modules/a.svg"];
        for name in ["a", "b", "c", "d", "e/"] {
            assert!(picture.contains(&format!(">{name}</text>")), "{name}");
        }
        assert!(!picture.contains("tests"));
        assert_eq!(picture.matches("<line").count(), 1, "two rows");
    }
}
