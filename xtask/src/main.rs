//! Repository checks: `cargo xtask tidy`.
fn main() {}
