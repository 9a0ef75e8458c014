//! The measurement: rounds over all cells, every store in turn within each cell.
//!
//! Stores take turns at going first. A load begins with a fresh worker and an empty store; the cells after it use what
//! it loaded.

use super::super::EngineArguments;
use super::names;
use super::plan::{IN_FLIGHT, KvCell, KvSet};
use crate::Error;
use crate::budget::Budget;
use crate::figures::Figures;
use crate::report::OURS;
use crate::report::{Latency, Report, Row};
use crate::say;
use crate::statistics::{Better, holds};
use crate::stores::MemoryGroup;
use crate::stores::child::{WorkerProcess, WorkerStart};
use crate::stores::kinds::StoreKind;
use crate::stores::measured::Measured;
use crate::stores::worker::{Kind, Order, Phase};

/// What was found of one cell.
#[derive(Debug, Clone, Default)]
struct CellFigures {
    rate: Figures,
    p50_ms: Figures,
    p99_ms: Figures,
}

struct KvTrial<'a> {
    arguments: &'a EngineArguments,
    field: &'a [StoreKind],
    budget: &'a mut Budget,
    workers: Vec<Option<WorkerProcess>>,
    errors: Vec<String>,
}

/// Measures all sets and adds their rows to the report.
pub fn measure(
    arguments: &EngineArguments,
    field: &[StoreKind],
    mut sets: Vec<KvSet>,
    budget: &mut Budget,
    report: &mut Report,
) -> Result<(), Error> {
    for set in &mut sets {
        let name = set.name();
        set.cells.retain(|cell| arguments.names(&format!("{name}: {}", cell.name())));
        budget.expect(set.cells.iter().filter(|cell| !cell.is_load()).count() * field.len());
    }
    sets.retain(|set| !set.cells.is_empty());
    let mut trial = KvTrial { arguments, field, budget, workers: Vec::new(), errors: Vec::new() };
    let mut results: Vec<Vec<CellFigures>> =
        sets.iter().map(|set| vec![CellFigures::default(); set.cells.len()]).collect();
    let without_group = sets.iter().any(|set| set.limit_len.is_some()).then(|| MemoryGroup::probe().err()).flatten();
    if let Some(error) = &without_group {
        report.notes.push(format!("Nothing was measured with data larger than memory: {error}."));
    }
    for round in 0..arguments.rounds() {
        for (set, found) in sets.iter().zip(&mut results) {
            if set.limit_len.is_none() || without_group.is_none() {
                trial.set(round, set, found, &mut |_| true)?;
            }
        }
    }
    for (set, found) in sets.iter().zip(&mut results) {
        if !arguments.quick && (set.limit_len.is_none() || without_group.is_none()) {
            trial.repeat_failing(set, found, report)?;
        }
        report.rows.extend(rows(set, found, arguments.quick));
        report.latencies.extend(latencies(set, found, field));
    }
    report.errors.append(&mut trial.errors);
    Ok(())
}

impl KvTrial<'_> {
    /// One round over the wanted cells of one set.
    fn set(
        &mut self,
        round: usize,
        set: &KvSet,
        found: &mut [CellFigures],
        wanted: &mut dyn FnMut(usize) -> bool,
    ) -> Result<(), Error> {
        self.workers = self.field.iter().map(|_| None).collect();
        for (index, (cell, found)) in set.cells.iter().zip(found).enumerate() {
            if wanted(index) {
                self.cell(round, set, cell, found);
            }
        }
        self.workers.clear();
        Ok(())
    }

    /// One round of one cell. What fails has no figure and is an error of the report.
    fn cell(&mut self, round: usize, set: &KvSet, cell: &KvCell, found: &mut CellFigures) {
        let mut shown = Vec::new();
        for turn in 0..self.field.len() {
            let index = (turn + round) % self.field.len();
            let Some(kind) = self.field.get(index).copied() else { continue };
            let measured = match self.sample(index, kind, set, cell) {
                Ok(measured) => measured,
                Err(error) => {
                    self.errors.push(format!("{}: {}: {error}", set.name(), cell.name()));
                    if let Some(worker) = self.workers.get_mut(index) {
                        *worker = None;
                    }
                    None
                }
            };
            let rate = measured.as_ref().map(|measured| measured.operations as f64 / measured.seconds.max(1e-9));
            found.rate.push(kind.name(), rate);
            found.p50_ms.push(kind.name(), measured.as_ref().and_then(|measured| measured.p50_ms));
            found.p99_ms.push(kind.name(), measured.as_ref().and_then(|measured| measured.p99_ms));
            shown.push(format!("{} {}", kind.name(), rate.map_or_else(|| "none".into(), |rate| format!("{rate:.0}"))));
        }
        let (rounds, name) = (self.arguments.rounds(), set.name());
        say(&format!("round {} of {rounds}, {name}: {}: {} {}", round + 1, cell.name(), shown.join(", "), cell.unit()));
    }

    /// `None` when the time of a quick run is over.
    fn sample(&mut self, index: usize, kind: StoreKind, set: &KvSet, cell: &KvCell) -> Result<Option<Measured>, Error> {
        if self.budget.is_over() {
            return Ok(None);
        }
        let Some(slot) = self.workers.get_mut(index) else { return Ok(None) };
        if cell.is_load() {
            // The old store goes before the new one takes its space.
            *slot = None;
            let worker = slot.insert(begin(self.arguments, kind, set)?);
            return worker.run(&cell.phase(set, 0.0)).map(Some);
        }
        let worker = match slot {
            Some(worker) => worker,
            None => {
                let worker = slot.insert(begin(self.arguments, kind, set)?);
                worker.run(&loading(set))?;
                worker
            }
        };
        let Some(seconds) = self.budget.next() else { return Ok(None) };
        worker.run(&cell.phase(set, seconds)).map(Some)
    }

    /// Cells that miss a goal are measured once more, all their rounds; the second result counts.
    fn repeat_failing(&mut self, set: &KvSet, found: &mut [CellFigures], report: &mut Report) -> Result<(), Error> {
        let fails = |cell: &KvCell, found: &CellFigures| {
            cell_rows(set, cell, found).iter().any(|row| holds(row.ratio, row.goal) == Some(false))
        };
        let failing: Vec<bool> = set.cells.iter().zip(&*found).map(|(cell, found)| fails(cell, found)).collect();
        if !failing.contains(&true) {
            return Ok(());
        }
        let mut again = vec![CellFigures::default(); found.len()];
        for round in 0..self.arguments.rounds() {
            self.set(round, set, &mut again, &mut |index| failing.get(index) == Some(&true))?;
        }
        for (((cell, first), second), failed) in set.cells.iter().zip(found).zip(again).zip(failing) {
            if failed {
                let shown = |found: &CellFigures| {
                    let ratios = cell_rows(set, cell, found).into_iter().filter_map(|row| row.ratio);
                    ratios.map(|ratio| format!("{ratio:.2}")).collect::<Vec<_>>().join(", ")
                };
                let (was, is) = (shown(first), shown(&second));
                report.notes.push(format!("{}: {} was measured twice: {was}, then {is}.", set.name(), cell.name()));
                *first = second;
            }
        }
        Ok(())
    }
}

/// A worker with an empty store.
fn begin(arguments: &EngineArguments, kind: StoreKind, set: &KvSet) -> Result<WorkerProcess, Error> {
    let start = WorkerStart { kind, dir: &arguments.dir, limit_len: set.limit_len, traced: false };
    let mut worker = WorkerProcess::start(start)?;
    worker.open(set.memory)?;
    Ok(worker)
}

/// What is loaded where no load is measured.
pub fn loading(set: &KvSet) -> Phase {
    let cell = KvCell {
        kind: Kind::Load(if set.limit_len.is_some() { Order::Ascending } else { Order::Random }),
        level: crate::stores::kinds::Level::Written,
        threads: 1,
        in_flight: 1,
    };
    cell.phase(set, 0.0)
}

fn cell_rows(set: &KvSet, cell: &KvCell, found: &CellFigures) -> Vec<Row> {
    let row = |asked: super::plan::RowSpec| {
        let case = format!("{}: {}{}", set.name(), cell.name(), asked.suffix);
        let references = names(asked.references);
        found.rate.row(&case, cell.unit(), Better::Higher, asked.goal, &references).in_section(set.section())
    };
    set.asked(cell).into_iter().map(row).collect()
}

/// The rows of a set, and those that compare two of its cells.
fn rows(set: &KvSet, found: &[CellFigures], quick: bool) -> Vec<Row> {
    let mut rows: Vec<Row> =
        set.cells.iter().zip(found).flat_map(|(cell, found)| cell_rows(set, cell, found)).collect();
    let synced = |threads: usize, in_flight: usize| {
        let is = |cell: &KvCell| {
            let like = (cell.kind, cell.level) == (Kind::Overwrite, crate::stores::kinds::Level::Sync);
            like && cell.threads == threads && cell.in_flight == in_flight
        };
        set.cells.iter().zip(found).find(|(cell, _)| is(cell)).map(|(_, found)| found)
    };
    let ours = |from: &CellFigures, name: &str, into: &mut Figures| {
        from.rate.of(OURS).iter().for_each(|figure| into.push(name, *figure));
    };
    let many = synced(1, IN_FLIGHT);
    if let (Some(many), Some(one)) = (many, synced(1, 1)) {
        let mut figures = Figures::default();
        ours(many, OURS, &mut figures);
        ours(one, "one writer", &mut figures);
        let case = format!("{}: overwrite synced {IN_FLIGHT} in flight beside one", set.name());
        let row = figures.row(&case, "ops/s", Better::Higher, 4.0, &["one writer".into()]);
        rows.push(row.in_section(set.section()));
    }
    if let (false, Some(many), Some(threads)) = (quick, many, synced(8, 1)) {
        let mut figures = threads.rate.clone();
        figures.clear(OURS);
        ours(many, OURS, &mut figures);
        let case = format!("{}: overwrite synced {IN_FLIGHT} in flight beside 8 threads", set.name());
        let row = figures.row(&case, "ops/s", Better::Higher, 1.0, &names(&StoreKind::REFERENCES));
        rows.push(row.in_section(set.section()));
    }
    rows
}

fn latencies(set: &KvSet, found: &[CellFigures], field: &[StoreKind]) -> Vec<Latency> {
    let mut latencies = Vec::new();
    for (cell, found) in set.cells.iter().zip(found) {
        for kind in field {
            let p50_ms = found.p50_ms.median(kind.name());
            if p50_ms.is_some() {
                latencies.push(Latency {
                    case: format!("{}: {}", set.name(), cell.name()),
                    server: kind.name().to_owned(),
                    p50_ms,
                    p99_ms: found.p99_ms.median(kind.name()),
                    client_us: None,
                });
            }
        }
    }
    latencies
}
