//! The load: one thread that keeps a number of requests in flight and measures each from its beginning to its answer.
//!
//! Invariant: when answers have come together, as many requests are begun together, whoever is measured.

use super::contestant::{Contestant, Outcome, WireOperation};
use crate::statistics::percentile;
use bytes::Bytes;
use koine_env::{Random, SeededRandom};
use rustix::time::{ClockId, clock_gettime};
use std::collections::VecDeque;
use std::time::{Duration, Instant};

/// What one contestant did in one round.
#[derive(Debug, Clone)]
pub struct WireSample {
    ops: f64,
    seconds: f64,
    /// Microseconds, sorted.
    latencies: Vec<f32>,
    client_cpu: f64,
    server_cpu: Option<f64>,
}

impl WireSample {
    /// Of so many requests in so many seconds; CPU seconds of both sides.
    pub fn of(ops: u64, seconds: f64, mut latencies: Vec<f32>, client_cpu: f64, server_cpu: Option<f64>) -> WireSample {
        latencies.sort_unstable_by(f32::total_cmp);
        WireSample { ops: ops as f64, seconds, latencies, client_cpu, server_cpu }
    }

    /// Requests a second.
    pub fn rate(&self) -> f64 {
        self.ops / self.seconds
    }

    /// Of the time that requests took, in microseconds.
    pub fn percentile(&self, percent: f64) -> Option<f64> {
        percentile(&self.latencies, percent).map(f64::from)
    }

    /// CPU time of a request on both sides, in microseconds.
    pub fn cpu_us(&self) -> Option<f64> {
        let cpu = self.client_cpu + self.server_cpu.unwrap_or(0.0);
        (self.ops > 0.0).then(|| cpu * 1e6 / self.ops)
    }

    /// CPU time of a request on this side, in microseconds.
    pub fn client_us(&self) -> Option<f64> {
        (self.ops > 0.0).then(|| self.client_cpu * 1e6 / self.ops)
    }
}

/// CPU time of this process so far, in seconds.
pub fn own_cpu() -> f64 {
    let time = clock_gettime(ClockId::ProcessCPUTime);
    time.tv_sec as f64 + time.tv_nsec as f64 / 1e9
}

/// A key by its number.
pub fn key(number: u64) -> Bytes {
    Bytes::from(format!("key-{number:012}"))
}

/// The value of every key.
pub fn value(length: usize) -> Bytes {
    let mut bytes = vec![0; length];
    SeededRandom::new(11).fill(&mut bytes);
    bytes.into()
}

/// Puts every key once.
pub fn fill(contestant: &mut dyn Contestant, keys: u64, length: usize) -> Outcome<()> {
    let value = value(length);
    let names: Vec<Bytes> = (0..keys).map(key).collect();
    for some in names.chunks(64) {
        let some: Vec<&Bytes> = some.iter().collect();
        contestant.begin(WireOperation::Put, &some, &value)?;
        for _ in some {
            contestant.finish(&value)?;
        }
    }
    Ok(())
}

/// What is asked for, and for how long.
#[derive(Debug, Clone, Copy)]
pub struct WireLoad {
    pub work: WireOperation,
    /// Requests in flight.
    pub depth: usize,
    pub keys: u64,
    pub value_len: usize,
    pub seconds: f64,
    pub seed: u64,
}

/// Runs one contestant.
pub fn drive(contestant: &mut dyn Contestant, load: WireLoad) -> Outcome<WireSample> {
    let WireLoad { work, depth, keys, value_len, seconds, seed } = load;
    let (random, value) = (SeededRandom::new(seed), value(value_len));
    let names: Vec<Bytes> = (0..keys).map(key).collect();
    let begin = |contestant: &mut dyn Contestant, count: usize, begun: &mut VecDeque<Instant>| -> Outcome<()> {
        let mut keys = Vec::with_capacity(count);
        for _ in 0..count {
            let mut number = [0; 8];
            random.fill(&mut number);
            let place = u64::from_le_bytes(number) % names.len().max(1) as u64;
            keys.push(names.get(place as usize).ok_or("there are no keys")?);
        }
        begun.extend(std::iter::repeat_n(Instant::now(), count));
        contestant.begin(work, &keys, &value)
    };
    let (mut begun, mut latencies) = (VecDeque::new(), Vec::with_capacity(1 << 16));
    let (client, server) = (own_cpu(), contestant.server_cpu());
    let (start, limit) = (Instant::now(), Duration::from_secs_f64(seconds));
    begin(contestant, depth, &mut begun)?;
    while !begun.is_empty() {
        let mut ended = 0;
        while let Some(since) = begun.front().copied()
            && (ended == 0 || contestant.is_ready()?)
        {
            contestant.finish(&value)?;
            begun.pop_front();
            latencies.push(since.elapsed().as_secs_f32() * 1e6);
            ended += 1;
        }
        if start.elapsed() < limit {
            begin(contestant, ended, &mut begun)?;
        }
    }
    let elapsed = start.elapsed().as_secs_f64();
    let client = own_cpu() - client;
    let server = server.zip(contestant.server_cpu()).map(|(before, after)| (after - before).as_secs_f64());
    Ok(WireSample::of(latencies.len() as u64, elapsed, latencies, client, server))
}

#[cfg(test)]
mod tests {
    use super::super::contestant::Transport;
    use super::*;

    /// Answers at once, and counts how many it was asked for at the same time.
    #[derive(Default)]
    struct Counting {
        under_way: usize,
        most: usize,
        puts: usize,
    }

    impl Contestant for Counting {
        fn way(&self) -> Transport {
            Transport::Direct
        }
        fn begin(&mut self, work: WireOperation, keys: &[&Bytes], value: &Bytes) -> Outcome<()> {
            assert_eq!(value.len(), super::super::VALUE_LEN);
            if work == WireOperation::Get {
                return Err("no".into());
            }
            self.puts += keys.len();
            self.under_way += keys.len();
            self.most = self.most.max(self.under_way);
            Ok(())
        }
        fn finish(&mut self, _value: &Bytes) -> Outcome<()> {
            self.under_way -= 1;
            Ok(())
        }
        fn is_ready(&mut self) -> Outcome<bool> {
            Ok(false)
        }
        fn server_cpu(&self) -> Option<Duration> {
            None
        }
    }

    #[test]
    fn so_many_are_in_flight_and_all_are_finished() {
        let mut one = Counting::default();
        fill(&mut one, 100, super::super::VALUE_LEN).unwrap();
        assert_eq!((one.puts, one.under_way), (100, 0));
        one.most = 0;
        let value_len = super::super::VALUE_LEN;
        let load = WireLoad { work: WireOperation::Put, depth: 7, keys: 10, value_len, seconds: 0.01, seed: 1 };
        let sample = drive(&mut one, load).unwrap();
        assert_eq!((one.most, one.under_way), (7, 0));
        assert_eq!(sample.ops as usize, one.puts - 100);
        assert!(sample.rate() > 0.0 && sample.percentile(50.0).is_some());
        assert!(drive(&mut one, WireLoad { work: WireOperation::Get, ..load }).is_err());
    }

    #[test]
    fn cpu_time_is_of_both_sides() {
        let sample = WireSample::of(1000, 2.0, vec![3.0, 1.0, 2.0], 0.5, Some(1.5));
        assert_eq!((sample.cpu_us(), sample.client_us()), (Some(2000.0), Some(500.0)));
        assert_eq!((sample.rate(), sample.percentile(99.0)), (500.0, Some(3.0)));
    }
}
