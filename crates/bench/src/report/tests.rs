//! What programs and people get to read of a report.

use super::*;

fn row(case: &str, ours: f64, reference: Option<f64>, goal: f64) -> Row {
    let references = BTreeMap::from([("minio".to_owned(), vec![reference]), ("garage".to_owned(), Vec::new())]);
    let judgement = Judgement::of(&[Some(ours)], &references, Better::Higher);
    Row::new(case.into(), "ops/s", Better::Higher, goal, judgement).in_section("Plain")
}

fn report() -> Report {
    let mut report = Report::new("s3");
    report.machine = "some machine".into();
    report.rows = vec![row("PUT 4 KiB x1", 3000.0, Some(1500.0), 1.0), row("GET <4 KiB> x1", 50.0, Some(100.0), 1.0)];
    report.latencies = vec![Latency {
        case: "PUT 4 KiB x1".into(),
        server: "koine".into(),
        p50_ms: Some(0.25),
        p99_ms: Some(1.5),
        client_us: Some(9.0),
    }];
    report.notes = vec!["garage is not on PATH and was not measured.".into()];
    report
}

#[test]
fn the_document_has_the_agreed_shape_and_nothing_else() {
    let mut bytes = Vec::new();
    report().write_json(&mut bytes).unwrap();
    let document: serde_json::Value = serde_json::from_slice(&bytes).unwrap();
    let expected = serde_json::json!({
        "bench": "s3",
        "machine": "some machine",
        "rows": [
            {"case": "PUT 4 KiB x1", "unit": "ops/s", "better": "higher", "ours": 3000.0,
             "references": {"garage": null, "minio": 1500.0}, "ratio": 2.0, "goal": 1.0},
            {"case": "GET <4 KiB> x1", "unit": "ops/s", "better": "higher", "ours": 50.0,
             "references": {"garage": null, "minio": 100.0}, "ratio": 0.5, "goal": 1.0},
        ],
    });
    assert_eq!(document, expected);
    assert_eq!(bytes.iter().filter(|byte| **byte == b'\n').count(), 1, "one line");
}

#[test]
fn a_row_without_reference_has_nulls() {
    let alone = row("PUT", 10.0, None, 1.0);
    let value = serde_json::to_value(&alone).unwrap();
    assert!(value["ratio"].is_null() && value["references"]["minio"].is_null());
    assert_eq!(alone.holds(), None);
}

#[test]
fn tables_say_what_is_behind() {
    let text = |report: &Report| {
        let mut bytes = Vec::new();
        report.write_tables(&mut bytes).unwrap();
        String::from_utf8(bytes).unwrap()
    };
    let mut report = report();
    let shown = text(&report);
    assert!(shown.contains("1 of 2 rows miss their goal: GET <4 KiB> x1 (ops/s)."), "{shown}");
    assert!(shown.contains("garage is not on PATH"), "{shown}");
    report.rows.truncate(1);
    assert!(text(&report).contains("All 1 rows reach their goal."));
    report.errors.push("koine, PUT: 1 failed".into());
    assert!(!report.passed());
    assert!(text(&report).contains("no figure of this run counts"));
}

#[test]
fn figures_keep_what_means_something() {
    for (value, shown) in [(12345.6, "12346"), (99.96, "100.0"), (12.345, "12.3"), (1.234, "1.23"), (0.1234, "0.123")] {
        assert_eq!(figure(value), shown);
    }
    assert_eq!(round(123_456.0), 123_500.0);
    assert_eq!(round(0.000_123_456), 0.000_123_5);
}

#[test]
fn the_folder_holds_document_text_and_plots_that_it_names() {
    let folder = tempfile::tempdir().unwrap();
    let inside = folder.path().join("new");
    report().write_folder(&inside).unwrap();
    let text = std::fs::read_to_string(inside.join("s3.md")).unwrap();
    for name in ["s3-ratios.svg", "s3-latency.svg"] {
        assert!(text.contains(name), "{text}");
        let plot = std::fs::read_to_string(inside.join(name)).unwrap();
        assert!(plot.starts_with("<svg ") && plot.trim_end().ends_with("</svg>"));
        assert!(!plot.contains("NaN") && !plot.contains("inf"), "{plot}");
    }
    let plot = std::fs::read_to_string(inside.join("s3-ratios.svg")).unwrap();
    assert!(plot.contains("GET &lt;4 KiB&gt; x1"), "text is escaped");
    assert!(inside.join("s3.json").is_file());
}

#[test]
fn many_rows_are_plotted_table_by_table_and_figures_where_they_are_wanted() {
    let mut report = report();
    report.plots_figures = true;
    report.rows = (0..41)
        .map(|number| Row { case: format!("case {number}"), ..row("", 10.0, Some(5.0), 1.0) })
        .map(|row| if row.case.ends_with('7') { row.in_section("Other") } else { row })
        .collect();
    let folder = tempfile::tempdir().unwrap();
    report.write_folder(folder.path()).unwrap();
    let text = std::fs::read_to_string(folder.path().join("s3.md")).unwrap();
    for name in ["s3-1-ratios.svg", "s3-2-ratios.svg", "s3-1-figures.svg", "s3-2-figures.svg"] {
        assert!(text.contains(name) && folder.path().join(name).is_file(), "{name}");
    }
    assert!(!folder.path().join("s3-ratios.svg").exists());
    let plot = std::fs::read_to_string(folder.path().join("s3-2-figures.svg")).unwrap();
    assert_eq!(plot.matches("case ").count(), 4);
    assert!(plot.contains("minio") && plot.contains("koine") && !plot.contains("NaN"));
}
