//! Transactions: a transaction of the library on a thread of its own, which is told what to do.
//!
//! Invariants:
//! - What a call of one does is what the call of the same name does in a transaction of the library; it commits whole or
//!   not at all.
//! - Its thread ends with it, whatever becomes of it, and is not waited for under the interpreter lock.

use std::cell::RefCell;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{Receiver, RecvTimeoutError, Sender, channel};
use std::sync::{Arc, Mutex};

use koine::env::patience::{self, Patience};
use koine::kv::{Bytes, Commit, Operation, SpaceId};
use koine::object::{self, Error, ErrorKind, Objects};
use pyo3::prelude::*;
use pyo3::types::PyBytes;

use crate::errors;
use crate::patience::timed_out;
use crate::store::Hold;
use crate::transact_bucket::TransactionBucket;

/// What the thread is told.
enum Step {
    /// A call.
    Do(Box<dyn FnOnce(&mut object::Transaction<'_>) + Send>),
    /// It is over, or all is done again.
    End(End),
}

/// How it ends.
#[derive(Clone, Copy, PartialEq, Eq)]
enum End {
    Commit,
    /// Not at all: what was read is to be read again.
    Again,
    GiveUp,
}

/// What came of that.
enum Told {
    /// Others changed what was read, so nothing happened; it has begun anew.
    Again,
    Ended(Result<Commit, Error>),
}

/// The thread of one.
struct Running {
    steps: Sender<Step>,
    told: Mutex<Receiver<Told>>,
    /// Whoever made a call waits no longer: all is given up.
    abandoned: Arc<AtomicBool>,
}

thread_local! {
    /// Whether the transaction of this thread is given up.
    static ABANDONED: RefCell<Arc<AtomicBool>> = RefCell::default();
}

/// What its caller's thread does in the place of just waiting. `None` where the thread has ended.
fn hear<T>(told: &Receiver<T>, abandoned: &AtomicBool) -> Option<T> {
    loop {
        match told.recv_timeout(patience::next_look()) {
            Err(RecvTimeoutError::Timeout) if patience::is_over() => {
                abandoned.store(true, Ordering::Release);
                return None;
            }
            Err(RecvTimeoutError::Timeout) => {}
            heard => return heard.ok(),
        }
    }
}

/// What the thread does until it is over.
fn run(objects: &Objects, steps: &Receiver<Step>, told: &Sender<Told>) {
    let mut begun = false;
    let outcome = objects.transact(None, |transaction| {
        if std::mem::replace(&mut begun, true) {
            // Where nobody hears it, nobody waits.
            let _gone = told.send(Told::Again);
        }
        loop {
            match steps.recv() {
                Ok(Step::Do(call)) => call(transaction),
                Ok(Step::End(End::Commit)) => return Ok(()),
                // What the library does again by itself.
                Ok(Step::End(End::Again)) => {
                    return Err(Error::new(ErrorKind::Expired, "what was read is to be read again"));
                }
                Ok(Step::End(End::GiveUp)) | Err(_) => {
                    return Err(Error::new(ErrorKind::Stopped, "the transaction was given up"));
                }
            }
        }
    });
    let _gone = told.send(Told::Ended(outcome.map(|((), commit)| commit)));
}

impl Running {
    fn begin(objects: Objects) -> PyResult<Running> {
        let ((steps, asked), (tell, told)) = (channel(), channel());
        let abandoned = Arc::<AtomicBool>::default();
        let asks = Arc::clone(&abandoned);
        let thread = std::thread::Builder::new().name("koine-transaction".to_owned());
        let begun = thread.spawn(move || {
            ABANDONED.set(asks);
            let ask = || ABANDONED.with_borrow(|abandoned| abandoned.load(Ordering::Acquire));
            Patience { until: None, ask: Some(ask) }.lasting(|| run(&objects, &asked, &tell));
        });
        begun.map_err(|error| errors::of_system(&error, &format!("cannot start a thread: {error}")))?;
        Ok(Running { steps, told: Mutex::new(told), abandoned })
    }

    fn is_abandoned(&self) -> bool {
        self.abandoned.load(Ordering::Acquire)
    }

    /// Why its thread tells nothing.
    fn why(&self) -> PyErr {
        if self.is_abandoned() { timed_out() } else { is_over() }
    }

    /// Ends it, and hears what came of that.
    fn end(&self, end: End) -> Option<Told> {
        self.steps.send(Step::End(end)).ok()?;
        hear(&*self.told.lock().ok()?, &self.abandoned)
    }
}

#[doc = help!(Transaction)]
#[pyclass(frozen, module = "koine")]
pub struct Transaction {
    hold: Arc<Hold>,
    running: Mutex<Option<Arc<Running>>>,
    committed: Mutex<Option<u64>>,
}

fn is_over() -> PyErr {
    errors::raised("InvalidArgument", "the transaction is over; begin another one")
}

impl Transaction {
    /// Begins one.
    pub fn begin(py: Python<'_>, hold: &Arc<Hold>) -> PyResult<Transaction> {
        let objects = hold.objects(py)?;
        let running = Mutex::new(Some(Arc::new(Running::begin(objects)?)));
        Ok(Transaction { hold: Arc::clone(hold), running, committed: Mutex::new(None) })
    }

    /// The store.
    pub fn hold(&self) -> &Hold {
        &self.hold
    }

    fn running(&self) -> PyResult<Arc<Running>> {
        // A fork leaves the thread behind.
        self.hold.check()?;
        let running = self.running.lock().map_err(|_| errors::poisoned())?;
        running.clone().ok_or_else(is_over)
    }

    /// Makes a call in it.
    pub fn call<T: Send + 'static>(
        &self,
        py: Python<'_>,
        call: impl FnOnce(&mut object::Transaction<'_>) -> Result<T, Error> + Send + 'static,
    ) -> PyResult<T> {
        let running = self.running()?;
        let outcome = self.hold.limit().detached(py, || {
            let (tell, told) = channel();
            let step = Step::Do(Box::new(move |transaction| {
                let _gone = tell.send(call(transaction));
            }));
            running.steps.send(step).map_err(|_| is_over())?;
            let heard = hear(&told, &running.abandoned).ok_or_else(|| running.why())?;
            heard.map_err(|error| errors::of_objects(&error))
        });
        if running.is_abandoned() {
            self.running.lock().map_err(|_| errors::poisoned())?.take();
        }
        outcome
    }

    /// Ends it; whether it did, or has begun anew.
    fn end(&self, py: Python<'_>, end: End) -> PyResult<bool> {
        if end == End::GiveUp && self.hold.check().is_err() {
            self.running.lock().map_err(|_| errors::poisoned())?.take();
            return Ok(true);
        }
        let running = match self.running() {
            // A call in it was ended, and it with it.
            Err(_) if end == End::GiveUp => return Ok(true),
            running => running?,
        };
        let ended = self.hold.limit().detached(py, || Ok(running.end(end)));
        let told = match ended {
            Ok(Some(Told::Again)) => return Ok(false),
            ended => {
                self.running.lock().map_err(|_| errors::poisoned())?.take();
                ended?
            }
        };
        match told {
            Some(Told::Ended(Ok(commit))) => {
                *self.committed.lock().map_err(|_| errors::poisoned())? = Some(commit.version.0);
                Ok(true)
            }
            Some(Told::Ended(Err(error))) if end != End::GiveUp => Err(errors::of_objects(&error)),
            Some(_) => Ok(true),
            None => Err(running.why()),
        }
    }
}

/// Runs a callable with a transaction and commits, again where others changed what it had read; gives what it gave.
pub fn transact(py: Python<'_>, hold: &Arc<Hold>, body: &Bound<'_, PyAny>) -> PyResult<Py<PyAny>> {
    let transaction = Bound::new(py, Transaction::begin(py, hold)?)?;
    loop {
        let outcome = body.call1((&transaction,));
        let end = match &outcome {
            Ok(_) => End::Commit,
            Err(error) if is_expired(py, error) => End::Again,
            Err(_) => End::GiveUp,
        };
        let is_over = transaction.get().end(py, end)?;
        match outcome {
            Ok(value) if is_over => return Ok(value.unbind()),
            Err(error) if end == End::GiveUp => return Err(error),
            _ => {}
        }
    }
}

/// Whether an exception says that what was read is to be read again.
fn is_expired(py: Python<'_>, error: &PyErr) -> bool {
    let kind = error.value(py).getattr("kind").and_then(|kind| kind.extract::<String>());
    kind.is_ok_and(|kind| kind == "Expired")
}

/// The least number of a space for keys of callers; the others hold buckets, their names and the like.
const SPACE_MIN: u64 = 32;

fn space_of(space: u64) -> PyResult<SpaceId> {
    if (SPACE_MIN..1 << 32).contains(&space) {
        return Ok(SpaceId(space));
    }
    let message = format!("the space {space} is not for keys of callers: those lie in 32 to 4294967295");
    Err(errors::raised("InvalidArgument", &message))
}

#[pymethods]
impl Transaction {
    #[doc = help!(Transaction bucket)]
    fn bucket(this: Py<Self>, name: String) -> TransactionBucket {
        TransactionBucket::new(this, name)
    }

    #[doc = help!(Transaction version)]
    #[getter]
    fn version(&self) -> PyResult<Option<u64>> {
        Ok(*self.committed.lock().map_err(|_| errors::poisoned())?)
    }

    #[doc = help!(Transaction get_key)]
    #[pyo3(name = "get_key")]
    fn key<'py>(&self, py: Python<'py>, space: u64, key: Vec<u8>) -> PyResult<Option<Bound<'py, PyBytes>>> {
        let space = space_of(space)?;
        let value = self.call(py, move |transaction| {
            let keys = transaction.keys()?;
            Ok(if keys.has_space(space)? { keys.get(space, &key)? } else { None })
        })?;
        Ok(value.map(|value| PyBytes::new(py, &value)))
    }

    #[doc = help!(Transaction put_key)]
    fn put_key(&self, py: Python<'_>, space: u64, key: Vec<u8>, value: Vec<u8>) -> PyResult<()> {
        let space = space_of(space)?;
        self.call(py, move |transaction| {
            let keys = transaction.keys()?;
            if !keys.has_space(space)? {
                keys.then(Operation::CreateSpace { space });
            }
            keys.put(space, key, Bytes::from(value));
            Ok(())
        })
    }

    #[doc = help!(Transaction delete_key)]
    fn delete_key(&self, py: Python<'_>, space: u64, key: Vec<u8>) -> PyResult<()> {
        let space = space_of(space)?;
        self.call(py, move |transaction| {
            let keys = transaction.keys()?;
            if keys.has_space(space)? {
                keys.delete(space, key);
            }
            Ok(())
        })
    }

    fn __enter__(this: Py<Self>) -> Py<Self> {
        this
    }

    fn __exit__(
        &self,
        py: Python<'_>,
        kind: &Bound<'_, PyAny>,
        _error: &Bound<'_, PyAny>,
        _trace: &Bound<'_, PyAny>,
    ) -> PyResult<()> {
        let end = if kind.is_none() { End::Commit } else { End::GiveUp };
        if self.end(py, end)? {
            return Ok(());
        }
        self.end(py, End::GiveUp)?;
        let message = "others changed what the transaction had read, and nothing of it was done; begin it again, or \
                       have Session.transact do so";
        Err(errors::raised("Conflict", message))
    }

    fn __repr__(&self) -> String {
        format!("Transaction({:?})", self.hold.place())
    }
}
