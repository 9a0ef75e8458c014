//! The report as a document: tables, and plots beside it.

use super::{Report, chart, comparison, lines};

/// More rows than this get a plot for each table and not one for all.
const ROWS_OF_PLOT: usize = 40;

/// Names and contents of the files.
pub fn files(report: &Report) -> Vec<(String, String)> {
    let mut files = Vec::new();
    let mut text = format!("# `koine bench {}`\n\n{}\n", report.bench, report.machine);
    let together = report.rows.len() <= ROWS_OF_PLOT;
    let mut add = |text: &mut String, title: &str, name: String, plot: Option<String>| {
        if let Some(plot) = plot {
            text.push_str(&format!("\n![{title}]({name})\n"));
            files.push((name, plot));
        }
    };
    if together {
        let rows: Vec<_> = report.rows.iter().collect();
        let name = format!("{}-ratios.svg", report.bench);
        add(&mut text, "Ratios against the best reference", name, chart::ratios(&rows));
    }
    for (place, (section, rows)) in report.sections().into_iter().enumerate() {
        text.push_str(&format!("\n## {section}\n\n{}\n", comparison(&rows)));
        let name = |what: &str| format!("{}-{}-{what}.svg", report.bench, place + 1);
        if !together {
            add(&mut text, "Ratios against the best reference", name("ratios"), chart::ratios(&rows));
        }
        if report.plots_figures {
            add(&mut text, "What was measured", name("figures"), chart::figures(section, &rows));
            add(&mut text, "By threads", name("threads"), lines::threads(section, &rows));
        }
    }
    if !report.latencies.is_empty() {
        text.push_str("\n## Time of a request\n\n");
        if let Some(plot) = chart::latencies(&report.latencies) {
            let name = format!("{}-latency.svg", report.bench);
            text.push_str(&format!("![Time of a request]({name})\n\n"));
            files.push((name, plot));
        }
        text.push_str(&format!("{}\n", report.latency_table()));
    }
    text.push_str("\n## Result\n\n");
    for line in report.notes.iter().chain(&report.errors) {
        text.push_str(&format!("- {line}\n"));
    }
    text.push_str(&format!("\n{}\n", report.verdict()));
    files.push((format!("{}.md", report.bench), text));
    files
}
