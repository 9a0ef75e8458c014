//! Small plots side by side: how each contestant's figure goes with the number of threads.
//!
//! Rows whose cases differ only in a last ` x1`, ` x2`, … share a panel: a line a contestant, threads to the right, the
//! figure upwards from zero.

use super::chart::{COLOURS, escape, short};
use super::{OURS, Row};
use std::fmt::Write;

const COLUMNS: usize = 3;
const PANEL_WIDTH: f64 = 310.0;
const PANEL_HEIGHT: f64 = 190.0;
const LEFT: f64 = 52.0;
const RIGHT: f64 = 14.0;
const ABOVE: f64 = 26.0;
const BELOW: f64 = 26.0;
const TOP: f64 = 46.0;

/// Rows of one panel: what they share, and each with its number of threads.
struct Panel<'a> {
    title: &'a str,
    rows: Vec<(u32, &'a Row)>,
}

/// What comes before the number of threads, and that number.
fn split(case: &str) -> Option<(&str, u32)> {
    let (title, threads) = case.rsplit_once(" x")?;
    Some((title, threads.parse().ok()?))
}

fn panels<'a>(rows: &[&'a Row]) -> Vec<Panel<'a>> {
    let mut panels: Vec<Panel<'a>> = Vec::new();
    for row in rows {
        let Some((title, threads)) = split(&row.case) else { continue };
        match panels.iter_mut().find(|panel| panel.title == title) {
            Some(panel) => panel.rows.push((threads, row)),
            None => panels.push(Panel { title, rows: vec![(threads, row)] }),
        }
    }
    for panel in &mut panels {
        panel.rows.sort_by_key(|(threads, _)| *threads);
    }
    panels.retain(|panel| panel.rows.len() > 1 && panel.most() > 0.0);
    panels
}

impl Panel<'_> {
    /// A contestant's figures, each at its place among the numbers of threads.
    fn line(&self, name: &str) -> Vec<(usize, f64)> {
        let value = |row: &Row| if name == OURS { row.ours } else { row.references.get(name).copied().flatten() };
        self.rows.iter().enumerate().filter_map(|(place, (_, row))| Some((place, value(row)?))).collect()
    }

    fn most(&self) -> f64 {
        let all = self.rows.iter().flat_map(|(_, row)| row.references.values().copied().chain([row.ours]));
        all.flatten().fold(0.0, f64::max)
    }
}

/// The least round number that is not below `value`.
fn ceiling(value: f64) -> f64 {
    let decade = 10_f64.powf(value.log10().floor());
    [1.0, 2.0, 3.0, 4.0, 5.0, 6.0, 8.0, 10.0]
        .map(|digit| digit * decade)
        .into_iter()
        .find(|top| *top >= value)
        .unwrap_or(value)
}

/// Panels of all rows that go by threads; `None` when there are none.
pub fn threads(title: &str, rows: &[&Row]) -> Option<String> {
    let panels = panels(rows);
    let first = panels.first()?;
    let mut names = vec![OURS.to_owned()];
    for name in panels.iter().flat_map(|panel| &panel.rows).flat_map(|(_, row)| row.references.keys()) {
        if !names.contains(name) && panels.iter().any(|panel| !panel.line(name).is_empty()) {
            names.push(name.clone());
        }
    }
    let unit = &first.rows.first()?.1.unit;
    let width = PANEL_WIDTH * COLUMNS as f64;
    let height = TOP + PANEL_HEIGHT * panels.len().div_ceil(COLUMNS) as f64;
    let mut text = format!(
        "<svg xmlns=\"http://www.w3.org/2000/svg\" width=\"{width}\" height=\"{height}\" viewBox=\"0 0 {width} {height}\" \
         font-family=\"sans-serif\" font-size=\"11\">\n<rect width=\"{width}\" height=\"{height}\" fill=\"#ffffff\"/>\n\
         <text x=\"10\" y=\"18\" font-size=\"12\" font-weight=\"bold\">{} ({unit}) by threads</text>\n",
        escape(title)
    );
    for (place, name) in names.iter().enumerate() {
        let x = 14.0 + 110.0 * place as f64;
        let colour = colour(place);
        text.push_str(&format!("<circle cx=\"{x}\" cy=\"32\" r=\"4\" fill=\"{colour}\"/>"));
        text.push_str(&format!("<text x=\"{}\" y=\"36\">{}</text>\n", x + 8.0, escape(name)));
    }
    for (place, panel) in panels.iter().enumerate() {
        let corner = (PANEL_WIDTH * (place % COLUMNS) as f64, TOP + PANEL_HEIGHT * (place / COLUMNS) as f64);
        draw(&mut text, panel, corner, &names);
    }
    text.push_str("</svg>\n");
    Some(text)
}

fn colour(place: usize) -> &'static str {
    COLOURS.get(place % COLOURS.len()).copied().unwrap_or("#000")
}

fn draw(text: &mut String, panel: &Panel<'_>, (left, top): (f64, f64), names: &[String]) {
    let (from, to) = (left + LEFT, left + PANEL_WIDTH - RIGHT);
    let (upper, lower) = (top + ABOVE, top + PANEL_HEIGHT - BELOW);
    let most = ceiling(panel.most());
    let step = (to - from) / (panel.rows.len() - 1).max(1) as f64;
    let point = |place: usize, value: f64| (from + step * place as f64, lower - (lower - upper) * value / most);
    let mut add = |line: std::fmt::Arguments<'_>| {
        // Writing to a string cannot fail.
        let _always_written = writeln!(text, "{line}");
    };
    add(format_args!(
        "<text x=\"{from:.1}\" y=\"{:.1}\" font-weight=\"bold\">{}</text>",
        upper - 10.0,
        escape(panel.title)
    ));
    for share in [0.0, 0.5, 1.0] {
        let (_, y) = point(0, most * share);
        add(format_args!("<line x1=\"{from:.1}\" y1=\"{y:.1}\" x2=\"{to:.1}\" y2=\"{y:.1}\" stroke=\"#ddd\"/>"));
        add(format_args!(
            "<text x=\"{:.1}\" y=\"{:.1}\" text-anchor=\"end\" fill=\"#444\">{}</text>",
            from - 5.0,
            y + 4.0,
            if share > 0.0 { short(most * share) } else { "0".to_owned() }
        ));
    }
    for (place, (threads, _)) in panel.rows.iter().enumerate() {
        let (x, y) = point(place, 0.0);
        add(format_args!(
            "<text x=\"{x:.1}\" y=\"{:.1}\" text-anchor=\"middle\" fill=\"#444\">{threads}</text>",
            y + 16.0
        ));
    }
    // Ours is drawn last, over the others.
    for (index, name) in names.iter().enumerate().rev() {
        let points: Vec<(f64, f64)> = panel.line(name).into_iter().map(|(place, value)| point(place, value)).collect();
        let path: Vec<String> = points.iter().map(|(x, y)| format!("{x:.1},{y:.1}")).collect();
        let (colour, width) = (colour(index), if name == OURS { 2.5 } else { 1.5 });
        add(format_args!(
            "<polyline points=\"{}\" fill=\"none\" stroke=\"{colour}\" stroke-width=\"{width}\"/>",
            path.join(" ")
        ));
        for (x, y) in points {
            add(format_args!("<circle cx=\"{x:.1}\" cy=\"{y:.1}\" r=\"3\" fill=\"{colour}\"/>"));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::statistics::{Better, Judgement};
    use std::collections::BTreeMap;

    fn row(case: &str, ours: f64, ext4: Option<f64>) -> Row {
        let references = BTreeMap::from([("ext4".to_owned(), vec![ext4])]);
        let judgement = Judgement::of(&[Some(ours)], &references, Better::Higher);
        Row::new(case.into(), "MB/s", Better::Higher, 1.0, judgement)
    }

    #[test]
    fn rows_that_differ_in_threads_share_a_panel() {
        let rows = [
            row("4 KiB read x8", 90.0, Some(50.0)),
            row("4 KiB read x1", 10.0, Some(20.0)),
            row("1 MiB <read> x1", 500.0, None),
            row("1 MiB <read> x2", 900.0, None),
            row("4 KiB read x1 beside fio", 10.0, Some(20.0)),
            row("alone x4", 1.0, None),
        ];
        let rows: Vec<&Row> = rows.iter().collect();
        let panels = panels(&rows);
        let found: Vec<(&str, Vec<u32>)> = panels
            .iter()
            .map(|panel| (panel.title, panel.rows.iter().map(|(threads, _)| *threads).collect()))
            .collect();
        assert_eq!(found, [("4 KiB read", vec![1, 8]), ("1 MiB <read>", vec![1, 2])]);
        assert_eq!((panels[0].line(OURS), panels[0].most()), (vec![(0, 10.0), (1, 90.0)], 90.0));
        assert!(panels[1].line("ext4").is_empty());
        let plot = threads("Reads", &rows).unwrap();
        assert_eq!(plot.matches("<polyline").count(), 4);
        assert!(plot.contains("1 MiB &lt;read&gt;") && plot.contains("ext4") && !plot.contains("alone"));
        assert!(threads("Reads", &rows[4..]).is_none());
    }

    #[test]
    fn an_axis_ends_at_a_round_number() {
        for (value, top) in [(90.0, 100.0), (100.0, 100.0), (101.0, 200.0), (0.33, 0.4), (7.0, 8.0)] {
            assert!((ceiling(value) - top).abs() < 1e-9, "{value}");
        }
    }
}
