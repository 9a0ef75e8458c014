//! Keys of a bucket's space.

#![no_main]

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| koine_object::fuzzing::key(bytes));
