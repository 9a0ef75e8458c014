//! Metadata: objects created, opened, asked for their status and deleted, beside file systems with one file an object.

use super::EngineArguments;
use super::place::{Outcome, Place, Places};
use crate::Error;
use crate::budget::Budget;
use crate::figures::Figures;
use crate::report::OURS;
use crate::report::Report;
use crate::say;
use crate::statistics::Better;
use crate::stores::data::shuffled;
use std::sync::Barrier;
use std::time::Instant;

/// Threads in the full run.
const THREADS: [usize; 4] = [1, 2, 4, 8];
const QUICK_OBJECTS: u64 = 2000;
/// From so many objects on there is one round, with the most threads.
const MANY: u64 = 2_000_000;
/// Handles that are open while their status is asked for.
const HANDLES: usize = 1000;
/// Bytes of the device for each object, and for everything else.
const OBJECT_LEN: u64 = 1200;
const DEVICE_LEN: u64 = 512 << 20;
const SHUFFLE_SEED: u64 = 3;

/// What is done with all objects.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum MetadataOperation {
    Create,
    Open,
    Status,
    Delete,
}

impl MetadataOperation {
    const ALL: [MetadataOperation; 4] =
        [MetadataOperation::Create, MetadataOperation::Open, MetadataOperation::Status, MetadataOperation::Delete];

    fn name(self) -> &'static str {
        match self {
            MetadataOperation::Create => "create",
            MetadataOperation::Open => "open by number",
            MetadataOperation::Status => "status of an open object",
            MetadataOperation::Delete => "delete",
        }
    }

    /// What the issue asks.
    fn goal(self) -> f64 {
        match self {
            MetadataOperation::Create | MetadataOperation::Delete => 10.0,
            MetadataOperation::Open | MetadataOperation::Status => 2.0,
        }
    }
}

fn case(verb: MetadataOperation, objects: u64, threads: usize) -> String {
    format!("{} of {objects} x{threads}", verb.name())
}

/// Measures and adds the rows.
pub fn measure(arguments: &EngineArguments, budget: &mut Budget, report: &mut Report) -> Result<(), Error> {
    let mut counts: Vec<u64> = arguments.objects.clone();
    if arguments.quick {
        counts = counts.into_iter().min().map(|fewest| vec![fewest.min(QUICK_OBJECTS)]).unwrap_or_default();
    }
    for objects in counts {
        let threads: Vec<usize> = if arguments.quick || objects >= MANY { vec![8] } else { THREADS.to_vec() };
        let threads: Vec<usize> = threads
            .into_iter()
            .filter(|threads| {
                MetadataOperation::ALL.iter().any(|verb| arguments.names(&case(*verb, objects, *threads)))
            })
            .collect();
        if !threads.is_empty() && !budget.is_over() {
            measure_count(arguments, budget, report, objects, &threads)?;
        }
    }
    Ok(())
}

fn measure_count(
    arguments: &EngineArguments,
    budget: &mut Budget,
    report: &mut Report,
    objects: u64,
    threads: &[usize],
) -> Result<(), Error> {
    say(&format!("making a store and file systems for {objects} objects"));
    let mut field = Places::make(&arguments.dir, DEVICE_LEN + objects * OBJECT_LEN, objects, false)?;
    report.notes.append(&mut field.notes);
    let rounds = if objects >= MANY { 1 } else { arguments.rounds() };
    let mut found: Vec<Vec<Figures>> =
        threads.iter().map(|_| vec![Figures::default(); MetadataOperation::ALL.len()]).collect();
    for round in 0..rounds {
        for (count, figures) in threads.iter().zip(&mut found) {
            let work = MetadataWork { objects, threads: *count };
            let mut numbers: Vec<Vec<u64>> = field.places.iter().map(|_| Vec::new()).collect();
            for (verb, figures) in MetadataOperation::ALL.into_iter().zip(figures) {
                for turn in 0..field.places.len() {
                    let index = (turn + round) % field.places.len();
                    let (Some(place), Some(numbers)) = (field.places.get(index), numbers.get_mut(index)) else {
                        continue;
                    };
                    // What was created is deleted also when a quick run's time is over.
                    let rate = work.run(place.as_ref(), verb, numbers).unwrap_or_else(|error| {
                        report.errors.push(format!("{}, {}: {error}", place.name(), case(verb, objects, *count)));
                        None
                    });
                    figures.push(place.name(), rate.filter(|_| !budget.is_over()));
                }
                let last = |name: &String| Some(format!("{name} {:.0}", figures.of(name).last().copied().flatten()?));
                let names: Vec<String> = std::iter::once(OURS.to_owned()).chain(Places::references()).collect();
                let shown: Vec<String> = names.iter().filter_map(last).collect();
                say(&format!("round {}, {}: {} ops/s", round + 1, case(verb, objects, *count), shown.join(", ")));
            }
        }
    }
    for (threads, figures) in threads.iter().zip(&found) {
        for (verb, figures) in MetadataOperation::ALL.into_iter().zip(figures) {
            let name = case(verb, objects, *threads);
            let left_out = arguments.quick && matches!(verb, MetadataOperation::Status | MetadataOperation::Delete);
            if arguments.names(&name) && !left_out {
                let row = figures.row(&name, "ops/s", Better::Higher, verb.goal(), &Places::references());
                report.rows.push(row.in_section(format!("Metadata: {objects} objects")));
            }
        }
    }
    Ok(())
}

struct MetadataWork {
    objects: u64,
    threads: usize,
}

impl MetadataWork {
    /// Operations a second.
    fn run(&self, place: &dyn Place, verb: MetadataOperation, numbers: &mut Vec<u64>) -> Outcome<Option<f64>> {
        if verb != MetadataOperation::Create && numbers.is_empty() {
            return Ok(None);
        }
        let (made, seconds) = self.together(|thread| match verb {
            MetadataOperation::Create => (0..self.share(thread)).map(|_| place.create()).collect(),
            MetadataOperation::Open => self.each(thread, numbers, |number| place.open(number).map(drop)),
            MetadataOperation::Status => self.status(place, thread, numbers),
            MetadataOperation::Delete => self.each(thread, numbers, |number| place.delete(number)),
        })?;
        // What it left to be done later is done now, and not while another is measured.
        place.settle()?;
        match verb {
            MetadataOperation::Create => *numbers = made,
            MetadataOperation::Delete => numbers.clear(),
            MetadataOperation::Open | MetadataOperation::Status => {}
        }
        Ok(Some(self.objects as f64 / seconds.max(1e-9)))
    }

    /// How many of the objects are this thread's.
    fn share(&self, thread: usize) -> u64 {
        let threads = self.threads as u64;
        self.objects / threads + u64::from((thread as u64) < self.objects % threads)
    }

    /// Its part of a shuffle of all numbers.
    fn part<'a>(&self, thread: usize, numbers: &'a [u64]) -> impl Iterator<Item = u64> + 'a {
        let (count, threads) = (numbers.len() as u64, self.threads);
        (thread as u64..count)
            .step_by(threads)
            .filter_map(move |index| numbers.get(shuffled(index, count, SHUFFLE_SEED) as usize).copied())
    }

    fn each(&self, thread: usize, numbers: &[u64], act: impl Fn(u64) -> Outcome<()>) -> Outcome<Vec<u64>> {
        self.part(thread, numbers).try_for_each(act).map(|()| Vec::new())
    }

    fn status(&self, place: &dyn Place, thread: usize, numbers: &[u64]) -> Outcome<Vec<u64>> {
        let open = self.part(thread, numbers).take(HANDLES / self.threads);
        let handles = open.map(|number| place.open(number)).collect::<Outcome<Vec<_>>>()?;
        let turns = handles.iter().cycle().take(self.share(thread) as usize);
        for handle in turns {
            if handle.status()? != 0 {
                return Err("an empty object has a size".into());
            }
        }
        Ok(Vec::new())
    }

    /// All threads begin together; the seconds from the first begin to the last end.
    fn together(&self, work: impl Fn(usize) -> Outcome<Vec<u64>> + Sync) -> Outcome<(Vec<u64>, f64)> {
        let barrier = Barrier::new(self.threads);
        let (work, barrier) = (&work, &barrier);
        let done = std::thread::scope(|scope| {
            let begin = |thread: usize| {
                scope.spawn(move || {
                    barrier.wait();
                    let begun = Instant::now();
                    work(thread).map(|numbers| (numbers, begun, Instant::now()))
                })
            };
            let threads: Vec<_> = (0..self.threads).map(begin).collect();
            let join = |thread: std::thread::ScopedJoinHandle<'_, _>| {
                thread.join().unwrap_or_else(|_| Err("a thread panicked".to_owned()))
            };
            threads.into_iter().map(join).collect::<Outcome<Vec<_>>>()
        })?;
        let first = done.iter().map(|(_, begun, _)| *begun).min();
        let last = done.iter().map(|(.., ended)| *ended).max();
        let seconds = first.zip(last).map_or(0.0, |(first, last)| (last - first).as_secs_f64());
        Ok((done.into_iter().flat_map(|(numbers, ..)| numbers).collect(), seconds))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn threads_share_all_objects() {
        for (objects, threads) in [(10, 3), (2, 8), (500_000, 8)] {
            let work = MetadataWork { objects, threads };
            assert_eq!((0..threads).map(|thread| work.share(thread)).sum::<u64>(), objects);
        }
        let work = MetadataWork { objects: 100, threads: 3 };
        let numbers: Vec<u64> = (1000..1100).collect();
        let mut met: Vec<u64> = (0..3).flat_map(|thread| work.part(thread, &numbers)).collect();
        met.sort_unstable();
        assert_eq!(met, numbers);
    }

    #[test]
    fn goals_are_those_of_the_issue() {
        assert_eq!(MetadataOperation::ALL.map(MetadataOperation::goal), [10.0, 2.0, 2.0, 10.0]);
    }
}
