//! A few threads for what has to wait for the device, begun as they are needed.
//!
//! Invariants:
//! - The queue is bounded by what connections may have in flight.
//! - Connections take turns: who asks for much waits for its own, and others wait for one job of each.

use std::collections::VecDeque;
use std::sync::Arc;

use parking_lot::{Condvar, Mutex};

type Job = Box<dyn FnOnce() + Send>;

/// The threads.
pub struct Workers {
    shared: Arc<WorkersShared>,
    most: usize,
}

struct WorkersShared {
    state: Mutex<WorkersState>,
    work: Condvar,
}

/// What a connection wants done, in order.
struct ClientQueue {
    connection: u64,
    jobs: VecDeque<Job>,
}

#[derive(Default)]
struct WorkersState {
    /// Of connections that want something: the first one is next.
    lines: VecDeque<ClientQueue>,
    /// How many jobs that is.
    jobs: usize,
    idle: usize,
    threads: usize,
    ended: bool,
}

impl WorkersState {
    fn push(&mut self, connection: u64, job: Job) {
        self.jobs += 1;
        match self.lines.iter_mut().find(|line| line.connection == connection) {
            Some(line) => line.jobs.push_back(job),
            None => self.lines.push_back(ClientQueue { connection, jobs: VecDeque::from([job]) }),
        }
    }

    fn pop(&mut self) -> Option<Job> {
        let mut line = self.lines.pop_front()?;
        let job = line.jobs.pop_front();
        if !line.jobs.is_empty() {
            self.lines.push_back(line);
        }
        self.jobs -= usize::from(job.is_some());
        job
    }
}

impl Workers {
    /// At most so many, none yet.
    pub fn new(most: usize) -> Workers {
        Workers { shared: Arc::new(WorkersShared { state: Mutex::default(), work: Condvar::new() }), most: most.max(1) }
    }

    /// Has a job of a connection done by one of them. After the end it is dropped.
    pub fn run(&self, connection: u64, job: impl FnOnce() + Send + 'static) {
        let mut state = self.shared.state.lock();
        if state.ended {
            return;
        }
        state.push(connection, Box::new(job));
        if state.idle >= state.jobs || state.threads >= self.most {
            self.shared.work.notify_one();
            return;
        }
        state.threads += 1;
        let shared = Arc::clone(&self.shared);
        if super::spawn("koine-reader", move || work(&shared)).is_err() {
            state.threads -= 1;
            if state.threads == 0 {
                // Nobody else would do it: its caller does.
                let job = state.pop();
                drop(state);
                job.into_iter().for_each(|job| job());
            }
        }
    }

    /// Ends the threads; jobs that wait are dropped.
    pub fn end(&self) {
        let mut state = self.shared.state.lock();
        state.ended = true;
        state.lines.clear();
        state.jobs = 0;
        self.shared.work.notify_all();
    }
}

fn work(shared: &WorkersShared) {
    let mut state = shared.state.lock();
    loop {
        if state.ended {
            return;
        }
        let Some(job) = state.pop() else {
            state.idle += 1;
            shared.work.wait(&mut state);
            state.idle -= 1;
            continue;
        };
        drop(state);
        job();
        state = shared.state.lock();
    }
}

#[cfg(test)]
mod tests {
    use std::sync::mpsc::channel;

    use super::*;

    #[test]
    fn who_asks_for_much_waits_for_its_own() {
        let workers = Workers::new(1);
        let (open, gate) = channel::<()>();
        let (done, order) = channel();
        let (begin, begun) = channel();
        workers.run(1, move || {
            begin.send(()).unwrap();
            let _open = gate.recv();
        });
        begun.recv().unwrap();
        for (connection, jobs) in [(1, 50), (2, 2), (3, 1)] {
            for _ in 0..jobs {
                let done = done.clone();
                workers.run(connection, move || done.send(connection).unwrap());
            }
        }
        drop((open, done));
        let order: Vec<u64> = order.iter().collect();
        assert_eq!(order.len(), 53);
        assert_eq!(order[..7], [1, 2, 3, 1, 2, 1, 1]);
    }
}
