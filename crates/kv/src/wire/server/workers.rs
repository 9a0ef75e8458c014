//! A few threads for what has to wait for the device, begun as they are needed.
//!
//! Invariant: the queue is bounded by what connections may have in flight.

use std::collections::VecDeque;
use std::sync::Arc;

use parking_lot::{Condvar, Mutex};

type Job = Box<dyn FnOnce() + Send>;

/// The threads.
pub struct Workers {
    shared: Arc<Shared>,
    most: usize,
}

struct Shared {
    state: Mutex<State>,
    work: Condvar,
}

#[derive(Default)]
struct State {
    jobs: VecDeque<Job>,
    idle: usize,
    threads: usize,
    ended: bool,
}

impl Workers {
    /// At most so many, none yet.
    pub fn new(most: usize) -> Workers {
        Workers { shared: Arc::new(Shared { state: Mutex::default(), work: Condvar::new() }), most: most.max(1) }
    }

    /// Has a job done by one of them. After the end it is dropped.
    pub fn run(&self, job: impl FnOnce() + Send + 'static) {
        let mut state = self.shared.state.lock();
        if state.ended {
            return;
        }
        state.jobs.push_back(Box::new(job));
        if state.idle >= state.jobs.len() || state.threads >= self.most {
            self.shared.work.notify_one();
            return;
        }
        state.threads += 1;
        let shared = Arc::clone(&self.shared);
        if super::spawn("koine-reader", move || work(&shared)).is_err() {
            state.threads -= 1;
            if state.threads == 0 {
                // Nobody else would do it: its caller does.
                let job = state.jobs.pop_back();
                drop(state);
                job.into_iter().for_each(|job| job());
            }
        }
    }

    /// Ends the threads; jobs that wait are dropped.
    pub fn end(&self) {
        let mut state = self.shared.state.lock();
        state.ended = true;
        state.jobs.clear();
        self.shared.work.notify_all();
    }
}

fn work(shared: &Shared) {
    let mut state = shared.state.lock();
    loop {
        if state.ended {
            return;
        }
        let Some(job) = state.jobs.pop_front() else {
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
