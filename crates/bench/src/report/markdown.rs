//! The report as a document: tables, and plots beside it.

use super::{Report, chart, comparison};

/// Names and contents of the files.
pub fn files(report: &Report) -> Vec<(String, String)> {
    let mut files = Vec::new();
    let mut text = format!("# `koine bench {}`\n\n{}\n", report.bench, report.machine);
    let ratios = chart::ratios(&report.rows);
    if let Some(plot) = ratios {
        let name = format!("{}-ratios.svg", report.bench);
        text.push_str(&format!("\n![Ratios against the best reference]({name})\n"));
        files.push((name, plot));
    }
    for (section, rows) in report.sections() {
        text.push_str(&format!("\n## {section}\n\n{}\n", comparison(&rows)));
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
