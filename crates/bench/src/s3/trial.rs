//! The measurement itself: rounds over all cells, every server in turn within each cell.
//!
//! Servers take turns at going first, so that none always meets the disk as another left it. Names are never used twice,
//! so a PUT always stores a new object.

use super::load::{LoadFigures, S3Load, Until, drive};
use super::payload::Payload;
use super::plan::{CellGroup, Operation, PayloadSigning, S3Cell};
use super::prepare::{Batch, Names, Preparer};
use super::server::{Server, nonce};
use super::{S3Arguments, Servers, seconds};
use crate::Error;
use crate::report::{Latency, Report, Row};
use crate::say;
use crate::statistics::{Better, Judgement, holds, median, percentile};
use std::collections::BTreeMap;
use std::time::{Duration, Instant};

/// Names of one page of a listing.
const PAGE: usize = 1000;
/// Objects from this size on are not warmed up for and not stored beforehand in numbers.
const LARGE_BYTES: u64 = 16 << 20;
/// The quick run has used its time after so long; the rest is for stopping the servers.
const QUICK_LIMIT: Duration = Duration::from_secs(42);
/// More requests than this are not prepared for one cell.
const PREPARED_LIMIT: usize = 400_000;
/// So many objects are read again and again.
const WARM_MAX: usize = 1024;
/// Connections for work that is not measured.
const UNTIMED_CONNECTIONS: usize = 16;

/// What one cell of one server gave in one round.
#[derive(Debug, Clone, Default)]
struct S3Sample {
    throughput: Option<f64>,
    efficiency: Option<f64>,
    p50_ms: Option<f64>,
    p99_ms: Option<f64>,
    client_us: Option<f64>,
}

/// Samples of one cell: by server, then by round.
type Rounds = Vec<Vec<S3Sample>>;

struct S3Trial {
    servers: Vec<Server>,
    payload: Payload,
    /// A bucket for each server: two names may lead to one.
    buckets: Vec<String>,
    /// Objects that a server holds for the cells of the current group.
    held: Vec<Option<(Names, std::ops::Range<usize>)>>,
    listed: Vec<bool>,
    names_made: usize,
    seconds: f64,
    quick_until: Option<Instant>,
    samples_left: usize,
    /// A quick run left cells out for want of time.
    skipped: bool,
    errors: Vec<String>,
}

/// Measures all groups and reports them.
pub fn measure(arguments: &S3Arguments, mut groups: Vec<CellGroup>, field: Servers) -> Result<Report, Error> {
    for group in &mut groups {
        group.cells.retain(|cell| arguments.only.as_ref().is_none_or(|text| cell.name().contains(text.as_str())));
    }
    groups.retain(|group| !group.cells.is_empty());
    if groups.is_empty() {
        return Err(Error::Argument("no cell is left to measure; see --operation, --size and --only".into()));
    }
    let rounds = if arguments.quick { 1 } else { arguments.rounds };
    let mut trial = S3Trial::new(arguments, field.servers, &groups)?;
    let mut notes = field.notes;
    let mut results = trial.rounds(&groups, rounds)?;
    if !arguments.quick {
        trial.repeat_failing(&groups, rounds, &mut results, &mut notes, &field.missing)?;
    }
    trial.remove_buckets()?;
    if trial.skipped {
        notes.push("The time of a quick run was over before the last cells; they have no figure.".into());
    }
    let mut report = Report::new("s3");
    for (group, rounds) in groups.iter().zip(&results) {
        for (cell, samples) in group.cells.iter().zip(rounds) {
            report.rows.extend(trial.rows(cell, samples, &field.missing));
            report.latencies.extend(trial.latencies(cell, samples));
        }
    }
    report.notes = notes;
    report.errors = std::mem::take(&mut trial.errors);
    Ok(report)
}

impl S3Trial {
    fn new(arguments: &S3Arguments, servers: Vec<Server>, groups: &[CellGroup]) -> Result<S3Trial, Error> {
        let cells = || groups.iter().flat_map(|group| &group.cells);
        let largest = cells().map(|cell| cell.size_bytes).max().unwrap_or(1).min(64 << 20);
        let bucket = format!("koine-bench-{:x}", nonce() & 0xffff_ffff_ffff);
        let buckets: Vec<String> = (0..servers.len()).map(|index| format!("{bucket}-{index}")).collect();
        for (server, bucket) in servers.iter().zip(&buckets) {
            server.client.call("PUT", &format!("/{bucket}"), "", b"")?;
        }
        Ok(S3Trial {
            payload: Payload::new(usize::try_from(largest).unwrap_or(1 << 20))?,
            buckets,
            held: servers.iter().map(|_| None).collect(),
            listed: servers.iter().map(|_| false).collect(),
            names_made: 0,
            seconds: arguments.duration,
            quick_until: arguments.quick.then(|| Instant::now() + QUICK_LIMIT),
            samples_left: cells().count() * servers.len(),
            skipped: false,
            errors: Vec::new(),
            servers,
        })
    }

    /// Every round over every group. Gives, by group and cell, the samples by server and round.
    fn rounds(&mut self, groups: &[CellGroup], rounds: usize) -> Result<Vec<Vec<Rounds>>, Error> {
        let empty = |group: &CellGroup| group.cells.iter().map(|_| vec![Vec::new(); self.servers.len()]).collect();
        let mut results: Vec<Vec<Rounds>> = groups.iter().map(empty).collect();
        for round in 0..rounds {
            for (group, results) in groups.iter().zip(&mut results) {
                for (cell, samples) in group.cells.iter().zip(results) {
                    self.round(round, rounds, cell, samples)?;
                }
                self.clear()?;
            }
        }
        Ok(results)
    }

    fn round(&mut self, round: usize, rounds: usize, cell: &S3Cell, samples: &mut Rounds) -> Result<(), Error> {
        let mut shown = Vec::new();
        for turn in 0..self.servers.len() {
            let index = (turn + round) % self.servers.len();
            let sample = self.sample(index, cell)?;
            let figure = sample.throughput.map_or_else(|| "failed".into(), |value| format!("{value:.0}"));
            shown.push(format!("{} {figure}", self.servers[index].name));
            samples[index].push(sample);
        }
        let (name, unit) = (cell.name(), cell.unit());
        say(&format!("round {} of {rounds}, {name}: {} {unit}", round + 1, shown.join(", ")));
        Ok(())
    }

    /// A cell that misses a goal is measured once more, all its rounds; the second result counts.
    fn repeat_failing(
        &mut self,
        groups: &[CellGroup],
        rounds: usize,
        results: &mut [Vec<Rounds>],
        notes: &mut Vec<String>,
        missing: &[String],
    ) -> Result<(), Error> {
        for (group, results) in groups.iter().zip(results) {
            for (cell, samples) in group.cells.iter().zip(results) {
                let fails = |row: &Row| holds(row.ratio, row.goal) == Some(false);
                let first = self.rows(cell, samples, missing);
                if !first.iter().any(fails) {
                    continue;
                }
                let ratios = |rows: &[Row]| {
                    let shown = rows.iter().filter_map(|row| Some(format!("{:.2} {}", row.ratio?, row.unit)));
                    shown.collect::<Vec<_>>().join(", ")
                };
                let mut again = vec![Vec::new(); self.servers.len()];
                for round in 0..rounds {
                    self.round(round, rounds, cell, &mut again)?;
                    self.clear()?;
                }
                let second = self.rows(cell, &again, missing);
                notes.push(format!(
                    "{} was measured twice: ratios {} at first, then {}; the second run is reported.",
                    cell.name(),
                    ratios(&first),
                    ratios(&second)
                ));
                *samples = again;
            }
        }
        Ok(())
    }

    /// Time for the next sample: as asked, or what is left of a quick run shared among the samples left.
    fn time(&mut self) -> Duration {
        let Some(until) = self.quick_until else { return seconds(self.seconds) };
        let left = until.saturating_duration_since(Instant::now()).as_secs_f64();
        // Preparing and waiting for the last answers take about as much again.
        let share = left / self.samples_left.max(1) as f64 / 1.8;
        self.samples_left = self.samples_left.saturating_sub(1);
        seconds(share.clamp(0.05, self.seconds.min(1.0)))
    }

    fn sample(&mut self, index: usize, cell: &S3Cell) -> Result<S3Sample, Error> {
        if self.quick_until.is_some_and(|until| Instant::now() >= until) {
            self.skipped = true;
            return Ok(S3Sample::default());
        }
        let time = self.time();
        match cell.operation {
            Operation::Put => self.sample_put(index, cell, time),
            Operation::GetFresh => self.sample_get_once(index, cell, time),
            Operation::Get => self.sample_get(index, cell, time),
            Operation::GetCold => {
                if !self.servers[index].restart_cold()? {
                    return Ok(S3Sample::default());
                }
                self.sample_get_once(index, cell, time)
            }
            Operation::Delete => self.sample_delete(index, cell, time),
            Operation::List => self.sample_list(index, cell, time),
        }
    }

    fn sample_put(&mut self, index: usize, cell: &S3Cell, time: Duration) -> Result<S3Sample, Error> {
        let names = self.fresh_names(index);
        let mut first = 0;
        let mut count = 256;
        if cell.size_bytes < LARGE_BYTES {
            first = 32.max(cell.connections * 4);
            let batch = self.put_batch(index, cell, &names, 0..first);
            let warm = self.drive(index, cell, &batch, Until { time: None, once: true })?;
            let rate = warm.latencies.len() as f64 / warm.elapsed.as_secs_f64().max(1e-6);
            count = ((rate * time.as_secs_f64() * 3.0) as usize + 256).min(PREPARED_LIMIT);
        }
        let batch = self.put_batch(index, cell, &names, first..first + count);
        let cpu = self.servers[index].cpu();
        let measured = self.drive(index, cell, &batch, Until { time: Some(time), once: true })?;
        let sample = self.evaluate(index, cell, &measured, cpu);
        self.hold(index, names, first + measured.begun)?;
        Ok(sample)
    }

    fn put_batch(&self, index: usize, cell: &S3Cell, names: &Names, numbers: std::ops::Range<usize>) -> Batch {
        let preparer = self.preparer(index);
        match cell.wire {
            PayloadSigning::Plain => preparer.put(names, numbers, cell.size_bytes, &self.payload),
            PayloadSigning::SignedChunks => {
                let size = usize::try_from(cell.size_bytes).unwrap_or(usize::MAX);
                preparer.put_chunked(names, numbers, size, &self.payload)
            }
        }
    }

    fn sample_get(&mut self, index: usize, cell: &S3Cell, time: Duration) -> Result<S3Sample, Error> {
        let (names, count) = self.objects(index, cell)?;
        self.check_content(index, cell, &names, count)?;
        // Few enough objects that all are in memory: what a disk reads is the disk's merit, not the server's.
        let most = if cell.size_bytes < LARGE_BYTES { WARM_MAX } else { cell.connections.max(4) };
        let batch = self.preparer(index).get(&names, 0..count.min(most), cell.size_bytes);
        self.drive(index, cell, &batch, Until { time: None, once: true })?;
        let cpu = self.servers[index].cpu();
        let measured = self.drive(index, cell, &batch, Until { time: Some(time), once: false })?;
        Ok(self.evaluate(index, cell, &measured, cpu))
    }

    /// Every object at most once.
    fn sample_get_once(&mut self, index: usize, cell: &S3Cell, time: Duration) -> Result<S3Sample, Error> {
        let (names, count) = self.objects(index, cell)?;
        let batch = self.preparer(index).get(&names, 0..count, cell.size_bytes);
        let cpu = self.servers[index].cpu();
        let measured = self.drive(index, cell, &batch, Until { time: Some(time), once: true })?;
        self.check_content(index, cell, &names, count)?;
        Ok(self.evaluate(index, cell, &measured, cpu))
    }

    fn sample_delete(&mut self, index: usize, cell: &S3Cell, time: Duration) -> Result<S3Sample, Error> {
        let (names, count) = self.objects(index, cell)?;
        let batch = self.preparer(index).delete(&names, 0..count);
        let cpu = self.servers[index].cpu();
        let measured = self.drive(index, cell, &batch, Until { time: Some(time), once: true })?;
        self.held[index] = (measured.begun < count).then_some((names, measured.begun..count));
        Ok(self.evaluate(index, cell, &measured, cpu))
    }

    fn sample_list(&mut self, index: usize, cell: &S3Cell, time: Duration) -> Result<S3Sample, Error> {
        let names = Names { start: format!("/{}/list/", self.buckets[index]) };
        if !self.listed[index] {
            // More than a page, so that a page is a part as in use.
            let batch = self.preparer(index).put(&names, 0..PAGE + PAGE / 2, 1024.min(cell.size_bytes), &self.payload);
            self.drive_untimed(index, &batch)?;
            self.listed[index] = true;
        }
        let batch = self.preparer(index).list(&self.buckets[index], "list%2F", PAGE);
        let query = format!("list-type=2&max-keys={PAGE}&prefix=list%2F");
        let page = self.servers[index].client.call("GET", &format!("/{}", self.buckets[index]), &query, b"")?;
        let found = String::from_utf8_lossy(&page.body).matches("<Key>").count();
        if found != PAGE {
            return Err(Error::Answer(format!("{} listed {found} names of {PAGE}", self.servers[index].name)));
        }
        let cpu = self.servers[index].cpu();
        let measured = self.drive(index, cell, &batch, Until { time: Some(time), once: false })?;
        Ok(self.evaluate(index, cell, &measured, cpu))
    }

    /// The objects to read or delete: those of the PUT before, or else some stored now.
    fn objects(&mut self, index: usize, cell: &S3Cell) -> Result<(Names, usize), Error> {
        if self.held[index].is_none() {
            let names = self.fresh_names(index);
            let count = if cell.size_bytes < LARGE_BYTES { 2000.min((1 << 30) / cell.size_bytes as usize) } else { 16 };
            let batch = self.preparer(index).put(&names, 0..count, cell.size_bytes, &self.payload);
            self.drive_untimed(index, &batch)?;
            self.hold(index, names, count)?;
        }
        let held = self.held[index].as_ref().map(|(names, numbers)| (names.clone(), numbers.end));
        held.ok_or_else(|| Error::Answer("nothing was stored".into()))
    }

    /// What a GET gives is what was put: looked at once before each measurement.
    fn check_content(&self, index: usize, cell: &S3Cell, names: &Names, count: usize) -> Result<(), Error> {
        let server = &self.servers[index];
        let path = names.path(count / 2);
        let reply = server.client.call("GET", &path, "", b"")?;
        let mut expected = self.payload.bytes().iter().cycle().take(cell.size_bytes as usize);
        if reply.body.len() as u64 == cell.size_bytes && reply.body.iter().all(|byte| expected.next() == Some(byte)) {
            return Ok(());
        }
        Err(Error::Answer(format!("{} gave other bytes for {path} than were put", server.name)))
    }

    fn preparer(&self, index: usize) -> Preparer {
        let client = &self.servers[index].client;
        Preparer::new(&client.credentials, &client.host)
    }

    fn fresh_names(&mut self, index: usize) -> Names {
        self.names_made += 1;
        Names { start: format!("/{}/run{:06}/", self.buckets[index], self.names_made) }
    }

    /// Keeps objects for the cells that follow; those of before are removed.
    fn hold(&mut self, index: usize, names: Names, count: usize) -> Result<(), Error> {
        self.clear_one(index)?;
        self.held[index] = Some((names, 0..count));
        Ok(())
    }

    fn clear(&mut self) -> Result<(), Error> {
        (0..self.servers.len()).try_for_each(|index| self.clear_one(index))
    }

    fn clear_one(&mut self, index: usize) -> Result<(), Error> {
        // A quick run has no time for it, and its stores are thrown away as a whole.
        let thrown_away = self.quick_until.is_some() && self.servers[index].folder().is_some();
        match self.held[index].take() {
            Some((names, numbers)) if !thrown_away => {
                let batch = self.preparer(index).delete(&names, numbers);
                self.drive_untimed(index, &batch)
            }
            _ => Ok(()),
        }
    }

    /// A server that somebody else runs is left as it was.
    fn remove_buckets(&mut self) -> Result<(), Error> {
        self.clear()?;
        for index in 0..self.servers.len() {
            if self.servers[index].folder().is_some() {
                continue;
            }
            if self.listed[index] {
                let names = Names { start: format!("/{}/list/", self.buckets[index]) };
                let batch = self.preparer(index).delete(&names, 0..PAGE + PAGE / 2);
                self.drive_untimed(index, &batch)?;
            }
            self.servers[index].client.call("DELETE", &format!("/{}", self.buckets[index]), "", b"")?;
        }
        Ok(())
    }

    fn drive(&mut self, index: usize, cell: &S3Cell, batch: &Batch, until: Until) -> Result<LoadFigures, Error> {
        let server = &self.servers[index];
        let connections = cell.connections;
        let load = S3Load { address: server.client.address, batch, payload: &self.payload, connections, until };
        let measured = drive(&load)?;
        if measured.failures > 0 {
            let first = measured.first_failure.as_deref().unwrap_or("unknown");
            self.errors.push(format!("{}, {}: {} failed, first: {first}", server.name, cell.name(), measured.failures));
        }
        Ok(measured)
    }

    fn drive_untimed(&mut self, index: usize, batch: &Batch) -> Result<(), Error> {
        let server = &self.servers[index];
        let measured = drive(&S3Load {
            address: server.client.address,
            batch,
            payload: &self.payload,
            connections: UNTIMED_CONNECTIONS.min(batch.len()),
            until: Until { time: None, once: true },
        })?;
        if measured.failures > 0 {
            let first = measured.first_failure.as_deref().unwrap_or("unknown");
            self.errors
                .push(format!("{}, outside of cells: {} failed, first: {first}", server.name, measured.failures));
        }
        Ok(())
    }

    fn evaluate(&self, index: usize, cell: &S3Cell, measured: &LoadFigures, cpu_before: Option<Duration>) -> S3Sample {
        let completed = measured.latencies.len() as f64;
        if completed == 0.0 {
            return S3Sample::default();
        }
        let work = if cell.counts_bytes() { completed * cell.size_bytes as f64 / 1e6 } else { completed };
        let cpu = self.servers[index].cpu().zip(cpu_before).map(|(after, before)| after.saturating_sub(before));
        let mut latencies = measured.latencies.clone();
        latencies.sort_unstable();
        let milliseconds = |percent| percentile(&latencies, percent).map(|time| time.as_secs_f64() * 1e3);
        S3Sample {
            throughput: Some(work / measured.elapsed.as_secs_f64().max(1e-9)),
            efficiency: cpu.filter(|cpu| !cpu.is_zero()).map(|cpu| work / cpu.as_secs_f64()),
            p50_ms: milliseconds(50.0),
            p99_ms: milliseconds(99.0),
            client_us: Some(measured.client_cpu.as_secs_f64() * 1e6 / completed),
        }
    }

    fn rows(&self, cell: &S3Cell, samples: &Rounds, missing: &[String]) -> Vec<Row> {
        let row = |unit: &str, goal: f64, figure: fn(&S3Sample) -> Option<f64>| {
            let column = |index: usize| samples[index].iter().map(figure).collect::<Vec<_>>();
            let mut references: BTreeMap<String, Vec<Option<f64>>> =
                missing.iter().map(|name| (name.clone(), Vec::new())).collect();
            references.extend((1..self.servers.len()).map(|index| (self.servers[index].name.clone(), column(index))));
            let judgement = Judgement::of(&column(0), &references, Better::Higher);
            Row::new(cell.name(), unit, Better::Higher, goal, judgement).in_section(section(cell.wire))
        };
        let mut rows = vec![row(cell.unit(), 1.0, |sample| sample.throughput)];
        if cell.efficiency {
            rows.push(row(cell.efficiency_unit(), cell.efficiency_goal(), |sample| sample.efficiency));
        }
        rows
    }

    fn latencies(&self, cell: &S3Cell, samples: &Rounds) -> Vec<Latency> {
        let middle = |index: usize, figure: fn(&S3Sample) -> Option<f64>| {
            median(&samples[index].iter().filter_map(figure).collect::<Vec<_>>())
        };
        (0..self.servers.len())
            .map(|index| Latency {
                case: cell.name(),
                server: self.servers[index].name.clone(),
                p50_ms: middle(index, |sample| sample.p50_ms),
                p99_ms: middle(index, |sample| sample.p99_ms),
                client_us: middle(index, |sample| sample.client_us),
            })
            .collect()
    }
}

fn section(wire: PayloadSigning) -> &'static str {
    match wire {
        PayloadSigning::Plain => "Header signatures, payload unsigned",
        PayloadSigning::SignedChunks => "Payload in signed chunks with a signed trailer",
    }
}
