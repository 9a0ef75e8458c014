//! Headers that grant rights.

#![no_main]

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| koine_gateway::fuzzing::access_list(bytes));
