//! Which cells are measured, in which order, and what is asked of each.

use super::S3Arguments;
use clap::ValueEnum;

/// What a request does.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, clap::ValueEnum)]
pub enum Operation {
    /// Store new objects.
    Put,
    /// Read them as soon as they were put, each once.
    GetFresh,
    /// Read them again and again.
    Get,
    /// Read them once after a start, with nothing in memory.
    GetCold,
    /// Remove them.
    Delete,
    /// Read one page of 1,000 names.
    List,
}

/// How the payload of a PUT travels.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum PayloadSigning {
    /// As it is, unsigned.
    Plain,
    /// In signed chunks with a signed checksum after them.
    SignedChunks,
}

/// One thing that is measured.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct S3Cell {
    /// What is asked.
    pub operation: Operation,
    /// How the payload travels.
    pub wire: PayloadSigning,
    /// Size of the objects.
    pub size_bytes: u64,
    /// Connections.
    pub connections: usize,
    /// Operations per CPU second are reported too, not throughput alone.
    pub efficiency: bool,
}

/// Cells that share the objects which the first of them stores.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct CellGroup {
    /// In the order of measuring.
    pub cells: Vec<S3Cell>,
}

/// Below this size operations are counted, from it on bytes.
const COUNT_BYTES_FROM: u64 = 256 * 1024;
/// What the issue asks of operations per CPU second at 4 KiB.
const EFFICIENCY_GOAL: f64 = 2.0;
const SMALL_BYTES: u64 = 4096;

impl S3Cell {
    /// Its name in reports.
    pub fn name(&self) -> String {
        let operation = match (self.operation, self.wire) {
            (Operation::Put, PayloadSigning::Plain) => "PUT",
            (Operation::Put, PayloadSigning::SignedChunks) => "PUT signed chunks",
            (Operation::GetFresh, _) => "GET fresh",
            (Operation::Get, _) => "GET",
            (Operation::GetCold, _) => "GET cold",
            (Operation::Delete, _) => "DELETE",
            (Operation::List, _) => "LIST",
        };
        let what = match self.operation {
            Operation::List => "1000 names".to_owned(),
            _ => show_size(self.size_bytes),
        };
        format!("{operation} {what} x{}", self.connections)
    }

    /// Its figures count bytes rather than operations.
    pub fn counts_bytes(&self) -> bool {
        !matches!(self.operation, Operation::Delete | Operation::List) && self.size_bytes >= COUNT_BYTES_FROM
    }

    /// The unit of its throughput.
    pub fn unit(&self) -> &'static str {
        if self.counts_bytes() { "MB/s" } else { "ops/s" }
    }

    /// The unit of its efficiency.
    pub fn efficiency_unit(&self) -> &'static str {
        if self.counts_bytes() { "MB/CPU-s" } else { "ops/CPU-s" }
    }

    /// The ratio that its efficiency is to reach.
    pub fn efficiency_goal(&self) -> f64 {
        let asked = matches!(self.operation, Operation::Put | Operation::Get) && self.size_bytes == SMALL_BYTES;
        if asked { EFFICIENCY_GOAL } else { 1.0 }
    }
}

/// A size in the largest binary unit that leaves a whole number.
pub fn show_size(bytes: u64) -> String {
    let units = [(1 << 30, "GiB"), (1 << 20, "MiB"), (1 << 10, "KiB")];
    let fitting = units.into_iter().find(|(unit, _)| bytes >= *unit && bytes.is_multiple_of(*unit));
    fitting.map_or_else(|| format!("{bytes} B"), |(unit, name)| format!("{} {name}", bytes / unit))
}

/// Reads a size such as `4096`, `4KiB`, `1M` or `64 MiB`; units are binary.
pub fn parse_size(text: &str) -> Result<u64, String> {
    let digits = text.find(|character: char| !character.is_ascii_digit()).unwrap_or(text.len());
    let (number, unit) = text.split_at(digits);
    let number: u64 = number.parse().map_err(|_| format!("{text:?} is no size; want for example 4KiB or 1MiB"))?;
    let factor = match unit.trim().to_ascii_lowercase().as_str() {
        "" | "b" => 1,
        "k" | "kib" => 1 << 10,
        "m" | "mib" => 1 << 20,
        "g" | "gib" => 1 << 30,
        _ => return Err(format!("{unit:?} is no unit of size; want KiB, MiB or GiB")),
    };
    number.checked_mul(factor).filter(|size| *size > 0).ok_or_else(|| format!("{text:?} is no possible size"))
}

/// The full plan: every operation asked for, at every size and number of connections. DELETE and LIST do not depend
/// on the size of objects, so they are measured with the smallest one only.
pub fn full(arguments: &S3Arguments) -> Vec<CellGroup> {
    let smallest = arguments.sizes.iter().copied().min().unwrap_or(SMALL_BYTES);
    let mut groups = Vec::new();
    for wire in [PayloadSigning::Plain, PayloadSigning::SignedChunks] {
        for &size_bytes in &arguments.sizes {
            for &connections in &arguments.connections {
                let mut cells = Vec::new();
                for &operation in &arguments.operations {
                    let measured = match (operation, wire) {
                        (Operation::Put, _) => true,
                        (Operation::GetFresh | Operation::Get | Operation::GetCold, PayloadSigning::Plain) => true,
                        (Operation::Delete | Operation::List, PayloadSigning::Plain) => size_bytes == smallest,
                        (_, PayloadSigning::SignedChunks) => false,
                    };
                    if measured {
                        cells.push(S3Cell { operation, wire, size_bytes, connections, efficiency: true });
                    }
                }
                cells.sort_by_key(order);
                groups.push(CellGroup { cells });
            }
        }
    }
    groups.retain(|group| !group.cells.is_empty());
    groups
}

/// What two programs do in turn: one operation at one size by one number of connections.
pub fn stretches(arguments: &S3Arguments) -> Vec<Vec<String>> {
    let mut stretches: Vec<Vec<String>> = Vec::new();
    for cell in full(arguments).iter().flat_map(|group| &group.cells) {
        if arguments.only.as_ref().is_some_and(|text| !cell.name().contains(text.as_str())) {
            continue;
        }
        let operation = cell.operation.to_possible_value().map(|value| value.get_name().to_owned()).unwrap_or_default();
        let (size, connections) = (cell.size_bytes.to_string(), cell.connections.to_string());
        let stretch = [("--operation", operation), ("--size", size), ("--connections", connections)];
        let stretch: Vec<String> = stretch.into_iter().flat_map(|(option, value)| [option.to_owned(), value]).collect();
        // A PUT is there in plain and in signed chunks, and one program does both in one stretch.
        if !stretches.contains(&stretch) {
            stretches.push(stretch);
        }
    }
    stretches
}

/// The quick plan: at most 24 rows. Operations per CPU second only where the issue asks something of them, DELETE, LIST
/// and signed chunks only with the most connections.
pub fn quick(arguments: &S3Arguments) -> Vec<CellGroup> {
    let most = arguments.connections.iter().copied().max().unwrap_or(1);
    let mut groups = full(arguments);
    for group in &mut groups {
        group.cells.retain(|cell| {
            let basic = cell.wire == PayloadSigning::Plain && matches!(cell.operation, Operation::Put | Operation::Get);
            let again = matches!(cell.operation, Operation::GetFresh | Operation::GetCold);
            basic || (!again && cell.connections == most && cell.size_bytes < 16 << 20)
        });
        for cell in &mut group.cells {
            cell.efficiency = cell.efficiency_goal() > 1.0;
        }
    }
    groups.retain(|group| !group.cells.is_empty());
    // What takes longest comes last: where time runs out, it is left out.
    groups.sort_by_key(|group| group.cells.iter().map(|cell| cell.size_bytes).max());
    groups
}

/// Rows that a plan reports.
#[cfg(test)]
fn rows(groups: &[CellGroup]) -> usize {
    groups.iter().flat_map(|group| &group.cells).map(|cell| if cell.efficiency { 2 } else { 1 }).sum()
}

/// Objects are stored before they are read, and removed last.
fn order(cell: &S3Cell) -> u8 {
    match cell.operation {
        Operation::Put => 0,
        Operation::GetFresh => 1,
        Operation::Get => 2,
        Operation::GetCold => 3,
        Operation::List => 4,
        Operation::Delete => 5,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn two_programs_take_turns_at_each_operation_once() {
        let arguments = S3Arguments { sizes: vec![4096, 1 << 20], connections: vec![1], ..S3Arguments::default() };
        let stretches: Vec<String> = stretches(&arguments).into_iter().map(|stretch| stretch.join(" ")).collect();
        assert_eq!(stretches[0], "--operation put --size 4096 --connections 1");
        let count = |text: &str| stretches.iter().filter(|stretch| stretch.contains(text)).count();
        assert_eq!((count("put"), count("get-cold"), count("list"), stretches.len()), (2, 2, 1, 10));
    }

    fn names(groups: &[CellGroup]) -> Vec<String> {
        groups.iter().flat_map(|group| &group.cells).map(S3Cell::name).collect()
    }

    #[test]
    fn sizes_are_read_and_shown() {
        for (text, bytes) in [("4096", 4096), ("4KiB", 4096), ("64 MiB", 64 << 20), ("1g", 1 << 30)] {
            assert_eq!(parse_size(text), Ok(bytes), "{text}");
        }
        for wrong in ["", "KiB", "4 parsecs", "0", "99999999999G"] {
            assert!(parse_size(wrong).is_err(), "{wrong:?}");
        }
        assert_eq!([show_size(4096), show_size(1 << 20), show_size(1000)], ["4 KiB", "1 MiB", "1000 B"]);
    }

    #[test]
    fn the_quick_plan_fits_its_limit_and_holds_what_the_issue_asks_about() {
        let groups = quick(&S3Arguments::default());
        assert!(rows(&groups) <= 24, "{} rows", rows(&groups));
        let names = names(&groups);
        for size in ["4 KiB", "1 MiB", "64 MiB"] {
            for connections in [1, 16] {
                for operation in ["PUT", "GET"] {
                    assert!(names.contains(&format!("{operation} {size} x{connections}")), "{operation} {size}");
                }
            }
        }
        for also in ["DELETE 4 KiB x16", "LIST 1000 names x16", "PUT signed chunks 4 KiB x16"] {
            assert!(names.contains(&also.to_owned()), "{also}");
        }
    }

    #[test]
    fn the_full_plan_names_every_cell_once_and_stores_before_it_reads() {
        let groups = full(&S3Arguments::default());
        let mut all = names(&groups);
        let count = all.len();
        all.sort();
        all.dedup();
        assert_eq!((all.len(), count), (34, 34));
        let first = groups.first().map(|group| group.cells.iter().map(|cell| cell.operation).collect::<Vec<_>>());
        assert_eq!(
            first,
            Some(vec![
                Operation::Put,
                Operation::GetFresh,
                Operation::Get,
                Operation::GetCold,
                Operation::List,
                Operation::Delete
            ])
        );
    }

    #[test]
    fn goals_are_those_of_the_issue() {
        let cell = |operation, size_bytes| S3Cell {
            operation,
            wire: PayloadSigning::Plain,
            size_bytes,
            connections: 1,
            efficiency: true,
        };
        assert_eq!(cell(Operation::Put, 4096).efficiency_goal(), 2.0);
        assert_eq!(cell(Operation::Get, 1 << 20).efficiency_goal(), 1.0);
        assert_eq!(cell(Operation::Delete, 4096).efficiency_goal(), 1.0);
        assert_eq!((cell(Operation::Get, 1 << 20).unit(), cell(Operation::List, 1 << 20).unit()), ("MB/s", "ops/s"));
    }
}
