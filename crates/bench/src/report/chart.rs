//! Plots as SVG, written by hand: horizontal, one line a case, logarithmic, in colours that read on light and dark.

use super::{Latency, Row};
use std::fmt::Write;

const LABEL_WIDTH: f64 = 400.0;
const PLOT_WIDTH: f64 = 470.0;
const LINE_HEIGHT: f64 = 22.0;
const TOP: f64 = 46.0;
const VALUE_WIDTH: f64 = 70.0;
/// Colours of servers in their order, ours first.
pub(super) const COLOURS: [&str; 7] = ["#2a7de1", "#d9822b", "#5b9a3c", "#9a5bb5", "#7a7a7a", "#b5a000", "#c0507a"];
const REACHED: &str = "#3c9a5f";
const MISSED: &str = "#cc4b4b";

/// An axis from here on gets one mark a decade.
const WIDE: f64 = 2e3;

/// A logarithmic axis over whole steps of 1, 2 and 5.
struct Axis {
    low: f64,
    high: f64,
}

impl Axis {
    /// Covers all positive values; `None` when there are none.
    fn over(values: impl Iterator<Item = f64>) -> Option<Axis> {
        let mut range: Option<(f64, f64)> = None;
        for value in values.filter(|value| value.is_finite() && *value > 0.0) {
            let (low, high) = range.unwrap_or((value, value));
            range = Some((low.min(value), high.max(value)));
        }
        range.map(|(low, high)| Axis { low: low / 1.25, high: high * 1.25 })
    }

    fn x(&self, value: f64) -> f64 {
        let span = (self.high / self.low).ln().max(f64::MIN_POSITIVE);
        let share = (value.max(self.low) / self.low).ln() / span;
        LABEL_WIDTH + PLOT_WIDTH * share.clamp(0.0, 1.0)
    }

    /// Marks inside the range.
    fn marks(&self) -> Vec<f64> {
        let decades = self.low.log10().floor() as i32..=self.high.log10().ceil() as i32;
        // Over a wide range there is no room for all of them.
        let digits: &[f64] = if self.high / self.low > WIDE { &[1.0] } else { &[1.0, 2.0, 5.0] };
        let decade = |power: i32| digits.iter().map(move |digit| digit * 10_f64.powi(power));
        decades.flat_map(decade).filter(|mark| *mark >= self.low && *mark <= self.high).collect()
    }
}

/// Ratios with their spread against their goals.
pub fn ratios(rows: &[&Row]) -> Option<String> {
    let judged: Vec<(&Row, f64)> = rows.iter().filter_map(|row| Some((*row, row.ratio?))).collect();
    let ends = judged.iter().flat_map(|(row, ratio)| {
        let (low, high) = row.spread.unwrap_or((*ratio, *ratio));
        [low, high, row.goal, 1.0]
    });
    let axis = Axis::over(ends)?;
    let mut plot =
        Plot::new("Ours against the best reference: ratio, spread of the rounds, goal (black)", judged.len());
    plot.grid(&axis, Some(1.0));
    for (line, (row, ratio)) in judged.iter().enumerate() {
        let y = plot.label(line, &format!("{} ({})", row.case, row.unit));
        let colour = if row.holds() == Some(true) { REACHED } else { MISSED };
        let (from, to) = (axis.x(1.0).min(axis.x(*ratio)), axis.x(1.0).max(axis.x(*ratio)));
        plot.bar(from, to, y, colour);
        if let Some((low, high)) = row.spread {
            plot.line((axis.x(low), y), (axis.x(high), y), "#555", 1.5);
        }
        plot.line((axis.x(row.goal), y - 8.0), (axis.x(row.goal), y + 8.0), "#000", 2.0);
        plot.value(y, &format!("{ratio:.2}"));
    }
    Some(plot.finish())
}

/// Ours and the references as they were measured, a line a row.
pub fn figures(title: &str, rows: &[&Row]) -> Option<String> {
    let present = |row: &Row| {
        let references = row.references.iter().filter_map(|(name, value)| Some((name.clone(), (*value)?)));
        row.ours.map(|ours| ("koine".to_owned(), ours)).into_iter().chain(references).collect::<Vec<_>>()
    };
    let axis = Axis::over(rows.iter().flat_map(|row| present(row)).map(|(_, value)| value))?;
    let mut names: Vec<String> = Vec::new();
    for (name, _) in rows.iter().flat_map(|row| present(row)) {
        if !names.contains(&name) {
            names.push(name);
        }
    }
    let colour = |name: &str| {
        let place = names.iter().position(|known| known == name).unwrap_or(0);
        COLOURS.get(place % COLOURS.len()).copied().unwrap_or("#000")
    };
    let mut plot = Plot::new(title, rows.len());
    plot.legend(names.iter().map(|name| (name.as_str(), colour(name))));
    plot.grid(&axis, None);
    for (line, row) in rows.iter().enumerate() {
        let y = plot.label(line, &format!("{} ({})", row.case, row.unit));
        let values = present(row);
        if let Some(range) = Axis::over(values.iter().map(|(_, value)| *value)) {
            plot.line((axis.x(range.low * 1.25), y), (axis.x(range.high / 1.25), y), "#bbb", 1.0);
        }
        // Ours is drawn last, over the others.
        for (name, value) in values.iter().rev() {
            plot.dot(axis.x(*value), y, colour(name));
        }
    }
    Some(plot.finish())
}

/// Median and 99th percentile of each server.
pub fn latencies(latencies: &[Latency]) -> Option<String> {
    let axis = Axis::over(latencies.iter().flat_map(|latency| [latency.p50_ms, latency.p99_ms]).flatten())?;
    let mut cases: Vec<&str> = latencies.iter().map(|latency| latency.case.as_str()).collect();
    cases.dedup();
    let mut servers: Vec<&str> = Vec::new();
    for latency in latencies {
        if !servers.contains(&latency.server.as_str()) {
            servers.push(&latency.server);
        }
    }
    let colour = |server: &str| {
        let place = servers.iter().position(|known| *known == server).unwrap_or(0);
        COLOURS.get(place % COLOURS.len()).copied().unwrap_or("#000")
    };
    let mut plot = Plot::new("Time of a request in milliseconds: median (dot) to 99th percentile (end)", cases.len());
    plot.legend(servers.iter().map(|server| (*server, colour(server))));
    plot.grid(&axis, None);
    for (line, case) in cases.iter().enumerate() {
        let y = plot.label(line, case);
        let here = latencies.iter().filter(|latency| latency.case == *case);
        for latency in here {
            let place = servers.iter().position(|known| *known == latency.server).unwrap_or(0) as f64;
            let step = (18.0 / servers.len() as f64).min(5.0);
            let y = y + (place - (servers.len() as f64 - 1.0) / 2.0) * step;
            if let (Some(p50), Some(p99)) = (latency.p50_ms, latency.p99_ms) {
                plot.line((axis.x(p50), y), (axis.x(p99), y), colour(&latency.server), 2.0);
                plot.dot(axis.x(p50), y, colour(&latency.server));
            }
        }
    }
    Some(plot.finish())
}

/// A mark in few characters.
pub(super) fn short(mark: f64) -> String {
    match mark {
        mark if mark >= 1e6 => format!("{}M", mark / 1e6),
        mark if mark >= 1e4 => format!("{}k", mark / 1e3),
        // Powers of ten are not exact below one.
        mark if mark < 1.0 => format!("{mark:.6}").trim_end_matches('0').to_owned(),
        mark => mark.to_string(),
    }
}

/// A drawing that grows.
struct Plot {
    text: String,
    lines: usize,
}

impl Plot {
    fn new(title: &str, lines: usize) -> Plot {
        let width = LABEL_WIDTH + PLOT_WIDTH + VALUE_WIDTH;
        let height = TOP + LINE_HEIGHT * lines as f64 + 30.0;
        let mut plot = Plot { text: String::new(), lines };
        plot.add(format_args!(
            "<svg xmlns=\"http://www.w3.org/2000/svg\" width=\"{width}\" height=\"{height}\" \
             viewBox=\"0 0 {width} {height}\" font-family=\"sans-serif\" font-size=\"12\">\n\
             <rect width=\"{width}\" height=\"{height}\" fill=\"#ffffff\"/>\n\
             <text x=\"10\" y=\"18\" font-weight=\"bold\">{}</text>",
            escape(title)
        ));
        plot
    }

    fn add(&mut self, line: std::fmt::Arguments<'_>) {
        // Writing to a string cannot fail.
        let _always_written = writeln!(self.text, "{line}");
    }

    fn bottom(&self) -> f64 {
        TOP + LINE_HEIGHT * self.lines as f64
    }

    /// Lines at the marks; the one at `anchor` stands out.
    fn grid(&mut self, axis: &Axis, anchor: Option<f64>) {
        let bottom = self.bottom();
        for mark in axis.marks() {
            let x = axis.x(mark);
            let colour = if Some(mark) == anchor { "#888" } else { "#ddd" };
            self.line((x, TOP), (x, bottom), colour, 1.0);
            self.add(format_args!(
                "<text x=\"{x:.1}\" y=\"{:.1}\" text-anchor=\"middle\" fill=\"#444\">{}</text>",
                bottom + 16.0,
                short(mark)
            ));
        }
    }

    fn legend<'a>(&mut self, servers: impl Iterator<Item = (&'a str, &'a str)>) {
        for (place, (server, colour)) in servers.enumerate() {
            let x = LABEL_WIDTH + 110.0 * place as f64;
            self.dot(x, 32.0, colour);
            self.add(format_args!("<text x=\"{:.1}\" y=\"36\">{}</text>", x + 8.0, escape(server)));
        }
    }

    /// Writes a line's label; gives the line's middle.
    fn label(&mut self, line: usize, text: &str) -> f64 {
        let y = TOP + LINE_HEIGHT * (line as f64 + 0.5);
        let x = LABEL_WIDTH - 8.0;
        self.add(format_args!("<text x=\"{x}\" y=\"{:.1}\" text-anchor=\"end\">{}</text>", y + 4.0, escape(text)));
        y
    }

    fn value(&mut self, y: f64, text: &str) {
        let x = LABEL_WIDTH + PLOT_WIDTH + 8.0;
        self.add(format_args!("<text x=\"{x}\" y=\"{:.1}\">{}</text>", y + 4.0, escape(text)));
    }

    fn bar(&mut self, from: f64, to: f64, y: f64, colour: &str) {
        self.add(format_args!(
            "<rect x=\"{from:.1}\" y=\"{:.1}\" width=\"{:.1}\" height=\"12\" fill=\"{colour}\"/>",
            y - 6.0,
            (to - from).max(1.0)
        ));
    }

    fn line(&mut self, from: (f64, f64), to: (f64, f64), colour: &str, width: f64) {
        self.add(format_args!(
            "<line x1=\"{:.1}\" y1=\"{:.1}\" x2=\"{:.1}\" y2=\"{:.1}\" stroke=\"{colour}\" stroke-width=\"{width}\"/>",
            from.0, from.1, to.0, to.1
        ));
    }

    fn dot(&mut self, x: f64, y: f64, colour: &str) {
        self.add(format_args!("<circle cx=\"{x:.1}\" cy=\"{y:.1}\" r=\"3.5\" fill=\"{colour}\"/>"));
    }

    fn finish(mut self) -> String {
        self.text.push_str("</svg>\n");
        self.text
    }
}

pub(super) fn escape(text: &str) -> String {
    text.replace('&', "&amp;").replace('<', "&lt;").replace('>', "&gt;")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_axis_is_logarithmic_and_marked() {
        let axis = Axis::over([0.5, 8.0, f64::NAN, 0.0].into_iter()).unwrap();
        assert_eq!(axis.marks(), [0.5, 1.0, 2.0, 5.0, 10.0]);
        let step = axis.x(2.0) - axis.x(1.0);
        assert!((axis.x(4.0) - axis.x(2.0) - step).abs() < 1e-6);
        assert!(axis.x(0.0) >= LABEL_WIDTH && axis.x(1e9) <= LABEL_WIDTH + PLOT_WIDTH);
        assert!(Axis::over(std::iter::empty()).is_none());
    }

    #[test]
    fn marks_are_short_and_few_on_a_wide_axis() {
        let axis = Axis::over([100.0, 2e6].into_iter()).unwrap();
        assert_eq!(axis.marks(), [100.0, 1e3, 1e4, 1e5, 1e6]);
        for (mark, shown) in [(0.2, "0.2"), (0.00005, "0.00005"), (5.0, "5"), (5e3, "5000"), (2e4, "20k"), (5e6, "5M")]
        {
            assert_eq!(short(mark), shown);
        }
    }

    #[test]
    fn nothing_to_draw_is_no_plot() {
        assert!(ratios(&[]).is_none() && figures("", &[]).is_none() && latencies(&[]).is_none());
    }
}
