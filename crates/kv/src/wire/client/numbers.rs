//! Tables by numbers of requests.

use std::collections::HashMap;
use std::hash::{BuildHasherDefault, Hasher};

/// What belongs to each request that is under way.
pub(super) type ByNumber<T> = HashMap<u64, T, BuildHasherDefault<NumberHasher>>;

/// Numbers of requests are their own hash.
#[derive(Default)]
pub(super) struct NumberHasher(u64);

impl Hasher for NumberHasher {
    fn finish(&self) -> u64 {
        self.0
    }

    fn write(&mut self, bytes: &[u8]) {
        bytes.iter().for_each(|byte| self.write_u64(u64::from(*byte)));
    }

    fn write_u64(&mut self, number: u64) {
        // The table looks at the highest bits too.
        self.0 = (self.0 ^ number).wrapping_mul(0x9E37_79B9_7F4A_7C15);
    }
}
