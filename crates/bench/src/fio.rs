//! fio as the measure of what a file on this disk gives.

use crate::Error;
use std::path::Path;
use std::process::Command;

/// One run.
#[derive(Debug, Clone, Copy)]
pub struct FioJob<'a> {
    /// The file, made when it is missing.
    pub file: &'a Path,
    /// fio's name of the access: write, read, randwrite.
    pub access: &'a str,
    /// Of one call, in bytes.
    pub block_len: u64,
    /// Of the file, in bytes.
    pub file_len: u64,
    /// How fio reaches it.
    pub manner: FioMode,
    /// fdatasync after so many writes; one fsync at the end in any case.
    pub sync_every: Option<u64>,
    /// For so long; without it the file is gone through once.
    pub seconds: Option<f64>,
}

/// How fio reaches a file.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum FioMode {
    /// Past the page cache, call after call.
    Direct,
    /// Through the page cache.
    Buffered,
    /// Past the page cache, four calls at a time.
    Queued,
}

impl FioMode {
    /// All of them.
    pub const ALL: [FioMode; 3] = [FioMode::Direct, FioMode::Buffered, FioMode::Queued];

    /// Its name in reports.
    pub fn name(self) -> &'static str {
        match self {
            FioMode::Direct => "fio direct",
            FioMode::Buffered => "fio buffered",
            FioMode::Queued => "fio queue of 4",
        }
    }
}

/// Whether fio is here.
pub fn is_here() -> bool {
    Command::new("fio").arg("--version").output().is_ok_and(|output| output.status.success())
}

/// What a run came to.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct FioRate {
    /// Bytes a second.
    pub bytes: f64,
    /// Calls a second.
    pub calls: f64,
}

/// Runs fio.
pub fn run(job: FioJob<'_>) -> Result<FioRate, Error> {
    let mut command = Command::new("fio");
    command.args(["--name=koine-bench", "--output-format=json", "--thread", "--randrepeat=0"]);
    command.arg(format!("--filename={}", job.file.display()));
    command.arg(format!("--rw={}", job.access)).arg(format!("--bs={}", job.block_len));
    command.arg(format!("--size={}", job.file_len));
    command.args(match job.manner {
        FioMode::Direct => ["--direct=1", "--ioengine=psync", "--iodepth=1"],
        FioMode::Buffered => ["--direct=0", "--ioengine=psync", "--iodepth=1"],
        FioMode::Queued => ["--direct=1", "--ioengine=libaio", "--iodepth=4"],
    });
    // The last writes too: fio syncs before the next write, and after the last there is none.
    command.arg("--end_fsync=1").args(job.sync_every.map(|writes| format!("--fdatasync={writes}")));
    if let Some(seconds) = job.seconds {
        // fio takes whole units of its suffixes.
        let milliseconds = (seconds * 1e3).max(1.0) as u64;
        command.args(["--time_based".to_owned(), format!("--runtime={milliseconds}ms")]);
    }
    let output = command.output().map_err(Error::io("cannot run fio"))?;
    if !output.status.success() {
        let said = String::from_utf8_lossy(&output.stderr);
        return Err(Error::Worker(format!("fio failed: {}", said.lines().next_back().unwrap_or_default())));
    }
    parse(&String::from_utf8_lossy(&output.stdout), job.access.ends_with("read"))
        .ok_or_else(|| Error::Worker("fio's report cannot be read".into()))
}

/// Reads fio's document; lines of its own may stand before it.
fn parse(text: &str, read: bool) -> Option<FioRate> {
    let document: serde_json::Value = serde_json::from_str(text.get(text.find('{')?..)?).ok()?;
    let side = document.get("jobs")?.get(0)?.get(if read { "read" } else { "write" })?;
    Some(FioRate { bytes: side.get("bw_bytes")?.as_f64()?, calls: side.get("iops")?.as_f64()? })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_report_of_fio_is_read() {
        let text = "fio: a note\n{\"jobs\": [{\"read\": {\"bw_bytes\": 5, \"iops\": 1.5}, \
                    \"write\": {\"bw_bytes\": 4096, \"iops\": 1}}]}";
        assert_eq!(parse(text, true), Some(FioRate { bytes: 5.0, calls: 1.5 }));
        assert_eq!(parse(text, false), Some(FioRate { bytes: 4096.0, calls: 1.0 }));
        assert_eq!(parse("{}", true), None);
        assert_eq!(parse("nothing", true), None);
    }
}
