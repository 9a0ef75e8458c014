//! A worker seen from the benchmark: started on a fresh folder, put into a memory control group, stopped while others
//! are measured.
//!
//! Invariants:
//! - Dropping a worker ends its process and removes its folder and its control group.
//! - Outside of a call the worker is stopped (SIGSTOP): what it left undone it does in its own next call.

use super::cgroup::MemoryGroup;
use super::kinds::{Memory, StoreKind};
use super::measured::Measured;
use super::worker::{Answer, Closed, Command, Phase};
use super::workload::WorkloadRun;
use crate::Error;
use rustix::process::{Pid, Signal, kill_process};
use std::io::{BufRead, BufReader, Write};
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStdin, ChildStdout, Stdio};
use tempfile::TempDir;

/// The hidden argument that makes this program a worker.
pub const WORKER: &str = "engine-worker";

/// A running worker.
pub struct WorkerProcess {
    kind: StoreKind,
    child: Child,
    input: Option<ChildStdin>,
    output: BufReader<ChildStdout>,
    folder: TempDir,
    group: Option<MemoryGroup>,
}

/// What a worker is started with.
#[derive(Debug, Clone, Copy)]
pub struct WorkerStart<'a> {
    /// Its store.
    pub kind: StoreKind,
    /// Below which its folder is made.
    pub dir: &'a Path,
    /// The most memory it may use, the page cache for its files included.
    pub limit_len: Option<u64>,
    /// Run it under strace, which writes the calls that flush to a file of this name in the folder.
    pub traced: bool,
}

/// The file that strace writes.
const TRACE: &str = "trace";

impl WorkerProcess {
    /// Starts a worker; its store is opened by [`WorkerProcess::open`].
    pub fn start(start: WorkerStart<'_>) -> Result<WorkerProcess, Error> {
        let dir = start.dir;
        let folder = tempfile::Builder::new()
            .prefix("koine-bench-")
            .tempdir_in(dir)
            .map_err(Error::io(format!("cannot make a folder in {}", dir.display())))?;
        let program = std::env::current_exe().map_err(Error::io("cannot find this program's file"))?;
        let mut command = if start.traced {
            super::flushes::strace(&folder.path().join(TRACE), &program)
        } else {
            std::process::Command::new(&program)
        };
        command.args(["bench", WORKER]).stdin(Stdio::piped()).stdout(Stdio::piped());
        let mut child = command.spawn().map_err(Error::io("cannot start a worker"))?;
        let (Some(input), Some(output)) = (child.stdin.take(), child.stdout.take()) else {
            return Err(Error::Worker("a worker has no pipes".into()));
        };
        let mut worker = WorkerProcess {
            kind: start.kind,
            child,
            input: Some(input),
            output: BufReader::new(output),
            folder,
            group: None,
        };
        if let Some(limit_len) = start.limit_len {
            let group = MemoryGroup::make(limit_len)?;
            group.add(worker.child.id())?;
            worker.group = Some(group);
        }
        Ok(worker)
    }

    /// Opens its store, made when it is missing.
    pub fn open(&mut self, memory: Memory) -> Result<Measured, Error> {
        let folder = self.store_folder();
        self.open_in(&folder, memory)
    }

    /// Opens the store in a folder that outlives the worker.
    pub fn open_in(&mut self, folder: &Path, memory: Memory) -> Result<Measured, Error> {
        self.measured(&Command::Open { kind: self.kind, folder: folder.to_owned(), memory })
    }

    /// Where its store lies.
    pub fn store_folder(&self) -> PathBuf {
        self.folder.path().join("store")
    }

    /// Does a stretch of work.
    pub fn run(&mut self, phase: &Phase) -> Result<Measured, Error> {
        self.measured(&Command::Run(*phase))
    }

    /// Does a workload of YCSB.
    pub fn work(&mut self, work: &WorkloadRun) -> Result<Measured, Error> {
        self.measured(&Command::Ycsb(*work))
    }

    /// Places everything and counts.
    pub fn settle(&mut self) -> Result<Closed, Error> {
        self.closed(&Command::Settle)
    }

    /// Closes the store and counts. It may be opened again.
    pub fn close(&mut self) -> Result<Closed, Error> {
        self.closed(&Command::Close)
    }

    /// Bytes that its folder takes on the disk.
    pub fn disk_len(&self) -> u64 {
        disk_len(&self.store_folder())
    }

    /// Ends a traced worker and gives what strace wrote.
    pub fn trace(mut self) -> Result<String, Error> {
        self.signal(Signal::CONT);
        drop(self.input.take());
        let _status = self.child.wait().map_err(Error::io("cannot wait for a worker"))?;
        std::fs::read_to_string(self.folder.path().join(TRACE)).map_err(Error::io("cannot read the trace"))
    }

    fn measured(&mut self, command: &Command) -> Result<Measured, Error> {
        match self.call(command)? {
            Answer::Measured(measured) => Ok(measured),
            other => Err(self.wrong(&other)),
        }
    }

    fn closed(&mut self, command: &Command) -> Result<Closed, Error> {
        match self.call(command)? {
            Answer::Closed(closed) => Ok(closed),
            other => Err(self.wrong(&other)),
        }
    }

    fn wrong(&self, answer: &Answer) -> Error {
        match answer {
            Answer::Failed(message) => Error::Worker(format!("{}: {message}", self.kind.name())),
            other => Error::Worker(format!("{} answered {other:?}", self.kind.name())),
        }
    }

    fn call(&mut self, command: &Command) -> Result<Answer, Error> {
        let name = self.kind.name();
        let mut line = serde_json::to_string(command).map_err(Error::io("cannot make a command"))?;
        line.push('\n');
        self.signal(Signal::CONT);
        let gone = |source| Error::Io { doing: format!("the worker of {name} is gone"), source };
        let input = self.input.as_mut().ok_or_else(|| Error::Worker(format!("the worker of {name} was ended")))?;
        input.write_all(line.as_bytes()).map_err(gone)?;
        let mut answer = String::new();
        self.output.read_line(&mut answer).map_err(gone)?;
        self.signal(Signal::STOP);
        if answer.is_empty() {
            let limit = self.group.as_ref().map_or("", |_| " (perhaps its memory control group was too small)");
            return Err(Error::Worker(format!("the worker of {name} ended early{limit}")));
        }
        serde_json::from_str(&answer).map_err(Error::io(format!("{name}: the worker's answer cannot be read")))
    }

    fn signal(&self, signal: Signal) {
        // strace stands between us and a traced worker, and nothing is timed there.
        if let Some(pid) = i32::try_from(self.child.id()).ok().and_then(Pid::from_raw) {
            let _already_gone = kill_process(pid, signal);
        }
    }
}

impl Drop for WorkerProcess {
    fn drop(&mut self) {
        drop(self.input.take());
        let _already_gone = self.child.kill();
        let _reaped = self.child.wait();
    }
}

/// Bytes of the disk below a folder, as `du` counts them.
pub fn disk_len(path: &Path) -> u64 {
    use std::os::unix::fs::MetadataExt;
    let Ok(metadata) = std::fs::symlink_metadata(path) else { return 0 };
    let below = std::fs::read_dir(path).into_iter().flatten().flatten().map(|entry| disk_len(&entry.path()));
    if metadata.is_dir() { below.sum() } else { metadata.blocks() * 512 }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn space_on_disk_is_that_of_all_files_below() {
        let folder = tempfile::tempdir().unwrap();
        std::fs::create_dir(folder.path().join("a")).unwrap();
        std::fs::write(folder.path().join("a/b"), vec![1; 10_000]).unwrap();
        std::fs::write(folder.path().join("c"), vec![1; 5000]).unwrap();
        let sparse = std::fs::File::create(folder.path().join("sparse")).unwrap();
        sparse.set_len(1 << 30).unwrap();
        let length = disk_len(folder.path());
        assert!((15_000..64 << 10).contains(&length), "{length}");
        assert_eq!(disk_len(Path::new("/nonexistent/folder")), 0);
    }
}
