//! How long each sample takes: as asked for, or in a quick run what is left of its time.

use std::time::{Duration, Instant};

/// The quick run has used its time after so long; the rest is for what is not sampled.
const QUICK_LIMIT: Duration = Duration::from_secs(40);
/// Of the time left so much is for samples, the rest for what they need beforehand.
const SAMPLED_SHARE: f64 = 0.4;

/// Shares time out.
#[derive(Debug)]
pub struct Budget {
    seconds: f64,
    until: Option<Instant>,
    samples_left: usize,
    skipped: bool,
}

impl Budget {
    /// Each sample takes so long; in a quick run at most.
    pub fn new(seconds: f64, quick: bool) -> Budget {
        let until = quick.then(|| Instant::now() + QUICK_LIMIT);
        Budget { seconds, until, samples_left: 0, skipped: false }
    }

    /// Samples that are going to be taken.
    pub fn expect(&mut self, samples: usize) {
        self.samples_left += samples;
    }

    /// Seconds for the next sample; `None` when the time is over.
    pub fn next(&mut self) -> Option<f64> {
        let Some(until) = self.until else { return Some(self.seconds) };
        let left = until.saturating_duration_since(Instant::now()).as_secs_f64();
        if left == 0.0 {
            self.skipped = true;
            return None;
        }
        let share = left * SAMPLED_SHARE / self.samples_left.max(1) as f64;
        self.samples_left = self.samples_left.saturating_sub(1);
        Some(share.clamp(0.02, self.seconds.clamp(0.02, 1.0)))
    }

    /// Whether time is left at all.
    pub fn is_over(&mut self) -> bool {
        let over = self.until.is_some_and(|until| Instant::now() >= until);
        self.skipped |= over;
        over
    }

    /// Whether samples were left out.
    pub fn skipped(&self) -> bool {
        self.skipped
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_full_run_takes_what_was_asked_for() {
        let mut budget = Budget::new(3.0, false);
        assert_eq!((budget.next(), budget.is_over(), budget.skipped()), (Some(3.0), false, false));
    }

    #[test]
    fn a_quick_run_shares_its_time_and_says_when_it_is_over() {
        let mut budget = Budget::new(1.0, true);
        budget.expect(100);
        let first = budget.next().unwrap();
        assert!((0.1..0.2).contains(&first), "{first}");
        budget.until = Some(Instant::now() - Duration::from_millis(1));
        assert_eq!((budget.next(), budget.is_over(), budget.skipped()), (None, true, true));
    }
}
