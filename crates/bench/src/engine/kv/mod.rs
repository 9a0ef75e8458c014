//! Key-value: our engine beside LMDB, redb, fjall and RocksDB.

mod costs;
mod plan;
mod trial;

use super::EngineArguments;
use crate::Error;
use crate::budget::Budget;
use crate::report::OURS;
use crate::report::Report;
use crate::stores::kinds::StoreKind;

/// Measures and adds what was found to the report.
pub fn measure(arguments: &EngineArguments, budget: &mut Budget, report: &mut Report) -> Result<(), Error> {
    let mut field = vec![StoreKind::Koine];
    for kind in StoreKind::REFERENCES {
        if !arguments.references.is_empty() && !arguments.references.contains(&kind) {
            continue;
        }
        if kind.is_built() {
            field.push(kind);
        } else {
            report.notes.push(format!("{} is not in this build and was not measured.", kind.name()));
        }
    }
    let sets = if arguments.quick { plan::quick(arguments) } else { plan::full(arguments) };
    let costs_of: Vec<plan::KvSet> = sets.iter().filter(|set| set.limit_len.is_none()).cloned().collect();
    trial::measure(arguments, &field, sets, budget, report)?;
    costs::measure(arguments, &field, &costs_of, budget, report);
    report.notes.push(format!(
        "{OURS} is the engine itself (koine_engine::Engine), in this process as the references are; unsynced commits of \
         all but redb survive the end of the process, those of redb do not."
    ));
    Ok(())
}

/// The names of the cells that were asked for, and one of the costs of each set.
pub fn cell_names(arguments: &EngineArguments) -> Vec<String> {
    let mut names = Vec::new();
    for set in plan::full(arguments) {
        let costs = set.limit_len.is_none().then(|| costs::LOAD_WRITTEN.to_owned());
        let cells = set.cells.iter().map(plan::KvCell::name).chain(costs);
        names.extend(cells.map(|cell| format!("{}: {cell}", set.name())).filter(|name| arguments.names(name)));
    }
    names
}

/// Names of the references in rows, whether they are measured or not.
fn names(references: &[StoreKind]) -> Vec<String> {
    references.iter().map(|kind| kind.name().to_owned()).collect()
}
