//! A message of a verb of objects, its verb in front, as it is asked and as it is told.

#![no_main]

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| koine_object::fuzzing::message(bytes));
