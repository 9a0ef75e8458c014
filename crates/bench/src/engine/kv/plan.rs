//! Which sets of items are loaded and what is measured on each.

use super::super::EngineArguments;
use crate::stores::data::{KEY_LEN, VALUE_LEN_MIN};
use crate::stores::kinds::{Level, Memory, StoreKind};
use crate::stores::worker::{Kind, Order, Phase};

/// Commits under way where many writers are asked for.
pub const IN_FLIGHT: usize = 32;
/// Threads where several are asked for.
const THREADS: usize = 8;
/// Bytes of keys and values where everything fits into memory.
const IN_MEMORY_LEN: u64 = 80 << 20;
/// Data larger than memory is so many times as large.
const TIMES_MEMORY: u64 = 4;
/// Memory of every store where everything fits.
const MEMORY: Memory = Memory { total_len: 1 << 30 };

/// One thing that is measured.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct KvCell {
    /// What is done.
    pub kind: Kind,
    /// What commits survive.
    pub level: Level,
    /// Threads.
    pub threads: usize,
    /// Commits under way.
    pub in_flight: usize,
}

/// Items that are loaded, and the cells measured on them.
#[derive(Debug, Clone, PartialEq)]
pub struct KvSet {
    /// Length of a value in bytes.
    pub value_len: usize,
    /// How many.
    pub items: u64,
    /// The most memory of each worker, where data is to be larger than it.
    pub limit_len: Option<u64>,
    /// What each store may use of it.
    pub memory: Memory,
    /// In order of measuring.
    pub cells: Vec<KvCell>,
}

/// A row that is judged: references, the end of its name, and its goal.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct RowSpec {
    /// Added to the name of the case.
    pub suffix: &'static str,
    /// Against these.
    pub references: &'static [StoreKind],
    /// The ratio to reach.
    pub goal: f64,
}

const ALL: &[StoreKind] = &StoreKind::REFERENCES;
const OTHERS: &[StoreKind] = &[StoreKind::Redb, StoreKind::Fjall, StoreKind::Rocksdb];

const fn cell(kind: Kind, level: Level, threads: usize) -> KvCell {
    KvCell { kind, level, threads, in_flight: 1 }
}

impl KvCell {
    /// Its name in reports, without that of its set.
    pub fn name(&self) -> String {
        let what = match self.kind {
            Kind::Load(Order::Ascending) => "load in order",
            Kind::Load(Order::Random) => "load at random",
            Kind::Read { pinned: false } => "point read",
            Kind::Read { pinned: true } => "point read in one view",
            Kind::Scan => "scan",
            Kind::Overwrite => "overwrite",
            Kind::Insert => "insert",
            Kind::Mixed => "mixed 50/50",
        };
        let level = match self.level {
            _ if !self.kind.writes() || self.is_load() => "",
            Level::Written => " unsynced",
            Level::Sync => " synced",
        };
        match (self.is_load(), self.in_flight) {
            (true, _) => what.to_owned(),
            (false, 1) => format!("{what}{level} x{}", self.threads),
            (false, in_flight) => format!("{what}{level} {in_flight} in flight"),
        }
    }

    /// Whether it begins with an empty store.
    pub fn is_load(&self) -> bool {
        matches!(self.kind, Kind::Load(_))
    }

    /// The unit of its figure.
    pub fn unit(&self) -> &'static str {
        if self.kind == Kind::Scan { "items/s" } else { "ops/s" }
    }

    /// The work that a worker is given.
    pub fn phase(&self, set: &KvSet, seconds: f64) -> Phase {
        Phase {
            kind: self.kind,
            level: self.level,
            threads: self.threads,
            in_flight: self.in_flight,
            items: set.items,
            value_len: set.value_len,
            seconds,
            operations: None,
        }
    }
}

impl KvSet {
    /// How it begins the names of its cases.
    pub fn name(&self) -> String {
        let size = crate::s3::show_size(self.value_len as u64);
        if self.limit_len.is_some() { format!("{size} over memory") } else { size }
    }

    /// The table it stands in.
    pub fn section(&self) -> String {
        let size = crate::s3::show_size(self.value_len as u64);
        let data = crate::s3::show_size((self.items * (KEY_LEN + self.value_len) as u64).next_multiple_of(1 << 20));
        match self.limit_len {
            None => format!("Key-value: {} values of {size} ({data}), all in memory", self.items),
            Some(limit) => {
                let limit = crate::s3::show_size(limit);
                format!("Key-value: {} values of {size} ({data}), memory limited to {limit}", self.items)
            }
        }
    }

    /// What the issue asks of a cell of this set.
    pub fn asked(&self, cell: &KvCell) -> Vec<RowSpec> {
        let all = |goal| vec![RowSpec { suffix: "", references: ALL, goal }];
        match cell.kind {
            // LMDB verifies nothing, so it is judged apart.
            Kind::Read { .. } | Kind::Scan if self.limit_len.is_none() => vec![
                RowSpec { suffix: " beside LMDB", references: &[StoreKind::Lmdb], goal: 0.7 },
                RowSpec { suffix: " beside the others", references: OTHERS, goal: 1.0 },
            ],
            Kind::Overwrite if cell.level == Level::Sync && cell.threads == 1 && cell.in_flight == 1 => all(1.2),
            _ => all(1.0),
        }
    }
}

fn in_memory(arguments: &EngineArguments, value_len: usize) -> KvSet {
    let items = IN_MEMORY_LEN / (KEY_LEN + value_len) as u64;
    let read = |pinned, threads| cell(Kind::Read { pinned }, Level::Written, threads);
    let many = KvCell { in_flight: IN_FLIGHT, ..cell(Kind::Overwrite, Level::Sync, 1) };
    let cells = vec![
        cell(Kind::Load(Order::Ascending), Level::Written, 1),
        cell(Kind::Load(Order::Random), Level::Written, 1),
        read(false, 1),
        read(true, 1),
        read(false, THREADS),
        cell(Kind::Scan, Level::Written, 1),
        cell(Kind::Scan, Level::Written, THREADS),
        cell(Kind::Overwrite, Level::Written, 1),
        cell(Kind::Overwrite, Level::Written, THREADS),
        cell(Kind::Mixed, Level::Written, 1),
        cell(Kind::Mixed, Level::Written, THREADS),
        cell(Kind::Overwrite, Level::Sync, 1),
        cell(Kind::Overwrite, Level::Sync, THREADS),
        many,
        cell(Kind::Mixed, Level::Sync, 1),
        cell(Kind::Mixed, Level::Sync, THREADS),
    ];
    KvSet { value_len, items: arguments.items.unwrap_or(items), limit_len: None, memory: MEMORY, cells }
}

fn over_memory(arguments: &EngineArguments, value_len: usize) -> KvSet {
    let limit_len = arguments.memory;
    let items = TIMES_MEMORY * limit_len / (KEY_LEN + value_len) as u64;
    let many = KvCell { in_flight: IN_FLIGHT, ..cell(Kind::Overwrite, Level::Sync, 1) };
    let cells = vec![
        cell(Kind::Load(Order::Ascending), Level::Written, 1),
        cell(Kind::Read { pinned: false }, Level::Written, 1),
        cell(Kind::Read { pinned: false }, Level::Written, THREADS),
        cell(Kind::Scan, Level::Written, 1),
        cell(Kind::Overwrite, Level::Written, 1),
        cell(Kind::Overwrite, Level::Written, THREADS),
        cell(Kind::Overwrite, Level::Sync, 1),
        many,
        cell(Kind::Mixed, Level::Written, 1),
        cell(Kind::Mixed, Level::Written, THREADS),
        cell(Kind::Insert, Level::Written, 1),
    ];
    let memory = Memory { total_len: usize::try_from(limit_len / 2).unwrap_or(usize::MAX) };
    KvSet { value_len, items: arguments.items.unwrap_or(items), limit_len: Some(limit_len), memory, cells }
}

/// The full plan: everything, for each length of values, in memory and larger than it.
pub fn full(arguments: &EngineArguments) -> Vec<KvSet> {
    let lengths = arguments.value_lens.iter().map(|length| (*length as usize).max(VALUE_LEN_MIN));
    let in_memory = lengths.clone().map(|length| in_memory(arguments, length));
    in_memory.chain(lengths.map(|length| over_memory(arguments, length))).collect()
}

/// The quick plan: the middle length in memory, the longest one over it, and few cells of each.
pub fn quick(arguments: &EngineArguments) -> Vec<KvSet> {
    let mut lengths: Vec<usize> = arguments.value_lens.iter().map(|length| *length as usize).collect();
    lengths.sort_unstable();
    let (Some(&middle), Some(&longest)) = (lengths.get(lengths.len() / 2), lengths.last()) else { return Vec::new() };
    let mut small = in_memory(arguments, middle);
    small.items = arguments.items.unwrap_or(QUICK_ITEMS);
    small.cells.retain(|cell| match cell.kind {
        Kind::Load(order) => order == Order::Random,
        Kind::Read { pinned } => !pinned && cell.threads == 1,
        Kind::Scan => cell.threads == 1,
        Kind::Overwrite => cell.level == Level::Sync || cell.threads == 1,
        Kind::Mixed => cell.level == Level::Written && cell.threads > 1,
        Kind::Insert => false,
    });
    let quick = EngineArguments { memory: arguments.memory.min(QUICK_MEMORY_LEN), ..arguments.clone() };
    let mut large = over_memory(&quick, longest);
    large
        .cells
        .retain(|cell| matches!(cell.kind, Kind::Read { .. }) && cell.level == Level::Written && cell.threads == 1);
    vec![small, large]
}

const QUICK_ITEMS: u64 = 60_000;
const QUICK_MEMORY_LEN: u64 = 80 << 20;

#[cfg(test)]
mod tests {
    use super::*;

    fn rows(sets: &[KvSet]) -> Vec<String> {
        let named = |set: &KvSet| {
            let cells = set.cells.iter().map(|cell| (cell, set.asked(cell))).collect::<Vec<_>>();
            let name = |cell: &KvCell, asked: &RowSpec| format!("{}: {}{}", set.name(), cell.name(), asked.suffix);
            cells.iter().flat_map(|(cell, asked)| asked.iter().map(|asked| name(cell, asked))).collect::<Vec<_>>()
        };
        sets.iter().flat_map(named).collect()
    }

    #[test]
    fn the_full_plan_has_all_that_the_issue_names_once() {
        let rows = rows(&full(&EngineArguments::default()));
        for size in ["100 B", "400 B", "1 KiB"] {
            for case in
                ["load in order", "overwrite synced x1", "overwrite synced 32 in flight", "mixed 50/50 synced x8"]
            {
                assert!(rows.contains(&format!("{size}: {case}")), "{size}: {case}");
            }
            for case in ["point read x1", "scan x1", "overwrite unsynced x8", "insert unsynced x1"] {
                assert!(rows.contains(&format!("{size} over memory: {case}")), "{size} over memory: {case}");
            }
            assert!(rows.contains(&format!("{size}: point read x1 beside LMDB")));
        }
        let mut unique = rows.clone();
        unique.sort();
        unique.dedup();
        assert_eq!(unique.len(), rows.len());
    }

    #[test]
    fn the_quick_plan_leaves_room_for_the_other_groups() {
        let plan = quick(&EngineArguments::default());
        assert!(rows(&plan).len() <= 11, "{:?}", rows(&plan));
        assert!(plan.iter().any(|set| set.limit_len.is_some()));
    }

    #[test]
    fn data_over_memory_is_four_times_the_limit() {
        for set in full(&EngineArguments::default()) {
            if let Some(limit) = set.limit_len {
                let data = set.items * (KEY_LEN + set.value_len) as u64;
                assert!(data > 39 * limit / 10 && data <= 4 * limit);
            }
        }
    }

    #[test]
    fn goals_are_those_of_the_issue() {
        let set = in_memory(&EngineArguments::default(), 400);
        let goal = |cell: KvCell| set.asked(&cell).iter().map(|asked| asked.goal).collect::<Vec<_>>();
        assert_eq!(goal(cell(Kind::Overwrite, Level::Sync, 1)), [1.2]);
        assert_eq!(goal(cell(Kind::Overwrite, Level::Sync, 8)), [1.0]);
        assert_eq!(goal(cell(Kind::Scan, Level::Written, 1)), [0.7, 1.0]);
        let over = over_memory(&EngineArguments::default(), 400);
        assert_eq!(over.asked(&cell(Kind::Scan, Level::Written, 1)).len(), 1);
    }
}
