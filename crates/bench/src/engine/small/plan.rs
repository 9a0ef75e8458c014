//! Cells of the small-access benchmark, after chapter 5.1 of the paper that the engine follows.

use super::super::EngineArguments;
use crate::s3::show_size;

/// In which order the blocks of an object are met.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Access {
    /// One after the other.
    Sequential,
    /// Shuffled.
    Random,
}

/// What is done with each block.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum SmallOperation {
    /// Overwritten once, and made durable at the end, which is part of the time.
    Write,
    /// Overwritten and made durable before the next.
    WriteSynced,
    /// Overwritten in transactions of many blocks that are made durable as one.
    Transact,
    /// Read, with nothing in any cache at the beginning.
    Read,
}

/// One thing that is measured.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct SmallCell {
    /// Order of the blocks.
    pub access: Access,
    /// All threads use one object; else each has its own.
    pub shared: bool,
    /// What is done.
    pub verb: SmallOperation,
    /// Threads.
    pub threads: usize,
    /// Length of a block in bytes.
    pub block_len: u64,
}

/// Length of a plain block.
pub const PLAIN_LEN: u64 = 4 << 10;
/// The most threads of a cell.
pub const THREADS_MAX: usize = 8;
/// Length of a large one, and bytes of a transaction.
pub const LARGE_LEN: u64 = 1 << 20;

impl SmallCell {
    /// Its name in reports.
    pub fn name(&self) -> String {
        let access = match self.access {
            Access::Sequential => "sequential",
            Access::Random => "random",
        };
        let object = if self.shared { "shared" } else { "private" };
        let verb = match self.verb {
            SmallOperation::Write => "write",
            SmallOperation::WriteSynced => "write synced",
            SmallOperation::Transact => "write in transactions",
            SmallOperation::Read => "read cold",
        };
        format!("{} {access} {object} {verb} x{}", show_size(self.block_len), self.threads)
    }

    /// The table it stands in.
    pub fn section(&self) -> String {
        let verb = match self.verb {
            SmallOperation::Write => "writes, durable at the end",
            SmallOperation::WriteSynced => "writes, each synced",
            SmallOperation::Transact => "writes in transactions of 1 MiB, each synced",
            SmallOperation::Read => "reads, caches dropped",
        };
        format!("Small access: {verb}")
    }

    /// The plain synced write, which fio is asked for too.
    pub fn is_plain(&self) -> bool {
        (self.verb, self.threads, self.block_len, self.shared) == (SmallOperation::WriteSynced, 1, PLAIN_LEN, false)
    }
}

/// Everything: writes before reads, so that reads find what was written.
pub fn full() -> Vec<SmallCell> {
    let mut cells = Vec::new();
    for verb in [SmallOperation::Write, SmallOperation::WriteSynced, SmallOperation::Transact, SmallOperation::Read] {
        for block_len in [PLAIN_LEN, 64 << 10, LARGE_LEN] {
            if verb == SmallOperation::Transact && block_len != PLAIN_LEN {
                continue;
            }
            for access in [Access::Sequential, Access::Random] {
                for shared in [false, true] {
                    for threads in [1, 2, 4, THREADS_MAX] {
                        cells.push(SmallCell { access, shared, verb, threads, block_len });
                    }
                }
            }
        }
    }
    cells
}

/// The plain synced write alone.
pub fn quick() -> Vec<SmallCell> {
    full().into_iter().filter(|cell| cell.is_plain() && cell.access == Access::Random).collect()
}

/// What the arguments leave of it.
pub fn cells(arguments: &EngineArguments) -> Vec<SmallCell> {
    let cells = if arguments.quick { quick() } else { full() };
    cells.into_iter().filter(|cell| arguments.names(&cell.name())).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_cell_is_there_once() {
        let mut names: Vec<String> = full().iter().map(SmallCell::name).collect();
        let count = names.len();
        names.sort();
        names.dedup();
        assert_eq!((names.len(), count), (160, 160));
        assert!(names.contains(&"4 KiB random shared read cold x8".to_owned()));
        assert!(names.contains(&"1 MiB sequential private write synced x1".to_owned()));
    }

    #[test]
    fn the_quick_plan_is_the_plain_write() {
        let names: Vec<String> = quick().iter().map(SmallCell::name).collect();
        assert_eq!(names, ["4 KiB random private write synced x1"]);
    }
}
