//! A request of the wire, its verb in front.

#![no_main]

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| {
    if let Some((verb, message)) = bytes.split_first_chunk::<2>() {
        koine_kv::wire::fuzzing::request(u16::from_le_bytes(*verb), message);
    }
});
