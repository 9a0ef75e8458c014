//! Names of stores as C strings that live as long as the process.
//!
//! Invariant: a name is kept once, however often its store is opened.

use std::collections::BTreeMap;
use std::ffi::{CString, c_char};
use std::sync::{Mutex, PoisonError};

static NAMES: Mutex<BTreeMap<String, &'static CString>> = Mutex::new(BTreeMap::new());

/// The name as a C string. A path with a NUL cannot be opened, so none has one.
pub fn keep(name: &str) -> *const c_char {
    let mut names = NAMES.lock().unwrap_or_else(PoisonError::into_inner);
    let kept =
        names.entry(name.to_owned()).or_insert_with(|| Box::leak(Box::new(CString::new(name).unwrap_or_default())));
    kept.as_ptr()
}
