//! The allocator of the program (docs/decisions/0025-allocator.md).
//!
//! Invariant: what the user says in the environment (`MIMALLOC_PURGE_DELAY`, `MIMALLOC_ARENA_EAGER_COMMIT`) goes before what is set
//! here.

use std::ffi::c_long;

use libmimalloc_sys::{mi_option_set_default, mi_option_t};

/// A commit takes and gives back some forty pieces of memory.
#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

/// `mi_option_purge_delay` of mimalloc 2: how long free pages are kept before the system gets them back.
const PURGE_DELAY: mi_option_t = 15;

/// `mi_option_arena_eager_commit` of mimalloc 2: whether memory is asked for long before it is used. Then what is freed goes back
/// late, or never: a store took up to 1.7 times its budget with it.
const ARENA_EAGER_COMMIT: mi_option_t = 4;

/// In milliseconds. By default it is 10, and a server that takes values of a mebibyte gets most pages anew for each.
const PURGE_DELAY_MILLISECONDS: c_long = 100;

/// In milliseconds, where the budget of memory is small: what is kept so long is memory beside the budget.
const PURGE_DELAY_SMALL_MILLISECONDS: c_long = 10;

/// Budgets in bytes below this are small.
const SMALL_BUDGET_LEN: u64 = 128 << 20;

/// To be called before anything else.
#[allow(unsafe_code)]
pub fn set_up() {
    // SAFETY: it sets numbers of the allocator, which reads them whenever it takes memory from the system and gives it back; the
    // options are ones that this version has (`tests`).
    unsafe {
        mi_option_set_default(PURGE_DELAY, PURGE_DELAY_MILLISECONDS);
        mi_option_set_default(ARENA_EAGER_COMMIT, 0);
    }
}

/// To be called where the budget of memory is known.
#[allow(unsafe_code)]
pub fn set_up_for(budget_len: u64) {
    if budget_len < SMALL_BUDGET_LEN {
        // SAFETY: as above.
        unsafe { mi_option_set_default(PURGE_DELAY, PURGE_DELAY_SMALL_MILLISECONDS) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    #[allow(unsafe_code)]
    fn the_options_are_the_ones_that_are_meant() {
        // SAFETY: it reads a number of the allocator.
        let get = |option| unsafe { libmimalloc_sys::mi_option_get(option) };
        let is_free = |name: &str| std::env::var_os(name).is_none();
        if is_free("MIMALLOC_PURGE_DELAY") && is_free("MIMALLOC_ARENA_EAGER_COMMIT") {
            let found = (get(PURGE_DELAY), get(ARENA_EAGER_COMMIT));
            assert_eq!(found, (10, 2), "another version: look up where the options are");
            set_up();
            assert_eq!((get(PURGE_DELAY), get(ARENA_EAGER_COMMIT)), (PURGE_DELAY_MILLISECONDS, 0));
            set_up_for(SMALL_BUDGET_LEN - 1);
            assert_eq!(get(PURGE_DELAY), PURGE_DELAY_SMALL_MILLISECONDS);
        }
    }
}
