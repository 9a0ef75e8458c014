//! The counters of a meter, and what they show.
//!
//! Invariants:
//! - A thread counts in a part of its own or one that few share: counting waits for nobody.
//! - A bucket of the histogram is at most a quarter of its values wide.

use std::cell::Cell;
use std::fmt;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::time::Duration;

use koine_engine::{Error, ErrorKind};

use crate::wrap::calls::{CALLS, Call};

/// Parts that are counted in apart.
const PARTS: usize = 8;
/// Buckets up to 2^42 nanoseconds, more than an hour; what is longer is in the last.
const BUCKETS: usize = 42 * 4;

/// The kinds that are told apart; those to come are counted with the last.
const KINDS: [ErrorKind; 14] = [
    ErrorKind::Refused,
    ErrorKind::Invalid,
    ErrorKind::NotFound,
    ErrorKind::Full,
    ErrorKind::Expired,
    ErrorKind::Owned,
    ErrorKind::Damaged,
    ErrorKind::Unknown,
    ErrorKind::Device,
    ErrorKind::Stopped,
    ErrorKind::Unsupported,
    ErrorKind::Busy,
    ErrorKind::Disconnected,
    ErrorKind::TimedOut,
];

thread_local! {
    static PART: Cell<usize> = const { Cell::new(usize::MAX) };
}

/// The part of this thread.
fn part() -> usize {
    static NEXT: AtomicUsize = AtomicUsize::new(0);
    let mut part = PART.get();
    if part == usize::MAX {
        part = NEXT.fetch_add(1, Ordering::Relaxed) % PARTS;
        PART.set(part);
    }
    part
}

#[repr(align(128))]
struct Gauge {
    count: AtomicU64,
    bytes: AtomicU64,
    errors: [AtomicU64; KINDS.len()],
    nanoseconds: AtomicU64,
    longest: AtomicU64,
    buckets: [AtomicU64; BUCKETS],
}

impl Gauge {
    fn new() -> Gauge {
        let zero = |_| AtomicU64::new(0);
        Gauge {
            count: zero(0),
            bytes: zero(0),
            errors: std::array::from_fn(zero),
            nanoseconds: zero(0),
            longest: zero(0),
            buckets: std::array::from_fn(zero),
        }
    }
}

/// All counters of a meter.
pub(super) struct Gauges {
    parts: Vec<[Gauge; CALLS]>,
}

impl Gauges {
    pub fn new() -> Gauges {
        Gauges { parts: (0..PARTS).map(|_| std::array::from_fn(|_| Gauge::new())).collect() }
    }

    /// Counts a call, its bytes and its error.
    pub fn count(&self, call: Call, outcome: Result<u64, &Error>) {
        let Some(gauge) = self.gauge(call) else { return };
        gauge.count.fetch_add(1, Ordering::Relaxed);
        match outcome {
            Ok(0) => {}
            Ok(bytes) => _ = gauge.bytes.fetch_add(bytes, Ordering::Relaxed),
            Err(error) => {
                let index = KINDS.iter().position(|kind| *kind == error.kind()).unwrap_or(KINDS.len() - 1);
                if let Some(counter) = gauge.errors.get(index) {
                    counter.fetch_add(1, Ordering::Relaxed);
                }
            }
        }
    }

    /// Adds how long a call took.
    pub fn time(&self, call: Call, took: Duration) {
        let Some(gauge) = self.gauge(call) else { return };
        let nanoseconds = u64::try_from(took.as_nanos()).unwrap_or(u64::MAX);
        gauge.nanoseconds.fetch_add(nanoseconds, Ordering::Relaxed);
        if nanoseconds > gauge.longest.load(Ordering::Relaxed) {
            gauge.longest.fetch_max(nanoseconds, Ordering::Relaxed);
        }
        if let Some(bucket) = gauge.buckets.get(bucket_of(nanoseconds)) {
            bucket.fetch_add(1, Ordering::Relaxed);
        }
    }

    fn gauge(&self, call: Call) -> Option<&Gauge> {
        self.parts.get(part())?.get(call.index())
    }

    pub fn snapshot(&self) -> Snapshot {
        let all = Call::ALL.iter().map(|call| self.metered(*call));
        Snapshot { calls: all.filter(|metered| metered.count > 0).collect() }
    }

    fn metered(&self, call: Call) -> Metered {
        let gauges = || self.parts.iter().filter_map(|part| part.get(call.index()));
        let sum = |of: &dyn Fn(&Gauge) -> &AtomicU64| gauges().map(|gauge| of(gauge).load(Ordering::Relaxed)).sum();
        let of_kind = |index: usize| {
            gauges().filter_map(|gauge| gauge.errors.get(index)).map(|counter| counter.load(Ordering::Relaxed)).sum()
        };
        let of_bucket = |index: usize| {
            gauges().filter_map(|gauge| gauge.buckets.get(index)).map(|counter| counter.load(Ordering::Relaxed)).sum()
        };
        let longest = gauges().map(|gauge| gauge.longest.load(Ordering::Relaxed)).max().unwrap_or_default();
        Metered {
            call,
            count: sum(&|gauge| &gauge.count),
            bytes: sum(&|gauge| &gauge.bytes),
            errors: KINDS
                .iter()
                .enumerate()
                .map(|(index, kind)| (*kind, of_kind(index)))
                .filter(|of| of.1 > 0)
                .collect(),
            latency: Latency {
                buckets: (0..BUCKETS).map(of_bucket).collect(),
                sum: sum(&|gauge| &gauge.nanoseconds),
                longest,
            },
        }
    }
}

fn bucket_of(nanoseconds: u64) -> usize {
    if nanoseconds < 4 {
        return nanoseconds as usize;
    }
    let exponent = 63 - nanoseconds.leading_zeros();
    let quarter = nanoseconds >> (exponent - 2) & 3;
    ((exponent as usize - 1) * 4 + quarter as usize).min(BUCKETS - 1)
}

/// The first value past a bucket.
fn end_of(bucket: usize) -> u64 {
    if bucket < 4 {
        return bucket as u64 + 1;
    }
    (bucket as u64 % 4 + 5) << (bucket / 4 - 1)
}

/// How long the calls took that were timed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Latency {
    buckets: Vec<u64>,
    sum: u64,
    longest: u64,
}

impl Latency {
    /// How many calls were timed.
    pub fn count(&self) -> u64 {
        self.buckets.iter().sum()
    }

    /// The mean of all.
    pub fn mean(&self) -> Duration {
        Duration::from_nanos(self.sum.checked_div(self.count()).unwrap_or(0))
    }

    /// The longest since the meter was made.
    pub fn longest(&self) -> Duration {
        Duration::from_nanos(self.longest)
    }

    /// At most so long took this share of the calls, told up to a quarter too long: 0.5 is the median.
    pub fn quantile(&self, share: f64) -> Duration {
        let count = self.count();
        let wanted = ((count as f64 * share).ceil() as u64).clamp(1, count.max(1));
        let mut seen = 0;
        for (bucket, of_bucket) in self.buckets.iter().enumerate() {
            seen += of_bucket;
            if seen >= wanted {
                return Duration::from_nanos(end_of(bucket).min(self.longest));
            }
        }
        Duration::ZERO
    }
}

/// What was counted of one call.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Metered {
    /// The call.
    pub call: Call,
    /// How often it was made.
    pub count: u64,
    /// The bytes it read or wrote.
    pub bytes: u64,
    /// How often it failed, by kind; kinds that never came are left out.
    pub errors: Vec<(ErrorKind, u64)>,
    /// How long it took.
    pub latency: Latency,
}

/// What a meter has counted so far.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Snapshot {
    /// The calls that were made, in the order of [`Call::ALL`].
    pub calls: Vec<Metered>,
}

impl Snapshot {
    /// What was counted of a call; `None` when it was never made.
    pub fn of(&self, call: Call) -> Option<&Metered> {
        self.calls.iter().find(|metered| metered.call == call)
    }

    /// What came after an earlier snapshot of the same meter. The longest stays that of all.
    #[must_use]
    pub fn since(&self, earlier: &Snapshot) -> Snapshot {
        let less = |now: &Metered| {
            let Some(before) = earlier.of(now.call) else { return now.clone() };
            let errors_before = |kind| before.errors.iter().find(|of| of.0 == kind).map_or(0, |of| of.1);
            let errors = now.errors.iter().map(|(kind, count)| (*kind, count.saturating_sub(errors_before(*kind))));
            let buckets = now.latency.buckets.iter().zip(&before.latency.buckets);
            Metered {
                call: now.call,
                count: now.count.saturating_sub(before.count),
                bytes: now.bytes.saturating_sub(before.bytes),
                errors: errors.filter(|of| of.1 > 0).collect(),
                latency: Latency {
                    buckets: buckets.map(|(now, before)| now.saturating_sub(*before)).collect(),
                    sum: now.latency.sum.saturating_sub(before.latency.sum),
                    longest: now.latency.longest,
                },
            }
        };
        Snapshot { calls: self.calls.iter().map(less).filter(|metered| metered.count > 0).collect() }
    }
}

impl fmt::Display for Snapshot {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(
            f,
            "{:<14}{:>12}{:>16}{:>8}  {:>9} {:>9} {:>9}",
            "call", "count", "bytes", "errors", "p50", "p99", "longest"
        )?;
        for Metered { call, count, bytes, errors, latency } in &self.calls {
            let failed: u64 = errors.iter().map(|of| of.1).sum();
            let [half, most, longest] = [latency.quantile(0.5), latency.quantile(0.99), latency.longest()]
                .map(|time| format!("{:.1} us", time.as_nanos() as f64 / 1000.0));
            let name = call.name();
            writeln!(f, "{name:<14}{count:>12}{bytes:>16}{failed:>8}  {half:>9} {most:>9} {longest:>9}")?;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn buckets_follow_each_other_and_are_narrow() {
        let mut last = 0;
        for nanoseconds in (0..5000).chain((0..42).flat_map(|bit| [(1u64 << bit) - 1, 1 << bit, (1 << bit) + 1])) {
            let bucket = bucket_of(nanoseconds);
            let begin = if bucket == 0 { 0 } else { end_of(bucket - 1) };
            assert!((begin..end_of(bucket)).contains(&nanoseconds), "{nanoseconds} in {bucket}");
            assert!(end_of(bucket) - begin <= (begin / 4).max(1), "{bucket}: {begin} to {}", end_of(bucket));
            last = last.max(bucket);
        }
        assert!(last < BUCKETS && bucket_of(u64::MAX) == BUCKETS - 1);
    }

    #[test]
    fn quantiles_are_those_of_what_was_timed() {
        let gauges = Gauges::new();
        for time in 1..=1000 {
            gauges.count(Call::Get, Ok(2));
            gauges.time(Call::Get, Duration::from_micros(time));
        }
        let snapshot = gauges.snapshot();
        let latency = &snapshot.of(Call::Get).expect("it was counted").latency;
        assert_eq!((latency.count(), latency.longest()), (1000, Duration::from_millis(1)));
        assert_eq!(latency.mean(), Duration::from_nanos(500_500));
        for (share, exact) in [(0.0, 1), (0.5, 500), (0.99, 990), (1.0, 1000)] {
            let told = latency.quantile(share).as_micros();
            assert!((exact..=exact * 5 / 4 + 1).contains(&told), "{share}: {told} for {exact}");
        }
    }
}
