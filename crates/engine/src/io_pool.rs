//! Threads that write and read for streams, so that a stream goes on while a piece of it is under way.
//!
//! Invariants:
//! - At most [`THREADS_MAX`] threads; each begins when work finds nobody idle and ends when it had nothing to do for a while.
//! - With [`Background::Manual`](crate::Background), once closed, or where no thread can be had, the caller does the work
//!   itself before `run` returns.
//! - `close` returns when everything that was handed over is done.

use std::cell::Cell;
use std::collections::VecDeque;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use parking_lot::{Condvar, Mutex};

/// The most threads of a store's I/O pool: as many calls of the device under way as keep one busy.
pub const THREADS_MAX: usize = 4;
/// An idle thread ends after so long.
const IDLE: Duration = Duration::from_secs(3);

/// A piece of work.
pub type Job = Box<dyn FnOnce() + Send>;

thread_local! {
    /// The number of this thread where it is one of an I/O pool, else 0. The caller's own thread is not asked for its id: what
    /// the standard library would keep for that is left behind when a program in C ends.
    static MEMBER: Cell<u64> = const { Cell::new(0) };
}

#[derive(Default)]
struct State {
    jobs: VecDeque<Job>,
    threads: Vec<u64>,
    idle: usize,
    closed: bool,
}

#[derive(Default)]
struct Shared {
    state: Mutex<State>,
    work: Condvar,
    ended: Condvar,
}

/// The threads of one store.
pub struct IoPool {
    shared: Arc<Shared>,
}

impl IoPool {
    /// A io_pool; one that is not to have threads leaves all work to its callers.
    pub fn new(with_threads: bool) -> IoPool {
        let io_pool = IoPool { shared: Arc::default() };
        io_pool.shared.state.lock().closed = !with_threads;
        io_pool
    }

    /// Has a job done, soon or before this returns.
    pub fn run(&self, job: Job) {
        let mut state = self.shared.state.lock();
        if state.closed {
            drop(state);
            return job();
        }
        state.jobs.push_back(job);
        if state.idle >= state.jobs.len() || state.threads.len() == THREADS_MAX {
            self.shared.work.notify_one();
            return;
        }
        let shared = Arc::clone(&self.shared);
        static LAST: AtomicU64 = AtomicU64::new(0);
        let number = LAST.fetch_add(1, Ordering::Relaxed) + 1;
        let begun = std::thread::Builder::new().name("koine-io".into()).spawn(move || shared.serve(number));
        match begun {
            Ok(_) => state.threads.push(number),
            // Somebody else will come to it.
            Err(_) if !state.threads.is_empty() => {
                self.shared.work.notify_one();
            }
            Err(_) => {
                let job = state.jobs.pop_back();
                drop(state);
                job.into_iter().for_each(|job| job());
            }
        }
    }

    /// Whether jobs are done by others than the caller.
    pub fn is_at_work(&self) -> bool {
        !self.shared.state.lock().closed
    }

    /// Ends the threads once everything is done.
    pub fn close(&self) {
        let mut state = self.shared.state.lock();
        state.closed = true;
        self.shared.work.notify_all();
        // A thread of the pool may have dropped the last handle of the store: it does not wait for itself.
        let here = MEMBER.get();
        while state.threads.iter().any(|thread| *thread != here) {
            self.shared.ended.wait(&mut state);
        }
    }
}

impl Drop for IoPool {
    fn drop(&mut self) {
        // Not waited for: this may be a thread of the pool that drops the last handle of a store.
        self.shared.state.lock().closed = true;
        self.shared.work.notify_all();
    }
}

impl Shared {
    fn serve(&self, number: u64) {
        MEMBER.set(number);
        let mut state = self.state.lock();
        loop {
            if let Some(job) = state.jobs.pop_front() {
                drop(state);
                // Whoever waits for the job learns of a panic by what the job leaves behind when it is dropped.
                let _ = catch_unwind(AssertUnwindSafe(job));
                state = self.state.lock();
                continue;
            }
            if state.closed {
                break;
            }
            state.idle += 1;
            let slept = self.work.wait_for(&mut state, IDLE);
            state.idle -= 1;
            if slept.timed_out() && state.jobs.is_empty() {
                break;
            }
        }
        state.threads.retain(|thread| *thread != number);
        self.ended.notify_all();
    }
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::AtomicUsize;

    use super::*;

    #[test]
    fn everything_is_done_when_it_is_closed() {
        let (io_pool, done) = (IoPool::new(true), Arc::new(AtomicUsize::new(0)));
        for number in 0..200 {
            let done = Arc::clone(&done);
            io_pool.run(Box::new(move || {
                done.fetch_add(1, Ordering::SeqCst);
                assert!(number % 50 != 7, "a job that panics harms no other");
            }));
        }
        assert!(io_pool.is_at_work() && io_pool.shared.state.lock().threads.len() <= THREADS_MAX);
        io_pool.close();
        assert_eq!(done.load(Ordering::SeqCst), 200);
        assert!(io_pool.shared.state.lock().threads.is_empty());
        // From then on the caller does it.
        let after = Arc::clone(&done);
        io_pool.run(Box::new(move || {
            after.fetch_add(1, Ordering::SeqCst);
        }));
        assert_eq!(done.load(Ordering::SeqCst), 201);
    }

    #[test]
    fn jobs_run_beside_each_other() {
        let io_pool = IoPool::new(true);
        let meeting = Arc::new(std::sync::Barrier::new(THREADS_MAX));
        for _ in 0..THREADS_MAX {
            let meeting = Arc::clone(&meeting);
            io_pool.run(Box::new(move || {
                meeting.wait();
            }));
        }
        io_pool.close();
    }

    #[test]
    fn a_thread_of_the_pool_can_close_it() {
        let io_pool = Arc::new(IoPool::new(true));
        let (tell, told) = std::sync::mpsc::channel();
        let other = Arc::clone(&io_pool);
        io_pool.run(Box::new(move || {
            other.close();
            tell.send(()).unwrap();
        }));
        told.recv().unwrap();
        io_pool.close();
    }

    #[test]
    fn without_threads_the_caller_works() {
        let io_pool = IoPool::new(false);
        let caller = std::thread::current().id();
        let (tell, told) = std::sync::mpsc::channel();
        io_pool.run(Box::new(move || tell.send(std::thread::current().id()).unwrap()));
        assert_eq!(told.try_recv(), Ok(caller));
        assert!(!io_pool.is_at_work());
    }
}
