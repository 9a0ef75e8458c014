//! An answer of the wire, of every kind.

#![no_main]

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| koine_kv::wire::fuzzing::reply(bytes));
