//! A body in the aws-chunked encoding.

#![no_main]

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| koine_gateway::fuzzing::chunks(bytes));
