//! The background scrub of a running server: reads the store from the medium at a low rate and logs what is damaged.
//!
//! Invariants: it waits most of its time, holds no view while it does, and ends before the store is closed.

use std::sync::mpsc::{Receiver, RecvTimeoutError, Sender, channel};
use std::thread::JoinHandle;
use std::time::Duration;

use koine::kv::ErrorKind;
use koine::{Scrub, ScrubOptions, ScrubPosition, Store};

use crate::failure::{Failure, Outcome};

/// From the end of a pass to the begin of the next.
const BETWEEN_PASSES: Duration = Duration::from_secs(24 * 3600);
/// After a step that could not be made.
const AFTER_FAILURE: Duration = Duration::from_secs(60);
/// The bounds of what is read at once.
const STEP_LEN: std::ops::RangeInclusive<u64> = (256 << 10)..=(4 << 20);

/// A scrub under way.
pub struct BackgroundScrub {
    stop: Option<Sender<()>>,
    thread: Option<JoinHandle<()>>,
}

impl BackgroundScrub {
    /// Begins; nothing happens for a store in memory or a rate of 0.
    pub fn start(store: &Store, rate_per_second: u64) -> Outcome<BackgroundScrub> {
        let step_len = rate_per_second.clamp(*STEP_LEN.start(), *STEP_LEN.end());
        let scrub = store.scrub(ScrubOptions { rate_per_second, step_len }, ScrubPosition::default());
        let Some(scrub) = scrub.filter(|_| rate_per_second > 0) else {
            return Ok(BackgroundScrub { stop: None, thread: None });
        };
        let (stop, stopped) = channel();
        let thread = std::thread::Builder::new()
            .name("koine-scrub".to_owned())
            .spawn(move || run(scrub, &stopped))
            .map_err(|error| Failure::io("cannot start a thread", &error))?;
        Ok(BackgroundScrub { stop: Some(stop), thread: Some(thread) })
    }
}

impl Drop for BackgroundScrub {
    fn drop(&mut self) {
        drop(self.stop.take());
        if let Some(thread) = self.thread.take() {
            let _ = thread.join();
        }
    }
}

fn run(mut scrub: Scrub, stopped: &Receiver<()>) {
    let mut damaged = 0;
    loop {
        let wait = match scrub.step() {
            Ok(step) => {
                damaged += step.findings.len();
                for finding in &step.findings {
                    tracing::error!(concerns = %finding.concern, "damaged: {}", finding.message);
                }
                if step.done {
                    tracing::info!(damaged, "the store was read and verified from end to end");
                    damaged = 0;
                    BETWEEN_PASSES
                } else {
                    scrub.wait()
                }
            }
            Err(error) if error.kind() == ErrorKind::Stopped => return,
            Err(error) => {
                tracing::warn!("the scrub could not go on and tries again in a minute: {error}");
                AFTER_FAILURE
            }
        };
        if stopped.recv_timeout(wait) != Err(RecvTimeoutError::Timeout) {
            return;
        }
    }
}
