//! Gives the fuzzer's bytes to the laws in `laws/frames.rs`.
#![no_main]

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| inventory_fuzz::frames::hold(bytes));
