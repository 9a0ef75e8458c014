//! The program `koine`.
fn main() {}
