//! A group of the log and its records, behind its checksum.

#![no_main]

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| koine_engine::fuzzing::group(bytes));
