//! What became of the copies of one command.

use indicatif::ProgressBar;
use serde_json::json;

use super::plan::Job;
use crate::failure::{Failure, Outcome};
use crate::output::{Output, printable};
use crate::size;

/// Whether the bytes of a finished job could be compared with a checksum.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Verified {
    Yes,
    /// They were there already and are equal; nothing was copied.
    There,
    /// The server has no checksum of the whole object.
    NothingToCompare,
}

/// What became of all jobs.
#[derive(Clone, Copy, Debug, Default)]
pub struct Summary {
    /// Is at its target.
    pub copied: u64,
    /// Was there already.
    pub left: u64,
    /// Of what was copied.
    pub bytes: u64,
    /// Was copied, and there was no checksum to compare.
    pub unverified: u64,
    /// Was at the target alone, and is not there any more.
    pub deleted: u64,
    /// Could not be copied or deleted.
    pub failed: u64,
}

impl Summary {
    /// Counts a job; the failure of the only one is that of the command.
    pub fn note(
        &mut self,
        job: &Job,
        result: Outcome<Verified>,
        single: bool,
        bar: &ProgressBar,
        output: Output,
    ) -> Outcome {
        match result {
            Ok(Verified::There) => self.left += 1,
            Ok(verified) => {
                self.copied += 1;
                self.bytes += job.size;
                self.unverified += u64::from(verified == Verified::NothingToCompare);
                output.json(&json!({
                    "type": "copied", "from": job.from.to_string(), "to": job.to.to_string(), "bytes": job.size,
                }))?;
            }
            Err(failure) if single => return Err(failure),
            Err(failure) => {
                self.failed += 1;
                bar.suspend(|| eprintln!("koine: {}: {failure}", printable(&job.from.to_string())));
            }
        }
        Ok(())
    }

    /// Both together.
    pub fn and(self, other: Self) -> Self {
        Summary {
            copied: self.copied + other.copied,
            left: self.left + other.left,
            bytes: self.bytes + other.bytes,
            unverified: self.unverified + other.unverified,
            deleted: self.deleted + other.deleted,
            failed: self.failed + other.failed,
        }
    }

    /// Says what was copied; a failure when something was not.
    pub fn tell(&self, seconds: f64, output: Output) -> Outcome {
        let verified = match self.unverified {
            0 => "checksums verified".to_owned(),
            some => format!("{some} had no checksum to verify"),
        };
        let rate = size::show((self.bytes as f64 / seconds.max(0.001)) as u64);
        let objects = if self.copied == 1 { "object" } else { "objects" };
        let left = if self.left == 0 { String::new() } else { format!(", {} there already", self.left) };
        let deleted = if self.deleted == 0 { String::new() } else { format!(", {} deleted", self.deleted) };
        output.people(format!(
            "{} {objects}, {} in {seconds:.1} s ({rate}/s), {verified}{left}{deleted}",
            self.copied,
            size::show(self.bytes)
        ))?;
        output.json(&json!({
            "type": "summary", "copied": self.copied, "failed": self.failed, "bytes": self.bytes, "left": self.left, "deleted": self.deleted,
            "unverified": self.unverified, "seconds": seconds,
        }))?;
        match self.failed {
            0 => Ok(()),
            failed => Err(Failure::failed(format!("{failed} of {} could not be copied", failed + self.copied))),
        }
    }
}
