//! Records of the log.

#![no_main]

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| koine_engine::fuzzing::records(bytes));
