//! The superblock.

#![no_main]

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| koine_engine::fuzzing::superblock(bytes));
