//! Clock and randomness, real and simulated: the only door to the world outside the process.
//!
//! Everything above asks for time and randomness through [`Clock`] and [`Random`], so that a
//! test or a crash search can replay a run exactly. Devices have their own seam (`Device` in the
//! engine); networks are opened by the doors and by kv's wire alone. [`patience`] is how long a
//! caller waits.

mod clock;
pub mod patience;
mod random;

pub use clock::{Clock, SimulatedClock, SystemClock, Timestamp};
pub use random::{OsRandom, Random, SeededRandom};
