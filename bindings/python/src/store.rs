//! Stores that are open in this process, shared by all who open them.
//!
//! Invariants:
//! - A path that is open already is not opened again: a store has one owner, which may well be this process.
//! - What was opened before a fork is of no use after it, and its end in the child leaves the parent's store alone.

use std::collections::HashMap;
use std::path::{Path, PathBuf};
use std::sync::{Arc, LazyLock, Mutex, MutexGuard, RwLock, Weak};

use koine::object::{Caller, Error, Objects, Pinned};
use koine::{OpenOptions, Place, Session};
use pyo3::exceptions::PyRuntimeError;
use pyo3::prelude::*;

use crate::errors;
use crate::patience::{Limit, is_in_handler};

/// An open store.
struct Opened {
    session: Session,
    process: u32,
}

/// Stores on paths, by their real names.
static OPENED: LazyLock<Mutex<HashMap<PathBuf, Weak<Opened>>>> = LazyLock::new(Mutex::default);

/// All of them. The handler of a signal may have come within a call that has them already.
fn all_opened() -> PyResult<MutexGuard<'static, HashMap<PathBuf, Weak<Opened>>>> {
    if !is_in_handler() {
        return OPENED.lock().map_err(|_| errors::poisoned());
    }
    let message = "reentrant call: the handler of a signal opens or closes a store while its thread does";
    OPENED.try_lock().map_err(|_| PyRuntimeError::new_err(message))
}

fn opened_on(path: &Path, open: impl FnOnce() -> koine::Result<Session>) -> PyResult<Arc<Opened>> {
    let mut all = all_opened()?;
    // A path that is not there yet is found again once it is.
    let real = |path: &Path| path.canonicalize().ok();
    let there = real(path).and_then(|real| all.get(&real).and_then(Weak::upgrade));
    if let Some(opened) = there.filter(|opened| !opened.is_foreign()) {
        return Ok(opened);
    }
    let opened = Arc::new(Opened::new(open().map_err(|error| errors::of_store(&error))?));
    all.retain(|_, opened| opened.strong_count() != 0);
    if let Some(real) = real(path).filter(|_| opened.session.is_owner()) {
        all.insert(real, Arc::downgrade(&opened));
    }
    Ok(opened)
}

impl Opened {
    /// Whether it was opened before a fork that made this process.
    fn is_foreign(&self) -> bool {
        self.process != std::process::id()
    }

    fn new(session: Session) -> Self {
        Opened { session, process: std::process::id() }
    }
}

/// What is open, unless nothing is or it is from before a fork.
fn checked(opened: Option<&Arc<Opened>>) -> PyResult<&Arc<Opened>> {
    let opened = opened.ok_or_else(|| errors::raised("Closed", "the session is closed; connect again"))?;
    if opened.is_foreign() {
        let message = "the session was opened before this process was forked; connect again";
        return Err(errors::raised("Closed", message));
    }
    Ok(opened)
}

/// What a session and all that came from it hold: one of perhaps several holds on a store.
pub struct Hold {
    opened: RwLock<Option<Arc<Opened>>>,
    place: String,
    /// Who calls; `None` is who owns the device.
    caller: Option<Caller>,
    /// What is read instead of the newest version.
    pinned: Mutex<Option<Pinned>>,
    /// How long each call may take.
    limit: Limit,
}

impl Hold {
    /// Opens a store, or takes part in it where this process has it open. Not to be called under the interpreter lock.
    pub fn open(place: &str, options: &OpenOptions, limit: Limit) -> PyResult<Hold> {
        let open = || Session::open(place, options);
        let opened = match Place::parse(place).map_err(|error| errors::of_store(&error))? {
            // Who logs in shares no session with the owner.
            Place::Path(path) | Place::Rocks(path) if options.log_in.is_none() => opened_on(&path, open)?,
            _ => Arc::new(Opened::new(open().map_err(|error| errors::of_store(&error))?)),
        };
        let place = opened.session.place().to_string();
        Ok(Hold { opened: RwLock::new(Some(opened)), place, caller: None, pinned: Mutex::default(), limit })
    }

    /// Another hold on the same store, whose calls somebody else makes.
    pub fn of_caller(&self, caller: Caller) -> PyResult<Hold> {
        let opened = RwLock::new(Some(self.opened()?));
        let (place, pinned) = (self.place.clone(), Mutex::default());
        Ok(Hold { opened, place, caller: Some(caller), pinned, limit: self.limit })
    }

    /// Another hold on the same store for the same caller, which reads it as it is now.
    pub fn pin(&self, py: Python<'_>) -> PyResult<Hold> {
        let pinned = self.call(py, Objects::pin)?;
        let (opened, caller) = (RwLock::new(Some(self.opened()?)), self.caller.clone());
        let (place, pinned) = (self.place.clone(), Mutex::new(Some(pinned)));
        Ok(Hold { opened, place, caller, pinned, limit: self.limit })
    }

    /// The version that is read, where it is not the newest.
    pub fn pinned_version(&self) -> PyResult<Option<u64>> {
        let pinned = self.pinned.lock().map_err(|_| errors::poisoned())?;
        Ok(pinned.as_ref().map(|pinned| pinned.version().0))
    }

    /// Fails where nothing can be called any more: let go, or from before a fork.
    pub fn check(&self) -> PyResult<()> {
        self.opened().map(drop)
    }

    /// The calls, for a thread of its own.
    pub fn objects(&self, py: Python<'_>) -> PyResult<Objects> {
        self.call(py, |session| Ok(session.clone()))
    }

    /// Where the store is.
    pub fn place(&self) -> &str {
        &self.place
    }

    /// Whether it was let go.
    pub fn is_closed(&self) -> bool {
        self.opened.read().map_or(true, |opened| opened.is_none())
    }

    /// Whether this process holds the store itself.
    pub fn is_owner(&self) -> PyResult<bool> {
        Ok(self.opened()?.session.is_owner())
    }

    /// Lets go; the last one to do so closes the store. Not to be called under the interpreter lock.
    pub fn close(&self) -> PyResult<()> {
        if is_in_handler() {
            drop(all_opened()?);
        }
        let Some(opened) = self.opened.write().map_err(|_| errors::poisoned())?.take() else {
            return Ok(());
        };
        let pinned = self.pinned.lock().map_err(|_| errors::poisoned())?.take();
        if opened.is_foreign() {
            std::mem::forget((opened, pinned));
            return Ok(());
        }
        drop(pinned);
        // Who opens the path next finds it either open or given back.
        let all = all_opened()?;
        let closed = Arc::into_inner(opened).map_or(Ok(()), |opened| opened.session.close());
        drop(all);
        closed.map_err(|error| errors::of_store(&error))
    }

    fn opened(&self) -> PyResult<Arc<Opened>> {
        let opened = self.opened.read().map_err(|_| errors::poisoned())?;
        checked(opened.as_ref()).cloned()
    }

    /// Calls something of the store without the interpreter lock.
    pub fn call<T: Send>(&self, py: Python<'_>, call: impl FnOnce(&Objects) -> Result<T, Error> + Send) -> PyResult<T> {
        self.call_or(py, call, errors::of_objects)
    }

    /// The same, with an eye to what an error means to this caller.
    pub fn call_or<T: Send>(
        &self,
        py: Python<'_>,
        call: impl FnOnce(&Objects) -> Result<T, Error> + Send,
        raise: impl FnOnce(&Error) -> PyErr + Send,
    ) -> PyResult<T> {
        let opened = self.opened()?;
        let pinned = self.pinned.lock().map_err(|_| errors::poisoned())?.clone();
        self.limit.detached(py, move || {
            let outcome = match (&pinned, &self.caller) {
                (Some(pinned), _) => call(pinned.objects()),
                (None, Some(caller)) => call(&opened.session.as_caller(caller.clone())),
                (None, None) => call(&opened.session),
            };
            drop(pinned);
            // Here, where it may be the last.
            drop(opened);
            outcome.map_err(|error| raise(&error))
        })
    }

    /// Makes calls that read: under the interpreter lock where they need not wait, for to give it to another thread and to
    /// take it again costs more than such a call.
    pub fn read<T: Send>(&self, py: Python<'_>, call: impl Fn(&Objects) -> Result<T, Error> + Send) -> PyResult<T> {
        match self.at_once(&call)? {
            Some(answered) => Ok(answered),
            None => self.call(py, call),
        }
    }

    /// Makes calls that read, where they need not wait; `None` where they would.
    pub fn at_once<T>(&self, call: impl FnOnce(&Objects) -> Result<T, Error>) -> PyResult<Option<T>> {
        // As long as this is held nobody closes the store, and who wants to waits without the interpreter lock.
        let opened = self.opened.read().map_err(|_| errors::poisoned())?;
        let opened = checked(opened.as_ref())?;
        let pinned = self.pinned.lock().map_err(|_| errors::poisoned())?;
        let answered = match (pinned.as_ref(), &self.caller) {
            (Some(pinned), _) => pinned.objects().at_once(call),
            (None, Some(caller)) => opened.session.as_caller(caller.clone()).at_once(call),
            (None, None) => opened.session.at_once(call),
        };
        answered.map_err(|error| errors::of_objects(&error))
    }

    /// A number that no other hold has while this one lives.
    pub fn number(&self) -> usize {
        std::ptr::from_ref(self).addr()
    }

    /// How long each call may take.
    pub fn limit(&self) -> Limit {
        self.limit
    }
}

impl Drop for Hold {
    fn drop(&mut self) {
        if self.is_closed() {
            return;
        }
        // At the end of the interpreter nobody else waits for its lock.
        if Python::try_attach(|py| py.detach(|| self.close())).is_none() {
            let _ = self.close();
        }
    }
}
