//! The allocator of the program (docs/decisions/0025-allocator.md).
//!
//! Invariant: what the user says in the environment (`MIMALLOC_PURGE_DELAY`) goes before what is set here.

use libmimalloc_sys::{mi_option_set_default, mi_option_t};

/// A commit takes and gives back some forty pieces of memory.
#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

/// `mi_option_purge_delay` of mimalloc 2: how long free pages are kept before the system gets them back.
const PURGE_DELAY: mi_option_t = 15;

/// In milliseconds. By default it is 10, and a server that takes values of a mebibyte gets most pages anew for each.
const PURGE_DELAY_MILLISECONDS: std::ffi::c_long = 100;

/// To be called before anything else.
#[allow(unsafe_code)]
pub fn set_up() {
    // SAFETY: it sets a number of the allocator, which reads it whenever it frees pages; the option is one that this
    // version has (`tests`).
    unsafe { mi_option_set_default(PURGE_DELAY, PURGE_DELAY_MILLISECONDS) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    #[allow(unsafe_code)]
    fn the_option_is_the_one_that_is_meant() {
        // SAFETY: it reads a number of the allocator.
        let get = || unsafe { libmimalloc_sys::mi_option_get(PURGE_DELAY) };
        if std::env::var_os("MIMALLOC_PURGE_DELAY").is_none() {
            assert_eq!(get(), 10, "another version: look up where the option is");
            set_up();
            assert_eq!(get(), PURGE_DELAY_MILLISECONDS);
        }
    }
}
