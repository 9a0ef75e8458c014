//! Calls that end before they are done: by a signal, as Ctrl-C sends one, or when their time is over.
//!
//! Invariants:
//! - Whatever waits or works for long does so under a [`Limit`], without the interpreter lock.
//! - What a handler of a signal has raised is raised by the call under which it ran, whatever came of that.

use std::cell::{Cell, RefCell};
use std::time::{Duration, Instant};

use koine::env::patience::Patience;
use pyo3::prelude::*;

use crate::errors;

thread_local! {
    /// What a handler of a signal has raised.
    static RAISED: RefCell<Option<PyErr>> = const { RefCell::new(None) };
    /// How long the call of this thread may take.
    static TIMEOUT: Cell<Option<Duration>> = const { Cell::new(None) };
    /// A handler of a signal runs, within a call.
    static HANDLES: Cell<bool> = const { Cell::new(false) };
}

/// Puts back how long the call may take around which this one runs, in a handler of a signal.
struct Before(Option<Duration>);

impl Drop for Before {
    fn drop(&mut self) {
        TIMEOUT.set(self.0);
    }
}

/// How long a call may take.
#[derive(Clone, Copy, Debug, Default)]
pub struct Limit {
    /// `None`: as long as it takes.
    pub timeout: Option<Duration>,
}

/// Runs the handlers of signals that have come, which Python does in its main thread alone; whether one has raised.
fn is_interrupted() -> bool {
    let before = HANDLES.replace(true);
    let raised = Python::try_attach(|py| py.check_signals().err()).flatten();
    HANDLES.set(before);
    let is_raised = raised.is_some();
    if is_raised {
        RAISED.set(raised);
    }
    is_raised
}

impl Limit {
    /// Seconds as Python has them; `None` is no limit.
    pub fn of_seconds(name: &str, seconds: Option<f64>) -> PyResult<Limit> {
        let parse = |seconds: f64| Duration::try_from_secs_f64(seconds).ok().filter(|timeout| !timeout.is_zero());
        let Some(seconds) = seconds else { return Ok(Limit::default()) };
        let message = || format!("{name} is a number of seconds above 0, or None; not {seconds}");
        let timeout = parse(seconds).ok_or_else(|| errors::raised("InvalidArgument", &message()))?;
        Ok(Limit { timeout: Some(timeout) })
    }

    /// Calls without the interpreter lock.
    pub fn detached<T: Send>(self, py: Python<'_>, call: impl FnOnce() -> PyResult<T> + Send) -> PyResult<T> {
        let outcome = py.detach(|| {
            let _before = Before(TIMEOUT.replace(self.timeout));
            let until = self.timeout.and_then(|timeout| Instant::now().checked_add(timeout));
            Patience { until, ask: Some(is_interrupted) }.lasting(call)
        });
        match RAISED.take() {
            Some(raised) => Err(raised),
            None => outcome,
        }
    }
}

/// Whether this is called by a handler of a signal, which may have come within a call that holds what this one wants.
pub fn is_in_handler() -> bool {
    HANDLES.get()
}

/// What is raised where a call was ended, unless a signal ended it.
pub fn timed_out() -> PyErr {
    let message = match TIMEOUT.get() {
        Some(timeout) => format!(
            "the call was not done within {} s and was ended: what had not been sent to a server by then is not done",
            timeout.as_secs_f64()
        ),
        None => "the call was ended before it was done".to_owned(),
    };
    errors::raised("TimedOut", &message)
}
