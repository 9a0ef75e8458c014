//! An index node, behind its checksum.

#![no_main]

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| koine_engine::fuzzing::node(bytes));
