//! As much of `parking_lot`'s interface as the models need, on locks that loom drives.

use std::ops::{Deref, DerefMut};
use std::time::Duration;

pub struct Mutex<T>(loom::sync::Mutex<T>);

/// `None` only within a wait.
pub struct MutexGuard<'a, T>(Option<loom::sync::MutexGuard<'a, T>>);

#[derive(Default)]
pub struct Condvar(loom::sync::Condvar);

impl<T> Mutex<T> {
    pub fn new(value: T) -> Mutex<T> {
        Mutex(loom::sync::Mutex::new(value))
    }

    pub fn lock(&self) -> MutexGuard<'_, T> {
        MutexGuard(Some(self.0.lock().expect("no model panics with a lock held")))
    }
}

impl<'a, T> MutexGuard<'a, T> {
    /// Nobody in a model has a call that can be ended, which is all that the lock is let go of for.
    pub fn unlocked<R>(_guard: &mut MutexGuard<'a, T>, call: impl FnOnce() -> R) -> R {
        call()
    }
}

impl<T> Deref for MutexGuard<'_, T> {
    type Target = T;

    fn deref(&self) -> &T {
        self.0.as_ref().expect("held outside of waits")
    }
}

impl<T> DerefMut for MutexGuard<'_, T> {
    fn deref_mut(&mut self) -> &mut T {
        self.0.as_mut().expect("held outside of waits")
    }
}

impl Condvar {
    pub fn new() -> Condvar {
        Condvar(loom::sync::Condvar::new())
    }

    pub fn wait<T>(&self, guard: &mut MutexGuard<'_, T>) {
        let held = guard.0.take().expect("held outside of waits");
        guard.0 = Some(self.0.wait(held).expect("no model panics with a lock held"));
    }

    /// As `wait`: time does not pass in a model.
    pub fn wait_for<T>(&self, guard: &mut MutexGuard<'_, T>, _time: Duration) {
        self.wait(guard);
    }

    pub fn notify_all(&self) {
        self.0.notify_all();
    }
}
