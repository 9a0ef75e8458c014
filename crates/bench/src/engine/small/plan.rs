//! Cells of the small-access benchmark, after chapter 5.1 of the paper that the engine follows.

use super::super::Arguments;
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
pub enum Verb {
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
pub struct Cell {
    /// Order of the blocks.
    pub access: Access,
    /// All threads use one object; else each has its own.
    pub shared: bool,
    /// What is done.
    pub verb: Verb,
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

impl Cell {
    /// Its name in reports.
    pub fn name(&self) -> String {
        let access = match self.access {
            Access::Sequential => "sequential",
            Access::Random => "random",
        };
        let object = if self.shared { "shared" } else { "private" };
        let verb = match self.verb {
            Verb::Write => "write",
            Verb::WriteSynced => "write synced",
            Verb::Transact => "write in transactions",
            Verb::Read => "read cold",
        };
        format!("{} {access} {object} {verb} x{}", show_size(self.block_len), self.threads)
    }

    /// The table it stands in.
    pub fn section(&self) -> String {
        let verb = match self.verb {
            Verb::Write => "writes, durable at the end",
            Verb::WriteSynced => "writes, each synced",
            Verb::Transact => "writes in transactions of 1 MiB, each synced",
            Verb::Read => "reads, caches dropped",
        };
        format!("Small access: {verb}")
    }

    /// The plain synced write, which fio is asked for too.
    pub fn is_plain(&self) -> bool {
        (self.verb, self.threads, self.block_len, self.shared) == (Verb::WriteSynced, 1, PLAIN_LEN, false)
    }
}

/// Everything: writes before reads, so that reads find what was written.
pub fn full() -> Vec<Cell> {
    let mut cells = Vec::new();
    for verb in [Verb::Write, Verb::WriteSynced, Verb::Transact, Verb::Read] {
        for block_len in [PLAIN_LEN, 64 << 10, LARGE_LEN] {
            if verb == Verb::Transact && block_len != PLAIN_LEN {
                continue;
            }
            for access in [Access::Sequential, Access::Random] {
                for shared in [false, true] {
                    for threads in [1, 2, 4, THREADS_MAX] {
                        cells.push(Cell { access, shared, verb, threads, block_len });
                    }
                }
            }
        }
    }
    cells
}

/// The plain synced write alone.
pub fn quick() -> Vec<Cell> {
    full().into_iter().filter(|cell| cell.is_plain() && cell.access == Access::Random).collect()
}

/// What the arguments leave of it.
pub fn cells(arguments: &Arguments) -> Vec<Cell> {
    let cells = if arguments.quick { quick() } else { full() };
    cells.into_iter().filter(|cell| arguments.names(&cell.name())).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_cell_is_there_once() {
        let mut names: Vec<String> = full().iter().map(Cell::name).collect();
        let count = names.len();
        names.sort();
        names.dedup();
        assert_eq!((names.len(), count), (160, 160));
        assert!(names.contains(&"4 KiB random shared read cold x8".to_owned()));
        assert!(names.contains(&"1 MiB sequential private write synced x1".to_owned()));
    }

    #[test]
    fn the_quick_plan_is_the_plain_write() {
        let names: Vec<String> = quick().iter().map(Cell::name).collect();
        assert_eq!(names, ["4 KiB random private write synced x1"]);
    }
}
