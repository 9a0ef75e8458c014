//! A stream of spaces and its frames, behind their checksums.

#![no_main]

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| koine_engine::fuzzing::stream(bytes));
