//! Metadata: objects created, opened, asked for their status and deleted, beside file systems with one file an object.

use super::Arguments;
use super::place::{Field, Outcome, Place};
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
enum Verb {
    Create,
    Open,
    Status,
    Delete,
}

impl Verb {
    const ALL: [Verb; 4] = [Verb::Create, Verb::Open, Verb::Status, Verb::Delete];

    fn name(self) -> &'static str {
        match self {
            Verb::Create => "create",
            Verb::Open => "open by number",
            Verb::Status => "status of an open object",
            Verb::Delete => "delete",
        }
    }

    /// What the issue asks.
    fn goal(self) -> f64 {
        match self {
            Verb::Create | Verb::Delete => 10.0,
            Verb::Open | Verb::Status => 2.0,
        }
    }
}

fn case(verb: Verb, objects: u64, threads: usize) -> String {
    format!("{} of {objects} x{threads}", verb.name())
}

/// Measures and adds the rows.
pub fn measure(arguments: &Arguments, budget: &mut Budget, report: &mut Report) -> Result<(), Error> {
    let mut counts: Vec<u64> = arguments.objects.clone();
    if arguments.quick {
        counts = counts.into_iter().min().map(|fewest| vec![fewest.min(QUICK_OBJECTS)]).unwrap_or_default();
    }
    for objects in counts {
        let threads: Vec<usize> = if arguments.quick || objects >= MANY { vec![8] } else { THREADS.to_vec() };
        let threads: Vec<usize> = threads
            .into_iter()
            .filter(|threads| Verb::ALL.iter().any(|verb| arguments.names(&case(*verb, objects, *threads))))
            .collect();
        if !threads.is_empty() && !budget.is_over() {
            measure_count(arguments, budget, report, objects, &threads)?;
        }
    }
    Ok(())
}

fn measure_count(
    arguments: &Arguments,
    budget: &mut Budget,
    report: &mut Report,
    objects: u64,
    threads: &[usize],
) -> Result<(), Error> {
    say(&format!("making a store and file systems for {objects} objects"));
    let mut field = Field::make(&arguments.dir, DEVICE_LEN + objects * OBJECT_LEN, objects, false)?;
    report.notes.append(&mut field.notes);
    let rounds = if objects >= MANY { 1 } else { arguments.rounds() };
    let mut found: Vec<Vec<Figures>> = threads.iter().map(|_| vec![Figures::default(); Verb::ALL.len()]).collect();
    for round in 0..rounds {
        for (count, figures) in threads.iter().zip(&mut found) {
            let work = Work { objects, threads: *count };
            let mut numbers: Vec<Vec<u64>> = field.places.iter().map(|_| Vec::new()).collect();
            for (verb, figures) in Verb::ALL.into_iter().zip(figures) {
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
                let names: Vec<String> = std::iter::once(OURS.to_owned()).chain(Field::references()).collect();
                let shown: Vec<String> = names.iter().filter_map(last).collect();
                say(&format!("round {}, {}: {} ops/s", round + 1, case(verb, objects, *count), shown.join(", ")));
            }
        }
    }
    for (threads, figures) in threads.iter().zip(&found) {
        for (verb, figures) in Verb::ALL.into_iter().zip(figures) {
            let name = case(verb, objects, *threads);
            let left_out = arguments.quick && matches!(verb, Verb::Status | Verb::Delete);
            if arguments.names(&name) && !left_out {
                let row = figures.row(&name, "ops/s", Better::Higher, verb.goal(), &Field::references());
                report.rows.push(row.in_section(format!("Metadata: {objects} objects")));
            }
        }
    }
    Ok(())
}

struct Work {
    objects: u64,
    threads: usize,
}

impl Work {
    /// Operations a second.
    fn run(&self, place: &dyn Place, verb: Verb, numbers: &mut Vec<u64>) -> Outcome<Option<f64>> {
        if verb != Verb::Create && numbers.is_empty() {
            return Ok(None);
        }
        let (made, seconds) = self.together(|thread| match verb {
            Verb::Create => (0..self.share(thread)).map(|_| place.create()).collect(),
            Verb::Open => self.each(thread, numbers, |number| place.open(number).map(drop)),
            Verb::Status => self.status(place, thread, numbers),
            Verb::Delete => self.each(thread, numbers, |number| place.delete(number)),
        })?;
        // What it left to be done later is done now, and not while another is measured.
        place.settle()?;
        match verb {
            Verb::Create => *numbers = made,
            Verb::Delete => numbers.clear(),
            Verb::Open | Verb::Status => {}
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
            let work = Work { objects, threads };
            assert_eq!((0..threads).map(|thread| work.share(thread)).sum::<u64>(), objects);
        }
        let work = Work { objects: 100, threads: 3 };
        let numbers: Vec<u64> = (1000..1100).collect();
        let mut met: Vec<u64> = (0..3).flat_map(|thread| work.part(thread, &numbers)).collect();
        met.sort_unstable();
        assert_eq!(met, numbers);
    }

    #[test]
    fn goals_are_those_of_the_issue() {
        assert_eq!(Verb::ALL.map(Verb::goal), [10.0, 2.0, 2.0, 10.0]);
    }
}
