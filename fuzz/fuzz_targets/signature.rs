//! Heads, queries and dates of signed requests.

#![no_main]

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| koine_gateway::fuzzing::signature(bytes));
