//! Records of objects, uploads, parts and buckets.

#![no_main]

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| koine_object::fuzzing::record(bytes));
