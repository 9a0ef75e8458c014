//! What a command tells: people's lines, or JSON with `--json`; progress on standard error.
//!
//! Invariants:
//! - Standard output carries results only; progress, warnings and failures go to standard error.
//! - With `--json` every line of standard output is one JSON value.
//! - A closed pipe ends the program quietly.

use std::io::{self, IsTerminal, Write};
use std::time::Duration;

use indicatif::{ProgressBar, ProgressDrawTarget, ProgressStyle};
use serde_json::Value;

use crate::failure::{Failure, Outcome};

/// Where results go and in which form.
#[derive(Clone, Copy, Debug)]
pub struct Output {
    json: bool,
}

impl Output {
    /// Output for people, or JSON.
    pub fn new(json: bool) -> Self {
        Output { json }
    }

    /// Whether JSON was asked for.
    pub fn is_json(self) -> bool {
        self.json
    }

    /// Whether a person looks at standard output.
    pub fn is_terminal(self) -> bool {
        !self.json && io::stdout().is_terminal()
    }

    /// A line (or several) for people; nothing with `--json`.
    pub fn people(self, text: impl AsRef<str>) -> Outcome {
        if self.json { Ok(()) } else { write_line(text.as_ref()) }
    }

    /// A JSON value on a line of its own; nothing for people.
    pub fn json(self, value: &Value) -> Outcome {
        if self.json { write_line(&value.to_string()) } else { Ok(()) }
    }

    /// What was done: a line for people, and a JSON value with `--json`.
    pub fn done(self, text: impl AsRef<str>, value: &Value) -> Outcome {
        self.people(text)?;
        self.json(value)
    }

    /// The end of a failed command; one without a message has told everything, or was to be quiet.
    pub fn failure(self, failure: &Failure) {
        if failure.message.is_empty() {
            return;
        }
        if self.json {
            // Scripts read one stream.
            let value = serde_json::json!({ "error": failure.message, "exit": failure.exit as u8 });
            let _ = write_line(&value.to_string());
        } else {
            eprintln!("koine: {failure}");
        }
    }

    /// A bar for `total` bytes, drawn when a person looks.
    pub fn bytes_bar(self, total: u64, what: &str) -> ProgressBar {
        let style = "{msg:20!} {wide_bar} {bytes:>11}/{total_bytes:<11} {bytes_per_sec:>13} {eta:>4}";
        self.bar(Some(total), style, what)
    }

    /// Bytes that are counted where nobody knows how many there will be, drawn when a person looks.
    pub fn counter(self, what: &str) -> ProgressBar {
        self.bar(None, "{spinner} {bytes:>11} {bytes_per_sec:>13} {wide_msg}", what)
    }

    /// Things that are counted where nobody knows how many there will be, drawn when a person looks.
    pub fn items(self, what: &str) -> ProgressBar {
        self.bar(None, "{spinner} {human_pos} {wide_msg}", what)
    }

    fn bar(self, total: Option<u64>, style: &str, what: &str) -> ProgressBar {
        let target = if self.json { ProgressDrawTarget::hidden() } else { ProgressDrawTarget::stderr() };
        let bar = ProgressBar::with_draw_target(total, target);
        if let Ok(style) = ProgressStyle::with_template(style) {
            bar.set_style(style.progress_chars("━╸─"));
        }
        bar.set_message(what.to_owned());
        bar.enable_steady_tick(Duration::from_millis(200));
        bar
    }
}

/// Text that may come from a stranger, made safe for a terminal.
pub fn printable(text: &str) -> String {
    if text.chars().any(char::is_control) { text.escape_debug().to_string() } else { text.to_owned() }
}

/// A line of a listing: size, time, name.
pub fn listing_row(size: &str, time: &str, name: &str) -> String {
    // `2026-11-21T15:00:00.000Z`: seconds are enough for people.
    let time = time.get(..19).map_or_else(String::new, |time| time.replacen('T', " ", 1));
    format!("{size:>10}  {time:19}  {name}")
}

fn write_line(text: &str) -> Outcome {
    let mut out = io::stdout().lock();
    match writeln!(out, "{text}").and_then(|()| out.flush()) {
        Err(error) if error.kind() == io::ErrorKind::BrokenPipe => std::process::exit(0),
        Err(error) => Err(Failure::io("cannot write to standard output", &error)),
        Ok(()) => Ok(()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn control_characters_do_not_reach_the_terminal() {
        assert_eq!(printable("a b/ü"), "a b/ü");
        assert_eq!(printable("a\u{1b}[31m\n"), "a\\u{1b}[31m\\n");
    }
}
