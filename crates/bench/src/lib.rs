//! Benchmarks: ours and the references side by side.
