//! Pages of the free list, behind their checksum.

#![no_main]

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| koine_engine::fuzzing::free_list(bytes));
