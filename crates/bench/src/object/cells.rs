//! PUT and GET by size with one thread, and by threads with one size, beside MinIO.

use super::ours::{Buffers, LocalObjects, PIECE_LEN, Throughput, repeat};
use super::peer::{NAME, Peer};
use super::{ObjectArguments, ObjectGroup, show_size};
use crate::figures::Figures;
use crate::report::{OURS, Report};
use crate::s3::payload::Payload;
use crate::statistics::Better;
use crate::{Error, say};
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

/// What ours is called, in every benchmark of a library.
/// Up to this size the issue asks for a multiple of MinIO.
const SMALL_BYTES: u64 = 64 << 10;
const PUT_GOAL: f64 = 4.0;
const GET_GOAL: f64 = 8.0;
/// From this size on bytes are counted, below it objects.
const COUNT_BYTES_FROM: u64 = 256 << 10;
/// Objects that are read: few enough that all are in memory.
const READ_MAX: usize = 2000;
const READ_BYTES_MAX: u64 = 1 << 30;

/// One line of the table, both ways.
struct ObjectCell {
    section: &'static str,
    size: u64,
    threads: usize,
    figures: [Figures; 2],
}

impl ObjectCell {
    fn new(section: &'static str, size: u64, threads: usize) -> ObjectCell {
        ObjectCell { section, size, threads, figures: Default::default() }
    }

    fn name(&self, verb: &str) -> String {
        format!("{verb} {} x{}", show_size(self.size), self.threads)
    }

    fn figure(&self, rate: Throughput) -> f64 {
        let per_second = rate.count as f64 / rate.seconds;
        if self.size >= COUNT_BYTES_FROM { per_second * self.size as f64 / 1e6 } else { per_second }
    }

    fn unit(&self) -> &'static str {
        if self.size >= COUNT_BYTES_FROM { "MB/s" } else { "ops/s" }
    }
}

/// Measures and adds the rows.
pub fn measure(arguments: &ObjectArguments, report: &mut Report) -> Result<(), Error> {
    let mut cells = Vec::new();
    if arguments.wants(ObjectGroup::Size) {
        let by_size = "By size, one thread (MinIO: one connection), objects in memory when they are read";
        cells.extend(arguments.sizes.iter().map(|size| ObjectCell::new(by_size, *size, 1)));
    }
    if arguments.wants(ObjectGroup::Threads) {
        let by_threads = "By threads (MinIO: connections), objects in memory when they are read";
        cells.extend(
            arguments.threads.iter().map(|threads| ObjectCell::new(by_threads, arguments.thread_size, *threads)),
        );
    }
    cells.retain(|cell| VERBS.iter().any(|verb| arguments.names(&cell.name(verb))));
    if cells.is_empty() {
        return Ok(());
    }
    let ours = LocalObjects::start(&arguments.dir)?;
    let mut peer = Peer::start(&arguments.dir)?;
    if peer.is_none() {
        report.notes.push(format!("{NAME} is not on PATH and was not measured."));
    }
    let payload = Payload::new(PIECE_LEN)?;
    let time = Duration::try_from_secs_f64(arguments.duration).unwrap_or(Duration::from_secs(1));
    for round in 0..arguments.rounds() {
        for cell in &mut cells {
            let of_ours = |cell: &mut ObjectCell| -> Result<(), Error> {
                let [put, get] = sample_ours(&ours, cell, time, payload.bytes())?;
                push(cell, OURS, put, get);
                Ok(())
            };
            if round % 2 == 0 {
                of_ours(cell)?;
            }
            if let Some(peer) = &mut peer {
                let [put, get] = sample_peer(peer, cell, time, &payload)?;
                push(cell, NAME, put, get);
            }
            if round % 2 == 1 {
                of_ours(cell)?;
            }
            tell(cell, round);
        }
    }
    for cell in &cells {
        for ((verb, figures), goal) in VERBS.iter().zip(&cell.figures).zip([PUT_GOAL, GET_GOAL]) {
            let name = cell.name(verb);
            if arguments.names(&name) {
                let goal = if cell.size <= SMALL_BYTES && cell.threads == 1 { goal } else { 1.0 };
                let row = figures.row(&name, cell.unit(), Better::Higher, goal, &[NAME.to_owned()]);
                report.rows.push(row.in_section(cell.section));
            }
        }
    }
    Ok(())
}

const VERBS: [&str; 2] = ["PUT", "GET"];

fn push(cell: &mut ObjectCell, name: &str, put: Throughput, get: Throughput) {
    let rates = [put, get].map(|rate| cell.figure(rate));
    cell.figures.iter_mut().zip(rates).for_each(|(figures, rate)| figures.push(name, Some(rate)));
}

fn tell(cell: &ObjectCell, round: usize) {
    for (verb, figures) in VERBS.iter().zip(&cell.figures) {
        let last =
            |name: &str| figures.of(name).last().copied().flatten().map_or("-".into(), |rate| format!("{rate:.0}"));
        say(&format!(
            "round {}: {}: {} {OURS}, {} {NAME} {}",
            round + 1,
            cell.name(verb),
            last(OURS),
            last(NAME),
            cell.unit()
        ));
    }
}

fn sample_ours(
    ours: &LocalObjects,
    cell: &ObjectCell,
    time: Duration,
    payload: &[u8],
) -> Result<[Throughput; 2], Error> {
    let held = Mutex::new(Vec::new());
    let put = repeat(cell.threads, time, |_, _| {
        let key = ours.fresh();
        ours.put(&key, cell.size, payload)?;
        held.lock().unwrap_or_else(PoisonError::into_inner).push(key);
        Ok(())
    })?;
    let keys = held.into_inner().unwrap_or_else(PoisonError::into_inner);
    let most = read_count(cell, keys.len());
    let read = keys.get(..most).unwrap_or(&keys);
    // Some buffers for each thread, as a program that works on what it reads has them.
    let buffers: Vec<Mutex<Buffers>> = (0..cell.threads).map(|_| Mutex::new(Buffers::new(16, cell.size))).collect();
    let get_one = |thread: usize, number: u64| -> Result<(), Error> {
        let (Some(buffers), Some(key)) = (buffers.get(thread), read.get((number as usize + thread * 7) % read.len()))
        else {
            return Err(Error::Worker("nothing was stored".into()));
        };
        let mut buffers = buffers.lock().map_err(|_| Error::Worker("a thread broke off".into()))?;
        let length = ours.read(key, &mut buffers)?;
        if length == cell.size { Ok(()) } else { Err(Error::Worker(format!("{key} has {length} bytes"))) }
    };
    // What is read once does not stay in memory; what is read again does.
    (0..2 * read.len() as u64).try_for_each(|number| get_one(0, number))?;
    let get = repeat(cell.threads, time, get_one)?;
    ours.delete(&keys)?;
    Ok([put, get])
}

fn sample_peer(
    peer: &mut Peer,
    cell: &ObjectCell,
    time: Duration,
    payload: &Payload,
) -> Result<[Throughput; 2], Error> {
    let (put, names, count) = peer.put(cell.size, cell.threads, time, payload)?;
    let most = read_count(cell, count);
    let get = peer.get(&names, most, cell.size, cell.threads, time, payload)?;
    peer.delete(&names, count, payload)?;
    Ok([put, get])
}

/// How many of the objects are read: as many as fit into memory, and at least one.
fn read_count(cell: &ObjectCell, there: usize) -> usize {
    let fitting = usize::try_from(READ_BYTES_MAX / cell.size.max(1)).unwrap_or(READ_MAX);
    there.min(READ_MAX).min(fitting.max(1))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn small_objects_are_counted_and_large_ones_weighed() {
        let rate = Throughput { count: 10, seconds: 2.0 };
        let small = ObjectCell::new("", 4 << 10, 1);
        assert_eq!((small.name("PUT").as_str(), small.unit(), small.figure(rate)), ("PUT 4 KiB x1", "ops/s", 5.0));
        let large = ObjectCell::new("", 1 << 20, 2);
        assert_eq!((large.name("GET").as_str(), large.unit()), ("GET 1 MiB x2", "MB/s"));
        assert_eq!(read_count(&small, 5000), 2000);
        assert_eq!(read_count(&ObjectCell::new("", 1 << 30, 1), 3), 1);
    }

    #[test]
    fn ours_is_sampled_on_several_threads() {
        let folder = tempfile::tempdir().unwrap();
        let ours = LocalObjects::start(folder.path()).unwrap();
        let cell = ObjectCell::new("", 5000, 3);
        let [put, get] = sample_ours(&ours, &cell, Duration::ZERO, &[7; 4096]).unwrap();
        assert!(put.count >= 3 && get.count >= 3);
    }
}
