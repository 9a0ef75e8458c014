//! As much of `parking_lot`'s interface as the models need, on locks that loom drives.

use std::ops::{Deref, DerefMut};

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

    pub fn notify_all(&self) {
        self.0.notify_all();
    }
}
