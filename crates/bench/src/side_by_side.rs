//! `--reference-program OLD`: another build of this program as the reference side.
//!
//! In each round both programs run one stretch of the benchmark after the other, each in a process of its own, with the
//! same arguments. Only the JSON document of each run is read; its shape is fixed, because the other program may be older
//! than this option.
//!
//! Invariants:
//! - Figures are paired by round; the programs take turns at going first.
//! - Neither program measures other references: nothing is on their PATH.
//! - A run that fails in either program is an error of the report.

use crate::report::{OURS, Report, Row};
use crate::statistics::{Better, Judgement};
use crate::{Error, say};
use serde::Deserialize;
use std::collections::BTreeMap;
use std::path::Path;
use std::process::{Command, Stdio};

/// Options that this process handles itself; each takes a value.
const OWN_OPTIONS: [&str; 3] = ["--reference-program", "--rounds", "--report"];
/// Options that have another name, which older command lines use.
const ALIASES: [(&str, &str); 1] = [("--connections", "--concurrency")];
/// The form of the output, which is always JSON for a program that runs for us.
const JSON: &str = "--json";
/// A folder that has no programs.
const NO_PATH: &str = "/nonexistent";

/// What is run beside what, and how often.
#[derive(Debug, Clone)]
pub struct Comparison<'a> {
    /// The benchmark's name.
    pub benchmark: &'static str,
    /// The other program.
    pub program: &'a Path,
    /// How often both run all stretches.
    pub rounds: usize,
    /// Options that both get besides, and their values.
    pub options: &'static [&'static str],
    /// Options that narrow the arguments to a stretch; both programs run a stretch before either begins the next.
    pub stretches: Vec<Vec<String>>,
}

/// One stretch for each cell.
pub fn each_cell(names: impl IntoIterator<Item = String>) -> Vec<Vec<String>> {
    names.into_iter().map(|name| vec!["--only".to_owned(), name]).collect()
}

/// What one program said of one stretch.
#[derive(Debug, Deserialize)]
struct Document {
    machine: String,
    rows: Vec<Line>,
}

/// A row of it; its references are not looked at.
#[derive(Debug, Clone, Deserialize)]
struct Line {
    case: String,
    unit: String,
    better: Better,
    ours: Option<f64>,
}

/// The figures of a row, by round.
#[derive(Debug)]
struct Paired {
    case: String,
    unit: String,
    better: Better,
    ours: Vec<Option<f64>>,
    reference: Vec<Option<f64>>,
}

/// Runs both programs and judges this one by the other. The arguments are those of this process.
pub fn run(comparison: &Comparison<'_>) -> Result<Report, Error> {
    let own = std::env::current_exe().map_err(Error::io("cannot find this program's file"))?;
    run_with(comparison, &own, &std::env::args().skip(1).collect::<Vec<_>>())
}

fn run_with(comparison: &Comparison<'_>, own: &Path, arguments: &[String]) -> Result<Report, Error> {
    let other = std::path::absolute(comparison.program).map_err(Error::io("cannot find the reference program"))?;
    if !other.is_file() {
        return Err(Error::Argument(format!("--reference-program {}: there is no such file", other.display())));
    }
    let name = name(&other);
    let mut report = Report::new(comparison.benchmark);
    let mut pairs: Vec<Paired> = Vec::new();
    let whole = [Vec::new()];
    let stretches = if comparison.stretches.is_empty() { &whole[..] } else { &comparison.stretches[..] };
    for round in 0..comparison.rounds {
        for stretch in stretches {
            let mut arguments = child_arguments(arguments, stretch);
            arguments.extend(comparison.options.iter().map(|option| (*option).to_owned()));
            let mut sides = [(true, OURS, own), (false, name.as_str(), other.as_path())];
            if round % 2 == 1 {
                sides.reverse();
            }
            for (is_own, name, program) in sides {
                say(&format!("round {} of {}, {name} {}", round + 1, comparison.rounds, stretch.join(" ")));
                match measure(program, &arguments) {
                    Ok(document) => add(&mut pairs, &mut report.machine, document, (round, is_own)),
                    Err(error) => report.errors.push(format!("round {}, {name}: {error}", round + 1)),
                }
            }
        }
    }
    let section = format!("This program beside {name}");
    report.rows.extend(pairs.into_iter().map(|pair| pair.row(&name).in_section(section.clone())));
    report.notes.push(format!(
        "{name} is {}. A ratio compares figures of one round; the programs ran in turn, without other references.",
        other.display()
    ));
    Ok(report)
}

/// The name of the other program in the report.
fn name(program: &Path) -> String {
    let file = program.file_name().map(|name| name.to_string_lossy().into_owned()).unwrap_or_default();
    if file == OURS { "reference program".to_owned() } else { file }
}

/// The arguments of one round of one stretch.
fn child_arguments(arguments: &[String], stretch: &[String]) -> Vec<String> {
    let narrowed = stretch.iter().step_by(2).map(String::as_str);
    let mut options: Vec<&str> = OWN_OPTIONS.into_iter().chain(narrowed).collect();
    options.extend(
        ALIASES.into_iter().filter(|(name, _)| stretch.iter().any(|part| part == name)).map(|(_, alias)| alias),
    );
    let mut kept = without(arguments, &options);
    kept.extend(stretch.iter().cloned());
    kept.extend(["--rounds", "1", JSON].map(str::to_owned));
    kept
}

/// Arguments without some options and their values, which may stand behind `=` or as the next argument.
fn without(arguments: &[String], options: &[&str]) -> Vec<String> {
    let mut kept = Vec::new();
    let mut rest = arguments.iter();
    while let Some(argument) = rest.next() {
        if options.contains(&argument.as_str()) {
            let _value = rest.next();
        } else if argument != JSON && !options.iter().any(|option| begins_with(argument, option)) {
            kept.push(argument.clone());
        }
    }
    kept
}

fn begins_with(argument: &str, option: &str) -> bool {
    argument.strip_prefix(option).is_some_and(|rest| rest.starts_with('='))
}

/// Runs a program to its end and reads its document.
fn measure(program: &Path, arguments: &[String]) -> Result<Document, Error> {
    let doing = || format!("cannot run {}", program.display());
    let output = Command::new(program)
        .args(arguments)
        .env("PATH", NO_PATH)
        .stdin(Stdio::null())
        .stderr(Stdio::inherit())
        .output()
        .map_err(Error::io(doing()))?;
    if !output.status.success() {
        return Err(Error::Worker(format!("it ended with {}; what it wrote tells why", output.status)));
    }
    serde_json::from_slice(&output.stdout).map_err(Error::io("its report cannot be read"))
}

/// Adds a side's figures of a round; a row that only one program has gets no ratio.
fn add(pairs: &mut Vec<Paired>, machine: &mut String, document: Document, (round, is_own): (usize, bool)) {
    if is_own && machine.is_empty() {
        *machine = document.machine;
    }
    for line in document.rows {
        let known = pairs.iter().position(|pair| pair.case == line.case && pair.unit == line.unit);
        let place = known.unwrap_or_else(|| {
            let Line { case, unit, better, .. } = line.clone();
            pairs.push(Paired { case, unit, better, ours: Vec::new(), reference: Vec::new() });
            pairs.len() - 1
        });
        let Some(pair) = pairs.get_mut(place) else { continue };
        let figures = if is_own { &mut pair.ours } else { &mut pair.reference };
        // A round that failed has no figure.
        figures.resize(round, None);
        figures.push(line.ours);
    }
}

impl Paired {
    fn row(self, name: &str) -> Row {
        let references = BTreeMap::from([(name.to_owned(), self.reference)]);
        let judgement = Judgement::of(&self.ours, &references, self.better);
        Row::new(self.case, &self.unit, self.better, 1.0, judgement)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::fs::PermissionsExt;
    use std::path::PathBuf;

    fn owned(text: &str) -> Vec<String> {
        text.split(' ').map(str::to_owned).collect()
    }

    #[test]
    fn a_program_gets_the_arguments_without_what_is_ours() {
        let arguments = owned("--json bench s3 --reference-program old --rounds=7 --report DIR --size 4KiB --quick");
        assert_eq!(child_arguments(&arguments, &[]), owned("bench s3 --size 4KiB --quick --rounds 1 --json"));
        let stretch = owned("--connections 16");
        let arguments = owned("bench s3 --concurrency 1,16 --connections=4 --reference-program=old --only x");
        assert_eq!(
            child_arguments(&arguments, &stretch),
            owned("bench s3 --only x --connections 16 --rounds 1 --json")
        );
        assert_eq!(each_cell(["a b".to_owned()]), [["--only", "a b"]]);
    }

    /// A program that prints a document; `rate` of its first row grows by as much with each run.
    fn program(folder: &Path, name: &str, rate: u64) -> PathBuf {
        let path = folder.join(name);
        let row = |unit: &str, better: &str, ours: &str| {
            format!(
                r#"{{"case":"get","unit":"{unit}","better":"{better}","ours":{ours},"references":{{}},"ratio":null,"goal":1.0}}"#
            )
        };
        let rows = [row("ops/s", "higher", "'$n'"), row("us", "lower", "null"), row(name, "lower", "2")].join(",");
        let text = format!(
            "#!/bin/sh\nn=$(($(/bin/cat $0.n 2>/dev/null || echo 0) + {rate})); echo $n > $0.n\n\
             echo '{{\"bench\":\"x\",\"machine\":\"here\",\"rows\":[{rows}]}}'\n"
        );
        std::fs::write(&path, text).unwrap();
        std::fs::set_permissions(&path, std::fs::Permissions::from_mode(0o755)).unwrap();
        path
    }

    #[test]
    fn each_row_has_the_ratio_of_the_two_programs() {
        let folder = tempfile::tempdir().unwrap();
        let (new, old) = (program(folder.path(), "new", 30), program(folder.path(), "old", 20));
        let comparison = Comparison { benchmark: "x", program: &old, rounds: 3, options: &[], stretches: Vec::new() };
        let report = run_with(&comparison, &new, &owned("bench x")).unwrap();
        assert!(report.passed() && report.machine == "here", "{:?}", report.errors);
        let rows: Vec<_> = report.rows.iter().map(|row| (row.unit.as_str(), row.ours, row.ratio)).collect();
        assert_eq!(
            rows,
            [("ops/s", Some(60.0), Some(1.5)), ("us", None, None), ("new", Some(2.0), None), ("old", None, None)]
        );
        assert_eq!(report.rows[0].references["old"], Some(40.0));
        assert_eq!((report.rows[0].goal, report.rows[0].holds()), (1.0, Some(true)));
    }

    #[test]
    fn a_program_that_fails_fails_the_report() {
        let folder = tempfile::tempdir().unwrap();
        let new = program(folder.path(), "new", 1);
        let comparison = Comparison {
            benchmark: "x",
            program: Path::new("/bin/false"),
            rounds: 1,
            options: &[],
            stretches: Vec::new(),
        };
        let report = run_with(&comparison, &new, &owned("bench x")).unwrap();
        assert!(!report.passed() && report.errors[0].starts_with("round 1, false:"), "{:?}", report.errors);
        let missing = Comparison { program: Path::new("/nonexistent/koine"), ..comparison };
        let message = run_with(&missing, &new, &owned("bench x")).unwrap_err().to_string();
        assert!(message.contains("--reference-program"), "{message}");
    }
}
