//! What a benchmark found: rows for programs, tables for people, a folder with plots for a document.
//!
//! The JSON document holds what programs compare and nothing else; its shape is fixed.

mod chart;
mod lines;
mod markdown;

use crate::Error;
use crate::statistics::{Better, Judgement, holds};
use comfy_table::presets::ASCII_MARKDOWN;
use comfy_table::{CellAlignment, Table};
use serde::Serialize;
use std::borrow::Cow;
use std::collections::BTreeMap;
use std::io::Write;
use std::path::Path;

/// What our side is called in every report.
pub const OURS: &str = "koine";

/// Everything that one run found.
#[derive(Debug, Clone, Serialize)]
pub struct Report {
    /// The benchmark's name.
    pub bench: String,
    /// Where it ran.
    pub machine: String,
    /// What was compared.
    pub rows: Vec<Row>,
    /// How long requests took.
    #[serde(skip)]
    pub latencies: Vec<Latency>,
    /// The figures themselves are plotted too, not their ratios alone.
    #[serde(skip)]
    pub plots_figures: bool,
    /// Whose CPU time stands beside the latencies, and its unit.
    #[serde(skip)]
    pub cpu_label: &'static str,
    /// What a reader should know.
    #[serde(skip)]
    pub notes: Vec<String>,
    /// Requests that failed. A report with any proves nothing.
    #[serde(skip)]
    pub errors: Vec<String>,
}

/// One figure of ours beside those of the references.
#[derive(Debug, Clone, Serialize)]
pub struct Row {
    /// What was measured.
    pub case: String,
    /// Unit of the figures.
    pub unit: String,
    /// Which way is good.
    pub better: Better,
    /// Median of ours.
    pub ours: Option<f64>,
    /// Median of each reference; `None` when it was not there.
    pub references: BTreeMap<String, Option<f64>>,
    /// Median of the paired ratios against the best reference; above 1 is better.
    pub ratio: Option<f64>,
    /// The ratio to reach.
    pub goal: f64,
    /// Lowest and highest paired ratio.
    #[serde(skip)]
    pub spread: Option<(f64, f64)>,
    /// The table it stands in.
    #[serde(skip)]
    pub section: Cow<'static, str>,
}

/// How long one server took for the requests of one cell, and what they cost the load generator.
#[derive(Debug, Clone)]
pub struct Latency {
    /// What was measured.
    pub case: String,
    /// The server.
    pub server: String,
    /// Median in milliseconds.
    pub p50_ms: Option<f64>,
    /// 99th percentile in milliseconds.
    pub p99_ms: Option<f64>,
    /// CPU time of the generator for each request, in microseconds.
    pub client_us: Option<f64>,
}

impl Row {
    pub(crate) fn new(case: String, unit: &str, better: Better, goal: f64, judgement: Judgement) -> Row {
        let Judgement { ours, references, ratio, spread } = judgement;
        let references = references.into_iter().map(|(name, value)| (name, value.map(round))).collect();
        let (ours, ratio) = (ours.map(round), ratio.map(round));
        Row { case, unit: unit.to_owned(), better, ours, references, ratio, goal, spread, section: Cow::Borrowed("") }
    }

    pub(crate) fn in_section(self, section: impl Into<Cow<'static, str>>) -> Row {
        Row { section: section.into(), ..self }
    }

    /// Whether the goal is reached; `None` without a reference.
    pub fn holds(&self) -> Option<bool> {
        holds(self.ratio, self.goal)
    }
}

/// Four significant digits: more is noise.
fn round(value: f64) -> f64 {
    format!("{value:.3e}").parse().unwrap_or(value)
}

impl Report {
    pub(crate) fn new(bench: &str) -> Report {
        Report {
            bench: bench.to_owned(),
            machine: String::new(),
            rows: Vec::new(),
            latencies: Vec::new(),
            plots_figures: false,
            cpu_label: "generator us CPU",
            notes: Vec::new(),
            errors: Vec::new(),
        }
    }

    /// No request failed, so that the figures may be believed. Whether goals are reached is another question.
    pub fn passed(&self) -> bool {
        self.errors.is_empty()
    }

    /// Rows that miss their goal.
    pub fn behind(&self) -> impl Iterator<Item = &Row> {
        self.rows.iter().filter(|row| row.holds() == Some(false))
    }

    /// The document for programs, on one line.
    pub fn write_json(&self, output: &mut dyn Write) -> Result<(), Error> {
        let text = serde_json::to_string(self).map_err(Error::io("cannot make the JSON document"))?;
        writeln!(output, "{text}").map_err(Error::io("cannot write the report"))
    }

    /// The tables for people.
    pub fn write_tables(&self, output: &mut dyn Write) -> Result<(), Error> {
        let mut text = format!("{}\n", self.machine);
        for (section, rows) in self.sections() {
            text.push_str(&format!("\n{section}\n{}\n", comparison(&rows)));
        }
        if !self.latencies.is_empty() {
            text.push_str(&format!("\nTime of a request\n{}\n", self.latency_table()));
        }
        for note in &self.notes {
            text.push_str(&format!("{note}\n"));
        }
        for error in &self.errors {
            text.push_str(&format!("ERROR {error}\n"));
        }
        text.push_str(&format!("{}\n", self.verdict()));
        output.write_all(text.as_bytes()).map_err(Error::io("cannot write the report"))
    }

    /// Markdown, plots and the JSON document in a folder, which is made when it is missing.
    pub fn write_folder(&self, folder: &Path) -> Result<(), Error> {
        let doing = || format!("cannot write the report to {}", folder.display());
        std::fs::create_dir_all(folder).map_err(Error::io(doing()))?;
        let mut json = Vec::new();
        self.write_json(&mut json)?;
        let mut files = vec![(format!("{}.json", self.bench), json)];
        files.extend(markdown::files(self).into_iter().map(|(name, text)| (name, text.into_bytes())));
        for (name, bytes) in files {
            std::fs::write(folder.join(name), bytes).map_err(Error::io(doing()))?;
        }
        Ok(())
    }

    /// Rows by their table, in order of appearance.
    fn sections(&self) -> Vec<(&str, Vec<&Row>)> {
        let mut sections: Vec<(&str, Vec<&Row>)> = Vec::new();
        for row in &self.rows {
            match sections.iter_mut().find(|(section, _)| *section == row.section) {
                Some((_, rows)) => rows.push(row),
                None => sections.push((&row.section, vec![row])),
            }
        }
        sections
    }

    fn verdict(&self) -> String {
        let judged = self.rows.iter().filter(|row| row.holds().is_some()).count();
        let behind: Vec<String> = self.behind().map(|row| format!("{} ({})", row.case, row.unit)).collect();
        match (self.passed(), judged, behind.as_slice()) {
            (false, _, _) => "Requests failed; no figure of this run counts.".into(),
            (true, 0, _) => "No reference was measured; nothing can be said.".into(),
            (true, _, []) => format!("All {judged} rows reach their goal."),
            (true, _, behind) => format!("{} of {judged} rows miss their goal: {}.", behind.len(), behind.join("; ")),
        }
    }

    fn latency_table(&self) -> Table {
        let mut table = table(&["case", "server", "p50 ms", "p99 ms", self.cpu_label]);
        for latency in &self.latencies {
            let figures = [latency.p50_ms, latency.p99_ms, latency.client_us];
            let mut cells = vec![latency.case.clone(), latency.server.clone()];
            cells.extend(figures.map(|value| value.map_or_else(|| "-".into(), figure)));
            table.add_row(cells);
        }
        align(&mut table, 2);
        table
    }
}

fn table(header: &[&str]) -> Table {
    let mut table = Table::new();
    table.load_preset(ASCII_MARKDOWN).set_header(header);
    table
}

/// Figures stand to the right.
fn align(table: &mut Table, from: usize) {
    for column in table.column_iter_mut().skip(from) {
        column.set_cell_alignment(CellAlignment::Right);
    }
}

/// Ours beside the references that were measured at all.
fn comparison(rows: &[&Row]) -> Table {
    let mut names: Vec<&str> = Vec::new();
    for (name, value) in rows.iter().flat_map(|row| &row.references) {
        if value.is_some() && !names.contains(&name.as_str()) {
            names.push(name);
        }
    }
    let mut header = vec!["case", "unit", "ours"];
    header.extend(&names);
    header.extend(["ratio", "spread", "goal", "holds"]);
    let mut table = table(&header);
    let show = |value: Option<f64>| value.map_or_else(|| "-".into(), figure);
    for row in rows {
        let mut cells = vec![row.case.clone(), row.unit.clone(), show(row.ours)];
        cells.extend(names.iter().map(|name| show(row.references.get(*name).copied().flatten())));
        cells.push(row.ratio.map_or_else(|| "-".into(), |ratio| format!("{ratio:.2}")));
        cells.push(row.spread.map_or_else(|| "-".into(), |(low, high)| format!("{low:.2} to {high:.2}")));
        cells.push(format!("{:.1}", row.goal));
        cells.push(row.holds().map_or("-", |holds| if holds { "yes" } else { "NO" }).into());
        table.add_row(cells);
    }
    align(&mut table, 2);
    table
}

/// A figure with three digits or all its whole ones.
fn figure(value: f64) -> String {
    match value {
        value if value >= 100.0 => format!("{value:.0}"),
        value if value >= 10.0 => format!("{value:.1}"),
        value if value >= 1.0 => format!("{value:.2}"),
        value => format!("{value:.3}"),
    }
}

#[cfg(test)]
mod tests;
