//! A value of a leaf.

#![no_main]

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| koine_engine::fuzzing::value(bytes));
