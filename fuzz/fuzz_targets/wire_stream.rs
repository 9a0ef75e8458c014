//! Frames of the wire, one behind the other.

#![no_main]

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| koine_kv::wire::fuzzing::stream(bytes));
