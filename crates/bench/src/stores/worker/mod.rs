//! The worker: this program again, as a process of its own for each store, told what to do line by line.
//!
//! A process of its own gives each store its own memory control group and its own counts of bytes and memory. While one
//! store is measured the workers of the others are stopped, so that their background work does not disturb it and
//! they do it in their own time.

mod drive;
mod protocol;

pub use protocol::{Answer, Closed, Command, Kind, Order, Phase};

use super::data::Values;
use super::kinds::{self, Level, Memory, Outcome, Store};
use super::measured::Measured;
use super::workload::{self, WorkloadRun};
use crate::Error;
use crate::process::ProcessId;
use std::io::{BufRead, Write};
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

/// Reads commands from standard input until it ends; answers each with one line.
pub fn run() -> Result<(), Error> {
    // A worker that was stopped must not outlive a killed parent.
    let _without = rustix::process::set_parent_process_death_signal(Some(rustix::process::Signal::KILL));
    let mut worker = Worker::default();
    for line in std::io::stdin().lock().lines() {
        let line = line.map_err(Error::io("cannot read a command"))?;
        let answer = match serde_json::from_str(&line) {
            Ok(command) => worker.obey(command).unwrap_or_else(Answer::Failed),
            Err(error) => Answer::Failed(format!("this is no command: {error}")),
        };
        let mut text = serde_json::to_string(&answer).map_err(Error::io("cannot make an answer"))?;
        text.push('\n');
        let mut output = std::io::stdout().lock();
        output.write_all(text.as_bytes()).and_then(|()| output.flush()).map_err(Error::io("cannot answer"))?;
    }
    Ok(())
}

/// Loads a store in this very process.
pub fn load(store: &dyn Store, phase: &Phase) -> Outcome<Measured> {
    store.prepare(phase.level)?;
    drive::drive(store, phase, &Values::new(phase.value_len), 1)
}

#[derive(Default)]
struct Worker {
    store: Option<Box<dyn Store>>,
    watcher: Option<Watcher>,
    records: workload::Records,
    stretches: u64,
}

impl Worker {
    fn obey(&mut self, command: Command) -> Outcome<Answer> {
        match command {
            Command::Open { kind, folder, memory } => self.open(kind, &folder, memory),
            Command::Run(phase) => self.run(&phase).map(Answer::Measured),
            Command::Ycsb(work) => self.ycsb(&work).map(Answer::Measured),
            Command::Settle => {
                let store = self.store.as_deref().ok_or("no store is open")?;
                store.settle()?;
                Ok(Answer::Closed(counts(self.watcher.as_ref(), &store.processes(), store.used_len()?)))
            }
            Command::Close => {
                let store = self.store.take().ok_or("no store is open")?;
                // What another process wrote is counted while that lives.
                store.sync()?;
                let others = counts_of(&store.processes());
                store.close()?;
                let mut closed = counts(self.watcher.as_ref(), &[], None);
                closed.written_len = closed.written_len.map(|written| written + others);
                self.watcher = None;
                Ok(Answer::Closed(closed))
            }
        }
    }

    fn open(&mut self, kind: kinds::StoreKind, folder: &Path, memory: Memory) -> Outcome<Answer> {
        self.watcher = Some(Watcher::start());
        let begun = Instant::now();
        self.store = Some(kinds::open(kind, folder, memory)?);
        Ok(Answer::Measured(Measured { operations: 1, seconds: begun.elapsed().as_secs_f64(), ..Measured::default() }))
    }

    fn run(&mut self, phase: &Phase) -> Outcome<Measured> {
        let store = self.store.as_deref().ok_or("no store is open")?;
        self.stretches += 1;
        store.prepare(phase.level)?;
        let before = store.flushes();
        let mut measured = drive::drive(store, phase, &Values::new(phase.value_len), self.stretches)?;
        measured.flushes = store.flushes().zip(before).map(|(after, before)| after - before);
        // Unsynced writes of one cell are not to be flushed in the next.
        if phase.level == Level::Written && phase.kind.writes() {
            store.sync()?;
        }
        Ok(measured)
    }

    fn ycsb(&mut self, work: &WorkloadRun) -> Outcome<Measured> {
        let store = self.store.as_deref().ok_or("no store is open")?;
        self.stretches += 1;
        store.prepare(work.level)?;
        let processes = [std::process::id()].into_iter().chain(store.processes());
        let processes: Vec<ProcessId> = processes.map(ProcessId).collect();
        let cpu = || processes.iter().map(|process| process.cpu()).sum::<Option<Duration>>();
        let before = cpu();
        let values = Values::new(work.value_len);
        let mut measured = workload::drive(store, work, &self.records, &values, self.stretches)?;
        // Unsynced writes of one workload are not to be flushed in the next.
        store.sync()?;
        measured.cpu_seconds = cpu().zip(before).map(|(after, before)| after.saturating_sub(before).as_secs_f64());
        workload::finish(store, work, &self.records, &values)?;
        Ok(measured)
    }
}

/// Bytes that other processes had written.
fn counts_of(processes: &[u32]) -> u64 {
    let io = |process: &u32| std::fs::read_to_string(format!("/proc/{process}/io")).unwrap_or_default();
    processes.iter().filter_map(|process| protocol::io_field(&io(process), "write_bytes")).sum()
}

fn counts(watcher: Option<&Watcher>, processes: &[u32], used_len: Option<u64>) -> Closed {
    let io = std::fs::read_to_string("/proc/self/io").unwrap_or_default();
    Closed {
        written_len: protocol::io_field(&io, "write_bytes").map(|written| written + counts_of(processes)),
        own_memory_len: watcher.map(|watcher| watcher.peak.load(Ordering::Relaxed)),
        used_len,
    }
}

/// Looks at the memory of this process all the time.
struct Watcher {
    peak: Arc<AtomicU64>,
    over: Arc<AtomicBool>,
    thread: Option<JoinHandle<()>>,
}

impl Watcher {
    fn start() -> Watcher {
        let (peak, over) = (Arc::new(AtomicU64::new(0)), Arc::new(AtomicBool::new(false)));
        let shared = (Arc::clone(&peak), Arc::clone(&over));
        let thread = std::thread::spawn(move || {
            let own = ProcessId(std::process::id());
            while !shared.1.load(Ordering::Relaxed) {
                shared.0.fetch_max(own.own_memory_bytes().unwrap_or(0), Ordering::Relaxed);
                std::thread::sleep(Duration::from_millis(20));
            }
        });
        Watcher { peak, over, thread: Some(thread) }
    }
}

impl Drop for Watcher {
    fn drop(&mut self) {
        self.over.store(true, Ordering::Relaxed);
        if let Some(thread) = self.thread.take() {
            let _panicked = thread.join();
        }
    }
}

#[cfg(test)]
mod tests;
